"""`upgrade-check`: what another catalogue means for what is open, from files and from a live ledger, by exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from .conftest import Joingate, Stack

STEP = {"step_id": "w", "action": "reserve_window", "business_key": "w-1", "arguments": {"window": "w-1"}}
SMALL = """
version: "2"
downstreams:
  messenger: {capabilities: [NONE]}
actions:
  notify: {downstream: messenger, effect: IRREVERSIBLE, kind: RETRYABLE, business_key: "{to}", arguments: {to: }}
"""


def reserved(folder: Path, intent: str) -> Path:
    """A trace that leaves a window in force."""
    said, acted = {"as": "planner", "intent_id": intent}, {"as": "executor", "intent_id": intent}
    lines: list[dict[str, Any]] = [
        {**said, "type": "DeclareIntent", "version": 1, "goals": []},
        {**said, "type": "Plan", "intent_version": 1, "plan_id": "p1", "steps": [STEP]},
        {**said, "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "w"},
        {**acted, "type": "Prepared", "step": "w", "executor": "cloud", "worker": "w1"},
        {**acted, "type": "Commit", "step": "w", "external_id": "r-1", "evidence": ["r:1"]},
        {"as": "observer", "intent_id": intent, "type": "Observe", "commitment_of": "w", "finding": "PRESENT",
         "source": "cloud", "source_version": 1, "evidence": ["cloud:1"]},
        {"expect": {"state": {"commitments": [{"status": "ACTIVE"}]}}},
        {**said, "type": "Succeed", "intent_version": 1, "plan_id": "p1", "step_id": "w"},
    ]  # fmt: skip
    path = folder / "reserved.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def ledger(joingate: Joingate, tmp_path: Path) -> Path:
    """The ledger of such a trace under the built-in catalogue, as `replay --ledger` writes one."""
    said = joingate("simulate", reserved(tmp_path, "acme/window/1"), "--catalogue", "builtin", "--json")
    assert said.code == 0, said.err
    path = tmp_path / "ledger.jsonl"
    path.write_text(said.out)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A catalogue that knows nothing of windows."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The built-in catalogue with a type that demands other evidence."""
    text = (files("joingate_schemas") / "builtin.yaml").read_text("utf-8")
    path = tmp_path / "other.yaml"
    path.write_text(text.replace("    release_action: release_window", "    release_action: release_window\n"
                                 "    satisfied_evidence: [receipt]"))  # fmt: skip
    return path


def test_the_same_catalogue_is_fine(joingate: Joingate, ledger: Path) -> None:
    said = joingate("upgrade-check", "--ledger", ledger, "--former", "builtin", "--catalogue", "builtin", "--strict",
                    "--json")  # fmt: skip
    assert said.code == 0
    (answer,) = said.objects
    assert answer["outcome"] == "FINE"
    assert [(line["outcome"], line["count"]) for line in answer["lines"]] == [("FINE", 1)]


def test_what_can_not_be_discharged_is_told_with_what_to_do(joingate: Joingate, ledger: Path, small: Path) -> None:
    said = joingate("upgrade-check", "--ledger", ledger, "--former", "builtin", "--catalogue", small)
    assert said.code == 1
    assert "can't be discharged" in said.out
    assert "ACTIVE commitments of type window, version 1" in said.out
    assert "keep the type window with its action release_window until its last one is discharged" in said.out


def test_a_change_of_what_satisfied_means_is_told_and_fails_only_when_asked_to(
    joingate: Joingate, ledger: Path, other: Path
) -> None:
    words = ("upgrade-check", "--ledger", ledger, "--former", "builtin", "--catalogue", other)
    said = joingate(*words)
    assert said.code == 0
    assert "behaviour changes" in said.out
    assert "what SATISFIED demands changes (satisfied_evidence: [] → [receipt])" in said.out
    assert joingate(*words, "--strict").code == 3


def test_a_file_without_its_catalogue_still_tells_what_is_gone(joingate: Joingate, ledger: Path, small: Path) -> None:
    """Without it, the way back is not known either; that the type is gone is plain to see."""
    said = joingate("upgrade-check", "--ledger", ledger, "--catalogue", small)
    assert said.code == 1
    assert "--former" in said.err
    assert "the type window is not declared any more" in said.out


def test_nothing_open_is_said(joingate: Joingate, ledger: Path, small: Path) -> None:
    ledger.write_text(ledger.read_text().splitlines(keepends=True)[0])
    said = joingate("upgrade-check", "--ledger", ledger, "--former", "builtin", "--catalogue", small)
    assert (said.code, said.out.strip()) == (0, "Nothing is open, so that any catalogue will do.")


