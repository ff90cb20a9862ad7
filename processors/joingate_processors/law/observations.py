"""What systems of record say: older news changes nothing, absence needs proof, doubt ends by evidence."""

from typing import assert_never

from joingate_processors.law import commitments, order, outcomes
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitment_news import observe_commitment, observe_condition
from joingate_processors.law.commitments import raise_orphan
from joingate_processors.law.goal_news import observe_goal
from joingate_processors.law.news import OBSERVER_PROOFS, contradicts, kept, looked_at, outdated, recorded
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact

# Proofs that say what was not there when somebody looked: before everything sent has landed, they prove nothing.
_LOOKS: frozenset[c.Proof] = frozenset({"SECOND_LOOK", "STATEMENT"})


def observe(case: Case, claim: c.Observe) -> Ruling:
    """News about an operation, a commitment, a condition or a goal; news about others is kept and decides nothing."""
    if not claim.source:
        refuse("MALFORMED", "an observation names its source", claim.subject_id)
    if claim.subject_kind == "OPERATION":
        operation = case.state.operations.get(claim.subject_id)
        if operation is None or operation.intent_id != claim.intent_id:
            refuse(
                "UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.subject_id}", claim.subject_id
            )
        return outdated(claim, operation.news, operation.status) or _observe_operation(case, claim, operation)
    if claim.subject_kind == "COMMITMENT":
        commitment = case.state.commitments.get(claim.subject_id)
        if commitment is None or commitment.intent_id != claim.intent_id:
            refuse(
                "UNKNOWN_COMMITMENT", f"intent {claim.intent_id} has no commitment {claim.subject_id}", claim.subject_id
            )
        return outdated(claim, commitment.news, commitment.status) or observe_commitment(case, claim, commitment)
    if claim.subject_kind == "CONDITION":
        return observe_condition(case, claim)
    if claim.subject_kind == "GOAL":
        return observe_goal(case, claim)
    return Ruling("ACCEPTED", "OK", "kept; no rule reads it yet", claim.subject_id, "", [recorded(claim)])


# --- operations ------------------------------------------------------------------------------------------------------


