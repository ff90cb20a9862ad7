"""What an executor may say of an operation, and the endings that observers and operators share with it."""

from joingate_processors.law import commitments, conditions, custody, leases, order, reliance, sparing, undoing, waiting
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import REMINDER_MS, raise_orphan
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT, discharging, latest_generation
from joingate_processors.law.state import Operation, plan_key, step_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact
from joingate_schemas.record import changed

_ACTED_UNASKED = frozenset({"NO_PERMIT", "WRONG_EXECUTOR"})
"""Causes of doubt that say that somebody acted whom nothing had allowed to."""
EXECUTOR_PROOFS: frozenset[c.Proof] = frozenset({"REFUSED", "NOT_SENT", "TOMBSTONE"})


# --- endings ---------------------------------------------------------------------------------------------------------


def settle(
    case: Case, operation: Operation, attempt: int, external_id: str, evidence: list[str], result: str, source: f.Source
) -> list[AnyFact]:
    """The effect exists: SETTLED, and what follows for the commitment, the compensated one and open incidents."""
    late = bool(case.staleness(operation))
    facts: list[AnyFact] = [
        f.OperationSettled(
            operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=attempt,
            external_id=external_id, evidence=evidence, result=result, source=source, late=late,
        )
    ]  # fmt: skip
    facts += _answered(case, operation)
    if operation.in_doubt_cause and external_id:
        # While nobody knew, the effect may have been taken for a stray one; now it is the one.
        facts += commitments.cleared(case, operation.intent_id, operation.operation_id, ("STRAY_EFFECT",),
                                     "it is the effect of this operation", external_id)  # fmt: skip
    if operation.commitment_id is not None:
        facts += commitments.on_settled(case, operation, external_id, evidence)
    if operation.compensates is not None:
        origin = case.state.operations.get(operation.compensates)
        if origin is not None and origin.status == "SETTLED":
            facts.append(
                f.OperationCompensated(operation_id=origin.operation_id, intent_id=origin.intent_id,
                                       by=operation.operation_id)
            )  # fmt: skip
    return facts + commitments.freed(case, operation)


def fail(
    case: Case, operation: Operation, attempt: int, proof: c.Proof, evidence: list[str], source: f.Source
) -> list[AnyFact]:
    """The effect is proven absent: FAILED, and the slot is free for the next generation."""
    facts: list[AnyFact] = [
        f.OperationFailed(operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=attempt,
                          proof=proof, evidence=evidence, source=source)
    ]  # fmt: skip
    facts += _answered(case, operation) + commitments.on_absent(case, operation, proof, evidence)
    return facts + commitments.freed(case, operation)


def withdraw(case: Case, operation: Operation, cause: str) -> list[AnyFact]:
    """Ended before any permit; what it would have created is dropped as a fact."""
    facts: list[AnyFact] = [
        f.OperationWithdrawn(operation_id=operation.operation_id, intent_id=operation.intent_id, cause=cause)
    ]
    facts += _answered(case, operation)
    return (
        facts + commitments.on_absent(case, operation, "no permit was issued", []) + commitments.freed(case, operation)
    )


def _answered(case: Case, operation: Operation) -> list[AnyFact]:
    """Its executor's silence concerns nobody any more. Looks nothing up where the first attempt was answered."""
    if operation.attempt == 1:
        return []
    return commitments.cleared(case, operation.intent_id, operation.operation_id, ("OVERDUE",), "its silence is over")


def doubt(case: Case, operation: Operation, attempt: int, cause: str, evidence: list[str]) -> list[AnyFact]:
    """IN_DOUBT with its deadline, unless it is already; the commitment goes with it."""
    if operation.status in ("IN_DOUBT", "ESCALATED"):
        return []
    action = case.action_of(operation)
    wait = action.in_doubt_ms if action is not None else REMINDER_MS
    dependants: list[str] = []
    if operation.status in ("SETTLED", "FAILED", "WITHDRAWN"):
        dependants = _dependants(case, operation)
    facts: list[AnyFact] = [
        f.OperationInDoubt(
            operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=attempt, cause=cause,
            evidence=evidence, dependants=dependants, timer="IN_DOUBT", deadline_at=case.now + wait,
        )
    ]  # fmt: skip
    return facts + _answered(case, operation) + commitments.on_doubt(case, operation, cause)


