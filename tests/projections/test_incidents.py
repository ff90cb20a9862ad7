"""Incidents in one list, oldest first, and commitments by when they are due: what people on duty go by."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.errors import BadQuestion
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import Row
from joingate_projections.tables.shown import BREACHED, IN_DOUBT, ORPHANED
from joingate_schemas.facts import QuarantineOpened
from joingate_schemas.record import changed

INTENT = "acme/release/4.2"
NOW = 100_000


@pytest.fixture
def troubled(hand: Any, open_store: ProjectionStore) -> StoreReader:
    """One incident of each kind: a breach, a doubt, an unreadable record, an orphan; a second apart, in this order."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned("p1", "ops", "board"), claim_type="Plan")
    hand.decide(hand.opened("ops", commitment_id="c1"), hand.proposed(), hand.proposed("c2", owner_id="ada"))
    hand.decide(hand.moved("PROPOSED", "ACTIVE"), hand.moved("PROPOSED", "ACTIVE", "c2"))
    hand.decide(hand.moved("ACTIVE", "BREACHED", "c2"), claim_type="TimerFired")
    hand.decide(hand.doubted("ops"), claim_type="TimerFired")
    hand.decide(
        QuarantineOpened(quarantine_id="q1", scope=INTENT, problem="UNREADABLE", detail="no magic byte"),
        claim_type="ClaimQuarantined",
    )
    hand.decide(changed(hand.orphaned("c1"), since=8_000), claim_type="Observe")
    hand.store_in(open_store)
    return StoreReader(open_store, clock=lambda: NOW)


def listed(reader: StoreReader, **options: object) -> list[Row]:
    """The incidents of a page."""
    rows: list[Row] = reader.ask("incidents", options=[(name, str(value)) for name, value in options.items()])["rows"]
    return rows


def test_every_kind_of_trouble_is_in_one_list_oldest_first(troubled: StoreReader) -> None:
    """Each with its word, its age, its cause and what to do."""
    rows = listed(troubled)
    assert [(row["word"], row["subject_id"]) for row in rows] == [
        (BREACHED, "c2"),
        (IN_DOUBT, rows[1]["subject_id"]),
        ("UNREADABLE", "q1"),
        (ORPHANED, "c1"),
    ]
    assert [row["age_ms"] for row in rows] == [95_000, 94_000, 93_000, 92_000]
    assert [row["cause"] for row in rows] == ["test", "PERMIT", "no magic byte", "its intent was superseded"]
    for row, words in zip(rows, ("ada owns it", "wait for the reconciler", "re-drive", "release it"), strict=True):
        assert words in row["suggested_action"]
    assert (rows[1]["deadline_at"], rows[1]["overdue"]) == (99_000, True)


def test_an_incident_tells_what_it_comes_from(troubled: StoreReader) -> None:
    """The intent, the goal, and whatever lies between."""
    rows = listed(troubled)
    assert [[one["kind"] for one in row["lineage"]] for row in rows] == [
        ["INTENT", "GOAL"],
        ["INTENT", "GOAL", "COMMITMENT", "COMMITMENT", "TASK"],
        [],
        ["INTENT", "GOAL"],
    ]
    assert rows[0]["lineage"][0]["intent_id"] == INTENT


def test_an_orphan_in_its_own_table_tells_it_too(troubled: StoreReader) -> None:
    """With its age, whether it is asked for in a list or by its id."""
    (row,) = troubled.page("orphans")["rows"]
    assert (row["age_ms"], [one["kind"] for one in row["lineage"]]) == (92_000, ["INTENT", "GOAL"])
    assert troubled.one("orphans", "o1")["row"] == row


