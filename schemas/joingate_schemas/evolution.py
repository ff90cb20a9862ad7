"""The room where old and new meet: one function for each pair of (schema written with, schema wanted), made once.

The rules are Avro's for schema resolution: fields by name, the reader's defaults for what is missing, what the reader
does not know is dropped, numbers are promoted, and an enum symbol that the reader lacks becomes the enum's default,
at whatever depth. Reading with two schemas in the Avro library itself is not relied on: it has failed on enums in
unions and on named types whose definition moved (field case C22).
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joingate_schemas.schema_files import Schema, named_types
from joingate_schemas.source import Source

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
PROMOTIONS = frozenset(
    {
        ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
        ("float", "double"), ("string", "bytes"), ("bytes", "string"),
    }
)  # fmt: skip
READ_FAULTS = (IndexError, ValueError, KeyError, struct.error, OverflowError, RecursionError)
"""What a made reader raises on bytes that are no datum of the writer's schema, or that the reader has no place for."""

Reader = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes and a position in them to the value and the position after it."""


class UnusableSchema(ValueError):
    """A schema that can't be read with; the text says why."""


@dataclass(frozen=True)
class UnknownFact:
    """A fact of a type that this release does not know: its `name`, and its `datum` as it was written."""

    name: str
    datum: dict[str, Any]


def _tail(data: bytes, at: int, low: int) -> tuple[int, int]:
    """The rest of a number whose first byte `low` says that it goes on; at most 64 bits."""
    low &= 127
    times = data[at : at + 5]  # those of this century take six bytes in all
    if len(times) == 5:
        b, c, d, e, f = times
        if b & c & d & e & 128 and f < 128:
            low |= (b & 127) << 7 | (c & 127) << 14 | (d & 127) << 21 | (e & 127) << 28 | f << 35
            return low, at + 5
    shift = 7
    while True:
        byte = data[at]
        at += 1
        low |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
    if low >> 64:
        raise ValueError("a number is longer than 64 bits")
    return low, at


def _natural(data: bytes, at: int, low: int) -> tuple[int, int]:
    """A length or an index, in its wire form, whose first byte `low` says that it goes on or is negative."""
    if low > 127:
        low, at = _tail(data, at, low)
    if low & 1:
        raise ValueError("a length or an index is negative")
    return low, at


def _sized(data: bytes, at: int, count: int) -> tuple[int, int]:
    """A block's count, when it is negative on the wire: its size in bytes follows, and is not needed."""
    size = data[at]
    at += 1
    if size > 127:
        _, at = _tail(data, at, size)
    return count + 1, at  # -n is written as 2n - 1, so that this is 2n, as if it had been positive.


def _refuse(text: str) -> None:
    raise ValueError(text)


def short(name: str) -> str:
    """A type's name without its namespace, by which types are matched."""
    return name.rpartition(".")[2]


