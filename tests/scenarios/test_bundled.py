"""The bundled stories, as `make run ONCE=1` plays them: processes, broker, bank, and every expectation of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.broker

HELD = [
    ("duplicate refund", "without a gate: the customer is credited twice"),
    ("duplicate refund", "with the gate: the agent is told PENDING, with the id"),
    ("duplicate refund", "the agent's second try is answered IN_DOUBT"),
    ("duplicate refund", "and nothing was sent for it"),
    ("duplicate refund", "while in doubt, the bank has one credit"),
    ("duplicate refund", "the doubt ends by evidence from the bank: SETTLED"),
    ("duplicate refund", "at the end, the customer is credited once"),
    ("release deployment", "a Close before anything was done is refused"),
    ("release deployment", "a made-up success of `notify` is refused"),
    ("release deployment", "a Close over a window still held is refused"),
    ("release deployment", "the window is RELEASED once it is seen to be gone"),
    ("release deployment", "then the Close is accepted"),
    ("release deployment, superseded", "version 2 finds the window left behind, in the same decision"),
    ("release deployment, superseded", "nobody asked, and the window was given back"),
]


def test_the_bundled_stories_hold(bootstrap: str, tmp_path: Path) -> None:
    """One `joingate up --once`: it exits with 0, makes each point, ends in a clean state, and leaves nothing behind."""
    done = subprocess.run(
        [sys.executable, "-m", "joingate", "up", "--once", "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "BOOTSTRAP_SERVERS": bootstrap,
            "JOINGATE_PREFIX": f"t-{uuid.uuid4().hex[:12]}.",
            "TMPDIR": str(tmp_path),
        },
        check=False,
    )
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    expectations = [one for one in shown if one["show"] == "expectation"]
    assert [one for one in expectations if not one["held"]] == []
    assert done.returncode == 0, done.stderr
    # Each by name, so that a story that was cut short does not pass for one that held.
    assert {(one["scenario"], one["text"]) for one in expectations} >= set(HELD)
    check_state(next(one for one in shown if one["show"] == "state"))
    check_decisions([one for one in shown if one["show"] == "decision"])
    assert list(tmp_path.iterdir()) == []


def check_state(state: dict[str, Any]) -> None:
    """As the API has it: every intent closed, every window given back, nothing in doubt, nothing orphaned."""
    assert {row["status"] for row in state["intents"]} == {"CLOSED"}
    assert {row["status"] for row in state["commitments"]} == {"RELEASED"}
    assert state["orphans"] == state["in_doubt"] == []


def check_decisions(shown: list[dict[str, Any]]) -> None:
    """What was decided while the stories were told is shown, each once, in the order of its partition."""
    assert len(shown) > 30
    for partition in {one["partition"] for one in shown}:
        seqs = [one["seq"] for one in shown if one["partition"] == partition]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
