"""What the gate's tests on a real broker share: topics of their own, claims to send, ledgers to read, gates to run."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from joingate_processors.forensics.checker import Checker
from joingate_processors.gate.docket import Law
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.status import GateStatus
from joingate_processors.gate.worker import run_gate
from joingate_schemas.claims import AnyClaim, CancelIntent, Close, Commit, DeclareIntent, Dispatch, Plan, Succeed
from joingate_schemas.codec import AnyRecord, Codec
from joingate_schemas.decisions import Decision
from joingate_schemas.guard import LedgerGuard
from joingate_schemas.ids import operation_id
from joingate_schemas.topics import Topics

HERE = Path(__file__).parent
_SPEC = spec_from_file_location("gate_process", HERE / "gate_process.py")
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018 - one fact, told to the type checker
gate_process = module_from_spec(_SPEC)
_SPEC.loader.exec_module(gate_process)

DEADLINE_S = 60.0


@dataclass
class Read:
    """A record as a reader of committed records saw it."""

    record: AnyRecord
    raw: bytes
    key: bytes | None
    partition: int
    offset: int


class Gate:
    """A gate in a thread of this process, with its latest status."""

    def __init__(self, settings: GateSettings, law: Law | None = None) -> None:
        self.stop = threading.Event()
        self.status: GateStatus | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(settings, law), daemon=True)

    def _run(self, settings: GateSettings, law: Law | None) -> None:
        try:
            run_gate(settings, self.stop, self._on_status, law)
        except BaseException as error:
            self.error = error

    def _on_status(self, status: GateStatus) -> None:
        self.status = status

    def states(self) -> list[str]:
        return [one["state"] for one in self.status["partitions"].values()] if self.status else []

    def sentences(self) -> str:
        return " ".join(one["sentence"] for one in self.status["partitions"].values()) if self.status else ""


class Desk:
    """One deployment of the gate on the shared broker, under a prefix that no other test has."""

    def __init__(self, bootstrap: str, prefix: str, partitions: int, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.partitions = partitions
        self.directory = directory
        self.topics = Topics(prefix)
        self.topics.create(bootstrap, partitions, ["teller"])
        self.codec = Codec()
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.max.bytes": 2_000_000,
            }
        )
        self.gates: list[Gate] = []
        self.processes: list[subprocess.Popen[str]] = []

    # --- gates

    def settings(self, **changes: Any) -> GateSettings:
        return GateSettings(
            **{
                "bootstrap_servers": self.bootstrap, "data_dir": self.directory / "gate", "prefix": self.prefix,
                "catalogue": gate_process.catalogue(), "partitions": self.partitions, **changes,
            }
        )  # fmt: skip

    @contextmanager
    def gate(self, law: Law | None = None, **changes: Any) -> Iterator[Gate]:
        """A gate that runs until the block ends, and then stops in order."""
        gate = Gate(self.settings(**changes), law)
        self.gates.append(gate)
        gate.thread.start()
        try:
            yield gate
        finally:
            self.end(gate)

    def end(self, gate: Gate) -> None:
        gate.stop.set()
        gate.thread.join(DEADLINE_S)
        assert not gate.thread.is_alive(), "the gate did not stop"
        if gate.error is not None:
            raise gate.error

    def process(self, directory: str = "gate", **asked: Any) -> "subprocess.Popen[str]":
        """A gate in a process. It keeps its membership over restarts, so that those need not wait for a session."""
        settings = {
            "bootstrap_servers": self.bootstrap, "data_dir": str(self.directory / directory), "prefix": self.prefix,
            "partitions": self.partitions, "client": {"group.instance.id": directory}, **asked,
        }  # fmt: skip
        process = subprocess.Popen([sys.executable, str(HERE / "gate_process.py"), json.dumps(settings)], text=True)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for gate in self.gates:
            gate.stop.set()

    # --- writing

    def send(self, claim: AnyClaim, topic: str = "", **where: Any) -> None:
        """Write a claim as its producer would."""
        self.send_raw(self.codec.encode(claim), claim.intent_id.encode(), topic, **where)

    def send_raw(self, value: bytes | None, key: bytes | None, topic: str = "", **where: Any) -> None:
        self.producer.produce(topic or self.topics.proposals, value, key, **where)

    def flush(self) -> None:
        assert self.producer.flush(DEADLINE_S) == 0

    def refund(self, intent_id: str, upto: int = 6) -> None:
        """The claims of one whole refund, in order; waits before what follows on another topic."""
        for claim in refund(intent_id)[:upto]:
            self.send(claim, self.topics.outcomes if isinstance(claim, Commit) else "")

    # --- reading

    def read(self, topic: str, isolation: str = "read_committed") -> list[Read]:
        """Every record of the topic up to its present end, decoded."""
        places = [TopicPartition(topic, number, 0) for number in range(self.partitions)]
        ends = self.ends(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": isolation,
                "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50,
            }
        )  # fmt: skip
        reached = dict.fromkeys(range(self.partitions), 0)
        found = []
        consumer.assign(places)
        deadline = time.monotonic() + DEADLINE_S
        while any(reached[number] < end for number, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} can't be read to its end: {reached} of {ends}"
            for message in consumer.consume(1_000, 0.1):
                if message.error() is not None:
                    reached[message.partition()] = message.offset()
                    continue
                reached[message.partition()] = message.offset() + 1
                found.append(
                    Read(
                        self.codec.decode(message.value()), message.value(), message.key(), message.partition(),
                        message.offset(),
                    )
                )  # fmt: skip
        consumer.close()
        return found

    def ends(self, topic: str) -> dict[int, int]:
        """Where each partition of the topic ends; a topic that is just being made is waited for."""
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(self.partitions)}

        def answered() -> dict[int, int] | None:
            answers = self.admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
            try:
                return {place.partition: answer.result(DEADLINE_S).offset for place, answer in answers.items()}
            except KafkaException:
                self.admin = AdminClient({"bootstrap.servers": self.bootstrap})  # it would not look for new leaders
                return None

        return wait_for(answered, f"the ends of {topic}")

    def ledger(self) -> list[Decision]:
        """The whole ledger; that it holds together is checked on the way."""
        guards = [LedgerGuard(name=f"ledger[{number}]") for number in range(self.partitions)]
        decisions = []
        for one in self.read(self.topics.ledger):
            assert isinstance(one.record, Decision)
            assert guards[one.partition].check(one.record, one.raw) == "NEW"
            decisions.append(one.record)
        return decisions

    def verify(self) -> None:
        """Hold the ledger of each partition to every invariant; the checker shares no code with the gate's law."""
        checkers = [Checker(self.codec) for _ in range(self.partitions)]
        for one in self.read(self.topics.ledger):
            assert isinstance(one.record, Decision)
            checkers[one.partition].read(one.record, one.raw)
        assert not [str(broken) for checker in checkers for broken in checker.violations]

    def decided(self, claim_id: str) -> list[Decision]:
        return [one for one in self.ledger() if one.claim_id == claim_id]

    def await_claims(self, count: int) -> list[Decision]:
        """The ledger, once it holds `count` decisions on claims of others than the gate."""
        return self.await_ledger(lambda found: sum(1 for one in found if one.topic != "gate") >= count)

    def await_ledger(self, enough: Callable[[list[Decision]], bool]) -> list[Decision]:
        return wait_for(lambda: found if enough(found := self.ledger()) else None, "the ledger")


