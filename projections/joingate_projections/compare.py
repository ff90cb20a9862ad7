"""Plans of an intent compared by what each would lay on the world: of two for the same goals, the lighter is better.

The burden is the one that the law recorded with the plan. A plan of an older ledger has none; it is reckoned now, by
the catalogue in force, and says so. What the intent holds already is told beside them, with what holding it costs.
"""

from collections.abc import Iterator

from joingate_projections.declared import catalogue_on
from joingate_projections.store import View, index_value
from joingate_projections.tables import Row
from joingate_schemas.burden import burden_of
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.facts import Burden
from joingate_schemas.templates import fill

PLANS_MAX = 100
_SCANNED_MAX = 5_000
_HELD = frozenset({"HELD", "EXTENDED", "OVERDUE"})
_HOUR_MS = 3_600_000
_IN_THE_RUNNING = frozenset({"CANDIDATE", "ADOPTED"})


def compare(view: View, intent_id: str, now: int) -> Row | None:
    """The intent's plans, lightest first; those out of the running come last. None: there is no such intent."""
    intent = view.get("intents", intent_id)
    if intent is None:
        return None
    catalogue = catalogue_on(view, intent["first"]["partition"])
    plans = [_plan(view, row, catalogue) for row in _rows(view, "plans", intent_id, PLANS_MAX)]
    for plan in plans:
        plan["in_the_running"] = plan["status"] in _IN_THE_RUNNING and plan["intent_version"] == intent["version"]
    plans.sort(key=_weight)
    lightest = next((plan["plan_id"] for plan in plans if plan["in_the_running"] and plan["burden"] is not None), None)
    return {
        "intent": {name: intent[name] for name in ("intent_id", "version", "status", "shown", "plan_id")},
        "plans": plans,
        "lightest": lightest,
        "held": _held(view, intent_id, catalogue, now),
    }


def _rows(view: View, table: str, intent_id: str, most: int) -> list[Row]:
    found = zip(range(most), view.find(table, "intent_id", index_value(intent_id)), strict=False)
    return [row for _, (_, key) in found if (row := view.get(table, key)) is not None]


def _plan(view: View, row: Row, catalogue: Catalogue | None) -> Row:
    burden: Burden | None = row["burden"]
    recorded = burden is not None
    if burden is None and catalogue is not None:
        burden = _reckoned(view, row, catalogue)
    fields = ("plan_id", "intent_version", "status", "shown", "replaces", "steps", "steps_dispatched", "steps_joined")
    return {**{name: row[name] for name in fields}, "burden": burden, "recorded": recorded,
            "commitments_made": sum(burden["by_class"].values()) if burden is not None else None,
            "placement": _placement(view, row, catalogue)}  # fmt: skip


def _placement(view: View, row: Row, catalogue: Catalogue | None) -> Row:
    """The resources that a plan names: `eligible` ones it holds nothing of, `committed` ones are held for it now.

    Naming holds nothing, whatever the plan's status: only an operation that was dispatched and granted what it needs,
    or the commitment that it made, does.
    """
    committed: dict[str, str] = {}
    for one in _rows(view, "operations", row["intent_id"], _SCANNED_MAX):
        if one["plan_id"] == row["plan_id"]:
            held = (name for name, stands in one["resources"].items() if stands["standing"] in _HELD)
            committed.update(dict.fromkeys(held, one["operation_id"]))
    for one in _rows(view, "commitments", row["intent_id"], _SCANNED_MAX):
        if one["plan_id"] == row["plan_id"]:
            committed.update(dict.fromkeys(one["holds"], one["commitment_id"]))
    eligible = dict.fromkeys(_named(view, row, catalogue)) if catalogue is not None else {}
    return {
        "eligible": [one for one in eligible if one not in committed],
        "committed": [{"resource_ref": one, "by": by} for one, by in sorted(committed.items())],
    }


def _named(view: View, row: Row, catalogue: Catalogue) -> Iterator[str]:
    """The references that the plan's steps make of what their actions need, as far as the plan itself says."""
    for step in _steps(view, row):
        action = catalogue.actions.get(step["action"])
        for template in action.resources if action is not None else ():
            yield fill(template, step["business_key"], step["arguments"])


def _reckoned(view: View, row: Row, catalogue: Catalogue) -> Burden:
    # A step's row has all the fields of the step as planned, and more.
    return burden_of(_steps(view, row), row["commitments"], catalogue)  # type: ignore[arg-type]


def _steps(view: View, row: Row) -> list[Row]:
    key = f"{row['intent_id']}\x1f{row['plan_id']}"
    names = view.get("plan_steps", key)
    steps = [view.get("steps", f"{key}\x1f{step_id}") for step_id in names["steps"]] if names is not None else []
    return [step for step in steps if step is not None]


def _weight(plan: Row) -> tuple[object, ...]:
    """What is harder to take back weighs more, whatever its price; equals stand in the order of their ids."""
    burden: Burden | None = plan["burden"]
    if burden is None:
        return not plan["in_the_running"], True, plan["plan_id"]
    heavy = (
        burden["irreversible"],
        burden["doubtful"],
        burden["exclusive"],
        burden["approvals"] + burden["promises"],
        sum(burden["by_class"].values()),
        burden["idle_cost"],
        burden["cost"],
    )
    return not plan["in_the_running"], False, heavy, plan["plan_id"]


def _held(view: View, intent_id: str, catalogue: Catalogue | None, now: int) -> Row:
    """What the intent holds now, what an hour of that costs, and what it has cost since it came into force."""
    obligations = catalogue.obligations if catalogue is not None else {}
    hourly = so_far = 0.0
    count = 0
    for row in _rows(view, "commitments", intent_id, _SCANNED_MAX):
        if not row["holds"]:
            continue
        count += 1
        kind = obligations.get(row["obligation_type"])
        if kind is not None:
            hourly += kind.idle_cost
            begun = row["obliged_since"] if row["obliged_since"] is not None else now
            so_far += kind.idle_cost * max(0, now - begun) / _HOUR_MS
    return {"commitments": count, "idle_cost_per_hour": hourly, "idle_cost_so_far": so_far}
