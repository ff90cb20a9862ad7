"""Goals that are reached: what shows it, what work that ends, and what makes them open again."""

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.law import intents, sparing
from joingate_processors.law.goals import subtrees
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue

from .catalogues import arbitrated, without_keys
from .driver import INTENT, Court, step
from .life_catalogue import lived
from .scenes import edges
from .table_admission import G1, PROVEN, all_done, of_goal

REACHED = "OBJECTIVE_ALREADY_SATISFIED"
PART: c.Goal = {"goal_id": "part", "acceptance": "a window is held", "parent_goal_id": "g1"}


def wanting(*goals: c.Goal, action: str = "write_file") -> Court:
    court = Court(lived())
    of_goal(*goals, action=action)(court)
    return court


def scarce_lives() -> Catalogue:
    """The catalogue of lives, with what is scarce and the actions on it."""
    scarce = arbitrated()
    return lived(actions={**lived().actions, **scarce.actions}, resources=scarce.resources)


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


# --- the close -------------------------------------------------------------------------------------------------------


def done(*goals: c.Goal, close_needs_goals: bool = True) -> Court:
    court = Court(lived())
    all_done(*goals, close_needs_goals=close_needs_goals)(court)
    return court


def test_unless_it_is_asked_for_an_intent_closes_over_goals_that_nobody_looked_at() -> None:
    court = done(PROVEN, PART, close_needs_goals=False)
    assert court.close().verdict == "ACCEPTED"
    assert check(court.decisions) == []


def test_the_close_is_refused_with_every_goal_that_was_not_seen_by_name_and_what_would_show_it() -> None:
    court = done(PROVEN, PART, {"goal_id": "told", "acceptance": "the customer knows"})
    court.observe_goal("told", "PRESENT")
    refused = court.close()
    assert (refused.reason, refused.facts) == ("GOALS_NOT_SEEN", [])
    assert "no source shows g1 (by evidence of health), part" in refused.detail
    assert "told" not in refused.detail
    court.observe_goal("g1", "PRESENT", evidence=["health:200"])
    court.observe_goal("part", "PRESENT")
    assert court.close().verdict == "ACCEPTED"
    assert check(court.decisions) == []


def test_a_goal_that_was_seen_and_is_not_any_more_keeps_the_intent_open() -> None:
    court = done(G1)
    court.observe_goal("g1", "PRESENT", source_version=1)
    court.observe_goal("g1", "ABSENT", source_version=2)
    assert court.close().reason == "GOALS_NOT_SEEN"
    court.observe_goal("g1", "PRESENT", source_version=3)
    court.observe_goal("g1", "ABSENT", source="monitor")
    assert court.close().reason == "GOALS_NOT_SEEN", "sources disagree"


def test_only_the_goals_of_the_version_in_force_count_and_as_they_are_stated_now() -> None:
    court = done(G1, {"goal_id": "g2", "acceptance": "told"})
    court.observe_goal("g1", "PRESENT")
    court.declare(2, goals=[{**G1, "acceptance": "production runs 4.3"}], close_needs_goals=True)
    court.plan(step("s1", "write_file", goal_id="g1"), plan_id="p2")
    assert court.succeed("s1").verdict == "ACCEPTED"
    assert "no source shows g1" in court.close().detail
    court.observe_goal("g1", "PRESENT")
    assert court.close().verdict == "ACCEPTED", "g2 is not wanted any more"


def test_a_higher_version_may_take_the_wish_back() -> None:
    court = done(G1)
    court.declare(2, goals=[G1])
    court.plan(step("s1", "write_file", goal_id="g1"), plan_id="p2")
    court.succeed("s1")
    assert court.close().verdict == "ACCEPTED"


def test_a_cancelled_intent_closes_without_its_goals() -> None:
    court = done(G1)
    court.cancel()
    assert court.close().verdict == "ACCEPTED"
    assert check(court.decisions) == []


