"""What the law keeps of an intent that has ended: when it may be archived, and the tombstone that stays of it."""

import hashlib

from joingate_schemas.facts import Timer
from joingate_schemas.record import record

EFFECTS_MAX = 64
"""Of how many effects of an archived intent a mark is kept: 8 characters each, so that a tombstone stays small."""
_MARK = 8


@record
class Archive:
    """An ended intent that waits for its retention; once `archived_at` (ms) is set, all that stays of it.

    `since` (ms) is when it, or the last thing that was open under it, ended. `archived_seq` is the ledger's record that
    archived it: claims decided before that, up to the id `swept`, are not remembered any more. `discharging` is the
    next of the gate's own operations to be forgotten, `effects` the marks of those that were settled. The row under the
    empty id is no intent's: it says how far ended intents were looked through for a retention that was declared late.
    """

    intent_id: str
    status: str
    version: int
    content_digest: str
    since: int
    retention_ms: int
    archived_at: int | None
    archived_seq: int
    rows: int  # that were forgotten so far
    swept: str
    discharging: str
    effects: str
    timer: Timer
    deadline_at: int | None


def waiting(intent_id: str, since: int, retention_ms: int, deadline_at: int | None, swept: str = "") -> Archive:
    """The row of one that is not archived yet."""
    return Archive(
        intent_id=intent_id, status="", version=0, content_digest="", since=since, retention_ms=retention_ms,
        archived_at=None, archived_seq=0, rows=0, swept=swept, discharging="", effects="",
        timer="NONE" if deadline_at is None else "RETENTION", deadline_at=deadline_at,
    )  # fmt: skip


def mark_of(operation_id: str, external_id: str) -> str:
    """What tells the effect of a settled operation from another one: short, for only honest repeats are told by it."""
    return hashlib.sha256(f"{operation_id}\x1f{external_id}".encode()).hexdigest()[:_MARK]


def has_mark(effects: str, mark: str) -> bool:
    """Whether `effects`, marks one after another, hold this one."""
    return any(effects[at : at + _MARK] == mark for at in range(0, len(effects), _MARK))


def marked(effects: str, mark: str) -> str:
    """`effects` with one more mark; as before where they are full."""
    return effects + mark if len(effects) < EFFECTS_MAX * _MARK else effects
