"""`joingate scenario`: one by name, all of them, the list; its exit codes, and its one sentence where it can't."""

import json
from pathlib import Path

import pytest

from joingate.scenarios import named
from joingate.scenarios.named import scenarios

from .conftest import Joingate


def test_the_list_has_every_scenario_with_what_must_come_of_it(joingate: Joingate) -> None:
    said = joingate("scenario", "--list", "--json")
    assert said.code == 0
    assert [(one["name"], one["expected"]) for one in said.objects] == [(o.name, o.expected) for o in scenarios()]
    shown = joingate("scenario", "--list")
    assert all(one.name in shown.out for one in scenarios())


def test_one_by_name_tells_what_went_wrong_what_came_and_the_verdicts(joingate: Joingate) -> None:
    said = joingate("scenario", "release-timed-out")
    assert said.code == 0, said.err
    assert "A release times out after it has succeeded" in said.out
    assert "UNKNOWN_KEPT: held" in said.out
    assert said.out.rstrip().endswith("As expected.")


def test_one_as_json_is_one_object(joingate: Joingate) -> None:
    (report,) = joingate("scenario", "created-twice", "--json").objects
    assert report["holds"]
    assert report["verify"]["holds"]
    assert {one["verdict"] for one in report["verify"]["seven"]} <= {"HELD", "NOT_TRIED"}
    assert [one["type"] for one in report["decisions"]][:3] == ["CatalogueChanged", "DeclareIntent", "Plan"]


def test_all_are_played_one_line_each(joingate: Joingate) -> None:
    said = joingate("scenario", "--all")
    assert said.code == 0
    assert len(said.out.splitlines()) == len(scenarios())
    for one in scenarios():
        assert f"{one.name}: held" in said.out


@pytest.mark.parametrize("words", [[], ["release-timed-out", "--all"], ["--list", "--all"]])
def test_it_is_asked_for_one_thing(joingate: Joingate, words: list[str]) -> None:
    said = joingate("scenario", *words)
    assert said.code == 2
    assert "--list" in said.sentence


def test_a_name_that_there_is_not_is_a_sentence(joingate: Joingate) -> None:
    said = joingate("scenario", "release-timed-ou")
    assert said.code == 2
    assert "did you mean 'release-timed-out'?" in said.sentence


def test_an_outcome_that_is_not_the_expected_one_is_shown(
    joingate: Joingate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 1, with the line and the difference."""
    lines = [json.loads(line) for line in scenarios()[0].trace.read_text().splitlines() if line.strip()]
    lines[1] = {"expect": {"verdict": "REJECTED"}}
    (tmp_path / "crash-before-ledger.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(named, "FOLDER", tmp_path)
    said = joingate("scenario", "crash-before-ledger")
    assert said.code == 1
    assert 'verdict: expected "REJECTED", came "ACCEPTED"' in said.out
    assert said.out.rstrip().endswith("Not as expected.")


def test_the_alternatives_are_a_table_with_the_full_graph_last(joingate: Joingate) -> None:
    """`joingate prove --alternatives`: what each loses, and what it costs; exit code 0 while the gate loses none."""
    said = joingate("prove", "--alternatives", "--traces", 30)
    assert said.code == 0
    assert "30 stories from seed 7" in said.out
    (report,) = joingate("prove", "--alternatives", "--traces", 30, "--json").objects
    assert report["holds"]
    assert [one["system"] for one in report["tallies"]][-1] == "full graph"
    assert report["tallies"][-1]["leaked"] == 0
