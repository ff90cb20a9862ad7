"""Killed at any moment, taken over by anyone, robbed of its memory: the ledger stays whole, nothing is done twice."""

import json
import random
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from joingate_processors.gate import partition as room
from joingate_processors.gate.docket import Law
from joingate_processors.gate.store import RocksState
from joingate_processors.law.arrival import Arrival
from joingate_processors.law.judge import fold, judge
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import INDEXES, TABLES, State
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.topics import TopicsUnavailable


def contents(state: MemoryState | RocksState) -> dict[str, object]:
    return {name: state.rows(name) for name in TABLES} | {name: state.entries(name) for name in INDEXES}


def assert_states_are_what_the_ledger_says(desk: Any, directory: Path) -> None:
    """C20: what each partition's store holds is the replay of its ledger, exactly."""
    for number in range(desk.partitions):
        twin = MemoryState()
        for one in desk.read(desk.topics.ledger):
            if one.partition == number:
                assert isinstance(one.record, Decision)
                fold(twin, one.record, sha256(one.raw).digest())
        store = RocksState(directory / str(number))
        assert contents(store) == contents(twin)
        assert store.due(1 << 60, 10_000) == twin.due(1 << 60, 10_000)
        store.close()


def assert_nothing_happened_twice(desk: Any, claim_ids: list[str]) -> None:
    """Each claim was decided exactly once, and no command was sent twice."""
    decided = Counter(one.claim_id for one in desk.ledger() if one.topic != "gate")
    assert decided == Counter(claim_ids)
    commands = [one.record for one in desk.read(desk.topics.commands("teller"))]
    assert all(isinstance(one, Command) for one in commands)
    sent = Counter((one.operation_id, one.attempt, one.kind) for one in commands)
    assert not [what for what, times in sent.items() if times > 1]
    epochs = [one.epoch for one in commands]
    assert len({(one.partition, one.ledger_seq) for one in commands}) == len(epochs)


def stop_restored(desk: Any, process: Any, wait_for: Callable[..., Any], name: str = "gate") -> None:
    """Stop the gate once it has both partitions: a store that lags behind its ledger is no fault, only not done yet."""
    file = desk.directory / name / "status.json"
    asked_at = file.stat().st_mtime_ns

    def ready() -> bool:
        fresh = file.stat().st_mtime_ns > asked_at  # the one before may be of a life that was killed
        states = [one["state"] for one in json.loads(file.read_text())["partitions"].values()] if fresh else []
        return states == ["RUNNING"] * desk.partitions

    wait_for(ready, "the gate to have restored both partitions")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def make_anew(desk: Any, topic: str, wait_for: Callable[..., Any]) -> None:
    """Replace a topic by an empty one of the same name."""
    desk.admin.delete_topics([topic])[topic].result(30)

    def made() -> bool:
        try:
            return topic in desk.topics.create(desk.bootstrap, desk.partitions, ["teller"])
        except TopicsUnavailable:
            return False

    wait_for(made, f"{topic} to be made anew")


def test_killed_at_each_step_of_a_transaction_nothing_is_lost_and_nothing_is_twice(desk: Any, tools: Any) -> None:
    """C20: a kill at every step of the commit; the store, the changelog and the ledger agree in the end."""
    sent: list[str] = []
    for n, step in enumerate(tools.steps):
        # The third is the first with claims in it, after the new epoch's and the catalogue's, on either partition.
        process = desk.process(crash=[step, 5 if n == 0 else 3])
        for m in range(10):
            desk.refund(f"acme/{n}/{m}")
            sent += [claim.claim_id for claim in tools.refund(f"acme/{n}/{m}")]
        desk.flush()
        assert process.wait(60) == -signal.SIGKILL, f"it did not die when: {step}"
    process = desk.process()
    desk.await_claims(len(sent))
    stop_restored(desk, process, tools.wait_for)
    assert_nothing_happened_twice(desk, sent)
    assert_states_are_what_the_ledger_says(desk, desk.directory / "gate")


