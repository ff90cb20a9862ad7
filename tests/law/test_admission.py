"""Debts, backlogs and budgets: what adds to them is held to the limits, and what takes from them always goes on."""

import pytest

from joingate_schemas import claims as c
from joingate_schemas.catalogue import Limit

from .driver import INTENT, START_AT, Court, step
from .invariants import snapshot
from .limited_catalogue import DAY_MS, limited, priced
from .table_admission import BUDGETS, in_debt


def over(*limits: Limit) -> Court:
    """Two holds are in force, and no more may be."""
    court = Court(limited(*limits))
    in_debt(court)
    assert court.dispatch("s3").reason == "COMMITMENT_DEBT"
    return court


def test_a_catalogue_without_limits_blocks_nobody() -> None:
    court = Court(priced())
    court.open(*(step(f"s{n}", "make_hold") for n in range(60)))
    assert all(court.dispatch(f"s{n}").verdict == "ACCEPTED" for n in range(60))


def test_the_refusal_names_what_to_discharge_first() -> None:
    court = Court(limited())
    court.open(*(step(f"s{n}", "make_hold") for n in (1, 2, 3)))
    court.active("s2")
    court.advance(120_000)
    court.active("s1")
    said = court.dispatch("s3").detail
    assert court.commitment_id("s2") in said, "the oldest, though its id may come second"
    assert "has a debt of 2, and 1 more would exceed its limit 2" in said


def test_whoever_is_over_the_limit_may_still_discharge() -> None:
    """Release, transfer, reconciliation, Succeed and the work behind them; Close at the end."""
    court = over(Limit("each", "INTENT", debt=2.0, doubts=1, reviews=1))
    assert court.succeed("s1").verdict == "ACCEPTED"
    assert court.succeed("s2").verdict == "ACCEPTED"
    assert court.transfer("s2").verdict == "ACCEPTED"
    assert court.accept("s2").verdict == "ACCEPTED"
    assert court.reconcile("COMMITMENT", court.commitment_id("s1")).verdict == "ACCEPTED"
    assert court.dispatch("s3").reason == "COMMITMENT_DEBT", "an unresolved one counts as a doubt too"
    assert court.release("s1").verdict == "ACCEPTED"
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"
    assert court.dispatch("s3").verdict == "ACCEPTED"


def test_a_plan_that_only_gives_back_is_adopted_over_the_limit_and_its_step_goes_on() -> None:
    court = over()
    plan = court.plan(step("a", "free_hold"), step("b", "make_hold", "entity-s1"), plan_id="p2", replaces="p1")
    assert plan.verdict == "ACCEPTED"
    assert court.dispatch("a").verdict == "ACCEPTED"
    assert court.dispatch("b").reason == "SAME_OPERATION", "what is there is used, not made again"


def test_a_plan_of_many_obligations_is_adopted_where_one_of_them_fits() -> None:
    court = Court(limited())
    court.open(*(step(f"s{n}", "make_hold") for n in range(5)))
    assert [court.dispatch(f"s{n}").verdict for n in range(3)] == ["ACCEPTED", "ACCEPTED", "REJECTED"]


def test_a_candidate_holds_nothing_so_it_is_recorded_over_the_limit() -> None:
    court = over()
    before = snapshot(court.state)
    assert court.plan(step("x", "make_filing"), plan_id="p2", adopt=False).verdict == "ACCEPTED"
    after = snapshot(court.state)
    assert (after["debts"], after["operations"]) == (before["debts"], before["operations"])
    assert court.plan(step("x", "make_filing"), plan_id="p2", replaces="p1").reason == "COMMITMENT_DEBT"


@pytest.mark.parametrize(
    ("action", "weight"), [("make_hold", 1.0), ("make_duty", 1.0), ("make_notice", 2.0), ("make_filing", 4.0)]
)
def test_an_obligation_weighs_more_the_harder_it_is_to_undo(action: str, weight: float) -> None:
    for debt, verdict in ((weight, "ACCEPTED"), (weight - 0.01, "REJECTED")):
        court = Court(limited(Limit("each", "INTENT", debt=debt)))
        court.declare()
        decision = court.plan(step("s1", action))
        decision = decision if decision.verdict == "REJECTED" else court.dispatch("s1")
        assert decision.verdict == verdict, decision.detail


def test_an_old_obligation_weighs_more_than_a_young_one() -> None:
    court = Court(limited(Limit("each", "INTENT", debt=4.0, age_ms=DAY_MS)))
    court.open(*(step(f"s{n}", "make_duty") for n in (1, 2, 3)))
    court.active("s1")
    court.advance(2 * DAY_MS)
    assert court.dispatch("s2").verdict == "ACCEPTED", "3 for the first, and 1"
    court.advance(0)
    assert "debt of 4" in court.dispatch("s3").detail


def test_an_uncertain_obligation_weighs_more_until_it_is_certain_again() -> None:
    court = Court(limited(Limit("each", "INTENT", debt=3.0, uncertain=3.0)))
    court.open(*(step(f"s{n}", "make_hold") for n in (1, 2)))
    court.active("s1")
    court.reconcile("COMMITMENT", court.commitment_id("s1"))
    assert "debt of 3" in court.dispatch("s2").detail
    court.override("COMMITMENT", court.commitment_id("s1"), "ACTIVE")
    assert court.dispatch("s2").verdict == "ACCEPTED"


