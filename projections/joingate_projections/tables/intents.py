"""The tables of intents, plans and steps: what each fact about them does to their rows.

A step's word follows the operation of its slot, which may have been opened under an earlier plan: `slots` (hidden)
leads from a slot to its latest operation and to the step of the latest adopted plan, `followers` (hidden) from an
operation to the steps of other plans that show it. Those are bounded, and so is the cost of a change of an operation.
"""

from joingate_projections.tables import (
    KEPT_MAX,
    NOT_ARCHIVED,
    NOTHING_OUTSIDE,
    At,
    Row,
    Rows,
    goals,
    joined,
    kept,
    lineage,
    shown,
)
from joingate_schemas.facts import (
    IntentCancelled,
    IntentClosed,
    IntentDeclared,
    PlanApproved,
    PlanEnded,
    PlanProgress,
    PlanRecorded,
    StepDetail,
    StepSucceeded,
)

# A step whose slot's operation ended so is to be done anew; any other operation is already the step's own.
_GONE = frozenset({"WITHDRAWN", "FAILED", "COMPENSATED"})


def intent_declared(rows: Rows, fact: IntentDeclared, at: At) -> None:
    """A first version makes the row; a higher one replaces what is wanted and keeps what is outside."""
    wanted = {
        "version": fact.version,
        "tenant": fact.tenant,
        "objective": fact.objective,
        "goals": fact.goals,
        "budgets": fact.budgets,
        "content_digest": fact.content_digest,
        "supersedes": fact.supersedes,
        "close_needs_goals": fact.close_needs_goals,
        "status": "OPEN",
        **NOT_ARCHIVED,
    }
    old = rows.get("intents", fact.intent_id)
    goals.declared(rows, fact, old, at)
    if old is not None:
        put_intent(rows, {**old, **wanted, **at.touched()})
        return
    orphans = rows.get("subject_orphans", joined("INTENT", fact.intent_id))
    put_intent(
        rows,
        {
            "intent_id": fact.intent_id,
            **wanted,
            "reason": "",
            "outcome": "",
            "plan_id": None,
            "plan_steps": 0,
            "plan_steps_joined": 0,
            **NOTHING_OUTSIDE,
            "orphans": orphans["count"] if orphans else 0,
            **at.born(),
        },
    )


def intent_cancelled(rows: Rows, fact: IntentCancelled, at: At) -> None:
    """Not wanted any more, and no plan in force; the counts of what is outside live on."""
    old = rows.get("intents", fact.intent_id)
    if old is not None:
        ended = {"status": "CANCELLED", "reason": fact.reason, "plan_id": None, "plan_steps": 0, "plan_steps_joined": 0}
        put_intent(rows, {**old, **ended, **at.touched()})
        goals.ended(rows, old, "CANCELLED", at)


def intent_closed(rows: Rows, fact: IntentClosed, at: At) -> None:
    """Finished."""
    old = rows.get("intents", fact.intent_id)
    if old is not None:
        put_intent(rows, {**old, "status": "CLOSED", "outcome": fact.outcome, **at.touched()})
        goals.ended(rows, old, "CLOSED", at)


def put_intent(rows: Rows, row: Row) -> None:
    """Set an intent's row with its word, and the tenant for whom something of it is open outside (None: nothing is)."""
    outside = row["operations_open"] or row["commitments_open"]
    open_for = row["intent_id"].partition("/")[0] if outside else None
    rows.put("intents", row["intent_id"], {**row, "shown": shown.of_intent(row), "open_for": open_for})


def add_to_intent(rows: Rows, intent_id: str, by: dict[str, int], at: At) -> None:
    """Add to an intent's counts; zeros alone write nothing."""
    old = rows.get("intents", intent_id)
    if old is not None and any(by.values()):
        put_intent(rows, {**old, **{name: old[name] + n for name, n in by.items()}, **at.touched()})


