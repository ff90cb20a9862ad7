"""The facts about what a commitment carries: what operations take of it while it is in force.

They are part of `facts.AnyFact`; read them from `joingate_schemas.facts`.
"""

from joingate_schemas.record import record


@record
class CommitmentDrawn:
    """An operation takes this much of what the commitment holds, from its dispatch on.

    It is free again once the operation ended without effect, or was undone; and once it is settled too, unless
    `consumed`: then what was taken is used up. `quantity` is in whole smallest units.
    """

    commitment_id: str
    intent_id: str
    operation_id: str
    quantity: int
    consumed: bool
