"""What systems of record say: older news changes nothing, absence needs proof, doubt ends by evidence."""

from typing import assert_never

from joingate_processors.law import commitments, order, outcomes, transfers
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import change, raise_orphan
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT
from joingate_processors.law.state import Commitment, Operation, newness, news_of
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact

OBSERVER_PROOFS: frozenset[c.Proof] = frozenset({"REFUSED", "TOMBSTONE", "SECOND_LOOK", "STATEMENT"})

# Proofs that say what was not there when somebody looked: before everything sent has landed, they prove nothing.
_LOOKS: frozenset[c.Proof] = frozenset({"SECOND_LOOK", "STATEMENT"})


def observe(case: Case, claim: c.Observe) -> Ruling:
    """News about an operation or a commitment; news about other subjects is kept and decides nothing yet."""
    if not claim.source:
        refuse("MALFORMED", "an observation names its source", claim.subject_id)
    if claim.subject_kind == "OPERATION":
        operation = case.state.operations.get(claim.subject_id)
        if operation is None or operation.intent_id != claim.intent_id:
            refuse(
                "UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.subject_id}", claim.subject_id
            )
        return _outdated(claim, operation.news, operation.status) or _observe_operation(case, claim, operation)
    if claim.subject_kind == "COMMITMENT":
        commitment = case.state.commitments.get(claim.subject_id)
        if commitment is None or commitment.intent_id != claim.intent_id:
            refuse(
                "UNKNOWN_COMMITMENT", f"intent {claim.intent_id} has no commitment {claim.subject_id}", claim.subject_id
            )
        return _outdated(claim, commitment.news, commitment.status) or _observe_commitment(case, claim, commitment)
    return Ruling("ACCEPTED", "OK", "kept; no rule reads it yet", claim.subject_id, "", [_recorded(claim)])


def _stamps(claim: c.Observe) -> dict[str, int]:
    return news_of(claim.source, claim.source_version, claim.source_time)


def _outdated(claim: c.Observe, news: dict[str, int], status: str) -> Ruling | None:
    """The refusal of what the same source has outdated itself, kept as evidence; None where it has not."""
    if newness(_stamps(claim), news) >= 0:
        return None
    return Ruling("REJECTED", "STALE_OBSERVATION", f"{claim.source} has said something newer before", claim.subject_id,
                  status, [_recorded(claim)])  # fmt: skip


def _contradicts(claim: c.Observe, news: dict[str, int]) -> bool:
    """Whether the news is comparably newer than what its source said before."""
    return newness(_stamps(claim), news) > 0


def _looked_at(case: Case, claim: c.Observe) -> int:
    """When the source was looked at (ms): as it says itself, else as the observer does, but never after the log had it.

    A stamp from the future proves nothing the earlier; one that lags makes the observer look again later.
    """
    said = claim.source_time if claim.source_time is not None else claim.occurred_at or case.appended_at
    return min(said, case.appended_at)


def _recorded(claim: c.Observe) -> f.ObservationRecorded:
    return f.ObservationRecorded(
        subject_kind=claim.subject_kind, subject_id=claim.subject_id, intent_id=claim.intent_id,
        finding=claim.finding, source=claim.source, source_version=claim.source_version,
        source_time=claim.source_time, evidence=claim.evidence,
    )  # fmt: skip


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
            return _kept(claim, operation.status, "it proves nothing; it is asked again later")
        case "REVOKED":
            refuse("MALFORMED", "an operation's effect is not revoked; its commitment is", claim.subject_id)
        case _:
            assert_never(claim.finding)


def _kept(claim: c.Observe, status: str, detail: str) -> Ruling:
    return Ruling("ACCEPTED", "OK", detail, claim.subject_id, status, [_recorded(claim)])


