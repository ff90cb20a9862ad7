"""Time and commitments: due and missed, valid and expired, stale and seen again, and what relies on each."""

import pytest

from joingate_processors.forensics.checker import check
from joingate_schemas import claims as c

from .driver import START_AT, Court, step
from .life_catalogue import DAY_MS, HOUR_MS, MINUTE_MS, lived
from .scenes import edges


def made(name: str, *more: c.PlanStep) -> Court:
    """Step s1 made a commitment of that type, and it is in force."""
    court = Court(lived())
    court.open(step("s1", f"make_{name}", arguments={"name": "a"}), *more)
    court.active("s1")
    return court


def kinds(court: Court) -> list[str]:
    """What was asked about the commitment of step s1, in order."""
    return [question.kind for question in court.questions(court.commitment_id("s1"))]


# --- due -------------------------------------------------------------------------------------------------------------


def test_what_is_due_counts_as_breached_once_its_grace_has_passed_and_not_before() -> None:
    court = made("reply")
    row = court.commitment("s1")
    assert (row.due_at, row.grace_until) == (START_AT + HOUR_MS, START_AT + HOUR_MS + 10 * MINUTE_MS)
    court.advance(HOUR_MS + 10 * MINUTE_MS - 1)
    assert (court.commitment("s1").status, court.orphans()) == ("ACTIVE", [])
    court.advance(1)
    row = court.commitment("s1")
    assert (row.status, row.breached_at, row.release_wanted) == ("BREACHED", row.grace_until, False)
    assert court.orphans() == ["OVERDUE"]
    raised = next(fact for fact in court.decisions[-1].facts if type(fact).__name__ == "OrphanRaised")
    assert raised.suggested_action.startswith("support: ")  # type: ignore[union-attr]


def test_a_breach_is_told_again_until_it_is_discharged_and_stays_on_the_record() -> None:
    court = made("reply")
    court.advance(HOUR_MS + 10 * MINUTE_MS)
    told = [one for one in court.advance(3 * DAY_MS) if one.subject_id == court.commitment_id("s1")]
    assert [one.status for one in told] == ["BREACHED"] * 3
    assert court.satisfied("s1", evidence=["receipt:1"]).status == "SATISFIED"
    assert court.commitment("s1").breached_at == START_AT + HOUR_MS + 10 * MINUTE_MS
    assert "OVERDUE" not in court.orphans()


def test_what_is_fulfilled_in_time_is_never_breached() -> None:
    court = made("reply")
    court.satisfied("s1", evidence=["receipt:1"])
    court.advance(DAY_MS)
    assert (court.commitment("s1").status, court.commitment("s1").breached_at) == ("SATISFIED", None)


def test_a_missed_one_is_given_up_where_its_type_says_so() -> None:
    court = made("errand")
    court.advance(HOUR_MS)
    row = court.commitment("s1")
    assert (row.status, row.disposition, row.breached_at) == ("RELEASE_PENDING", "RELEASE", START_AT + HOUR_MS)
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"
    assert court.commitment("s1").breached_at == START_AT + HOUR_MS


def test_what_was_in_question_while_it_fell_due_is_breached_as_soon_as_it_is_known_again() -> None:
    court = made("reply")
    court.reconcile("COMMITMENT", court.commitment_id("s1"))
    court.advance(2 * HOUR_MS)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    court.observe_commitment("s1", "PRESENT")
    court.advance(0)
    assert court.commitment("s1").status == "BREACHED"


def test_a_deadline_is_missed_once() -> None:
    court = made("reply")
    court.advance(2 * HOUR_MS)
    assert court.override("COMMITMENT", court.commitment_id("s1"), "ACTIVE").status == "ACTIVE"
    court.advance(DAY_MS)
    assert court.commitment("s1").status == "ACTIVE", "a person has said that it is in force after all"


def test_a_release_goes_on_from_a_breach() -> None:
    court = made("reply")
    court.advance(2 * HOUR_MS)
    assert court.release("s1").status == "RELEASE_PENDING"
    assert court.satisfied("s1", evidence=["receipt:1"]).reason == "ILLEGAL_TRANSITION"
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"


def test_a_release_past_its_deadline_goes_on_from_breached_through_failures() -> None:
    court = made("hold")
    court.release("s1")
    court.advance(HOUR_MS)
    assert court.commitment("s1").status == "BREACHED"
    for _ in range(3):
        release = court.release_of("s1")
        court.prepared(release)
        assert court.executor_abort(release, proof="REFUSED").verdict == "ACCEPTED"
        assert (court.commitment("s1").status, kinds(court)[-1]) == ("BREACHED", "VERIFY_RELEASE")
        court.advance(HOUR_MS)
        assert court.release_of("s1") != release, "it is tried again"
    assert court.satisfied("s1").reason == "ILLEGAL_TRANSITION"
    assert court.observe_commitment("s1", "ABSENT", proof="SECOND_LOOK").status == "RELEASED"


