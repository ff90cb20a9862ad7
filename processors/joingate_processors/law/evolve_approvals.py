"""What facts about approvals do to state. One that an operation uses is not there to be used by another any more."""

from typing import TypeVar

from joingate_processors.law.state import Operation, StandingApproval, State
from joingate_schemas import facts as f
from joingate_schemas.ids import operation_id
from joingate_schemas.record import changed

Row = TypeVar("Row", Operation, StandingApproval)


def recorded(state: State, fact: f.ApprovalRecorded) -> None:
    """The operation has the approval; a no is on the record, and what follows from it are facts of its own."""
    operation = state.operations.get(fact.operation_id)
    if operation is None or not fact.granted:
        return
    given = _with(operation, fact.principal, fact.expires_at, fact.key_id, fact.given_at)
    state.operations.put(fact.operation_id, given)
    slot_id = operation_id(operation.intent_id, operation.action, operation.business_key, 1)
    standing = state.approvals.get(slot_id)
    if standing is not None and fact.principal in standing.approvals:
        _put(state, _without(standing, fact.principal))


def plan_approved(state: State, fact: f.PlanApproved) -> None:
    """Each step's content is approved before it is dispatched, or not any more. Other content's approvals are void."""
    for slot_id, digest in fact.contents.items():
        row = state.approvals.get(slot_id)
        if row is None or row.content_digest != digest:
            row = StandingApproval(slot_id=slot_id, intent_id=fact.intent_id, content_digest=digest, approvals=[],
                                   approval_expiries={}, approval_keys={})  # fmt: skip
        if fact.granted:
            row = _with(row, fact.principal, fact.expires_at, fact.key_id, fact.given_at)
        else:
            row = changed(row, approvals=[], approval_expiries={}, approval_keys={})
        _put(state, row)


def _put(state: State, row: StandingApproval) -> None:
    if row.approvals:
        state.approvals.put(row.slot_id, row)
    else:
        state.approvals.delete(row.slot_id)


def _with(row: Row, name: str, expires_at: int | None, key_id: str, given_at: int | None) -> Row:
    """The row with this approval; an earlier one by the same principal gives way to it."""
    expiries = {one: at for one, at in row.approval_expiries.items() if one != name}
    keys = {one: key for one, key in row.approval_keys.items() if one != name}
    if expires_at is not None:
        expiries[name] = expires_at
    if key_id:
        keys[name] = f"{key_id}@{given_at or 0}"
    approvals = [one for one in row.approvals if one != name] + [name]
    return changed(row, approvals=approvals, approval_expiries=expiries, approval_keys=keys)


def _without(row: StandingApproval, name: str) -> StandingApproval:
    return changed(
        row,
        approvals=[one for one in row.approvals if one != name],
        approval_expiries={one: at for one, at in row.approval_expiries.items() if one != name},
        approval_keys={one: key for one, key in row.approval_keys.items() if one != name},
    )
