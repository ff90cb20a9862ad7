"""The `.avsc` files and the Python classes are one contract: neither may change without the other."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from importlib.resources import files
from typing import Any

import pytest

from joingate_schemas import arbitration, claims, decisions, facts
from joingate_schemas.codec import RECORD_TYPES
from joingate_schemas.facts import FACT_TYPES
from joingate_schemas.schema_files import fingerprint_bytes, named_types, self_contained

ALL_TYPES = {**RECORD_TYPES, **FACT_TYPES}
LITERALS = {
    typing.get_args(thing): name
    for module in (claims, facts, decisions, arbitration)
    for name, thing in vars(module).items()
    if typing.get_origin(thing) is typing.Literal
}
PRIMITIVES = {str: "string", bytes: "bytes", bool: "boolean", int: "long", float: "double"}
INSTANTS = {
    "act_until",
    "source_time",
    "valid_until",
    "key_until",
    "askable_from",
    "since",
    "acknowledge_by",
    "grace_until",
}


def declared(folder: str, name: str) -> dict[str, Any]:
    path = files("joingate_schemas") / "avsc" / folder / f"{name}.avsc"
    return typing.cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))


def folder_of(name: str) -> str:
    return "claims" if name in claims.CLAIM_TYPES else "facts" if name in FACT_TYPES else ""


def avro_of(hint: Any, field: str) -> Any:
    """The Avro type that a Python annotation stands for."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.NotRequired:
        return avro_of(args[0], field)
    if hint is decisions.ClaimTopic:
        return "string"  # Names of topics hold hyphens, which symbols of an enum may not.
    if origin is typing.Literal:
        return f"joingate.{LITERALS[args]}"
    if origin in (typing.Union, types.UnionType):
        members = [arg for arg in args if arg is not type(None)]
        branches = [avro_of(arg, field) for arg in members]
        return ["null", *branches] if len(members) < len(args) else branches
    if origin is list:
        return {"type": "array", "items": avro_of(args[0], field)}
    if origin is dict:
        return {"type": "map", "values": avro_of(args[1], field)}
    if typing.is_typeddict(hint) or dataclasses.is_dataclass(hint):
        return f"joingate.{typing.cast(type, hint).__name__}"
    if hint is int and (field.endswith("_at") or field in INSTANTS):
        return {"type": "long", "logicalType": "timestamp-millis"}
    return PRIMITIVES[hint]


def nested_types() -> dict[str, type]:
    return {
        name: thing
        for module in (claims, facts, arbitration)
        for name, thing in vars(module).items()
        if typing.is_typeddict(thing) and thing.__module__ == module.__name__
    }


@pytest.mark.parametrize("name", sorted(ALL_TYPES))
def test_a_class_and_its_schema_have_the_same_fields_in_the_same_order_with_the_same_defaults(name: str) -> None:
    cls = ALL_TYPES[name]
    schema = declared(folder_of(name), name)
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    assert (schema["type"], schema["namespace"], schema["name"]) == ("record", "joingate", name)
    assert [field["name"] for field in schema["fields"]] == [field.name for field in fields]
    for ours, theirs in zip(fields, schema["fields"], strict=True):
        wanted = avro_of(hints[ours.name], ours.name)
        assert theirs["type"] == wanted, f"{name}.{ours.name}"
        if ours.default is not dataclasses.MISSING:
            # The default of bytes is a text in a schema, for JSON has no bytes.
            default = ours.default.decode("latin-1") if isinstance(ours.default, bytes) else ours.default
            assert theirs["default"] == default, f"{name}.{ours.name}"
        elif isinstance(wanted, dict) and wanted["type"] in ("array", "map"):
            assert theirs["default"] in ([], {}), f"{name}.{ours.name}"
        elif isinstance(wanted, list):
            assert theirs["default"] is None, f"{name}.{ours.name}"
        else:
            assert "default" not in theirs, f"{name}.{ours.name}"


@pytest.mark.parametrize("name", sorted(nested_types()))
def test_a_nested_dictionary_and_its_schema_agree_and_what_may_be_left_out_has_a_default(name: str) -> None:
    hints = typing.get_type_hints(nested_types()[name], include_extras=True)
    schema = declared("types", name)
    assert [field["name"] for field in schema["fields"]] == list(hints)
    for field in schema["fields"]:
        hint = hints[field["name"]]
        assert field["type"] == avro_of(hint, field["name"]), f"{name}.{field['name']}"
        if typing.get_origin(hint) is typing.NotRequired:
            assert "default" in field, f"{name}.{field['name']}"


def test_each_enum_has_the_symbols_of_its_literal_and_unknown_as_its_default() -> None:
    folder = files("joingate_schemas") / "avsc" / "types"
    enums = [schema for file in folder.iterdir() if (schema := json.loads(file.read_text()))["type"] == "enum"]
    symbols = {name: args for args, name in LITERALS.items()}
    assert len(enums) == 22
    for schema in enums:
        assert tuple(schema["symbols"]) == symbols[schema["name"]]
        assert schema["default"] == "UNKNOWN"
        assert schema["doc"]


@pytest.mark.parametrize("name", sorted({**ALL_TYPES, **nested_types()}))
def test_every_record_and_every_field_has_a_sentence_and_times_and_durations_name_their_unit(name: str) -> None:
    schema = declared("types" if name in nested_types() else folder_of(name), name)
    assert re.fullmatch(r"[A-Z`].*[.?]", schema["doc"])
    for field in schema["fields"]:
        assert re.fullmatch(r"(?s)[A-Z].{8,}[.?]", field["doc"]), f"{name}.{field['name']}: {field['doc']}"
        if "timestamp-millis" in json.dumps(field["type"]):
            assert "UTC" in field["doc"], f"{name}.{field['name']}"
        if field["name"].endswith("_ms"):
            assert "millisecond" in field["doc"], f"{name}.{field['name']}"


def test_there_is_no_schema_file_without_a_class() -> None:
    root = files("joingate_schemas") / "avsc"
    stems = {
        folder: {file.name.removesuffix(".avsc") for file in (root / folder).iterdir() if file.name.endswith(".avsc")}
        for folder in ("claims", "facts", "types", ".")
    }
    assert stems["claims"] == set(claims.CLAIM_TYPES)
    assert stems["facts"] == set(FACT_TYPES)
    assert stems["."] == set(RECORD_TYPES) - set(claims.CLAIM_TYPES)
    assert stems["types"] <= set(LITERALS.values()) | set(nested_types())


@pytest.mark.parametrize("name", sorted(ALL_TYPES))
def test_a_published_schema_stands_alone(name: str) -> None:
    """A reader in another language gets one text, and finds every type that it names in it."""
    _, found = named_types(json.loads(json.dumps(self_contained(name))))
    assert f"joingate.{name}" in found


def test_the_facts_of_a_decision_are_all_facts_and_nothing_else() -> None:
    field = next(field for field in declared("", "Decision")["fields"] if field["name"] == "facts")
    assert [branch.removeprefix("joingate.") for branch in field["type"]["items"]] == list(FACT_TYPES)


def test_the_fingerprint_is_the_one_that_the_avro_specification_gives_for_null() -> None:
    assert int.from_bytes(fingerprint_bytes("null"), "little") == 7195948357588979594
