"""The reconciler over a real Kafka: what it never sees, what it answers, and that it survives kill and outage."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from joingate.local_kafka import LocalKafka
from joingate_processors.reconciler import ReconcilerSettings, run, run_reconciler
from joingate_processors.reconciler.answers import Answered, Found
from joingate_processors.reconciler.app import Reconciler
from joingate_processors.reconciler.own_topics import answers_topic
from joingate_schemas.claims import Observe
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import InDoubtRequest
from joingate_schemas.record import changed
from joingate_schemas.topics import Topics, TopicSpec, create_topics, partition_for

pytestmark = pytest.mark.broker

PARTITIONS = 2
DEADLINE_S = 45.0
QUICK = {"backoff_ms_first": 50, "backoff_ms_max": 100, "settle_ms": 600_000, "clock_margin_ms": 0}
Make = Callable[..., InDoubtRequest]


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Wait until it holds; fail, saying what never came, at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {DEADLINE_S:.0f} s"
        time.sleep(0.02)


class Source:
    """A system of record that knows some keys, can be down, and remembers what it was asked about."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.down = False
        self.asked: list[str] = []
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, row = source.reply(unquote(self.path))
                body = json.dumps(row).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: `asked` is the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reply(self, path: str) -> tuple[int, dict[str, Any]]:
        key = path.removeprefix("/effects/by-key/")
        if key == path:
            return 200, {"effects": [], "as_of": 7}
        self.asked.append(key)
        if self.down:
            return 503, {"error": "down"}
        if key not in self.known:
            return 404, {"state": "NOT_FOUND", "key": key, "as_of": 7}
        return 200, {"state": "APPLIED", "key": key, "external_id": self.known[key], "matches": 1, "as_of": 7}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Process:
    """The reconciler as a child process, with what it says of itself."""

    def __init__(self, settings: dict[str, Any]) -> None:
        script = Path(__file__).with_name("reconcile_process.py")
        self._child = subprocess.Popen(
            [sys.executable, str(script), json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.statuses: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.statuses.append(json.loads(line))

    @property
    def status(self) -> dict[str, Any]:
        return self.statuses[-1] if self.statuses else {"phase": "", "problem": "", "open": 0}

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def end(self, number: int = signal.SIGTERM) -> int:
        self._child.send_signal(number)
        return self._child.wait(timeout=DEADLINE_S)

    @property
    def running(self) -> bool:
        return self._child.poll() is None


class World:
    """A broker, a source, and at most one reconciler at a time between them."""

    def __init__(self, bootstrap: str, prefix: str, state_dir: Path, source: Source, *, create: bool = True) -> None:
        self.bootstrap, self.topics, self.source = bootstrap, Topics(prefix), source
        self.codec = Codec()
        self.settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "prefix": prefix,
            "state_dir": str(state_dir),
            "downstreams": {"bank": source.url},
            "policy": QUICK,
        }
        self._processes: list[Process] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        if create:
            self.create()
        self._claims: list[Observe] = []
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._reader.assign([TopicPartition(self.topics.observations, each, 0) for each in range(PARTITIONS)])

    def create(self) -> None:
        self.topics.create(self.bootstrap, PARTITIONS)

    def start(self) -> Process:
        process = Process(self.settings)
        self._processes.append(process)
        return process

    def close(self) -> None:
        self._reader.close()
        for process in self._processes:
            if process.running:
                process.kill()

    def transaction(self, *requests: InDoubtRequest, commit: bool = True, compression: str = "none") -> None:
        """Write as a gate does: in one transaction, which ends well or not."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.topics.prefix + "gate",
                "partitioner": "murmur2_random",
                "compression.type": compression,
            }
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for request in requests:
            request = changed(request, partition=partition_for(request.intent_id.encode(), PARTITIONS))
            producer.produce(self.topics.in_doubt, self.codec.encode(request), request.intent_id.encode())
        producer.flush(DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    def answer(self, key: str, partition: int, answers: list[Answered], *, commit: bool) -> None:
        """Write answers on the reconciler's own topic, in one transaction, which ends well or not."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topics.prefix + "forger"})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for one in answers:
            producer.produce(answers_topic(self.topics.prefix), one.encode(), key.encode(), partition=partition)
        producer.flush(DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    def await_claims(self, count: int) -> list[Observe]:
        """The first `count` claims on the topic of observations, each checked to lie where its key belongs."""

        def enough() -> bool:
            message = self._reader.poll(0.1)
            # An error here is the reader's trouble with a broker that is away or new: it tries again by itself.
            if message is not None and message.error() is None:
                claim = self.codec.decode(message.value())
                assert isinstance(claim, Observe)
                key = claim.intent_id.encode()
                assert (message.key(), message.partition()) == (key, partition_for(key, PARTITIONS))
                self._claims.append(claim)
            return len(self._claims) >= count

        wait_for(f"{count} claims", enough)
        return list(self._claims)

    def own_topics(self) -> dict[str, tuple[str, int]]:
        """The topics that are not the gate's, by their name without the prefix: clean-up policy and partitions."""
        gates = {spec.name for spec in self.topics.specs(PARTITIONS)}
        found = {
            name: len(topic.partitions)
            for name, topic in self._admin.list_topics(timeout=DEADLINE_S).topics.items()
            if name.startswith(self.topics.prefix) and name not in gates
        }
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in found]
        settings = self._admin.describe_configs(asked) if asked else {}
        return {
            one.name.removeprefix(self.topics.prefix): (
                str(answer.result(timeout=DEADLINE_S)["cleanup.policy"].value), found[one.name],
            )
            for one, answer in settings.items()
        }  # fmt: skip

    def end_of(self, name: str, partition: int) -> int:
        """The high watermark of a topic's partition."""
        here = TopicPartition(self.topics.prefix + name, partition)
        return int(self._reader.get_watermark_offsets(here, timeout=DEADLINE_S)[1])

    def position(self, partition: int) -> int:
        """Up to where the reconciler's group has committed; -1001 where it has not."""
        asked = ConsumerGroupTopicPartitions(
            self.topics.prefix + "reconciler", [TopicPartition(self.topics.in_doubt, partition)]
        )
        (answer,) = self._admin.list_consumer_group_offsets([asked]).values()
        return int(answer.result(timeout=DEADLINE_S).topic_partitions[0].offset)


@pytest.fixture
def source() -> Iterator[Source]:
    source = Source()
    yield source
    source.close()


@pytest.fixture
def world(bootstrap: str, topic_prefix: str, tmp_path: Path, source: Source) -> Iterator[World]:
    world = World(bootstrap, topic_prefix, tmp_path / "state", source)
    yield world
    world.close()


def test_a_request_of_an_aborted_transaction_is_never_asked_about(world: World, make_request: Make) -> None:
    """C16, on Faust's path, in each compression: a transaction aborted, an empty one, and one that committed."""
    seq = 0
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        seq += 2
        aborted, good = f"aborted-{compression}", f"good-{compression}"
        world.source.known |= {aborted: "bank-0", good: f"bank-{seq}"}
        world.transaction(make_request(subject_id=aborted, ledger_seq=seq - 1), commit=False, compression=compression)
        world.transaction(commit=False)
        world.transaction(make_request(subject_id=good, ledger_seq=seq), compression=compression)
    world.start()
    claims = world.await_claims(5)
    assert {claim.subject_id: claim.external_ids for claim in claims} == {
        f"good-{name}": [f"bank-{2 * n}"] for n, name in enumerate(("none", "gzip", "snappy", "lz4", "zstd"), 1)
    }
    assert {claim.finding for claim in claims} == {"PRESENT"}
    assert not [key for key in world.source.asked if key.startswith("aborted")]


def test_an_answer_of_an_aborted_transaction_says_nothing(world: World, make_request: Make) -> None:
    """C16, on the reconciler's own topic: the same answers are believed when they are committed, which is the control.

    Each is an answer to another of the questions, so that one of them fits whichever is open.
    """
    world.source.down = True
    world.start()

    def forge(subject: str, number: int, commit: bool) -> None:
        request = make_request(subject_id=subject, ledger_seq=number)
        world.transaction(request)
        wait_for("a question", lambda: subject in world.source.asked)
        partition = partition_for(request.intent_id.encode(), PARTITIONS)
        answers = [
            Answered(subject_id=subject, partition=partition, ledger_seq=number, ask=ask, asked_at=2_000_000,
                     answer=Found(external_ids=("never",)))
            for ask in range(1, 500)
        ]  # fmt: skip
        world.answer(request.intent_id, partition, answers, commit=commit)

    forge("op-1", 1, commit=False)
    before = world.source.asked.count("op-1")
    wait_for("more questions", lambda: world.source.asked.count("op-1") >= before + 5)
    forge("op-2", 2, commit=True)
    (claim,) = world.await_claims(1)
    assert (claim.subject_id, claim.external_ids) == ("op-2", ["never"])


def test_positions_move_past_the_gaps_that_transactions_leave(world: World, make_request: Make) -> None:
    """Otherwise every restart would read everything again, more each time: markers and aborted records are gaps."""
    requests = [make_request(subject_id=f"op-{n}", ledger_seq=n) for n in range(1, 6)]
    world.source.known = {request.subject_id: "bank-1" for request in requests}
    partition = partition_for(requests[0].intent_id.encode(), PARTITIONS)
    world.transaction(requests[0])
    world.transaction(requests[1], commit=False)
    world.transaction(requests[2])
    process = world.start()
    world.await_claims(2)
    # Three records, each with its marker; the last marker lies behind the last record that anyone is given.
    wait_for("the position behind the first gap", lambda: world.position(partition) == 5)
    process.end()
    world.transaction(requests[3], commit=False)
    world.transaction(requests[4])
    world.start()
    world.await_claims(3)
    wait_for("the position behind the second gap", lambda: world.position(partition) == 9)


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_killed_reconciler_goes_on_where_it_was(world: World, make_request: Make, tmp_path: Path, disk: str) -> None:
    """`kill -9` with a question open: asked again after the restart, from the disk or from the changelog alone."""
    world.source.down = True
    other = make_request(subject_id="op-2", intent_id="acme/fee/3")  # an intent of the other partition
    world.transaction(make_request(), other)
    process = world.start()
    wait_for("both questions", lambda: {"op-1", "op-2"} <= set(world.source.asked))
    for partition in range(PARTITIONS):
        wait_for("the position", lambda partition=partition: world.position(partition) > 0)  # type: ignore[misc]
    process.kill()
    world.source.down, world.source.known = False, {"op-1": "bank-1", "op-2": "bank-2"}
    if disk == "lost":
        world.settings["state_dir"] = str(tmp_path / "another")
    again = world.start()
    claims = world.await_claims(2)
    assert {claim.subject_id: claim.external_ids for claim in claims} == {"op-1": ["bank-1"], "op-2": ["bank-2"]}
    assert again.end() == 0


def test_a_second_worker_takes_over_a_share_and_repeats_nothing(
    world: World, make_request: Make, tmp_path: Path
) -> None:
    """C12: scaled out with questions open, then one worker is killed: each subject is answered, under one claim id."""
    world.source.down = True
    intents = [f"acme/fee/{n}" for n in range(1, 7)]
    counts = dict.fromkeys(range(PARTITIONS), 0)
    requests = []
    for intent in intents:
        partition = partition_for(intent.encode(), PARTITIONS)
        counts[partition] += 1
        requests.append(make_request(intent_id=intent, subject_id=f"op-{intent}", ledger_seq=counts[partition]))
    world.transaction(*requests[:4])
    first = world.start()
    wait_for("the first questions", lambda: {each.subject_id for each in requests[:4]} <= set(world.source.asked))
    world.settings["state_dir"] = str(tmp_path / "second")
    second = world.start()
    wait_for("a share for each", lambda: 0 < second.status["open"] < 4 and 0 < first.status["open"] < 4)
    world.source.known = {request.subject_id: f"bank-{n}" for n, request in enumerate(requests)}
    world.source.down = False
    world.await_claims(4)
    first.kill()
    world.transaction(*requests[4:])
    claims = world.await_claims(6)
    assert {claim.subject_id for claim in claims} == {request.subject_id for request in requests}
    assert len({claim.claim_id for claim in claims}) == 6


def test_a_resolved_subject_is_asked_about_no_more_and_its_neighbour_still_is(world: World, make_request: Make) -> None:
    world.source.down = True
    world.start()
    world.transaction(make_request(ledger_seq=1), make_request(subject_id="op-2", ledger_seq=2))
    wait_for("both questions", lambda: {"op-1", "op-2"} <= set(world.source.asked))
    world.transaction(make_request(kind="RESOLVED", ledger_seq=3), make_request(subject_id="op-3", ledger_seq=4))
    wait_for("the question behind it", lambda: "op-3" in world.source.asked)
    before, neighbour = world.source.asked.count("op-1"), world.source.asked.count("op-2")
    wait_for("more questions", lambda: world.source.asked.count("op-2") >= neighbour + 5)
    # One may have been on its way.
    assert world.source.asked.count("op-1") <= before + 1


def test_a_subject_that_is_not_found_twice_is_said_to_be_absent_with_both_looks(
    world: World, make_request: Make
) -> None:
    world.start()
    world.transaction(make_request())
    (claim,) = world.await_claims(1)
    assert (claim.finding, claim.proof, claim.source_version) == ("ABSENT", "SECOND_LOOK", 7)
    assert world.source.asked.count("op-1") == 2


def test_a_downstream_without_an_address_and_a_record_of_another_kind_hold_up_nothing(
    world: World, make_request: Make
) -> None:
    world.source.known = {"op-1": "bank-1"}
    process = world.start()
    producer = Producer({"bootstrap.servers": world.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(world.topics.in_doubt, b"\x00\xff\xff", b"acme/fee/1")
    producer.flush(DEADLINE_S)
    world.transaction(make_request(subject_id="op-9", downstream="elsewhere"), make_request(ledger_seq=2))
    assert [claim.subject_id for claim in world.await_claims(1)] == ["op-1"]
    wait_for("the status", lambda: process.status["unconfigured"] == ["elsewhere"])
    assert (process.status["undecodable"], process.status["open"]) == (1, 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(world: World, number: int) -> None:
    process = world.start()
    wait_for("the start", lambda: process.status["phase"] == "RUNNING")
    assert process.end(number) == 0
    wait_for("its last word", lambda: process.status["phase"] == "STOPPED")


def test_topics_that_are_not_there_yet_are_waited_for(
    bootstrap: str, topic_prefix: str, tmp_path: Path, source: Source, make_request: Make
) -> None:
    source.known = {"op-1": "bank-1"}
    world = World(bootstrap, topic_prefix, tmp_path / "state", source, create=False)
    try:
        process = world.start()
        wait_for("the sentence", lambda: process.status["phase"] == "FAILING")
        assert world.topics.in_doubt in process.status["problem"]
        world.create()
        world.transaction(make_request())
        assert [claim.subject_id for claim in world.await_claims(1)] == ["op-1"]
    finally:
        world.close()


def test_its_own_topics_are_there_before_its_client_asks_which_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that appears while it joins its group is left out, and then it asks and never speaks."""
    stop, there = threading.Event(), {}

    def begin(*_: object) -> Reconciler:
        there.update(world.own_topics())
        stop.set()
        raise RuntimeError("seen enough")

    monkeypatch.setattr(run, "Reconciler", begin)
    settings = ReconcilerSettings(
        bootstrap_servers=world.bootstrap, prefix=world.topics.prefix, state_dir=Path(world.settings["state_dir"])
    )
    run_reconciler(settings, stop, lambda status: None)
    assert there == {"reconciler-answers": ("delete", PARTITIONS), "reconciler-open-changelog": ("compact", PARTITIONS)}


def test_its_table_and_its_answers_live_in_those_topics_and_in_no_others(world: World, make_request: Make) -> None:
    world.source.known = {"op-1": "bank-1"}
    world.start()
    world.transaction(make_request())
    world.await_claims(1)
    assert set(world.own_topics()) == {"reconciler-answers", "reconciler-open-changelog"}
    partition = partition_for(make_request().intent_id.encode(), PARTITIONS)
    assert world.end_of("reconciler-answers", partition) > 0
    assert world.end_of("reconciler-open-changelog", partition) > 0


def test_a_topic_of_its_own_with_another_partition_count_is_named(world: World) -> None:
    name = world.topics.prefix + "reconciler-answers"
    create_topics(world.bootstrap, [TopicSpec(name, PARTITIONS + 1, {}, ())])
    process = world.start()
    wait_for("the sentence", lambda: process.status["phase"] == "FAILING")
    assert f"{name} has {PARTITIONS + 1} partitions" in process.status["problem"]


def test_a_broker_that_is_away_from_the_start_is_said_to_be_away(
    tmp_path: Path, topic_prefix: str, source: Source
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
        world = World(nowhere, topic_prefix, tmp_path / "state", source, create=False)
        try:
            process = world.start()
            wait_for("the sentence", lambda: process.status["phase"] == "BROKER_AWAY")
            assert nowhere in process.status["problem"]
            assert process.end() == 0
        finally:
            world.close()


def test_a_broker_that_goes_away_is_said_to_be_away_and_the_work_goes_on_when_it_is_back(
    topic_prefix: str, tmp_path: Path, source: Source, make_request: Make
) -> None:
    """And a stop while it is away still ends the process, with exit status 0."""
    source.known = {"op-1": "bank-1", "op-2": "bank-2"}
    with LocalKafka() as kafka:
        world = World(kafka.bootstrap_servers, topic_prefix, tmp_path / "state", source)
        try:
            process = world.start()
            world.transaction(make_request(ledger_seq=1))
            assert [claim.subject_id for claim in world.await_claims(1)] == ["op-1"]
            kafka.kill()
            wait_for("the sentence", lambda: process.status["phase"] == "BROKER_AWAY")
            kafka.restart()
            world.transaction(make_request(subject_id="op-2", ledger_seq=2))
            assert [claim.subject_id for claim in world.await_claims(2)] == ["op-1", "op-2"]
            kafka.kill()
            assert process.end() == 0
        finally:
            world.close()
