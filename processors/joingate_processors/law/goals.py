"""Goals that are seen to be reached: what is so already needs no work, and what was not begun for it leaves no hole.

A planner still names each step, so that it is on record what was spared; a step that was begun is judged by its effect.
"""

from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.news import kept, outdated
from joingate_processors.law.state import Step, condition_key, goal_condition
from joingate_schemas import claims as c

_NEVER_DONE = ("FAILED", "WITHDRAWN")


def is_reached(case: Case, intent_id: str, goal_id: str | None) -> bool:
    """Whether the latest that was said of the goal, as it is stated now, is that it is so."""
    condition = goal_condition(case.state.intents.get(intent_id), goal_id) if goal_id else None
    row = None if condition is None else case.state.conditions.get(condition_key(intent_id, condition))
    return row is not None and row.finding == "PRESENT"


def needless(case: Case, step: Step) -> str | None:
    """Why the step has nothing to do any more, as a sentence; None if it has. A look may always be taken."""
    action = case.catalogue.actions.get(step.action)
    if action is None or action.effect == "OBSERVE" or not is_reached(case, step.intent_id, step.goal_id):
        return None
    return f"goal {step.goal_id} is seen to be reached, so step {step.step_id} has nothing to do"


def is_spared(case: Case, step: Step) -> bool:
    """Whether nothing of the step is or was done, and its goal is reached all the same: it counts as joined."""
    operation = case.slot_operation(step) if step.goal_id else None
    untouched = operation is None or operation.status in _NEVER_DONE
    return step.goal_id is not None and untouched and is_reached(case, step.intent_id, step.goal_id)


def observe_goal(case: Case, claim: c.Observe) -> Ruling:
    """What is seen of a goal is kept, and decides from now on whether there is anything to do for it."""
    condition = goal_condition(case.state.intents.get(claim.intent_id), claim.subject_id)
    if condition is None:
        return kept(claim, "", f"intent {claim.intent_id} has no goal {claim.subject_id}, so nothing comes of it")
    known = case.state.conditions.get(condition_key(claim.intent_id, condition))
    stale = None if known is None else outdated(claim, known.news, known.finding)
    return stale or kept(claim, claim.finding, "")
