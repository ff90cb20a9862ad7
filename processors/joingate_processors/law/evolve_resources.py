"""What facts about resources do to the operation that needs them: total, as all of `evolve` is."""

from typing import assert_never

from joingate_processors.law.state import Operation, State
from joingate_schemas.facts import ResourceChanged
from joingate_schemas.record import changed


def resource_changed(state: State, fact: ResourceChanged) -> None:
    """Write how the operation stands to the resource. An operation that is not there stands to nothing."""
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    fields: dict[str, object] = {}
    match fact.standing:
        case "WANTED":
            fields = {"needs": {**operation.needs, fact.resource_ref: fact.quantity}}
        case "ASKED":
            fields = {"asked": fact.resource_ref}
        case "HELD":
            held = [one for one in operation.held if one != fact.resource_ref]
            fields = {"held": [*held, fact.resource_ref], "asked": ""}
        case "REFUSED":
            fields = {"asked": ""}
        case "RETURNED" if _was_freed(state, operation):
            fields = {"held": [one for one in operation.held if one != fact.resource_ref]}
        case "RETURNED" | "EXTENDED" | "OVERDUE" | "UNKNOWN":
            return  # the arbiter's books change, and the operation has ended or goes on as it was
        case _:
            assert_never(fact.standing)
    state.operations.put(fact.operation_id, changed(operation, **fields))


def _was_freed(state: State, operation: Operation) -> bool:
    """Whether a person freed what left our books: else what it had is kept, to be asked about as long as it may be."""
    commitment = state.commitments.get(operation.commitment_id or "")
    made = commitment is not None and commitment.creating_operation == operation.operation_id
    return made and commitment is not None and commitment.status == "TRANSFERRED"
