"""Which steps wait for which: what counts as joined, and whether a step's order still lets it act.

It is asked when a step is dispatched and again when it is about to act, since what it rests on may be gone by then.
"""

from joingate_processors.law import sparing
from joingate_processors.law.case import Case
from joingate_processors.law.deadlines import expired
from joingate_processors.law.opening import ready, waiting_for_resources
from joingate_processors.law.state import Commitment, Operation, PlanRow, Step, plan_key, step_key
from joingate_processors.law.undoing import undo_unmet
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Action

OPEN_OR_SETTLED: frozenset[f.OperationStatus] = f.OPEN_OPERATION | {"SETTLED"}
Unmet = tuple[str, str]
"""What keeps a step from acting: the reason's name, and a sentence."""


def is_joined(case: Case, step: Step) -> bool:
    """Whether the step's effect is there, is what it has to be, and was not overtaken by a step that invalidates it;

    or whether nothing had to be done, since its goal was reached without it.
    """
    operation = case.slot_operation(step)
    if _stands(case, operation):
        return not step.invalidated_by or invalidated(case, step, operation) is None
    return sparing.is_spared(case, step)


def _stands(case: Case, operation: Operation | None) -> bool:
    if operation is None or operation.status != "SETTLED" or operation.compensating:
        return False
    return unverified(case, operation) is None


def unverified(case: Case, operation: Operation) -> str | None:
    """What a settled operation still lacks to be relied on, as a clause; None if nothing.

    An action may ask for an observation; an obligation that it made has to be in force, or fulfilled: what is being
    given back, was revoked or is not known to be there carries nobody.
    """
    action = case.action_of(operation)
    if action is not None and action.verification and not operation.observed:
        return "is not yet observed"
    commitment = case.state.commitments.get(operation.commitment_id) if operation.commitment_id else None
    lacks = None if commitment is None else carries_nobody(case, commitment)
    return None if lacks is None else f"made the commitment {lacks}"


def carries_nobody(case: Case, commitment: Commitment) -> str | None:
    """Why nothing may rely on the commitment, as a clause that begins with its id; None if something may."""
    if commitment.status not in ("ACTIVE", "SATISFIED"):
        return f"{commitment.commitment_id}, which is {commitment.status}"
    if expired(commitment, case.now):
        return f"{commitment.commitment_id}, whose time passed at {commitment.valid_until}"
    return None


def invalidated(case: Case, step: Step, operation: Operation | None) -> str | None:
    """The step that made this one's effect worthless by settling after it; None if there is none."""
    for by in step.invalidated_by:
        other = case.state.steps.get(step_key(step.intent_id, step.plan_id, by))
        rival = None if other is None else case.slot_operation(other)
        if other is None or rival is None or rival.status != "SETTLED" or operation is None:
            continue
        # Within one millisecond the plan's own order tells which came later.
        if (rival.settled_at or 0, other.ordinal) > (operation.settled_at or 0, step.ordinal):
            return by
    return None


def unmet(case: Case, plan: PlanRow, step: Step) -> Unmet | None:
    """Why the step may not act yet: what it requires is not joined, irreversible steps before it are not, its rival is
    there, or it is a pivot and not last. None if nothing speaks against it.
    """
    found = _edges_unmet(case, plan, step) if step.edges else None
    if found is None and step.commitments:
        found = _commitments_unmet(case, step)
    if found is None and step.pivot:
        found = _pivot_unmet(case, plan, step)
    return found or _barrier_unmet(case, plan, step)


def still_unmet(case: Case, operation: Operation) -> Unmet | None:
    """The same of an operation that is about to act. Looks nothing up where its step waits for no other."""
    if operation.compensates is not None:
        return undo_unmet(case, operation)
    if not operation.ordered:
        return None
    intent_id, plan_id = operation.intent_id, operation.plan_id
    plan = case.state.plans.get(plan_key(intent_id, plan_id))
    step = case.state.steps.get(step_key(intent_id, plan_id, operation.step_id))
    return None if plan is None or step is None else unmet(case, plan, step)


def start(case: Case, action: Action, operation: Operation) -> tuple[f.OperationStatus, f.Timer, int]:
    """Where a STAGED operation goes now: it asks for the resources that it lacks, or acts."""
    return waiting_for_resources(case) if lacking(operation) else act(case, action, operation)


def lacking(operation: Operation) -> list[str]:
    """The resources that the operation needs and was not granted, in the order in which they are asked for."""
    return sorted(reference for reference in operation.needs if reference not in operation.held)


def act(case: Case, action: Action, operation: Operation) -> tuple[f.OperationStatus, f.Timer, int]:
    """Where an operation that has all it needs goes: on, or while it would act out of order, it stays a while."""
    status, timer, deadline = ready(case, action, operation.phases)
    undoes = operation.compensates is not None
    if (status == "SUBMITTED" or undoes) and still_unmet(case, operation) is not None:
        return "STAGED", "HOLD", case.now + max(action.silence_ms, 1)
    return status, timer, deadline


def _edges_unmet(case: Case, plan: PlanRow, step: Step) -> Unmet | None:
    for edge in step.edges:
        if edge["kind"] not in ("REQUIRES", "CONFLICTS_WITH"):
            continue
        other = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, edge["step_id"]))
        if other is None:
            continue
        if edge["kind"] == "REQUIRES" and not is_joined(case, other):
            return "DEPENDENCY_UNMET", f"step {step.step_id} requires {other.step_id}, which is not joined"
        if edge["kind"] == "CONFLICTS_WITH":
            rival = case.slot_operation(other)
            if rival is not None and rival.status in OPEN_OR_SETTLED:
                return "DEPENDENCY_UNMET", (
                    f"step {step.step_id} conflicts with {other.step_id}, which is {rival.status}"
                )
    return None


def _commitments_unmet(case: Case, step: Step) -> Unmet | None:
    for one in step.commitments:
        row = case.state.commitments.get(one)
        lacks = f"{one}, which is not there" if row is None else carries_nobody(case, row)
        if lacks is not None:
            return "DEPENDENCY_UNMET", f"step {step.step_id} relies on the commitment {lacks}"
    return None


def _barrier_unmet(case: Case, plan: PlanRow, step: Step) -> Unmet | None:
    barrier = step.barrier
    while barrier is not None:
        before = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, barrier))
        if before is None:
            return None
        if not _is_behind(case, before):
            return "DEPENDENCY_UNMET", (f"the irreversible step {before.step_id} before {step.step_id} is not joined")
        # What was dispatched under this plan had its own barriers checked then: the walk is short.
        barrier = None if before.dispatched else before.barrier
    return None


def _is_behind(case: Case, step: Step) -> bool:
    """Whether the order may go on past the step: its effect is there, or undone by a record that names it.

    What REQUIRES it is another matter: where the effect is gone, or was invalidated, that stays refused.
    """
    operation = case.slot_operation(step)
    undone = operation is not None and operation.status == "COMPENSATED"
    return undone or _stands(case, operation) or sparing.is_spared(case, step)


def _pivot_unmet(case: Case, plan: PlanRow, pivot: Step) -> Unmet | None:
    """A pivot waits for every step before it; each plan walks this once a pivot, so a step's share stays constant."""
    at = plan.first_step
    while at is not None and at != pivot.step_id:
        step = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, at))
        if step is None:
            return None
        if not _is_behind(case, step):
            return "PIVOT_NOT_LAST", f"step {step.step_id} before the pivot {pivot.step_id} is not joined"
        at = step.following
    return None
