"""Approvals: whose yes counts, what it is bound to, when it is void, and what a yes to a whole plan is worth."""

from dataclasses import replace
from typing import Any

import pytest

from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue, Principal
from joingate_schemas.decisions import Decision
from joingate_schemas.signing import Signer

from .catalogues import varied
from .driver import Court, step

SIGNERS = {name: Signer.from_seed(bytes([number]) * 32) for number, name in enumerate(
    ("root", "ann", "bob", "anns-phone", "checker", "paula", "anns-agent"), 1
)}  # fmt: skip


def declared(**actions: Any) -> Catalogue:
    """Ann has two principals that approve, and one that plans; checker is an automated control."""

    def known(name: str, role: str, **fields: Any) -> Principal:
        return Principal(name, role, keys=(SIGNERS[name].public_key.hex(),), **fields)  # type: ignore[arg-type]

    principals = (
        known("paula", "PLANNER"), known("anns-agent", "PLANNER", party="ann"), Principal("eve", "EXECUTOR"),
        known("ann", "APPROVER"), known("anns-phone", "APPROVER", party="ann"), known("bob", "APPROVER"),
        known("checker", "APPROVER", control=True), known("root", "OPERATOR", registrar=True),
    )  # fmt: skip
    whole = varied(principals={one.name: one for one in principals}, signatures="OPTIONAL")
    return replace(whole, actions={**whole.actions, **{
        name: replace(whole.actions[name], **fields) for name, fields in actions.items()
    }})  # fmt: skip


def court(action: str, maker: str = "paula", catalogue: Catalogue | None = None) -> Court:
    """Step s1 of that action waits for its approval."""
    made = Court(catalogue or declared())
    made.signers = dict(SIGNERS)
    made.declare(principal=maker)
    made.plan(step("s1", action, arguments={"amount": 5}), principal=maker)
    assert made.dispatch("s1", principal=maker).status == "STAGED"
    return made


# --- whose yes counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "maker", "checkers", "ends"),
    [
        ("pay_approved", "anns-agent", ["ann"], "VALIDATED"),
        ("pay_checked", "paula", ["ann"], "VALIDATED"),
        ("pay_checked", "paula", ["checker"], "VALIDATED"),
        ("pay_checked", "anns-agent", ["ann"], "MAKER_IS_CHECKER"),
        ("pay_checked", "anns-agent", ["anns-phone"], "MAKER_IS_CHECKER"),
        ("pay_checked", "anns-agent", ["bob"], "VALIDATED"),
        ("pay_by_two", "paula", ["ann"], "STAGED"),
        ("pay_by_two", "paula", ["ann", "anns-phone"], "STAGED"),
        ("pay_by_two", "paula", ["ann", "anns-phone", "bob"], "VALIDATED"),
        ("pay_by_two", "anns-agent", ["bob", "ann"], "MAKER_IS_CHECKER"),
        ("pay_controlled", "paula", ["ann"], "NOT_AN_APPROVER"),
        ("pay_controlled", "paula", ["checker"], "VALIDATED"),
    ],
)
def test_a_policy_counts_the_parties_behind_verified_principals(
    action: str, maker: str, checkers: list[str], ends: str
) -> None:
    x = court(action, maker)
    said = [x.approve("s1", principal=checker) for checker in checkers][-1]
    assert ends in (said.reason, said.status)
    assert x.op("s1").status == ("VALIDATED" if ends == "VALIDATED" else "STAGED")


def test_who_asks_for_what_a_second_party_approves_has_to_be_known() -> None:
    """Else a planner could ask in another's name, and its own party approve."""
    x = Court(declared())
    x.signers = {name: signer for name, signer in SIGNERS.items() if name != "paula"}
    x.declare(principal="paula")
    x.plan(step("s1", "pay_checked"), step("s2", "pay_approved", parallel=True), principal="paula")
    assert x.dispatch("s1", principal="paula").reason == "UNSIGNED"
    assert x.dispatch("s2", principal="paula").status == "STAGED"


# --- void, used, expired ---------------------------------------------------------------------------------------------


def test_an_approval_by_a_key_that_was_in_wrong_hands_by_then_lets_nothing_act() -> None:
    x = court("pay_approved")
    x.now += 1_000
    assert x.approve("s1", principal="ann").status == "VALIDATED"
    revoked = c.RevokeKey(claim_id="r", intent_id="", principal="root", holder="ann", key_id=SIGNERS["ann"].key_id,
                          revoked_at=x.now)  # fmt: skip
    assert x.say(revoked).reason == "OK"
    assert x.prepared("s1", principal="eve").reason == "APPROVAL_STALE"
    assert x.op("s1").status == "WITHDRAWN"
    assert x.dispatch("s1", principal="paula").status == "STAGED"
    assert x.op("s1").approvals == [], "nor is it carried on"


def test_an_approval_from_before_the_key_was_lost_still_counts() -> None:
    x = court("pay_approved")
    assert x.approve("s1", principal="ann").status == "VALIDATED"
    revoked = c.RevokeKey(claim_id="r", intent_id="", principal="root", holder="ann", key_id=SIGNERS["ann"].key_id,
                          revoked_at=x.now + 1)  # fmt: skip
    assert x.say(revoked).reason == "OK"
    x.now += 1_000
    assert x.prepared("s1", principal="eve").reason == "OK"


def test_an_approval_is_good_for_one_generation() -> None:
    x = court("pay_approved")
    x.approve("s1", principal="ann")
    x.prepared("s1", principal="eve")
    assert x.executor_abort("s1", principal="eve", proof="NOT_SENT").status == "FAILED"
    assert x.dispatch("s1", principal="paula").status == "STAGED"
    assert x.op("s1").approvals == []


