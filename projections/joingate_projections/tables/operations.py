"""The table of operations: what each fact does to an operation's row, its step, its intent's counts and the doubts."""

from joingate_projections.tables import At, Row, Rows, goals, incidents, joined, kept, levels, lineage, shown
from joingate_projections.tables.intents import add_to_intent, change_step, lead_slot
from joingate_schemas.facts import (
    OPEN_OPERATION,
    ApprovalRecorded,
    AttemptStarted,
    CompensationRequested,
    EffectRecorded,
    OperationCompensated,
    OperationEscalated,
    OperationFailed,
    OperationInDoubt,
    OperationOpened,
    OperationReady,
    OperationSettled,
    OperationWithdrawn,
    PermitIssued,
    StepSucceeded,
)

_WAITS_FOR_NOTHING: Row = {"timer": "NONE", "deadline_at": None}
# Whose word on an effect is more than its own executor's.
_BY_OTHERS = frozenset({"OBSERVER", "OPERATOR"})


def opened(rows: Rows, fact: OperationOpened, at: At) -> None:
    """A new operation. It becomes its step's own if the step stands for the same slot."""
    key = joined(fact.intent_id, fact.plan_id, fact.step_id)
    step = rows.get("steps", key) if fact.compensates is None else None
    # A release or another operation that serves a commitment may name the step that it goes back to: not its slot.
    own = step is not None and (step["action"], step["business_key"]) == (fact.action, fact.business_key)
    orphans = rows.get("subject_orphans", joined("OPERATION", fact.operation_id))
    row = {
        **vars(fact),
        "slot_id": step["slot_id"] if step is not None and own else None,
        "since": at.time,
        "permits": 0,
        "permit_worker": "",
        "permit_until": None,
        "acting_since": at.time if fact.status == "SUBMITTED" else None,
        "external_id": "",
        "evidence": [],
        "result": "",
        "source": "",
        "late": False,
        "settled_attempt": None,
        "proof": None,
        "cause": "",
        "dependants": [],
        "task": "",
        "in_doubt_since": None,
        "seen": False,
        "taken_up": False,
        "compensated_by": None,
        "compensation": None,
        "effects": [],
        "approvals": [],
        "resources": {},
        "observation": None,
        "orphans": orphans["ids"] if orphans else [],
        **at.born(),
    }
    if row["slot_id"] is not None:
        lead_slot(rows, row["slot_id"], fact.operation_id, key, at)
    lineage.operation_opened(rows, row, at)
    put(rows, None, row, at)


def ready(rows: Rows, fact: OperationReady, at: At) -> None:
    """What it waited for is there."""
    acting = {"acting_since": at.time} if fact.status == "SUBMITTED" else {}
    _change(rows, fact.operation_id, {"status": fact.status, **acting, **_timer(fact)}, at)


def attempt_started(rows: Rows, fact: AttemptStarted, at: At) -> None:
    """The next attempt of the same operation. It changes no status: a resend from doubt is still in doubt."""
    lineage.attempt_started(rows, fact.operation_id, fact.attempt, at)
    _change(rows, fact.operation_id, {"attempt": fact.attempt, **_timer(fact)}, at)


def permitted(rows: Rows, fact: PermitIssued, at: At) -> None:
    """The attempt may act now. What was in doubt stays so: an earlier attempt may have acted too."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        change = {
            "status": old["status"] if old["status"] in shown.DOUBTED_OPERATION else "SUBMITTED",
            "permits": old["permits"] + 1,
            "permit_worker": fact.worker,
            "permit_until": fact.valid_until,
            "acting_since": at.time,
            **_timer(fact),
        }
        _change(rows, fact.operation_id, change, at)


def settled(rows: Rows, fact: OperationSettled, at: At) -> None:
    """The effect exists."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        change = {
            "status": "SETTLED",
            "external_id": fact.external_id,
            "evidence": kept(old["evidence"], *fact.evidence),
            "result": fact.result,
            "source": fact.source,
            "late": fact.late,
            "seen": old["seen"] or fact.source in _BY_OTHERS,
            "task": "",
            **_WAITS_FOR_NOTHING,
        }
        if old["settled_attempt"] is None:  # Settled anew after a doubt, it was known before.
            levels.effect_detected(rows, old, at)
        effect = lineage.effect_known(rows, fact.operation_id, fact.attempt, fact.external_id, at, stray=False)
        if fact.source in _BY_OTHERS:
            lineage.verified(rows, effect, "PRESENT", fact.source, fact.evidence, at)
        _change(rows, fact.operation_id, {**change, "settled_attempt": fact.attempt}, at)


