"""Near-duplicates raise an alert and nothing else: what is alike is told, honest twins are not, and replay agrees."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.forensics.simulator import Simulator
from joingate_projections.fold import fold
from joingate_projections.reader import StoreReader
from joingate_projections.store import Position, ProjectionStore
from joingate_projections.tables import MemoryRows
from joingate_projections.tables.alike import ALIKE_FROM, similarity
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.claims import Arguments, CancelIntent, DeclareIntent, Dispatch, Plan

DAY_MS = 86_400_000


def refund(capture: str, request: str, amount: object = 35) -> Arguments:
    return {"capture_id": capture, "refund_request": request, "amount": amount, "currency": "EUR"}  # type: ignore[dict-item]


def ask(sim: Simulator, intent_id: str, action: str, arguments: Arguments) -> Any:
    """One wish, as an agent's harness says it; the decision on its Dispatch."""
    ids = itertools.count()
    common = {"intent_id": intent_id, "principal": "p"}

    def claim_id() -> str:
        return f"{intent_id}-{next(ids)}"

    sim.submit(DeclareIntent(claim_id=claim_id(), version=1, goals=[], **common), "PLANNER")  # type: ignore[arg-type]
    steps: Any = [{"step_id": "s", "action": action, "arguments": arguments}]
    plan = Plan(claim_id=claim_id(), intent_version=1, plan_id="p", steps=steps, commitments=[], **common)  # type: ignore[arg-type]
    sim.submit(plan, "PLANNER")
    dispatch = Dispatch(claim_id=claim_id(), intent_version=1, plan_id="p", step_id="s", **common)  # type: ignore[arg-type]
    return sim.submit(dispatch, "PLANNER")


def folded(sim: Simulator) -> MemoryRows:
    rows = MemoryRows()
    for decision in sim.decisions:
        fold(rows, decision, 0)
    return rows


def alerts(sim: Simulator) -> list[dict[str, Any]]:
    return list(folded(sim).tables["alerts"].values())


def test_a_request_that_a_model_made_up_is_told_and_nothing_is_blocked() -> None:
    sim = Simulator(builtin_catalogue())
    one = ask(sim, "acme/refund/a", "refund", refund("cap-1", "r1"))
    sim.advance(1_000)
    two = ask(sim, "acme/refund/b", "refund", refund("CAP-1", "r1-retry", "35.00"))
    assert (one.verdict, two.verdict) == ("ACCEPTED", "ACCEPTED")
    (alert,) = alerts(sim)
    assert (alert["operation_id"], alert["similarity"]) == ([one.subject_id, two.subject_id], 0.75)
    assert alert["same"] == ["amount", "capture_id", "currency"]
    assert alert["differ"] == ["refund_request"]
    # Neither was held back: both are on their way to the executor.
    assert {row["status"] for row in folded(sim).tables["operations"].values()} == {"VALIDATED"}


def test_one_fee_under_two_spellings_is_told() -> None:
    sim = Simulator(builtin_catalogue())
    ask(sim, "acme/a", "reverse_fee", {"fee_transaction_id": "TXN-77120"})
    ask(sim, "acme/b", "reverse_fee", {"fee_transaction_id": "txn 77120"})
    assert len(alerts(sim)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (refund("cap-1", "r1"), refund("cap-2", "r2")),  # two purchases of equal amount
        (refund("cap-1", "r1", 20), refund("cap-1", "r2", 15)),  # one capture, given back in two parts
    ],
)
def test_honest_twins_are_not_told(one: Arguments, other: Arguments) -> None:
    sim = Simulator(builtin_catalogue())
    ask(sim, "acme/a", "refund", one)
    ask(sim, "acme/b", "refund", other)
    assert alerts(sim) == []


def test_two_fees_of_one_customer_are_not_told() -> None:
    sim = Simulator(builtin_catalogue())
    ask(sim, "acme/a", "reverse_fee", {"fee_transaction_id": "txn-77120"})
    ask(sim, "acme/b", "reverse_fee", {"fee_transaction_id": "txn-77121"})
    assert alerts(sim) == []


