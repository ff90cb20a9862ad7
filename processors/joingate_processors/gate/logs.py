"""The room for reading a log from an offset to its end, where "to its end" is meant.

The end is the high watermark, not the last stable offset: what is committed there must be waited for. A log that does
not move, or whose end moves back, is no log that was read: `Halted`, never "caught up" (architecture §4). A broker that
is away is waited for, and said once.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition

# The library's stubs do not mark these two as exported, although its documentation takes them from here.
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

log = logging.getLogger("joingate.gate")

_ASK_S = 5.0
_PAUSE_S = 0.2
_CHUNK = 5_000

Place = tuple[str, int]
"""A topic and a partition number."""


class LogSettings(Protocol):
    """What reading a log needs to be told; the gate's settings and the arbiter's both say it."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client(self) -> Mapping[str, str | int | float | bool]: ...

    @property
    def group(self) -> str: ...

    @property
    def halted_after_ms(self) -> int: ...


class Halted(RuntimeError):
    """The partition must not go on until a person has looked; the text says what was found and what to do."""


class Stopping(Exception):
    """The gate stops, or lost the partition."""


class Logs:
    """Asks for the ends of logs, and reads them. `stopping` says whether to give up, with `Stopping`."""

    def __init__(self, settings: LogSettings, stopping: Callable[[], bool]) -> None:
        self._settings = settings
        self._stopping = stopping
        self._client = {**settings.client, "bootstrap.servers": settings.bootstrap_servers}
        self._admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return AdminClient(self._client, logger=log)

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """The high watermark of each place."""
        return self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """The offset of the first record that each place still has."""
        return self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        asked = {TopicPartition(topic, partition): spec for topic, partition in places}
        said = False
        while True:
            self._go_on()
            try:
                futures = self._admin.list_offsets(
                    asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_ASK_S
                )
                return {(at.topic, at.partition): future.result(2 * _ASK_S).offset for at, future in futures.items()}
            except (KafkaException, TimeoutError) as error:
                if not said:
                    log.warning("The broker does not answer (%s); the gate keeps trying.", error)
                said = True
            time.sleep(_PAUSE_S)
            # This client would go on asking by the leaders that it knows, for minutes, although they have changed.
            self._admin = self._new_admin()

    def read(self, place: Place, start: int) -> Iterator[list[Message]]:
        """The committed records of `place` from offset `start` to the present high watermark, in chunks.

        Raises `Halted` if it can't be read that far, `Stopping` when asked to.
        """
        end = self.ends([place])[place]
        if start > end:
            raise Halted(f"The log {_name(place)} ends at {end}, and was read up to {start} before: records are gone.")
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"{self._settings.group}-restore",  # required by the library; no group is joined
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # the end is told by a fetch that finds nothing
            },
            logger=log,
        )
        try:
            consumer.assign([TopicPartition(*place, start)])
            yield from self._chunks(consumer, place, start, end)
        finally:
            consumer.close()

    def _chunks(self, consumer: Consumer, place: Place, start: int, end: int) -> Iterator[list[Message]]:
        reached, moved_at = start, time.monotonic()
        while reached < end:
            self._go_on()
            chunk = []
            before = reached
            first = consumer.poll(_PAUSE_S)  # comes back with the first; asking for many waits for as many
            for message in [] if first is None else [first, *consumer.consume(_CHUNK - 1, 0)]:
                reached = max(reached, self._next_offset(message, place))
                if message.error() is None:
                    chunk.append(message)
            if reached > before:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self._settings.halted_after_ms / 1000:
                self._refuse(place, reached, end)
            if chunk:
                yield chunk

    def _refuse(self, place: Place, reached: int, end: int) -> NoReturn:
        """There was no movement for long, and it is not that the broker is away: it answers."""
        now = self.ends([place])[place]
        if now < end:
            raise Halted(f"The log {_name(place)} ended at {end} and now ends at {now}: records are gone.")
        raise Halted(
            f"The log {_name(place)} can't be read past {reached}, though it goes on to {end}: a transaction of "
            "another writer hangs open there. Find it (kafka-transactions.sh find-hanging), end it, start the gate."
        )

    @staticmethod
    def _next_offset(message: Message, place: Place) -> int:
        """The offset after what `message` tells of: a record, or the end. -1: it tells of no place."""
        error = message.error()
        offset = message.offset()
        if error is None:
            return -1 if offset is None else offset + 1
        if error.code() == KafkaError._PARTITION_EOF:
            return -1 if offset is None else offset
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Halted(f"The log {_name(place)} does not hold what was asked for: {error.str()}.")
        return -1  # The broker is away for a while; the library keeps trying.

    def _go_on(self) -> None:
        if self._stopping():
            raise Stopping


def _name(place: Place) -> str:
    return f"{place[0]}[{place[1]}]"
