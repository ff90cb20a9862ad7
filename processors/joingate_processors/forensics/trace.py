"""The room that reads trace files: one JSON object a line, each mistake named by its line and field.

A trace is what `joingate simulate` plays, `joingate replay` writes and `joingate submit` sends. Nothing is decided
here: a line becomes a step of the play, and what it leaves to the play (a derived id, the time) stays open.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

from joingate_processors.forensics.shapes import (
    FieldFault,
    Json,
    near_miss,
    parse_duration,
    parse_hex,
    parse_time,
    read_fields,
    record_fields,
)  # fmt: skip
from joingate_schemas.claims import CLAIM_TYPES, EVERYWHERE, EdgeKind
from joingate_schemas.decisions import ClaimTopic, Verdict
from joingate_schemas.facts import FACT_TYPES
from joingate_schemas.reasons import REASONS

TOPIC_OF: dict[str, ClaimTopic] = {
    "planner": "proposals",
    "executor": "outcomes",
    "approver": "approvals",
    "observer": "observations",
    "operator": "overrides",
    "arbiter": "resource-verdicts",
}
"""The topic that each speaker of a trace writes to, without prefix."""

STATE_PARTS = (
    "intents", "plans", "steps", "operations", "commitments", "resources", "approvals", "orphans", "in_doubt",
    "quarantines", "custodies", "owners",
)  # fmt: skip
"""What the state object of a trace's output has, and an `expect` may name."""

EDGE_WORDS: dict[str, str] = {kind.lower(): kind for kind in get_args(EdgeKind) if kind != "UNKNOWN"}
"""In a plan's step, `"requires": ["s1"]` is short for an edge of the kind REQUIRES to s1; likewise the other kinds."""

NAMES = ("step", "commitment_of", "compensation_of", "release_of", "quarantine_of")
"""What a line may say in the place of a derived id: a step's operation, its commitment, the operation that undoes it
or that releases its commitment, and the record that an earlier line had quarantined (by line number)."""

_CLOCK = ("at", "advance")
_SETTINGS = ("batch", "catalogue")
_KINDS = ("type", "raw", "restart", "expect")
_EXPECTED = ("verdict", "reason", "type", "facts", "detail", "subject_id", "status", "state")
_DEPTH_MAX = 50
_TOO_DEEP = "its values are nested too deeply to be read"


class TraceError(ValueError):
    """The trace itself is malformed: line (from 1), field, and a sentence. `joingate simulate` then exits with 2."""

    def __init__(self, line: int, field: str, sentence: str) -> None:
        place = f"line {line}" + (f", field {field}" if field else "")
        super().__init__(f"{place}: {sentence}")
        self.line = line
        self.field = field
        self.sentence = sentence


@dataclass(frozen=True)
class Clock:
    """How the line moves the clock before anything else: to `at` (ms), or by `advance` (ms), or not at all."""

    at: int | None = None
    advance: int | None = None


@dataclass(frozen=True)
class ClaimLine:
    """A claim by a speaker. `names` holds what stands in the place of derived ids, by the words of `NAMES`."""

    line: int
    clock: Clock
    speaker: str
    type: str
    fields: Json
    names: dict[str, str | int]
    said: frozenset[str]  # the fields that were written, as against those filled with defaults


@dataclass(frozen=True)
class RawLine:
    """Bytes as they would arrive on a topic; `key` None: the record has none."""

    line: int
    clock: Clock
    raw: bytes
    topic: ClaimTopic
    key: str | None


@dataclass(frozen=True)
class RestartLine:
    """All memory is dropped, and restored from the log; with `catalogue`, under that one from here on."""

    line: int
    clock: Clock
    catalogue: str | None = None


@dataclass(frozen=True)
class ClockLine:
    """Only the clock moves (or only settings are given)."""

    line: int
    clock: Clock


@dataclass(frozen=True)
class ExpectLine:
    """What the decision of line `of` must contain, and the state at this point; either may be empty."""

    line: int
    of: int | None
    decision: Json
    state: Json = field(default_factory=dict)