def doubt_again(case: Case, operation: Operation, attempt: int, cause: str, evidence: list[str]) -> list[AnyFact]:
    """What was sent again out of doubt came to nothing clear either: said again, so that it is asked about anew.

    Once an attempt, and only of the current one, under its permit. The deadline stays: trying puts off nothing.
    """
    if operation.status != "IN_DOUBT" or not (
        operation.doubted_attempt < operation.attempt == operation.permit_attempt == attempt
    ):
        return []
    return [
        f.OperationInDoubt(
            operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=attempt, cause=cause,
            evidence=evidence, dependants=_dependants(case, operation), timer=operation.timer,
            deadline_at=operation.deadline_at,
        )
    ]  # fmt: skip


def _dependants(case: Case, operation: Operation) -> list[str]:
    """What relied on the operation's ending: its step, if joined, and its slot's open or settled operations."""
    found: list[str] = []
    if operation.claimed and operation.plan_id:
        found.append(f"step:{operation.plan_id}/{operation.step_id}")
    found += _resting_on(case, operation)
    for index in (case.state.open_operations, case.state.unclaimed_operations):
        for other_id in index.members(operation.intent_id):
            other = case.state.operations.get(other_id)
            if (
                other is not None
                and other_id != operation.operation_id
                and (other.action, other.business_key) == (operation.action, operation.business_key)
            ):
                found.append(f"operation:{other_id}")
    return found


def _resting_on(case: Case, operation: Operation) -> list[str]:
    """The steps of its plan that require its step and were dispatched: they act, or acted, on what may not be there."""
    state, found = case.state, []
    plan = state.plans.get(plan_key(operation.intent_id, operation.plan_id))
    at = None if plan is None else plan.first_step
    while at is not None:
        step = state.steps.get(step_key(operation.intent_id, operation.plan_id, at))
        if step is None:
            break
        wanted = any(edge["kind"] == "REQUIRES" and edge["step_id"] == operation.step_id for edge in step.edges)
        if wanted and step.dispatched:
            found.append(f"step:{operation.plan_id}/{at}")
        at = step.following
    return found


def escalate(case: Case, operation: Operation, task: str, evidence: list[str]) -> f.OperationEscalated:
    """ESCALATED to a person, who is reminded until it is settled."""
    return f.OperationEscalated(
        operation_id=operation.operation_id, intent_id=operation.intent_id, task=task, evidence=evidence,
        timer="ESCALATION", deadline_at=case.now + REMINDER_MS,
    )  # fmt: skip


def stray(
    case: Case, operation: Operation, attempt: int, external_id: str, evidence: list[str], cause: str
) -> list[AnyFact]:
    """An effect that nothing allows: recorded, and an incident."""
    return [
        f.EffectRecorded(operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=attempt,
                         external_id=external_id, evidence=evidence, stray=True),
        raise_orphan(case, "STRAY_EFFECT", "OPERATION", operation.operation_id, operation.intent_id, cause,
                     "compare both effects at the system of record, undo one, and clear this by name", external_id),
    ]  # fmt: skip


# --- claims ----------------------------------------------------------------------------------------------------------


def known_operation(case: Case, claim: c.Prepared | c.InDoubt | c.Abort) -> Operation:
    """The operation that the claim is about; refused if there is none under this intent."""
    operation = case.state.operations.get(claim.operation_id)
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("NOT_DISPATCHED", f"intent {claim.intent_id} has no operation {claim.operation_id}", claim.operation_id)
    return operation


def _attempt(operation: Operation, attempt: int) -> int:
    if attempt > operation.attempt:
        refuse("NOT_DISPATCHED", f"attempt {attempt} was not started; {operation.attempt} is current",
               operation.operation_id, operation.status)  # fmt: skip
    return attempt