def refund(intent_id: str) -> list[AnyClaim]:
    """The claims of one whole refund, in order."""
    operation = operation_id(intent_id, "refund", "order", 1)
    step = {
        "step_id": "s", "action": "refund", "business_key": "order", "arguments": {"amount": 12}, "goal_id": None,
        "edges": [], "parallel": False, "commitments": [],
    }  # fmt: skip
    return [
        DeclareIntent(claim_id=f"{intent_id}-1", intent_id=intent_id, version=1, goals=[]),
        Plan(
            claim_id=f"{intent_id}-2", intent_id=intent_id, intent_version=1, plan_id="p", steps=[step], commitments=[]
        ),
        Dispatch(claim_id=f"{intent_id}-3", intent_id=intent_id, intent_version=1, plan_id="p", step_id="s"),
        Commit(
            claim_id=f"{intent_id}-4", intent_id=intent_id, operation_id=operation, attempt=1, external_id="x",
            evidence=["e"], idempotency_key=operation,
        ),
        Succeed(
            claim_id=f"{intent_id}-5", intent_id=intent_id, intent_version=1, plan_id="p", step_id="s", evidence=[]
        ),
        Close(claim_id=f"{intent_id}-6", intent_id=intent_id),
    ]  # fmt: skip


def wait_for(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """What `condition` gives, once it is something."""
    deadline = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {deadline_s:.0f} s in vain for {what}"
        time.sleep(0.05)


@pytest.fixture
def desk(bootstrap: str, topic_prefix: str, tmp_path: Path) -> Iterator[Desk]:
    """A deployment with two partitions."""
    made = Desk(bootstrap, topic_prefix, 2, tmp_path)
    yield made
    made.close()
    made.verify()


@pytest.fixture
def make_desk(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Makes deployments, on the shared broker or another."""
    made: list[Desk] = []

    def make(partitions: int = 1, servers: str = bootstrap) -> Desk:
        name = f"t-{uuid.uuid4().hex[:12]}."
        made.append(Desk(servers, name, partitions, tmp_path / name))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def tools() -> Any:
    """The functions of this file, for the tests beside it."""

    class Tools:
        refund = staticmethod(refund)
        wait_for = staticmethod(wait_for)
        catalogue = staticmethod(gate_process.catalogue)
        steps = tuple(gate_process.STEPS)
        cancel = staticmethod(lambda intent_id, claim_id: CancelIntent(claim_id=claim_id, intent_id=intent_id))

    return Tools
