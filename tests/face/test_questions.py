"""The commands that ask over several tables, against an API in this process: no broker, and a ledger of the law."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from joingate_processors.forensics.play import Player
from joingate_processors.forensics.trace import read_trace
from joingate_producers import Connection, MemoryBroker, NotKnown, Planner, Unreachable
from joingate_producers.verdict import verdict_of
from joingate_projections.api import create_app
from joingate_projections.fold import fold
from joingate_projections.reader import StoreReader
from joingate_projections.store import Position, ProjectionStore
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.decisions import Decision

from .conftest import Joingate, wait_until

INTENT = "acme/release/4.2"
STEPS = [
    {"step_id": "window", "action": "reserve_window", "goal_id": "capacity",
     "arguments": {"window": "w1", "environment": "prod", "release": "4.2"}},
    {"step_id": "tell", "action": "notify", "goal_id": "live", "arguments": {"to": "ops", "text": "soon"},
     "edges": [{"kind": "ENABLES", "step_id": "window"}]},
]  # fmt: skip
LINES: list[dict[str, Any]] = [
    {"as": "planner", "type": "DeclareIntent", "version": 1, "objective": "deploy 4.2", "goals": [
        {"goal_id": "live", "acceptance": "production runs 4.2"},
        {"goal_id": "capacity", "acceptance": "a window is ours", "parent_goal_id": "live"},
    ]},
    {"as": "planner", "type": "Plan", "intent_version": 1, "plan_id": "p1", "steps": STEPS},
    {"as": "planner", "type": "Plan", "intent_version": 1, "plan_id": "p2", "adopt": False, "steps": [
        {"step_id": "check", "action": "run_check", "business_key": "migration"},
    ]},
    {"as": "planner", "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "window"},
    {"as": "executor", "type": "Prepared", "step": "window", "executor": "cloud", "worker": "w1"},
    {"as": "executor", "type": "Commit", "step": "window", "external_id": "hold-1", "evidence": ["cloud:hold-1"]},
    {"as": "observer", "type": "Observe", "subject_kind": "COMMITMENT", "commitment_of": "window",
     "finding": "PRESENT", "source": "cloud", "evidence": ["look"]},
]  # fmt: skip


def served(lines: list[dict[str, Any]], folder: Path) -> Iterator[str]:
    """The address of an API over what these lines led to."""
    said = [json.dumps({**line, "intent_id": INTENT} if "as" in line else line) for line in lines]
    player = Player(read_trace(said), builtin_catalogue())
    assert {one["verdict"] for one in player.play().decisions} == {"ACCEPTED"}
    with ProjectionStore.open(folder) as store:
        batch = store.batch()
        for seq, value in enumerate(player.simulator.ledger, 1):
            fold(batch, player.simulator.decisions[seq - 1], 0)
            digest = hashlib.sha256(value).hexdigest()
            batch.reached(Position("ledger", 0, offset=seq - 1, seq=seq, epoch=1, digest=digest))
        batch.commit()
        now = player.simulator.now
        app = create_app(StoreReader(store, clock=lambda: now), at_least_s_max=0.1)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run)
        thread.start()
        wait_until(lambda: server.started, what="the API")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def api_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An API over `LINES`."""
    yield from served(LINES, tmp_path_factory.mktemp("projections"))


@pytest.fixture
def ask(joingate: Joingate, api_url: str) -> Joingate:
    """The command line, told of that API."""

    def run(*words: object) -> Any:
        return joingate(*words, environment={"JOINGATE_API_URL": api_url})

    return run


def test_lineage_is_a_tree_for_people(ask: Joingate) -> None:
    """Each level below the one that it came from, with its word and the position that caused it."""
    said = ask("lineage", "hold-1")
    assert said.code == 0
    found = [line.strip(" │└├─") for line in said.out.splitlines()]
    wanted = (
        f"intent {INTENT} ACTIVE COMMITMENT: deploy 4.2 (version 1)",
        "goal live PLAN: production runs 4.2 (0:2)",
        "goal capacity ACTIVE COMMITMENT: a window is ours (0:2)",
        "commitment ",
        "task p1/window EXECUTING: reserve_window on w1 (0:",
        "operation ",
        "attempt 1 (0:",
        "effect hold-1 (0:",
    )
    for line, start in zip(found, wanted, strict=False):
        assert line.startswith(start)
    indents = [len(line) - len(line.lstrip(" │└├─")) for line in said.out.splitlines()[: len(wanted)]]
    assert indents == sorted(set(indents))


