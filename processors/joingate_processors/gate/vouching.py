"""The room where a claim's signature is checked, before the law hears the claim: the only one that knows cryptography.

What it needs is in the partition's state and in the catalogue in force, both of which the ledger holds, so that a
replay comes to the same. A claim without a signature costs one look at a field.
"""

from collections.abc import Callable
from dataclasses import replace

from joingate_processors.law.arrival import Arrival, Signed
from joingate_processors.law.keys import key_of
from joingate_processors.law.state import State
from joingate_schemas.canonical import Uncanonical
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import AnyClaim, Override
from joingate_schemas.codec import AnyRecord
from joingate_schemas.signing import taken_apart, verifies


def vouched(
    state: State, catalogue: Catalogue, arrival: Arrival, decode: Callable[[bytes | None], AnyRecord]
) -> Arrival:
    """The arrival with what its signature proves; as it is where it has none, or nobody is declared.

    A key counts by the time at which the claim was appended, so that one which had to wait is heard as it came.
    """
    claim = arrival.claim
    if claim.signature is None or not catalogue.principals or arrival.topic == "gate":
        return arrival
    if isinstance(claim, Override):
        # Its mended bytes may have been kept from the law, and are part of what was signed all the same.
        whole = decode(arrival.raw)
        claim = whole if isinstance(whole, Override) else claim
    return replace(arrival, signed=_signed(state, catalogue, claim, claim.signature or b"", arrival.appended_at))


def _signed(state: State, catalogue: Catalogue, claim: AnyClaim, signature: bytes, at: int) -> Signed:
    parts = taken_apart(signature)
    if parts is None:
        return Signed("", "", "BAD_SIGNATURE", f"a signature has 16 and 64 bytes, this one {len(signature)}")
    key = key_of(state, catalogue, parts.key_id)
    if key is None:
        return Signed(parts.key_id, "", "UNKNOWN_KEY", f"nobody has registered the key {parts.key_id} here")
    ended = key.problem(at)
    if ended is not None:
        return Signed(parts.key_id, key.holder, *ended)
    try:
        proven = key.public_key is not None and verifies(key.public_key, parts.proof, claim)
    except Uncanonical as error:
        return Signed(parts.key_id, key.holder, "BAD_SIGNATURE", f"what it says has no canonical form: {error}")
    if not proven:
        said = f"the key {parts.key_id} of {key.holder} did not sign what this claim says"
        return Signed(parts.key_id, key.holder, "BAD_SIGNATURE", said)
    return Signed(parts.key_id, key.holder)
