"""What the read side shows of owners, transfers and leases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import MemoryRows, Row
from joingate_schemas import facts as f

INTENT = "acme/release/4.2"


@pytest.fixture
def owned(hand: Any) -> Any:
    """A ledger with a commitment that is in force."""
    hand.decide(hand.opened(commitment_id="c1"), hand.proposed())
    hand.decide(hand.moved("PROPOSED", "ACTIVE"))
    return hand


def _offer(hand: Any) -> None:
    hand.decide(
        f.TransferOffered(commitment_id="c1", intent_id=INTENT, owner_id="team-release", target_owner="team:ops",
                          target_intent_id=None, fencing_token=1, acknowledge_by=9_000, reason="holiday"),
        hand.moved("ACTIVE", "TRANSFER_PENDING"),
    )  # fmt: skip


def _seen(hand: Any) -> None:
    hand.decide(f.TransferSeen(commitment_id="c1", intent_id=INTENT, target_owner="team:ops", evidence=["log"]))


def _commitment(hand: Any) -> Row:
    rows: MemoryRows = hand.rows()
    return rows.tables["commitments"]["c1"]


def test_an_offer_is_shown_until_it_is_taken_up(owned: Any) -> None:
    _offer(owned)
    row = _commitment(owned)
    assert (row["owner_id"], row["transfer"]["target_owner"]) == ("team-release", "team:ops")
    assert (row["transfer"]["fencing_token"], row["transfer"]["acknowledge_by"]) == (1, 9_000)
    owned.decide(
        f.OwnerChanged(commitment_id="c1", intent_id=INTENT, before="team-release", after="team:ops", fencing_token=1,
                       cause="acknowledged", evidence=["accepted:x"]),
        owned.moved("TRANSFER_PENDING", "ACTIVE"),
    )  # fmt: skip
    row = _commitment(owned)
    assert (row["owner_id"], row["fencing_token"], row["transfer"]) == ("team:ops", 1, None)
    assert "accepted:x" in row["evidence"]


def test_one_in_question_stays_in_sight_and_one_that_came_back_does_not(owned: Any) -> None:
    _offer(owned)
    owned.decide(owned.moved("TRANSFER_PENDING", "ACTIVE"))
    assert _commitment(owned)["transfer"] is None
    _offer(owned)
    _seen(owned)
    owned.decide(owned.moved("TRANSFER_PENDING", "RECONCILIATION_REQUIRED"))
    assert _commitment(owned)["transfer"]["may_have_acted"] is True


def test_a_lease_is_shown_until_it_or_its_commitment_ends(owned: Any) -> None:
    held = f.LeaseChanged(commitment_id="c1", intent_id=INTENT, worker="w1", fencing_token=2, reclaiming=False,
                          cause="granted", deadline_at=7_000)  # fmt: skip
    owned.decide(held)
    assert _commitment(owned)["lease"] == {"worker": "w1", "fencing_token": 2, "until": 7_000, "reclaiming": False}
    owned.decide(owned.moved("ACTIVE", "SATISFIED"))
    assert _commitment(owned)["lease"] is None


def test_a_retired_owner_is_a_row_of_each_partition_that_says_how_far_it_is(hand: Any) -> None:
    gone: dict[str, Any] = {"owner_id": "team:ops", "reason": "left", "retired_at": 1_000}
    hand.decide(f.OwnerRetired(**gone, found=2, swept="c2", deadline_at=1_001))
    hand.decide(f.OwnerRetired(**gone, found=3, swept="c3", deadline_at=None))
    (row,) = hand.rows().tables["owners"].values()
    assert (row["status"], row["found"], row["created_at"], row["updated_at"]) == ("RETIRED", 3, 1_000, 2_000)


def test_an_owner_is_explained_by_what_it_has_and_that_it_is_gone(owned: Any, directory: Path) -> None:
    owned.decide(
        f.OwnerRetired(owner_id="team-release", reason="left", retired_at=1_000, found=1, swept="c1", deadline_at=None),
        owned.orphaned("c1"),
        subject_id="team-release",
        claim_type="RetireOwner",
    )
    with ProjectionStore.open(directory) as store:
        owned.store_in(store)
        told = StoreReader(store, clock=lambda: 9_000).explain("team-release")
    assert [row["commitment_id"] for row in told["known"]["commitments"]] == ["c1"]
    assert [row["status"] for row in told["known"]["owners"]] == ["RETIRED"]
    assert [row["claim_type"] for row in told["decisions"]] == ["RetireOwner"]
