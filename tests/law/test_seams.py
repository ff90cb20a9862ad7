"""Where rules of several rooms meet in one operation or one commitment: each keeps its own word, in the right order."""

from dataclasses import replace

from joingate_processors.forensics.checker import check
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Decision

from .catalogues import arbitrated, sealed, varied
from .driver import INTENT, Court, step
from .invariants import snapshot
from .life_catalogue import HOUR_MS, lived


def sound(court: Court) -> None:
    """The checker finds nothing, and the ledger alone rebuilds the state."""
    assert check(court.decisions) == []
    assert snapshot(court.replayed()) == snapshot(court.state)


def opened(court: Court, *steps: c.PlanStep, **given: object) -> Court:
    """An intent with a plan of these steps, under a catalogue that the ledger knows."""
    court.load()
    court.declare(**given)  # type: ignore[arg-type]
    assert court.plan(*steps).verdict == "ACCEPTED"
    return court


# --- approvals, holds, conditions and resources ----------------------------------------------------------------------


def everything() -> Catalogue:
    """An action that waits for a person, a hold window, a condition and a resource, in that order."""
    whole = arbitrated()
    messages = lived()
    action = replace(messages.actions["make_message"], approval="ANY", hold_ms=60_000, resources=("bench:{bench}",))
    return sealed(
        replace(whole, actions={**whole.actions, "make_message": action, "free_hold": messages.actions["free_hold"]},
                obligations={**whole.obligations, "message": messages.obligations["message"]})
    )  # fmt: skip


def grant(court: Court, step_id: str, reference: str) -> Decision:
    """The arbiter gives it."""
    return court.say(c.ResourceGranted(claim_id=court.claim_id(), intent_id=INTENT,
                                       operation_id=court.op_id(step_id), resource_ref=reference))  # fmt: skip


TOLD = step("s1", "make_message", arguments={"name": "m", "bench": "b1"})


def test_a_yes_a_hold_window_a_condition_and_a_resource_are_waited_for_one_after_the_other() -> None:
    court = opened(Court(everything()), TOLD)
    court.dispatch("s1")
    assert court.op("s1").timer == "APPROVAL"
    court.approve("s1", principal="ben")
    assert court.op("s1").timer == "HOLD"
    court.advance(60_000)
    assert court.op("s1").timer == "CONDITION"
    assert court.commands(court.op_id("s1")) == [], "nothing went out yet"
    court.observe_condition("migration:m", "PRESENT")
    assert (court.op("s1").timer, court.op("s1").asked) == ("RESOURCES", "bench:b1")
    grant(court, "s1", "bench:b1")
    assert court.op("s1").status in ("VALIDATED", "SUBMITTED")
    assert len(court.commands(court.op_id("s1"))) == 1
    sound(court)


def test_a_condition_that_is_seen_before_the_yes_shortens_no_other_wait() -> None:
    court = opened(Court(everything()), TOLD)
    court.dispatch("s1")
    court.observe_condition("migration:m", "PRESENT")
    assert court.op("s1").timer == "APPROVAL"
    court.approve("s1", principal="ben")
    court.advance(59_999)
    assert court.op("s1").timer == "HOLD"
    court.advance(1)
    assert court.op("s1").timer == "RESOURCES"
    sound(court)


def test_a_yes_is_carried_to_a_wish_that_still_waits_for_its_condition() -> None:
    """The condition is not seen in time, the same wish is asked again: nobody is asked for the yes a second time."""
    whole = lived()
    action = replace(whole.actions["make_message"], approval="ANY")
    court = opened(Court(lived(actions={**whole.actions, "make_message": action})), TOLD)
    court.dispatch("s1")
    court.approve("s1", principal="ben")
    assert court.op("s1").timer == "CONDITION"
    court.advance(HOUR_MS)
    assert (court.op("s1").status, court.commitment("s1").status) == ("WITHDRAWN", "RELEASED")
    again = court.dispatch("s1")
    assert again.verdict == "ACCEPTED"
    assert court.op("s1").approvals == ["ben"]
    assert court.commands(court.op_id("s1")) == [], "the yes is not the condition"
    court.advance(1)
    assert (court.op("s1").status, court.op("s1").timer) == ("STAGED", "CONDITION")
    court.observe_condition("migration:m", "PRESENT")
    assert len(court.commands(court.op_id("s1"))) == 1
    sound(court)


# --- owners, releases and transfers ----------------------------------------------------------------------------------


def test_a_retired_owner_stops_no_release_that_is_under_way_and_its_orphan_goes_with_it() -> None:
    court = opened(Court(varied()), step("s1", "book"))
    court.perform("s1")
    court.transfer("s1")
    assert court.accept("s1").verdict == "ACCEPTED"
    court.release("s1", fencing_token=court.token("s1"))
    assert court.commitment("s1").status == "RELEASE_PENDING"
    retired = court.retire("team:ops")
    assert [type(fact).__name__ for fact in retired.facts] == ["OwnerRetired", "OrphanRaised"]
    assert court.commitment("s1").status == "RELEASE_PENDING"
    court.perform_release("s1")
    assert court.commitment("s1").status == "RELEASED"
    assert court.orphans() == []
    sound(court)


