"""What a step rests on: named by its entity, joined when it starts, and still there when it may act."""

import pytest

from joingate_processors.law.opening import fill, natural_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.decisions import Decision

from .catalogues import varied, with_principals
from .driver import Court, step
from .scenes import edges

FEE = builtin_catalogue().actions["reverse_fee"]
WRITE = builtin_catalogue().actions["write_file"]


def planned(action: str, arguments: c.Arguments, business_key: str = "") -> Decision:
    court = Court(varied())
    court.declare()
    return court.plan({"step_id": "s1", "action": action, "business_key": business_key, "arguments": arguments})


def test_one_entity_has_one_key_however_it_is_typed() -> None:
    spelled: list[c.Scalar] = [4711, 4711.0, "4711", " 4711 "]
    assert {natural_key(FEE, {"fee_transaction_id": one}) for one in spelled} == {"4711"}
    assert natural_key(FEE, {"amount": 5}) is None
    assert natural_key(WRITE, {"path": True}) == "true"


def test_what_an_argument_says_is_no_template() -> None:
    assert natural_key(WRITE, {"path": "src/{content}.txt", "content": "c"}) == "src/{content}.txt"
    assert planned("write_file", {"path": "src/{name}.txt", "content": "c"}).verdict == "ACCEPTED"
    assert fill("{a}:{business_key}:{b}", "k", {"a": "{business_key}"}) == "{business_key}:k:{b}"


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_a_key_with_an_empty_part_is_refused(empty: c.Scalar) -> None:
    assert planned("reverse_fee", {"fee_transaction_id": empty}).reason == "MALFORMED"


def test_the_planner_names_no_key_where_the_arguments_do() -> None:
    given: c.Arguments = {"fee_transaction_id": "f-1"}
    assert planned("reverse_fee", given, "mine").reason == "KEY_MISMATCH"
    assert planned("reverse_fee", given, "f-1 ").verdict == "ACCEPTED"
    refund: c.Arguments = {"capture_id": "c-1", "amount": 5}
    assert planned("refund", refund, "c-1 in part").verdict == "ACCEPTED", "its request is not given"
    assert planned("refund", {**refund, "refund_request": "r-1"}, "c-1 in part").reason == "KEY_MISMATCH"


def test_arguments_that_come_with_the_dispatch_keep_to_the_planned_entity() -> None:
    court = Court()
    court.open(step("s1", "reverse_fee", "f-1"))
    assert court.dispatch("s1", arguments={"fee_transaction_id": "f-999"}).reason == "KEY_MISMATCH"
    assert court.dispatch("s1", arguments={"fee_transaction_id": "f-1"}).verdict == "ACCEPTED"


def test_a_candidate_is_adopted_by_the_same_plan_said_for_adoption() -> None:
    court = Court()
    court.declare()
    assert court.plan(step("s1"), adopt=False).status == "CANDIDATE"
    assert court.plan(step("s1"), adopt=False).reason == "ALREADY_SO"
    assert court.plan(step("s2")).reason == "PLAN_CONFLICT"
    assert court.plan(step("s1")).status == "ADOPTED"
    assert court.plan(step("s1")).reason == "ALREADY_SO"
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_a_new_generation_has_the_join_still_to_make() -> None:
    court = Court()
    court.open(step("s1", "write_file"))
    court.perform("s1")
    court.succeed("s1")
    undo = court.abort("s1").facts[0]
    assert isinstance(undo, f.CompensationRequested)
    assert undo.by is not None
    court.commit(undo.by)
    assert court.dispatch("s1").verdict == "ACCEPTED"
    assert not court.step("s1").succeeded
    court.executor_abort("s1", proof="REFUSED")
    assert court.close().reason == "MISSING_JOIN"
    court.perform("s1")
    assert (court.succeed("s1").verdict, court.close().verdict) == ("ACCEPTED", "ACCEPTED")


