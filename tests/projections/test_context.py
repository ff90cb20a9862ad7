"""The planner's context: everything that it must know before it plans, in one answer, true at one position."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.context import _fared
from joingate_projections.errors import NotFound
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import Row
from joingate_schemas.catalogue_file import catalogue_from_text

INTENT = "acme/release/4.2"
CATALOGUE = """
version: "9"
downstreams:
  cloud: {capabilities: [LOOKUP]}
  messenger: {capabilities: [NONE]}
actions:
  reserve:
    downstream: cloud
    effect: REVERSIBLE
    kind: COMPENSATABLE
    compensation: free
    obligation: hold
    resources: ["window:{business_key}"]
    budget_class: EXPLORATION
    cost: 2.5
  free: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE, budget_class: RECONCILIATION}
  tell: {downstream: messenger, effect: IRREVERSIBLE, kind: RETRYABLE, cost: 1, approval: N_OF_M, approvals_needed: 2}
obligations:
  hold: {resolution: RELEASABLE, release_action: free}
resources:
  window: {mode: EXCLUSIVE}
principals:
  ada: {role: PLANNER, tenant: acme, actions: [reserve, free]}
  bob: {role: PLANNER, tenant: other}
  cloud: {role: EXECUTOR}
  eye: {role: OBSERVER}
  ann: {role: APPROVER, keys: ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}
  ben: {role: APPROVER, keys: ["bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"]}
"""
GOALS = [{"goal_id": "capacity", "acceptance": "a window is ours", "risk_class": "HIGH"}]
BUDGETS = {"exploration": 0.5, "verification": 0.25, "reconciliation": 0.25, "cost_max": 10.0}
ADA, BOB, CLOUD, EYE = ({"principal": name} for name in ("ada", "bob", "cloud", "eye"))


def declared(intent_id: str = INTENT, version: int = 1, tenant: str = "acme", **fields: Any) -> dict[str, Any]:
    """The line of an intent."""
    return {"as": "planner", "type": "DeclareIntent", "intent_id": intent_id, "version": version, "tenant": tenant,
            "objective": "deploy 4.2", "goals": GOALS, "budgets": BUDGETS, **fields}  # fmt: skip


def reserved(scene: Any, window: str, intent_id: str = INTENT, planner: dict[str, str] = ADA) -> list[dict[str, Any]]:
    """The lines of a reservation of a window, seen to be there."""
    step = {"step_id": "s1", "action": "reserve", "business_key": window, "goal_id": "capacity"}
    lines = [scene.planned(step), *scene.done("s1"), scene.seen("s1")]
    speakers = {"planner": planner, "executor": CLOUD, "observer": EYE}
    return [{**line, "intent_id": intent_id, **speakers[line["as"]]} if "as" in line else line for line in lines]


@pytest.fixture
def played(scene: Any) -> Any:
    """One reservation of ours in force, and one of another tenant's."""
    other = "other/release/1"
    return scene(
        {**declared(), **ADA},
        *reserved(scene, "w1"),
        {**declared(other, tenant="other"), **BOB},
        *reserved(scene, "w2", other, BOB),
        catalogue=catalogue_from_text(CATALOGUE),
    )


def action(answer: Row, name: str) -> Row:
    """One action of the competence envelope."""
    return next(one for one in answer["competence"] if one["action"] == name)


def test_it_tells_what_is_wanted_and_what_is_in_force(played: Any, open_store: ProjectionStore) -> None:
    """The intent's version, its goals with their state, the plan with its steps, the commitment with its age."""
    answer = played.reader(open_store).ask("context", INTENT)
    assert (answer["intent"]["version"], answer["intent"]["shown"]) == (1, "ACTIVE COMMITMENT")
    (goal,) = answer["goals"]
    assert (goal["goal_id"], goal["risk_class"], goal["shown"]) == ("capacity", "HIGH", "ACTIVE COMMITMENT")
    assert [step["status"] for step in answer["plan"]["steps"]] == ["DISPATCHED"]
    (commitment,) = answer["commitments"]
    assert (commitment["status"], commitment["obligation_type"]) == ("ACTIVE", "hold")
    assert commitment["age_ms"] == played.now - commitment["since"]
    assert (answer["counts"]["commitments_open"], answer["catalogue"]["version"]) == (1, "9")
    assert answer["position"] == {"0": len(played.decisions)}


