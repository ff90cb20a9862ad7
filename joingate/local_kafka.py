"""The room that gives us a real Kafka on this machine: an outside broker, our own Java process, or a container.

`ensure_kafka` decides. `LocalKafka` is one Kafka node in KRaft mode that we start, stop, kill, pause and restart,
which is what tests of "the broker goes away for a minute" need. Nothing here knows topics or the gate.

What holds when we die: the Java process has a watcher, a small shell that reads from a pipe whose only other end is
ours. The kernel closes that end whenever we go, `kill -9` included, and the watcher then kills the broker and removes
its data. This needs POSIX only, so it holds on Linux and macOS alike. (Linux's PR_SET_PDEATHSIG would fire when the
*thread* that started the broker ends, and must be set between fork and exec, where a process with librdkafka's threads
may deadlock.) Not covered: a child that we forked without exec holds the pipe open for as long as it lives.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import enum
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from joingate.java_kafka import (
    JAVA_VERSION_MIN,
    KAFKA_VERSION,
    KafkaUnavailableError,
    fetch_jars,
    file_lock,
    find_java,
    first_error,
    jars_folder,
    progress,
)

__all__ = [
    "JAVA_VERSION_MIN",
    "KAFKA_VERSION",
    "BrokerHandle",
    "KafkaUnavailableError",
    "LocalKafka",
    "Source",
    "choose_source",
    "ensure_kafka",
    "file_lock",
    "find_java",
    "is_answering",
]

ENGINES = ("docker", "podman")

# C1 compiles alone would start 0.2 s sooner, and serve slower ever after. The serial collector suits a small heap.
JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC")

START_DEADLINE_S = 90.0
STOP_DEADLINE_S = 20.0
PORT_ATTEMPTS = 5
# Below the ephemeral ranges of Linux (32768 and up) and macOS (49152 and up): there a client that calls a broker which
# is down may be given the broker's own port as its source, connect to itself, and so keep the broker from coming back.
PORTS = range(20_000, 32_000)

_LOG4J = """status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName=${sys:joingate.log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
"""

# The broker waits behind a gate until its watcher stands, so that there is no instant at which it could outlive us.
_GATED = 'read -r _ && exec "$@" </dev/null'
# A line means "stopped in order, leave"; the end of the pipe means that we are gone.
_WATCHER = 'read -r _ && exit 0; kill -KILL "$1"; [ -z "$2" ] || rm -rf -- "$2"'


class Source(enum.Enum):
    """Where a broker comes from, in the order of preference."""

    OUTSIDE = "outside"
    JAVA = "java"
    ENGINE = "engine"


def is_answering(bootstrap_servers: str, timeout_s: float, client: Mapping[str, str] | None = None) -> bool:
    """Whether a broker at this address answers a metadata request and names itself within `timeout_s`.

    `client` holds further librdkafka settings, such as credentials.
    """
    silent = logging.Logger("joingate.local_kafka.silent", level=logging.CRITICAL + 1)
    settings: dict[str, str | int | float | bool] = {
        **(client or {}),
        "bootstrap.servers": bootstrap_servers,
        # A refused connection is the expected answer while a broker starts: retry soon, and say nothing on stderr.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    try:
        return bool(AdminClient(settings, logger=silent).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def _free_port(taken: Sequence[int] = ()) -> int:
    """A port on loopback that was free a moment ago; the caller must still expect to lose it."""
    while True:
        port = random.choice(PORTS)
        if port not in taken and _is_free(port):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java does: a port on which only old connections linger (TIME_WAIT) counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


# --- one node under our hands ----------------------------------------------------------------------------------------


class _PortTakenError(Exception):
    """Somebody else took one of the chosen ports between the choice and the start."""


class LocalKafka:
    """One Kafka node (broker and controller) as a child process, on loopback, with its data in a temporary folder.

    A context manager; `start` returns only when the broker answers. Every method that may fail raises
    KafkaUnavailableError with one sentence.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = JAVA_OPTIONS,
        keep_data: bool = False,
    ) -> None:
        """`settings` go over our server properties. `keep_data` leaves `directory` behind, whatever happens."""
        self._settings = dict(settings or {})
        self._java_options = tuple(java_options)
        self._keep_data = keep_data
        self._directory: Path | None = None
        self._ports: tuple[int, int] | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients; the same over restarts."""
        if self._ports is None:
            raise KafkaUnavailableError("This local Kafka was not started.")
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def directory(self) -> Path:
        """The folder with data, configuration and logs (`server.log`, `console.log`)."""
        if self._directory is None:
            raise KafkaUnavailableError("This local Kafka was not started, or its data was removed.")
        return self._directory

    @property
    def pid(self) -> int | None:
        """The process id of the broker while it runs."""
        return self._broker.pid if self._broker is not None and self._broker.poll() is None else None

    def start(self) -> LocalKafka:
        """Format a new data folder, start the broker on free ports, and wait until it answers."""
        if self.pid is not None:
            return self
        java = self._java()
        try:
            for _ in range(PORT_ATTEMPTS):
                self._format(java)
                with contextlib.suppress(_PortTakenError):
                    self._launch(java)
                    return self
            raise KafkaUnavailableError(f"Kafka found no free port in {PORT_ATTEMPTS} attempts.")
        except BaseException:
            self.stop()
            raise

    def restart(self) -> LocalKafka:
        """Start again over the same data and ports, after a clean stop if the broker still runs."""
        self.stop(keep_data=True)
        try:
            self._launch(self._java())
        except _PortTakenError as error:
            # Its clients know this address, so another one would be no restart.
            raise KafkaUnavailableError(f"Another process took {self.bootstrap_servers} meanwhile.") from error
        return self

    def stop(self, *, keep_data: bool = False) -> None:
        """End the broker: SIGTERM, and SIGKILL after a deadline; then remove its data unless told to keep it.

        May be called at any time, more than once. With `keep_data`, `restart` brings the broker back later.
        """
        if self.pid is not None:
            self.resume()  # A paused process would not hear SIGTERM.
            self._end(signal.SIGTERM)
        self._dismiss_watcher()
        if self._directory is not None and not (keep_data or self._keep_data):
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """End the broker as a power cut would (SIGKILL). The data stays for `restart`."""
        self._end(signal.SIGKILL)
        self._dismiss_watcher()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): its connections stay open, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> LocalKafka:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _java(self) -> str:
        java = find_java()
        if java is None:
            raise KafkaUnavailableError(f"A local Kafka needs Java {JAVA_VERSION_MIN} or newer.")
        return java

    def _format(self, java: str) -> None:
        """Choose ports, write the configuration, and format the storage for a cluster of one."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="joingate-kafka-"))
        shutil.rmtree(self._directory / "data", ignore_errors=True)
        client_port = _free_port()
        self._ports = (client_port, _free_port([client_port]))
        properties = {**self._properties(*self._ports), **self._settings}
        (self._directory / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        (self._directory / "log4j2.properties").write_text(_LOG4J)
        # Kafka's ids are URL-safe base64, and its tools would take one with a leading dash for an option.
        cluster_id = "J" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", "server.properties"]
        # A process of a second's life, for which compiling well is a waste.
        command = self._command(java, ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"], tool)
        done = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailableError(f"Kafka could not format its storage: {first_error(done.stdout + done.stderr)}")

    def _properties(self, client_port: int, controller_port: int) -> dict[str, str]:
        """Server properties for one node that starts quickly and never waits for others."""
        listeners = f"CLIENT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(self.directory / "data"),
            # A topic with a misspelt name should be an error, here as in earnest.
            "auto.create.topics.enable": "false",
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            # After a kill the controller admits the node again only when its old session has run out, by default 9 s.
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
        }

    def _command(self, java: str, options: Sequence[str], main: Sequence[str]) -> list[str]:
        logs = ["-Dlog4j2.configurationFile=log4j2.properties", f"-Djoingate.log={self.directory / 'server.log'}"]
        return [java, *options, *logs, "-cp", str(fetch_jars() / "*"), *main]

    def _launch(self, java: str) -> None:
        """Start broker and watcher, and wait until the broker answers."""
        if self._ports is None or not self.directory.is_dir():
            raise KafkaUnavailableError("This local Kafka was not started, or its data was removed.")
        if not all(map(_is_free, self._ports)):
            raise _PortTakenError
        directory = self.directory
        for log in ("server.log", "console.log"):
            # Failures are told from the log, so the log must be this start's.
            if (directory / log).exists():
                (directory / log).replace(directory / f"{log}.before")
        command = self._command(java, self._java_options, ["kafka.Kafka", "server.properties"])
        with (directory / "console.log").open("wb") as console:
            self._broker = subprocess.Popen(
                ["/bin/sh", "-c", _GATED, "broker", *command],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=console,
                # Out of the terminal's process group: Ctrl-C is for us, and we stop the broker after its clients.
                start_new_session=True,
            )
        doomed = "" if self._keep_data else str(directory)
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER, "watcher", str(self._broker.pid), doomed],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _send_line(self._broker)
        try:
            self._wait_until_ready()
        except BaseException:
            self._end(signal.SIGKILL)
            self._dismiss_watcher()
            raise

    def _wait_until_ready(self) -> None:
        """Ask the broker until it answers; raises when it ends first, or at the deadline."""
        deadline = time.monotonic() + START_DEADLINE_S
        while not is_answering(self.bootstrap_servers, timeout_s=0.5):
            if self.pid is None:
                told = self._last_words()
                if "BindException" in told or "Address already in use" in told:
                    raise _PortTakenError
                raise KafkaUnavailableError(f"Kafka ended while starting: {told}")
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(f"Kafka did not answer within {START_DEADLINE_S:.0f} s of its start.")

    def _last_words(self) -> str:
        """What the broker said of its end in this start."""
        logs = [self.directory / "server.log", self.directory / "console.log"]
        return first_error("\n".join(log.read_text(errors="replace") for log in logs if log.exists()))

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal by process id, which cannot have been reused: only we reap this child."""
        if self._broker is not None and self.pid is not None:
            self._broker.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._broker is None:
            return
        self._signal(number)
        try:
            self._broker.wait(timeout=STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._broker.wait()
        _close_stdin(self._broker)
        self._broker = None

    def _dismiss_watcher(self) -> None:
        """Send the watcher home, once its broker has ended."""
        if self._watcher is not None:
            _send_line(self._watcher)
            self._watcher.wait()
            self._watcher = None


def _close_stdin(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


def _send_line(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(b"\n")
            child.stdin.flush()
    _close_stdin(child)


# --- a container engine ----------------------------------------------------------------------------------------------


def compose_file() -> Path:
    """The compose file of a checkout; a wheel does not carry it."""
    return Path(__file__).resolve().parents[1] / "compose" / "compose.yaml"


def find_engine() -> str | None:
    """The name of a container engine that runs and knows `compose`, or None."""
    for engine in filter(shutil.which, ENGINES):
        # The client alone answers `--version`; `info` needs the engine behind it.
        if all(_quiet([engine, *question]) for question in (["info"], ["compose", "version"])):
            return engine
    return None


def _quiet(command: Sequence[str]) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _start_in_engine(engine: str) -> BrokerHandle:
    """Start the broker of the compose file, or use it if it runs; stop it later only in the first case."""
    compose = [engine, "compose", "-f", str(compose_file())]
    running = subprocess.run(
        [*compose, "ps", "-q", "--status", "running", "kafka"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not running:
        progress(f"starting apache/kafka:{KAFKA_VERSION} with {engine} compose")
        done = subprocess.run([*compose, "up", "-d", "kafka"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
            raise KafkaUnavailableError(f"{engine} compose could not start Kafka: {last[0]}")

    def stop() -> None:
        if not running:
            subprocess.run([*compose, "stop", "kafka"], capture_output=True, check=False)

    servers = f"127.0.0.1:{os.environ.get('JOINGATE_KAFKA_PORT', '9092')}"
    if not is_answering(servers, START_DEADLINE_S):
        stop()
        raise KafkaUnavailableError(
            f"The Kafka container did not answer at {servers} within {START_DEADLINE_S:.0f} s of its start."
        )
    return BrokerHandle(servers, Source.ENGINE, stop)


# --- the decision ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BrokerHandle:
    """A broker that answers, and what must happen when it is no longer needed."""

    bootstrap_servers: str
    source: Source
    _stop: Callable[[], None] = field(repr=False, default=lambda: None)

    def stop(self) -> None:
        """End the broker if `ensure_kafka` started it; an outside broker is left alone."""
        self._stop()

    def __enter__(self) -> BrokerHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def choose_source() -> Source:
    """What `ensure_kafka` will use. Java comes before an engine, as it starts sooner.

    Raises KafkaUnavailableError when there is nothing to use.
    """
    if os.environ.get("BOOTSTRAP_SERVERS"):
        return Source.OUTSIDE
    if find_java() is not None and (jars_folder().is_dir() or shutil.which("mvn")):
        return Source.JAVA
    if compose_file().exists() and find_engine() is not None:
        return Source.ENGINE
    raise KafkaUnavailableError(
        f"No Kafka to be had: set BOOTSTRAP_SERVERS to a broker, or install Java {JAVA_VERSION_MIN} or newer with "
        "Maven (mvn), or start a container engine (Docker or Podman, with compose)."
    )


def ensure_kafka(client: Mapping[str, str] | None = None, answer_timeout_s: float = 15.0) -> BrokerHandle:
    """A broker that answers: BOOTSTRAP_SERVERS if set, else our own Java process, else a container.

    `client` holds further librdkafka settings for an outside broker. Raises KafkaUnavailableError.
    """
    source = choose_source()
    if source is Source.OUTSIDE:
        servers = os.environ["BOOTSTRAP_SERVERS"]
        if not is_answering(servers, answer_timeout_s, client):
            raise KafkaUnavailableError(
                f"BOOTSTRAP_SERVERS is {servers}, but no Kafka answered there within {answer_timeout_s:.0f} s."
            )
        return BrokerHandle(servers, source)
    if source is Source.JAVA:
        kafka = LocalKafka().start()
        return BrokerHandle(kafka.bootstrap_servers, source, kafka.stop)
    engine = find_engine()
    if engine is None:
        raise KafkaUnavailableError("The container engine stopped running meanwhile.")
    return _start_in_engine(engine)


def main(arguments: Sequence[str] | None = None) -> int:
    """Hold a broker until a signal comes: `python -m joingate.local_kafka` prints its address and waits."""
    parser = argparse.ArgumentParser(prog="python -m joingate.local_kafka", description="Hold a Kafka broker.")
    parser.add_argument("--check", action="store_true", help="only say which kind of broker would be used")
    parser.add_argument("--while-pid", type=int, help="stop when this process is gone")
    parser.add_argument("--lock", type=Path, help="a file to hold locked until the broker is stopped")
    options = parser.parse_args(arguments)
    # The signal is noted, not acted on: one that comes during the start waits, so that we always stop something whole.
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        if options.check:
            print(choose_source().value)
            return 0
        with file_lock(options.lock) if options.lock else contextlib.nullcontext(), ensure_kafka() as broker:
            print(broker.bootstrap_servers, flush=True)
            # No portable call waits for the end of a process that is not our child, hence the look twice a second.
            while not ended.wait(0.5) and (options.while_pid is None or _exists(options.while_pid)):
                pass
    except KafkaUnavailableError as error:
        print(f"joingate: {error}", file=sys.stderr)
        return 1
    return 0


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main())
