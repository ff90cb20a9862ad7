"""The codec: what goes in comes out, as any other Avro library would have it, and nothing bad comes out as anything."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import types
import typing
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joingate_schemas.claims import Dispatch, Plan
from joingate_schemas.codec import RECORD_TYPES, Codec, Undecodable, Unencodable, UnknownFact
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import FACT_TYPES, OperationOpened

Example = Callable[..., Any]
CODEC = Codec()
_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    type(None): st.none(),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that the annotation allows, as it comes out of the decoder: nothing is left out of a dictionary."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.NotRequired:
        return values(args[0])
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values, args))
    if origin is list:
        return st.lists(values(args[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=8), values(args[1]), max_size=3)
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return st.fixed_dictionaries({key: values(part) for key, part in hints.items()})
    if dataclasses.is_dataclass(hint):
        return records(typing.cast(type, hint))
    return _LEAVES[hint]


def records(cls: type) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: values(hint) for name, hint in typing.get_type_hints(cls).items()})


def peer_schema(name: str) -> Any:
    """Our published schema as another library reads it; times stay numbers."""
    text = CODEC.schema_json(RECORD_TYPES[name]).replace(',"logicalType":"timestamp-millis"', "")
    return fastavro.parse_schema(json.loads(text))


# --- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(RECORD_TYPES))
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_record_comes_back_as_it_went(name: str, data: st.DataObject) -> None:
    record = data.draw(records(RECORD_TYPES[name]))
    assert CODEC.decode(CODEC.encode(record)) == record


@pytest.mark.parametrize("name", sorted(FACT_TYPES))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_fact_comes_back_as_an_object_of_its_class(name: str, data: st.DataObject, example: Example) -> None:
    fact = data.draw(records(FACT_TYPES[name]))
    decision = example(Decision, facts=[fact])
    back = CODEC.decode(CODEC.encode(decision))
    assert isinstance(back, Decision)
    assert back.facts == [fact]
    assert type(back.facts[0]) is FACT_TYPES[name]


@pytest.mark.parametrize("name", sorted(RECORD_TYPES))
def test_another_avro_library_reads_what_we_write_and_we_read_what_it_writes(name: str, example: Example) -> None:
    record = example(RECORD_TYPES[name])
    plain = dict(record.__dict__)
    if name == "Decision":
        plain["facts"] = [(f"joingate.{type(fact).__name__}", fact.__dict__) for fact in record.facts]
    ours = CODEC.encode(record)
    theirs = io.BytesIO()
    fastavro.schemaless_writer(theirs, peer_schema(name), plain)
    assert ours[10:] == theirs.getvalue()
    read: Any = fastavro.schemaless_reader(
        io.BytesIO(ours[10:]), peer_schema(name), None, return_record_name=True, return_record_name_override=True
    )
    assert read == plain
    assert CODEC.decode(ours[:10] + theirs.getvalue()) == record


@pytest.mark.parametrize("length", range(1, 11), ids=lambda n: f"{n}-bytes")
def test_numbers_of_every_length_are_written_and_read_as_another_avro_library_does(
    length: int, example: Example
) -> None:
    """Both ends of what takes so many bytes on the wire, above and below zero; some lengths have ways of their own."""
    low, high = (1 << 7 * (length - 1)) >> 1, (min(1 << 7 * length, 1 << 64) >> 1) - 1
    schema = json.loads(CODEC.schema_json(Decision))
    for number in (low, low + 1, high - 1, high, -low - 1, -high, -high - 1):
        decision = dataclasses.replace(example(Decision), offset=number, detail="x" * (abs(number) % 100))
        written = CODEC.encode(decision)
        read = fastavro.schemaless_reader(io.BytesIO(written[10:]), schema, None)
        assert isinstance(read, dict)
        assert read["offset"] == number
        assert CODEC.decode(written) == decision


def test_arrays_and_maps_in_several_blocks_and_with_sizes_are_read_as_any_other(example: Example) -> None:
    """Other writers split long arrays, and put the size of a block in front of it."""
    record = example(Plan, steps=[], commitments=["a", "b", "c"])
    whole = CODEC.encode(record)
    one_block = b"\x06\x02a\x02b\x02c\x00"
    assert whole.endswith(one_block)
    blocks = b"\x02\x02a" + b"\x03\x08\x02b\x02c" + b"\x00"
    assert CODEC.decode(whole[: -len(one_block)] + blocks) == record


def test_what_a_nested_dictionary_leaves_out_is_written_as_its_default() -> None:
    plan = Plan(
        claim_id="c", intent_id="i", intent_version=1, plan_id="p", commitments=[],
        steps=[{"step_id": "s1", "action": "notify"}],
    )  # fmt: skip
    back = CODEC.decode(CODEC.encode(plan))
    assert isinstance(back, Plan)
    assert back.steps == [
        {
            "step_id": "s1", "action": "notify", "business_key": "", "arguments": {}, "goal_id": None, "edges": [],
            "parallel": False, "commitments": [], "condition": None,
        }
    ]  # fmt: skip


def test_a_number_keeps_its_kind_within_arguments(example: Example) -> None:
    """12, 12.0, "12" and true mean different things on the wire, as they do to the law's digest."""
    record = example(Dispatch, arguments={"i": 12, "f": 12.0, "s": "12", "b": True, "n": None})
    back = CODEC.decode(CODEC.encode(record))
    assert isinstance(back, Dispatch)
    assert back.arguments is not None
    assert {k: type(v) for k, v in back.arguments.items()} == {
        "i": int, "f": float, "s": str, "b": bool, "n": type(None),
    }  # fmt: skip


