"""What may be asked about a commitment: that it is given back, counts as fulfilled, or is looked at again.

Which of it is legal in which state is the table in `lifecycle`; here is what follows.
"""

from joingate_processors.law import custody, reliance
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import (
    MITIGATED,
    discharged,
    human_gate,
    kind_of,
    on_absent,
    reconcile,
    start_release,
)
from joingate_processors.law.dispositions import decided
from joingate_processors.law.state import Commitment, Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact


def known(case: Case, intent_id: str, commitment_id: str) -> Commitment:
    """The intent's commitment of this id; refused if there is none."""
    row = case.state.commitments.get(commitment_id)
    if row is None or row.intent_id != intent_id:
        refuse("UNKNOWN_COMMITMENT", f"intent {intent_id} has no commitment {commitment_id}", commitment_id)
    return row


def unmade(case: Case, row: Commitment) -> Operation | None:
    """The operation that would make it, if nothing can have been made yet; else None."""
    origin = case.state.operations.get(row.creating_operation or "")
    if row.status not in ("PROPOSED", "PENDING_CONDITION") or origin is None:
        return None
    return origin if origin.status in ("STAGED", "VALIDATED") and not origin.permits else None


def dropped(case: Case, origin: Operation, cause: str) -> list[AnyFact]:
    """What was not made is dropped, as a fact, with the operation that would have made it."""
    gone = f.OperationWithdrawn(operation_id=origin.operation_id, intent_id=origin.intent_id, cause=cause)
    return [gone, *on_absent(case, origin, "no permit was issued", [])]


def release(case: Case, claim: c.Release) -> Ruling:
    """Give it back: always as a release that has to be proven, never as a deletion."""
    custody.open_ground(case, claim.intent_id, claim.commitment_id, claim.intent_version)
    row = known(case, claim.intent_id, claim.commitment_id)
    identity, status = row.commitment_id, row.status
    if status in ("RELEASE_PENDING", "RELEASED") or (status == "BREACHED" and row.release_wanted):
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}, and its release is asked for", identity, status)
    if status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"it is {status}", identity, status)
    custody.check_not_in_transfer(case, row)
    custody.check_authority(case, claim, row)
    serving = case.state.operations.get(row.serving_operation or "")
    if serving is not None and serving.status in ("IN_DOUBT", "ESCALATED"):
        return Ruling("REPLAYED", "IN_DOUBT_PENDING", f"its release {serving.operation_id} is {serving.status}",
                      identity, status)  # fmt: skip
    cause = claim.reason or "release asked for"
    origin = unmade(case, row)
    if origin is not None:
        return Ruling(
            "ACCEPTED", "OK", "dropped before it was made", identity, "RELEASED", dropped(case, origin, cause)
        )
    kind = kind_of(case, row)
    if kind.resolution == "TRANSFERABLE" and kind.release_action is None:
        refuse("ILLEGAL_TRANSITION", f"{kind.name} can't be given back: transfer it", identity, status)
    if status == "ACTIVE" and not reliance.open_operations_on(case, row):
        step = reliance.waiting_step_on(case, row)
        if step is not None:
            refuse("RELEASE_OF_ACTIVE", f"step {step} of the plan in force relies on it", identity, status)
    if kind.resolution in MITIGATED:
        return _compensate(case, claim, row, cause)
    facts = decided(row, "RELEASE", cause)
    facts += start_release(case, row, cause, [], requested_by=claim.principal)
    return Ruling("ACCEPTED", "OK", "", identity, _after(facts, row), facts)


def _compensate(case: Case, claim: c.Release, row: Commitment, cause: str) -> Ruling:
    """What stays in the world can't be given back: another effect, or a person, has to mitigate it."""
    identity = row.commitment_id
    if row.disposition == "COMPENSATE" and row.status == "RECONCILIATION_REQUIRED":
        return Ruling("REPLAYED", "COMPENSATION", "its compensation was asked for before", identity, row.status)
    wish = f.DispositionDecided(commitment_id=identity, intent_id=row.intent_id, disposition="COMPENSATE",
                                reason=cause, differs=[])  # fmt: skip
    facts: list[AnyFact] = [wish, *start_release(case, row, cause, [], requested_by=claim.principal)]
    by = next((fact.operation_id for fact in facts if isinstance(fact, f.OperationOpened)), None)
    gate = human_gate(case, case.state.operations.get(row.creating_operation or ""))
    after = _after(facts, row)
    detail = f"operation {by} mitigates it" if by is not None else f"{gate} decides"
    if by is None and after != "RECONCILIATION_REQUIRED":
        detail = "its compensation follows once what it waits for has ended"
    return Ruling("COMPENSATE", "COMPENSATION", detail, identity, after, facts)


def _after(facts: list[AnyFact], row: Commitment) -> str:
    return next((fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)), row.status)


def mark_satisfied(case: Case, claim: c.MarkSatisfied) -> Ruling:
    """Fulfilled, by the evidence that its type demands; only what is in force can be, or what was breached: late."""
    if not any(claim.evidence):
        refuse("NO_EVIDENCE", "satisfaction needs evidence", claim.commitment_id)
    custody.open_ground(case, claim.intent_id, claim.commitment_id, 0)
    row = known(case, claim.intent_id, claim.commitment_id)
    if row.status == "SATISFIED":
        return Ruling("REPLAYED", "ALREADY_SO", "it is SATISFIED", row.commitment_id, row.status)
    if row.status not in ("ACTIVE", "BREACHED"):
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}, not in force", row.commitment_id, row.status)
    custody.check_authority(case, claim, row)
    serving = case.state.operations.get(row.serving_operation or "")
    if serving is not None and serving.status in OPEN_OPERATION:
        refuse("ILLEGAL_TRANSITION", f"its release {serving.operation_id} is {serving.status}", row.commitment_id,
               row.status)  # fmt: skip
    kinds = {item.partition(":")[0] for item in claim.evidence}
    missing = [one for one in kind_of(case, row).satisfied_evidence if one not in kinds]
    if missing:
        refuse("NO_EVIDENCE", f"{row.obligation_type} is satisfied only by evidence of {', '.join(missing)}, as in "
               f"{missing[0]}:123", row.commitment_id, row.status)  # fmt: skip
    facts = discharged(case, row, "SATISFIED", "marked satisfied", claim.evidence)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "SATISFIED", facts)


def request_reconciliation(case: Case, claim: c.RequestReconciliation) -> Ruling:
    """Ask that a commitment is looked at; a terminal one stays as it is, and of what is not made there is nothing."""
    row = known(case, claim.intent_id, claim.subject_id)
    if row.status == "RECONCILIATION_REQUIRED":
        return Ruling("REPLAYED", "ALREADY_SO", "it is being reconciled", row.commitment_id, row.status)
    if row.status in TERMINAL_COMMITMENT or row.status == "TRANSFER_PENDING":
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}", row.commitment_id, row.status)
    if unmade(case, row) is not None:
        refuse("ILLEGAL_TRANSITION", "nothing of it was made yet, so there is nothing to look at", row.commitment_id,
               row.status)  # fmt: skip
    if case.role == "PLANNER":
        custody.check_authority(case, claim, row)
    facts = reconcile(case, row, claim.reason or "asked for")
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "RECONCILIATION_REQUIRED", facts)