def _on_a_window() -> Court:
    court = Court()
    court.open(step("w", "reserve_window"), step("d", "deploy", edges=edges("REQUIRES", "w")))
    court.active("w")
    return court


def test_nobody_acts_on_what_is_being_given_back_or_was_revoked() -> None:
    given_back, revoked, held = _on_a_window(), _on_a_window(), _on_a_window()
    assert given_back.release("w").reason == "RELEASE_OF_ACTIVE"
    given_back.override("COMMITMENT", given_back.commitment_id("w"), "RELEASE_PENDING")
    revoked.observe_commitment("w", "REVOKED", source_version=2)
    for court in (given_back, revoked):
        assert court.dispatch("d").reason == "DEPENDENCY_UNMET"
        assert court.succeed("w").reason == "NOT_VERIFIED"
    assert (held.dispatch("d").verdict, held.succeed("w").verdict) == ("ACCEPTED", "ACCEPTED")


def test_a_permit_is_refused_while_what_it_rests_on_is_gone() -> None:
    court = Court(varied())
    court.open(step("a", "pay"), step("b", "pay", edges=edges("REQUIRES", "a")))
    court.perform("a")
    court.dispatch("b")
    assert court.op("b").ordered
    assert not court.op("a").ordered
    doubt = court.executor_abort("a", proof="REFUSED").facts[0]
    assert isinstance(doubt, f.OperationInDoubt)
    assert "step:p1/b" in doubt.dependants
    assert court.prepared("b").reason == "DEPENDENCY_UNMET"
    court.observe("a", "PRESENT", external_ids=["ext-1"])
    assert court.prepared("b").verdict == "ACCEPTED"


def test_a_held_command_does_not_go_out_while_what_it_rests_on_is_gone() -> None:
    catalogue = varied()
    held = catalogue.actions["write_file"].__class__(**{**catalogue.actions["write_file"].__dict__, "hold_ms": 60_000})
    court = Court(varied(actions={**catalogue.actions, "write_file": held}))
    court.open(step("a", "pay"), step("b", "write_file", edges=edges("REQUIRES", "a")))
    court.perform("a")
    court.dispatch("b")
    court.executor_abort("a", proof="REFUSED")
    court.advance(70_000)
    assert (court.op("b").status, court.op("b").timer) == ("STAGED", "HOLD")
    court.observe("a", "PRESENT", external_ids=["ext-1"])
    court.advance(60_000)
    assert court.commands(court.op_id("b"))[:1] == ["EXECUTE 1"]


def test_one_phase_is_not_sent_again_while_what_it_rests_on_is_gone() -> None:
    court = Court(varied())
    court.open(step("a", "pay"), step("b", "write_file", edges=edges("REQUIRES", "a")))
    court.perform("a")
    court.dispatch("b")
    court.executor_abort("a", proof="REFUSED")
    court.advance(30_000)
    assert (court.op("b").status, court.op("b").attempt) == ("IN_DOUBT", 1)


def test_a_resend_out_of_doubt_needs_its_ground_too_and_the_reconciler_is_told_so() -> None:
    court = Court(varied())
    court.open(step("a", "pay"), step("b", "write_file", edges=edges("REQUIRES", "a")))
    court.perform("a")
    court.dispatch("b")
    court.in_doubt("b")
    assert court.questions(court.op_id("b"))[-1].fresh
    court.executor_abort("a", proof="REFUSED")
    assert court.observe("b", "RESEND").reason == "NOT_FRESH"
    assert not court.questions(court.op_id("b"))[-1].fresh


def test_a_conflict_binds_both_sides() -> None:
    court = Court()
    court.open(step("a", "write_file", edges=edges("CONFLICTS_WITH", "b")), step("b", "write_file"))
    court.dispatch("a")
    assert court.dispatch("b").reason == "DEPENDENCY_UNMET"
    court.executor_abort("a", proof="REFUSED")
    assert court.dispatch("b").verdict == "ACCEPTED"


