"""A gate in a process of its own, so that a test can kill it: `gate_process.py SETTINGS`, a JSON object.

`crash` in it is [step, n]: the process kills itself, as `kill -9` would, at that step of its n-th transaction.
`windows`: the catalogue is that of reservations, else that of refunds; `keeping`: that one, with a short retention.
"""

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from rocksdict import DBCompressionType, Options

from joingate_processors.gate import store
from joingate_processors.gate.docket import Docket
from joingate_processors.gate.partition import Partition
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.store import RocksState
from joingate_processors.gate.transactions import Writer
from joingate_processors.gate.worker import run_gate
from joingate_schemas.catalogue import Action, Catalogue, Downstream
from joingate_schemas.catalogue_file import catalogue_from_text

# What runs right before the crash, and whether the crash comes before or after it.
STEPS: dict[str, tuple[type, str, bool]] = {
    "amid a batch, its positions on their way": (Docket, "_follow", True),
    "deciding": (Partition, "_commit", True),
    "changelog handed over": (Writer, "commit", True),
    "positions sent": (Writer, "end", True),
    "committed in Kafka": (RocksState, "commit", True),
    "committed in the store": (RocksState, "commit", False),
}


def crash_at(step: str, count: int) -> None:
    """Have this process die at `step` of its `count`-th transaction."""
    cls, method, before = STEPS[step]
    original: Callable[..., Any] = getattr(cls, method)
    left = [count]

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if before and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, *arguments, **named)
        if not before and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(cls, method, dying)


def catalogue(version: str = "1", silence_ms: int = 600_000) -> Catalogue:
    """A bank that knows keys and look-ups, and a teller that refunds in one phase."""
    bank = Downstream("bank", ("IDEMPOTENT_KEY", "LOOKUP"))
    refund = Action("refund", "bank", "REVERSIBLE", "COMPENSATABLE", "teller", silence_ms=silence_ms)
    return Catalogue(version, f"digest-{version}", b"{}", {"bank": bank}, {"refund": refund})


def windows() -> Catalogue:
    """The built-in catalogue with times that a test can wait for: a permit lasts 4 s, what is under way 1 s."""
    text = (files("joingate_schemas") / "builtin.yaml").read_text("utf-8")
    for slow, quick in (("permit: 30s", "permit: 4s"), ("in_flight_max: 60s", "in_flight_max: 1s")):
        text = text.replace(slow, quick)
    return catalogue_from_text(text)


def keeping() -> Catalogue:
    """Refunds that are archived a second after their intent was closed."""
    return catalogue_from_text(
        """
version: "1"
retention: 1s
downstreams:
  bank: {capabilities: [IDEMPOTENT_KEY, LOOKUP]}
actions:
  refund: {downstream: bank, effect: REVERSIBLE, kind: RETRYABLE, executor: teller}
"""
    )


def fill_disk_at(file_bytes: int) -> None:
    """Have no file of this process grow beyond `file_bytes`, as on a full disk, and the store write early.

    SIGUSR1 makes room.
    """
    make_options = store._options

    def small() -> Options:
        options = make_options()
        options.set_write_buffer_size(65_536)
        options.set_compression_type(DBCompressionType.none())
        return options

    store._options = small
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, most))
    signal.signal(signal.SIGUSR1, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))


def main() -> None:
    asked = json.loads(sys.argv[1])
    if "file_bytes_max" in asked:
        fill_disk_at(asked.pop("file_bytes_max"))
    if "crash" in asked:
        crash_at(*asked.pop("crash"))
    asked["data_dir"] = Path(asked["data_dir"])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    declared = windows() if asked.pop("windows", False) else keeping() if asked.pop("keeping", False) else catalogue()
    run_gate(GateSettings(catalogue=declared, **asked), stop)


if __name__ == "__main__":
    main()
