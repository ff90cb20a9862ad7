"""The room where the arbiter's state is restored: the changelog's rows, and what the ledger has beyond them.

The rows are believed only where the ledger has the record that their marker names, in its place. Else the whole ledger
is folded. A ledger that ends before that record has lost what was decided: nothing may go on over that.
"""

import gc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Message

from joingate_processors.arbiter.changelog import Snapshot, read_changelog
from joingate_processors.arbiter.judge import fold
from joingate_processors.arbiter.state import ArbiterState
from joingate_processors.gate.logs import Halted, Logs
from joingate_processors.gate.transactions import WriterLost
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.guard import LedgerFault, LedgerGuard
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import Topics


@dataclass(frozen=True)
class Restored:
    """The state, and the offset of a ledger record near its end that it has.

    `stale`: why the changelog is to be written anew; empty if it is right. `keys` are those of the rows that it has.
    """

    state: ArbiterState
    ledger_offset: int
    stale: str
    keys: frozenset[bytes]


class _OtherLedger(Exception):
    """The rows follow from another record than the one that lies in its place."""


class Restore:
    """Restores one partition."""

    def __init__(self, number: int, topics: Topics, logs: Logs, codec: Codec) -> None:
        self._logs = logs
        self._codec = codec
        self._changelog = (topics.arbiter_changelog, number)
        self._ledger = (topics.resource_ledger, number)
        self._name = f"{self._ledger[0]}[{number}]"

    def run(self) -> Restored:
        """Restore. Raises `Halted`, `WriterLost` (the registry is away) and `Stopping`."""
        with _unswept():
            return self._run()

    def _run(self) -> Restored:
        snapshot = read_changelog(self._logs, self._changelog)
        marker, stale = snapshot.marker, snapshot.stale
        if marker is not None and not stale:
            try:
                return self._followed(snapshot, marker.ledger_offset)
            except _OtherLedger as error:
                stale = str(error)
        start = self._logs.starts([self._ledger])[self._ledger]
        folded = self._followed(Snapshot(snapshot.keys, None, ArbiterState(), ""), start)
        if marker is not None and folded.state.header.seq < marker.header.seq:
            raise self._shorter(folded.state.header.seq, marker.header.seq)
        if not stale and folded.state.header.seq:
            stale = "it is not there"
        return Restored(folded.state, folded.ledger_offset, stale, snapshot.keys)

    def _followed(self, snapshot: Snapshot, start: int) -> Restored:
        """The state, brought on by what the ledger has from `start` on."""
        state, header = snapshot.state, snapshot.state.header
        guard = LedgerGuard(header.seq, header.previous, header.epoch, name=self._name)
        known, seen, offset = header.seq, header.seq == 0, start
        for chunk in self._logs.read(self._ledger, start):
            for message in chunk:
                raw = message.value() or b""
                digest = hashlib.sha256(raw).digest()
                decision = self._decoded(message, raw)
                if decision.seq == known and digest != header.previous:
                    raise _OtherLedger(f"{self._name} has another record {known} than the one that it follows")
                seen = seen or decision.seq == known
                if not seen and decision.seq > known:
                    raise _OtherLedger(f"{self._name} has no record {known} where it says")
                try:
                    if decision.seq > known and guard.check(decision, raw, digest) == "NEW":
                        fold(state, decision, digest)
                except LedgerFault as error:
                    raise Halted(f"{self._name}@{message.offset()} can't be followed: {error}") from error
                offset = message.offset() or offset
        if not seen:
            raise _OtherLedger(f"{self._name} has no record {known} where it says")
        return Restored(state, offset, "", snapshot.keys)

    def _decoded(self, message: Message, raw: bytes) -> ArbiterDecision:
        try:
            decision = self._codec.decode(raw)
        except Undecodable as error:
            raise Halted(f"{self._name}@{message.offset()} can't be followed: {error}") from error
        except RegistryUnavailable as error:
            raise WriterLost(f"the schema registry does not answer ({error})") from error
        if not isinstance(decision, ArbiterDecision):
            raise Halted(
                f"{self._name}@{message.offset()} is a {type(decision).__name__}, and no decision of an arbiter: "
                "another program writes to this topic. Stop it, and restore the topic from a copy."
            )
        return decision

    def _shorter(self, has: int, had: int) -> Halted:
        return Halted(
            f"{self._name} ends with record {has}, and the arbiter had come to record {had} by its changelog: records "
            "are gone. Restore the topic from a copy; what is decided over this would have two holders."
        )


@contextmanager
def _unswept() -> Iterator[None]:
    """Collect no garbage within it, and look for none in what it leaves: there are only rows, a great many of them,
    and walking over them again and again would take as long as reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
