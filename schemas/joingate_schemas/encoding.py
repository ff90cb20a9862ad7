"""The room that writes data: one function for each record type, made from its schema on first use.

A record is encoded as the concatenation of its fields, so each function is one join over pieces, with numbers taken
from a table of those that were written before.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from joingate_schemas.evolution import PRIMITIVES, short
from joingate_schemas.schema_files import Schema, named_types
from joingate_schemas.source import Source

WRITE_FAULTS = (AttributeError, KeyError, TypeError, ValueError, struct.error, OverflowError, RecursionError)
"""What a made writer raises on an object that is no datum of its schema."""

Writer = Callable[[dict[str, Any], bytes], bytes]
"""From the datum and the bytes to go in front of it to the encoded record."""


class _Numbers(dict[int, bytes]):
    """Whole numbers in their wire form (zigzag, seven bits a byte). Times repeat within a batch, lengths for ever."""

    ENTRIES_MAX = 65_536

    def __missing__(self, number: int) -> bytes:
        if not isinstance(number, int):
            raise TypeError(f"{number!r} is not a whole number")
        if 8_192 <= number < 1_048_576:  # positions, which never come again
            return bytes((number << 1 & 127 | 128, number >> 6 & 127 | 128, number >> 13))
        if not -(2**63) <= number < 2**63:
            raise OverflowError(f"{number} takes more than 64 bits")
        rest = number << 1 if number >= 0 else (-number << 1) - 1
        out = bytearray()
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
        if len(self) >= self.ENTRIES_MAX:
            self.clear()
        written = self[number] = bytes(out)
        return written


class _Words(dict[str, bytes]):
    """Texts of few kinds, such as a reason or the name of an action, in their wire form: length, then UTF-8."""

    ENTRIES_MAX = 4_096
    LENGTH_MAX = 64

    def __missing__(self, text: str) -> bytes:
        raw = text.encode()
        written = _NUMBERS[len(raw)] + raw
        if len(raw) <= self.LENGTH_MAX:
            if len(self) >= self.ENTRIES_MAX:
                self.clear()
            self[text] = written
        return written


_NUMBERS = _Numbers()
_WORDS = _Words()
# Fields whose texts are of few kinds: what a catalogue, its principals or this release name, not what a claimant says.
_WORD_FIELDS = frozenset(
    "action claim_type downstream executor finding kind phases principal reason recorded_reason recorded_verdict "
    "source status subject_kind tenant timer topic".split()
)
# Whether a value is of the branch; bool before int, for in Python every bool is an int.
_BRANCH_ORDER = ("null", "string", "boolean", "long", "int", "double", "float", "bytes")
_BRANCH_TYPE = {
    "string": "str", "boolean": "bool", "long": "int", "int": "int", "double": "float", "float": "float",
    "bytes": "bytes",
}  # fmt: skip


# Kinds whose piece names the value but once, so that it needs no variable.
_ONCE = frozenset({"boolean", "int", "long", "float", "double", "enum"})


def _no_branch(value: object) -> None:
    raise TypeError(f"{value!r} is of a type that the union does not have")


class _Making:
    """The making of one writer."""

    def __init__(self, schema: Schema, classes: Mapping[str, type]) -> None:
        self._schema, self._types = named_types(schema)
        self._classes = classes
        self._functions: dict[str, str] = {}
        self._names: dict[str, Any] = {
            "_N": _NUMBERS, "_W": _WORDS, "_join": b"".join, "_no_branch": _no_branch,
            "_float4": struct.Struct("<f").pack, "_float8": struct.Struct("<d").pack,
        }  # fmt: skip

    def writer(self) -> Writer:
        """The function for the schema, which must be a record's."""
        kind, schema = self._resolved(self._schema)
        assert kind == "record", "only records are written"
        made: Writer = self._names[self._record(schema)]
        return made

    def _resolved(self, schema: Schema) -> tuple[str, Any]:
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return schema, schema
            schema = self._types[schema]
        return schema["type"], schema

    def _record(self, schema: dict[str, Any]) -> str:
        if schema["name"] not in self._functions:
            self._functions[schema["name"]] = name = f"_record{len(self._functions)}"
            source = Source(self._names)
            pieces = ["front"]
            with source.block(f"def {name}(datum, front=b''):"):
                for field in schema["fields"]:
                    variable = source.fresh("f")
                    # Objects have all their fields; nested dictionaries may leave out those with a default.
                    plain = short(schema["name"]) in self._classes or "default" not in field
                    got = f"[{field['name']!r}]" if plain else f".get({field['name']!r}, {field['default']!r})"
                    kind = self._resolved(field["type"])[0]
                    if kind == "string" and field["name"] in _WORD_FIELDS:
                        pieces.append(f"_W[datum{got}]")
                    elif kind == "string":
                        source.add(f"{variable} = datum{got}.encode()")
                        pieces += [f"_N[len({variable})]", variable]
                    elif kind in _ONCE:
                        pieces += self._pieces(source, f"datum{got}", field["type"])
                    else:
                        source.add(f"{variable} = datum{got}")
                        pieces += self._pieces(source, variable, field["type"])
                source.add(f"return _join(({', '.join(pieces)},))")
            source.made(name)
        return self._functions[schema["name"]]

    def _pieces(self, source: Source, value: str, schema: Schema) -> list[str]:
        """Expressions that make up the variable `value` on the wire, after the lines that prepare them."""
        kind, whole = self._resolved(schema)
        match kind:
            case "null":
                return []
            case "boolean":
                return [f"(b'\\1' if {value} else b'\\0')"]
            case "int" | "long":
                return [f"_N[{value}]"]
            case "float" | "double":
                return [f"_float{4 if kind == 'float' else 8}({value})"]
            case "string":
                source.add(f"{value} = {value}.encode()")
                return [f"_N[len({value})]", value]
            case "bytes":
                return [f"_N[len({value})]", value]
            case "enum":
                table = {symbol: _NUMBERS[index] for index, symbol in enumerate(whole["symbols"])}
                return [f"{source.keep('_symbols', table)}[{value}]"]
            case "record":
                return [f"{self._record(whole)}({value})"]
            case "array" | "map":
                return [self._repeated(source, value, kind, whole)]
            case "union":
                return [self._union(source, value, whole)]
        raise ValueError(f"Join Gate writes no {kind}")

    def _repeated(self, source: Source, value: str, kind: str, schema: dict[str, Any]) -> str:
        """One block with all items, and the 0 that ends it."""
        out, item, key = source.fresh("a"), source.fresh("v"), source.fresh("k")
        source.add(f"{out} = b'\\0'")
        with source.block(f"if {value}:"):
            source.add(f"{out} = [_N[len({value})]]")
            loop = f"for {item} in {value}:" if kind == "array" else f"for {key}, {item} in {value}.items():"
            with source.block(loop):
                pieces = [] if kind == "array" else self._pieces(source, key, "string")
                pieces += self._pieces(source, item, schema["items" if kind == "array" else "values"])
                source.add(f"{out} += ({', '.join(pieces)},)")
            source.add(f"{out}.append(b'\\0')", f"{out} = _join({out})")
        return out

    def _union(self, source: Source, value: str, branches: list[Schema]) -> str:
        kinds = [self._resolved(branch) for branch in branches]
        if all(kind == "record" and short(schema["name"]) in self._classes for kind, schema in kinds):
            return self._facts(source, value, [schema for _, schema in kinds])
        out = source.fresh("u")
        others = [number for number, (kind, _) in enumerate(kinds) if kind != "null"]
        order = sorted(others, key=lambda n: _BRANCH_ORDER.index(kinds[n][0])) if len(others) > 1 else others
        word = "if"
        if len(others) < len(kinds):
            null = next(number for number, (kind, _) in enumerate(kinds) if kind == "null")
            source.add(f"if {value} is None: {out} = {_NUMBERS[null]!r}")
            word = "elif"
        for number in order:
            test = f"{word} isinstance({value}, {_BRANCH_TYPE[kinds[number][0]]}):" if len(others) > 1 else "else:"
            with source.block(test):
                pieces = self._pieces(source, value, branches[number])
                source.add(f"{out} = {' + '.join([repr(_NUMBERS[number]), *pieces])}")
            word = "elif"
        if len(others) > 1:
            source.add(f"else: {out} = _no_branch({value})")
        return out

    def _facts(self, source: Source, value: str, records: list[dict[str, Any]]) -> str:
        """A union of records that all have a class: the object's class says which branch it is."""
        table = {}
        for number, schema in enumerate(records):
            table[self._classes[short(schema["name"])]] = (_NUMBERS[number], self._names[self._record(schema)])
        front, write = source.fresh("h"), source.fresh("w")
        source.add(f"{front}, {write} = {source.keep('_facts', table)}[type({value})]")
        return f"{write}({value}.__dict__, {front})"


def writer_for(schema: Schema, classes: Mapping[str, type]) -> Writer:
    """The function that encodes a datum of this record schema; it raises WRITE_FAULTS on anything else.

    `classes` are those of the records that stand for themselves in a union of records, by name without namespace.
    """
    return _Making(schema, classes).writer()
