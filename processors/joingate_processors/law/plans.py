"""Plans and steps: what may be planned, what may be dispatched when, and when a step counts as done."""

from math import isfinite

from joingate_processors.law import (
    admission,
    approvals,
    commitments,
    conditions,
    custody,
    dispositions,
    draws,
    order,
    outcomes,
    reliance,
    resources,
    sparing,
    versions,
    waiting,
)
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.digests import digest_of
from joingate_processors.law.opening import commitment_for, digest, natural_key, obligation_of, opened, proposed
from joingate_processors.law.state import Intent, Operation, Step, plan_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.burden import burden_of
from joingate_schemas.catalogue import Action
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import operation_id
from joingate_schemas.record import changed

STEPS_MAX = 1_000
OPEN_MAX = 500
"""How many operations, and how many commitments, an intent may have open: its cancel concerns them all at once.

What discharges may start beyond it, up to twice as many.
"""


# --- Plan ------------------------------------------------------------------------------------------------------------


def plan(case: Case, claim: c.Plan) -> Ruling:
    """A plan comes into force, or is kept as a candidate."""
    if not claim.plan_id or not claim.steps or len(claim.steps) > STEPS_MAX:
        refuse("MALFORMED", f"a plan needs a plan_id and 1 to {STEPS_MAX} steps", claim.plan_id)
    details = _details(case, claim)
    intent = case.current_intent(claim.intent_id, claim.intent_version)
    for one in details:
        if one["goal_id"] is not None and one["goal_id"] not in intent.goals:
            refuse("MALFORMED", f"step {one['step_id']} is for goal {one['goal_id']}, which version {intent.version} "
                   "does not have", claim.plan_id)  # fmt: skip
    known = case.state.plans.get(plan_key(claim.intent_id, claim.plan_id))
    content = _content(claim, details, claim.adopt)
    # A candidate is adopted by the same plan said for adoption, so how it was said is no part of what it is.
    adopts = (
        claim.adopt and known is not None and known.status == "CANDIDATE"
        and known.content_digest == _content(claim, details, False)
    )  # fmt: skip
    if known is not None and known.content_digest == content:
        return Ruling("REPLAYED", "ALREADY_SO", f"plan {claim.plan_id} is {known.status}", claim.plan_id, known.status)
    if known is not None and not adopts:
        refuse("PLAN_CONFLICT", f"plan {claim.plan_id} exists with other content", claim.plan_id, known.status)
    if intent.status == "CANCELLED":
        refuse("INTENT_CANCELLED", f"intent {claim.intent_id} was cancelled", claim.plan_id, intent.status)
    if claim.adopt:
        _check_replaces(case, intent, claim)
        admission.check_plan(case, claim.intent_id, claim.principal, details, claim.plan_id)
    facts: list[AnyFact] = [
        f.PlanRecorded(
            intent_id=claim.intent_id, plan_id=claim.plan_id, intent_version=claim.intent_version,
            status="ADOPTED" if claim.adopt else "CANDIDATE", replaces=claim.replaces, content_digest=content,
            steps=details, commitments=claim.commitments,
            deadline_at=case.now + case.catalogue.plan_progress_ms if claim.adopt else None,
            burden=burden_of(details, claim.commitments, case.catalogue),
        )
    ]  # fmt: skip
    if claim.adopt and (intent.plan_id is not None or intent.operations_open or intent.commitments_open):
        facts += _replan(case, intent, claim, details)
    return Ruling("ACCEPTED", "OK", "", claim.plan_id, "ADOPTED" if claim.adopt else "CANDIDATE", facts)


def _content(claim: c.Plan, details: list[f.StepDetail], adopt: bool) -> str:
    said = (adopt, claim.replaces) if adopt else ()
    return digest_of(claim.intent_version, *said, details, sorted(claim.commitments))


def _check_replaces(case: Case, intent: Intent, claim: c.Plan) -> None:
    """`replaces` names the plan in force, or none. One that a higher version has ended may be named or left out."""
    if claim.replaces == intent.plan_id:
        return
    if intent.plan_id is None and claim.replaces is not None:
        named = case.state.plans.get(plan_key(intent.intent_id, claim.replaces))
        if named is not None and named.status == "SUPERSEDED":
            return
    refuse("PLAN_CONFLICT", f"it replaces {claim.replaces}, but {intent.plan_id} is in force", claim.plan_id)


