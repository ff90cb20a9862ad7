"""The seam of `wire` over a real broker, with confluent-kafka.

What must hold of every client here: producers are idempotent, want all replicas' word and partition by Java's murmur2;
consumers read committed records only, commit by hand, and take a position that is gone for an error, never for a
reason to begin elsewhere.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from joingate_producers.errors import JoinGateError, LedgerBroken, Unreachable
from joingate_producers.settings import Settings
from joingate_producers.wire import Delivery, Fate, Report, Row

log = logging.getLogger("joingate.producers")

_BATCH_MAX = 500
_BEGINNING = -2
# Errors after which a record is certainly not in the topic, and would not be if sent again unchanged.
_REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


@contextmanager
def _settings_that_fit() -> Iterator[None]:
    """The library's complaint about a setting, as a sentence."""
    try:
        yield
    except (KafkaException, ValueError, TypeError) as error:
        raise JoinGateError(f"A setting for the Kafka client does not fit: {error}. Mend `client`.") from error


def _base(settings: Settings) -> dict[str, str | int | float | bool]:
    return {
        **settings.client,
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": settings.name,
        # A broker that comes back should be noticed within a second, not at the end of a long back-off.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
    }


def _fate(error: KafkaError | None) -> Delivery:
    """What a delivery report means. Whatever is not a plain refusal leaves the record possibly written (C19)."""
    if error is None:
        return Delivery(Fate.WRITTEN)
    if error.fatal():
        return Delivery(Fate.OUTLET_DEAD, error.str())
    if error.code() in _REFUSALS:
        return Delivery(Fate.REFUSED, error.str())
    return Delivery(Fate.POSSIBLY_WRITTEN, error.str())


class KafkaOutlet:
    """An idempotent producer."""

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer(
            {
                **_base(settings),
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "message.timeout.ms": round(settings.delivery_timeout_s * 1000),
                "linger.ms": 2,
                # The sender bounds what is in flight; the library's own bound must not be the narrower one.
                "queue.buffering.max.messages": settings.in_flight_max + settings.outbox_claims_max,
            }
        )

    def produce(self, topic: str, key: bytes, value: bytes, partition: int, report: Report) -> None:
        try:
            self._producer.produce(
                topic, value, key, partition, on_delivery=lambda error, _message: report(_fate(error))
            )
        except BufferError:
            report(Delivery(Fate.NOT_TAKEN, "The client's queue is full"))
        except KafkaException as error:
            report(_fate(_kafka_error(error)))

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def close(self) -> None:
        self._producer.purge()
        # A purge ends every record at once, so this returns when the reports have been made.
        self._producer.flush(5.0)
        self._producer.close()


def _kafka_error(error: KafkaException) -> KafkaError:
    found = error.args[0]
    assert isinstance(found, KafkaError), "the library wraps a KafkaError in each KafkaException"
    return found


def _partitions(client: AdminClient | Consumer | Producer, topic: str, settings: Settings, timeout_s: float) -> int:
    where = f"topic {topic} at {settings.bootstrap_servers}"
    try:
        # Asking for all topics, since to ask for one by name would create it on a broker that creates topics by itself.
        found = client.list_topics(timeout=timeout_s).topics.get(topic)
    except KafkaException as error:
        raise Unreachable(
            f"No broker answered at {settings.bootstrap_servers} within {timeout_s:g} s: {_kafka_error(error).str()}. "
            "Check the address and that the broker runs."
        ) from error
    if found is None:
        raise Unreachable(f"There is no {where}: check the prefix, or create the topics first.")
    if found.error is not None:
        raise Unreachable(f"The broker can't describe the {where}: {found.error.str()}.")
    return len(found.partitions)


def _row(message: Message) -> Row:
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "a consumed record has a partition"
    assert offset is not None, "a consumed record has an offset"
    return Row(partition, offset, message.key(), message.value(), message.timestamp()[1])


class _Reader:
    """What both kinds of reader share: the consumer, and what was last heard of the broker."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings = settings
        self.problem = ""
        self._consumer = Consumer(
            {
                **_base(settings),
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                # A member that died should not keep its commands from the others for longer than this.
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 2_000,
                "error_cb": self._heard,
            }
        )

    def _heard(self, error: KafkaError) -> None:
        self.problem = error.str()

    def _messages(self, timeout_s: float) -> list[Message]:
        """The first message within `timeout_s`, and what has been fetched with it already."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        return [first, *self._consumer.consume(_BATCH_MAX, 0)]

    def close(self) -> None:
        self._consumer.close()


