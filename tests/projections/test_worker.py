"""The projector on a real Kafka: what is committed is folded once, what does not continue the ledger stops its lane."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from joingate.local_kafka import LocalKafka
from joingate_projections.lanes import Status
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore, fingerprint
from joingate_projections.worker import ProjectionError, ProjectionSettings, run_projections
from joingate_schemas.decisions import Quarantined
from joingate_schemas.topics import Topics

pytestmark = pytest.mark.broker

PARTITIONS = 2
TIMEOUT_S = 30.0


class FakeGate:
    """Writes ledgers as the gate does: in transactions, one partition each."""

    def __init__(self, bootstrap: str, topics: Topics, compression: str = "none") -> None:
        self.topics = topics
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": topics.prefix + "gate",
                "compression.type": compression,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def transact(self, *records: tuple[str, int, bytes], end: str = "commit") -> None:
        """One transaction of (topic, partition, value); `end` is commit, abort, or open: left as it is."""
        self._producer.begin_transaction()
        for topic, partition, value in records:
            self._producer.produce(topic, value, b"key", partition)
        assert self._producer.flush(TIMEOUT_S) == 0
        if end == "commit":
            self._producer.commit_transaction(TIMEOUT_S)
        elif end == "abort":
            self._producer.abort_transaction(TIMEOUT_S)

    def write(self, hand: Any, start: int = 0) -> None:
        """A hand's decisions from the `start`-th on, two in each transaction."""
        for low in range(start, len(hand.values), 2):
            values = hand.values[low : low + 2]
            self.transact(*((self.topics.ledger, hand.partition, value) for value in values))

    def close(self) -> None:
        """Abort what is open, so that nothing lingers on the broker."""
        del self._producer


