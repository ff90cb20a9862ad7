"""An obligation from PROPOSED to its end: evidence for each step, release that is not given up, doubt that stays."""

import pytest

from joingate_schemas import claims as c
from joingate_schemas.ids import commitment_id

from .catalogues import varied
from .driver import INTENT, START_AT, Court, step

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def court() -> Court:
    court = Court(varied())
    wanted: c.Arguments = {"window": "w1", "environment": "prod", "release": "4.2"}
    court.open(step("s1", "reserve_window", "w1", arguments=wanted))
    return court


# --- PROPOSED to ACTIVE ----------------------------------------------------------------------------------------------


def test_a_plan_makes_no_commitment_and_a_dispatch_only_proposes_one(court: Court) -> None:
    assert court.state.rows("commitments") == []
    court.dispatch("s1")
    row = court.commitment("s1")
    assert (row.status, row.owner_id, row.resource_refs) == ("PROPOSED", f"intent:{INTENT}", ["window:w1"])
    assert row.attributes == {"environment": "prod", "release": "4.2"}
    assert row.commitment_id == commitment_id(INTENT, "window", ["window:w1"], 1)


def test_the_commit_alone_does_not_put_it_in_force_where_its_type_is_observed(court: Court) -> None:
    court.perform("s1")
    assert court.commitment("s1").status == "PROPOSED"
    assert [question.kind for question in court.questions(court.commitment_id("s1"))] == ["VERIFY_COMMITMENT"]
    decision = court.observe_commitment("s1", "PRESENT")
    assert decision.status == "ACTIVE"
    assert {"receipt", "external:ext-1", "looked"} <= set(court.commitment("s1").evidence)
    assert [question.kind for question in court.questions(court.commitment_id("s1"))][-1] == "RESOLVED"


def test_an_observation_before_the_commit_does_not_put_it_in_force_either(court: Court) -> None:
    court.permit("s1")
    assert court.observe_commitment("s1", "PRESENT").status == "PROPOSED"
    court.commit("s1")
    assert court.commitment("s1").status == "PROPOSED"


def test_a_type_that_needs_no_observation_is_in_force_with_the_commit() -> None:
    court = Court(varied())
    court.open(step("s1", "book"))
    court.perform("s1")
    assert court.commitment("s1").status == "ACTIVE"


def test_one_that_is_not_observed_in_time_must_be_reconciled(court: Court) -> None:
    court.perform("s1")
    court.advance(600_000)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment("s1", "NOT_FOUND").status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment("s1", "PRESENT").status == "ACTIVE"


def test_obligations_about_different_things_are_different_commitments() -> None:
    court = Court(varied())
    court.open(step("s1", "request_review", "plan-a"), step("s2", "request_review", "plan-b"))
    court.active("s1")
    court.active("s2")
    assert court.commitment_id("s1") != court.commitment_id("s2")
    assert court.intent().commitments_open == 2


def test_one_that_was_never_made_is_dropped_with_the_proof(court: Court) -> None:
    court.permit("s1")
    court.executor_abort("s1", proof="REFUSED")
    row = court.commitment("s1")
    assert (row.status, row.evidence) == ("RELEASED", ["absence:REFUSED"])
    assert court.intent().commitments_open == 0
    court.perform("s1")
    assert court.commitment("s1").generation == 2


def test_one_that_was_made_after_all_is_reopened_by_the_evidence(court: Court) -> None:
    court.permit("s1")
    court.executor_abort("s1", proof="NOT_SENT")
    court.commit("s1")
    assert court.commitment("s1").status == "RELEASED", "in doubt, nothing is known yet"
    assert court.observe("s1", "PRESENT", external_ids=["ext-1"]).status == "SETTLED"
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert court.orphans() == ["LATE_SUCCESS"]


