"""The arbiter's rules one by one: who gets what, who is told whom to ask, and what a lease may never take."""

import pytest

from joingate_schemas.claims import ResourceDenied, ResourceExpired, ResourceGranted

from .bench import CODEC, REF, Bench, extend, free, quarantine, reserve

GPUS = {"ref": "gpu:a100", "mode": "CAPACITY", "capacity": 8}
FEE = {"ref": "fee:77", "mode": "ONCE_EVER"}


def test_the_first_in_the_ledger_gets_it_and_the_other_is_told_who_has_it() -> None:
    bench = Bench()
    assert bench.say(reserve("op-1")).verdict == "GRANTED"
    denied = bench.say(reserve("op-2"))
    assert (denied.verdict, denied.reason) == ("DENIED", "RESOURCE_DENIED")
    assert (denied.holder, denied.holder_intent_id, denied.holder_status) == ("op-1", "acme/op-1", "HELD")
    granted, told = bench.answers
    assert isinstance(granted, ResourceGranted)
    assert isinstance(told, ResourceDenied)
    assert (told.intent_id, told.holder, told.reason) == ("acme/op-2", "op-1", "RESOURCE_DENIED")
    assert told.detail == "window:prod is held by operation op-1 of intent acme/op-1"


def test_another_resource_is_nobodys_concern() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    assert bench.say(reserve("op-2", ref="window:staging")).verdict == "GRANTED"


def test_what_was_given_back_is_there_for_the_next_one() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    bench.say(reserve("op-2"))
    bench.say(free("op-1"))
    assert bench.say(reserve("op-3")).verdict == "GRANTED"
    assert bench.held() == ["op-3 HELD"]


def test_a_capacity_is_shared_up_to_its_quantity_and_not_beyond() -> None:
    bench = Bench()
    assert bench.say(reserve("op-1", quantity=5, **GPUS)).verdict == "GRANTED"
    over = bench.say(reserve("op-2", quantity=4, **GPUS))
    assert (over.verdict, over.reason, over.holder) == ("DENIED", "OVER_CAPACITY", "op-1")
    assert over.detail == (
        "5 of 8 of gpu:a100 are held, first of them by operation op-1 of intent acme/op-1; it asks for 4"
    )
    assert bench.say(reserve("op-3", quantity=3, **GPUS)).verdict == "GRANTED"


def test_more_than_there_is_names_no_holder() -> None:
    denied = Bench().say(reserve("op-1", quantity=9, **GPUS))
    assert (denied.reason, denied.holder) == ("OVER_CAPACITY", "")


def test_a_capacity_without_a_limit_is_counted_and_never_refused() -> None:
    bench = Bench()
    for number in range(3):
        said = bench.say(reserve(f"op-{number}", quantity=10**9, ref="account:1", mode="CAPACITY"))
        assert said.verdict == "GRANTED"


def test_who_wants_it_to_itself_and_who_shares_it_keep_each_other_out() -> None:
    bench = Bench()
    bench.say(reserve("op-1", ref="gpu:a100"))
    assert bench.say(reserve("op-2", quantity=1, **GPUS)).reason == "RESOURCE_DENIED"
    bench.say(free("op-1", ref="gpu:a100"))
    bench.say(reserve("op-3", quantity=1, **GPUS))
    assert bench.say(reserve("op-4", ref="gpu:a100")).reason == "RESOURCE_DENIED"


def test_what_can_be_done_once_is_answered_with_the_status_of_who_did_it() -> None:
    bench = Bench()
    bench.say(reserve("op-1", **FEE))
    assert bench.say(reserve("op-2", **FEE)).holder_status == "HELD"
    bench.say(free("op-1", outcome="USED", **FEE))
    again = bench.say(reserve("op-3", **FEE))
    assert (again.verdict, again.reason) == ("DENIED", "RESOURCE_SPENT")
    assert (again.holder, again.holder_status) == ("op-1", "SPENT")


