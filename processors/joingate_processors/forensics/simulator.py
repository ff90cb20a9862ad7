"""The room where the gate runs without a broker: the same law, in memory, on a clock that only the caller moves.

What a partition's log is to the gate, lists are here: the intake in its order, the ledger as encoded bytes. A restart
drops all memory and rebuilds it from those bytes; what a transaction had not committed is read and decided again.
"""

import hashlib
from collections import deque
from functools import cache
from typing import NamedTuple, TypeAlias

from joingate_processors.arbiter.memory import MemoryArbiter
from joingate_processors.arbiter.outgoing import Answer
from joingate_processors.forensics.directory import Directory
from joingate_processors.gate.intake import Intake, claim_of, quarantine_claim, quarantined
from joingate_processors.gate.vouching import vouched
from joingate_processors.law.arrival import Arrival, FollowUp
from joingate_processors.law.judge import fold, follow_ups, judge, timer_arrival
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.outgoing import outgoing
from joingate_schemas.arbitration import AnyResourceMessage, Hold, ResourceMessage
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import AnyClaim, CatalogueChanged, Role
from joingate_schemas.codec import CLAIM_BYTES_MAX, Codec
from joingate_schemas.decisions import ClaimTopic, Command, CommitmentRow, Decision, InDoubtRequest, Quarantined
from joingate_schemas.ids import derived_id

START_AT = 1_767_225_600_000
"""Where the clock stands at first: 2026-01-01T00:00:00Z, in ms since the epoch."""

TOPIC_OF_ROLE: dict[Role, ClaimTopic] = {
    "PLANNER": "proposals",
    "EXECUTOR": "outcomes",
    "APPROVER": "approvals",
    "OBSERVER": "observations",
    "OPERATOR": "overrides",
    "GATE": "resource-verdicts",
}
"""The topic on which a role's claims arrive; the gate's own kin, the arbiter, answers on `resource-verdicts`."""

Outgoing: TypeAlias = Command | InDoubtRequest | CommitmentRow | Quarantined | AnyResourceMessage


@cache
def shared_codec() -> Codec:
    """The codec of the single-object wire form: making one costs more than a whole trace, and it has no state."""
    return Codec()


class SimulatorFault(AssertionError):
    """The law broke a promise that the simulator relies on; the text says which and over what."""


class _Record(NamedTuple):
    """One record as it lies in the intake. `clock`: a mere move of the clock, kept to fire timers in the same order."""

    raw: bytes
    topic: ClaimTopic
    place: int
    appended_at: int
    key_text: str | None
    cause: int | None
    clock: bool = False

    def key(self) -> bytes | None:
        """The key as the broker would hold it."""
        return None if self.key_text is None else self.key_text.encode()

    def value(self) -> bytes | None:
        """The value."""
        return self.raw

    def offset(self) -> int | None:
        """The offset within the topic."""
        return self.place


