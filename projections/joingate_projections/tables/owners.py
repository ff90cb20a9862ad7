"""The table of owners that are gone, and what facts about owners, transfers and leases do to a commitment's row."""

from joingate_projections.tables import At, Rows, commitments, joined, kept
from joingate_schemas.facts import LeaseChanged, OwnerChanged, OwnerRetired, TransferOffered, TransferSeen


def transfer_offered(rows: Rows, fact: TransferOffered, at: At) -> None:
    """Somebody is asked to take it over."""
    offer = {
        "target_owner": fact.target_owner,
        "target_intent_id": fact.target_intent_id,
        "fencing_token": fact.fencing_token,
        "acknowledge_by": fact.acknowledge_by,
        "reason": fact.reason,
        "may_have_acted": False,
        "at": at.time,
    }
    _changed(rows, fact.commitment_id, {"transfer": offer}, at)


def transfer_seen(rows: Rows, fact: TransferSeen, at: At) -> None:
    """The target may have acted before it acknowledged."""
    old = rows.get("commitments", fact.commitment_id)
    if old is not None and old["transfer"] is not None:
        _changed(rows, fact.commitment_id, {"transfer": {**old["transfer"], "may_have_acted": True}}, at)


def owner_changed(rows: Rows, fact: OwnerChanged, at: At) -> None:
    """It is another's from here on."""
    old = rows.get("commitments", fact.commitment_id)
    if old is not None:
        change = {
            "owner_id": fact.after,
            "fencing_token": fact.fencing_token,
            "transfer": None,
            "evidence": kept(old["evidence"], *fact.evidence),
        }
        _changed(rows, fact.commitment_id, change, at)


def lease_changed(rows: Rows, fact: LeaseChanged, at: At) -> None:
    """A worker serves it under a lease, or nobody any more."""
    lease = {
        "worker": fact.worker,
        "fencing_token": fact.fencing_token,
        "until": fact.deadline_at,
        "reclaiming": fact.reclaiming,
    }
    _changed(rows, fact.commitment_id, {"lease": lease if fact.worker else None}, at)


def owner_retired(rows: Rows, fact: OwnerRetired, at: At) -> None:
    """An owner is gone from this partition, and so many of its commitments were found so far."""
    row = {
        **vars(fact),
        "partition": at.partition,
        "status": "RETIRING" if fact.deadline_at is not None else "RETIRED",
        **at.born(),
    }
    key = joined(fact.owner_id, f"{at.partition:05d}")
    old = rows.get("owners", key)
    rows.put("owners", key, row if old is None else {**row, "first": old["first"], "created_at": old["created_at"]})


def _changed(rows: Rows, commitment_id: str, change: dict[str, object], at: At) -> None:
    old = rows.get("commitments", commitment_id)
    if old is not None:
        commitments.put(rows, old, {**old, **change, **at.touched()}, at)
