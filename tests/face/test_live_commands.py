"""The command line against a live gate: submit, verify, replay, status, explain, quarantine; the README's blocks."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from joingate_processors.forensics.violations import SEVEN
from joingate_producers import Executor
from joingate_projections.errors import NotFound
from joingate_projections.reader import HttpReader
from joingate_schemas.topics import Topics

from .conftest import Joingate, Stack, end, wait_until

pytestmark = pytest.mark.broker

ROOT = Path(__file__).resolve().parents[2]


def told(folder: Path, intent: str) -> Path:
    """A small trace that a gate answers in every way: yes, no, again, unreadable."""
    said = {"as": "planner", "intent_id": intent}
    lines: list[dict[str, Any]] = [
        {**said, "type": "DeclareIntent", "version": 1, "goals": [{"goal_id": "g1", "acceptance": "it is written"}]},
        {**said, "type": "Plan", "intent_version": 1, "plan_id": "p1",
         "steps": [{"step_id": "s1", "action": "write_file", "business_key": "notes"}]},
        {**said, "type": "Succeed", "intent_version": 1, "plan_id": "p1", "step_id": "s1"},
        {"expect": {"verdict": "REJECTED", "reason": "NOT_COMMITTED"}},
        {**said, "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "s1"},
        {**said, "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "s1"},
        {**said, "type": "Commit", "step": "s1", "external_id": "x"},
        {**said, "as": "executor", "type": "Commit", "step": "s1", "external_id": "x", "evidence": ["disk:x"]},
        {**said, "type": "Succeed", "intent_version": 1, "plan_id": "p1", "step_id": "s1"},
        {**said, "type": "Dispatch", "intent_version": 1, "plan_id": "", "step_id": ""},
        {"raw": "00ffffffff", "topic": "proposals", "key": intent},
        {"expect": {"state": {"steps": [{"step_id": "s1", "operation_status": "SETTLED"}]}}},
    ]  # fmt: skip
    path = folder / "told.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def intent() -> str:
    """The intent that the first test tells the gate of, and the others ask about."""
    return f"acme/live/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def ask(joingate: Joingate, stack: Stack) -> Joingate:
    """The command line with the stack's environment."""

    def run(*words: object) -> Any:
        return joingate(*words, environment=stack.environment)

    return run


