"""A bench of the arbiter in memory: messages in, decisions out, the ledger encoded and chained as the real one is."""

import hashlib
from typing import Any

from joingate_processors.arbiter.judge import Heard, fold
from joingate_processors.arbiter.memory import MemoryArbiter
from joingate_processors.arbiter.outgoing import Answer
from joingate_processors.arbiter.state import ArbiterState
from joingate_schemas.arbitration import (
    AnyResourceMessage,
    ArbiterDecision,
    Extend,
    Free,
    Hold,
    Quarantine,
    Reserve,
)
from joingate_schemas.codec import Codec
from joingate_schemas.guard import LedgerGuard

CODEC = Codec()
START_AT = 1_000_000_000
REF = "window:prod"


class Bench(MemoryArbiter):
    """One partition of the arbiter, with a clock."""

    def __init__(self) -> None:
        super().__init__(CODEC)
        self.now = START_AT
        self.answers: list[Answer] = []

    def say(self, message: AnyResourceMessage | None, raw: bytes = b"") -> ArbiterDecision:
        """The message is appended now; None stands for bytes that can't be read."""
        raw = CODEC.encode(message) if message is not None else raw
        problem = ("", "") if message is not None else ("UNREADABLE", "rubbish")
        told = self.take(Heard(message, raw, len(self.ledger), self.now, *problem))
        self.answers += [] if told is None else [told]
        return self.decisions[-1]

    def advance(self, ms: int) -> list[ArbiterDecision]:
        """Time passes; leases that are over are told."""
        until, before = self.now + ms, len(self.decisions)
        while (due := self.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self.answers += self.leases(self.now)
        self.now = until
        return self.decisions[before:]

    def replayed(self) -> ArbiterState:
        """The state that the encoded ledger alone rebuilds, its chain checked."""
        state, guard = ArbiterState(), LedgerGuard(name="the arbiter's ledger")
        for raw in self.ledger:
            decision = CODEC.decode(raw)
            assert isinstance(decision, ArbiterDecision)
            assert guard.check(decision, raw) == "NEW"
            fold(state, decision, hashlib.sha256(raw).digest())
        return state

    def held(self, ref: str = REF) -> list[str]:
        """Who has the resource, as `operation status`."""
        return [f"{hold['operation_id']} {hold['status']}" for hold in self.state.holders(ref)]


def _common(operation: str, n: int, ref: str, fields: dict[str, Any]) -> dict[str, Any]:
    usual = {"resource_ref": ref, "operation_id": operation, "generation": 1, "n": n, "intent_id": f"acme/{operation}"}
    return {**usual, "partition": 0, "epoch": 1, **fields}


def reserve(operation: str, n: int = 1, ref: str = REF, **fields: Any) -> Reserve:
    """The operation wants it; to itself, unless another mode is named."""
    return Reserve(**{"mode": "EXCLUSIVE", "quantity": 1, **_common(operation, n, ref, fields)})


def extend(operation: str, n: int = 2, ref: str = REF, **fields: Any) -> Extend:
    """The operation goes on holding it."""
    return Extend(**_common(operation, n, ref, fields))


def free(operation: str, n: int = 2, outcome: str = "UNUSED", ref: str = REF, **fields: Any) -> Free:
    """The operation needs it no more."""
    return Free(**{"mode": "EXCLUSIVE", "quantity": 1, "outcome": outcome, **_common(operation, n, ref, fields)})


def quarantine(operation: str, n: int = 2, ref: str = REF, **fields: Any) -> Quarantine:
    """Nobody knows whether the operation acted."""
    return Quarantine(**_common(operation, n, ref, {"cause": "silence", **fields}))


def plain(state: ArbiterState) -> list[Hold]:
    """Everything that is held, for comparison."""
    return state.all_holds()
