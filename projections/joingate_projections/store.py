"""The store of projections: rows, indexes, counts and ledger positions in one RocksDB, written in one batch.

A batch holds rows and the position that they are true at, so that whatever moment the process dies at, what is found
on opening is the replay of the ledger up to the stored position, and folding goes on from there. Everything here can
be had again from the ledger: a store that is damaged, or of another layout, is emptied and folded anew. The folder
name carries the layout's version, so that releases which fold differently can stand side by side.

One process writes. Any other may open the same store for reading meanwhile; it follows the writer batch by batch.
"""

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
from rocksdict import AccessType, Options, Rdict, RdictIter, WriteBatch

from joingate_projections.tables import TABLES, Row

LAYOUT_VERSION = 6
"""The version of tables, indexes and folding; raise it whenever the same ledger would give other rows."""

_ROW, _INDEX, _COUNT, _POSITION, _META, _STATUS = b"r", b"i", b"c", b"p", b"m", b"s"
_VERSION_KEY = _META + b"version"
_EVERYTHING = (b"", b"\xff")


class StoreError(Exception):
    """The store cannot be used; the message says which, why and what to do."""


@dataclass(frozen=True)
class Position:
    """How far a partition of a stream is folded: the last record's offset, and of the ledger its seq, epoch and hash.

    `digest` is the SHA-256 (hex) of the last record's value. `seq` is 0 where the stream has none.
    """

    stream: str
    partition: int
    offset: int
    seq: int
    epoch: int
    digest: str


def key_of(*parts: str) -> bytes:
    """Parts as sortable bytes, each ended by a zero; a zero within a part is escaped, so that parts cannot mix."""
    joined = "\0".join(parts) + "\0"
    if joined.count("\0") == len(parts):  # No zero within a part, as nearly always: one encoding for all of them.
        return joined.encode(errors="replace")
    return b"".join([part.encode(errors="replace").replace(b"\0", b"\0\xff") + b"\0" for part in parts])


@cache
def _row_prefix(table: str) -> bytes:
    return _ROW + key_of(table)


@cache
def _index_prefix(table: str, field: str) -> bytes:
    return _INDEX + key_of(table, field)


def parts_of(key: bytes) -> list[str]:
    """What `key_of` was given."""
    marked = key.replace(b"\0\xff", b"\xff")  # 0xff is in no UTF-8 text.
    return [part.replace(b"\xff", b"\0").decode() for part in marked.split(b"\0")[:-1]]


def index_values(row: Row | None, field: str) -> list[str]:
    """The values under which a row is found by `field`: none for null, each one of a list. Numbers sort as numbers."""
    value = row.get(field) if row is not None else None
    if value is None:
        return []
    return [index_value(one) for one in dict.fromkeys(value)] if isinstance(value, list) else [index_value(value)]


def index_value(value: object) -> str:
    """One value as an index holds it."""
    return f"{value:020d}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _unchanged(old: Row | None, new: Row | None, field: str) -> bool:
    return old is not None and new is not None and old.get(field) == new.get(field)


