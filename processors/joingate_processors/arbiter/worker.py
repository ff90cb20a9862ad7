"""The room of the arbiter's loop: one consumer over `resource-claims`, and a partition for each number it is given.

A small loop, for a small stream: only operations that need something scarce speak to the arbiter. It holds its
resources in memory, and restores them when it takes a partition over, in the background, while the others go on.
"""

import logging
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from joingate_processors.arbiter.partition import ArbiterPartition
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.gate.clock import ClockOff
from joingate_processors.gate.seat import House, Seat, Seats, SeatState
from joingate_schemas.codec import Codec
from joingate_schemas.topics import PASSING_FAULTS, Topics

log = logging.getLogger("joingate.arbiter")

_IDLE_WAIT_S = 0.25
_OPENING_WAIT_S = 0.01

Standing = dict[int, tuple[SeatState, str]]
"""For each partition of this worker its state, and a sentence where there is something to say."""
OnStatus = Callable[[Standing], None]
"""Told of each change."""

ArbiterSeat = Seat[ArbiterPartition]


class ArbiterWorker:
    """One arbiter process: owns the partitions that the group gives it."""

    def __init__(self, settings: ArbiterSettings, stop: threading.Event, on_status: OnStatus | None) -> None:
        self._settings = settings
        self._stop = stop
        self._on_status = on_status
        self._topics = Topics(settings.prefix)
        self._codec = Codec(settings.registry_url)
        self._read: set[int] = set()  # the partitions that are read
        self._told: Standing = {}
        self._group: object = None
        self._client = {**settings.client, "bootstrap.servers": settings.bootstrap_servers}
        self._admin = AdminClient(self._client, logger=log)
        house = House("arbiter", settings.group, log, settings.halted_retry_ms, (ClockOff,))
        self._seats = Seats(house, self._new_seat, lambda: self._admin, stop)
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
            self._seats.let_go()
            self._consumer.close()

    def _round(self) -> None:
        self._tend()
        found: dict[int, list[Message]] = {}
        for message in self._fetch():
            number, error = message.partition(), message.error()
            seat = self._seats.of(number)
            if number is None or seat is None or not seat.running:
                continue
            if error is not None:
                self._on_error(seat, error)
            else:
                found.setdefault(number, []).append(message)
        for seat in self._seats.running():
            messages = found.get(seat.partition.number, ())
            if messages or seat.partition.wants_to_tell():
                self._seats.guarded(seat, seat.partition.decide, messages)
        self._show()

    def _fetch(self) -> list[Message]:
        """Everything that has arrived, up to a batch. Waits only while there is nothing, and then not past a lease."""
        first = self._consumer.poll(self._wait_s())
        return [] if first is None else [first, *self._consumer.consume(self._settings.batch_max - 1, 0)]

    def _wait_s(self) -> float:
        waits = [_OPENING_WAIT_S if self._seats.opening else _IDLE_WAIT_S]
        for seat in self._seats.running():
            due, now = seat.partition.next_due(), seat.partition.clock.now()
            if due is not None and now is not None:
                waits.append((due - now) / 1000)
        return max(0.0, min(waits))

    def _on_error(self, seat: ArbiterSeat, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            topic = self._topics.resource_claims
            self._seats.halt(seat, f"{topic} does not hold what was not decided yet: {error.str()}")
        elif error.code() not in PASSING_FAULTS:
            log.warning("Partition %s: %s.", seat.partition.number, error.str())

    def _show(self) -> None:
        standing = {number: (seat.state, seat.sentence) for number, seat in self._seats.by_number.items()}
        if self._on_status is not None and standing != self._told:
            self._on_status(standing)
        self._told = standing

    # --- which partitions are ours

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """The group gave us these. Those that we had before go on; the others are taken over in the background."""
        self._group = consumer.consumer_group_metadata()
        self._seats.deal({one.partition for one in given}, consumer.memberid())
        self._assign()

    def _new_seat(self, number: int, over: Callable[[], bool]) -> ArbiterSeat:
        room = self._settings, self._topics, self._codec
        return Seat(ArbiterPartition(number, *room, lambda: self._group, over))

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group is being dealt out anew: the seats wait for its word."""
        self._seats.withdraw()
        self._read = set()
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group did without us for a while, so others may have had our partitions: all are taken over anew."""
        log.warning("The arbiter lost its place in the group; it joins again.")
        self._seats.reopen_all("the arbiter had lost its place in the group")
        self._on_revoke(consumer, taken)

    def _tend(self) -> None:
        """Take over what is to be taken over, and read just those partitions that run."""
        self._seats.tend()
        if self._read != self._seats.running_numbers:
            self._assign()

    def _assign(self) -> None:
        """Read the partitions that run, each from where its ledger says; what was fetched before comes again."""
        self._read = self._seats.running_numbers
        self._consumer.assign([
            TopicPartition(self._topics.resource_claims, seat.partition.number, seat.partition.position)
            for seat in self._seats.running()
        ])  # fmt: skip


def run_arbiter(settings: ArbiterSettings, stop: threading.Event, on_status: OnStatus | None = None) -> None:
    """Run one arbiter worker until `stop` is set.

    Raises `TopicMismatch` or `TopicsUnavailable` if the topics are not as they must be. Whatever befalls a partition
    later is told by its status, and stops no other.
    """
    Topics(settings.prefix).check(settings.bootstrap_servers, settings.partitions, client=settings.client)
    ArbiterWorker(settings, stop, on_status).run()
