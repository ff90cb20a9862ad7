"""Who may say what where principals are declared: signatures, keys that come and go, limits, and their replay."""

from dataclasses import replace
from typing import Any

import pytest

from joingate_processors.law.memory import MemoryState
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue, Principal
from joingate_schemas.decisions import Decision
from joingate_schemas.record import changed
from joingate_schemas.signing import Signer

from .catalogues import varied
from .driver import CODEC, INTENT, START_AT, Court, step

KEYS = {name: Signer.from_seed(bytes([number]) * 32) for number, name in enumerate(
    ("root", "ann", "bob", "rita", "gate", "new"), 1
)}  # fmt: skip


def declared(**fields: Any) -> Catalogue:
    """paula plans, eve executes, ann and bob approve, olga is on duty, root lets others speak, desk vouches for bob."""
    known = (
        Principal("paula", "PLANNER", tenant="acme"),
        Principal("eve", "EXECUTOR"),
        Principal("ann", "APPROVER", keys=(KEYS["ann"].public_key.hex(),)),
        Principal("bob", "APPROVER"),
        Principal("desk", "APPROVER", keys=(KEYS["gate"].public_key.hex(),), vouches_for=("bob",)),
        Principal("olga", "OPERATOR"),
        Principal("root", "OPERATOR", keys=(KEYS["root"].public_key.hex(),), registrar=True),
    )
    principals = {one.name: one for one in known}
    return varied(principals=principals, **{"signatures": "OPTIONAL", **fields})


def court(**fields: Any) -> Court:
    """Step s1 waits for an approval; root's claims are signed."""
    made = Court(declared(**fields))
    made.signers = {"root": KEYS["root"]}
    assert made.declare(principal="paula").reason == "OK"
    assert made.plan(step("s1", "pay_approved"), principal="paula").reason == "OK"
    assert made.dispatch("s1", principal="paula").status == "STAGED"
    return made


def register(x: Court, holder: str, key: str, **given: Any) -> Decision:
    said = {"principal": "root", "claim_id": x.claim_id(), "intent_id": "", "holder": holder,
            "public_key": KEYS[key].public_key}  # fmt: skip
    return x.say(c.RegisterKey(**{**said, **given}))


def revoke(x: Court, holder: str, key: str, **given: Any) -> Decision:
    said = {"principal": "root", "claim_id": x.claim_id(), "intent_id": "", "holder": holder,
            "key_id": KEYS[key].key_id}  # fmt: skip
    return x.say(c.RevokeKey(**{**said, **given}))


def approval(x: Court, by: str, key: str | None = None) -> c.Approve:
    claim = c.Approve(claim_id=x.claim_id(), intent_id=INTENT, principal=by, operation_id=x.op_id("s1"),
                      digest=x.op("s1").content_digest)  # fmt: skip
    signed = claim if key is None else KEYS[key].sign(claim)
    assert isinstance(signed, c.Approve)
    return signed


# --- signatures ------------------------------------------------------------------------------------------------------


def test_an_approval_is_signed_wherever_principals_are_declared() -> None:
    x = court()
    assert x.say(approval(x, "ann")).reason == "UNSIGNED"
    assert x.op("s1").status == "STAGED"
    assert x.say(approval(x, "ann", "ann")).status == "VALIDATED"


def test_where_no_principals_are_declared_nothing_is_asked_and_a_signature_is_not_read() -> None:
    x = Court(varied())
    x.open(step("s1", "pay_approved"))
    x.dispatch("s1")
    assert x.say(changed(approval(x, "ann"), signature=b"scrawl")).status == "VALIDATED"


def test_a_catalogue_from_before_signatures_asks_for_none() -> None:
    """What an older ledger accepted, the law still accepts when it is decided again."""
    x = court(signatures="NONE")
    assert x.say(approval(x, "ann")).status == "VALIDATED"


def test_an_override_and_a_decline_are_signed_too_and_a_plan_need_not_be() -> None:
    x = court()
    assert x.override("OPERATION", x.op_id("s1"), "FAILED", principal="root", claim_id="x").reason != "UNSIGNED"
    x.signers = {}
    assert x.override("OPERATION", x.op_id("s1"), "FAILED", principal="root").reason == "UNSIGNED"
    assert x.decline("s1", principal="ann").reason == "UNSIGNED"


