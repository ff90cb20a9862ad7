"""The room of topics: their names, what each is set to and why, how they are created and checked, and who goes where.

Partition numbers mean the same on every intake topic and the ledger (architecture §2): one key, one number, one owner.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import unpack

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

# The library's stubs do not mark these three as exported, although its documentation takes them from here.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from joingate_schemas.codec import Codec

PARTITIONS_DEFAULT = 4
TIMEOUT_S = 30.0
INTAKE_BYTES_MAX = 1_048_576
"""The largest record that an intake topic takes: above a claim's limit, so that an oversized one can be answered."""
RECORD_BYTES_MAX = 4_194_304
"""The largest record that the gate's own topics take: room for the largest intake record and what it leads to."""

PASSING_FAULTS = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What a consumer reports while the library goes on trying by itself."""

_DAY_MS = 86_400_000
_FOR_EVER = "-1"
ClientSettings = Mapping[str, str | int | float | bool]
"""Further librdkafka settings, such as credentials."""


class TopicMismatch(RuntimeError):
    """A topic is not as it must be; one sentence says which, what was found, what was wanted and what to do."""


class TopicsUnavailable(RuntimeError):
    """The broker could not be asked about topics, or refused; the text says what and where."""


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it should be. `pinned` are the settings that the start-up check insists on."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    pinned: tuple[str, ...]


# A claim is judged at its append time, so the broker's clock must stamp it. Decided claims live on in the ledger in
# full: thirty days is how long a gate may be down before an undecided one is lost (its reset policy then stops it).
_INTAKE = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * _DAY_MS),
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(INTAKE_BYTES_MAX),
}
# The only truth: kept for ever. What is quarantined too, until a person has resolved it, however late.
_KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": _FOR_EVER,
    "retention.bytes": _FOR_EVER,
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
# Work to be done now: the gate's timers repeat or escalate it long before a week is over.
_WORK = {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY_MS), "max.message.bytes": str(RECORD_BYTES_MAX)}
# The latest row a key.
_LATEST = {"cleanup.policy": "compact", "max.message.bytes": str(RECORD_BYTES_MAX)}

# The gate reads the broker's clock off the markers that it writes to its changelog.
_CHANGELOG = {**_LATEST, "message.timestamp.type": "LogAppendTime"}

# The arbiter reads the broker's clock off its own ledger.
_ARBITER_LEDGER = {**_KEPT, "message.timestamp.type": "LogAppendTime"}

_INTAKE_PINNED = ("cleanup.policy", "message.timestamp.type")
_KEPT_PINNED = ("cleanup.policy", "retention.ms", "retention.bytes")
_OTHERS_PINNED = ("cleanup.policy",)


class Topics:
    """The topics of one deployment, told apart from others' by their prefix."""

    def __init__(self, prefix: str = "joingate.") -> None:
        self.prefix = prefix
        self.proposals = prefix + "proposals"
        self.outcomes = prefix + "outcomes"
        self.approvals = prefix + "approvals"
        self.observations = prefix + "observations"
        self.overrides = prefix + "overrides"
        self.resource_verdicts = prefix + "resource-verdicts"
        self.resource_claims = prefix + "resource-claims"
        self.resource_ledger = prefix + "resource-ledger"
        self.arbiter_changelog = prefix + "arbiter-changelog"
        self.ledger = prefix + "ledger"
        self.in_doubt = prefix + "in-doubt"
        self.commitments = prefix + "commitments"
        self.quarantine = prefix + "quarantine"
        self.changelog = prefix + "gate-changelog"
        self.schemas = prefix + "schemas"
        # In the order of ties: what was appended at one time is heard in this order (architecture §2).
        self.intake: tuple[str, ...] = (
            self.outcomes,
            self.observations,
            self.resource_verdicts,
            self.approvals,
            self.overrides,
            self.proposals,
        )

    def commands(self, executor: str) -> str:
        """The topic of commands to the executor of this name."""
        return f"{self.prefix}commands.{executor}"

    def short(self, topic: str) -> str:
        """The topic's name without the prefix, as a Decision carries it. Raises ValueError on another's topic."""
        if not topic.startswith(self.prefix):
            raise ValueError(f"The topic {topic} does not begin with {self.prefix}.")
        return topic[len(self.prefix) :]

    def specs(self, partitions: int = PARTITIONS_DEFAULT, executors: Iterable[str] = ()) -> list[TopicSpec]:
        """Every topic as it should be, with one of commands for each of `executors`."""
        return [
            *(TopicSpec(name, partitions, _INTAKE, _INTAKE_PINNED) for name in self.intake),
            # The arbiter's: a message is judged at its append time too, and its ledger is as true as the gate's.
            TopicSpec(self.resource_claims, partitions, _INTAKE, _INTAKE_PINNED),
            TopicSpec(self.ledger, partitions, _KEPT, _KEPT_PINNED),
            TopicSpec(self.resource_ledger, partitions, _ARBITER_LEDGER, (*_KEPT_PINNED, "message.timestamp.type")),
            TopicSpec(self.quarantine, partitions, _KEPT, _KEPT_PINNED),
            TopicSpec(self.in_doubt, partitions, _WORK, _OTHERS_PINNED),
            *(
                TopicSpec(self.commands(executor), partitions, _WORK, _OTHERS_PINNED)
                for executor in sorted(set(executors))
            ),
            TopicSpec(self.commitments, partitions, _LATEST, _OTHERS_PINNED),
            TopicSpec(self.changelog, partitions, _CHANGELOG, _INTAKE_PINNED),
            TopicSpec(self.arbiter_changelog, partitions, _LATEST, _OTHERS_PINNED),
            # Schemas are few, and everyone reads all of them.
            TopicSpec(self.schemas, 1, _LATEST, _OTHERS_PINNED),
        ]

    def create(
        self,
        bootstrap: str,
        partitions: int = PARTITIONS_DEFAULT,
        executors: Iterable[str] = (),
        *,
        replication: int = -1,
        client: ClientSettings | None = None,
    ) -> list[str]:
        """Create what is not there, and return its names; what is there stays as it is (`check` tells whether it fits).

        `replication` -1 takes the broker's default. Raises TopicsUnavailable.
        """
        return create_topics(bootstrap, self.specs(partitions, executors), replication=replication, client=client)

    def check(
        self,
        bootstrap: str,
        partitions: int = PARTITIONS_DEFAULT,
        executors: Iterable[str] = (),
        *,
        client: ClientSettings | None = None,
    ) -> None:
        """See that every topic is there, with the right number of partitions and the settings that we rely on.

        Raises TopicMismatch about the first that is not, and TopicsUnavailable when the broker can't be asked.
        """
        admin = AdminClient({**(client or {}), "bootstrap.servers": bootstrap})
        specs = self.specs(partitions, executors)
        found = partition_counts(admin, bootstrap)
        for spec in specs:
            if spec.name not in found:
                raise TopicMismatch(f"The topic {spec.name} does not exist: create it (joingate topics create).")
            if found[spec.name] != spec.partitions:
                raise TopicMismatch(
                    f"The topic {spec.name} has {found[spec.name]} partitions and should have {spec.partitions}: set "
                    f"the partition count to {found[spec.name]}, or use another prefix, for a topic is never re-keyed."
                )
        for spec, settings in zip(specs, _settings(admin, bootstrap, specs), strict=True):
            for key in spec.pinned:
                if settings.get(key) != spec.settings[key]:
                    raise TopicMismatch(
                        f"The topic {spec.name} has {key}={settings.get(key)} and needs {spec.settings[key]}: set it "
                        f"with kafka-configs --alter --entity-type topics --entity-name {spec.name} "
                        f"--add-config {key}={spec.settings[key]}."
                    )

    def partition_for(self, key: bytes, partitions: int) -> int:
        """The partition of a record with this key; see the function of the same name."""
        return partition_for(key, partitions)


