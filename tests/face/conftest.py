"""What the face's tests share: the command line in this process, and a live stack of real processes on a broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from joingate import deployment
from joingate.cli import app
from joingate.processes import Crew
from joingate.scenarios.world import demo_catalogue
from joingate.settings import load_settings

READY_S_MAX = 90.0


@dataclass
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Its output as JSON objects."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """What it complained of: exactly one line."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


Joingate = Callable[..., Said]


@pytest.fixture
def joingate(monkeypatch: pytest.MonkeyPatch) -> Joingate:
    """Runs a command line in this process, with `environment` over this process's own."""

    def run(*words: object, environment: Mapping[str, str] | None = None) -> Said:
        result = CliRunner().invoke(app, [str(word) for word in words], env=dict(environment or {}))
        return Said(result.exit_code, result.stdout, result.stderr)

    return run


def wait_until(look: Callable[[], object], limit_s: float = 30.0, what: str = "it") -> Any:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.05)
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")


@dataclass
class Stack:
    """A gate and an API on topics of their own; `environment` is what a client needs to know."""

    environment: dict[str, str]
    crew: Crew
    api_url: str
    folder: Path


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Gate and API as processes, under the catalogue that `up` uses."""
    folder = tmp_path_factory.mktemp("stack")
    prefix = f"t-{uuid.uuid4().hex[:12]}."
    environment = {
        "BOOTSTRAP_SERVERS": bootstrap,
        "JOINGATE_PREFIX": prefix,
        "JOINGATE_DATA_DIR": str(folder),
        "JOINGATE_STATE_DIR": str(folder / "client"),
        "JOINGATE_CATALOGUE": "demo",
    }
    settings = load_settings(bootstrap_servers=bootstrap, prefix=prefix)
    deployment.create_topics(settings, demo_catalogue())
    crew = Crew(folder)
    try:
        serve = crew.start("serve", ["serve", "--port", "0"], environment)
        gate = crew.start("gate", ["gate"], environment)
        api_url = str(crew.wait_ready(serve, READY_S_MAX, lambda: False)["url"])
        crew.wait_ready(gate, READY_S_MAX, lambda: False)
        yield Stack({**environment, "JOINGATE_API_URL": api_url}, crew, api_url, folder)
        crew.check()
    finally:
        crew.stop()


def start_up(*words: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """`joingate up` as a process of its own, its output in one pipe."""
    # The tests' own PYTHONPATH, if any, is how they find the packages; the child needs it too.
    return subprocess.Popen(
        [sys.executable, "-m", "joingate", "up", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a process that a test started, whatever state it is in."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
