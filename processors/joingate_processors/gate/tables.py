"""The room for one kind of thing on disk: tables, indexes and deadlines over RocksDB, changed in memory first.

A key is the table's byte and the row's key in UTF-8; a value is the row's fields, in order and without their names, as
a JSON list: a third of the size, and `state_layout` in store.py guards against reading one by other fields. Deadlines
are an index of their own, made from the rows: its keys sort by time.
"""

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeVar

import orjson
from rocksdict import Rdict, ReadOptions, WriteBatch

from joingate_processors.law.arrival import Due
from joingate_processors.law.key_order import KeyOrder
from joingate_processors.law.state import TABLES, TIMED_TABLES
from joingate_schemas.record import from_datum

Row = TypeVar("Row")
Found = TypeVar("Found", covariant=True)

TABLE_TAGS: Final[dict[str, bytes]] = {
    "header": b"h", "intents": b"i", "plans": b"p", "steps": b"s", "operations": b"o", "commitments": b"c",
    "custodies": b"k", "owners": b"w", "conditions": b"e", "goals": b"a", "debts": b"b",
    "seen": b"d", "quarantines": b"q", "holds": b"l", "orphans": b"n", "catalogues": b"g",
    "protocols": b"v", "keys": b"y", "approvals": b"r", "archives": b"x",
}  # fmt: skip
INDEX_TAGS: Final[dict[str, bytes]] = {
    "open_operations": b"O", "unclaimed_operations": b"U", "open_commitments": b"C", "owned_commitments": b"W",
    "scoped_quarantines": b"Q", "backlogs": b"B",
}  # fmt: skip
TIMER_TAG: Final = b"\x01"
TIME_BIAS: Final = 1 << 63  # turns a signed 64-bit number into an unsigned one of the same order

Change = tuple[bytes, bytes | None]
"""A key and its value as bytes; None where the row or the member is gone."""


def row_fields(table: str) -> tuple[str, ...]:
    """The fields of that table's rows, in the order in which they are written; none where a row is plain text."""
    cls = TABLES[table]
    return () if cls is str else tuple(cls.__annotations__)


class _Get(Protocol[Found]):
    def __call__(self, key: str, /) -> Found | None: ...


class _Rows(dict[str, Row | None]):
    """The young generation of a table's cache: asked for what it does not hold, it loads it. None: there is no row."""

    __slots__ = ("load",)
    load: Callable[[str], Row | None]

    def __missing__(self, key: str) -> Row | None:
        row = self[key] = self.load(key)
        return row


