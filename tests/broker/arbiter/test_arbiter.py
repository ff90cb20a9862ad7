"""Both deciders on a real broker: one resource, two that race for it, and a kill at every step in between."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from joingate_processors.arbiter.partition import ArbiterPartition
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.forensics.checked_resources import check_resources
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.transactions import WriterLost
from joingate_processors.gate.worker import run_gate
from joingate_schemas import claims as c
from joingate_schemas.arbitration import ArbiterDecision, Reserve
from joingate_schemas.catalogue import Action, Argument, Catalogue, Downstream, Resource
from joingate_schemas.codec import AnyRecord, Codec
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import OperationReady, OperationWithdrawn, ResourceChanged
from joingate_schemas.ids import operation_id
from joingate_schemas.topics import Topics

HERE = Path(__file__).parent
_SPEC = spec_from_file_location("arbiter_process", HERE / "arbiter_process.py")
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018 - one fact, told to the type checker
arbiter_process = module_from_spec(_SPEC)
_SPEC.loader.exec_module(arbiter_process)

DEADLINE_S = 60.0
PARTITIONS = 2


def catalogue(lease_ms: int | None) -> Catalogue:
    """A mill that knows keys, and slots that one operation has at a time."""
    grind = Action("grind", "mill", "REVERSIBLE", "RETRYABLE", "miller", silence_ms=600_000, resources=("slot:{slot}",),
                   arguments=(Argument("slot"),))  # fmt: skip
    slot = Resource("slot", "EXCLUSIVE", arbitrated=True, lease_ms=lease_ms)
    return Catalogue("1", "digest-1", b"{}", {"mill": Downstream("mill", ("IDEMPOTENT_KEY",))}, {"grind": grind},
                     resources={"slot": slot}, resource_wait_ms=600_000)  # fmt: skip


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """What `condition` gives, once it is something."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s in vain for {what}"
        time.sleep(0.05)
    return found