def _details(case: Case, claim: c.Plan) -> list[f.StepDetail]:
    """The steps with what the catalogue says of them, in the order that listing and REQUIRES edges give."""
    steps: dict[str, c.PlanStep] = {}
    for step in claim.steps:
        if not step["step_id"] or not step["step_id"].isprintable():
            refuse("MALFORMED", "each step needs a step_id without control characters", claim.plan_id)
        if step["step_id"] in steps:
            refuse("DUPLICATE_STEP", f"two steps are called {step['step_id']}", claim.plan_id)
        steps[step["step_id"]] = step
    order = _ordered(claim, steps) if any(step.get("edges") for step in claim.steps) else list(steps)
    slots: dict[str, str] = {}
    details: list[f.StepDetail] = []
    for ordinal, step_id in enumerate(order):
        detail = _detail(case, claim, steps[step_id], ordinal)
        twin = slots.setdefault(detail["slot_id"], step_id)
        if twin != step_id:
            refuse("DUPLICATE_SLOT", f"steps {twin} and {step_id} are both {detail['action']} of "
                   f"'{detail['business_key']}'", claim.plan_id)  # fmt: skip
        details.append(detail)
    return _pivots_last(case, details) if any(one["pivot"] for one in details) else details


def _pivots_last(case: Case, details: list[f.StepDetail]) -> list[f.StepDetail]:
    """The steps with the pivots behind all that can be undone or repeated, wherever they were listed.

    Behind a pivot stays what requires it, and what only looks.
    """
    first: list[f.StepDetail] = []
    last: list[f.StepDetail] = []
    behind: set[str] = set()
    for one in details:
        looks = bool(last) and case.catalogue.actions[one["action"]].effect == "OBSERVE"
        requires = any(edge["kind"] == "REQUIRES" and edge["step_id"] in behind for edge in one["edges"])
        if one["pivot"] or looks or requires:
            last.append(one)
            behind.add(one["step_id"])
        else:
            first.append(one)
    return [{**one, "ordinal": ordinal} for ordinal, one in enumerate([*first, *last])]


def _detail(case: Case, claim: c.Plan, step: c.PlanStep, ordinal: int) -> f.StepDetail:
    step_id = step["step_id"]
    action = case.catalogue.actions.get(step["action"])
    if action is None:
        refuse("UNKNOWN_ACTION", f"step {step_id}: the catalogue has no action {step['action']}", claim.plan_id)
    arguments = _sorted(step.get("arguments", {}), step_id)
    business_key = _business_key(claim, action, step, arguments)
    if action.effect == "OBSERVE":
        # Looking has no lasting effect: what is looked at twice is two operations, told apart by plan and step.
        business_key = f"{business_key}@{claim.plan_id}/{step_id}"
    return {
        "step_id": step_id, "ordinal": ordinal, "action": action.name, "business_key": business_key,
        "slot_id": operation_id(claim.intent_id, action.name, business_key, 1), "arguments": arguments,
        "goal_id": step.get("goal_id"), "edges": step.get("edges", []), "parallel": step.get("parallel", False),
        "pivot": action.kind == "PIVOT", "irreversible": action.irreversible,
        "commitments": step.get("commitments", []),
        "condition": _condition(case, claim, action, step_id, step.get("condition")),
    }  # fmt: skip


def _condition(case: Case, claim: c.Plan, action: Action, step_id: str, said: str | None) -> str | None:
    """The condition that a step names for its obligation; refused where it has none, or its type has its own."""
    if said is None:
        return None
    kind = case.catalogue.obligations.get(action.obligation or "")
    if kind is None:
        refuse("MALFORMED", f"step {step_id}: a condition belongs to an obligation, and {action.name} makes none",
               claim.plan_id)  # fmt: skip
    if kind.condition:
        refuse("MALFORMED", f"step {step_id}: the catalogue says what {kind.name} waits for ({kind.condition}); leave "
               "the condition out", claim.plan_id)  # fmt: skip
    if not said or not said.isprintable():
        refuse("MALFORMED", f"step {step_id}: a condition is a name without control characters", claim.plan_id)
    return said


