"""Workers that serve commitments which others own: a lease runs out unless it is renewed, and fences who held it.

A worker that fails changes no owner and no status: another one takes the lease, with a higher number.
"""

from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.custody import check_not_in_transfer
from joingate_processors.law.opening import obligation_of
from joingate_processors.law.state import Commitment, Custody, Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact


def lease(case: Case, claim: c.Prepared, commitment_id: str) -> Ruling:
    """The lease of a commitment: granted to the first worker that asks, renewed by the one that holds it."""
    row = case.state.commitments.get(commitment_id)
    if row is None or row.intent_id != claim.intent_id:
        refuse("UNKNOWN_COMMITMENT", f"intent {claim.intent_id} has no commitment {commitment_id}", commitment_id)
    if not claim.worker or claim.attempt < 0:
        refuse("MALFORMED", "a lease is given to a worker with a name, and its number is from 0", commitment_id)
    _check_executor(case, claim, row)
    kind = obligation_of(case, row)
    if row.status in TERMINAL_COMMITMENT or kind.lease_ms is None:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}, a {row.obligation_type}: there is no lease of it to have",
               commitment_id, row.status)  # fmt: skip
    check_not_in_transfer(case, row)
    held = case.state.custodies.get(commitment_id)
    number = 0 if held is None else held.lease_token
    if claim.attempt not in (0, number):
        refuse("STALE_FENCE", f"lease {claim.attempt} is over; {number} is the latest", commitment_id, row.status)
    if held is None or not held.worker:
        if claim.attempt:
            refuse("STALE_FENCE", f"lease {number} has run out: ask for a new one, with 0", commitment_id, row.status)
        granted = _change(row, claim.worker, number + 1, "granted", case.now + kind.lease_ms)
        return Ruling("ACCEPTED", "OK", f"lease {number + 1}", commitment_id, row.status, [granted])
    if held.worker != claim.worker:
        refuse("ALREADY_CLAIMED", f"worker {held.worker} serves it until {held.deadline_at}", commitment_id, row.status)
    renewed = _change(row, claim.worker, number, "renewed", case.now + kind.lease_ms)
    return Ruling("ACCEPTED", "OK", f"lease {number} goes on", commitment_id, row.status, [renewed])


def _check_executor(case: Case, claim: c.Prepared, row: Commitment) -> None:
    origin = case.state.operations.get(row.creating_operation or "")
    if origin is not None and origin.executor != claim.executor:
        refuse("WRONG_EXECUTOR", f"what made it belongs to {origin.executor}", row.commitment_id, row.status)


def _change(
    row: Commitment, worker: str, number: int, cause: str, deadline_at: int | None, *, reclaiming: bool = False
) -> f.LeaseChanged:
    return f.LeaseChanged(
        commitment_id=row.commitment_id, intent_id=row.intent_id, worker=worker, fencing_token=number,
        reclaiming=reclaiming, cause=cause, deadline_at=deadline_at,
    )  # fmt: skip


def check(case: Case, operation: Operation, worker: str) -> None:
    """Refuse a permit of a leased commitment's work to another worker of the executor that holds the lease."""
    held = case.state.custodies.get(operation.commitment_id or "")
    if held is not None and held.worker and held.worker != worker and _is_of(case, operation):
        refuse("ALREADY_CLAIMED", f"worker {held.worker} serves its commitment {held.commitment_id} under lease "
               f"{held.lease_token}", operation.operation_id, operation.status)  # fmt: skip


def _is_of(case: Case, operation: Operation) -> bool:
    """Whether the operation belongs to the executor whose workers serve its commitment: the one that made it."""
    row = case.state.commitments.get(operation.commitment_id or "")
    origin = None if row is None else case.state.operations.get(row.creating_operation or "")
    return origin is None or origin.executor == operation.executor


def ended(case: Case, row: Commitment, cause: str) -> list[AnyFact]:
    """The lease is over, if there is one."""
    held = case.state.custodies.get(row.commitment_id)
    return [] if held is None or not held.worker else [_change(row, "", held.lease_token, cause, None)]


def ran_out(case: Case, held: Custody) -> Ruling:
    """Reclaimed, for whoever asks next; but never while something that its worker was allowed to do is still open."""
    row = case.state.commitments.get(held.commitment_id)
    if row is None:
        refuse("ALREADY_RESOLVED", f"commitment {held.commitment_id} is not known", held.commitment_id)
    kind = obligation_of(case, row)
    if kind.lease_ms is not None and _is_acting(case, row, held.worker):
        waits = _change(row, held.worker, held.lease_token, "run out; what its worker began is open",
                        case.now + kind.lease_ms, reclaiming=True)  # fmt: skip
        return Ruling("ACCEPTED", "OK", "reclaimed once its work is known", row.commitment_id, row.status, [waits])
    return Ruling("ACCEPTED", "OK", f"worker {held.worker} did not renew it", row.commitment_id, row.status,
                  ended(case, row, "run out"))  # fmt: skip


def _is_acting(case: Case, row: Commitment, worker: str) -> bool:
    for one in (row.creating_operation, row.serving_operation):
        operation = case.state.operations.get(one or "")
        acting = operation is not None and operation.status in ("SUBMITTED", "IN_DOUBT", "ESCALATED")
        if acting and operation is not None and operation.permit_worker == worker:
            return True
    return False