def _create(bootstrap: str, topics: Topics) -> list[str]:
    """The topics that a projector reads, as the gate would create them; the others would only burden the broker."""
    wanted = [
        NewTopic(spec.name, spec.partitions, config=dict(spec.settings))
        for spec in topics.specs(PARTITIONS)
        if spec.name in (topics.ledger, topics.quarantine, topics.schemas)
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(wanted).values():
        future.result(TIMEOUT_S)
    _until(lambda: {topic.topic for topic in wanted} <= admin.list_topics(timeout=TIMEOUT_S).topics.keys())
    return [topic.topic for topic in wanted]


@pytest.fixture
def topics(bootstrap: str, topic_prefix: str) -> Iterator[Topics]:
    """Fresh topics, gone after the test."""
    topics = Topics(topic_prefix)
    created = _create(bootstrap, topics)
    yield topics
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(created).values():
        future.result(TIMEOUT_S)


@pytest.fixture
def gate(bootstrap: str, topics: Topics) -> Iterator[FakeGate]:
    """A gate that decides nothing."""
    gate = FakeGate(bootstrap, topics)
    yield gate
    gate.close()


@pytest.fixture
def settings(bootstrap: str, topics: Topics, directory: Path) -> ProjectionSettings:
    """A projector over the test's topics."""
    return ProjectionSettings(bootstrap_servers=bootstrap, directory=directory, topic_prefix=topics.prefix)


def follow(settings: ProjectionSettings, *, settled: bool = True, **changes: Any) -> dict[tuple[str, int], Status]:
    """Fold everything readable; the last status of each lane.

    A commit is readable a moment after it was answered; `settled` goes on until nothing waits for one.
    """
    heard: dict[tuple[str, int], Status] = {}

    def hear(status: Status) -> None:
        heard[status.stream, status.partition] = status

    def run(**more: Any) -> bool:
        run_projections(ProjectionSettings(**{**vars(settings), **changes, **more}), stop, hear, until_end=True)
        return not settled or all(status.state != "WAITING" for status in heard.values())

    stop = threading.Event()
    watchdog = threading.Timer(TIMEOUT_S, stop.set)
    watchdog.start()
    try:
        if not run():
            _until(lambda: run(rebuild=False))
    finally:
        watchdog.cancel()
    assert not stop.is_set(), f"the end was not reached within {TIMEOUT_S} s: {heard}"
    return heard


def marks(settings: ProjectionSettings) -> str:
    """The fingerprint of the settings' store."""
    with ProjectionStore.open(settings.directory) as store:
        return fingerprint(store)


@pytest.fixture
def expected(tmp_path: Path) -> Callable[..., str]:
    """The fingerprint of what hands wrote, folded with no Kafka in between."""
    count = iter(range(1_000))

    def folded(*hands: Any) -> str:
        with ProjectionStore.open(tmp_path / f"expected-{next(count)}") as store:
            for hand in hands:
                hand.store_in(store, size=100)
            return fingerprint(store)

    return folded


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_aborted_decision_is_never_shown(
    bootstrap: str, settings: ProjectionSettings, topics: Topics, hands: Any, expected: Any, compression: str
) -> None:
    """Aborted, empty and committed transactions in one fetch, for each compression (C16)."""
    gate = FakeGate(bootstrap, topics, compression)
    hand, ghost = hands(), hands()
    hand.decide(hand.declared(), claim_id="real-1")
    ghost.decide(ghost.declared(), claim_id="ghost")
    quarantined = hand.codec.encode(_quarantined("ghost-quarantine"))
    gate.transact((topics.ledger, 0, ghost.values[0]), (topics.quarantine, 0, quarantined), end="abort")
    gate.transact((topics.ledger, 0, hand.values[0]))
    gate.transact(end="abort")
    hand.decide(hand.planned(), claim_id="real-2")
    gate.transact((topics.ledger, 0, ghost.values[0]), end="abort")
    gate.transact((topics.ledger, 0, hand.values[1]))
    heard = follow(settings)
    assert {status.state for status in heard.values()} == {"FOLLOWING"}
    assert marks(settings) == expected(hand)
    with ProjectionStore.open(settings.directory) as store, store.view() as view:
        assert list(view.find("decisions", "mentions", "ghost")) == []
        assert list(view.rows("quarantine_records")) == []


def test_a_restart_goes_on_and_a_rebuild_ends_the_same(
    bootstrap: str, settings: ProjectionSettings, topics: Topics, gate: FakeGate, hands: Any, expected: Any
) -> None:
    """Stopped and started, batch by batch or at once, rebuilt: equal rows each time, and no record written (C38)."""
    hand, other = hands(), hands(partition=1, intent_id="acme/other")
    hand.story()
    gate.write(hand)
    follow(settings, batch_max=3)
    other.short_story()
    gate.write(other)
    hand.decide(hand.cleared())
    gate.write(hand, start=len(hand.values) - 1)
    heard = follow(settings)
    before = _ends(bootstrap, topics)
    seqs = {partition: heard["ledger", partition].seq for partition in (0, 1)}
    assert seqs == {0: len(hand.values), 1: len(other.values)}
    whole = expected(hand, other)
    assert marks(settings) == whole
    follow(settings, rebuild=True, batch_max=7)
    assert marks(settings) == whole
    assert _ends(bootstrap, topics) == before


def test_the_same_record_twice_is_folded_once(
    settings: ProjectionSettings, topics: Topics, gate: FakeGate, hand: Any, expected: Any
) -> None:
    """A record written again after a doubtful delivery has the same seq and hash, and is dropped (C19)."""
    hand.decide(hand.declared())
    hand.decide(hand.planned())
    gate.write(hand)
    gate.transact(*((topics.ledger, 0, value) for value in hand.values))
    follow(settings)
    hand.decide(hand.opened())
    gate.write(hand, start=2)
    assert follow(settings)["ledger", 0].state == "FOLLOWING"
    assert marks(settings) == expected(hand)


def test_a_record_above_an_open_transaction_waits(
    settings: ProjectionSettings, topics: Topics, gate: FakeGate, hand: Any
) -> None:
    """What a transaction has not ended is unread, and the lane says that it is not at the topic's end."""
    hand.decide(hand.declared())
    hand.decide(hand.planned())
    gate.transact((topics.ledger, 0, hand.values[0]))
    gate.transact((topics.ledger, 0, hand.values[1]), end="open")
    heard = follow(settings, settled=False)
    assert (heard["ledger", 0].state, heard["ledger", 0].seq) == ("WAITING", 1)
    assert heard["ledger", 0].behind > 0


def _gap(hand: Any) -> list[bytes]:
    return [hand.values[0], hand.values[2]]


def _fork(hand: Any) -> list[bytes]:
    twin = hand.codec.decode(hand.values[1])
    twin.__dict__["detail"] = "another decision in the same place"
    return [hand.values[0], hand.values[1], hand.codec.encode(twin)]


def _other_past(hand: Any) -> list[bytes]:
    other = hand.codec.decode(hand.values[1])
    other.__dict__["previous"] = bytes(32)
    return [hand.values[0], hand.codec.encode(other)]


def _old_writer(hand: Any) -> list[bytes]:
    return [hand.values[0], _of_epoch(hand, 0)]


def _of_epoch(hand: Any, epoch: int) -> bytes:
    old = hand.codec.decode(hand.values[1])
    old.__dict__["epoch"] = epoch
    encoded: bytes = hand.codec.encode(old)
    return encoded


def _garbage(hand: Any) -> list[bytes]:
    return [hand.values[0], b"\xc3\x01nonsense"]


def _stranger(hand: Any) -> list[bytes]:
    return [hand.values[0], hand.codec.encode(_quarantined("q"))]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (_gap, "records are missing between"),
        (_fork, "two records with seq 2"),
        (_other_past, "continues another record"),
        (_old_writer, "a gate that had been replaced wrote it"),
        (_garbage, "cannot be read (UNKNOWN_SCHEMA"),
        (_stranger, "is a Quarantined, not a Decision"),
    ],
)
def test_a_ledger_that_does_not_go_on_stops_its_partition_only(
    settings: ProjectionSettings,
    topics: Topics,
    gate: FakeGate,
    hands: Any,
    fault: Callable[[Any], list[bytes]],
    sentence: str,
) -> None:
    """The lane stops with a sentence, what was folded stands, the other partition goes on, health says so."""
    hand, other = hands(), hands(partition=1, intent_id="acme/other")
    for facts in (hand.declared(), hand.planned(), hand.opened()):
        hand.decide(facts)
    gate.transact(*((topics.ledger, 0, value) for value in fault(hand)))
    gate.transact((topics.ledger, 0, hand.values[2]))
    other.short_story()
    gate.write(other)
    heard = follow(settings)
    assert heard["ledger", 0].state == "STOPPED"
    assert sentence in heard["ledger", 0].sentence
    assert (heard["ledger", 1].state, heard["ledger", 1].seq) == ("FOLLOWING", len(other.values))
    with ProjectionStore.open(settings.directory) as store:
        reader = StoreReader(store)
        assert reader.position()[0] in (1, 2)
        assert any(sentence in problem for problem in reader.health()["problems"])
    # Started again, it finds the same.
    assert follow(settings)["ledger", 0].state == "STOPPED"


