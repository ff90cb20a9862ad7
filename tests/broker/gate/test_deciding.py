"""The gate decides: each claim once, in order, whatever else lies on its topics."""

from collections.abc import Callable
from typing import Any

from joingate_schemas.claims import DeclareIntent, Override
from joingate_schemas.decisions import Command, Quarantined
from joingate_schemas.topics import partition_for

INTENT = "acme/refund/1"


def test_a_claim_in_is_one_decision_out_and_a_dispatch_is_one_command(desk: Any, tools: Any) -> None:
    with desk.gate():
        desk.refund(INTENT, upto=3)
        desk.flush()
        ledger = desk.await_claims(3)
        desk.send(tools.refund(INTENT)[3], desk.topics.outcomes)
        ledger = desk.await_claims(4)
        desk.send(tools.refund(INTENT)[4])
        desk.send(tools.refund(INTENT)[5])
        ledger = [one for one in desk.await_claims(6) if one.topic != "gate"]
    assert [(one.claim_type, one.verdict) for one in ledger] == [
        (name, "ACCEPTED") for name in ("DeclareIntent", "Plan", "Dispatch", "Commit", "Succeed", "Close")
    ]
    (command,) = desk.read(desk.topics.commands("teller"))
    assert isinstance(command.record, Command)
    assert (command.record.kind, command.key) == ("EXECUTE", INTENT.encode())
    assert command.record.partition == command.partition == partition_for(INTENT.encode(), 2)
    assert command.record.ledger_seq == next(one.seq for one in ledger if one.claim_type == "Dispatch")


def test_the_same_claim_produced_twice_is_replayed_and_nothing_goes_out_again(desk: Any, tools: Any) -> None:
    """C19: a delivery that was reported as failed may be in the log all the same."""
    with desk.gate():
        desk.refund(INTENT, upto=3)
        desk.refund(INTENT, upto=3)
        desk.flush()
        ledger = desk.await_claims(6)
    again = [one for one in ledger if one.verdict == "REPLAYED"]
    assert [one.claim_type for one in again] == ["DeclareIntent", "Plan", "Dispatch"]
    assert all(one.reason == "CLAIM_REPEATED" and one.claim == b"" for one in again)
    assert len(desk.read(desk.topics.commands("teller"))) == 1


def test_what_cannot_be_read_is_quarantined_with_its_bytes_and_the_others_go_on(desk: Any, tools: Any) -> None:
    other = next(key for n in range(99) if partition_for((key := f"acme/other/{n}").encode(), 2) == 0)
    claim = desk.codec.encode(tools.cancel(INTENT, "c"))
    bad = {
        "UNREADABLE": (b"\xff junk", b"acme/a", {}),
        "UNKNOWN_SCHEMA": (b"\xc3\x01" + bytes(8), b"acme/b", {}),
        "MISSING_KEY": (claim, None, {"partition": 0}),
        "KEY_NOT_INTENT": (claim, b"acme/not-the-intent", {}),
        "WRONG_PARTITION": (desk.codec.encode(tools.cancel(other, "c")), other.encode(), {"partition": 1}),
        "OVERSIZED": (b"x" * 300_000, b"acme/c", {}),
    }
    with desk.gate():
        for value, key, where in bad.values():
            desk.send_raw(value, key, **where)
        for n in range(4):
            desk.refund(f"acme/honest/{n}", upto=1)
        desk.flush()
        ledger = desk.await_ledger(
            lambda found: len([one for one in found if one.claim_type in ("ClaimQuarantined", "DeclareIntent")]) == 10
        )
    kept = {one.record.problem: one.record for one in desk.read(desk.topics.quarantine)}
    assert kept.keys() == bad.keys()
    for problem, (value, key, _) in bad.items():
        record = kept[problem]
        assert isinstance(record, Quarantined)
        assert (record.value, record.key) == (value, key)
        (fact,) = [one for one in ledger if one.subject_id == record.quarantine_id]
        assert (fact.seq, fact.epoch, fact.reason) == (record.ledger_seq, record.epoch, problem)