# --- headers ---------------------------------------------------------------------------------------------------------


def test_the_header_names_the_schema_and_can_be_read_alone(codec: Codec, example: Example) -> None:
    value = codec.encode(example(Dispatch))
    assert value[:2] == b"\xc3\x01"
    assert value[2:10] == codec.fingerprint_of(Dispatch)
    assert codec.record_type_of(value[:10]) == "Dispatch"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "UNREADABLE"),
        (b"", "UNREADABLE"),
        (b"\x01\x02", "UNREADABLE"),
        (b"\xc3", "UNREADABLE"),
        (b"\xc3\x01\x00", "UNREADABLE"),
        (b"\x00\x00\x00", "UNREADABLE"),
        (b'{"type": "Dispatch"}', "UNREADABLE"),
        (b"\xc3\x01" + b"\xff" * 8 + b"x", "UNKNOWN_SCHEMA"),
        (b"\x00\x00\x00\x00\x07rest", "UNKNOWN_SCHEMA"),
    ],
)
def test_a_value_without_a_known_header_is_refused_by_name(codec: Codec, value: bytes | None, problem: str) -> None:
    with pytest.raises(Undecodable) as caught:
        codec.decode(value)
    assert caught.value.problem == problem
    assert caught.value.detail


def test_a_record_type_of_somebody_elses_is_an_unknown_schema(codec: Codec) -> None:
    text = json.dumps({"type": "record", "name": "other.Invoice", "fields": [{"name": "n", "type": "long"}]})
    mark = Codec.learn(codec, text)
    with pytest.raises(Undecodable, match=r"other\.Invoice is no record type") as caught:
        codec.decode(b"\xc3\x01" + mark + b"\x02")
    assert caught.value.problem == "UNKNOWN_SCHEMA"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"long"', '{"type": "record"}', '{"type": "enum", "name": "E", "symbols": []}']
)
def test_what_is_no_record_schema_is_not_learnt(codec: Codec, text: str) -> None:
    with pytest.raises(ValueError, match=r"Avro schema|schema of a record"):
        codec.learn(text)


