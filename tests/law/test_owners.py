"""Who answers for an obligation: handed over by acknowledgement, found when its owner is gone, served under a lease."""

from dataclasses import replace

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.gate.docket import DECISION_BYTES_MAX
from joingate_processors.law import owners
from joingate_processors.law.evolve_owners import put_commitment
from joingate_schemas import facts as f
from joingate_schemas.decisions import CommitmentRow, Decision
from joingate_schemas.record import changed

from .catalogues import varied
from .driver import INTENT, Court, step
from .invariants import snapshot

OWNER = f"intent:{INTENT}"
HOUR_MS = 3_600_000


@pytest.fixture
def court() -> Court:
    court = Court(varied())
    court.open(step("s1", "book"), step("s2", "open_incident", parallel=True))
    court.perform("s1")
    return court


def rows_of(court: Court, step_id: str) -> list[CommitmentRow]:
    wanted = court.commitment_id(step_id)
    return [one for one in court.out if isinstance(one, CommitmentRow) and one.commitment_id == wanted]


# --- transfer --------------------------------------------------------------------------------------------------------


def test_asking_moves_nothing_and_the_acknowledgement_moves_owner_token_and_authority(court: Court) -> None:
    asked = court.transfer("s1")
    assert (court.commitment("s1").owner_id, court.commitment("s1").status) == (OWNER, "TRANSFER_PENDING")
    assert (rows_of(court, "s1")[-1].transfer_to, rows_of(court, "s1")[-1].transfer_token) == ("team:ops", 1)
    assert asked.status == "TRANSFER_PENDING"
    assert court.accept("s1").status == "ACTIVE"
    row = rows_of(court, "s1")[-1]
    assert (row.owner_id, row.status, row.fencing_token, row.transfer_to) == ("team:ops", "ACTIVE", 1, "")
    assert court.satisfied("s1").reason == court.release("s1").reason == "STALE_FENCE"
    assert court.satisfied("s1", fencing_token=1).status == "SATISFIED"


def test_delegating_work_and_knowing_of_it_move_no_ownership(court: Court) -> None:
    """A worker serves it, a plan names it, an observer sees it: its owner stays who it was."""
    court.lease("s1", "w9")
    court.plan(step("s3", "notify"), plan_id="p2", replaces="p1", commitments=[court.commitment_id("s1")])
    court.observe_commitment(court.state.open_commitments.members(INTENT)[0], "PRESENT", owner_id="team:ops")
    (one,) = court.state.open_commitments.members(INTENT)
    assert court.commitment(one).owner_id == OWNER


def test_a_target_that_is_seen_to_act_has_taken_over(court: Court) -> None:
    court.transfer("s1")
    decision = court.observe_commitment("s1", "PRESENT", owner_id="team:ops")
    assert [type(fact).__name__ for fact in decision.facts] == [
        "ObservationRecorded", "OwnerChanged", "CommitmentChanged",
    ]  # fmt: skip
    assert (court.commitment("s1").owner_id, court.token("s1")) == ("team:ops", 1)
    assert court.accept("s1").verdict == "REPLAYED"


@pytest.mark.parametrize("seen", [None, "person:ann", OWNER])
def test_somebody_else_that_is_seen_changes_nothing(court: Court, seen: str | None) -> None:
    court.transfer("s1")
    court.observe_commitment("s1", "PRESENT", owner_id=seen)
    assert (court.commitment("s1").owner_id, court.commitment("s1").status) == (OWNER, "TRANSFER_PENDING")


def test_without_an_answer_it_goes_back_by_an_event_of_its_own_and_the_late_answer_is_refused(court: Court) -> None:
    court.transfer("s1", acknowledge_by=court.now + 5_000)
    (decision,) = court.advance(5_000)
    assert (decision.claim_type, decision.status) == ("TimerFired", "ACTIVE")
    change = next(fact for fact in decision.facts if isinstance(fact, f.CommitmentChanged))
    assert change.cause == f"back to its owner {OWNER}: nobody acknowledged in time"
    assert court.accept("s1").reason == "ILLEGAL_TRANSITION"
    assert court.satisfied("s1").verdict == "ACCEPTED"


