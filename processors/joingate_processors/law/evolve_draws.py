"""What facts do to what is taken of commitments, in step with the operations that take it; and to their versions."""

from joingate_processors.law.state import Operation, State
from joingate_schemas import facts as f
from joingate_schemas.facts import OPEN_OPERATION
from joingate_schemas.record import changed


def rewritten(state: State, fact: f.CommitmentDrawn | f.CommitmentMigrated) -> None:
    """What the commitment's row says of its quantity, or of the version that rules it."""
    if isinstance(fact, f.CommitmentDrawn):
        _drawn(state, fact)
        return
    row = state.commitments.get(fact.commitment_id)
    if row is not None:
        state.commitments.put(fact.commitment_id, changed(row, type_version=fact.after))


def _drawn(state: State, fact: f.CommitmentDrawn) -> None:
    """An operation that was just opened takes this much."""
    operation, row = state.operations.get(fact.operation_id), state.commitments.get(fact.commitment_id)
    if operation is None or row is None or fact.commitment_id in operation.draws:
        return
    draws = {**operation.draws, fact.commitment_id: fact.quantity}
    state.operations.put(fact.operation_id, changed(operation, draws=draws))
    state.commitments.put(fact.commitment_id, changed(row, drawn=row.drawn + fact.quantity, consumed=fact.consumed))


def moved(state: State, before: Operation, after: Operation) -> None:
    """What the operation takes, given back or taken again with what became of it."""
    for commitment_id, quantity in after.draws.items():
        row = state.commitments.get(commitment_id)
        change = 0 if row is None else _takes(after, row.consumed) - _takes(before, row.consumed)
        if row is not None and change:
            state.commitments.put(commitment_id, changed(row, drawn=row.drawn + change * quantity))


def _takes(operation: Operation, consumed: bool) -> bool:
    """Whether it keeps others from what it took: while nobody knows that it ended, and for ever if it was used up."""
    return operation.status in OPEN_OPERATION or (consumed and operation.status == "SETTLED")
