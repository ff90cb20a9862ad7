"""The room for `State` on disk: RocksDB under a bounded cache, with the partition's own position in each write batch.

Changes of the running transaction lie in memory until `commit`, which writes them and the position at once, or `drop`.
RocksDB's write-ahead log is off: after a crash the store opens at an older commit, rows and position together, and
what is missing comes again from Kafka (restore.py). So the store can lag behind the ledger; it can never lead it.

Tables, indexes and deadlines by themselves are in tables.py.
"""

import hashlib
import logging
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from joingate_processors.gate.tables import (
    INDEX_TAGS,
    TABLE_TAGS,
    Change,
    RocksIndex,
    RocksTable,
    RocksTimers,
    TimedRocksTable,
    row_fields,
    scan,
)
from joingate_processors.law.archived import Archive
from joingate_processors.law.arrival import Due
from joingate_processors.law.belongings import prefix_of
from joingate_processors.law.memory import due_of
from joingate_processors.law.state import (
    INDEXES,
    TABLES,
    TIMED_TABLES,
    Commitment,
    Condition,
    Custody,
    Debt,
    GoalNews,
    Header,
    Hold,
    Index,
    Intent,
    Operation,
    Orphan,
    Owner,
    PlanRow,
    PrincipalKey,
    Quarantine,
    Seen,
    StandingApproval,
    Step,
    Table,
)

log = logging.getLogger("joingate.gate")

# Raised when rows of the same fields come to mean something else: every store and changelog is then made anew.
STATE_FORMAT: Final = 2
# Rows that are hardly ever asked for again: kept in the cache, they would only push others out.
_UNCACHED: Final = ("seen", "holds")
_WRITTEN_ONCE: Final = "seen"
_POSITION: Final = b"\x00position"
_FOREVER: Final = 1 << 63
_BATCH_MAX: Final = 10_000


