"""The bank's ledger file: append-only, fsynced before anyone is told, replayed at start.

One JSON object a line. A line counts once its newline is on disk, so a process killed in the middle of a write
leaves at most one line without a newline. Nobody was ever told about that line, hence it is cut off at the next
start, and the cut is reported. Any other damage is not ours to repair: the bank refuses to open.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class EntryKind(StrEnum):
    """What a ledger line records."""

    EFFECT = "EFFECT"
    """Something was done."""
    REFUSAL = "REFUSAL"
    """Something was asked and definitively refused; its key stays refused."""
    TOMBSTONE = "TOMBSTONE"
    """The key is refused from now on, whatever is asked with it."""
    KEY_FORGOTTEN = "KEY_FORGOTTEN"
    """The key of an earlier effect is no longer recognised; the effect itself stands."""


class LedgerDamaged(Exception):
    """The ledger holds something that no interrupted write can explain, so it is not opened."""


class LedgerBusy(Exception):
    """Another process has the ledger open; two writers would interleave their lines."""


class LedgerBroken(Exception):
    """A write or fsync failed earlier, so what is on disk is no longer known; restart the bank."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One ledger line. `amount` is signed (credit above zero), in currency units; `seq` counts from 1."""

    seq: int
    kind: EntryKind
    external_id: str
    key: str | None
    action: str
    at: datetime
    arguments: Mapping[str, Any] = field(default_factory=dict)
    account: str | None = None
    amount: Decimal | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None

    def to_line(self) -> bytes:
        """The entry as the bytes of its line, newline included."""
        row = {
            "seq": self.seq,
            "kind": self.kind.value,
            "external_id": self.external_id,
            "key": self.key,
            "action": self.action,
            "at": self.at.isoformat(),
            "arguments": dict(self.arguments),
            "account": self.account,
            "amount": None if self.amount is None else str(self.amount),
            "result": dict(self.result),
            "refused": self.refused,
        }
        # A NaN would be written as something that is not JSON and could not be read back by others.
        return json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read a line back. Raises ValueError or KeyError when it is not one of ours."""
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        return cls(
            seq=int(row["seq"]),
            kind=EntryKind(row["kind"]),
            external_id=str(row["external_id"]),
            key=row["key"],
            action=str(row["action"]),
            at=datetime.fromisoformat(row["at"]),
            arguments=row["arguments"],
            account=row["account"],
            amount=None if row["amount"] is None else Decimal(row["amount"]),
            result=row["result"],
            refused=row["refused"],
        )


class Ledger:
    """The open ledger file of one bank process.

    `repaired` is None, or a sentence that says what was cut off at opening.
    Raises LedgerBusy and LedgerDamaged when it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repaired: str | None = None
        self._broken = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            # A new file exists for certain only when its directory entry is on disk as well.
            _sync_directory(path.parent)
            self._entries = list(self._replay())
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def append(self, entry: Entry) -> None:
        """Put `entry` on disk and only then in memory. Raises LedgerBroken if the disk did not take it."""
        if self._broken:
            raise LedgerBroken(f"{self.path.name}: an earlier write failed; restart the bank to see what was kept")
        if entry.seq != len(self._entries) + 1:
            raise ValueError(f"entry {entry.seq} cannot follow entry {len(self._entries)}")
        line = entry.to_line()
        try:
            _write_all(self._fd, line)
            os.fsync(self._fd)
        except OSError as error:
            # After a failed fsync the page cache may claim what the disk lacks: only a fresh replay can tell.
            self._broken = True
            raise LedgerBroken(f"{self.path.name}: {error}") from error
        self._entries.append(entry)

    def close(self) -> None:
        """Close the file and give up its lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LedgerBusy(f"{self.path.name} is open in another bank process") from error

    def _replay(self) -> Iterator[Entry]:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._cut(whole, len(content) - whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            yield self._read(number, line)

    def _cut(self, keep_bytes: int, torn_bytes: int) -> None:
        os.ftruncate(self._fd, keep_bytes)
        os.fsync(self._fd)
        self.repaired = f"{self.path.name}: cut {torn_bytes} bytes of a torn last line that nobody was told about"

    def _read(self, number: int, line: bytes) -> Entry:
        try:
            entry = Entry.from_line(line)
        except (ValueError, KeyError, TypeError, ArithmeticError) as error:
            raise LedgerDamaged(f"{self.path.name} line {number} cannot be read: {error!r}") from error
        if entry.seq != number:
            raise LedgerDamaged(f"{self.path.name} line {number} says that it is entry {entry.seq}")
        return entry


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
