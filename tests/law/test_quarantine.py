"""What an unreadable record may have said is unknown, not unsaid: refusals become holds, each decided once."""

import pytest

from joingate_schemas import claims as c
from joingate_schemas import facts as f

from .catalogues import varied
from .driver import CODEC, INTENT, Court, step
from .scenes import opened, permitted

PLACE = "outcomes/0/7"


@pytest.fixture
def court() -> Court:
    court = Court(varied())
    permitted(court)
    return court


def test_a_refusal_that_rests_on_not_known_is_held_and_any_other_is_not(court: Court) -> None:
    court.quarantine()
    held = court.succeed("s1", claim_id="x")
    assert (held.verdict, held.reason, held.claim_type, held.topic) == ("ACCEPTED", "HELD", "ClaimHeld", "gate")
    assert "NOT_COMMITTED" in held.detail
    assert court.dispatch("s1", intent_version=9).reason == "HELD", "the version may have been declared"
    assert court.plan(step("s1"), plan_id="p2").reason == "PLAN_CONFLICT"
    assert court.succeed("s1", topic="outcomes").reason == "WRONG_ROLE"
    assert court.commit("s1").verdict == "ACCEPTED", "what needs nothing from it goes on"


@pytest.mark.parametrize(("scope", "held"), [(INTENT, True), ("acme/other", False), (None, True)])
def test_its_scope_is_its_key_or_the_partition(court: Court, scope: str | None, held: bool) -> None:
    court.quarantine(scope)
    assert (court.succeed("s1").reason == "HELD") is held
    assert (court.declare(intent_id="acme/else/1").verdict) == "ACCEPTED"


def test_dismissed_its_holds_are_decided_once_in_order(court: Court) -> None:
    court.quarantine()
    court.succeed("s1", claim_id="a")
    court.close(claim_id="b")
    court.succeed("s1", claim_id="a")
    before = len(court.decisions)
    assert court.override("QUARANTINE", PLACE, "DISMISSED").verdict == "ACCEPTED"
    freed = court.decisions[before + 1 :]
    assert [(one.claim_id, one.verdict, one.reason) for one in freed] == [
        ("a", "REJECTED", "NOT_COMMITTED"), ("b", "REJECTED", "MISSING_JOIN"), ("a", "REPLAYED", "CLAIM_REPEATED"),
    ]  # fmt: skip
    assert court.override("QUARANTINE", PLACE, "DISMISSED").reason == "UNKNOWN_QUARANTINE"
    assert court.succeed("s1", claim_id="c").reason == "NOT_COMMITTED"


def test_redriven_the_mended_record_is_decided_first_on_its_own_topic(court: Court) -> None:
    court.quarantine()
    court.succeed("s1", claim_id="a")
    mended = CODEC.encode(
        c.Commit(claim_id="m", intent_id=INTENT, operation_id=court.op_id("s1"), attempt=1, evidence=["receipt"])
    )
    before = len(court.decisions)
    court.override("QUARANTINE", PLACE, "REDRIVEN", replacement=mended)
    commit, succeed = court.decisions[before + 1 :]
    assert (commit.claim_type, commit.topic, commit.offset, commit.verdict) == ("Commit", "outcomes", 7, "ACCEPTED")
    assert (succeed.claim_id, succeed.verdict) == ("a", "ACCEPTED")


def test_a_redriven_record_has_no_more_rights_than_its_topic_gives(court: Court) -> None:
    court.quarantine(place="proposals/0/3")
    mended = CODEC.encode(
        c.Commit(claim_id="m", intent_id=INTENT, operation_id=court.op_id("s1"), attempt=1, evidence=[])
    )
    court.override("QUARANTINE", "proposals/0/3", "REDRIVEN", replacement=mended)
    assert court.decisions[-1].reason == "WRONG_ROLE"


@pytest.mark.parametrize("place", ["no-place", "outcomes", "outcomes/x/y", "a/b/c/d/-1", ""])
def test_a_redrive_from_a_place_that_says_nothing_is_refused_by_role(court: Court, place: str) -> None:
    court.quarantine(place=place or "/")
    mended = CODEC.encode(c.CancelIntent(claim_id="m", intent_id=INTENT))
    court.override("QUARANTINE", place or "/", "REDRIVEN", replacement=mended)
    assert court.decisions[-1].reason == "WRONG_ROLE"


def test_a_hold_waits_for_every_quarantine_in_whose_scope_it_lies(court: Court) -> None:
    court.quarantine()
    court.quarantine(scope=None, place="proposals/0/2")
    court.succeed("s1", claim_id="a")
    court.override("QUARANTINE", PLACE, "DISMISSED")
    assert court.decisions[-1].reason == "HELD"
    court.override("QUARANTINE", "proposals/0/2", "DISMISSED")
    assert court.decisions[-1].reason == "NOT_COMMITTED"


def test_a_held_claims_own_stamp_is_not_off_the_clock_because_it_had_to_wait(court: Court) -> None:
    court.quarantine()
    court.succeed("s1", occurred_at=court.now)
    court.now += 3_600_000
    court.override("QUARANTINE", PLACE, "DISMISSED", occurred_at=court.now)
    freed = court.decisions[-1]
    assert freed.reason == "NOT_COMMITTED"
    assert not [fact for fact in freed.facts if isinstance(fact, f.ClockSkewed)]
    assert freed.decided_at == court.now
    assert freed.appended_at == court.now - 3_600_000


def test_quarantine_stops_no_other_intent_and_no_timer(court: Court) -> None:
    court.quarantine()
    court.advance(90_000)
    assert court.op("s1").status == "IN_DOUBT"


def test_a_commit_that_waited_records_its_suspicion_only_when_it_is_refused() -> None:
    court = Court(varied())
    opened()(court)
    court.quarantine()
    assert court.commit("s1").reason == "HELD"
    assert court.orphans() == []
    court.override("QUARANTINE", PLACE, "DISMISSED")
    assert court.orphans() == ["SUSPECTED_EFFECT"]