def duty(court: Court) -> Court:
    """A reply, due in an hour with ten minutes' grace, is in force."""
    opened(court, step("s1", "make_reply"))
    court.active("s1")
    return court


def test_what_is_due_while_it_is_offered_is_breached_once_it_is_in_force_again() -> None:
    court = duty(Court(lived()))
    court.transfer("s1", acknowledge_by=court.now + 2 * HOUR_MS)
    court.advance(90 * 60_000)
    assert court.commitment("s1").status == "TRANSFER_PENDING"
    assert court.accept("s1").verdict == "ACCEPTED"
    court.advance(1)
    assert (court.commitment("s1").status, court.commitment("s1").owner_id) == ("BREACHED", "team:ops")
    sound(court)


def test_a_breached_one_is_handed_over_as_breached_and_told_to_its_new_owner() -> None:
    court = duty(Court(lived()))
    court.advance(80 * 60_000)
    assert court.commitment("s1").status == "BREACHED"
    breached_at = court.commitment("s1").breached_at
    court.transfer("s1")
    assert court.commitment("s1").status == "TRANSFER_PENDING"
    court.accept("s1")
    row = court.commitment("s1")
    assert (row.status, row.owner_id, row.breached_at, row.timer) == ("BREACHED", "team:ops", breached_at, "ESCALATION")
    court.advance(100_000_000)
    assert "OVERDUE" in court.orphans(), "it is told again, for it is not discharged"
    done = court.satisfied("s1", evidence=["receipt:7"], fencing_token=court.token("s1"))
    assert done.status == "SATISFIED"
    assert "OVERDUE" not in court.orphans()
    sound(court)


def test_nobody_answers_and_a_breached_one_is_back_as_breached() -> None:
    court = duty(Court(lived()))
    court.advance(80 * 60_000)
    court.transfer("s1", acknowledge_by=court.now + 1_000)
    court.advance(1_000)
    row = court.commitment("s1")
    assert (row.status, row.owner_id, row.timer) == ("BREACHED", f"intent:{INTENT}", "ESCALATION")
    sound(court)


GOAL: c.Goal = {"goal_id": "g1", "acceptance": "a seat is held"}


def test_a_wish_that_changes_while_its_commitment_is_offered_leaves_it_to_who_takes_it() -> None:
    court = opened(Court(varied()), step("s1", "book", goal_id="g1"), goals=[GOAL])
    court.perform("s1")
    court.transfer("s1")
    superseded = court.declare(2, goals=[])
    decided = [fact for fact in superseded.facts if isinstance(fact, f.DispositionDecided)]
    assert [one.disposition for one in decided] == ["TRANSFER"]
    assert court.commitment("s1").status == "TRANSFER_PENDING"
    assert court.accept("s1").verdict == "ACCEPTED"
    assert (court.commitment("s1").status, court.commitment("s1").owner_id) == ("ACTIVE", "team:ops")
    sound(court)


def test_a_wish_that_changes_while_nobody_takes_it_over_is_given_up_when_it_comes_back() -> None:
    court = opened(Court(varied()), step("s1", "book", goal_id="g1"), goals=[GOAL])
    court.perform("s1")
    court.transfer("s1", acknowledge_by=court.now + 1_000)
    court.declare(2, goals=[])
    court.advance(1_000)
    assert court.commitment("s1").status == "RELEASE_PENDING"
    court.perform_release("s1")
    assert court.commitment("s1").status == "RELEASED"
    sound(court)


# --- promises --------------------------------------------------------------------------------------------------------


def test_a_promise_that_nobody_keeps_is_breached_told_and_told_again_until_it_is_kept() -> None:
    court = opened(Court(varied()), step("s1"))
    said = court.promise(due_at=court.now + HOUR_MS)
    assert said.verdict == "ACCEPTED"
    identity = said.subject_id
    court.advance(HOUR_MS - 1)
    assert court.commitment(identity).status == "ACTIVE"
    court.advance(HOUR_MS)
    row = court.commitment(identity)
    assert (row.status, row.timer) == ("BREACHED", "ESCALATION")
    assert "OVERDUE" in court.orphans()
    told = court.advance(100_000_000)
    assert [one.claim_type for one in told if one.subject_id == identity] != []
    assert court.close().verdict == "REJECTED", "it is owed still"
    assert court.satisfied(identity, evidence=["receipt:1"]).status == "SATISFIED"
    assert "OVERDUE" not in court.orphans()
    assert court.commitment(identity).breached_at is not None, "that it was late stays on the record"
    sound(court)