def test_lineage_tells_what_informs_beside_the_tree(ask: Joingate) -> None:
    """The edges of the plan, in the planner's own names."""
    assert "task p1/tell ENABLES task p1/window" in ask("lineage", "tell", "--intent", INTENT).out


def test_lineage_as_json_is_the_whole_answer(ask: Joingate) -> None:
    """One object, with the position that it holds at."""
    (told,) = ask("lineage", INTENT, "--json", "--at-least", "0:3").objects
    assert told["position"] == {"0": len(LINES) + 1}
    assert {one["kind"] for one in told["nodes"]} > {"INTENT", "GOAL", "COMMITMENT", "EFFECT", "VERIFICATION"}


def test_a_question_without_an_answer_is_a_sentence(ask: Joingate) -> None:
    """An unknown id, and a position that is not reached yet."""
    unknown = ask("lineage", "nobody")
    assert (unknown.code, "Nothing in the lineage has the id 'nobody'" in unknown.sentence) == (1, True)
    early = ask("lineage", INTENT, "--at-least", "0:99")
    assert (early.code, "not yet to 99" in early.sentence) == (1, True)


def test_the_context_for_people_has_everything_that_a_planner_goes_by(ask: Joingate) -> None:
    """Goals, plan, commitments, holdings and actions, and the position that it is true at."""
    said = ask("context", INTENT)
    assert said.code == 0, said.err
    for words in (
        f"{INTENT}, version 1, ACTIVE COMMITMENT: deploy 4.2",
        "names no principals, so any planner may ask",
        f"Intent {INTENT} (partition 0): 1 debt, 0 unresolved, 0 waiting for a person.",
        "capacity  ACTIVE COMMITMENT  a window is ours",
        "Plan p1, EXECUTING",
        "Open commitments: 1",
        "window:w1  this intent",
        "reserve_window",
        f"Ledger position 0:{len(LINES) + 1}",
    ):
        assert words in said.out
    (told,) = ask("context", INTENT, "--json", "--principal", "ada").objects
    assert told["authority"]["principal"] == "ada"


def test_the_sdk_asks_for_it_too(api_url: str) -> None:
    """In the planner's own name; what is not known, not reached or not there is an error of its own kind."""
    with Connection(wire=MemoryBroker(), principal="ada", api_url=api_url) as connection:
        planner = Planner(connection)
        context = planner.context(INTENT)
        assert (context["intent"]["version"], context["authority"]["principal"]) == (1, "ada")
        assert [one["status"] for one in context["commitments"]] == ["ACTIVE"]
        with pytest.raises(NotKnown, match="There is no intent 'acme/none'"):
            planner.context("acme/none")
    with (
        Connection(wire=MemoryBroker(), api_url="http://127.0.0.1:9") as connection,
        pytest.raises(Unreachable, match=r"The API at http://127\.0\.0\.1:9 does not answer"),
    ):
        Planner(connection).context(INTENT)


def test_the_sdk_reads_its_own_writes(api_url: str) -> None:
    """A context that must hold a verdict's decision says so when it does not yet."""
    decision = decision_at(99)
    with Connection(wire=MemoryBroker(), api_url=api_url) as connection:
        early = verdict_of(decision, 0, 98)
        with pytest.raises(Unreachable, match="not yet to 99"):
            Planner(connection).context(INTENT, at_least=early)
        held = verdict_of(decision_at(2), 0, 1)
        assert Planner(connection).context(INTENT, at_least=held)["position"]["0"] >= 2


