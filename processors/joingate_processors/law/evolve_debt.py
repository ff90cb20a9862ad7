"""What facts do to debts: the sums, the backlogs and what was spent move in step with the rows that they are of.

A fact moves them by what changed and no more, whatever else is open. Everything is in whole numbers, so that a sum is
what counting anew would give.
"""

from joingate_processors.law.state import Commitment, Debt, Operation, State, backlog_key, scope_key
from joingate_schemas.debt import (
    DOUBTED_COMMITMENT,
    DOUBTED_OPERATION,
    MINUTE_MS,
    UNCERTAIN,
    BacklogKind,
    Weighed,
    added,
    tenant_of,
    waits_for_person,
    weighed,
)
from joingate_schemas.facts import TERMINAL_COMMITMENT
from joingate_schemas.record import changed

_NOTHING = Weighed()


def scopes(intent_id: str, principal: str) -> list[str]:
    """The debts that something of this intent, asked for by this principal (empty: nobody), is part of."""
    found = [scope_key("INTENT", intent_id), scope_key("TENANT", tenant_of(intent_id))]
    return [*found, scope_key("PRINCIPAL", principal)] if principal else found


def charged(row: Commitment) -> list[str]:
    """The debts that an open commitment is part of.

    An intent hands its own over with the commitment; whoever asked for it stays in debt until it is discharged.
    """
    all_of = scopes(row.intent_id, row.principal)
    return all_of if row.owner_id == f"intent:{row.intent_id}" else all_of[1:]


def debt_member(row: Commitment) -> str:
    """How a commitment is listed in a debt: the oldest first, for it weighs most of its kind."""
    return f"{row.created_at // MINUTE_MS:012d}\x1f{row.commitment_id}"


def commitment_put(state: State, before: Commitment | None, after: Commitment) -> None:
    """Move the debts from what `before` was to what `after` is."""
    was, now = _standing(before), _standing(after)
    if was == now:
        return
    if before is not None and was is not None:
        for scope in was[0]:
            _move(state, scope, weighed(before.weight, before.created_at, before.status), -1, -was[1], 0)
            state.backlogs.remove(backlog_key(scope, "DEBT"), debt_member(before))
            _list(state, scope, "DOUBT", before.commitment_id, was[1], False)
    if now is not None:
        for scope in now[0]:
            _move(state, scope, weighed(after.weight, after.created_at, after.status), 1, now[1], 0)
            state.backlogs.add(backlog_key(scope, "DEBT"), debt_member(after))
            _list(state, scope, "DOUBT", after.commitment_id, False, now[1])


def _standing(row: Commitment | None) -> tuple[list[str], bool, bool, int] | None:
    """What of a commitment counts in debts: whose, whether doubted, whether uncertain, its weight. None: nothing."""
    if row is None or row.status in TERMINAL_COMMITMENT:
        return None
    return charged(row), row.status in DOUBTED_COMMITMENT, row.status in UNCERTAIN, row.weight


def operation_put(state: State, before: Operation | None, after: Operation) -> None:
    """Move the backlogs from what `before` was to what `after` is, and the intent's budget with what it costs."""
    doubted, reviewed = _backlogged(after)
    was_doubted, was_reviewed = (False, False) if before is None else _backlogged(before)
    if doubted != was_doubted or reviewed != was_reviewed:
        for scope in scopes(after.intent_id, after.requested_by):
            _move(state, scope, _NOTHING, 0, doubted - was_doubted, reviewed - was_reviewed)
            _list(state, scope, "DOUBT", after.operation_id, was_doubted, doubted)
            _list(state, scope, "REVIEW", after.operation_id, was_reviewed, reviewed)
    if after.cost:
        _spend(state, before, after)


def _backlogged(row: Operation) -> tuple[bool, bool]:
    return row.status in DOUBTED_OPERATION, waits_for_person(row.status, row.timer)


def _spend(state: State, before: Operation | None, after: Operation) -> None:
    """It costs from when it is opened, unless it ended before any permit."""
    change = (after.status != "WITHDRAWN") - (before is not None and before.status != "WITHDRAWN")
    intent = state.intents.get(after.intent_id) if change else None
    if intent is not None:
        spent = intent.spent.get(after.budget_class, 0.0) + change * after.cost
        state.intents.put(after.intent_id, changed(intent, spent={**intent.spent, after.budget_class: max(0.0, spent)}))


def _list(state: State, scope: str, kind: BacklogKind, member: str, was: bool, now: bool) -> None:
    if now and not was:
        state.backlogs.add(backlog_key(scope, kind), member)
    elif was and not now:
        state.backlogs.remove(backlog_key(scope, kind), member)


def _move(state: State, scope: str, sum_of: Weighed, commitments: int, doubts: int, reviews: int) -> None:
    row = state.debts.get(scope)
    before = _NOTHING if row is None else Weighed(
        row.weight, row.moment, row.uncertain_weight, row.uncertain_moment
    )  # fmt: skip
    total = added(before, sum_of, commitments) if commitments else before
    after = Debt(
        scope=scope, commitments=commitments + (0 if row is None else row.commitments), weight=total.weight,
        moment=total.moment, uncertain_weight=total.uncertain_weight, uncertain_moment=total.uncertain_moment,
        doubts=doubts + (0 if row is None else row.doubts), reviews=reviews + (0 if row is None else row.reviews),
    )  # fmt: skip
    if after.commitments or after.doubts or after.reviews:
        state.debts.put(scope, after)
    else:
        state.debts.delete(scope)