# --- whole plans -----------------------------------------------------------------------------------------------------

PAYS = (step("s1", "pay_approved", arguments={"amount": 5}), step("s2", "pay_by_two", parallel=True),
        step("s3", "write_file", parallel=True))  # fmt: skip


def planned(*steps: c.PlanStep) -> Court:
    made = Court(varied())
    made.declare()
    made.plan(*(steps or PAYS))
    return made


def gone_on(x: Court, decision: Decision) -> str:
    """Where the operation is once what was approved ahead has had its moment."""
    assert decision.status == "STAGED"
    x.advance(1)
    return x.op(decision.subject_id).status


def test_a_yes_to_a_plan_is_one_approval_for_each_step_that_needs_one() -> None:
    x = planned()
    decision = x.approve_plan("p1", principal="ann")
    assert decision.facts[0].contents.keys() == {x.step("s1").slot_id, x.step("s2").slot_id}  # type: ignore[union-attr]
    assert gone_on(x, x.dispatch("s1")) == "VALIDATED"
    assert gone_on(x, x.dispatch("s2")) == "STAGED"
    assert x.op("s2").approvals == ["ann"]
    assert x.approve("s2", principal="bob").status == "VALIDATED"


def test_it_lets_what_waits_go_on_at_once() -> None:
    x = planned()
    x.dispatch("s1")
    assert x.approve_plan("p1", principal="ann").reason == "OK"
    assert x.op("s1").status == "VALIDATED"


def test_it_is_used_once() -> None:
    x = planned()
    x.approve_plan("p1", principal="ann")
    gone_on(x, x.dispatch("s1"))
    x.prepared("s1")
    assert x.executor_abort("s1", proof="NOT_SENT").status == "FAILED"
    assert gone_on(x, x.dispatch("s1")) == "STAGED"
    assert x.op("s1").approvals == []
    assert x.state.approvals.get(x.step("s1").slot_id) is None


def test_it_holds_in_a_new_plan_whose_step_is_the_same_and_not_where_it_is_another() -> None:
    x = planned(step("s1", "pay_approved", "a", arguments={"amount": 5}),
                step("s2", "pay_approved", "b", arguments={"amount": 5}, parallel=True))  # fmt: skip
    x.approve_plan("p1", principal="ann")
    same = step("t1", "pay_approved", "a", arguments={"amount": 5, "note": "again"})
    other = step("t2", "pay_approved", "b", arguments={"amount": 50}, parallel=True)
    x.plan(same, other, plan_id="p2", replaces="p1")
    assert gone_on(x, x.dispatch("t1")) == "VALIDATED"
    assert gone_on(x, x.dispatch("t2")) == "STAGED"
    assert x.op("t2").approvals == []


def test_the_yes_to_a_plan_that_is_not_in_force_any_more_is_stale() -> None:
    x = planned()
    x.plan(step("t1", "pay_approved"), plan_id="p2", replaces="p1")
    said = x.approve_plan("p1", principal="ann")
    assert (said.reason, said.status) == ("APPROVAL_STALE", "SUPERSEDED")


def test_it_expires() -> None:
    x = planned()
    assert x.approve_plan("p1", principal="ann", expires_at=x.now).reason == "APPROVAL_STALE"
    x.approve_plan("p1", principal="ann", expires_at=x.now + 5_000)
    x.now += 5_000
    assert gone_on(x, x.dispatch("s1")) == "STAGED"


def test_a_no_takes_back_what_was_approved_ahead_and_withdraws_what_waits() -> None:
    x = planned()
    x.approve_plan("p1", principal="ann")
    x.dispatch("s2")
    assert x.decline_plan("p1", principal="bob").reason == "OK"
    assert x.op("s2").status == "WITHDRAWN"
    assert gone_on(x, x.dispatch("s1")) == "STAGED"


def test_a_candidate_may_be_approved_before_it_is_adopted() -> None:
    x = Court(varied())
    x.declare()
    x.plan(*PAYS, adopt=False)
    assert x.approve_plan("p1", principal="ann").reason == "OK"
    assert x.plan(*PAYS).reason == "OK"
    assert gone_on(x, x.dispatch("s1")) == "VALIDATED"


def test_who_asked_does_not_approve_ahead_what_needs_a_second_party() -> None:
    x = planned(step("s1", "pay_checked"))
    x.approve_plan("p1", principal="paula")
    assert gone_on(x, x.dispatch("s1", principal="paula")) == "STAGED"
    assert x.op("s1").approvals == []
    assert x.approve("s1", principal="ann").status == "VALIDATED"


def test_who_may_not_approve_one_step_approves_none() -> None:
    x = planned(step("s1", "pay_approved"), step("s2", "pay_by_ann", parallel=True))
    said = x.approve_plan("p1", principal="bob")
    assert said.reason == "NOT_AN_APPROVER"
    assert "step s2" in said.detail
    assert gone_on(x, x.dispatch("s1")) == "STAGED"
    assert x.approve_plan("p1", principal="ann").reason == "OK"


def test_an_approver_within_limits_approves_no_plan_beyond_them() -> None:
    whole = declared()
    ann = replace(whole.principals["ann"], amounts_max={"amount": 4})
    x = court("pay_approved", catalogue=replace(whole, principals={**whole.principals, "ann": ann}))
    assert x.approve_plan("p1", principal="ann").reason == "OVER_LIMIT"
    assert x.approve_plan("p1", principal="bob").reason == "OK"


def test_replay_rebuilds_what_was_approved_ahead() -> None:
    x = planned()
    x.approve_plan("p1", principal="ann", expires_at=x.now + 9_000)
    x.dispatch("s1")
    assert x.replayed().rows("approvals") == x.state.rows("approvals")
    assert len(x.state.rows("approvals")) == 1
