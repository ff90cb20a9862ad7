"""The trace language: what a line may say, how mistakes are named, how expectations are held, what comes out."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.forensics.expectations import difference
from joingate_processors.forensics.play import run_trace
from joingate_processors.forensics.shapes import parse_duration, parse_time, record_fields
from joingate_processors.forensics.trace import STATE_PARTS, TraceError, read_trace
from joingate_processors.forensics.trace_schema import trace_schema
from joingate_schemas.claims import CLAIM_TYPES
from joingate_schemas.ids import operation_id

INTENT = "acme/trace/1"
Line = dict[str, Any]
DECLARE: Line = {"as": "planner", "type": "DeclareIntent", "intent_id": INTENT, "version": 1}
STEP: Line = {"step_id": "s1", "action": "notify", "business_key": "ops"}
PLAN: Line = {
    "as": "planner", "type": "Plan", "intent_id": INTENT, "intent_version": 1, "plan_id": "p1", "steps": [STEP],
}  # fmt: skip
DISPATCH: Line = {
    "as": "planner", "type": "Dispatch", "intent_id": INTENT, "intent_version": 1, "plan_id": "p1", "step_id": "s1",
}  # fmt: skip
PREPARED: Line = {"as": "executor", "type": "Prepared", "intent_id": INTENT, "step": "s1", "executor": "messenger"}
COMMIT: Line = {"as": "executor", "type": "Commit", "intent_id": INTENT, "step": "s1", "external_id": "m-1"}
LOOK: Line = {"as": "observer", "type": "Observe", "intent_id": INTENT, "source": "cloud"}
SENT = [DECLARE, PLAN, DISPATCH, PREPARED, COMMIT]


def without(line: Line, *fields: str) -> Line:
    return {name: value for name, value in line.items() if name not in fields}


MISTAKES: list[tuple[str, Any, str, str]] = [
    ("no JSON", "{", "", "it is no JSON"),
    ("no object", "[1]", "", "no JSON object"),
    ("a field twice", '{"advance": 1, "advance": 2}', "advance", "given twice"),
    ("an unknown claim", {**DECLARE, "type": "Declareintent"}, "type", "did you mean 'DeclareIntent'?"),
    ("nobody speaks", without(DECLARE, "as"), "as", "say who speaks: planner"),
    ("an unknown speaker", {**DECLARE, "as": "Planer"}, "as", "did you mean 'planner'?"),
    ("a missing field", without(DECLARE, "version"), "version", "DeclareIntent needs it"),
    ("a misspelt field", {**DECLARE, "verison": 1}, "verison", "did you mean 'version'?"),
    ("a wrong type", {**DECLARE, "version": "1"}, "version", "'1' is no whole number"),
    ("a truth value for a number", {**DECLARE, "version": True}, "version", "no whole number"),
    ("a wrong symbol", {"as": "executor", "type": "Abort", "intent_id": INTENT, "step": "s1", "proof": "REFUSD"},
     "proof", "did you mean 'REFUSED'?"),
    ("a field within", {**PLAN, "steps": [{**STEP, "busines_key": "x"}]}, "steps[0].busines_key",
     "did you mean 'business_key'?"),
    ("an argument that can't be", {**PLAN, "steps": [{**STEP, "arguments": {"a": []}}]},
     "steps[0].arguments.a", "none of"),
    ("edges that are no list", {**PLAN, "steps": [{**STEP, "requires": "s0"}]},
     "steps[0].requires", "no list of step ids"),
    ("step_id for step", {**without(COMMIT, "step"), "step_id": "s1"}, "step_id", "did you mean 'step'"),
    ("step for step_id", {**without(DISPATCH, "step_id"), "step": "s1"}, "step", "use step_id"),
    ("two names", {**COMMIT, "release_of": "s1"}, "release_of", "can't stand beside `step`"),
    ("a name and the id", {**COMMIT, "operation_id": "x"}, "step", "it stands for operation_id"),
    ("a time without zone", {"at": "2026-11-30T10:00:00"}, "at", "end it with Z"),
    ("no duration", {"advance": "five minutes"}, "advance", "no duration"),
    ("two clocks", {"at": 1, "advance": 1}, "advance", "not both"),
    ("two things", {**DECLARE, "restart": True}, "restart", "can't have `type` as well"),
    ("an unknown thing", {"restrat": True}, "restrat", "did you mean 'restart'?"),
    ("raw that is no hex", {"raw": "0g", "topic": "proposals"}, "raw", "no hex"),
    ("raw to nowhere", {"raw": "00", "topic": "proposal"}, "topic", "did you mean 'proposals'?"),
    ("an unknown fact", {"expect": {"facts": [{"type": "OperationOpend"}]}}, "expect.facts[0].type", "OperationOpened"),
    ("an unknown field of a fact", {"expect": {"facts": [{"type": "StepSucceeded", "step": "s1", "stepid": ""}]}},
     "expect.facts[0].stepid", "did you mean 'step_id'?"),
    ("an unknown reason", {"expect": {"reason": "NOT_COMITTED"}}, "expect.reason", "did you mean 'NOT_COMMITTED'?"),
    ("an unknown part of the state", {"expect": {"state": {"operation": []}}}, "expect.state.operation", "operations"),
    ("a line to come", {"expect": {"verdict": "ACCEPTED"}, "of": 9}, "of", "no line before this one"),
    ("an expectation that moves time", {"expect": {"verdict": "ACCEPTED"}, "advance": 1}, "expect", "moves no clock"),
    ("a setting too late", {"batch": 2}, "batch", "belongs on the first line"),
    ("a catalogue too late", {"catalogue": "next.yaml"}, "catalogue", "belongs on the first line"),
    ("a catalogue from elsewhere", {"restart": True, "catalogue": "../next.yaml"}, "catalogue", "leads elsewhere"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "field", "sentence"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_named_by_line_and_field(line: Any, field: str, sentence: str) -> None:
    """Whoever wrote the trace is told where to look and what was probably meant."""
    with pytest.raises(TraceError) as caught:
        read_trace([json.dumps(DECLARE), "", line])
    assert (caught.value.line, caught.value.field) == (3, field)
    assert sentence in caught.value.sentence
    assert str(caught.value).startswith("line 3")


@pytest.mark.parametrize(
    ("lines", "field"),
    [([DECLARE, PREPARED], "step"), ([DECLARE, {**COMMIT, "release_of": "s1", "step": None}], "release_of"),
     ([{"at": 10}, {"at": 9}], "at"), ([{"catalogue": "nowhere.yaml"}], "catalogue"),
     ([DECLARE, {"restart": True, "catalogue": "nowhere.yaml"}], "catalogue")],
    ids=["a step of no plan", "two names", "backwards", "no such catalogue", "no such catalogue after a restart"],
)  # fmt: skip
def test_mistakes_that_show_only_in_playing_are_named_too(lines: list[Line], field: str) -> None:
    """They end the trace with the line and field, not with a traceback."""
    with pytest.raises(TraceError) as caught:
        run_trace(lines)
    assert (caught.value.line, caught.value.field) == (len(lines), field)


def test_a_restart_may_bring_another_catalogue(tmp_path: Path) -> None:
    """What was decided stays; what is asked from then on goes by the new one."""
    again = {**PLAN, "plan_id": "p2", "replaces": "p1"}
    (tmp_path / "next.yaml").write_text(
        (files("joingate_schemas") / "builtin.yaml").read_text().replace("  notify:\n", "  announce:\n")
    )
    (tmp_path / "trace.jsonl").write_text(
        "\n".join(json.dumps(one) for one in (*SENT, {"restart": True, "catalogue": "next.yaml"}, again))
    )
    result = run_trace(tmp_path / "trace.jsonl", batch=100)
    assert [(one["type"], one["verdict"]) for one in result.decisions[-2:]] == [
        ("CatalogueChanged", "ACCEPTED"), ("Plan", "REJECTED"),
    ]  # fmt: skip
    assert result.decisions[-1]["reason"] == "UNKNOWN_ACTION"
    assert [one["status"] for one in result.state["operations"]] == ["SETTLED"]


def test_what_has_a_default_may_be_left_out() -> None:
    """The shortest honest trace: names instead of ids, generated claim ids, a principal by who speaks."""
    result = run_trace(SENT)
    assert [one["verdict"] for one in result.decisions] == ["ACCEPTED"] * 6
    assert [one["line"] for one in result.decisions] == [None, 1, 2, 3, 4, 5]
    [operation] = result.state["operations"]
    assert operation["operation_id"] == operation_id(INTENT, "notify", "ops", 1)
    assert result.exit_code == 0


def test_a_decision_comes_out_with_its_facts() -> None:
    """One object a decision, the state last if it is asked for; all of it is JSON."""
    result = run_trace(SENT)
    lines = [json.loads(json.dumps(one)) for one in result.output(state=True)]
    assert list(lines[1])[:7] == ["line", "seq", "decided_at", "type", "verdict", "reason", "facts"]
    assert lines[1]["facts"][0]["type"] == "IntentDeclared"
    assert set(lines[-1]) == set(STATE_PARTS)
    assert len(list(result.output())) == len(lines) - 1


def test_a_timer_belongs_to_the_line_that_moved_the_clock() -> None:
    """Timers are decisions of the trace like all others."""
    result = run_trace([*SENT[:3], {"advance": "31s"}])
    assert (result.decisions[-1]["type"], result.decisions[-1]["line"]) == ("TimerFired", 4)


def test_a_line_may_move_the_clock_before_its_claim() -> None:
    """The timers of the move are decided first, and the line's own decision is the claim's."""
    result = run_trace(
        [*SENT[:3], {**PREPARED, "advance": "31s"}, {"expect": {"type": "Prepared", "verdict": "ACCEPTED"}}]
    )
    assert [(one["line"], one["type"]) for one in result.decisions[-2:]] == [(4, "TimerFired"), (4, "Prepared")]
    assert not result.failures


def test_edges_may_be_written_short() -> None:
    """`requires` and its siblings stand for edges of that kind, beside edges written out."""
    steps = [STEP, {"step_id": "s2", "action": "close_ticket", "business_key": "T", "requires": ["s1"],
                    "enables": ["s1"], "edges": [{"kind": "PREFERS", "step_id": "s1"}]}]  # fmt: skip
    result = run_trace([DECLARE, {**PLAN, "steps": steps}])
    edges = result.decisions[-1]["facts"][0]["steps"][1]["edges"]
    assert [(edge["kind"], edge["step_id"]) for edge in edges] == [
        ("PREFERS", "s1"),
        ("REQUIRES", "s1"),
        ("ENABLES", "s1"),
    ]


def test_a_planners_commit_can_be_tried() -> None:
    """The role is the topic's, whatever the claim says."""
    result = run_trace(
        [*SENT[:3], {**COMMIT, "as": "planner"}, {"expect": {"verdict": "REJECTED", "reason": "WRONG_ROLE"}}]
    )
    assert not result.failures


