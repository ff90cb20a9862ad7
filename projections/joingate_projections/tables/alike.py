"""Near-duplicates: operations of one tenant and action whose payloads are alike within a declared window, as alerts.

An alert is for people: it blocks nothing and merges nothing, and no rule reads it. How alike two payloads are depends
on their arguments alone, and which pairs are compared on the ledger's own times, so that folding anew tells the same.
Arguments that carry meaning are compared: names and numbers are the same or not, however they are spelt; prose by the
runs of letters that it shares.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable

from joingate_projections.tables import At, Row, Rows, joined
from joingate_schemas.catalogue_file import CatalogueError, catalogue_from_json
from joingate_schemas.claims import Arguments, Scalar
from joingate_schemas.facts import CatalogueLoaded, OperationOpened

ALIKE_FROM = 0.75
"""From how alike on, between 0 and 1, it is told."""
RECENT_MAX = 50
"""So many of the newest with one argument in common are compared. What more have in common tells none of them apart."""
_SHINGLE = 3
_NOT_WORDS = re.compile(r"[\W_]+")


def declared(rows: Rows, fact: CatalogueLoaded, at: At) -> None:
    """Keep of a catalogue which actions are watched, for how long, and by which arguments, on this partition."""
    try:
        catalogue = catalogue_from_json(fact.catalogue)
    except CatalogueError:
        return  # a newer release's: what was declared before goes on
    watched = {
        name: {"window_ms": one.alike_ms, "arguments": [a.name for a in one.arguments if a.meaning] or None}
        for name, one in catalogue.actions.items()
        if one.alike_ms is not None
    }
    rows.put("alike_windows", f"{at.partition:05d}", {"actions": watched})


def opened(rows: Rows, fact: OperationOpened, at: At) -> None:
    """Compare a new operation with the recent ones, and note it down for those to come."""
    windows = rows.get("alike_windows", f"{at.partition:05d}")
    watched = windows["actions"].get(fact.action) if windows is not None else None
    if watched is None or fact.compensates is not None or not fact.plan_id:
        return
    meant = meaning(fact.arguments, watched["arguments"])
    tenant = fact.intent_id.partition("/")[0]
    mine = [at.time, fact.operation_id]
    found: dict[str, int] = {}
    for name, value in sorted(meant.items()):
        key = _bucket(tenant, fact.action, name, value)
        recent = (rows.get("alike_recent", key) or {"newest": []})["newest"]
        found.update({other: when for when, other in recent if abs(when - at.time) <= watched["window_ms"]})
        rows.put("alike_recent", key, {"newest": sorted([*recent, mine])[-RECENT_MAX:]})
    for other, when in sorted(found.items()):
        row = rows.get("operations", other)
        # A further generation of one slot is the same wish again, and no second one.
        if row is None or (row["intent_id"], row["business_key"]) == (fact.intent_id, fact.business_key):
            continue
        _compare(rows, fact, at, row, when, meant, watched)


def _compare(rows: Rows, fact: OperationOpened, at: At, row: Row, when: int, meant: Arguments, watched: Row) -> None:
    other = meaning(row["arguments"], watched["arguments"])
    share = similarity(meant, other)
    if share < ALIKE_FROM:
        return
    own = (at.time, fact.operation_id, fact.intent_id, fact.business_key)
    that = (when, str(row["operation_id"]), str(row["intent_id"]), str(row["business_key"]))
    # Whichever of the two was folded first, the row is the same.
    earlier, later = sorted((own, that))
    names = sorted(meant.keys() | other.keys())
    same = [name for name in names if name in meant and name in other and alike(meant[name], other[name]) == 1.0]
    differ = [name for name in names if name not in same]
    rows.put(
        "alerts",
        joined(later[1], earlier[1]),
        {
            "kind": "NEAR_DUPLICATE",
            "tenant": fact.intent_id.partition("/")[0],
            "action": fact.action,
            "subject_kind": "OPERATION",
            "subject_id": later[1],
            "intent_id": later[2],
            "business_key": later[3],
            "earlier_id": earlier[1],
            "earlier_intent_id": earlier[2],
            "earlier_business_key": earlier[3],
            "operation_id": [earlier[1], later[1]],
            "similarity": round(share, 4),
            "same": same,
            "differ": differ,
            "apart_ms": later[0] - earlier[0],
            "window_ms": watched["window_ms"],
            "since": later[0],
            "cause": f"{fact.action} of {later[3]} is much like that of {earlier[3]}, "
            f"{(later[0] - earlier[0]) // 1000} s before it: the same {', '.join(same) or 'in other words'}",
        },
    )


def meaning(arguments: Arguments, names: list[str] | None) -> Arguments:
    """The arguments that are compared: those that carry meaning and say something; all where none are declared."""
    return {name: value for name, value in arguments.items() if (names is None or name in names) and _plain(value)}


def similarity(one: Arguments, other: Arguments) -> float:
    """How alike two payloads are, between 0 and 1: the mean over all arguments that either has."""
    names = one.keys() | other.keys()
    return sum(alike(one.get(name), other.get(name)) for name in sorted(names)) / len(names) if names else 0.0


def alike(one: Scalar, other: Scalar) -> float:
    """How alike two values are: 1 the same, whatever the spelling; prose by its shingles; else 0."""
    left, right = _plain(one), _plain(other)
    if left == right:
        return 1.0
    if not (_is_prose(one) and _is_prose(other)):
        return 0.0
    shingles, others = _shingles(left), _shingles(right)
    both = len(shingles & others)
    return both / (len(shingles) + len(others) - both)


def _plain(value: Scalar) -> str:
    """The value without what spelling adds: case, width, blanks, punctuation; 35, 35.0 and "35.00" are one number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        number = float(value)
    except ValueError:
        return _NOT_WORDS.sub("", unicodedata.normalize("NFKC", str(value)).casefold())
    return repr(number)


def _is_prose(value: Scalar) -> bool:
    return isinstance(value, str) and len(value.split()) >= 3


def _shingles(text: str) -> frozenset[str]:
    return frozenset(text[place : place + _SHINGLE] for place in range(max(1, len(text) - _SHINGLE + 1)))


def _bucket(tenant: str, action: str, name: str, value: Scalar) -> str:
    digest = hashlib.sha256(json.dumps([name, _plain(value)]).encode()).hexdigest()[:24]
    return joined(tenant, action, digest)


def is_open(operations: Iterable[Row | None]) -> bool:
    """Whether an alert about these still concerns somebody: not where one came to nothing, or was undone."""
    gone = ("WITHDRAWN", "FAILED", "COMPENSATED")
    return all(one is not None and one["status"] not in gone for one in operations)