def test_the_types_own_time_holds_where_none_is_named(court: Court) -> None:
    court.transfer("s1")
    assert court.advance(HOUR_MS - 1) == []
    assert [one.status for one in court.advance(1)] == ["ACTIVE"]


def test_where_the_target_may_have_acted_nobody_rounds_it_to_one_side(court: Court) -> None:
    court.transfer("s1")
    court.observe_commitment("s1", "PENDING", owner_id="team:ops")
    court.advance(HOUR_MS)
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment("s1", "PRESENT").status == "RECONCILIATION_REQUIRED"
    assert court.release("s1").reason == "IN_TRANSFER"
    court.cancel()
    assert court.commitment("s1").status == "RECONCILIATION_REQUIRED"


@pytest.mark.parametrize(("seen", "owner", "token"), [("team:ops", "team:ops", 1), (OWNER, OWNER, 0)])
def test_the_question_ends_by_who_is_seen_to_act(court: Court, seen: str, owner: str, token: int) -> None:
    court.transfer("s1")
    court.observe_commitment("s1", "PENDING", owner_id="team:ops")
    court.advance(2 * HOUR_MS)
    assert "OVERDUE" in court.orphans()
    assert court.observe_commitment("s1", "PRESENT", owner_id=seen).status == "ACTIVE"
    assert (court.commitment("s1").owner_id, court.token("s1")) == (owner, token)
    assert court.orphans() == []


def test_what_leaves_our_books_ends_as_transferred_with_its_receipt(court: Court) -> None:
    court.perform("s2")
    court.transfer("s2", "desk:9")
    assert court.accept("s2", "desk:9", evidence=["receipt:77"]).status == "TRANSFERRED"
    row = court.commitment("s2")
    assert (row.owner_id, row.deadline_at) == ("desk:9", None)
    assert "receipt:77" in row.evidence
    assert court.commitment_id("s2") not in court.state.open_commitments.members(INTENT)


def test_an_answer_that_is_lost_in_a_restart_is_no_answer(court: Court) -> None:
    """The target crashes before it acknowledges: the deadline decides, over the restored state as over the live one."""
    court.transfer("s1")
    court.state = court.replayed()
    court.advance(HOUR_MS)
    assert (court.commitment("s1").owner_id, court.commitment("s1").status) == (OWNER, "ACTIVE")


# --- what others own outlives the intent -----------------------------------------------------------------------------


def test_a_commitment_that_was_handed_over_blocks_no_close_and_ends_by_its_new_owner(court: Court) -> None:
    court.transfer("s1")
    assert court.close().reason != "OK"
    court.accept("s1")
    court.succeed("s1")
    court.perform("s2")
    court.satisfied("s2")
    court.succeed("s2")
    assert court.close().verdict == "ACCEPTED"
    assert court.release("s1", fencing_token=1).status == "RELEASE_PENDING"
    court.perform_release("s1")
    assert court.commitment("s1").status == "RELEASED"


def test_cancelling_its_intent_leaves_it_to_its_new_owner(court: Court) -> None:
    court.transfer("s1")
    court.accept("s1")
    decision = court.cancel()
    assert not any(isinstance(fact, f.DispositionDecided) for fact in decision.facts)
    assert court.commitment("s1").status == "ACTIVE"
    assert court.abort("s1").detail == "the human gate operations decides"


def test_the_control_a_commitment_of_the_intents_own_is_given_up(court: Court) -> None:
    court.cancel()
    assert court.commitment("s1").status == "RELEASE_PENDING"


def test_an_offer_that_comes_back_to_a_cancelled_intent_is_given_up_then(court: Court) -> None:
    court.transfer("s1")
    cancelled = court.cancel()
    (kept,) = [fact for fact in cancelled.facts if isinstance(fact, f.DispositionDecided)]
    assert (kept.disposition, court.commitment("s1").status) == ("TRANSFER", "TRANSFER_PENDING")
    court.advance(HOUR_MS)
    assert court.commitment("s1").status == "RELEASE_PENDING"


def _handed_over_and_closed(court: Court) -> None:
    court.transfer("s1")
    court.accept("s1")
    court.succeed("s1")
    court.perform("s2")
    court.satisfied("s2")
    court.succeed("s2")
    assert court.close().verdict == "ACCEPTED"


