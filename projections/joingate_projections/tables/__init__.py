"""The tables of the projections: their names, what each is indexed and counted by, and the seam to whatever holds them.

A row is a plain JSON dictionary under a key that does not depend on the partition. Each row of an entity carries the
ids above it, `first` and `last` (the ledger positions that made it and touched it last), `created_at` and
`updated_at` (ms, the decisions' own times) and `shown`, the word for people.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """One table. `indexes` are the fields that it can be asked by, `counted` those whose values are counted.

    `order` is the index that a listing without filters walks (None: the key). A `hidden` table is the folding's own
    memory and is not listed.
    """

    name: str
    indexes: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    order: str | None = None
    hidden: bool = False


NOTHING_OUTSIDE = dict.fromkeys(
    (
        "operations_open",
        "operations_acting",
        "operations_in_doubt",
        "commitments_open",
        "commitments_proposed",
        "commitments_active",
        "commitments_in_doubt",
        "commitments_breached",
    ),
    0,
)
"""The counts of what is open in the world outside, for a row under which nothing is yet."""

NOT_ARCHIVED: Row = {
    "archive_since": None,
    "archive_due": None,
    "archive_cause": "",
    "archived_at": None,
    "archived_rows": 0,
}
"""The fields of an intent that is not to be archived so far.

`archive_due` (ms) is the earliest moment: whatever ends under it later puts it off. Null with a cause: it waits for
what the cause says.
"""

_ALL = (
    Table("intents", ("status", "shown", "tenant", "plan_id", "open_for"), ("status", "shown")),
    Table("goals", ("intent_id", "goal_id", "status", "shown", "risk_class", "parent_goal_id"), ("status", "shown")),
    Table("plans", ("intent_id", "plan_id", "status", "shown"), ("status", "shown")),
    Table(
        "steps",
        ("intent_id", "plan_id", "step_id", "status", "shown", "action", "goal_id", "operation_id"),
        ("status", "shown"),
    ),
    Table(
        "operations",
        (
            "intent_id", "plan_id", "step_id", "status", "shown", "action", "executor", "downstream", "goal_id",
            "commitment_id", "compensates", "external_id",
        ),
        ("status", "shown"),
    ),
    Table(
        "commitments",
        (
            "intent_id", "plan_id", "step_id", "status", "shown", "owner_id", "obligation_type", "goal_id",
            "resource_refs", "holds", "due_at", "operation_id", "open_since", "breached_since",
        ),
        ("status", "shown"),
    ),
    Table("orphans", ("intent_id", "kind", "subject_id", "since"), ("kind",), order="since"),
    Table("in_doubt", ("intent_id", "status", "subject_id", "since", "deadline_at"), ("status",), order="since"),
    Table(
        "resources",
        ("resource_ref", "operation_id", "intent_id", "mode", "status", "shown", "since", "deadline_at"),
        ("shown",),
        order="since",
    ),
    Table("quarantine", ("status", "scope", "problem"), ("status",)),
    Table(
        "decisions",
        ("mentions", "verdict", "reason", "claim_type", "decided_at"),
        ("verdict", "reason", "claim_type"),
    ),
    Table("observations", ("subject_id", "intent_id", "source")),
    Table("owners", ("owner_id", "status"), ("status",)),
    Table("keys", ("key_id", "holder", "status"), ("status",)),
    Table("catalogues", ("digest",)),
    Table("alerts", ("tenant", "action", "intent_id", "operation_id", "kind", "since"), ("kind",), order="since"),
    Table("lineage", ("above", "below"), hidden=True),
    Table("pending", ("order",), hidden=True),
    Table("debts", ("who", "of"), hidden=True),
    Table("catalogue_sources", hidden=True),
    Table("quarantine_records", hidden=True),
    Table("slots", hidden=True),
    Table("followers", hidden=True),
    Table("plan_steps", hidden=True),
    Table("subject_orphans", hidden=True),
    Table("alike_windows", hidden=True),
    Table("alike_recent", hidden=True),
)  # fmt: skip
TABLES: dict[str, Table] = {table.name: table for table in _ALL}
"""Every table by its name."""

KEPT_MAX = 100
"""How many entries of a list that evidence could make endless are kept in a row; the ledger has them all."""


class Rows(Protocol):
    """What folding needs of a store. A row that was read may not be changed in place: put a changed copy."""

    def get(self, table: str, key: str) -> Row | None: ...

    def put(self, table: str, key: str, row: Row) -> None: ...

    def delete(self, table: str, key: str) -> None: ...

    def count(self, about: str, name: str, by: int = 1) -> None:
        """Add to a counter that stands beside the tables."""
        ...


class MemoryRows:
    """The in-memory twin of the store's batch: rows and counters in dictionaries."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {name: {} for name in TABLES}
        self.counters: dict[tuple[str, str], int] = {}

    def get(self, table: str, key: str) -> Row | None:
        """The row, or None."""
        return self.tables[table].get(key)

    def put(self, table: str, key: str, row: Row) -> None:
        """Set the row."""
        self.tables[table][key] = row

    def delete(self, table: str, key: str) -> None:
        """Forget the row, if there is one."""
        self.tables[table].pop(key, None)

    def count(self, about: str, name: str, by: int = 1) -> None:
        """Add to the counter."""
        self.counters[about, name] = self.counters.get((about, name), 0) + by


@dataclass(frozen=True)
class At:
    """The ledger position of a fact: partition, seq, the decision's time (ms), and the claim that it decides.

    `refused` is the reason where that claim was rejected: then its facts are kept as evidence, or undo something.
    """

    partition: int
    seq: int
    time: int
    claim_type: str = ""
    refused: str = ""

    @property
    def position(self) -> Row:
        """The position as rows carry it."""
        return {"partition": self.partition, "seq": self.seq}

    def born(self) -> Row:
        """The stamps of a row that begins here."""
        return {"created_at": self.time, "updated_at": self.time, "first": self.position, "last": self.position}

    def touched(self) -> Row:
        """The stamps of a row that changes here."""
        return {"updated_at": self.time, "last": self.position}


def joined(*parts: str) -> str:
    """A key of several ids. Ids never hold control characters (MALFORMED), so it is unambiguous."""
    return "\x1f".join(parts)


def decision_key(partition: int, seq: int) -> str:
    """The key of a decision's row: sorted by partition, then in ledger order."""
    return f"{partition:05d}:{seq:016d}"


def kept(old: Iterable[Any], *new: Any) -> list[Any]:
    """`old` and then what is new in `new`, at most the last `KEPT_MAX` of them."""
    result = list(old)
    result.extend(item for item in new if item not in result)
    return result[-KEPT_MAX:]
