"""When timers may speak: once every topic is read past their time, or to an end that was fetched after it."""

import pytest

from joingate_processors.gate.clock import BrokerClock, ClockOff
from joingate_processors.gate.heard import Heard

BOTH = {"outcomes": 5, "proposals": 9}


def test_nothing_is_heard_before_an_end_was_reached() -> None:
    assert Heard(BOTH).heard_to == 0


def test_the_quietest_topic_says_how_far_all_are_heard() -> None:
    heard = Heard(BOTH)
    heard.read("proposals", 10, 2_000)
    assert heard.heard_to == 0
    heard.ends({"outcomes": 5, "proposals": 10}, 1_000, 0)
    assert heard.heard_to == 1_000


def test_an_end_that_was_fetched_counts_from_when_it_was_asked_for_once_it_is_reached() -> None:
    heard = Heard(BOTH)
    heard.ends({"outcomes": 7, "proposals": 9}, 1_000, 0)
    heard.read("outcomes", 6, 300)
    heard.ends({"outcomes": 8, "proposals": 9}, 2_000, 0)
    assert heard.heard_to == 300
    heard.read("outcomes", 7, 400)
    assert heard.heard_to == 1_000


def test_markers_and_aborted_records_at_the_end_count_as_read() -> None:
    heard = Heard(BOTH)
    heard.at_end("outcomes", 8)
    heard.ends({"outcomes": 8, "proposals": 9}, 1_000, 0)
    assert heard.heard_to == 1_000
    heard.read("outcomes", 6, 1_001)  # told late: what is read stays read
    heard.ends({"outcomes": 8, "proposals": 9}, 2_000, 0)
    assert heard.heard_to == 2_000


def test_before_the_brokers_time_is_known_no_end_counts() -> None:
    heard = Heard(BOTH)
    heard.ends(BOTH, None, 0)
    assert heard.heard_to == 0
    heard.ends(BOTH, 1_000, 0)
    assert heard.heard_to == 1_000


def test_a_topic_held_below_its_end_is_stalled_after_a_while_and_freezes_time() -> None:
    heard = Heard(BOTH)
    heard.at_end("outcomes", 5)
    ends = {"outcomes": 8, "proposals": 9}
    heard.ends(ends, 1_000, 100)
    assert list(heard.stalls(ends, 2_000, 2_000)) == []
    heard.ends(ends, 3_000, 2_200)
    (stall,) = heard.stalls(ends, 2_200, 2_000)
    assert (stall.topic, stall.offset, stall.end, stall.since) == ("outcomes", 5, 8, 100)
    assert heard.heard_to == 0
    heard.at_end("outcomes", 8)
    heard.ends(ends, 4_000, 3_300)
    assert list(heard.stalls(ends, 9_000, 2_000)) == []
    assert heard.heard_to == 4_000


def test_a_topic_that_is_only_not_fetched_yet_lags_and_is_not_stalled() -> None:
    heard = Heard(BOTH)
    ends = {"outcomes": 8, "proposals": 10}
    heard.ends(ends, 1_000, 100)
    assert list(heard.stalls(ends, 9_000, 2_000)) == []
    assert heard.lag(ends) == 4


class Times:
    """Two clocks that a test sets."""

    def __init__(self) -> None:
        self.monotonic = 0
        self.wall = 1_000_000

    def clock(self, max_skew_ms: int = 500) -> BrokerClock:
        return BrokerClock(max_skew_ms, monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    def pass_ms(self, ms: int) -> None:
        self.monotonic += ms
        self.wall += ms


def test_the_brokers_time_never_runs_ahead_of_what_samples_prove() -> None:
    times = Times()
    clock = times.clock()
    assert clock.now() is None
    marked = clock.mark()
    times.pass_ms(40)
    clock.sample(marked, 1_000_010)  # stamped 30 ms before we heard of it, at the earliest reading of its clock
    assert clock.now() == 1_000_010
    marked = clock.mark()
    times.pass_ms(5)
    clock.sample(marked, 1_000_044)  # a quicker answer narrows it down
    assert clock.now() == 1_000_044
    times.pass_ms(1_000)
    assert clock.now() == 1_001_044


def test_a_broker_clock_that_was_set_is_followed() -> None:
    times = Times()
    clock = times.clock(max_skew_ms=10_000)
    clock.sample(clock.mark(), 1_000_000)
    clock.sample(clock.mark(), 995_000)
    assert clock.now() == 995_000


@pytest.mark.parametrize(("stamped", "said"), [(1_000_601, "behind"), (999_400, "ahead of")])
def test_a_clock_that_is_off_by_more_than_allowed_is_told_with_its_direction(stamped: int, said: str) -> None:
    clock = Times().clock(max_skew_ms=500)
    with pytest.raises(ClockOff, match=said):
        clock.sample(clock.mark(), stamped)


def test_a_slow_answer_is_no_skew() -> None:
    times = Times()
    clock = times.clock(max_skew_ms=500)
    marked = clock.mark()
    times.pass_ms(30_000)
    clock.sample(marked, 1_015_000)
    assert clock.now() == 1_015_000
