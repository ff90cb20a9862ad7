"""A gate that is no gate: it answers every claim by a rule of the test, in memory or on a real Kafka."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from confluent_kafka import Consumer, Producer

from joingate.local_kafka import LocalKafka, find_java
from joingate_producers import Connection, MemoryBroker
from joingate_schemas.claims import AnyClaim, Prepared
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import AnyFact, PermitIssued
from joingate_schemas.ids import operation_id
from joingate_schemas.topics import Topics, partition_for

PARTITIONS = 2
DEADLINE_S = 30.0


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until the condition holds; fail, saying what was waited for, at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what}"
        time.sleep(0.01)


class Ruling(NamedTuple):
    """What the fake gate says of a claim."""

    verdict: str = "ACCEPTED"
    reason: str = "OK"
    status: str = ""
    subject_id: str = ""
    detail: str = ""
    facts: tuple[AnyFact, ...] = ()


Rule = Callable[[AnyClaim], Ruling | None]


class Port(Protocol):
    """How the fake gate reads and writes."""

    def read(self, timeout_s: float) -> list[tuple[str, int, int, bytes]]:
        """Claims as (topic, partition, offset, value)."""
        ...

    def write(self, topic: str, key: bytes, value: bytes, partition: int) -> None: ...

    def close(self) -> None: ...


class FakeGate:
    """Answers claims in a thread. `rule` may be replaced at any time; None of it leaves a claim unanswered for good.

    `heard` is every claim that arrived, in order, repetitions included.
    """

    def __init__(self, port: Port, topics: Topics) -> None:
        self.rule: Rule = lambda claim: Ruling()
        self.heard: list[tuple[str, AnyClaim]] = []
        self.epoch = 1
        self.topics = topics
        self.codec = Codec()
        self._held = threading.Event()
        self._turn = threading.Lock()
        self._port = port
        self._decided: dict[tuple[int, str, str], tuple[int, Ruling]] = {}
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._commanded: dict[str, Command] = {}
        self._stopping = threading.Event()
        self._commanding = threading.Lock()
        self._command_seq = itertools.count(1_000)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def types(self) -> list[str]:
        """The types of the claims that arrived."""
        return [type(claim).__name__ for _, claim in self.heard]

    def claims(self, kind: type) -> list[Any]:
        """The claims of one type that arrived."""
        return [claim for _, claim in list(self.heard) if isinstance(claim, kind)]

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._turn:
                held = self._held.is_set()
                if not held:
                    self._turn_of_work()
            if held:
                self._stopping.wait(0.01)

    def _turn_of_work(self) -> None:
        for topic, partition, offset, value in self._port.read(0.05):
            claim = self.codec.decode(value)
            self.heard.append((self.topics.short(topic), claim))  # type: ignore[arg-type]
            self._answer(topic, partition, offset, value, claim)

    def hold(self) -> None:
        """Read no more claims, from now on."""
        self._held.set()
        with self._turn:  # the turn that was under way is over
            pass

    def go_on(self) -> None:
        """Read claims again."""
        self._held.clear()

    def _answer(self, topic: str, partition: int, offset: int, value: bytes, claim: Any) -> None:
        known = self._decided.get((partition, claim.intent_id, claim.claim_id))
        if known is None:
            ruling = self.rule(claim)
            if ruling is None:
                return
        else:
            ruling = known[1]._replace(verdict="REPLAYED", reason="CLAIM_REPEATED")
        seq = self.ledger(partition, claim, ruling, repeats=known, offset=offset)
        self._decided.setdefault((partition, claim.intent_id, claim.claim_id), (seq, ruling))

    def ledger(
        self, partition: int, claim: Any, ruling: Ruling, *, repeats: tuple[int, Ruling] | None = None,
        offset: int = 0, skip: int = 0,
    ) -> int:  # fmt: skip
        """Write one decision, leaving out `skip` numbers before it, and return its seq."""
        first_seq, first = repeats or (0, Ruling(verdict="", reason=""))
        last, digest = self._heads.get(partition, (0, b""))
        seq = last + 1 + skip
        decision = Decision(
            seq=seq, epoch=self.epoch, decided_at=1_000 + seq, topic="proposals", offset=offset, appended_at=1_000,
            claim_type=type(claim).__name__, claim_id=claim.claim_id, intent_id=claim.intent_id,
            principal=claim.principal, claim=b"", verdict=ruling.verdict, reason=ruling.reason, detail=ruling.detail,  # type: ignore[arg-type]
            subject_id=ruling.subject_id, status=ruling.status, refers_to=first_seq,
            recorded_verdict=first.verdict, recorded_reason=first.reason, facts=list(ruling.facts), previous=digest,
        )  # fmt: skip
        raw = self.codec.encode(decision)
        self._heads[partition] = (seq, hashlib.sha256(raw).digest())
        self._port.write(self.topics.ledger, claim.intent_id.encode(), raw, partition)
        return seq

    def command(self, executor: str, **fields: Any) -> Command:
        """Write a command to the executor's topic; fields not given are filled in."""
        intent_id = fields.setdefault("intent_id", "acme/fee/1")
        action = fields.setdefault("action", "notify")
        business_key = fields.setdefault("business_key", "k1")
        with self._commanding:  # numbered in the order in which they are written, as a gate's are
            filled = {
                "operation_id": operation_id(intent_id, action, business_key, 1), "attempt": 1, "generation": 1,
                "intent_version": 1, "plan_id": "p1", "step_id": "s1", "arguments": {}, "downstream": "messenger",
                "executor": executor, "worker": "", "commitment_id": None, "issued_at": int(time.time() * 1000),
                "permit_ms": 30_000, "partition": partition_for(intent_id.encode(), PARTITIONS),
                "ledger_seq": next(self._command_seq), "epoch": self.epoch, **fields,
            }  # fmt: skip
            if filled["kind"] in ("PERMIT", "EXECUTE"):
                filled.setdefault("act_until", filled["issued_at"] + filled["permit_ms"])
            command = Command(**{"act_until": 0, **filled})
            self._commanded[command.operation_id] = command
            self.raw_command(executor, self.codec.encode(command), intent_id)
        return command

    def raw_command(self, executor: str, value: bytes, intent_id: str = "acme/fee/1") -> None:
        """Write these bytes where a command belongs."""
        key = intent_id.encode()
        self._port.write(self.topics.commands(executor), key, value, partition_for(key, PARTITIONS))

    def permits(self, permit_ms: int = 30_000, *, by_command: bool = True) -> Rule:
        """A rule that gives the permit to the first Prepared of an attempt, and answers all else with ACCEPTED.

        `by_command` false stands for a command that went to another process: the permit is in the verdict only.
        """
        given: set[tuple[str, int]] = set()

        def rule(claim: Any) -> Ruling:
            if not isinstance(claim, Prepared):
                return Ruling(subject_id=getattr(claim, "operation_id", ""))
            if (claim.operation_id, claim.attempt) in given:
                return Ruling("REJECTED", "ALREADY_CLAIMED", subject_id=claim.operation_id)
            given.add((claim.operation_id, claim.attempt))
            if by_command:
                asked = self._commanded[claim.operation_id]
                self.command(
                    claim.executor, kind="PERMIT", intent_id=claim.intent_id, operation_id=claim.operation_id,
                    attempt=claim.attempt, worker=claim.worker, permit_ms=permit_ms, action=asked.action,
                    business_key=asked.business_key, arguments=asked.arguments,
                )  # fmt: skip
            permit = PermitIssued(
                operation_id=claim.operation_id, intent_id=claim.intent_id, attempt=claim.attempt,
                executor=claim.executor, worker=claim.worker, valid_until=0, timer="PERMIT", deadline_at=0,
            )  # fmt: skip
            return Ruling(subject_id=claim.operation_id, facts=(permit,))

        return rule

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._port.close()


