"""The room for what a partition has heard: up to when its intake topics are read, and whether one of them is stalled.

A timer due at T may fire only once every intake topic is read past T, or to an end that was fetched after T: after an
outage the waiting Commits are heard before timers speak (architecture §4). A topic whose stable offset is held below
its high watermark by somebody's open transaction is never read to its end, so that no timer fires out of blindness.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stall:
    """An intake topic that can't be read past `offset`, though it goes on to `end`; `since` is monotonic (ms)."""

    topic: str
    offset: int
    end: int
    since: int


class _Topic:
    """How far one topic is read, and what ends were fetched."""

    __slots__ = ("asked_at", "end", "heard_to", "held_since", "reached", "readable_to")

    def __init__(self, reached: int) -> None:
        self.reached = reached  # the next offset that may hold something unread
        self.readable_to: int | None = None  # where the client last said that it can read no further
        self.heard_to = 0  # everything that was appended before this (broker's ms) is read
        self.end: int | None = None  # an end that was fetched and is not reached yet,
        self.asked_at = 0  # and when it was asked for (broker's ms)
        self.held_since: int | None = None

    def move(self, reached: int) -> None:
        if reached > self.reached:
            self.reached = reached
            self.held_since = None
        self.settle()

    def settle(self) -> None:
        if self.end is not None and self.end <= self.reached:
            self.heard_to = max(self.heard_to, self.asked_at)
            self.end = None


class Heard:
    """How far one partition's intake topics are read, in offsets and in the broker's time."""

    def __init__(self, inputs: Mapping[str, int]) -> None:
        """`inputs`: each intake topic's short name and the next offset to read."""
        self._topics = {topic: _Topic(offset) for topic, offset in inputs.items()}

    def read(self, topic: str, next_offset: int, appended_at: int) -> None:
        """A record was read: its topic's next offset, and its append time."""
        one = self._topics[topic]
        # Others may have been appended in the same millisecond, so this one is not past yet.
        one.heard_to = max(one.heard_to, appended_at)
        one.move(next_offset)

    def at_end(self, topic: str, offset: int) -> None:
        """The client read everything readable below `offset`: aborted records and markers too, which it never shows."""
        one = self._topics[topic]
        one.move(offset)
        one.readable_to = one.reached

    def ends(self, ends: Mapping[str, int], asked_at: int | None, now_monotonic: int) -> None:
        """High watermarks arrived; they were asked for at `asked_at` (broker's ms; None: the time is not known yet)."""
        for topic, end in ends.items():
            one = self._topics[topic]
            # A pending end is kept until it is reached: under load a newer one would never be.
            if one.end is None and asked_at is not None:
                one.end, one.asked_at = end, asked_at
                one.settle()
            if one.reached < end and one.readable_to == one.reached:
                one.held_since = one.held_since or now_monotonic
            else:
                one.held_since = None

    @property
    def heard_to(self) -> int:
        """Everything that was appended before this moment (broker's ms), on any of the topics, is read."""
        return min(one.heard_to for one in self._topics.values())

    def lag(self, ends: Mapping[str, int]) -> int:
        """How many offsets are left to read up to `ends`."""
        return sum(max(0, end - self._topics[topic].reached) for topic, end in ends.items())

    def stalls(self, ends: Mapping[str, int], now_monotonic: int, after_ms: int) -> Iterable[Stall]:
        """The topics that have been held back for `after_ms` or longer."""
        for topic, one in self._topics.items():
            if one.held_since is not None and now_monotonic - one.held_since >= after_ms:
                yield Stall(topic, one.reached, ends.get(topic, one.reached), one.held_since)
