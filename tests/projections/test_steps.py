"""Given several plans for one slot, then each step shows what has become of the operation, whoever leads it now."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.fold import fold
from joingate_projections.tables import KEPT_MAX, MemoryRows, Row, joined

INTENT = "acme/release/4.2"


def step_of(rows: MemoryRows, plan_id: str) -> Row:
    """The row of the plan's first step."""
    return rows.tables["steps"][joined(INTENT, plan_id, "s1")]


@pytest.fixture
def doubted(hand: Any) -> Any:
    """A ledger in which the operation of plan p1's step is in doubt."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned("p1"), claim_type="Plan")
    for fact in (hand.opened(), hand.permitted(), hand.doubted()):
        hand.decide(fact)
    return hand


def supersede(hand: Any, number: int, *keys: str) -> None:
    """Plan p<number> takes the place of the one before."""
    before = f"p{number - 1}"
    hand.decide(
        hand.ended(before, by=f"p{number}"), hand.planned(f"p{number}", *keys, replaces=before), claim_type="Plan"
    )


@pytest.mark.parametrize("keys", [("ops",), ("other",)], ids=["planned again", "not wanted any more"])
def test_a_superseded_plans_step_shows_what_became_of_its_operation(doubted: Any, keys: tuple[str, ...]) -> None:
    """Nothing stays in doubt on the page once nothing is: neither in the old plan nor in the new one."""
    supersede(doubted, 2, *keys)
    assert step_of(doubted.rows(), "p1")["shown"] == "IN DOUBT"
    doubted.decide(doubted.settled())
    rows = doubted.rows()
    assert (step_of(rows, "p1")["operation_status"], step_of(rows, "p1")["operation_shown"]) == ("SETTLED", "EXECUTING")
    assert {row["shown"] for row in rows.tables["steps"].values()} <= {"EXECUTING", "PLAN"}


def test_the_join_under_the_new_plan_is_not_one_under_the_old(doubted: Any) -> None:
    supersede(doubted, 2)
    doubted.decide(doubted.settled())
    doubted.decide(doubted.succeeded(plan_id="p2"))
    rows = doubted.rows()
    assert (step_of(rows, "p1")["joined"], step_of(rows, "p2")["joined"]) == (False, True)
    assert (step_of(rows, "p1")["shown"], step_of(rows, "p2")["shown"]) == ("VERIFIED", "COMPLETE")


def test_a_step_keeps_to_its_own_operation_when_the_slot_has_a_newer_one(doubted: Any) -> None:
    """What failed stays failed, until news about that very operation comes."""
    doubted.decide(doubted.failed())
    supersede(doubted, 2)
    doubted.decide(doubted.opened(generation=2, plan_id="p2"))
    rows = doubted.rows()
    assert (step_of(rows, "p1")["shown"], step_of(rows, "p2")["shown"]) == ("FAILED", "EXECUTING")
    doubted.decide(doubted.doubted())
    rows = doubted.rows()
    assert (step_of(rows, "p1")["shown"], step_of(rows, "p2")["shown"]) == ("IN DOUBT", "EXECUTING")


def test_a_candidate_shows_the_operation_too(doubted: Any) -> None:
    doubted.decide(doubted.planned("p2", status="CANDIDATE", deadline_at=None), claim_type="Plan")
    doubted.decide(doubted.settled())
    rows = doubted.rows()
    assert [step_of(rows, plan)["operation_status"] for plan in ("p1", "p2")] == ["SETTLED", "SETTLED"]


def test_a_planner_that_never_stops_replanning_makes_no_change_dearer_and_leaves_nothing_stale(doubted: Any) -> None:
    """Beyond so many plans the oldest step is superseded for good, rather than shown as it once was."""
    plans = KEPT_MAX + 5
    for number in range(2, plans + 1):
        supersede(doubted, number)
    doubted.decide(doubted.settled())
    rows = doubted.rows()
    assert "IN DOUBT" not in {row["shown"] for row in rows.tables["steps"].values()}
    assert (step_of(rows, "p1")["shown"], step_of(rows, "p1")["operation_shown"]) == ("SUPERSEDED", None)
    assert step_of(rows, f"p{plans}")["shown"] == step_of(rows, f"p{plans - 1}")["shown"] == "EXECUTING"
    assert {len(row["steps"]) for row in rows.tables["followers"].values()} == {KEPT_MAX}


def test_older_news_that_the_law_refuses_leaves_what_is_shown(scene: Any) -> None:
    """By the law's own ledger: PRESENT of version 9, then ABSENT of version 3 from the same source."""
    seen = {"as": "observer", "type": "Observe", "subject_kind": "OPERATION", "step": "s1", "source": "messenger",
            "evidence": ["look"]}  # fmt: skip
    played = scene(
        {"as": "planner", "type": "DeclareIntent", "version": 1, "goals": [{"goal_id": "g", "acceptance": "told"}]},
        scene.planned({"step_id": "s1", "action": "notify", "business_key": "ops"}),
        *scene.done("s1", "messenger"),
        {**seen, "finding": "PRESENT", "source_version": 9, "external_ids": ["x-s1"]},
        {**seen, "finding": "ABSENT", "source_version": 3, "proof": "TOMBSTONE"},
        {"expect": {"verdict": "REJECTED", "reason": "STALE_OBSERVATION"}},
    )
    rows = MemoryRows()
    for decision in played.decisions:
        fold(rows, decision, 0)
    (operation,) = rows.tables["operations"].values()
    assert (operation["seen"], operation["observation"]["source_version"]) == (True, 9)
    assert operation["shown"] == "VERIFIED"