def test_it_tells_what_is_scarce_and_who_has_it(played: Any, open_store: ProjectionStore) -> None:
    """One's own holding by name; of another tenant's only that it is held."""
    resources = played.reader(open_store).ask("context", INTENT)["resources"]
    assert resources["declared"] == [{"kind": "window", "mode": "EXCLUSIVE", "capacity": None}]
    held = {one["resource_ref"]: one for one in resources["held"]}
    assert (held["window:w1"]["mine"], held["window:w1"]["intent_id"]) == (True, INTENT)
    assert held["window:w2"]["mine"] is False
    assert "intent_id" not in held["window:w2"]


def test_it_tells_what_may_still_be_spent(played: Any, open_store: ProjectionStore) -> None:
    """What was granted, what the intent's own operations cost by class, and what is left."""
    budgets = played.reader(open_store).ask("context", INTENT)["budgets"]
    assert (budgets["granted"]["exploration"], budgets["spent"]) == (0.5, {"EXPLORATION": 2.5})
    assert (budgets["spent_total"], budgets["left"], budgets["exploration_left"]) == (2.5, 7.5, 2.5)


def test_it_tells_debts_beside_their_limits_before_anything_is_refused(scene: Any, open_store: ProjectionStore) -> None:
    """The intent's, the tenant's and the principal's; where there is no limit, that too."""
    limits = "limits:\n  each: {of: INTENT, debt: 1}\n  ada: {of: PRINCIPAL, only: ada, debt: 9, reviews: 2}\n"
    played = scene({**declared(), **ADA}, *reserved(scene, "w1"), catalogue=catalogue_from_text(CATALOGUE + limits))
    reader = played.reader(open_store)
    debts = {one["of"]: one for one in reader.ask("context", INTENT, [("principal", "ada")])["debts"]}
    assert {of: (one["subject"], one["debt"], one["commitments"], one["reached"]) for of, one in debts.items()} == {
        "INTENT": (INTENT, 1.0, 1, True), "TENANT": ("acme", 1.0, 1, False), "PRINCIPAL": ("ada", 1.0, 1, False),
    }  # fmt: skip
    assert debts["PRINCIPAL"]["limit"] == {"debt": 9.0, "doubts": None, "reviews": 2}
    assert debts["TENANT"]["limit"] is None
    assert [one["of"] for one in reader.ask("context", INTENT)["debts"]] == ["INTENT", "TENANT"]
    levels = reader.ask("service-levels")["debt"]
    assert (levels["debt"], levels["commitments"], levels["refused"]["COMMITMENT_DEBT"]) == (1.0, 1, 0)
    assert [(one["subject"], one["debt"]) for one in levels["principals"]] == [("ada", 1.0)]


def test_it_tells_who_may_ask_for_what(played: Any, open_store: ProjectionStore) -> None:
    """For a principal its own limits; without one, who may plan for this tenant."""
    reader = played.reader(open_store)
    mine = reader.ask("context", INTENT, [("principal", "ada")])
    assert (mine["authority"]["may_plan"], mine["authority"]["limits"]["actions"]) == (True, ["reserve", "free"])
    assert [one["action"] for one in mine["competence"]] == ["free", "reserve"]
    for stranger in ("bob", "cloud", "nobody"):
        assert reader.ask("context", INTENT, [("principal", stranger)])["authority"]["may_plan"] is False
    anyone = reader.ask("context", INTENT)
    assert [one["name"] for one in anyone["authority"]["planners"]] == ["ada"]
    assert [one["action"] for one in anyone["competence"]] == ["free", "reserve", "tell"]