@pytest.mark.parametrize("seed", [7])
def test_killed_at_random_moments_under_load_each_claim_is_decided_exactly_once(
    desk: Any, tools: Any, seed: int
) -> None:
    """C20, C12. A moment is how far the ledger has grown since the process started, drawn from the seed."""
    moments = random.Random(seed)
    claims: list[str] = []

    def decided() -> int:
        return sum(desk.ends(desk.topics.ledger).values())

    for life in range(5):
        process = desk.process(batch_max=40)
        load = [f"acme/load/{life}/{n}" for n in range(80)]
        before = decided()
        for intent in load:
            desk.refund(intent)
            claims += [claim.claim_id for claim in tools.refund(intent)]
        desk.flush()
        # Never more than what was sent for this life alone, so that it is reached whatever the lives before left.
        enough = before + moments.randint(1, len(load) * 6)
        tools.wait_for(lambda enough=enough: decided() >= enough, f"{enough - before} decisions in life {life}")
        process.kill()
        process.wait()
    process = desk.process()
    desk.await_claims(len(claims))
    stop_restored(desk, process, tools.wait_for)
    assert_nothing_happened_twice(desk, claims)
    assert_states_are_what_the_ledger_says(desk, desk.directory / "gate")


def test_a_second_worker_takes_over_what_a_killed_one_left(desk: Any, tools: Any) -> None:
    """C12: dynamic members, so the first is missed after its session; the second had no state of its own."""
    first = desk.process("first", client={})
    for n in range(10):
        desk.refund(f"acme/before/{n}")
    desk.flush()
    desk.await_claims(60)
    second = desk.process("second", client={})
    first.kill()
    for n in range(10):
        desk.refund(f"acme/after/{n}")
    desk.flush()
    ledger = desk.await_claims(120)
    stop_restored(desk, second, tools.wait_for, "second")
    claims = [claim for when in ("before", "after") for n in range(10) for claim in tools.refund(f"acme/{when}/{n}")]
    assert_nothing_happened_twice(desk, [claim.claim_id for claim in claims])
    assert_states_are_what_the_ledger_says(desk, desk.directory / "second")
    assert min(one.epoch for one in ledger if one.intent_id.startswith("acme/after")) > 1


def test_two_workers_share_the_partitions_and_one_that_leaves_gives_its_share_back(desk: Any, tools: Any) -> None:
    """C12: scaling out and in decides nothing twice."""
    running = ["RUNNING"]
    with desk.gate(data_dir=desk.directory / "one") as one:
        tools.wait_for(lambda: one.states() == running * 2, "the first worker to have both")
        with desk.gate(data_dir=desk.directory / "two") as two:
            tools.wait_for(lambda: one.states() == running and two.states() == running, "each worker to have one")
            for n in range(10):
                desk.refund(f"acme/shared/{n}")
            desk.flush()
            desk.await_claims(60)
        tools.wait_for(lambda: one.states() == running * 2, "the first worker to have both again")
        for n in range(10):
            desk.refund(f"acme/alone/{n}")
        desk.flush()
        desk.await_claims(120)
    claims = [claim for when in ("shared", "alone") for n in range(10) for claim in tools.refund(f"acme/{when}/{n}")]
    assert_nothing_happened_twice(desk, [claim.claim_id for claim in claims])


def test_lost_group_offsets_lead_to_no_second_decision(desk: Any, tools: Any) -> None:
    """C38, the accidental case: positions are the state's own."""
    claims = [claim.claim_id for n in range(10) for claim in tools.refund(f"acme/refund/{n}")]
    for n in range(10):
        desk.refund(f"acme/refund/{n}")
    desk.flush()
    with desk.gate():
        desk.await_claims(60)
    reset = [TopicPartition(topic, number, 0) for topic in desk.topics.intake for number in range(2)]
    answers = desk.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{desk.prefix}gate", reset)])
    for answer in answers.values():
        answer.result(30)
    with desk.gate():
        desk.send(tools.cancel("acme/refund/0", "afterwards"))
        desk.flush()
        desk.await_claims(61)
    assert_nothing_happened_twice(desk, [*claims, "afterwards"])