def failed(rows: Rows, fact: OperationFailed, at: At) -> None:
    """The effect is proven absent. A success that proves false opens its join again."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        step = rows.get("steps", joined(old["intent_id"], old["plan_id"], old["step_id"])) if old["taken_up"] else None
        if step is not None and step["status"] == "SUCCEEDED":
            change_step(rows, step, {"status": "DISPATCHED", "joined": False}, at)
        change = {
            "status": "FAILED",
            "proof": fact.proof,
            "evidence": kept(old["evidence"], *fact.evidence),
            "source": fact.source,
            "seen": False,
            "taken_up": False,
            "task": "",
            **_WAITS_FOR_NOTHING,
        }
        _change(rows, fact.operation_id, change, at)


def in_doubt(rows: Rows, fact: OperationInDoubt, at: At) -> None:
    """Nobody knows. Said again of a doubted operation, the doubt is as old as it was."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        change = {
            "status": "IN_DOUBT",
            "cause": fact.cause,
            "evidence": kept(old["evidence"], *fact.evidence),
            "dependants": fact.dependants,
            "seen": False,
            "task": "",
            **_timer(fact),
        }
        _change(rows, fact.operation_id, change, at)


def escalated(rows: Rows, fact: OperationEscalated, at: At) -> None:
    """A person has to settle it."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        evidence = kept(old["evidence"], *fact.evidence)
        change = {"status": "ESCALATED", "task": fact.task, "evidence": evidence, **_timer(fact)}
        _change(rows, fact.operation_id, change, at)


def withdrawn(rows: Rows, fact: OperationWithdrawn, at: At) -> None:
    """Ended before any permit."""
    _change(rows, fact.operation_id, {"status": "WITHDRAWN", "cause": fact.cause, **_WAITS_FOR_NOTHING}, at)


def compensated(rows: Rows, fact: OperationCompensated, at: At) -> None:
    """Undone; the operation that undid it has thereby done what it was for."""
    change = {"status": "COMPENSATED", "compensated_by": fact.by, **_WAITS_FOR_NOTHING}
    _change(rows, fact.operation_id, change, at)
    take_up(rows, fact.by, at)


def compensation_requested(rows: Rows, fact: CompensationRequested, at: At) -> None:
    """Somebody wants it undone."""
    wish = {"by": fact.by, "gate": fact.gate, "reason": fact.reason, "at": at.time}
    _change(rows, fact.operation_id, {"compensation": wish}, at)


def effect_recorded(rows: Rows, fact: EffectRecorded, at: At) -> None:
    """Evidence that advances nothing, kept beside what did."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        effect = {
            "attempt": fact.attempt,
            "external_id": fact.external_id,
            "evidence": fact.evidence,
            "stray": fact.stray,
            "at": at.time,
        }
        if fact.stray:
            levels.effect_detected(rows, old, at)
        # An id that became known later names the effect that is known already.
        if fact.stray or old["status"] != "SETTLED" or old["external_id"]:
            lineage.effect_known(rows, fact.operation_id, fact.attempt, fact.external_id, at, stray=fact.stray)
        _change(rows, fact.operation_id, {"effects": kept(old["effects"], effect)}, at)


