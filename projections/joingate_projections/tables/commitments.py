"""The table of commitments: what each fact does to a commitment's row, its intent's counts and the doubts."""

from joingate_projections.tables import At, Row, Rows, incidents, joined, kept, operations, shown
from joingate_projections.tables.intents import add_to_intent
from joingate_schemas.facts import TERMINAL_COMMITMENT, CommitmentChanged, CommitmentProposed, DispositionDecided


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
        "breached_at": None,
        "disposition": None,
        "observation": None,
        "in_doubt_since": None,
        "since": at.time,
        "orphans": orphans["ids"] if orphans else [],
        **at.born(),
    }
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
    }
    put(rows, old, {**old, **change, **at.touched()}, at)
    if fact.after in TERMINAL_COMMITMENT:
        operations.take_up(rows, fact.operation_id, at)


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


def put(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """Set a commitment's row, and whatever follows from it: word, counts, doubts."""
    if old is None or old["status"] != new["status"]:
        new["since"] = at.time
    doubted = new["status"] in shown.DOUBTED_COMMITMENT
    if doubted and new["in_doubt_since"] is None:
        new["in_doubt_since"] = at.time
    elif not doubted:
        new["in_doubt_since"] = None
    new["shown"] = shown.of_commitment(new)
    rows.put("commitments", new["commitment_id"], new)
    before, after = _counts(old), _counts(new)
    add_to_intent(rows, new["intent_id"], {name: after[name] - before[name] for name in after}, at)
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