TraceLine: TypeAlias = ClaimLine | RawLine | RestartLine | ClockLine | ExpectLine


@dataclass(frozen=True)
class Trace:
    """A whole trace. `catalogue` is the path that its first line names, as written; None: the built-in one."""

    lines: tuple[TraceLine, ...]
    batch: int = 1
    catalogue: str | None = None


def read_trace(source: str | Path | Iterable[str | Json]) -> Trace:
    """The trace in a file, or in lines of text or ready objects. Empty lines are passed over.

    Raises TraceError where it is malformed, OSError where the file can't be read.
    """
    lines: Iterable[str | Json]
    if isinstance(source, str | Path):
        try:
            lines = Path(source).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise TraceError(1, "", f"the file is no UTF-8 text: {error}") from error
    else:
        lines = source
    objects = list(_objects(lines))
    settings = objects[0][1] if objects else {}
    read: list[TraceLine] = []
    for place, (line, written) in enumerate(objects):
        try:
            read.append(_line(line, written, first=place == 0, seen={earlier.line for earlier in read}))
        except FieldFault as fault:
            raise TraceError(line, fault.field, fault.sentence) from fault
    return Trace(tuple(read), int(settings.get("batch", 1)), settings.get("catalogue"))


def _objects(lines: Iterable[str | Json]) -> Iterator[tuple[int, Json]]:
    for line, content in enumerate(lines, start=1):
        written: Any = content
        if isinstance(content, str):
            if not content.strip():
                continue
            try:
                written = json.loads(content, object_pairs_hook=_without_repeats)
            except FieldFault as fault:
                raise TraceError(line, fault.field, fault.sentence) from fault
            except ValueError as error:
                raise TraceError(line, "", f"it is no JSON: {error}") from error
            except RecursionError as error:
                raise TraceError(line, "", _TOO_DEEP) from error
        if not isinstance(written, dict):
            raise TraceError(line, "", f"it is no JSON object but a {type(written).__name__}")
        if not _is_flat(written):
            raise TraceError(line, "", _TOO_DEEP)
        yield line, written


def _is_flat(written: object) -> bool:
    """Whether no value lies deeper than any claim's does; what walks through the line later may recurse then."""
    level = [written]
    for _ in range(_DEPTH_MAX):
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    return not any(isinstance(one, dict | list) for one in level)


def _without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    # JSON readers keep the last of two equal names without a word; in a test of a gate that would hide a claim's field.
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = next(name for place, (name, _) in enumerate(pairs) if name in [other for other, _ in pairs[:place]])
        raise FieldFault(twice, "it is given twice")
    return members


def _line(line: int, written: Json, *, first: bool, seen: set[int]) -> TraceLine:
    _check_settings(written, first=first)
    clock = _clock(written)
    rest = {key: value for key, value in written.items() if key not in (*_CLOCK, *_SETTINGS)}
    kinds = [kind for kind in _KINDS if kind in rest]
    if len(kinds) > 1:
        raise FieldFault(kinds[1], f"a line is one thing: it can't have `{kinds[0]}` as well")
    match kinds:
        case ["type"]:
            return _claim(line, clock, rest)
        case ["raw"]:
            return _raw(line, clock, rest)
        case ["restart"]:
            _only(rest, ("restart",))
            if rest["restart"] is not True:
                raise FieldFault("restart", f"{rest['restart']!r} is not true")
            return RestartLine(line, clock, written.get("catalogue"))
        case ["expect"]:
            if clock != Clock():
                raise FieldFault("expect", "an expectation moves no clock; put `at` or `advance` on a line of its own")
            return _expect(line, rest, seen)
        case _:
            _only(rest, ())
            return ClockLine(line, clock)