# --- valid -----------------------------------------------------------------------------------------------------------


def test_past_its_time_it_is_unknown_at_once_and_asked_about() -> None:
    court = made("hold")
    court.advance(7 * DAY_MS - 1)
    assert court.commitment("s1").status == "ACTIVE"
    court.advance(1)
    assert (court.commitment("s1").status, kinds(court)[-1]) == ("UNKNOWN", "VERIFY_COMMITMENT")


def test_its_time_counts_from_the_permit_of_what_made_it() -> None:
    court = Court(lived())
    court.open(step("s1", "make_hold", arguments={"name": "a"}))
    court.dispatch("s1")
    court.advance(20_000)
    court.prepared("s1")
    court.advance(10_000)
    court.commit("s1")
    assert court.commitment("s1").valid_until == START_AT + 20_000 + 7 * DAY_MS


def test_nothing_may_rely_on_it_even_before_anybody_noticed() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.now += 7 * DAY_MS  # no timer has fired yet
    assert court.commitment("s1").status == "ACTIVE"
    assert court.dispatch("s2").reason == "COMMITMENT_EXPIRED"
    assert court.succeed("s1").reason == "NOT_VERIFIED"


def test_what_is_in_time_carries_what_relies_on_it() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.advance(7 * DAY_MS - 1)
    assert court.dispatch("s2").verdict == "ACCEPTED"


@pytest.mark.parametrize(
    ("news", "status"),
    [({"finding": "ABSENT"}, "BREACHED"), ({"finding": "REVOKED"}, "BREACHED"), ({"finding": "PRESENT"}, "ACTIVE"),
     ({"finding": "NOT_FOUND"}, "UNKNOWN"), ({"finding": "UNREACHABLE"}, "UNKNOWN")],
    ids=["gone", "taken back", "still there", "not found", "unreachable"],
)  # fmt: skip
def test_what_expired_is_known_again_by_what_is_seen(news: dict[str, str], status: str) -> None:
    court = made("hold")
    court.advance(7 * DAY_MS)
    assert court.observe_commitment("s1", **news).status == status


def test_what_is_seen_beyond_its_time_is_relied_on_only_for_as_long_as_that_sight_is_fresh() -> None:
    court = made("hold")
    court.advance(7 * DAY_MS)
    court.observe_commitment("s1", "PRESENT")
    assert court.commitment("s1").valid_until == court.now + 10 * MINUTE_MS
    court.advance(10 * MINUTE_MS)
    assert court.commitment("s1").status == "UNKNOWN"


def test_a_source_may_say_how_long_it_holds() -> None:
    court = made("hold")
    court.observe_commitment("s1", "PRESENT", valid_until=START_AT + 9 * DAY_MS, source_version=2)
    court.advance(8 * DAY_MS)
    assert court.commitment("s1").status == "ACTIVE"
    court.observe_commitment("s1", "PRESENT", valid_until=START_AT + 99 * DAY_MS, source_version=1)
    court.advance(DAY_MS)
    assert court.commitment("s1").status == "UNKNOWN", "older news prolongs nothing"


# --- fresh -----------------------------------------------------------------------------------------------------------