def _business_key(claim: c.Plan, action: Action, step: c.PlanStep, arguments: c.Arguments) -> str:
    """The entity that the step acts on: named by its arguments wherever they are given, by the planner only else."""
    step_id, said, natural = step["step_id"], step.get("business_key", "").strip(), natural_key(action, arguments)
    if natural is None and action.business_key and not said:
        refuse("MALFORMED", f"step {step_id}: its business key {action.business_key} needs arguments that are not "
               "given", claim.plan_id)  # fmt: skip
    if natural == "":
        refuse("MALFORMED", f"step {step_id}: an argument in its business key {action.business_key} is empty",
               claim.plan_id)  # fmt: skip
    if natural is not None and said not in ("", natural):
        refuse("KEY_MISMATCH", f"step {step_id}: its arguments make the business key '{natural}', not '{said}'",
               claim.plan_id)  # fmt: skip
    return said if natural is None else natural


def _ordered(claim: c.Plan, steps: dict[str, c.PlanStep]) -> list[str]:
    """Step ids in listing order, moved behind what they require; CYCLE where that can't be."""
    places = {step_id: place for place, step_id in enumerate(steps)}
    waits: dict[str, list[str]] = {}
    for step_id, step in steps.items():
        needs = set()
        for edge in step.get("edges", []):
            if edge["step_id"] not in steps:
                refuse("UNKNOWN_STEP", f"step {step_id} has an edge to {edge['step_id']}", claim.plan_id)
            if edge["kind"] == "REQUIRES":
                needs.add(edge["step_id"])
        waits[step_id] = sorted(needs, key=places.__getitem__)
    order: list[str] = []
    placed: set[str] = set()
    path: set[str] = set()

    # An explicit stack, for a chain of a thousand steps must not meet the interpreter's recursion limit.
    for root in steps:
        stack = [root]
        while stack:
            step_id = stack[-1]
            awaited = next((one for one in waits[step_id] if one not in placed), None)
            if step_id in placed:
                stack.pop()
            elif awaited is not None:
                path.add(step_id)
                if awaited in path:
                    refuse("CYCLE", f"step {awaited} requires itself in the end", claim.plan_id)
                stack.append(awaited)
            else:
                placed.add(step_id)
                path.discard(step_id)
                order.append(stack.pop())
    return order


def _replan(case: Case, intent: Intent, claim: c.Plan, details: list[f.StepDetail]) -> list[AnyFact]:
    """What the change of plan does: the old one ends, what had no permit is withdrawn, commitments are sorted out."""
    facts: list[AnyFact] = []
    if intent.plan_id is not None:
        facts += end_plan(case, intent, intent.plan_id, "SUPERSEDED", claim.plan_id)
    facts += withdraw_unpermitted(case, intent, f"plan {claim.plan_id} was adopted")
    withdrawn = {fact.operation_id for fact in facts if isinstance(fact, f.OperationWithdrawn)}
    slots = {f"{one['action']}\x1f{one['business_key']}": one["arguments"] for one in details}
    named = set(claim.commitments).union(*(one["commitments"] for one in details))
    return facts + dispositions.on_planned(case, intent, slots, named, withdrawn)


def end_plan(case: Case, intent: Intent, plan_id: str, status: f.PlanStatus, by: str) -> list[AnyFact]:
    """The plan lost its force: so it waits for nothing, and that it stalled concerns nobody any more."""
    ended = f.PlanEnded(intent_id=intent.intent_id, plan_id=plan_id, status=status, by=by)
    return [ended, *commitments.cleared(case, intent.intent_id, f"{intent.intent_id}/{plan_id}", ("STALLED_PLAN",), by)]


def withdraw_unpermitted(case: Case, intent: Intent, cause: str) -> list[AnyFact]:
    """Withdraw what was never allowed to act; discharging work goes on, and so does the tracking of what may act."""
    facts: list[AnyFact] = []
    if not intent.operations_open:
        return facts
    for one in case.state.open_operations.members(intent.intent_id):
        operation = case.state.operations.get(one)
        if operation is not None and operation.plan_id and operation.status in ("STAGED", "VALIDATED"):
            facts += outcomes.withdraw(case, operation, cause)
    return facts


# --- Dispatch --------------------------------------------------------------------------------------------------------