class Simulator:
    """One partition of the gate in memory.

    `catalogue` is what is declared; `partition` its number; `start_at` the first reading of the clock (ms); `batch`
    how many records one transaction takes. `now` is the clock (ms), `epoch` the writer's; `state` what is remembered;
    `ledger` the encoded decisions and `decisions` the same decoded, from seq 1 on; `causes` beside them the `cause`
    that was set when each was decided; `outgoing` everything that leaves the gate (see `sent`). `arbiter` decides on
    resources: what leaves the gate for it ends the transaction, and its answer is the next record that is read. While
    `arbitrates` is false it is down, or somebody else speaks for it: what it is asked waits.
    """

    def __init__(
        self, catalogue: Catalogue, partition: int = 0, *, start_at: int = START_AT, batch: int = 1,
        codec: Codec | None = None,
    ) -> None:  # fmt: skip
        if batch < 1:
            raise ValueError(f"A batch takes at least one record, not {batch}.")
        self.catalogue = catalogue
        self.partition = partition
        self.codec = codec or shared_codec()
        self.now = start_at
        self.epoch = 1
        self.cause: int | None = None
        self.state = MemoryState()
        self.names = Directory()
        self.ledger: list[bytes] = []
        self.decisions: list[Decision] = []
        self.causes: list[int | None] = []
        self.outgoing: list[Outgoing] = []
        self.arbiter = MemoryArbiter(self.codec)
        self._to_arbiter: deque[AnyResourceMessage] = deque()
        self.arbitrates = True
        self._arbitrating = False
        self._batch = batch
        # One partition is all there is here, so that no key can lie on the wrong one.
        self._intake = Intake(self.codec.decode, 0, 1, CLAIM_BYTES_MAX)
        self._pending: list[_Record] = []  # read, decided, not yet committed
        self._offsets: dict[ClaimTopic, int] = {}
        # What is committed: how much of the ledger and of what went out, and where the clock stood.
        self._committed = (0, 0, start_at)
        self._take_up_catalogue()

    # --- what comes in -----------------------------------------------------------------------------------------------

    def submit(self, claim: AnyClaim, role: Role, at: int | None = None) -> Decision:
        """Append the claim to the topic of `role`, at `at` (ms; None: now), and decide it.

        Returns its decision. The timers that `at` lets fire are decided before it, claims that it sets free after it.
        """
        raw = self.codec.encode(claim)
        return self._take(self._append(raw, TOPIC_OF_ROLE[role], claim.intent_id, at))

    def submit_raw(self, raw: bytes, topic: ClaimTopic, key: str | None, at: int | None = None) -> Decision:
        """Append bytes as they are; what can't be read is quarantined as the gate does it. Returns the decision."""
        return self._take(self._append(raw, topic, key, at))

    def advance(self, ms: int) -> list[Decision]:
        """Move the clock on by `ms` and let timers fire, each at its own time. Returns their decisions."""
        return self.move_to(self.now + ms)

    def move_to(self, at: int) -> list[Decision]:
        """Move the clock to `at` (ms) and let timers fire. Returns their decisions. Raises ValueError backwards."""
        if at < self.now:
            raise ValueError(f"The clock stands at {self.now} and never goes back, as {at} would.")
        before = len(self.decisions)
        self._fire(at)
        self._clock_stands()
        if all(one.clock for one in self._pending):
            self._commit()
        return self.decisions[before:]

    def restart(self, catalogue: Catalogue | None = None) -> None:
        """Drop all memory, the arbiter's too, and rebuild it from the ledgers; decide again what was not committed.

        With `catalogue`, the gate comes back with that one in force.
        """
        kept, sent, self.now = self._committed
        again = self._pending
        cause = self.cause
        del self.ledger[kept:], self.decisions[kept:], self.causes[kept:], self.outgoing[sent:]
        self._pending = []
        self.catalogue = catalogue or self.catalogue
        self.arbiter.restart()
        self._rebuild()
        self._take_up_catalogue()
        for record in again:
            self.cause = record.cause
            if record.clock:
                self._fire(record.appended_at)
                self._pending.append(record)
            else:
                self._take(record)
        self.cause = cause

    def flush(self) -> None:
        """End the transaction that is open, as a poll that brings no more does: what it decided is committed.

        What the arbiter answers is read and decided too.
        """
        self._commit()
        while self._pending:
            self._commit()

    @property
    def sent(self) -> list[Outgoing]:
        """What left the gate in transactions that are committed: all that a read-committed consumer can see."""
        return self.outgoing[: self._committed[1]]

    @property
    def holds(self) -> list[Hold]:
        """Who has what, by the arbiter."""
        return self.arbiter.state.all_holds()

    def _rebuild(self) -> None:
        self.state = MemoryState()
        self.names = Directory()
        self.decisions = []
        for raw in self.ledger:
            decision = self.codec.decode(raw)
            if not isinstance(decision, Decision):
                raise SimulatorFault(f"The ledger holds a {type(decision).__name__}, which is no decision.")
            fold(self.state, decision, hashlib.sha256(raw).digest())
            self.names.read(decision)
            self.decisions.append(decision)
        # A new writer's epoch is above every one that the ledger has seen, as after fencing.
        self.epoch = max(self.epoch, self.decisions[-1].epoch if self.decisions else 0) + 1

    def _take_up_catalogue(self) -> None:
        header = self.state.header.get("")
        if header is not None and header.catalogue_digest == self.catalogue.digest:
            return
        claim = CatalogueChanged(
            claim_id=derived_id("catalogue", self.catalogue.digest, str(len(self.ledger))), intent_id="",
            digest=self.catalogue.digest, version=self.catalogue.version, catalogue=self.catalogue.source,
        )  # fmt: skip
        self._decide(self._own(claim, self.now))
        self._commit()

    # --- what is done with it ----------------------------------------------------------------------------------------

    def _append(self, raw: bytes, topic: ClaimTopic, key: str | None, at: int | None) -> _Record:
        if at is not None and at != self.now:
            self.move_to(at)
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        return _Record(raw, topic, offset, self.now, key, self.cause)

    def _take(self, record: _Record) -> Decision:
        """Decide one record, and end the transaction when it is full."""
        place = len(self.decisions)
        self._decide(self._arrival(record))
        self._pending.append(record)
        if sum(not one.clock for one in self._pending) >= self._batch or self._speaks_to_arbiter():
            self._commit()
        return self.decisions[place]

    def _speaks_to_arbiter(self) -> bool:
        return any(isinstance(item, ResourceMessage) for item in self.outgoing[self._committed[1] :])

    def _clock_stands(self) -> None:
        """Note where the clock stands, so that a restart fires timers and reads records in the same order."""
        self._pending.append(_Record(b"", "gate", -1, self.now, None, self.cause, clock=True))

    def _hear(self, told: Answer) -> None:
        self._take(self._append(self.codec.encode(told), "resource-verdicts", told.intent_id, None))

    def _arrival(self, record: _Record) -> Arrival:
        """The record as the law hears it: its claim, or the gate's own claim that it was set aside."""
        read = self._intake.read(record.topic, record, record.place, record.appended_at)
        if isinstance(read, Arrival):
            return read
        claim = quarantine_claim(read, record.topic, self.partition, record.place)
        self.outgoing.append(
            quarantined(claim, record, record.topic, self.partition, record.place, record.appended_at,
                        len(self.ledger) + 1, self.epoch)
        )  # fmt: skip
        return self._own(claim, record.appended_at)

    def _own(self, claim: AnyClaim, at: int) -> Arrival:
        """A claim of the gate's own, made at `at` (ms)."""
        return Arrival(claim=claim, raw=self.codec.encode(claim), topic="gate", offset=-1, appended_at=at)

    def _decide(self, arrival: Arrival) -> None:
        """Decide one claim, then whatever that sets free, each as its own ledger record."""
        heard = vouched(self.state, self.catalogue, arrival, self.codec.decode)
        decision = judge(self.state, heard, self.catalogue, self.epoch)
        raw = self.codec.encode(decision)
        fold(self.state, decision, hashlib.sha256(raw).digest())
        self.ledger.append(raw)
        self.decisions.append(decision)
        self.causes.append(self.cause)
        self.names.read(decision)
        self.outgoing += outgoing(self.state, decision, self.catalogue, self.partition)
        for freed in follow_ups(self.state, decision, arrival.claim):
            self._decide(self._heard_again(freed))

    def _heard_again(self, freed: FollowUp) -> Arrival:
        claim = claim_of(self.codec.decode(freed.raw))
        return Arrival(
            claim=claim, raw=freed.raw, topic=freed.topic, offset=freed.offset, appended_at=freed.appended_at
        )

    def _fire(self, until: int) -> None:
        """Let every timer due up to `until` (ms) fire at its own time, in order; then the clock stands at `until`."""
        while (due := self.state.due(until, 1)) or self._leases_until(until):
            lease = self._leases_until(until)
            if lease and (not due or lease < due[0].due_at):
                self.now = max(self.now, lease)
                self._clock_stands()
                for told in self.arbiter.leases(self.now):
                    self._hear(told)
                continue
            # A running gate would have fired it when it was due, so that is what the clock shows meanwhile.
            self.now = max(self.now, due[0].due_at)
            self._decide(timer_arrival(self.state, due[0], self.now, self.codec.encode))
            if self.state.due(until, 1) == due:
                raise SimulatorFault(
                    f"Timer {due[0].timer} of {due[0].subject_kind} {due[0].key!r} fired at {self.now} and is due yet."
                )
            if self._speaks_to_arbiter():
                self._clock_stands()
                self._commit()
        self.now = until

    def _leases_until(self, until: int) -> int:
        """When the first lease is over that the arbiter tells of up to `until` (ms); 0 if there is none."""
        due = self.arbiter.next_due()
        return 0 if due is None or due > until else due

    def _commit(self) -> None:
        sent = self._committed[1]
        self._pending.clear()
        self._committed = (len(self.ledger), len(self.outgoing), self.now)
        self._to_arbiter += [item for item in self.outgoing[sent:] if isinstance(item, ResourceMessage)]
        if self._arbitrating or not self.arbitrates:
            return  # who called is at work on the queue, and goes on in its order; or nobody is
        self._arbitrating = True
        while self._to_arbiter:
            told = self.arbiter.hear(self._to_arbiter.popleft(), self.now)
            if told is not None:
                self._hear(told)
        self._arbitrating = False
