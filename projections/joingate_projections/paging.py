"""Pages of a table: by which filters and times it may be asked, in which order it is walked, where the next begins."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from joingate_projections.errors import BadQuestion
from joingate_projections.store import View, index_value, index_values
from joingate_projections.tables import TABLES, Row

LIMIT_DEFAULT = 100
LIMIT_MAX = 500
SCANNED_MAX = 5_000
"""Rows looked at for one page: a page may be shorter than its limit and still have a `next`."""
TIMES = frozenset({"since", "due_at", "deadline_at", "decided_at", "open_since", "breached_since"})
"""The indexes that a listing may be ordered by, and bounded: `<time>_after` (from then on) and `<time>_before`."""
# Filters that narrow little: another one, if there is one, leads the search.
_WIDE = frozenset({"status", "shown", "verdict", "reason", "claim_type", "kind", "action", "tenant"})

Filters: TypeAlias = Iterable[tuple[str, str]]
Place: TypeAlias = tuple[str, str]
"""Where a walk stands: an index value and a key."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a table: (field, value) that must fit, the index walked, and its bounds, low <= value < high."""

    table: str
    fits: tuple[tuple[str, str], ...]
    lead: tuple[str, str] | None
    order: str | None
    low: str | None = None
    high: str | None = None
    newest: bool = False

    def walk(self, view: View, after: Place | None) -> Iterator[tuple[str, str, Row]]:
        """(index value, key, row) in the order asked for: by an index of times, by the leading filter, or by key."""
        if self.order is None and self.lead is None:
            for key, row in view.rows(self.table, after[1] if after else None, backwards=self.newest):
                yield "", key, row
            return
        field, value = (self.order, None) if self.order is not None else self.lead or ("", "")
        begin = self.high if self.newest else self.low
        start = after if after is not None or begin is None else (begin, "")
        for one, key in view.find(self.table, field, value, start, backwards=self.newest):
            if (self.newest and self.low is not None and one < self.low) or (
                not self.newest and self.high is not None and one >= self.high
            ):
                return
            found = view.get(self.table, key)
            if found is not None:
                yield one, key, found

    def fitting(self, row: Row) -> bool:
        """Whether every filter fits the row."""
        return all(value in index_values(row, field) for field, value in self.fits)


def wanted(table: str, filters: Filters, order: str | None, limit: int, newest: bool) -> Wanted:
    """The question, checked. Raises BadQuestion."""
    spec = TABLES.get(table)
    if spec is None or spec.hidden:
        listed = ", ".join(one.name for one in TABLES.values() if not one.hidden)
        raise BadQuestion(f"There is no table {table!r}. Ask one of {listed}.")
    check_limit(limit)
    times = TIMES.intersection(spec.indexes)
    bounds: dict[str, dict[str, str]] = {}
    fits: list[tuple[str, str]] = []
    for field, value in filters:
        time, _, side = field.rpartition("_")
        if time in times and side in ("after", "before"):
            bounds.setdefault(time, {})[side] = _moment(field, value)
        elif field not in spec.indexes or field in times:
            fine = ", ".join([*(one for one in spec.indexes if one not in times), *_bounds(times)])
            raise BadQuestion(f"{table} cannot be filtered by {field!r}. Use one of {fine}.")
        else:
            fits.append((field, index_value(value)))
    if order is not None and order not in times:
        fine = ", ".join(sorted(times)) or "nothing else than ids"
        raise BadQuestion(f"{table} cannot be ordered by {order!r}. It is ordered by {fine}.")
    along = {*bounds, *([order] if order is not None else [])}
    if len(along) > 1:
        raise BadQuestion(f"A listing follows one time; these are several: {', '.join(sorted(along))}.")
    lead = min(fits, key=lambda one: one[0] in _WIDE, default=None)
    walked = next(iter(along), None) or (spec.order if lead is None else None)
    sides = bounds.get(walked or "", {})
    return Wanted(table, tuple(fits), lead, walked, sides.get("after"), sides.get("before"), newest)


def _bounds(times: Iterable[str]) -> list[str]:
    return [f"{time}_{side}" for time in sorted(times) for side in ("after", "before")]


def bounds_of(table: str) -> list[str]:
    """The names of the bounds that a table may be asked by."""
    return _bounds(TIMES.intersection(TABLES[table].indexes))


def _moment(field: str, value: str) -> str:
    if not (value.isascii() and value.isdigit() and len(value) <= 15):
        raise BadQuestion(f"{field} is a time in milliseconds since the epoch, UTC; {value!r} is not.")
    return index_value(int(value))


def check_limit(limit: int) -> None:
    """Raises BadQuestion if a page may not have so many rows."""
    if not 1 <= limit <= LIMIT_MAX:
        raise BadQuestion(f"A page has between 1 and {LIMIT_MAX} rows; {limit} were asked for.")


def cursor_of(last: Place | None) -> str | None:
    """The cursor of the page behind a place; None: there is none."""
    return base64.urlsafe_b64encode(json.dumps(last).encode()).decode() if last is not None else None


def place_after(cursor: str | None) -> Place | None:
    """The place that a cursor stands for. Raises BadQuestion if it was never handed out."""
    if cursor is None:
        return None
    try:
        value, key = json.loads(base64.urlsafe_b64decode(cursor))
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadQuestion("The cursor is not one that was handed out. Take `next` of the page before.") from error
    if not isinstance(value, str) or not isinstance(key, str):
        raise BadQuestion("The cursor is not one that was handed out. Take `next` of the page before.")
    return value, key