def test_what_was_not_done_after_all_or_was_undone_can_be_done_once_again() -> None:
    bench = Bench()
    bench.say(reserve("op-1", **FEE))
    bench.say(free("op-1", outcome="UNUSED", **FEE))
    bench.say(reserve("op-2", **FEE))
    bench.say(free("op-2", outcome="USED", **FEE))
    bench.say(free("op-2", n=3, outcome="UNUSED", **FEE))
    assert bench.say(reserve("op-3", **FEE)).verdict == "GRANTED"


def test_a_quantity_that_is_kept_stays_taken_by_what_was_done_with_it() -> None:
    bench = Bench()
    terms = {"ref": "capture:1", "mode": "CAPACITY", "quantity": 60}
    bench.say(reserve("op-1", capacity=100, keeps=True, **terms))
    bench.say(free("op-1", outcome="USED", keeps=True, **terms))
    assert bench.held("capture:1") == ["op-1 SPENT"]
    over = bench.say(reserve("op-2", capacity=100, keeps=True, **terms))
    assert (over.reason, over.holder_status) == ("OVER_CAPACITY", "SPENT")
    bench.say(reserve("op-3", capacity=100, **{**terms, "quantity": 40}))
    bench.say(free("op-3", outcome="USED", **{**terms, "quantity": 40}))
    assert bench.held("capture:1") == ["op-1 SPENT"], "what is not kept comes back"


def test_a_late_success_counts_although_the_resource_was_given_back_before() -> None:
    bench = Bench()
    bench.say(reserve("op-1", **FEE))
    bench.say(free("op-1", outcome="UNUSED", **FEE))
    late = bench.say(free("op-1", n=3, outcome="USED", **FEE))
    assert late.detail == "it acted on what it did not hold any more"
    assert bench.say(reserve("op-2", **FEE)).reason == "RESOURCE_SPENT"


def test_an_expired_lease_takes_nothing_away_and_is_asked_about_until_somebody_answers() -> None:
    bench = Bench()
    bench.say(reserve("op-1", lease_ms=60_000))
    assert bench.advance(59_999) == []
    (over,) = bench.advance(1)
    assert (over.message_type, over.holder) == ("LeasePassed", "")
    assert bench.held() == ["op-1 RECLAIM_PENDING"]
    denied = bench.say(reserve("op-2"))
    assert (denied.reason, denied.holder_status) == ("RESOURCE_DENIED", "RECLAIM_PENDING")
    assert [len(bench.advance(60_000)) for _ in range(8)] == [1, 0, 1, 0, 0, 0, 1, 0], "less and less often"
    asked = [said for said in bench.answers if isinstance(said, ResourceExpired)]
    assert [said.operation_id for said in asked] == ["op-1"] * 4
    assert len({said.claim_id for said in asked}) == 4
    assert len(bench.advance(100 * 86_400_000)) >= 100, "yet at least once a day"


def test_a_renewed_lease_begins_anew_and_an_ended_one_is_asked_about_no_more() -> None:
    bench = Bench()
    bench.say(reserve("op-1", lease_ms=60_000))
    bench.advance(60_000)
    assert bench.say(extend("op-1")).verdict == "DONE"
    assert bench.held() == ["op-1 HELD"]
    assert bench.advance(59_999) == []
    bench.say(free("op-1", n=3))
    assert bench.advance(10**9) == []


def test_a_lease_can_only_be_renewed_by_who_holds_it() -> None:
    bench = Bench()
    bench.say(reserve("op-1", lease_ms=60_000))
    said = bench.say(extend("op-2"))
    assert (said.verdict, said.reason) == ("REJECTED", "NOT_HELD")


