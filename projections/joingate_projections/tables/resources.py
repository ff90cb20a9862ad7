"""Folding what an operation needs that others want too: shown with the operation, by the resource's reference."""

from joingate_projections.tables import At, Rows
from joingate_projections.tables.operations import put
from joingate_schemas.facts import ResourceChanged


def changed(rows: Rows, fact: ResourceChanged, at: At) -> None:
    """How the operation stands to the resource, since when, and who has it where it was refused."""
    old = rows.get("operations", fact.operation_id)
    if old is None:
        return
    stands = {
        "quantity": fact.quantity,
        "standing": fact.standing,
        "since": at.time,
        "holder": fact.holder,
        "holder_intent_id": fact.holder_intent_id,
        "detail": fact.detail,
    }
    row = {**old, "resources": {**old.get("resources", {}), fact.resource_ref: stands}, **at.touched()}
    put(rows, old, row, at)