def create_topics(
    bootstrap: str, specs: Iterable[TopicSpec], *, replication: int = -1, client: ClientSettings | None = None
) -> list[str]:
    """Create what is not there of `specs`, and return its names once every partition of all of them has a leader.

    `replication` -1 takes the broker's default. Raises TopicsUnavailable.
    """
    admin = AdminClient({**(client or {}), "bootstrap.servers": bootstrap})
    wanted = [NewTopic(spec.name, spec.partitions, replication, config=dict(spec.settings)) for spec in specs]
    created = []
    for name, future in admin.create_topics(wanted, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S).items():
        try:
            future.result(timeout=2 * TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            raise TopicsUnavailable(f"The topic {name} could not be created at {bootstrap}: {error!r}.") from error
        created.append(name)
    # Those of others too: one that a neighbour creates at this moment is only half there.
    _await_leaders(admin, bootstrap, [topic.topic for topic in wanted])
    return created


def partition_counts(admin: AdminClient, bootstrap: str) -> dict[str, int]:
    """How many partitions each topic at `bootstrap` has. Raises TopicsUnavailable."""
    try:
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise TopicsUnavailable(f"The broker at {bootstrap} could not be asked for its topics: {error}.") from error
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _await_leaders(admin: AdminClient, bootstrap: str, names: Iterable[str]) -> None:
    """Wait until each new partition has a leader, so that nobody meets a topic that is only half there."""
    deadline = time.monotonic() + TIMEOUT_S
    pause_s = 0.01
    waiting = set(names)
    while waiting:
        try:
            topics = admin.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as error:
            raise TopicsUnavailable(f"The broker at {bootstrap} could not be asked for its topics: {error}.") from error
        led = {n for n, t in topics.items() if t.partitions and all(p.leader >= 0 for p in t.partitions.values())}
        waiting -= led
        if waiting and time.monotonic() > deadline:
            raise TopicsUnavailable(f"The topic {min(waiting)} was created at {bootstrap}, but has no leader yet.")
        if waiting:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)


