"""What every test may ask for: one real Kafka for the whole run, shared by all xdist workers, and names of its own.

The broker starts when a first test asks for it. It belongs to a holder process (`python -m joingate.local_kafka`) and
not to the worker that came first, since that worker may crash or finish while others still test. The holder ends when
the run does: pytest's main process, which outlives its workers, stops it by its process id; should the whole run be
killed, the holder sees that the main process is gone, and stops by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from joingate.local_kafka import KafkaUnavailableError, ensure_kafka, file_lock, is_answering

_SHARED = pytest.StashKey[Path]()
_HOLDER = pytest.StashKey["subprocess.Popen[str]"]()
HOLDER_STOP_DEADLINE_S = 30.0


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """The main process makes the folder in which all workers find the broker."""
    if _is_worker(config):
        config.stash[_SHARED] = Path(config.workerinput["joingate_shared"])  # type: ignore[attr-defined]
    else:
        config.stash[_SHARED] = Path(tempfile.mkdtemp(prefix="joingate-tests-"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist's hook: tell a new worker where that folder is, and who the main process is."""
    node.workerinput["joingate_shared"] = str(node.config.stash[_SHARED])
    node.workerinput["joingate_main_pid"] = os.getpid()


def pytest_unconfigure(config: pytest.Config) -> None:
    """The main process comes last here, and stops what the workers shared."""
    if _is_worker(config) or _SHARED not in config.stash:
        return
    shared = config.stash[_SHARED]
    if (shared / "broker.json").exists():
        _stop_holder(config, int(json.loads((shared / "broker.json").read_text())["pid"]))
    shutil.rmtree(shared, ignore_errors=True)


def _stop_holder(config: pytest.Config, pid: int) -> None:
    """Ask the holder to stop, and wait until it has let go of its lock, which is the last thing that it does."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    if _HOLDER in config.stash:  # Our own child, since no xdist was in between: also reap it.
        config.stash[_HOLDER].wait(timeout=HOLDER_STOP_DEADLINE_S)
        return
    with file_lock(config.stash[_SHARED] / "alive.lock"):
        pass


def _hold_broker(config: pytest.Config) -> dict[str, Any]:
    """Start the holder and wait until it names its broker."""
    shared = config.stash[_SHARED]
    main_pid = config.workerinput["joingate_main_pid"] if _is_worker(config) else os.getpid()  # type: ignore[attr-defined]
    command = [sys.executable, "-m", "joingate.local_kafka"]
    with (shared / "holder.log").open("w") as log:
        holder = subprocess.Popen(
            [*command, "--while-pid", str(main_pid), "--lock", str(shared / "alive.lock")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert holder.stdout is not None
    address = holder.stdout.readline().strip()  # The line comes when the broker answers; the end of the pipe if never.
    if not address:
        holder.wait()
        return {"error": (shared / "holder.log").read_text().strip()}
    config.stash[_HOLDER] = holder
    return {"pid": holder.pid, "bootstrap": address}


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a Kafka that answers, the same one for every test of this run: BOOTSTRAP_SERVERS, or ours."""
    if os.environ.get("BOOTSTRAP_SERVERS"):
        try:
            return ensure_kafka().bootstrap_servers
        except KafkaUnavailableError as error:
            sentence = str(error)  # Failing in here would print it twice, as an error's cause and as the error.
        pytest.fail(sentence, pytrace=False)
    shared = request.config.stash[_SHARED]
    known = shared / "broker.json"
    with file_lock(shared / "broker.lock"):
        if not known.exists():
            held = _hold_broker(request.config)
            if "error" in held:
                pytest.fail(held["error"], pytrace=False)
            known.write_text(json.dumps(held))
        address = str(json.loads(known.read_text())["bootstrap"])
    if not is_answering(address, timeout_s=15.0):
        pytest.fail(f"The broker that these tests share, at {address}, does not answer any more.", pytrace=False)
    return address


@pytest.fixture
def topic_prefix() -> str:
    """A prefix for topic, group and transaction names that no other test has, since all share one broker."""
    return f"t-{uuid.uuid4().hex[:12]}."