def test_a_creation_in_doubt_leaves_it_unknown_and_asked_about(court: Court) -> None:
    court.permit("s1")
    court.in_doubt("s1")
    assert court.commitment("s1").status == "UNKNOWN"
    court.advance(HOUR_MS)
    assert court.commitment("s1").status == "UNKNOWN", "age alone ends nothing"
    assert "OVERDUE" in court.orphans()
    court.commit("s1")
    assert court.observe_commitment("s1", "PRESENT").status == "ACTIVE"
    assert court.orphans() == []


# --- release ---------------------------------------------------------------------------------------------------------


def test_a_release_ends_by_the_observation_and_frees_the_slot(court: Court) -> None:
    court.active("s1")
    assert court.release("s1").status == "RELEASE_PENDING"
    release = court.release_of("s1")
    court.perform_release("s1")
    assert court.commitment("s1").status == "RELEASE_PENDING", "an accepted call is no release"
    assert court.questions(court.commitment_id("s1"))[-1].kind == "VERIFY_RELEASE"
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"
    assert (court.op("s1").status, court.op("s1").compensated_by) == ("COMPENSATED", release)
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_a_type_that_needs_no_observation_is_released_by_the_commit() -> None:
    court = Court(varied())
    court.open(step("s1", "book"))
    court.perform("s1")
    court.release("s1")
    court.perform_release("s1")
    assert court.commitment("s1").status == "RELEASED"


def test_without_evidence_it_is_looked_at_whatever_its_type() -> None:
    court = Court(varied())
    court.open(step("s1", "book"))
    court.perform("s1")
    court.release("s1")
    release = court.release_of("s1")
    court.prepared(release)
    court.commit(release, external_id="", evidence=[], idempotency_key=release)
    assert (court.commitment("s1").status, court.commitment("s1").timer) == ("RELEASE_PENDING", "VERIFICATION")


