"""What is folded of refused claims: which plan and step they were about, and news that the law did not believe."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.tables import MemoryRows, Row, joined
from joingate_schemas import claims as c
from joingate_schemas.record import changed

INTENT = "acme/release/4.2"


def only(rows: MemoryRows, table: str) -> Row:
    """The one row of a table."""
    (row,) = rows.tables[table].values()
    return row


@pytest.fixture
def planned(hand: Any) -> Any:
    """A ledger with an intent and an adopted plan of one step."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned(), claim_type="Plan")
    return hand


def observed_as(hand: Any, finding: str, version: int, reason: str = "OK", source: str = "messenger") -> None:
    """News about the operation, as the law took it or refused it."""
    fact = changed(hand.observed(hand.operation(), finding), source_version=version, source=source)
    verdict = "ACCEPTED" if reason == "OK" else "REJECTED"
    hand.decide(fact, claim_type="Observe", topic="observations", verdict=verdict, reason=reason)


@pytest.mark.parametrize("reason", ["STALE_OBSERVATION", "NO_PROOF", "TOO_EARLY"])
def test_news_that_was_not_believed_does_not_win_over_news_that_was(planned: Any, reason: str) -> None:
    """PRESENT of version 9, then ABSENT of version 3: the row shows what was seen, and history has both."""
    planned.decide(planned.opened())
    planned.decide(planned.settled())
    observed_as(planned, "PRESENT", 9)
    before = only(planned.rows(), "operations")
    assert (before["seen"], before["shown"]) == (True, "VERIFIED")
    observed_as(planned, "ABSENT", 3, reason)
    rows = planned.rows()
    assert only(rows, "operations") == before
    decided = [one for one in rows.tables["decisions"].values() if one["claim_type"] == "Observe"]
    assert [one["facts"][0]["finding"] for one in decided] == ["PRESENT", "ABSENT"]
    assert all(planned.operation() in one["mentions"] for one in decided)
    # A source's latest word is its newest; one that was unproven is its latest all the same, and is marked.
    latest = only(rows, "observations")
    expected = ("PRESENT", 9, None) if reason == "STALE_OBSERVATION" else ("ABSENT", 3, reason)
    assert (latest["finding"], latest["source_version"], latest["unbelieved"]) == expected


def test_news_that_was_refused_for_what_it_shows_is_shown(planned: Any) -> None:
    """The control: what contradicts the record is believed, and puts it in doubt."""
    planned.decide(planned.opened())
    planned.decide(planned.settled())
    observed_as(planned, "PRESENT", 9)
    observed_as(planned, "ABSENT", 10, "CONFLICTING_OUTCOME")
    row = only(planned.rows(), "operations")
    assert (row["seen"], row["observation"]["finding"], row["observation"]["source_version"]) == (False, "ABSENT", 10)
    observed_as(planned, "ABSENT", 1, "STALE_OBSERVATION", source="archive")
    by_source = {one["source"]: one["unbelieved"] for one in planned.rows().tables["observations"].values()}
    assert by_source == {"messenger": None, "archive": "STALE_OBSERVATION"}
    assert only(planned.rows(), "operations")["observation"]["source"] == "messenger"


def refused(hand: Any, claim: Any, reason: str = "NOT_COMMITTED") -> None:
    """The claim, refused: the ledger has its bytes, and no fact."""
    hand.decide(claim_type=type(claim).__name__, verdict="REJECTED", reason=reason, claim=hand.codec.encode(claim))


def test_a_refused_claim_is_found_by_the_plan_and_the_step_that_it_was_about(planned: Any) -> None:
    """It left no fact that says so; an accepted one did, and is not decoded for it."""
    about: dict[str, Any] = {"intent_id": INTENT, "intent_version": 1, "plan_id": "p1", "step_id": "s1"}
    refused(planned, c.Dispatch(claim_id="d", **about))
    refused(planned, c.Succeed(claim_id="s", evidence=[], **about))
    refused(planned, c.Plan(claim_id="p", intent_id=INTENT, intent_version=1, plan_id="p9", steps=[], commitments=[]))
    planned.decide(claim_type="Dispatch", claim=b"not looked at")
    rows = list(planned.rows().tables["decisions"].values())[2:]
    step = {"plan_id": "p1", "step_id": "s1"}
    assert [row["asked"] for row in rows] == [step, step, {"plan_id": "p9"}, None]
    for row in rows[:2]:
        assert {"p1", "s1", joined(INTENT, "p1"), joined(INTENT, "p1", "s1")} <= set(row["mentions"])
    assert {"p9", joined(INTENT, "p9")} <= set(rows[2]["mentions"])


def test_a_refused_claim_that_nobody_here_can_read_is_counted_and_still_a_row(planned: Any) -> None:
    """A newer release may have written it."""
    planned.decide(claim_type="Dispatch", verdict="REJECTED", reason="UNKNOWN_STEP", claim=b"\xc3\x01" + bytes(8))
    rows = planned.rows()
    assert rows.counters["unknown_claims", "Dispatch"] == 1
    assert list(rows.tables["decisions"].values())[-1]["asked"] is None
