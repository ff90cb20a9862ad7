"""Signatures on a real broker: keys reach every partition's gate, and a restart from nothing comes to the same."""

import shutil
from typing import Any

import pytest

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.claims import AnyClaim, Override, RegisterKey, RevokeKey
from joingate_schemas.record import changed
from joingate_schemas.signing import Signer
from joingate_schemas.topics import partition_for

pytestmark = pytest.mark.broker

ROOT, OLGA = Signer.from_seed(b"\1" * 32), Signer.from_seed(b"\2" * 32)
INTENTS = {partition_for(name.encode(), 2): name for name in (f"acme/refund/{n}" for n in range(20))}
CATALOGUE = f"""
version: "1"
downstreams:
  bank: {{capabilities: [IDEMPOTENT_KEY, LOOKUP]}}
actions:
  refund: {{downstream: bank, effect: REVERSIBLE, kind: RETRYABLE, executor: teller}}
principals:
  paula: {{role: PLANNER}}
  olga: {{role: OPERATOR}}
  root: {{role: OPERATOR, registrar: true, keys: ["{ROOT.public_key.hex()}"]}}
"""


def override(intent_id: str, claim_id: str) -> AnyClaim:
    """Of nothing: what it is refused for, if it is heard, is not knowing the operation."""
    return Override(claim_id=claim_id, intent_id=intent_id, principal="olga", subject_kind="OPERATION", subject_id="o",
                    to="FAILED", reason="seen by hand", evidence=["ticket-7"])  # fmt: skip


def test_unsigned_is_refused_signed_is_heard_revoked_is_refused_and_a_restart_finds_the_same(
    desk: Any, tools: Any
) -> None:
    catalogue: Catalogue = catalogue_from_text(CATALOGUE)
    settings = {"catalogue": catalogue}
    overrides = desk.topics.overrides
    assert len(INTENTS) == 2

    def said(*claims: AnyClaim) -> None:
        for claim in claims:
            desk.send(claim, overrides)
        desk.flush()

    def everywhere(name: str, make: Any) -> None:
        for number in INTENTS:
            desk.send(ROOT.sign(make(f"{name}/{number}")), overrides, partition=number)
        desk.flush()

    with desk.gate(**settings):
        for intent_id in INTENTS.values():
            declared = tools.refund(intent_id)[0]
            desk.send(changed(declared, principal="paula"))
            said(override(intent_id, f"{intent_id}-unsigned"), OLGA.sign(override(intent_id, f"{intent_id}-unknown")))
        desk.await_claims(6)
        everywhere("add", lambda claim_id: RegisterKey(
            claim_id=claim_id, intent_id="", principal="root", holder="olga", public_key=OLGA.public_key
        ))  # fmt: skip
        desk.await_claims(8)
        said(*(OLGA.sign(override(intent_id, f"{intent_id}-signed")) for intent_id in INTENTS.values()))
        desk.await_claims(10)
    shutil.rmtree(desk.directory / "gate")  # this machine's disk is gone: the keys come back from Kafka alone
    with desk.gate(**settings):
        said(*(OLGA.sign(override(intent_id, f"{intent_id}-after")) for intent_id in INTENTS.values()))
        desk.await_claims(12)
        everywhere("end", lambda claim_id: RevokeKey(
            claim_id=claim_id, intent_id="", principal="root", holder="olga", key_id=OLGA.key_id
        ))  # fmt: skip
        desk.await_claims(14)
        said(*(OLGA.sign(override(intent_id, f"{intent_id}-revoked")) for intent_id in INTENTS.values()))
        desk.await_claims(16)
    with desk.gate(**settings):
        said(*(OLGA.sign(override(intent_id, f"{intent_id}-later")) for intent_id in INTENTS.values()))
        ledger = desk.await_claims(18)
    reasons = {one.claim_id: one.reason for one in ledger}
    for number, intent_id in INTENTS.items():
        assert [reasons[f"add/{number}"], reasons[f"end/{number}"]] == ["OK", "OK"]
        names = ("unsigned", "unknown", "signed", "after", "revoked", "later")
        said_of = {name: reasons[f"{intent_id}-{name}"] for name in names}
        assert said_of == {
            "unsigned": "UNSIGNED", "unknown": "UNKNOWN_KEY", "signed": "UNKNOWN_OPERATION",
            "after": "UNKNOWN_OPERATION", "revoked": "KEY_REVOKED", "later": "KEY_REVOKED",
        }  # fmt: skip
