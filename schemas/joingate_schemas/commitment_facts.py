"""The facts about what a commitment carries, and by which rules: what operations take of it, which version rules it.

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


@record
class CommitmentMigrated:
    """A person moved an open commitment to another version of its type, which rules it from here on.

    `differs` names the rules that differ between the versions; `attributes.NAME` is one that only one of them compares.
    """

    commitment_id: str
    intent_id: str
    before: int
    after: int
    reason: str
    differs: list[str]
    evidence: list[str]
