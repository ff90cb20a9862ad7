"""What the arbiter's tests on a real broker share: a deployment of both deciders, under a prefix of its own."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.arbiter.worker import Standing, run_arbiter
from joingate_processors.forensics.checked_resources import check_resources
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.worker import run_gate
from joingate_schemas import claims as c
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.catalogue import Action, Argument, Catalogue, Downstream, Resource
from joingate_schemas.catalogue_file import catalogue_from_json
from joingate_schemas.codec import AnyRecord, Codec
from joingate_schemas.decisions import Decision
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
    made = Catalogue("1", "", b"", {"mill": Downstream("mill", ("IDEMPOTENT_KEY",))}, {"grind": grind},
                     resources={"slot": slot}, resource_wait_ms=600_000)  # fmt: skip
    # As it is read back from its own canonical JSON, so that an audit reads it from the ledger too.
    form = {name: value for name, value in asdict(made).items() if name not in ("digest", "source")}
    return catalogue_from_json(json.dumps(form, sort_keys=True).encode())


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

    @contextmanager
    def arbiter_here(self, **asked: Any) -> Iterator[list[Standing]]:
        """An arbiter in a thread of this process, until the block ends; gives how it stood, change by change."""
        told: list[Standing] = []
        stop = threading.Event()
        settings = ArbiterSettings(bootstrap_servers=self.bootstrap, prefix=self.prefix, partitions=PARTITIONS, **asked)
        thread = threading.Thread(target=run_arbiter, args=(settings, stop, told.append), daemon=True)
        thread.start()
        try:
            yield told
        finally:
            stop.set()
            thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the arbiter did not stop"

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


@pytest.fixture
def tools() -> Any:
    """The functions of this file, for the tests beside it."""

    class Tools:
        wait_for = staticmethod(wait_for)
        steps = tuple(arbiter_process.STEPS)

    return Tools
