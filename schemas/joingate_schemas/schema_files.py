"""The room that reads the `.avsc` files: each record's schema, self-contained, with the fingerprint that names it.

The files refer to each other by full name, so that a shared type is written once. What leaves the package (to a
registry, to the `schemas` topic, to another language) has every type spelt out where it is first used.
"""

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

Schema: TypeAlias = str | list[Any] | dict[str, Any]
NAMESPACE = "joingate"
_FOLDERS = ("", "types", "claims", "facts")


def _under(folder: str) -> Traversable:
    root = files("joingate_schemas") / "avsc"
    return root / folder if folder else root


@cache
def _declared() -> dict[str, dict[str, Any]]:
    """Every schema as its file says, by full name."""
    found: dict[str, dict[str, Any]] = {}
    for folder in _FOLDERS:
        for file in _under(folder).iterdir():
            if file.name.endswith(".avsc"):
                schema = json.loads(file.read_text(encoding="utf-8"))
                found[f"{schema['namespace']}.{schema['name']}"] = schema
    return found


def _inlined(schema: Schema, seen: set[str]) -> Schema:
    """`schema` with each name replaced by what it stands for, at its first use; `seen` are those spelt out before."""
    if isinstance(schema, str):
        declared = _declared().get(schema)
        return schema if declared is None or schema in seen else _inlined(declared, seen)
    if isinstance(schema, list):
        return [_inlined(branch, seen) for branch in schema]
    if schema["type"] in ("record", "enum"):
        seen.add(f"{schema['namespace']}.{schema['name']}")
    whole = dict(schema)
    for part in ("items", "values"):
        if part in whole:
            whole[part] = _inlined(whole[part], seen)
    if "fields" in whole:
        whole["fields"] = [{**field, "type": _inlined(field["type"], seen)} for field in whole["fields"]]
    return whole


@cache
def self_contained(name: str) -> dict[str, Any]:
    """The schema of the record or enum `name` (without namespace), with nothing left to look up.

    Raises KeyError when the package has no such type. The answer is shared: it must not be changed.
    """
    whole = _inlined(_declared()[f"{NAMESPACE}.{name}"], set())
    assert isinstance(whole, dict)
    return whole


def history() -> list[dict[str, Any]]:
    """The schemas of earlier releases that the package keeps."""
    found = [file for file in _under("history").iterdir() if file.name.endswith(".avsc")]
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(found, key=lambda file: file.name)]


def fingerprint_bytes(schema: Schema) -> bytes:
    """CRC-64-AVRO of the schema's Parsing Canonical Form, in the byte order of the single-object encoding."""
    # The canonical form leaves out docs, defaults and logical types: none of them changes a byte that is written.
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def named_types(schema: Schema) -> tuple[Schema, dict[str, dict[str, Any]]]:
    """`schema` with full names throughout, and its named types by full name.

    Raises fastavro's SchemaParseException or UnknownType when it is no Avro schema.
    """
    named: dict[str, dict[str, Any]] = {}
    return parse_schema(schema, named), named