def prepared(case: Case, claim: c.Prepared) -> Ruling:
    """The permit, once per attempt, to the first that asks, if everything is still fresh (law 7); or a lease."""
    if claim.commitment_id is not None:
        return leases.lease(case, claim, claim.commitment_id)
    operation = known_operation(case, claim)
    operation_id, status = operation.operation_id, operation.status
    if claim.executor != operation.executor:
        refuse("WRONG_EXECUTOR", f"{operation.action} belongs to {operation.executor}", operation_id, status)
    attempt = _attempt(operation, claim.attempt)
    if attempt < operation.attempt:
        refuse("STALE_ATTEMPT", f"attempt {operation.attempt} is current", operation_id, status)
    if operation.phases == "ONE_PHASE":
        return Ruling("REPLAYED", "ALREADY_SO", "one phase: the command was the permit", operation_id, status)
    if operation.permit_attempt == attempt:
        # A worker without a name is told apart from no other, so it is none that has the permit.
        if claim.worker and claim.worker == operation.permit_worker and status == "SUBMITTED":
            return Ruling("REPLAYED", "ALREADY_SO", "this worker has the permit", operation_id, status)
        refuse("ALREADY_CLAIMED", f"attempt {attempt} has its permit", operation_id, status)
    if status == "STAGED":
        refuse("NOT_READY", "it is STAGED", operation_id, status)
    if status == "ESCALATED":
        refuse("IN_DOUBT_PENDING", "a person is asked whether it happened", operation_id, status)
    if status not in ("VALIDATED", "IN_DOUBT"):
        refuse("OPERATION_ENDED", f"it is {status}", operation_id, status)
    in_doubt = status == "IN_DOUBT"
    if in_doubt and not operation.permits:
        refuse("ALREADY_CLAIMED", "somebody may have acted without a permit", operation_id, status)
    if operation.commitment_id is not None:
        leases.check(case, operation, claim.worker)
    stale = case.may_not_act(operation)
    if stale:
        facts = [] if in_doubt else withdraw(case, operation, stale)
        return Ruling("REJECTED", stale, "its ground is no longer current", operation_id,
                      status if in_doubt else "WITHDRAWN", facts)  # fmt: skip
    overtaken = None if in_doubt or operation.goal_id is None else sparing.overtaken(case, operation)
    if overtaken is not None:
        facts = withdraw(case, operation, f"{sparing.REACHED}: {overtaken}")
        return Ruling("REJECTED", sparing.REACHED, overtaken, operation_id, "WITHDRAWN", facts)
    held = _relies_on_old(case, operation)
    if held is not None:
        return held
    waits = order.still_unmet(case, operation)
    if waits is not None:
        refuse(*waits, operation_id, status)
    action, downstream = case.action_of(operation), case.downstream_of(operation)
    if action is None or downstream is None:
        refuse("UNKNOWN_ACTION", f"the catalogue in force has no {operation.action}", operation_id, status)
    if in_doubt and not case.key_outlives(operation, action.permit_ms):
        refuse("KEY_WINDOW_PASSED", f"{operation.downstream} may forget the key before this attempt has landed",
               operation_id, status)  # fmt: skip
    valid_until = case.now + action.permit_ms
    doubted = valid_until + downstream.in_flight_ms_max
    permit = f.PermitIssued(
        operation_id=operation_id, intent_id=operation.intent_id, attempt=attempt, executor=claim.executor,
        worker=claim.worker, valid_until=valid_until, timer="IN_DOUBT" if in_doubt else "PERMIT",
        deadline_at=max(doubted, operation.deadline_at or 0) if in_doubt else doubted,
    )  # fmt: skip
    return Ruling("ACCEPTED", "OK", "", operation_id, "IN_DOUBT" if in_doubt else "SUBMITTED",
                  [permit, *_answered(case, operation)])  # fmt: skip


def _relies_on_old(case: Case, operation: Operation) -> Ruling | None:
    """The refusal of a permit while what its step relies on has expired, or is looked at again; None if all is fresh.

    What waits for a look is STAGED anew, and its executor asked again after it; one in doubt stays so.
    """
    identity, status = operation.operation_id, operation.status
    pending = conditions.awaited_by(case, operation)
    if pending is not None:
        refuse("DEPENDENCY_UNMET", f"its condition {pending.condition} is not met any more", identity, status)
    step = reliance.step_of(case, operation) if operation.ordered else None
    if step is None:
        return None
    reliance.check(case, step, identity, status)
    wait = waiting.revalidation(case, step)
    if wait is None:
        return None
    facts = list(wait.asks)
    if status != "IN_DOUBT":
        status = "STAGED"
        facts.insert(0, f.OperationReady(operation_id=identity, intent_id=operation.intent_id, status=status,
                                         timer=wait.timer, deadline_at=wait.deadline_at))  # fmt: skip
    return Ruling("REJECTED", "NOT_READY", "what it relies on is looked at again first", identity, status, facts)