def test_already_gone_is_a_release_and_the_call_that_was_not_made_is_withdrawn(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    release = court.release_of("s1")
    assert court.observe_commitment("s1", "ABSENT").reason == "NO_PROOF", "its release has not even been tried"
    assert court.observe_commitment("s1", "ABSENT", proof="STATEMENT").reason == "NO_PROOF", "there are no statements"
    assert court.observe_commitment("s1", "ABSENT", proof="SECOND_LOOK").status == "RELEASED"
    assert court.op(release).status == "WITHDRAWN"
    assert court.op("s1").compensated_by == f"commitment:{court.commitment_id('s1')}"


def test_already_gone_is_no_release_while_its_creation_is_in_doubt(court: Court) -> None:
    court.permit("s1")
    court.in_doubt("s1")
    court.release("s1")
    decision = court.observe_commitment("s1", "ABSENT")
    assert (decision.verdict, decision.status) == ("ACCEPTED", "RELEASE_PENDING")


def test_unreachable_and_not_found_release_nothing(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    court.perform_release("s1")
    for finding in ("UNREACHABLE", "NOT_FOUND", "PENDING", "UNKNOWN"):
        assert court.observe_commitment("s1", finding).status == "RELEASE_PENDING"


def test_a_failed_release_is_tried_again_with_the_next_generation_and_a_longer_pause(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    releases = [court.release_of("s1")]
    for pause_ms in (5_000, 10_000, 20_000):
        assert court.prepared(releases[-1]).verdict == "ACCEPTED"
        court.executor_abort(releases[-1], proof="REFUSED")
        assert court.commitment("s1").status == "RELEASE_PENDING"
        assert court.questions(court.commitment_id("s1"))[-1].kind == "VERIFY_RELEASE"
        court.advance(pause_ms - 1)
        assert court.release_of("s1") == releases[-1]
        court.advance(1)
        releases.append(court.release_of("s1"))
    assert [court.op(one).generation for one in releases] == [1, 2, 3, 4]
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"


def test_a_release_in_doubt_is_looked_into_and_no_second_one_starts(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    release = court.release_of("s1")
    court.prepared(release)
    court.in_doubt(release)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    court.release("s1")
    court.cancel()
    court.observe_commitment("s1", "PRESENT")
    court.advance(2 * HOUR_MS)
    assert court.release_of("s1") == release
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert len(court.state.rows("operations")) == 2
    assert court.observe(release, "ABSENT", proof="SECOND_LOOK").status == "FAILED"
    assert court.commitment("s1").status == "RELEASE_PENDING"
    court.advance(5_000)
    assert court.release_of("s1") != release


def test_a_release_in_doubt_that_took_effect_ends_by_being_seen_gone(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    court.prepared(court.release_of("s1"))
    court.in_doubt(court.release_of("s1"))
    assert court.observe_commitment("s1", "ABSENT").reason == "NO_PROOF"
    assert court.observe_commitment("s1", "ABSENT", proof="SECOND_LOOK").status == "RELEASED"
    assert court.op("s1").status == "COMPENSATED"


def test_a_release_that_is_committed_but_not_seen_is_asked_about_then_doubted_and_never_just_repeated(
    court: Court,
) -> None:
    court.active("s1")
    court.release("s1")
    release = court.release_of("s1")
    court.perform_release("s1")
    assert court.observe_commitment("s1", "PRESENT").status == "RELEASE_PENDING", "it may still be at work"
    court.advance(600_000)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment("s1", "PRESENT").status == "RECONCILIATION_REQUIRED"
    assert court.op(release).status == "IN_DOUBT", "its Commit and the record contradict each other"
    assert court.release_of("s1") == release
    court.observe(release, "ABSENT", proof="SECOND_LOOK")
    court.advance(5_000)
    assert court.op(court.release_of("s1")).generation == 2


def test_a_release_past_its_deadline_is_an_incident_and_goes_on(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    court.advance(3 * HOUR_MS)
    assert court.orphans() == ["OVERDUE"]
    assert court.commitment("s1").status == "BREACHED"
    assert court.release("s1").verdict == "REPLAYED"
    assert court.op(court.release_of("s1")).status == "VALIDATED"
    court.perform_release("s1")
    assert court.commitment("s1").status == "BREACHED", "committed, and not yet seen"
    court.observe_commitment("s1", "ABSENT")
    row = court.commitment("s1")
    assert (row.status, row.breached_at) == ("RELEASED", START_AT + HOUR_MS), "the breach stays on the record"
    assert court.orphans() == []


def test_a_release_of_what_is_still_being_made_waits_and_then_starts(court: Court) -> None:
    court.permit("s1")
    assert court.release("s1").status == "RELEASE_PENDING"
    assert court.commitment("s1").serving_operation is None
    court.commit("s1")
    assert court.op(court.release_of("s1")).status == "VALIDATED"


def test_a_release_of_what_was_not_yet_permitted_drops_it(court: Court) -> None:
    court.dispatch("s1")
    assert court.release("s1").status == "RELEASED"
    assert court.op("s1").status == "WITHDRAWN"


def test_what_can_not_be_released_goes_to_a_person() -> None:
    court = Court(varied())
    court.open(step("s1", "announce"))
    court.active("s1")
    assert court.release("s1").status == "RECONCILIATION_REQUIRED"
    assert court.override("COMMITMENT", court.commitment_id("s1"), "SATISFIED").status == "SATISFIED"


@pytest.mark.parametrize(
    ("news", "status"),
    [({"finding": "REVOKED"}, "BREACHED"), ({"finding": "ABSENT", "proof": "SECOND_LOOK"}, "BREACHED"),
     ({"finding": "ABSENT"}, "RECONCILIATION_REQUIRED"), ({"finding": "ABSENT", "proof": "STATEMENT"},
     "RECONCILIATION_REQUIRED"), ({"finding": "NOT_FOUND"}, "ACTIVE"), ({"finding": "UNREACHABLE"}, "ACTIVE")],
    ids=["taken back", "proven gone", "one look", "a proof that its source can't give", "not found", "unreachable"],
)  # fmt: skip
def test_what_vanishes_by_itself_is_breached_if_that_is_certain_and_else_looked_into(
    court: Court, news: dict[str, str], status: str
) -> None:
    court.active("s1")
    assert court.observe_commitment("s1", **news).status == status


def test_what_is_shown_again_after_its_end_is_an_incident_only_by_newer_news(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    court.perform_release("s1")
    court.observe_commitment("s1", "ABSENT", source_version=7)
    assert court.observe_commitment("s1", "PRESENT", source_version=6).reason == "STALE_OBSERVATION"
    court.observe_commitment("s1", "PRESENT")
    assert court.orphans() == []
    court.observe_commitment("s1", "PRESENT", source_version=8)
    assert court.orphans() == ["STRAY_EFFECT"]
    assert court.commitment("s1").status == "RELEASED"


def test_satisfied_ends_it_by_evidence_and_the_intent_can_close(court: Court) -> None:
    court.active("s1")
    court.succeed("s1")
    assert court.close().reason == "OPEN_COMMITMENTS"
    court.satisfied("s1")
    assert court.close().verdict == "ACCEPTED"


def test_several_that_match_must_be_reconciled(court: Court) -> None:
    court.active("s1")
    assert court.observe_commitment("s1", "SEVERAL").status == "RECONCILIATION_REQUIRED"
    court.override("COMMITMENT", court.commitment_id("s1"), "SATISFIED")
    assert court.observe_commitment("s1", "SEVERAL").status == "SATISFIED"


def test_a_late_abort_of_what_made_it_is_its_release(court: Court) -> None:
    court.active("s1")
    wish = court.abort("s1").facts[0]
    assert wish.by == court.release_of("s1")  # type: ignore[union-attr]
    assert court.abort("s1").verdict == "REPLAYED"
    court.perform_release("s1")
    court.observe_commitment("s1", "ABSENT")
    assert court.op("s1").status == "COMPENSATED"


def test_no_planner_stops_what_discharges_an_obligation(court: Court) -> None:
    """Whoever cancels everything would cancel what makes it safe; its executor may still say that it did not act."""
    court.active("s1")
    court.cancel()
    release = court.release_of("s1")
    decision = court.abort(release)
    assert (decision.verdict, decision.reason, decision.facts) == ("REJECTED", "ILLEGAL_TRANSITION", [])
    assert court.prepared(release).verdict == "ACCEPTED"
    assert court.abort(release).facts == []
    assert court.executor_abort(release, proof="NOT_SENT").status == "FAILED"
    assert court.commitment("s1").status == "RELEASE_PENDING", "it is tried again"


def test_a_person_may_keep_what_was_to_be_released_once_no_release_is_under_way(court: Court) -> None:
    court.active("s1")
    court.release("s1")
    court.prepared(court.release_of("s1"))
    court.executor_abort(court.release_of("s1"), proof="REFUSED")
    assert court.override("COMMITMENT", court.commitment_id("s1"), "ACTIVE").status == "ACTIVE"
    court.advance(DAY_MS)
    assert court.commitment("s1").status == "ACTIVE"


def test_reconciliation_can_be_asked_for(court: Court) -> None:
    court.active("s1")
    decision = court.reconcile("COMMITMENT", court.commitment_id("s1"), reason="the calendar looks odd")
    assert decision.status == "RECONCILIATION_REQUIRED"
    assert court.reconcile("COMMITMENT", court.commitment_id("s1")).verdict == "REPLAYED"
    assert court.observe_commitment("s1", "PRESENT").status == "ACTIVE"


def test_the_row_that_leaves_the_gate_is_the_present_one(court: Court) -> None:
    court.active("s1")
    rows = [one for one in court.out if type(one).__name__ == "CommitmentRow"]
    assert [row.status for row in rows] == ["PROPOSED", "PROPOSED", "ACTIVE"]
    assert rows[-1].operation_id == court.op_id("s1")
