"""Which of a commitment's times comes next: when it is due, until when it may be relied on, how fresh its sight is."""

from joingate_processors.law.state import Commitment
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.facts import Timer

_RESTS: frozenset[str] = frozenset({"ACTIVE", "UNKNOWN", "RECONCILIATION_REQUIRED"})


def missed_at(row: Commitment) -> int | None:
    """When the obligation counts as missed (ms); None if it has no such time, or was missed before: once is enough."""
    if row.due_at is None:
        return None
    until = row.due_at if row.grace_until is None else row.grace_until
    return None if row.breached_at is not None and row.breached_at >= until else until


def is_missed(row: Commitment) -> bool:
    """Whether its due time was missed, and the breach is on the record: unmet is then what it is, there or not."""
    return row.due_at is not None and missed_at(row) is None


def in_force(
    row: Commitment, valid_until: int | None, timer: Timer, deadline_at: int | None
) -> tuple[Timer, int | None]:
    """What an ACTIVE commitment waits for: the earliest of `timer`, the end of its validity, and its due time.

    `valid_until` None: as the row has it. What lies in the past fires at once, so that nothing is missed by having
    been in question while it passed.
    """
    return first_of(row.valid_until if valid_until is None else valid_until, missed_at(row), timer, deadline_at)


def first_of(
    valid_until: int | None, missed: int | None, timer: Timer = "NONE", deadline_at: int | None = None
) -> tuple[Timer, int | None]:
    """The first of a commitment's times (ms): what it waits for anyway, the end of its validity, when it is missed."""
    waits: list[tuple[int, Timer]] = []
    for at, name in ((deadline_at, timer), (valid_until, "VALIDITY"), (missed, "DUE")):
        if at is not None:
            waits.append((at, name))
    if not waits:
        return "NONE", None
    first = min(waits, key=lambda one: one[0])
    return first[1], first[0]


def expired(row: Commitment, now: int) -> bool:
    """Whether its time has passed, and it was neither seen since nor discharged: nothing may rely on it."""
    return row.status in _RESTS and row.valid_until is not None and row.valid_until <= now


def stale(row: Commitment, kind: ObligationType, now: int) -> bool:
    """Whether it is in force, and was last seen too long ago for something to rely on it unseen."""
    if kind.freshness_ms is None or row.status != "ACTIVE":
        return False
    seen_at = row.since if row.observed_at is None else row.observed_at
    return now - seen_at > kind.freshness_ms
