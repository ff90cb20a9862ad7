"""The command line without a broker: what each command says, its exit codes, and that errors are sentences."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from joingate.cli import app
from joingate.settings import load_settings, variables
from joingate_processors.forensics.scenario import STEPS_ASKED_MAX
from joingate_schemas.reasons import REASONS

ROOT = Path(__file__).resolve().parents[2]
INTENT = "acme/release/4.2"
DECLARE = {"as": "planner", "type": "DeclareIntent", "intent_id": INTENT, "version": 1, "goals": []}
PLAN = {
    "as": "planner", "type": "Plan", "intent_id": INTENT, "intent_version": 1, "plan_id": "p1",
    "steps": [{"step_id": "s1", "action": "write_file", "business_key": "notes"}],
}  # fmt: skip
SUCCEED = {
    "as": "planner", "type": "Succeed", "intent_id": INTENT, "intent_version": 1, "plan_id": "p1", "step_id": "s1",
}  # fmt: skip


def trace(folder: Path, *lines: dict[str, Any]) -> Path:
    """A trace's file."""
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, groups included."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


EVERY = [words for words, _ in commands()]


# --- simulate --------------------------------------------------------------------------------------------------------


def test_simulate_prints_one_object_a_decision(joingate: Any, tmp_path: Path) -> None:
    """The decisions come out as JSON lines, in order, with the line that caused each."""
    said = joingate("simulate", trace(tmp_path, DECLARE, PLAN, SUCCEED))
    assert said.code == 0
    assert [(one["line"], one["verdict"], one["reason"]) for one in said.objects[1:]] == [
        (1, "ACCEPTED", "OK"),
        (2, "ACCEPTED", "OK"),
        (3, "REJECTED", "NOT_COMMITTED"),
    ]


def test_simulate_prints_the_state_last(joingate: Any, tmp_path: Path) -> None:
    """With --state the last object is what is remembered."""
    said = joingate("simulate", trace(tmp_path, DECLARE), "--state", "--json")
    assert [row["intent_id"] for row in said.objects[-1]["intents"]] == [INTENT]


def test_simulate_fails_when_an_expectation_does(joingate: Any, tmp_path: Path) -> None:
    """Exit code 1, and the difference is on stderr, where it does not disturb whoever reads the objects."""
    said = joingate("simulate", trace(tmp_path, DECLARE, {"expect": {"verdict": "REJECTED"}}))
    assert said.code == 1
    assert "line 2" in said.err
    assert len(said.objects) == 2


def test_a_malformed_trace_is_told_by_line_and_field(joingate: Any, tmp_path: Path) -> None:
    """Exit code 2 and one sentence."""
    said = joingate("simulate", trace(tmp_path, {**DECLARE, "verison": 1}))
    assert said.code == 2
    assert "line 1" in said.sentence
    assert "verison" in said.sentence


def test_a_trace_that_is_not_there_is_a_sentence(joingate: Any, tmp_path: Path) -> None:
    """Not a traceback; a mistake on the command line, like a file that is malformed."""
    said = joingate("simulate", tmp_path / "none.jsonl")
    assert said.code == 2
    assert "none.jsonl" in said.sentence


