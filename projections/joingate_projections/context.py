"""What a planner needs before it plans: the intent, its goals, what is in force, what is scarce, what it may ask for.

Planning without it is guessing: a plan that does not know which obligations are in force makes them anew. Everything
here is read from one view, so that it is true at one ledger position.
"""

from collections import defaultdict
from collections.abc import Iterator

from joingate_projections.debts import debts_of
from joingate_projections.declared import catalogue_on
from joingate_projections.store import View, index_value
from joingate_projections.tables import Row, joined
from joingate_schemas.catalogue import Action, Catalogue, Principal
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT

LISTED_MAX = 200
"""How many rows of a kind are listed; `counts` has how many there are."""
SCANNED_MAX = 5_000
_GOAL = (
    "goal_id", "parent_goal_id", "acceptance", "evidence_requirements", "risk_class", "status", "shown", "observation",
    "commitments_open", "operations_open",
)  # fmt: skip
_COMMITMENT = (
    "commitment_id", "intent_version", "goal_id", "plan_id", "step_id", "obligation_type", "type_version", "status",
    "shown", "owner_id", "resource_refs", "counterparty_refs", "quantity", "attributes", "due_at", "valid_until",
    "deadline_at", "since", "disposition", "observation", "evidence", "operation_id", "orphans",
)  # fmt: skip
_INTENT = ("intent_id", "version", "objective", "tenant", "status", "shown", "close_needs_goals")
_STEP = ("step_id", "ordinal", "action", "business_key", "goal_id", "status", "shown", "operation_id", "joined")
_OPERATION = (
    "operation_id", "plan_id", "step_id", "goal_id", "action", "business_key", "commitment_id", "compensates",
    "generation", "attempt", "status", "shown", "timer", "deadline_at", "since",
)  # fmt: skip
_DOUBT = ("subject_kind", "subject_id", "status", "cause", "since", "deadline_at", "action", "business_key", "task")
_ORPHAN = ("orphan_id", "kind", "subject_kind", "subject_id", "since", "cause", "suggested_action")


def context(view: View, intent_id: str, principal: str | None, now: int) -> Row | None:
    """The context of an intent, for `principal` if one is named. None: there is no such intent."""
    intent = view.get("intents", intent_id)
    if intent is None:
        return None
    catalogue = catalogue_on(view, intent["first"]["partition"])
    listed, total = _open_commitments(view, intent_id)
    return {
        "intent": {name: intent[name] for name in _INTENT},
        "goals": [_told(row, _GOAL) for row in _goals(view, intent)],
        "plan": _plan(view, intent),
        "commitments": [_with_age(_told(row, _COMMITMENT), now) for row in listed],
        "operations": [_with_age(_told(row, _OPERATION), now) for row in _open_operations(view, intent)],
        "in_doubt": [_with_age(_told(row, _DOUBT), now) for row in _of_intent(view, "in_doubt", intent_id)],
        "orphans": [_with_age(_told(row, _ORPHAN), now) for row in _of_intent(view, "orphans", intent_id)],
        "resources": _resources(view, catalogue, intent),
        "budgets": _budgets(view, intent),
        "debts": debts_of(view, intent_id, intent["first"]["partition"], principal, now),
        "authority": _authority(catalogue, principal, intent_id),
        "competence": _competence(view, catalogue, principal),
        "counts": {"commitments_open": total, "operations_open": intent["operations_open"]},
        "catalogue": {"version": catalogue.version, "digest": catalogue.digest} if catalogue is not None else None,
    }


def _told(row: Row, fields: tuple[str, ...]) -> Row:
    return {name: row.get(name) for name in fields}


def _with_age(row: Row, now: int) -> Row:
    return {**row, "age_ms": max(0, now - row["since"])}


def _of_intent(view: View, table: str, intent_id: str, most: int = LISTED_MAX) -> Iterator[Row]:
    for _, (_, key) in zip(range(most), view.find(table, "intent_id", index_value(intent_id)), strict=False):
        row = view.get(table, key)
        if row is not None:
            yield row


