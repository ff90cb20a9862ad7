"""What archiving does to the table of intents: until when one is kept, and that the gate has put it away.

Rows stay as they were last: what people look for after a year is what was done, and the gate alone has to be small.
"""

from joingate_projections.tables import At, Row, Rows
from joingate_projections.tables.intents import put_intent
from joingate_schemas.facts import ArchiveSwept, IntentArchived, RetentionSet, RetentionSwept


def retention_set(rows: Rows, fact: RetentionSet, at: At) -> None:
    """Until when it is kept, or what it waits for."""
    kept = {"archive_since": fact.since, "archive_due": fact.deadline_at, "archive_cause": fact.cause}
    _change(rows, fact.intent_id, kept, at)


def retention_swept(rows: Rows, fact: RetentionSwept, at: At) -> None:
    """A retention was declared after these had ended."""
    for one in fact.intents:
        old = rows.get("intents", one)
        if old is not None:
            since = at.time if old["archive_since"] is None else old["archive_since"]
            due = max(since + fact.retention_ms, at.time + 1)
            kept = {"archive_since": since, "archive_due": due, "archive_cause": "a retention was declared"}
            put_intent(rows, {**old, **kept, **at.touched()})


def archived(rows: Rows, fact: IntentArchived, at: At) -> None:
    """The gate knows it by its tombstone alone."""
    _change(rows, fact.intent_id, {"archived_at": at.time, "archive_due": None, "archive_cause": "archived"}, at)


def swept(rows: Rows, fact: ArchiveSwept, at: At) -> None:
    """So many rows of it went from the gate's state."""
    old = rows.get("intents", fact.intent_id)
    if old is not None:
        gone = len(fact.operations) + len(fact.commitments) + fact.steps + fact.plans + fact.conditions + fact.goals
        put_intent(rows, {**old, "archived_rows": old["archived_rows"] + gone + fact.claims, **at.touched()})


def _change(rows: Rows, intent_id: str, change: Row, at: At) -> None:
    old = rows.get("intents", intent_id)
    if old is not None:
        put_intent(rows, {**old, **change, **at.touched()})
