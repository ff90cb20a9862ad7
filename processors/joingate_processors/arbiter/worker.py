"""The room of the arbiter's loop: one consumer over `resource-claims`, and a partition for each number it is given.

A small loop, for a small stream: only operations that need something scarce speak to the arbiter. It holds its
resources in memory and folds its ledger when it takes a partition over.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from joingate_processors.arbiter.partition import ArbiterPartition
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.gate.clock import ClockOff
from joingate_processors.gate.logs import Halted, Stopping
from joingate_processors.gate.membership import confirm
from joingate_processors.gate.transactions import WriterLost
from joingate_schemas.codec import Codec
from joingate_schemas.topics import PASSING_FAULTS, Topics

log = logging.getLogger("joingate.arbiter")

_IDLE_WAIT_S = 0.25
_REOPEN_PAUSE_S_MAX = 5.0

SeatState = Literal["RESTORING", "RUNNING", "HALTED"]
Standing = dict[int, tuple[SeatState, str]]
"""For each partition of this worker its state, and a sentence where there is something to say."""
OnStatus = Callable[[Standing], None]
"""Told of each change."""


class _Seat:
    """A partition that this worker was given, with its state."""

    def __init__(self, partition: ArbiterPartition) -> None:
        self.partition = partition
        self.state: SeatState = "RESTORING"
        self.sentence = ""
        self.failures = 0
        self.retry_at = 0.0


class ArbiterWorker:
    """One arbiter process: owns the partitions that the group gives it."""

    def __init__(self, settings: ArbiterSettings, stop: threading.Event, on_status: OnStatus | None) -> None:
        self._settings = settings
        self._stop = stop
        self._on_status = on_status
        self._topics = Topics(settings.prefix)
        self._codec = Codec(settings.registry_url)
        self._seats: dict[int, _Seat] = {}
        self._read: set[int] = set()  # those of them that are read
        self._dealt_out = False
        self._group: object = None
        self._member_id = ""
        self._client = {**settings.client, "bootstrap.servers": settings.bootstrap_servers}
        self._admin = AdminClient(self._client, logger=log)
        self._consumer = Consumer(
            {
                **self._client,
                "group.id": settings.group,
                "group.protocol": "classic",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.session_timeout_ms // 3,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "fetch.wait.max.ms": 100,
            },
            logger=log,
        )

    def run(self) -> None:
        """Work until told to stop; then let everything go."""
        self._consumer.subscribe(
            [self._topics.resource_claims], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            for seat in self._seats.values():
                seat.partition.close()
            self._consumer.close()

    def _round(self) -> None:
        self._tend()
        found: dict[int, list[Message]] = {}
        for message in self._fetch():
            number, error = message.partition(), message.error()
            seat = None if number is None else self._seats.get(number)
            if number is None or seat is None:
                continue
            if error is not None:
                self._on_error(seat, error)
            elif seat.state == "RUNNING":
                found.setdefault(number, []).append(message)
        for number, seat in list(self._seats.items()):
            if self._dealt_out and seat.state == "RUNNING" and (number in found or seat.partition.wants_to_tell()):
                self._guarded(seat, partial(seat.partition.decide, found.get(number, ())))

    def _fetch(self) -> list[Message]:
        """Everything that has arrived, up to a batch. Waits only while there is nothing, and then not past a lease."""
        first = self._consumer.poll(self._wait_s())
        return [] if first is None else [first, *self._consumer.consume(self._settings.batch_max - 1, 0)]

    def _wait_s(self) -> float:
        waits = [_IDLE_WAIT_S]
        for seat in self._seats.values():
            due, now = seat.partition.next_due(), seat.partition.clock.now()
            if seat.state == "RUNNING" and due is not None and now is not None:
                waits.append((due - now) / 1000)
        return max(0.0, min(waits))

    def _on_error(self, seat: _Seat, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._halt(seat, f"{self._topics.resource_claims} does not hold what was not decided yet: {error.str()}")
        elif error.code() not in PASSING_FAULTS:
            log.warning("Partition %s: %s.", seat.partition.number, error.str())

    # --- how a partition stands

    def _guarded(self, seat: _Seat, call: Callable[[], None]) -> bool:
        """Whether `call` went well; if not, the seat is set to be taken over again, or halted. Others go on."""
        try:
            call()
            return True
        except WriterLost as error:
            seat.failures += 1
            seat.retry_at = time.monotonic() + min(_REOPEN_PAUSE_S_MAX, 0.1 * 2 ** min(seat.failures, 10))
            log.warning("Partition %s is taken over anew: %s.", seat.partition.number, error)
            self._become(seat, "RESTORING", str(error))
        except Stopping:
            log.info("Partition %s is let go before it was taken over.", seat.partition.number)
        except ClockOff as error:
            self._halt(seat, str(error))
            seat.retry_at = time.monotonic() + self._settings.halted_retry_ms / 1000
        except Halted as error:
            self._halt(seat, str(error))
        except Exception as error:
            log.exception("Partition %s met a fault that nothing foresaw.", seat.partition.number)
            self._halt(seat, f"a fault of the arbiter ({type(error).__name__}: {error}): report it")
        return False

    def _halt(self, seat: _Seat, why: str) -> None:
        log.error("Partition %s HALTED: %s", seat.partition.number, why)
        seat.failures, seat.retry_at = seat.failures + 1, math.inf
        seat.partition.close()
        self._become(seat, "HALTED", why)

    def _become(self, seat: _Seat, state: SeatState, sentence: str = "") -> None:
        seat.state, seat.sentence = state, sentence
        if self._on_status is not None:
            self._on_status({number: (one.state, one.sentence) for number, one in self._seats.items()})

    def _tend(self) -> None:
        """Take over what is ours and not yet open, and read just those partitions that run."""
        if not self._dealt_out:
            return
        for seat in list(self._seats.values()):
            if seat.state != "RUNNING" and time.monotonic() >= seat.retry_at and self._guarded(seat, self._open(seat)):
                seat.failures = 0
                self._become(seat, "RUNNING")
                log.info("Partition %s runs, epoch %s.", seat.partition.number, seat.partition.epoch)
                self._read.discard(seat.partition.number)
        if self._running() != self._read:
            self._assign()

    def _running(self) -> set[int]:
        return {number for number, seat in self._seats.items() if seat.state == "RUNNING"}

    def _assign(self) -> None:
        """Read the partitions that run, each from where its ledger says; what was fetched before comes again."""
        self._read = self._running()
        self._consumer.assign([
            TopicPartition(self._topics.resource_claims, number, self._seats[number].partition.position)
            for number in sorted(self._read)
        ])  # fmt: skip

    def _open(self, seat: _Seat) -> Callable[[], None]:
        """Take it over; anew only once the group has said that it is still ours (gate/membership.py)."""
        partition = seat.partition
        if not seat.failures:
            return partition.open
        place = self._settings.group, self._member_id, partition.number
        return lambda: confirm(self._admin, *place, partition.open)

    # --- which partitions are ours

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """The group gave us these. What we had before goes on: had another had it meanwhile, our writer is fenced."""
        self._group = consumer.consumer_group_metadata()
        self._member_id = consumer.memberid()
        owned = {one.partition for one in given}
        for number in [number for number in self._seats if number not in owned]:
            self._seats.pop(number).partition.close()
        for number in sorted(owned - self._seats.keys()):
            self._seats[number] = _Seat(
                ArbiterPartition(number, self._settings, self._topics, self._codec, lambda: self._group,
                                 self._stop.is_set)
            )  # fmt: skip
        self._dealt_out = True
        self._assign()

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group is being dealt out anew: nothing is open now, so everything waits for its word."""
        self._read = set()
        self._dealt_out = False
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group did without us for a while, so others may have had our partitions: all are taken over anew."""
        log.warning("The arbiter lost its place in the group; it joins again.")
        for seat in self._seats.values():
            seat.partition.close()
        self._seats = {}
        self._on_revoke(consumer, taken)


def run_arbiter(settings: ArbiterSettings, stop: threading.Event, on_status: OnStatus | None = None) -> None:
    """Run one arbiter worker until `stop` is set.

    Raises `TopicMismatch` or `TopicsUnavailable` if the topics are not as they must be. Whatever befalls a partition
    later is told by its status, and stops no other.
    """
    Topics(settings.prefix).check(settings.bootstrap_servers, settings.partitions, client=settings.client)
    ArbiterWorker(settings, stop, on_status).run()
