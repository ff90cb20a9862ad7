"""The arbiter without a broker: the same law over a ledger in memory, for the simulator and the law's tests."""

import hashlib
from collections.abc import Iterator

from joingate_processors.arbiter.judge import Heard, fold, judge, lease_passed
from joingate_processors.arbiter.outgoing import Answer, answer
from joingate_processors.arbiter.state import ArbiterState
from joingate_schemas.arbitration import AnyResourceMessage, ArbiterDecision
from joingate_schemas.codec import Codec


class MemoryArbiter:
    """One partition of the arbiter: `ledger` holds the encoded decisions, `decisions` the same decoded."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.state = ArbiterState()
        self.epoch = 1
        self.ledger: list[bytes] = []
        self.decisions: list[ArbiterDecision] = []
        self._offset = 0

    def hear(self, message: AnyResourceMessage, at: int) -> Answer | None:
        """Decide a message that is appended at `at` (ms). Returns what its gate is told, if anything."""
        return self.take(Heard(message, self._codec.encode(message), self._offset, at))

    def take(self, heard: Heard) -> Answer | None:
        """Decide what was heard. Returns what its gate is told, if anything."""
        self._offset = heard.offset + 1
        return self._write(judge(self.state, heard, self.epoch))

    def next_due(self) -> int | None:
        """When the first lease is over (ms), or None."""
        return self.state.next_due()

    def leases(self, now: int) -> Iterator[Answer]:
        """Decide on every lease that is over at `now` (ms), and give what the gates are told."""
        while (hold := self.state.due(now)) is not None:
            told = self._write(lease_passed(self.state, hold, now, self.epoch))
            if told is not None:
                yield told

    def restart(self) -> None:
        """Drop all memory and rebuild it from the ledger's bytes, as the writer of the next epoch."""
        self.state = ArbiterState()
        for decision, raw in zip(self.decisions, self.ledger, strict=True):
            fold(self.state, decision, hashlib.sha256(raw).digest())
        self.epoch = self.state.header.epoch + 1

    def _write(self, decision: ArbiterDecision) -> Answer | None:
        raw = self._codec.encode(decision)
        fold(self.state, decision, hashlib.sha256(raw).digest())
        self.state.touched.clear()  # nobody writes rows here
        self.ledger.append(raw)
        self.decisions.append(decision)
        return answer(decision)
