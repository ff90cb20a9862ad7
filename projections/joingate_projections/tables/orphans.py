"""The table of orphans: raised, they mark their subject and their intent; cleared, they are gone from all three.

`subject_orphans` (hidden) leads from a subject to its open orphans, so that a subject which becomes known later, as an
operation whose effect was suspected before its dispatch, is marked from its first row on.
"""

from joingate_projections.tables import At, Row, Rows, commitments, joined, levels, operations
from joingate_projections.tables.intents import put_intent, put_plan
from joingate_schemas.facts import OrphanCleared, OrphanRaised


def raised(rows: Rows, fact: OrphanRaised, at: At) -> None:
    """An incident is open. Raised again, it is the same incident and as old as it was."""
    old = rows.get("orphans", fact.orphan_id)
    row = {**vars(fact), **at.born()}
    if old is not None:
        row |= {"since": old["since"], "created_at": old["created_at"], "first": old["first"]}
    rows.put("orphans", fact.orphan_id, row)
    if old is None:
        levels.found(rows, f"ORPHANED {fact.kind}", at)
        _mark(rows, row, at, raised=True)


def cleared(rows: Rows, fact: OrphanCleared, at: At) -> None:
    """Its cause is gone; the ledger remembers that it was."""
    old = rows.get("orphans", fact.orphan_id)
    if old is not None:
        rows.delete("orphans", fact.orphan_id)
        _mark(rows, old, at, raised=False)


def _mark(rows: Rows, orphan: Row, at: At, *, raised: bool) -> None:
    kind, subject_id, intent_id = orphan["subject_kind"], orphan["subject_id"], orphan["intent_id"]
    if kind == "PLAN" and "\x1f" not in subject_id:
        # The law names a plan by its intent and itself, with a slash; rows have keys that cannot be mistaken.
        subject_id = joined(intent_id, subject_id.removeprefix(f"{intent_id}/"))
    key = joined(kind, subject_id)
    known = rows.get("subject_orphans", key)
    ids = [one for one in (known["ids"] if known and kind != "INTENT" else ()) if one != orphan["orphan_id"]]
    ids += [orphan["orphan_id"]] if raised else []
    if kind != "INTENT":
        if ids:
            rows.put("subject_orphans", key, {"ids": ids})
        else:
            rows.delete("subject_orphans", key)
    _mark_subject(rows, kind, subject_id, ids, at)
    _count(rows, intent_id, 1 if raised else -1, at)


def _mark_subject(rows: Rows, kind: str, subject_id: str, ids: list[str], at: At) -> None:
    match kind:
        case "OPERATION":
            old = rows.get("operations", subject_id)
            if old is not None:
                operations.put(rows, old, {**old, "orphans": ids, **at.touched()}, at)
        case "COMMITMENT":
            old = rows.get("commitments", subject_id)
            if old is not None:
                commitments.put(rows, old, {**old, "orphans": ids, **at.touched()}, at)
        case "PLAN":
            old = rows.get("plans", subject_id)
            if old is not None:
                put_plan(rows, {**old, "orphans": ids, **at.touched()}, at)
        case _:
            pass  # An intent's own orphans are counted below; other kinds of subject have no row.


def _count(rows: Rows, intent_id: str, by: int, at: At) -> None:
    """How many orphans an intent has, kept even before there is a row of the intent."""
    key = joined("INTENT", intent_id)
    known = rows.get("subject_orphans", key)
    count = (known["count"] if known else 0) + by
    if count:
        rows.put("subject_orphans", key, {"count": count})
    else:
        rows.delete("subject_orphans", key)
    intent = rows.get("intents", intent_id)
    if intent is not None:
        put_intent(rows, {**intent, "orphans": count, **at.touched()})