def commit(case: Case, claim: c.Commit) -> Ruling:
    """The effect is there. It counts only by a Dispatch, a permit and who may act; whatever else it tells is kept."""
    operation = case.state.operations.get(claim.operation_id)
    if operation is None or operation.intent_id != claim.intent_id:
        return _undispatched(case, claim)
    operation_id, status = operation.operation_id, operation.status
    attempt = claim.attempt
    if claim.idempotency_key is not None and claim.idempotency_key != operation_id:
        # Made under another key, the effect is real all the same (law 3), and no resend of ours would meet it.
        facts = stray(case, operation, attempt, claim.external_id, claim.evidence, "it was made with another key")
        return Ruling("REJECTED", "KEY_MISMATCH", f"the effect was made with key {claim.idempotency_key}",
                      operation_id, status, facts)  # fmt: skip
    if attempt > operation.attempt or attempt < 1:
        return _undispatched(case, claim)
    if status == "SETTLED" or status == "COMPENSATED":
        if claim.external_id == operation.external_id or not claim.external_id:
            return Ruling("REPLAYED", "ALREADY_SO", "the same effect", operation_id, status)
        if not operation.external_id and _may_act(case, claim, operation):
            facts = [f.EffectRecorded(operation_id=operation_id, intent_id=operation.intent_id, attempt=attempt,
                                      external_id=claim.external_id, evidence=claim.evidence, stray=False)]  # fmt: skip
            return Ruling("ACCEPTED", "OK", "its external id became known", operation_id, status, facts)
        facts = stray(case, operation, attempt, claim.external_id, claim.evidence, "it settled with another id")
        return Ruling("REJECTED", "STRAY_EFFECT", f"it settled as {operation.external_id}", operation_id, status, facts)
    if status in ENDED_WITHOUT_EFFECT and case.archived(claim.intent_id) is not None:
        return _undispatched(case, claim)  # its row is about to go, so nothing is opened anew
    if not _may_act(case, claim, operation):
        said = f"'{claim.principal}' may not act on {operation.action}"
        facts = stray(case, operation, attempt, claim.external_id, claim.evidence, said)
        facts += doubt(case, operation, attempt, "WRONG_EXECUTOR", claim.evidence)
        return Ruling("REJECTED", "WRONG_EXECUTOR", said, operation_id,
                      "ESCALATED" if status == "ESCALATED" else "IN_DOUBT", facts)  # fmt: skip
    if not operation.permits or (operation.phases == "TWO_PHASE" and attempt not in operation.permitted):
        facts = stray(case, operation, attempt, claim.external_id, claim.evidence, "no permit allowed it")
        facts += doubt(case, operation, attempt, "NO_PERMIT", claim.evidence)
        return Ruling("REJECTED", "NO_PERMIT", f"attempt {attempt} had no permit", operation_id,
                      "ESCALATED" if status == "ESCALATED" else "IN_DOUBT", facts)  # fmt: skip
    lacks = "" if _looks(case, operation) else _unproven_effect(case, claim, operation)
    if lacks:
        refuse("NO_EVIDENCE", lacks, operation_id, status)
    if status == "FAILED":
        facts = doubt(case, operation, attempt, "CONFLICTING_OUTCOME", claim.evidence)
        return Ruling("REJECTED", "CONFLICTING_OUTCOME", "it was proven absent before", operation_id, "IN_DOUBT", facts)
    facts = settle(case, operation, attempt, claim.external_id, claim.evidence, claim.result, "EXECUTOR")
    return Ruling("ACCEPTED", "OK", "", operation_id, "SETTLED", facts)


def _may_act(case: Case, claim: c.Commit, operation: Operation) -> bool:
    """Whether the catalogue lets who speaks perform this action."""
    known = case.catalogue.principals.get(claim.principal)
    return known is None or not known.actions or operation.action in known.actions


def _unproven_effect(case: Case, claim: c.Commit, operation: Operation) -> str:
    """What the Commit lacks to be believed; empty if nothing.

    A downstream that claims to know keys has to show it in its reply, by the key or an id of its own: else a key that
    it never saw would be sent again (model §4).
    """
    if claim.external_id or claim.idempotency_key:
        return ""
    downstream = case.downstream_of(operation)
    if downstream is not None and "IDEMPOTENT_KEY" in downstream.capabilities:
        return f"{downstream.name} knows keys, so its reply gives an external id, or the key back; this names neither"
    return "" if claim.evidence else "it names no external id, key or evidence of the effect"


