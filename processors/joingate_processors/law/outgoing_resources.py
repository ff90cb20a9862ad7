"""What leaves the gate for the arbiter because of a decision: Reserve, Extend, Free and Quarantine. Pure.

`n` is the decision's seq, so a message that is newer is known to be. A decision says at most one thing of each
resource of an operation.
"""

from collections.abc import Iterable

from joingate_processors.law.case import Case
from joingate_processors.law.resources import outcome_of
from joingate_processors.law.state import Operation
from joingate_schemas import facts as f
from joingate_schemas.arbitration import (
    AnyResourceMessage,
    Extend,
    Free,
    FreeOutcome,
    Quarantine,
    Reserve,
    ResourceMode,
)
from joingate_schemas.catalogue import Resource
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import AnyFact

# Most facts concern no resource, and most operations need none.
_CONCERNED: frozenset[type] = frozenset(
    {
        f.ResourceChanged, f.OperationInDoubt, f.OperationWithdrawn, f.OperationFailed, f.OperationSettled,
        f.OperationCompensated, f.CommitmentChanged,
    }
)  # fmt: skip


def resource_messages(
    case: Case, decision: Decision, partition: int, facts: Iterable[AnyFact]
) -> list[AnyResourceMessage]:
    """What `facts`, of `decision`, mean for the arbiter, read from the state into which they were folded."""
    concerned = [fact for fact in facts if type(fact) in _CONCERNED]
    if not concerned:
        return []
    said: dict[tuple[str, str], AnyResourceMessage] = {}
    speaker = _Speaker(case, decision, partition)
    for fact in concerned:
        match fact:
            case f.ResourceChanged():
                message = speaker.about(fact)
                if message is not None:
                    said[fact.operation_id, fact.resource_ref] = message
            case f.OperationInDoubt():
                for message in speaker.doubted(fact):
                    said[message.operation_id, message.resource_ref] = message
            case (
                f.OperationWithdrawn()
                | f.OperationFailed()
                | f.OperationSettled()
                | f.OperationCompensated()
                | f.CommitmentChanged()
            ):
                for message in speaker.ended(fact):
                    said[message.operation_id, message.resource_ref] = message
            case _:
                pass  # concerns no resource
    return list(said.values())


class _Speaker:
    def __init__(self, case: Case, decision: Decision, partition: int) -> None:
        self._case = case
        self._decision = decision
        self._partition = partition

    def about(self, fact: f.ResourceChanged) -> AnyResourceMessage | None:
        operation = self._case.state.operations.get(fact.operation_id)
        match fact.standing:
            case "ASKED" if operation is not None:
                return self._reserve(operation, fact)
            case "EXTENDED" if operation is not None:
                return self._extend(operation, fact.resource_ref)
            case "RETURNED":
                ended = None if operation is None else outcome_of(self._case.state, operation)
                return self._free(fact, 0 if operation is None else operation.generation, ended or "UNUSED")
            case _:
                return None

    def doubted(self, fact: f.OperationInDoubt) -> list[AnyResourceMessage]:
        """No other operation on what it touches, where nobody can say whether it happened until a period closes."""
        operation = self._case.state.operations.get(fact.operation_id)
        if operation is None or not operation.needs:
            return []
        downstream = self._case.downstream_of(operation)
        if downstream is not None and {"IDEMPOTENT_KEY", "LOOKUP"} & set(downstream.capabilities):
            return []
        return [
            Quarantine(
                resource_ref=reference, operation_id=operation.operation_id, generation=operation.generation,
                n=self._decision.seq, intent_id=operation.intent_id, partition=self._partition,
                epoch=self._decision.epoch, cause=fact.cause,
            )
            for reference in _had(operation)
        ]  # fmt: skip

    def ended(
        self,
        fact: f.OperationWithdrawn | f.OperationFailed | f.OperationSettled | f.OperationCompensated
        | f.CommitmentChanged,
    ) -> list[AnyResourceMessage]:  # fmt: skip
        """What it had is given back, unless it keeps it; then a quarantine that it may have caused ends."""
        state = self._case.state
        identity = fact.operation_id
        if isinstance(fact, f.CommitmentChanged):
            commitment = state.commitments.get(fact.commitment_id)
            identity = (commitment.creating_operation if commitment else None) or ""
        operation = state.operations.get(identity or "")
        if operation is None or not operation.needs:
            return []
        outcome = outcome_of(state, operation)
        if outcome is not None:
            return [self._free_of(operation, reference, outcome) for reference in _had(operation)]
        if isinstance(fact, f.OperationSettled) and operation.in_doubt_cause:
            return [self._extend(operation, reference) for reference in _had(operation)]
        return []

    def _reserve(self, operation: Operation, fact: f.ResourceChanged) -> Reserve:
        known = self._known(fact.resource_ref)
        capacity = None
        if known is not None and known.mode == "CAPACITY":
            capacity = known.capacities.get(fact.resource_ref.partition(":")[2], known.capacity)
        return Reserve(
            resource_ref=fact.resource_ref, operation_id=operation.operation_id, generation=operation.generation,
            n=self._decision.seq, intent_id=operation.intent_id, partition=self._partition,
            epoch=self._decision.epoch, mode=_mode(known), quantity=fact.quantity,
            capacity=None if capacity is None else int(capacity), keeps=known is not None and known.keeps,
            lease_ms=None if known is None else known.lease_ms,
        )  # fmt: skip

    def _extend(self, operation: Operation, reference: str) -> Extend:
        return Extend(
            resource_ref=reference, operation_id=operation.operation_id, generation=operation.generation,
            n=self._decision.seq, intent_id=operation.intent_id, partition=self._partition,
            epoch=self._decision.epoch,
        )  # fmt: skip

    def _free_of(self, operation: Operation, reference: str, outcome: FreeOutcome) -> Free:
        fact = f.ResourceChanged(operation_id=operation.operation_id, intent_id=operation.intent_id,
                                 resource_ref=reference, quantity=operation.needs[reference],
                                 standing="RETURNED")  # fmt: skip
        return self._free(fact, operation.generation, outcome)

    def _free(self, fact: f.ResourceChanged, generation: int, outcome: FreeOutcome) -> Free:
        known = self._known(fact.resource_ref)
        return Free(
            resource_ref=fact.resource_ref, operation_id=fact.operation_id, generation=generation,
            n=self._decision.seq, intent_id=fact.intent_id, partition=self._partition, epoch=self._decision.epoch,
            outcome=outcome, mode=_mode(known), quantity=fact.quantity, keeps=known is not None and known.keeps,
        )  # fmt: skip

    def _known(self, reference: str) -> Resource | None:
        return self._case.catalogue.resources.get(reference.partition(":")[0])


def _mode(known: Resource | None) -> ResourceMode:
    return "UNKNOWN" if known is None else known.mode


def _had(operation: Operation) -> list[str]:
    """What it has, and what it asked for and may have been granted by now."""
    return sorted({*operation.held, operation.asked} - {""})