def test_a_name_goes_with_observations_and_overrides() -> None:
    """`step` names an operation, `commitment_of` a commitment, wherever a subject is asked for."""
    window = {"step_id": "s1", "action": "reserve_window", "business_key": "prod"}
    result = run_trace([
        DECLARE, {**PLAN, "steps": [window]}, DISPATCH, {**PREPARED, "executor": "cloud"}, COMMIT,
        {**LOOK, "commitment_of": "s1", "finding": "PRESENT"},
        {"expect": {"verdict": "ACCEPTED", "status": "ACTIVE"}},
        {**LOOK, "step": "s1", "finding": "NOT_FOUND"},
        {"expect": {"verdict": "ACCEPTED", "status": "SETTLED"}},
    ])  # fmt: skip
    assert not result.failures, [str(one) for one in result.failures]


def test_an_unmet_expectation_is_a_failure_that_can_be_read() -> None:
    """It says which line, what came, what was expected, and what came closest."""
    expected = {
        "verdict": "REJECTED",
        "facts": [{"type": "OperationOpened", "generation": 2}, {"type": "PermitIssued"}],
    }
    result = run_trace([*SENT[:3], {"expect": expected}])
    assert result.exit_code == 1
    text = str(result.failures[0])
    assert text.startswith("line 4: line 3 is not as expected")
    assert "Dispatch: ACCEPTED (OK)" in text
    assert 'verdict: expected "REJECTED", came "ACCEPTED"' in text
    assert "generation: expected 2, came 1" in text
    assert "PermitIssued" in text


