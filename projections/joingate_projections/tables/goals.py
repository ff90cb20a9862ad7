"""The table of goals: each a state that should become true, how one would know, and what has been seen of it.

A goal is its intent's: a higher version may state it anew, move it under another, or leave it out (DROPPED). What was
done for it, and what it has outside, is counted here by whoever folds operations and commitments.
"""

from collections.abc import Collection

from joingate_projections.tables import NOTHING_OUTSIDE, At, Row, Rows, joined, lineage, shown
from joingate_schemas.claims import Goal
from joingate_schemas.facts import IntentDeclared, ObservationRecorded

_NOTHING_OPEN = {**NOTHING_OUTSIDE, "orphans": 0}


def declared(rows: Rows, fact: IntentDeclared, before: Row | None, at: At) -> None:
    """The goals of a version; those of the version before that it leaves out are dropped."""
    known = {goal["goal_id"]: rows.get("goals", joined(fact.intent_id, goal["goal_id"])) for goal in fact.goals}
    for goal in fact.goals:
        put(rows, _stated(fact, goal, known[goal["goal_id"]], at))
    for goal in fact.goals:  # Once every row is there: a goal may come before the one that it is under.
        _place(rows, fact.intent_id, goal, known[goal["goal_id"]], at)
    _end(rows, before, "DROPPED", at, but=known.keys())


def _stated(fact: IntentDeclared, goal: Goal, old: Row | None, at: At) -> Row:
    row = {
        "goal_id": goal["goal_id"],
        "intent_id": fact.intent_id,
        "intent_version": fact.version,
        "since_version": fact.version,
        "acceptance": goal["acceptance"],
        "evidence_requirements": list(goal.get("evidence_requirements") or []),
        "risk_class": goal.get("risk_class") or "",
        "parent_goal_id": goal.get("parent_goal_id"),
        "status": "OPEN",
        "observation": None,
        **_NOTHING_OPEN,
        **at.born(),
    }
    if old is not None:
        row |= {name: old[name] for name in ("since_version", "created_at", "first", *_NOTHING_OPEN)}
        if old["acceptance"] == goal["acceptance"]:
            row["observation"] = old["observation"]  # What was seen is about the same state.
    return row


def _place(rows: Rows, intent_id: str, goal: Goal, old: Row | None, at: At) -> None:
    """Let the goal hang from its parent, and no longer from another that it had."""
    one = lineage.node("GOAL", intent_id, goal["goal_id"])
    parent = goal.get("parent_goal_id")
    if old is not None and old["parent_goal_id"] != parent:
        lineage.unlink(rows, lineage.goal_or_intent(rows, intent_id, old["parent_goal_id"], at), one, at)
    lineage.link(rows, lineage.goal_or_intent(rows, intent_id, parent, at), one, at)


def ended(rows: Rows, intent: Row, status: str, at: At) -> None:
    """The intent was cancelled or closed, and with it whatever goals were still open."""
    _end(rows, intent, status, at)


def _end(rows: Rows, intent: Row | None, status: str, at: At, but: Collection[str] = ()) -> None:
    if intent is None:
        return
    for goal_id in {goal["goal_id"] for goal in intent["goals"]} - set(but):
        row = rows.get("goals", joined(intent["intent_id"], goal_id))
        if row is not None and row["status"] == "OPEN":
            put(rows, {**row, "status": status, **at.touched()})


def observed(rows: Rows, fact: ObservationRecorded, news: Row, at: At) -> None:
    """The latest news about a goal."""
    row = rows.get("goals", joined(fact.intent_id, fact.subject_id))
    if row is None:
        return
    put(rows, {**row, "observation": news, **at.touched()})
    if fact.finding in lineage.CONCLUSIVE:
        subject = lineage.node("GOAL", fact.intent_id, fact.subject_id)
        lineage.verified(rows, subject, fact.finding, fact.source, fact.evidence, at)


def add(rows: Rows, intent_id: str, goal_id: str | None, by: dict[str, int], at: At) -> None:
    """Add to a goal's counts; zeros alone write nothing."""
    row = rows.get("goals", joined(intent_id, goal_id)) if goal_id is not None and any(by.values()) else None
    if row is not None:
        put(rows, {**row, **{name: row[name] + n for name, n in by.items()}, **at.touched()})


def put(rows: Rows, row: Row) -> None:
    """Set a goal's row with its word."""
    rows.put("goals", joined(row["intent_id"], row["goal_id"]), {**row, "shown": shown.of_goal(row)})
