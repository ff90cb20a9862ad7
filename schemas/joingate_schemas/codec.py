"""The room between records and bytes: encodes ours, decodes everyone's, and never lets a bad byte out as anything else.

Two wire forms (architecture §2): Avro's single-object encoding, C3 01 and the eight bytes of the schema's fingerprint;
and, with a schema registry, a zero byte and the registry's four-byte id. A codec writes one and reads both. What was
written with another version of a schema is read as ours by Avro's rules (see `evolution`).
"""

import json
import threading
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, validate

from joingate_schemas.arbitration import RESOURCE_MESSAGE_TYPES, AnyResourceMessage, ArbiterDecision
from joingate_schemas.claims import CLAIM_TYPES, AnyClaim
from joingate_schemas.decisions import Command, CommitmentRow, Decision, InDoubtRequest, Quarantined
from joingate_schemas.encoding import WRITE_FAULTS, Writer, writer_for
from joingate_schemas.evolution import READ_FAULTS, Reader, UnknownFact, UnusableSchema, reader_for, short
from joingate_schemas.facts import FACT_TYPES
from joingate_schemas.registry import Registry
from joingate_schemas.schema_files import fingerprint_bytes, history, named_types, self_contained

__all__ = [
    "CLAIM_BYTES_MAX", "RECORD_TYPES", "AnyRecord", "Codec", "Undecodable", "Unencodable", "UnknownFact",
]  # fmt: skip

CLAIM_BYTES_MAX = 262_144
"""The largest value of a claim, in bytes: a larger one is OVERSIZED. Evidence is referred to, not carried."""

AnyRecord: TypeAlias = (
    AnyClaim | Decision | Command | InDoubtRequest | CommitmentRow | Quarantined | AnyResourceMessage | ArbiterDecision
)
RECORD_TYPES: dict[str, type] = {
    **CLAIM_TYPES,
    **{cls.__name__: cls for cls in (Decision, Command, InDoubtRequest, CommitmentRow, Quarantined, ArbiterDecision)},
    **RESOURCE_MESSAGE_TYPES,
}
"""Every class that is a record on a topic, by its name. Facts travel inside a Decision."""

_CLASSES: dict[str, type] = {**RECORD_TYPES, **FACT_TYPES}
_SINGLE_OBJECT = b"\xc3\x01"
# Whatever is wrong with a stranger's schema: it may have any shape, and the library trips over some of them.
_SCHEMA_FAULTS = (SchemaParseException, UnknownType, LookupError, TypeError, ValueError, AttributeError, RecursionError)
_FINGERPRINT_END = 10  # of the header in the single-object form
_ID_END = 5  # of the header in the registry's form