class MemoryPort:
    """The gate's side of a broker in memory."""

    def __init__(self, broker: MemoryBroker, topics: Topics) -> None:
        self._broker = broker
        self._positions: dict[str, dict[int, int]] = {topic: {} for topic in topics.intake}

    def read(self, timeout_s: float) -> list[tuple[str, int, int, bytes]]:
        found = [
            (topic, row.partition, row.offset, row.value or b"")
            for topic, positions in self._positions.items()
            for row in self._broker.read(topic, positions, 0)
        ]
        if not found:
            time.sleep(0.005)
        return found

    def write(self, topic: str, key: bytes, value: bytes, partition: int) -> None:
        self._broker.append(topic, key, value, partition)

    def close(self) -> None:
        pass


class KafkaPort:
    """The gate's side of a real broker: reads intake by hand, writes in transactions."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": f"{topics.prefix}fake-gate",
                "auto.offset.reset": "earliest", "isolation.level": "read_committed", "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )  # fmt: skip
        self._consumer.subscribe(list(topics.intake))
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap, "transactional.id": f"{topics.prefix}fake-gate",
                "partitioner": "murmur2_random", "log_level": 0,
            }
        )  # fmt: skip
        self._producer.init_transactions(30)
        self._lock = threading.Lock()

    def read(self, timeout_s: float) -> list[tuple[str, int, int, bytes]]:
        message = self._consumer.poll(timeout_s)
        if message is None or message.error():
            return []
        return [(message.topic() or "", message.partition() or 0, message.offset() or 0, message.value() or b"")]

    def write(self, topic: str, key: bytes, value: bytes, partition: int) -> None:
        with self._lock:
            self._producer.begin_transaction()
            self._producer.produce(topic, value, key, partition)
            self._producer.commit_transaction(30)

    def write_and_abort(self, topic: str, key: bytes, value: bytes, partition: int) -> None:
        """A record that is in the log and must be seen by nobody."""
        with self._lock:
            self._producer.begin_transaction()
            self._producer.produce(topic, value, key, partition)
            self._producer.flush(30)
            self._producer.abort_transaction(30)

    def close(self) -> None:
        self._consumer.close()


class World(NamedTuple):
    """A gate, and connections to it. `connect` takes the settings of a `Connection`; what it made is closed at last."""

    gate: FakeGate
    port: Any
    connect: Callable[..., Connection]
    memory: MemoryBroker | None
    outbox: Path
    # Here, since test modules are imported one by one and can't import each other.
    ruling: type[Ruling] = Ruling
    until: Callable[[Callable[[], Any], str], None] = until


def _world(port: Port, topics: Topics, memory: MemoryBroker | None, folder: Path, **settings: Any) -> Iterator[World]:
    gate = FakeGate(port, topics)
    made: list[Connection] = []

    def connect(**given: Any) -> Connection:
        outbox = given.pop("outbox", None)
        common = {"prefix": topics.prefix, "principal": "tester", "state_dir": folder, "wire": memory, **settings}
        connection = Connection(outbox=outbox, **{**common, **given})
        made.append(connection)
        return connection

    try:
        yield World(gate, port, connect, memory, folder / "test.outbox")
    finally:
        if memory is not None:
            memory.away = False
        for connection in made:
            connection.close()
        gate.close()


@pytest.fixture
def memory_world(tmp_path: Path) -> Iterator[World]:
    """A world in one process."""
    broker, topics = MemoryBroker(PARTITIONS), Topics("t.")
    yield from _world(MemoryPort(broker, topics), topics, broker, tmp_path)


@pytest.fixture
def broker_world(bootstrap: str, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    """A world on a real Kafka, with topics of its own."""
    topics = Topics(topic_prefix)
    topics.create(bootstrap, PARTITIONS, ["messenger"])
    yield from _world(KafkaPort(bootstrap, topics), topics, None, tmp_path, bootstrap_servers=bootstrap)


@pytest.fixture(scope="module")
def _own_kafka() -> Iterator[LocalKafka]:
    if find_java() is None:
        pytest.skip("needs Java, to start a broker that may be killed")
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture
def own_kafka(_own_kafka: LocalKafka) -> Iterator[LocalKafka]:
    """A Kafka that the test may pause and kill: no other test uses it meanwhile, and it runs at the test's start."""
    if _own_kafka.pid is None:
        _own_kafka.restart()
    yield _own_kafka
    _own_kafka.resume()


@pytest.fixture
def own_world(own_kafka: LocalKafka, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    """A world on a Kafka of its own."""
    topics = Topics(topic_prefix)
    topics.create(own_kafka.bootstrap_servers, PARTITIONS, ["messenger"])
    port = KafkaPort(own_kafka.bootstrap_servers, topics)
    settings = {"bootstrap_servers": own_kafka.bootstrap_servers, "client": {"log_level": "0"}}
    yield from _world(port, topics, None, tmp_path, **settings)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> World:
    """Both worlds, one after the other: what holds in one must hold in the other."""
    found: World = request.getfixturevalue("memory_world" if request.param == "memory" else "broker_world")
    return found
