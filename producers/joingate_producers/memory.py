"""The in-memory twin of a broker, behind the seam of `wire`: for unit tests, and for trying the SDK without Kafka.

It keeps the promises that the SDK builds on (order within a partition, murmur2, reports, groups of one member) and can
be told to break them in the ways that real brokers do.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from joingate_producers.errors import Unreachable
from joingate_producers.wire import ANY_PARTITION, Delivery, Fate, Report, Row
from joingate_schemas.topics import partition_for


class MemoryBroker:
    """Topics in lists. It is its own `Wire`; topics come into being when they are written or read.

    `away` set to true makes it a broker that does not answer. Each record that arrives takes the next of `mishaps`,
    if there is one: (whether it is written all the same, what is reported of it).
    """

    def __init__(self, partition_count: int = 4, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self.partition_count = partition_count
        self.mishaps: deque[tuple[bool, Delivery]] = deque()
        self.committed: dict[tuple[str, str, int], int] = {}
        self._away = False
        self._now_ms = now_ms
        self._changed = threading.Condition()
        self._topics: dict[str, list[list[Row]]] = {}

    @property
    def away(self) -> bool:
        """Whether the broker is out of reach."""
        return self._away

    @away.setter
    def away(self, away: bool) -> None:
        with self._changed:
            self._away = away
            self._changed.notify_all()

    def log(self, topic: str, partition: int) -> list[Row]:
        """The records of one partition; a copy."""
        with self._changed:
            return list(self._logs(topic)[partition])

    def rows(self, topic: str) -> list[Row]:
        """The records of all partitions, by partition."""
        return [row for partition in range(self.partition_count) for row in self.log(topic, partition)]

    def append(self, topic: str, key: bytes | None, value: bytes, partition: int = ANY_PARTITION) -> Row:
        """Write one record, whether the broker is away or not."""
        if partition == ANY_PARTITION:
            partition = partition_for(key or b"", self.partition_count)
        with self._changed:
            rows = self._logs(topic)[partition]
            row = Row(partition, len(rows), key, value, self._now_ms())
            rows.append(row)
            self._changed.notify_all()
        return row

    def _logs(self, topic: str) -> list[list[Row]]:
        return self._topics.setdefault(topic, [[] for _ in range(self.partition_count)])

    def read(self, topic: str, positions: dict[int, int], timeout_s: float) -> list[Row]:
        """What lies at or after `positions`, which move past it; waits for it up to `timeout_s`."""

        def found() -> list[Row]:
            if self._away:
                return []
            return [row for number, rows in enumerate(self._logs(topic)) for row in rows[positions.get(number, 0) :]]

        with self._changed:
            self._changed.wait_for(found, timeout_s)
            rows = found()
        for row in rows:
            positions[row.partition] = row.offset + 1
        return rows

    def wait_until_back(self, timeout_s: float) -> None:
        """Return when the broker is in reach, or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._away, timeout_s)

    # --- the seam ----------------------------------------------------------------------------------------------------

    def partitions(self, topic: str, timeout_s: float) -> int:
        if self._away:
            raise Unreachable(f"The broker in memory is away, so the partitions of {topic} can't be known.")
        return self.partition_count

    def outlet(self) -> "MemoryOutlet":
        return MemoryOutlet(self)

    def tail(self, topic: str) -> "MemoryTail":
        return MemoryTail(self, topic)

    def commands(self, topic: str, group: str, lost: Callable[[frozenset[int]], None]) -> "MemoryCommands":
        return MemoryCommands(self, topic, group)


class MemoryOutlet:
    """Keeps what it is handed until `poll` finds the broker in reach."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._queue: deque[tuple[str, bytes, bytes, int, Report]] = deque()
        self._arrived = threading.Condition()

    def produce(self, topic: str, key: bytes, value: bytes, partition: int, report: Report) -> None:
        with self._arrived:
            self._queue.append((topic, key, value, partition, report))
            self._arrived.notify_all()

    def poll(self, timeout_s: float) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._queue, timeout_s)
        if self._broker.away:
            self._broker.wait_until_back(timeout_s)
        while self._queue and not self._broker.away:
            topic, key, value, partition, report = self._queue.popleft()
            written, delivery = True, Delivery(Fate.WRITTEN)
            if self._broker.mishaps:
                written, delivery = self._broker.mishaps.popleft()
            if written:
                self._broker.append(topic, key, value, partition)
            report(delivery)

    def close(self) -> None:
        while self._queue:
            *_, report = self._queue.popleft()
            report(Delivery(Fate.POSSIBLY_WRITTEN, "The producer was closed"))


class MemoryTail:
    """Reads a topic from its end."""

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._positions: dict[int, int] = {}

    @property
    def problem(self) -> str:
        return "The broker in memory is away" if self._broker.away else ""

    def start(self, timeout_s: float) -> int:
        count = self._broker.partitions(self._topic, timeout_s)
        self._positions = {number: len(self._broker.log(self._topic, number)) for number in range(count)}
        return count

    def poll(self, timeout_s: float) -> list[Row]:
        return self._broker.read(self._topic, self._positions, timeout_s)

    def close(self) -> None:
        self._positions = {}


class MemoryCommands:
    """The one member of a group; a new one goes on from what the last one committed."""

    def __init__(self, broker: MemoryBroker, topic: str, group: str) -> None:
        self._broker = broker
        self._topic = topic
        self._group = group
        self._going = threading.Event()
        self._going.set()
        self._positions = {
            number: broker.committed.get((group, topic, number), 0) for number in range(broker.partition_count)
        }
        self._taken_at = {number: len(broker.log(topic, number)) for number in self._positions}

    def taken_at(self, partition: int) -> int | None:
        return self._taken_at.get(partition)

    def poll(self, timeout_s: float) -> list[Row]:
        if not self._going.wait(timeout_s):
            return []
        return self._broker.read(self._topic, self._positions, timeout_s)

    def commit(self, positions: Mapping[int, int]) -> None:
        for partition, offset in positions.items():
            self._broker.committed[self._group, self._topic, partition] = offset

    def hold(self, held: bool) -> None:
        (self._going.clear if held else self._going.set)()

    def close(self) -> None:
        self._positions = {}