def plan_recorded(rows: Rows, fact: PlanRecorded, at: At) -> None:
    """A plan with its steps; recorded again (a candidate that is adopted now), it keeps where it began."""
    key = joined(fact.intent_id, fact.plan_id)
    old = rows.get("plans", key)
    adopted = fact.status == "ADOPTED"
    steps = [_planned(rows, fact, detail, adopted, at) for detail in fact.steps]
    rows.put("plan_steps", key, {"steps": [detail["step_id"] for detail in fact.steps]})
    subject_orphans = rows.get("subject_orphans", joined("PLAN", key))
    plan = {
        "plan_id": fact.plan_id,
        "intent_id": fact.intent_id,
        "intent_version": fact.intent_version,
        "status": fact.status,
        "replaces": fact.replaces,
        "ended_by": "",
        "content_digest": fact.content_digest,
        "commitments": fact.commitments,
        "burden": fact.burden,
        "approvals": [] if old is None else old["approvals"],
        "steps": len(steps),
        "steps_dispatched": sum(step["status"] != "PLANNED" for step in steps),
        "steps_joined": sum(step["joined"] for step in steps),
        "stalled": False,
        "stalled_since": None,
        "deadline_at": fact.deadline_at,
        "orphans": subject_orphans["ids"] if subject_orphans else [],
        **at.born(),
    }
    if old is not None:
        plan |= {"created_at": old["created_at"], "first": old["first"]}
    intent = rows.get("intents", fact.intent_id)
    if adopted and intent is not None:
        put_intent(rows, {**intent, "plan_id": fact.plan_id, **at.touched()})
    put_plan(rows, plan, at)


def _planned(rows: Rows, fact: PlanRecorded, detail: StepDetail, adopted: bool, at: At) -> Row:
    """Set the row of one step as planned, over the operation that its slot may have already."""
    key = joined(fact.intent_id, fact.plan_id, detail["step_id"])
    slot = rows.get("slots", detail["slot_id"])
    operation = rows.get("operations", slot["operation_id"]) if slot and slot["operation_id"] else None
    live = operation if operation is not None and operation["status"] not in _GONE else None
    old = rows.get("steps", key)
    step = {
        **detail,
        "intent_id": fact.intent_id,
        "plan_id": fact.plan_id,
        "status": "DISPATCHED" if live else "PLANNED",
        "joined": False,
        "operation_id": live["operation_id"] if live else None,
        "operation_status": live["status"] if live else None,
        "operation_shown": live["shown"] if live else None,
        **at.born(),
    }
    if old is not None:
        step |= {"created_at": old["created_at"], "first": old["first"]}
    put_step(rows, step)
    if adopted:
        lineage.task_planned(rows, step, at)
        lead_slot(rows, detail["slot_id"], slot["operation_id"] if slot else None, key, at)
    elif live is not None:
        _follow(rows, live["operation_id"], key, at)
    return step


def lead_slot(rows: Rows, slot_id: str, operation_id: str | None, step_key: str, at: At) -> None:
    """Let the slot lead to this operation and step. A step that stood for it goes on following its operation."""
    old = rows.get("slots", slot_id)
    if old is not None and old["operation_id"] is not None and old["step"] != step_key:
        _follow(rows, old["operation_id"], old["step"], at)
    rows.put("slots", slot_id, {"operation_id": operation_id, "step": step_key})


def _follow(rows: Rows, operation_id: str, step_key: str, at: At) -> None:
    """Let the step show the operation from here on; the oldest of too many lets go, and says so."""
    old = rows.get("followers", operation_id)
    known = old["steps"] if old else []
    if step_key in known:
        return
    steps = [*known, step_key]
    for left in steps[:-KEPT_MAX]:
        step = rows.get("steps", left)
        slot = rows.get("slots", step["slot_id"]) if step is not None else None
        if step is not None and (slot is None or slot["step"] != left):
            status = "SUPERSEDED" if step["status"] == "DISPATCHED" else step["status"]
            put_step(
                rows, {**step, "status": status, "operation_status": None, "operation_shown": None, **at.touched()}
            )
    rows.put("followers", operation_id, {"steps": steps[-KEPT_MAX:]})