def test_an_account_in_quarantine_lets_no_other_operation_begin_though_there_is_room() -> None:
    bench = Bench()
    account = {"ref": "account:9", "mode": "CAPACITY"}
    bench.say(reserve("op-1", **account))
    bench.say(quarantine("op-1", ref="account:9"))
    denied = bench.say(reserve("op-2", **account))
    assert (denied.reason, denied.holder, denied.holder_status) == ("RESOURCE_QUARANTINED", "op-1", "QUARANTINED")
    bench.say(free("op-1", n=3, outcome="USED", ref="account:9", mode="CAPACITY"))
    assert bench.say(reserve("op-3", **account)).verdict == "GRANTED"


def test_an_operation_that_holds_nothing_quarantines_an_account_and_lifts_it() -> None:
    bench = Bench()
    bench.say(quarantine("op-1", ref="account:9"))
    assert bench.say(reserve("op-2", ref="account:9", mode="CAPACITY")).reason == "RESOURCE_QUARANTINED"
    bench.say(extend("op-1", n=3, ref="account:9"))
    assert bench.held("account:9") == []


def test_a_message_heard_again_changes_nothing_and_is_answered_to_nobody() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    again = bench.say(reserve("op-1"))
    assert (again.verdict, again.reason) == ("REPLAYED", "ALREADY_SO")
    assert len(bench.answers) == 1


def test_a_reserve_that_comes_after_its_own_free_is_never_granted() -> None:
    bench = Bench()
    bench.say(free("op-1", n=5))
    late = bench.say(reserve("op-1", n=4))
    assert (late.verdict, late.reason) == ("REPLAYED", "STALE_MESSAGE")
    assert bench.held() == []


def test_asking_again_for_what_one_has_is_granted_again() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    again = bench.say(reserve("op-1", n=2))
    assert (again.verdict, again.reason) == ("GRANTED", "ALREADY_SO")
    assert len({said.claim_id for said in bench.answers}) == 2


def test_a_gate_that_was_replaced_is_not_heard() -> None:
    bench = Bench()
    bench.say(reserve("op-1", epoch=3))
    stale = bench.say(free("op-1", epoch=2))
    assert (stale.verdict, stale.reason) == ("REJECTED", "STALE_MESSAGE")
    assert bench.held() == ["op-1 HELD"]
    assert bench.say(reserve("op-2", epoch=1, partition=1, ref="window:x")).verdict == "GRANTED", "another gate"


@pytest.mark.parametrize("fields", [{"mode": "UNKNOWN"}, {"quantity": 0}, {"quantity": -1}])
def test_what_cannot_be_understood_is_denied_so_that_nobody_waits(fields: dict[str, object]) -> None:
    bench = Bench()
    assert bench.say(reserve("op-1", **fields)).verdict == "DENIED"
    assert bench.held() == []
    assert isinstance(bench.answers[0], ResourceDenied)


def test_an_end_that_this_release_does_not_know_frees_nothing() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    assert bench.say(free("op-1", outcome="UNKNOWN")).verdict == "REJECTED"
    assert bench.held() == ["op-1 HELD"]


def test_unreadable_bytes_get_their_record_and_hold_up_nobody() -> None:
    bench = Bench()
    said = bench.say(None, b"rubbish")
    assert (said.verdict, said.reason, said.message, said.hold) == ("REJECTED", "UNREADABLE", b"rubbish", None)
    assert bench.say(reserve("op-1")).verdict == "GRANTED"
    assert bench.state.header.next_offset == 2


def test_the_mark_of_what_ended_is_kept_as_long_as_a_message_lives_and_then_let_go() -> None:
    bench = Bench()
    bench.say(reserve("op-1"))
    bench.say(free("op-1"))
    bench.advance(30 * 86_400_000)
    bench.say(reserve("op-2"))
    assert (REF, "op-1") in bench.state.marks
    bench.advance(1)
    bench.say(free("op-2"))
    assert set(bench.state.marks) == {(REF, "op-2")}
    assert CODEC.decode(bench.ledger[-1]) == bench.decisions[-1]
