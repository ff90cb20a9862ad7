"""The lanes of a projector: one for each partition that it follows, each with its own checks, position and state.

A lane that finds a fault stops itself with a sentence and leaves the other lanes alone. What it folded before stands.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from joingate_projections.fold import fold, fold_arbiter, fold_quarantined
from joingate_projections.store import Batch, Position
from joingate_projections.tables import Row
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import Decision, Quarantined
from joingate_schemas.guard import Chained, LedgerFault, LedgerGuard

Record = TypeVar("Record", Decision, Quarantined, ArbiterDecision)
Stream: TypeAlias = Literal["ledger", "quarantine", "resources"]
State: TypeAlias = Literal["CATCHING_UP", "FOLLOWING", "WAITING", "STOPPED"]
REBUILD = "Should that be as intended, start `joingate project --rebuild`."


class Fault(Exception):
    """Why a lane must stop, as a sentence."""


class UnknownSchema(Fault):
    """A record of a schema that nobody told us of yet: worth a look at the schemas topic."""


@dataclass(frozen=True)
class Status:
    """How a lane stands.

    FOLLOWING: everything readable is folded. WAITING: so it is, but records of a transaction that has not ended lie
    above. `behind` is how many offsets there are up to the topic's end (transaction markers count too).
    """

    stream: Stream
    partition: int
    state: State
    seq: int
    behind: int
    sentence: str

    @property
    def name(self) -> str:
        """The name under which the store keeps it."""
        return f"{self.stream}-{self.partition:05d}"

    def row(self) -> Row:
        """The status as readers get it."""
        return dict(vars(self))


class Lane(ABC):
    """One partition of one stream."""

    stream: Stream

    def __init__(self, topic: str, partition: int, position: Position | None) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self._reread = position is not None
        self._end: int | None = None  # Where reading met the end of what is readable.
        self._high = 0
        self._trimmed_to = 0
        self._fault = ""

    @property
    def named(self) -> str:
        """The lane in a sentence."""
        return f"partition {self.partition} of {self.topic}"

    def start(self, low: int, high: int) -> int:
        """The offset to read from, given the partition's bounds: that of the last record, so that it is seen again.

        Raises Fault when what was folded and what the topic holds cannot be joined.
        """
        self._high = high
        self._trimmed_to = low
        if self.position is None:
            return low
        if self.position.offset >= high:
            raise Fault(
                f"The projections hold {self.named} up to offset {self.position.offset}, but it ends at {high}: the "
                f"topic was made anew or cut off. {REBUILD}"
            )
        # Below the start there may be nothing but the marks of transactions: whether a record is missing is for the
        # checks of the next one to say.
        self._reread = self.position.offset >= low
        return max(low, self.position.offset)

    def take(self, batch: Batch, codec: Codec, offset: int, value: bytes | None) -> None:
        """Fold one record into the batch. Raises Fault, and RegistryUnavailable; the batch is then as before."""
        raw = value or b""
        digest = hashlib.sha256(raw)
        self._end = None
        if self._reread:
            self._reread = False
            assert self.position is not None, "only a record that was folded is read again"
            if (offset, digest.hexdigest()) != (self.position.offset, self.position.digest):
                raise Fault(
                    f"The record at offset {self.position.offset} of {self.named} is not the one that was folded: the "
                    f"topic was made anew or changed. {REBUILD}"
                )
            return
        if self.position is not None and offset <= self.position.offset:
            return
        folded = self._fold(batch, codec, offset, raw, digest.digest())
        if folded is None:
            return  # The position stays with the last new record, whose hash the next one continues.
        seq, epoch = folded
        self.position = Position(
            self.stream, self.partition, offset=offset, seq=seq, epoch=epoch, digest=digest.hexdigest()
        )
        batch.reached(self.position)

    @abstractmethod
    def _fold(self, batch: Batch, codec: Codec, offset: int, raw: bytes, digest: bytes) -> tuple[int, int] | None:
        """Check and fold a record: its ledger seq and epoch, or None for one that was folded before.

        Raises Fault before the batch is touched.
        """

    def met_end(self, offset: int) -> None:
        """Everything readable below `offset` was read."""
        self._end = offset

    def stop(self, sentence: str) -> None:
        """Read no further."""
        self._fault = sentence

    @property
    def stopped(self) -> bool:
        """Whether a fault was found."""
        return bool(self._fault)

    @property
    def at_end(self) -> bool:
        """Whether everything readable was read."""
        return self._end is not None

    def status(self, high: int | None = None) -> Status:
        """How the lane stands, given the topic's end where it is known."""
        self._high = max(self._high, high or 0)
        reached = self._end if self._end is not None else self.position.offset + 1 if self.position else 0
        behind = max(0, self._high - reached)
        state: State = "CATCHING_UP"
        if self._fault:
            state = "STOPPED"
        elif self._end is not None:
            state = "WAITING" if behind else "FOLLOWING"
        seq = self.position.seq if self.position else 0
        return Status(self.stream, self.partition, state, seq, behind, self._fault)


