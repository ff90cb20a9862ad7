"""The canonical form of a claim: the bytes that are signed, the same in every language and however it was sent.

It is made of what the claim says, by the claim's schema, and not of its Avro bytes, which differ with the version of
the schema and with the wire form. A claim is the text `joingate claim 1`, a line feed, the name of its type as a
string, and its record. A value is one of

    n               null
    t  f            true and false
    i<digits>;      a whole number, in decimal, with a minus sign where it is below zero
    d<16 digits>    a number of type double: its eight bytes by IEEE 754, the most significant first, in hex
    s<size>:<text>  a string or an enum's symbol: its size in bytes, and its UTF-8
    b<size>:<data>  bytes: their number, and themselves
    [<values>]      an array
    {<pairs>}       a record or a map: each name as a string, then its value, sorted by the names' UTF-8

Fields of a record that have their default value are left out, so that a field which a later release adds changes
nothing of what was signed before. The field `signature` is left out too.
"""

import hashlib
import struct
from functools import cache
from typing import Any, TypeAlias

from joingate_schemas.claims import AnyClaim
from joingate_schemas.schema_files import Schema, named_types, self_contained

_PREAMBLE = b"joingate claim 1\n"
_Types: TypeAlias = dict[str, dict[str, Any]]
_UNSIGNED_FIELDS = frozenset({"signature"})
_NOTHING: frozenset[str] = frozenset()
_NO_DEFAULT = object()
_double = struct.Struct(">d").pack


class Uncanonical(ValueError):
    """A claim that its schema has no place for: the text names the field."""


def claim_bytes(claim: AnyClaim) -> bytes:
    """The claim's canonical form. Raises Uncanonical where a field holds what its schema does not allow."""
    name = type(claim).__name__
    schema, types = _schema_of(name)
    datum = {field["name"]: getattr(claim, field["name"]) for field in schema["fields"]}
    return _PREAMBLE + _text(name) + _record(datum, schema, types, _UNSIGNED_FIELDS)


def claim_digest(claim: AnyClaim) -> bytes:
    """The SHA-256 of the claim's canonical form, 32 bytes: what a signature signs. Raises Uncanonical."""
    return hashlib.sha256(claim_bytes(claim)).digest()


@cache
def _schema_of(name: str) -> tuple[dict[str, Any], _Types]:
    schema, types = named_types(self_contained(name))
    assert isinstance(schema, dict), "a claim's schema is a record's"
    return schema, types


def _text(text: str) -> bytes:
    raw = text.encode()
    return b"s%d:%b" % (len(raw), raw)


def _record(
    datum: dict[str, Any],
    schema: dict[str, Any],
    types: _Types,
    without: frozenset[str] = frozenset(),
) -> bytes:
    pairs = {}
    for field in schema["fields"]:
        name = field["name"]
        if name in without:
            continue
        default = field.get("default", _NO_DEFAULT)
        value = datum.get(name, default)
        if value is _NO_DEFAULT:
            raise Uncanonical(f"the field {name} is missing")
        if not _is_default(value, default):
            try:
                pairs[name.encode()] = _text(name) + _value(value, field["type"], types)
            except Uncanonical as error:
                raise Uncanonical(f"{name}: {error}") from error
            except (TypeError, ValueError, AttributeError, struct.error, OverflowError) as error:
                raise Uncanonical(f"the field {name} does not fit its schema ({error})") from error
    return b"{" + b"".join(pairs[name] for name in sorted(pairs)) + b"}"


def _is_default(value: object, default: object) -> bool:
    """Whether the value is its field's default. In Python True is 1, and here they are not the same."""
    return default is not _NO_DEFAULT and value == default and isinstance(value, bool) is isinstance(default, bool)


def _value(value: Any, schema: Schema, types: _Types) -> bytes:
    if isinstance(schema, list):
        schema = _branch(value, schema)
    assert not isinstance(schema, list), "no union holds another"
    kind: str = schema if isinstance(schema, str) else schema["type"]
    if kind in types:
        return _value(value, types[kind], types)
    match kind:
        case "null":
            return b"n"
        case "boolean":
            return b"t" if value else b"f"
        case "int" | "long":
            return b"i%d;" % value
        case "float" | "double":
            return b"d" + _double(value).hex().encode()
        case "string" | "enum":
            return _text(value)
        case "bytes":
            return b"b%d:%b" % (len(value), value)
    assert isinstance(schema, dict), f"{kind} has a schema of its own"
    match kind:
        case "record":
            return _record(value, schema, types, _NOTHING)
        case "array":
            return b"[" + b"".join(_value(item, schema["items"], types) for item in value) + b"]"
        case "map":
            keys = sorted(value, key=str.encode)
            return b"{" + b"".join(_text(key) + _value(value[key], schema["values"], types) for key in keys) + b"}"
    raise Uncanonical(f"a claim holds no {kind}")


_BRANCHES: tuple[tuple[type, frozenset[str]], ...] = (  # bool before int, for in Python every bool is an int
    (bool, frozenset({"boolean"})),
    (int, frozenset({"long", "int"})),
    (float, frozenset({"double", "float"})),
    (str, frozenset({"string", "enum"})),
    (bytes, frozenset({"bytes"})),
)


def _branch(value: object, branches: list[Any]) -> Any:
    """The branch of a union that the value is of, chosen as it is when it is written."""
    kinds = {branch if isinstance(branch, str) else branch["type"]: branch for branch in branches}
    if value is None and "null" in kinds:
        return "null"
    for cls, names in _BRANCHES:
        if isinstance(value, cls):
            found = next((branch for kind, branch in kinds.items() if kind in names), None)
            if found is not None:
                return found
            break
    others = [branch for kind, branch in kinds.items() if kind != "null"]
    if len(others) == 1 and value is not None:
        return others[0]
    raise Uncanonical(f"{value!r} is of none of the types that it may have")