def decision_at(seq: int) -> Decision:
    """Some decision at this place."""
    return Decision(
        seq=seq, epoch=1, decided_at=1, topic="proposals", offset=seq, appended_at=1, claim_type="Plan", claim_id="c",
        intent_id=INTENT, principal="ada", claim=b"", verdict="ACCEPTED", reason="OK", detail="", subject_id="",
        status="", refers_to=0, facts=[], previous=b"",
    )  # fmt: skip


def test_levels_tell_objectives_latencies_and_who_found_what(ask: Joingate) -> None:
    """For people as tables, for machines as one object; exit code 0 as long as no objective is missed."""
    said = ask("levels")
    assert said.code == 0, said.err
    for words in (
        "Commitments: 1 active, 0 orphaned, 0 of an intent that has moved on",
        "Breached: 0 of 1 (0.00%)",
        "Trouble found: 0 by us, 0 by people who told us",
        "Owed: a debt of 1 over 1 commitments; 0 operations wait for a person. Refused for debt or budget: 0",
        "99.99 % of each release within 1 min, over 30 d",
        "nothing to go by",
        "detection",
    ):
        assert words in said.out
    (told,) = ask("levels", "--json").objects
    assert told["latencies"]["detection"]["count"] == 1


def test_plans_are_compared_for_people_and_for_machines(ask: Joingate) -> None:
    """A line a plan, the lightest named, and what is held now."""
    said = ask("compare", INTENT)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines if "PLAN" in line or "EXECUTING" in line] == ["p2", "p1"]
    assert "1 RELEASABLE" in said.out
    assert "Lightest: p2" in lines
    assert "Held now: 1 commitments, 1 an hour while idle, 0 so far" in lines
    assert "p1 names nothing, and holds window:w1" in lines
    (told,) = ask("compare", INTENT, "--json").objects
    assert [plan["commitments_made"] for plan in told["plans"]] == [0, 1]


def test_commitments_are_listed_by_what_they_are_filtered_by(ask: Joingate) -> None:
    """Open ones by default, with their word; filters and bounds narrow, and JSON has the page."""
    said = ask("commitments", "--resource", "window:w1", "--intent", INTENT)
    assert said.code == 0, said.err
    assert "ACTIVE COMMITMENT" in said.out
    assert "window:w1" in said.out
    for words in (("--status", "RELEASED"), ("--owner", "nobody"), ("--due-before", "2026-11-30T15:00Z")):
        assert ask("commitments", *words, "--json").objects[0]["rows"] == []
    assert len(ask("commitments", "--all", "--json").objects[0]["rows"]) == 1
    wrong = ask("commitments", "--due-after", "soon")
    assert (wrong.code, "'soon' is no time" in wrong.sentence) == (2, True)


def test_without_incidents_that_is_what_is_said(ask: Joingate) -> None:
    """In words, and as an empty page."""
    assert ask("incidents").out == "Nothing is orphaned, in doubt, breached or unreadable.\n"
    assert ask("incidents", "--json").objects[0]["rows"] == []
    wrong = ask("incidents", "--word", "SAD")
    assert (wrong.code, "is one of ORPHANED" in wrong.sentence) == (1, True)


def test_an_incident_is_told_with_cause_age_remedy_and_lineage(joingate: Joingate, left_behind: str) -> None:
    """As a person on duty reads it, page by page."""
    environment = {"JOINGATE_API_URL": left_behind}
    said = joingate("incidents", environment=environment)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert re.match(r"(ORPHANED|IN DOUBT|BREACHED) for .+: commitment ", lines[0])
    assert lines[2].startswith("  to do: ")
    assert f"  comes from: intent {INTENT} > goal live > goal capacity" in lines
    (page,) = joingate("incidents", "--limit", "1", "--json", environment=environment).objects
    assert len(page["rows"]) == 1


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An API over a window whose release nobody confirmed in time."""
    lines = [*LINES, {"as": "planner", "type": "CancelIntent"}, {"advance": "3h"}]
    yield from served(lines, tmp_path_factory.mktemp("left-behind"))
