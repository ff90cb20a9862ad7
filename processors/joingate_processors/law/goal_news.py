"""What systems of record say of goals, and the waiting work that nobody has to do once one is shown to be reached.

What waits for an approval, a hold window, a condition or a resource is withdrawn in the very decision that shows the
goal, so that no person is asked in vain. What waits for its permit is told when it asks (`outcomes`), for the goal may
be open again by then. What may have acted already is judged by its effect.
"""

from joingate_processors.law import outcomes, sparing
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.goals import SAYS_NOTHING, lacking, reached, shown_by
from joingate_processors.law.news import kept, outdated, recorded
from joingate_processors.law.state import Intent, goal_key
from joingate_schemas import claims as c
from joingate_schemas.claims import Finding
from joingate_schemas.facts import AnyFact


def observe_goal(case: Case, claim: c.Observe) -> Ruling:
    """News about a goal: shown, it needs no more work; shown otherwise by newer news, it does again."""
    intent = case.state.intents.get(claim.intent_id)
    if intent is None or claim.subject_id not in intent.goals:
        return kept(claim, "", f"kept; intent {claim.intent_id} has no goal {claim.subject_id} now")
    news = case.state.goals.get(goal_key(claim.intent_id, claim.subject_id))
    before = "SATISFIED" if reached(case.state, intent, claim.subject_id) else "OPEN"
    old = outdated(claim, {} if news is None else news.news, before)
    if old is not None:
        return old
    missing = lacking(intent, claim.subject_id, claim.evidence) if claim.finding == "PRESENT" else []
    if missing:
        return kept(claim, before, f"kept; its acceptance needs evidence of {', '.join(missing)}, as in "
                    f"{missing[0]}:123")  # fmt: skip
    if claim.finding in SAYS_NOTHING:
        return kept(claim, before, "kept")
    sources = shown_by(case.state, intent, claim.subject_id, claim.source) if claim.finding == "PRESENT" else []
    withdrawn = _withdraw_waiting(case, intent, claim.subject_id, sources) if sources else []
    return Ruling("ACCEPTED", "OK", _told(claim.finding), claim.subject_id, "", [recorded(claim), *withdrawn])


def _told(finding: Finding) -> str:
    return "its acceptance is observed" if finding == "PRESENT" else "it is open: its source does not show it"


def _withdraw_waiting(case: Case, intent: Intent, goal_id: str, sources: list[str]) -> list[AnyFact]:
    """The goal's operations that are STAGED, withdrawn. Their approvals are kept, for the same content asked again."""
    facts: list[AnyFact] = []
    for one in case.state.open_operations.members(intent.intent_id) if intent.operations_open else ():
        operation = case.state.operations.get(one)
        if operation is None or operation.status != "STAGED" or operation.goal_id != goal_id:
            continue
        if operation.plan_id and sparing.can_be_spared(case, case.action_of(operation)):
            facts += outcomes.withdraw(
                case, operation, f"{sparing.REACHED}: {sparing.shown(operation.action, goal_id, sources)}"
            )
    return facts
