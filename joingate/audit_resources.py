"""The room of `verify` for the arbiter's ledger: checked by itself, decided again, and held against the gate's.

The books know neither law. The arbiter's law then decides each message again, from the bytes in its ledger.
"""

from collections.abc import Iterable

from joingate.ledger import Entry, Ruling
from joingate_processors.arbiter.judge import Heard, fold, judge, lease_passed
from joingate_processors.arbiter.state import ArbiterState
from joingate_processors.forensics.checked_both import TwoLedgers
from joingate_processors.forensics.checked_resources import ArbiterBook
from joingate_schemas.arbitration import AnyResourceMessage, ArbiterDecision, ResourceMessage
from joingate_schemas.codec import Codec, Undecodable


class ResourceAudit:
    """Reads the arbiter's ledger with `ruling`, then the gate's with `entry`; `breaches` are sentences.

    `records` counts the arbiter's records by partition; `disagreements` are those that its law decides otherwise now.
    """

    def __init__(self, codec: Codec, partitions: Iterable[int] = (), only: int | None = None) -> None:
        """`partitions`: which there are of the arbiter's ledger. `only`: the gate's partition that will be read."""
        self._codec = codec
        self._beside = TwoLedgers(only)
        self._books: dict[int, ArbiterBook] = {}
        self._states: dict[int, ArbiterState] = {}
        self.records = dict.fromkeys(partitions, 0)
        self.disagreements: list[str] = []

    def ruling(self, ruling: Ruling) -> None:
        """The next record of a partition of the arbiter's ledger."""
        number, decision = ruling.partition, ruling.decision
        self.records[number] = self.records.get(number, 0) + 1
        self._books.setdefault(number, ArbiterBook(self._codec)).read(decision, ruling.raw)
        self._beside.ruling(number, decision)
        state = self._states.setdefault(number, ArbiterState())
        again = self._again(state, decision)
        if again != decision:
            said = "can't be decided again" if again is None else f"is {again.verdict} {again.reason}"
            self.disagreements.append(
                f"Resource partition {number}, seq {decision.seq}: {decision.message_type} of {decision.resource_ref} "
                f"was {decision.verdict} {decision.reason}, and {said} by this release's law."
            )
        fold(state, decision, ruling.digest)
        state.touched.clear()  # nobody writes rows here

    def _again(self, state: ArbiterState, decision: ArbiterDecision) -> ArbiterDecision | None:
        """What this release's law decides on the same message; None if the record does not tell what was heard."""
        if decision.message_type == "LeasePassed":
            hold = state.hold(decision.resource_ref, decision.operation_id)
            return None if hold is None else lease_passed(state, hold, decision.decided_at, decision.epoch)
        message: AnyResourceMessage | None = None
        if decision.message_type:
            try:
                found = self._codec.decode(decision.message)
            except Undecodable:
                return None
            if not isinstance(found, ResourceMessage):
                return None
            message = found
        problem = ("", "") if message is not None else (decision.reason, decision.detail)
        heard = Heard(message, decision.message, decision.offset, decision.appended_at, *problem)
        return judge(state, heard, decision.epoch)

    def entry(self, entry: Entry) -> None:
        """The next record of a partition of the gate's ledger."""
        self._beside.decision(entry.partition, entry.decision)

    @property
    def lacks(self) -> bool:
        """Whether the gate took for granted what no record so far grants: then the arbiter's ledger has gone on."""
        return bool(self._beside.unheard())

    def later(self, ruling: Ruling) -> None:
        """A record of the arbiter's ledger as it is read once more, after the gate's."""
        self._beside.granted(ruling.decision)

    @property
    def under_way(self) -> int:
        """How many are held for operations that are over, of which the arbiter has not heard yet."""
        return self._beside.under_way

    @property
    def held(self) -> int:
        """How many are held, or spent."""
        return self._beside.held

    def breaches(self) -> list[str]:
        """Every breach, as a sentence: of the arbiter's ledger itself, then of the two beside each other."""
        itself = [(number, one) for number, book in sorted(self._books.items()) for one in book.violations]
        beside = [*self._beside.unasked(), *self._beside.kept()]
        return [
            *(f"Resource partition {number}: {one}" for number, one in [*itself, *beside]),
            *(f"Partition {number}: {one}" for number, one in self._beside.unheard()),
        ]
