"""The tables of what needs somebody: doubts and quarantined records; and how an orphan is marked on its subject."""

from joingate_projections.tables import At, Row, Rows, joined
from joingate_schemas.facts import HoldOpened, QuarantineOpened, QuarantineResolved

# What a doubt's row says, as far as its subject's row has it: enough to act on without another look-up.
_TOLD = (
    "intent_id", "intent_version", "goal_id", "plan_id", "step_id", "commitment_id", "operation_id", "status", "cause",
    "action", "business_key", "downstream", "executor", "attempt", "generation", "obligation_type", "owner_id",
    "resource_refs", "external_id", "evidence", "dependants", "task", "timer", "deadline_at",
)  # fmt: skip


def put_doubt(rows: Rows, kind: str, subject_id: str, subject: Row | None, at: At) -> None:
    """Keep the table of doubts true for one subject: `subject` is its row while in doubt, else None."""
    key = joined(kind, subject_id)
    old = rows.get("in_doubt", key)
    if subject is None:
        if old is not None:
            rows.delete("in_doubt", key)
        return
    row = {name: subject[name] for name in _TOLD if name in subject}
    row |= {"subject_kind": kind, "subject_id": subject_id, "since": subject["in_doubt_since"], **at.born()}
    if old is not None:
        row |= {"created_at": old["created_at"], "first": old["first"]}
    rows.put("in_doubt", key, row)


def quarantine_opened(rows: Rows, fact: QuarantineOpened, at: At) -> None:
    """A record was set aside; within its scope nothing is known."""
    row = {**vars(fact), "status": "OPEN", "resolution": "", "holds": 0, **at.born()}
    rows.put("quarantine", fact.quarantine_id, row)


def hold_opened(rows: Rows, fact: HoldOpened, at: At) -> None:
    """One more claim waits for it."""
    old = rows.get("quarantine", fact.quarantine_id)
    if old is not None:
        rows.put("quarantine", fact.quarantine_id, {**old, "holds": old["holds"] + 1, **at.touched()})


def quarantine_resolved(rows: Rows, fact: QuarantineResolved, at: At) -> None:
    """Re-driven or dismissed: what waited is decided now, so nothing waits."""
    old = rows.get("quarantine", fact.quarantine_id)
    if old is not None:
        change = {"status": "RESOLVED", "resolution": fact.resolution, "holds": 0, **at.touched()}
        rows.put("quarantine", fact.quarantine_id, {**old, **change})
