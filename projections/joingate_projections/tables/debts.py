"""The table of debts: what each intent, principal and tenant has open on a partition, kept in step with the rows.

They are the sums that the law refuses by, so that a planner can see before it asks what would be refused. A principal
and a tenant have one on each partition: their limits hold there, and not over all of them together.
"""

from joingate_projections.tables import At, Row, Rows, joined
from joingate_schemas.debt import (
    DOUBTED_COMMITMENT,
    DOUBTED_OPERATION,
    UNCERTAIN,
    Weighed,
    added,
    tenant_of,
    waits_for_person,
    weighed,
)
from joingate_schemas.facts import TERMINAL_COMMITMENT

_NONE = {
    "commitments": 0, "weight": 0, "moment": 0, "uncertain_weight": 0, "uncertain_moment": 0, "doubts": 0, "reviews": 0,
}  # fmt: skip


def commitment_moved(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """A commitment was made, or moved on."""
    was, now = _standing(old), _standing(new)
    if was == now:
        return
    for row, standing, sign in ((old, was, -1), (new, now, 1)):
        if row is not None and standing is not None:
            doubts = row["status"] in DOUBTED_COMMITMENT
            for of, subject in standing[0]:
                _move(rows, of, subject, at, weighed(row["weight"], row["created_at"], row["status"]), sign,
                      sign * doubts, 0)  # fmt: skip


def _standing(row: Row | None) -> tuple[list[tuple[str, str]], bool, bool] | None:
    """Whose debts an open commitment is part of, and how; None: it is discharged."""
    if row is None or row["status"] in TERMINAL_COMMITMENT:
        return None
    subjects = _subjects(row["intent_id"], row["principal"])
    own = row["owner_id"] == f"intent:{row['intent_id']}"
    return subjects if own else subjects[1:], row["status"] in DOUBTED_COMMITMENT, row["status"] in UNCERTAIN


def operation_moved(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """An operation was opened, or moved on: into doubt or out of it, before a person or away."""
    was, now = _backlogged(old), _backlogged(new)
    if was != now:
        for of, subject in _subjects(new["intent_id"], new["requested_by"]):
            _move(rows, of, subject, at, Weighed(), 0, now[0] - was[0], now[1] - was[1])


def _backlogged(row: Row | None) -> tuple[bool, bool]:
    if row is None:
        return False, False
    return row["status"] in DOUBTED_OPERATION, waits_for_person(row["status"], row["timer"])


def _subjects(intent_id: str, principal: str) -> list[tuple[str, str]]:
    found = [("INTENT", intent_id), ("TENANT", tenant_of(intent_id))]
    return [*found, ("PRINCIPAL", principal)] if principal else found


def _move(
    rows: Rows, of: str, subject: str, at: At, sum_of: Weighed, sign: int, doubts: int, reviews: int
) -> None:  # fmt: skip
    key = joined(of, subject, f"{at.partition:05d}")
    row = rows.get("debts", key) or {"of": of, "subject": subject, "who": joined(of, subject),
                                     "partition": at.partition, **_NONE}  # fmt: skip
    total = added(sum_in(row), sum_of, sign)._asdict()
    counts = {"commitments": sign, "doubts": doubts, "reviews": reviews}
    after = {**row, **total, **{name: row[name] + by for name, by in counts.items()}}
    if any(after[name] for name in counts):
        rows.put("debts", key, after)
    else:
        rows.delete("debts", key)


def sum_in(row: Row) -> Weighed:
    """The sums of obligations in a row."""
    return Weighed(row["weight"], row["moment"], row["uncertain_weight"], row["uncertain_moment"])