class Undecodable(ValueError):
    """A value that is no record: `problem` is the name of a reason, UNREADABLE or UNKNOWN_SCHEMA."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(f"{problem}: {detail}")
        self.problem = problem
        self.detail = detail


class Unencodable(ValueError):
    """An object that its schema has no place for; the text names the record and, where it can, the field."""


class Codec:
    """Encodes and decodes records. One may be shared by threads."""

    def __init__(self, registry_url: str | None = None) -> None:
        """With `registry_url` (the root of a registry's API), records are written in the registry's form.

        Nothing is asked of the registry before a record needs it. Raises ValueError on an address that is none.
        """
        self._registry = Registry(registry_url) if registry_url else None
        self._writers: dict[type, tuple[Writer, bytes]] = {}
        self._readers: dict[bytes, Reader] = {}  # by header
        self._schemas: dict[bytes, dict[str, Any]] = {}  # by header: what a reader can be made from
        self._lock = threading.Lock()
        for name in RECORD_TYPES:
            schema = self_contained(name)
            self._schemas[_SINGLE_OBJECT + fingerprint_of(name)] = schema
        for schema in history():
            self.learn(json.dumps(schema))

    # --- writing -----------------------------------------------------------------------------------------------------

    def encode(self, record: AnyRecord) -> bytes:
        """The record as bytes. Raises Unencodable, and RegistryUnavailable in the registry's form."""
        found = self._writers.get(type(record))
        write, front = found if found is not None else self._writer(type(record))
        try:
            return write(record.__dict__, front)
        except WRITE_FAULTS as error:
            raise Unencodable(_what_is_wrong(record, error)) from error

    def _writer(self, cls: type) -> tuple[Writer, bytes]:
        name = cls.__name__
        if RECORD_TYPES.get(name) is not cls:
            raise Unencodable(f"{name} is no record of Join Gate: encode a claim, or what the gate writes.")
        if self._registry is None:
            front = _SINGLE_OBJECT + fingerprint_of(name)
        else:
            number = self._registry.id_of(f"joingate.{name}", self.schema_json(cls))
            front = b"\0" + number.to_bytes(4, "big")
        made = self._writers[cls] = (writer_for(self_contained(name), _CLASSES), front)
        return made

    # --- reading -----------------------------------------------------------------------------------------------------

    def decode(self, value: bytes | None) -> AnyRecord:
        """The record in `value`, as an object of our class whatever version wrote it.

        Raises Undecodable: UNREADABLE when the bytes are no datum of their schema, or one that can't be read as ours;
        UNKNOWN_SCHEMA when nobody knows the schema. Raises RegistryUnavailable when only the registry could tell.
        """
        if value is None:
            raise Undecodable("UNREADABLE", "the record has no value")
        read = self._readers.get(value[:_FINGERPRINT_END])
        start = _FINGERPRINT_END
        if read is None:
            read, start = self._reader(value)
        try:
            record, end = read(value, start)
        except READ_FAULTS as error:
            said = "it ends too early" if isinstance(error, IndexError) else str(error)
            raise Undecodable("UNREADABLE", f"the bytes are no {self.record_type_of(value)}: {said}") from error
        if end != len(value):
            more = "it ends too early" if end > len(value) else f"{len(value) - end} bytes are left over"
            raise Undecodable("UNREADABLE", f"the bytes are no {self.record_type_of(value)}: {more}")
        return cast(AnyRecord, record)

    def record_type_of(self, value: bytes | None) -> str:
        """The name of the record type in `value`, from its header alone. Raises as `decode` does."""
        return short(self._schema(_header(value))["name"])

    def _reader(self, value: bytes) -> tuple[Reader, int]:
        """The reader for the value's header, made on first use, and where the datum starts."""
        header = _header(value)
        read = self._readers.get(header)
        if read is None:
            schema = self._schema(header)
            name = short(schema["name"])
            if name not in RECORD_TYPES:
                raise Undecodable("UNKNOWN_SCHEMA", f"{schema['name']} is no record type of Join Gate")
            try:
                read = reader_for(schema, self_contained(name), _CLASSES)
            except UnusableSchema as error:
                raise Undecodable("UNKNOWN_SCHEMA", f"the schema of {name} can't be read with: {error}") from error
            self._readers[header] = read
        return read, len(header)

    def _schema(self, header: bytes) -> dict[str, Any]:
        """What the header stands for."""
        schema = self._schemas.get(header)
        if schema is not None:
            return schema
        if len(header) == _FINGERPRINT_END:
            raise Undecodable("UNKNOWN_SCHEMA", f"no schema has the fingerprint {header[2:].hex()}")
        number = int.from_bytes(header[1:], "big")
        if self._registry is None:
            raise Undecodable("UNKNOWN_SCHEMA", f"schema id {number} is a registry's, and no registry is configured")
        found = self._registry.schema_of(number)
        if found is None:
            raise Undecodable("UNKNOWN_SCHEMA", f"the schema registry has no schema with id {number}")
        try:
            schema = _record_schema(found)
        except ValueError as error:
            raise Undecodable("UNKNOWN_SCHEMA", f"the registry's schema {number} is of no use: {error}") from error
        with self._lock:
            self._schemas[header] = schema
        return schema

    # --- schemas -----------------------------------------------------------------------------------------------------

    def learn(self, schema_json: str | bytes) -> bytes:
        """Take up a schema that others may have written with, and return its fingerprint.

        Raises ValueError when it is no Avro schema of a record.
        """
        schema = _record_schema(schema_json)
        mark = fingerprint_bytes(schema)
        with self._lock:
            self._schemas.setdefault(_SINGLE_OBJECT + mark, schema)
        return mark

    def fingerprint_of(self, cls: type) -> bytes:
        """The fingerprint of our schema of `cls` (CRC-64-AVRO), in the byte order of the wire."""
        return fingerprint_of(cls.__name__)

    def schema_json(self, cls: type) -> str:
        """Our schema of `cls` as JSON, self-contained, docs included."""
        return json.dumps(self_contained(cls.__name__), ensure_ascii=False, separators=(",", ":"))

    def own_schemas(self) -> Iterable[tuple[bytes, str]]:
        """Every schema that this release writes with: its fingerprint and its JSON."""
        return [(self.fingerprint_of(cls), self.schema_json(cls)) for cls in RECORD_TYPES.values()]


_FINGERPRINTS: dict[str, bytes] = {}


def fingerprint_of(name: str) -> bytes:
    """The fingerprint of the package's schema called `name`; computed once in a process."""
    if name not in _FINGERPRINTS:
        _FINGERPRINTS[name] = fingerprint_bytes(self_contained(name))
    return _FINGERPRINTS[name]


def _header(value: bytes | None) -> bytes:
    """The part of a value that says which schema wrote it."""
    if not value:
        raise Undecodable("UNREADABLE", "the record has no value")
    if value[0] == 0:
        if len(value) < _ID_END:
            raise Undecodable("UNREADABLE", "the value is shorter than the header of a registry's record")
        return value[:_ID_END]
    if value[:2] != _SINGLE_OBJECT:
        raise Undecodable("UNREADABLE", f"the value begins with {value[:2].hex()}, where C301 or 00 belongs")
    if len(value) < _FINGERPRINT_END:
        raise Undecodable("UNREADABLE", "the value is shorter than the header of a single-object record")
    return value[:_FINGERPRINT_END]


def _record_schema(text: str | bytes) -> dict[str, Any]:
    """The record schema in `text`, checked. Raises ValueError with a sentence."""
    try:
        schema, _ = named_types(json.loads(text))
    except _SCHEMA_FAULTS as error:
        raise ValueError(f"it is no Avro schema ({error!r})") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("it is not the schema of a record")
    return schema


def _tagged(value: object) -> object:
    """The datum as the Avro library wants it for its check: objects of a class as (name, fields)."""
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    cls = type(value)
    return (f"joingate.{cls.__name__}", value.__dict__) if _CLASSES.get(cls.__name__) is cls else value


def _what_is_wrong(record: AnyRecord, error: Exception) -> str:
    """Which field of the record does not fit its schema, found the slow way."""
    name = type(record).__name__
    plain = {field: _tagged(value) for field, value in record.__dict__.items()}
    missing = [field["name"] for field in self_contained(name)["fields"] if field["name"] not in plain]
    if missing:
        return f"The {name} can't be written: it has no field {missing[0]}."
    try:
        validate(plain, self_contained(name))
    except ValidationError as found:
        return f"The {name} can't be written: {'; '.join(str(one) for one in found.errors)}."
    # The check is more lenient than the writing in a few places, such as text that is no UTF-8.
    return f"The {name} can't be written: {error!r}."
