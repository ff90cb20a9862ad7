"""What was aborted is seen by nobody: each consumer of a live deployment, beside an aborted record that is in its log.

Field case C16. The gate, the arbiter, the projections, the SDK and the reconciler have theirs beside their other tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from joingate.audit import verify_ledger, write_ledger, write_trace
from joingate.ledger import LedgerReader
from joingate.live import submit_trace
from joingate.settings import load_settings
from joingate_processors.forensics.simulator import Simulator
from joingate_schemas import claims as c
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.record import changed
from joingate_schemas.topics import publish_schemas, read_schemas

from .conftest import wait_until

pytestmark = pytest.mark.broker

INTENT = "acme/aborted/1"
WAIT_S = 30.0
STRANGER = '{"type": "record", "name": "Stranger", "fields": []}'


class World:
    """A deployment of one partition without processes: the law in memory decides, and the test writes for the gate."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.settings = load_settings(bootstrap_servers=bootstrap, prefix=prefix, partitions=1)
        self.topics = self.settings.topics
        self.topics.create(bootstrap, 1, ["messenger"])
        self.codec = Codec()
        self.gate = Simulator(builtin_catalogue(), codec=self.codec)
        self._told = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}gate"})
        self._producer.init_transactions(WAIT_S)

    def write(self, topic: str, *records: tuple[str, bytes], commit: bool) -> None:
        """One transaction, all of which lies in the log, and ends well or not."""
        self._producer.begin_transaction()
        for key, value in records:
            self._producer.produce(topic, value, key.encode(), partition=0)
        assert self._producer.flush(WAIT_S) == 0
        if commit:
            self._producer.commit_transaction(WAIT_S)
        else:
            self._producer.abort_transaction(WAIT_S)

    def declare(self, version: int = 1) -> c.DeclareIntent:
        """A claim."""
        return c.DeclareIntent(claim_id=f"declared-{version}", intent_id=INTENT, version=version, goals=[])

    def tell(self) -> None:
        """Write what the gate has decided since: first as it never came to be, aborted, then as it did."""
        values = self.gate.ledger[self._told :]
        decided = zip(values, self.gate.decisions[self._told :], strict=True)
        for value, decision in decided:
            never = changed(decision, verdict="REJECTED", reason="STALE_INTENT", detail="never", facts=[])
            self.write(self.topics.ledger, (INTENT, self.codec.encode(never)), commit=False)
            self.write(self.topics.ledger, (INTENT, value), commit=True)
        self._told += len(values)

    def lies_there(self, topic: str, sought: bytes) -> bool:
        """The control: whether a reader of everything finds the bytes in a value of the topic."""
        consumer = Consumer(
            {"bootstrap.servers": self.settings.bootstrap_servers, "group.id": "all", "enable.auto.commit": False,
             "isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            return bool(
                wait_until(
                    lambda: any(sought in (one.value() or b"") for one in consumer.consume(100, 0.2)),
                    what=f"the aborted record in {topic}",
                )
            )
        finally:
            consumer.close()


@pytest.fixture
def world(bootstrap: str, topic_prefix: str) -> World:
    return World(bootstrap, topic_prefix)


def verify(world: World) -> None:
    """Every link holds, and there are as many records as were committed."""
    world.gate.submit(world.declare(), "PLANNER")
    world.tell()
    report = verify_ledger(world.settings)
    assert (report.records, report.holds) == ({0: 2}, True), report


def replay_of_decisions(world: World) -> None:
    """Those that came to be."""
    world.gate.submit(world.declare(), "PLANNER")
    world.tell()
    told = list(write_ledger(world.settings, 0, None))
    assert [(one["type"], one["verdict"]) for one in told] == [
        ("CatalogueChanged", "ACCEPTED"), ("DeclareIntent", "ACCEPTED"),
    ]  # fmt: skip


def replay_of_repeated_claims(world: World) -> None:
    """What a REPLAYED decision answered is read from its topic; what was aborted in its place there is gone."""
    claim, stray = world.declare(), changed(world.declare(), claim_id="never")
    raw = world.codec.encode(claim)
    # Offsets: the first is the claim's own, then its mark, two that are aborted and their mark, and the claim again.
    world.write(world.topics.proposals, (INTENT, raw), commit=True)
    world.write(world.topics.proposals, *[(INTENT, world.codec.encode(stray))] * 2, commit=False)
    world.write(world.topics.proposals, (INTENT, raw), commit=True)
    for _ in range(6):
        world.gate.submit(claim, "PLANNER")
    world.tell()
    lines = list(write_trace(world.settings, 0, None))
    assert [None if line is None else line["claim_id"] for line in lines] == [
        "declared-1", None, None, None, None, "declared-1",
    ]  # fmt: skip
    assert world.lies_there(world.topics.proposals, b"never")


def the_table_of_up(world: World) -> None:
    """It reads on from the end, and shows what is decided from then on."""
    world.tell()
    with LedgerReader(world.settings, from_end=True) as ledger:
        world.gate.submit(world.declare(), "PLANNER")
        world.tell()
        shown = wait_until(lambda: ledger.poll(0.2), what="a decision")
        shown += ledger.poll(0.5)
    assert [(one.decision.claim_type, one.decision.verdict) for one in shown] == [("DeclareIntent", "ACCEPTED")]


def submit(world: World, folder: Path) -> None:
    """An answer that was aborted is none, though it came first and names the claim."""
    world.tell()
    trace = folder / "one.jsonl"
    trace.write_text(
        f'{{"as": "planner", "type": "DeclareIntent", "intent_id": "{INTENT}", "version": 1, "goals": []}}\n'
    )
    with _answering(world):
        result = submit_trace(world.settings, trace, wait_s=WAIT_S)
    assert [(one["type"], one["verdict"]) for one in result.decisions] == [("DeclareIntent", "ACCEPTED")]


@contextmanager
def _answering(world: World) -> Iterator[None]:
    """Within it, the first claim on `proposals` is decided and told."""
    failed: list[BaseException] = []

    def answer() -> None:
        consumer = Consumer(
            {"bootstrap.servers": world.settings.bootstrap_servers, "group.id": "gate", "enable.auto.commit": False}
        )
        try:
            consumer.assign([TopicPartition(world.topics.proposals, 0, 0)])
            message = wait_until(lambda: consumer.poll(0.2), what="the claim")
            assert message.error() is None, message.error()
            world.gate.submit_raw(message.value(), "proposals", INTENT)
            world.tell()
        except BaseException as error:
            failed.append(error)
        finally:
            consumer.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    thread.join(WAIT_S)
    assert not failed, failed


CONSUMERS: dict[str, Callable[..., None]] = {
    "verify": verify,
    "replay, its decisions": replay_of_decisions,
    "replay, its repeated claims": replay_of_repeated_claims,
    "up, its table": the_table_of_up,
    "submit": submit,
}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_decision_that_was_aborted_is_seen_by_none_of_them(consumer: str, world: World, tmp_path: Path) -> None:
    """It lies in the log before the one that counts, for each record; whoever reads all of the log finds it."""
    see = CONSUMERS[consumer]
    more: tuple[Any, ...] = (tmp_path,) if see is submit else ()
    see(world, *more)
    assert world.lies_there(world.topics.ledger, b"never")


def test_a_schema_that_was_aborted_is_neither_learnt_nor_taken_for_published(world: World) -> None:
    """A stranger's is not learnt; and ours, aborted, are published all the same, as if they had never been written."""
    servers, ours = world.settings.bootstrap_servers, world.codec.own_schemas()
    world.write(world.topics.schemas, ("stranger", STRANGER.encode()), commit=False)
    world.write(
        world.topics.schemas, *[(mark.hex(), text.encode()) for mark, text in ours], commit=False
    )  # fmt: skip
    read = read_schemas(servers, world.topics, Codec())
    assert (read.learnt, read.refused) == (frozenset(), ())
    assert publish_schemas(servers, world.topics, world.codec) == len(ours)
    assert read_schemas(servers, world.topics, Codec()).learnt == {mark for mark, _ in ours}
    assert world.lies_there(world.topics.schemas, b"Stranger")
