"""The room for the broker's clock as the gate knows it: claims are judged at append time, so timers must be too.

A record that we wrote comes back with its append time. The broker stamped it after we handed it over and before we
heard of it; each such sample narrows down how far the broker's clock is from ours. Ours is the monotonic one: it can't
be set, so a corrected wall clock moves no timer.
"""

import time
from collections.abc import Callable


class ClockOff(RuntimeError):
    """This machine's wall clock and the broker's disagree by more than is allowed; the text says by how much."""


def monotonic_ms() -> int:
    """This process's own time, in ms from some beginning."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The wall clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


class BrokerClock:
    """What time it is at the broker, at least: it may lag by the width of the best sample, it never runs ahead."""

    __slots__ = ("_high", "_low", "_max_skew_ms", "_monotonic", "_wall")

    def __init__(
        self,
        max_skew_ms: int,
        *,
        monotonic: Callable[[], int] = monotonic_ms,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._max_skew_ms = max_skew_ms
        self._monotonic = monotonic
        self._wall = wall
        self._low: int | None = None  # bounds of broker minus monotonic
        self._high = 0

    def mark(self) -> tuple[int, int]:
        """The moment before a record is handed over, to be given to `sample` with the record's append time."""
        return self._monotonic(), self._wall()

    def sample(self, marked: tuple[int, int], stamped_ms: int) -> None:
        """Learn that a record handed over after `marked` was appended at `stamped_ms`. Raises `ClockOff`."""
        before, wall_before = marked
        low, high = stamped_ms - self._monotonic(), stamped_ms + 1 - before
        if self._low is None or low > self._high or high < self._low:
            self._low, self._high = low, high  # The first sample, or one clock was set meanwhile.
        else:
            self._low, self._high = max(low, self._low), min(high, self._high)
        behind, ahead = stamped_ms - self._wall(), wall_before - stamped_ms - 1
        if max(behind, ahead) > self._max_skew_ms:
            raise ClockOff(
                f"This machine's clock is {max(behind, ahead)} ms {'behind' if behind > ahead else 'ahead of'} the "
                f"broker's, and {self._max_skew_ms} ms are allowed: set both by one time server, then start the gate."
            )

    def now(self) -> int | None:
        """The broker's time in ms, at least; None before the first sample."""
        return None if self._low is None else self._monotonic() + self._low