class LedgerLane(Lane):
    """A partition of the ledger: only what continues the record before is believed."""

    stream: Stream = "ledger"
    _whose = "The"

    def __init__(self, topic: str, partition: int, position: Position | None) -> None:
        super().__init__(topic, partition, position)
        name = f"{self._whose} ledger's partition {partition}"
        self._guard = LedgerGuard(name=name)
        if position is not None:
            self._guard = LedgerGuard(position.seq, bytes.fromhex(position.digest), position.epoch, name=name)

    def start(self, low: int, high: int) -> int:
        """As any lane's, but folding begins with the first decision or not at all."""
        if self.position is None and low > 0:
            raise Fault(
                f"Projections need {self.named} from its start, but it begins at offset {low}: older records were "
                "deleted. Restore the topic, or use a store that had folded them."
            )
        return super().start(low, high)

    def _deleted(self) -> str:
        """What else there is to say about a record that does not come next."""
        if self.position is None or self.position.offset >= self._trimmed_to:
            return ""
        return (
            f" The topic begins at offset {self._trimmed_to} now: records were deleted before they were folded. "
            "Restore it, or use a store that had folded them."
        )

    def _fold(self, batch: Batch, codec: Codec, offset: int, raw: bytes, digest: bytes) -> tuple[int, int] | None:
        decision = _decoded(codec, raw, Decision, f"The record at offset {offset} of {self.named}")
        if not self._comes_next(decision, raw, digest):
            return None
        fold(batch, decision, self.partition, codec)
        return decision.seq, decision.epoch

    def _comes_next(self, decision: Chained, raw: bytes, digest: bytes) -> bool:
        """Whether the record is new and continues the one before; False: it was folded. Raises Fault."""
        try:
            return self._guard.check(decision, raw, digest) == "NEW"
        except LedgerFault as fault:
            raise Fault(f"{fault}{self._deleted()}") from fault


class ResourceLane(LedgerLane):
    """A partition of the arbiter's ledger, believed as the gate's is."""

    stream: Stream = "resources"
    _whose = "The arbiter's"

    def _fold(self, batch: Batch, codec: Codec, offset: int, raw: bytes, digest: bytes) -> tuple[int, int] | None:
        decision = _decoded(codec, raw, ArbiterDecision, f"The record at offset {offset} of {self.named}")
        if not self._comes_next(decision, raw, digest):
            return None
        fold_arbiter(batch, decision, self.partition)
        return decision.seq, decision.epoch


class QuarantineLane(Lane):
    """A partition of the quarantine: what a gate that was replaced still writes is refused."""

    stream: Stream = "quarantine"

    def _fold(self, batch: Batch, codec: Codec, offset: int, raw: bytes, digest: bytes) -> tuple[int, int] | None:
        record = _decoded(codec, raw, Quarantined, f"The record at offset {offset} of {self.named}")
        if self.position is not None and record.epoch < self.position.epoch:
            raise Fault(
                f"The record at offset {offset} of {self.named} is from epoch {record.epoch}, after epoch "
                f"{self.position.epoch}: a gate that had been replaced wrote it. Stop that gate."
            )
        fold_quarantined(batch, record)
        return record.ledger_seq, record.epoch


def _decoded(codec: Codec, raw: bytes, cls: type[Record], named: str) -> Record:
    try:
        record = codec.decode(raw)
    except Undecodable as error:
        kind = UnknownSchema if error.problem == "UNKNOWN_SCHEMA" else Fault
        raise kind(
            f"{named} cannot be read ({error.problem}: {error.detail}). Use a release that knows what wrote it."
        ) from error
    if not isinstance(record, cls):
        raise Fault(f"{named} is a {type(record).__name__}, not a {cls.__name__}. See who else writes to the topic.")
    return record
