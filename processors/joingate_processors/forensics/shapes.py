"""The room between JSON and the Avro schemas: reads a record's fields as people write them, and describes them.

What a person may write differs from Avro's own JSON in three places: a time may be ISO-8601 text, bytes are hex, and
what has a default may be left out. Every mistake names its field, and what was probably meant.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

from joingate_schemas.schema_files import self_contained

Json: TypeAlias = dict[str, Any]
Rewrite: TypeAlias = Callable[[str, Json, str], Json]
"""What may be done to a record before its fields are read: of its type's name, its JSON and its place."""

LONG_MAX = 2**63 - 1
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FieldFault(ValueError):
    """A field that is not as it must be: `field` is its place, as `steps[0].action`; `sentence` says what is wrong."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field = field
        self.sentence = sentence


def near_miss(word: str, known: Iterable[str]) -> str:
    """A clause that says what `word` was probably meant to be, or, of a few, what there is; may be empty."""
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; it may be {', '.join(names)}" if names and len(names) <= 16 else ""


def parse_time(value: object, field: str) -> int:
    """A time in ms since the epoch: a whole number of ms, or ISO-8601 text with its offset from UTC, such as `Z`.

    Raises FieldFault.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX:
        return value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            return round(moment.timestamp() * 1000)
        if moment is not None:
            raise FieldFault(field, f"{value!r} does not say which zone it is in; end it with Z for UTC")
    raise FieldFault(field, f"{value!r} is no time; write 2026-11-30T10:00:00Z, or milliseconds since the epoch")


