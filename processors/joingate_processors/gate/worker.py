"""The room of the gate's loop: one consumer over all intake topics, and a `Partition` for each number it is given.

Round by round: take what has arrived, group it by partition, merge each partition's topics by append time, decide and
commit. Partitions are taken over in the background, so that one that restores holds no other up.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from joingate_processors.gate.clock import ClockOff, monotonic_ms
from joingate_processors.gate.culprit import open_transaction
from joingate_processors.gate.docket import Entry, Law
from joingate_processors.gate.ends import Ends
from joingate_processors.gate.merge import Merge
from joingate_processors.gate.partition import Partition
from joingate_processors.gate.seat import House, Seat, Seats
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.status import OnStatus, PartitionStatus, StatusBoard
from joingate_processors.gate.store import StoreError
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic
from joingate_schemas.topics import Topics

log = logging.getLogger("joingate.gate")

_IDLE_WAIT_S = 0.25
_BUSY_BATCH = 500  # from this many claims on, waiting a little for more is worth it
_APART_S_MAX = 10.0
_SWEEP_EVERY_S = 5.0  # seldom, so that most of what a batch made is gone by itself before anybody walks over it


class GateSeat(Seat[Partition]):
    """A partition of the gate's, with what is known of its intake topics."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self.lag = 0
        self.stalled_ms = 0
        self.culprit: Future[int | None] | None = None  # the producer whose transaction stalls it
        self.merge = Merge(())
        self.paused: set[int] = set()

    @property
    def producer_id(self) -> int | None:
        """Whose transaction stalls it, where that is known."""
        return self.culprit.result() if self.culprit is not None and self.culprit.done() else None


