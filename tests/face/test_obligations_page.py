"""The page about obligations names only what is there: tests, scenarios, traces, commands, modules, fields, reasons."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

from joingate.cli import app
from joingate.scenarios.named import scenarios
from joingate_processors.forensics.play import run_trace
from joingate_processors.forensics.violations import INVARIANTS
from joingate_projections.tables import shown
from joingate_schemas import arbitration, catalogue, claims, decisions, facts
from joingate_schemas.catalogue_shape import SECTIONS
from joingate_schemas.reasons import REASONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "obligations.md").read_text(encoding="utf-8")
ROOMS = {
    "law": "processors/joingate_processors/law",
    "processors": "processors/joingate_processors",
    "projections": "projections/joingate_projections",
    "schemas": "schemas/joingate_schemas",
}
NAMED = re.compile(r"(scenario |trace )?`([^`]+)`")
STATE = re.compile(r"\b[A-Z][A-Z_]{2,}\b")


def rows() -> list[list[str]]:
    """The cells of each row of each table, without the heads."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not row[0].startswith(("what ", "the mistake"))]


def named() -> list[tuple[str, str]]:
    """Each thing that the page names, with the word before it, if that says what it is."""
    return sorted({(kind.strip(), name) for kind, name in NAMED.findall(PAGE)})


@cache
def fields() -> Mapping[str, set[str]]:
    """Of each claim, fact, nested record and section of a catalogue: its fields."""
    found: dict[str, set[str]] = {section: set(shape.model_fields) for section, shape in SECTIONS.items()}
    for module in (claims, facts):
        for name, one in vars(module).items():
            if dataclasses.is_dataclass(one):
                found[name] = {field.name for field in dataclasses.fields(one)}
            elif isinstance(one, type) and one.__annotations__:
                found[name] = set(one.__annotations__)
    return found


@cache
def commands() -> Mapping[str, set[str]]:
    """Of each command: its options."""
    group: Any = typer.main.get_command(app)
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in group.commands.items()
    }


def _words() -> Iterator[str]:
    """Every symbol of every enum, every reason, every invariant, every word for people."""
    yield from (*REASONS, *INVARIANTS, *shown.WORDS)
    for module in (claims, facts, decisions, catalogue, arbitration):
        for one in vars(module).values():
            yield from (word for word in get_args(one) if isinstance(word, str))
    for shape in SECTIONS.values():
        for field in shape.model_fields.values():
            yield from (word for word in get_args(field.annotation) if isinstance(word, str))


def _exists(kind: str, name: str) -> bool:
    """Whether the thing is there; of a name that could stand for nothing, it is not."""
    if kind == "scenario":
        return name in {one.name for one in scenarios()}
    if kind == "trace":
        return (ROOT / "tests" / "scenarios" / "traces" / f"{name}.jsonl").is_file()
    if name == "tests" or name.startswith("tests/"):
        path, _, test = name.partition("::")
        return (ROOT / path).exists() and (not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"))
    if name.startswith("joingate "):
        command, *options = name.split()[1:]
        return command in commands() and set(options) <= commands()[command]
    if name.startswith("/v1/"):
        path = name.removeprefix("/v1/")
        return f'"{path}"' in "".join(one.read_text() for one in (ROOT / ROOMS["projections"]).glob("*.py"))
    if name.endswith(".py"):
        room, _, rest = name.partition("/")
        return room in ROOMS and (ROOT / ROOMS[room] / rest).is_file()
    owner, *parts = name.replace(".*.", ".").split(".")
    return parts[0] in fields().get(owner, ()) if parts else owner in fields()


@pytest.mark.parametrize(("kind", "name"), named(), ids=lambda one: one)
def test_what_the_page_names_is_there(kind: str, name: str) -> None:
    assert _exists(kind, name)


def test_a_name_that_is_not_there_is_found_out() -> None:
    """Of each kind of name, one that stands for nothing."""
    wrong = [
        ("scenario", "all-is-well"), ("trace", "C99-nothing"), ("", "tests/law/test_none.py"),
        ("", "tests/law/test_time.py::test_nothing"), ("", "joingate dance"), ("", "joingate levels --loud"),
        ("", "/v1/nothing"), ("", "law/prose.py"), ("", "Release.mood"), ("", "Moodswing"), ("", "actions.*.mood"),
    ]  # fmt: skip
    assert [one for one in wrong if _exists(*one)] == []


def test_every_state_and_reason_that_the_page_names_is_one() -> None:
    assert set(STATE.findall(re.sub(r"`[^`]*`", "", PAGE))) <= set(_words())


def test_what_is_said_to_be_kept_has_its_test_and_the_rest_says_why_not() -> None:
    """No row without a test, a scenario or a trace, unless it says that it is not yet, or why it is not done."""
    for row in rows():
        whole = " | ".join(row)
        if "not done" in whole.lower():
            assert re.search(r"[Nn]ot done, because \w+", whole), whole
        assert re.search(r"`tests/[^`]*::|scenario `|trace `|\*not yet\*|[Nn]ot done, because", whole), whole


def test_the_life_of_an_obligation_plays_as_told() -> None:
    """The README's story of a window: a newcomer's first look at an obligation."""
    (block,) = re.findall(r"```jsonl\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    result = run_trace(block.splitlines())
    assert (result.failures, block.count('"expect"')) == ([], 6)


def test_every_scenario_is_on_the_page() -> None:
    assert {one.name for one in scenarios()} <= {name for kind, name in named() if kind == "scenario"}