class RocksTable(Generic[Row]):
    """Rows by key: this transaction's changes over a cache of two generations over RocksDB.

    Changes lie in the young generation itself, so that reading costs one look-up; `_touched` remembers which rows are
    changes. `get` is the dictionary's own method: bind it within a decision, not longer, since the generations change
    places between transactions.
    """

    __slots__ = ("_cls", "_db", "_db_get", "_fields", "_old", "_order", "_tag", "_touched", "_values", "_young", "get")

    def __init__(self, name: str, db: Rdict) -> None:
        self._tag = TABLE_TAGS[name]
        self._cls = TABLES[name]
        self._fields = row_fields(name)
        # Fields are picked by name, since a row made from a datum has them in whatever order they came.
        self._values: Callable[[dict[str, object]], object] = itemgetter(*self._fields) if self._fields else dict
        self._db = db
        self._order = KeyOrder()  # of what was touched
        self._db_get: Callable[[bytes], bytes | None] = db.get
        # Key -> what stood there before, where somebody wants to know (timed tables).
        self._touched: dict[str, Row | None] = {}
        self._old: dict[str, Row | None] = {}
        self.rotate()

    def _load(self, key: str) -> Row | None:
        row = self._old.pop(key, None)
        if row is not None:
            return row
        value = self._db_get(self._tag + key.encode())
        return None if value is None else self.decode(value)

    def decode(self, value: bytes) -> Row:
        """The row that `value` holds."""
        found = orjson.loads(value)
        made: Row = from_datum(self._cls, dict(zip(self._fields, found, strict=True))) if self._fields else found
        return made

    def put(self, key: str, row: Row) -> None:
        """Make `row` the row of `key`: until `drop`, or for good with `commit`."""
        self._young[key] = row
        self._touched[key] = None

    def delete(self, key: str) -> None:
        """Forget the row of `key`, if there is one."""
        self._young[key] = None
        self._touched[key] = None

    def page(self, prefix: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of the keys that begin with `prefix`, above `after`, sorted. Reads no further than it must."""
        touched, young = self._touched, self._young
        added = [key for key in self._order.under(touched, prefix, after) if young[key] is not None]
        stored: list[str] = []
        start = after[len(prefix) :] if after.startswith(prefix) else ""
        for rest, _ in scan(self._db, self._tag + prefix.encode(), start.encode()) if limit > 0 else ():
            key = prefix + rest.decode()
            if key > after and key not in touched:
                stored.append(key)
                if len(stored) == limit:
                    break
        return list(islice(merge(added, stored), max(limit, 0)))

    def changes(self, batch: WriteBatch) -> Iterator[Change]:
        """Encode what was touched, once: put it into `batch`, and give it out."""
        tag, young, values, dumps, put = self._tag, self._young, self._values, orjson.dumps, batch.put
        plain = not self._fields
        for key in self._touched:
            row = young[key]
            if row is None:
                whole, value = tag + key.encode(), None
                batch.delete(whole)
            else:
                whole, value = tag + key.encode(), dumps(row if plain else values(row.__dict__))
                put(whole, value)
            yield whole, value

    def committed(self) -> None:
        """What was touched is written: nothing is from here on."""
        self._touched, self._order = {}, KeyOrder()

    def drop(self) -> None:
        """Undo what was touched: the next reading comes from RocksDB."""
        for key in self._touched:
            self._young.pop(key, None)
            self._old.pop(key, None)
        self._touched, self._order = {}, KeyOrder()

    def touched(self) -> dict[str, Row | None]:
        """The rows that this transaction touched, as they are now."""
        return {key: self._young[key] for key in self._touched}

    @property
    def cached(self) -> int:
        """How many keys the young generation holds."""
        return len(self._young)

    def rotate(self) -> None:
        """Let the young generation grow old, and the old one go. Only between transactions."""
        self._old = getattr(self, "_young", {})
        self._young: _Rows[Row] = _Rows()
        self._young.load = self._load
        self.get: _Get[Row] = self._young.__getitem__

    def clear(self) -> None:
        """Empty the cache. Only between transactions."""
        self._old = {}
        self._young.clear()


class TimedRocksTable(RocksTable[Row]):
    """Rows that may wait for a deadline: remembers what stood there before, so that the timer index can follow."""

    __slots__ = ("_kind", "_timers")

    def __init__(self, name: str, db: Rdict, timers: "RocksTimers") -> None:
        super().__init__(name, db)
        self._kind = TIMED_TABLES[name]
        self._timers = timers

    def put(self, key: str, row: Row) -> None:
        """Make `row` the row of `key`: until `drop`, or for good with `commit`."""
        if key not in self._touched:
            self._touched[key] = self._young[key]
        self._young[key] = row

    def delete(self, key: str) -> None:
        """Forget the row of `key`, if there is one."""
        if key not in self._touched:
            self._touched[key] = self._young[key]
        self._young[key] = None

    def changes(self, batch: WriteBatch) -> Iterator[Change]:
        """As in any table; the timers that follow from it go into `batch` too, but not out: they can be made again."""
        change, young = self._timers.change, self._young
        for key, before in self._touched.items():
            change(self._kind, key, before, young[key], batch)
        return super().changes(batch)

    def apply(self, key: str, value: bytes | None, batch: WriteBatch) -> None:
        """Put into `batch` what becomes of the timers when `key` has the encoded row `value` from here on."""
        self._timers.change(self._kind, key, self._load(key), None if value is None else self.decode(value), batch)


class RocksIndex:
    """Sets of members by owner, one key a member; what this transaction changed lies over it in memory."""

    __slots__ = ("_db", "_tag", "_touched")

    def __init__(self, name: str, db: Rdict) -> None:
        self._db = db
        self._tag = INDEX_TAGS[name]
        self._touched: dict[str, dict[str, bool | None]] = {}  # None: added, then removed

    def _prefix(self, owner: str) -> bytes:
        # The length goes first, since an owner may be any text, and so may hold any separator.
        text = owner.encode()
        return self._tag + len(text).to_bytes(4, "big") + text

    def members(self, owner: str) -> list[str]:
        """The members of `owner`, sorted."""
        members = {key.decode() for key, _ in scan(self._db, self._prefix(owner))}
        for member, present in self._touched.get(owner, {}).items():
            (members.add if present else members.discard)(member)
        return sorted(members)

    def first(self, owner: str) -> str | None:
        """The first of `owner`'s members; None if it has none. Reads no further than it must."""
        touched = self._touched.get(owner, {})
        added = min((member for member, present in touched.items() if present), default=None)
        # Keys are in the order of their UTF-8, which is that of their text.
        kept = (member for key, _ in scan(self._db, self._prefix(owner)) if touched.get(member := key.decode(), True))
        stored = next(kept, None)
        return min((member for member in (added, stored) if member is not None), default=None)

    def page(self, owner: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of `owner`'s members above `after`, sorted. Reads no further than it must."""
        touched = self._touched.get(owner, {})
        added = sorted(member for member, present in touched.items() if present and member > after)
        stored: list[str] = []
        for key, _ in scan(self._db, self._prefix(owner), after.encode()):
            member = key.decode()
            if len(stored) == limit:
                break
            if member != after and member not in touched:
                stored.append(member)
        return list(islice(merge(added, stored), limit))

    def add(self, owner: str, member: str) -> None:
        """Make `member` one of `owner`'s; it may be already."""
        try:
            self._touched[owner][member] = True
        except KeyError:
            self._touched[owner] = {member: True}

    def remove(self, owner: str, member: str) -> None:
        """Make `member` none of `owner`'s; it need not be one."""
        touched = self._touched.setdefault(owner, {})
        touched[member] = None if touched.get(member, False) is not False else False

    def changes(self, batch: WriteBatch) -> Iterator[Change]:
        """Put what was changed into `batch`, and give it out."""
        for owner, members in self._touched.items():
            prefix = self._prefix(owner)
            for member, present in members.items():
                key = prefix + member.encode()
                if present:
                    batch.put(key, b"")
                    yield key, b""
                # Most members come and go within a transaction: then there is nothing to write.
                elif present is False or self._db.get(key) is not None:
                    batch.delete(key)
                    yield key, None

    def committed(self) -> None:
        """What was changed is written: nothing is from here on."""
        self._touched = {}

    def drop(self) -> None:
        """Undo what was changed."""
        self._touched = {}

    def entries(self) -> list[tuple[str, str]]:
        """Every (owner, member), sorted."""
        found = set()
        for rest, _ in scan(self._db, self._tag):
            end = 4 + int.from_bytes(rest[:4], "big")
            found.add((rest[4:end].decode(), rest[end:].decode()))
        for owner, members in self._touched.items():
            for member, present in members.items():
                (found.add if present else found.discard)((owner, member))
        return sorted(found)


def scan(db: Rdict, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Keys that begin with `prefix`, the prefix left off, and their values, in order, from `prefix + start` on.

    `prefix` ends with a byte below 255, as every tag, length and text in UTF-8 does here.
    """
    options = ReadOptions()
    # Without a bound, looking for what is not there walks over everything that was deleted behind it.
    options.set_iterate_upper_bound(prefix[:-1] + bytes([prefix[-1] + 1]))
    iterator = db.iter(options)
    iterator.seek(prefix + start)
    skip = len(prefix)
    while iterator.valid():
        yield iterator.key()[skip:], iterator.value()
        iterator.next()
    iterator.status()


class RocksTimers:
    """The index of deadlines in RocksDB: one key a waiting row, in the order in which they fall due."""

    __slots__ = ("_db", "_floor")

    def __init__(self, db: Rdict) -> None:
        self._db = db
        # Nothing lies below the floor. Fired timers leave tombstones behind, and scanning from the floor skips them.
        self._floor = b""

    def scan(self) -> Iterator[Due]:
        """Every deadline that is written, earliest first."""
        lowest = True
        for key, timer in scan(self._db, TIMER_TAG, self._floor):
            if lowest:
                self._floor, lowest = key, False
            kind, _, subject = key[8:].decode().partition("\x00")
            yield Due(int.from_bytes(key[:8], "big") - TIME_BIAS, kind, subject, timer.decode())

    def change(self, subject_kind: str, key: str, before: object, after: object, batch: WriteBatch) -> None:
        """Put into `batch` what becomes of the deadline of `key`, whose row was `before` and is `after`, or None."""
        was = None if before is None else before.deadline_at  # type: ignore[attr-defined]  # rows of timed tables
        now = None if after is None else after.deadline_at  # type: ignore[attr-defined]
        if was is None and now is None:
            return
        if was == now and before.timer == after.timer:  # type: ignore[attr-defined]
            return
        subject = f"{subject_kind}\x00{key}".encode()
        if was is not None:
            batch.delete(TIMER_TAG + (was + TIME_BIAS).to_bytes(8, "big") + subject)
        if now is not None:
            at = (now + TIME_BIAS).to_bytes(8, "big") + subject
            batch.put(TIMER_TAG + at, after.timer.encode())  # type: ignore[attr-defined]
            if at < self._floor:
                self._floor = at
