"""The room where the claims of one transaction are decided in order: the gate's hot path.

Each arrival becomes one decision, is encoded once, folded into the state, and handed to the writer, with whatever
leaves the gate because of it. Nothing here begins or ends a transaction, or knows whether one succeeds.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from joingate_processors.gate.intake import (
    Intake,
    IntakeRecord,
    Unfit,
    claim_of,
    quarantine_claim,
    quarantined,
    scope_of,
)
from joingate_processors.gate.transactions import OnDelivery, Writer
from joingate_processors.gate.vouching import vouched
from joingate_processors.law.arrival import Arrival, Due, FollowUp
from joingate_processors.law.judge import fold, follow_ups, judge, timer_arrival
from joingate_processors.law.outgoing import Outgoing, outgoing
from joingate_processors.law.state import State
from joingate_schemas.arbitration import Extend, Free, Quarantine, Reserve
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import AnyClaim, CatalogueChanged, TimerFired
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic, Command, CommitmentRow, Decision, InDoubtRequest
from joingate_schemas.ids import derived_id
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import RECORD_BYTES_MAX, Topics

log = logging.getLogger("joingate.gate")

Entry = tuple[int, ClaimTopic, IntakeRecord]
"""A record of an intake topic: its append time (ms), its topic's short name, and itself."""


PARTITION_UA = -1
"""What librdkafka calls a partition that its partitioner is to choose, by the key."""
DECISION_BYTES_MAX = RECORD_BYTES_MAX - 262_144
"""The largest decision that is written: what goes around it has to fit the ledger's topic too."""


class Law(NamedTuple):
    """The law's functions. A test may bring other ones; what they mean is said where they are defined."""

    judge: Callable[[State, Arrival, Catalogue, int], Decision] = judge
    fold: Callable[[State, Decision, bytes], None] = fold
    follow_ups: Callable[[State, Decision, AnyClaim], list[FollowUp]] = follow_ups
    outgoing: Callable[[State, Decision, Catalogue, int], list[Outgoing]] = outgoing
    timer_arrival: Callable[[State, Due, int, Callable[[TimerFired], bytes]], Arrival] = timer_arrival


class TimedState(State, Protocol):
    """A state that can be asked for what is due."""

    def due(self, now: int, limit: int) -> list[Due]: ...


class Undecidable(RuntimeError):
    """A claim that the gate can't decide: a fault of ours, or one that asks for too much at once."""


class TimerStuck(RuntimeError):
    """A timer fired and is due still: a fault in the law, which would fire it for ever."""


def positions_after(entries: Sequence[Entry], inputs: Mapping[str, int]) -> dict[str, int]:
    """Where `inputs` will be when `entries`, each topic's in order, are decided."""
    last: dict[str, IntakeRecord] = {topic: record for _, topic, record in entries}
    ends = dict(inputs)
    for topic, record in last.items():
        offset = record.offset()
        assert offset is not None, "a record that was read has an offset"
        ends[topic] = max(ends[topic], offset + 1)
    return ends