def test_quarantined_records_are_kept_with_their_bytes(
    settings: ProjectionSettings, topics: Topics, gate: FakeGate, hand: Any
) -> None:
    """Bytes and coordinates from the quarantine, state from the ledger, one answer."""
    hand.story()
    gate.write(hand)
    gate.transact((topics.quarantine, 0, hand.codec.encode(_quarantined("q1"))))
    follow(settings)
    with ProjectionStore.open(settings.directory) as store:
        row = StoreReader(store).one("quarantine", "q1")["row"]
    assert (row["status"], row["record"]["value"], row["record"]["offset"]) == ("OPEN", "00ff", 17)


def test_a_replaced_gates_quarantine_is_refused(
    settings: ProjectionSettings, topics: Topics, gate: FakeGate, hand: Any
) -> None:
    """A lower epoch stops that lane."""
    records = [_quarantined("q1", epoch=2), _quarantined("q2", epoch=1)]
    gate.transact(*((topics.quarantine, 0, hand.codec.encode(record)) for record in records))
    heard = follow(settings)
    assert "a gate that had been replaced wrote it" in heard["quarantine", 0].sentence
    with ProjectionStore.open(settings.directory) as store, store.view() as view:
        assert [key for key, _ in view.rows("quarantine_records")] == ["q1"]


