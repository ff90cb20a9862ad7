"""One effect from Dispatch to its end: phases, permits, silence, attempts, doubt, proof, generations, compensation."""

import pytest

from joingate_schemas import facts as f
from joingate_schemas.ids import operation_id

from .catalogues import varied, without_keys
from .driver import INTENT, Court, step
from .invariants import rows
from .scenes import doubted, opened, permitted, settled

DAY_MS = 86_400_000


@pytest.fixture
def court() -> Court:
    return Court(varied())


# --- identity --------------------------------------------------------------------------------------------------------


def test_the_key_comes_from_intent_slot_and_generation_alone(court: Court) -> None:
    opened(step("s1", "notify", "ops"))(court)
    decision = court.dispatch("s1")
    assert decision.subject_id == operation_id(INTENT, "notify", "ops", 1)
    court.plan(step("another-id", "notify", "ops"), plan_id="p2", replaces="p1")
    again = court.dispatch("another-id")
    assert again.subject_id == operation_id(INTENT, "notify", "ops", 2), "the first was withdrawn unpermitted"


def test_another_step_id_for_the_same_wish_lands_on_the_same_operation(court: Court) -> None:
    permitted(court)
    first = court.op_id("s1")
    court.plan(step("again", "notify", "entity-s1"), plan_id="p2", replaces="p1")
    decision = court.dispatch("again")
    assert (decision.verdict, decision.subject_id, decision.status) == ("REPLAYED", first, "SUBMITTED")
    assert court.commands(first) == ["PREPARE 1", "PERMIT 1"]


def test_what_an_older_plan_did_is_taken_up_by_name(court: Court) -> None:
    settled(court)
    court.plan(step("again", "notify", "entity-s1"), plan_id="p2", replaces="p1")
    assert court.close().reason == "MISSING_JOIN"
    assert court.succeed("again").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED"


def test_looking_twice_is_two_operations(court: Court) -> None:
    court.open(step("a", "read_file", "f"), step("b", "read_file", "f"))
    court.perform("a")
    court.perform("b")
    assert court.op_id("a") != court.op_id("b")


@pytest.mark.parametrize("end", ["REFUSED", "withdrawn", "compensated"])
def test_a_generation_rises_after_its_effect_is_proven_absent_or_undone(court: Court, end: str) -> None:
    opened(step("s1", "write_file"))(court)
    court.dispatch("s1")
    first = court.op_id("s1")
    match end:
        case "REFUSED":
            court.executor_abort("s1", proof="REFUSED")
        case "withdrawn":
            court = Court(varied())
            opened(step("s1", "notify"))(court)
            court.dispatch("s1")
            first = court.op_id("s1")
            court.abort("s1")
        case _:
            court.commit("s1")
            undo = court.abort("s1")
            assert court.commit(undo.facts[0].by, external_id="undo-1").verdict == "ACCEPTED"  # type: ignore[union-attr]
            assert court.op("s1").status == "COMPENSATED"
    decision = court.dispatch("s1")
    assert decision.verdict == "ACCEPTED"
    assert decision.subject_id != first
    assert (court.op("s1").generation, court.op("s1").attempt) == (2, 1)
    first_row = court.state.operations.get(first)
    assert first_row is not None
    assert first_row.latest_generation == 2


@pytest.mark.parametrize("said", ["silence", "in doubt", "exception", "cancel", "not found", "unreachable"])
def test_no_generation_rises_without_proof(court: Court, said: str) -> None:
    court.open(step("s1", "pay"))
    court.permit("s1")
    match said:
        case "silence":
            court.advance(90_000)
        case "in doubt":
            court.in_doubt("s1")
        case "exception":
            court.executor_abort("s1", error="connection reset")
        case "cancel":
            court.abort("s1")
        case _:
            court.in_doubt("s1")
            court.observe("s1", "NOT_FOUND" if said == "not found" else "UNREACHABLE")
    decision = court.dispatch("s1")
    assert (decision.verdict, decision.reason, decision.status) == ("REPLAYED", "IN_DOUBT_PENDING", "IN_DOUBT")
    assert court.op("s1").generation == 1