def state_layout() -> str:
    """A digest of how rows look: a store or changelog of another layout is rebuilt from the ledger, not guessed at."""
    fields = {name: row_fields(name) for name in TABLES}
    return hashlib.sha256(orjson.dumps([STATE_FORMAT, fields, INDEXES], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a store, or a changelog marker, has come.

    `seq` and `epoch` are those of the last ledger record folded in. `inputs` maps an intake topic's short name to the
    next offset to read; `ledger_offset` and `changelog_offset` are lower bounds from which to read on. `marker` counts
    the transactions that reached the changelog.
    """

    seq: int = 0
    epoch: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    ledger_offset: int = 0
    changelog_offset: int = 0
    marker: int = 0
    layout: str = ""

    def to_bytes(self) -> bytes:
        """Itself as JSON."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, value: bytes) -> "Position":
        """The position that `to_bytes` wrote. Raises ValueError or TypeError if it is none."""
        return cls(**orjson.loads(value))


class RocksState:
    """Everything that one partition remembers, on disk. One process at a time may have it open.

    A transaction is: puts, deletes, adds and removes, then `changes` (what goes to the changelog), then `commit` or
    `drop`. Between `changes` and those two nothing may be read or changed.
    """

    __slots__ = (
        *TABLES, *INDEXES, "_asked", "_asked_once", "_batch", "_cache_rows", "_db", "_indexes", "_path", "_tables",
        "_timed", "_timers", "_write_options", "forgotten_once", "position",
    )  # fmt: skip

    def __init__(self, path: Path, cache_rows: int = 200_000) -> None:
        """Open or make the store in the directory `path`, holding up to `cache_rows` decoded rows between transactions.

        Raises `StoreError` if RocksDB can't open it, as when another process has it open.
        """
        self._path = path
        self._cache_rows = cache_rows
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[assignment, method-assign]  # a property, whatever its stub says
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(path), _options())
        except Exception as error:
            raise StoreError(f"The store {path} does not open: {error}") from error
        self._make_tables()
        self.position = self._read_position()

    def _make_tables(self) -> None:
        db = self._db
        self._timers = RocksTimers(db)
        self.header: Table[Header] = RocksTable("header", db)
        self.intents: Table[Intent] = RocksTable("intents", db)
        self.plans: Table[PlanRow] = TimedRocksTable("plans", db, self._timers)
        self.steps: Table[Step] = RocksTable("steps", db)
        self.operations: Table[Operation] = TimedRocksTable("operations", db, self._timers)
        self.commitments: Table[Commitment] = TimedRocksTable("commitments", db, self._timers)
        self.custodies: Table[Custody] = TimedRocksTable("custodies", db, self._timers)
        self.owners: Table[Owner] = TimedRocksTable("owners", db, self._timers)
        self.conditions: Table[Condition] = RocksTable("conditions", db)
        self.goals: Table[GoalNews] = RocksTable("goals", db)
        self.debts: Table[Debt] = RocksTable("debts", db)
        self.seen: Table[Seen] = RocksTable("seen", db)
        self.quarantines: Table[Quarantine] = RocksTable("quarantines", db)
        self.holds: Table[Hold] = RocksTable("holds", db)
        self.orphans: Table[Orphan] = RocksTable("orphans", db)
        self.archives: Table[Archive] = TimedRocksTable("archives", db, self._timers)
        self.catalogues: Table[str] = RocksTable("catalogues", db)
        self.protocols: Table[str] = RocksTable("protocols", db)
        self.keys: Table[PrincipalKey] = RocksTable("keys", db)
        self.approvals: Table[StandingApproval] = RocksTable("approvals", db)
        self.open_operations: Index = RocksIndex("open_operations", db)
        self.unclaimed_operations: Index = RocksIndex("unclaimed_operations", db)
        self.open_commitments: Index = RocksIndex("open_commitments", db)
        self.owned_commitments: Index = RocksIndex("owned_commitments", db)
        self.scoped_quarantines: Index = RocksIndex("scoped_quarantines", db)
        self.backlogs: Index = RocksIndex("backlogs", db)
        self._tables: dict[str, RocksTable[object]] = {name: getattr(self, name) for name in TABLES}
        self._indexes: dict[str, RocksIndex] = {name: getattr(self, name) for name in INDEXES}
        self._timed: dict[str, TimedRocksTable[object]] = {name: getattr(self, name) for name in TIMED_TABLES}
        self._new_batch()

    def _new_batch(self) -> None:
        self._batch = WriteBatch(raw_mode=True)  # what this transaction writes, as far as it was asked for
        self._asked = self._asked_once = False
        self.forgotten_once = 0  # rows of `written_once` that this transaction deletes, as far as it was asked for

    def _read_position(self) -> Position:
        value = self._db.get(_POSITION)
        return Position(layout=state_layout()) if value is None else Position.from_bytes(value)

    # --- transactions

    def changes(self) -> Iterator[Change]:
        """This transaction's changes of rows and indexes, each key once, but for those in `written_once`.

        To be read to the end, once. Each is encoded as it is asked for and goes into RocksDB's batch at the same time,
        so that no list of them is ever held.
        """
        assert not self._asked, "the changes of a transaction are asked for once"
        self._asked = True
        for name, table in self._tables.items():
            if name != _WRITTEN_ONCE:
                yield from table.changes(self._batch)
        for index in self._indexes.values():
            yield from index.changes(self._batch)

    def written_once(self) -> Iterator[tuple[bytes, bytes]]:
        """This transaction's new rows of the table whose rows are never changed: one a claim.

        To be read to the end, once, like `changes`. Which of them are deleted is not told: the row of their archived
        intent says so (`drop_archived`), and `forgotten_once` how many they are.
        """
        assert not self._asked_once, "the changes of a transaction are asked for once"
        self._asked_once = True
        for key, value in self._tables[_WRITTEN_ONCE].changes(self._batch):
            if value is None:
                self.forgotten_once += 1
            else:
                yield key, value

    def commit(self, position: Position) -> None:
        """Write this transaction's changes and `position`, all or nothing.

        Raises `StoreError` if the disk does not take it; the store must then be closed.
        """
        if not self._asked:
            deque(self.changes(), maxlen=0)
        if not self._asked_once:
            deque(self.written_once(), maxlen=0)
        self._write(self._batch, position)
        self._new_batch()
        cached = 0
        for name, table in self._tables.items():
            table.committed()
            if name in _UNCACHED:
                table.clear()
            cached += table.cached
        for index in self._indexes.values():
            index.committed()
        if cached > self._cache_rows // 2:
            for table in self._tables.values():
                table.rotate()

    def _write(self, batch: WriteBatch, position: Position) -> None:
        batch.put(_POSITION, position.to_bytes())
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise StoreError(f"The store {self._path} could not be written: {error}") from error
        self.position = position

    def drop(self) -> None:
        """Forget this transaction's changes."""
        for table in self._tables.values():
            table.drop()
        for index in self._indexes.values():
            index.drop()
        self._new_batch()

    # --- timers

    def due(self, now: int, limit: int) -> list[Due]:
        """Up to `limit` rows whose deadline is at or before `now` (ms), earliest first, then by kind and key."""
        found: list[Due] = []
        touched = {
            (TIMED_TABLES[name], key): row
            for name, table in self._timed.items()
            for key, row in table.touched().items()
        }
        for due in self._timers.scan():
            if due.due_at > now or len(found) == limit:
                break
            if (due.subject_kind, due.key) not in touched:
                found.append(due)
        for (kind, key), row in touched.items():
            changed = due_of(kind, key, row)
            if changed is not None and changed.due_at <= now:
                found.append(changed)
        return sorted(found)[:limit]

    def next_due(self) -> int | None:
        """The earliest deadline (ms) that anything waits for, or None."""
        found = self.due(_FOREVER, 1)
        return found[0].due_at if found else None

    # --- the whole

    def apply(self, changes: Iterable[Change], position: Position) -> None:
        """Write rows of a changelog, in order, with the timers that follow from them. Only between transactions.

        Raises `StoreError` like `commit`.
        """
        batch = WriteBatch(raw_mode=True)
        timed = {TABLE_TAGS[name]: table for name, table in self._timed.items()}
        for key, value in dict(changes).items():  # the latest of each key: the timers look at what is written
            if key[:1] in timed:
                timed[key[:1]].apply(key[1:].decode(), value, batch)
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._write(batch, position)
        for table in self._tables.values():
            table.clear()

    def drop_archived(self) -> int:
        """Delete the claims of archived intents that came back with a changelog's packs, and return how many.

        Packs are never changed, so they hold what was forgotten since too. Only between transactions; raises
        `StoreError` like `commit`.
        """
        batch, dropped = WriteBatch(raw_mode=True), 0
        archives, seen = self._tables["archives"], self._tables[_WRITTEN_ONCE]
        for _, value in scan(self._db, TABLE_TAGS["archives"]):
            row = archives.decode(value)
            assert isinstance(row, Archive), "the table holds nothing else"
            if row.archived_at is None or not row.swept:
                continue
            prefix = TABLE_TAGS[_WRITTEN_ONCE] + prefix_of(row.intent_id).encode()
            for claim_id, kept in scan(self._db, prefix):
                if claim_id > row.swept.encode():
                    break
                claim = seen.decode(kept)
                assert isinstance(claim, Seen), "the table holds nothing else"
                if claim.seq < row.archived_seq:
                    batch.delete(prefix + claim_id)
                    dropped += 1
            if len(batch) > _BATCH_MAX:
                self._write(batch, self.position)
                batch = WriteBatch(raw_mode=True)
        self._write(batch, self.position)
        self._tables[_WRITTEN_ONCE].clear()
        return dropped

    def rows(self, table: str) -> list[tuple[str, object]]:
        """Every row of the table of that name with its key, sorted by key; this transaction's changes too."""
        asked = self._tables[table]
        rows: dict[str, object] = {k.decode(): asked.decode(v) for k, v in scan(self._db, TABLE_TAGS[table])}
        rows.update(asked.touched())
        return sorted((key, row) for key, row in rows.items() if row is not None)

    def entries(self, index: str) -> list[tuple[str, str]]:
        """Every (owner, member) of the index of that name, sorted; this transaction's changes too."""
        return self._indexes[index].entries()

    def everything(self) -> Iterator[Change]:
        """Every row and every member that is committed: with `everything_once`, what a changelog must hold."""
        for name, tag in {**TABLE_TAGS, **INDEX_TAGS}.items():
            if name != _WRITTEN_ONCE:
                yield from ((tag + key, value) for key, value in scan(self._db, tag))

    def everything_once(self) -> Iterator[tuple[bytes, bytes]]:
        """Every committed row of the table whose rows are never changed."""
        tag = TABLE_TAGS[_WRITTEN_ONCE]
        return ((tag + key, value) for key, value in scan(self._db, tag))

    def holds_key(self, key: bytes) -> bool:
        """Whether a row or member of that key, as in a change, is committed."""
        return self._db.get(key) is not None

    def flush(self) -> None:
        """Bring what was committed so far to the disk, so that a crash after this costs no restoring of it."""
        self._db.flush()

    def wipe(self) -> None:
        """Delete everything and begin anew, empty, at position 0. Only between transactions."""
        self._db.close()
        shutil.rmtree(self._path)
        self._db = Rdict(str(self._path), _options())
        self._make_tables()
        self.position = self._read_position()

    def close(self) -> None:
        """Flush and let go of the files. A disk that does not take it costs no more than restoring."""
        try:
            self._db.close()
        except Exception as error:
            log.warning("The store %s could not be flushed when it was closed: %s.", self._path, error)


class StoreError(RuntimeError):
    """The disk or RocksDB refused; the text says where and why. Nothing is lost: the ledger has it."""


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # Small tables in memory are quick to search and bound how much a crash makes us restore. Most look-ups ask for
    # rows that don't exist: both filters answer those without a search.
    options.set_write_buffer_size(16 << 20)
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_memtable_whole_key_filtering(True)
    options.set_allow_concurrent_memtable_write(False)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(Cache(64 << 20))
    blocks.set_format_version(5)
    options.set_block_based_table_factory(blocks)
    return options