def dispatch(case: Case, claim: c.Dispatch) -> Ruling:
    """Start the step's operation, or say how the one that its slot has is doing."""
    intent = case.current_intent(claim.intent_id, claim.intent_version)
    plan, step = case.planned_step(intent, claim.plan_id, claim.step_id)
    action = case.catalogue.actions.get(step.action)
    if action is None:
        refuse("UNKNOWN_ACTION", f"the catalogue in force has no action {step.action}")
    arguments = _asked(action, step, claim.arguments)
    current = case.slot_operation(step)
    if current is not None and current.status in order.OPEN_OR_SETTLED:
        return _same_wish(claim, action, step, arguments, current)
    if max(intent.operations_open, intent.commitments_open) >= _most_open(case, intent, action):
        open_now = f"{intent.operations_open} operations and {intent.commitments_open} commitments"
        refuse("COMMITMENT_DEBT", f"it has {open_now} open, and may have {OPEN_MAX} of each", step.slot_id)
    generation = 1 if current is None else current.generation + 1
    identity = (
        step.slot_id if generation == 1 else operation_id(claim.intent_id, step.action, step.business_key, generation)
    )
    if claim.idempotency_key is not None and claim.idempotency_key != identity:
        refuse("KEY_MISMATCH", f"the key of this wish is {identity}, not {claim.idempotency_key}", identity)
    if step.goal_id is not None:
        _check_goal(case, intent, action, step.goal_id, identity)
    if step.commitments or step.edges:
        reliance.check(case, step, identity)
    waits = order.unmet(case, plan, step)
    if waits is not None:
        refuse(*waits, identity)
    needs = (
        resources.needed(case, action, intent, claim.principal, step.business_key, arguments)
        if action.resources else {}
    )  # fmt: skip
    taken = draws.drawn(case, action, step, arguments, identity) if action.draws else []
    commitment = commitment_for(action, claim.intent_id, step.business_key, arguments, generation)
    admission.check_budget(case, intent, action, identity)
    admission.check_dispatch(case, action, claim.intent_id, claim.principal, commitment)
    operation = opened(
        case, action, intent_id=claim.intent_id, intent_version=intent.version, plan_id=claim.plan_id,
        step_id=claim.step_id, goal_id=step.goal_id, business_key=step.business_key, arguments=arguments,
        generation=generation, commitment=commitment, requested_by=claim.principal, identity=identity,
        needs=bool(needs),
    )  # fmt: skip
    more: list[AnyFact] = []
    if commitment is not None:
        custody.check_owner(case, f"intent:{claim.intent_id}", operation.operation_id)
        condition = conditions.condition_of(case, action, step.condition, step.business_key, arguments)
        obligation = proposed(case, action, operation, condition)
        if obligation is not None:
            more.append(obligation)
            if condition is not None and not conditions.is_met(case, intent.intent_id, condition):
                operation, pending = _until_met(case, operation, obligation)
                more.append(pending)
            more += versions.withdraw_older(case, obligation)
    if (step.commitments or step.edges) and _is_free(operation):
        operation, asks = _until_seen(case, step, operation)
        more += asks
    facts: list[AnyFact] = [operation]
    if needs:
        facts += resources.wanted(operation, needs)
    facts += more
    if taken:
        facts += draws.facts_of(case, taken, operation)
    facts += approvals.carried(case, action, current, operation)
    return Ruling("ACCEPTED", "OK", "", operation.operation_id, operation.status, facts)


def _most_open(case: Case, intent: Intent, action: Action) -> int:
    """How much of each the intent may have open for `action` to start: twice as much for what makes it less."""
    full = max(intent.operations_open, intent.commitments_open) >= OPEN_MAX
    return 2 * OPEN_MAX if full and admission.discharges(case.catalogue, action) else OPEN_MAX


def _check_goal(case: Case, intent: Intent, action: Action, goal_id: str, identity: str) -> None:
    """Refuse what would work on a goal that is reached. Looking at it, and what discharges, stays allowed."""
    sources = sparing.spared_by(case, intent, action, goal_id)
    if not sources:
        return
    refuse(sparing.REACHED, sparing.shown(action.name, goal_id, sources), identity, "SATISFIED")


def _is_free(operation: f.OperationOpened) -> bool:
    """Whether nothing holds it but the arbiter, who is asked last."""
    return operation.status != "STAGED" or operation.timer == "RESOURCES"


def _until_met(
    case: Case, operation: f.OperationOpened, obligation: f.CommitmentProposed
) -> tuple[f.OperationOpened, f.CommitmentChanged]:
    """The operation STAGED, unless it is so already, and its obligation PENDING_CONDITION, until both may go on."""
    deadline = case.now + obligation_of(case, obligation).condition_ms
    if _is_free(operation):
        operation = changed(operation, status="STAGED", timer="CONDITION", deadline_at=deadline)
    pending = f.CommitmentChanged(
        commitment_id=obligation.commitment_id, intent_id=obligation.intent_id, before="PROPOSED",
        after="PENDING_CONDITION", cause=f"waits for {obligation.condition}", evidence=[], operation_id=None,
        timer="CONDITION", deadline_at=deadline,
    )  # fmt: skip
    return operation, pending


