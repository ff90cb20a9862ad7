"""Incidents about effects that nothing allowed: a person sees their end, says so by name, and the table empties."""

import pytest

from joingate_processors.forensics.checker import check
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision

from .catalogues import varied
from .driver import Court, step
from .invariants import check_state, snapshot
from .table_archive import KEPT_MS, keeping

DAY_MS = 86_400_000


@pytest.fixture
def court() -> Court:
    """An operation settled as ext-1, and another effect of it was reported: a stray one."""
    court = Court(varied())
    court.load()
    court.open(step("s1", "pay"))
    court.perform("s1", external_id="ext-1")
    assert court.commit("s1", external_id="ext-2").reason == "STRAY_EFFECT"
    assert len(court.state.rows("orphans")) == 1
    return court


def incident(court: Court) -> str:
    """The id of the incident that is open."""
    ((key, _),) = court.state.rows("orphans")
    return key


def cleared(court: Court, orphan_id: str, **said: object) -> Decision:
    """A person's word that it is dealt with."""
    return court.override(
        "OPERATION", orphan_id, "CLEARED", **{"principal": "olga", "evidence": ["reversal:9"], **said}
    )


def sound(court: Court) -> None:
    check_state(court.state)
    assert snapshot(court.replayed()) == snapshot(court.state)
    assert check(court.decisions, raw=court.ledger) == []


def test_a_person_clears_it_by_name_and_with_evidence_and_the_table_is_empty(court: Court) -> None:
    said = cleared(court, incident(court))
    assert (said.verdict, said.status) == ("ACCEPTED", "CLEARED")
    (fact,) = said.facts
    assert isinstance(fact, f.OrphanCleared)
    assert fact.cause.startswith("cleared by olga: ")
    assert "reversal:9" in fact.cause
    assert court.state.rows("orphans") == []
    assert court.intent().orphans_open == 0
    sound(court)


def test_clearing_it_again_changes_nothing(court: Court) -> None:
    identity = incident(court)
    cleared(court, identity)
    assert cleared(court, identity).reason == "ALREADY_RESOLVED"


@pytest.mark.parametrize(
    ("said", "reason"), [({"evidence": []}, "NO_EVIDENCE"), ({"principal": ""}, "NO_EVIDENCE"),
                         ({"intent_id": "acme/other/1"}, "MALFORMED")]
)  # fmt: skip
def test_it_stays_without_a_name_evidence_or_its_own_intent(court: Court, said: dict[str, object], reason: str) -> None:
    assert cleared(court, incident(court), **said).reason == reason
    assert len(court.state.rows("orphans")) == 1


def test_an_incident_that_ends_with_its_cause_is_ended_by_no_word() -> None:
    court = Court(varied())
    court.load()
    court.open(step("s1", "reserve_window", "w"))
    court.active("s1")
    court.retire()
    identity = incident(court)
    assert cleared(court, identity).reason == "ILLEGAL_TRANSITION"
    assert incident(court) == identity


def test_one_about_an_intent_that_was_archived_is_cleared_too() -> None:
    court = Court(keeping())
    court.load()
    court.open(step("s1"))
    court.cancel()
    court.advance(KEPT_MS + DAY_MS)
    assert court.commit("never-dispatched").reason == "INTENT_ARCHIVED"
    assert cleared(court, incident(court)).verdict == "ACCEPTED"
    assert court.state.rows("orphans") == []
    sound(court)