def _present(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    identity, status = operation.operation_id, operation.status
    if len(claim.external_ids) > 1:
        return _several(case, claim, operation)
    external_id = claim.external_ids[0] if claim.external_ids else ""
    recorded = _recorded(claim)
    if status in ("SETTLED", "COMPENSATED"):
        if not external_id or external_id == operation.external_id:
            return _kept(claim, status, "as recorded")
        if not operation.external_id:
            learnt = f.EffectRecorded(operation_id=identity, intent_id=operation.intent_id, attempt=operation.attempt,
                                      external_id=external_id, evidence=claim.evidence, stray=False)  # fmt: skip
            return Ruling("ACCEPTED", "OK", "its external id became known", identity, status, [recorded, learnt])
        facts = [recorded, *outcomes.stray(case, operation, operation.attempt, external_id, claim.evidence,
                                           "the system of record shows another effect")]  # fmt: skip
        return Ruling("REJECTED", "STRAY_EFFECT", f"it settled as {operation.external_id}", identity, status, facts)
    if not operation.permits:
        return _unpermitted(case, claim, operation, external_id)
    if status == "FAILED":
        facts = [recorded, *outcomes.doubt(case, operation, operation.attempt, "CONFLICTING_OUTCOME", claim.evidence)]
        return Ruling("REJECTED", "CONFLICTING_OUTCOME", "it was proven absent before", identity, "IN_DOUBT", facts)
    facts = [
        recorded,
        *outcomes.settle(case, operation, operation.attempt, external_id, claim.evidence, "", "OBSERVER"),
    ]
    return Ruling("ACCEPTED", "OK", "", identity, "SETTLED", facts)


def _unpermitted(case: Case, claim: c.Observe, operation: Operation, external_id: str) -> Ruling:
    """The effect is real and nothing allowed it: no machine makes a success of it, a person keeps or undoes it."""
    facts: list[AnyFact] = [_recorded(claim)]
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
                      identity, status, [_recorded(claim)])  # fmt: skip
    if status == "SETTLED":
        if not _contradicts(claim, operation.news):
            return Ruling("REJECTED", "STALE_OBSERVATION", "it can't be compared with what settled it, so it is asked",
                          identity, status, [_recorded(claim)])  # fmt: skip
        facts = outcomes.doubt(case, operation, operation.attempt, "CONFLICTING_OUTCOME", claim.evidence)
        return Ruling("REJECTED", "CONFLICTING_OUTCOME", "its source had shown it before", identity, "IN_DOUBT",
                      [_recorded(claim), *facts])  # fmt: skip
    if status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        quiet_from = case.quiet_from(operation)
        if claim.proof in _LOOKS and _looked_at(case, claim) < quiet_from:
            return Ruling("REJECTED", "TOO_EARLY", f"it was looked at {_looked_at(case, claim)}, and what was sent may "
                          f"land until {quiet_from}", identity, status, [_recorded(claim)])  # fmt: skip
        facts = outcomes.fail(case, operation, operation.attempt, claim.proof, claim.evidence, "OBSERVER")
        return Ruling("ACCEPTED", "OK", "", identity, "FAILED", [_recorded(claim), *facts])
    return _kept(claim, status, "as recorded")


def _several(case: Case, claim: c.Observe, operation: Operation) -> Ruling:
    """None is picked: a person decides which one is ours, and every one that is not ours is an orphan (model §7)."""
    identity = operation.operation_id
    task = f"find out which of {', '.join(claim.external_ids) or 'several'} is the effect of {identity}"
    facts: list[AnyFact] = [_recorded(claim)]
    for external_id in claim.external_ids:
        if external_id != operation.external_id:
            facts.append(
                raise_orphan(case, "STRAY_EFFECT", "OPERATION", identity, operation.intent_id,
                             "several effects match one operation", "keep one and undo the others", external_id)
            )  # fmt: skip
    status: str = operation.status
    if operation.status in ("SUBMITTED", "IN_DOUBT", "ESCALATED"):
        facts.append(outcomes.escalate(case, operation, task, claim.evidence))
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
    return Ruling("ACCEPTED", "OK", "", identity, status, [_recorded(claim), again])


# --- commitments -----------------------------------------------------------------------------------------------------


