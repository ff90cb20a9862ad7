"""Obligations that wait for something to become true: what they wait for, and what is known of it.

Nothing is made while a condition is awaited: the obligation is PENDING_CONDITION and its operation STAGED, so that it
may be dropped as a fact.
"""

from joingate_processors.law.case import Case
from joingate_processors.law.state import Commitment, Operation, condition_key
from joingate_schemas.catalogue import Action
from joingate_schemas.claims import Arguments
from joingate_schemas.templates import fill


def condition_of(case: Case, action: Action, said: str | None, business_key: str, arguments: Arguments) -> str | None:
    """What has to be observed before the action's obligation is made: as its type says, else as the step does."""
    kind = case.catalogue.obligations.get(action.obligation or "")
    if kind is None:
        return None
    return fill(kind.condition, business_key, arguments) if kind.condition else said


def is_met(case: Case, intent_id: str, condition: str) -> bool:
    """Whether the latest that was said of the condition is that it is so."""
    row = case.state.conditions.get(condition_key(intent_id, condition))
    return row is not None and row.finding == "PRESENT"


def awaited_by(case: Case, operation: Operation) -> Commitment | None:
    """The obligation that the operation would make, if its condition is not met now; else None."""
    row = case.state.commitments.get(operation.commitment_id) if operation.commitment_id else None
    if row is None or row.condition is None or row.creating_operation != operation.operation_id:
        return None
    return None if is_met(case, operation.intent_id, row.condition) else row


def waiting_for(case: Case, intent_id: str, condition: str) -> list[Commitment]:
    """The intent's obligations that wait for the condition, in a settled order."""
    intent = case.state.intents.get(intent_id)
    if intent is None or not intent.commitments_open:
        return []
    rows = [case.state.commitments.get(one) for one in case.state.open_commitments.members(intent_id)]
    return [row for row in rows if row is not None and row.status == "PENDING_CONDITION" and row.condition == condition]
