"""The facts about what has ended and is put away: when it may be archived, that it was, and which rows went with it.

They are facts like those in `facts`, which has them under the same names.
"""

from joingate_schemas.record import record


@record
class RetentionSet:
    """When an ended intent may be archived: `retention_ms` after `since`, which is when the last thing under it ended.

    `deadline_at` null: not before something that is still open under it has ended; or never, where `retention_ms` is
    0, since no retention is declared any more. `cause` says why.
    """

    intent_id: str
    since: int
    retention_ms: int
    cause: str
    deadline_at: int | None = None


@record
class IntentArchived:
    """The intent is put away: nothing under it was open, and its retention has passed. It is never spoken of again.

    `status` is how it had ended, CLOSED or CANCELLED; `content_digest` that of its last version.
    """

    intent_id: str
    version: int
    status: str
    content_digest: str
    since: int
    retention_ms: int


@record
class ArchiveSwept:
    """Rows of an archived intent that the gate forgets: these operations and commitments, and so many of the others.

    `swept` is the id of the last claim that is not remembered any more, in the order of ids; `discharging` the next of
    the gate's own operations to be forgotten. More go at `deadline_at`, where that is given.
    """

    intent_id: str
    operations: list[str]
    commitments: list[str]
    steps: int
    plans: int
    conditions: int
    goals: int
    claims: int
    swept: str
    discharging: str
    deadline_at: int | None = None


@record
class RetentionSwept:
    """A retention was declared: ended intents, up to the id `swept`, were looked through, and these wait for it now.

    More are looked through at `deadline_at`, where that is given.
    """

    swept: str
    intents: list[str]
    retention_ms: int
    deadline_at: int | None = None
