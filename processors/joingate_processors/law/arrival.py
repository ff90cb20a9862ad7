"""How claims enter the law and how rulings leave it."""

from dataclasses import dataclass
from typing import NamedTuple

from joingate_schemas.claims import AnyClaim
from joingate_schemas.decisions import ClaimTopic, Verdict
from joingate_schemas.facts import AnyFact


class Signed(NamedTuple):
    """What a claim's signature proves, found out before the law hears the claim.

    It is by the key `key_id` of the principal `holder`; or it proves nothing, for `problem`, the name of a reason.
    """

    key_id: str
    holder: str
    problem: str = ""
    detail: str = ""


@dataclass(slots=True)
class Arrival:
    """One claim as it reached the gate: decoded, with its bytes, its topic's short name, and when it was appended.

    `topic` "gate" marks the gate's own claims; their offset is -1. `appended_at` is the broker's append time (ms).
    `signed` is None where the claim has no signature, or nobody's is looked at.
    """

    claim: AnyClaim
    raw: bytes
    topic: ClaimTopic
    offset: int
    appended_at: int
    signed: Signed | None = None


class Ruling(NamedTuple):
    """What the law says of one claim, before it gets its place in the ledger."""

    verdict: Verdict
    reason: str
    detail: str = ""
    subject_id: str = ""
    status: str = ""
    facts: list[AnyFact] = []  # noqa: RUF012 - never changed in place
    refers_to: int = 0
    recorded_verdict: str = ""
    recorded_reason: str = ""


class FollowUp(NamedTuple):
    """A claim to decide next, in the same transaction: a re-driven record, or one that was held."""

    raw: bytes
    topic: ClaimTopic
    offset: int
    appended_at: int


class Due(NamedTuple):
    """A row whose deadline passed. Ordered by time, then kind and key, so that every store fires alike."""

    due_at: int
    subject_kind: str
    key: str
    timer: str