def test_handing_over_ends_the_intents_debt_but_not_that_of_who_asked() -> None:
    court = over(Limit("each", "INTENT", debt=2.0), Limit("who", "PRINCIPAL", debt=2.0))
    court.transfer("s1")
    court.accept("s1")
    assert "principal somebody" in court.dispatch("s3").detail
    assert court.dispatch("s3", principal="ann").verdict == "ACCEPTED"
    court.satisfied("s1", principal="team:ops", fencing_token=court.token("s1"))
    assert court.commitment("s1").status == "SATISFIED"
    assert court.dispatch("s3").verdict == "REPLAYED"


def test_a_debt_is_the_tenants_whatever_the_intent() -> None:
    court = Court(limited(Limit("all", "TENANT", debt=1.0)))
    for intent_id, verdict in (("acme/a", "ACCEPTED"), ("acme/b", "REJECTED"), ("other/c", "ACCEPTED")):
        court.declare(intent_id=intent_id)
        decision = court.plan(step("s1", "make_hold"), intent_id=intent_id)
        decision = decision if decision.verdict == "REJECTED" else court.dispatch("s1", intent_id=intent_id)
        assert decision.verdict == verdict, (intent_id, decision.detail)


def test_what_asks_no_person_and_promises_nothing_is_not_held_up_by_backlogs() -> None:
    court = Court(limited(Limit("all", "TENANT", doubts=1, reviews=1)))
    court.open(step("a", "pay_approved"), step("b", "pay", parallel=True), step("c", "write_file", parallel=True))
    court.dispatch("a")
    court.permit("b")
    court.in_doubt("b")
    assert court.dispatch("c").verdict == "ACCEPTED"


# --- budgets ---------------------------------------------------------------------------------------------------------


def rich(*steps: c.PlanStep, **budgets: float) -> Court:
    court = Court(priced())
    court.declare(budgets={**BUDGETS, **budgets})
    court.plan(*steps)
    return court


def test_a_budget_counts_what_was_dispatched_and_gives_back_what_never_could_act() -> None:
    court = rich(step("s1", "try_held"), step("s2", "try_out"))
    court.dispatch("s1")
    assert court.intent().spent == {"EXPLORATION": 3.0}
    assert court.dispatch("s2").reason == "BUDGET_SPENT"
    court.abort("s1")
    assert court.intent().spent == {"EXPLORATION": 0.0}
    assert court.dispatch("s2").verdict == "ACCEPTED"


def test_a_share_is_of_the_ceiling_and_verification_does_not_compete_with_it() -> None:
    court = rich(*(step(f"s{n}", "try_out") for n in (1, 2)), *(step(f"m{n}", "measure") for n in (1, 2, 3)))
    assert court.dispatch("s1").verdict == "ACCEPTED"
    assert "of the 5 that intent" in court.dispatch("s2").detail
    assert [court.dispatch(f"m{n}").reason for n in (1, 2, 3)] == ["OK", "OK", "BUDGET_SPENT"]


def test_without_a_ceiling_a_share_is_of_nothing() -> None:
    court = Court(priced())
    court.declare(budgets={"exploration": 0.0, "verification": 0.0, "reconciliation": 0.0})
    court.plan(step("s1", "try_out"))
    assert court.dispatch("s1").verdict == "ACCEPTED"


def test_a_budget_to_the_last_cent_is_spent() -> None:
    court = rich(*(step(f"s{n}", "rent") for n in range(6)), cost_max=5.0, exploration=1.0)
    assert [court.dispatch(f"s{n}").reason for n in range(6)] == ["OK"] * 5 + ["BUDGET_SPENT"]


def test_discharging_is_never_refused_for_want_of_budget() -> None:
    court = rich(step("s1", "rent"), step("s2", "tidy"), step("s3", "free_hold"), cost_max=1.0, exploration=1.0)
    court.active("s1")
    assert court.dispatch("s2").verdict == "ACCEPTED"
    assert court.dispatch("s3").verdict == "ACCEPTED"
    assert court.release("s1").verdict == "ACCEPTED"
    release = court.op(court.release_of("s1"))
    assert (release.budget_class, release.cost) == ("RECONCILIATION", 50.0)


def test_a_higher_version_brings_a_new_ceiling_and_what_was_spent_stays_spent() -> None:
    court = rich(step("s1", "try_out"))
    court.dispatch("s1")
    court.declare(2, budgets={**BUDGETS, "cost_max": 5.0})
    court.plan(step("s2", "try_out"), plan_id="p2")
    assert court.dispatch("s2").reason == "BUDGET_SPENT"
    court.declare(3, budgets={**BUDGETS, "cost_max": 20.0})
    court.plan(step("s2", "try_out"), plan_id="p3")
    assert court.dispatch("s2").verdict == "ACCEPTED"


def test_debts_and_budgets_are_those_that_replay_gives() -> None:
    court = over(Limit("each", "INTENT", debt=2.0, age_ms=DAY_MS))
    court.reconcile("COMMITMENT", court.commitment_id("s1"))
    court.transfer("s2")
    court.accept("s2")
    assert snapshot(court.replayed()) == snapshot(court.state)
    assert court.state.debts.get(f"INTENT\x1f{INTENT}") is not None
    assert court.now >= START_AT
