"""The read API: what it answers, up to which position it holds, and how it says that it cannot."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from joingate_projections.api import create_app, position_text
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore

INTENT = "acme/release/4.2"
NOW = 100_000


@pytest.fixture
def store(directory: Path) -> Iterator[ProjectionStore]:
    """A store to read from."""
    with ProjectionStore.open(directory) as store:
        yield store


@pytest.fixture
def filled(store: ProjectionStore, hand: Any) -> ProjectionStore:
    """A store with a ledger that has something in every table."""
    hand.story()
    hand.store_in(store, size=5)
    return store


def client_of(store: ProjectionStore) -> TestClient:
    """A client of the API over a store, at a fixed time."""
    return TestClient(
        create_app(StoreReader(store, clock=lambda: NOW), at_least_s_max=0.2), raise_server_exceptions=False
    )


@pytest.fixture
def api(filled: ProjectionStore) -> TestClient:
    """A client over the filled store."""
    return client_of(filled)


def rows(answer: Any) -> list[Any]:
    """The rows of an answer that is right."""
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["rows"]
    return found


def test_an_intent_is_found_by_an_id_with_slashes(api: TestClient) -> None:
    """As it is, and quoted."""
    for written in (INTENT, quote(INTENT, safe="")):
        answer = api.get(f"/v1/intents/{written}")
        assert answer.json()["row"]["intent_id"] == INTENT
        assert answer.json()["row"]["shown"] == "ORPHANED"


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        ("/v1/intents", "intent_id", [INTENT]),
        ("/v1/intents?tenant=other", "intent_id", []),
        ("/v1/plans?intent=" + INTENT, "plan_id", ["p1"]),
        ("/v1/plans?plan=p1&status=ADOPTED", "plan_id", ["p1"]),
        ("/v1/steps?intent=" + INTENT, "step_id", ["s1", "s2"]),
        ("/v1/steps?shown=COMPLETE", "step_id", ["s1"]),
        ("/v1/operations?status=IN_DOUBT", "business_key", ["board"]),
        ("/v1/operations?status=SETTLED&intent=" + INTENT, "business_key", ["ops"]),
        ("/v1/operations?status=SETTLED&intent=other", "business_key", []),
        ("/v1/operations?external_id=msg-1", "business_key", ["ops"]),
        ("/v1/commitments?status=ACTIVE&owner=team-release&intent=" + INTENT, "commitment_id", ["c1"]),
        ("/v1/commitments?resource=window:production", "commitment_id", ["c1"]),
        ("/v1/commitments?owner=nobody", "commitment_id", []),
        ("/v1/orphans", "orphan_id", ["o1"]),
        ("/v1/orphans?kind=NO_OWNER", "orphan_id", []),
        ("/v1/in-doubt", "business_key", ["board"]),
        ("/v1/quarantine?status=OPEN", "quarantine_id", ["q1"]),
        ("/v1/decisions?verdict=REJECTED", "claim_id", ["claim-0-11"]),
        ("/v1/decisions?claim=claim-0-4", "claim_id", ["claim-0-4"]),
        ("/v1/decisions?intent=" + INTENT + "&verdict=REJECTED", "claim_id", ["claim-0-11"]),
        ("/v1/observations?subject=c1", "subject_id", ["c1"]),
    ],
)
def test_tables_are_filtered(api: TestClient, path: str, field: str, values: list[str]) -> None:
    """By one field or several, each narrowing the others."""
    assert [row[field] for row in rows(api.get(path))] == values


def test_pages_follow_each_other_without_a_gap(api: TestClient) -> None:
    """Each cursor leads on, forwards, backwards and along an index, and the last page has none."""
    for query, expected in (
        ("", list(range(1, 14))),
        ("&newest=true", list(range(13, 0, -1))),
        ("&order=decided_at&newest=true", list(range(13, 0, -1))),
        ("&claim_type=Dispatch", [3, 8, 11]),
    ):
        seen: list[int] = []
        path = f"/v1/decisions?limit=4{query}"
        while path:
            answer = api.get(path).json()
            seen += [row["seq"] for row in answer["rows"]]
            path = f"/v1/decisions?limit=4{query}&cursor={answer['next']}" if answer["next"] else ""
        assert seen == expected, query


def test_doubts_and_orphans_come_oldest_first_with_their_age(store: ProjectionStore, hands: Any) -> None:
    """Age is by the reader's clock; a deadline that passed is said to have."""
    for n, key in enumerate(("z", "a")):
        hand = hands(partition=n, intent_id=f"acme/{key}")
        hand.decide(hand.declared())
        if n:
            hand.decide()
        hand.decide(hand.opened(), hand.doubted())
        hand.store_in(store)
    found = rows(client_of(store).get("/v1/in-doubt"))
    assert [(row["intent_id"], row["age_ms"], row["overdue"]) for row in found] == [
        ("acme/z", NOW - 2_000, True),
        ("acme/a", NOW - 3_000, True),
    ]


