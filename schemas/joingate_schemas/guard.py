"""The room for the ledger's self-defence: what every reader of a ledger checks before it believes a record.

A client library may tear a transaction, a broker may lose one, and a writer that was replaced may still be writing. So
each record carries its number, its writer's epoch and the hash of the record before it (architecture §4), and readers
stop rather than fold what does not continue what they have. Pure: no IO.
"""

import hashlib
from typing import Literal, Protocol

RECENT_MAX = 1024
"""How many of the latest records a guard can still tell from an impostor with the same seq."""


class Chained(Protocol):
    """What the guard reads of a ledger record, of the gate's ledger or the arbiter's."""

    @property
    def seq(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def previous(self) -> bytes: ...


class LedgerFault(RuntimeError):
    """A ledger that does not continue what was read before: stop reading it, and have a person look at both sides."""


class Gap(LedgerFault):
    """Records are missing between the last one and this one."""


class Fork(LedgerFault):
    """Two different records claim the same place, or this one continues another past than the one that was read."""


class LowerEpoch(LedgerFault):
    """The record comes from a writer that had been replaced."""


class LedgerGuard:
    """Follows one partition's ledger: `seq`, `epoch` and `digest` (SHA-256 of its bytes) are its last record's."""

    __slots__ = ("_anchored", "_recent", "digest", "epoch", "name", "seq")

    def __init__(self, seq: int = 0, digest: bytes = b"", epoch: int = 0, *, name: str = "the ledger") -> None:
        """A guard that expects the record after `seq`; by default the ledger's first. `name` is for its sentences."""
        self.seq = seq
        self.digest = digest
        self.epoch = epoch
        self.name = name
        self._anchored = True
        self._recent: dict[int, bytes] = {seq: digest} if seq else {}

    @classmethod
    def from_anywhere(cls, *, name: str = "the ledger") -> "LedgerGuard":
        """A guard for a reader that starts in the middle: it takes the first record as it is, and checks from there."""
        guard = cls(name=name)
        guard._anchored = False
        return guard

    def check(self, decision: Chained, raw: bytes, digest: bytes | None = None) -> Literal["NEW", "SEEN"]:
        """Say whether the record `decision`, read from the bytes `raw`, comes next (NEW) or came before (SEEN: drop).

        `digest` is the SHA-256 of `raw`, where the caller has it. Raises `Gap`, `Fork` or `LowerEpoch`; the guard then
        stays where it was.
        """
        found = hashlib.sha256(raw).digest() if digest is None else digest
        seq = decision.seq
        if self._anchored:
            if seq <= self.seq:
                self._must_be_the_same(decision, found)
                return "SEEN"
            self._must_come_next(decision)
        self._anchored = True
        self.seq, self.digest, self.epoch = seq, found, decision.epoch
        self._recent[seq] = found
        self._recent.pop(seq - RECENT_MAX, None)
        return "NEW"

    def _must_be_the_same(self, decision: Chained, found: bytes) -> None:
        known = self._recent.get(decision.seq)
        if known is not None and known != found:
            raise Fork(
                f"{self.name} has two records with seq {decision.seq}, this one of epoch {decision.epoch}: two writers "
                "were at work, or its topic was replaced. Compare the two before anything goes on."
            )

    def _must_come_next(self, decision: Chained) -> None:
        seq = decision.seq
        if seq != self.seq + 1:
            raise Gap(
                f"{self.name} goes from seq {self.seq} to {seq}: records are missing between. Read it again from the "
                "start; if they stay missing, the topic lost them."
            )
        if decision.epoch < self.epoch:
            raise LowerEpoch(
                f"{self.name} has seq {seq} from epoch {decision.epoch}, after epoch {self.epoch}: a gate that had "
                "been replaced wrote it. Stop that gate."
            )
        if decision.previous != self.digest:
            raise Fork(
                f"{self.name}'s seq {seq} continues another record than the seq {self.seq} that was read: one of the "
                "two was changed, or the topic was replaced. Compare them before anything goes on."
            )
