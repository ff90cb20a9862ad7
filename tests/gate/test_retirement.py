"""An owner that is gone, over the store on disk: found page by page, across restarts, however much it owned."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.gate.docket import DECISION_BYTES_MAX
from joingate_processors.gate.store import Position, RocksState
from joingate_processors.law.arrival import Arrival
from joingate_processors.law.evolve_owners import put_commitment
from joingate_processors.law.judge import fold, judge, timer_arrival
from joingate_processors.law.owners import SWEEP_MAX
from joingate_processors.law.state import Commitment
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Decision

CODEC = Codec()
GONE = "team:ops"


def _commitment(number: int) -> Commitment:
    """The commitment of that number; each hundred lie under an intent of their own, and one in ten is another's."""
    blank: dict[str, Any] = dict.fromkeys(Commitment.__annotations__)
    fields = {
        "commitment_id": f"c{number:06}", "intent_id": f"acme/errand/{number // 100}", "status": "ACTIVE",
        "owner_id": "team:other" if number % 10 == 9 else GONE, "obligation_type": "promise", "timer": "NONE",
        "weight": 1_000, "principal": "", "created_at": 0,
    }  # fmt: skip
    return Commitment(**{**blank, **fields})


class Bench:
    """The law over a store on disk, which is closed and opened again after each decision if `restless`."""

    def __init__(self, path: Path, *, restless: bool) -> None:
        self.path = path
        self.restless = restless
        self.store = RocksState(path)
        self.found: list[str] = []
        self.largest = 0

    def filled(self, count: int) -> "Bench":
        for number in range(count):
            put_commitment(self.store, None, _commitment(number))
        self.store.commit(Position(seq=1))
        return self

    def decide(self, arrival: Arrival) -> Decision:
        decision = judge(self.store, arrival, builtin_catalogue(), 1)
        raw = CODEC.encode(decision)
        fold(self.store, decision, hashlib.sha256(raw).digest())
        self.store.commit(Position(seq=decision.seq))
        self.found += [fact.subject_id for fact in decision.facts if isinstance(fact, f.OrphanRaised)]
        self.largest = max(self.largest, len(raw))
        if self.restless:
            self.store.close()
            self.store = RocksState(self.path)
        return decision

    def retire(self) -> int:
        """Say that the owner is gone, and let every timer fire; returns how many decisions that took."""
        claim = c.RetireOwner(claim_id="gone", intent_id="", owner_id=GONE)
        raw = CODEC.encode(claim)
        self.decide(Arrival(claim=claim, raw=raw, topic="observations", offset=0, appended_at=1_000))
        taken, now = 1, 1_000
        while due := self.store.due(2**40, 1):
            now = max(now, due[0].due_at)
            self.decide(timer_arrival(self.store, due[0], now, CODEC.encode))
            taken += 1
        return taken


@pytest.mark.parametrize("count", [0, 1, 555, 1_200])
def test_everything_it_owned_is_found_once_and_nothing_of_others_across_restarts(tmp_path: Path, count: int) -> None:
    bench = Bench(tmp_path / "0", restless=True).filled(count)
    owned = [f"c{number:06}" for number in range(count) if number % 10 != 9]
    assert bench.retire() == len(owned) // SWEEP_MAX + 1
    assert bench.found == owned
    assert len(bench.store.rows("orphans")) == len(owned)
    owner = bench.store.owners.get(GONE)
    assert owner is not None
    assert (owner.found, owner.deadline_at) == (len(owned), None)
    bench.store.close()


@pytest.mark.slow
def test_a_hundred_thousand_commitments_are_found_in_records_of_bounded_size(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "0", restless=False).filled(100_000)
    assert bench.retire() == 90_000 // SWEEP_MAX + 1
    assert len(bench.found) == len(set(bench.found)) == 90_000
    assert bench.largest < DECISION_BYTES_MAX
    bench.store.close()
