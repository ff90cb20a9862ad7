"""In which order effects are undone: the last one done first, and none while the effect that it undoes may yet land.

It is asked where a compensation is opened, whenever one that waits is looked at again, and when it asks for its permit.
"""

from joingate_processors.law.case import Case
from joingate_processors.law.state import Operation, plan_key, step_key

Unmet = tuple[str, str]
"""What keeps an operation from acting: the reason's name, and a sentence."""


def undo_unmet(case: Case, undo: Operation) -> Unmet | None:
    """Why the compensation may not act yet; None if nothing speaks against it, or it undoes no operation."""
    origin = case.state.operations.get(undo.compensates or "")
    return None if origin is None else unmet_for(case, origin)


def unmet_for(case: Case, origin: Operation) -> Unmet | None:
    """Why nothing may undo `origin` yet."""
    if origin.status in ("IN_DOUBT", "ESCALATED"):
        return "DEPENDENCY_UNMET", f"nobody knows by now whether {origin.operation_id}, which it undoes, happened"
    quiet_from = case.quiet_from(origin) if origin.permits > 1 else 0
    if case.now < quiet_from:
        return (
            "DEPENDENCY_UNMET",
            f"another attempt of {origin.operation_id}, which it undoes, may land until {quiet_from}",
        )
    later = _later_to_undo(case, origin)
    if later is not None:
        return "DEPENDENCY_UNMET", f"step {later.step_id} was done after step {origin.step_id}, and is undone before it"
    return None


def _later_to_undo(case: Case, origin: Operation) -> Operation | None:
    """An effect of the same plan that came after this one, and is itself to be undone and not undone yet."""
    plan = case.state.plans.get(plan_key(origin.intent_id, origin.plan_id))
    at = None if plan is None else plan.first_step
    mine = case.state.steps.get(step_key(origin.intent_id, origin.plan_id, origin.step_id))
    while at is not None:
        step = case.state.steps.get(step_key(origin.intent_id, origin.plan_id, at))
        if step is None or mine is None:
            return None
        at = step.following
        other = case.slot_operation(step) if step.dispatched and step.step_id != origin.step_id else None
        if other is None or not other.compensating or other.status not in ("SETTLED", "IN_DOUBT", "ESCALATED"):
            continue
        # Within one millisecond the plan's own order tells which came later.
        if (other.settled_at or 0, step.ordinal) > (origin.settled_at or 0, mine.ordinal):
            return other
    return None
