"""Work that nobody has to do any more: its goal is shown to be reached without it, so that it leaves no hole.

A planner still names each step, so that it is on record what was spared; a step that was begun is judged by its effect.
"""

from joingate_processors.law import admission, goals
from joingate_processors.law.case import Case
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT
from joingate_processors.law.state import Intent, Operation, Step
from joingate_schemas.catalogue import Action

REACHED = "OBJECTIVE_ALREADY_SATISFIED"
"""Why nothing is done for a goal that is reached."""


def can_be_spared(case: Case, action: Action | None) -> bool:
    """Whether a goal that is reached leaves `action` nothing to do.

    Looking at a goal, and what discharges an obligation, always has something to do.
    """
    return action is not None and action.effect != "OBSERVE" and not admission.discharges(case.catalogue, action)


def spared_by(case: Case, intent: Intent, action: Action, goal_id: str) -> list[str]:
    """The sources that showed the goal to be reached, so that `action` has nothing to do for it; empty while it has."""
    sources = goals.reached(case.state, intent, goal_id)
    return sources if sources and can_be_spared(case, action) else []


def shown(action: str, goal_id: str, sources: list[str]) -> str:
    """Who showed the goal to be reached, and what therefore need not be done."""
    return f"{', '.join(sources)} showed that goal {goal_id} is reached, so it needs no {action}"


def overtaken(case: Case, operation: Operation) -> str | None:
    """Why the operation has nothing to do any more, as a sentence; None if it has, or may have acted already."""
    intent = None if operation.goal_id is None else case.state.intents.get(operation.intent_id)
    action = case.action_of(operation)
    if intent is None or operation.goal_id is None or action is None or operation.permits or not operation.plan_id:
        return None
    sources = spared_by(case, intent, action, operation.goal_id)
    return shown(action.name, operation.goal_id, sources) if sources else None


def is_spared(case: Case, step: Step) -> bool:
    """Whether nothing of the step is or was done, and nothing has to be: it counts as joined."""
    intent = None if step.goal_id is None else case.state.intents.get(step.intent_id)
    action = case.catalogue.actions.get(step.action)
    if intent is None or action is None or step.goal_id is None:
        return False
    operation = case.slot_operation(step)
    untouched = operation is None or operation.status in ENDED_WITHOUT_EFFECT
    return untouched and bool(spared_by(case, intent, action, step.goal_id))
