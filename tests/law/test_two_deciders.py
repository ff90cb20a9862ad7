"""The gate and the arbiter together: who wants the same thing is told at once, and what has ended gives back."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joingate_processors.forensics.checked_resources import check_resources
from joingate_processors.forensics.checker import check
from joingate_schemas import claims as c
from joingate_schemas.arbitration import ResourceMessage
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import OperationWithdrawn, ResourceChanged

from .catalogues import arbitrated, sealed
from .driver import INTENT, Court, step
from .invariants import snapshot
from .market import Market


def _causes(market: Market) -> list[str]:
    """Why operations were withdrawn, in the order in which they were."""
    return [x.cause for d in market.sim.decisions for x in d.facts if isinstance(x, OperationWithdrawn)]


def test_of_two_intents_the_first_gets_it_and_the_other_is_withdrawn_and_told_who_has_it() -> None:
    market = Market()
    first, second = market.want("one", "sweep", bench="b1"), market.want("two", "sweep", bench="b1")
    assert [first.verdict, second.verdict] == ["ACCEPTED", "ACCEPTED"], "a denial is a later fact"
    assert [first.status, second.status] == ["STAGED", "STAGED"]
    assert [market.status("one"), market.status("two")] == ["SUBMITTED", "WITHDRAWN"]
    holder = market.op("one").operation_id
    assert _causes(market) == [f"RESOURCE_DENIED: bench:b1 is held by operation {holder} of intent acme/one"]
    (refused,) = [x for d in market.sim.decisions for x in d.facts
                  if isinstance(x, ResourceChanged) and x.standing == "REFUSED"]  # fmt: skip
    assert (refused.holder, refused.holder_intent_id) == (holder, "acme/one")
    assert market.commands("one") == ["EXECUTE"]
    market.check()


def test_an_independent_operation_is_concerned_by_neither() -> None:
    market = Market()
    market.want("one", "sweep", bench="b1")
    market.want("two", "sweep", bench="b2")
    assert market.status("two") == "SUBMITTED"


def test_what_is_done_gives_back_and_the_other_gets_it_when_it_asks_again() -> None:
    market = Market()
    market.want("one", "sweep", bench="b1")
    market.want("two", "sweep", bench="b1")
    market.commit("one")
    assert market.holders("bench:b1") == []
    assert market.dispatch("two").status == "STAGED"
    assert (market.status("two"), market.op("two").generation) == ("SUBMITTED", 2)
    market.check()


@pytest.mark.parametrize("ends", ["abort", "cancel", "replan", "declare"])
def test_whatever_ends_an_operation_before_it_acts_gives_back_all_that_it_had(ends: str) -> None:
    market = Market()
    market.want("one", "train_held", bench="b1")
    market.sim.advance(60_000)
    assert market.status("one") == "VALIDATED"
    match ends:
        case "abort":
            market.abort("one")
        case "cancel":
            market.say(c.CancelIntent, "PLANNER", "one")
        case "replan":
            market.plan("one", "notify")
        case _:
            market.say(c.DeclareIntent, "PLANNER", "one", version=2, tenant="acme", goals=[])
    assert market.holders("bench:b1") == []
    market.check()


def test_several_resources_are_asked_for_in_sorted_order_and_a_denial_gives_back_the_rest() -> None:
    market = Market()
    market.want("full", "train", pool="a100", bench="b0", count=6)
    market.want("one", "train", pool="a100", bench="b1", count=3)
    assert market.status("one") == "WITHDRAWN"
    cause = _causes(market)[0]
    assert cause.startswith("OVER_CAPACITY: 6 of 8 of gpu:a100 are held")
    assert market.holders("bench:b1") == [], "it got the bench first, and gave it back"
    market.want("two", "train", pool="a100", bench="b1", count=2)
    assert market.status("two") == "SUBMITTED"
    market.check()


def test_a_pool_that_is_not_named_has_the_capacity_of_its_kind() -> None:
    market = Market()
    market.want("one", "train", pool="other", bench="b1", count=5)
    assert market.status("one") == "WITHDRAWN"
    market.want("two", "train", pool="other", bench="b1", count=4)
    assert market.status("two") == "SUBMITTED"


def test_an_operation_in_doubt_keeps_its_quantity_until_it_is_settled() -> None:
    market = Market()
    market.want("one", "train", pool="a100", bench="b1", count=8)
    market.doubt("one")
    market.want("two", "train", pool="a100", bench="b2", count=1)
    assert market.status("two") == "WITHDRAWN"
    market.sim.advance(600_000)
    market.override("one", "FAILED")
    market.dispatch("two")
    assert market.status("two") == "SUBMITTED"
    market.check()


def test_a_lease_that_is_over_takes_nothing_from_what_may_yet_act() -> None:
    market = Market()
    market.want("one", "sweep", bench="b1")
    market.doubt("one")
    market.sim.advance(60_000)
    assert market.holders("bench:b1") == ["one RECLAIM_PENDING"]
    market.want("two", "sweep", bench="b1")
    assert market.status("two") == "WITHDRAWN"
    market.commit("one")
    assert market.holders("bench:b1") == []


def test_a_commitment_holds_what_it_is_about_and_renews_its_lease_until_it_is_discharged() -> None:
    market = Market()
    market.want("one", "reserve_window", "w1")
    market.settle("one")
    window = market.commitment("one", "window", "window:w1")
    market.observe("one", window, "PRESENT")
    market.sim.advance(3_600_000)
    assert market.holders("window:w1") == ["one HELD"], "its lease was renewed, for the commitment is in force"
    market.want("two", "reserve_window", "w1")
    assert market.status("two") == "WITHDRAWN"
    market.say(c.MarkSatisfied, "PLANNER", "one", commitment_id=window, evidence=["done"])
    market.dispatch("two")
    assert market.status("two") in ("VALIDATED", "SUBMITTED")
    assert market.holders("window:w1") == ["two HELD"]


def test_what_is_released_is_free_only_when_its_absence_is_observed() -> None:
    market = Market()
    market.want("one", "reserve_window", "w1")
    market.settle("one")
    window = market.commitment("one", "window", "window:w1")
    market.observe("one", window, "PRESENT")
    market.say(c.Release, "PLANNER", "one", commitment_id=window)
    row = market.sim.state.commitments.get(window)
    assert row is not None
    serving = market.sim.state.operations.get(row.serving_operation or "")
    assert serving is not None
    assert serving.needs == {}, "what discharges a duty asks for nothing"
    market.commit("one", operation_id=serving.operation_id, external_id="rel-1")
    assert market.holders("window:w1") == ["one HELD"], "202 Accepted is not RELEASED"
    market.observe("one", window, "NOT_FOUND")
    after = market.sim.state.commitments.get(window)
    assert after is not None
    assert (after.status == "RELEASED") == (market.holders("window:w1") == [])
    market.check()


def test_what_can_be_done_once_is_done_once_whichever_intent_asks() -> None:
    market = Market()
    market.want("one", "once", "fee-77")
    market.settle("one")
    market.want("two", "once", "fee-77")
    assert market.status("two") == "WITHDRAWN"
    market.want("three", "once", "fee-78")
    assert market.status("three") == "VALIDATED"
    market.override("one", "COMPENSATED")
    market.check()


def test_refunds_in_parts_add_up_to_what_was_captured_and_no_more() -> None:
    market = Market()
    for name, amount in (("one", 60), ("two", 30), ("three", 11), ("four", 10)):
        market.want(name, "draw", capture="cap-1", amount=amount)
        if market.status(name) == "VALIDATED":
            market.settle(name)
    assert [market.status(name) for name in ("one", "two", "three", "four")] == [
        "SETTLED", "SETTLED", "WITHDRAWN", "SETTLED",
    ]  # fmt: skip
    assert market.holders("capture:cap-1") == ["one SPENT", "two SPENT", "four SPENT"]


def test_an_account_is_in_quarantine_while_what_happened_on_it_cannot_be_asked() -> None:
    market = Market()
    market.want("one", "wire", account="9")
    market.want("other", "wire", account="9")
    assert market.status("other") == "VALIDATED", "the account itself may be shared"
    market.prepared("one")
    market.doubt("one")
    market.want("two", "wire", account="9")
    assert market.status("two") == "WITHDRAWN"
    market.want("three", "wire", account="8")
    assert market.status("three") == "VALIDATED", "another account is nobody's concern"
    market.override("one", "SETTLED")
    market.dispatch("two")
    assert market.status("two") == "VALIDATED"


def test_a_downstream_that_can_be_asked_needs_no_quarantine() -> None:
    market = Market()
    market.want("one", "train", pool="a100", bench="b1", count=1)
    market.doubt("one")
    market.want("two", "train", pool="a100", bench="b2", count=1)
    assert market.status("two") == "SUBMITTED"


def test_a_quota_is_a_capacity_of_whoever_asks() -> None:
    market = Market()
    market.want("one", "consult")
    market.want("two", "consult")
    market.want("three", "consult")
    assert [market.status(name) for name in ("one", "two", "three")] == ["VALIDATED", "VALIDATED", "WITHDRAWN"]
    market.settle("one")
    market.dispatch("three")
    assert market.status("three") == "VALIDATED"
    assert set(market.op("three").needs) == {"calls:acme", "asks:ann"}


def test_a_principals_own_quota_stops_that_principal_only() -> None:
    market = Market()
    for name, principal in (("one", "bob"), ("two", "bob"), ("three", "cleo")):
        market.say(c.DeclareIntent, "PLANNER", name, version=1, tenant=name, goals=[])
        market.plan(name, "consult")
        market.dispatch(name, principal=principal)
    assert [market.status(name) for name in ("one", "two", "three")] == ["VALIDATED", "WITHDRAWN", "VALIDATED"]


def test_without_an_answer_the_operation_is_withdrawn_and_a_late_grant_is_given_back_at_once() -> None:
    market = Market()
    market.sim.arbitrates = False  # the arbiter is down
    market.want("one", "sweep", bench="b1")
    market.sim.advance(59_999)
    assert market.status("one") == "STAGED"
    market.sim.advance(1)
    assert market.status("one") == "WITHDRAWN"
    market.sim.arbitrates = True
    market.want("two", "sweep", bench="b2")  # it is up again, and hears everything in its order
    assert market.holders("bench:b1") == []
    late = next(one for one in market.sim.decisions if one.claim_type == "ResourceGranted")
    assert (late.verdict, late.reason) == ("REJECTED", "OPERATION_ENDED")
    assert [x.standing for x in late.facts if isinstance(x, ResourceChanged)] == ["RETURNED"]
    market.check()


def test_a_restart_of_either_changes_nothing() -> None:
    market = Market()
    market.want("one", "train", pool="a100", bench="b1", count=3)
    market.want("two", "sweep", bench="b1")
    market.sim.flush()
    before, held = snapshot(market.sim.state), market.sim.arbiter.state.all_holds()
    market.sim.restart()
    assert (snapshot(market.sim.state), market.sim.arbiter.state.all_holds()) == (before, held)
    market.commit("one")
    market.dispatch("two")
    assert market.status("two") == "SUBMITTED"


WANTS: list[tuple[str, dict[str, Any]]] = [
    ("sweep", {"bench": "b1"}), ("train", {"pool": "a100", "bench": "b1", "count": 3}),
    ("train", {"pool": "a100", "bench": "b2", "count": 5}), ("train_approved", {"bench": "b1"}),
    ("train_held", {"bench": "b2"}), ("wire", {"account": "9"}), ("consult", {}),
    ("draw", {"capture": "c1", "amount": 60}), ("once", {}), ("reserve_window", {}),
]  # fmt: skip
VERBS = (
    "want want want dispatch settle settle prepared doubt abort fail keep advance advance lease cancel restart".split()
)
TIMES_MS = [1, 30_000, 61_000, 700_000, 4_000_000]


def _play(market: Market, verb: str, chance: Random, names: list[str]) -> None:
    if verb in ("want", "restart", "advance", "lease") or not names:
        match verb:
            case "advance" | "lease":
                market.sim.advance(chance.choice(TIMES_MS))
            case "restart":
                market.sim.restart()
            case _:
                action, arguments = chance.choice(WANTS)
                names.append(f"i{len(names)}")
                market.want(names[-1], action, chance.choice(["k1", "k2"]), **arguments)
        return
    name = chance.choice(names)
    match verb:
        case "fail" | "keep":
            market.override(name, "FAILED" if verb == "fail" else "SETTLED")
        case "cancel":
            market.say(c.CancelIntent, "PLANNER", name)
        case "dispatch":
            market.dispatch(name)
        case _:
            getattr(market, verb)(name)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 2**20)), min_size=5, max_size=40),
       st.sampled_from([1, 3, 50]))  # fmt: skip
def test_whatever_happens_both_deciders_agree_and_both_ledgers_rebuild_them(
    moves: list[tuple[str, int]], batch: int
) -> None:
    market, names = Market(batch=batch), list[str]()
    for verb, number in moves:
        _play(market, verb, Random(number), names)
        market.check()
    commands = [one for one in market.sim.sent if isinstance(one, Command)]
    assert check(market.sim.decisions, raw=market.sim.ledger, commands=commands) == []
    assert check_resources(market.sim.arbiter.decisions, market.sim.arbiter.ledger, market.sim.codec) == []
    told = [one for one in market.sim.sent if isinstance(one, ResourceMessage)]
    asked = [(one.operation_id, one.resource_ref, one.n) for one in told]
    assert len(set(asked)) == len(asked), "a decision says one thing of each resource"
    market.sim.flush()
    before, held = snapshot(market.sim.state), market.sim.arbiter.state.all_holds()
    market.sim.restart()
    assert (snapshot(market.sim.state), market.sim.arbiter.state.all_holds()) == (before, held)


def taken_over() -> tuple[Market, str]:
    """An owner outside our books has taken over the window of intent `one`; and the commitment's id."""
    catalogue = arbitrated()
    window = replace(catalogue.obligations["window"], resolution="TRANSFERABLE")
    market = Market(sealed(replace(catalogue, obligations={**catalogue.obligations, "window": window})))
    market.want("one", "reserve_window", "w1")
    market.settle("one")
    identity = market.op("one").commitment_id or ""
    market.observe("one", identity, "PRESENT")
    market.say(c.Transfer, "PLANNER", "one", commitment_id=identity, target_owner="desk:abroad")
    taken = market.say(c.AcceptTransfer, "PLANNER", "one", commitment_id=identity, owner_id="desk:abroad",
                       fencing_token=1, evidence=["receipt:1"])  # fmt: skip
    assert taken.status == "TRANSFERRED"
    return market, identity