class KafkaTail(_Reader):
    """A reader of a whole topic from its end."""

    def __init__(self, settings: Settings, topic: str) -> None:
        # No group is joined and nothing committed; the library wants a name all the same.
        super().__init__(settings, f"{settings.prefix}tail.{uuid4()}")
        self._topic = topic

    def start(self, timeout_s: float) -> int:
        positions = []
        for partition in range(_partitions(self._consumer, self._topic, self._settings, timeout_s)):
            position = TopicPartition(self._topic, partition)
            try:
                _, position.offset = self._consumer.get_watermark_offsets(position, timeout=timeout_s)
            except KafkaException as error:
                raise Unreachable(
                    f"The end of {self._topic}-{partition} can't be known: {_kafka_error(error).str()}."
                ) from error
            positions.append(position)
        self._consumer.assign(positions)
        self.problem = ""
        return len(positions)

    def poll(self, timeout_s: float) -> list[Row]:
        rows = []
        for message in self._messages(timeout_s):
            error = message.error()
            if error is None:
                rows.append(_row(message))
                self.problem = ""
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise LedgerBroken(
                    f"Records of {self._topic}-{message.partition()} that were still to be read are gone "
                    f"({error.str()}): the topic was trimmed or made anew. Open a new connection and look up its state."
                )
            else:
                self.problem = error.str()
        return rows


class KafkaCommands(_Reader):
    """A member of a group that reads one topic."""

    def __init__(self, settings: Settings, topic: str, group: str, lost: Callable[[frozenset[int]], None]) -> None:
        super().__init__(settings, group)
        self._topic = topic
        self._lost = lost
        self._held = False
        self._taken_at: dict[int, int] = {}
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def poll(self, timeout_s: float) -> list[Row]:
        rows = []
        for message in self._messages(timeout_s):
            error = message.error()
            if error is None:
                rows.append(_row(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._begin_again(message.partition())
            else:
                self.problem = error.str()
                log.warning("The commands of %s can't be read now: %s.", self._topic, error.str())
        return rows

    def taken_at(self, partition: int) -> int | None:
        return self._taken_at.get(partition)

    def _begin_again(self, partition: int | None) -> None:
        """Go on at the oldest that is left: a command that is gone is one that the gate's timers took over."""
        log.warning("Commands of %s-%s are gone before they were read.", self._topic, partition)
        # Assigned anew, since the library does not seek in a partition whose position it could not find.
        positions = self._consumer.position(self._consumer.assignment())
        for position in positions:
            if position.partition == partition:
                position.offset = _BEGINNING
        self._consumer.assign(positions)
        if self._held:
            self._apply_hold(positions)

    def commit(self, positions: Mapping[int, int]) -> None:
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # Whoever reads on from an older position meets commands that the executor knows, and drops.
            log.warning("Positions of %s were not committed: %s.", self._topic, _kafka_error(error).str())

    def hold(self, held: bool) -> None:
        if held != self._held:
            self._held = held
            self._apply_hold(self._consumer.assignment())

    def _apply_hold(self, partitions: list[TopicPartition]) -> None:
        (self._consumer.pause if self._held else self._consumer.resume)(partitions)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._taken_at = {}
        try:
            for position in consumer.committed(partitions, timeout=self._settings.request_timeout_s):
                # A group that never committed begins at the beginning: what was commanded before was meant for it.
                position.offset = position.offset if position.offset >= 0 else _BEGINNING
                partitions[[one.partition for one in partitions].index(position.partition)] = position
            for position in partitions:
                _, end = consumer.get_watermark_offsets(position, timeout=self._settings.request_timeout_s)
                self._taken_at[position.partition] = end
        except KafkaException as error:
            # Left as they are, the library asks for the positions itself, for as long as it takes.
            log.warning("Positions of %s can't be asked for: %s.", self._topic, _kafka_error(error).str())
        consumer.assign(partitions)
        if self._held:
            self._apply_hold(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._lost(frozenset(position.partition for position in partitions))


class KafkaWire:
    """A real broker, under the given settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self, topic: str, timeout_s: float) -> int:
        client = AdminClient(_base(self._settings))
        return _partitions(client, topic, self._settings, timeout_s)

    def outlet(self) -> KafkaOutlet:
        with _settings_that_fit():
            return KafkaOutlet(self._settings)

    def tail(self, topic: str) -> KafkaTail:
        with _settings_that_fit():
            return KafkaTail(self._settings, topic)

    def commands(self, topic: str, group: str, lost: Callable[[frozenset[int]], None]) -> KafkaCommands:
        with _settings_that_fit():
            return KafkaCommands(self._settings, topic, group, lost)