def _looks(case: Case, operation: Operation) -> bool:
    action = case.action_of(operation)
    return action is not None and action.effect == "OBSERVE"


def _undispatched(case: Case, claim: c.Commit) -> Ruling:
    """A Commit with no Dispatch behind it: refused, and somebody must look at what was done (law 3)."""
    facts: list[AnyFact] = [
        f.EffectRecorded(operation_id=claim.operation_id, intent_id=claim.intent_id, attempt=claim.attempt,
                         external_id=claim.external_id, evidence=claim.evidence, stray=True),
        raise_orphan(case, "SUSPECTED_EFFECT", "OPERATION", claim.operation_id, claim.intent_id,
                     "a Commit arrived without its Dispatch",
                     "ask the system of record for this effect, then clear this by name", claim.external_id),
    ]  # fmt: skip
    return Ruling("REJECTED", "NOT_DISPATCHED", f"attempt {claim.attempt} of {claim.operation_id} was not dispatched",
                  claim.operation_id, "", facts)  # fmt: skip


def in_doubt(case: Case, claim: c.InDoubt) -> Ruling:
    """The executor can't tell; neither can we, unless the operation has ended by evidence."""
    operation = known_operation(case, claim)
    operation_id, status = operation.operation_id, operation.status
    attempt = _attempt(operation, claim.attempt)
    if status not in OPEN_OPERATION:
        return Ruling("REPLAYED", "ALREADY_RESOLVED", "it ended before", operation_id, status)
    said = (attempt, claim.cause or "reported by the executor", claim.evidence)
    facts = doubt(case, operation, *said) or doubt_again(case, operation, *said)
    if not facts:
        return Ruling("REPLAYED", "IN_DOUBT_PENDING", "it is in doubt already", operation_id, status)
    return Ruling("ACCEPTED", "OK", "", operation_id, "IN_DOUBT", facts)


def abort(case: Case, claim: c.Abort) -> Ruling:
    """It did not happen, or should not: only before a permit, or with a proof; after Commit, only as compensation."""
    operation = known_operation(case, claim)
    operation_id, status = operation.operation_id, operation.status
    attempt = _attempt(operation, claim.attempt) or operation.attempt
    if case.role == "PLANNER" and custody.discharges_another(case, operation):
        refuse("NOT_OWNER", f"it discharges {operation.commitment_id}, which its intent does not own any more",
               operation_id, status)  # fmt: skip
    if case.role == "EXECUTOR" and attempt < operation.attempt and claim.proof in (None, "NOT_SENT"):
        # It speaks of what that attempt did itself, and the current one has the say by now (law 3).
        refuse("STALE_ATTEMPT", f"attempt {operation.attempt} is current", operation_id, status)
    match status:
        case "FAILED" | "WITHDRAWN" | "COMPENSATED":
            return Ruling("REPLAYED", "ALREADY_SO", f"it is {status}", operation_id, status)
        case "SETTLED":
            return _abort_settled(case, claim, operation, attempt)
        case _:
            pass
    if case.role == "PLANNER" and not operation.plan_id:
        # Else whoever stops everything would stop what makes stopping safe.
        refuse("ILLEGAL_TRANSITION", "it discharges an obligation, and no planner stops that", operation_id, status)
    if not operation.permits and status in ("STAGED", "VALIDATED"):
        facts = withdraw(case, operation, claim.error or f"aborted by the {case.role.lower()} before its permit")
        return Ruling("ACCEPTED", "OK", "", operation_id, "WITHDRAWN", facts)
    unproven = _unproven(case, claim, operation, attempt)
    if unproven:
        said = (attempt, f"abort without proof: {claim.error or unproven}", claim.evidence)
        facts = doubt(case, operation, *said)
        if not facts and case.role == "EXECUTOR":
            facts = doubt_again(case, operation, *said)
        reason = "STALE_ATTEMPT" if attempt < operation.attempt else "NO_PROOF"
        return Ruling("REJECTED", reason, unproven, operation_id, "IN_DOUBT" if facts else status, facts)
    assert claim.proof is not None
    facts = fail(case, operation, attempt, claim.proof, claim.evidence, "EXECUTOR")
    return Ruling("ACCEPTED", "OK", "", operation_id, "FAILED", facts)