def _check_settings(written: Json, *, first: bool) -> None:
    for setting in _SETTINGS:
        comes_back = setting == "catalogue" and "restart" in written
        if setting in written and not first and not comes_back:
            raise FieldFault(setting, "it belongs on the first line")
    batch, catalogue = written.get("batch", 1), written.get("catalogue", "x")
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise FieldFault("batch", f"{batch!r} is no number of claims; write 1 or more")
    if not isinstance(catalogue, str) or not catalogue:
        raise FieldFault("catalogue", f"{catalogue!r} is no path; name a file beside the trace")
    # A trace comes with a bug's report, from anybody: it may read what came with it, and nothing else.
    if Path(catalogue).is_absolute() or ".." in Path(catalogue).parts:
        raise FieldFault("catalogue", f"{catalogue!r} leads elsewhere; put the file beside the trace")


def _clock(written: Json) -> Clock:
    if "at" in written and "advance" in written:
        raise FieldFault("advance", "give `at` or `advance`, not both")
    at = parse_time(written["at"], "at") if "at" in written else None
    return Clock(at, parse_duration(written["advance"], "advance") if "advance" in written else None)


def _only(rest: Json, allowed: tuple[str, ...]) -> None:
    for key in rest:
        if key not in allowed:
            known = (*allowed, *_CLOCK, *_SETTINGS, *(() if allowed else _KINDS))
            raise FieldFault(key, f"a line of this kind has no such field{near_miss(key, known)}")


# --- claims ----------------------------------------------------------------------------------------------------------


def stands_for(claim_type: str, word: str) -> frozenset[str]:
    """The fields of a claim type that `word` (of `NAMES`) stands for; empty if it may not be used with it."""
    fields = record_fields(claim_type)
    if "subject_kind" in fields and "subject_id" in fields:
        return frozenset({"subject_kind", "subject_id"}) if claim_type != "TimerFired" else frozenset()
    if word in ("step", "compensation_of", "release_of") and "operation_id" in fields:
        return frozenset({"operation_id", "attempt", "digest"} & fields.keys())
    if word == "commitment_of" and "commitment_id" in fields:
        return frozenset({"commitment_id"})
    return frozenset()


def _claim(line: int, clock: Clock, rest: Json) -> ClaimLine:
    speaker = rest.get("as")
    if speaker is None:
        raise FieldFault("as", f"say who speaks: {', '.join(TOPIC_OF)}")
    if speaker not in TOPIC_OF:
        raise FieldFault("as", f"{speaker!r} speaks on no topic{near_miss(str(speaker), TOPIC_OF)}")
    claim_type = rest["type"]
    if claim_type not in CLAIM_TYPES:
        raise FieldFault("type", f"{claim_type!r} is no claim{near_miss(str(claim_type), CLAIM_TYPES)}")
    names, fills = _names(claim_type, rest)
    written = {key: value for key, value in rest.items() if key not in ("as", "type", *NAMES)}
    if claim_type in EVERYWHERE:
        written.setdefault("intent_id", "")
    for key in written:
        _hint_at_names(claim_type, key)
    fields = read_fields(claim_type, written, _with_edges, fills | {"claim_id"})
    return ClaimLine(line, clock, speaker, claim_type, fields, names, frozenset(written))


def _names(claim_type: str, rest: Json) -> tuple[dict[str, str | int], frozenset[str]]:
    given = [word for word in NAMES if word in rest]
    if not given:
        return {}, frozenset()
    if len(given) > 1:
        raise FieldFault(given[1], f"it can't stand beside `{given[0]}`: both name the subject")
    word = given[0]
    fills = stands_for(claim_type, word)
    if not fills:
        own = "step_id" if word == "step" and "step_id" in record_fields(claim_type) else ""
        raise FieldFault(word, f"{claim_type} has nothing that it could stand for" + (f"; use {own}" if own else ""))
    for key in ("operation_id", "commitment_id", "subject_id"):
        if key in fills and key in rest:
            raise FieldFault(word, f"it stands for {key}, which is given too")
    name, wanted = rest[word], int if word == "quarantine_of" else str
    if isinstance(name, bool) or not isinstance(name, wanted) or not name:
        raise FieldFault(word, f"{name!r} is no {'line number' if wanted is int else 'step id'}")
    return {word: name}, fills


