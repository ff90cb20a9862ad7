"""Work that nobody has to do any more: its goal is shown to be reached without it, so that it leaves no hole.

A planner still names each step, so that it is on record what was spared; a step that was begun is judged by its effect.
"""

from joingate_processors.law import admission, goals
from joingate_processors.law.case import Case
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT
from joingate_processors.law.state import Intent, Step
from joingate_schemas.catalogue import Action


def spared_by(case: Case, intent: Intent, action: Action, goal_id: str) -> list[str]:
    """The sources that showed the goal to be reached, so that `action` has nothing to do for it; empty while it has.

    Looking at a goal, and what discharges an obligation, always has something to do.
    """
    sources = goals.reached(case.state, intent, goal_id)
    if not sources or action.effect == "OBSERVE" or admission.discharges(case.catalogue, action):
        return []
    return sources


def is_spared(case: Case, step: Step) -> bool:
    """Whether nothing of the step is or was done, and nothing has to be: it counts as joined."""
    intent = None if step.goal_id is None else case.state.intents.get(step.intent_id)
    action = case.catalogue.actions.get(step.action)
    if intent is None or action is None or step.goal_id is None:
        return False
    operation = case.slot_operation(step)
    untouched = operation is None or operation.status in ENDED_WITHOUT_EFFECT
    return untouched and bool(spared_by(case, intent, action, step.goal_id))