def test_a_record_that_is_no_claim_and_one_without_a_value_are_set_aside_and_the_others_go_on(
    desk: Any, tools: Any
) -> None:
    """A Command that strayed onto `proposals` is a record of ours, and reads well; a deletion says nothing at all."""
    with desk.gate():
        desk.refund(INTENT, upto=3)
        desk.flush()
        desk.await_claims(3)
        (command,) = desk.read(desk.topics.commands("teller"))
        desk.send_raw(command.raw, b"acme/strayed")
        desk.send_raw(None, b"acme/deleted")
        desk.send_raw(None, None, partition=1)
        for n in range(4):
            desk.refund(f"acme/honest/{n}", upto=1)
        desk.send(tools.cancel("acme/deleted", "waits"))  # what the deletion was about, nobody knows
        desk.flush()
        ledger = desk.await_ledger(
            lambda found: (
                sum(one.claim_type == "ClaimQuarantined" for one in found) == 3
                and {f"acme/honest/{n}-1" for n in range(4)} <= {one.claim_id for one in found}
                and any(one.reason == "HELD" and one.intent_id == "acme/deleted" for one in found)
            )
        )
        assert [one.verdict for one in ledger if one.claim_type == "DeclareIntent"] == ["ACCEPTED"] * 5
    kept = {one.record.key: one.record for one in desk.read(desk.topics.quarantine)}
    assert {(key, one.value, one.problem, one.detail) for key, one in kept.items()} == {
        (b"acme/strayed", command.raw, "UNREADABLE", "a Command is no claim"),
        (b"acme/deleted", None, "UNREADABLE", "the record has no value"),
        (None, None, "UNREADABLE", "the record has no value"),
    }
    told = {one.subject_id: (one.reason, one.detail) for one in ledger if one.claim_type == "ClaimQuarantined"}
    assert told == {one.quarantine_id: (one.problem, one.detail) for one in kept.values()}


def test_a_mended_record_is_decided_once_and_then_the_claims_that_waited_for_it(desk: Any, tools: Any) -> None:
    declare, plan, *_ = tools.refund(INTENT)
    with desk.gate():
        desk.send_raw(b"\x00\xff junk", INTENT.encode())
        desk.send(plan)  # it would be refused, since no intent is known; but the unreadable record may have declared it
        desk.flush()
        held = desk.await_ledger(lambda found: any(one.reason == "HELD" for one in found))
        (quarantine,) = [one.subject_id for one in held if one.claim_type == "ClaimQuarantined"]
        desk.send(
            Override(
                claim_id="o", intent_id=INTENT, principal="ann", subject_kind="QUARANTINE", subject_id=quarantine,
                to="REDRIVEN", reason="mended", evidence=["ticket-1"], replacement=desk.codec.encode(declare),
            ),
            desk.topics.overrides,
        )  # fmt: skip
        desk.flush()
        ledger = desk.await_ledger(lambda found: any(one.claim_type == "Plan" for one in found))
    after = [(one.claim_type, one.verdict) for one in ledger if one.topic != "gate"]
    assert after == [("Override", "ACCEPTED"), ("DeclareIntent", "ACCEPTED"), ("Plan", "ACCEPTED")]


def test_how_claims_are_cut_into_batches_changes_no_verdict(make_desk: Callable[..., Any], tools: Any) -> None:
    """Law 9: verdicts depend on the ledger's order alone."""
    results = []
    for batch_max in (1, 7, 5_000):
        desk = make_desk()
        claims = []
        for n in range(6):
            first, *rest = tools.refund(f"acme/refund/{n}")
            claims += [first, *rest[:2], first, rest[4]]
        for claim in claims:
            desk.send(claim)
        desk.flush()
        with desk.gate(batch_max=batch_max):
            ledger = desk.await_claims(len(claims))
        results.append([(one.claim_id, one.verdict, one.reason, one.facts) for one in ledger if one.topic != "gate"])
    for result in results[1:]:
        assert [one[:3] for one in result] == [one[:3] for one in results[0]]
        assert [[type(fact) for fact in one[3]] for one in result] == [
            [type(fact) for fact in one[3]] for one in results[0]
        ]


def test_a_deadline_fires_by_itself_and_once(desk: Any, tools: Any) -> None:
    with desk.gate(catalogue=tools.catalogue(silence_ms=200)):
        desk.refund(INTENT, upto=3)
        desk.flush()
        ledger = desk.await_ledger(lambda found: any("silence" in one.detail for one in found))
    fired = [one for one in ledger if one.claim_type == "TimerFired"]
    assert len({one.claim_id for one in fired}) == len(fired)
    dispatched = next(one for one in ledger if one.claim_type == "Dispatch")
    assert fired[0].decided_at >= dispatched.decided_at + 200


def test_a_gate_with_another_catalogue_says_so_before_anything_else(desk: Any, tools: Any) -> None:
    for version in ("1", "1", "2"):
        with desk.gate(catalogue=tools.catalogue(version)) as gate:
            tools.wait_for(lambda gate=gate: gate.states() == ["RUNNING"] * 2, "the gate to run")
    changes = [one for one in desk.ledger() if one.claim_type == "CatalogueChanged"]
    assert sorted(one.subject_id for one in changes) == ["digest-1"] * 2 + ["digest-2"] * 2


def test_an_empty_intent_id_with_an_empty_key_is_refused_or_quarantined_but_never_stops_the_gate(
    desk: Any, tools: Any
) -> None:
    with desk.gate():
        desk.send(DeclareIntent(claim_id="c", intent_id="", version=1, goals=[]), partition=0)
        desk.send(tools.cancel(INTENT, "after"))
        desk.flush()
        desk.await_claims(1)
        assert desk.await_ledger(lambda found: any(one.reason == "MISSING_KEY" for one in found))