def test_a_topic_made_anew_is_told_from_the_one_that_was_folded(
    bootstrap: str, settings: ProjectionSettings, topics: Topics, gate: FakeGate, hands: Any, expected: Any
) -> None:
    """Shorter, or with another record in the place: the lane stops and says how to rebuild; a rebuild goes on."""
    first, second = hands(), hands(intent_id="acme/second-life")
    first.story()
    gate.write(first)
    follow(settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([topics.ledger, topics.quarantine, topics.schemas]).values():
        future.result(TIMEOUT_S)
    _until(lambda: topics.ledger not in admin.list_topics(timeout=TIMEOUT_S).topics)
    _create(bootstrap, topics)
    second.decide(second.declared())
    gate.write(second)
    assert "was made anew or cut off" in follow(settings)["ledger", 0].sentence
    for _ in range(3):
        written = len(second.values)
        second.story()
        gate.write(second, start=written)
    assert "is not the one that was folded" in follow(settings)["ledger", 0].sentence
    assert follow(settings, rebuild=True)["ledger", 0].state == "FOLLOWING"
    assert marks(settings) == expected(second)


def test_a_trimmed_ledger_is_not_skipped_over(
    bootstrap: str, settings: ProjectionSettings, topics: Topics, gate: FakeGate, hand: Any
) -> None:
    """Records deleted before they were folded stop the lane; deleted after they were folded, they are not missed."""
    hand.story()
    gate.write(hand)
    heard = follow(settings)
    written = len(hand.values)
    assert heard["ledger", 0].seq == written
    _delete_below(bootstrap, topics.ledger)
    hand.decide(hand.cleared())
    gate.write(hand, start=written)
    assert follow(settings)["ledger", 0].state == "FOLLOWING"
    hand.decide()
    gate.transact((topics.ledger, 0, hand.values[-1]))
    _delete_below(bootstrap, topics.ledger)
    hand.decide()
    gate.transact((topics.ledger, 0, hand.values[-1]))
    assert "records were deleted before they were folded" in follow(settings)["ledger", 0].sentence
    assert "older records were deleted" in follow(settings, rebuild=True)["ledger", 0].sentence


def test_a_projector_may_follow_some_partitions(
    settings: ProjectionSettings, topics: Topics, gate: FakeGate, hands: Any
) -> None:
    """Two projectors share the work; a partition that is not there is an error in a sentence."""
    hand, other = hands(), hands(partition=1, intent_id="acme/other")
    hand.story()
    other.short_story()
    gate.write(hand)
    gate.write(other)
    assert set(follow(settings, partitions=(1,))) == {("ledger", 1), ("quarantine", 1)}
    with ProjectionStore.open(settings.directory) as store:
        assert StoreReader(store).position() == {1: len(other.values)}
    with pytest.raises(ProjectionError, match="has 2 partitions, and so no partition 5"):
        follow(settings, partitions=(5,))


def test_missing_topics_are_named(bootstrap: str, directory: Path, topic_prefix: str) -> None:
    """Nothing is created behind anyone's back."""
    settings = ProjectionSettings(bootstrap_servers=bootstrap, directory=directory, topic_prefix=topic_prefix)
    with pytest.raises(ProjectionError, match=f"The topic {topic_prefix}ledger does not exist"):
        run_projections(settings, threading.Event())


def test_a_broker_that_is_away_is_waited_for(directory: Path) -> None:
    """The store says so meanwhile; asked to stop, it stops."""
    stop = threading.Event()
    with ProjectionStore.open(directory) as store:
        settings = ProjectionSettings(bootstrap_servers="127.0.0.1:9", directory=directory)
        runner = threading.Thread(target=run_projections, args=(settings, stop), kwargs={"store": store})
        runner.start()
        _until(lambda: any("cannot be asked" in one for one in StoreReader(store).health()["problems"]))
        stop.set()
        runner.join(TIMEOUT_S)
        assert not runner.is_alive()


PROJECTOR = """
import sys, threading
from pathlib import Path
from joingate_projections.worker import ProjectionSettings, run_projections

settings = ProjectionSettings(
    bootstrap_servers=sys.argv[1], topic_prefix=sys.argv[2], directory=Path(sys.argv[3]), batch_max=2, poll_s=0.01
)
run_projections(settings, threading.Event(), lambda status: print(status.name, status.state, flush=True))
"""


def test_a_projector_killed_on_the_way_ends_as_if_it_had_not_been(
    bootstrap: str, settings: ProjectionSettings, topics: Topics, gate: FakeGate, hands: Any, expected: Any
) -> None:
    """kill -9 while it folds from Kafka, then again, then on to the end: the same rows (C20)."""
    hand = hands()
    for n in range(4):
        one = hands(intent_id=f"acme/refund/{n}")
        one.codec, one.decisions, one.values = hand.codec, hand.decisions, hand.values
        one.story()
    gate.write(hand)
    for seq in (5, 30):
        with subprocess.Popen(
            [sys.executable, "-c", PROJECTOR, bootstrap, topics.prefix, str(settings.directory)],
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            try:
                with ProjectionStore.open_reader(settings.directory) as store:
                    _until(lambda store=store, seq=seq: StoreReader(store).position().get(0, 0) >= seq)  # type: ignore[misc]
            finally:
                child.kill()
    follow(settings)
    assert marks(settings) == expected(hand)


@pytest.mark.slow
def test_a_broker_that_comes_back_is_followed_again(directory: Path, topic_prefix: str, hand: Any) -> None:
    """Killed while it is followed, and back later: health says so meanwhile, and nothing was lost or folded twice."""
    topics, stop = Topics(topic_prefix), threading.Event()
    with LocalKafka() as kafka, ProjectionStore.open(directory) as store:
        _create(kafka.bootstrap_servers, topics)
        settings = ProjectionSettings(
            bootstrap_servers=kafka.bootstrap_servers, directory=directory, topic_prefix=topic_prefix
        )
        reader = StoreReader(store)
        runner = threading.Thread(target=run_projections, args=(settings, stop), kwargs={"store": store})
        runner.start()
        try:
            hand.story()
            FakeGate(kafka.bootstrap_servers, topics).write(hand)
            _until(lambda: reader.position().get(0) == len(hand.values))
            kafka.kill()
            _until(lambda: any("does not answer" in problem for problem in reader.health()["problems"]))
            kafka.restart()
            written = len(hand.values)
            hand.decide(hand.cleared())
            FakeGate(kafka.bootstrap_servers, topics).write(hand, start=written)
            _until(lambda: reader.position().get(0) == len(hand.values))
            _until(lambda: reader.health()["healthy"])
        finally:
            stop.set()
            runner.join(TIMEOUT_S)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _quarantined(quarantine_id: str, epoch: int = 1) -> Quarantined:
    return Quarantined(
        quarantine_id=quarantine_id,
        topic="proposals",
        partition=0,
        offset=17,
        appended_at=1_000,
        key=b"acme/release/4.2",
        value=b"\x00\xff",
        problem="UNREADABLE",
        detail="no magic byte",
        ledger_seq=12,
        epoch=epoch,
    )


def _ends(bootstrap: str, topics: Topics) -> dict[str, list[tuple[int, int]]]:
    """The bounds of every partition of the topics."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topics.prefix + "ends"})
    try:
        return {
            spec.name: [
                consumer.get_watermark_offsets(TopicPartition(spec.name, partition), timeout=TIMEOUT_S)
                for partition in range(spec.partitions)
            ]
            for spec in topics.specs(PARTITIONS)
            if spec.name in (topics.ledger, topics.quarantine, topics.schemas)
        }
    finally:
        consumer.close()


def _delete_below(bootstrap: str, topic: str) -> None:
    """Delete everything that partition 0 holds now."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values():
        future.result(TIMEOUT_S)


def _until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"this did not come true within {TIMEOUT_S} s")
