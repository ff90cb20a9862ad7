"""The room for what the gate says of itself: one JSON object, to a callback and to a file that the CLI reads."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import orjson

from joingate_processors.gate.clock import wall_ms
from joingate_processors.gate.seat import SeatState

log = logging.getLogger("joingate.gate")


class PartitionStatus(TypedDict):
    """One partition: its state and a sentence on it, and how far it has come. `lag` counts intake offsets unread."""

    state: SeatState
    sentence: str
    since: int  # ms since the epoch
    seq: int
    epoch: int
    lag: int
    last_error: str
    stalled_ms: int  # 0 while it is not stalled
    producer_id: int | None  # of the transaction that stalls it, where the broker says


class GateStatus(TypedDict):
    """The whole worker. `sentence` is empty while all is well; partitions are keyed by their number as text."""

    group: str
    at: int  # ms since the epoch
    running: bool
    sentence: str
    partitions: dict[str, PartitionStatus]


OnStatus = Callable[[GateStatus], None]
STATUS_FILE = "status.json"


class StatusBoard:
    """Publishes the status when something in it changed, and otherwise once a second at most."""

    def __init__(self, group: str, data_dir: Path, on_status: OnStatus | None) -> None:
        self._group = group
        self._file = data_dir / STATUS_FILE
        self._on_status = on_status
        self._published_at = 0.0
        self._shown: object = None
        self._unwritable = False

    def show(self, partitions: dict[int, PartitionStatus], sentence: str, *, running: bool = True) -> None:
        """Publish, if it is time to."""
        key = (running, sentence, [(n, one["state"], one["sentence"]) for n, one in sorted(partitions.items())])
        now = time.monotonic()
        if key == self._shown and now - self._published_at < 1.0:
            return
        self._shown, self._published_at = key, now
        status: GateStatus = {
            "group": self._group,
            "at": wall_ms(),
            "running": running,
            "sentence": sentence,
            "partitions": {str(number): one for number, one in sorted(partitions.items())},
        }
        self._write(orjson.dumps(status, option=orjson.OPT_INDENT_2))
        if self._on_status is not None:
            self._on_status(status)

    def _write(self, text: bytes) -> None:
        """Replace the file in one step, so that nobody reads half of it. A full disk must not stop the gate here."""
        beside = self._file.with_suffix(".tmp")
        try:
            beside.write_bytes(text)
            os.replace(beside, self._file)
            self._unwritable = False
        except OSError as error:
            if not self._unwritable:
                log.warning("The status can't be written to %s: %s.", self._file, error)
            self._unwritable = True
