"""The table of commitments: what each fact does to a commitment's row, its intent's counts and the doubts."""

from joingate_projections.tables import (
    At,
    Row,
    Rows,
    debts,
    goals,
    incidents,
    joined,
    kept,
    levels,
    lineage,
    operations,
    shown,
)
from joingate_projections.tables.intents import add_to_intent
from joingate_schemas.facts import (
    TERMINAL_COMMITMENT,
    CommitmentChanged,
    CommitmentDrawn,
    CommitmentMigrated,
    CommitmentProposed,
    DispositionDecided,
)


def proposed(rows: Rows, fact: CommitmentProposed, at: At) -> None:
    """An obligation is about to be made."""
    orphans = rows.get("subject_orphans", joined("COMMITMENT", fact.commitment_id))
    row = {
        **vars(fact),
        "status": "PROPOSED",
        "creating_operation": fact.operation_id,
        "cause": "",
        "evidence": [],
        "breached": False,
        "obliged_since": None,
        "breached_at": None,
        "disposition": None,
        "migrated": None,
        "observation": None,
        "in_doubt_since": None,
        "fencing_token": 0,
        "transfer": None,
        "lease": None,
        "since": at.time,
        "orphans": orphans["ids"] if orphans else [],
        **at.born(),
    }
    lineage.commitment_proposed(rows, row, at)
    put(rows, None, row, at)


def transition(rows: Rows, fact: CommitmentChanged, at: At) -> None:
    """It moved on; a breach stays on the record. An operation that ended it has done what it was for."""
    old = rows.get("commitments", fact.commitment_id)
    if old is None:
        return
    change = {
        "status": fact.after,
        "cause": fact.cause,
        "evidence": kept(old["evidence"], *fact.evidence),
        "operation_id": fact.operation_id if fact.operation_id is not None else old["operation_id"],
        "creating_operation": old["creating_operation"] or fact.operation_id,
        "valid_until": fact.valid_until if fact.valid_until is not None else old["valid_until"],
        "breached": old["breached"] or "BREACHED" in (fact.before, fact.after),
        "breached_at": old["breached_at"] or (at.time if fact.after == "BREACHED" else None),
        "timer": fact.timer,
        "deadline_at": fact.deadline_at,
        # An offer in question stays in sight; every other one ends when the commitment moves on.
        "transfer": old["transfer"] if _is_offered(old, fact) else None,
        "lease": None if fact.after in TERMINAL_COMMITMENT else old["lease"],
    }
    put(rows, old, {**old, **change, **at.touched()}, at)
    if fact.after in TERMINAL_COMMITMENT:
        operations.take_up(rows, fact.operation_id, at)


def drawn(rows: Rows, fact: CommitmentDrawn, at: At) -> None:
    """An operation takes of it; whether it still does, the operation's own status tells."""
    old = rows.get("operations", fact.operation_id)
    if old is not None:
        takes = {"quantity": fact.quantity, "consumed": fact.consumed}
        operations.put(rows, old, {**old, "draws": {**old.get("draws", {}), fact.commitment_id: takes},
                                   **at.touched()}, at)  # fmt: skip


def migrated(rows: Rows, fact: CommitmentMigrated, at: At) -> None:
    """Another version of its type rules it; the row says since when, by whom, and what differs."""
    old = rows.get("commitments", fact.commitment_id)
    if old is not None:
        moved = {"from": fact.before, "reason": fact.reason, "differs": fact.differs, "at": at.time}
        change = {"type_version": fact.after, "migrated": moved, "evidence": kept(old["evidence"], *fact.evidence)}
        put(rows, old, {**old, **change, **at.touched()}, at)


def _is_offered(old: Row, fact: CommitmentChanged) -> bool:
    in_question = old["transfer"] is not None and old["transfer"]["may_have_acted"]
    return fact.after == "TRANSFER_PENDING" or (fact.after == "RECONCILIATION_REQUIRED" and in_question)


def disposition_decided(rows: Rows, fact: DispositionDecided, at: At) -> None:
    """What becomes of it, and why."""
    old = rows.get("commitments", fact.commitment_id)
    if old is not None:
        decided = {
            "disposition": fact.disposition,
            "reason": fact.reason,
            "differs": fact.differs,
            "at": at.time,
        }
        put(rows, old, {**old, "disposition": decided, **at.touched()}, at)


def observed(rows: Rows, commitment_id: str, news: Row, at: At) -> None:
    """The latest news about it; what follows from the news is a fact of its own."""
    old = rows.get("commitments", commitment_id)
    if old is not None:
        put(rows, old, {**old, "observation": news, **at.touched()}, at)
        if news["finding"] in lineage.CONCLUSIVE:
            subject = lineage.node("COMMITMENT", commitment_id)
            lineage.verified(rows, subject, news["finding"], news["source"], news["evidence"], at)


def put(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """Set a commitment's row, and whatever follows from it: word, counts, doubts."""
    if old is None or old["status"] != new["status"]:
        new["since"] = at.time
    doubted = new["status"] in shown.DOUBTED_COMMITMENT
    if doubted and new["in_doubt_since"] is None:
        new["in_doubt_since"] = at.time
    elif not doubted:
        new["in_doubt_since"] = None
    levels.commitment_moved(rows, old, new, at)
    debts.commitment_moved(rows, old, new, at)
    in_force = new["status"] not in TERMINAL_COMMITMENT and new["status"] not in ("PROPOSED", "PENDING_CONDITION")
    new["holds"] = new["resource_refs"] if in_force else []
    new["open_since"] = None if new["status"] in TERMINAL_COMMITMENT else new["created_at"]
    new["breached_since"] = new["since"] if new["status"] == "BREACHED" else None
    new["shown"] = shown.of_commitment(new)
    rows.put("commitments", new["commitment_id"], new)
    before, after = _counts(old), _counts(new)
    had_orphans = old is not None and bool(old["orphans"])
    moved = {name: after[name] - before[name] for name in after}
    add_to_intent(rows, new["intent_id"], moved, at)
    goals.add(rows, new["intent_id"], new["goal_id"], {**moved, "orphans": bool(new["orphans"]) - had_orphans}, at)
    incidents.put_doubt(rows, "COMMITMENT", new["commitment_id"], new if doubted else None, at)


def _counts(row: Row | None) -> dict[str, int]:
    status = row["status"] if row else ""
    return {
        "commitments_open": status not in TERMINAL_COMMITMENT and status != "",
        "commitments_proposed": status in ("PROPOSED", "PENDING_CONDITION"),
        "commitments_active": status in ("ACTIVE", "RELEASE_PENDING", "TRANSFER_PENDING"),
        "commitments_in_doubt": status in shown.DOUBTED_COMMITMENT,
        "commitments_breached": status == "BREACHED",
    }