def test_simulate_loads_neither_a_store_nor_a_server(tmp_path: Path) -> None:
    """It must start fast and run where only the base of the package is installed beside the command line."""
    path = trace(tmp_path, DECLARE)
    heavy = ("rocksdict", "faust", "fastapi", "uvicorn", "aiokafka", "pydantic_settings")
    code = (
        "import sys\nfrom joingate.cli import app\n"
        f"app(['simulate', {str(path)!r}], standalone_mode=False)\n"
        f"print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


# --- prove, trace, reason, catalogue, topics -------------------------------------------------------------------------


def test_prove_counts_and_holds(joingate: Any) -> None:
    """Behind the gate nothing breaks; without it much does; the seeds to see it again are told."""
    said = joingate("prove", "--traces", 15, "--seed", 7, "--json")
    (proof,) = said.objects
    assert said.code == 0
    assert proof["gated_violations"] == proof["gated_doubled"] == 0
    assert proof["naive_violations"] > 5
    assert len(proof["naive_seeds"]) == proof["naive_violations"] > 0
    assert {"restarts", "claims out of order", "claims sent twice"} <= proof["faults"].keys()


def test_prove_says_the_same_for_people(joingate: Any) -> None:
    """The table has the two counts that matter."""
    said = joingate("prove", "--traces", 3)
    assert "traces that break an invariant" in said.out
    assert "behind the gate" in said.out


def test_prove_takes_plans_of_as_many_steps_as_are_asked_for(joingate: Any) -> None:
    """The number is part of what is to be said to see one again."""
    said = joingate("prove", "--traces", 4, "--steps", 11, "--json")
    (proof,) = said.objects
    assert (said.code, proof["steps"], proof["faults"]["steps"]) == (0, 11, 44)
    assert "--seed SEED --steps 11" in joingate("prove", "--traces", 1, "--steps", 11).out


@pytest.mark.parametrize("steps", [0, STEPS_ASKED_MAX + 1])
def test_prove_refuses_a_number_of_steps_that_can_not_be_run(joingate: Any, steps: int) -> None:
    """A mistake on the command line, like no traces."""
    said = joingate("prove", "--traces", 1, "--steps", steps)
    assert said.code == 2
    assert "--steps" in said.sentence
    assert joingate("prove", "--traces", 1, "--steps", 1).code == 0


def test_prove_refuses_no_traces(joingate: Any) -> None:
    """A count of zero proves nothing, and is a mistake on the command line."""
    said = joingate("prove", "--traces", 0)
    assert said.code == 2
    assert "--traces" in said.sentence


def test_trace_prints_the_schema(joingate: Any) -> None:
    """It is a JSON schema that knows each kind of line."""
    schema = json.loads(joingate("trace", "--schema").out)
    assert {"DeclareIntent", "RawLine", "ExpectLine"} <= schema["$defs"].keys()


@pytest.mark.parametrize("name", ["MISSING_JOIN", "missing_join", "512"])
def test_a_reason_is_explained_by_name_or_number(joingate: Any, name: str) -> None:
    """With what it means, and what to do."""
    said = joingate("reason", name)
    assert said.code == 0
    assert REASONS["MISSING_JOIN"].meaning in said.out
    assert REASONS["MISSING_JOIN"].advice in said.out


def test_every_reason_is_listed(joingate: Any) -> None:
    """Without a name all of them are."""
    assert [one["name"] for one in joingate("reason", "--json").objects] == list(REASONS)


def test_an_unknown_reason_is_a_sentence(joingate: Any) -> None:
    """Exit code 2: it is a mistake on the command line."""
    said = joingate("reason", "NO_SUCH")
    assert said.code == 2
    assert "NO_SUCH" in said.sentence


def test_a_catalogue_that_fits_says_so(joingate: Any) -> None:
    """The built-in one is the example to start from, so it had better."""
    said = joingate("catalogue", "check", ROOT / "schemas" / "joingate_schemas" / "builtin.yaml")
    assert said.code == 0
    assert "fits" in said.out


def test_a_catalogue_with_mistakes_tells_all_of_them(joingate: Any, tmp_path: Path) -> None:
    """File, line and field of each; exit code 2; as JSON for editors."""
    path = tmp_path / "mine.yaml"
    path.write_text("version: '1'\ndownstreams:\n  bank: {capabilities: [LOKUP]}\nactions:\n  pay: {downstream: bnk}\n")
    said = joingate("catalogue", "check", path)
    assert said.code == 2
    assert f"{path}:3: downstreams.bank.capabilities" in said.err
    (told,) = joingate("catalogue", "check", path, "--json").objects
    assert told["mistakes"][0]["line"] == 3


@pytest.mark.parametrize("words", [["gate"], ["gate", "--json"], ["sample"], ["up", "--once"], ["up", "--json"]])
def test_nothing_starts_under_a_catalogue_that_does_not_load(words: list[str], tmp_path: Path) -> None:
    """File, line and field, exit code 2; no broker is asked (there is none), and nothing is left behind."""
    path, data = tmp_path / "broken.yaml", tmp_path / "data"
    text = (ROOT / "schemas" / "joingate_schemas" / "builtin.yaml").read_text()
    path.write_text(text.replace("permit: 30s", "permit: soon", 1))
    line = 1 + path.read_text().splitlines().index(next(one for one in path.read_text().splitlines() if "soon" in one))
    environment = {"JOINGATE_CATALOGUE": str(path), "JOINGATE_DATA_DIR": str(data), "TMPDIR": str(tmp_path),
                   "BOOTSTRAP_SERVERS": "127.0.0.1:1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "joingate", *words], capture_output=True, text=True, check=False, timeout=60,
        stdin=subprocess.DEVNULL, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"joingate: {path}:{line}: actions.")
    assert ".permit: 'soon' is not allowed" in sentence
    assert done.stdout == ""
    assert [one.name for one in tmp_path.iterdir()] == ["broken.yaml"]


@pytest.mark.parametrize("words", [["gate"], ["up"]])
def test_a_catalogue_that_is_not_there_is_named(words: list[str], tmp_path: Path) -> None:
    """As one that does not load."""
    done = subprocess.run(
        [sys.executable, "-m", "joingate", *words], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "JOINGATE_CATALOGUE": str(tmp_path / "none.yaml"), "BOOTSTRAP_SERVERS": "127.0.0.1:1"},
    )  # fmt: skip
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert f"{tmp_path / 'none.yaml'}:1: the file can't be read" in sentence


