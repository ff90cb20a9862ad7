"""An arbiter in a process of its own, so that a test can kill it: `arbiter_process.py SETTINGS`, a JSON object.

`crash` in it names a step: the process kills itself, as `kill -9` would, at that step of its first transaction.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from joingate_processors.arbiter.partition import ArbiterPartition
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.arbiter.worker import run_arbiter
from joingate_processors.gate.transactions import Writer

# What runs right at the crash, and whether the crash comes before or after it.
STEPS: dict[str, tuple[type, str, bool]] = {
    "messages heard": (ArbiterPartition, "decide", True),
    "records handed over": (Writer, "commit", True),
    "positions sent": (Writer, "end", True),
    "committed in Kafka": (Writer, "end", False),
}


def crash_at(step: str) -> None:
    """Have this process die at `step` of its first transaction."""
    cls, method, before = STEPS[step]
    original: Callable[..., Any] = getattr(cls, method)

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        if not before:
            original(self, *arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(cls, method, dying)


def main() -> None:
    asked = json.loads(sys.argv[1])
    if "crash" in asked:
        crash_at(asked.pop("crash"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_arbiter(ArbiterSettings(**asked), stop)


if __name__ == "__main__":
    main()
