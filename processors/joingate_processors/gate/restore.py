"""The room for a partition's way back: from its store, or the changelog, and then the ledger, to where the ledger ends.

The ledger is the truth. The store on this disk is taken if it is one of this ledger's past; else rows come from the
changelog; and if that is no state either, everything is folded from the ledger's first record. Whoever calls this has
fenced earlier writers before, so that no log grows meanwhile.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from confluent_kafka import Message

from joingate_processors.gate.changelog import ChangelogReader
from joingate_processors.gate.logs import Halted, Logs
from joingate_processors.gate.store import Position, RocksState, state_layout
from joingate_processors.law.state import State
from joingate_schemas.codec import AnyRecord, Undecodable
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import HoldOpened
from joingate_schemas.guard import LedgerFault, LedgerGuard
from joingate_schemas.topics import Topics

log = logging.getLogger("joingate.gate")

# The layout that a store names while rows are being put into it: a crash then leaves no store that looks whole.
_UNFINISHED = "unfinished"


Fold = Callable[[State, Decision, bytes], None]
"""The law's `fold`: apply a decision to the state, given the SHA-256 of its bytes."""


@dataclass(frozen=True)
class Restored:
    """Where the state now stands: at the ledger's end. `stale_changelog`: why the changelog needs rewriting, or "".

    `packed` and `forgotten` are those of the changelog's latest marker.
    """

    position: Position
    guard: LedgerGuard
    stale_changelog: str
    packed: int = 0
    forgotten: int = 0


class _NotOfThisLedger(Exception):
    """The store's past is not the ledger's."""