@pytest.mark.parametrize("name", ["builtin", "demo"])
def test_a_catalogue_is_shown(joingate: Any, name: str) -> None:
    """For people, and as the gate understands it."""
    assert "reverse_fee" in joingate("catalogue", "show", name).out
    (shown,) = joingate("catalogue", "show", name, "--json").objects
    assert shown["actions"]["reverse_fee"]["downstream"] == "bank"


def test_topics_are_listed_without_a_broker(joingate: Any) -> None:
    """With their prefix, partitions and settings."""
    listed = joingate("topics", "list", "--json", environment={"JOINGATE_PREFIX": "x.", "JOINGATE_PARTITIONS": "6"})
    rows = {row["topic"]: row for row in listed.objects}
    assert rows["x.ledger"]["partitions"] == 6
    assert rows["x.ledger"]["settings"]["retention.ms"] == "-1"
    assert "x.commands.bank" in rows


def test_the_release_is_told(joingate: Any) -> None:
    """And what it runs on."""
    (told,) = joingate("version", "--json").objects
    assert {"joingate", "python", "confluent-kafka"} <= told.keys()


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["frobnicate"], "frobnicate"),
        (["simulate"], "TRACE_FILE"),
        (["simulate", "--nope", "x"], "--nope"),
        (["reason", "OK", "--json", "extra"], "extra"),
    ],
)
def test_a_mistake_on_the_command_line_is_a_sentence(joingate: Any, words: list[str], hint: str) -> None:
    """One line, exit code 2."""
    said = joingate(*words)
    assert said.code == 2
    assert hint.lower() in said.sentence.lower()


def test_a_setting_that_does_not_fit_is_named(joingate: Any) -> None:
    """By the variable that it comes from."""
    said = joingate("topics", "list", environment={"JOINGATE_PARTITIONS": "many"})
    assert said.code == 2
    assert "JOINGATE_PARTITIONS" in said.sentence


def test_a_setting_that_is_no_json_is_a_sentence(joingate: Any) -> None:
    """What is given as JSON has to be some."""
    said = joingate("topics", "list", environment={"JOINGATE_DOWNSTREAMS": "{bank"})
    assert said.code == 2
    assert "downstreams" in said.sentence


