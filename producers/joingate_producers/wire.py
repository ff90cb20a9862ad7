"""The seam between the SDK and a broker: what the SDK needs of one, in a handful of methods.

`kafka` puts it over the real client library, `memory` is the twin that runs in one process. One suite of tests holds
for both.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple, Protocol


class Fate(Enum):
    """What became of a record that was handed to an outlet."""

    WRITTEN = auto()
    # Timed out, disconnected, purged: it may lie in the topic or not, so the same bytes go out again.
    POSSIBLY_WRITTEN = auto()
    # Not taken yet: the outlet's own queue is full.
    NOT_TAKEN = auto()
    # The broker refuses it, and trying again unchanged can't help.
    REFUSED = auto()
    # The outlet is dead: whatever it held is possibly written, and it must be replaced.
    OUTLET_DEAD = auto()


class Delivery(NamedTuple):
    """The report on one record. `problem` is the start of a sentence, without full stop; empty if there is none."""

    fate: Fate
    problem: str = ""


class Row(NamedTuple):
    """One record as read. `append_ms` is the broker's append time."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    append_ms: int


Report = Callable[[Delivery], None]
ANY_PARTITION = -1


class Outlet(Protocol):
    """Where records leave, in the order of the calls. Every `produce` ends in exactly one report."""

    def produce(self, topic: str, key: bytes, value: bytes, partition: int, report: Report) -> None:
        """Hand one record over; by murmur2 of its key unless `partition` is given. Never blocks, never raises.

        `report` may be called in this call already, else from `poll` or `close`.
        """
        ...

    def poll(self, timeout_s: float) -> None:
        """Let reports come in; returns after the first ones, or after `timeout_s`."""
        ...

    def close(self) -> None:
        """Drop what is unsent (reported as POSSIBLY_WRITTEN) and let go of the broker."""
        ...


class Tail(Protocol):
    """A reader of one whole topic, committed records only, from the end that it found when it was started."""

    def start(self, timeout_s: float) -> int:
        """Find the end of each partition, and return how many there are. Raises Unreachable after `timeout_s`."""
        ...

    def poll(self, timeout_s: float) -> list[Row]:
        """What came since; empty after `timeout_s`. Raises LedgerBroken if records it had to read are gone."""
        ...

    @property
    def problem(self) -> str:
        """What keeps it from reading at present, as the start of a sentence; empty if nothing is known."""
        ...

    def close(self) -> None: ...


class CommandSource(Protocol):
    """A group's reader of one topic: committed records only, positions committed by hand."""

    def poll(self, timeout_s: float) -> list[Row]: ...

    def taken_at(self, partition: int) -> int | None:
        """The end of the partition when this member was given it: what lies before may have been another's to read.

        None if that is not known.
        """
        ...

    def commit(self, positions: Mapping[int, int]) -> None:
        """Everything below these offsets is handled: {partition: next offset}."""
        ...

    def hold(self, held: bool) -> None:
        """While held, `poll` brings nothing, yet keeps the membership in the group alive."""
        ...

    def close(self) -> None: ...


class Wire(Protocol):
    """A broker, as the SDK sees it."""

    def partitions(self, topic: str, timeout_s: float) -> int:
        """How many partitions the topic has. Raises Unreachable."""
        ...

    def outlet(self) -> Outlet: ...

    def tail(self, topic: str) -> Tail: ...

    def commands(self, topic: str, group: str, lost: Callable[[frozenset[int]], None]) -> CommandSource:
        """`lost` is told, within a poll, which partitions are going; what is handled may still be committed."""
        ...