def test_where_all_must_sign_a_planner_must() -> None:
    x = Court(declared(signatures="REQUIRED"))
    assert x.declare(principal="paula").reason == "UNSIGNED"
    x.signers = {"root": KEYS["root"], "paula": KEYS["new"]}
    assert register(x, "paula", "new").reason == "OK"
    assert x.declare(principal="paula").reason == "OK"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (lambda x: changed(approval(x, "ann", "ann"), comment="and more"), "BAD_SIGNATURE"),
        (lambda x: changed(approval(x, "ann"), signature=b"x" * 64), "BAD_SIGNATURE"),
        (lambda x: changed(approval(x, "ann"), signature=b""), "BAD_SIGNATURE"),
        (lambda x: changed(approval(x, "ann", "ann"), claim_id="another"), "BAD_SIGNATURE"),
        (lambda x: approval(x, "bob", "ann"), "BAD_SIGNATURE"),
        (lambda x: approval(x, "ann", "gate"), "BAD_SIGNATURE"),
        (lambda x: approval(x, "ann", "new"), "UNKNOWN_KEY"),
        (lambda x: approval(x, "ann", "root"), "BAD_SIGNATURE"),
        (lambda x: approval(x, "root", "root"), "UNKNOWN_PRINCIPAL"),
    ],
    ids=["other words", "no key id", "empty", "moved to another id", "by a colleague", "by a gateway for another",
         "by a key of nobody", "by a key of another role", "in another role"],
)  # fmt: skip
def test_a_signature_that_proves_something_else_is_refused_by_name(said: Any, reason: str) -> None:
    x = court()
    assert x.say(said(x)).reason == reason
    assert x.op("s1").approvals == []
    assert x.say(approval(x, "ann", "ann")).status == "VALIDATED", "the honest one still counts"


def test_a_gateway_signs_for_whom_it_vouches_for() -> None:
    x = court()
    decision = x.say(approval(x, "bob", "gate"))
    assert (decision.status, decision.principal) == ("VALIDATED", "bob")
    assert x.op("s1").approvals == ["bob"]


def test_a_forged_claim_does_not_use_up_the_id_of_the_honest_one() -> None:
    x = court()
    honest = approval(x, "ann", "ann")
    assert x.say(changed(honest, signature=None)).reason == "UNSIGNED"
    assert x.say(honest).reason == "OK"
    assert x.say(honest).reason == "CLAIM_REPEATED"


def test_the_arbiter_needs_no_key() -> None:
    """What it answers on its own topic is the gate's kin's word, whoever is declared."""
    x = Court(declared(signatures="REQUIRED"))
    granted = c.ResourceGranted(claim_id="g", intent_id=INTENT, principal="arbiter", operation_id="o", resource_ref="r")
    assert x.say(granted).reason not in ("UNKNOWN_PRINCIPAL", "UNSIGNED")


def test_an_override_whose_mended_bytes_are_no_claim_is_still_known_by_its_signature() -> None:
    """The mended bytes that were kept from the law are part of what was signed."""
    x = court()
    signed = KEYS["root"].sign(
        c.Override(claim_id="o", intent_id=INTENT, principal="root", subject_kind="QUARANTINE", subject_id="q",
                   to="REDRIVEN", reason="r", evidence=[], replacement=b"nothing")
    )  # fmt: skip
    assert isinstance(signed, c.Override)
    raw = CODEC.encode(signed)
    arrival = x._heard(raw, "overrides", 1, x.now)
    x._decide(replace(arrival, claim=changed(signed, replacement=None)))
    assert x.decisions[-1].reason == "UNKNOWN_QUARANTINE"


# --- keys that come and go -------------------------------------------------------------------------------------------


def test_a_registered_key_speaks_from_then_on() -> None:
    x = court()
    assert x.say(approval(x, "bob", "bob")).reason == "UNKNOWN_KEY"
    assert register(x, "bob", "bob").status == "REGISTERED"
    assert x.say(approval(x, "bob", "bob")).status == "VALIDATED"


def test_a_revoked_key_is_refused_from_the_time_on_that_was_said_by_append_time() -> None:
    x = court()
    assert revoke(x, "ann", "ann", revoked_at=x.now + 5_000).reason == "OK"
    late, early = approval(x, "ann", "ann"), approval(x, "ann", "ann")
    assert x.say(late, appended_at=x.now + 5_000).reason == "KEY_REVOKED"
    assert x.say(early, appended_at=x.now + 4_999).status == "VALIDATED"


def test_a_key_is_revoked_at_once_where_no_time_is_said() -> None:
    x = court()
    assert revoke(x, "ann", "ann").reason == "OK"
    assert x.say(approval(x, "ann", "ann")).reason == "KEY_REVOKED"