def _observe_operation(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    if claim.idempotency_key is not None and claim.idempotency_key != operation.operation_id:
        refuse("KEY_MISMATCH", f"it is about the key {claim.idempotency_key}", claim.subject_id, operation.status)
    match claim.finding:
        case "PRESENT":
            return _present(case, claim, operation)
        case "ABSENT":
            return _absent(case, claim, operation)
        case "SEVERAL":
            return _several(case, claim, operation)
        case "RESEND":
            return _resend(case, claim, operation)
        case "NOT_FOUND" | "PENDING" | "UNREACHABLE" | "UNKNOWN":
            return kept(claim, operation.status, "it proves nothing; it is asked again later")
        case "REVOKED":
            refuse("MALFORMED", "an operation's effect is not revoked; its commitment is", claim.subject_id)
        case _:
            assert_never(claim.finding)


def _present(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    identity, status = operation.operation_id, operation.status
    if len(claim.external_ids) > 1:
        return _several(case, claim, operation)
    external_id = claim.external_ids[0] if claim.external_ids else ""
    said = recorded(claim)
    if status in ("SETTLED", "COMPENSATED"):
        if not external_id or external_id == operation.external_id:
            return kept(claim, status, "as recorded")
        if not operation.external_id:
            learnt = f.EffectRecorded(operation_id=identity, intent_id=operation.intent_id, attempt=operation.attempt,
                                      external_id=external_id, evidence=claim.evidence, stray=False)  # fmt: skip
            return Ruling("ACCEPTED", "OK", "its external id became known", identity, status, [said, learnt])
        facts = [said, *outcomes.stray(case, operation, operation.attempt, external_id, claim.evidence,
                                           "the system of record shows another effect")]  # fmt: skip
        return Ruling("REJECTED", "STRAY_EFFECT", f"it settled as {operation.external_id}", identity, status, facts)
    if not operation.permits:
        return _unpermitted(case, claim, operation, external_id)
    if status == "FAILED":
        facts = [said, *outcomes.doubt(case, operation, operation.attempt, "CONFLICTING_OUTCOME", claim.evidence)]
        return Ruling("REJECTED", "CONFLICTING_OUTCOME", "it was proven absent before", identity, "IN_DOUBT", facts)
    facts = [
        said,
        *outcomes.settle(case, operation, operation.attempt, external_id, claim.evidence, "", "OBSERVER"),
    ]
    return Ruling("ACCEPTED", "OK", "", identity, "SETTLED", facts)


def _unpermitted(case: Case, claim: c.Observe, operation: Operation, external_id: str) -> Ruling:
    """The effect is real and nothing allowed it: no machine makes a success of it, a person keeps or undoes it."""
    facts: list[AnyFact] = [recorded(claim)]
    match operation.status:
        case "ESCALATED":
            after = "ESCALATED"
        case "IN_DOUBT":
            after = "ESCALATED"
            task = f"an effect of {operation.operation_id} exists that no permit allowed: keep it, or undo it"
            facts.append(outcomes.escalate(case, operation, task, claim.evidence))
        case _:
            after = "IN_DOUBT"
            facts += outcomes.stray(case, operation, operation.attempt, external_id, claim.evidence,
                                    "no permit allowed it")  # fmt: skip
            facts += outcomes.doubt(case, operation, operation.attempt, "NO_PERMIT", claim.evidence)
    return Ruling("REJECTED", "NO_PERMIT", "an effect was found that no permit allowed", operation.operation_id,
                  after, facts)  # fmt: skip


def _is_proof(case: Case, proof: c.Proof, operation: Operation) -> bool:
    """Whether an observer may bring it, and the downstream is able to what it rests on."""
    return proof in OBSERVER_PROOFS and case.can_prove(operation, proof)


def _absent(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    identity, status = operation.operation_id, operation.status
    if claim.proof is None or not _is_proof(case, claim.proof, operation):
        return Ruling("REJECTED", "NO_PROOF", f"{claim.proof or 'a look'} proves no absence at {operation.downstream}",
                      identity, status, [recorded(claim)])  # fmt: skip
    if status == "SETTLED":
        if not contradicts(claim, operation.news):
            return Ruling("REJECTED", "STALE_OBSERVATION", "it can't be compared with what settled it, so it is asked",
                          identity, status, [recorded(claim)])  # fmt: skip
        facts = outcomes.doubt(case, operation, operation.attempt, "CONFLICTING_OUTCOME", claim.evidence)
        return Ruling("REJECTED", "CONFLICTING_OUTCOME", "its source had shown it before", identity, "IN_DOUBT",
                      [recorded(claim), *facts])  # fmt: skip
    if status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        quiet_from = case.quiet_from(operation)
        if claim.proof in _LOOKS and looked_at(case, claim) < quiet_from:
            return Ruling("REJECTED", "TOO_EARLY", f"it was looked at {looked_at(case, claim)}, and what was sent may "
                          f"land until {quiet_from}", identity, status, [recorded(claim)])  # fmt: skip
        facts = outcomes.fail(case, operation, operation.attempt, claim.proof, claim.evidence, "OBSERVER")
        return Ruling("ACCEPTED", "OK", "", identity, "FAILED", [recorded(claim), *facts])
    return kept(claim, status, "as recorded")


def _several(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    """None is picked: a person decides which one is ours, and every one that is not ours is an orphan (model §7)."""
    identity = operation.operation_id
    task = f"find out which of {', '.join(claim.external_ids) or 'several'} is the effect of {identity}"
    facts: list[AnyFact] = [recorded(claim)]
    for external_id in claim.external_ids:
        if external_id != operation.external_id:
            facts.append(
                raise_orphan(case, "STRAY_EFFECT", "OPERATION", identity, operation.intent_id,
                             "several effects match one operation",
                             "keep one, undo the others, and clear this by name", external_id)
            )  # fmt: skip
    status: str = operation.status
    if operation.status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        facts.append(outcomes.escalate(case, operation, task, claim.evidence))
        facts += commitments.of_several(case, operation)
        status = "ESCALATED"
    return Ruling("ACCEPTED", "OK", task, identity, status, facts)


def _resend(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    """A new attempt with the same key, if the key is still known downstream and everything is still fresh."""
    identity, status = operation.operation_id, operation.status
    if status != "IN_DOUBT":
        refuse("ILLEGAL_TRANSITION", f"it is {status}, not in doubt", identity, status)
    why_not = case.no_resend(operation)
    if why_not is not None:
        refuse(*why_not, identity, status)
    if operation.permit_attempt < operation.attempt:
        return Ruling("REPLAYED", "ALREADY_SO", f"attempt {operation.attempt} is under way", identity, status)
    waits = order.still_unmet(case, operation)
    if waits is not None:
        refuse("NOT_FRESH", f"its ground is gone: {waits[1]}", identity, status)
    again = f.AttemptStarted(
        operation_id=identity, intent_id=operation.intent_id, attempt=operation.attempt + 1, cause="resend from doubt",
        timer=operation.timer, deadline_at=operation.deadline_at,
    )  # fmt: skip
    return Ruling("ACCEPTED", "OK", "", identity, status, [recorded(claim), again])
