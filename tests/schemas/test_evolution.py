"""Field case C22: every version of a schema reads what every other wrote, wherever in the record it changed.

A version is a text that stands for a release; writer and reader are made from the two, in both directions.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import fastavro
import pytest

from joingate_schemas.claims import Observe, Plan
from joingate_schemas.codec import Codec, Undecodable, UnknownFact
from joingate_schemas.decisions import Decision
from joingate_schemas.evolution import UnusableSchema, reader_for
from joingate_schemas.facts import OrphanCleared

Example = Callable[..., Any]
SYMBOLS = {
    0: ["ACTIVE", "UNKNOWN"],
    1: ["ACTIVE", "RELEASED", "UNKNOWN"],
    2: ["TRANSFER_PENDING", "RELEASED", "ACTIVE", "UNKNOWN"],
}
VERSIONS = sorted(SYMBOLS)


def wrote(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return out.getvalue()


def read(written: Any, wanted: Any, data: bytes) -> Any:
    value, end = reader_for(written, wanted, {})(data, 0)
    assert end == len(data)
    return value


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "joingate", "fields": list(fields)}


def state(version: int) -> dict[str, Any]:
    return {"type": "enum", "name": "State", "namespace": "joingate", "symbols": SYMBOLS[version], "default": "UNKNOWN"}


def expected(symbol: str, version: int) -> str:
    return symbol if symbol in SYMBOLS[version] else "UNKNOWN"


# Where the enum stands, and how a datum holds it there: plain, in a nullable union, and deeper.
PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[str], Any]]] = {
    "plain": (lambda enum: enum, lambda symbol: symbol),
    "nullable": (lambda enum: ["null", enum], lambda symbol: symbol),
    "array": (lambda enum: {"type": "array", "items": enum}, lambda symbol: [symbol, symbol]),
    "map": (lambda enum: {"type": "map", "values": enum}, lambda symbol: {"k": symbol}),
    "array of nullable": (lambda enum: {"type": "array", "items": ["null", enum]}, lambda symbol: [None, symbol]),
    "record": (lambda enum: record({"name": "s", "type": enum}, name="Inner"), lambda symbol: {"s": symbol}),
    "nullable record in a map": (
        lambda enum: {"type": "map", "values": ["null", record({"name": "s", "type": ["null", enum]}, name="Inner")]},
        lambda symbol: {"k": {"s": symbol}, "n": None},
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("old", "new"), list(product(VERSIONS, VERSIONS)))
def test_an_enum_reads_across_all_pairs_of_versions_and_an_unknown_symbol_becomes_unknown(
    place: str, old: int, new: int
) -> None:
    around, holding = PLACES[place]
    written = record({"name": "f", "type": around(state(old))})
    wanted = record({"name": "f", "type": around(state(new))})
    for symbol in SYMBOLS[old]:
        data = wrote(written, {"f": holding(symbol)})
        assert read(written, wanted, data) == {"f": holding(expected(symbol, new))}


@pytest.mark.parametrize(("old", "new"), list(product(VERSIONS, VERSIONS)))
def test_a_named_type_whose_definition_moved_reads_across_all_pairs_of_versions(old: int, new: int) -> None:
    """Written in full at its first use and named at its second; a field in between changes which one that is."""
    first = record({"name": "a", "type": ["null", state(old)]}, {"name": "b", "type": ["null", "joingate.State"]})
    moved = record({"name": "b", "type": ["null", state(new)]}, {"name": "a", "type": ["null", "joingate.State"]})
    for a, b in product([None, *SYMBOLS[old]], repeat=2):
        result = read(first, moved, wrote(first, {"a": a, "b": b}))
        assert result == {"a": a and expected(a, new), "b": b and expected(b, new)}


def test_an_enum_that_has_become_nullable_or_has_ceased_to_be_still_reads() -> None:
    plain, nullable = record({"name": "f", "type": state(2)}), record({"name": "f", "type": ["null", state(1)]})
    assert read(plain, nullable, wrote(plain, {"f": "TRANSFER_PENDING"})) == {"f": "UNKNOWN"}
    assert read(nullable, plain, wrote(nullable, {"f": "RELEASED"})) == {"f": "RELEASED"}
    with pytest.raises(ValueError, match="null was written where the reader has enum"):
        read(nullable, plain, wrote(nullable, {"f": None}))


def test_an_unknown_symbol_without_a_default_is_refused_and_not_guessed() -> None:
    bare = {**state(0)}
    del bare["default"]
    written, wanted = record({"name": "f", "type": state(1)}), record({"name": "f", "type": bare})
    with pytest.raises(ValueError, match="not known and has no default"):
        read(written, wanted, wrote(written, {"f": "RELEASED"}))


def test_missing_fields_take_the_readers_defaults_each_time_anew_and_unknown_fields_are_dropped() -> None:
    written = record({"name": "a", "type": "long"}, {"name": "gone", "type": {"type": "map", "values": "bytes"}})
    inner = record({"name": "x", "type": "string", "default": "y"}, name="Inner")
    wanted = record(
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "a", "type": "long"},
        {"name": "c", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "d", "type": "bytes", "default": "\u00ff"},
        {"name": "e", "type": "double", "default": 1},
        {"name": "f", "type": inner, "default": {}},
    )
    data = wrote(written, {"a": 7, "gone": {"k": b"v"}})
    once, again = read(written, wanted, data), read(written, wanted, data)
    assert once == {"b": None, "a": 7, "c": [], "d": b"\xff", "e": 1.0, "f": {"x": "y"}}
    assert list(once) == ["b", "a", "c", "d", "e", "f"]
    assert once["c"] is not again["c"]
    assert once["f"] is not again["f"]


def test_a_missing_field_without_a_default_is_named() -> None:
    written, wanted = record({"name": "a", "type": "long"}), record({"name": "b", "type": "long"})
    with pytest.raises(ValueError, match=r"field b of joingate\.R was not written"):
        read(written, wanted, wrote(written, {"a": 1}))


@pytest.mark.parametrize(
    ("old", "new", "value", "result"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "ü", "ü".encode()),
        ("bytes", "string", "ü".encode(), "ü"),
        ("long", ["null", "double"], 5, 5.0),
        (["null", "long"], ["null", "double", "string"], 5, 5.0),
        ("string", ["bytes", "string"], "s", "s"),
    ],
)
def test_values_are_promoted_and_an_equal_type_goes_first(old: Any, new: Any, value: Any, result: Any) -> None:
    written, wanted = record({"name": "f", "type": old}), record({"name": "f", "type": new})
    out = read(written, wanted, wrote(written, {"f": value}))["f"]
    assert (out, type(out)) == (result, type(result))


def test_a_renamed_field_and_a_renamed_type_are_found_by_their_aliases() -> None:
    written = record({"name": "was", "type": record({"name": "x", "type": "long"}, name="Old")})
    inner = {**record({"name": "x", "type": "long"}, name="New"), "aliases": ["Old"]}
    wanted = record({"name": "now", "aliases": ["was"], "type": inner})
    assert read(written, wanted, wrote(written, {"was": {"x": 3}})) == {"now": {"x": 3}}


def test_a_type_that_contains_itself_reads_and_one_nested_too_deeply_is_refused() -> None:
    node = record({"name": "v", "type": "long"}, {"name": "next", "type": ["null", "joingate.Node"]}, name="Node")
    data = wrote(node, {"v": 1, "next": {"v": 2, "next": None}})
    assert read(node, node, data) == {"v": 1, "next": {"v": 2, "next": None}}
    deep: Any = "long"
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UnusableSchema, match="nested too deeply"):
        reader_for(record({"name": "f", "type": deep}), record(), {})


# --- through the codec: our own records, as an older and a newer release would write them ----------------------------


def written_by_another_release(codec: Codec, schema: dict[str, Any], datum: dict[str, Any]) -> bytes:
    return b"\xc3\x01" + codec.learn(json.dumps(schema)) + wrote(schema, datum)


def test_a_claim_of_an_older_release_gets_the_defaults_and_one_of_a_newer_loses_what_we_do_not_know(
    codec: Codec, example: Example
) -> None:
    plan = example(Plan, adopt=True, replaces=None)
    schema = json.loads(codec.schema_json(Plan))
    older = {**schema, "fields": [f for f in schema["fields"] if f["name"] not in ("adopt", "replaces", "signature")]}
    newer = {**schema, "fields": [{"name": "mood", "type": "string"}, *schema["fields"]]}
    old = codec.decode(written_by_another_release(codec, older, {**plan.__dict__}))
    new = codec.decode(written_by_another_release(codec, newer, {**plan.__dict__, "mood": "good"}))
    assert old == Plan(**{**plan.__dict__, "signature": None})
    assert new == plan
    assert list(new.__dict__) == list(plan.__dict__)


def test_a_new_symbol_in_a_nullable_enum_of_a_claim_reads_as_unknown(codec: Codec, example: Example) -> None:
    observe = example(Observe)
    text = codec.schema_json(Observe).replace('"SECOND_LOOK"', '"SECOND_LOOK","ORACLE"')
    value = written_by_another_release(codec, json.loads(text), {**observe.__dict__, "proof": "ORACLE"})
    assert codec.decode(value) == Observe(**{**observe.__dict__, "proof": "UNKNOWN"})


def test_a_fact_that_this_release_does_not_know_is_kept_as_it_was_written(codec: Codec, example: Example) -> None:
    schema = json.loads(codec.schema_json(Decision))
    facts = next(field for field in schema["fields"] if field["name"] == "facts")
    facts["type"]["items"].insert(0, record({"name": "what", "type": "string"}, name="LaterFact"))
    known = example(OrphanCleared)
    decision = example(Decision, facts=[known])
    datum = {
        **decision.__dict__,
        "facts": [("joingate.LaterFact", {"what": "x"}), ("joingate.OrphanCleared", known.__dict__)],
    }
    back = codec.decode(written_by_another_release(codec, schema, datum))
    assert isinstance(back, Decision)
    assert list(back.facts) == [UnknownFact("LaterFact", {"what": "x"}), known]


def test_a_record_that_another_release_wrote_and_we_have_no_place_for_is_unreadable(codec: Codec) -> None:
    schema = json.loads(codec.schema_json(Plan))
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "plan_id"]
    datum = {"claim_id": "c", "intent_id": "i", "intent_version": 1, "steps": [], "commitments": []}
    with pytest.raises(Undecodable, match="plan_id") as caught:
        codec.decode(written_by_another_release(codec, schema, datum))
    assert caught.value.problem == "UNREADABLE"
