"""The room that reads a live ledger, the gate's or the arbiter's, as it is. It never writes.

Committed records only, in order, checked link by link. It joins no group and commits no offsets, so that looking leaves
no trace at the broker.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from joingate.faults import FaceError
from joingate.settings import Settings
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import Decision
from joingate_schemas.guard import LedgerFault, LedgerGuard
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import TopicsUnavailable, partition_for, read_schemas

ASK_S = 10.0
_SETTLING = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART}
)


DecisionT = TypeVar("DecisionT", Decision, ArbiterDecision)


@dataclass(frozen=True)
class Record(Generic[DecisionT]):
    """One ledger record: where it lies, its bytes, and what they say."""

    partition: int
    offset: int
    raw: bytes
    decision: DecisionT

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its bytes, by which the next record names it."""
        return hashlib.sha256(self.raw).digest()


Entry = Record[Decision]
Ruling = Record[ArbiterDecision]


class _Reader(Generic[DecisionT]):
    """Reads every partition of a ledger, or one. A context manager; for one thread.

    Raises FaceError: from the start when the topic or the broker is not there, later when a record can't be believed.
    """

    _kind: type[DecisionT]
    _short: str  # the topic, without the deployment's prefix
    _name: str  # for sentences
    _optional = False  # whether a deployment may be without it: then nothing is read

    def __init__(
        self, settings: Settings, *, from_end: bool = False, partition: int | None = None, key: str = ""
    ) -> None:
        """`from_end`: only what is decided from now on. `partition`: only this one; else `key`: only the key's own."""
        self._settings = settings
        self.reads: tuple[int, ...] = ()
        self.at_end: set[int] = set()
        self._topic = settings.prefix + self._short
        self.codec = Codec(settings.registry_url)
        self._consumer = Consumer(
            {
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                **settings.client,
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": f"{settings.prefix}reader",  # required by the library; nothing is joined under it
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
            }
        )
        try:
            self._begin(from_end, partition, key)
        except BaseException:
            self._consumer.close()
            raise

    def _begin(self, from_end: bool, only: int | None, key: str) -> None:
        servers = self._settings.bootstrap_servers
        try:
            found = self._consumer.list_topics(timeout=ASK_S).topics.get(self._topic)
            if found is None and self._optional:
                self._guards: dict[int, LedgerGuard] = {}
                return
            if found is None or not found.partitions:
                raise FaceError(
                    f"The topic {self._topic} is not at {servers}: create it with `joingate topics create`, or set "
                    "JOINGATE_PREFIX."
                )
            self.partitions = len(found.partitions)
            if only is not None and only not in found.partitions:
                raise FaceError(f"The {self._name} has {self.partitions} partitions, and so no partition {only}.")
            if only is None and key:
                only = partition_for(key.encode(), self.partitions)
            wanted = sorted(found.partitions) if only is None else [only]
            starts = [self._start(number, from_end) for number in wanted]
        except KafkaException as error:
            raise FaceError(f"No broker answers at {servers} ({error.args[0].str()}): see that it runs.") from error
        if self._settings.topics.schemas in self._consumer.list_topics(timeout=ASK_S).topics:
            self._learn()
        name = f"{self._name.capitalize()} partition {{}}"
        self._guards = {
            number: LedgerGuard.from_anywhere(name=name.format(number))
            if from_end
            else LedgerGuard(name=name.format(number))
            for number in wanted
        }
        self._consumer.assign(starts)
        self.reads = tuple(wanted)

    def _start(self, partition: int, from_end: bool) -> TopicPartition:
        here = TopicPartition(self._topic, partition)
        deadline = time.monotonic() + ASK_S
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(here, timeout=ASK_S)
                return TopicPartition(self._topic, partition, high if from_end else low)
            except KafkaException as error:
                # Of a topic that was made a moment ago, not every broker knows the leader yet.
                if error.args[0].code() not in _SETTLING or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _learn(self) -> None:
        try:
            read_schemas(
                self._settings.bootstrap_servers, self._settings.topics, self.codec, client=self._settings.client
            )
        except TopicsUnavailable as error:
            raise FaceError(str(error)) from error

    def poll(self, timeout_s: float) -> list[Record[DecisionT]]:
        """What has come, waiting up to `timeout_s` for the first; in the order of each partition."""
        entries: list[Record[DecisionT]] = []
        for message in self._consumer.consume(1000, timeout_s):
            error = message.error()
            if error is None:
                self.at_end.discard(message.partition() or 0)
                entry = self._entry(message)
                if entry is not None:
                    entries.append(entry)
            elif error.code() == KafkaError._PARTITION_EOF:
                self.at_end.add(message.partition() or 0)
            elif not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise FaceError(f"The {self._name} can't be read: {error.str()}.")
        return entries

    def to_end(self) -> Iterator[Record[DecisionT]]:
        """Everything that is readable now."""
        deadline = time.monotonic() + ASK_S
        while self.at_end < self._guards.keys():
            for entry in self.poll(0.2):
                deadline = time.monotonic() + ASK_S
                yield entry
            if time.monotonic() > deadline:
                servers = self._settings.bootstrap_servers
                raise FaceError(f"The {self._name} at {servers} was not read to its end: no answer.")

    def _entry(self, message: Message) -> Record[DecisionT] | None:
        partition, offset, value = message.partition() or 0, message.offset() or 0, message.value()
        where = f"The {self._name}'s record {partition}/{offset}"
        if value is None:
            raise FaceError(f"{where} has no value: something else than its own service wrote to it.")
        decision = self._decoded(value, where)
        try:
            if self._guards[partition].check(decision, value) == "SEEN":
                return None
        except LedgerFault as fault:
            raise FaceError(str(fault)) from fault
        return Record(partition, offset, value, decision)

    def _decoded(self, value: bytes, where: str) -> DecisionT:
        try:
            try:
                record = self.codec.decode(value)
            except Undecodable as error:
                if error.problem != "UNKNOWN_SCHEMA":
                    raise
                # A newer release may have come up since we last looked; it publishes its schemas first.
                self._learn()
                record = self.codec.decode(value)
        except (Undecodable, RegistryUnavailable) as error:
            raise FaceError(f"{where} can't be read: {error}.") from error
        if not isinstance(record, self._kind):
            raise FaceError(f"{where} is no decision but a {type(record).__name__}: something else writes to it.")
        return record

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class LedgerReader(_Reader[Decision]):
    """Reads the gate's ledger."""

    _kind = Decision
    _short = "ledger"
    _name = "ledger"


class ResourceLedgerReader(_Reader[ArbiterDecision]):
    """Reads the arbiter's ledger; where there is no such topic, nothing."""

    _kind = ArbiterDecision
    _short = "resource-ledger"
    _name = "resource ledger"
    _optional = True