class Town:
    """A deployment of both deciders: the gate in a thread of this process, arbiters in processes of their own."""

    def __init__(self, bootstrap: str, prefix: str, directory: Path, lease_ms: int | None) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.topics, self.codec = Topics(prefix), Codec()
        self.topics.create(bootstrap, PARTITIONS, ["miller"])
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        self.processes: list[subprocess.Popen[str]] = []
        self.stop = threading.Event()
        settings = GateSettings(bootstrap_servers=bootstrap, data_dir=directory / "gate", prefix=prefix,
                                catalogue=catalogue(lease_ms), partitions=PARTITIONS)  # fmt: skip
        self.gate = threading.Thread(target=run_gate, args=(settings, self.stop), daemon=True)
        self.gate.start()

    def arbiter(self, **asked: Any) -> "subprocess.Popen[str]":
        """An arbiter in a process. It keeps its membership over restarts, so that those need not wait for a session."""
        settings = {"bootstrap_servers": self.bootstrap, "prefix": self.prefix, "partitions": PARTITIONS,
                    "client": {"group.instance.id": "the-arbiter"}, **asked}  # fmt: skip
        self.processes.append(
            subprocess.Popen([sys.executable, str(HERE / "arbiter_process.py"), json.dumps(settings)], text=True)
        )
        return self.processes[-1]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.stop.set()
        self.gate.join(DEADLINE_S)
        assert not self.gate.is_alive(), "the gate did not stop"

    def want(self, intent_id: str, slot: str) -> str:
        """The intent wants to grind in the slot. Returns the operation's id."""
        step: c.PlanStep = {"step_id": "s", "action": "grind", "business_key": "job", "arguments": {"slot": slot},
                            "goal_id": None, "edges": [], "parallel": False, "commitments": []}  # fmt: skip
        for claim in (
            c.DeclareIntent(claim_id=f"{intent_id}-1", intent_id=intent_id, version=1, goals=[]),
            c.Plan(claim_id=f"{intent_id}-2", intent_id=intent_id, intent_version=1, plan_id="p", steps=[step],
                   commitments=[]),
            c.Dispatch(claim_id=f"{intent_id}-3", intent_id=intent_id, intent_version=1, plan_id="p", step_id="s"),
        ):  # fmt: skip
            self.send(claim, self.topics.proposals)
        return operation_id(intent_id, "grind", "job", 1)

    def send(self, claim: c.AnyClaim, topic: str) -> None:
        self.producer.produce(topic, self.codec.encode(claim), claim.intent_id.encode())
        assert self.producer.flush(DEADLINE_S) == 0

    def read(self, topic: str) -> list[tuple[AnyRecord, bytes, int]]:
        """Every committed record of the topic up to its present end, with its bytes and its partition."""
        ends = self.ends(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 50,
            }
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        reached = dict.fromkeys(ends, 0)
        found = []
        deadline = time.monotonic() + DEADLINE_S
        while any(reached[number] < end for number, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} can't be read to its end: {reached} of {ends}"
            for message in consumer.consume(1_000, 0.1):
                if message.error() is None:
                    found.append((self.codec.decode(message.value()), message.value(), message.partition()))
                    reached[message.partition()] = message.offset() + 1
                else:
                    reached[message.partition()] = message.offset()
        consumer.close()
        return found

    def ends(self, topic: str) -> dict[int, int]:
        """Where each partition of the topic ends; a topic that is just being made is waited for."""
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}

        def answered() -> dict[int, int] | None:
            answers = self.admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
            try:
                return {place.partition: answer.result(DEADLINE_S).offset for place, answer in answers.items()}
            except KafkaException:
                self.admin = AdminClient({"bootstrap.servers": self.bootstrap})  # it would not look for new leaders
                return None

        return wait_for(answered, f"the ends of {topic}")

    def ledger(self) -> list[Decision]:
        """The gate's ledger."""
        return [record for record, _, _ in self.read(self.topics.ledger) if isinstance(record, Decision)]

    def rulings(self) -> list[ArbiterDecision]:
        """The arbiter's ledger, partition by partition; that it holds together is checked on the way."""
        found: dict[int, list[tuple[ArbiterDecision, bytes]]] = {}
        for record, raw, number in self.read(self.topics.resource_ledger):
            assert isinstance(record, ArbiterDecision)
            found.setdefault(number, []).append((record, raw))
        for one in found.values():
            assert check_resources([record for record, _ in one], [raw for _, raw in one]) == []
        return [record for one in found.values() for record, _ in one]

    def facts(self, cls: type[Any]) -> list[Any]:
        """Every fact of this class in the gate's ledger."""
        return [fact for decision in self.ledger() for fact in decision.facts if isinstance(fact, cls)]