def test_a_closed_intent_is_given_nothing_back(court: Court) -> None:
    _handed_over_and_closed(court)
    assert court.transfer("s1", OWNER, fencing_token=1).reason == "INTENT_CLOSED"
    assert court.assign("s1", "team:b", policy="takeover").verdict == "ACCEPTED"
    assert court.transfer("s1", "person:ann", fencing_token=2).verdict == "ACCEPTED"


def test_its_release_is_settled_by_a_person_after_the_close_too(court: Court) -> None:
    _handed_over_and_closed(court)
    court.release("s1", fencing_token=1)
    court.prepared(court.release_of("s1"))
    court.in_doubt(court.release_of("s1"))
    assert court.override("OPERATION", court.release_of("s1"), "SETTLED").verdict == "ACCEPTED"
    assert court.commitment("s1").status == "RELEASED"
    assert court.override("OPERATION", court.op_id("s2"), "FAILED").reason == "INTENT_CLOSED"


def test_the_source_can_not_stop_the_release_that_its_new_owner_asked_for(court: Court) -> None:
    court.transfer("s1")
    court.accept("s1")
    court.release("s1", fencing_token=1)
    assert court.abort(court.release_of("s1")).reason == "NOT_OWNER"
    assert court.executor_abort(court.release_of("s1")).verdict == "ACCEPTED"


@pytest.mark.parametrize(("named", "status"), [(True, "ACTIVE"), (False, "RELEASE_PENDING")])
def test_what_comes_home_to_an_intent_that_moved_on_is_decided_anew(court: Court, named: bool, status: str) -> None:
    court.transfer("s1")
    court.accept("s1")
    home = court.commitment_id("s1")
    court.declare(2)
    court.transfer(home, OWNER, fencing_token=1)
    decision = court.accept(home, OWNER)
    (decided,) = [fact for fact in decision.facts if isinstance(fact, f.DispositionDecided)]
    assert (decided.disposition, court.commitment(home).timer) == ("REVALIDATE", "DISPOSITION")
    if named:
        court.plan(step("s9", "notify"), plan_id="p2", commitments=[home])
    court.advance(600_000)
    assert court.commitment(home).status == status


def test_what_comes_home_to_an_intent_that_stayed_goes_on(court: Court) -> None:
    court.transfer("s1")
    court.accept("s1")
    court.transfer("s1", OWNER, fencing_token=1)
    assert not any(isinstance(fact, f.DispositionDecided) for fact in court.accept("s1", OWNER).facts)
    assert court.commitment("s1").timer == "NONE"


# --- owners that are gone --------------------------------------------------------------------------------------------


