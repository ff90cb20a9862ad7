"""Conditional commitments: nothing is made before the condition is seen, and what is not seen in time is dropped."""

from .driver import START_AT, Court, step
from .life_catalogue import HOUR_MS, lived


def waiting() -> Court:
    """Step s1 waits for `migration:a`."""
    court = Court(lived())
    court.open(step("s1", "make_message", arguments={"name": "a"}))
    assert court.dispatch("s1").status == "STAGED"
    return court


def test_before_its_condition_nothing_goes_out() -> None:
    court = waiting()
    row = court.commitment("s1")
    assert (row.status, row.condition, row.deadline_at) == ("PENDING_CONDITION", "migration:a", START_AT + HOUR_MS)
    assert court.commands(court.op_id("s1")) == []
    assert court.prepared("s1").reason == "NOT_READY"


def test_once_it_is_seen_the_obligation_is_made() -> None:
    court = waiting()
    court.observe_condition("migration:b", "PRESENT")
    court.observe_condition("migration:a", "NOT_FOUND")
    assert court.commitment("s1").status == "PENDING_CONDITION"
    court.observe_condition("migration:a", "PRESENT")
    assert (court.commitment("s1").status, court.op("s1").status) == ("PROPOSED", "VALIDATED")
    court.active("s1")
    assert court.commitment("s1").status == "ACTIVE"


def test_what_was_seen_before_counts_too() -> None:
    court = Court(lived())
    court.open(step("s1", "make_message", arguments={"name": "a"}))
    court.observe_condition("migration:a", "PRESENT")
    assert court.dispatch("s1").status == "VALIDATED"
    assert court.commitment("s1").status == "PROPOSED"


def test_the_latest_that_its_source_said_counts() -> None:
    court = Court(lived())
    court.open(step("s1", "make_message", arguments={"name": "a"}))
    court.observe_condition("migration:a", "ABSENT", source_version=2)
    assert court.observe_condition("migration:a", "PRESENT", source_version=1).reason == "STALE_OBSERVATION"
    assert court.dispatch("s1").status == "STAGED"


def test_one_that_is_not_seen_in_time_is_dropped_as_a_fact() -> None:
    court = waiting()
    court.advance(HOUR_MS)
    row = court.commitment("s1")
    assert (row.status, row.evidence) == ("RELEASED", ["absence:no permit was issued"])
    assert (court.op("s1").status, court.intent().commitments_open, court.orphans()) == ("WITHDRAWN", 0, [])
    assert court.dispatch("s1").verdict == "ACCEPTED", "and may be asked for again"
    assert court.commitment("s1").generation == 2


def test_one_may_be_dropped_before() -> None:
    for drop in (lambda x: x.release("s1"), lambda x: x.abort("s1"), lambda x: x.cancel()):
        court = waiting()
        key = court.commitment_id("s1")
        drop(court)
        assert court.commitment(key).status == "RELEASED"
        assert court.state.entries("open_operations") == []


def test_a_step_may_name_the_condition_of_its_obligation() -> None:
    court = Court(lived())
    court.open(step("s1", "make_hold", condition="weather:fine"), step("s2", "make_hold"))
    assert court.dispatch("s1").status == "STAGED"
    assert court.dispatch("s2").status == "VALIDATED", "the other one waits for nothing"
    court.observe_condition("weather:fine", "PRESENT")
    assert court.op("s1").status == "VALIDATED"


def test_the_approval_and_the_condition_are_both_waited_for_in_either_order() -> None:
    for first_approved in (True, False):
        court = Court(lived())
        court.open(step("s1", "make_statement", condition="text:signed-off"))
        court.dispatch("s1")
        assert court.commitment("s1").status == "PENDING_CONDITION"
        if first_approved:
            assert court.approve("s1").status == "STAGED"
            court.observe_condition("text:signed-off", "PRESENT")
        else:
            court.observe_condition("text:signed-off", "PRESENT")
            assert court.commitment("s1").status == "PROPOSED"
            assert court.op("s1").status == "STAGED"
            court.approve("s1")
        assert court.op("s1").status == "VALIDATED"


def test_a_restart_forgets_neither_the_wait_nor_what_was_seen() -> None:
    court = waiting()
    court.state = court.replayed()
    court.observe_condition("migration:a", "PRESENT")
    court.state = court.replayed()
    assert court.op("s1").status == "VALIDATED"