def _unproven(case: Case, claim: c.Abort, operation: Operation, attempt: int) -> str:
    """Why the claim proves no absence; empty if it does (law 2)."""
    if case.role != "EXECUTOR":
        return "only the executor or an observer can prove absence"
    if claim.proof is None:
        return "an error is no proof that nothing happened"
    if claim.proof not in EXECUTOR_PROOFS:
        return f"{claim.proof} is not for an executor to claim"
    if attempt < operation.attempt:
        return f"attempt {operation.attempt} is current; an older one speaks for itself only"
    if not case.can_prove(operation, claim.proof):
        return f"{operation.downstream} is not declared to be able to what {claim.proof} rests on"
    # Without a permit it can be in doubt only because somebody may have acted all the same.
    if claim.proof == "NOT_SENT" and (
        operation.permits > 1 or operation.permit_attempt != attempt or operation.in_doubt_cause in _ACTED_UNASKED
    ):
        return "another attempt may have acted, and for that one this proves nothing"
    return ""


def _abort_settled(case: Case, claim: c.Abort, operation: Operation, attempt: int) -> Ruling:
    operation_id, status = operation.operation_id, operation.status
    if case.role == "EXECUTOR" and claim.proof is not None:
        facts = doubt(case, operation, attempt, "CONFLICTING_OUTCOME", claim.evidence)
        return Ruling(
            "REJECTED", "CONFLICTING_OUTCOME", "a Commit says that it happened", operation_id, "IN_DOUBT", facts
        )
    action = case.action_of(operation)
    if action is not None and action.effect == "OBSERVE":
        return Ruling("REPLAYED", "ALREADY_SO", "having looked leaves nothing to undo", operation_id, status)
    # An executor's bare error asks nobody to undo anything by machine: a person decides.
    undone_by = action.compensation if action is not None and case.role == "PLANNER" else None
    if operation.compensating and not (undone_by is not None and _may_undo_now(case, operation, undone_by)):
        return Ruling("REPLAYED", "COMPENSATION", "its compensation was asked for before", operation_id, status)
    intent = case.state.intents.get(operation.intent_id)
    if intent is not None and intent.status == "CLOSED":
        refuse("INTENT_CLOSED", f"intent {intent.intent_id} is closed", operation_id, status)
    reason = claim.error or "late abort"
    by, facts = _undo(case, operation, undone_by, reason, claim.evidence)
    gate = "" if by is not None else action.human_gate if action is not None else "operations"
    wish = f.CompensationRequested(
        operation_id=operation_id, intent_id=operation.intent_id, by=by, gate=gate, reason=reason,
        deadline_at=None if by is not None else case.now + REMINDER_MS,
    )  # fmt: skip
    detail = f"the human gate {gate} decides" if by is None else f"operation {by} undoes it"
    return Ruling("COMPENSATE", "COMPENSATION", detail, operation_id, status, [wish, *facts])


def _undo(
    case: Case, operation: Operation, undone_by: str | None, reason: str, evidence: list[str]
) -> tuple[str | None, list[AnyFact]]:
    """The operation that undoes this one, and what starts it: what made an obligation is undone by its release."""
    if undone_by is None:
        return None, []
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None:
        undo = discharging(case, undone_by, operation, operation.operation_id, None, operation.operation_id)
        return (undo.operation_id, [_in_turn(case, operation, undo)]) if undo is not None else (None, [])
    if commitment.status in TERMINAL_COMMITMENT or custody.out_of_hand(case, commitment):
        return None, []
    facts = commitments.start_release(case, commitment, reason, evidence)
    started = next((fact.operation_id for fact in facts if isinstance(fact, f.OperationOpened)), None)
    return started or commitment.serving_operation, facts


def _in_turn(case: Case, operation: Operation, undo: f.OperationOpened) -> f.OperationOpened:
    """The compensation as it opens: STAGED while what was done later is yet to be undone, and looked at again."""
    action = case.catalogue.actions.get(undo.action)
    if action is None or undo.status == "STAGED" or undoing.unmet_for(case, operation) is None:
        return undo
    return changed(undo, status="STAGED", timer="HOLD", deadline_at=case.now + max(action.silence_ms, 1))


def _may_undo_now(case: Case, operation: Operation, undone_by: str) -> bool:
    """Whether no compensation is on its way though one was asked for: it is proven absent, or only a gate was named."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is not None:
        return not commitment.release_wanted
    latest = latest_generation(case, operation.intent_id, undone_by, operation.operation_id)
    return latest is None or latest.status in ("FAILED", "WITHDRAWN")
