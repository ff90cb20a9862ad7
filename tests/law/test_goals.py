"""Goals that are reached: what shows it, what work that ends, and what makes them open again."""

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.law import sparing
from joingate_processors.law.goals import subtrees
from joingate_schemas import claims as c

from .driver import Court, step
from .life_catalogue import lived
from .scenes import edges
from .table_admission import G1, PROVEN, of_goal

REACHED = "OBJECTIVE_ALREADY_SATISFIED"
PART: c.Goal = {"goal_id": "part", "acceptance": "a window is held", "parent_goal_id": "g1"}


def wanting(*goals: c.Goal, action: str = "write_file") -> Court:
    court = Court(lived())
    of_goal(*goals, action=action)(court)
    return court


def test_nothing_of_a_goal_is_known_before_a_source_has_shown_it() -> None:
    court = wanting()
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_the_refusal_says_who_showed_it_and_what_to_do() -> None:
    court = wanting()
    court.observe_goal("g1", "PRESENT", source="smoke-test")
    refused = court.dispatch("s1")
    assert (refused.reason, refused.status, refused.facts) == (REACHED, "SATISFIED", [])
    assert "smoke-test showed that goal g1 is reached" in refused.detail
    assert court.dispatch("s2").verdict == "ACCEPTED", "a step of no goal is none of its business"


def test_what_runs_already_goes_on_and_is_answered_with_its_status() -> None:
    court = wanting()
    court.dispatch("s1")
    court.observe_goal("g1", "PRESENT")
    assert court.dispatch("s1").reason == "SAME_OPERATION"
    assert court.commit("s1").verdict == "ACCEPTED"


@pytest.mark.parametrize("finding", ["ABSENT", "NOT_FOUND", "PENDING", "REVOKED", "SEVERAL"])
def test_newer_news_that_does_not_show_it_opens_it_again(finding: str) -> None:
    court = wanting()
    court.observe_goal("g1", "PRESENT", source_version=1)
    assert court.dispatch("s1").reason == REACHED
    assert court.observe_goal("g1", finding, source_version=2).verdict == "ACCEPTED"
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_older_news_does_not_open_it() -> None:
    court = wanting()
    court.observe_goal("g1", "PRESENT", source_version=3)
    assert court.observe_goal("g1", "ABSENT", source_version=2).reason == "STALE_OBSERVATION"
    assert court.dispatch("s1").reason == REACHED


@pytest.mark.parametrize("finding", ["UNREACHABLE", "UNKNOWN", "RESEND"])
def test_a_source_that_saw_nothing_says_nothing(finding: str) -> None:
    court = wanting()
    court.observe_goal("g1", "PRESENT", source_version=1)
    court.observe_goal("g1", finding, source_version=2)
    assert court.dispatch("s1").reason == REACHED


def test_while_sources_disagree_work_goes_on() -> None:
    court = wanting()
    court.observe_goal("g1", "PRESENT", source="smoke-test")
    court.observe_goal("g1", "ABSENT", source="monitor")
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_acceptance_needs_the_evidence_that_the_goal_asks_for() -> None:
    court = wanting(PROVEN)
    kept = court.observe_goal("g1", "PRESENT", source_version=1)
    assert "needs evidence of health" in kept.detail
    assert court.dispatch("s1").verdict == "ACCEPTED"
    court = wanting(PROVEN)
    court.observe_goal("g1", "PRESENT", evidence=["health:200"])
    assert court.dispatch("s1").reason == REACHED


@pytest.mark.parametrize("action", ["read_file", "free_hold"])
def test_looking_and_giving_back_are_no_work_on_the_goal(action: str) -> None:
    court = wanting(action=action)
    court.observe_goal("g1", "PRESENT")
    assert court.dispatch("s1").verdict == "ACCEPTED"


@pytest.mark.parametrize(
    ("goals", "reached"),
    [
        ([G1, PART], True),
        ([G1, PART, {"goal_id": "other", "acceptance": "new"}], True),
        ([{**G1, "acceptance": "production runs 4.3"}, PART], False),
        ([G1, {**PART, "acceptance": "another window is held"}], False),
        ([G1], False),
    ],
    ids=["untouched", "another goal beside it", "itself changed", "a part of it changed", "a part of it gone"],
)
def test_a_higher_version_asks_anew_about_a_goal_that_it_touches(goals: list[c.Goal], reached: bool) -> None:
    court = wanting(G1, PART)
    court.observe_goal("g1", "PRESENT")
    court.declare(2, goals=goals)
    court.plan(step("s1", "write_file", goal_id="g1"), plan_id="p2")
    assert (court.dispatch("s1").reason == REACHED) == reached