def test_another_tenants_and_what_lies_outside_the_window_are_not_compared() -> None:
    sim = Simulator(builtin_catalogue())
    ask(sim, "acme/a", "refund", refund("cap-1", "r1"))
    ask(sim, "globex/a", "refund", refund("cap-1", "r2"))
    sim.advance(DAY_MS + 1)
    ask(sim, "acme/b", "refund", refund("cap-1", "r3"))
    assert alerts(sim) == []


def test_an_action_that_declares_no_window_is_not_watched() -> None:
    sim = Simulator(builtin_catalogue())
    for name in ("a", "b"):
        ask(sim, f"acme/{name}", "notify", {"to": "ops", "text": "the release is out now"})
    assert alerts(sim) == []


def test_whatever_order_the_two_are_folded_in_the_alert_is_the_same() -> None:
    """As partitions are folded one before another, or together."""
    sims = [Simulator(builtin_catalogue(), partition) for partition in (0, 1)]
    ask(sims[0], "acme/a", "refund", refund("cap-1", "r1"))
    sims[1].advance(5_000)
    ask(sims[1], "acme/b", "refund", refund("cap-1", "r2"))
    seen = []
    for order in ((0, 1), (1, 0)):
        rows = MemoryRows()
        for partition in order:
            for decision in sims[partition].decisions:
                fold(rows, decision, partition)
        seen.append(rows.tables["alerts"])
    assert seen[0] == seen[1]
    (alert,) = seen[0].values()
    assert (alert["intent_id"], alert["apart_ms"]) == ("acme/b", 5_000)


def test_it_is_an_incident_until_one_of_the_two_comes_to_nothing(tmp_path: Path) -> None:
    sim = Simulator(builtin_catalogue())
    ask(sim, "acme/a", "refund", refund("cap-1", "r1"))
    sim.advance(1_000)
    ask(sim, "acme/b", "refund", refund("cap-1", "r2"))
    with ProjectionStore.open(tmp_path) as store:
        reader = StoreReader(store)
        _store(sim, store, 0)
        (row,) = reader.ask("incidents", options=[("word", "NEAR DUPLICATE")])["rows"]
        assert row["intent_id"] == "acme/b"
        assert "if both are honest, nothing is to be done" in row["suggested_action"]
        assert len(reader.page("alerts", [("tenant", "acme")])["rows"]) == 1
        told = len(sim.decisions)
        sim.submit(CancelIntent(claim_id="c", intent_id="acme/b", principal="p"), "PLANNER")
        _store(sim, store, told)
        assert reader.ask("incidents", options=[("word", "NEAR DUPLICATE")])["rows"] == []
        assert len(reader.page("alerts")["rows"]) == 1


def _store(sim: Simulator, store: ProjectionStore, start: int) -> None:
    batch = store.batch()
    for index, decision in enumerate(sim.decisions[start:], start):
        fold(batch, decision, 0)
        batch.reached(Position("ledger", 0, offset=index, seq=decision.seq, epoch=decision.epoch, digest=""))
    batch.commit()


ON_ITS_WAY = "Your refund is on its way to you"


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [
        ({"to": "ann", "text": ON_ITS_WAY}, {"to": "Ann", "text": "your refund is on its way!"}, True),
        ({"to": "ann", "text": ON_ITS_WAY}, {"to": "bob", "text": ON_ITS_WAY}, False),
        ({"to": "ann", "text": ON_ITS_WAY}, {"to": "ann", "text": "We could not find the parcel"}, False),
        ({"amount": 35}, {"amount": "35.00"}, True),
        ({}, {}, False),
    ],
)
def test_how_alike_payloads_are(one: Arguments, other: Arguments, is_alike: bool) -> None:
    assert (similarity(one, other) >= ALIKE_FROM) is is_alike
    assert similarity(one, other) == similarity(other, one)