# --- one and two phases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "keys", "phases"),
    [
        ("notify", True, "TWO_PHASE"), ("pay", True, "TWO_PHASE"), ("pay", False, "TWO_PHASE"),
        ("reserve_window", True, "TWO_PHASE"), ("write_file", True, "ONE_PHASE"), ("read_file", True, "ONE_PHASE"),
        ("run_check", True, "ONE_PHASE"),
    ],
)  # fmt: skip
def test_one_phase_is_for_looks_and_for_what_can_be_undone_under_a_key(action: str, keys: bool, phases: str) -> None:
    court = Court(varied() if keys else without_keys())
    court.open(step("s1", action))
    court.dispatch("s1")
    assert court.op("s1").phases == phases
    assert court.commands(court.op_id("s1")) == ["PREPARE 1" if phases == "TWO_PHASE" else "EXECUTE 1"]
    assert court.op("s1").permits == (phases == "ONE_PHASE")


def test_an_attempt_has_one_permit_whoever_asks_and_however_often(court: Court) -> None:
    opened()(court)
    court.dispatch("s1")
    asked = [court.prepared("s1", worker=worker) for worker in ("w1", "w2", "w1", "w3")]
    assert [one.verdict for one in asked] == ["ACCEPTED", "REJECTED", "REPLAYED", "REJECTED"]
    assert court.commands(court.op_id("s1")) == ["PREPARE 1", "PERMIT 1"]


def test_silence_before_the_permit_is_the_same_operation_and_the_next_attempt(court: Court) -> None:
    opened()(court)
    court.dispatch("s1")
    key = court.op_id("s1")
    court.advance(30_000)
    court.advance(60_000)
    assert court.op_id("s1") == key
    assert court.commands(key) == ["PREPARE 1", "PREPARE 2", "PREPARE 3"]
    assert (court.op("s1").status, court.op("s1").permits) == ("VALIDATED", 0)
    assert court.prepared("s1", attempt=2).reason == "STALE_ATTEMPT"
    assert court.prepared("s1", attempt=3).verdict == "ACCEPTED"


def test_silence_after_the_permit_is_doubt_from_permit_and_flight_on(court: Court) -> None:
    permitted(court)
    assert court.advance(30_000 + 60_000 - 1) == []
    assert court.op("s1").status == "SUBMITTED"
    court.advance(1)
    assert court.op("s1").status == "IN_DOUBT"
    assert court.commands(court.op_id("s1")) == ["PREPARE 1", "PERMIT 1"], "nothing was sent again"
    assert [question.kind for question in court.questions(court.op_id("s1"))] == ["RESOLVE_OPERATION"]


