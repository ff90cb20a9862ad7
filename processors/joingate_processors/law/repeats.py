"""What makes a claim the same claim again: its id, and what it says; and how a repeated one is answered.

The record of a claim that was decided keeps its id and a digest of what it says (model §6). When it was made and how it
was signed are no part of that, for a client may stamp and sign it anew for every try.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import NamedTuple, Self

import orjson

from joingate_processors.law.arrival import Ruling
from joingate_processors.law.state import Commitment, Intent, Operation, PlanRow, Seen, State, plan_key
from joingate_schemas import claims as c

DIGEST_BYTES = 16
"""How much of the SHA-256 is kept: enough that nobody finds two claims with the same, and it is kept for each claim."""

_OF_THE_TRY = frozenset({"claim_id", "intent_id", "signature", "occurred_at"})  # ids are compared by themselves
_RECORDS = frozenset({"goals", "steps", "budgets"})


class _Content(NamedTuple):
    """What is compared of a type of claim: its fields but those of the try, in order."""

    values: Callable[[object], tuple[object, ...]]
    defaults: tuple[object, ...]
    records: frozenset[int]  # the places of fields that hold nested records

    @classmethod
    def of(cls, claim: type[c.Claim]) -> Self:
        """That of a type."""
        compared = [one for one in fields(claim) if one.name not in _OF_THE_TRY]
        nested = frozenset(place for place, one in enumerate(compared) if one.name in _RECORDS)
        return cls(attrgetter(*(one.name for one in compared)), tuple(one.default for one in compared), nested)


_CONTENTS: dict[type, _Content] = {claim: _Content.of(claim) for claim in c.CLAIM_TYPES.values()}


def digest_of_claim(claim: c.AnyClaim) -> bytes:
    """The first 16 bytes of the SHA-256 of what the claim says and who says it; the same however its bytes were made.

    Defaults at its end are left out, so that a release whose claims have one more field, which is put at the end, still
    knows the older ones.
    """
    values, defaults, records = _CONTENTS[type(claim)]
    said = values(claim)
    end = len(said)
    while end and said[end - 1] == defaults[end - 1]:
        end -= 1
    content: Sequence[object] = said[:end]
    if records:
        content = [_explicit(one) if place in records else one for place, one in enumerate(content)]
    return hashlib.sha256(orjson.dumps(content, default=_hex, option=orjson.OPT_SORT_KEYS)).digest()[:DIGEST_BYTES]


def _explicit(value: object) -> object:
    """Nested records without what they leave open, which is how decoding fills in what was not written."""
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if one}
    return [_explicit(one) for one in value] if isinstance(value, list) else value


def _hex(value: object) -> str:
    """The bytes that some claims carry, as text."""
    assert isinstance(value, bytes), f"a claim holds no {type(value).__name__}"
    return value.hex()


def repeated(state: State, claim: c.AnyClaim, claim_type: str, digest: bytes, seen: Seen) -> Ruling:
    """A claim id again: the recorded decision stands, if it is the same claim; another claim under it is refused.

    The status that goes with it is the present one, so that who asks again hears what has become of it.
    """
    if seen.about != claim_type:
        detail = f"claim id {claim.claim_id} was a {seen.about}, decided at {seen.seq}"
        return Ruling("REJECTED", "CLAIM_ID_REUSED", detail, seen.subject_id, refers_to=seen.seq)
    if seen.digest and seen.digest != digest.hex():  # an older ledger has none
        detail = f"claim id {claim.claim_id} was a {claim_type} that says something else, decided at {seen.seq}"
        return Ruling("REJECTED", "CLAIM_ID_REUSED", detail, seen.subject_id, refers_to=seen.seq)
    detail = f"decided at {seen.seq}: {seen.verdict} ({seen.reason})"
    return Ruling("REPLAYED", "CLAIM_REPEATED", detail, seen.subject_id, _present_status(state, claim, seen),
                  refers_to=seen.seq, recorded_verdict=seen.verdict, recorded_reason=seen.reason)  # fmt: skip


def _present_status(state: State, claim: c.AnyClaim, seen: Seen) -> str:
    """How what the recorded decision was about is now; empty if it is nothing that has a status."""
    intent_id, subject_id = claim.intent_id, seen.subject_id
    row: Operation | Commitment | Intent | PlanRow | None
    match claim:
        case c.DeclareIntent() | c.CancelIntent() | c.Close():
            row = state.intents.get(intent_id)
        case c.Plan():
            row = state.plans.get(plan_key(intent_id, claim.plan_id))
        case _:
            row = state.operations.get(subject_id) or state.commitments.get(subject_id)
    return row.status if row is not None and row.intent_id == intent_id else ""
