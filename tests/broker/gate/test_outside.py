"""What the world does to a gate: aborted and hanging transactions, a broker that goes away, a disk that fills up."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from joingate.local_kafka import LocalKafka
from joingate_schemas.topics import TopicMismatch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def transactional(desk: Any, name: str, **settings: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": desk.bootstrap, "transactional.id": f"{desk.prefix}{name}",
            "partitioner": "murmur2_random", **settings,
        }
    )  # fmt: skip
    producer.init_transactions(30)
    return producer


def test_records_of_aborted_transactions_are_never_decided_under_any_compression(desk: Any, tools: Any) -> None:
    """C16: aborted, empty and aborted, committed, in one fetch."""

    def claim(intent_id: str) -> tuple[bytes, bytes]:
        return desk.codec.encode(tools.refund(intent_id)[0]), intent_id.encode()

    for codec in CODECS:
        producer = transactional(desk, codec, **{"compression.type": codec})
        for n in range(3):
            producer.begin_transaction()
            producer.produce(desk.topics.proposals, *claim(f"acme/aborted/{codec}/{n}"))
            producer.flush(30)
            producer.abort_transaction(30)
            producer.begin_transaction()
            producer.abort_transaction(30)
            producer.begin_transaction()
            producer.produce(desk.topics.proposals, *claim(f"acme/committed/{codec}/{n}"))
            producer.commit_transaction(30)
    with desk.gate():
        ledger = desk.await_claims(3 * len(CODECS))
        desk.send(tools.refund("acme/last")[0])
        desk.flush()
        ledger = desk.await_claims(3 * len(CODECS) + 1)
    wanted = {f"acme/committed/{codec}/{n}" for codec in CODECS for n in range(3)} | {"acme/last"}
    assert Counter(one.intent_id for one in ledger if one.topic != "gate") == Counter(wanted)


def test_a_hanging_transaction_stalls_the_partition_in_view_and_no_timer_fires_out_of_blindness(
    make_desk: Callable[..., Any], tools: Any
) -> None:
    """C17."""
    desk = make_desk()
    with desk.gate(catalogue=tools.catalogue(silence_ms=1_500), stalled_after_ms=300) as gate:
        desk.refund("acme/refund/1", upto=2)
        desk.flush()
        desk.await_claims(2)
        hanging = transactional(desk, "hanging", **{"transaction.timeout.ms": 60_000})
        hanging.begin_transaction()
        hanging.produce(desk.topics.outcomes, desk.codec.encode(tools.cancel("acme/x", "never")), b"acme/x")
        hanging.flush(30)
        desk.send(tools.refund("acme/refund/1")[2])
        desk.send(tools.refund("acme/refund/1")[3], desk.topics.outcomes)  # it is written, and nobody can read it yet
        desk.flush()
        tools.wait_for(lambda: gate.states() == ["STALLED"], "the gate to say that it is stalled")
        assert "outcomes can't be read past offset 0" in gate.sentences()
        tools.wait_for(lambda: gate.status["partitions"]["0"]["stalled_ms"] > 2_000, "the silence deadline to pass")
        assert gate.status["partitions"]["0"]["producer_id"] >= 0
        dispatched = desk.await_claims(3)
        assert [one.claim_type for one in dispatched if one.topic != "gate"][-1] == "Dispatch"
        assert not [one for one in dispatched if one.claim_type == "TimerFired"]
        hanging.abort_transaction(30)
        ledger = desk.await_claims(4)
        tools.wait_for(lambda: gate.states() == ["RUNNING"], "the gate to run again")
    decided = Counter(one.claim_id for one in ledger if one.topic != "gate")
    assert decided == Counter(claim.claim_id for claim in tools.refund("acme/refund/1")[:4])
    (commit,) = [one for one in ledger if one.claim_type == "Commit"]
    assert commit.verdict == "ACCEPTED"
    assert not [one for one in ledger if one.claim_type == "TimerFired" and one.seq < commit.seq]


def test_a_gate_waits_for_a_broker_that_went_away_and_goes_on(
    make_desk: Callable[..., Any], tools: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalKafka() as kafka:
        desk = make_desk(servers=kafka.bootstrap_servers)
        with desk.gate() as gate:
            desk.refund("acme/refund/1", upto=3)
            desk.flush()
            desk.await_claims(3)
            kafka.kill()
            tools.wait_for(lambda: "does not answer" in gate.status["sentence"], "the gate to miss the broker")
            kafka.restart()
            desk.send(tools.refund("acme/refund/1")[3], desk.topics.outcomes)
            desk.flush()
            ledger = desk.await_claims(4)
            tools.wait_for(lambda: gate.states() == ["RUNNING"] and not gate.status["sentence"], "all to be well again")
        assert Counter(one.claim_id for one in ledger if one.topic != "gate") == Counter(
            claim.claim_id for claim in tools.refund("acme/refund/1")[:4]
        )
        assert caplog.text.count("does not answer; the gate keeps trying") == 1


def test_a_full_disk_halts_with_a_sentence_and_goes_on_when_there_is_room_again(
    make_desk: Callable[..., Any], tools: Any
) -> None:
    desk = make_desk()
    intents = [f"acme/refund/{n}" for n in range(150)]
    process = desk.process(file_bytes_max=32_768, batch_max=50, halted_retry_ms=100)
    for intent in intents:
        desk.refund(intent)
    desk.flush()
    status_file = desk.directory / "gate" / "status.json"

    def halted() -> str:
        partitions = json.loads(status_file.read_text())["partitions"] if status_file.exists() else {}
        return next((one["sentence"] for one in partitions.values() if one["state"] == "HALTED"), "")

    sentence = tools.wait_for(halted, "the partition to halt")
    assert "could not be written" in sentence
    assert str(desk.directory / "gate" / "0") in sentence
    process.send_signal(signal.SIGUSR1)
    ledger = desk.await_claims(6 * len(intents))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    decided = Counter(one.claim_id for one in ledger if one.topic != "gate")
    assert decided == Counter(claim.claim_id for intent in intents for claim in tools.refund(intent))


def test_topics_with_another_partition_count_are_refused_at_the_start(desk: Any) -> None:
    gate = desk.gate(partitions=3)
    with pytest.raises(TopicMismatch, match="2 partitions"), gate as running:
        running.thread.join(30)


def test_a_clock_that_is_off_the_brokers_halts(make_desk: Callable[..., Any], tools: Any) -> None:
    desk = make_desk()
    with desk.gate(max_skew_ms=-600_000) as gate:
        tools.wait_for(lambda: gate.states() == ["HALTED"], "the partition to halt")
        assert "clock" in gate.sentences()