def test_of_very_many_goals_the_first_are_named_and_the_others_counted() -> None:
    court = done(*({"goal_id": f"g{n}", "acceptance": "so"} for n in range(1, 30)))
    detail = court.close().detail
    assert "g20 and 9 more" in detail
    assert "g21" not in detail


def test_what_an_unreadable_record_may_have_said_of_a_goal_holds_the_close() -> None:
    court = done(G1)
    court.quarantine()
    assert court.close().reason == "HELD"


def test_the_checker_sees_a_close_over_a_goal_that_nobody_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "_check_goals_seen", lambda case, intent: None)
    court = done(PROVEN)
    court.observe_goal("g1", "PRESENT")
    assert court.close().verdict == "ACCEPTED"
    assert [one.invariant for one in check(court.decisions)] == ["CLOSE"]


# --- between the dispatch and the permit -----------------------------------------------------------------------------


def waiting(action: str, goal: str = "g1", **arguments: c.Scalar) -> Court:
    """Step s1, for goal g1, was dispatched; s2, for none, is yet to be done."""
    court = Court(lived())
    court.load()
    court.declare(goals=[G1, {"goal_id": "g2", "acceptance": "told"}])
    s1 = step("s1", action, goal_id=goal, arguments=arguments)
    assert court.plan(s1, step("s2", "write_file", parallel=True)).verdict == "ACCEPTED"
    assert court.dispatch("s1").verdict == "ACCEPTED"
    return court


def test_who_asks_for_the_permit_is_told_that_the_goal_is_reached_and_the_step_is_spared() -> None:
    court = waiting("pay")
    court.observe_goal("g1", "PRESENT", source="smoke-test")
    assert court.op("s1").status == "VALIDATED", "the goal may be open again by the time the executor asks"
    told = court.prepared("s1")
    assert (told.verdict, told.reason, told.status) == ("REJECTED", REACHED, "WITHDRAWN")
    assert "smoke-test showed that goal g1 is reached" in told.detail
    assert court.commands(court.op_id("s1"))[-1] == "WITHDRAW 1"
    court.perform("s2")
    court.succeed("s2")
    assert court.close().verdict == "ACCEPTED", "nothing had to be done for s1"
    assert check(court.decisions) == []


def test_a_goal_that_is_open_again_by_then_is_worked_on() -> None:
    court = waiting("pay")
    court.observe_goal("g1", "PRESENT", source_version=1)
    court.observe_goal("g1", "ABSENT", source_version=2)
    assert court.prepared("s1").verdict == "ACCEPTED"


def test_another_goal_than_the_steps_own_spares_nothing() -> None:
    court = waiting("pay", "g2")
    court.observe_goal("g1", "PRESENT")
    assert court.prepared("s1").verdict == "ACCEPTED"


def test_what_gives_back_gets_its_permit_whatever_is_reached() -> None:
    court = Court(lived(downstreams={**lived().downstreams, "cloud": without_keys().downstreams["bank"]}))
    court.declare(goals=[G1])
    court.plan(step("s1", "free_hold", goal_id="g1"))
    court.dispatch("s1")
    court.observe_goal("g1", "PRESENT")
    assert court.prepared("s1").verdict == "ACCEPTED"


def test_what_may_have_acted_is_asked_about_and_not_withdrawn() -> None:
    court = waiting("pay")
    assert court.prepared("s1").verdict == "ACCEPTED"
    court.in_doubt("s1")
    court.observe_goal("g1", "PRESENT")
    assert court.op("s1").status == "IN_DOUBT"
    court.advance(1_000_000)
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert court.prepared("s1").verdict == "ACCEPTED", "under the same key, to find out"
    assert check(court.decisions) == []


def test_an_effect_that_no_permit_allowed_is_no_step_that_was_spared() -> None:
    court = waiting("pay")
    assert court.commit("s1").reason == "NO_PERMIT"
    court.observe_goal("g1", "PRESENT")
    assert court.prepared("s1").reason == "ALREADY_CLAIMED"
    assert court.op("s1").status == "IN_DOUBT"


