"""The facts about who has a commitment in hand: owners, transfers between them, and workers that serve under a lease.

They are facts like those in `facts`, which has them under the same names.
"""

from joingate_schemas.record import record


@record
class TransferOffered:
    """The owner asked `target_owner` to take the commitment over; who accepts names this `fencing_token`."""

    commitment_id: str
    intent_id: str
    owner_id: str
    target_owner: str
    target_intent_id: str | None
    fencing_token: int
    acknowledge_by: int
    reason: str


@record
class TransferSeen:
    """The target of a transfer may have acted before it acknowledged: the offer can't simply go back any more."""

    commitment_id: str
    intent_id: str
    target_owner: str
    evidence: list[str]


@record
class OwnerChanged:
    """The commitment is `after`'s from here on: whoever names a lower `fencing_token` has no authority over it."""

    commitment_id: str
    intent_id: str
    before: str
    after: str
    fencing_token: int
    cause: str
    evidence: list[str]


@record
class LeaseChanged:
    """`worker` (empty: nobody) serves the commitment under the lease `fencing_token`, until `deadline_at`.

    `reclaiming`: the lease has run out, and is not given on while what its worker was allowed to do is open.
    """

    commitment_id: str
    intent_id: str
    worker: str
    fencing_token: int
    reclaiming: bool
    cause: str
    deadline_at: int | None


@record
class OwnerRetired:
    """The owner is gone. `found` of its commitments are orphans so far, those up to the id `swept`.

    More are looked for at `deadline_at`, where that is given. `retired_at` is when it was said, and stays the same
    while the sweep goes on.
    """

    owner_id: str
    reason: str
    retired_at: int
    found: int
    swept: str
    deadline_at: int | None
