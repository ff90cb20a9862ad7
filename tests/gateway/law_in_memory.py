"""The real law behind the SDK's in-memory broker, with the projections folded beside it: a gate without Kafka."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from joingate.gateway.core import Gateway
from joingate.gateway.limits import Limits
from joingate.gateway.tokens import Caller
from joingate_processors.forensics.simulator import Simulator
from joingate_producers import Connection, MemoryBroker, Planner
from joingate_projections.fold import fold
from joingate_projections.reader import StoreReader
from joingate_projections.store import Position, ProjectionStore
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import Commit, InDoubt, Prepared
from joingate_schemas.codec import Codec
from joingate_schemas.topics import Topics

ACME = Caller("acme", "planner", "planner-7")
OTHER = Caller("globex", "planner", "planner-9")


class LawInMemory:
    """One partition. `gateway` speaks to it as to any gate; `settle` and the like are its executors."""

    def __init__(
        self, folder: Path, catalogue: Catalogue, *, limits: Limits | None = None, wait_s: float = 10.0
    ) -> None:
        self.broker = MemoryBroker(1)
        self.catalogue = catalogue
        self.codec = Codec()
        self.topics = Topics("joingate.")
        self.sim = Simulator(catalogue)
        self.lock = threading.RLock()
        self._told = 0
        self.store = ProjectionStore.open(folder / "projections")
        self.reader = StoreReader(self.store)
        self._stop = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._tell()
        self.connection = Connection(outbox=None, wire=self.broker, principal="planner-7")
        self.gateway = self.another_gateway(limits, wait_s)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def another_gateway(self, limits: Limits | None = None, wait_s: float = 10.0) -> Gateway:
        """A further gateway before the same gate."""
        return Gateway(
            self.catalogue, lambda principal: Planner(self.connection, principal), self.reader,
            limits=limits or Limits(calls_per_minute=None), wait_s=wait_s,
        )  # fmt: skip

    def hold(self) -> None:
        """Decide nothing, from now on."""
        self._going.clear()
        with self.lock:
            pass

    def go_on(self) -> None:
        """Decide again."""
        self._going.set()

    def _run(self) -> None:
        positions: dict[int, int] = {}
        while not self._stop.is_set():
            if not self._going.wait(0.05):
                continue
            with self.lock:
                if not self._going.is_set():
                    continue
                for row in self.broker.read(self.topics.proposals, positions, 0.02):
                    assert row.key is not None
                    self.sim.submit_raw(row.value or b"", "proposals", row.key.decode())
                    self._tell()

    def _tell(self) -> None:
        """What was decided, to the ledger's topic and into the projections."""
        batch = self.store.batch()
        decisions = self.sim.decisions[self._told :]
        for index, decision in enumerate(decisions, self._told):
            raw = self.sim.ledger[index]
            fold(batch, decision, 0)
            digest = hashlib.sha256(raw).hexdigest()
            batch.reached(Position("ledger", 0, offset=index, seq=decision.seq, epoch=decision.epoch, digest=digest))
        batch.commit()
        for index, decision in enumerate(decisions, self._told):
            self.broker.append(self.topics.ledger, decision.intent_id.encode(), self.sim.ledger[index], 0)
        self._told = len(self.sim.decisions)

    # --- executors ---------------------------------------------------------------------------------------------------

    def say(self, claim: Any, role: Any) -> Any:
        """A claim of anybody's; its decision."""
        with self.lock:
            decision = self.sim.submit(claim, role)
            self._tell()
        return decision

    def operations(self) -> list[Any]:
        """Every operation, in the order in which they were opened."""
        with self.lock:
            return [row for _, row in self.sim.state.rows("operations")]

    def prepare(self, operation_id: str) -> Any:
        """The executor asks for the permit of an operation's attempt."""
        with self.lock:
            row = self.sim.state.operations.get(operation_id)
            assert row is not None
            executor = self.catalogue.actions[row.action].executor
            if row.status != "SUBMITTED":
                claim = Prepared(
                    claim_id=f"prepare-{operation_id}-{row.attempt}", intent_id=row.intent_id,
                    principal=f"executor-{executor}", operation_id=operation_id, attempt=row.attempt,
                    executor=executor, worker="w1",
                )  # fmt: skip
                assert self.say(claim, "EXECUTOR").verdict == "ACCEPTED"
            return row

    def settle(self, operation_id: str, result: str = "") -> None:
        """The executor does it and says so."""
        row = self.prepare(operation_id)
        claim = Commit(
            claim_id=f"commit-{operation_id}", intent_id=row.intent_id, principal="executor",
            operation_id=operation_id, attempt=row.attempt, external_id=f"ext-{operation_id[:8]}", evidence=["bank"],
            idempotency_key=operation_id, result=result,
        )  # fmt: skip
        assert self.say(claim, "EXECUTOR").verdict == "ACCEPTED"

    def doubt(self, operation_id: str) -> None:
        """The executor does not know what became of it."""
        row = self.prepare(operation_id)
        claim = InDoubt(
            claim_id=f"doubt-{operation_id}", intent_id=row.intent_id, principal="executor", operation_id=operation_id,
            attempt=row.attempt, cause="no reply", evidence=[],
        )  # fmt: skip
        assert self.say(claim, "EXECUTOR").verdict == "ACCEPTED"

    def close(self) -> None:
        """End it."""
        self.go_on()
        self.gateway.close()
        self._stop.set()
        self._thread.join()
        self.connection.close()
        self.store.close()
