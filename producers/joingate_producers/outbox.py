"""The durable outbox: claims that must survive this process, and what an executor was about to do to the world.

It is an SQLite file from the standard library, rather than an append-only file of our own: its write-ahead log has
the checksums, the torn-tail recovery and the fsync per commit that we would have to write and prove, and one
transaction can end an effect and store its report, so that no crash falls between the two. It is opened in exclusive
locking mode, which makes the kernel's lock on it the one-process lock: it goes when the process goes, kill -9 included.

The order of things, and what each survives: `put` commits before the claim is sent (a crash after it: sent at the next
start); `delivered` deletes after the broker's confirmation (a crash before it: sent again with the same bytes and
claim id, and answered REPLAYED). `begin_effect` commits before the effect; `put(..., ends=...)` stores the report and
ends the effect at once.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from joingate_producers.errors import OutboxBroken, OutboxFull, OutboxInUse

SLOTS_MAX = 256
# Ended effects are remembered for longer than a broker would bring their commands again.
REMEMBER_ENDED_MS = 30 * 86_400_000

_TABLES = """
CREATE TABLE IF NOT EXISTS claims (
    number INTEGER PRIMARY KEY AUTOINCREMENT, claim_id TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    key BLOB NOT NULL, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS effects (
    operation_id TEXT NOT NULL, attempt INTEGER NOT NULL, intent_id TEXT NOT NULL, ended INTEGER NOT NULL,
    since_ms INTEGER NOT NULL, PRIMARY KEY (operation_id, attempt));
"""


class Kept(NamedTuple):
    """A claim in the outbox; `number` rises in the order of `put`."""

    number: int
    claim_id: str
    topic: str
    partition: int
    key: bytes
    value: bytes


class Effect(NamedTuple):
    """One attempt of an operation whose effect was begun here."""

    operation_id: str
    attempt: int
    intent_id: str


class Outbox:
    """An open outbox. All methods may be called from any thread; each returns when its change is on disk.

    Raises OutboxInUse if another process has it, OutboxBroken if the file is no outbox or the disk refuses.
    """

    def __init__(self, path: Path, claims_max: int = 10_000) -> None:
        """Open or create the outbox at `path`, for at most `claims_max` claims, begun effects included."""
        self.path = path
        self._claims_max = claims_max
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise OutboxBroken(f"The outbox {path} can't be opened: {error}.") from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._guarded():
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            # The first write takes the lock; exclusive mode keeps it until the file is closed.
            self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            oldest_ms = int(time.time() * 1000) - REMEMBER_ENDED_MS
            self._db.execute("DELETE FROM effects WHERE ended = 1 AND since_ms < ?", (oldest_ms,))
            (claims,) = self._db.execute("SELECT count(*) FROM claims").fetchone()
            (begun,) = self._db.execute("SELECT count(*) FROM effects WHERE ended = 0").fetchone()
        self._rows = int(claims) + int(begun)
        # Whatever is begun as the file is opened was begun by a process that is gone.
        self._left_behind = self._unreported()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One thread at a time, and SQLite's errors as ours."""
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise OutboxInUse(
                        f"The outbox {self.path} is open in another process: give each its own client id or outbox."
                    ) from error
                raise OutboxBroken(f"The outbox {self.path} can't be written: {error}.") from error
            except sqlite3.Error as error:
                raise OutboxBroken(f"The outbox {self.path} can't be used: {error}.") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # A full disk may fail the COMMIT, and SQLite may have rolled back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def __len__(self) -> int:
        """Claims that are kept, and effects that were begun and not ended."""
        return self._rows

    def _check_room(self) -> None:
        if self._rows >= self._claims_max:
            raise OutboxFull(
                f"The outbox {self.path} holds {self._rows} claims, which is all it may: "
                "bring the broker back, or raise outbox_claims_max."
            )

    # --- claims ------------------------------------------------------------------------------------------------------

    def put(
        self, claim_id: str, topic: str, partition: int, key: bytes, value: bytes, ends: tuple[str, int] | None = None
    ) -> int:
        """Keep a claim until `delivered`; returns its number. `ends` names the begun effect whose report it is.

        Raises OutboxFull, unless it reports an effect, whose place was reserved when it was begun.
        """
        with self._transaction():
            reserved = ends is not None and self._end(*ends)
            if not reserved:
                self._check_room()
            cursor = self._db.execute(
                "INSERT INTO claims (claim_id, topic, partition, key, value) VALUES (?, ?, ?, ?, ?)",
                (claim_id, topic, partition, key, value),
            )
            number = cursor.lastrowid
        assert number is not None, "an INSERT has a row id"
        self._rows += 0 if reserved else 1
        return number

    def delivered(self, number: int) -> None:
        """The broker has confirmed it: forget it."""
        with self._guarded():
            self._rows -= self._db.execute("DELETE FROM claims WHERE number = ?", (number,)).rowcount

    def kept(self) -> list[Kept]:
        """Every claim not known to be written, in the order in which they were put."""
        with self._guarded():
            return [Kept(*row) for row in self._db.execute("SELECT * FROM claims ORDER BY number")]

    # --- effects -----------------------------------------------------------------------------------------------------

    def begin_effect(self, effect: Effect) -> bool:
        """Note, durably, that the effect starts now. False if this attempt was begun before: then do not act.

        Raises OutboxFull when there would be no room for its report.
        """
        with self._transaction():
            if self._known(effect.operation_id, effect.attempt):
                return False
            self._check_room()
            self._note(effect, ended=False)
        self._rows += 1
        return True

    def surrender(self, effect: Effect) -> bool:
        """Note, durably, that this attempt will never be begun here. False if it was begun or surrendered before."""
        with self._transaction():
            if self._known(effect.operation_id, effect.attempt):
                return False
            self._note(effect, ended=True)
        return True

    def take_left_behind(self) -> list[Effect]:
        """Effects that processes which are gone began and never reported; each is handed out once."""
        with self._lock:
            taken, self._left_behind = self._left_behind, []
        return taken

    def _unreported(self) -> list[Effect]:
        with self._guarded():
            found = self._db.execute(
                "SELECT operation_id, attempt, intent_id FROM effects WHERE ended = 0 ORDER BY since_ms, operation_id"
            )
            return [Effect(*row) for row in found]

    def _known(self, operation_id: str, attempt: int) -> bool:
        found = self._db.execute(
            "SELECT 1 FROM effects WHERE operation_id = ? AND attempt = ?", (operation_id, attempt)
        )
        return found.fetchone() is not None

    def _note(self, effect: Effect, ended: bool) -> None:
        self._db.execute(
            "INSERT OR IGNORE INTO effects VALUES (?, ?, ?, ?, ?)",
            (effect.operation_id, effect.attempt, effect.intent_id, int(ended), int(time.time() * 1000)),
        )

    def _end(self, operation_id: str, attempt: int) -> bool:
        ended = self._db.execute(
            "UPDATE effects SET ended = 1 WHERE operation_id = ? AND attempt = ? AND ended = 0", (operation_id, attempt)
        )
        return ended.rowcount == 1

    # --- whole files -------------------------------------------------------------------------------------------------

    def adopt(self, other: "Outbox") -> None:
        """Take over everything that `other` holds. A crash on the way leaves a claim in both: it is then sent twice."""
        claims = other.kept()
        with other._guarded():
            effects = other._db.execute("SELECT * FROM effects").fetchall()
        with self._transaction():
            self._db.executemany(
                "INSERT INTO claims (claim_id, topic, partition, key, value) VALUES (?, ?, ?, ?, ?)",
                [claim[1:] for claim in claims],
            )
            self._db.executemany("INSERT OR IGNORE INTO effects VALUES (?, ?, ?, ?, ?)", effects)
        self._rows += len(other)
        self._left_behind += other.take_left_behind()
        with other._transaction():
            other._db.execute("DELETE FROM claims")
            other._db.execute("DELETE FROM effects")
        other._rows = 0

    def close(self) -> None:
        """Let go of the file. What it holds stays for the next one who opens it."""
        with self._lock:
            self._db.close()


def slot_paths(folder: Path, name: str) -> Sequence[Path]:
    """The outbox files of the clients called `name`, that exist."""
    return [path for number in range(SLOTS_MAX) if (path := _slot(folder, name, number)).exists()]


def _slot(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}.outbox"


def open_slot(folder: Path, name: str, claims_max: int = 10_000) -> Outbox:
    """The first outbox of this name that no living process has, with what dead ones left in the others taken over.

    So two processes with one client id do not get in each other's way, and a claim whose process never comes back is
    sent by the next one that starts.
    """
    mine: Outbox | None = None
    for number in range(SLOTS_MAX):
        path = _slot(folder, name, number)
        if mine is not None and not path.exists():
            continue
        try:
            found = Outbox(path, claims_max)
        except OutboxInUse:
            continue
        if mine is None:
            mine = found
        else:
            mine.adopt(found)
            found.close()
    if mine is None:
        raise OutboxInUse(f"All {SLOTS_MAX} outboxes called {name} in {folder} are open in other processes.")
    return mine
