"""`verify` of a live pair of ledgers: an honest one holds, also while things are under way; a forged grant is found."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from joingate.audit import AuditReport, verify_ledger
from joingate.faults import FaceError
from joingate.settings import Settings
from joingate_schemas import claims as c
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.facts import OperationReady, OperationWithdrawn
from joingate_schemas.record import changed
from joingate_schemas.topics import partition_for


def audit(here: Any, partition: int | None = None) -> AuditReport:
    return verify_ledger(Settings(bootstrap_servers=here.bootstrap, prefix=here.prefix, partitions=2), partition)


def append(here: Any, forged: ArbiterDecision) -> None:
    """Write a record to the arbiter's ledger, as nobody but its writer may."""
    number = partition_for(forged.resource_ref.encode(), 2)
    here.producer.produce(here.topics.resource_ledger, here.codec.encode(forged), b"", number)
    assert here.producer.flush(60) == 0


def test_both_ledgers_are_verified_together_and_what_was_forged_is_found(town: Callable[..., Any], tools: Any) -> None:
    here = town()
    arbiter = here.arbiter()
    first = here.want("acme/first", "1")
    tools.wait_for(lambda: here.facts(OperationReady), "the first to get the slot")
    second = here.want("acme/second", "1")
    tools.wait_for(lambda: here.facts(OperationWithdrawn), "the second to be told")
    report = audit(here)
    assert report.holds, "\n".join(report.lines())
    assert sum(report.resource_records.values()) == 2
    assert (report.resources_held, report.resources_under_way) == (1, 0)
    assert audit(here, partition=0).holds
    assert audit(here, partition=1).holds
    # The arbiter is away while the first ends: what it has not heard of is no fault of its ledger.
    arbiter.kill()
    arbiter.wait()
    here.send(
        c.Commit(claim_id="done", intent_id="acme/first", operation_id=first, attempt=1, external_id="x",
                 evidence=["e"], idempotency_key=first), here.topics.outcomes,
    )  # fmt: skip
    tools.wait_for(lambda: any(one.claim_id == "done" for one in here.ledger()), "the end of the first")
    report = audit(here)
    assert report.holds, "\n".join(report.lines())
    assert (report.resources_held, report.resources_under_way) == (1, 1)
    assert any("not heard yet: 1." in line for line in report.lines())
    # A grant that nobody asked for, well linked: the chain can't tell it, the two ledgers beside each other do.
    number = partition_for(b"slot:1", 2)
    last, raw = [(one, raw) for one, raw, at in here.read(here.topics.resource_ledger) if at == number][-1]
    granted = next(one for one in here.rulings() if one.verdict == "GRANTED")
    forged = changed(
        granted, seq=last.seq + 1, epoch=last.epoch, decided_at=last.decided_at, offset=last.offset + 1,
        operation_id=second, previous=hashlib.sha256(raw).digest(), hold={**granted.hold, "operation_id": second},
    )  # fmt: skip
    append(here, forged)
    report = audit(here)
    assert not report.holds
    found = "\n".join(report.violations)
    assert f"Resource partition {number}: seq {forged.seq}: ASKED" in found
    assert f"Resource partition {number}: seq {forged.seq}: ALONE: {first} has it" in found
    assert f"Resource partition {number}: seq {forged.seq}: GRANT: it differs" in found
    assert any(f"Resource partition {number}, seq {forged.seq}" in one for one in report.disagreements)
    # One that is not linked: reading stops there.
    append(here, changed(forged, seq=forged.seq + 1, previous=b"of another"))
    with pytest.raises(FaceError, match="Resource ledger partition"):
        audit(here)