def free(market: Market, identity: str, **said: Any) -> Decision:
    """A person says that nobody has the resource any more."""
    fields = {"to": "FREED", "reason": "the desk gave it up", "evidence": ["letter:7"], "principal": "olga", **said}
    return market.say(c.Override, "OPERATOR", "one", subject_kind="COMMITMENT", subject_id=identity, **fields)


def test_what_an_owner_outside_our_books_took_over_is_not_free_for_anybody_else() -> None:
    """Its lease is renewed without end: the new owner has the window, and the next one who wants it is told so."""
    market, _ = taken_over()
    market.sim.advance(3_600_000)
    assert market.holders("window:w1") == ["one HELD"]
    market.want("two", "reserve_window", "w1")
    assert market.status("two") == "WITHDRAWN"
    market.check()


def test_a_person_frees_what_left_our_books_by_name_with_a_reason_and_evidence() -> None:
    market, identity = taken_over()
    assert free(market, identity, evidence=[]).reason == "NO_EVIDENCE"
    assert free(market, identity, reason="").reason == "NO_EVIDENCE"
    assert market.holders("window:w1") == ["one HELD"]
    freed = free(market, identity)
    assert (freed.verdict, freed.status) == ("ACCEPTED", "TRANSFERRED"), "the obligation itself ended as it did"
    assert [fact.detail for fact in freed.facts] == ["freed by olga: the desk gave it up (letter:7)"]
    assert market.holders("window:w1") == []
    market.want("two", "reserve_window", "w1")
    assert market.holders("window:w1") == ["two HELD"]
    assert free(market, identity).reason == "ALREADY_SO"
    assert market.holders("window:w1") == ["two HELD"], "said again, it takes nothing from who has it now"
    market.check()


