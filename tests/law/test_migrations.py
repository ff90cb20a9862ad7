"""Moving an open commitment to the version of its type in force: what is moved, what is refused, what rules it then."""

from dataclasses import replace
from typing import Any

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.law import migrations
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import CommitmentRow, Decision

from .catalogues import sealed
from .draws_catalogue import quantified
from .driver import Court, step
from .invariants import snapshot
from .life_catalogue import lived
from .scenes import edges


def held() -> Court:
    """Step s1's hold is in force, under version 1."""
    court = Court(lived())
    court.load()
    court.open(step("s1", "make_hold"))
    court.active("s1")
    return court


def second(court: Court, kind: str = "hold", version: int = 2, **fields: Any) -> None:
    """A second version of the type comes into force."""
    whole = court.catalogue
    raised = replace(whole.obligations[kind], version=version, **fields)
    court.catalogue = sealed(replace(whole, version=str(version), obligations={**whole.obligations, kind: raised}))
    court.say(c.CatalogueChanged(claim_id=court.claim_id(), intent_id="", digest=court.catalogue.digest,
                                 version=str(version), catalogue=court.catalogue.source))  # fmt: skip


def move(court: Court, **said: Any) -> Decision:
    return court.override("COMMITMENT", court.commitment_id("s1"), "MIGRATED", principal="olga", **said)


def test_a_person_moves_one_to_the_version_in_force_and_the_fact_says_what_differs() -> None:
    court = held()
    second(court, satisfied_evidence=("receipt",), release_ms=5_000, due_ms=1_000, weight=7.0)
    assert court.commitment("s1").type_version == 1
    moved = move(court)
    assert (moved.verdict, moved.status) == ("ACCEPTED", "ACTIVE")
    (fact,) = moved.facts
    assert isinstance(fact, f.CommitmentMigrated)
    assert (fact.before, fact.after, fact.evidence) == (1, 2, ["ticket-7"])
    assert fact.reason == "moved by olga: seen by hand"
    assert fact.differs == ["release_ms", "satisfied_evidence"], "its dates and its weight stay as they are"
    (row,) = [one for one in court.out if isinstance(one, CommitmentRow)][-1:]
    assert (row.commitment_id, row.type_version) == (court.commitment_id("s1"), 2)
    assert court.satisfied("s1").reason == "NO_EVIDENCE", "the second version asks for a receipt"
    assert court.satisfied("s1", evidence=["receipt:7"]).status == "SATISFIED"
    assert check(court.decisions) == []
    assert snapshot(court.replayed()) == snapshot(court.state)


def test_unmoved_it_ends_by_the_version_that_it_began_under() -> None:
    court = held()
    second(court, satisfied_evidence=("receipt",))
    assert court.satisfied("s1").status == "SATISFIED"


def test_it_is_given_back_as_the_version_says_that_rules_it_now() -> None:
    court = held()
    second(court, release_action="unbook")
    move(court)
    court.release("s1")
    assert court.op(court.release_of("s1")).action == "unbook"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"attributes": ("region",)}, "it compares region, which the commitment does not say"),
        ({"resolution": "EXPIRING", "release_action": None, "valid_ms": 5}, ""),
        ({"resolution": "IRREVERSIBLE", "release_action": None}, "nothing gives it back, where free_hold did"),
        ({"resolution": "TRANSFERABLE", "release_action": None}, "nothing gives it back, where free_hold did"),
        ({"resolution": "UNKNOWN"}, "nobody knows how it may end"),
    ],
)
def test_a_version_that_does_not_fit_is_refused_with_what_is_wrong(fields: dict[str, Any], said: str) -> None:
    court = held()
    second(court, **fields)
    moved = move(court)
    assert (moved.reason == "INCOMPATIBLE_VERSION") == bool(said), moved.detail
    assert said in moved.detail
    assert court.commitment("s1").type_version == (1 if said else 2)


def test_a_release_action_that_is_not_declared_any_more_ends_nothing() -> None:
    court = held()
    second(court, release_action="unbook")
    actions = {name: one for name, one in court.catalogue.actions.items() if name != "unbook"}
    court.catalogue = sealed(replace(court.catalogue, actions=actions))
    assert "nothing gives it back: unbook" in move(court).detail


def test_a_version_that_compares_less_fits_and_the_fact_names_the_attribute() -> None:
    court = Court(lived())
    court.load()
    said = {"window": "w", "environment": "prod", "release": "4.2"}
    court.open(step("s1", "reserve_window", "w", arguments=said))
    court.active("s1")
    kept = tuple(one for one in court.catalogue.obligations["window"].attributes if one != "release")
    second(court, "window", attributes=kept)
    (fact,) = move(court).facts
    assert isinstance(fact, f.CommitmentMigrated)
    assert fact.differs == ["attributes.release"]


def test_one_whose_release_failed_is_given_back_by_the_way_of_the_new_version() -> None:
    court = held()
    court.release("s1")
    court.prepared(court.release_of("s1"))
    court.executor_abort(court.release_of("s1"), proof="REFUSED")
    second(court, release_action="unbook")
    moved = move(court)
    assert moved.verdict == "ACCEPTED", moved.detail
    court.advance(10_000)
    assert court.op(court.release_of("s1")).action == "unbook"


@pytest.mark.parametrize("state", ["release", "transfer", "satisfied", "open"])
def test_what_is_under_way_or_over_is_not_moved(state: str) -> None:
    court = Court(lived())
    court.load()
    court.open(step("s1", "make_hold"))
    if state == "open":
        court.dispatch("s1")
    else:
        court.active("s1")
        getattr(court, state)("s1")
    second(court)
    moved = move(court)
    assert moved.reason == ("IN_TRANSFER" if state == "transfer" else "ILLEGAL_TRANSITION")
    assert moved.facts == []


def test_a_person_says_why_and_brings_evidence() -> None:
    court = held()
    second(court)
    assert move(court, reason="").reason == "NO_EVIDENCE"
    assert move(court, evidence=[]).reason == "NO_EVIDENCE"


def test_the_same_version_is_so_already_and_an_older_one_is_refused() -> None:
    court = held()
    assert move(court).reason == "ALREADY_SO"
    second(court, version=3)
    move(court)
    second(court, version=2)
    assert move(court).reason == "ILLEGAL_TRANSITION"


def test_what_steps_have_taken_of_it_is_moved_by_the_same_rules_only() -> None:
    court = Court(quantified())
    court.load()
    uses = step("u", "run_on_gpus", arguments={"need": 3}, edges=edges("REQUIRES", "s1"))
    court.open(step("s1", "reserve_gpus", arguments={"count": 8}), uses)
    court.perform("s1")
    court.dispatch("u")
    second(court, "gpus", draws="CONSUMED")
    assert "3 are taken of it, by other rules" in move(court).detail
    court.abort("u")
    assert move(court).verdict == "ACCEPTED"


def test_a_planner_moves_nothing() -> None:
    court = held()
    second(court)
    moved = move(court, topic="proposals")
    assert moved.reason == "WRONG_ROLE"


def test_the_checker_sees_a_move_of_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "_check_movable", lambda *_: None)
    court = held()
    court.satisfied("s1")
    second(court)
    move(court)
    assert [one.invariant for one in check(court.decisions)] == ["TERMINAL"]