def parse_duration(value: object, field: str) -> int:
    """A duration in ms: a whole number of ms, or text such as `250ms`, `5s`, `10m`, `2h`, `1d` or `1h30m`.

    Raises FieldFault.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX:
        return value
    if isinstance(value, str) and value and _DURATION_PART.sub("", value) == "":
        total = sum(float(number) * _UNIT_MS[unit] for number, unit in _DURATION_PART.findall(value))
        if total <= LONG_MAX:
            return round(total)
    raise FieldFault(field, f"{value!r} is no duration; write 250ms, 5s, 10m, 2h or 1d")


@cache
def record_fields(name: str) -> dict[str, Json]:
    """The fields of the record type `name` (without namespace) by their names, as its `.avsc` has them."""
    return {field["name"]: field for field in self_contained(name)["fields"]}


@cache
def _named(name: str) -> dict[str, Json]:
    """Every named type within the record type `name`, by full name."""
    found: dict[str, Json] = {}
    _collect(self_contained(name), found)
    return found


def _collect(schema: Any, found: dict[str, Json]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[f"{schema['namespace']}.{schema['name']}"] = schema
        for field in schema.get("fields", ()):
            _collect(field["type"], found)
        for part in ("items", "values"):
            if part in schema:
                _collect(schema[part], found)


def read_fields(name: str, written: Json, rewrite: Rewrite, optional: frozenset[str] = frozenset()) -> Json:
    """The datum of the record type `name` from what was written, with the defaults of what was left out.

    `optional` are fields that may be missing though they have no default; they stay missing. Raises FieldFault.
    """
    reader = _Reader(_named(name), rewrite)
    return reader.read_members(name, record_fields(name), written, "", optional)


class _Reader:
    """Reads JSON values by Avro schemas."""

    def __init__(self, named: dict[str, Json], rewrite: Rewrite) -> None:
        self._named = named
        self._rewrite = rewrite

    def read(self, schema: Any, value: object, at: str) -> object:
        """The value, checked and turned into what the codec takes. Raises FieldFault."""
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            return self._read_union(schema, value, at)
        if isinstance(schema, str):
            return _read_plain(schema, value, at)
        if schema.get("logicalType") == "timestamp-millis":
            return parse_time(value, at)
        match schema["type"]:
            case "record":
                return self._read_record(schema, value, at)
            case "enum":
                return _read_symbol(schema, value, at)
            case "array":
                if not isinstance(value, list):
                    raise FieldFault(at, f"{value!r} is no list")
                return [self.read(schema["items"], item, f"{at}[{place}]") for place, item in enumerate(value)]
            case "map":
                if not isinstance(value, dict):
                    raise FieldFault(at, f"{value!r} is no object")
                return {key: self.read(schema["values"], item, f"{at}.{key}") for key, item in value.items()}
            case plain:
                return _read_plain(plain, value, at)

    def _read_union(self, branches: list[Any], value: object, at: str) -> object:
        if value is None and "null" in branches:
            return None
        others = [branch for branch in branches if branch != "null"]
        for branch in others:
            try:
                return self.read(branch, value, at)
            except FieldFault:
                if len(others) == 1:
                    raise
        raise FieldFault(at, f"{value!r} is none of {', '.join(map(str, branches))}")

    def _read_record(self, schema: Json, value: object, at: str) -> Json:
        if not isinstance(value, dict):
            raise FieldFault(at, f"{value!r} is no object; a {schema['name']} belongs here")
        written = self._rewrite(schema["name"], value, at)
        fields = {field["name"]: field for field in schema["fields"]}
        return self.read_members(schema["name"], fields, written, f"{at}.", frozenset())

    def read_members(
        self, name: str, fields: dict[str, Json], written: Json, front: str, optional: frozenset[str]
    ) -> Json:
        """Every field of the record type `name`, read or by default; `front` goes before the fields in faults."""
        for key in written:
            if key not in fields:
                raise FieldFault(f"{front}{key}", f"{name} has no such field{near_miss(key, fields)}")
        datum: Json = {}
        for key, field in fields.items():
            if key in written:
                datum[key] = self.read(field["type"], written[key], f"{front}{key}")
            elif "default" in field:
                datum[key] = deepcopy(field["default"])
            elif key not in optional:
                raise FieldFault(f"{front}{key}", f"{name} needs it, and it is missing")
        return datum


def _read_symbol(schema: Json, value: object, at: str) -> object:
    if value in schema["symbols"]:
        return value
    raise FieldFault(at, f"{value!r} is no {schema['name']}{near_miss(str(value), schema['symbols'])}")


def _read_plain(kind: str, value: object, at: str) -> object:
    fits: bool
    match kind:
        case "boolean":
            fits = isinstance(value, bool)
        case "int" | "long":
            fits = isinstance(value, int) and not isinstance(value, bool) and -LONG_MAX - 1 <= value <= LONG_MAX
        case "float" | "double":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            fits = isinstance(value, str)
        case "bytes":
            return parse_hex(value, at)
        case _:
            raise FieldFault(at, f"a trace can't carry the Avro type {kind}")
    if not fits:
        raise FieldFault(at, f"{value!r} is no {_WORDS[kind]}")
    return float(value) if kind in ("float", "double") else value  # type: ignore[arg-type]


_WORDS = {
    "boolean": "true or false", "int": "whole number", "long": "whole number", "float": "number", "double": "number",
    "string": "text",
}  # fmt: skip


def parse_hex(value: object, field: str) -> bytes:
    """Bytes from hex digits. Raises FieldFault."""
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass  # said below, as for whatever else is no hex
    raise FieldFault(field, f"{value!r} is no hex; write each byte as two hex digits")


TIME_SCHEMA: Json = {
    "description": "ISO-8601 with its offset from UTC, or milliseconds since the epoch.",
    "oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 0}],
}
DURATION_SCHEMA: Json = {
    "description": "Such as 250ms, 5s, 10m, 2h or 1d; a bare number is milliseconds.",
    "oneOf": [{"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"}, {"type": "integer", "minimum": 0}],
}
HEX_SCHEMA: Json = {"type": "string", "pattern": "^([0-9a-fA-F]{2})*$"}


def describe_fields(name: str, defs: dict[str, Json]) -> dict[str, Json]:
    """The JSON schema of each field of the record type `name`; named types within go to `defs`."""
    return {key: _described(field, defs) for key, field in record_fields(name).items()}


def _described(field: Json, defs: dict[str, Json]) -> Json:
    schema = {**_describe(field["type"], defs), "description": field["doc"]}
    return {**schema, "default": field["default"]} if "default" in field else schema


def _describe(schema: Any, defs: dict[str, Json]) -> Json:
    if isinstance(schema, list):
        return {"anyOf": [_describe(branch, defs) for branch in schema]}
    if isinstance(schema, str):
        return _PLAIN[schema] if schema in _PLAIN else {"$ref": f"#/$defs/{schema.rpartition('.')[2]}"}
    if schema.get("logicalType") == "timestamp-millis":
        return TIME_SCHEMA
    match schema["type"]:
        case "record":
            defs[schema["name"]] = {
                "type": "object",
                "description": schema["doc"],
                "properties": {field["name"]: _described(field, defs) for field in schema["fields"]},
                "required": [field["name"] for field in schema["fields"] if "default" not in field],
                "additionalProperties": False,
            }
            return {"$ref": f"#/$defs/{schema['name']}"}
        case "enum":
            defs[schema["name"]] = {"enum": schema["symbols"], "description": schema["doc"]}
            return {"$ref": f"#/$defs/{schema['name']}"}
        case "array":
            return {"type": "array", "items": _describe(schema["items"], defs)}
        case "map":
            return {"type": "object", "additionalProperties": _describe(schema["values"], defs)}
        case plain:
            return _PLAIN[plain]


_PLAIN: dict[str, Json] = {
    "null": {"type": "null"}, "boolean": {"type": "boolean"}, "int": {"type": "integer"}, "long": {"type": "integer"},
    "float": {"type": "number"}, "double": {"type": "number"}, "string": {"type": "string"}, "bytes": HEX_SCHEMA,
}  # fmt: skip
