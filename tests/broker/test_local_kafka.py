"""The broker that we start ourselves: it comes up, obeys, keeps its data, and never outlives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # NewTopic is exported, not declared

from joingate.local_kafka import (
    KafkaUnavailableError,
    LocalKafka,
    Source,
    choose_source,
    ensure_kafka,
    find_java,
    is_answering,
)

needs_java = pytest.mark.skipif(
    find_java() is None, reason="needs Java 17 or newer; another kind of broker serves here"
)


def eventually(condition: Callable[[], bool], deadline_s: float = 30.0) -> bool:
    """Ask again until it holds; True when it did in time."""
    end = monotonic() + deadline_s
    while not condition():
        if monotonic() > end:
            return False
        sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    """Whether the process still does anything; one that is dead but not yet reaped does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def is_listening(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def write_one(address: str, topic: str, value: bytes) -> None:
    """Create the topic and write one record, acknowledged."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
    producer.produce(topic, value, on_delivery=lambda error, _record: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []


def read_one(address: str, topic: str) -> bytes | None:
    """The first record of the topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "read-one", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        record = consumer.poll(30)
        assert record is not None
        assert record.error() is None
        return record.value()
    finally:
        consumer.close()


@pytest.fixture
def kafka() -> Iterator[LocalKafka]:
    """A broker of the test's own, to be ill-treated."""
    with LocalKafka() as broker:
        yield broker


def test_shared_broker_serves_a_record(bootstrap: str, topic_prefix: str) -> None:
    """The broker that all tests share takes a record and gives it back."""
    write_one(bootstrap, f"{topic_prefix}first", b"hello")
    assert read_one(bootstrap, f"{topic_prefix}first") == b"hello"


@needs_java
def test_stop_leaves_nothing(kafka: LocalKafka) -> None:
    """After `stop` there is no process, no port and no folder, and stopping again is allowed."""
    pid, address, directory = kafka.pid, kafka.bootstrap_servers, kafka.directory
    assert pid is not None
    assert is_listening(address)
    kafka.stop()
    assert not is_running(pid)
    assert not is_listening(address)
    assert not directory.exists()
    kafka.stop()


@needs_java
def test_a_paused_broker_is_silent_then_goes_on_then_stops(kafka: LocalKafka) -> None:
    """Pause keeps the port and answers nobody; resume heals it; stop works even from the pause."""
    kafka.pause()
    assert is_listening(kafka.bootstrap_servers)
    assert not is_answering(kafka.bootstrap_servers, timeout_s=0.5)
    kafka.resume()
    assert is_answering(kafka.bootstrap_servers, timeout_s=15)
    kafka.pause()
    pid = kafka.pid
    kafka.stop()
    assert pid is not None
    assert not is_running(pid)


@needs_java
def test_kill_and_restart_keep_data(kafka: LocalKafka, topic_prefix: str) -> None:
    """What was acknowledged is still there, at the same address, after a kill and after a clean restart."""
    topic, address = f"{topic_prefix}kept", kafka.bootstrap_servers
    write_one(address, topic, b"kept")
    kafka.kill()
    assert not is_listening(address)
    assert kafka.restart().bootstrap_servers == address
    assert read_one(address, topic) == b"kept"
    kafka.restart()
    assert read_one(address, topic) == b"kept"


@needs_java
def test_a_taken_port_on_restart_is_one_clear_sentence(kafka: LocalKafka) -> None:
    """A restart never moves to another address: its clients would not find it."""
    host, port = kafka.bootstrap_servers.split(":")
    kafka.stop(keep_data=True)
    with socket.socket() as squatter:
        squatter.bind((host, int(port)))
        squatter.listen()
        with pytest.raises(KafkaUnavailableError, match="took"):
            kafka.restart()
    assert is_answering(kafka.restart().bootstrap_servers, timeout_s=15)


@needs_java
def test_a_broker_that_cannot_start_says_why_and_leaves_nothing() -> None:
    """A setting that Kafka refuses ends in its own words, not in a deadline."""
    kafka = LocalKafka(settings={"num.io.threads": "none"})
    with pytest.raises(KafkaUnavailableError, match=r"num\.io\.threads"):
        kafka.start()
    assert kafka.pid is None
    with pytest.raises(KafkaUnavailableError):
        _ = kafka.directory


@needs_java
def test_the_broker_dies_with_an_owner_that_is_killed() -> None:
    """`kill -9` gives the owner no chance to clean up, and still no broker and no data stay behind."""
    code = (
        "import sys; from joingate.local_kafka import LocalKafka; kafka = LocalKafka().start();"
        "print(kafka.pid, kafka.bootstrap_servers, kafka.directory, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid, address, directory = owner.stdout.readline().decode().split()
        assert is_running(int(pid))
        owner.kill()
    assert eventually(lambda: not is_running(int(pid)))
    assert eventually(lambda: not is_listening(address))
    assert eventually(lambda: not Path(directory).exists())


@needs_java
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_holder_stops_its_broker_on_a_signal(end: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m joingate.local_kafka` prints an address, and leaves in order when asked to."""
    monkeypatch.delenv("BOOTSTRAP_SERVERS", raising=False)
    command = [sys.executable, "-m", "joingate.local_kafka"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        address = holder.stdout.readline().strip()
        assert is_answering(address, timeout_s=15)
        holder.send_signal(end)
        assert holder.wait(30) == 0
    assert not is_listening(address)


@needs_java
def test_the_holder_stops_when_the_process_it_serves_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is how a test run that was killed leaves no broker behind."""
    monkeypatch.delenv("BOOTSTRAP_SERVERS", raising=False)
    with subprocess.Popen(["sleep", "600"]) as served:
        command = [sys.executable, "-m", "joingate.local_kafka", "--while-pid", str(served.pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            address = holder.stdout.readline().strip()
            served.kill()
            served.wait()
            assert holder.wait(30) == 0
    assert not is_listening(address)


def test_an_outside_broker_is_used_and_left_alone(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BOOTSTRAP_SERVERS comes first, and `stop` does not touch what we did not start."""
    monkeypatch.setenv("BOOTSTRAP_SERVERS", bootstrap)
    with ensure_kafka() as broker:
        assert (broker.bootstrap_servers, broker.source) == (bootstrap, Source.OUTSIDE)
    assert is_answering(bootstrap, timeout_s=15)


def test_an_outside_broker_that_is_silent_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address is an error at once, never a fall-back to some other broker."""
    monkeypatch.setenv("BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(KafkaUnavailableError, match=r"BOOTSTRAP_SERVERS is 127\.0\.0\.1:1, but no Kafka answered"):
        ensure_kafka(answer_timeout_s=0.5)


def test_a_machine_with_nothing_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java, an engine or an address, the program ends with one sentence and exit code 1."""
    environment = {k: v for k, v in os.environ.items() if k not in {"BOOTSTRAP_SERVERS", "JAVA_HOME"}}
    done = subprocess.run(
        [sys.executable, "-m", "joingate.local_kafka"],
        env={**environment, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in ("BOOTSTRAP_SERVERS", "Java 17", "Maven", "Docker"))


def test_an_engine_that_runs_serves_where_java_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for Docker says that it runs; one whose engine is down does not count."""
    for name in ("BOOTSTRAP_SERVERS", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 0\n")
    docker.chmod(0o755)
    assert choose_source() is Source.ENGINE
    docker.write_text('#!/bin/sh\n[ "$1" != info ]\n')
    with pytest.raises(KafkaUnavailableError):
        choose_source()


@pytest.mark.parametrize(("was_running", "is_stopped"), [(False, True), (True, False)])
def test_a_container_is_stopped_only_if_we_started_it(
    was_running: bool, is_stopped: bool, bootstrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for Docker notes what it is asked; the shared broker plays the one in the container."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    if host != "127.0.0.1":
        pytest.skip("the outside broker is not on loopback, where a container's would be")
    for name in ("BOOTSTRAP_SERVERS", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JOINGATE_KAFKA_PORT", port)
    docker, asked = tmp_path / "docker", tmp_path / "asked"
    answer = "echo 0a1b2c" if was_running else ":"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *" ps "*) {answer};; esac\n')
    docker.chmod(0o755)
    with ensure_kafka() as broker:
        assert (broker.bootstrap_servers, broker.source) == (f"127.0.0.1:{port}", Source.ENGINE)
    calls = asked.read_text()
    assert ("up -d kafka" in calls) is not was_running
    assert ("stop kafka" in calls) is is_stopped