def test_a_replaced_key_is_good_for_the_overlap_and_not_longer() -> None:
    x = court()
    assert register(x, "ann", "new", replaces_key=KEYS["ann"].key_id, overlap_ms=1_000).reason == "OK"
    old, later = approval(x, "ann", "ann"), approval(x, "ann", "ann")
    assert x.say(old).status == "VALIDATED"
    x.now += 1_000
    assert x.say(later).reason == "KEY_REPLACED"
    assert x.say(approval(x, "ann", "new")).reason == "NOT_AWAITING_APPROVAL", "it is who it says"


def test_no_claim_lets_a_key_speak_for_longer_again() -> None:
    x = court()
    revoke(x, "ann", "ann", revoked_at=x.now + 10)
    assert revoke(x, "ann", "ann", revoked_at=x.now + 1_000).verdict == "REPLAYED"
    assert register(x, "ann", "ann").reason == "KEY_TAKEN"
    assert register(x, "ann", "new", replaces_key=KEYS["ann"].key_id, overlap_ms=90_000).reason == "OK"
    assert x.say(approval(x, "ann", "ann"), appended_at=x.now + 10).reason == "KEY_REVOKED"
    assert revoke(x, "ann", "ann", revoked_at=x.now).reason == "OK", "an earlier end is news"


def test_a_key_revoked_before_anybody_registered_it_never_speaks() -> None:
    """Revoking is not refused for coming first: one of the two may have been held up on this partition."""
    x = court()
    assert revoke(x, "bob", "bob").reason == "OK"
    assert register(x, "bob", "bob").reason == "KEY_TAKEN"
    assert x.say(approval(x, "bob", "bob")).reason == "KEY_REVOKED"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (lambda x: register(x, "nobody", "new"), "UNKNOWN_PRINCIPAL"),
        (lambda x: register(x, "bob", "new", public_key=b"short"), "MALFORMED"),
        (lambda x: register(x, "bob", "new", overlap_ms=-1), "MALFORMED"),
        (lambda x: register(x, "bob", "ann"), "KEY_TAKEN"),
        (lambda x: register(x, "bob", "new", replaces_key=KEYS["ann"].key_id), "UNKNOWN_KEY"),
        (lambda x: register(x, "bob", "new", replaces_key=KEYS["new"].key_id), "UNKNOWN_KEY"),
        (lambda x: register(x, "ann", "ann"), "ALREADY_SO"),
        (lambda x: revoke(x, "bob", "ann"), "KEY_TAKEN"),
        (lambda x: revoke(x, "ann", "ann", key_id="ABC"), "MALFORMED"),
        (lambda x: revoke(x, "ann", "ann", revoked_at=-1), "MALFORMED"),
    ],
)
def test_what_is_wrong_with_a_claim_about_keys_is_said(said: Any, reason: str) -> None:
    x = court()
    assert said(x).reason == reason
    assert x.say(approval(x, "ann", "ann")).status == "VALIDATED"


def test_only_a_registrar_who_signs_lets_others_speak_also_where_nothing_else_is_signed() -> None:
    x = court(signatures="NONE")
    assert register(x, "bob", "bob", principal="olga").reason == "NOT_REGISTRAR"
    x.signers = {}
    assert register(x, "bob", "bob").reason == "UNSIGNED"
    assert revoke(x, "ann", "ann").reason == "UNSIGNED"


def test_without_principals_no_key_can_be_registered() -> None:
    x = Court(varied())
    assert register(x, "bob", "bob").reason == "NOT_REGISTRAR"


def test_the_root_key_can_be_revoked_and_a_registered_one_takes_over() -> None:
    x = court()
    register(x, "root", "new")
    assert revoke(x, "root", "root").reason == "OK"
    assert register(x, "bob", "bob").reason == "KEY_REVOKED"
    x.signers = {"root": KEYS["new"]}
    assert register(x, "bob", "bob").reason == "OK"


# --- limits ----------------------------------------------------------------------------------------------------------


def limited(**fields: Any) -> Court:
    """Where paula and ann may do no more than this."""
    whole = declared()
    paula = replace(whole.principals["paula"], **fields)
    x = Court(varied(principals={**whole.principals, "paula": paula}, signatures="OPTIONAL"))
    x.declare(principal="paula")
    x.plan(step("s1", "pay", arguments={"amount": 50}), step("s2", "write_file", parallel=True), principal="paula")
    return x


