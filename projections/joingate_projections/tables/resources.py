"""Folding what is scarce: what each operation needs, by the gate's facts, and who has what, by the arbiter's ledger.

The arbiter's word is on a ledger of its own, so the rows of `resources` carry its positions, as `arbiter`.
"""

from joingate_projections.tables import At, Rows, joined
from joingate_projections.tables.operations import put
from joingate_schemas.arbitration import ArbiterDecision
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


def held(rows: Rows, decision: ArbiterDecision, partition: int) -> None:
    """What the operation has of the resource after a decision of the arbiter's; nothing: the row goes."""
    if not decision.message_type:
        return  # a record that could not be read is about nobody
    key = joined(decision.resource_ref, decision.operation_id)
    if decision.hold is None:
        rows.delete("resources", key)
        return
    row = {
        **decision.hold,
        "shown": "QUARANTINED" if decision.hold["quarantined"] else decision.hold["status"],
        "updated_at": decision.decided_at,
        "arbiter": {"partition": partition, "seq": decision.seq},
    }
    rows.put("resources", key, row)