def _settings(admin: AdminClient, bootstrap: str, specs: list[TopicSpec]) -> list[dict[str, str | None]]:
    """The settings that are in force on each topic."""
    asked = [ConfigResource(ResourceType.TOPIC, spec.name) for spec in specs]
    found: list[dict[str, str | None]] = []
    answers = admin.describe_configs(asked, request_timeout=TIMEOUT_S)
    for resource in asked:
        try:
            entries = answers[resource].result(timeout=2 * TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            raise TopicsUnavailable(f"The settings of {resource.name} could not be read: {error!r}.") from error
        found.append({key: entry.value for key, entry in entries.items()})
    return found


# --- schemas on their topic ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemasRead:
    """What the schemas topic held: the fingerprints learnt, and a sentence on each record that was of no use."""

    learnt: frozenset[bytes]
    refused: tuple[str, ...]


def read_schemas(bootstrap: str, topics: Topics, codec: Codec, *, client: ClientSettings | None = None) -> SchemasRead:
    """Read the schemas topic to its end, and have the codec learn what it holds. Raises TopicsUnavailable.

    A record that is no schema changes nothing and is told in `refused`: a stranger's mistake must not stop a start.
    """
    learnt: set[bytes] = set()
    refused: list[str] = []
    for key, value in _rows(bootstrap, topics.schemas, client or {}):
        try:
            learnt.add(codec.learn(value))
        except ValueError as error:
            refused.append(f"The record {key!r} on {topics.schemas} is no schema: {error}.")
    return SchemasRead(frozenset(learnt), tuple(refused))


def publish_schemas(bootstrap: str, topics: Topics, codec: Codec, *, client: ClientSettings | None = None) -> int:
    """Write those of our schemas that the topic lacks, keyed by fingerprint (hex), and return how many.

    Two processes that start together may both write one: it is the same row. Raises TopicsUnavailable.
    """
    there = {(key, value) for key, value in _rows(bootstrap, topics.schemas, client or {})}
    rows = [(mark.hex().encode(), text.encode()) for mark, text in codec.own_schemas()]
    missing = [row for row in rows if row not in there]
    faults: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            faults.append(str(error))

    producer = Producer(
        {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.max.bytes": RECORD_BYTES_MAX,
            "delivery.timeout.ms": int(TIMEOUT_S * 1000),
        }
    )
    for key, value in missing:
        producer.produce(topics.schemas, value, key, on_delivery=delivered)
    if producer.flush(TIMEOUT_S) or faults:
        why = faults[0] if faults else f"no answer within {TIMEOUT_S:.0f} s"
        raise TopicsUnavailable(f"The schemas could not be written to {topics.schemas} at {bootstrap}: {why}.")
    return len(missing)


def _rows(bootstrap: str, topic: str, client: ClientSettings) -> list[tuple[bytes, bytes]]:
    """The records of a one-partition topic that have a key and a value, from its start to its present end."""
    consumer = Consumer(
        {
            **client,
            "bootstrap.servers": bootstrap,
            "group.id": "joingate-schemas",  # required by the library; nothing is committed, nothing is joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    deadline = time.monotonic() + TIMEOUT_S
    rows: list[tuple[bytes, bytes]] = []
    why = f"its end was not reached within {TIMEOUT_S:.0f} s"
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None:
                break
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return rows
            if error is not None:
                why = str(error)
                if error.code() in PASSING_FAULTS:
                    continue
                break
            key, value = message.key(), message.value()
            if key and value:
                rows.append((key, value))
    finally:
        consumer.close()
    raise TopicsUnavailable(f"The topic {topic} at {bootstrap} could not be read: {why}.")


# --- who goes where --------------------------------------------------------------------------------------------------

_FACTOR = 0x5BD1E995
_BITS_32 = 0xFFFFFFFF


@lru_cache(maxsize=16_384)  # The claims of an intent share a key, and come together.
def _murmur2(key: bytes) -> int:
    """MurmurHash2 in 32 bits, with the seed of Kafka's Java client."""
    words = len(key) & ~3
    value = 0x9747B28C ^ len(key)
    for word in unpack(f"<{words >> 2}I", key[:words]):
        word = word * _FACTOR & _BITS_32
        value = (value * _FACTOR ^ (word ^ word >> 24) * _FACTOR) & _BITS_32
    if words != len(key):
        value = (value ^ int.from_bytes(key[words:], "little")) * _FACTOR & _BITS_32
    value = (value ^ value >> 13) * _FACTOR & _BITS_32
    return value ^ value >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition, of `partitions`, to which Java's producer, and librdkafka's murmur2_random, send this key."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0