@pytest.fixture(scope="module")
def submitted(stack: Stack, intent: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace, once the live gate was told it; and what was said of it, beside it."""
    path = told(tmp_path_factory.mktemp("submitted"), intent)
    done = subprocess.run(
        [sys.executable, "-m", "joingate", "submit", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, **stack.environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path.with_suffix(".said").write_text(done.stdout)
    return path


def shape(decisions: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What must be the same wherever a trace is played: line, claim, verdict, reason, and the kinds of facts."""
    return [
        (one["line"], one["type"], one["verdict"], one["reason"], [fact["type"] for fact in one["facts"]])
        for one in decisions
        if one["line"] is not None
    ]


def test_submit_and_simulate_agree(joingate: Joingate, submitted: Path) -> None:
    """The live gate and the one in memory give every line the same verdict, reason and facts."""
    live = [json.loads(line) for line in submitted.with_suffix(".said").read_text().splitlines()]
    assert shape(live) == shape(joingate("simulate", submitted).objects)


def test_the_same_trace_again_is_answered_again(ask: Joingate, submitted: Path) -> None:
    """Its claim ids come from its lines, so that a repeat decides nothing twice."""
    said = ask("submit", submitted)
    # Shape and role are looked at before identity, so what fails there is refused anew.
    claims = [one for one in said.objects if one["reason"] not in ("WRONG_ROLE", "UNKNOWN_SCHEMA")]
    assert {one["verdict"] for one in claims} == {"REPLAYED"}
    # What is expected of the first telling does not hold of a repeated one, and that is said.
    assert said.code == 1


def test_a_restart_can_not_be_asked_of_a_live_gate(ask: Joingate, tmp_path: Path) -> None:
    """It is one sentence, which names the line."""
    path = tmp_path / "restart.jsonl"
    path.write_text('{"restart": true}\n')
    said = ask("submit", path)
    assert said.code == 2
    assert "Line 1" in said.sentence


def test_a_gate_that_does_not_answer_is_a_sentence(
    joingate: Joingate, stack: Stack, tmp_path: Path, topic_prefix: str, bootstrap: str
) -> None:
    """On topics that no gate reads, submit gives up at its limit, and says where it asked."""
    Topics(topic_prefix).create(bootstrap, 1, ["workspace"])
    environment = {**stack.environment, "JOINGATE_PREFIX": topic_prefix, "JOINGATE_PARTITIONS": "1"}
    said = joingate("submit", told(tmp_path, "acme/nobody"), "--wait", "0.5", environment=environment)
    assert said.code == 1
    assert f"{topic_prefix}*" in said.sentence


def test_verify_finds_nothing_wrong(ask: Joingate, submitted: Path) -> None:
    """Chain, invariants, and each decision by the law again, from the bytes in the ledger."""
    said = ask("verify", "--json")
    (report,) = said.objects
    assert said.code == 0, said.out
    assert report["holds"]
    assert report["decided_again"] > 8
    assert report["repeated"] >= 1
    # Every partition is named, those that nothing was decided on yet too.
    assert set(report["records"]) == {"0", "1", "2", "3"}
    # Each of the seven rules about obligations by its name, with its verdict and over how many cases.
    verdicts = {one["name"]: one["verdict"] for one in report["seven"]}
    assert set(verdicts) == set(SEVEN)
    assert "BROKEN" not in verdicts.values()
    assert "STALE_CREATES: " in ask("verify").out


def test_verify_of_an_empty_ledger_is_no_success(
    joingate: Joingate, stack: Stack, topic_prefix: str, bootstrap: str
) -> None:
    """Whoever looks at the wrong prefix is told so: nothing was checked, so nothing was shown to hold."""
    Topics(topic_prefix).create(bootstrap, 2, ["workspace"])
    environment = {**stack.environment, "JOINGATE_PREFIX": topic_prefix, "JOINGATE_PARTITIONS": "2"}
    said = joingate("verify", environment=environment)
    assert said.code == 1
    assert said.out.startswith("Partition 0: empty.\nPartition 1: empty.\n")
    assert f"{topic_prefix}ledger" in said.sentence
    assert "JOINGATE_PREFIX" in said.sentence
    machine = joingate("verify", "--json", "--partition", 1, environment=environment)
    (report,) = machine.objects
    assert (machine.code, report["records"], report["holds"]) == (1, {"1": 0}, False)
    assert "Partition 1" in machine.sentence


def test_replay_writes_a_trace_that_simulate_plays_alike(
    joingate: Joingate, ask: Joingate, submitted: Path, intent: str, tmp_path: Path
) -> None:
    """Played in memory, what the live gate was told comes to the same verdicts, reasons and facts."""
    partition = Topics("").partition_for(intent.encode(), 4)
    path = tmp_path / "replayed.jsonl"
    path.write_text(ask("replay", "--partition", partition, "--intent", intent).out)
    live = ask("replay", "--partition", partition, "--intent", intent, "--ledger").objects
    again = [one for one in joingate("simulate", path, "--catalogue", "demo").objects if one["line"] is not None]
    assert [(o["type"], o["verdict"], o["reason"]) for o in again] == [
        (o["type"], o["verdict"], o["reason"]) for o in live
    ]
    kept = [o["facts"] for o in live if o["type"] != "ClaimQuarantined"]
    assert [o["facts"] for o in again if o["type"] != "ClaimQuarantined"] == kept


def test_status_tells_how_things_stand(ask: Joingate, submitted: Path) -> None:
    """Counts by table and word, for people and machines."""
    wait_until(lambda: ask("status", "--json").objects[0]["summary"]["tables"]["intents"]["status"])
    said = ask("status")
    assert said.code == 0, said.err
    assert "OPEN" in said.out
    assert "decisions" in said.out
    assert "Gate: 0 RUNNING, 1 RUNNING" in said.out
    assert sum(line.startswith("decisions ") for line in said.out.splitlines()) == 1


def test_explain_tells_every_decision_about_an_id(ask: Joingate, submitted: Path, intent: str) -> None:
    """In order, with verdict and reason."""
    wait_until(lambda: ask("explain", intent).code == 0)
    said = ask("explain", intent)
    assert "write_file" in said.out  # of what it is, in the planner's words
    assert "its facts follow" not in said.out
    assert said.out.index("DeclareIntent") < said.out.index("NOT_COMMITTED") < said.out.index("WRONG_ROLE")
    (explained,) = ask("explain", intent, "--json").objects
    assert explained["known"]["intents"][0]["intent_id"] == intent


def test_explain_of_nothing_is_a_sentence(ask: Joingate) -> None:
    """Exit code 1."""
    said = ask("explain", "no-such-id")
    assert said.code == 1
    assert "no-such-id" in said.sentence


def test_the_questions_are_answered_by_what_the_gate_decided(ask: Joingate, submitted: Path, intent: str) -> None:
    """Lineage, context, plans and levels, over a ledger that came through Kafka."""
    wait_until(lambda: "effect x" in ask("lineage", intent).out)
    (context,) = ask("context", intent, "--json").objects
    assert (context["intent"]["version"], context["plan"]["steps"][0]["step_id"]) == (1, "s1")
    fared = {one["action"]: one["fared"]["settled"] for one in context["competence"]}
    assert fared["write_file"] >= 1
    (compared,) = ask("compare", intent, "--json").objects
    assert (compared["lightest"], compared["plans"][0]["recorded"]) == ("p1", True)
    (levels,) = ask("levels", "--json").objects
    assert levels["latencies"]["detection"]["count"] >= 1
    assert "UNREADABLE" in ask("incidents").out


def test_topics_are_checked(ask: Joingate) -> None:
    """What is there fits; and creating again creates nothing."""
    assert ask("topics", "check").code == 0
    assert ask("topics", "create", "--json").objects[0]["created"] == []


def test_a_topic_with_another_partition_count_is_a_sentence(joingate: Joingate, stack: Stack) -> None:
    """It names the topic, what was found, and what to do."""
    said = joingate("topics", "check", environment={**stack.environment, "JOINGATE_PARTITIONS": "7"})
    assert said.code == 1
    assert "4 partitions and should have 7" in said.sentence


def _quarantined(stack: Stack, value: bytes, key: str) -> str:
    """Write a record that can't be read; returns its quarantine id, once the API knows it."""
    placed: list[str] = []
    producer = Producer({"bootstrap.servers": stack.environment["BOOTSTRAP_SERVERS"], "partitioner": "murmur2_random"})
    topic = stack.environment["JOINGATE_PREFIX"] + "proposals"
    producer.produce(
        topic, value, key, on_delivery=lambda _e, m: placed.append(f"proposals/{m.partition()}/{m.offset()}")
    )
    producer.flush(30.0)
    reader = HttpReader(stack.api_url)

    def known() -> bool:
        try:
            return bool(reader.one("quarantine", placed[0])["row"]["record"])
        except NotFound:
            return False

    wait_until(known, what="the quarantined record")
    return placed[0]


def _status(stack: Stack, record: str) -> str:
    return str(HttpReader(stack.api_url).one("quarantine", record)["row"]["status"])


def test_a_quarantined_record_is_listed_shown_and_dismissed(ask: Joingate, stack: Stack) -> None:
    """With its bytes; and once dismissed, by name and reason, it is listed no more."""
    record = _quarantined(stack, b"no record", "acme/quarantine/1")
    assert record in ask("quarantine", "list").out
    assert b"no record".hex() in ask("quarantine", "show", record).out
    said = ask("quarantine", "dismiss", record, "--as", "ann", "--reason", "a stray test")
    assert said.code == 0, said.err
    wait_until(lambda: _status(stack, record) == "RESOLVED")
    assert record not in [row["quarantine_id"] for row in ask("quarantine", "list", "--json").objects]


def test_an_effect_that_nobody_dispatched_is_an_incident_until_a_person_clears_it(ask: Joingate, stack: Stack) -> None:
    """By name, with a reason and evidence; then it is listed no more, and clearing it again changes nothing."""
    settings = {"bootstrap_servers": stack.environment["BOOTSTRAP_SERVERS"], "outbox": None,
                "prefix": stack.environment["JOINGATE_PREFIX"], "principal": "stranger"}  # fmt: skip
    with Executor.connect(**settings) as executor:
        said = executor.commit("acme/undispatched/1", "never-dispatched", 1, external_id="x-1").wait(30)
    assert said.reason == "NOT_DISPATCHED"
    reader = HttpReader(stack.api_url)

    def open_ones() -> list[str]:
        rows = reader.page("orphans")["rows"]
        return [row["orphan_id"] for row in rows if row["subject_id"] == "never-dispatched"]

    (identity,) = wait_until(open_ones, what="the incident")
    done = ask("clear", identity, "--as", "ann", "--reason", "undone by hand", "--evidence", "reversal:9")
    assert done.code == 0, done.err
    wait_until(lambda: not open_ones(), what="the empty table")


def test_a_quarantined_record_is_mended_and_redriven(ask: Joingate, stack: Stack, tmp_path: Path) -> None:
    """The mended bytes are decided in its place."""
    from joingate_schemas.claims import DeclareIntent
    from joingate_schemas.codec import Codec

    key = "acme/quarantine/2"
    record = _quarantined(stack, b"torn", key)
    claim = DeclareIntent(claim_id="mended", intent_id=key, version=1, goals=[], principal="planner")
    mended = tmp_path / "mended.avro"
    mended.write_bytes(Codec().encode(claim))
    said = ask("quarantine", "redrive", record, "--as", "ann", "--reason", "mended", "--replacement", mended)
    assert said.code == 0, said.err
    reader = HttpReader(stack.api_url)
    wait_until(lambda: reader.page("intents", [("status", "OPEN")])["rows"])
    rows = wait_until(lambda: [r for r in reader.page("intents")["rows"] if r["intent_id"] == key], what="the intent")
    assert rows[0]["version"] == 1


def _on_terminal(stack: Stack, answer: bytes, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with a person at its terminal, who gives this answer."""
    theirs, ours = pty.openpty()
    try:
        os.write(theirs, answer)
        return subprocess.run(
            [sys.executable, "-m", "joingate", *words], stdin=ours, capture_output=True, text=True, check=False,
            env={**os.environ, **stack.environment},
        )  # fmt: skip
    finally:
        os.close(theirs)
        os.close(ours)


def test_many_records_are_dismissed_at_once_after_a_yes(ask: Joingate, stack: Stack) -> None:
    """Those that fit, and no other; how many is told first, and without a yes nothing is dismissed."""
    key = "acme/quarantine/storm"
    first, *rest = records = [_quarantined(stack, b"no record", key) for _ in range(4)]
    untouched = _quarantined(stack, b"no record", "acme/quarantine/other")
    reader = HttpReader(stack.api_url)
    second_at = reader.one("quarantine", rest[0])["row"]["created_at"]
    dismiss = ("quarantine", "dismiss", "--all", "--as", "ann", "--reason", "a storm", "--scope", key)

    unasked = ask(*dismiss)
    assert unasked.code == 2
    assert "4 records: UNREADABLE 4" in unasked.sentence
    assert "--yes" in unasked.sentence
    none = ask(*dismiss, "--problem", "OVERSIZED", "--yes")
    assert (none.code, none.out) == (0, "No open record fits: nothing was dismissed.\n")
    refused = _on_terminal(stack, b"n\n", *dismiss)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Nothing was dismissed." in refused.stderr
    assert {_status(stack, one) for one in records} == {"OPEN"}

    earliest = ask(*dismiss, "--before", second_at, "--yes", "--json")
    assert earliest.code == 0, earliest.err
    assert [one.get("id") for one in earliest.objects] == [first, None]
    assert earliest.objects[-1] == {"dismissed": 1, "refused": 0}
    wait_until(lambda: _status(stack, first) == "RESOLVED")
    agreed = _on_terminal(stack, b"y\n", *dismiss, "--problem", "UNREADABLE")
    assert agreed.returncode == 0, agreed.stderr
    assert "3 records: UNREADABLE 3; 0 claims wait for them." in agreed.stderr
    assert agreed.stdout.splitlines()[-1] == "Dismissed: 3. Refused: 0."
    wait_until(lambda: {_status(stack, one) for one in rest} == {"RESOLVED"})
    assert _status(stack, untouched) == "OPEN"


def test_dismissing_what_is_not_there_fails(ask: Joingate) -> None:
    """The gate says no, and the exit code says so too."""
    said = ask("quarantine", "dismiss", "proposals/0/999999", "--as", "ann", "--reason", "none")
    assert said.code == 1
    assert "UNKNOWN_QUARANTINE" in said.out


def test_the_blocks_of_the_readme_run(stack: Stack, tmp_path: Path) -> None:
    """The executor's block and the planner's two, as a reader would run them, print what the README says."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    environment = {**os.environ, **stack.environment}
    names = ("executor.py", "ask.py", "finish.py")
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block)

    def run(name: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, str(tmp_path / name)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    acting = subprocess.Popen([sys.executable, str(tmp_path / "executor.py")], env=environment, text=True)
    try:
        verdict, status, operation_id = run("ask.py")
        assert (verdict, status) == ("ACCEPTED", "VALIDATED")
        reader = HttpReader(stack.api_url)
        wait_until(
            lambda: any(
                row["operation_id"] == operation_id and row["status"] == "SETTLED"
                for row in reader.page("operations", [("action", "answer_ticket")])["rows"]
            ),
            what="the operation to be settled",
        )
        assert run("ask.py") == ["REPLAYED", "SETTLED", operation_id]
        assert run("finish.py") == ["ACCEPTED", "ACCEPTED", "CLOSED"]
        acting.send_signal(signal.SIGINT)
        assert acting.wait(30.0) == 0
    finally:
        end(acting)


def test_the_trace_of_the_readme_is_told_as_promised(ask: Joingate, tmp_path: Path) -> None:
    """Accepted and refused as it says, and REPLAYED when it is told again."""
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "readme.jsonl"
    path.write_text(block)
    said = ask("submit", path)
    assert (said.code, [one["verdict"] for one in said.objects]) == (0, ["ACCEPTED", "ACCEPTED", "REJECTED"])
    again = ask("submit", path)
    assert (again.code, {one["verdict"] for one in again.objects}) == (1, {"REPLAYED"})


def test_replay_finds_the_partition_of_an_intent(ask: Joingate, submitted: Path, intent: str) -> None:
    """It needs no telling; and without an intent or a partition it asks for one."""
    lines = ask("replay", "--intent", intent).objects
    assert {line["intent_id"] for line in lines if "intent_id" in line} == {intent}
    unsaid = ask("replay")
    assert unsaid.code == 2
    assert "--intent" in unsaid.sentence


def test_replay_of_nothing_is_a_sentence(ask: Joingate, submitted: Path) -> None:
    """Exit code 1, and nothing is written that could be taken for a trace."""
    said = ask("replay", "--intent", "no/such/intent")
    assert (said.code, said.out) == (1, "")
    assert "no/such/intent" in said.sentence