def _hint_at_names(claim_type: str, key: str) -> None:
    # The two words are easily taken for each other: a Dispatch has the field step_id, a Commit has an operation.
    if key == "step_id" and "step_id" not in record_fields(claim_type) and stands_for(claim_type, "step"):
        raise FieldFault(key, f"{claim_type} has no such field; did you mean 'step', which stands for its operation?")


def _with_edges(record_type: str, written: Json, at: str) -> Json:
    if record_type != "PlanStep" or not any(word in written for word in EDGE_WORDS):
        return written
    edges = list(written.get("edges", ()))
    for word, kind in EDGE_WORDS.items():
        targets = written.get(word, [])
        if not isinstance(targets, list):
            raise FieldFault(f"{at}.{word}", f"{targets!r} is no list of step ids")
        edges += [{"kind": kind, "step_id": target} for target in targets]
    return {**{key: value for key, value in written.items() if key not in EDGE_WORDS}, "edges": edges}


def _raw(line: int, clock: Clock, rest: Json) -> RawLine:
    _only(rest, ("raw", "topic", "key"))
    topic = rest.get("topic")
    if topic not in TOPIC_OF.values():
        raise FieldFault("topic", f"{topic!r} is no intake topic{near_miss(str(topic), TOPIC_OF.values())}")
    key = rest.get("key")
    if key is not None and not isinstance(key, str):
        raise FieldFault("key", f"{key!r} is no text; leave it out for a record without a key")
    return RawLine(line, clock, parse_hex(rest["raw"], "raw"), cast(ClaimTopic, topic), key)


# --- expectations ----------------------------------------------------------------------------------------------------


def _expect(line: int, rest: Json, seen: set[int]) -> ExpectLine:
    _only(rest, ("expect", "of"))
    expected, of = rest["expect"], rest.get("of")
    if not isinstance(expected, dict) or not expected:
        raise FieldFault("expect", f"it must be an object with any of {', '.join(_EXPECTED)}")
    for key in expected:
        if key not in _EXPECTED:
            raise FieldFault(f"expect.{key}", f"there is no such thing to expect{near_miss(key, _EXPECTED)}")
    _known(expected, "verdict", get_args(Verdict))
    _known(expected, "reason", REASONS)
    _known(expected, "type", CLAIM_TYPES)
    _check_facts(expected.get("facts", []))
    state = _checked_state(expected.get("state", {}))
    decision = {key: value for key, value in expected.items() if key != "state"}
    if of is not None and (isinstance(of, bool) or not isinstance(of, int) or of not in seen):
        raise FieldFault("of", f"{of!r} is no line before this one")
    if of is not None and not decision:
        raise FieldFault("of", "the state is that of now; `of` is for what a decision must contain")
    return ExpectLine(line, of, decision, state)


def _known(expected: Json, key: str, words: Iterable[str]) -> None:
    names = list(words)
    if key in expected and expected[key] not in names:
        raise FieldFault(f"expect.{key}", f"{expected[key]!r} is no {key}{near_miss(str(expected[key]), names)}")


def _check_facts(facts: object) -> None:
    if not isinstance(facts, list):
        raise FieldFault("expect.facts", f"{facts!r} is no list")
    for place, fact in enumerate(facts):
        at = f"expect.facts[{place}]"
        if not isinstance(fact, dict):
            raise FieldFault(at, f"{fact!r} is no object")
        name = fact.get("type")
        if name is None:
            continue
        if name not in FACT_TYPES:
            raise FieldFault(f"{at}.type", f"{name!r} is no fact{near_miss(str(name), FACT_TYPES)}")
        for key in fact:
            if key not in ("type", *NAMES) and key not in record_fields(name):
                raise FieldFault(f"{at}.{key}", f"{name} has no such field{near_miss(key, record_fields(name))}")


def _checked_state(state: object) -> Json:
    if not isinstance(state, dict):
        raise FieldFault("expect.state", f"{state!r} is no object")
    for part, rows in state.items():
        if part not in STATE_PARTS:
            raise FieldFault(f"expect.state.{part}", f"the state has no such part{near_miss(part, STATE_PARTS)}")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise FieldFault(f"expect.state.{part}", "it must be a list of objects; an empty one means: none")
    return state
