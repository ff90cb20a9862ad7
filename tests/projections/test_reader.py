"""One set of questions, asked of a store or over HTTP: the same answers and the same errors."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from joingate_projections.errors import BadQuestion, NotFound, Unreachable
from joingate_projections.reader import HttpReader, StoreReader, lines_of
from joingate_projections.store import ProjectionStore

INTENT = "acme/release/4.2"
NOW = 100_000
DEADLINE_S = 30

SERVER = """
import sys
from pathlib import Path
from joingate_projections.api import serve
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore

with ProjectionStore.open_reader(Path(sys.argv[1])) as store:
    reader = StoreReader(store, clock=lambda: 100_000)
    serve(reader, port=0, on_ready=lambda url: print(url, flush=True))
"""


@pytest.fixture
def store(hand: Any, directory: Path) -> Iterator[ProjectionStore]:
    """A store with something in every table, open for writing."""
    with ProjectionStore.open(directory) as store:
        hand.story()
        hand.store_in(store, size=5)
        store.put_statuses({"projector": {"at": NOW, "state": "RUNNING", "sentence": ""}})
        yield store


@pytest.fixture
def server(store: ProjectionStore, directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The API in another process, beside the writer, and its address."""
    with subprocess.Popen([sys.executable, "-c", SERVER, str(directory)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()
        child.kill()


def test_another_process_serves_what_this_one_writes(
    store: ProjectionStore, server: tuple[Any, str], hands: Any
) -> None:
    """Every question has the same answer from the store and from the API that reads beside it, later writes too."""
    local, remote = StoreReader(store, clock=lambda: NOW), HttpReader(server[1])
    for _ in range(2):
        for table in ("intents", "operations", "commitments", "orphans", "in_doubt", "quarantine", "decisions"):
            assert remote.page(table) == local.page(table)
        assert remote.page("steps", [("shown", "COMPLETE")]) == local.page("steps", [("shown", "COMPLETE")])
        first = remote.page("decisions", limit=5, order="decided_at", newest=True)
        assert first == local.page("decisions", limit=5, order="decided_at", newest=True)
        second = remote.page("decisions", limit=5, cursor=first["next"], order="decided_at", newest=True)
        assert second["rows"][0] not in first["rows"]
        assert remote.one("intents", INTENT) == local.one("intents", INTENT)
        assert remote.explain(INTENT, limit=3) == local.explain(INTENT, limit=3)
        assert remote.summary() == local.summary()
        assert remote.positions() == local.positions()
        # What the gate says of itself is told by whoever serves, not by the store.
        assert {name: one for name, one in remote.health().items() if name != "gate"} == local.health()
        other = hands(partition=1, intent_id="acme/other")
        other.decide(other.declared())
        other.store_in(store)
    assert remote.page("intents")["position"] == {"0": 13, "1": 1}


def test_errors_are_the_same_over_http(store: ProjectionStore, server: tuple[Any, str]) -> None:
    """The same kind and the same sentence."""
    for kind, ask in (
        (NotFound, lambda reader: reader.one("intents", "acme/nothing")),
        (NotFound, lambda reader: reader.explain("nobody")),
        (BadQuestion, lambda reader: reader.page("intents", [("colour", "red")])),
        (BadQuestion, lambda reader: reader.page("intents", cursor="rubbish")),
    ):
        said = []
        for reader in (StoreReader(store), HttpReader(server[1])):
            with pytest.raises(kind) as caught:
                ask(reader)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_an_unhealthy_answer_is_an_answer(store: ProjectionStore, server: tuple[Any, str]) -> None:
    """Health over HTTP is 503 then, and still read."""
    store.put_statuses({})
    assert HttpReader(server[1]).health()["healthy"] is False


def test_an_api_that_is_not_there_is_a_sentence() -> None:
    """It names the address and what to see to."""
    with pytest.raises(Unreachable, match=r"The API at http://127.0.0.1:9 does not answer: .*joingate serve"):
        HttpReader("http://127.0.0.1:9").summary()


def test_the_server_ends_though_somebody_listens(server: tuple[Any, str]) -> None:
    """Live updates have no end of their own; told to stop, the server stops all the same."""
    child, url = server
    with urlopen(f"{url}/v1/events?from=0:12", timeout=DEADLINE_S) as events:
        while not events.readline().startswith(b"data:"):
            pass
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_S) in (0, -signal.SIGTERM)


def test_an_unknown_table_is_named(store: ProjectionStore) -> None:
    """With those that there are; what only folding uses is none of them."""
    for table in ("dragons", "slots"):
        with pytest.raises(BadQuestion, match=f"There is no table '{table}'. Ask one of intents, "):
            StoreReader(store).page(table)


def test_an_explanation_reads_as_lines(store: ProjectionStore) -> None:
    """For a terminal: what is known, then what was decided and why."""
    lines = list(lines_of(StoreReader(store).explain("c1")))
    assert "commitments: c1 ORPHANED" in lines
    assert "orphans: o1 LEFT_BEHIND" in lines
    assert lines[-1].startswith("0:13 1970-01-01 00:00:13.000Z TimerFired by planner-1 of ")
    assert lines[-1].endswith(": ACCEPTED → OrphanRaised")
    (rejected,) = [line for line in lines_of(StoreReader(store).explain("claim-0-11")) if line.startswith("0:11")]
    assert rejected.startswith("0:11 1970-01-01 00:00:11.000Z Dispatch by planner-1")
    assert rejected.endswith(": REJECTED STALE_INTENT. A newer version of the intent is in force.")


def test_a_step_is_explained_by_its_refusals_too(scene: Any, directory: Path) -> None:
    """By the law's own ledger: a success without its commit, and one of a step that was never planned."""
    at = {"intent_version": 1, "plan_id": "p1"}
    played = scene(
        {"as": "planner", "type": "DeclareIntent", "version": 1, "goals": [{"goal_id": "g", "acceptance": "told"}]},
        scene.planned({"step_id": "tell", "action": "notify", "business_key": "ops"}),
        {"as": "planner", "type": "Succeed", **at, "step_id": "tell"},
        {"as": "planner", "type": "Dispatch", **at, "step_id": "tell"},
        {"as": "planner", "type": "Succeed", **at, "step_id": "tell"},
        {"as": "planner", "type": "Dispatch", **at, "step_id": "dream"},
    )
    with ProjectionStore.open(directory) as store:
        reader = played.reader(store)
        told = [(one["claim_type"], one["verdict"]) for one in reader.explain("tell")["decisions"]]
        assert told[-3:] == [("Succeed", "REJECTED"), ("Dispatch", "ACCEPTED"), ("Succeed", "REJECTED")]
        (dreamt,) = reader.explain("dream")["decisions"]
        assert (dreamt["claim_type"], dreamt["reason"]) == ("Dispatch", "NOT_PLANNED")
        (line,) = lines_of(reader.explain("dream"))
        assert "Dispatch by planner of plan p1, step dream: REJECTED NOT_PLANNED" in line
