"""The gate in a process of its own, until its ledger holds so many decisions."""

import multiprocessing
import threading
from pathlib import Path

from benchmarks import work
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.status import GateStatus
from joingate_processors.gate.worker import run_gate

TIMEOUT_S = 180


def _gate(bootstrap: str, prefix: str, data: Path, decisions: int) -> None:
    stop = threading.Event()

    def on_status(status: GateStatus) -> None:
        if any(one["seq"] >= decisions for one in status["partitions"].values()):
            stop.set()

    settings = GateSettings(
        bootstrap_servers=bootstrap, data_dir=data, catalogue=work.catalogue(), prefix=prefix, partitions=1
    )
    run_gate(settings, stop, on_status)


def run_gate_until(bootstrap: str, prefix: str, data: Path, decisions: int) -> None:
    """Run a gate over the one partition of `prefix` until its ledger ends at `decisions`. Raises RuntimeError."""
    process = multiprocessing.get_context("spawn").Process(target=_gate, args=(bootstrap, prefix, data, decisions))
    process.start()
    process.join(TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()
        raise RuntimeError(f"The gate did not decide {decisions} claims within {TIMEOUT_S} s.")
    if process.exitcode:
        raise RuntimeError(f"The gate ended with status {process.exitcode}.")