def test_every_answer_says_up_to_where_it_holds(api: TestClient) -> None:
    """In the body and in the header."""
    for path in ("/v1/intents", f"/v1/intents/{INTENT}", "/v1/explain/c1", "/v1/summary", "/v1/positions"):
        answer = api.get(path)
        assert answer.json()["position"] == {"0": 13}, path
        assert answer.headers["X-Joingate-Position"] == "0:13", path
    assert position_text({"10": 1, "2": 5}) == "2:5,10:1"


def test_a_caller_reads_its_own_writes(store: ProjectionStore, hand: Any) -> None:
    """Asked for a position that is not folded yet, the answer waits for it."""
    hand.decide(hand.declared())
    app = create_app(StoreReader(store), at_least_s_max=30.0)
    writer = threading.Timer(0.1, lambda: hand.store_in(store))
    writer.start()
    answer = TestClient(app).get("/v1/intents?at_least=0:1")
    writer.join()
    assert [row["intent_id"] for row in rows(answer)] == [INTENT]


def test_a_position_that_does_not_come_is_an_error(api: TestClient) -> None:
    """After the bound: 503, which position it is, and where to look."""
    answer = api.get("/v1/intents?at_least=0:13&at_least=1:7")
    assert answer.status_code == 503
    assert "Partition 1 is folded up to seq 0, not yet to 7" in answer.json()["error"]
    assert api.get("/v1/intents?at_least=0:13").status_code == 200


def test_explain_tells_everything_known_by_an_id(api: TestClient, hand: Any) -> None:
    """Rows of every table and the decisions in ledger order, with what to do about each reason."""
    told = api.get("/v1/explain/c1").json()
    assert set(told["known"]) == {"commitments", "operations", "orphans", "observations"}
    assert [row["seq"] for row in told["decisions"]] == [3, 6, 13]
    whole = api.get(f"/v1/explain/{INTENT}").json()
    assert set(whole["known"]) == {
        "intents", "goals", "plans", "operations", "commitments", "orphans", "in_doubt", "quarantine",
    }  # fmt: skip
    assert [row["seq"] for row in whole["decisions"]] == list(range(1, 14))
    stale = whole["decisions"][10]
    assert (stale["reason_number"], stale["advice"]) == (401, "Plan again for the current version.")


@pytest.mark.parametrize(
    ("subject", "seqs"), [("p1", [2, 3, 7, 8]), ("s2", [8]), ("claim-0-4", [4]), ("msg-1", [5]), ("q1", [12])]
)
def test_explain_knows_every_kind_of_id(api: TestClient, subject: str, seqs: list[int]) -> None:
    """Plan and step, claim, external id, quarantined record."""
    assert [row["seq"] for row in api.get(f"/v1/explain/{subject}").json()["decisions"]] == seqs


def test_an_explanation_has_pages(api: TestClient) -> None:
    """A long history is told in parts."""
    first = api.get(f"/v1/explain/{INTENT}?limit=10").json()
    rest = api.get(f"/v1/explain/{INTENT}?limit=10&cursor={first['next']}").json()
    assert [row["seq"] for row in first["decisions"] + rest["decisions"]] == list(range(1, 14))
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("path", "code", "sentence"),
    [
        ("/v1/intents/acme/nothing", 404, "Nothing in intents has the id 'acme/nothing'"),
        ("/v1/explain/nobody", 404, "Nothing is known by the id 'nobody'"),
        ("/v1/nowhere", 404, "There is no /v1/nowhere here"),
        ("/v1/intents?colour=red", 400, "intents cannot be filtered by 'colour'"),
        ("/v1/intents?limit=0", 400, "The parameter limit is at fault"),
        ("/v1/intents?limit=many", 400, "The parameter limit is at fault"),
        ("/v1/intents?cursor=rubbish", 400, "The cursor is not one that was handed out"),
        ("/v1/intents?cursor=WzEsMl0=", 400, "The cursor is not one that was handed out"),
        ("/v1/intents?order=since", 400, "intents cannot be ordered by 'since'"),
        ("/v1/intents?at_least=twelve", 400, "A position is written <partition>:<seq>"),
        ("/v1/events?from=x", 400, "A position is written <partition>:<seq>"),
    ],
)
def test_errors_are_sentences(api: TestClient, path: str, code: int, sentence: str) -> None:
    """What was wrong, with the id or parameter, and never a traceback."""
    answer = api.get(path)
    assert answer.status_code == code
    assert sentence in answer.json()["error"]


def test_the_api_only_reads(api: TestClient) -> None:
    """There is nothing to write."""
    answer = api.post("/v1/intents", json={})
    assert answer.status_code == 405
    assert answer.json()["error"] == "/v1/intents can only be read: use GET."


