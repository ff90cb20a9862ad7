"""What facts do to goals: the tree that an intent declares, and what sources say of its nodes."""

from joingate_processors.law.evolve_life import latest_news
from joingate_processors.law.goals import SAYS_NOTHING, lacking, parents_of, subtrees
from joingate_processors.law.state import GoalNews, State, goal_key, newness
from joingate_schemas import facts as f
from joingate_schemas.record import changed


def declared(fact: f.IntentDeclared) -> dict[str, object]:
    """The fields of an intent's row that a version declares anew beside its goals' digests."""
    required = {goal["goal_id"]: list(goal.get("evidence_requirements") or ()) for goal in fact.goals}
    return {
        "parents": parents_of(fact.goals),
        "required": {goal_id: kinds for goal_id, kinds in required.items() if kinds},
        "budgets": fact.budgets,
        "close_needs_goals": fact.close_needs_goals,
    }


def observed(state: State, fact: f.ObservationRecorded, stamps: dict[str, int]) -> None:
    """What a source says of a goal counts until it says something newer, for as long as the goal stays what it is."""
    intent = state.intents.get(fact.intent_id)
    if intent is None or fact.subject_id not in intent.goals:
        return
    key = goal_key(fact.intent_id, fact.subject_id)
    row = state.goals.get(key) or GoalNews(intent_id=fact.intent_id, goal_id=fact.subject_id, said={}, grounds={},
                                           news={})  # fmt: skip
    if newness(stamps, row.news) < 0:
        return
    row = changed(row, news=latest_news(row.news, stamps))
    unproven = fact.finding == "PRESENT" and lacking(intent, fact.subject_id, fact.evidence)
    if fact.finding not in SAYS_NOTHING and not unproven:
        ground = subtrees(intent.goals, intent.parents)[fact.subject_id]
        row = changed(row, said={**row.said, fact.source: fact.finding}, grounds={**row.grounds, fact.source: ground})
    state.goals.put(key, row)