def test_a_step_that_a_later_one_invalidated_is_not_joined() -> None:
    court = Court()
    court.open(step("a", "write_file"), step("b", "write_file", edges=edges("INVALIDATES", "a")),
               step("c", "write_file", edges=edges("REQUIRES", "a")))  # fmt: skip
    court.perform("a")
    court.perform("b")
    assert court.dispatch("c").reason == "DEPENDENCY_UNMET"
    assert court.succeed("a").reason == "DEPENDENCY_UNMET"
    assert court.succeed("b").verdict == "ACCEPTED"


def test_what_was_done_after_the_step_that_invalidates_it_is_joined() -> None:
    court = Court()
    court.open(step("a", "write_file"), step("b", "write_file", edges=edges("INVALIDATES", "a")))
    court.perform("b")
    court.now += 1
    court.perform("a")
    assert court.succeed("a").verdict == "ACCEPTED"


def test_a_person_who_keeps_a_late_success_takes_it_up() -> None:
    court = Court(varied())
    court.open(step("s1", "pay"))
    court.permit("s1")
    court.cancel()
    court.commit("s1")
    court.abort("s1")
    assert court.close().reason == "OPEN_OPERATIONS"
    assert court.override("OPERATION", court.op_id("s1"), "SETTLED").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED"


def test_a_silent_executor_is_reported_and_asked_again_until_it_answers() -> None:
    court = Court(varied())
    court.open(step("s1", "pay"))
    court.dispatch("s1")
    court.advance(3_600_000)
    assert court.orphans() == ["OVERDUE"]
    assert court.op("s1").attempt > court.catalogue.silent_attempts_max
    assert sum(isinstance(fact, f.OrphanRaised) for one in court.decisions for fact in one.facts) == 1
    assert court.prepared("s1").verdict == "ACCEPTED"
    assert court.orphans() == []


def test_of_two_workers_without_a_name_one_may_act() -> None:
    court = Court(varied())
    court.open(step("s1", "pay"))
    court.dispatch("s1")
    assert court.prepared("s1", worker="").verdict == "ACCEPTED"
    assert court.prepared("s1", worker="").reason == "ALREADY_CLAIMED"


def test_a_commit_that_shows_nothing_settles_nothing() -> None:
    court = Court(varied())
    court.open(step("look", "read_file"), step("s1", "pay"))
    court.permit("s1")
    court.permit("look")
    assert court.commit("s1", external_id="", evidence=[]).reason == "NO_EVIDENCE"
    assert court.op("s1").status == "SUBMITTED"
    assert court.commit("look", external_id="", evidence=[]).verdict == "ACCEPTED", "a look leaves nothing to show"
    assert court.commit("s1", external_id="", evidence=[], idempotency_key=court.op_id("s1")).verdict == "ACCEPTED"


def test_a_principal_starts_and_reports_its_own_actions_only() -> None:
    principals = with_principals().principals
    bound = {name: one.__class__(**{**one.__dict__, "actions": ("write_file",)}) for name, one in principals.items()}
    court = Court(varied(principals=bound))
    court.declare(principal="paula")
    court.plan(step("s1", "pay"), step("s2", "write_file", parallel=True), principal="paula")
    assert court.dispatch("s1", principal="paula").reason == "UNKNOWN_PRINCIPAL"
    assert court.dispatch("s2", principal="paula").verdict == "ACCEPTED"
    other = Court(varied(principals={**bound, "eve": principals["eve"].__class__("eve", "EXECUTOR", actions=("pay",))}))
    other.declare(principal="paula")
    other.plan(step("s2", "write_file"), principal="paula")
    other.dispatch("s2", principal="paula")
    assert other.commit("s2", principal="eve").reason == "WRONG_EXECUTOR"
    assert court.commit("s2", principal="eve").verdict == "ACCEPTED"