def test_a_lease_that_ran_out_while_it_was_freed_gives_back_again_and_holds_on_to_nothing() -> None:
    market, identity = taken_over()
    free(market, identity)
    late = market.say(c.ResourceExpired, "GATE", "one", operation_id=market.op("one").operation_id,
                      resource_ref="window:w1")  # fmt: skip
    assert "a person freed window:w1" in late.detail
    assert market.holders("window:w1") == []


def test_only_what_left_our_books_is_freed_by_hand_and_only_where_it_holds_something() -> None:
    market = Market()
    market.want("one", "reserve_window", "w1")
    market.settle("one")
    identity = market.op("one").commitment_id or ""
    market.observe("one", identity, "PRESENT")
    refused = free(market, identity)
    assert refused.reason == "ILLEGAL_TRANSITION"
    assert "release the commitment instead" in refused.detail
    assert market.holders("window:w1") == ["one HELD"]


def test_a_condition_that_is_taken_back_while_the_arbiter_is_asked_holds_the_operation_back() -> None:
    catalogue = arbitrated()
    kind = replace(catalogue.obligations["window"], condition="freeze-lifted")
    action = replace(catalogue.actions["sweep"], obligation="window")
    court = Court(sealed(replace(catalogue, obligations={**catalogue.obligations, "window": kind},
                                 actions={**catalogue.actions, "sweep": action})))  # fmt: skip
    court.open(step("s1", "sweep", "b", arguments={"bench": "b1"}))
    court.observe_condition("freeze-lifted", "PRESENT")
    court.dispatch("s1")
    assert (court.op("s1").phases, court.op("s1").timer) == ("ONE_PHASE", "RESOURCES")
    court.observe_condition("freeze-lifted", "ABSENT")
    court.say(c.ResourceGranted(claim_id="g1", intent_id=INTENT, operation_id=court.op_id("s1"),
                                resource_ref="bench:b1"))  # fmt: skip
    assert (court.op("s1").status, court.op("s1").timer, court.op("s1").permits) == ("STAGED", "CONDITION", 0)
    court.observe_condition("freeze-lifted", "PRESENT")
    assert court.op("s1").status == "SUBMITTED", "it has all it needs, and goes on at once"
    assert check(court.decisions, raw=court.ledger) == []
