"""An executor of the cloud in a process of its own: `reserving_process.py SETTINGS`, a JSON object.

`books` in it is the file that is the cloud: one line a reservation or release, each with the key it was made under.
`dies_after` names the action after whose effect the process kills itself, before anybody hears of it; `times_out_on`
one that takes effect and is never answered; `waits_for` a file: until it is there, nothing is answered.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from joingate_producers import Applied, Connection, Executor, Outcome
from joingate_schemas.decisions import Command


def main() -> None:
    asked = json.loads(sys.argv[1])
    books, dies_after = Path(asked.pop("books")), asked.pop("dies_after", "")
    times_out_on, waits_for = asked.pop("times_out_on", ""), asked.pop("waits_for", "")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def act(command: Command) -> Outcome:
        with books.open("a") as file:
            file.write(f"{command.action} {command.operation_id}\n")
            file.flush()
            os.fsync(file.fileno())
        if command.action == dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if command.action == times_out_on:
            raise TimeoutError("the cloud did not answer in time")
        while waits_for and not Path(waits_for).exists() and not stop.is_set():
            time.sleep(0.05)
        return Applied(external_id=f"cloud-{command.operation_id[:8]}", evidence=["the cloud's own books"])

    with Connection(**asked) as connection:
        executor = Executor(connection, name="cloud", worker=f"pid-{os.getpid()}")
        executor.serve({"reserve_window": act, "release_window": act}, stop)


if __name__ == "__main__":
    main()
