"""Incidents: everything that needs somebody, in one list, oldest first, each with cause, what to do, and its lineage.

Five tables hold them: what is orphaned, what is in doubt, commitments that are breached, records that could not be
read, and pairs of operations that are much alike. An incident is gone from the list when its cause is gone; nobody has
to close it.
"""

from collections.abc import Iterator
from heapq import merge
from typing import TypeAlias

from joingate_projections import lineage
from joingate_projections.paging import Place, cursor_of, place_after
from joingate_projections.store import View, index_value
from joingate_projections.tables import Row, alike, shown
from joingate_projections.tables.lineage import node

UNREADABLE = "UNREADABLE"
ALIKE = "NEAR DUPLICATE"
WORDS = (shown.ORPHANED, shown.IN_DOUBT, shown.BREACHED, UNREADABLE, ALIKE)
SCANNED_MAX = 5_000
_SOURCES = (
    ("orphans", "since", shown.ORPHANED),
    ("in_doubt", "since", shown.IN_DOUBT),
    ("commitments", "breached_since", shown.BREACHED),
    ("alerts", "since", ALIKE),
)
_TABLE_OF = {word: table for table, _, word in _SOURCES}
_Found: TypeAlias = tuple[str, str, str]  # since, the kind of incident, the key of its row


def incidents(view: View, word: str | None, intent_id: str | None, limit: int, cursor: str | None, now: int) -> Row:
    """A page of incidents, of one `word` or of one intent if asked for. Raises BadQuestion about a broken cursor."""
    place = place_after(cursor)
    rows: list[Row] = []
    last: Place | None = None
    for scanned, one in enumerate(_from(view, place)):
        if len(rows) == limit or scanned == SCANNED_MAX:
            break
        last = (one[0], f"{one[1]} {one[2]}")
        row = _incident(view, one, now) if word in (None, one[1]) else None
        if row is not None and intent_id in (None, row["intent_id"]):
            rows.append(row)
    else:
        last = None
    return {"rows": rows, "next": cursor_of(last)}


def _from(view: View, place: Place | None) -> Iterator[_Found]:
    """Every open incident behind the place, oldest first."""
    start = (place[0], "") if place is not None else None
    walks = [_named(word, view.find(table, field, None, start)) for table, field, word in _SOURCES]
    unread = sorted((index_value(row["created_at"]), UNREADABLE, key) for key, row in _unreadable(view))
    for one in merge(*walks, unread):
        if place is None or (one[0], f"{one[1]} {one[2]}") > place:
            yield one


def _named(word: str, found: Iterator[Place]) -> Iterator[_Found]:
    for since, key in found:
        yield since, word, key


def _unreadable(view: View) -> Iterator[tuple[str, Row]]:
    for _, key in view.find("quarantine", "status", "OPEN"):
        row = view.get("quarantine", key)
        if row is not None:
            yield key, row


def _incident(view: View, found: _Found, now: int) -> Row | None:
    """One incident as it is told; None: another one tells of the same already."""
    since, word, key = found
    table = _TABLE_OF.get(word, "quarantine")
    row = view.get(table, key)
    if row is None or (word == shown.BREACHED and row["orphans"]):
        return None  # What is overdue as well as breached is told as the orphan that it is.
    if word == ALIKE and not alike.is_open(view.get("operations", one) for one in row["operation_id"]):
        return None
    kind, subject_id = _subject(word, key, row)
    deadline_at = row.get("deadline_at")
    return {
        "word": word,
        "kind": row.get("kind") or row.get("problem") or row["status"],
        "subject_kind": kind,
        "subject_id": subject_id,
        "intent_id": row.get("intent_id") or row.get("scope") or "",
        "since": int(since),
        "age_ms": max(0, now - int(since)),
        "cause": row.get("cause") or row.get("detail") or "",
        "suggested_action": suggested(word, row),
        "deadline_at": deadline_at,
        "overdue": deadline_at is not None and deadline_at < now,
        "lineage": line_of(view, kind, subject_id, row.get("intent_id")),
    }


def _subject(word: str, key: str, row: Row) -> tuple[str, str]:
    if word == shown.BREACHED:
        return "COMMITMENT", key
    return (row["subject_kind"], row["subject_id"]) if word != UNREADABLE else ("QUARANTINE", key)


def suggested(word: str, row: Row) -> str:
    """What to do about it: what the ledger suggests, else what its kind of trouble asks for."""
    if word == shown.ORPHANED:
        return str(row["suggested_action"])
    if word == ALIKE:
        both = f"{row['earlier_id']} and {row['subject_id']}"
        return (
            f"see whether {both} are one wish: if so, cancel the later one or have it undone; if both are honest, "
            "nothing is to be done"
        )
    if word == UNREADABLE:
        return "mend its bytes and re-drive it, or dismiss it: joingate quarantine"
    if word == shown.BREACHED:
        return (
            f"{row['owner_id']} owns it: discharge it still (satisfy, release, transfer), and tell whoever relied on it"
        )
    if row.get("task"):
        return str(row["task"])
    if row["status"] == "ESCALATED":
        return "a person finds out, and settles it with evidence"
    if row["subject_kind"] == "OPERATION":
        return f"wait for the reconciler, which asks {row['downstream']}; do not ask for the effect again"
    refs = ", ".join(row.get("resource_refs") or ())
    return f"see what became of {refs or row['subject_id']}, and let an observer or an operator say it with evidence"


def line_of(view: View, kind: str, subject_id: str, intent_id: str | None) -> list[Row]:
    """What the subject comes from, outermost first; at the least its intent."""
    line: list[Row] = []
    if kind == "OPERATION":
        line = lineage.ancestors(view, node("OPERATION", subject_id))
    elif kind == "COMMITMENT":
        line = lineage.ancestors(view, node("COMMITMENT", subject_id))
    elif kind == "GOAL" and intent_id:
        line = lineage.ancestors(view, node("GOAL", intent_id, subject_id))
    if line or not intent_id or view.get("intents", intent_id) is None:
        return line
    return [lineage.one(view, node("INTENT", intent_id))]