class Batch:
    """Rows on their way into the store, read through to it. Nothing is written before `commit`, then all at once."""

    def __init__(self, store: "ProjectionStore") -> None:
        self._store = store
        self._old: dict[tuple[str, str], Row | None] = {}
        self._new: dict[tuple[str, str], Row | None] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._positions: dict[tuple[str, int], Position] = {}

    def get(self, table: str, key: str) -> Row | None:
        """The row as this batch leaves it, or None."""
        at = (table, key)
        if at in self._new:
            return self._new[at]
        if at not in self._old:
            self._old[at] = self._store.row(table, key)
        return self._old[at]

    def put(self, table: str, key: str, row: Row) -> None:
        """Set the row."""
        self.get(table, key)  # What the row was is needed to mend its indexes.
        self._new[table, key] = row

    def delete(self, table: str, key: str) -> None:
        """Forget the row, if there is one."""
        if self.get(table, key) is not None:
            self._new[table, key] = None

    def count(self, about: str, name: str, by: int = 1) -> None:
        """Add to a counter that stands beside the tables."""
        self._add(("", about, name), by)

    def reached(self, position: Position) -> None:
        """The rows of this batch are true at `position`."""
        self._positions[position.stream, position.partition] = position

    def commit(self) -> None:
        """Write everything at once.

        Raises StoreError when the store cannot be written, a full disk for one; the store is then as it was.
        """
        batch = WriteBatch(raw_mode=True)
        for (table, key), row in self._new.items():
            self._write_row(batch, table, key, self._old[table, key], row)
        for counter, by in self._counts.items():
            if by:
                count_key = _COUNT + key_of(*counter)
                batch.put(count_key, b"%d" % (int(self._store.raw(count_key) or b"0") + by))
        for position in self._positions.values():
            batch.put(_position_key(position.stream, position.partition), orjson.dumps(asdict(position)))
        self._store.write(batch)

    def _write_row(self, batch: WriteBatch, table: str, key: str, old: Row | None, new: Row | None) -> None:
        ending = key_of(key)
        row_key = _row_prefix(table) + ending
        if new is None:
            batch.delete(row_key)
        else:
            batch.put(row_key, orjson.dumps(new, option=orjson.OPT_SORT_KEYS))
        spec = TABLES[table]
        for field in spec.indexes:
            if _unchanged(old, new, field):
                continue  # As for most fields of most changes: no need to see what is in them.
            before, after = index_values(old, field), index_values(new, field)
            prefix = _index_prefix(table, field)
            for value in before:
                batch.delete(prefix + key_of(value) + ending)
            for value in after:
                batch.put(prefix + key_of(value) + ending, b"")
        for field in spec.counted:
            if _unchanged(old, new, field):
                continue
            for value in index_values(old, field):
                self._add((table, field, value), -1)
            for value in index_values(new, field):
                self._add((table, field, value), 1)

    def _add(self, counter: tuple[str, str, str], by: int) -> None:
        self._counts[counter] = self._counts.get(counter, 0) + by