class _Pair:
    """The making of one reader."""

    def __init__(self, written: Schema, wanted: Schema, classes: Mapping[str, type]) -> None:
        self._written, self._writer_types = named_types(written)
        self._wanted, self._reader_types = named_types(wanted)
        self._classes = classes
        self._functions: dict[tuple[str, str], str] = {}
        self._names: dict[str, Any] = {
            "_tail": _tail, "_natural": _natural, "_sized": _sized, "_refuse": _refuse,
            "_new": object.__new__, "_UnknownFact": UnknownFact,
            "_float4": struct.Struct("<f").unpack_from, "_float8": struct.Struct("<d").unpack_from,
        }  # fmt: skip

    def reader(self) -> Reader:
        """The function for the two schemas as a whole."""
        source = Source(self._names)
        with source.block("def _read(data, at):"):
            self._value(source, "value", self._written, self._wanted)
            source.add("return value, at")
        made: Reader = source.made("_read")
        if self._writers(self._written)[0] == "record" and self._functions:
            return self._names["_record0"]  # type: ignore[no-any-return]  # The record's own, without one call more.
        return made

    # --- schemas -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _resolved(schema: Schema, types: Mapping[str, dict[str, Any]]) -> tuple[str, Any]:
        """A schema's kind, and the schema itself with its name looked up."""
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return schema, schema
            schema = types[schema]
        kind = schema["type"]
        if not isinstance(kind, str):
            return _Pair._resolved(kind, types)
        return ("record" if kind == "error" else kind), schema

    def _writers(self, schema: Schema) -> tuple[str, Any]:
        return self._resolved(schema, self._writer_types)

    def _readers(self, schema: Schema) -> tuple[str, Any]:
        return self._resolved(schema, self._reader_types)

    def _fits(self, written: Schema, wanted: Schema, *, promoted: bool) -> bool:
        """Whether the writer's branch may be read as the reader's, looking at kinds and names only."""
        kind, schema = self._writers(written)
        wanted_kind, wanted_schema = self._readers(wanted)
        if kind in ("record", "enum", "fixed") and kind == wanted_kind:
            names = {short(wanted_schema["name"]), *map(short, wanted_schema.get("aliases", ()))}
            same_size = kind != "fixed" or schema["size"] == wanted_schema["size"]
            return short(schema["name"]) in names and same_size
        return kind == wanted_kind or (promoted and (kind, wanted_kind) in PROMOTIONS)

    def _branch(self, written: Schema, wanted: list[Schema]) -> Schema | None:
        """The branch of the reader's union that takes what was written: the first equal, else the first promoted."""
        for promoted in (False, True):
            for branch in wanted:
                if self._fits(written, branch, promoted=promoted):
                    return branch
        return None

    def _size_min(self, schema: Schema, within: tuple[str, ...] = ()) -> int:
        """The fewest bytes that a value can take."""
        kind, whole = self._writers(schema)
        if kind == "null":
            return 0
        if kind == "fixed":
            return int(whole["size"])
        if kind != "record":
            return 1
        if whole["name"] in within:
            raise UnusableSchema(f"the record {whole['name']} contains itself, so that it never ends")
        return sum(self._size_min(field["type"], (*within, whole["name"])) for field in whole["fields"])

    # --- reading -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _number(source: Source, name: str) -> None:
        """Read one number in its wire form (zigzag, not undone) into `name`."""
        source.add(f"{name} = data[at]", "at += 1", f"if {name} > 127: {name}, at = _tail(data, at, {name})")

    @staticmethod
    def _natural(source: Source, name: str) -> None:
        """Read a length or an index in its wire form into `name`: an even number."""
        # One test for both rare cases: 128 and up goes on in the next byte, an odd number is negative.
        source.add(f"{name} = data[at]", "at += 1", f"if {name} & 129: {name}, at = _natural(data, at, {name})")

    def _slice(self, source: Source, out: str, after: str = "") -> None:
        """Read a length and that many bytes. Past the end they come out short, and what follows, or the end, tells."""
        length = source.fresh("n")
        self._natural(source, length)
        source.add(f"end = at + ({length} >> 1)", f"{out} = data[at:end]{after}", "at = end")

    def _value(self, source: Source, out: str, written: Schema, wanted: Schema | None) -> None:
        """Read what was `written` into the variable `out`, as `wanted` (None: as it was written)."""
        kind, schema = self._writers(written)
        if kind == "union":
            self._union(source, out, schema, wanted)
            return
        if isinstance(wanted, list):
            branch = self._branch(written, wanted)
            if branch is None and kind == "record" and self._facts(wanted):
                self._value(source, out, written, None)
                source.add(f"{out} = _UnknownFact({short(schema['name'])!r}, {out})")
                return
            if branch is None:
                self._mismatch(source, out, kind, "a union that lacks it")
                return
            wanted = branch
        elif wanted is not None and not self._fits(written, wanted, promoted=True):
            self._mismatch(source, out, kind, self._readers(wanted)[0])
            return
        wanted_kind = kind if wanted is None else self._readers(wanted)[0]
        match kind:
            case "record":
                source.add(f"{out}, at = {self._record(schema, wanted)}(data, at)")
            case "enum":
                self._enum(source, out, schema, None if wanted is None else self._readers(wanted)[1])
            case "array" | "map":
                self._repeated(source, out, kind, schema, None if wanted is None else self._readers(wanted)[1])
            case "fixed":
                source.add(f"{out} = data[at : at + {int(schema['size'])}]", f"at += {int(schema['size'])}")
            case _:
                self._primitive(source, out, kind, wanted_kind)

    def _facts(self, wanted: list[Schema]) -> bool:
        """Whether the union is one of records that all have a class: there an unknown one is kept, not refused."""
        branches = [self._readers(branch) for branch in wanted]
        return all(kind == "record" and short(schema["name"]) in self._classes for kind, schema in branches)

    @staticmethod
    def _mismatch(source: Source, out: str, kind: str, wanted: str) -> None:
        # At run time, not now: a branch that no longer fits only matters to the records that use it.
        source.add(f"{out} = _refuse({f'{kind} was written where the reader has {wanted}'!r})")

    def _primitive(self, source: Source, out: str, kind: str, wanted: str) -> None:
        match kind:
            case "null":
                source.add(f"{out} = None")
            case "boolean":
                source.add(f"{out} = data[at]", "at += 1", f"if {out} > 1: _refuse('a boolean is neither 0 nor 1')")
                source.add(f"{out} = {out} == 1")
            case "int" | "long":
                self._number(source, out)
                text = f"({out} >> 1) ^ -({out} & 1)"
                source.add(f"{out} = float({text})" if wanted in ("float", "double") else f"{out} = {text}")
            case "float" | "double":
                size = 4 if kind == "float" else 8
                source.add(f"({out},) = _float{size}(data, at)", f"at += {size}")
            case _:
                # Text and bytes look alike on the wire, so that promotion is only a matter of decoding or not.
                self._slice(source, out, ".decode()" if wanted == "string" else "")

    def _enum(self, source: Source, out: str, schema: dict[str, Any], wanted: dict[str, Any] | None) -> None:
        known = set(schema["symbols"] if wanted is None else wanted["symbols"])
        default = None if wanted is None else wanted.get("default")
        symbols = tuple(symbol if symbol in known else default for symbol in schema["symbols"])
        self._natural(source, out)
        source.add(f"{out} = {source.keep('_symbols', symbols)}[{out} >> 1]")
        if None in symbols:
            source.add(f"if {out} is None: _refuse('an enum symbol is not known and has no default')")

    def _union(self, source: Source, out: str, branches: list[Schema], wanted: Schema | None) -> None:
        index = source.fresh("i")
        self._natural(source, index)
        for number, branch in enumerate(branches):
            with source.block(f"{'if' if number == 0 else 'elif'} {index} == {2 * number}:"):
                self._value(source, out, branch, wanted)
        source.add(f"else: {out} = _refuse('the index of a union is out of range')")

    def _repeated(self, source: Source, out: str, kind: str, schema: dict[str, Any], wanted: Any) -> None:
        """An array or a map: blocks of items, each with its count, until a count of 0."""
        part = "items" if kind == "array" else "values"
        if kind == "array" and self._size_min(schema["items"]) == 0:
            # A few bytes could then say that there are 2**60 items, and each would have to be made.
            raise UnusableSchema("an array's items take no bytes, so that its length could not be believed")
        count, item = source.fresh("c"), source.fresh("v")
        source.add(f"{out} = {'[]' if kind == 'array' else '{}'}")
        self._number(source, count)
        with source.block(f"while {count}:"):
            source.add(f"if {count} & 1: {count}, at = _sized(data, at, {count})")
            with source.block(f"for _ in range({count} >> 1):"):
                key = source.fresh("k")
                if kind == "map":
                    self._slice(source, key, ".decode()")
                self._value(source, item, schema[part], None if wanted is None else wanted[part])
                source.add(f"{out}.append({item})" if kind == "array" else f"{out}[{key}] = {item}")
            self._number(source, count)

    # --- records -----------------------------------------------------------------------------------------------------

    def _record(self, schema: dict[str, Any], wanted: Schema | None) -> str:
        """The name of the function that reads this record; made on first use, so that a type may contain itself."""
        target = None if wanted is None else self._readers(wanted)[1]
        pair = (schema["name"], "" if target is None else target["name"])
        if pair not in self._functions:
            self._functions[pair] = name = f"_record{len(self._functions)}"
            source = Source(self._names)
            with source.block(f"def {name}(data, at):"):
                self._fields(source, schema, target)
            source.made(name)
        return self._functions[pair]

    def _fields(self, source: Source, schema: dict[str, Any], target: dict[str, Any] | None) -> None:
        wanted = {} if target is None else {field["name"]: field for field in target["fields"]}
        renamed = {alias: name for name, field in wanted.items() for alias in field.get("aliases", ())}
        found: dict[str, str] = {}
        for field in schema["fields"]:
            name = field["name"] if field["name"] in wanted else renamed.get(field["name"], field["name"])
            variable = source.fresh("f")
            place = wanted.get(name)
            self._value(source, variable, field["type"], None if place is None else place["type"])
            if target is None or place is not None:
                found[name] = variable
        for name, place in wanted.items():
            if name not in found:
                found[name] = self._default("" if target is None else target["name"], place)
        order = found if target is None else wanted
        datum = "{" + ", ".join(f"{name!r}: {found[name]}" for name in order) + "}"
        made = None if target is None else self._classes.get(short(target["name"]))
        if made is None:
            source.add(f"return {datum}, at")
        else:
            source.add(f"made = _new({source.keep('_class', made)})", f"made.__dict__ = {datum}", "return made, at")

    def _default(self, record: str, place: dict[str, Any]) -> str:
        """Code for the reader's default, a new one each time."""
        if "default" in place:
            return repr(self._datum(place["type"], place["default"]))
        text = f"the field {place['name']} of {record} was not written, and has no default"
        return f"_refuse({text!r})"

    def _datum(self, schema: Schema, default: Any) -> Any:
        """The value that a default, which is JSON, stands for."""
        kind, whole = self._readers(schema)
        match kind:
            case "union":
                return self._datum(whole[0], default)
            case "bytes" | "fixed":
                return default.encode("latin-1")
            case "float" | "double":
                return float(default)
            case "array":
                return [self._datum(whole["items"], item) for item in default]
            case "map":
                return {key: self._datum(whole["values"], item) for key, item in default.items()}
            case "record":
                fields = {field["name"]: field for field in whole["fields"]}
                return {n: self._datum(f["type"], default.get(n, f.get("default"))) for n, f in fields.items()}
            case _:
                return default


def reader_for(written: Schema, wanted: Schema, classes: Mapping[str, type]) -> Reader:
    """The function that reads a datum written with one schema as one of the other.

    `classes` are those of records, by name without namespace: such a record comes out as an object of its class, any
    other as a dictionary. Raises UnusableSchema, or fastavro's errors, when no reader can be made. The reader raises
    READ_FAULTS on bytes that don't fit; bytes left over, or a last value cut short, show in the position it returns.
    """
    try:
        return _Pair(written, wanted, classes).reader()
    except (SyntaxError, RecursionError) as error:
        raise UnusableSchema(f"the schema is nested too deeply to be read with ({error})") from error
