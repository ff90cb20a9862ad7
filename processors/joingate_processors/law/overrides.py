"""What a person on duty may force, with a name, a reason and evidence; and what becomes of quarantined records."""

from joingate_processors.law import commitments, outcomes
from joingate_processors.law.arrival import FollowUp, Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import State, hold_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact


def override(case: Case, claim: c.Override) -> Ruling:
    """Force a transition: never silent, and never past the close of its intent."""
    if not claim.reason or not claim.principal:
        refuse("NO_EVIDENCE", "an override needs the person's name and a reason", claim.subject_id)
    if claim.subject_kind == "QUARANTINE":
        return _quarantine(case, claim)
    if not claim.evidence:
        refuse("NO_EVIDENCE", "an override needs evidence", claim.subject_id)
    case.open_intent(claim.intent_id, 0)
    if claim.subject_kind == "OPERATION":
        return _operation(case, claim)
    if claim.subject_kind == "COMMITMENT":
        return _commitment(case, claim)
    refuse("MALFORMED", f"an override of {claim.subject_kind} is not known", claim.subject_id)


def _operation(case: Case, claim: c.Override) -> Ruling:
    operation = case.state.operations.get(claim.subject_id)
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.subject_id}", claim.subject_id)
    identity, status = operation.operation_id, operation.status
    if status == claim.to:
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}", identity, status)
    facts: list[AnyFact]
    if claim.to == "SETTLED" and status in ("SUBMITTED", "IN_DOUBT", "ESCALATED", "FAILED"):
        external_id = claim.external_id or operation.external_id
        facts = outcomes.settle(case, operation, operation.attempt, external_id, claim.evidence, "", "OPERATOR")
    elif claim.to == "FAILED" and status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        facts = outcomes.fail(case, operation, operation.attempt, "STATEMENT", claim.evidence, "OPERATOR")
    elif claim.to == "COMPENSATED" and status == "SETTLED":
        facts = [f.OperationCompensated(operation_id=identity, intent_id=operation.intent_id,
                                        by=f"{claim.principal}: {claim.evidence[0]}")]  # fmt: skip
    else:
        refuse("ILLEGAL_TRANSITION", f"{status} can't be overridden to {claim.to}", identity, status)
    return Ruling("ACCEPTED", "OK", f"overridden by {claim.principal}: {claim.reason}", identity, claim.to, facts)


def _commitment(case: Case, claim: c.Override) -> Ruling:
    row = case.state.commitments.get(claim.subject_id)
    if row is None or row.intent_id != claim.intent_id:
        refuse("UNKNOWN_COMMITMENT", f"intent {claim.intent_id} has no commitment {claim.subject_id}", claim.subject_id)
    identity, status = row.commitment_id, row.status
    if status == claim.to:
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}", identity, status)
    if status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"{status} is final", identity, status)
    cause = f"overridden by {claim.principal}: {claim.reason}"
    facts: list[AnyFact]
    match claim.to:
        case "RELEASED":
            facts = commitments.released(case, row, cause, claim.evidence, None)
        case "SATISFIED":
            facts = commitments.discharged(case, row, "SATISFIED", cause, claim.evidence)
        case "RECONCILIATION_REQUIRED":
            facts = commitments.reconcile(case, row, cause)
        case "RELEASE_PENDING":
            facts = commitments.start_release(case, row, cause, claim.evidence)
        case "ACTIVE":
            facts = [commitments.change(row, "ACTIVE", cause, claim.evidence)]
        case _:
            refuse("ILLEGAL_TRANSITION", f"{status} can't be overridden to {claim.to}", identity, status)
    return Ruling("ACCEPTED", "OK", cause, identity, claim.to, facts)


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
        if not isinstance(fact, f.QuarantineResolved):
            continue
        if isinstance(claim, c.Override) and claim.to == "REDRIVEN" and claim.replacement:
            topic, _, offset = fact.quarantine_id.split("/")
            ups.append(FollowUp(claim.replacement, _topic(topic), int(offset), decision.decided_at))
        quarantine = state.quarantines.get(fact.quarantine_id)
        for ordinal in range(1, (quarantine.holds if quarantine is not None else 0) + 1):
            hold = state.holds.get(hold_key(fact.quarantine_id, ordinal))
            if hold is not None:
                raw = bytes.fromhex(hold.claim)
                ups.append(FollowUp(raw, _topic(hold.topic), hold.offset, decision.decided_at))
    return ups


_TOPICS: dict[str, ClaimTopic] = {
    "outcomes": "outcomes", "observations": "observations", "resource-verdicts": "resource-verdicts",
    "approvals": "approvals", "overrides": "overrides", "proposals": "proposals",
}  # fmt: skip


def _topic(name: str) -> ClaimTopic:
    return _TOPICS.get(name, "UNKNOWN")
