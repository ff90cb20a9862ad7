"""Archiving as people see it: since when an intent is kept, that it was put away, and that its rows stay readable."""

from typing import Any

from joingate_projections.reader import lines_of
from joingate_schemas import facts as f


def _known(hand: Any) -> dict[str, Any]:
    """The intent's row, whatever the hand's story calls it."""
    rows = hand.rows().tables["intents"]
    assert len(rows) == 1
    return dict(next(iter(rows.values())))


def _said(row: dict[str, Any]) -> list[str]:
    return list(lines_of({"known": {"intents": [row]}, "decisions": []}))


def test_an_intent_tells_since_when_it_is_kept_and_what_it_waits_for(hand: Any) -> None:
    hand.decide(hand.declared())
    one = _known(hand)["intent_id"]
    assert len(_said(_known(hand))) == 1, "what is open is in no archive, and waits for none"
    hand.decide(f.RetentionSet(intent_id=one, since=1_000, retention_ms=60_000, cause="it was closed",
                               deadline_at=61_000))  # fmt: skip
    assert _said(_known(hand))[1] == "kept: at least until 1970-01-01 00:01:01.000Z, since it was closed"
    hand.decide(f.RetentionSet(intent_id=one, since=1_000, retention_ms=60_000, cause="1 open incidents"))
    assert _said(_known(hand))[1] == "kept: 1 open incidents"


def test_an_archived_intent_says_so_and_what_it_did_stays_readable(hand: Any) -> None:
    hand.short_story()
    before = hand.rows().tables
    one = _known(hand)["intent_id"]
    hand.decide(
        f.IntentArchived(intent_id=one, version=1, status="CLOSED", content_digest="d", since=1, retention_ms=2),
        f.ArchiveSwept(intent_id=one, operations=["a", "b"], commitments=["c"], steps=2, plans=1, conditions=0, goals=0,
                       claims=9, swept="z", discharging=""),
    )  # fmt: skip
    row = _known(hand)
    assert row["archived_at"] is not None
    assert row["archived_rows"] == 15
    assert "INTENT_ARCHIVED" in _said(row)[1]
    after = hand.rows().tables
    assert all(after[table] == before[table] for table in ("plans", "steps", "operations", "commitments"))


def test_a_retention_that_was_declared_late_is_shown_too(hand: Any) -> None:
    hand.decide(hand.declared())
    one = _known(hand)["intent_id"]
    hand.decide(f.RetentionSwept(swept=one, intents=[one, "unheard of"], retention_ms=60_000))
    row = _known(hand)
    assert row["archive_due"] - row["archive_since"] == 60_000


def test_a_cancelled_intent_that_is_declared_again_is_kept_for_no_archive(hand: Any) -> None:
    hand.decide(hand.declared())
    one = _known(hand)["intent_id"]
    hand.decide(f.RetentionSet(intent_id=one, since=1, retention_ms=2, cause="it was cancelled", deadline_at=3))
    hand.decide(hand.declared(version=2, supersedes=1))
    assert (_known(hand)["archive_due"], _known(hand)["archive_cause"]) == (None, "")
