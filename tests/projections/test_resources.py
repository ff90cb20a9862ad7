"""Who has what: the arbiter's ledger, folded beside the gate's, asked for by resource, operation and intent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from joingate_projections.lanes import Fault, ResourceLane
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_schemas.arbitration import ArbiterDecision, Hold
from joingate_schemas.codec import Codec

CODEC = Codec()


def _hold(operation: str, **fields: Any) -> Hold:
    made: Hold = {
        "resource_ref": "slot:1", "operation_id": operation, "generation": 1, "intent_id": f"acme/{operation}",
        "mode": "EXCLUSIVE", "quantity": 1, "capacity": None, "keeps": False, "lease_ms": 50, "status": "HELD",
        "quarantined": False, "since": 1_000, "deadline_at": 1_050,
    }  # fmt: skip
    return {**made, **fields}  # type: ignore[typeddict-item]


def _ledger(*said: tuple[str, Hold | None]) -> list[bytes]:
    """The arbiter's records, chained: for each the operation, and what it has afterwards."""
    values: list[bytes] = []
    for seq, (operation, hold) in enumerate(said, 1):
        previous = hashlib.sha256(values[-1]).digest() if values else b""
        values.append(CODEC.encode(ArbiterDecision(
            seq=seq, epoch=1, decided_at=1_000 + seq, offset=seq, appended_at=1_000, message_type="Reserve",
            resource_ref="slot:1", operation_id=operation, generation=1, n=seq, intent_id=f"acme/{operation}",
            gate_partition=0, gate_epoch=1, message=b"", verdict="DONE", reason="OK", detail="", holder="",
            holder_intent_id="", holder_status="", hold=hold, previous=previous,
        )))  # fmt: skip
    return values


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """An empty store."""
    with ProjectionStore.open(tmp_path) as opened:
        yield opened


def _follow(store: ProjectionStore, values: list[bytes]) -> None:
    lane, batch = ResourceLane("resource-ledger", 0, store.position("resources", 0)), store.batch()
    for offset in range(lane.start(0, len(values)), len(values)):
        lane.take(batch, CODEC, offset, values[offset])
    batch.commit()


def test_who_has_what_is_shown_by_resource_operation_and_intent(store: ProjectionStore) -> None:
    _follow(store, _ledger(("op-1", _hold("op-1")), ("op-2", None), ("op-1", _hold("op-1", quarantined=True))))
    reader = StoreReader(store)
    (row,) = reader.page("resources", [("resource_ref", "slot:1")])["rows"]
    assert (row["operation_id"], row["shown"], row["arbiter"]) == ("op-1", "QUARANTINED", {"partition": 0, "seq": 3})
    assert reader.page("resources", [("intent_id", "acme/op-1")])["rows"] == [row]
    assert reader.page("resources", [("operation_id", "op-2")])["rows"] == []
    assert reader.explain("slot:1")["known"]["resources"] == [row]
    assert reader.summary()["tables"]["resources"]["shown"] == {"QUARANTINED": 1}
    assert reader.positions()["streams"]["resources"]["0"]["seq"] == 3


def test_the_table_empties_when_what_was_held_is_given_back(store: ProjectionStore) -> None:
    values = _ledger(("op-1", _hold("op-1")), ("op-1", _hold("op-1", status="RECLAIM_PENDING")), ("op-1", None))
    _follow(store, values[:2])
    (row,) = StoreReader(store).page("resources")["rows"]
    assert row["shown"] == "RECLAIM_PENDING"
    _follow(store, values)
    assert StoreReader(store).page("resources")["rows"] == []


def test_a_record_that_does_not_continue_the_one_before_stops_the_lane(store: ProjectionStore) -> None:
    values = _ledger(("op-1", _hold("op-1")), ("op-2", None), ("op-1", None))
    with pytest.raises(Fault, match=r"The arbiter's ledger's partition 0 goes from seq 1 to 3"):
        _follow(store, [values[0], values[2]])
