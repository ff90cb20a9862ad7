"""The projector: reads the ledger and the quarantine as committed, and folds them into the store, batch by batch.

It joins no group and commits no offsets: where it stands is in the store, in the batch of the rows themselves, so a
kill at any moment costs at most the work of one batch. It has no producer: replaying has no effect on anyone (C38).
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from joingate_projections.lanes import (
    REBUILD,
    Fault,
    Lane,
    LedgerLane,
    QuarantineLane,
    ResourceLane,
    Status,
    UnknownSchema,
)
from joingate_projections.reader import now_ms
from joingate_projections.store import Batch, ProjectionStore
from joingate_schemas.codec import Codec
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import Topics, TopicsUnavailable, read_schemas

HEARTBEAT_S = 2.0
ASK_TIMEOUT_S = 5.0
RETRY_S = 1.0
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class ProjectionError(Exception):
    """The projector cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class ProjectionSettings:
    """What a projector needs to know.

    `directory`: where the store is kept. `partitions`: those to follow (None: all). `rebuild`: forget the store and
    fold from the start. `batch_max`: records in one batch. `client`: further librdkafka settings.
    """

    bootstrap_servers: str
    directory: Path
    topic_prefix: str = "joingate."
    partitions: tuple[int, ...] | None = None
    registry_url: str | None = None
    rebuild: bool = False
    batch_max: int = 500
    poll_s: float = 0.2
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)


def run_projections(
    settings: ProjectionSettings,
    stop: threading.Event,
    on_status: Callable[[Status], None] = lambda status: None,
    *,
    store: ProjectionStore | None = None,
    until_end: bool = False,
) -> None:
    """Fold until `stop` is set, or, with `until_end`, until everything readable is folded or stopped.

    `on_status` hears of each lane when its state changes, and every two seconds of its progress. `store`, if given, is
    open for writing and stays open; else one is opened in the settings' directory. A broker that is away is waited for.
    Raises ProjectionError when the topics are not as they must be, and StoreError when the store cannot be used.
    """
    own = store if store is not None else ProjectionStore.open(settings.directory)
    try:
        if settings.rebuild:
            own.empty()
        projector = _Projector(settings, own, on_status)
        try:
            projector.run(stop, until_end=until_end)
        finally:
            projector.close()
    finally:
        if store is None:
            own.close()


