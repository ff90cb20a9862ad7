"""What a person on duty may force, with a name, a reason and evidence; and what becomes of quarantined records."""

from joingate_processors.law import (
    commitment_claims,
    commitment_time,
    commitments,
    custody,
    dispositions,
    freeing,
    migrations,
    outcomes,
)
from joingate_processors.law.arrival import FollowUp, Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import Commitment, Operation, State, hold_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact

CLEARED = "CLEARED"
"""What an override makes of an incident: somebody looked, by name, and says what became of its cause."""
_CLEARED_BY_PEOPLE = frozenset({"SUSPECTED_EFFECT", "STRAY_EFFECT"})
"""Incidents whose cause lies in the world, where only a person sees its end; all others end with their cause."""


def override(case: Case, claim: c.Override) -> Ruling:
    """Force a transition: never silent, and never past the close of its intent."""
    if not claim.reason or not claim.principal:
        refuse("NO_EVIDENCE", "an override needs the person's name and a reason", claim.subject_id)
    if claim.subject_kind == "QUARANTINE":
        return _quarantine(case, claim)
    if not claim.evidence:
        refuse("NO_EVIDENCE", "an override needs evidence", claim.subject_id)
    if claim.to == CLEARED:
        return _incident(case, claim)
    if claim.subject_kind not in ("OPERATION", "COMMITMENT"):
        refuse("MALFORMED", f"an override of {claim.subject_kind} is not known", claim.subject_id)
    if claim.subject_kind == "OPERATION":
        operation = case.state.operations.get(claim.subject_id)
        if operation is None or not custody.discharges_another(case, operation):
            case.open_intent(claim.intent_id, 0)
        return _operation(case, claim)
    custody.open_ground(case, claim.intent_id, claim.subject_id, 0)
    return _commitment(case, claim)


def _operation(case: Case, claim: c.Override) -> Ruling:
    operation = case.state.operations.get(claim.subject_id)
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.subject_id}", claim.subject_id)
    identity, status = operation.operation_id, operation.status
    if status == claim.to and not operation.compensating:
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}", identity, status)
    facts: list[AnyFact]
    if claim.to == "SETTLED" and status == "SETTLED":
        # It was to be undone, and a person decides that it stays.
        facts = [
            f.OperationSettled(operation_id=identity, intent_id=operation.intent_id, attempt=operation.attempt,
                               external_id=operation.external_id, evidence=claim.evidence, result="",
                               source="OPERATOR", late=bool(case.staleness(operation)))
        ]  # fmt: skip
    elif claim.to == "SETTLED" and status in ("SUBMITTED", "IN_DOUBT", "ESCALATED", "FAILED"):
        external_id = claim.external_id or operation.external_id
        facts = outcomes.settle(case, operation, operation.attempt, external_id, claim.evidence, "", "OPERATOR")
    elif claim.to == "FAILED" and status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        _check_landed(case, operation)
        facts = outcomes.fail(case, operation, operation.attempt, "OVERRIDE", claim.evidence, "OPERATOR")
    elif claim.to == "COMPENSATED" and status == "SETTLED" and not _holds_commitment(case, operation):
        facts = [f.OperationCompensated(operation_id=identity, intent_id=operation.intent_id,
                                        by=f"{claim.principal}: {claim.evidence[0]}")]  # fmt: skip
    else:
        refuse("ILLEGAL_TRANSITION", f"{status} can't be overridden to {claim.to}", identity, status)
    facts += commitments.cleared(case, operation.intent_id, identity, ("OVERDUE",), "a person decided")
    return Ruling("ACCEPTED", "OK", f"overridden by {claim.principal}: {claim.reason}", identity, claim.to, facts)


