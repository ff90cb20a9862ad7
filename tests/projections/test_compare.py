"""Plans compared by burden: what the law recorded, the lightest first, and what is held already beside them."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.errors import NotFound
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import Row
from joingate_schemas.facts import ResourceChanged

INTENT = "acme/release/4.2"
DECLARED = {"as": "planner", "type": "DeclareIntent", "version": 1}
WINDOW = {"step_id": "w", "action": "reserve_window", "business_key": "w1"}
REVIEW = {"step_id": "r", "action": "request_review", "business_key": "a1"}
CHECK = {"step_id": "c", "action": "run_check", "business_key": "c1"}
WRITE = {"step_id": "f", "action": "write_file", "business_key": "notes"}
TELL = {"step_id": "t", "action": "notify", "business_key": "ops"}


def order(answer: Row) -> list[str]:
    """The plans' ids as they are listed."""
    return [plan["plan_id"] for plan in answer["plans"]]


def test_the_plan_that_commits_to_less_comes_first(scene: Any, open_store: ProjectionStore) -> None:
    """Five reservations and a message against one reversible step in a sandbox: the seed's own example."""
    heavy = [{**WINDOW, "step_id": f"w{n}", "business_key": f"w{n}"} for n in range(5)]
    answer = (
        scene(
            DECLARED,
            scene.planned(*heavy, REVIEW, TELL, plan_id="a-heavy", adopt=False),
            scene.planned(WINDOW, REVIEW, plan_id="b-middle", adopt=False),
            scene.planned(CHECK, WRITE, plan_id="c-light"),
        )
        .reader(open_store)
        .ask("compare", INTENT)
    )
    assert (order(answer), answer["lightest"]) == (["c-light", "b-middle", "a-heavy"], "c-light")
    burdens = {plan["plan_id"]: plan["burden"] for plan in answer["plans"]}
    assert burdens["a-heavy"]["by_class"] == {"RELEASABLE": 6}
    assert (burdens["a-heavy"]["exclusive"], burdens["a-heavy"]["irreversible"]) == (5, 1)
    assert (burdens["a-heavy"]["idle_cost"], burdens["b-middle"]["promises"]) == (5.0, 1)
    assert [plan["recorded"] for plan in answer["plans"]] == [True, True, True]


def test_what_can_not_be_undone_outweighs_any_number_of_reservations(scene: Any, open_store: ProjectionStore) -> None:
    """A price can be paid; an announcement can't be taken back."""
    windows = [{**WINDOW, "step_id": f"w{n}", "business_key": f"w{n}"} for n in range(9)]
    answer = scene(
        DECLARED, scene.planned(*windows, plan_id="held"), scene.planned(TELL, plan_id="told", adopt=False)
    ).reader(open_store).ask("compare", INTENT)  # fmt: skip
    assert order(answer) == ["held", "told"]


def test_plans_that_are_out_of_the_running_come_last(scene: Any, open_store: ProjectionStore) -> None:
    """Superseded ones, and those of an older version, however light."""
    reader = scene(
        DECLARED,
        scene.planned(CHECK, plan_id="old"),
        scene.planned(WINDOW, plan_id="new", replaces="old"),
        {**DECLARED, "version": 2},
        scene.planned(TELL, plan_id="now", version=2),
    ).reader(open_store)
    answer = reader.ask("compare", INTENT)
    assert (order(answer), answer["lightest"]) == (["now", "old", "new"], "now")
    assert [plan["in_the_running"] for plan in answer["plans"]] == [True, False, False]


def test_what_is_held_already_is_told_with_what_it_costs(scene: Any, open_store: ProjectionStore) -> None:
    """A window idle for two hours, at one an hour."""
    answer = scene(
        DECLARED, scene.planned(WINDOW), *scene.done("w"), scene.seen("w"), {"advance": "2h"}
    ).reader(open_store).ask("compare", INTENT)  # fmt: skip
    assert answer["held"]["commitments"] == 1
    assert answer["held"]["idle_cost_per_hour"] == 1.0
    assert answer["held"]["idle_cost_so_far"] == pytest.approx(2.0)


def test_naming_a_resource_holds_nothing_and_a_dispatched_operation_does(
    scene: Any, open_store: ProjectionStore
) -> None:
    """Eligible until something was made of it: for the candidate and for the plan in force alike."""
    other = {**WINDOW, "step_id": "x", "business_key": "w2", "parallel": True}
    answer = scene(
        DECLARED,
        scene.planned({**WINDOW, "business_key": "w3"}, plan_id="candidate", adopt=False),
        scene.planned(WINDOW, other),
        *scene.done("w"),
        scene.seen("w"),
    ).reader(open_store).ask("compare", INTENT)  # fmt: skip
    placed = {plan["plan_id"]: plan["placement"] for plan in answer["plans"]}
    assert placed["candidate"] == {"eligible": ["window:w3"], "committed": []}
    assert placed["p1"]["eligible"] == ["window:w2"]
    assert [one["resource_ref"] for one in placed["p1"]["committed"]] == ["window:w1"]


@pytest.mark.parametrize(
    ("standing", "held"), [("WANTED", False), ("ASKED", False), ("HELD", True), ("OVERDUE", True), ("RETURNED", False)]
)
def test_a_grant_commits_a_resource_until_it_is_given_back(
    hand: Any, open_store: ProjectionStore, standing: str, held: bool
) -> None:
    """Neither wanting nor asking does."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned("p1", "ops"), claim_type="Plan")
    operation = hand.operation()
    stands = ResourceChanged(operation_id=operation, intent_id=INTENT, resource_ref="bench:1", quantity=1,
                             standing=standing)  # type: ignore[arg-type]  # fmt: skip
    hand.decide(hand.opened(), stands, claim_type="Dispatch")
    hand.store_in(open_store)
    (plan,) = StoreReader(open_store).ask("compare", INTENT)["plans"]
    assert plan["placement"]["committed"] == ([{"resource_ref": "bench:1", "by": operation}] if held else [])


def test_a_plan_of_an_older_ledger_is_reckoned_now_and_says_so(
    scene: Any, hand: Any, open_store: ProjectionStore
) -> None:
    """By the catalogue in force; without any it is not known, and no plan is called the lightest."""
    scene({**DECLARED, "intent_id": "acme/other"}).store_in(open_store)
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned("p1", "ops"), claim_type="Plan")
    hand.store_in(open_store)
    (plan,) = StoreReader(open_store).ask("compare", INTENT)["plans"]
    assert (plan["recorded"], plan["burden"]["irreversible"]) == (False, 1)
    with ProjectionStore.open(open_store.folder / "bare") as bare:
        hand.store_in(bare)
        answer = StoreReader(bare).ask("compare", INTENT)
    assert (answer["plans"][0]["burden"], answer["lightest"]) == (None, None)


def test_an_intent_that_is_not_there_is_a_sentence(open_store: ProjectionStore) -> None:
    """Not an empty comparison."""
    with pytest.raises(NotFound, match="There is no intent 'acme/none'"):
        StoreReader(open_store).ask("compare", "acme/none")
