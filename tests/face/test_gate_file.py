"""The gate's own words: a halt is seen in the status file, in the API's health, by `status`, and by `up`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from joingate.gate_file import SILENT_MS_MAX, read_gate
from joingate.settings import exports, load_settings
from joingate.show import PeopleShow
from joingate.up import _GateWatch
from joingate_projections.api import create_app
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore

HALT = "The record proposals/0/7 can't be decided: mend the catalogue."


def told(folder: Path, state: str = "RUNNING", **more: Any) -> Path:
    """A status file as the gate writes it."""
    path = folder / "status.json"
    halted = {"state": state, "sentence": HALT if state != "RUNNING" else "", "since": 0, "seq": 1, "epoch": 1}
    well = {**halted, "state": "RUNNING", "sentence": ""}
    status = {"group": "g", "at": time.time_ns() // 1_000_000, "running": True, "sentence": "",
              "partitions": {"0": well, "1": halted}}  # fmt: skip
    path.write_text(json.dumps({**status, **more}))
    return path


def test_a_gate_that_is_well_has_no_problems(tmp_path: Path) -> None:
    """Its partitions are told all the same."""
    report = read_gate(told(tmp_path))
    assert report is not None
    assert (report.problems, report.partitions) == ((), {"0": "RUNNING", "1": "RUNNING"})


@pytest.mark.parametrize("state", ["HALTED", "STALLED"])
def test_a_hindered_partition_is_told_with_its_sentence(tmp_path: Path, state: str) -> None:
    """Which, and why."""
    report = read_gate(told(tmp_path, state))
    assert report is not None
    assert report.problems == (f"The gate's partition 1 is {state}: {HALT}",)
    assert report.halted == (state == "HALTED")


def test_a_gate_that_has_no_partitions_to_tell_of_is_a_problem_by_its_own_sentence(tmp_path: Path) -> None:
    """Its broker is away or silent, say: nothing is decided, and no partition says why."""
    sentence = "the broker at 127.0.0.1:1 does not answer; the gate keeps trying"
    report = read_gate(told(tmp_path, partitions={}, sentence=sentence))
    assert report is not None
    assert report.problems == (f"The gate says: {sentence}.",)
    assert (report.halted, report.fresh) == (False, True)


@pytest.mark.parametrize("more", [{"running": False}, {"at": time.time_ns() // 1_000_000 - 2 * SILENT_MS_MAX}])
def test_a_gate_that_is_gone_is_a_problem(tmp_path: Path, more: dict[str, Any]) -> None:
    """Stopped, or silent for long."""
    report = read_gate(told(tmp_path, **more))
    assert report is not None
    assert "joingate gate" in report.problems[0]
    assert not report.fresh


def test_a_file_of_something_else_is_a_problem_and_none_is_not(tmp_path: Path) -> None:
    """A gate on another machine is nothing wrong."""
    assert read_gate(tmp_path / "none.json") is None
    (tmp_path / "other.json").write_text("[]")
    report = read_gate(tmp_path / "other.json")
    assert report is not None
    assert "JOINGATE_GATE_STATUS" in report.problems[0]


def test_the_api_answers_503_for_a_halted_gate(tmp_path: Path) -> None:
    """In `/v1/health` and `/v1/gate`, with the sentence."""
    path = told(tmp_path, "HALTED")

    def gate() -> dict[str, Any] | None:
        report = read_gate(path)
        return None if report is None else report.row()

    store = ProjectionStore.open(tmp_path / "store")
    try:
        client = TestClient(create_app(StoreReader(store), gate=gate))
        for where in ("/v1/health", "/v1/gate"):
            answer = client.get(where)
            assert answer.status_code == 503
            assert HALT in answer.json()["problems"][0]
        told(tmp_path)
        assert client.get("/v1/gate").status_code == 200
        assert "/v1/explain/{subject_id}" in client.get("/docs").text
    finally:
        store.close()


def test_a_halt_is_told_though_the_api_is_away(joingate: Any, tmp_path: Path) -> None:
    """`status` beside the gate reads the file itself."""
    environment = {"JOINGATE_API_URL": "http://127.0.0.1:1", "JOINGATE_GATE_STATUS": str(told(tmp_path, "HALTED"))}
    said = joingate("status", environment=environment)
    assert said.code == 1
    assert HALT in said.err


def test_up_tells_a_halt_once_and_keeps_it_in_mind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And does not say that everything runs."""
    show = PeopleShow()
    watch = _GateWatch(load_settings(gate_status=told(tmp_path, "HALTED")), show)
    watch.look()
    watch.look()
    show.address("http://here", "http://bank", exports(load_settings(catalogue="demo")), well=not watch.halted)
    out = capsys.readouterr().out
    assert out.count(HALT) == 1
    assert "Everything runs" not in out
    assert "joingate status" in out
    assert "JOINGATE_CATALOGUE=demo" in out