@pytest.fixture
def town(bootstrap: str, topic_prefix: str, tmp_path: Path) -> Iterator[Callable[..., Town]]:
    """Makes deployments."""
    made: list[Town] = []

    def make(lease_ms: int | None = None) -> Town:
        made.append(Town(bootstrap, topic_prefix, tmp_path, lease_ms))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_killed_at_each_step_of_a_transaction_one_gets_the_resource_and_the_other_is_told(
    town: Callable[..., Town],
) -> None:
    """EOS across both deciders: each message is decided once, each answered once, and one resource has one holder."""
    here = town()
    races: list[tuple[str, str, str]] = []
    for n, step in enumerate(arbiter_process.STEPS):
        process = here.arbiter(crash=step)
        races.append((f"slot:{n}", here.want(f"acme/{n}/a", str(n)), here.want(f"acme/{n}/b", str(n))))
        assert process.wait(DEADLINE_S) == -signal.SIGKILL, f"it did not die when: {step}"
    process = here.arbiter()
    withdrawn = wait_for(
        lambda: found if len(found := here.facts(OperationWithdrawn)) == len(races) else None, "one loser a race"
    )
    ready = wait_for(
        lambda: found if len(found := here.facts(OperationReady)) == len(races) else None, "one winner a race"
    )
    losers, winners = {fact.operation_id: fact for fact in withdrawn}, {fact.operation_id for fact in ready}
    for slot, one, other in races:
        assert len({one, other} & winners) == len({one, other} & losers.keys()) == 1
        (loser,), (winner,) = {one, other} & losers.keys(), {one, other} & winners
        assert f"{slot} is held by operation {winner}" in losers[loser].cause
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    reserved = [(record.operation_id, record.n) for record, _, _ in here.read(here.topics.resource_claims)
                if isinstance(record, Reserve)]  # fmt: skip
    rulings = here.rulings()
    asked = Counter((one.operation_id, one.n) for one in rulings if one.message_type == "Reserve")
    assert asked == Counter(reserved), "each message is decided exactly once"
    granted = [one.resource_ref for one in rulings if one.verdict == "GRANTED"]
    assert sorted(granted) == sorted(slot for slot, _, _ in races)
    told = Counter(record.claim_id for record, _, _ in here.read(here.topics.resource_verdicts)
                   if isinstance(record, c.Claim))  # fmt: skip
    assert len(told) == 2 * len(races)
    assert set(told.values()) == {1}, "each is answered exactly once"
    commands = [record for record, _, _ in here.read(here.topics.commands("miller")) if isinstance(record, Command)]
    assert Counter((one.operation_id, one.kind) for one in commands if one.kind == "EXECUTE") == Counter(
        (winner, "EXECUTE") for winner in winners
    )


def test_what_is_given_back_before_a_restart_is_free_after_it_and_a_lease_outlives_its_arbiter(
    town: Callable[..., Town],
) -> None:
    here = town(lease_ms=1)
    first = here.arbiter()
    held = here.want("acme/held", "1")
    wait_for(lambda: [x for x in here.facts(ResourceChanged) if x.standing == "HELD"], "the grant")
    wait_for(lambda: [x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"], "the lease to be over")
    first.kill()
    first.wait()
    before = len([x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"])
    here.arbiter()
    wait_for(lambda: len([x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"]) > before,
             "the next arbiter to ask about the same lease")  # fmt: skip
    here.send(
        c.Commit(claim_id="done", intent_id="acme/held", operation_id=held, attempt=1, external_id="x",
                 evidence=["e"], idempotency_key=held), here.topics.outcomes,
    )  # fmt: skip
    wait_for(lambda: [one for one in here.rulings() if one.message_type == "Free"], "what it had to be given back")
    other = here.want("acme/other", "1")
    wait_for(lambda: [x for x in here.facts(OperationReady) if x.operation_id == other], "the other to get it")
    epochs = [one.epoch for one in here.rulings() if one.resource_ref == "slot:1"]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2


def test_the_command_runs_an_arbiter_until_it_is_asked_to_end(bootstrap: str, topic_prefix: str) -> None:
    Topics(topic_prefix).create(bootstrap, 1)
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "JOINGATE_PARTITIONS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "joingate", "arbiter", "--json"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = next(row for line in process.stdout if (row := json.loads(line))["ready"])
        assert (said["service"], said["state"], said["sentence"]) == ("arbiter", "RUNNING", "partitions 0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_an_arbiter_that_was_replaced_may_not_decide(bootstrap: str, topic_prefix: str) -> None:
    topics = Topics(topic_prefix)
    topics.create(bootstrap, 1)
    settings = ArbiterSettings(bootstrap_servers=bootstrap, prefix=topic_prefix, partitions=1)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": settings.group})
    old, new = (
        ArbiterPartition(0, settings, topics, Codec(), consumer.consumer_group_metadata, lambda: False)
        for _ in range(2)
    )
    old.open()
    old.decide(())
    new.open()
    with pytest.raises(WriterLost):
        old.decide(())
    new.decide(())
    for partition in (old, new):
        partition.close()
    consumer.close()
