"""A process that reconciles until SIGTERM or SIGINT, as `joingate reconcile` does: each status is a line of JSON."""

import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from joingate_processors.reconciler import Policy, ReconcilerSettings, ReconcilerStatus, run_reconciler


def _end_with_parent() -> None:
    """Standard input is a pipe that only the test holds: its end is the test's."""
    sys.stdin.read()
    os._exit(1)


def main(given: str) -> None:
    """`given` is the settings as JSON, the policy's inside."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    fields = json.loads(given)
    policy = Policy(**fields.pop("policy"))
    settings = ReconcilerSettings(**{**fields, "state_dir": Path(fields["state_dir"])}, policy=policy)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())

    def told(status: ReconcilerStatus) -> None:
        print(json.dumps(dataclasses.asdict(status)), flush=True)

    run_reconciler(settings, stop, told)


if __name__ == "__main__":
    main(sys.argv[1])
