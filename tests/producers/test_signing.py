"""Clients that sign: what arrives is signed by the connection's key, once, however often it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joingate_producers import Approver, Connection, JoinGateError, Signer
from joingate_producers.settings import settings_from
from joingate_schemas.claims import Approve
from joingate_schemas.signing import taken_apart, verifies

INTENT = "acme/fee-reversal/txn-77120"


def proves(signer: Signer, claim: Any) -> bool:
    parts = taken_apart(claim.signature or b"")
    return parts is not None and parts.key_id == signer.key_id and verifies(signer.public_key, parts.proof, claim)


def test_what_a_connection_with_a_key_sends_is_signed_and_repeated_byte_for_byte(memory_world: Any) -> None:
    signer = Signer.new()
    approver = Approver(memory_world.connect(signer=signer), "ann")
    said = approver.approve(INTENT, operation_id="op-1", digest="d")
    said.wait(20).demand()
    approver.repeat(said).wait(20)
    first, again = (claim for _, claim in memory_world.gate.heard)
    assert proves(signer, first)
    assert first == again


def test_the_key_may_stand_in_a_file_that_settings_or_the_environment_name(memory_world: Any, tmp_path: Path) -> None:
    path = tmp_path / "ann.key"
    signer = Signer.new()
    signer.write(path)
    Approver(memory_world.connect(key_file=path), "ann").approve(INTENT, operation_id="op-1", digest="d").wait(20)
    assert proves(signer, memory_world.gate.heard[-1][1])
    assert settings_from({}, {"JOINGATE_KEY_FILE": str(path)}).key_file == path


def test_a_claim_that_somebody_signed_already_goes_on_as_it_is(memory_world: Any) -> None:
    """So a gateway may pass on what its client has signed."""
    own, gateway = Signer.new(), Signer.new()
    connection: Connection = memory_world.connect(signer=gateway)
    claim = own.sign(Approve(claim_id="c", intent_id=INTENT, principal="ann", operation_id="op-1", digest="d"))
    connection.submit(connection.topics.approvals, claim, durable=False).wait(20)
    assert proves(own, memory_world.gate.heard[-1][1])


def test_without_a_key_nothing_is_signed(memory_world: Any) -> None:
    Approver(memory_world.connect(), "ann").approve(INTENT, operation_id="op-1", digest="d").wait(20)
    assert memory_world.gate.heard[-1][1].signature is None


def test_a_key_file_that_is_none_is_told_before_anything_is_sent(memory_world: Any, tmp_path: Path) -> None:
    with pytest.raises(JoinGateError, match="can't be read"):
        memory_world.connect(key_file=tmp_path / "nothing")