def test_retirement_finds_what_the_owner_has_under_every_intent(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time: the rest by timers, in the order of their ids, and each exactly once."""
    monkeypatch.setattr(owners, "SWEEP_MAX", 2)
    for number in range(3):
        court.declare(intent_id=f"acme/errand/{number + 5}")
        for key in ("a", "b"):
            assert court.promise(intent_id=f"acme/errand/{number + 5}", business_key=key, owner_id="team:ops").facts
    court.transfer("s1")
    court.accept("s1")
    first = court.retire("team:ops")
    assert _found(first) == 2
    assert court.promise(business_key="new", owner_id="team:ops").reason == "OWNER_RETIRED"
    swept = court.advance(10)
    assert [_found(one) for one in swept] == [2, 2, 1]
    assert court.orphans() == ["NO_OWNER"] * 7
    assert court.advance(HOUR_MS) == []
    assert snapshot(court.replayed()) == snapshot(court.state)


def _found(decision: Decision) -> int:
    return sum(isinstance(fact, f.OrphanRaised) and fact.kind == "NO_OWNER" for fact in decision.facts)


def test_a_sweep_of_the_longest_ids_fits_a_ledger_record(court: Court) -> None:
    row = court.commitment("s1")
    for number in range(owners.SWEEP_MAX):
        intent_id = f"acme/{number:0507d}"
        put_commitment(court.state, None, changed(row, commitment_id=f"{number:036d}", intent_id=intent_id,
                                                  owner_id="team:" + "o" * 507))  # fmt: skip
    court.retire("team:" + "o" * 507)
    assert len(court.ledger[-1]) < DECISION_BYTES_MAX
    assert _found(court.decisions[-1]) == owners.SWEEP_MAX


def test_an_orphan_is_cleared_by_its_new_owner_whom_the_policy_names(court: Court) -> None:
    court.retire()
    assert court.orphans() == ["NO_OWNER"]
    decision = court.assign("s1", "person:ann")
    assert (court.commitment("s1").owner_id, court.token("s1"), court.orphans()) == ("person:ann", 1, [])
    assert rows_of(court, "s1")[-1].owner_id == "person:ann"
    assert decision.status == "ACTIVE"
    assert court.satisfied("s1").reason == "STALE_FENCE"


def test_an_orphan_is_cleared_by_its_end_too(court: Court) -> None:
    court.retire()
    court.satisfied("s1")
    assert court.orphans() == []


def test_what_comes_back_after_its_owner_was_retired_is_an_orphan_at_once(court: Court) -> None:
    """It was proven never to have been made, and was made all the same (law 8): no sweep would find it any more."""
    court.permit("s2")
    court.executor_abort("s2", proof="REFUSED")
    court.satisfied("s1")
    court.retire()
    assert court.orphans() == []
    court.commit("s2")
    court.override("OPERATION", court.op_id("s2"), "SETTLED")
    assert "NO_OWNER" in court.orphans()


def test_an_offer_whose_target_is_gone_comes_back(court: Court) -> None:
    court.transfer("s1")
    court.retire("team:ops")
    assert court.accept("s1").reason == "OWNER_RETIRED"
    court.advance(HOUR_MS)
    assert (court.commitment("s1").owner_id, court.commitment("s1").status) == (OWNER, "ACTIVE")


# --- workers ---------------------------------------------------------------------------------------------------------


def test_a_lease_is_renewed_by_its_worker_and_runs_out_without_a_change_of_owner(court: Court) -> None:
    court.lease("s1", "w1")
    assert court.advance(59_999) == []
    assert court.lease("s1", "w1", 1).verdict == "ACCEPTED"
    assert court.advance(59_999) == []
    assert [one.detail for one in court.advance(1)] == ["worker w1 did not renew it"]
    assert (court.commitment("s1").owner_id, court.commitment("s1").status) == (OWNER, "ACTIVE")
    assert rows_of(court, "s1")[-1].worker == ""


def test_the_next_worker_has_a_higher_number_and_the_stale_one_is_refused_by_name(court: Court) -> None:
    court.lease("s1", "w1")
    court.advance(60_000)
    assert court.lease("s1", "w2").detail == "lease 2"
    assert rows_of(court, "s1")[-1].worker == "w2"
    assert court.lease("s1", "w1", 1).reason == "STALE_FENCE"
    assert court.lease("s1", "w1").reason == "ALREADY_CLAIMED"
    court.release("s1")
    assert court.prepared(court.release_of("s1"), worker="w1").reason == "ALREADY_CLAIMED"
    assert court.prepared(court.release_of("s1"), worker="w2").verdict == "ACCEPTED"


def test_a_lease_does_not_keep_another_executor_from_its_part_of_the_work() -> None:
    whole = varied()
    elsewhere = replace(whole.actions["unbook"], executor="clearing")
    court = Court(varied(actions={**whole.actions, "unbook": elsewhere}))
    court.open(step("s1", "book"))
    court.perform("s1")
    court.lease("s1", "w1")
    court.release("s1")
    assert court.prepared(court.release_of("s1"), worker="c1").verdict == "ACCEPTED"


def test_a_lease_is_not_reclaimed_while_what_its_worker_began_is_open(court: Court) -> None:
    court.lease("s1", "w1")
    court.release("s1")
    court.prepared(court.release_of("s1"), worker="w1")
    court.advance(60_000)
    assert court.lease("s1", "w2").reason == "ALREADY_CLAIMED"
    court.commit(court.release_of("s1"), evidence=[])
    court.advance(60_000)
    assert court.lease("s1", "w2").verdict == "ACCEPTED"


def test_a_change_of_owner_ends_the_lease_under_the_old_one(court: Court) -> None:
    court.lease("s1", "w1")
    court.transfer("s1")
    court.accept("s1")
    assert court.lease("s1", "w1", 1).reason == "STALE_FENCE"
    assert court.lease("s1", "w2").detail == "lease 2"


def test_the_end_of_the_commitment_ends_its_lease(court: Court) -> None:
    court.lease("s1", "w1")
    court.satisfied("s1")
    assert court.advance(HOUR_MS) == []


# --- promises and reviews --------------------------------------------------------------------------------------------


def test_a_promise_is_a_commitment_to_somebody_with_its_content_and_due(court: Court) -> None:
    due = court.now + HOUR_MS
    decision = court.promise("it is done by noon", due_at=due, business_key="order-7")
    row = court.commitment(decision.subject_id)
    assert (row.status, row.owner_id, row.counterparty_refs, row.due_at) == ("ACTIVE", OWNER, ["customer:7"], due)
    assert row.evidence[0].startswith("promise:")
    assert len(row.attributes["content"]) == 64
    assert court.promise("it is done by noon", due_at=due, business_key="order-7").subject_id == row.commitment_id


def test_words_of_an_action_that_only_informs_create_nothing(court: Court) -> None:
    said = {"to": "customer:7", "text": "we will do it by noon"}
    court.plan(step("s3", "notify", "customer:7", arguments=said), plan_id="p2", replaces="p1")
    before = len(court.state.rows("commitments"))
    court.perform("s3")
    assert len(court.state.rows("commitments")) == before


def test_a_message_that_promises_makes_its_commitment_when_it_was_sent(court: Court) -> None:
    said = {"to": "customer:7", "about": "order-7", "text": "by noon"}
    court.plan(step("s3", "promise", "customer:7/order-7", arguments=said), plan_id="p2", replaces="p1")
    court.dispatch("s3")
    assert court.commitment("s3").status == "PROPOSED"
    court.perform("s3")
    row = court.commitment("s3")
    assert (row.status, row.counterparty_refs) == ("ACTIVE", ["customer:7"])


def test_a_promise_survives_a_new_plan_and_not_the_loss_of_its_goal() -> None:
    court = Court(varied())
    court.declare(goals=[{"goal_id": "g1", "acceptance": "done"}])
    court.plan(step("s1"))
    promised = court.promise(goal_id="g1").subject_id
    court.plan(step("s2"), plan_id="p2", replaces="p1")
    assert court.commitment(promised).status == "ACTIVE"
    decision = court.declare(2, goals=[{"goal_id": "g2", "acceptance": "else"}])
    (decided,) = [fact for fact in decision.facts if isinstance(fact, f.DispositionDecided)]
    assert (decided.commitment_id, decided.differs) == (promised, ["goal_id"])
    assert court.commitment(promised).status != "ACTIVE"


def test_a_promise_that_has_to_be_seen_is_in_force_once_it_was(court: Court) -> None:
    promised = court.promise(obligation_type="review", counterparty="reviewer:ann").subject_id
    assert court.commitment(promised).status == "PROPOSED"
    assert court.observe_commitment(promised, "PRESENT").status == "ACTIVE"


def test_one_that_nobody_sees_in_time_is_reconciled(court: Court) -> None:
    promised = court.promise(obligation_type="review", counterparty="reviewer:ann").subject_id
    court.advance(600_000)
    assert court.commitment(promised).status == "RECONCILIATION_REQUIRED"


def _review(step_id: str, version: str, artifact: str = "plan.md") -> dict[str, str]:
    return {"artifact": artifact, "version": version, "reviewer": "ann"}


@pytest.fixture
def reviewed() -> Court:
    """A review of version 1 is under way, as is one of another artifact; version 2 is planned."""
    court = Court(varied())
    court.open(
        step("r1", "request_review", "plan.md@1", arguments=_review("r1", "1")),
        step("r2", "request_review", "plan.md@2", arguments=_review("r2", "2")),
        step("other", "request_review", "code@1", arguments=_review("other", "1", "code")),
    )
    court.active("other")
    return court


def test_a_request_for_a_newer_version_withdraws_the_older_one(reviewed: Court) -> None:
    reviewed.active("r1")
    row = reviewed.commitment("r1")
    assert (row.attributes, row.counterparty_refs) == ({"artifact": "plan.md", "version": "1"}, ["reviewer:ann"])
    assert row.valid_until is not None
    decision = reviewed.dispatch("r2")
    (decided,) = [fact for fact in decision.facts if isinstance(fact, f.DispositionDecided)]
    assert (decided.commitment_id, decided.disposition, decided.differs) == (row.commitment_id, "RELEASE", ["version"])
    assert reviewed.commitment("r1").status == "RELEASE_PENDING"
    assert reviewed.op(reviewed.release_of("r1")).action == "withdraw_review"
    assert reviewed.commitment("other").status == "ACTIVE"


def test_a_request_that_was_not_sent_yet_is_withdrawn_before_it_is(reviewed: Court) -> None:
    reviewed.dispatch("r1")
    reviewed.dispatch("r2")
    assert (reviewed.op("r1").status, reviewed.commitment("r1").status) == ("WITHDRAWN", "RELEASED")
    assert reviewed.commitment("r2").status == "PROPOSED"


def test_without_declared_kinds_every_named_owner_but_a_worker_lasts() -> None:
    court = Court(varied(owners={}))
    court.open(step("s1", "book"))
    court.perform("s1")
    assert court.transfer("s1", "worker:17").reason == court.transfer("s1", "robot").reason == "NOT_DURABLE"
    assert court.transfer("s1", "robot:3").verdict == "ACCEPTED"


@pytest.mark.parametrize("releasing", [False, True])
def test_an_assignment_hands_over_what_is_under_way_too(releasing: bool) -> None:
    """Its creation, or its release, goes on for the new owner: it is the gate that carries them."""
    court = Court(varied())
    court.load()
    court.open(step("s1", "reserve_window", "w"))
    if releasing:
        court.active("s1")
        court.release("s1")
    else:
        court.dispatch("s1")
    assert court.assign("s1", "team:ops", "takeover").verdict == "ACCEPTED"
    under_way = court.release_of("s1") if releasing else "s1"
    assert court.prepared(under_way).verdict == "ACCEPTED"
    assert court.commit(under_way, external_id="x-9").verdict == "ACCEPTED"
    assert court.commitment("s1").owner_id == "team:ops"
    assert check(court.decisions, raw=court.ledger) == []


def test_what_is_taken_over_after_its_intent_was_cancelled_stands_on_its_new_owner() -> None:
    court = Court(varied())
    court.load()
    court.open(step("s1", "reserve_window", "w"))
    court.active("s1")
    assert court.transfer("s1").verdict == "ACCEPTED"
    court.cancel()
    assert court.accept("s1").verdict == "ACCEPTED"
    assert (court.commitment("s1").status, court.commitment("s1").owner_id) == ("ACTIVE", "team:ops")
    assert check(court.decisions, raw=court.ledger) == []


def test_what_comes_back_to_a_cancelled_intent_is_given_up_in_the_same_decision() -> None:
    court = Court(varied())
    court.load()
    court.open(step("s1", "reserve_window", "w"))
    court.active("s1")
    court.transfer("s1")
    court.cancel()
    court.advance(90_000_000)
    assert court.commitment("s1").status not in ("ACTIVE", "TRANSFER_PENDING")
    assert check(court.decisions, raw=court.ledger) == []


def test_what_its_owner_gives_back_to_a_cancelled_intent_is_disposed_of_in_the_same_decision() -> None:
    court = Court(varied())
    court.load()
    court.open(step("s1", "reserve_window", "w"))
    court.active("s1")
    court.transfer("s1")
    court.accept("s1")
    court.cancel()
    home = f"intent:{INTENT}"
    assert court.transfer("s1", home, fencing_token=court.token("s1"), principal="team:ops").verdict == "ACCEPTED"
    came_home = court.accept("s1", home)
    assert came_home.verdict == "ACCEPTED"
    assert [fact for fact in came_home.facts if isinstance(fact, f.DispositionDecided)]
    assert check(court.decisions, raw=court.ledger) == []