def test_the_catalogue_lies_beside_the_trace(tmp_path: Path) -> None:
    """A trace can bring its own world along."""
    (tmp_path / "world.yaml").write_text(
        "version: '9'\n"
        "downstreams:\n  post: {capabilities: [NONE]}\n"
        "actions:\n  send: {downstream: post, effect: IRREVERSIBLE, kind: RETRYABLE}\n"
    )
    trace = tmp_path / "trace.jsonl"
    lines = [{"catalogue": "world.yaml", **DECLARE}, {**PLAN, "steps": [{**STEP, "action": "send"}]}, DISPATCH]
    trace.write_text("\n".join(json.dumps(line) for line in lines))
    result = run_trace(trace)
    assert [one["verdict"] for one in result.decisions] == ["ACCEPTED"] * 4
    assert result.decisions[0]["facts"][0]["version"] == "9"


@pytest.mark.parametrize("path", ["/etc/world.yaml", "../world.yaml", "worlds/../../world.yaml"])
def test_a_trace_reads_nothing_that_did_not_come_with_it(path: str) -> None:
    """It may be anybody's: a bug's report, or a client's conformance suite."""
    with pytest.raises(TraceError, match="leads elsewhere") as caught:
        read_trace([json.dumps({"catalogue": path, **DECLARE})])
    assert (caught.value.line, caught.value.field) == (1, "catalogue")


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"goals": ' + "[" * 100_000, "[" * 300 + "]" * 300, '{"a":' * 60 + "1" + "}" * 60]
)
def test_what_is_nested_too_deeply_is_a_mistake_of_the_trace(line: str) -> None:
    with pytest.raises(TraceError):
        read_trace([line])