def stale() -> Court:
    """Step s2 relies on what was last seen two hours ago."""
    court = made("fresh_hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.advance(2 * HOUR_MS)
    return court


def test_what_relies_on_a_fresh_sight_goes_straight_on() -> None:
    court = made("fresh_hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.advance(HOUR_MS)
    assert court.dispatch("s2").status == "VALIDATED"


def test_what_relies_on_an_old_sight_is_staged_while_it_is_looked_at_again_and_then_goes_on() -> None:
    court = stale()
    assert court.dispatch("s2").status == "STAGED"
    assert (court.op("s2").timer, court.commitment("s1").status) == ("REVALIDATION", "ACTIVE")
    assert kinds(court)[-1] == "VERIFY_COMMITMENT"
    assert court.commands(court.op_id("s2")) == []
    assert court.prepared("s2").reason == "NOT_READY"
    court.observe_commitment("s1", "PRESENT")
    assert (court.op("s2").status, kinds(court)[-1]) == ("VALIDATED", "RESOLVED")
    assert court.commands(court.op_id("s2")) == ["PREPARE 1"]
    assert court.prepared("s2").verdict == "ACCEPTED"


def test_what_is_not_seen_again_in_time_carries_nobody() -> None:
    court = stale()
    court.dispatch("s2")
    court.observe_commitment("s1", "UNREACHABLE")
    court.advance(10 * MINUTE_MS)
    assert (court.op("s2").status, court.commitment("s1").status) == ("WITHDRAWN", "RECONCILIATION_REQUIRED")
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET"


def test_the_sight_is_checked_again_when_the_permit_is_asked_for() -> None:
    court = made("fresh_hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.dispatch("s2")
    court.now += 2 * HOUR_MS
    decision = court.prepared("s2")
    assert (decision.reason, decision.status) == ("NOT_READY", "STAGED")
    court.observe_commitment("s1", "PRESENT")
    assert court.prepared("s2").verdict == "ACCEPTED"
    assert court.commands(court.op_id("s2")).count("PERMIT 1") == 1


def test_an_approval_does_not_skip_the_look() -> None:
    court = made("fresh_hold", step("s2", "pay_approved", edges=edges("REQUIRES", "s1")))
    court.dispatch("s2")
    court.advance(2 * HOUR_MS)
    assert court.approve("s2").status == "STAGED"
    assert court.op("s2").timer == "REVALIDATION"
    court.observe_commitment("s1", "PRESENT")
    assert court.op("s2").status == "VALIDATED"


# --- what is relied on is not given back -----------------------------------------------------------------------------


def test_a_release_waits_for_the_open_operation_that_relies_on_it() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.permit("s2")
    assert court.release("s1").status == "RELEASE_PENDING"
    assert court.commitment("s1").serving_operation is None
    court.commit("s2")
    assert court.op(court.release_of("s1")).status == "VALIDATED", "and starts in the decision that ends it"


def test_a_cancel_gives_back_at_once_what_only_unpermitted_work_relied_on() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    key = court.commitment_id("s1")
    court.dispatch("s2")
    court.cancel()
    assert court.op(court.release_of(key)).status == "VALIDATED"


def test_a_cancel_waits_with_the_release_for_what_may_have_acted() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    key, relying = court.commitment_id("s1"), court.op_id("s2")
    court.permit("s2")
    court.cancel()
    assert (court.commitment(key).status, court.commitment(key).serving_operation) == ("RELEASE_PENDING", None)
    court.executor_abort(relying, proof="NOT_SENT")
    assert court.op(court.release_of(key)).status == "VALIDATED"


# --- several times at once -------------------------------------------------------------------------------------------

OTHER: c.Goal = {"goal_id": "g1", "acceptance": "otherwise"}


def left_for_a_plan(name: str, before_ms: int) -> tuple[Court, str]:
    """A commitment whose goal changes `before_ms` after it was made, so that it waits for a plan to take it up."""
    court = Court(lived())
    court.declare(goals=[{"goal_id": "g1", "acceptance": "so"}])
    court.plan(step("s1", f"make_{name}", arguments={"name": "a"}, goal_id="g1"))
    court.active("s1")
    key = court.commitment_id("s1")
    court.advance(before_ms)
    court.declare(2, goals=[OTHER])
    assert court.commitment(key).disposition == "REVALIDATE"
    return court, key


def test_what_expires_while_it_waits_for_a_plan_is_given_up_all_the_same() -> None:
    court, key = left_for_a_plan("hold", 7 * DAY_MS - 5 * MINUTE_MS)
    court.advance(5 * MINUTE_MS)
    assert court.commitment(key).status == "UNKNOWN"
    court.advance(HOUR_MS)
    assert court.commitment(key).status == "RELEASE_PENDING"


def test_what_is_breached_while_it_waits_for_a_plan_is_given_up_all_the_same() -> None:
    court, key = left_for_a_plan("reply", HOUR_MS + 5 * MINUTE_MS)
    court.advance(5 * MINUTE_MS)
    assert court.commitment(key).status == "BREACHED"
    court.advance(10 * MINUTE_MS)
    assert court.commitment(key).status == "RELEASE_PENDING"


def test_what_is_seen_while_it_waits_for_a_plan_goes_on_waiting() -> None:
    court, key = left_for_a_plan("hold", HOUR_MS)
    court.observe_commitment(key, "PRESENT", valid_until=court.now + 9 * DAY_MS)
    assert (court.commitment(key).status, court.commitment(key).timer) == ("ACTIVE", "DISPOSITION")
    court.advance(10 * MINUTE_MS)
    assert court.commitment(key).status == "RELEASE_PENDING"


def test_what_was_missed_is_breached_again_when_it_is_seen_for_that_fulfils_nothing() -> None:
    court = made("reply")
    court.advance(HOUR_MS + 10 * MINUTE_MS)
    first = court.commitment("s1").breached_at
    court.reconcile("COMMITMENT", court.commitment_id("s1"))
    assert court.observe_commitment("s1", "PRESENT").status == "BREACHED"
    assert court.commitment("s1").breached_at == first


def test_what_a_person_calls_breached_is_still_given_back() -> None:
    court = made("hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.permit("s2")
    court.release("s1")
    court.override("COMMITMENT", court.commitment_id("s1"), "BREACHED")
    court.commit("s2")
    assert court.op(court.release_of("s1")).status == "VALIDATED"


def test_a_long_pause_between_tries_does_not_put_off_the_deadline() -> None:
    court = made("hold")
    court.release("s1")
    for _ in range(8):
        court.prepared(court.release_of("s1"))
        court.executor_abort(court.release_of("s1"), proof="REFUSED")
        pause = (court.commitment("s1").deadline_at or 0) - court.now
        court.advance(pause)
    court.advance(HOUR_MS - MINUTE_MS - (court.now - START_AT))
    court.prepared(court.release_of("s1"))
    court.executor_abort(court.release_of("s1"), proof="REFUSED")
    court.advance(MINUTE_MS - 1)
    assert court.commitment("s1").status == "RELEASE_PENDING"
    court.advance(1)
    assert court.commitment("s1").status == "BREACHED"


def test_a_resend_out_of_doubt_waits_for_the_look_and_stays_in_doubt() -> None:
    court = made("fresh_hold", step("s2", "pay", edges=edges("REQUIRES", "s1")))
    court.advance(55 * MINUTE_MS)
    court.permit("s2")
    court.in_doubt("s2")
    court.advance(6 * MINUTE_MS)
    assert court.observe("s2", "RESEND").verdict == "ACCEPTED"
    decision = court.prepared("s2")
    assert (decision.reason, court.op("s2").status) == ("NOT_READY", "IN_DOUBT")
    assert kinds(court)[-1] == "VERIFY_COMMITMENT"
    court.observe_commitment("s1", "PRESENT")
    assert court.prepared("s2").verdict == "ACCEPTED"


def test_what_was_never_seen_is_not_breached_by_being_gone_but_looked_into() -> None:
    court = Court(lived())
    court.open(step("s1", "make_hold"))
    court.perform("s1")
    court.advance(10 * MINUTE_MS)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment("s1", "ABSENT", proof="SECOND_LOOK").status == "RECONCILIATION_REQUIRED"


def test_the_look_is_asked_for_also_where_its_time_ends_sooner() -> None:
    court = made("fresh_hold", step("s2", "notify", edges=edges("REQUIRES", "s1")))
    court.observe_commitment("s1", "PRESENT", valid_until=court.now + 2 * HOUR_MS + 5 * MINUTE_MS)
    court.advance(2 * HOUR_MS)
    before = len(kinds(court))
    assert court.dispatch("s2").status == "STAGED"
    assert court.commitment("s1").timer == "VALIDITY"
    assert kinds(court)[before:] == ["VERIFY_COMMITMENT"]


def test_once_it_is_known_to_be_gone_nobody_asks_any_more() -> None:
    court = made("hold")
    court.advance(7 * DAY_MS)
    court.observe_commitment("s1", "ABSENT")
    assert kinds(court)[-2:] == ["VERIFY_COMMITMENT", "RESOLVED"]


def test_what_is_breached_and_kept_is_told_on() -> None:
    court, key = left_for_a_plan("reply", 2 * HOUR_MS)
    assert (court.commitment(key).status, court.commitment(key).timer) == ("BREACHED", "DISPOSITION")
    court.plan(step("s9", commitments=[key]), plan_id="p2")
    assert (court.commitment(key).status, court.commitment(key).timer) == ("BREACHED", "ESCALATION")


def test_a_change_of_ground_leaves_a_breached_release_to_go_on() -> None:
    court = made("hold")
    key = court.commitment_id("s1")
    court.release("s1")
    court.advance(HOUR_MS)
    court.declare(2, goals=[OTHER])
    row = court.commitment(key)
    assert (row.status, row.timer, row.disposition) == ("BREACHED", "RELEASE", "UNKNOWN")


def test_what_a_person_keeps_past_its_time_holds_as_long_as_a_sight_does_and_no_deadline_fires_twice() -> None:
    court = made("hold")
    court.advance(7 * DAY_MS)
    assert court.override("COMMITMENT", court.commitment_id("s1"), "ACTIVE").status == "ACTIVE"
    court.advance(10 * MINUTE_MS - 1)
    assert court.commitment("s1").status == "ACTIVE"
    court.advance(1)
    assert court.commitment("s1").status == "UNKNOWN"
    assert check(court.decisions, raw=court.ledger) == []
