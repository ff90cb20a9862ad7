"""What follows from a deadline. A timer that no longer fits its row decides nothing."""

from typing import assert_never

from joingate_processors.law import (
    archive,
    commitment_time,
    conditions,
    order,
    outcomes,
    owners,
    resources,
    sparing,
    starting,
    waiting,
)
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import BACKOFF_DOUBLINGS_MAX, REMINDER_MS, raise_orphan
from joingate_processors.law.state import Commitment, Operation, PlanRow
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import orphan_id


def timer_fired(case: Case, claim: c.TimerFired) -> Ruling:
    """Decide what the passed deadline means for its subject."""
    if claim.subject_kind == "OPERATION":
        operation = case.state.operations.get(claim.subject_id)
        if operation is not None and _fits(claim, operation):
            return _operation(case, operation)
    elif claim.subject_kind == "PLAN":
        plan = case.state.plans.get(claim.subject_id)
        if plan is not None and _fits(claim, plan):
            return _plan(case, plan)
    elif claim.subject_kind == "COMMITMENT":
        commitment = case.state.commitments.get(claim.subject_id)
        if commitment is not None and _fits(claim, commitment):
            return commitment_time.fired(case, commitment)
    elif claim.subject_kind in ("OWNER", "LEASE"):
        return owners.timer_fired(case, claim)
    elif claim.subject_kind == "INTENT":
        return archive.fired(case, claim)
    refuse("ALREADY_RESOLVED", f"{claim.timer} of {claim.subject_id} is not waited for any more", claim.subject_id)


def _fits(claim: c.TimerFired, row: Operation | PlanRow | Commitment) -> bool:
    return row.timer == claim.timer and row.deadline_at == claim.due_at


def _ruled(operation: Operation, status: f.OperationStatus, detail: str, facts: list[AnyFact]) -> Ruling:
    return Ruling("ACCEPTED", "OK", detail, operation.operation_id, status, facts)


def _operation(case: Case, operation: Operation) -> Ruling:
    match operation.timer:
        case "APPROVAL":
            return _ruled(operation, "WITHDRAWN", "no approval in time",
                          outcomes.withdraw(case, operation, "no approval in time"))  # fmt: skip
        case "HOLD" | "CONDITION" | "REVALIDATION":
            return _waited(case, operation)
        case "RESOURCES":
            return _ruled(operation, "WITHDRAWN", "the arbiter did not answer in time",
                          resources.not_answered(case, operation))  # fmt: skip
        case "SILENCE":
            return _silence(case, operation)
        case "PERMIT":
            facts = outcomes.doubt(case, operation, operation.attempt, "silence after the permit", [])
            return _ruled(operation, "IN_DOUBT", "silence after the permit", facts)
        case "ESCALATION" if operation.status == "SETTLED":
            return _human_gate_reminded(case, operation)
        case "IN_DOUBT" | "ESCALATION":
            task = (
                f"settle {operation.action} of {operation.business_key or operation.intent_id} (key "
                f"{operation.operation_id}): ask {operation.downstream} whether it happened"
            )
            return _ruled(operation, "ESCALATED", task, [outcomes.escalate(case, operation, task, [])])
        case (
            "NONE" | "PROGRESS" | "DISPOSITION" | "RELEASE" | "VERIFICATION" | "RECONCILIATION" | "DUE" | "VALIDITY"
            | "TRANSFER" | "LEASE" | "RETIREMENT" | "RETENTION" | "UNKNOWN"
        ):  # fmt: skip
            refuse("ALREADY_RESOLVED", f"an operation has no timer {operation.timer}", operation.operation_id)
        case _:
            assert_never(operation.timer)


def _human_gate_reminded(case: Case, operation: Operation) -> Ruling:
    """A person was asked to undo it and has not said anything yet: an incident, and asked again."""
    action = case.action_of(operation)
    gate = action.human_gate if action is not None else "operations"
    facts: list[AnyFact] = [
        f.CompensationRequested(operation_id=operation.operation_id, intent_id=operation.intent_id, by=None, gate=gate,
                                reason="reminder", deadline_at=case.now + REMINDER_MS),
        raise_orphan(case, "OVERDUE", "OPERATION", operation.operation_id, operation.intent_id,
                     f"the human gate {gate} has not decided on its compensation",
                     "undo it and override to COMPENSATED, or keep it and override to SETTLED"),
    ]  # fmt: skip
    return _ruled(operation, operation.status, f"the human gate {gate} is reminded", facts)


