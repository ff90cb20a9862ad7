"""The book of the two ledgers beside each other: what the arbiter did for an operation, and what its gate asked for.

Neither ledger is believed, and no code is shared with either law. The arbiter's is read first and the gate's after it,
to its end: so whatever the arbiter heard by then has its decision in what is read of the gate's. What the gate has said
and the arbiter has not heard yet is under way, and no fault.
"""

from collections.abc import Iterator
from typing import NamedTuple

from joingate_processors.forensics.violations import Violation
from joingate_schemas import facts as f
from joingate_schemas.arbitration import ArbiterDecision, Hold
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import AnyFact

TWO_LEDGERS: dict[str, str] = {
    "ASKED": "The arbiter grants, prolongs, frees and quarantines what the gate's decision that it names asked for.",
    "HEARD": "What the gate takes for granted, the arbiter has granted.",
    "FREED": "What has ended at the gate is given back, as soon as the arbiter has heard anything later.",
}
"""What is checked of the two together: the name of each invariant, and the sentence that it is."""

_CARRIED_OUT = ("GRANTED", "DENIED", "DONE")
_WITHOUT_EFFECT = (f.OperationWithdrawn, f.OperationFailed, f.OperationCompensated)
_WITH_DOUBT = (f.OperationInDoubt, f.OperationEscalated)

Where = tuple[int, Violation]
"""A partition of the ledger on which the violation shows, and the violation."""


class _Ruling(NamedTuple):
    """What of an arbiter's record is held against the gate's decision that it names."""

    partition: int
    seq: int
    message_type: str
    operation_id: str
    resource_ref: str
    epoch: int
    quantity: int | None  # that it has now, where it was granted


class _Operation:
    """An operation that needs something scarce, as the gate's facts so far tell of it."""

    def __init__(self) -> None:
        self.status = "OPEN"
        self.commitment = ""
        self.over_at: int | None = None  # the seq since which nothing of it is needed any more