def test_a_silent_one_phase_send_is_repeated_under_its_key_and_then_doubted(court: Court) -> None:
    opened()(court)
    court.dispatch("s2")
    court.advance(DAY_MS // 4)
    assert court.commands(court.op_id("s2")) == ["EXECUTE 1", "EXECUTE 2", "EXECUTE 3"]
    assert court.op("s2").status in ("IN_DOUBT", "ESCALATED")


@pytest.mark.parametrize("lost", ["cancel", "version", "plan"])
@pytest.mark.parametrize("action", ["write_file", "read_file"])
def test_a_silent_one_phase_send_is_not_repeated_once_its_ground_is_gone(court: Court, lost: str, action: str) -> None:
    court.open(step("s1", action))
    court.dispatch("s1")
    key = court.op_id("s1")
    match lost:
        case "cancel":
            court.cancel()
        case "version":
            court.declare(2)
        case _:
            court.plan(step("s9"), plan_id="p2", replaces="p1")
    court.advance(30_000)
    assert court.commands(key) == ["EXECUTE 1"]
    row = court.state.operations.get(key)
    assert row is not None
    assert row.status == "IN_DOUBT"


def test_a_look_is_repeated_for_as_long_as_it_is_wanted(court: Court) -> None:
    court.open(step("s1", "read_file"))
    court.dispatch("s1")
    court.advance(DAY_MS)
    assert court.op("s1").status == "SUBMITTED"
    assert court.op("s1").attempt > 3


# --- approval and hold -----------------------------------------------------------------------------------------------


def test_a_staged_operation_goes_out_when_it_is_approved(court: Court) -> None:
    court.open(step("s1", "pay_approved"))
    assert court.dispatch("s1").status == "STAGED"
    assert court.commands(court.op_id("s1")) == []
    assert court.approve("s1").status == "VALIDATED"
    assert court.commands(court.op_id("s1")) == ["PREPARE 1"]


def test_two_approvers_are_two_names(court: Court) -> None:
    court.open(step("s1", "pay_by_two"))
    court.dispatch("s1")
    assert court.approve("s1", principal="ann").status == "STAGED"
    assert court.approve("s1", principal="ann").status == "STAGED"
    assert court.approve("s1", principal="bob").status == "VALIDATED"


def test_an_approval_that_does_not_come_withdraws(court: Court) -> None:
    court.open(step("s1", "pay_approved"))
    court.dispatch("s1")
    court.advance(DAY_MS - 1)
    assert court.op("s1").status == "STAGED"
    court.advance(1)
    assert court.op("s1").status == "WITHDRAWN"


def test_no_withdraws(court: Court) -> None:
    court.open(step("s1", "pay_approved"))
    court.dispatch("s1")
    assert court.decline("s1").status == "WITHDRAWN"
    assert court.commands(court.op_id("s1")) == ["WITHDRAW 1"]


def test_a_held_operation_goes_out_when_its_window_has_passed(court: Court) -> None:
    court.open(step("s1", "pay_held"))
    court.dispatch("s1")
    court.advance(59_999)
    assert court.commands(court.op_id("s1")) == []
    court.advance(1)
    assert court.commands(court.op_id("s1")) == ["PREPARE 1"]


# --- doubt -----------------------------------------------------------------------------------------------------------


def test_a_late_commit_ends_the_doubt_and_tells_the_reconciler(court: Court) -> None:
    doubted(court)
    assert court.commit("s1").status == "SETTLED"
    assert [question.kind for question in court.questions(court.op_id("s1"))] == ["RESOLVE_OPERATION", "RESOLVED"]


def test_doubt_that_nobody_ends_goes_to_a_person_and_stays_there(court: Court) -> None:
    doubted(court)
    court.advance(3_600_000)
    assert court.op("s1").status == "ESCALATED"
    fact = court.decisions[-1].facts[-1]
    assert isinstance(fact, f.OperationEscalated)
    assert court.op_id("s1") in fact.task
    court.advance(3 * DAY_MS)
    assert court.op("s1").status == "ESCALATED", "age alone ends nothing"
    assert court.override("OPERATION", court.op_id("s1"), "SETTLED").status == "SETTLED"


def test_a_commit_over_proven_absence_puts_what_relied_on_it_in_question(court: Court) -> None:
    court.open(step("s1"))
    court.permit("s1")
    court.executor_abort("s1", proof="NOT_SENT")
    first = court.op_id("s1")
    court.perform("s1", external_id="ext-2")
    court.succeed("s1")
    decision = court.commit(first, attempt=1)
    assert decision.reason == "CONFLICTING_OUTCOME"
    fact = decision.facts[0]
    assert isinstance(fact, f.OperationInDoubt)
    assert fact.dependants == [], "a slot's operation that was taken up relies on nothing here"
    assert court.close().reason == "OPEN_OPERATIONS"


def test_absence_after_success_lists_the_step_and_opens_its_join_when_it_is_proven(court: Court) -> None:
    court.open(step("s1"))
    court.perform("s1")
    court.succeed("s1")
    court.observe("s1", "PRESENT", source_version=1)
    decision = court.observe("s1", "ABSENT", proof="REFUSED", source_version=2)
    doubt = decision.facts[1]
    assert isinstance(doubt, f.OperationInDoubt)
    assert doubt.dependants == ["step:p1/s1"]
    assert court.step("s1").succeeded
    assert court.observe("s1", "ABSENT", proof="REFUSED", source_version=3).status == "FAILED"
    assert not court.step("s1").succeeded
    assert court.close().reason == "MISSING_JOIN"


def test_a_stray_effect_is_an_incident_beside_the_one_that_counts(court: Court) -> None:
    settled(court)
    court.commit("s1", external_id="ext-2")
    court.commit("s1", external_id="ext-2")
    assert court.orphans() == ["STRAY_EFFECT"], "the same cause, seen again, is the same incident"
    assert (court.op("s1").status, court.op("s1").external_id) == ("SETTLED", "ext-1")


def test_an_effect_without_a_permit_is_no_success_until_a_person_says_so(court: Court) -> None:
    opened()(court)
    court.dispatch("s1")
    assert court.commit("s1").reason == "NO_PERMIT"
    assert court.orphans() == ["STRAY_EFFECT"]
    assert court.commit("s1").reason == "NO_PERMIT", "saying it again proves no more"
    assert court.prepared("s1", worker="w2").reason == "ALREADY_CLAIMED", "a second effect is not allowed"
    seen = [court.observe("s1", "PRESENT", external_ids=["ext-1"]) for _ in range(2)]
    assert [(one.reason, one.status) for one in seen] == [("NO_PERMIT", "ESCALATED")] * 2
    assert court.succeed("s1").reason == "NOT_COMMITTED"
    court.override("OPERATION", court.op_id("s1"), "SETTLED", external_id="ext-1")
    assert court.succeed("s1").verdict == "ACCEPTED"
    assert court.orphans() == []


def test_an_effect_that_was_only_claimed_is_absent_when_the_record_proves_it(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.dispatch("s1")
    court.commit("s1")
    assert court.observe("s1", "ABSENT", proof="SECOND_LOOK").reason == "TOO_EARLY"
    court.advance(60_000)
    assert court.observe("s1", "ABSENT", proof="SECOND_LOOK").status == "FAILED"


def test_none_of_several_is_picked_and_each_is_an_incident_until_a_person_picks(court: Court) -> None:
    doubted(court)
    decision = court.observe("s1", "PRESENT", external_ids=["a", "b"])
    assert decision.status == "ESCALATED"
    assert court.orphans() == ["STRAY_EFFECT", "STRAY_EFFECT"]
    assert [question.kind for question in court.questions(court.op_id("s1"))][-1] == "HUMAN"
    court.override("OPERATION", court.op_id("s1"), "SETTLED", external_id="b")
    assert court.op("s1").external_id == "b"
    assert court.orphans() == ["STRAY_EFFECT"]


@pytest.mark.parametrize("first", ["commit", "observer"])
def test_an_effect_settled_without_its_id_learns_it_once(court: Court, first: str) -> None:
    permitted(court)
    if first == "commit":
        court.commit("s1", external_id="")
    else:
        court.observe("s1", "PRESENT")
    assert court.observe("s1", "PRESENT", external_ids=["x"]).verdict == "ACCEPTED"
    assert court.op("s1").external_id == "x"
    assert court.commit("s1", external_id="y").reason == "STRAY_EFFECT"


def test_a_look_is_too_early_until_what_was_permitted_has_landed(court: Court) -> None:
    court.open(step("s1", "reverse_fee"))
    court.permit("s1")
    asked = [court.observe("s1", "ABSENT", proof="SECOND_LOOK")]
    court.advance(89_999)
    asked.append(court.observe("s1", "ABSENT", proof="SECOND_LOOK"))
    court.advance(1)
    asked.append(court.observe("s1", "ABSENT", proof="SECOND_LOOK"))
    assert [one.reason for one in asked] == ["TOO_EARLY", "TOO_EARLY", "OK"]


# --- approvals of unchanged content ----------------------------------------------------------------------------------


def test_a_new_plan_with_an_unchanged_step_asks_nobody_twice() -> None:
    """An approval binds to content: an unused one goes on with it, over plans and versions (law 11)."""
    court = Court(varied())
    court.open(step("s1", "pay_approved"))
    court.dispatch("s1")
    court.approve("s1", principal="ann")
    court.plan(step("s1", "pay_approved"), plan_id="p2", replaces="p1")
    court.dispatch("s1")
    assert (court.op("s1").approvals, court.op("s1").timer) == (["ann"], "HOLD")
    court.advance(0)
    assert court.commands(court.op_id("s1")) == ["PREPARE 1"]
    court.declare(2)
    court.plan(step("s1", "pay_approved"), plan_id="p3")
    court.dispatch("s1")
    court.advance(0)
    assert (court.op("s1").status, court.op("s1").generation) == ("VALIDATED", 3)


@pytest.mark.parametrize("why", ["other content", "spent", "expired", "one of two", "the maker is the checker"])
def test_an_approval_does_not_go_on_for_what_it_does_not_cover(why: str) -> None:
    court = Court(varied())
    action = {"one of two": "pay_by_two", "the maker is the checker": "pay_checked"}.get(why, "pay_approved")
    court.open(step("s1", action, arguments={"amount": 5}))
    court.dispatch("s1", principal="bob")
    court.approve("s1", principal="ann", expires_at=court.now + 10 if why == "expired" else None)
    if why == "spent":
        court.prepared("s1")
        court.executor_abort("s1", proof="REFUSED")
    if why == "expired":
        court.advance(10)
    amount = 6 if why == "other content" else 5
    court.plan(step("s1", action, arguments={"amount": amount}), plan_id="p2", replaces="p1")
    decision = court.dispatch("s1", principal="ann" if why == "the maker is the checker" else "bob")
    assert (decision.verdict, decision.status) == ("ACCEPTED", "STAGED")
    assert court.op("s1").generation == 2
    assert court.op("s1").approvals == (["ann"] if why == "one of two" else [])
    assert court.op("s1").timer == "APPROVAL"
    assert court.prepared("s1").reason == "NOT_READY"


# --- compensation ----------------------------------------------------------------------------------------------------


def test_a_human_gate_is_reminded_until_it_decides(court: Court) -> None:
    settled(court)
    assert court.abort("s1").reason == "COMPENSATION"
    before = court.op("s1")
    court.advance(86_400_000)
    assert court.op("s1").deadline_at == (before.deadline_at or 0) + 86_400_000
    assert "OVERDUE" in {orphan.kind for orphan in rows(court.state, "orphans")}
    assert court.op("s1").status == "SETTLED", "silence decides nothing"
    court.override("OPERATION", court.op("s1").operation_id, "COMPENSATED")
    assert court.op("s1").deadline_at is None
    assert "OVERDUE" not in {orphan.kind for orphan in rows(court.state, "orphans")}, "the cause is gone"


def test_a_late_abort_runs_the_compensating_action_and_the_join_waits_for_it(court: Court) -> None:
    court.open(step("s1", "write_file"), step("s2", "write_file", edges=[{"kind": "REQUIRES", "step_id": "s1"}]))
    court.perform("s1")
    court.succeed("s1")
    wish = court.abort("s1").facts[0]
    assert isinstance(wish, f.CompensationRequested)
    assert wish.by is not None
    assert court.dispatch("s2").reason == "DEPENDENCY_UNMET", "nothing new stands on what is to be undone"
    assert court.close().reason == "MISSING_JOIN"
    court.commit(wish.by, external_id="undo-1")
    assert (court.op("s1").status, court.op("s1").compensated_by) == ("COMPENSATED", wish.by)


def test_a_compensation_that_failed_is_asked_for_anew_and_blocks_the_close_until_then(court: Court) -> None:
    court.open(step("s1", "write_file"))
    court.perform("s1")
    court.succeed("s1")
    first = court.abort("s1").facts[0].by  # type: ignore[union-attr]
    assert court.abort("s1").verdict == "REPLAYED"
    court.executor_abort(first, proof="REFUSED")
    assert court.close().reason == "OPEN_OPERATIONS"
    again = court.abort("s1")
    assert again.verdict == "COMPENSATE"
    second = again.facts[0].by  # type: ignore[union-attr]
    assert second != first
    court.commit(second, external_id="undo-1")
    assert court.close().verdict == "ACCEPTED"


def test_an_executors_error_after_its_commit_does_not_keep_the_planner_from_undoing(court: Court) -> None:
    court.open(step("s1", "write_file"))
    court.perform("s1")
    gate = court.executor_abort("s1", error="broken pipe").facts[0]
    assert (gate.by, gate.gate) == (None, "operations")  # type: ignore[union-attr]
    assert court.executor_abort("s1", error="broken pipe").verdict == "REPLAYED"
    assert court.abort("s1").facts[0].by is not None  # type: ignore[union-attr]


def test_a_person_may_decide_that_it_stays(court: Court) -> None:
    settled(court)
    court.abort("s1")
    assert court.succeed("s1").reason == "COMPENSATION"
    court.override("OPERATION", court.op_id("s1"), "SETTLED")
    assert court.succeed("s1").verdict == "ACCEPTED"


# --- order of steps --------------------------------------------------------------------------------------------------


def test_steps_that_require_later_ones_are_moved_behind_them(court: Court) -> None:
    court.open(step("b", edges=[{"kind": "REQUIRES", "step_id": "a"}]), step("a"), step("c"))
    assert [court.step(one).ordinal for one in ("a", "b", "c")] == [0, 1, 2]


def test_a_chain_of_a_thousand_steps_is_a_plan_and_a_thousand_and_one_are_none(court: Court) -> None:
    chain = [step("n0", "write_file")] + [
        step(f"n{n}", "write_file", edges=[{"kind": "REQUIRES", "step_id": f"n{n - 1}"}]) for n in range(1, 1001)
    ]
    court.declare()
    assert court.plan(*reversed(chain)).reason == "MALFORMED"
    assert court.plan(*reversed(chain[:-1])).verdict == "ACCEPTED"
    assert court.step("n999").ordinal == 999


@pytest.mark.parametrize("kind", ["ENABLES", "PREFERS", "SATISFIES", "INVALIDATES"])
def test_edges_that_inform_bind_nothing(court: Court, kind: str) -> None:
    court.open(step("a", "write_file"), step("b", "write_file", edges=[{"kind": kind, "step_id": "a"}]))
    assert court.dispatch("b").verdict == "ACCEPTED"


def test_a_plan_without_progress_is_an_incident_until_something_moves(court: Court) -> None:
    opened(step("s1"), step("s2"))(court)
    court.advance(DAY_MS)
    assert court.orphans() == ["STALLED_PLAN"]
    court.advance(1)
    court.perform("s1")
    court.succeed("s1")
    court.advance(DAY_MS - 1)
    assert court.orphans() == []


@pytest.mark.parametrize("end", ["cancel", "version", "plan", "close"])
def test_that_a_plan_stalled_concerns_nobody_once_it_has_ended(court: Court, end: str) -> None:
    opened(step("s1", "read_file"))(court)
    court.advance(DAY_MS)
    assert court.orphans() == ["STALLED_PLAN"]
    match end:
        case "cancel":
            court.cancel()
        case "version":
            court.declare(2)
        case "plan":
            court.plan(step("s9"), plan_id="p2", replaces="p1")
        case _:
            court.perform("s1")
            court.succeed("s1")
            assert court.close().verdict == "ACCEPTED"
    assert court.orphans() == []