@pytest.mark.parametrize(
    ("expected", "actual", "met"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 2}, {"a": 1}, False),
        ({"c": None}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({"l": []}, {"l": []}, True),
        ({"l": []}, {"l": [1]}, False),
        ({"l": [1]}, {"l": [2, 1]}, True),
        ({"l": [1, 1]}, {"l": [2, 1]}, False),
        ({"l": [{}, {"x": 1}]}, {"l": [{"x": 1}, {"y": 1}]}, True),
        ({"t": "1970-01-01T00:00:01Z"}, {"t": 1000}, True),
        ({"t": "1970-01-01T00:00:02Z"}, {"t": 1000}, False),
        ({"v": 1}, {"v": True}, False),
        ({"v": 12}, {"v": 12.0}, True),
    ],
)
def test_what_is_expected_is_a_part_of_what_came(expected: Line, actual: Line, met: bool) -> None:
    """Members may be left out; list items are met by different ones in any order; an empty list means none."""
    assert (difference(expected, actual) == []) is met


def test_durations_and_times_are_read_as_people_write_them() -> None:
    """All units, sums of them, and plain milliseconds."""
    written = ["250ms", "5s", "10m", "2h", "1d", "1h30m", "0.5s", 7]
    read = [parse_duration(one, "advance") for one in written]
    assert read == [250, 5_000, 600_000, 7_200_000, 86_400_000, 5_400_000, 500, 7]
    assert (
        parse_time("2026-11-30T11:00:00+01:00", "at") == parse_time("2026-11-30T10:00:00Z", "at") == 1_796_032_800_000
    )


def test_the_schema_explains_every_field_of_every_claim() -> None:
    """It is made from the records' schemas, so that neither can have a field that the other lacks."""
    defs = trace_schema()["$defs"]
    for name in CLAIM_TYPES:
        properties = defs[name]["properties"]
        assert set(record_fields(name)) <= set(properties)
        assert all(properties[field].get("description") for field in record_fields(name))
    required = set(defs["Commit"]["required"])
    assert required == {"as", "type", "intent_id"}
    assert {"required": ["step"]} in defs["Commit"]["anyOf"]
    references = {part.split('"')[0] for part in json.dumps(trace_schema()).split('"#/$defs/')[1:]}
    assert references <= set(defs)


def test_the_schema_knows_every_line_of_the_field_cases() -> None:
    """What the reader takes, the schema offers."""
    defs = trace_schema()["$defs"]
    for path in (Path(__file__).parents[1] / "scenarios" / "traces").glob("*.jsonl"):
        for text in filter(None, path.read_text().splitlines()):
            line = json.loads(text)
            name = line.get("type") or {"raw": "RawLine", "restart": "RestartLine", "expect": "ExpectLine"}.get(
                next(iter(line.keys() - {"at", "advance"}), ""), "ClockLine"
            )
            if "raw" in line:
                name = "RawLine"
            if "expect" in line:
                name = "ExpectLine"
            assert set(line) <= set(defs[name]["properties"]), f"{path.name}: {text}"
