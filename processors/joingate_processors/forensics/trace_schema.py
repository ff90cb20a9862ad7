"""The JSON schema of a trace's lines, made from the claims' own schemas, for editors and for other languages."""

from typing import get_args

from joingate_processors.forensics.shapes import (
    DURATION_SCHEMA,
    HEX_SCHEMA,
    TIME_SCHEMA,
    Json,
    describe_fields,
    record_fields,
)  # fmt: skip
from joingate_processors.forensics.trace import EDGE_WORDS, NAMES, STATE_PARTS, TOPIC_OF, stands_for
from joingate_schemas.claims import CLAIM_TYPES, EVERYWHERE
from joingate_schemas.decisions import Verdict
from joingate_schemas.facts import FACT_TYPES
from joingate_schemas.reasons import REASONS
from joingate_schemas.schema_files import self_contained

_NAMES_DOC = {
    "step": "Stands for the operation of this step: the current one of its slot, and its current attempt.",
    "commitment_of": "Stands for the commitment that this step made.",
    "compensation_of": "Stands for the operation that undoes this step's operation.",
    "release_of": "Stands for the operation that releases the commitment that this step made.",
    "quarantine_of": "Stands for the record that this line (by number) had quarantined.",
}


def trace_schema() -> Json:
    """The JSON schema (draft 2020-12) of one line of a trace; printed by `joingate trace --schema`."""
    defs: dict[str, Json] = {}
    kinds = [{"$ref": f"#/$defs/{name}"} for name in CLAIM_TYPES]
    for name in CLAIM_TYPES:
        defs[name] = _claim(name, defs)
    _with_edge_words(defs["PlanStep"])
    others = {"RawLine": _raw(), "RestartLine": _restart(), "ClockLine": _line({}, []), "ExpectLine": _expect()}
    defs |= others
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://joingate.dev/schemas/trace-line.json",
        "title": "A line of a Join Gate trace",
        "description": "A trace is a file with one such object a line, played in order.",
        "anyOf": kinds + [{"$ref": f"#/$defs/{name}"} for name in others],
        "$defs": dict(sorted(defs.items())),
    }


def _line(properties: Json, required: list[str], doc: str = "Moves the clock, or sets the trace up.") -> Json:
    return {
        "type": "object",
        "description": doc,
        "properties": {
            **properties,
            "at": {**TIME_SCHEMA, "description": "Where the clock is set before this line; never backwards."},
            "advance": {**DURATION_SCHEMA, "description": "How far the clock moves before this line."},
            "batch": {"type": "integer", "minimum": 1, "default": 1,
                      "description": "First line only: how many claims one poll takes."},
            "catalogue": {"type": "string",
                          "description": "First line, or a restart: the catalogue from here on; a path beside the "
                          "trace."},
        },
        "required": required,
        "additionalProperties": False,
        "not": {"required": ["at", "advance"]},
    }  # fmt: skip


def _claim(name: str, defs: dict[str, Json]) -> Json:
    words = {word: stands_for(name, word) for word in NAMES}
    allowed = {word: fills for word, fills in words.items() if fills}
    fields = record_fields(name)
    filled = frozenset[str]().union(*allowed.values()) | {"claim_id"}
    required = [key for key, field in fields.items() if "default" not in field and key not in filled]
    if name in EVERYWHERE:
        required.remove("intent_id")
    properties: Json = {
        "as": {"enum": list(TOPIC_OF), "description": "Who speaks; it decides the topic."},
        "type": {"const": name, "description": "Which claim it is."},
        **describe_fields(name, defs),
        **{word: _name_schema(word) for word in allowed},
    }
    properties["claim_id"]["description"] += " Made from the line's number where it is left out."
    properties["principal"].pop("default")
    properties["principal"]["description"] += " The speaker (as) where it is left out."
    line = _line(properties, ["as", "type", *required], self_contained(name)["doc"])
    if allowed:
        own = [key for key in ("operation_id", "commitment_id", "subject_id") if key in filled]
        needs = [key for key in fields if key in filled and key != "claim_id" and "default" not in fields[key]]
        line["anyOf"] = [{"required": needs or own}, *({"required": [word]} for word in allowed)]
    return line


def _name_schema(word: str) -> Json:
    kind: Json = {"type": "integer", "minimum": 1} if word == "quarantine_of" else {"type": "string", "minLength": 1}
    return {**kind, "description": _NAMES_DOC[word]}


def _with_edge_words(step: Json) -> None:
    for word, kind in EDGE_WORDS.items():
        step["properties"][word] = {
            "type": "array", "items": {"type": "string"}, "description": f"Short for {kind} edges to these steps.",
        }  # fmt: skip


def _raw() -> Json:
    properties: Json = {
        "raw": {**HEX_SCHEMA, "description": "The record's value, each byte as two hex digits."},
        "topic": {"enum": list(TOPIC_OF.values()), "description": "The intake topic, without its prefix."},
        "key": {"type": "string", "description": "The record's key; left out for a record without one."},
    }
    return _line(properties, ["raw", "topic"], "Bytes as they would arrive.")


def _restart() -> Json:
    doc = "All memory is dropped, and restored from the log."
    return _line({"restart": {"const": True, "description": "Always true."}}, ["restart"], doc)


def _expect() -> Json:
    row: Json = {
        "type": "array",
        "items": {"type": "object"},
        "description": "Each must be met by another; [] means none.",
    }
    fact: Json = {"type": "object", "properties": {"type": {"enum": list(FACT_TYPES)}}}
    expected: Json = {
        "type": "object",
        "description": "Any part of the decision, and of the state at this point.",
        "minProperties": 1,
        "properties": {
            "verdict": {"enum": list(get_args(Verdict)), "description": "How it was decided."},
            "reason": {"enum": list(REASONS), "description": "Why, by its name in the table of reasons."},
            "type": {"enum": list(CLAIM_TYPES), "description": "Picks the decisions on claims of this type."},
            "facts": {**row, "items": fact},
            "detail": {"type": "string", "description": "The decision's sentence, word for word."},
            "subject_id": {"type": "string", "description": "What it is about, where that has an id."},
            "status": {"type": "string", "description": "The subject's status after it."},
            "state": {
                "type": "object", "properties": dict.fromkeys(STATE_PARTS, row), "additionalProperties": False,
                "description": f"Any part of what is remembered now: {', '.join(STATE_PARTS)}.",
            },
        },
        "additionalProperties": False,
    }  # fmt: skip
    of: Json = {"type": "integer", "minimum": 1, "description": "The line that it is about; left out: the one before."}
    line: Json = {"expect": expected, "of": of}
    return {
        "type": "object", "description": "Checked against the decision and the state; decides nothing.",
        "properties": line, "required": ["expect"], "additionalProperties": False,
    }  # fmt: skip