def plan_approved(rows: Rows, fact: PlanApproved, at: At) -> None:
    """An approver's yes or no to the whole plan."""
    plan = rows.get("plans", joined(fact.intent_id, fact.plan_id))
    if plan is None:
        return
    said = {
        "principal": fact.principal,
        "digest": fact.digest,
        "granted": fact.granted,
        "expires_at": fact.expires_at,
        "steps_ahead": len(fact.contents),
        "at": at.time,
    }
    put_plan(rows, {**plan, "approvals": kept(plan["approvals"], said), **at.touched()}, at)


def plan_ended(rows: Rows, fact: PlanEnded, at: At) -> None:
    """A plan without force, replaced or ended with its intent: what was never dispatched is SUPERSEDED."""
    key = joined(fact.intent_id, fact.plan_id)
    plan = rows.get("plans", key)
    if plan is None:
        return
    superseded = fact.status == "SUPERSEDED"
    steps = rows.get("plan_steps", key)
    for step_id in steps["steps"] if steps else ():
        step = rows.get("steps", joined(key, step_id))
        if step is not None and step["status"] == "PLANNED":
            put_step(rows, {**step, "status": "SUPERSEDED", **at.touched()})
    put_plan(rows, {**plan, "status": fact.status, "ended_by": fact.by, "deadline_at": None, **at.touched()}, at)
    intent = rows.get("intents", fact.intent_id)
    if superseded and intent is not None and intent["plan_id"] == fact.plan_id:
        put_intent(rows, {**intent, "plan_id": None, "plan_steps": 0, "plan_steps_joined": 0, **at.touched()})


def plan_progress(rows: Rows, fact: PlanProgress, at: At) -> None:
    """The deadline for progress was set anew, or passed."""
    plan = rows.get("plans", joined(fact.intent_id, fact.plan_id))
    if plan is not None:
        since = fact.since if fact.stalled else None
        change = {"stalled": fact.stalled, "stalled_since": since, "deadline_at": fact.deadline_at}
        put_plan(rows, {**plan, **change, **at.touched()}, at)


def put_plan(rows: Rows, row: Row, at: At) -> None:
    """Set a plan's row with its word; the intent that follows this plan counts its steps."""
    rows.put("plans", joined(row["intent_id"], row["plan_id"]), {**row, "shown": shown.of_plan(row)})
    intent = rows.get("intents", row["intent_id"])
    if intent is not None and intent["plan_id"] == row["plan_id"]:
        counts = {"plan_steps": row["steps"], "plan_steps_joined": row["steps_joined"]}
        if any(intent[name] != value for name, value in counts.items()):
            put_intent(rows, {**intent, **counts, **at.touched()})


def put_step(rows: Rows, row: Row) -> None:
    """Set a step's row with its word."""
    key = joined(row["intent_id"], row["plan_id"], row["step_id"])
    rows.put("steps", key, {**row, "shown": shown.of_step(row)})


def step_succeeded(rows: Rows, fact: StepSucceeded, at: At) -> None:
    """The join of a step is made."""
    step = rows.get("steps", joined(fact.intent_id, fact.plan_id, fact.step_id))
    if step is not None:
        change_step(rows, step, {"status": "SUCCEEDED", "joined": True, "operation_id": fact.operation_id}, at)


def change_step(rows: Rows, step: Row, change: Row, at: At) -> None:
    """Change a step's row, and the counts of its plan if it was dispatched or joined by this."""
    new = {**step, **change, **at.touched()}
    put_step(rows, new)
    dispatched = (new["status"] in ("DISPATCHED", "SUCCEEDED")) - (step["status"] in ("DISPATCHED", "SUCCEEDED"))
    joins = new["joined"] - step["joined"]
    plan = rows.get("plans", joined(step["intent_id"], step["plan_id"])) if dispatched or joins else None
    if plan is not None:
        counts = {
            "steps_dispatched": plan["steps_dispatched"] + dispatched,
            "steps_joined": plan["steps_joined"] + joins,
        }
        put_plan(rows, {**plan, **counts, **at.touched()}, at)