def _incident(case: Case, claim: c.Override) -> Ruling:
    """An effect that nothing allowed was looked at and dealt with: its incident is over, also after its intent is."""
    row = case.state.orphans.get(claim.subject_id)
    if row is None:
        return Ruling("REPLAYED", "ALREADY_RESOLVED", f"no incident {claim.subject_id} is open here", claim.subject_id,
                      CLEARED)  # fmt: skip
    if row.intent_id != claim.intent_id:
        refuse("MALFORMED", f"incident {row.orphan_id} is about intent {row.intent_id}: name that one", row.orphan_id)
    if row.kind not in _CLEARED_BY_PEOPLE:
        refuse("ILLEGAL_TRANSITION", f"a {row.kind} ends with its cause, and no word ends it", row.orphan_id)
    cause = f"cleared by {claim.principal}: {claim.reason}; {', '.join(claim.evidence)}"
    fact = f.OrphanCleared(orphan_id=row.orphan_id, intent_id=row.intent_id, cause=cause)
    return Ruling("ACCEPTED", "OK", cause, row.orphan_id, CLEARED, [fact])


def _check_landed(case: Case, operation: Operation) -> None:
    """Refuse while what was allowed to act may yet land: the next generation would act beside it, with another key."""
    quiet_from = case.quiet_from(operation)
    if case.now < quiet_from:
        refuse("TOO_EARLY", f"what was sent may land until {quiet_from}, so nobody can know yet that it did not",
               operation.operation_id, operation.status)  # fmt: skip