def _until_seen(case: Case, step: Step, operation: f.OperationOpened) -> tuple[f.OperationOpened, list[AnyFact]]:
    """The operation, STAGED while what it relies on is looked at, if that was too long ago; and what is asked then."""
    wait = waiting.revalidation(case, step)
    if wait is None:
        return operation, []
    return changed(operation, status="STAGED", timer=wait.timer, deadline_at=wait.deadline_at), wait.asks


def _asked(action: Action, step: Step, arguments: c.Arguments | None) -> c.Arguments:
    """The arguments to act on: the plan's, or the claim's where they say the same or the plan left them open."""
    if arguments is None or arguments == step.arguments:
        return step.arguments
    if step.arguments and digest(action, step.business_key, arguments) != digest(
        action, step.business_key, step.arguments
    ):
        refuse("KEY_PAYLOAD_MISMATCH", f"step {step.step_id} was planned with other arguments", step.slot_id)
    natural = natural_key(action, arguments)
    # A look's key ends with its plan and step, and has no lasting effect that could meet another's.
    if natural is not None and natural != step.business_key and action.effect != "OBSERVE":
        refuse("KEY_MISMATCH", f"step {step.step_id} was planned for '{step.business_key}', and these arguments make "
               f"it '{natural}'", step.slot_id)  # fmt: skip
    return _sorted(arguments, step.step_id)


def _sorted(arguments: c.Arguments, step_id: str) -> c.Arguments:
    """The arguments by name; refused if one is no number that every language and store knows."""
    if not arguments:
        return arguments
    for name, value in arguments.items():
        if isinstance(value, float) and not isfinite(value):
            refuse("MALFORMED", f"step {step_id}: the argument {name} is {value}, which is no number", step_id)
    return dict(sorted(arguments.items()))


def _same_wish(claim: c.Dispatch, action: Action, step: Step, arguments: c.Arguments, current: Operation) -> Ruling:
    identity, status = current.operation_id, current.status
    if claim.idempotency_key is not None and claim.idempotency_key != identity:
        refuse("KEY_MISMATCH", f"this wish has the key {identity}, not {claim.idempotency_key}", identity, status)
    if current.arguments != arguments and digest(action, step.business_key, arguments) != current.content_digest:
        refuse("KEY_PAYLOAD_MISMATCH", f"operation {identity} was dispatched with other arguments", identity, status)
    reason = "IN_DOUBT_PENDING" if status in ("IN_DOUBT", "ESCALATED") else "SAME_OPERATION"
    return Ruling("REPLAYED", reason, f"operation {identity} is {status}", identity, status)


# --- Succeed ---------------------------------------------------------------------------------------------------------


def succeed(case: Case, claim: c.Succeed) -> Ruling:
    """Prose is not a commit (law 1): only a settled, verified operation makes a step succeed."""
    intent = case.current_intent(claim.intent_id, claim.intent_version)
    _, step = case.planned_step(intent, claim.plan_id, claim.step_id)
    operation = case.slot_operation(step)
    if operation is None:
        refuse("NOT_COMMITTED", f"step {claim.step_id} was never dispatched", step.slot_id)
    identity, status = operation.operation_id, operation.status
    if status != "SETTLED":
        refuse("NOT_COMMITTED", f"the operation of step {claim.step_id} is {status}", identity, status)
    if operation.compensating:
        refuse("COMPENSATION", f"the operation of step {claim.step_id} is to be undone", identity, status)
    if step.succeeded and operation.claimed:
        return Ruling("REPLAYED", "ALREADY_SO", f"step {claim.step_id} has succeeded", identity, status)
    lacks = order.unverified(case, operation)
    if lacks is not None:
        refuse("NOT_VERIFIED", f"step {claim.step_id} is committed, but {lacks}", identity, status)
    by = order.invalidated(case, step, operation) if step.invalidated_by else None
    if by is not None:
        refuse("DEPENDENCY_UNMET", f"step {by} has invalidated step {claim.step_id}: compensate it, or plan again",
               identity, status)  # fmt: skip
    fact = f.StepSucceeded(
        intent_id=claim.intent_id, plan_id=claim.plan_id, step_id=claim.step_id, operation_id=identity
    )
    return Ruling("ACCEPTED", "OK", "", identity, status, [fact])