class _Projector:
    """One run over one store."""

    def __init__(
        self, settings: ProjectionSettings, store: ProjectionStore, on_status: Callable[[Status], None]
    ) -> None:
        self._settings = settings
        self._store = store
        self._on_status = on_status
        self._topics = Topics(settings.topic_prefix)
        self._codec = Codec(settings.registry_url)
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._known: dict[str, Status] = {}
        self._said: dict[str, Status] = {}
        self._waiting: set[Lane] = set()
        self._unreachable = ""
        self._beaten_at = 0.0
        self._consumer = Consumer(
            {
                "fetch.wait.max.ms": 100,
                **settings.client,
                "bootstrap.servers": settings.bootstrap_servers,
                # Required by the library; nothing is joined and nothing committed under it.
                "group.id": f"{settings.topic_prefix}projections",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "check.crcs": True,
                "error_cb": self._heard_error,
            }
        )

    def run(self, stop: threading.Event, *, until_end: bool) -> None:
        """Start, then fold batch after batch."""
        while not stop.is_set():
            try:
                self._start()
                break
            except (KafkaException, TopicsUnavailable) as error:
                self._unreachable = f"The broker at {self._settings.bootstrap_servers} cannot be asked: {error}"
                self._beat()
                stop.wait(RETRY_S)
        while not stop.is_set():
            self._step(stop)
            if until_end and all(lane.stopped or lane.at_end for lane in self._lanes.values()):
                break
        self._beat(ended=True)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def _start(self) -> None:
        """Find the partitions, learn the schemas that others may write with, and begin each lane where it stood.

        Raises KafkaException or TopicsUnavailable when the broker cannot be asked, ProjectionError when it has no
        such topic or partition.
        """
        found = self._consumer.list_topics(timeout=ASK_TIMEOUT_S).topics
        lanes: dict[tuple[str, int], Lane] = {}
        kinds: list[tuple[str, type[Lane]]] = [
            (self._topics.ledger, LedgerLane), (self._topics.quarantine, QuarantineLane),
        ]  # fmt: skip
        if self._topics.resource_ledger in found:  # A deployment that has no arbiter may have no ledger of one.
            kinds.append((self._topics.resource_ledger, ResourceLane))
        for topic, kind in kinds:
            if topic not in found or not found[topic].partitions:
                raise ProjectionError(f"The topic {topic} does not exist. Create it with `joingate topics create`.")
            there = sorted(found[topic].partitions)
            wanted = there if self._settings.partitions is None else sorted(self._settings.partitions)
            if missing := [partition for partition in wanted if partition not in there]:
                raise ProjectionError(
                    f"The topic {topic} has {len(there)} partitions, and so no partition {missing[0]}. Follow others."
                )
            for partition in wanted:
                position = self._store.position(kind.stream, partition)
                lanes[topic, partition] = kind(topic, partition, position)
        self._lanes = lanes
        if self._topics.schemas in found:
            self._learn_schemas()
        assigned = [start for lane in lanes.values() if (start := self._begin(lane)) is not None]
        self._consumer.assign(assigned)
        self._unreachable = ""
        self._tell()

    def _begin(self, lane: Lane) -> TopicPartition | None:
        """Where a lane is to be read from; None if it cannot be."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(lane.topic, lane.partition), timeout=ASK_TIMEOUT_S
        )
        try:
            return TopicPartition(lane.topic, lane.partition, lane.start(low, high))
        except Fault as fault:
            lane.stop(str(fault))
            return None

    def _learn_schemas(self) -> None:
        """Read what others write with. Raises TopicsUnavailable."""
        read_schemas(self._settings.bootstrap_servers, self._topics, self._codec, client=self._settings.client)

    def _step(self, stop: threading.Event) -> None:
        """Take what has come, fold it, and write it at once."""
        messages = self._consumer.consume(self._settings.batch_max, self._settings.poll_s)
        if messages:
            self._unreachable = ""
        batch = self._store.batch()
        taken = 0
        for message in messages:
            lane = self._lanes[message.topic() or "", message.partition() or 0]
            if not lane.stopped and lane not in self._waiting:
                taken += self._take(batch, lane, message)
        if taken:
            # Rows and positions in one write: a kill before it loses nothing but work, a kill after it nothing.
            batch.commit()
        self._tell()
        if self._waiting:
            self._waiting.clear()
            stop.wait(RETRY_S)
        if time.monotonic() - self._beaten_at >= HEARTBEAT_S:
            self._beat()

    def _take(self, batch: Batch, lane: Lane, message: Message) -> bool:
        """Give one message to its lane; whether it was a record that was taken."""
        error = message.error()
        offset = message.offset()
        if error is not None:
            self._heard_lane_error(lane, error, offset)
            return False
        assert offset is not None, "a record has an offset"
        try:
            try:
                lane.take(batch, self._codec, offset, message.value())
            except UnknownSchema:
                # A newer release may have come up since we last looked; it publishes its schemas first.
                self._learn_schemas()
                lane.take(batch, self._codec, offset, message.value())
        except Fault as fault:
            self._stop(lane, str(fault))
            return False
        except (RegistryUnavailable, TopicsUnavailable) as away:
            self._wait_for(lane, offset, str(away))
            return False
        return True

    def _wait_for(self, lane: Lane, offset: int, why: str) -> None:
        """What a record needs is away: read the lane again from there in a while, and nothing of it until then."""
        self._unreachable = f"The record at offset {offset} of {lane.named} has to wait: {why}"
        self._waiting.add(lane)
        self._consumer.seek(TopicPartition(lane.topic, lane.partition, offset))

    def _stop(self, lane: Lane, sentence: str) -> None:
        """Stop one lane; the others go on."""
        lane.stop(sentence)
        self._consumer.pause([TopicPartition(lane.topic, lane.partition)])

    def _heard_lane_error(self, lane: Lane, error: KafkaError, offset: int | None) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            lane.met_end(offset or 0)
        elif code in _GONE:
            self._stop(
                lane,
                f"The next record of {lane.named} is not there any more ({error.str()}): the topic was made anew, or "
                f"trimmed before it was folded. {REBUILD}",
            )
        elif code in _REFUSED:
            self._stop(lane, f"The broker does not let us read {lane.named}: {error.str()}. Grant READ on the topic.")
        else:
            self._unreachable = f"{lane.named} cannot be read at the moment: {error.str()}."

    def _heard_error(self, error: KafkaError) -> None:
        """librdkafka goes on by itself after these; people should know all the same."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._unreachable = f"The broker at {self._settings.bootstrap_servers} does not answer. It is waited for."

    def _statuses(self) -> list[Status]:
        statuses = []
        for lane in self._lanes.values():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(lane.topic, lane.partition), cached=True)
            statuses.append(lane.status(high if high >= 0 else None))
        return statuses

    def _tell(self) -> None:
        """Tell the listener which lanes changed their state, and the store at once if one stopped."""
        stopped = False
        for status in self._statuses():
            before = self._known.get(status.name)
            self._known[status.name] = status
            if before is None or (before.state, before.sentence) != (status.state, status.sentence):
                stopped = stopped or status.state == "STOPPED"
                self._say(status)
        if stopped:
            self._beat()

    def _say(self, status: Status) -> None:
        if self._said.get(status.name) != status:
            self._said[status.name] = status
            self._on_status(status)

    def _beat(self, *, ended: bool = False) -> None:
        """Leave in the store how everything stands, for readers in other processes; tell the listener of progress."""
        self._beaten_at = time.monotonic()
        for status in self._known.values():
            self._say(status)
        rows = {status.name: status.row() for status in self._known.values()}
        projector = {"at": now_ms(), "state": "ENDED" if ended else "RUNNING", "sentence": self._unreachable}
        self._store.put_statuses({**rows, "projector": projector})