def _holds_commitment(case: Case, operation: Operation) -> bool:
    """Whether the operation made an obligation that is not discharged: then it is undone by that one's release."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    return (
        commitment is not None
        and commitment.creating_operation == operation.operation_id
        and commitment.status not in TERMINAL_COMMITMENT
    )


def _in_force(case: Case, row: Commitment) -> bool:
    """Whether nothing speaks against ACTIVE: what made it is settled, and no release of it is under way."""
    origin = case.state.operations.get(row.creating_operation or "")
    serving = case.state.operations.get(row.serving_operation or "")
    made = origin is None or origin.status == "SETTLED"
    return made and (serving is None or serving.status not in OPEN_OPERATION)


def _in_doubt(case: Case, operation_id: str | None) -> bool:
    operation = case.state.operations.get(operation_id or "")
    return operation is not None and operation.status in ("IN_DOUBT", "ESCALATED")


def _is_known(case: Case, row: Commitment) -> bool:
    """Whether it was made, and no release of it may have acted: else the operation is to be settled first (law 4)."""
    origin = case.state.operations.get(row.creating_operation or "")
    serving = case.state.operations.get(row.serving_operation or "")
    made = origin is None or origin.status == "SETTLED"
    return made and (serving is None or serving.status not in ("SUBMITTED", "IN_DOUBT", "ESCALATED"))


def _commitment(case: Case, claim: c.Override) -> Ruling:
    row = case.state.commitments.get(claim.subject_id)
    if row is None or row.intent_id != claim.intent_id:
        refuse("UNKNOWN_COMMITMENT", f"intent {claim.intent_id} has no commitment {claim.subject_id}", claim.subject_id)
    identity, status = row.commitment_id, row.status
    if status == claim.to:
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}", identity, status)
    if claim.to == freeing.FREED:
        return freeing.free(case, claim, row)
    if claim.to == migrations.MIGRATED:
        return migrations.migrate(case, claim, row)
    if status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"{status} is final", identity, status)
    cause = f"overridden by {claim.principal}: {claim.reason}"
    unmade = commitment_claims.unmade(case, row)
    facts: list[AnyFact]
    match claim.to:
        case "RELEASED" if unmade is not None:
            facts = commitment_claims.dropped(case, unmade, cause)
        case _ if unmade is not None:
            refuse("ILLEGAL_TRANSITION", f"nothing of it was made yet, so it is not to be {claim.to}", identity, status)
        case "RELEASED":
            facts = commitments.released(case, row, cause, claim.evidence, None)
        case "SATISFIED" if _is_known(case, row):
            facts = commitments.discharged(case, row, "SATISFIED", cause, claim.evidence)
            facts += commitments.unbegun(case, row, cause)
        case "RECONCILIATION_REQUIRED":
            facts = commitments.reconcile(case, row, cause)
        case "RELEASE_PENDING" if status == "BREACHED" and row.release_wanted:
            return Ruling("REPLAYED", "ALREADY_SO", "its release goes on", identity, status)
        case "RELEASE_PENDING" if not _in_doubt(case, row.serving_operation):
            facts = dispositions.decided(row, "RELEASE", cause)
            facts += commitments.start_release(case, row, cause, claim.evidence)
        case "BREACHED" if _is_known(case, row):
            facts = commitment_time.breach(case, row, cause, claim.evidence)
        case "ACTIVE" if _in_force(case, row):
            facts = [commitments.change(row, "ACTIVE", cause, claim.evidence,
                                        valid_until=commitments.seen_until(case, row))]  # fmt: skip
            facts += dispositions.kept_by_decision(case, row, cause)
        case _:
            refuse("ILLEGAL_TRANSITION", f"{status} can't be overridden to {claim.to}", identity, status)
    after = next(fact.after for fact in facts if isinstance(fact, f.CommitmentChanged))
    return Ruling("ACCEPTED", "OK", cause, identity, after, facts)


def _quarantine(case: Case, claim: c.Override) -> Ruling:
    row = case.state.quarantines.get(claim.subject_id)
    if row is None or row.resolved:
        refuse("UNKNOWN_QUARANTINE", f"no quarantined record {claim.subject_id} is open here", claim.subject_id)
    if claim.to not in ("DISMISSED", "REDRIVEN"):
        refuse("ILLEGAL_TRANSITION", f"a quarantined record is DISMISSED or REDRIVEN, not {claim.to}", claim.subject_id)
    if claim.to == "REDRIVEN" and not claim.replacement:
        refuse("MALFORMED", "a re-drive needs the mended bytes in `replacement`", claim.subject_id)
    resolution = f"{claim.to} by {claim.principal}: {claim.reason}"
    fact = f.QuarantineResolved(quarantine_id=claim.subject_id, scope=row.scope, resolution=resolution)
    return Ruling("ACCEPTED", "OK", f"{row.holds} held claims are decided now", claim.subject_id, claim.to, [fact])


def follow_ups(state: State, decision: Decision, claim: c.AnyClaim) -> list[FollowUp]:
    """After a quarantine is resolved: the mended record, then each held claim, in the order they arrived."""
    ups: list[FollowUp] = []
    for fact in decision.facts:
        quarantine = state.quarantines.get(fact.quarantine_id) if isinstance(fact, f.QuarantineResolved) else None
        if quarantine is None:
            continue
        # Each is judged as of when it was appended: its own stamp is not off the clock because it had to wait.
        if isinstance(claim, c.Override) and claim.to == "REDRIVEN" and claim.replacement:
            topic, offset = _place_of(quarantine.quarantine_id)
            ups.append(FollowUp(claim.replacement, topic, offset, quarantine.opened_at))
        for ordinal in range(1, quarantine.holds + 1):
            hold = state.holds.get(hold_key(quarantine.quarantine_id, ordinal))
            if hold is not None:
                raw = bytes.fromhex(hold.claim)
                ups.append(FollowUp(raw, _topic(hold.topic), hold.offset, hold.appended_at))
    return ups


def _place_of(quarantine_id: str) -> tuple[ClaimTopic, int]:
    """The topic and offset in a quarantine's id, `<topic>/<partition>/<offset>`; UNKNOWN and -1 if it is another's."""
    topic, _, place = quarantine_id.partition("/")
    offset = place.rpartition("/")[2]
    return _topic(topic), int(offset) if offset.isdecimal() else -1


_TOPICS: dict[str, ClaimTopic] = {
    "outcomes": "outcomes", "observations": "observations", "resource-verdicts": "resource-verdicts",
    "approvals": "approvals", "overrides": "overrides", "proposals": "proposals",
}  # fmt: skip


def _topic(name: str) -> ClaimTopic:
    return _TOPICS.get(name, "UNKNOWN")