class TwoLedgers:
    """Reads the arbiter's ledger, partition by partition, and then the gate's; tells what does not go together."""

    def __init__(self, only: int | None = None) -> None:
        """`only`: the partition of the gate's ledger that is read; None: all that there are."""
        self._only = only
        self._waiting: dict[tuple[int, int], list[_Ruling]] = {}  # by the gate's partition and seq
        self._heard: dict[tuple[int, int], int] = {}  # arbiter's partition, gate's -> the latest seq that it heard of
        self._holds: dict[tuple[str, str], tuple[int, int, Hold]] = {}  # operation, reference -> where, seq, what
        self._granted: set[tuple[str, str]] = set()
        self._taken: list[tuple[int, int, str, str]] = []  # grants that the gate heard: partition, seq, and of what
        self._operations: dict[str, _Operation] = {}
        self._creators: dict[str, str] = {}  # commitment -> the operation that made it
        self._places: dict[str, int] = {}  # operation -> its partition
        self._unasked: list[Where] = []

    # --- the arbiter's ledger

    def ruling(self, partition: int, ruling: ArbiterDecision) -> None:
        """The next record of a partition of the arbiter's ledger."""
        key = (ruling.operation_id, ruling.resource_ref)
        if ruling.message_type not in ("", "LeasePassed"):
            place = (partition, ruling.gate_partition)
            self._heard[place] = max(ruling.n, self._heard.get(place, 0))
            if ruling.verdict in _CARRIED_OUT:
                quantity = ruling.hold["quantity"] if ruling.verdict == "GRANTED" and ruling.hold is not None else None
                self._waiting.setdefault((ruling.gate_partition, ruling.n), []).append(
                    _Ruling(partition, ruling.seq, ruling.message_type, *key, ruling.gate_epoch, quantity)
                )
        self.granted(ruling)
        if ruling.hold is not None:
            self._holds[key] = (partition, ruling.seq, ruling.hold)
        elif ruling.message_type:
            self._holds.pop(key, None)

    def granted(self, ruling: ArbiterDecision) -> None:
        """Note that this was granted, if it was; for records that were written after the others were read."""
        if ruling.verdict == "GRANTED":
            self._granted.add((ruling.operation_id, ruling.resource_ref))

    # --- the gate's ledger

    def decision(self, partition: int, decision: Decision) -> None:
        """The next record of a partition of the gate's ledger."""
        for fact in decision.facts:
            self._read(partition, decision, fact)
        for ruling in self._waiting.pop((partition, decision.seq), ()):
            wrong = self._unasked_by(ruling, decision)
            if wrong:
                self._unasked.append((ruling.partition, _asked(ruling, wrong)))

    def _read(self, partition: int, decision: Decision, fact: AnyFact) -> None:
        match fact:
            case f.ResourceChanged():
                if fact.standing == "WANTED":
                    self._operations.setdefault(fact.operation_id, _Operation())
                    self._places[fact.operation_id] = partition
                elif fact.standing == "HELD":
                    self._taken.append((partition, decision.seq, fact.operation_id, fact.resource_ref))
            case f.CommitmentProposed():
                operation = self._operations.get(fact.operation_id or "")
                if operation is not None and fact.operation_id is not None:
                    operation.commitment = "PROPOSED"
                    self._creators[fact.commitment_id] = fact.operation_id
                    self._settle_up(operation, decision.seq)
            case f.CommitmentChanged():
                operation = self._operations.get(self._creators.get(fact.commitment_id, ""))
                if operation is not None:
                    operation.commitment = fact.after
                    self._settle_up(operation, decision.seq)
            case (
                f.OperationWithdrawn() | f.OperationFailed() | f.OperationCompensated() | f.OperationSettled()
                | f.OperationInDoubt() | f.OperationEscalated()
            ):  # fmt: skip
                operation = self._operations.get(fact.operation_id)
                if operation is not None:
                    operation.status = _status_after(fact)
                    self._settle_up(operation, decision.seq)
            case _:
                pass  # it is not about what an operation has

    @staticmethod
    def _settle_up(operation: _Operation, seq: int) -> None:
        """What made an obligation holds on until that is discharged; one that left our books keeps the thing."""
        discharged = operation.commitment in ("", "SATISFIED", "RELEASED")
        over = operation.status == "GONE" or (operation.status == "SETTLED" and discharged)
        operation.over_at = seq if over else None

    def _unasked_by(self, ruling: _Ruling, decision: Decision) -> str:
        """Why the decision does not ask for what the arbiter did; empty if it does."""
        if decision.epoch != ruling.epoch:
            return f"a gate of epoch {ruling.epoch} is named, and epoch {decision.epoch} decided"
        identity, reference = ruling.operation_id, ruling.resource_ref
        stands = {
            fact.standing: fact.quantity
            for fact in decision.facts
            if isinstance(fact, f.ResourceChanged) and (fact.operation_id, fact.resource_ref) == (identity, reference)
        }
        kinds = {type(fact) for fact in decision.facts if getattr(fact, "operation_id", None) == identity}
        operation = self._operations.get(identity)
        over = operation is not None and operation.over_at == decision.seq
        match ruling.message_type:
            case "Reserve" if "ASKED" in stands:
                asked = stands["ASKED"]
                had = ruling.quantity is None or ruling.quantity == asked
                return "" if had else f"it was given {ruling.quantity}, and {asked} were asked for"
            case "Extend" if "EXTENDED" in stands or (f.OperationSettled in kinds and not over):
                return ""
            case "Quarantine" if f.OperationInDoubt in kinds:
                return ""
            case "Free" if "RETURNED" in stands or over:
                return ""
            case _:
                return f"the decision does not say {ruling.message_type} of {reference}"

    # --- what does not go together

    def unheard(self) -> list[Where]:
        """Grants that the gate took for given, and that no record read so far gives: read the arbiter's again."""
        return [
            (partition, Violation(seq, "HEARD", (operation, ref), f"the arbiter never granted {ref} to {operation}"))
            for partition, seq, operation, ref in self._taken
            if (operation, ref) not in self._granted
        ]

    def unasked(self) -> Iterator[Where]:
        """What the arbiter did unasked, once the gate's ledger is read to its end; by the arbiter's partition."""
        yield from self._unasked
        for (gate, n), rulings in self._waiting.items():
            for one in rulings if self._only in (None, gate) else ():
                yield one.partition, _asked(one, f"partition {gate} of the gate's ledger has no decision {n}")

    def kept(self) -> Iterator[Where]:
        """What is held for an operation that is over, though the arbiter has heard of what came later."""
        for place, at, hold, told in self._left():
            if told:
                ids = (hold["resource_ref"], hold["operation_id"])
                sentence = f"the operation is over, and {hold['resource_ref']} was never given back"
                yield place, Violation(at, "FREED", ids, sentence)

    @property
    def under_way(self) -> int:
        """How many are still held for an operation that is over, of which the arbiter has not heard yet."""
        return sum(not told for *_, told in self._left())

    @property
    def held(self) -> int:
        """How many are held, or spent, by the arbiter's ledger."""
        return len(self._holds)

    def _left(self) -> Iterator[tuple[int, int, Hold, bool]]:
        for (identity, _), (place, at, hold) in self._holds.items():
            operation = self._operations.get(identity)
            if operation is None or operation.over_at is None or hold["status"] == "SPENT":
                continue
            heard = self._heard.get((place, self._places[identity]), 0)
            yield place, at, hold, heard > operation.over_at


def _status_after(fact: AnyFact) -> str:
    if isinstance(fact, _WITHOUT_EFFECT):
        return "GONE"
    return "OPEN" if isinstance(fact, _WITH_DOUBT) else "SETTLED"


def _asked(ruling: _Ruling, sentence: str) -> Violation:
    return Violation(ruling.seq, "ASKED", (ruling.resource_ref, ruling.operation_id), sentence)