def _goals(view: View, intent: Row) -> Iterator[Row]:
    """The goals of the version in force, in its order; then dropped ones that still have something outside."""
    wanted = dict.fromkeys(goal["goal_id"] for goal in intent["goals"])
    for goal_id in wanted:
        row = view.get("goals", joined(intent["intent_id"], goal_id))
        if row is not None:
            yield row
    for row in _of_intent(view, "goals", intent["intent_id"]):
        outside = row["commitments_open"] or row["operations_open"] or row["orphans"]
        if row["goal_id"] not in wanted and outside:
            yield row


def _plan(view: View, intent: Row) -> Row | None:
    """The plan in force with its steps in their order; None: there is none."""
    key = joined(intent["intent_id"], intent["plan_id"]) if intent["plan_id"] is not None else None
    plan = view.get("plans", key) if key is not None else None
    names = view.get("plan_steps", key) if key is not None else None
    if plan is None or names is None:
        return None
    steps = [view.get("steps", f"{key}\x1f{step_id}") for step_id in names["steps"][:LISTED_MAX]]
    fields = ("plan_id", "intent_version", "status", "shown", "steps_joined", "stalled", "deadline_at")
    return {**_told(plan, fields), "steps": [_told(step, _STEP) for step in steps if step is not None],
            "step_count": plan["steps"]}  # fmt: skip


def _open_operations(view: View, intent: Row) -> list[Row]:
    """What is under way, and so must be waited for rather than asked for again."""
    if not intent["operations_open"]:
        return []
    found = _of_intent(view, "operations", intent["intent_id"], SCANNED_MAX)
    return [row for row in found if row["status"] in OPEN_OPERATION][:LISTED_MAX]


def _open_commitments(view: View, intent_id: str) -> tuple[list[Row], int]:
    """Those not discharged, the first of them listed; those of superseded versions are among them."""
    found = [
        row
        for row in _of_intent(view, "commitments", intent_id, SCANNED_MAX)
        if row["status"] not in TERMINAL_COMMITMENT
    ]
    return found[:LISTED_MAX], len(found)


def _resources(view: View, catalogue: Catalogue | None, intent: Row) -> Row:
    """What is declared scarce, and what of it is held now by commitments in force, whoever's they are.

    Of another tenant's holding no more is said than that it is held.
    """
    declared = catalogue.resources.values() if catalogue is not None else ()
    held: list[Row] = []
    for _, (reference, key) in zip(range(LISTED_MAX), view.find("commitments", "holds", None), strict=False):
        row = view.get("commitments", key)
        if row is None:
            continue
        known = _tenant(row["intent_id"]) == _tenant(intent["intent_id"])
        mine = row["intent_id"] == intent["intent_id"]
        who = {"intent_id": row["intent_id"], "commitment_id": key, "owner_id": row["owner_id"]} if known else {}
        holding = {"resource_ref": reference, "mine": mine, "status": row["status"], "shown": row["shown"]}
        held.append({**holding, "quantity": row["quantity"], "valid_until": row["valid_until"], **who})
    return {
        "declared": [{"kind": one.kind, "mode": one.mode, "capacity": one.capacity} for one in declared],
        "held": held,
    }