@pytest.mark.parametrize("lost", ["the store", "the store and the changelog"])
def test_a_gate_without_its_store_restores_the_same_state(
    desk: Any, tools: Any, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(20):
        desk.refund(f"acme/refund/{n}")
    desk.send_raw(b"junk", b"acme/refund/0")
    desk.flush()
    with desk.gate():
        desk.await_ledger(lambda found: len([one for one in found if one.claim_type != "CatalogueChanged"]) >= 121)
    shutil.rmtree(desk.directory / "gate")
    if "changelog" in lost:
        make_anew(desk, desk.topics.changelog, tools.wait_for)
    with desk.gate() as gate:
        desk.send(tools.cancel("acme/refund/0", "afterwards"))
        desk.flush()
        desk.await_claims(121)
        tools.wait_for(lambda: gate.states() == ["RUNNING"] * 2, "both partitions to be restored")
    quarantined = [one for one in desk.ledger() if one.claim_type == "ClaimQuarantined"]
    assert len(quarantined) == 1
    assert ("is rewritten" in caplog.text) == ("changelog" in lost)
    assert_states_are_what_the_ledger_says(desk, desk.directory / "gate")
    shutil.rmtree(desk.directory / "gate")
    caplog.clear()
    with desk.gate() as gate:
        tools.wait_for(lambda: gate.states() == ["RUNNING"] * 2, "the gate to run")
    assert "is rewritten" not in caplog.text, "the changelog was whole again"
    assert_states_are_what_the_ledger_says(desk, desk.directory / "gate")


def test_a_store_of_another_ledger_is_made_anew(make_desk: Callable[..., Any], tools: Any) -> None:
    elsewhere, here = make_desk(), make_desk()
    for desk, count in ((elsewhere, 3), (here, 2)):
        for n in range(count):
            desk.refund(f"{desk.prefix}/{n}")
        desk.flush()
        with desk.gate():
            desk.await_claims(count * 6)
    shutil.rmtree(here.directory / "gate")
    shutil.copytree(elsewhere.directory / "gate", here.directory / "gate")
    with here.gate() as gate:
        tools.wait_for(lambda: gate.states() == ["RUNNING"], "the gate to run")
    assert_states_are_what_the_ledger_says(here, here.directory / "gate")


def test_a_writer_that_is_fenced_amid_its_batch_gives_way_and_what_it_had_in_hand_is_decided_once(
    make_desk: Callable[..., Any], tools: Any
) -> None:
    """As a worker does that slept past its session while another took its partition over, and gave it back."""
    desk = make_desk()
    intents = [f"acme/refund/{n}" for n in range(20)]
    amid, fenced = threading.Event(), threading.Event()

    def slow(state: State, arrival: Arrival, catalogue: Catalogue, epoch: int) -> Decision:
        if arrival.claim.intent_id == intents[-1] and not fenced.is_set():
            amid.set()
            assert fenced.wait(60)
        return judge(state, arrival, catalogue, epoch)

    with desk.gate(law=Law(judge=slow)) as gate:
        for intent in intents:
            desk.refund(intent, upto=3)
        desk.flush()
        assert amid.wait(60)
        other = Producer({"bootstrap.servers": desk.bootstrap, "transactional.id": desk.settings().transactional_id(0)})
        other.init_transactions(60)
        fenced.set()
        ledger = desk.await_claims(3 * len(intents))
        tools.wait_for(lambda: gate.states() == ["RUNNING"], "the partition to run again")
    decided = Counter(one.claim_id for one in ledger if one.topic != "gate")
    assert decided == Counter(claim.claim_id for intent in intents for claim in tools.refund(intent)[:3])
    assert {one.epoch for one in ledger if one.topic != "gate"} == {2}


def test_a_client_that_refuses_records_amid_a_batch_is_replaced_and_the_batch_decided_anew(
    make_desk: Callable[..., Any], tools: Any, refuse_once: Callable[..., list[str]]
) -> None:
    """So does one that has heard, between two records, that its transaction can't stand."""
    desk = make_desk()
    refused = refuse_once(room, desk.topics.commands("teller"))
    desk.refund("acme/refund/1")
    desk.flush()
    with desk.gate() as gate:
        ledger = desk.await_claims(6)
        tools.wait_for(lambda: gate.states() == ["RUNNING"], "the partition to run again")
    assert refused
    decided = Counter(one.claim_id for one in ledger if one.topic != "gate")
    assert decided == Counter(claim.claim_id for claim in tools.refund("acme/refund/1"))
