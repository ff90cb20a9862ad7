"""Goals that are seen to be reached: what is so already needs no work, and what was not begun for it is no hole."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from joingate_processors.forensics.checker import check
from joingate_schemas import claims as c
from joingate_schemas.decisions import Decision

from .catalogues import varied
from .driver import Court, step
from .scenes import edges

COMPATIBLE: c.Goal = {"goal_id": "g1", "acceptance": "the schema satisfies release 4.2"}
TOLD: c.Goal = {"goal_id": "g2", "acceptance": "operations know"}


def court_of(*steps: c.PlanStep) -> Court:
    """Step s1 migrates, for goal g1; step s2 tells operations, for goal g2, and requires s1."""
    court = Court(varied())
    court.declare(goals=[COMPATIBLE, TOLD])
    court.plan(*(steps or (
        step("s1", "write_file", goal_id="g1"), step("s2", "notify", goal_id="g2", edges=edges("REQUIRES", "s1")),
    )))  # fmt: skip
    return court


def seen(court: Court, goal_id: str = "g1", finding: c.Finding = "PRESENT", **given: Any) -> Decision:
    """What a system of record says of the goal."""
    news: dict[str, Any] = {
        "claim_id": court.claim_id(), "intent_id": "acme/errand/1", "subject_kind": "GOAL", "subject_id": goal_id,
        "finding": finding, "source": "schema", "external_ids": [], "evidence": ["looked"], **given,
    }  # fmt: skip
    return court.say(c.Observe(**news))


def test_what_is_so_already_is_not_done_and_what_requires_it_goes_on() -> None:
    court = court_of()
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"
    seen(court)
    refused = court.dispatch("s1")
    assert (refused.verdict, refused.reason, refused.facts) == ("REJECTED", "OBJECTIVE_ALREADY_SATISFIED", [])
    court.perform("s2")
    assert court.succeed("s2").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED", "nothing had to be done for s1"
    assert check(court.decisions) == []


def test_another_goals_step_and_a_look_are_not_refused() -> None:
    court = court_of(
        step("s1", "read_file", goal_id="g1"), step("s2", "write_file", goal_id="g2"), step("s3", "notify")
    )
    seen(court)
    assert [court.dispatch(one).verdict for one in ("s1", "s2", "s3")] == ["ACCEPTED"] * 3


@pytest.mark.parametrize("finding", ["ABSENT", "NOT_FOUND", "UNREACHABLE"])
def test_a_goal_that_is_not_seen_any_more_is_work_again_and_a_hole_again(finding: c.Finding) -> None:
    court = court_of()
    seen(court, source_version=1)
    seen(court, finding=finding, source_version=2)
    assert seen(court, source_version=1).reason == "STALE_OBSERVATION"
    court.plan(step("s1", "write_file", goal_id="g1"), plan_id="p2", replaces="p1")
    assert court.close().reason == "MISSING_JOIN"
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_what_was_seen_of_a_goal_does_not_count_once_it_is_stated_otherwise() -> None:
    for goal, reason in ((COMPATIBLE, "OBJECTIVE_ALREADY_SATISFIED"), ({**COMPATIBLE, "acceptance": "of 4.3"}, "OK")):
        court = court_of()
        seen(court)
        court.declare(2, goals=[goal])
        court.plan(step("s1", "write_file", goal_id="g1"), plan_id="p2")
        assert court.dispatch("s1").reason == reason
        assert check(court.decisions) == []


def test_a_step_that_was_begun_is_judged_by_its_effect() -> None:
    """Neither a doubt nor a settlement that nobody took up is passed over since the goal is reached."""
    court = court_of(step("s1", "notify", goal_id="g1"))
    court.permit("s1")
    seen(court)
    assert court.dispatch("s1").reason == "SAME_OPERATION"
    assert court.close().reason == "MISSING_JOIN"
    court.in_doubt("s1")
    assert court.close().reason == "MISSING_JOIN"


def test_what_was_undone_does_not_count_as_joined() -> None:
    court = court_of()
    court.perform("s1")
    court.abort("s1")
    seen(court)
    compensation = next(row.operation_id for _, row in court.state.rows("operations") if row.compensates)
    court.perform(compensation)
    assert court.op("s1").status == "COMPENSATED"
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"


def test_news_of_a_goal_that_nobody_stated_changes_nothing() -> None:
    court = court_of()
    assert (seen(court, "g9").verdict, court.state.rows("conditions")) == ("ACCEPTED", [])
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_the_ledger_alone_rebuilds_what_was_seen() -> None:
    court = court_of()
    seen(court)
    assert court.replayed().rows("conditions") == court.state.rows("conditions") != []


@pytest.mark.parametrize(
    ("finish", "invariant"), [(lambda x: x.dispatch("s2"), "REQUIRES"), (lambda x: x.close(), "CLOSE")]
)
def test_the_checker_sees_a_hole_that_no_goal_covers(
    finish: Callable[[Court], Decision], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a law that takes every goal for reached."""
    monkeypatch.setattr(import_module("joingate_processors.law.goals"), "is_spared", lambda case, step: True)
    court = court_of()
    finish(court)
    assert invariant in {one.invariant for one in check(court.decisions)}