def test_an_executor_that_does_not_ask_is_not_asked_again() -> None:
    court = waiting("pay")
    court.observe_goal("g1", "PRESENT")
    court.advance(31_000)
    assert court.op("s1").status == "WITHDRAWN"
    assert court.commands(court.op_id("s1")) == ["PREPARE 1", "WITHDRAW 1"]


@pytest.mark.parametrize(
    ("action", "timer"),
    [("pay_approved", "APPROVAL"), ("pay_held", "HOLD"), ("make_message", "CONDITION"), ("train_held", "HOLD")],
)
def test_what_waits_is_withdrawn_in_the_decision_that_shows_the_goal(action: str, timer: str) -> None:
    court = Court(scarce_lives())
    court.declare(goals=[G1])
    court.plan(step("s1", action, goal_id="g1", arguments={"name": "m", "bench": "b1"}))
    court.dispatch("s1")
    assert (court.op("s1").status, court.op("s1").timer) == ("STAGED", timer)
    shown = court.observe_goal("g1", "PRESENT")
    assert court.op("s1").status == "WITHDRAWN"
    assert "OperationWithdrawn" in {type(fact).__name__ for fact in shown.facts}
    assert court.approve("s1").reason == "NOT_AWAITING_APPROVAL", "nobody is asked in vain"
    court.close()
    assert check(court.decisions) == []


def test_a_resource_that_is_granted_too_late_is_given_back() -> None:
    court = Court(scarce_lives())
    court.declare(goals=[G1])
    court.plan(step("s1", "train", goal_id="g1", arguments={"pool": "a100", "count": 2, "bench": "b1"}))
    court.dispatch("s1")
    assert court.op("s1").timer == "RESOURCES"
    court.observe_goal("g1", "PRESENT")
    granted = court.say(
        c.ResourceGranted(claim_id="g", intent_id=INTENT, operation_id=court.op_id("s1"), resource_ref="bench:b1")
    )
    assert granted.reason == "OPERATION_ENDED"
    assert [fact.standing for fact in granted.facts if isinstance(fact, f.ResourceChanged)] == ["RETURNED"]


def test_while_sources_disagree_what_waits_goes_on_waiting() -> None:
    court = waiting("pay_approved")
    court.observe_goal("g1", "ABSENT", source="monitor", source_version=1)
    court.observe_goal("g1", "PRESENT", source="smoke-test")
    assert court.op("s1").status == "STAGED"
    court.observe_goal("g1", "PRESENT", source="monitor", source_version=2)
    assert court.op("s1").status == "WITHDRAWN"


def test_an_approval_of_what_was_withdrawn_counts_when_the_goal_is_open_again_and_the_content_the_same() -> None:
    court = waiting("pay_by_two")
    court.approve("s1", principal="ann")
    court.observe_goal("g1", "PRESENT", source_version=1)
    assert court.op("s1").status == "WITHDRAWN"
    court.observe_goal("g1", "ABSENT", source_version=2)
    assert court.dispatch("s1").verdict == "ACCEPTED"
    assert court.op("s1").approvals == ["ann"]
    court.approve("s1", principal="ben")
    assert court.op("s1").status == "VALIDATED"


@pytest.mark.parametrize("name", ["overtaken", "can_be_spared"])
def test_the_checker_sees_what_goes_on_for_a_goal_that_is_reached(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparing, name, lambda *args: None)
    court = Court(lived())
    court.load()
    court.declare(goals=[G1])
    court.plan(step("s1", "pay" if name == "overtaken" else "pay_held", goal_id="g1"))
    court.dispatch("s1")
    court.observe_goal("g1", "PRESENT")
    court.advance(60_000)
    court.prepared("s1")
    assert "REACHED" in {one.invariant for one in check(court.decisions)}