class View:
    """The store as it is at one moment, for reading; `ProjectionStore.view` makes it stand still."""

    def __init__(self, db: Rdict) -> None:
        self._db = db

    def get(self, table: str, key: str) -> Row | None:
        """The row, or None."""
        value = self._db.get(_ROW + key_of(table, key))
        return orjson.loads(value) if value is not None else None

    def rows(self, table: str, after: str | None = None, *, backwards: bool = False) -> Iterator[tuple[str, Row]]:
        """Rows with their keys in the order of keys, from behind the key `after` on."""
        prefix = _ROW + key_of(table)
        start = prefix + key_of(after) if after is not None else None
        for found, value in self._walk_from(prefix, start, backwards=backwards):
            yield parts_of(found[1:])[1], orjson.loads(value)

    def find(
        self,
        table: str,
        field: str,
        value: str | None,
        after: tuple[str, str] | None = None,
        *,
        backwards: bool = False,
    ) -> Iterator[tuple[str, str]]:
        """(value, key) of the rows whose `field` has the value (None: any, in the order of values), behind `after`."""
        prefix = _INDEX + (key_of(table, field) if value is None else key_of(table, field, value))
        start = _INDEX + key_of(table, field, *after) if after is not None else None
        for found, _ in self._walk_from(prefix, start, backwards=backwards):
            _, _, one, key = parts_of(found[1:])
            yield one, key

    def counts(self, table: str, field: str) -> dict[str, int]:
        """How many rows of the table have which value in a counted field; counters beside tables have table ''."""
        prefix = _COUNT + key_of(table, field)
        found = self._walk_from(prefix, None, backwards=False)
        return {parts_of(key[1:])[2]: int(value) for key, value in found if int(value)}

    def positions(self) -> list[Position]:
        """Every stored position."""
        found = self._walk_from(_POSITION, None, backwards=False)
        return [Position(**orjson.loads(value)) for _, value in found]

    def statuses(self) -> dict[str, Row]:
        """What the writers last said of themselves, by name."""
        found = self._walk_from(_STATUS, None, backwards=False)
        return {parts_of(key[1:])[0]: orjson.loads(value) for key, value in found}

    def everything(self) -> Iterator[tuple[bytes, bytes]]:
        """Every row, index entry and count, as stored and in order: what a fingerprint is taken over."""
        for kind in (_COUNT, _INDEX, _ROW):
            for key, value in self._walk_from(kind, None, backwards=False):
                if kind != _COUNT or int(value):
                    yield key, value

    def _walk_from(self, prefix: bytes, start: bytes | None, *, backwards: bool) -> Iterator[tuple[bytes, bytes]]:
        """Entries under `prefix`, from behind `start` on."""
        end = prefix + b"\xff"  # Above every text that may follow.
        if backwards:
            return self._walk(prefix, start if start is not None else end, backwards=True)
        return self._walk(start + b"\0" if start is not None else prefix, end, backwards=False)

    def _walk(self, low: bytes, high: bytes, *, backwards: bool) -> Iterator[tuple[bytes, bytes]]:
        """Entries with low <= key < high."""
        # Bounds in the read options would do this too, but rocksdict 0.3.29 encodes them as if not in raw mode.
        cursor: RdictIter = self._db.iter()
        if backwards:
            cursor.seek_for_prev(high)
            if cursor.valid() and cursor.key() == high:
                cursor.prev()
        else:
            cursor.seek(low)
        while cursor.valid():
            key: bytes = cursor.key()
            if not low <= key < high:
                return
            yield key, cursor.value()
            if backwards:
                cursor.prev()
            else:
                cursor.next()


