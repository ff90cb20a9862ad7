"""The room for `State` in memory: the twin of the gate's store, for the simulator, the law's tests and forensics.

Plain dictionaries, no IO, nothing to commit. It enumerates in the same order as the store on disk, so that a trace
gives the same ledger over either (law 9); one contract suite runs over both.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from joingate_processors.law.archived import Archive
from joingate_processors.law.arrival import Due
from joingate_processors.law.key_order import KeyOrder
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

Row = TypeVar("Row")


class MemoryTable(Generic[Row]):
    """Rows by key. `get` and `put` are the dictionary's own methods, since nothing is to be done beside them."""

    __slots__ = ("_order", "_rows", "get", "put")

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._order = KeyOrder()
        self.get: Callable[[str], Row | None] = self._rows.get
        self.put: Callable[[str, Row], None] = self._rows.__setitem__

    def delete(self, key: str) -> None:
        """Forget the row of `key`, if there is one."""
        if self._rows.pop(key, None) is not None:
            self._order.forget(key)

    def page(self, prefix: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of the keys that begin with `prefix`, above `after`, sorted."""
        return self._order.under(self._rows, prefix, after, limit)

    def items(self) -> Iterator[tuple[str, Row]]:
        """Every row with its key, sorted by key."""
        return iter(sorted(self._rows.items()))

    def __len__(self) -> int:
        return len(self._rows)


class TimedTable(MemoryTable[Row]):
    """Rows that may wait: each put or delete keeps the sorted list of deadlines right."""

    __slots__ = ("_dues", "_kind")

    def __init__(self, subject_kind: str, dues: list[Due]) -> None:
        super().__init__()
        self._kind = subject_kind
        self._dues = dues
        self.put = self._put

    def _put(self, key: str, row: Row) -> None:
        before, after = due_of(self._kind, key, self._rows.get(key)), due_of(self._kind, key, row)
        if before != after:
            self._forget(before)
            if after is not None:
                insort(self._dues, after)
        self._rows[key] = row

    def delete(self, key: str) -> None:
        """Forget the row of `key` and what it waited for."""
        self._forget(due_of(self._kind, key, self._rows.get(key)))
        super().delete(key)

    def _forget(self, due: Due | None) -> None:
        if due is not None:
            del self._dues[bisect_left(self._dues, due)]


def due_of(subject_kind: str, key: str, row: object) -> Due | None:
    """What the row of `key` in a timed table waits for, or None; `row` None means that there is no row."""
    deadline_at: int | None = getattr(row, "deadline_at", None)
    if deadline_at is None:
        return None
    return Due(deadline_at, subject_kind, key, row.timer)  # type: ignore[attr-defined]


class MemoryIndex:
    """Sets of members by owner, as sorted lists. An owner without members takes no room."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, list[str]] = {}

    def members(self, owner: str) -> list[str]:
        """The members of `owner`, sorted."""
        return list(self._members.get(owner, ()))

    def first(self, owner: str) -> str | None:
        """The first of `owner`'s members; None if it has none."""
        members = self._members.get(owner)
        return members[0] if members else None

    def page(self, owner: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of `owner`'s members above `after`, sorted."""
        members = self._members.get(owner, [])
        start = bisect_right(members, after)
        return members[start : start + limit]

    def add(self, owner: str, member: str) -> None:
        """Make `member` one of `owner`'s; it may be already."""
        members = self._members.setdefault(owner, [])
        place = bisect_left(members, member)
        if members[place : place + 1] != [member]:
            members.insert(place, member)

    def remove(self, owner: str, member: str) -> None:
        """Make `member` none of `owner`'s; it need not be one."""
        members = self._members.get(owner, [])
        place = bisect_left(members, member)
        if members[place : place + 1] == [member]:
            del members[place]
            if not members:
                del self._members[owner]

    def items(self) -> Iterator[tuple[str, str]]:
        """Every (owner, member), sorted."""
        return ((owner, member) for owner in sorted(self._members) for member in self._members[owner])


class MemoryState:
    """Everything that one partition remembers, in memory."""

    __slots__ = (*TABLES, *INDEXES, "_dues")

    def __init__(self) -> None:
        dues: list[Due] = []
        self._dues = dues
        self.header: Table[Header] = MemoryTable()
        self.intents: Table[Intent] = MemoryTable()
        self.plans: Table[PlanRow] = TimedTable(TIMED_TABLES["plans"], dues)
        self.steps: Table[Step] = MemoryTable()
        self.operations: Table[Operation] = TimedTable(TIMED_TABLES["operations"], dues)
        self.commitments: Table[Commitment] = TimedTable(TIMED_TABLES["commitments"], dues)
        self.custodies: Table[Custody] = TimedTable(TIMED_TABLES["custodies"], dues)
        self.owners: Table[Owner] = TimedTable(TIMED_TABLES["owners"], dues)
        self.conditions: Table[Condition] = MemoryTable()
        self.goals: Table[GoalNews] = MemoryTable()
        self.debts: Table[Debt] = MemoryTable()
        self.seen: Table[Seen] = MemoryTable()
        self.quarantines: Table[Quarantine] = MemoryTable()
        self.holds: Table[Hold] = MemoryTable()
        self.orphans: Table[Orphan] = MemoryTable()
        self.archives: Table[Archive] = TimedTable(TIMED_TABLES["archives"], dues)
        self.catalogues: Table[str] = MemoryTable()
        self.protocols: Table[str] = MemoryTable()
        self.keys: Table[PrincipalKey] = MemoryTable()
        self.approvals: Table[StandingApproval] = MemoryTable()
        self.open_operations: Index = MemoryIndex()
        self.unclaimed_operations: Index = MemoryIndex()
        self.open_commitments: Index = MemoryIndex()
        self.owned_commitments: Index = MemoryIndex()
        self.scoped_quarantines: Index = MemoryIndex()
        self.backlogs: Index = MemoryIndex()

    def due(self, now: int, limit: int) -> list[Due]:
        """Up to `limit` rows whose deadline is at or before `now` (ms), earliest first, then by kind and key."""
        end = bisect_left(self._dues, (now + 1,))
        return self._dues[: min(end, limit)]

    def next_due(self) -> int | None:
        """The earliest deadline (ms) that anything waits for, or None."""
        return self._dues[0].due_at if self._dues else None

    def rows(self, table: str) -> list[tuple[str, object]]:
        """Every row of the table of that name with its key, sorted by key."""
        return list(getattr(self, table).items())

    def entries(self, index: str) -> list[tuple[str, str]]:
        """Every (owner, member) of the index of that name, sorted."""
        return list(getattr(self, index).items())