def _waited(case: Case, operation: Operation) -> Ruling:
    """A hold window passed, or what a STAGED operation waited for was not said in time, or was meanwhile."""
    missed = None
    if operation.timer == "CONDITION" and conditions.awaited_by(case, operation) is not None:
        missed = "its condition was not met in time"
    elif operation.timer == "REVALIDATION" and not waiting.is_carried(case, operation):
        missed = "what it relies on was not seen again in time"
    if missed is not None:
        return _ruled(operation, "WITHDRAWN", missed, outcomes.withdraw(case, operation, missed))
    status, facts = starting.go_on(case, operation)
    said = "what it waits for is gone" if status == "STAGED" else "what it waited for has passed"
    return _ruled(operation, status, said if status != "WITHDRAWN" else "its ground is gone", facts)


def _silence(case: Case, operation: Operation) -> Ruling:
    """Before a permit, or of a keyed one-phase send within the key's horizon: the next attempt. Else doubt.

    What lost its ground is not sent again, a mere look neither: an unsettled one ends as every other doubt does.
    """
    action = case.action_of(operation)
    wait = action.silence_ms if action is not None else REMINDER_MS
    stale = case.may_not_act(operation)
    if not stale and (action is None or case.downstream_of(operation) is None):
        stale = "UNKNOWN_ACTION"  # it left the catalogue, so that no permit can be given any more
    if not stale and operation.goal_id is not None:
        stale = sparing.overtaken(case, operation) or ""  # nobody has to ask for a permit that would be refused
    if not operation.permits and stale:
        return _ruled(operation, "WITHDRAWN", stale, outcomes.withdraw(case, operation, stale))
    looks = action is not None and action.effect == "OBSERVE"
    spent = operation.attempt >= case.catalogue.silent_attempts_max or not case.key_outlives(operation, wait)
    out_of_order = operation.phases == "ONE_PHASE" and order.still_unmet(case, operation) is not None
    if operation.permits and (stale or out_of_order or (spent and not looks)):
        facts: list[AnyFact] = outcomes.doubt(case, operation, operation.attempt, "silence", [])
        return _ruled(operation, "IN_DOUBT", "silence", facts)
    again = f.AttemptStarted(
        operation_id=operation.operation_id, intent_id=operation.intent_id, attempt=operation.attempt + 1,
        cause="silence", timer="SILENCE",
        deadline_at=case.now + (wait << min(operation.attempt, BACKOFF_DOUBLINGS_MAX)),
    )  # fmt: skip
    facts = [again]
    # A release is asked about by its commitment's own deadline.
    releases = operation.commitment_id is not None and not operation.plan_id
    if operation.attempt == case.catalogue.silent_attempts_max and not releases:
        facts.append(
            raise_orphan(case, "OVERDUE", "OPERATION", operation.operation_id, operation.intent_id,
                         f"the executor {operation.executor} did not answer {operation.attempt} attempts",
                         "see that the executor runs and reads its commands, or cancel; attempts go on")
        )  # fmt: skip
    return _ruled(operation, operation.status, "silence: the same operation, the next attempt", facts)


def _plan(case: Case, plan: PlanRow) -> Ruling:
    due = plan.progress_at + case.catalogue.plan_progress_ms
    stalled_id = orphan_id("STALLED_PLAN", f"{plan.intent_id}/{plan.plan_id}")
    facts: list[AnyFact]
    if due > case.now:
        facts = [f.PlanProgress(intent_id=plan.intent_id, plan_id=plan.plan_id, stalled=False,
                                since=plan.progress_at, deadline_at=due)]  # fmt: skip
        if plan.stalled:
            facts.append(f.OrphanCleared(orphan_id=stalled_id, intent_id=plan.intent_id, cause="progress"))
        return Ruling("ACCEPTED", "OK", "there was progress", plan.plan_id, plan.status, facts)
    again = case.now + case.catalogue.plan_progress_ms
    if not plan.steps_unjoined:
        facts = [f.PlanProgress(intent_id=plan.intent_id, plan_id=plan.plan_id, stalled=False,
                                since=plan.progress_at, deadline_at=again)]  # fmt: skip
        return Ruling("ACCEPTED", "OK", "every step is joined", plan.plan_id, plan.status, facts)
    facts = [f.PlanProgress(intent_id=plan.intent_id, plan_id=plan.plan_id, stalled=True, since=plan.progress_at,
                            deadline_at=again)]  # fmt: skip
    if not plan.stalled:
        facts.append(
            raise_orphan(case, "STALLED_PLAN", "PLAN", f"{plan.intent_id}/{plan.plan_id}", plan.intent_id,
                         f"{plan.steps_unjoined} open joins and no progress",
                         "look at its open steps; replan, compensate or cancel")
        )  # fmt: skip
    return Ruling("ACCEPTED", "OK", "open joins and no progress", plan.plan_id, plan.status, facts)