def test_a_principal_asks_for_no_more_than_its_largest_amount() -> None:
    assert limited(amounts_max={"amount": 49.5}).dispatch("s1", principal="paula").reason == "OVER_LIMIT"
    assert limited(amounts_max={"amount": 50}).dispatch("s1", principal="paula").reason == "OK"


def test_an_amount_in_words_is_no_way_around_the_limit() -> None:
    x = Court(limited(amounts_max={"amount": 50}).catalogue)
    x.declare(principal="paula")
    for number, amount in enumerate(("1000000", True, float("1e300"))):
        x.plan(step(f"s{number}", "pay", arguments={"amount": amount}), plan_id=f"p{number}", principal="paula",
               replaces=f"p{number - 1}" if number else None)  # fmt: skip
        assert x.dispatch(f"s{number}", principal="paula").reason == "OVER_LIMIT", amount


def test_a_principal_for_what_can_be_undone_asks_for_nothing_else() -> None:
    x = limited(effect_max="REVERSIBLE")
    assert x.dispatch("s1", principal="paula").reason == "OVER_LIMIT"
    assert x.dispatch("s2", principal="paula").reason == "OK"


def test_an_approver_approves_no_more_than_its_limits_and_another_may() -> None:
    whole = declared()
    ann = replace(whole.principals["ann"], amounts_max={"amount": 10})
    x = Court(varied(principals={**whole.principals, "ann": ann}, signatures="OPTIONAL"))
    x.declare(principal="paula")
    x.plan(step("s1", "pay_approved", arguments={"amount": 50}), principal="paula")
    x.dispatch("s1", principal="paula")
    assert x.say(approval(x, "ann", "ann")).reason == "OVER_LIMIT"
    assert x.say(approval(x, "bob", "gate")).status == "VALIDATED"


def test_a_principal_declares_intents_of_its_own_tenant_only() -> None:
    x = Court(declared())
    assert x.declare(principal="paula", tenant="other").reason == "UNKNOWN_PRINCIPAL"
    assert x.declare(principal="paula", tenant="acme").reason == "OK"


# --- replay ----------------------------------------------------------------------------------------------------------


def test_replay_of_the_ledger_alone_finds_the_same_keys_and_decides_the_same() -> None:
    """Every claim decided again, over what was folded before it, comes to the same record."""
    x = court()
    register(x, "bob", "bob")
    x.say(approval(x, "bob", "new"))
    revoke(x, "bob", "bob", revoked_at=x.now + 1)
    x.say(approval(x, "bob", "bob"), appended_at=x.now + 1)
    register(x, "bob", "new")
    x.say(approval(x, "bob", "new"))
    again = Court(x.catalogue)
    for decision in x.decisions:
        again.now = max(again.now, decision.appended_at)
        again._decide(again._heard(decision.claim, decision.topic, decision.offset, decision.appended_at))
    assert again.ledger == x.ledger
    assert [row for _, row in x.replayed().rows("keys")] == [row for _, row in x.state.rows("keys")]
    assert len(x.state.rows("keys")) == 2


def test_a_claim_that_waited_for_a_quarantine_is_heard_by_the_keys_of_when_it_came() -> None:
    """UNKNOWN_KEY rests on not knowing: held in the scope of an unreadable record, then decided as of its time."""
    x = court()
    x.say(c.ClaimQuarantined(claim_id="q", intent_id="", quarantine_id="overrides/0/9", scope=None,
                             problem="UNREADABLE"), "gate")  # fmt: skip
    waits = approval(x, "bob", "bob")
    assert x.say(waits).reason == "HELD"
    register(x, "bob", "bob")
    revoke(x, "bob", "bob", revoked_at=x.now + 1)
    x.now += 60_000
    place = len(x.decisions)
    x.override("QUARANTINE", "overrides/0/9", "DISMISSED", principal="root")
    assert [one.reason for one in x.decisions[place:]] == ["OK", "OK"]
    assert x.op("s1").approvals == ["bob"]


def test_facts_about_keys_fold_whatever_is_there() -> None:
    x = court()
    register(x, "bob", "bob")
    fact = x.decisions[-1].facts[0]
    state = MemoryState()
    x.fold_into(state, x.ledger[-1])
    row = state.keys.get(KEYS["bob"].key_id)
    assert row is not None
    assert row.public_key == KEYS["bob"].public_key.hex()
    x.tell(fact)
    assert x.now >= START_AT
    assert x.state.keys.get(KEYS["bob"].key_id) == row