def _budgets(view: View, intent: Row) -> Row:
    """What was granted with the intent, and what its operations have cost so far, by budget class, as declared.

    An operation costs from when it is opened, unless it ended before any permit.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for row in _of_intent(view, "operations", intent["intent_id"], SCANNED_MAX):
        if row["cost"] and row["status"] != "WITHDRAWN":
            spent[row["budget_class"]] += row["cost"]
    total = sum(spent.values())
    granted = intent["budgets"]
    most = granted.get("cost_max") if granted is not None else None
    return {
        "granted": granted,
        "spent": dict(sorted(spent.items())),
        "spent_total": total,
        "left": most - total if most is not None else None,
        "exploration_left": most * granted["exploration"] - spent["EXPLORATION"] if most is not None else None,
    }


def _tenant(intent_id: str) -> str:
    """Whose an intent is, as the law reads it: by what its id begins with."""
    return intent_id.partition("/")[0]


def _may_speak(principal: Principal, intent_id: str) -> bool:
    """Whether the law would hear this principal as a planner of the intent."""
    return principal.role == "PLANNER" and (not principal.tenant or intent_id.startswith(f"{principal.tenant}/"))


def _authority(catalogue: Catalogue | None, principal: str | None, intent_id: str) -> Row:
    """Who may ask, and for what. Where no principals are declared, anyone may, in the role of the topic."""
    declared = catalogue.principals if catalogue is not None else {}
    if principal is None:
        planners = [_limits(one) for one in declared.values() if _may_speak(one, intent_id)]
        return {"principal": None, "may_plan": True, "open_to_all": not declared, "planners": planners}
    known = declared.get(principal)
    may = not declared or (known is not None and _may_speak(known, intent_id))
    limits = _limits(known) if known is not None else None
    return {"principal": principal, "may_plan": may, "open_to_all": not declared, "limits": limits}


def _limits(principal: Principal) -> Row:
    """What a principal is limited to; no actions named: every one."""
    return {"name": principal.name, "role": principal.role, "tenant": principal.tenant, "actions": [*principal.actions]}


def _competence(view: View, catalogue: Catalogue | None, principal: str | None) -> list[Row]:
    """Each action that may be asked for: what it is, what it needs, and how it has fared wherever it was tried."""
    if catalogue is None:
        return []
    known = catalogue.principals.get(principal or "")
    limited = known.actions if known is not None else ()
    fared: dict[str, Row] = {}
    for name, count in view.counts("", "fared").items():
        action, _, status = name.partition("\x1f")
        fared.setdefault(action, {})[status] = count
    return [
        {**_declared(action, catalogue), "fared": _fared(fared.get(name, {}))}
        for name, action in sorted(catalogue.actions.items())
        if not limited or name in limited
    ]


def _declared(action: Action, catalogue: Catalogue) -> Row:
    downstream = catalogue.downstreams.get(action.downstream)
    obligation = catalogue.obligations.get(action.obligation or "")
    return {
        "action": action.name,
        "effect": action.effect,
        "kind": action.kind,
        "communication": action.communication,
        "downstream": action.downstream,
        "can_be_asked_by": list(downstream.capabilities) if downstream is not None else [],
        "approval": action.approval,
        "approvals_needed": action.approvals_needed if action.approval != "NONE" else 0,
        "hold_ms": action.hold_ms,
        "undone_by": action.compensation,
        "human_gate": action.human_gate if action.compensation is None and action.effect != "OBSERVE" else None,
        "creates": obligation.name if obligation is not None else None,
        "ends_as": obligation.resolution if obligation is not None else None,
        "resources": list(action.resources),
        "business_key": action.business_key,
        "arguments": [one.name for one in action.arguments],
        "budget_class": action.budget_class,
        "cost": action.cost,
    }


def _fared(counts: Row) -> Row:
    """The outcomes of an action's operations. SETTLED ones that were undone later are `undone`."""
    doubtful = sum(counts.get(status, 0) for status in ("IN_DOUBT", "ESCALATED", "UNKNOWN"))
    return {
        "settled": counts.get("SETTLED", 0),
        "undone": counts.get("COMPENSATED", 0),
        "failed": counts.get("FAILED", 0),
        "withdrawn": counts.get("WITHDRAWN", 0),
        "in_doubt": doubtful,
        "ever_in_doubt": counts.get("EVER_IN_DOUBT", 0),
        "open": sum(counts.get(status, 0) for status in OPEN_OPERATION - {"IN_DOUBT", "ESCALATED"}),
    }