class ProjectionStore:
    """One store, open for writing (`open`) or for reading beside the writer (`open_reader`). Threads may share it."""

    def __init__(self, db: Rdict, folder: Path, scratch: Path | None) -> None:
        self._db = db
        self._scratch = scratch
        self._lock = threading.RLock()
        self._failed = False
        self.folder = folder
        self.emptied = False
        """Whether opening found another layout or damage, and emptied the store."""

    @classmethod
    def open(cls, directory: Path, version: int = LAYOUT_VERSION) -> Self:
        """Open for writing, and make it where there is none. Another layout or damage: empty, to be folded anew.

        Raises StoreError when another process writes it, or the folder cannot be used.
        """
        folder = folder_of(directory, version)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            db, damaged = _opened(folder)
        except OSError as error:
            raise StoreError(f"The projections' folder {folder} cannot be made: {error}. Name another one.") from error
        store = cls(db, folder, None)
        found = db.get(_VERSION_KEY)
        if found != b"%d" % version:
            store.emptied = damaged or found is not None
            store.empty(version)
        return store

    @classmethod
    def open_reader(cls, directory: Path, version: int = LAYOUT_VERSION) -> Self:
        """Open for reading beside a writer.

        Raises StoreError when there is no store yet.
        """
        folder = folder_of(directory, version)
        # RocksDB keeps a reader's own log there; nothing of worth.
        scratch = Path(tempfile.mkdtemp(prefix="joingate-reader-"))
        try:
            if not (folder / "CURRENT").exists():
                raise StoreError(
                    f"There are no projections in {folder} yet. Start `joingate project` first, or name its folder."
                )
            db = Rdict(str(folder), Options(raw_mode=True), access_type=AccessType.secondary(str(scratch)))
        except Exception as error:
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"The projections in {folder} cannot be read: {error}") from error
        return cls(db, folder, scratch)

    @property
    def reads_only(self) -> bool:
        """Whether this is a reader beside the writer."""
        return self._scratch is not None

    def close(self) -> None:
        """Let go of the store. Closing twice does nothing more."""
        with self._lock:
            try:
                self._db.close()
            except Exception:
                # A database that failed to write fails to close for the same reason, which was told already.
                if not self._failed:
                    raise
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def batch(self) -> Batch:
        """A new batch."""
        return Batch(self)

    @contextlib.contextmanager
    def view(self) -> Iterator[View]:
        """The store at one moment: writes wait for the view's end, so keep it short.

        A reader first catches up with the writer. Raises StoreError when it cannot.
        """
        # A snapshot would let writes go on, but iterators made from one see past it in rocksdict 0.3.29.
        with self._lock:
            if self.reads_only:
                try:
                    self._db.try_catch_up_with_primary()
                except Exception as error:
                    raise StoreError(f"The projections in {self.folder} cannot be followed: {error}") from error
            yield View(self._db)

    def row(self, table: str, key: str) -> Row | None:
        """The row as stored now, or None."""
        value = self.raw(_row_prefix(table) + key_of(key))
        return orjson.loads(value) if value is not None else None

    def raw(self, key: bytes) -> bytes | None:
        """The bytes under a key, or None."""
        value: bytes | None = self._db.get(key)
        return value

    def position(self, stream: str, partition: int) -> Position | None:
        """How far the partition of the stream is folded; None: nothing of it is."""
        value = self.raw(_position_key(stream, partition))
        return Position(**orjson.loads(value)) if value is not None else None

    def put_statuses(self, statuses: dict[str, Row]) -> None:
        """Say, instead of what was said before, how the writers are to whoever reads the store.

        This is no part of the projection. Raises StoreError as `write` does.
        """
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(_STATUS, _STATUS + b"\xff")
        for name, status in statuses.items():
            batch.put(_STATUS + key_of(name), orjson.dumps(status))
        self.write(batch)

    def empty(self, version: int = LAYOUT_VERSION) -> None:
        """Forget every row and position, in one batch, so that readers see either all of it or none."""
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(*_EVERYTHING)
        batch.put(_VERSION_KEY, b"%d" % version)
        self.write(batch)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, all or nothing.

        Raises StoreError when that fails.
        """
        try:
            with self._lock:
                self._db.write(batch)
        except Exception as error:
            self._failed = True
            raise StoreError(
                f"The projections in {self.folder} cannot be written: {error}. Make room or mend the disk, then start "
                "again; nothing is lost, since the ledger has it all."
            ) from error


def fingerprint(store: ProjectionStore) -> str:
    """The SHA-256 (hex) over every row, index entry and count: equal for equal projections, whatever made them."""
    digest = hashlib.sha256()
    with store.view() as view:
        for key, value in view.everything():
            digest.update(b"%d:%d:" % (len(key), len(value)) + key + value)
    return digest.hexdigest()


def folder_of(directory: Path, version: int = LAYOUT_VERSION) -> Path:
    """The folder of one layout's store below the projections' directory."""
    return directory / f"v{version}"


def _position_key(stream: str, partition: int) -> bytes:
    return _POSITION + key_of(stream, f"{partition:05d}")


def _opened(folder: Path) -> tuple[Rdict, bool]:
    """The database in a folder, and whether it had to be thrown away because it was damaged."""
    try:
        return Rdict(str(folder), _options()), False
    except Exception as error:
        text = str(error)
        if "lock" in text.lower():
            raise StoreError(
                f"Another process writes the projections in {folder}. Stop it, or give this one another folder."
            ) from error
        if "Corruption" not in text:
            raise StoreError(f"The projections in {folder} cannot be opened: {text}") from error
    # Everything here can be folded again from the ledger, so damage costs time and nothing else.
    shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return Rdict(str(folder), _options()), True


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_keep_log_file_num(2)
    options.set_write_buffer_size(16 * 1024 * 1024)
    return options
