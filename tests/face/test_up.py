"""`joingate up`: it needs a broker and says so, stops cleanly, and does not go on without one of its processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from joingate.local_kafka import compose_file

from .conftest import end, is_running, start_up, wait_until


def test_without_java_engine_or_address_it_is_one_sentence(tmp_path: Path) -> None:
    """On a machine with nothing to run Kafka with, it says what to install, and exits with 1."""
    environment = {name: value for name, value in os.environ.items() if name not in ("BOOTSTRAP_SERVERS", "JAVA_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "joingate", "up", "--once"],
        # A path with nothing on it: neither Java nor Maven nor an engine is found.
        env={**environment, "PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (sentence,) = done.stderr.strip().splitlines()
    assert "BOOTSTRAP_SERVERS" in sentence
    assert "Java" in sentence
    assert "Docker" in sentence


def test_an_address_where_no_broker_answers_is_one_sentence() -> None:
    """It is named, and nothing else is tried in its place."""
    done = subprocess.run(
        [sys.executable, "-c", (
            "import joingate.local_kafka as k\n"
            "k.ensure_kafka.__defaults__ = (None, 0.5)\n"
            "from joingate.cli import main\nimport sys\nsys.argv = ['joingate', 'up', '--once']\nmain()"
        )],
        env={**os.environ, "BOOTSTRAP_SERVERS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "BOOTSTRAP_SERVERS is 127.0.0.1:1" in done.stderr.strip().splitlines()[-1]


def read_until(pipe: IO[str], kind: str) -> list[dict[str, Any]]:
    """Objects from the pipe, up to the first of this kind."""
    found = []
    for line in pipe:
        found.append(json.loads(line))
        if found[-1]["show"] == kind:
            return found
    raise AssertionError(f"it ended before any {kind}: {found[-5:]}")


def children_of(pid: int) -> list[int]:
    """The process ids of a process's children, and theirs."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        below = [child for child, of in parents if of == parent]
        found += below
        todo += below
    return found


@pytest.mark.broker
@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps to see processes")
def test_a_signal_stops_everything(bootstrap: str, topic_prefix: str, tmp_path: Path) -> None:
    """In the midst of the stories: no process, port or folder is left, and the exit code says that it was cut short."""
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path)}
    process = start_up("--json", "--once", environment=environment)
    try:
        assert process.stdout is not None
        read_until(process.stdout, "decision")
        pids = children_of(process.pid)
        assert len(pids) >= 5  # gate, API, reconciler, executors, bank
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60.0) == 130, rest
        assert "Traceback" not in rest
        assert [pid for pid in pids if is_running(pid)] == []
        assert list(tmp_path.glob("joingate-run-*/*.jsonl")) == []
    finally:
        end(process)


def start_up_with(story: str, *words: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """`joingate up` with a story of our own in place of the bundled ones: `story` is the body of its function."""
    code = (
        "import sys\nfrom joingate import up\nfrom joingate.cli import main\n"
        f"def tell(stage):\n    {story}\n"
        f"up.STORIES = (('ours', (tell,)),)\nsys.argv = ['joingate', 'up', '--json', *{list(words)!r}]\nmain()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


@pytest.mark.broker
@pytest.mark.parametrize(("held", "code"), [(True, 0), (False, 1)], ids=["it holds", "it does not"])
def test_one_round_ends_with_whether_everything_held(
    held: bool, code: int, bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """One expectation that fails is enough for exit code 1; what was found is told, and the logs are kept."""
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path)}
    story = f"stage.expect('it is done', True, 'so'); stage.expect('it is done once', {held}, 'this')"
    process = start_up_with(story, "--once", environment=environment)
    try:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(60.0) == code, said
        shown = [json.loads(line) for line in said.splitlines()]
        told = [(one["text"], one["held"], one["found"]) for one in shown if one["show"] == "expectation"]
        assert told == [("it is done", True, "so"), ("it is done once", held, "this")]
        assert bool(list(tmp_path.glob("joingate-run-*/gate.log"))) is not held
    finally:
        end(process)


@pytest.mark.broker
def test_what_goes_on_until_ctrl_c_is_ended_well_by_it(bootstrap: str, topic_prefix: str, tmp_path: Path) -> None:
    """Without --once a signal is how it ends, and no failure."""
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path)}
    process = start_up_with("stage.expect('it is done', True, '')", "--port", "0", environment=environment)
    try:
        assert process.stdout is not None
        read_until(process.stdout, "address")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60.0) == 0, rest
        assert "Traceback" not in rest
    finally:
        end(process)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps to see processes")