class Worker:
    """One gate process: owns the partitions that the group gives it."""

    def __init__(self, settings: GateSettings, law: Law, stop: threading.Event, on_status: OnStatus | None) -> None:
        self._settings = settings
        self._law = law
        self._stop = stop
        self._topics = Topics(settings.prefix)
        self._codec = Codec(settings.registry_url)
        shorts = [self._topics.short(full) for full in self._topics.intake]
        self._shorts: list[ClaimTopic] = [name for short in shorts for name in get_args(ClaimTopic) if name == short]
        self._places = {full: (rank, self._shorts[rank]) for rank, full in enumerate(self._topics.intake)}
        self._assigned: set[int] = set()  # the partitions that are read
        self._board = StatusBoard(settings.group, settings.data_dir, on_status)
        # Commits have threads of their own: behind partitions that restore, they would hold up the loop.
        self._commits = ThreadPoolExecutor(max_workers=8, thread_name_prefix="joingate-commit")
        self._ends = Ends(settings, self._topics)
        house = House("gate", settings.group, log, settings.halted_retry_ms, (StoreError, ClockOff))
        self._seats = Seats(house, self._new_seat, lambda: self._ends.admin, stop)
        self._away = ""
        self._away_since = 0
        self._apart_since: float | None = time.monotonic()  # since when the group gives us no place
        self._busy = False
        self._sweep_at = 0.0
        self._consumer = self._new_consumer()
        self._group: object = None

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

    def run(self) -> None:
        """Work until told to stop; then finish the batch in hand and let everything go."""
        self._consumer.subscribe(
            list(self._topics.intake), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._let_go()

    def _round(self) -> None:
        self._tend()
        self._sort_in(self._fetch())
        self._ask_for_ends()
        guarded = self._seats.guarded
        work: list[GateSeat] = []
        waiting = sum(1 for seat in self._seats.by_number.values() if not seat.merge.empty)
        share = max(1, self._settings.batch_max // max(1, waiting))  # so that a backlog delays others little
        for seat in self._seats.running():
            entries = self._take(seat, share)
            if (entries or seat.partition.wants_to_fire()) and guarded(seat, seat.partition.begin, entries):
                work.append(seat)
        if len(work) == 1:
            guarded(work[0], work[0].partition.end)
        else:  # Commits wait for the broker, so those of several partitions wait side by side.
            list(self._commits.map(lambda seat: guarded(seat, seat.partition.end), work))
        if time.monotonic() >= self._sweep_at:
            self._sweep()
        self._show()

    def _sweep(self) -> None:
        """Collect what the latest batches left in cycles, which is little, and never look at what they kept again."""
        gc.collect(0)
        gc.freeze()
        self._sweep_at = time.monotonic() + _SWEEP_EVERY_S

    # --- what has arrived

    def _fetch(self) -> list[Message]:
        """Everything that has arrived, up to a batch. Waits only while there is nothing, and then not past a timer."""
        first = self._consumer.poll(self._wait_s())
        if first is None:
            self._busy = False
            return []
        linger_s = self._settings.linger_ms / 1000 if self._busy else 0.0
        messages = [first, *self._consumer.consume(self._settings.batch_max - 1, linger_s)]
        self._busy = len(messages) >= _BUSY_BATCH
        return messages

    def _wait_s(self) -> float:
        seats = self._seats.by_number.values()
        if any(seat.merge.ready for seat in seats):
            return 0.0
        if self._ends.waiting or not all(seat.merge.empty for seat in seats):
            return 0.002
        wait_s = _IDLE_WAIT_S if self._assigned else 0.02  # what the group gives comes in the midst of a wait
        if self._seats.opening:
            wait_s = 0.01
        for seat in seats:
            due, now = (seat.partition.next_due, seat.partition.clock.now()) if seat.running else (None, None)
            if due is not None and now is not None:
                wait_s = min(wait_s, max(0.0, (due - now + 1) / 1000))
        return wait_s

    def _sort_in(self, messages: Iterable[Message]) -> None:
        """Hand each message to its partition: records to be merged, and what the client tells beside them."""
        places, seats = self._places, self._seats.by_number
        for message in messages:
            if message.error() is not None:
                self._notice(message)
                continue
            if self._away:
                self._back()
            topic, number, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None, "a record lies on a topic"
            assert number is not None, "a record lies on a partition"
            assert offset is not None, "a record has an offset"
            seat = seats.get(number)
            if seat is not None:
                rank, short = places[topic]
                seat.merge.add(rank, offset, (message.timestamp()[1], short, message))

    def _take(self, seat: GateSeat, limit: int) -> list[Entry]:
        """What of the seat's partition is to be decided now, at most `limit` claims."""
        number, merge = seat.partition.number, seat.merge

        def end_of(rank: int) -> int:
            place = TopicPartition(self._topics.intake[rank], number)
            return self._consumer.get_watermark_offsets(place, cached=True)[1]

        entries = merge.take(limit, end_of, monotonic_ms())
        for rank, end in merge.ended():
            seat.partition.heard.at_end(self._shorts[rank], end)
        self._hold_back(seat)
        return entries

    def _hold_back(self, seat: GateSeat) -> None:
        """Stop fetching a topic that is far ahead of the others, until they have caught up."""
        number = seat.partition.number
        for rank, full in enumerate(self._topics.intake):
            load = seat.merge.load(rank, self._settings.batch_max)
            if rank not in seat.paused and load > 2:
                seat.paused.add(rank)
                self._consumer.pause([TopicPartition(full, number)])
            elif rank in seat.paused and load < 1:
                seat.paused.remove(rank)
                self._consumer.resume([TopicPartition(full, number)])

    def _notice(self, message: Message) -> None:
        """Take in what the client tells of a topic beside its records: that it ends here, or what is wrong."""
        error, topic, number = message.error(), message.topic(), message.partition()
        assert error is not None, "the caller saw it"
        seat = self._seats.of(number)
        if error.code() == KafkaError._PARTITION_EOF:
            offset = message.offset()
            if seat is not None and topic is not None and offset is not None:
                seat.merge.at_end(self._places[topic][0], offset)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if seat is not None and seat.running:
                self._seats.halt(seat, f"{topic}[{number}] no longer has what the gate has to read next: {error.str()}")
        elif error.fatal():
            raise KafkaException(error)
        else:
            self._on_error(error)

    def _on_error(self, error: KafkaError) -> None:
        """Say once that the broker is away; the client keeps trying by itself."""
        if not self._away and error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self._away_since = monotonic_ms()
            self._away = f"the broker at {self._settings.bootstrap_servers} does not answer; the gate keeps trying"
            log.warning("%s.", self._away)

    def _back(self) -> None:
        """The broker was away and answers again. Writers are replaced: they may look for coordinators that moved."""
        log.warning("The broker answers again.")
        self._away = ""
        self._seats.reopen_all("the broker was away")

    # --- how far there is to read

    def _ask_for_ends(self) -> None:
        try:
            ends = self._ends.take()
        except KafkaException as exception:
            self._on_error(exception.args[0])
            ends = None
        if ends is not None:
            if self._away and self._ends.asked_at > self._away_since:
                self._back()
            for number, found in ends.items():
                seat = self._seats.of(number)
                if seat is not None and seat.running:
                    self._judge_lag(seat, found)
        self._ends.ask(seat.partition for seat in self._seats.running())

    def _judge_lag(self, seat: GateSeat, ends: Mapping[str, int]) -> None:
        heard, now = seat.partition.heard, monotonic_ms()
        seat.lag = heard.lag(ends)
        stalls = list(heard.stalls(ends, now, self._settings.stalled_after_ms))
        seat.stalled_ms = max((now - stall.since for stall in stalls), default=0)
        if not stalls:
            seat.become("RUNNING", "")
            seat.culprit = None
            return
        worst = min(stalls, key=lambda stall: stall.since)
        if seat.culprit is None:
            place = f"{self._settings.prefix}{worst.topic}", seat.partition.number
            seat.culprit = self._seats.aside(open_transaction, self._ends.admin, *place)
        seat.become(
            "STALLED",
            f"{worst.topic} can't be read past offset {worst.offset}, though it goes on to {worst.end}: somebody's "
            "transaction is open there. No timer fires until it ends.",
        )

    # --- which partitions are ours

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """The group gave us these. Those that we had before go on; the others are taken over in the background."""
        self._apart_since = None
        # Asked for once a rebalance: the call holds up the whole process for a second or two when it comes badly.
        self._group = consumer.consumer_group_metadata()
        self._seats.deal({one.partition for one in given}, consumer.memberid())
        self._assign()

    def _new_seat(self, number: int, over: Callable[[], bool]) -> GateSeat:
        room = self._settings, self._topics, self._codec, self._law
        return GateSeat(Partition(number, *room, lambda: self._group, over))

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group is being dealt out anew: the seats wait for its word."""
        self._seats.withdraw()
        self._apart_since = time.monotonic()
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group did without us for a while, so others may have had our partitions: all are taken over anew."""
        log.warning("The gate lost its place in the group; it joins again.")
        self._seats.reopen_all("the gate had lost its place in the group")
        self._on_revoke(consumer, taken)

    def _tend(self) -> None:
        """Take over what is to be taken over, and read just those partitions that run."""
        self._seats.tend()
        if self._assigned != self._seats.running_numbers:
            self._assign()

    def _assign(self) -> None:
        """Read the partitions that run, each from where its state says; what was fetched before comes again."""
        self._assigned = self._seats.running_numbers
        places = []
        for seat in self._seats.running():
            offsets = [seat.partition.position.inputs[short] for short in self._shorts]
            seat.merge, seat.paused = Merge(offsets), set()
            number = seat.partition.number
            places += [
                TopicPartition(full, number, offset) for full, offset in zip(self._topics.intake, offsets, strict=True)
            ]
        self._consumer.assign(places)
        self._consumer.resume(places)  # the client keeps a topic held back through being assigned anew

    def _let_go(self) -> None:
        self._seats.let_go()
        self._consumer.close()
        self._commits.shutdown()
        self._board.show({}, "the gate has stopped", running=False)

    def _show(self) -> None:
        partitions: dict[int, PartitionStatus] = {}
        for number in self._seats.owned:
            seat = self._seats.by_number[number]
            partitions[number] = {
                "state": seat.state, "sentence": seat.sentence, "since": seat.since, "seq": seat.partition.position.seq,
                "epoch": seat.partition.epoch, "lag": seat.lag, "last_error": seat.last_error,
                "stalled_ms": seat.stalled_ms, "producer_id": seat.producer_id,
            }  # fmt: skip
        self._board.show(partitions, self._away or self._apart())

    def _apart(self) -> str:
        """What is to be said of a group that gives us no place for longer than dealing out takes; else nothing.

        A broker that hangs, with its connections open, shows in no other way.
        """
        if self._apart_since is None or time.monotonic() - self._apart_since < _APART_S_MAX:
            return ""
        return (
            f"the group {self._settings.group} gives the gate no place: the broker is silent, or another worker is "
            "slow to join; the gate keeps trying"
        )


def run_gate(
    settings: GateSettings, stop: threading.Event, on_status: OnStatus | None = None, law: Law | None = None
) -> None:
    """Run one gate worker until `stop` is set.

    Raises `TopicMismatch` or `TopicsUnavailable` if the topics are not as they must be. Whatever befalls a partition
    later is told by its status, and stops no other.
    """
    topics = Topics(settings.prefix)
    executors = {action.executor for action in settings.catalogue.actions.values()}
    topics.check(settings.bootstrap_servers, settings.partitions, executors, client=settings.client)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with _own_garbage():
        Worker(settings, law or Law(), stop, on_status).run()


@contextmanager
def _own_garbage() -> Iterator[None]:
    """Collect garbage when a batch is done, not in its midst: what it would walk then is the cache of rows."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