def approval_recorded(rows: Rows, fact: ApprovalRecorded, at: At) -> None:
    """An approver's yes or no."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        said = {
            "principal": fact.principal,
            "digest": fact.digest,
            "granted": fact.granted,
            "expires_at": fact.expires_at,
            "at": at.time,
        }
        _change(rows, fact.operation_id, {"approvals": kept(old["approvals"], said)}, at)


def observed(rows: Rows, operation_id: str, news: Row, at: At) -> None:
    """The latest news about it that was believed; PRESENT is somebody other than the executor who saw the effect."""
    old = rows.get("operations", operation_id)
    if old is not None:
        seen = {"PRESENT": True, "ABSENT": False, "REVOKED": False}.get(news["finding"], old["seen"])
        if news["finding"] in lineage.CONCLUSIVE and old["status"] == "SETTLED":
            # What settles it or proves it absent is a fact of its own, and is verified there.
            attempt = str(old["settled_attempt"])
            effect = lineage.node("EFFECT", operation_id, attempt, old["external_id"])
            lineage.verified(rows, effect, news["finding"], news["source"], news["evidence"], at)
        _change(rows, operation_id, {"observation": news, "seen": seen}, at)


def taken_up_by_step(rows: Rows, fact: StepSucceeded, at: At) -> None:
    """A plan's step takes it for its success, and so owns it from here on, whichever plan it was opened under."""
    task = lineage.node("TASK", fact.intent_id, fact.plan_id, fact.step_id)
    lineage.link(rows, task, lineage.node("OPERATION", fact.operation_id), at)
    change = {"taken_up": True, "plan_id": fact.plan_id, "step_id": fact.step_id}
    _change(rows, fact.operation_id, change, at)


def take_up(rows: Rows, operation_id: str | None, at: At) -> None:
    """What the operation was for is recorded as reached."""
    old = rows.get("operations", operation_id) if operation_id else None
    if operation_id and old is not None and not old["taken_up"]:
        _change(rows, operation_id, {"taken_up": True}, at)


def _timer(fact: OperationReady | AttemptStarted | PermitIssued | OperationInDoubt | OperationEscalated) -> Row:
    return {"timer": fact.timer, "deadline_at": fact.deadline_at}


def _change(rows: Rows, operation_id: str, change: Row, at: At) -> None:
    old = rows.get("operations", operation_id)
    if old is not None:
        put(rows, old, {**old, **change, **at.touched()}, at)


def put(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """Set an operation's row, and whatever follows from it: word, counts, doubts, step."""
    if old is None or old["status"] != new["status"]:
        new["since"] = at.time
    doubted = new["status"] in shown.DOUBTED_OPERATION
    if doubted and new["in_doubt_since"] is None:
        new["in_doubt_since"] = at.time
    elif not doubted:
        new["in_doubt_since"] = None
    levels.operation_moved(rows, old, new, at)
    new["shown"] = shown.of_operation(new)
    rows.put("operations", new["operation_id"], new)
    before, after = _counts(old), _counts(new)
    had_orphans = old is not None and bool(old["orphans"])
    moved = {name: after[name] - before[name] for name in after}
    add_to_intent(rows, new["intent_id"], moved, at)
    goals.add(rows, new["intent_id"], new["goal_id"], {**moved, "orphans": bool(new["orphans"]) - had_orphans}, at)
    incidents.put_doubt(rows, "OPERATION", new["operation_id"], new if doubted else None, at)
    if new["slot_id"] is not None:
        _tell_steps(rows, new, at)


def _counts(row: Row | None) -> dict[str, int]:
    status = row["status"] if row else ""
    return {
        "operations_open": status in OPEN_OPERATION,
        "operations_acting": status in shown.ACTING,
        "operations_in_doubt": status in shown.DOUBTED_OPERATION,
    }


def _tell_steps(rows: Rows, operation: Row, at: At) -> None:
    """The step that stands for the slot now follows its operation; those of other plans show what became of it."""
    seen = {"operation_status": operation["status"], "operation_shown": operation["shown"]}
    slot = rows.get("slots", operation["slot_id"])
    leads = slot["step"] if slot and slot["operation_id"] == operation["operation_id"] else None
    step = rows.get("steps", leads) if leads is not None else None
    if step is not None:
        change = {
            "status": "DISPATCHED" if step["status"] == "PLANNED" else step["status"],
            "joined": step["joined"] or operation["status"] == "COMPENSATED",
            "operation_id": operation["operation_id"],
        }
        _tell_step(rows, step, {**change, **seen}, at)
    others = rows.get("followers", operation["operation_id"])
    for key in others["steps"] if others else ():
        other = rows.get("steps", key) if key != leads else None
        if other is not None and other["operation_id"] == operation["operation_id"]:
            _tell_step(rows, other, seen, at)


def _tell_step(rows: Rows, step: Row, change: Row, at: At) -> None:
    if any(step[name] != value for name, value in change.items()):
        change_step(rows, step, change, at)