class Restore:
    """Brings `state`, the store of `partition`, to where the ledger ends."""

    def __init__(
        self,
        state: RocksState,
        partition: int,
        topics: Topics,
        logs: Logs,
        fold: Fold,
        decode: Callable[[bytes | None], AnyRecord],
    ) -> None:
        self._state = state
        self._logs = logs
        self._fold = fold
        self._decode = decode
        self._ledger = (topics.ledger, partition)
        self._changelog = (topics.changelog, partition)

    def run(self) -> Restored:
        """Do it. Raises `Halted` when the ledger can't be read or doesn't hold together, and `StoreError`."""
        if self._state.position.layout != state_layout():
            self._wipe("it was written by a release with other rows, or never finished")
        if self._state.position.seq:
            try:
                changelog = self._read_changelog_tail()
                return self._finish(self._fold_ledger(), changelog)
            except _NotOfThisLedger as error:
                self._wipe(str(error))
        changelog = self._read_changelog()
        try:
            return self._finish(self._fold_ledger(), changelog)
        except _NotOfThisLedger as error:
            self._wipe(str(error))
        changelog.trouble = "it is not this ledger's"
        try:
            return self._finish(self._fold_ledger(), changelog)
        except _NotOfThisLedger as error:
            raise Halted(f"The ledger can't be followed from its first record: {error}") from error

    def _wipe(self, why: str) -> None:
        if self._state.position != Position(layout=state_layout()):
            log.warning("The store of partition %s is made anew: %s.", self._ledger[1], why)
        self._state.wipe()

    # --- the changelog

    def _read_changelog_tail(self) -> ChangelogReader:
        """Find the latest marker, from the one that the store knows. Rows come from the ledger: it is never compacted.

        Compaction may have removed deletions that this store never saw, so its rows are not built upon.
        """
        reader = ChangelogReader()
        start = self._state.position.changelog_offset
        if start > self._logs.ends([self._changelog])[self._changelog]:
            reader.trouble = "it is shorter than it was"
            return reader
        for chunk in self._logs.read(
            self._changelog, max(start, self._logs.starts([self._changelog])[self._changelog])
        ):
            for message in chunk:
                reader.take(message.key(), message.value(), _offset(message))
        return reader

    def _read_changelog(self) -> ChangelogReader:
        """Put the changelog's rows into the empty store, if they add up to a state."""
        reader = ChangelogReader()
        start = self._logs.starts([self._changelog])[self._changelog]
        for chunk in self._logs.read(self._changelog, start):
            taken = [reader.take(message.key(), message.value(), _offset(message)) for message in chunk]
            self._state.apply(chain.from_iterable(taken), Position(layout=_UNFINISHED))
        position = reader.position()
        if position is None:
            self._wipe(f"{reader.trouble}, so the ledger is folded from its first record")
        else:
            # 1. What its packs hold of archived intents goes. A crash: the store is not finished, and is made anew.
            self._state.drop_archived()
            # 2. It is a state now.
            self._state.apply([], position)
        return reader

    # --- the ledger

    def _fold_ledger(self) -> LedgerGuard:
        """Fold what the ledger has after the store's position, having seen that it continues it."""
        state, position = self._state, self._state.position
        header = state.header.get("")
        name = f"{self._ledger[0]}[{self._ledger[1]}]"
        guard = LedgerGuard(name=name)
        if header is not None and position.seq:
            guard = LedgerGuard(header.seq, bytes.fromhex(header.previous), header.epoch, name=name)
        start, end = self._logs.starts([self._ledger])[self._ledger], self._logs.ends([self._ledger])[self._ledger]
        if position.ledger_offset > end:
            raise _NotOfThisLedger(f"it has come to offset {position.ledger_offset}, and the ledger ends at {end}")
        anchored = not guard.seq
        for chunk in self._logs.read(self._ledger, max(start, position.ledger_offset)):
            try:
                for message in chunk:
                    decision, raw = self._decision(message)
                    digest = hashlib.sha256(raw).digest()
                    anchored = anchored or decision.seq == guard.seq
                    if guard.check(decision, raw, digest) == "NEW":
                        self._fold(state, decision, digest)
                        position = advanced(position, decision, _offset(message))
            except LedgerFault as fault:
                raise _NotOfThisLedger(str(fault)) from fault
            state.commit(position)
        if not anchored:
            raise _NotOfThisLedger(f"the ledger does not hold the record {guard.seq} that it has come to")
        return guard

    def _decision(self, message: Message) -> tuple[Decision, bytes]:
        raw = message.value() or b""
        try:
            decision = self._decode(raw)
        except Undecodable as error:
            raise Halted(f"The ledger's record at {_place(message)} can't be read: {error}.") from error
        if not isinstance(decision, Decision):
            raise Halted(f"The ledger's record at {_place(message)} is a {type(decision).__name__}, no decision.")
        return decision, raw

    def _finish(self, guard: LedgerGuard, changelog: ChangelogReader) -> Restored:
        """Say where the state stands, and whether the changelog says the same."""
        marker = changelog.marker
        known = changelog.position()
        if marker is not None and marker.position.seq > guard.seq:
            raise Halted(
                f"The changelog {self._changelog[0]}[{self._changelog[1]}] goes to seq {marker.position.seq}, and the "
                f"ledger only to {guard.seq}: ledger records are gone."
            )
        trouble = changelog.trouble
        if known is None and marker is None and not guard.seq:
            trouble = ""  # Nothing was ever decided here.
        elif known is not None and known.seq != guard.seq:
            trouble = f"it goes to seq {known.seq}, and the ledger to {guard.seq}"
        position = self._state.position
        if marker is not None:
            # The markers also know of transactions without a ledger record, and of input that led to none.
            position = replace(
                position,
                marker=marker.position.marker,
                changelog_offset=changelog.marker_offset,
                epoch=max(position.epoch, marker.position.epoch),
                inputs=furthest(position.inputs, marker.position.inputs),
            )
        if marker is None:
            return Restored(position, guard, trouble)
        if marker.wastes and not trouble:
            trouble = f"{marker.forgotten} of the {marker.packed} claims in its packs are of archived intents"
        return Restored(position, guard, trouble, marker.packed, marker.forgotten)


def advanced(position: Position, decision: Decision, ledger_offset: int) -> Position:
    """`position` after one more ledger record, found at `ledger_offset`."""
    inputs = position.inputs
    topic, offset = source_of(decision)
    if offset >= inputs.get(topic, 0):
        inputs = {**inputs, topic: offset + 1}
    return replace(
        position,
        seq=decision.seq,
        epoch=decision.epoch,
        inputs=inputs,
        ledger_offset=ledger_offset,
        layout=state_layout(),
    )


def source_of(decision: Decision) -> tuple[str, int]:
    """The intake topic (short name) and offset of the record that led to `decision`; offset -1 if none did."""
    if decision.claim_type == "ClaimQuarantined":
        topic, _, offset = decision.subject_id.split("/")
        return topic, int(offset)
    for fact in decision.facts:
        if isinstance(fact, HoldOpened):
            return fact.topic, fact.offset
    return decision.topic, decision.offset


def furthest(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """For each topic, the larger of the two offsets."""
    return {topic: max(one.get(topic, 0), other.get(topic, 0)) for topic in {**one, **other}}


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record that was read has an offset"
    return offset


def _place(message: Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"