def test_it_goes_on_until_a_process_dies_and_says_which(bootstrap: str, topic_prefix: str, tmp_path: Path) -> None:
    """Without --once it prints its address and waits; a killed gate ends it with a sentence and 1, the port freed."""
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path)}
    process = start_up("--json", "--port", "0", environment=environment)
    try:
        assert process.stdout is not None
        address = read_until(process.stdout, "address")[-1]
        listed = subprocess.run(["ps", "-e", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        mine = children_of(process.pid)
        gates = [int(line.split()[0]) for line in listed.splitlines() if line.endswith("joingate gate --json")]
        (gate,) = [pid for pid in gates if pid in mine]
        os.kill(gate, signal.SIGKILL)
        rest = process.stdout.read()
        assert process.wait(60.0) == 1
        assert "The process `gate` was ended by SIGKILL" in rest
        wait_until(lambda: not any(is_running(pid) for pid in mine), what="all of it to end")
        port = urlsplit(address["api"]).port
        assert port is not None
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    finally:
        end(process)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("scarce", [True, False])
def test_an_arbiter_is_started_where_the_catalogue_has_something_for_it_to_decide_and_only_there(
    scarce: bool, bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """It is ready before anything is asked for, or the round would not have ended well."""
    text = (files("joingate_schemas") / "builtin.yaml").read_text(encoding="utf-8")
    assert "arbitrated" not in text
    if scarce:
        text = text.replace("fee: {mode: ONCE_EVER}", "fee: {mode: ONCE_EVER, arbitrated: true}")
    (tmp_path / "catalogue.yaml").write_text(text, encoding="utf-8")
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path),
                   "JOINGATE_CATALOGUE": str(tmp_path / "catalogue.yaml")}  # fmt: skip
    process = start_up_with("stage.expect('it is done', True, '')", "--once", environment=environment)
    try:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(60.0) == 0, said
        assert ("starting the arbiter" in said) is scarce
    finally:
        end(process)


@pytest.mark.broker
@pytest.mark.slow
def test_where_the_catalogue_has_something_scarce_the_arbiter_runs_too_and_the_stories_hold(
    bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Each window and fee is granted before anything is done with it, and given back; nothing else changes."""
    scarce = (files("joingate_schemas") / "builtin.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("window: {mode: EXCLUSIVE}", "window: {mode: EXCLUSIVE, arbitrated: true, lease: 5m}"),
        ("fee: {mode: ONCE_EVER}", "fee: {mode: ONCE_EVER, arbitrated: true}"),
        ("permit: 30s", "permit: 5s"), ("in_flight_max: 60s", "in_flight_max: 1s"),
        ("in_flight_max: 30s", "in_flight_max: 1s"), ("[IDEMPOTENT_KEY, LOOKUP]", "[LOOKUP, IDEMPOTENT_KEY]"),
    ):  # fmt: skip
        scarce = scarce.replace(old, new)
    assert scarce.count("arbitrated: true") == 2
    (tmp_path / "scarce.yaml").write_text(scarce, encoding="utf-8")
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "TMPDIR": str(tmp_path),
                   "JOINGATE_CATALOGUE": str(tmp_path / "scarce.yaml")}  # fmt: skip
    process = start_up("--json", "--once", environment=environment)
    try:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(60.0) == 0, said[-2_000:]
        assert "starting the arbiter" in said
    finally:
        end(process)


def test_the_compose_file_runs_commands_that_the_command_line_has(joingate: Any) -> None:
    """With options that they take."""
    import yaml

    for name, service in yaml.safe_load(compose_file().read_text())["services"].items():
        if "command" in service:
            assert joingate(*service["command"], "--help").code == 0, name