def test_facts_that_this_release_does_not_know_can_not_be_discharged(joingate: Joingate, ledger: Path) -> None:
    """The newer release that wrote them may mean anything by them."""
    lines = ledger.read_text().splitlines()
    last = json.loads(lines[-1])
    last["facts"].append({"type": "FromTheFuture", "intent_id": "acme/window/1"})
    ledger.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    said = joingate("upgrade-check", "--ledger", ledger, "--former", "builtin", "--catalogue", "builtin", "--json")
    assert said.code == 1
    assert [line["what"] for line in said.objects[0]["lines"] if line["outcome"] == "UNDISCHARGEABLE"] == [
        "facts of the type FromTheFuture"
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("no json\n", "this is no decision"),
        ('{"seq": 1}\n', "this is no decision"),
        ('{"seq": 2, "decided_at": 1, "facts": []}\n', "this is the decision 2"),
        ('{"seq": 1, "decided_at": 1, "facts": [{"type": "IntentClosed"}]}\n', "has no intent_id, version, outcome"),
        ('{"seq": 1, "decided_at": 1, "facts": [{"type": "CatalogueLoaded", "digest": "d", "version": "1", '
         '"catalogue": "zz"}]}\n', "hex digits"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_ledger_is_a_sentence(joingate: Joingate, tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    said = joingate("upgrade-check", "--ledger", path, "--former", "builtin", "--catalogue", "builtin")
    assert said.code == 2
    assert f"{path}:1: " in said.sentence
    assert hint in said.sentence


def test_a_file_that_is_not_there_is_a_sentence(joingate: Joingate, tmp_path: Path) -> None:
    said = joingate("upgrade-check", "--ledger", tmp_path / "none.jsonl", "--former", "builtin")
    assert (said.code, "none.jsonl can't be read" in said.sentence) == (2, True)


def test_live_stands_alone(joingate: Joingate) -> None:
    said = joingate("upgrade-check", "--ledger", "live", "--ledger", "other.jsonl")
    assert (said.code, "`live` stands alone" in said.sentence) == (2, True)


def test_the_worked_example_of_the_page_says_what_the_page_says(joingate: Joingate, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "upgrades.md").read_text()
    desk = page.partition("```yaml\n")[2].partition("```")[0]
    slot = "  slot: {version: 1, release_action: cancel}"
    assert slot in desk
    texts = {
        "desk": desk,
        "tidy": SMALL,
        "more": desk.replace(slot, slot[:-1] + ", satisfied_evidence: [receipt]}"),
        "raised": desk.replace(slot, "  slot: {version: 2, release_action: cancel, satisfied_evidence: [receipt]}"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    lines: list[dict[str, Any]] = []
    for day in ("monday", "tuesday", "friday"):
        said, acted = {"as": "planner", "intent_id": f"acme/{day}/1"}, {"as": "executor", "intent_id": f"acme/{day}/1"}
        step = {"step_id": "s", "action": "book", "arguments": {"slot": day}}
        lines += [
            {**said, "type": "DeclareIntent", "version": 1, "goals": []},
            {**said, "type": "Plan", "intent_version": 1, "plan_id": "p1", "steps": [step]},
            {**said, "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "s"},
            {**acted, "type": "Commit", "step": "s", "external_id": day, "evidence": [f"desk:{day}"]},
            {**acted, "as": "observer", "type": "Observe", "commitment_of": "s", "finding": "PRESENT", "source": "desk",
             "source_version": 1, "evidence": [f"desk:{day}"]},
            {**said, "type": "Succeed", "intent_version": 1, "plan_id": "p1", "step_id": "s"},
        ]  # fmt: skip
    (tmp_path / "three.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    played = joingate("simulate", tmp_path / "three.jsonl", "--catalogue", tmp_path / "desk.yaml", "--json")
    (tmp_path / "ledger.jsonl").write_text(played.out)

    def check(name: str) -> tuple[int, str, dict[str, Any]]:
        said = joingate("upgrade-check", "--ledger", tmp_path / "ledger.jsonl", "--former", tmp_path / "desk.yaml",
                        "--catalogue", tmp_path / f"{name}.yaml", "--json")  # fmt: skip
        (answer,) = said.objects
        (line,) = answer["lines"]
        return said.code, answer["outcome"], line

    code, outcome, line = check("tidy")
    assert (code, outcome, line["count"]) == (1, "UNDISCHARGEABLE", 3)
    for told in ("what", "why", "advice"):
        assert line[told] in page
    code, outcome, line = check("more")
    assert (code, outcome, line["count"]) == (0, "CHANGES", 3)
    assert check("raised")[:2] == (0, "FINE")


@pytest.mark.broker
def test_a_live_ledger_is_checked_with_every_catalogue_that_it_knows(
    joingate: Joingate, stack: Stack, tmp_path: Path, small: Path
) -> None:
    trace = reserved(tmp_path, f"acme/window/{uuid.uuid4().hex[:8]}")
    told = joingate("submit", trace, environment=stack.environment)
    assert told.code == 0, told.err
    same = joingate("upgrade-check", "--strict", "--json", environment=stack.environment)
    assert (same.code, same.objects[0]["outcome"]) == (0, "FINE")
    gone = joingate("upgrade-check", "--catalogue", small, "--json", environment=stack.environment)
    assert gone.code == 1
    (line,) = [one for one in gone.objects[0]["lines"] if one["outcome"] == "UNDISCHARGEABLE"]
    assert (line["count"], line["why"]) == (1, "the type window is not declared any more")


def test_it_loads_neither_a_store_nor_a_server() -> None:
    """A check in a pipeline needs no gate's packages."""
    code = (
        "import sys; import joingate.upgrade; "
        "print([name for name in ('rocksdict', 'fastapi', 'uvicorn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
