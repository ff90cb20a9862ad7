"""How every derived identity is made, so that each language, process and replay makes the same one (model §3).

A name is the parts in order, each written as its length in UTF-8 bytes, a colon and its text; the id is the UUID
version 5 of that name in the namespace `JOINGATE_NAMESPACE`. Lengths make the parts unambiguous whatever they hold.
"""

import hashlib
from uuid import NAMESPACE_URL, uuid5

from joingate_schemas.claims import Scalar

JOINGATE_NAMESPACE = uuid5(NAMESPACE_URL, "https://joingate.dev/ids")
_NAMESPACE_BYTES = JOINGATE_NAMESPACE.bytes


def derived_id(*parts: str) -> str:
    """The UUIDv5 of `parts`, in its usual text form."""
    name = "".join([f"{len(part) if part.isascii() else len(part.encode())}:{part}" for part in parts])
    # Written out because the standard library's uuid5 builds an object: four times the cost on the hot path.
    digest = hashlib.sha1(_NAMESPACE_BYTES + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def operation_id(intent_id: str, action: str, business_key: str, generation: int) -> str:
    """The logical operation, and so the idempotency key, of a slot's `generation` (from 1)."""
    return derived_id("operation", intent_id, action, business_key, str(generation))


def commitment_id(intent_id: str, obligation_type: str, resource_refs: list[str], generation: int) -> str:
    """The commitment of an intent about some resources; the order in which they are named does not matter."""
    return derived_id("commitment", intent_id, obligation_type, *sorted(resource_refs), str(generation))


def orphan_id(kind: str, subject_id: str, detail: str = "") -> str:
    """The incident of this kind about this subject: the same cause, seen again, is the same incident."""
    return derived_id("orphan", kind, subject_id, detail)


def key_id_of(public_key: bytes) -> str:
    """The id of a public key (32 bytes): the first 16 bytes of its SHA-256, in hex."""
    return hashlib.sha256(public_key).digest()[:16].hex()


def _text(value: Scalar) -> str:
    # 12 and 12.0 are one amount whether a client sent an int or a float; Avro tells them apart, meaning does not.
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"n{value}"
        case float():
            return f"n{int(value)}" if value.is_integer() else f"n{value!r}"
        case str():
            return f"s{value}"


def content_digest(action: str, arguments: dict[str, Scalar], resource_refs: list[str]) -> str:
    """The digest that an approval binds to: action, meaning-bearing arguments and resources (SHA-256, hex).

    The parts are written as in `derived_id`: action, then each argument's name and typed value by name, then each
    resource in order. A text is `s` and itself, a number `n` and its shortest decimal form.
    """
    parts = [action]
    for name in sorted(arguments):
        parts += (name, _text(arguments[name]))
    parts += sorted(resource_refs)
    return hashlib.sha256("".join([f"{len(part.encode())}:{part}" for part in parts]).encode()).hexdigest()
