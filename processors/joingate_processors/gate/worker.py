"""The room of the gate's loop: one consumer over all intake topics, and a `Partition` for each number it is given.

Round by round: take what has arrived, group it by partition, merge each partition's topics by append time, decide and
commit. Partitions are taken over in the background, so that one that restores holds no other up.
"""

import gc
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic
from joingate_schemas.topics import Topics

from joingate_processors.gate.clock import ClockOff, monotonic_ms
from joingate_processors.gate.docket import Entry, Law
from joingate_processors.gate.ends import Ends
from joingate_processors.gate.logs import Halted, Stopping
from joingate_processors.gate.partition import Partition
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.status import OnStatus, PartitionState, PartitionStatus, StatusBoard, wall_ms
from joingate_processors.gate.store import StoreError
from joingate_processors.gate.transactions import WriterLost

log = logging.getLogger("joingate.gate")

_IDLE_WAIT_S = 0.25
_BUSY_BATCH = 500  # from this many claims on, waiting a little for more is worth it
_REOPEN_PAUSE_S_MAX = 5.0
_NEEDS_A_PERSON = (Halted, StoreError, ClockOff)


class _Seat:
    """A partition number that this worker was given: the partition itself, its state, and its taking over."""

    def __init__(self, partition: Partition, stopping: threading.Event) -> None:
        self.partition = partition
        self.stopping = stopping
        self.state: PartitionState = "RESTORING"
        self.sentence = "it is being taken over"
        self.last_error = ""
        self.since = wall_ms()
        self.opening: Future[None] | None = None
        self.failures = 0
        self.retry_at = 0.0
        self.lag = 0

    def become(self, state: PartitionState, sentence: str) -> None:
        if state != self.state:
            self.since = wall_ms()
        self.state, self.sentence = state, sentence

    @property
    def running(self) -> bool:
        return self.state in ("RUNNING", "STALLED")


class Worker:
    """One gate process: owns the partitions that the group gives it."""

    def __init__(self, settings: GateSettings, law: Law, on_status: OnStatus | None) -> None:
        self._settings = settings
        self._law = law
        self._topics = Topics(settings.prefix)
        self._codec = Codec(settings.registry_url)
        self._rank: dict[str, ClaimTopic] = {}
        for full in self._topics.intake:
            short = self._topics.short(full)
            self._rank[full] = next(name for name in get_args(ClaimTopic) if name == short)
        self._seats: dict[int, _Seat] = {}
        self._owned: set[int] = set()
        self._board = StatusBoard(settings.group, settings.data_dir, on_status)
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="joingate-gate")
        self._ends = Ends(settings, self._topics)
        self._away = ""
        self._busy = False
        self._consumer = self._new_consumer()

    def _new_consumer(self) -> Consumer:
        settings = self._settings
        return Consumer(
            {
                **settings.client,
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": settings.group,
                "group.protocol": "classic",
                "partition.assignment.strategy": "range",  # one number goes to one worker across all topics
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.session_timeout_ms // 3,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 65_536,
                "error_cb": self._on_error,
            },
            logger=log,
        )

    # --- the loop

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then finish the batch in hand and let everything go."""
        self._consumer.subscribe(
            list(self._topics.intake), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not stop.is_set():
                self._round()
        finally:
            self._let_go()

    def _round(self) -> None:
        self._tend_seats()
        batches = self._grouped(self._fetch())
        self._ask_for_ends()
        work: list[_Seat] = []
        for number, seat in self._seats.items():
            if number in self._owned and seat.running:
                entries = batches.get(number, [])
                if (entries or seat.partition.wants_to_fire()) and self._guarded(seat, seat.partition.begin, entries):
                    work.append(seat)
        if len(work) == 1:
            self._guarded(work[0], work[0].partition.end)
        else:  # Commits wait for the broker, so those of several partitions wait side by side.
            list(self._pool.map(lambda seat: self._guarded(seat, seat.partition.end), work))
        self._show()