@pytest.mark.parametrize("words", [["status"], ["explain", "x"], ["quarantine", "list"]])
def test_an_api_that_is_away_is_a_sentence(joingate: Any, words: list[str]) -> None:
    """With its address, and what to do."""
    said = joingate(*words, environment={"JOINGATE_API_URL": "http://127.0.0.1:1"})
    assert said.code == 1
    assert "http://127.0.0.1:1" in said.sentence
    assert "joingate serve" in said.sentence


@pytest.mark.parametrize("words", [["verify"], ["replay"], ["topics", "check"]])
def test_a_broker_that_is_away_is_a_sentence(joingate: Any, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address; what the client library says of it does not get in the way."""
    monkeypatch.setattr("joingate.ledger.ASK_S", 0.5)
    monkeypatch.setattr("joingate_schemas.topics.TIMEOUT_S", 0.5)
    said = joingate(*words, environment={"BOOTSTRAP_SERVERS": "127.0.0.1:1", "JOINGATE_CLIENT": '{"log_level": "0"}'})
    assert said.code == 1
    assert "127.0.0.1:1" in said.sentence


def test_debug_shows_where_an_error_came_from(joingate: Any, tmp_path: Path) -> None:
    """The traceback comes before the sentence."""
    said = joingate("--debug", "simulate", tmp_path / "none.jsonl")
    assert "Traceback" in said.err
    assert said.err.strip().splitlines()[-1].startswith("joingate:")


def test_an_unforeseen_error_asks_to_be_reported(joingate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as a fault of ours, without a traceback."""

    def fail() -> None:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(importlib.import_module("joingate_processors.forensics.trace_schema"), "trace_schema", fail)
    said = joingate("trace", "--schema")
    assert said.code == 1
    assert "ZeroDivisionError" in said.sentence
    assert "--debug" in said.sentence


@pytest.mark.parametrize("address", ["kafka", "kafka:0", "kafka:70000", ":9092", "kafka:9092,"])
def test_an_address_that_can_be_none_is_refused_at_once(joingate: Any, address: str) -> None:
    """Before anything waits for a broker there; with an example of one that could be."""
    said = joingate("topics", "check", environment={"BOOTSTRAP_SERVERS": address})
    assert said.code == 2
    assert "BOOTSTRAP_SERVERS" in said.sentence
    assert "127.0.0.1:9092" in said.sentence


def test_a_variable_that_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scripts do it that pass on what they may not have."""
    monkeypatch.setenv("BOOTSTRAP_SERVERS", "")
    monkeypatch.setenv("JOINGATE_CATALOGUE", "")
    assert (load_settings().bootstrap_servers, load_settings().catalogue) == ("127.0.0.1:9092", "builtin")


def test_a_group_alone_prints_its_help(joingate: Any) -> None:
    """It was no mistake."""
    said = joingate("quarantine")
    assert (said.code, said.err) == (0, "")
    assert "dismiss" in said.out


@pytest.mark.parametrize(
    "words",
    [[], ["proposals/0/1", "--all"], ["proposals/0/1", "--problem", "OVERSIZED"], ["--scope", "acme/1"],
     ["--all", "--before", "soon"]],
)  # fmt: skip
def test_what_is_to_be_dismissed_is_said_in_one_way(joingate: Any, words: list[str]) -> None:
    """One record by its id, or all that fit; nothing is asked of the API or the broker before that is clear."""
    said = joingate("quarantine", "dismiss", *words, "--as", "ann", "--reason", "a storm", "--yes")
    assert said.code == 2
    assert said.sentence


def test_the_base_install_says_what_the_command_line_needs() -> None:
    """One sentence instead of a traceback, where the extra `cli` is not installed."""
    code = "import sys\nfor name in ('typer', 'rich'): sys.modules[name] = None\nfrom joingate.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'joingate: The command line needs typer: pip install "joingate[all]".\n'


def test_whoever_has_read_enough_is_told_no_error() -> None:
    """As `head` does it: the pipe is closed, and nothing is complained of."""
    process = subprocess.Popen(
        [sys.executable, "-m", "joingate", "trace", "--schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_a_catalogue_does_not_bury_the_decisions(joingate: Any, tmp_path: Path) -> None:
    """Its digest is in the output, its text is not."""
    loaded = joingate("simulate", trace(tmp_path, DECLARE)).objects[0]["facts"][0]
    assert loaded["type"] == "CatalogueLoaded"
    assert loaded["digest"]
    assert "catalogue" not in loaded


def test_tables_break_no_words_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do long ids take the room of everything else."""
    from joingate.cli import output

    monkeypatch.setattr(output, "width_of_output", lambda: 80)
    digest = "0123456789abcdef" * 4
    words = ["CatalogueChanged", "REJECTED NOT_COMMITTED", output.short(f"an operation {digest} is {'not ' * 20}done")]
    made = output.table("", ("claim", "verdict", "what came of it"), [words])
    widths = [column.width or 0 for column in made.columns]
    assert sum(widths) + 2 * 2 <= 80
    assert all(max(map(len, text.split())) <= width for text, width in zip(words, widths, strict=True))
    assert "01234567…cdef" in words[2]


def test_every_topic_is_listed_in_order(joingate: Any) -> None:
    """Also those that the canary and the reconciler make."""
    names = [row["topic"] for row in joingate("topics", "list", "--json").objects]
    assert names == sorted(names)
    assert {"joingate.canary", "joingate.schemas", "joingate.reconciler-answers"} <= set(names)
    assert "30 d" in joingate("topics", "list").out


def test_a_shown_catalogue_says_which_it_is(joingate: Any) -> None:
    """And how to see the one that `make run` runs."""
    said = joingate("catalogue", "show", environment={"JOINGATE_CATALOGUE": ""})
    assert "`builtin`" in said.err
    assert "joingate catalogue show demo" in said.err


# --- what is documented ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_a_sentence_of_help(joingate: Any, words: tuple[str, ...]) -> None:
    """`--help` of each says what it is for, and of each option what it does."""
    said = joingate(*words, "--help")
    assert said.code == 0
    command = dict(commands())[words]
    assert (command.help or "").strip().splitlines()[0].endswith((".", ":"))
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{' '.join(words)}: {parameter.name} has no help"


@pytest.mark.parametrize("words", [one for one in EVERY if len(one) == 1], ids=" ".join)
def test_every_command_is_in_the_readme(words: tuple[str, ...]) -> None:
    """Nobody finds what is not told."""
    glance = (ROOT / "README.md").read_text().partition("## The command line at a glance")[2].partition("\n## ")[0]
    assert re.search(rf"`(joingate )?{words[0]}\b", glance), words[0]


def test_exit_codes_are_in_the_help(joingate: Any) -> None:
    """They are promised, so they are told."""
    assert "Exit codes: 0" in re.sub(r"\s+", " ", joingate("--help").out)


@pytest.mark.parametrize("variable", variables())
def test_every_setting_is_in_the_documentation(variable: str) -> None:
    """The table of settings has each of them, and none beside them that the command line would not read."""
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    assert f"| `{variable}` |" in table
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(variables())


def test_every_topic_is_in_the_documentation() -> None:
    """The table of topics has each of them."""
    from joingate_schemas.topics import Topics

    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Topics")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `([\w.<>-]+)` \|", table, re.MULTILINE))
    assert {spec.name for spec in Topics("").specs(executors=["<executor>"])} <= told


def test_links_of_the_documentation_lead_somewhere() -> None:
    """Each relative link of README and docs is a file."""
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_trace_in_the_readme_plays(joingate: Any, tmp_path: Path) -> None:
    """What a reader copies works."""
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "readme.jsonl"
    path.write_text(block)
    said = joingate("simulate", path)
    assert said.code == 0, said.err