def _observe_commitment(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    moved = transfers.observed(case, claim, row)
    if moved is not None:
        return Ruling("ACCEPTED", "OK", "", row.commitment_id, moved[0], [_recorded(claim), *moved[1]])
    match claim.finding:
        case "PRESENT":
            return _commitment_present(case, claim, row)
        case "ABSENT" | "REVOKED":
            return _commitment_gone(case, claim, row)
        case "SEVERAL":
            if row.status in TERMINAL_COMMITMENT:
                return _kept(claim, row.status, "it is discharged")
            facts = commitments.reconcile(case, row, "several things match it")
            return Ruling(
                "ACCEPTED", "OK", "", row.commitment_id, "RECONCILIATION_REQUIRED", [_recorded(claim), *facts]
            )
        case "NOT_FOUND" | "PENDING" | "UNREACHABLE" | "RESEND" | "UNKNOWN":
            return _kept(claim, row.status, "it proves nothing; it is asked again later")
        case _:
            assert_never(claim.finding)


def _commitment_present(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    """It is there: in force if its creation is settled and its ground current; else its disposition goes on."""
    facts: list[AnyFact] = [_recorded(claim)]
    origin = case.state.operations.get(row.creating_operation or "")
    settled = row.creating_operation is None or (origin is not None and origin.status == "SETTLED")
    match row.status:
        case "RECONCILIATION_REQUIRED" if settled and row.release_wanted:
            facts += _still_there(case, claim, row)
        case "PROPOSED" | "UNKNOWN" | "RECONCILIATION_REQUIRED" if settled and not commitments.left_behind(case, row):
            facts.append(change(row, "ACTIVE", "observed", claim.evidence))
            facts += commitments.cleared(case, row.intent_id, row.commitment_id, ("OVERDUE",), "observed")
        case "RELEASED" | "SATISFIED" | "TRANSFERRED" if _contradicts(claim, row.news):
            facts.append(
                raise_orphan(case, "STRAY_EFFECT", "COMMITMENT", row.commitment_id, row.intent_id,
                             "its source shows again what it had shown to be gone", "ask its owner, then release it")
            )  # fmt: skip
        case _:
            return _kept(claim, row.status, "as recorded")
    after = next((fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)), row.status)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, after, facts)


def _still_there(case: Case, claim: c.Observe, row: Commitment) -> list[AnyFact]:
    """Its release is not to be seen: started anew where there is none; one that claimed success is doubted."""
    serving = case.state.operations.get(row.serving_operation or "")
    if serving is None or serving.status in ENDED_WITHOUT_EFFECT:
        return commitments.start_release(case, row, "still there", claim.evidence)
    if serving.status == "SETTLED":
        return outcomes.doubt(case, serving, serving.attempt, "CONFLICTING_OUTCOME", claim.evidence)
    return []


def _commitment_gone(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    """It is not there: released, if that was wanted and its creation is not in doubt; else somebody must look."""
    identity, facts = row.commitment_id, [_recorded(claim)]
    if row.status in TERMINAL_COMMITMENT or row.status == "BREACHED":
        return _kept(claim, row.status, "as recorded")
    origin = case.state.operations.get(row.creating_operation or "")
    if origin is not None and origin.status in OPEN_OPERATION:
        return _kept(claim, row.status, "its creation is still open, so not being there proves nothing")
    more: list[AnyFact]
    if row.release_wanted:
        evidence = claim.evidence or [f"{claim.source}:{claim.finding}"]
        serving = case.state.operations.get(row.serving_operation or "")
        if not _proves_gone(case, claim, origin, serving):
            return Ruling("REJECTED", "NO_PROOF", "its release has not ended, and a look proves no absence", identity,
                          row.status, [_recorded(claim)])  # fmt: skip
        by = serving if serving is not None and serving.status == "SETTLED" else None
        more = commitments.released(case, row, "observed to be gone", evidence, by)
        return Ruling("ACCEPTED", "OK", "", identity, "RELEASED", [*facts, *more])
    if row.status == "RECONCILIATION_REQUIRED":
        return _kept(claim, row.status, "it is being reconciled")
    more = commitments.reconcile(case, row, f"{claim.source} says {claim.finding.lower()}")
    return Ruling("ACCEPTED", "OK", "", identity, "RECONCILIATION_REQUIRED", [*facts, *more])


def _proves_gone(case: Case, claim: c.Observe, origin: Operation | None, serving: Operation | None) -> bool:
    """Whether the news ends a commitment under release: after its release has ended, seeing it gone is enough."""
    if claim.finding == "REVOKED" or (serving is not None and serving.status not in OPEN_OPERATION):
        return True
    if claim.proof is None or claim.proof not in OBSERVER_PROOFS:
        return False
    return origin is None or case.can_prove(origin, claim.proof)
