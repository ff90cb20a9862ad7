"""The room that reads what a gate says of itself: the status file in its data folder, and what is wrong in it.

The file is there for whoever stands beside the gate: a halted partition decides nothing, and so can't say it in the
ledger.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joingate.settings import Settings

SILENT_MS_MAX = 15_000
"""A gate writes its file about once a second; after this long it counts as gone."""
_HINDERED = ("HALTED", "STALLED")


@dataclass(frozen=True)
class GateReport:
    """A gate's own words. `problems` are sentences, empty while all is well; `partitions` is state by number.

    `fresh`: the gate wrote it a moment ago.
    """

    file: Path
    partitions: Mapping[str, str]
    problems: tuple[str, ...]
    halted: bool
    fresh: bool = True

    def row(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "known": True,
            "healthy": not self.problems,
            "halted": self.halted,
            "partitions": dict(self.partitions),
            "problems": list(self.problems),
            "file": str(self.file),
        }


def status_file(settings: Settings) -> Path:
    """Where the gate's status is looked for: JOINGATE_GATE_STATUS, else the gate's folder in the data folder."""
    return settings.gate_status or settings.data_dir / "gate" / "status.json"


def read_gate(file: Path, now_ms: int | None = None) -> GateReport | None:
    """What the file says; None where there is none. A file that can't be read as a status is a problem, told as one."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return GateReport(file, {}, (f"The gate's status {file} can't be read: {error.strerror}.",), False)
    try:
        status = json.loads(text)
        partitions: dict[str, Any] = status["partitions"]
        states = {number: str(one["state"]) for number, one in partitions.items()}
        silent_ms = (now_ms if now_ms is not None else time.time_ns() // 1_000_000) - int(status["at"])
        problems = tuple(_problems(file, status, silent_ms))
        fresh = bool(status["running"]) and silent_ms <= SILENT_MS_MAX
    except (ValueError, KeyError, TypeError, AttributeError):
        return GateReport(file, {}, (f"{file} is no status of a gate: set JOINGATE_GATE_STATUS to one.",), False)
    return GateReport(file, states, problems, "HALTED" in states.values(), fresh)


def _problems(file: Path, status: dict[str, Any], silent_ms: int) -> list[str]:
    found = [
        f"The gate's partition {number} is {one['state']}: {one['sentence'] or 'it gave no reason'}"
        for number, one in sorted(status["partitions"].items(), key=lambda pair: int(pair[0]))
        if one["state"] in _HINDERED
    ]
    elsewhere = f"Start `joingate gate`; if it runs elsewhere, name its status in JOINGATE_GATE_STATUS ({file} is old)."
    if not status["running"]:
        found.append(f"The gate has stopped. {elsewhere}")
    elif silent_ms > SILENT_MS_MAX:
        found.append(f"The gate was last heard of {silent_ms // 1000} s ago. {elsewhere}")
    elif status["sentence"]:
        found.append(f"The gate says: {status['sentence']}.")
    return found