def test_pages_of_incidents_follow_each_other_without_a_gap(troubled: StoreReader) -> None:
    """Across the tables that they come from."""
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(9):
        options = [("limit", "1"), *([("cursor", cursor)] if cursor else [])]
        page = troubled.ask("incidents", options=options)
        seen += [row["word"] for row in page["rows"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [BREACHED, IN_DOUBT, "UNREADABLE", ORPHANED]


def test_incidents_are_filtered_by_word_and_by_intent(troubled: StoreReader) -> None:
    """What there is no such word for is refused, with those that there are."""
    assert [row["subject_id"] for row in listed(troubled, word=ORPHANED)] == ["c1"]
    assert listed(troubled, intent="acme/other") == []
    assert len(listed(troubled, intent=INTENT)) == 4  # an unreadable record's scope is the intent that it may be about
    with pytest.raises(BadQuestion, match="one of ORPHANED, IN DOUBT, BREACHED, UNREADABLE, NEAR DUPLICATE"):
        listed(troubled, word="SAD")
    for limit in ("0", "501", "many"):
        with pytest.raises(BadQuestion, match="limit is a whole number from 1 to 500"):
            listed(troubled, limit=limit)
    with pytest.raises(BadQuestion, match="The cursor is not one that was handed out"):
        listed(troubled, cursor="rubbish")


def test_an_overdue_breach_is_told_once(troubled: StoreReader, hand: Any, open_store: ProjectionStore) -> None:
    """As the orphan that it is; and the list empties when the causes are gone."""
    hand.decide(hand.orphaned("c2", orphan_id="o2"), claim_type="TimerFired")
    hand.store_in(open_store, start=8)
    assert [row["word"] for row in listed(troubled) if row["subject_id"] == "c2"] == [ORPHANED]
    hand.decide(hand.moved("BREACHED", "RELEASED", "c2"), hand.cleared("o2"), hand.cleared("o1"), hand.settled())
    hand.store_in(open_store, start=9)
    assert [row["word"] for row in listed(troubled)] == ["UNREADABLE"]


def test_an_effect_that_nobody_dispatched_comes_from_its_intent(hand: Any, open_store: ProjectionStore) -> None:
    """There is no operation to trace, yet somebody's intent was named."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.orphaned("no-such-operation", kind="OPERATION"))
    hand.store_in(open_store)
    (row,) = listed(StoreReader(open_store, clock=lambda: NOW))
    assert [one["kind"] for one in row["lineage"]] == ["INTENT"]


# --- commitments by time ---------------------------------------------------------------------------------------------


@pytest.fixture
def due(hand: Any, open_store: ProjectionStore) -> StoreReader:
    """Four commitments, due at different times, one of them never and one discharged."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    for name, at in (("c1", 3_000_000), ("c2", 1_000_000), ("c3", None), ("c4", 2_000_000)):
        hand.decide(hand.proposed(name, due_at=at), hand.moved("PROPOSED", "ACTIVE", name))
    hand.decide(hand.moved("ACTIVE", "RELEASED", "c4"))
    hand.store_in(open_store)
    return StoreReader(open_store)


@pytest.mark.parametrize(
    ("filters", "order", "newest", "expected"),
    [
        ([("due_at_before", "3000000")], None, False, ["c2", "c4"]),
        ([("due_at_after", "2000000")], None, False, ["c4", "c1"]),
        ([("due_at_after", "1000001"), ("due_at_before", "3000001")], None, True, ["c1", "c4"]),
        ([("due_at_before", "3000000"), ("status", "ACTIVE")], None, False, ["c2"]),
        ([("due_at_after", "9000000")], None, False, []),
        ([], "open_since", False, ["c1", "c2", "c3"]),
        ([("holds", "window:production")], None, False, ["c1", "c2", "c3"]),
    ],
)
def test_commitments_are_found_by_when_they_are_due(
    due: StoreReader, filters: list[tuple[str, str]], order: str | None, newest: bool, expected: list[str]
) -> None:
    """From a time on, up to it, both; and those that are open, by how long they have been."""
    rows = due.page("commitments", filters, order=order, newest=newest)["rows"]
    assert [row["commitment_id"] for row in rows] == expected


def test_pages_within_bounds_stay_within_them(due: StoreReader) -> None:
    """Each way, and the last page has no next."""
    for newest, expected in ((False, ["c2", "c4"]), (True, ["c4", "c2"])):
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = due.page("commitments", [("due_at_before", "3000000")], limit=1, cursor=cursor, newest=newest)
            seen += [row["commitment_id"] for row in page["rows"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == expected


def test_a_listing_follows_one_time(due: StoreReader) -> None:
    """And what is no time, or no such bound, is refused with what there is."""
    for filters, order, words in (
        ([("due_at_before", "1")], "open_since", "A listing follows one time; these are several: due_at, open_since"),
        ([("due_at_before", "tomorrow")], None, "'tomorrow' is not"),
        ([("created_at_before", "1")], None, "due_at_after, due_at_before, open_since_after"),
    ):
        with pytest.raises(BadQuestion, match=words):
            due.page("commitments", filters, order=order)
