"""Topics: who goes where, as librdkafka and Java have it; creation that may be repeated; a check that names faults."""

from __future__ import annotations

import json
import socket
import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from joingate_schemas.claims import Dispatch
from joingate_schemas.codec import RECORD_TYPES, Codec
from joingate_schemas.topics import (
    TopicMismatch,
    Topics,
    TopicsUnavailable,
    partition_for,
    publish_schemas,
    read_schemas,
)

DEADLINE_S = 30.0
KEYS = [b"", b"a", b"ab", b"abc", b"abcd", b"acme/fee-reversal/txn-77120", "straße".encode(), b"\x00\xff" * 33]


def test_the_names_are_those_of_the_architecture_and_intake_is_in_the_order_of_ties() -> None:
    topics = Topics("acme.")
    assert topics.ledger == "acme.ledger"
    assert topics.changelog == "acme.gate-changelog"
    assert topics.in_doubt == "acme.in-doubt"
    assert topics.commands("bank") == "acme.commands.bank"
    assert [topics.short(name) for name in topics.intake] == [
        "outcomes", "observations", "resource-verdicts", "approvals", "overrides", "proposals",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="does not begin with acme"):
        topics.short("joingate.ledger")


def test_intake_and_ledger_have_one_partition_count_and_the_ledger_is_kept_for_ever() -> None:
    topics = Topics()
    specs = {spec.name: spec for spec in topics.specs(6, ["bank", "cloud", "bank"])}
    assert {specs[name].partitions for name in (*topics.intake, topics.ledger)} == {6}
    assert {specs[name].settings["message.timestamp.type"] for name in topics.intake} == {"LogAppendTime"}
    assert specs[topics.ledger].settings["retention.ms"] == "-1"
    compacted = {name for name, spec in specs.items() if spec.settings["cleanup.policy"] == "compact"}
    assert compacted == {topics.commitments, topics.changelog, topics.arbiter_changelog, topics.schemas}
    assert specs[topics.schemas].partitions == 1
    assert [name for name in specs if ".commands." in name] == ["joingate.commands.bank", "joingate.commands.cloud"]


@pytest.mark.parametrize(
    ("key", "hashed"),
    # What the Java client gives for them, as signed 32 bits.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_the_partition_is_the_one_of_javas_murmur2(key: bytes, hashed: int) -> None:
    assert partition_for(key, 2**31) == hashed & 0x7FFFFFFF
    assert partition_for(key, 7) == (hashed & 0x7FFFFFFF) % 7


@pytest.mark.broker
def test_the_partition_is_where_librdkafkas_murmur2_partitioner_sends_a_key(bootstrap: str, topic_prefix: str) -> None:
    topic, partitions = topic_prefix + "keys", 7
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, -1)])[topic].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    went: dict[bytes, int | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        went[message.key() or b""] = message.partition()

    for key in KEYS:
        producer.produce(topic, b"", key, on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    assert went == {key: partition_for(key, partitions) for key in KEYS}


@pytest.mark.broker
def test_creating_twice_changes_nothing_and_passes_the_check(bootstrap: str, topic_prefix: str) -> None:
    topics = Topics(topic_prefix)
    created = topics.create(bootstrap, 3, ["bank"])
    assert set(created) == {spec.name for spec in topics.specs(3, ["bank"])}
    assert topics.create(bootstrap, 3, ["bank"]) == []
    topics.check(bootstrap, 3, ["bank"])
    assert topics.create(bootstrap, 3, ["bank", "cloud"]) == [topics.commands("cloud")]


@pytest.mark.broker
def test_the_check_names_a_missing_topic_and_one_with_another_partition_count(
    bootstrap: str, topic_prefix: str
) -> None:
    topics = Topics(topic_prefix)
    with pytest.raises(TopicMismatch, match=f"{topics.outcomes} does not exist: create"):
        topics.check(bootstrap, 2)
    topics.create(bootstrap, 2)
    with pytest.raises(TopicMismatch, match=f"{topics.outcomes} has 2 partitions and should have 5: set"):
        topics.check(bootstrap, 5)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("role", "setting", "found", "wanted"),
    [
        ("proposals", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("ledger", "retention.ms", "60000", "-1"),
        ("changelog", "cleanup.policy", "delete", "compact"),
    ],
)
def test_the_check_names_a_setting_that_we_rely_on_and_how_to_mend_it(
    bootstrap: str, topic_prefix: str, role: str, setting: str, found: str, wanted: str
) -> None:
    topics = Topics(topic_prefix)
    topics.create(bootstrap, 1)
    name = getattr(topics, role)
    entry = ConfigEntry(setting, found, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while True:  # A broker takes up a setting a moment after its controller has.
        try:
            topics.check(bootstrap, 1)
        except TopicMismatch as error:
            told = str(error)
            break
        assert time.monotonic() < deadline
    assert f"{name} has {setting}={found} and needs {wanted}" in told
    assert f"--add-config {setting}={wanted}" in told


@pytest.mark.broker
def test_schemas_are_published_once_and_learnt_by_whoever_reads_them(
    bootstrap: str, topic_prefix: str, codec: Codec
) -> None:
    topics = Topics(topic_prefix)
    topics.create(bootstrap, 1)
    assert publish_schemas(bootstrap, topics, codec) == len(RECORD_TYPES)
    assert publish_schemas(bootstrap, topics, codec) == 0
    newer = json.loads(codec.schema_json(Dispatch))
    newer["fields"].append({"name": "mood", "type": "string", "default": ""})
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topics.schemas, json.dumps(newer).encode(), b"newer")
    producer.produce(topics.schemas, b"no schema", b"stranger")
    assert producer.flush(DEADLINE_S) == 0
    reader = Codec()
    read = read_schemas(bootstrap, topics, reader)
    assert len(read.learnt) == len(RECORD_TYPES) + 1
    assert reader.record_type_of(b"\xc3\x01" + codec.learn(json.dumps(newer)) + b"...") == "Dispatch"
    (refused,) = read.refused
    assert "stranger" in refused
    assert topics.schemas in refused


def test_a_broker_that_is_not_there_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joingate_schemas.topics.TIMEOUT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers, and nobody else can take it
        address = f"127.0.0.1:{free.getsockname()[1]}"
        quiet = {"log_level": 0}
        with pytest.raises(TopicsUnavailable, match=f"broker at {address} could not be asked"):
            Topics().check(address, client=quiet)
        with pytest.raises(TopicsUnavailable, match=f"could not be created at {address}"):
            Topics().create(address, client=quiet)
        with pytest.raises(TopicsUnavailable, match=f"at {address} could not be read"):
            read_schemas(address, Topics(), Codec(), client=quiet)
