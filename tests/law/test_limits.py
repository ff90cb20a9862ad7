"""Limits of what one claim may bring with it: numbers that are none, stamps of any size, and all too much at once."""

import pytest

from joingate_processors.law.judge import SKEW_MS_MAX
from joingate_processors.law.plans import OPEN_MAX
from joingate_schemas import facts as f

from .driver import Court, step

INT64_MIN = -(2**63)


@pytest.fixture
def court() -> Court:
    return Court()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_an_argument_that_is_no_number_is_refused_in_plan_and_dispatch(court: Court, value: float) -> None:
    court.declare()
    assert court.plan(step("s1", "notify", arguments={"text": value})).reason == "MALFORMED"
    assert court.plan(step("s1", "notify")).verdict == "ACCEPTED"
    assert court.dispatch("s1", arguments={"text": value}).reason == "MALFORMED"
    assert court.dispatch("s1").verdict == "ACCEPTED"


@pytest.mark.parametrize(
    ("budgets", "fine"),
    [
        ({"exploration": 0.5, "verification": 0.3, "reconciliation": 0.2, "cost_max": 10.0}, True),
        ({"exploration": -1.0, "verification": 0.3, "reconciliation": 0.2}, False),
        ({"exploration": 2.0, "verification": 0.3, "reconciliation": 0.2}, False),
        ({"exploration": float("nan"), "verification": 0.3, "reconciliation": 0.2}, False),
        ({"exploration": 0.5, "verification": 0.3, "reconciliation": 0.2, "cost_max": float("nan")}, False),
        ({"exploration": 0.5, "verification": 0.3, "reconciliation": 0.2, "cost_max": -1.0}, False),
    ],
)
def test_budgets_are_shares_and_a_ceiling(court: Court, budgets: dict[str, float], fine: bool) -> None:
    assert court.declare(budgets=budgets).reason == ("OK" if fine else "MALFORMED")


@pytest.mark.parametrize("stamp", [INT64_MIN, 2**63 - 1, -1])
def test_a_stamp_of_any_size_is_decided_and_flagged(court: Court, stamp: int) -> None:
    decision = court.declare(occurred_at=stamp)
    assert decision.verdict == "ACCEPTED"
    skewed = [fact for fact in decision.facts if isinstance(fact, f.ClockSkewed)]
    assert len(skewed) == 1
    assert abs(skewed[0].skew_ms) <= SKEW_MS_MAX


def test_an_intent_with_too_much_open_starts_nothing_more_until_some_is_discharged(court: Court) -> None:
    steps = [step(f"s{n}", "write_file", business_key=f"f{n}") for n in range(OPEN_MAX + 1)]
    court.open(*steps[:-1], step("back", "release_window", business_key="w1"), steps[-1])
    assert all(court.dispatch(f"s{n}").verdict == "ACCEPTED" for n in range(OPEN_MAX))
    assert court.dispatch(f"s{OPEN_MAX}").reason == "COMMITMENT_DEBT"
    assert court.dispatch("back").verdict == "ACCEPTED", "what gives back makes it less"
    assert [court.commit(f"s{n}").verdict for n in range(2)] == ["ACCEPTED"] * 2
    assert court.dispatch(f"s{OPEN_MAX}").verdict == "ACCEPTED"
