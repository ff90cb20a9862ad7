"""When a word counts: news by its source's own order, looks by when they were taken, leave to act by its end."""

from dataclasses import replace

import pytest

from joingate_schemas import facts as f
from joingate_schemas.decisions import Command

from .catalogues import varied
from .driver import Court, step


@pytest.fixture
def court() -> Court:
    return Court(varied())


def test_news_keeps_versions_and_times_apart_and_older_news_moves_neither(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.permit("s1")
    court.observe("s1", "PENDING", source_version=7, source_time=1_000)
    asked = len(court.questions(court.op_id("s1")))
    before = court.op("s1").news
    older = court.observe("s1", "PRESENT", source_version=6, source_time=2_000)
    assert older.reason == "STALE_OBSERVATION"
    assert [type(fact) for fact in older.facts] == [f.ObservationRecorded]
    assert (court.op("s1").news, court.op("s1").observed) == (before, False)
    assert court.observe("s1", "PENDING", source_time=999).reason == "STALE_OBSERVATION"
    assert len(court.questions(court.op_id("s1"))) == asked, "what the source has outdated itself need not be asked"
    assert court.observe("s1", "PENDING", source_version=8, source_time=500).reason == "OK", "its clock was set back"
    assert sorted(court.op("s1").news.values()) == [8, 1_000]


def _last_command(court: Court, step_id: str) -> Command:
    return [one for one in court.out if isinstance(one, Command) and one.operation_id == court.op_id(step_id)][-1]


@pytest.mark.parametrize(("action", "kind"), [("write_file", "EXECUTE"), ("reverse_fee", "PERMIT")])
def test_a_command_says_until_when_it_holds_and_doubt_is_reckoned_from_that(
    court: Court, action: str, kind: str
) -> None:
    court.open(step("s1", action))
    court.permit("s1")
    court.in_doubt("s1")
    command = _last_command(court, "s1")
    assert (command.kind, command.act_until) == (kind, command.issued_at + command.permit_ms)
    in_flight = court.catalogue.downstreams[command.downstream].in_flight_ms_max
    assert court.questions(court.op_id("s1"))[-1].askable_from == command.act_until + in_flight
    court.now = command.act_until + in_flight - 1
    assert court.observe("s1", "ABSENT", proof="SECOND_LOOK").reason == "TOO_EARLY"
    court.now += 1
    assert court.observe("s1", "ABSENT", proof="SECOND_LOOK").status == "FAILED"
    assert _last_command(court, "s1").kind == "WITHDRAW", "what has not begun must not begin any more"


def test_a_silent_one_phase_command_is_sent_again_with_a_time_of_its_own(court: Court) -> None:
    court.open(step("s1", "write_file"))
    court.permit("s1")
    first = _last_command(court, "s1").act_until
    court.advance(30_000)
    again = _last_command(court, "s1")
    assert (again.attempt, again.act_until) == (2, first + 30_000)


def test_what_an_observer_settles_is_withdrawn_from_the_executor_and_what_it_committed_is_not(court: Court) -> None:
    court.open(step("s1", "reverse_fee"), step("s2", "reverse_fee"))
    court.permit("s1")
    court.observe("s1", "PRESENT", external_ids=["r1"])
    assert _last_command(court, "s1").kind == "WITHDRAW"
    assert _last_command(court, "s1").act_until == 0
    court.perform("s2")
    assert _last_command(court, "s2").kind == "PERMIT"


def test_a_doubt_before_any_permit_frees_no_slot_by_not_sent(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.dispatch("s1")
    court.in_doubt("s1")
    assert court.executor_abort("s1", proof="NOT_SENT").reason == "NO_PROOF"
    assert court.dispatch("s1").reason == "IN_DOUBT_PENDING"


def test_a_worker_that_asks_for_an_escalated_operation_hears_that_it_is_in_doubt(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.permit("s1")
    court.in_doubt("s1")
    court.observe("s1", "RESEND")
    court.advance(3_700_000)
    assert court.op("s1").status == "ESCALATED"
    assert court.prepared("s1").reason == "IN_DOUBT_PENDING"


def test_a_person_who_says_that_nothing_happened_is_on_record_as_that_and_as_no_statement(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.permit("s1")
    court.in_doubt("s1")
    assert court.override("OPERATION", court.op_id("s1"), "FAILED").reason == "TOO_EARLY"
    court.advance(court.questions(court.op_id("s1"))[-1].askable_from - court.now)
    facts = court.override("OPERATION", court.op_id("s1"), "FAILED").facts
    assert [fact.proof for fact in facts if isinstance(fact, f.OperationFailed)] == ["OVERRIDE"]


def test_an_approval_that_expires_in_the_hold_window_lets_nothing_go_on() -> None:
    court = Court(varied())
    court.open(step("s1", "pay_checked"))
    court.catalogue = replace(
        court.catalogue,
        actions={
            **court.catalogue.actions,
            "pay_checked": replace(court.catalogue.actions["pay_checked"], hold_ms=60_000),
        },
    )
    court.dispatch("s1")
    court.approve("s1", principal="another", expires_at=court.now + 30_000)
    assert court.op("s1").timer == "HOLD"
    court.advance(60_000)
    assert court.op("s1").status == "WITHDRAWN"


def test_a_resend_needs_an_approval_that_still_holds() -> None:
    court = Court(varied())
    court.open(step("s1", "pay_checked"))
    court.dispatch("s1")
    court.approve("s1", principal="another", expires_at=court.now + 5_000)
    court.permit("s1")
    court.in_doubt("s1")
    court.now += 5_000
    assert court.observe("s1", "RESEND").reason == "NOT_FRESH"