# --- what can't be written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"plan_id": None}, "plan_id"),
        ({"plan_id": b"p1"}, "plan_id"),
        ({"intent_version": "one"}, "intent_version"),
        ({"intent_version": 2**63}, "intent_version"),
        ({"arguments": {"a": object()}}, "arguments"),
        ({"plan_id": "\ud800"}, "surrogates"),
    ],
)
def test_a_field_that_does_not_fit_is_named(codec: Codec, example: Example, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(Unencodable, match=rf"The Dispatch can't be written.*{told}"):
        codec.encode(example(Dispatch, **fields))


def test_a_missing_field_an_unknown_symbol_and_an_unknown_fact_are_refused(codec: Codec, example: Example) -> None:
    dispatch = example(Dispatch)
    del dispatch.__dict__["plan_id"]
    with pytest.raises(Unencodable, match="no field plan_id"):
        codec.encode(dispatch)
    with pytest.raises(Unencodable, match="verdict"):
        codec.encode(example(Decision, verdict="MAYBE"))
    with pytest.raises(Unencodable, match="Decision can't be written"):
        codec.encode(example(Decision, facts=[UnknownFact("Later", {})]))
    with pytest.raises(Unencodable, match="no record of Join Gate"):
        codec.encode(example(OperationOpened))


# --- garbage ---------------------------------------------------------------------------------------------------------


def test_a_record_cut_short_or_with_bytes_left_over_is_unreadable(codec: Codec, example: Example) -> None:
    value = codec.encode(example(Plan))
    for end in range(10, len(value)):
        with pytest.raises(Undecodable):
            codec.decode(value[:end])
    with pytest.raises(Undecodable, match="1 bytes are left over"):
        codec.decode(value + b"\x00")


@pytest.mark.parametrize(
    "datum",
    [
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a text of 2**62 bytes
        b"\x01abc",  # a text of -1 bytes
        b"\xff" * 11,  # a number that never ends
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a number of more than 64 bits
        b"\x02\xff",  # a text that is no UTF-8
    ],
)
def test_lengths_that_lie_are_refused_without_being_believed(codec: Codec, datum: bytes) -> None:
    with pytest.raises(Undecodable) as caught:
        codec.decode(b"\xc3\x01" + codec.fingerprint_of(Dispatch) + datum + b"x" * 40)
    assert caught.value.problem == "UNREADABLE"


def test_negative_indices_and_wrong_booleans_are_refused(codec: Codec, example: Example) -> None:
    """Python would take symbol -1 from the end of the list."""
    value = codec.encode(example(Plan, commitments=[], steps=[], adopt=True))
    assert value.endswith(b"\x01\x00\x00")
    with pytest.raises(Undecodable, match="boolean"):
        codec.decode(value[:-3] + b"\x02\x00\x00")
    step = {"step_id": "s", "action": "a", "edges": [{"kind": "REQUIRES", "step_id": "t"}]}
    edged = codec.encode(example(Plan, commitments=[], steps=[step]))
    assert b"\x02\x00\x02t" in edged
    with pytest.raises(Undecodable, match="an index is negative"):
        codec.decode(edged.replace(b"\x02\x00\x02t", b"\x02\x01\x02t"))


def test_an_array_whose_items_take_no_bytes_is_not_read_at_all(codec: Codec) -> None:
    """Nine bytes could say that 2**60 of them follow, and each would be made."""
    schema = json.loads(codec.schema_json(Dispatch))
    schema["fields"].append({"name": "bomb", "type": {"type": "array", "items": "null"}})
    mark = codec.learn(json.dumps(schema))
    with pytest.raises(Undecodable, match="take no bytes") as caught:
        codec.decode(b"\xc3\x01" + mark + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")
    assert caught.value.problem == "UNKNOWN_SCHEMA"


def test_mutated_bytes_are_a_record_or_undecodable_and_never_anything_else(codec: Codec, example: Example) -> None:
    chance = random.Random(20261130)
    originals = [codec.encode(example(cls)) for cls in RECORD_TYPES.values()]
    refused = 0
    for _ in range(4000):
        value = bytearray(chance.choice(originals))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(10, len(value))
            match chance.randrange(3):
                case 0:
                    value[at] = chance.randrange(256)
                case 1:
                    del value[at : at + chance.randint(1, 8)]
                    value += b"\x00" * (11 - len(value))
                case _:
                    value[at:at] = chance.randbytes(chance.randint(1, 8))
        try:
            assert type(codec.decode(bytes(value))) in RECORD_TYPES.values()
        except Undecodable:
            refused += 1
    assert refused > 1000