def test_an_internal_error_is_told_by_an_id(api: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The caller gets an id, the log gets the rest under it."""

    def fail(self: Any) -> Any:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(StoreReader, "summary", fail)
    answer = api.get("/v1/summary")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error_id"] in caplog.text


def test_health_says_what_is_wrong(filled: ProjectionStore) -> None:
    """200 while the projector lives and every lane goes on; else 503 with a sentence for each trouble."""
    api = client_of(filled)
    assert "No projector has written" in api.get("/v1/health").json()["problems"][0]
    lane = {"stream": "ledger", "partition": 0, "state": "FOLLOWING", "seq": 13, "behind": 0, "sentence": ""}
    filled.put_statuses({"projector": {"at": NOW, "state": "RUNNING", "sentence": ""}, "ledger-00000": lane})
    assert api.get("/v1/health").status_code == 200
    stopped = {**lane, "state": "STOPPED", "sentence": "The ledger forked."}
    filled.put_statuses({"projector": {"at": NOW, "state": "RUNNING", "sentence": ""}, "ledger-00000": stopped})
    answer = api.get("/v1/health")
    assert (answer.status_code, answer.json()["problems"]) == (503, ["The ledger forked."])
    filled.put_statuses({"projector": {"at": NOW - 60_000, "state": "RUNNING", "sentence": ""}})
    assert "last heard of 60 s ago" in api.get("/v1/health").json()["problems"][0]


def test_metrics_count_what_the_tables_hold(filled: ProjectionStore) -> None:
    """Counts by table and status, positions, lags; in Prometheus's form."""
    lane = {"stream": "ledger", "partition": 0, "state": "STOPPED", "seq": 13, "behind": 4, "sentence": "x"}
    filled.put_statuses({"projector": {"at": NOW, "state": "RUNNING", "sentence": ""}, "ledger-00000": lane})
    text = client_of(filled).get("/metrics").text
    for line in (
        'joingate_rows{status="IN_DOUBT",table="operations"} 1.0',
        'joingate_rows{status="LEFT_BEHIND",table="orphans"} 1.0',
        'joingate_shown{shown="ORPHANED",table="commitments"} 1.0',
        'joingate_decisions_by_verdict_total{verdict="REJECTED"} 1.0',
        'joingate_ledger_position{partition="0"} 13.0',
        'joingate_lag_records{partition="0",stream="ledger"} 4.0',
        'joingate_stopped{partition="0",stream="ledger"} 1.0',
        'joingate_oldest_seconds{table="in_doubt"} 90.0',
        "joingate_projections_healthy 0.0",
    ):
        assert line in text.splitlines(), line


def test_new_decisions_arrive_live(filled: ProjectionStore, hand: Any, hands: Any) -> None:
    """From a position on, in order, each event with the position after it; a browser that comes back misses none."""
    api = client_of(filled)
    events = _events(api.get("/v1/events?from=0:11&limit=2").text)
    assert [event["data"]["seq"] for event in events] == [12, 13]
    assert [event["id"] for event in events] == ["0:12", "0:13"]
    again = _events(api.get("/v1/events?from=0:1&limit=1", headers={"Last-Event-ID": "0:12"}).text)
    assert [event["data"]["seq"] for event in again] == [13]
    other = hands(partition=1, intent_id="acme/other")
    other.decide(other.declared())
    writer = threading.Timer(0.1, lambda: other.store_in(filled))
    writer.start()
    live = _events(api.get("/v1/events?limit=1").text)
    writer.join()
    assert [(event["data"]["partition"], event["id"]) for event in live] == [(1, "0:13,1:1")]


def _events(text: str) -> list[dict[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields.get("event") == "decision":
            found.append({"id": fields["id"], "data": json.loads(fields["data"])})
    return found


def test_the_api_describes_itself(api: TestClient) -> None:
    """Every path is in the OpenAPI document, with its filters and its errors."""
    document = api.get("/openapi.json").json()
    paths = document["paths"]
    for path in ("intents", "plans", "steps", "operations", "commitments", "orphans", "in-doubt", "quarantine"):
        assert f"/v1/{path}" in paths
    named = {parameter["name"] for parameter in paths["/v1/commitments"]["get"]["parameters"]}
    assert {"status", "owner", "intent", "limit", "cursor", "at_least"} <= named
    assert set(paths["/v1/intents/{row_id}"]["get"]["responses"]) >= {"200", "400", "404", "503"}


def test_the_page_needs_nothing_from_elsewhere(api: TestClient) -> None:
    """One file, no outside address, and a policy that would forbid one."""
    answer = api.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert re.findall(r"(?:https?:)?//\w", answer.text) == []
    assert "innerHTML" not in answer.text
    asked = set(re.findall(r'"(/v1/[a-z-]+)', answer.text))
    known = api.get("/openapi.json").json()["paths"]
    assert {path for path in asked if path not in ("/v1/explain", "/v1/lineage")} <= set(known)


def test_a_store_that_cannot_be_read_is_a_sentence(filled: ProjectionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, for it is no fault of the caller."""
    from joingate_projections.store import StoreError

    def fail(self: Any) -> Any:
        raise StoreError("The projections cannot be followed.")

    monkeypatch.setattr(ProjectionStore, "view", fail)
    answer = client_of(filled).get("/v1/intents")
    assert (answer.status_code, answer.json()["error"]) == (503, "The projections cannot be followed.")