def test_a_part_that_is_reached_says_nothing_of_the_whole_nor_the_whole_of_its_part() -> None:
    for seen, free in (("part", "g1"), ("g1", "part")):
        court = Court(lived())
        court.declare(goals=[G1, PART])
        court.plan(step("g1", "write_file", goal_id="g1"), step("part", "write_file", goal_id="part"))
        court.observe_goal(seen, "PRESENT")
        assert court.dispatch(seen).reason == REACHED
        assert court.dispatch(free).verdict == "ACCEPTED"


def test_news_of_a_goal_that_is_not_wanted_is_kept_and_counts_for_none_that_comes_later() -> None:
    court = Court(lived())
    court.declare()
    assert "no goal g1" in court.observe_goal("g1", "PRESENT").detail
    court.declare(2, goals=[G1])
    court.plan(step("s1", "write_file", goal_id="g1"))
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_a_subtree_is_told_by_all_of_its_parts_and_a_circle_by_each_alone() -> None:
    parents = {"b": "a", "c": "b", "d": "a"}
    whole = subtrees({"a": "1", "b": "2", "c": "3", "d": "4"}, parents)
    deeper = subtrees({"a": "1", "b": "2", "c": "33", "d": "4"}, parents)
    assert {one for one in whole if whole[one] != deeper[one]} == {"a", "b", "c"}
    assert subtrees({"x": "1", "y": "2"}, {"x": "y", "y": "x"}) == {"x": "1", "y": "2"}


def test_a_chain_of_very_many_goals_is_read_without_recursion() -> None:
    goals: list[c.Goal] = [{"goal_id": "g0", "acceptance": "all"}]
    goals += [{"goal_id": f"g{n}", "acceptance": "more", "parent_goal_id": f"g{n - 1}"} for n in range(1, 2_000)]
    court = Court(lived())
    assert court.declare(goals=goals).verdict == "ACCEPTED"
    assert court.observe_goal("g0", "PRESENT").verdict == "ACCEPTED"


# --- what was spared -------------------------------------------------------------------------------------------------


def requiring() -> Court:
    """Step s1 is for goal g1; s2, for none, requires it."""
    court = Court(lived())
    court.declare(goals=[G1])
    court.plan(step("s1", "write_file", goal_id="g1"), step("s2", "write_file", "e2", edges=edges("REQUIRES", "s1")))
    return court


def test_what_was_not_begun_for_a_reached_goal_is_no_hole_and_what_requires_it_goes_on() -> None:
    court = requiring()
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"
    court.observe_goal("g1", "PRESENT")
    court.perform("s2")
    assert court.succeed("s2").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED", "nothing had to be done for s1"
    assert check(court.decisions) == []


def test_a_goal_that_opens_again_makes_it_a_hole_again() -> None:
    court = requiring()
    court.observe_goal("g1", "PRESENT", source_version=1)
    court.observe_goal("g1", "ABSENT", source_version=2)
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"
    assert court.close().reason == "MISSING_JOIN"


def test_what_was_begun_is_judged_by_its_effect() -> None:
    court = requiring()
    court.dispatch("s1")
    court.observe_goal("g1", "PRESENT")
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"
    court.in_doubt("s1")
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"
    assert court.close().reason == "MISSING_JOIN"


@pytest.mark.parametrize(("finish", "invariant"), [("dispatch", "REQUIRES"), ("close", "CLOSE")])
def test_the_checker_sees_a_hole_that_no_goal_covers(
    finish: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a law that takes every goal for reached."""
    monkeypatch.setattr(sparing, "is_spared", lambda case, one: one.step_id == "s1" or finish == "close")
    court = requiring()
    _ = court.dispatch("s2") if finish == "dispatch" else court.close()
    assert invariant in {one.invariant for one in check(court.decisions)}
