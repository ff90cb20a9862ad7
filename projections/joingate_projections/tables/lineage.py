"""The table of lineage: what led to what, edge by edge, each with the ledger position that caused it (model §3).

Nodes are intent, goal, commitment, task (a planned step), operation, attempt, effect and verification. An edge is one
row, found from either end. LEADS_TO is the hierarchy; UNDONE_BY leads from an operation to the one that undoes it,
USES from a task to a commitment that it relies on. A plan's own edges lie between its tasks under their own kinds.
"""

from typing import Literal, TypeAlias

from joingate_projections.tables import At, Row, Rows, joined

NodeKind: TypeAlias = Literal["INTENT", "GOAL", "COMMITMENT", "TASK", "OPERATION", "ATTEMPT", "EFFECT", "VERIFICATION"]
CONCLUSIVE = frozenset({"PRESENT", "ABSENT", "REVOKED"})
"""Findings that verify something, either way; the others only say that it was looked at."""


def node(kind: NodeKind, *ids: str) -> str:
    """The name of a node: its kind, then its ids from the outermost in."""
    return joined(kind, *ids)


def link(rows: Rows, above: str, below: str, at: At, kind: str = "LEADS_TO", told: Row | None = None) -> None:
    """An edge; one that is there already keeps the position that first caused it."""
    key = joined(kind, above, below)
    old = rows.get("lineage", key)
    if old is None or old["until"] is not None:
        edge = {"kind": kind, "above": above, "below": below, "at": at.position, "time": at.time, "until": None}
        rows.put("lineage", key, {**edge, **told} if told else edge)


def unlink(rows: Rows, above: str, below: str, at: At) -> None:
    """The edge holds no longer; it stays on the record, with the position that ended it."""
    key = joined("LEADS_TO", above, below)
    old = rows.get("lineage", key)
    if old is not None and old["until"] is None:
        rows.put("lineage", key, {**old, "until": at.position})


def goal_or_intent(rows: Rows, intent_id: str, goal_id: str | None, at: At) -> str:
    """The node that something for this goal hangs from; a goal that the intent never stated hangs from the intent."""
    if goal_id is None:
        return node("INTENT", intent_id)
    goal = node("GOAL", intent_id, goal_id)
    if rows.get("goals", joined(intent_id, goal_id)) is None:
        link(rows, node("INTENT", intent_id), goal, at)
    return goal


def task_planned(rows: Rows, step: Row, at: At) -> None:
    """A task of an adopted plan, under its goal, with what it uses and how it stands to the plan's other tasks."""
    intent_id, plan_id = step["intent_id"], step["plan_id"]
    task = node("TASK", intent_id, plan_id, step["step_id"])
    link(rows, goal_or_intent(rows, intent_id, step["goal_id"], at), task, at)
    for commitment_id in step["commitments"]:
        link(rows, task, node("COMMITMENT", commitment_id), at, "USES")
    for edge in step["edges"]:
        link(rows, task, node("TASK", intent_id, plan_id, edge["step_id"]), at, edge["kind"])
    if step["operation_id"] is not None:
        link(rows, task, node("OPERATION", step["operation_id"]), at)


def operation_opened(rows: Rows, operation: Row, at: At) -> None:
    """An operation with its first attempt: under its task, or under what it discharges."""
    one = node("OPERATION", operation["operation_id"])
    intent_id = operation["intent_id"]
    if operation["compensates"] is not None:
        link(rows, node("OPERATION", operation["compensates"]), one, at, "UNDONE_BY")
    elif operation["plan_id"]:
        link(rows, node("TASK", intent_id, operation["plan_id"], operation["step_id"]), one, at)
    elif operation["commitment_id"] is not None:
        link(rows, node("COMMITMENT", operation["commitment_id"]), one, at)
    else:
        link(rows, goal_or_intent(rows, intent_id, operation["goal_id"], at), one, at)
    attempt_started(rows, operation["operation_id"], operation["attempt"], at)


def attempt_started(rows: Rows, operation_id: str, attempt: int, at: At) -> None:
    """One more attempt of the operation."""
    link(rows, node("OPERATION", operation_id), _attempt(operation_id, attempt), at)


def effect_known(rows: Rows, operation_id: str, attempt: int, external_id: str, at: At, *, stray: bool) -> str:
    """An effect of an attempt; returns its node."""
    effect = node("EFFECT", operation_id, str(attempt), external_id)
    link(rows, _attempt(operation_id, attempt), effect, at, told={"external_id": external_id, "stray": stray})
    return effect


def verified(rows: Rows, subject: str, finding: str, source: str, evidence: list[str], at: At) -> None:
    """Somebody other than the executor saw how it is with an effect, a commitment or a goal."""
    verification = node("VERIFICATION", subject, source, f"{at.partition}:{at.seq}")
    told = {"finding": finding, "source": source, "evidence": evidence}
    link(rows, subject, verification, at, told=told)


def commitment_proposed(rows: Rows, commitment: Row, at: At) -> None:
    """A commitment under its goal or intent, and above the task that makes it."""
    one = node("COMMITMENT", commitment["commitment_id"])
    intent_id = commitment["intent_id"]
    link(rows, goal_or_intent(rows, intent_id, commitment["goal_id"], at), one, at)
    if commitment["step_id"]:
        link(rows, one, node("TASK", intent_id, commitment["plan_id"], commitment["step_id"]), at)


def _attempt(operation_id: str, attempt: int) -> str:
    return node("ATTEMPT", operation_id, str(attempt))