def test_it_tells_how_each_action_has_fared(played: Any, open_store: ProjectionStore) -> None:
    """Wherever it was tried, in any intent; what never was has noughts and still its declaration."""
    answer = played.reader(open_store).ask("context", INTENT)
    reserve, tell = action(answer, "reserve"), action(answer, "tell")
    assert (reserve["fared"]["settled"], reserve["fared"]["failed"], reserve["undone_by"]) == (2, 0, "free")
    assert (reserve["creates"], reserve["ends_as"], reserve["can_be_asked_by"]) == ("hold", "RELEASABLE", ["LOOKUP"])
    assert set(tell["fared"].values()) == {0}
    assert (tell["approval"], tell["approvals_needed"], tell["human_gate"]) == ("N_OF_M", 2, "operations")


def test_an_action_in_doubt_counts_as_such_until_it_is_settled(hand: Any, open_store: ProjectionStore) -> None:
    """Then as settled, and as one that has been in doubt."""

    def fared() -> Row:
        with open_store.view() as view:
            counts = {name.split("\x1f")[1]: count for name, count in view.counts("", "fared").items()}
        return _fared(counts)

    hand.decide(hand.declared())
    hand.decide(hand.opened())
    hand.decide(hand.permitted())
    hand.decide(hand.doubted())
    hand.store_in(open_store, size=3)
    assert {name: n for name, n in fared().items() if n} == {"in_doubt": 1, "ever_in_doubt": 1}
    hand.decide(hand.settled(source="OBSERVER"))
    hand.store_in(open_store, start=4)
    assert {name: n for name, n in fared().items() if n} == {"settled": 1, "ever_in_doubt": 1}


def test_it_tells_what_is_under_way(scene: Any, open_store: ProjectionStore) -> None:
    """An open operation, with what it waits for; one that has settled is under way no more."""
    two = [{"step_id": name, "action": "run_check", "business_key": name} for name in ("a", "b")]
    asked = [
        {"as": "planner", "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": name} for name in "ab"
    ]
    settled = {"as": "executor", "type": "Commit", "step": "a", "external_id": "x", "evidence": ["seen"]}
    played = scene(declared(), scene.planned(*two), *asked, settled)
    (operation,) = played.reader(open_store).ask("context", INTENT)["operations"]
    assert (operation["step_id"], operation["status"], operation["timer"]) == ("b", "SUBMITTED", "SILENCE")
    assert operation["deadline_at"] > played.now


def test_obligations_of_an_older_version_are_told_too(scene: Any, open_store: ProjectionStore) -> None:
    """They are in force whatever is wanted now, with what is to become of them."""
    played = scene(
        {**declared(), **ADA},
        *reserved(scene, "w1"),
        {**declared(version=2, goals=[]), **ADA},
        catalogue=catalogue_from_text(CATALOGUE),
    )
    answer = played.reader(open_store).ask("context", INTENT)
    (commitment,) = answer["commitments"]
    assert (answer["intent"]["version"], commitment["intent_version"]) == (2, 1)
    assert commitment["disposition"]["disposition"] == "RELEASE"
    assert [goal["status"] for goal in answer["goals"]] == ["DROPPED"]


def test_without_principals_anyone_may_plan(scene: Any, open_store: ProjectionStore) -> None:
    """As the law has it: then the topic alone says who speaks."""
    answer = scene(declared()).reader(open_store).ask("context", INTENT, [("principal", "nobody")])
    assert (answer["authority"]["may_plan"], answer["authority"]["open_to_all"]) == (True, True)
    assert len(answer["competence"]) > 5


def test_without_a_catalogue_there_is_still_an_answer(hand: Any, open_store: ProjectionStore) -> None:
    """A ledger from before any catalogue: what is known is told, what is not is empty."""
    hand.story()
    hand.store_in(open_store)
    answer = StoreReader(open_store, clock=lambda: 100_000).ask("context", INTENT)
    assert (answer["competence"], answer["catalogue"]) == ([], None)
    assert [one["subject_kind"] for one in answer["in_doubt"]] == ["OPERATION"]
    assert [one["orphan_id"] for one in answer["orphans"]] == ["o1"]
    with pytest.raises(NotFound, match="There is no intent 'acme/none'"):
        StoreReader(open_store).ask("context", "acme/none")
