"""Plans compared by burden: what the law recorded, the lightest first, and what is held already beside them."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.errors import NotFound
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import Row

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