class Docket:
    """Decides claims on one partition, into `state` and to `writer`, as the writer of `epoch`."""

    def __init__(
        self,
        partition: int,
        state: TimedState,
        writer: Writer,
        epoch: int,
        *,
        law: Law,
        catalogue: Catalogue,
        codec: Codec,
        topics: Topics,
        intake: Intake,
        on_first: OnDelivery,
    ) -> None:
        """`on_first` hears where the first ledger record of each transaction was appended."""
        self._partition = partition
        self._state = state
        self._writer = writer
        self._epoch = epoch
        self._law = law
        self._judge, self._fold = law.judge, law.fold
        self._catalogue = catalogue
        self._codec = codec
        self._encode = codec.encode
        self._topics = topics
        self._read = intake.read
        self._on_first = on_first
        self._ledger = topics.ledger
        self._commands: dict[str, str] = {}  # executor -> topic
        self.count = 0
        """Decisions of this transaction so far."""
        self.commitments: dict[str, CommitmentRow] = {}
        """The latest row of each commitment that this transaction touched; not written yet."""
        self._current: tuple[object, ...] = ()

    @property
    def current(self) -> str:
        """What is being decided, for the sentence about a fault."""
        return "".join(map(str, self._current))

    def start(self) -> None:
        """Forget the last transaction's counts."""
        self.count = 0
        self.commitments = {}

    # --- what is decided

    def claims(self, entries: Sequence[Entry], inputs: dict[str, int]) -> dict[str, int]:
        """Decide `entries` in order, move `inputs` past them, and return each topic's latest append time (ms).

        Entries below `inputs` were decided before and are skipped.
        """
        read, decide, number = self._read, self._decide, self._partition
        heard: dict[str, int] = {}
        for appended_at, topic, record in entries:
            offset = record.offset()
            assert offset is not None, "a record that was read has an offset"
            if offset < inputs[topic]:
                continue
            self._current = topic, "/", number, "/", offset
            arrival = read(topic, record, offset, appended_at)
            if isinstance(arrival, Unfit):
                self._set_aside(arrival, record, topic, offset, appended_at)
            else:
                try:
                    decide(arrival, record.key())
                except Undecidable as fault:
                    log.error("%s is set aside: %s", self.current, fault)
                    unfit = Unfit("UNDECIDABLE", str(fault), scope_of(record.key()))
                    self._set_aside(unfit, record, topic, offset, appended_at)
            inputs[topic] = offset + 1
            heard[topic] = appended_at
        return heard

    def timers(self, heard_to: int, limit: int) -> int:
        """Fire up to `limit` timers that were due before `heard_to` (broker's ms), and return how many fired.

        Raises `TimerStuck` if one of them is due still.
        """
        now = heard_to - 1
        dues = self._state.due(now, limit)
        for due in dues:
            self._current = "timer ", due.timer, " of ", due.subject_kind, " ", due.key
            arrival = self._law.timer_arrival(self._state, due, now, self._encode)
            self._decide(arrival, arrival.claim.intent_id.encode())
        if dues:
            left = self._state.due(now, 1)
            if left and left[0] in dues:
                raise TimerStuck(
                    f"the timer {left[0].timer} of {left[0].subject_kind} {left[0].key} fired and is due still"
                )
        return len(dues)

    def catalogue_changed(self, seq: int, now: int, accepted: str = "") -> None:
        """Decide that the gate's catalogue is in force from here on; `seq` is that of the last decision.

        `accepted` says what it can't discharge, and who took that on.
        """
        catalogue = self._catalogue
        claim = CatalogueChanged(
            claim_id=derived_id("catalogue", catalogue.digest, str(self._partition), str(seq)),
            intent_id="",
            principal="gate",
            digest=catalogue.digest,
            version=catalogue.version,
            catalogue=catalogue.source,
            accepted=accepted,
        )
        self._current = "catalogue ", catalogue.digest
        self._own(claim, now)

    def _set_aside(self, unfit: Unfit, record: IntakeRecord, topic: str, offset: int, appended_at: int) -> None:
        """Quarantine a record: the fact goes through the ledger like any claim, the bytes to their own topic."""
        claim = quarantine_claim(unfit, topic, self._partition, offset)
        if self._state.quarantines.get(claim.quarantine_id) is not None:
            return  # It was set aside before; only the memory of having read it was lost.
        decision = self._own(claim, appended_at)
        wrapped = quarantined(claim, record, topic, self._partition, offset, appended_at, decision.seq, decision.epoch)
        self._send(self._topics.quarantine, self._encode(wrapped), claim.quarantine_id.encode())

    def _own(self, claim: AnyClaim, now: int) -> Decision:
        arrival = Arrival(claim=claim, raw=self._encode(claim), topic="gate", offset=-1, appended_at=now)
        return self._decide(arrival, claim.intent_id.encode())

    # --- how

    def _decide(self, arrival: Arrival, key: bytes | None) -> Decision:
        """Decide one claim, and then whatever it lets be decided."""
        state = self._state
        try:
            if arrival.claim.signature is not None:
                arrival = vouched(state, self._catalogue, arrival, self._codec.decode)
            decision = self._judge(state, arrival, self._catalogue, self._epoch)
            raw = self._encode(decision)
        except RegistryUnavailable:
            raise
        except Exception as error:
            # Nothing is written yet, so this claim alone can be set aside, and stops nobody else's.
            raise Undecidable(f"the gate can't decide it ({type(error).__name__}: {error})") from error
        if len(raw) > DECISION_BYTES_MAX:
            raise Undecidable(f"its decision would have {len(raw)} bytes, and the ledger takes {DECISION_BYTES_MAX}")
        self._fold(state, decision, sha256(raw).digest())
        if self.count:
            self._send(self._ledger, raw, key)
        else:
            self._writer.produce(self._ledger, raw, key, self._partition, on_delivery=self._on_first)
        self.count += 1
        if decision.facts:
            self._follow(decision, arrival)
        return decision

    def _send(self, topic: str, value: bytes, key: bytes | None) -> None:
        try:
            self._writer.produce(topic, value, key, self._partition)
        except BufferError:
            self._writer.produce_when_there_is_room(topic, value, key, self._partition)

    def _follow(self, decision: Decision, arrival: Arrival) -> None:
        """Send what leaves the gate because of `decision`, and decide the claims that waited for it."""
        key = decision.intent_id.encode()
        for item in self._law.outgoing(self._state, decision, self._catalogue, self._partition):
            match item:
                case Command():
                    self._send(self._commands_of(item.executor), self._encode(item), key)
                case InDoubtRequest():
                    self._send(self._topics.in_doubt, self._encode(item), key)
                case CommitmentRow():
                    self.commitments[item.commitment_id] = item
                case Reserve() | Extend() | Free() | Quarantine():
                    self._tell_arbiter(self._encode(item), item.resource_ref.encode())
        for up in self._law.follow_ups(self._state, decision, arrival.claim):
            claim = claim_of(self._codec.decode(up.raw))
            following = Arrival(claim=claim, raw=up.raw, topic=up.topic, offset=up.offset, appended_at=up.appended_at)
            self._decide(following, claim.intent_id.encode())

    def _tell_arbiter(self, value: bytes, key: bytes) -> None:
        """A resource has its own partition, whatever the operation's: the producer finds it by the key."""
        try:
            self._writer.produce(self._topics.resource_claims, value, key, PARTITION_UA)
        except BufferError:
            self._writer.produce_when_there_is_room(self._topics.resource_claims, value, key, PARTITION_UA)

    def _commands_of(self, executor: str) -> str:
        topic = self._commands.get(executor)
        if topic is None:
            topic = self._commands[executor] = self._topics.commands(executor)
        return topic
