"""What must be true of the state after every decision, whatever was claimed: counted anew, shared with no rule."""

from collections import Counter
from math import isclose
from typing import Any

from joingate_processors.law.archived import Archive
from joingate_processors.law.arrival import Due
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import INDEXES, TABLES, TIMED_TABLES, Commitment, Debt, Operation
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT

_WAITING = (
    "PENDING_CONDITION",
    "RELEASE_PENDING",
    "BREACHED",
    "TRANSFER_PENDING",
    "RECONCILIATION_REQUIRED",
    "UNKNOWN",
)


def rows(state: MemoryState, table: str) -> list[Any]:
    """The rows of a table."""
    return [row for _, row in state.rows(table)]


def check_state(state: MemoryState) -> None:
    """Fail if a count, an index, a deadline or a slot is off."""
    operations: list[Operation] = rows(state, "operations")
    commitments: list[Commitment] = rows(state, "commitments")
    _check_counts(state, operations, commitments)
    _check_indexes(state, operations, commitments)
    _check_dues(state)
    for operation in operations:
        _check_operation(operation)
    for commitment in commitments:
        _check_commitment(state, commitment)
    for plan in rows(state, "plans"):
        waits = plan.deadline_at is not None
        assert waits == (plan.status == "ADOPTED"), f"plan {plan.plan_id} is {plan.status}, deadline {plan.deadline_at}"
    _check_slots([one for one in operations if not is_archived(state, one.intent_id)])
    _check_archives(state)
    _check_chains(state, operations)
    _check_drawn(operations, commitments)
    _check_owners(state)
    _check_debts(state, operations, commitments)
    _check_spent(state, operations)


def _unclaimed(operation: Operation) -> bool:
    return operation.status == "SETTLED" and (operation.compensating or not operation.claimed)


def _is_own(commitment: Commitment) -> bool:
    return commitment.status not in TERMINAL_COMMITMENT and commitment.owner_id == f"intent:{commitment.intent_id}"


def _is_elsewhere(state: MemoryState, commitment: Commitment) -> bool:
    if commitment.status == "TRANSFERRED":
        origin = state.operations.get(commitment.creating_operation or "")
        return origin is not None and bool(origin.needs)
    return commitment.status not in TERMINAL_COMMITMENT and not _is_own(commitment)


def is_archived(state: MemoryState, intent_id: str) -> bool:
    """Whether the intent was archived."""
    row = state.archives.get(intent_id)
    return row is not None and row.archived_at is not None


def _check_archives(state: MemoryState) -> None:
    """What is archived is a tombstone, and once nothing is waited for, nothing else is left of it."""
    over = set()
    for key, row in state.rows("archives"):
        assert isinstance(row, Archive)
        assert key == row.intent_id
        intent = state.intents.get(key)
        assert (row.timer == "NONE") == (row.deadline_at is None)
        if row.archived_at is None:
            assert not key or (intent is not None and intent.status != "OPEN"), row
        else:
            assert intent is None, row
            over |= {key} if row.deadline_at is None else set()
            assert len(row.effects) <= 512
    for table in ("plans", "steps", "operations", "commitments", "custodies", "conditions", "goals"):
        left = [one for one in rows(state, table) if one.intent_id in over]
        assert left == [], f"{table} keeps rows of an archived intent"
    kept = [row for key, row in state.rows("seen") if key.partition("\x1f")[0] in over]
    assert {row.about for row in kept} <= {"Override", "RetireOwner"}, "claims of an archived intent are remembered"  # type: ignore[attr-defined]


def _check_chains(state: MemoryState, operations: list[Operation]) -> None:
    """Every operation that the gate opened itself is found from its intent."""
    own = Counter(o.intent_id for o in operations if o.opened_before is not None)
    for intent in rows(state, "intents"):
        at, found = intent.discharging, 0
        while at:
            link = state.operations.get(at)
            assert link is not None, intent
            at, found = link.opened_before or "", found + 1
        assert found == own[intent.intent_id], intent


def _check_counts(state: MemoryState, operations: list[Operation], commitments: list[Commitment]) -> None:
    open_operations = Counter(o.intent_id for o in operations if o.status in OPEN_OPERATION)
    unclaimed = Counter(o.intent_id for o in operations if _unclaimed(o))
    open_commitments = Counter(k.intent_id for k in commitments if _is_own(k))
    elsewhere = Counter(k.intent_id for k in commitments if _is_elsewhere(state, k))
    orphans = Counter(o.intent_id for o in rows(state, "orphans"))
    unheard = Counter(owner for owner, _ in state.entries("backlogs"))
    for intent in rows(state, "intents"):
        one = intent.intent_id
        counted = (open_operations[one], unclaimed[one], open_commitments[one], elsewhere[one])
        assert (
            intent.operations_open, intent.operations_unclaimed, intent.commitments_open, intent.commitments_elsewhere,
        ) == counted, intent  # fmt: skip
        # An incident may be older than its intent: an effect whose Commit came before anything else.
        assert intent.orphans_open + unheard[f"UNHEARD\x1f{one}"] == orphans[one], intent
        if intent.status == "CLOSED":
            assert intent.plan_id is None
    unjoined = Counter((s.intent_id, s.plan_id) for s in rows(state, "steps") if not s.succeeded)
    for plan in rows(state, "plans"):
        if is_archived(state, plan.intent_id):
            continue  # its steps go before it
        assert plan.steps_unjoined == unjoined[plan.intent_id, plan.plan_id], plan


def _check_indexes(state: MemoryState, operations: list[Operation], commitments: list[Commitment]) -> None:
    quarantines = [(q.scope or "", q.quarantine_id) for q in rows(state, "quarantines") if not q.resolved]
    expected = {
        "open_operations": [(o.intent_id, o.operation_id) for o in operations if o.status in OPEN_OPERATION],
        "unclaimed_operations": [(o.intent_id, o.operation_id) for o in operations if _unclaimed(o)],
        "open_commitments": [(k.intent_id, k.commitment_id) for k in commitments if _is_own(k)],
        "owned_commitments": [
            (k.owner_id, k.commitment_id) for k in commitments if k.status not in TERMINAL_COMMITMENT
        ],
        "scoped_quarantines": quarantines,
        "backlogs": _backlogs(operations, commitments) + _unheard(state),
    }
    for index in INDEXES:
        assert state.entries(index) == sorted(expected[index]), index


def _unheard(state: MemoryState) -> list[tuple[str, str]]:
    """Incidents about an intent that was not there when they were raised: nothing else says which those are."""
    return [(owner, one) for owner, one in state.entries("backlogs") if owner.startswith("UNHEARD\x1f")]


_UNRESOLVED = ("IN_DOUBT", "ESCALATED", "UNKNOWN", "RECONCILIATION_REQUIRED")


def _is_reviewed(operation: Operation) -> bool:
    return operation.timer == "ESCALATION" or (operation.status == "STAGED" and operation.timer == "APPROVAL")


def _debtors(row: Operation | Commitment) -> list[str]:
    """Whose debt it is part of, as scopes."""
    asked_by = row.requested_by if isinstance(row, Operation) else row.principal
    found = [f"TENANT\x1f{row.intent_id.split('/')[0]}", *([f"PRINCIPAL\x1f{asked_by}"] if asked_by else [])]
    own = isinstance(row, Operation) or row.owner_id == f"intent:{row.intent_id}"
    return [*found, f"INTENT\x1f{row.intent_id}"] if own else found


def _owed(commitments: list[Commitment]) -> list[Commitment]:
    return [k for k in commitments if k.status not in TERMINAL_COMMITMENT]


def _backlogs(operations: list[Operation], commitments: list[Commitment]) -> list[tuple[str, str]]:
    owed = _owed(commitments)
    listed = [(k, "DEBT", f"{k.created_at // 60_000:012d}\x1f{k.commitment_id}") for k in owed]
    listed += [(k, "DOUBT", k.commitment_id) for k in owed if k.status in _UNRESOLVED]
    doubted = [(o, "DOUBT", o.operation_id) for o in operations if o.status in _UNRESOLVED]
    reviewed = [(o, "REVIEW", o.operation_id) for o in operations if _is_reviewed(o)]
    rows_of: list[tuple[Any, str, str]] = [*listed, *doubted, *reviewed]
    return [(f"{scope}\x1f{kind}", member) for row, kind, member in rows_of for scope in _debtors(row)]


def _check_debts(state: MemoryState, operations: list[Operation], commitments: list[Commitment]) -> None:
    """The sums that are kept in step are those that counting everything anew gives."""
    sums: dict[str, Counter[str]] = {}
    for row in _owed(commitments):
        moment, uncertain = row.weight * (row.created_at // 60_000), row.status in ("BREACHED", *_UNRESOLVED)
        counted = Counter(commitments=1, weight=row.weight, moment=moment, doubts=int(row.status in _UNRESOLVED))
        if uncertain:
            counted += Counter(uncertain_weight=row.weight, uncertain_moment=moment)
        for scope in _debtors(row):
            sums.setdefault(scope, Counter()).update(counted)
    for operation in operations:
        counted = Counter(doubts=int(operation.status in _UNRESOLVED), reviews=int(_is_reviewed(operation)))
        for scope in _debtors(operation) if counted.total() else ():
            sums.setdefault(scope, Counter()).update(counted)
    names = [name for name in Debt.__annotations__ if name != "scope"]
    kept = {debt.scope: +Counter({name: getattr(debt, name) for name in names}) for debt in rows(state, "debts")}
    assert kept == {scope: +counted for scope, counted in sums.items()}


def _check_spent(state: MemoryState, operations: list[Operation]) -> None:
    for intent in rows(state, "intents"):
        spent: Counter[str] = Counter()
        for operation in operations:
            if operation.intent_id == intent.intent_id and operation.status != "WITHDRAWN":
                spent[operation.budget_class] += operation.cost  # type: ignore[assignment]
        assert all(isclose(intent.spent.get(one, 0.0), cost, abs_tol=1e-6) for one, cost in spent.items()), intent


def _check_dues(state: MemoryState) -> None:
    expected = [
        Due(row.deadline_at, kind, key, row.timer)  # type: ignore[attr-defined]
        for table, kind in TIMED_TABLES.items()
        for key, row in state.rows(table)
        if row.deadline_at is not None  # type: ignore[attr-defined]
    ]
    assert state.due(2**62, len(expected) + 1) == sorted(expected)


def _check_operation(operation: Operation) -> None:
    waits = operation.deadline_at is not None
    assert (operation.timer == "NONE") is not waits, operation
    # After an ending nothing is waited for, but for the human gate that was asked to undo it.
    asked = operation.status == "SETTLED" and operation.compensating and operation.timer == "ESCALATION"
    assert waits == (operation.status in OPEN_OPERATION or asked), operation
    assert operation.permit_attempt <= operation.attempt, operation
    assert (operation.first_permit_at is None) == (operation.permits == 0), operation
    assert len(set(operation.permitted)) == len(operation.permitted), f"an attempt was permitted twice: {operation}"
    if operation.status in ("STAGED", "VALIDATED", "WITHDRAWN"):
        assert operation.permits == 0, operation
    if operation.status == "SUBMITTED":
        assert operation.permits, operation


def _check_commitment(state: MemoryState, commitment: Commitment) -> None:
    origin = state.operations.get(commitment.creating_operation or "")
    if commitment.status in TERMINAL_COMMITMENT:
        assert commitment.deadline_at is None, commitment
        assert any(commitment.evidence), f"it ended with nothing to show: {commitment}"
    elif commitment.status in _WAITING:
        assert commitment.deadline_at is not None, commitment
    elif commitment.status == "PROPOSED" and commitment.deadline_at is None:
        assert origin is not None, commitment
        assert origin.status in OPEN_OPERATION, f"it waits for nothing: {commitment}, {origin.status}"
    elif commitment.status == "ACTIVE":
        if commitment.creating_operation is None:
            assert commitment.counterparty_refs, f"made by nothing, and promised to nobody: {commitment}"
        else:
            assert origin is not None, commitment
            assert origin.status == "SETTLED", f"in force, and its creation is {origin.status}"
        assert commitment.owner_id, commitment
        assert not commitment.release_wanted, commitment


def _check_drawn(operations: list[Operation], commitments: list[Commitment]) -> None:
    """What is taken of each commitment is what those take that live, or have used it up."""
    for row in commitments:
        takers = [one for one in operations if row.commitment_id in one.draws and one.status not in _OVER]
        takes = sum(one.draws[row.commitment_id] for one in takers if row.consumed or one.status != "SETTLED")
        assert row.drawn == takes, row


_OVER = ("FAILED", "WITHDRAWN", "COMPENSATED")


def _check_owners(state: MemoryState) -> None:
    """Tokens, offers and leases fit their commitments, and what a retired owner still has is an orphan."""
    custodies = {held.commitment_id: held for held in rows(state, "custodies")}
    for held in custodies.values():
        row = state.commitments.get(held.commitment_id)
        assert row is not None, held
        assert (held.timer, bool(held.worker)) in (("NONE", False), ("LEASE", True)), held
        assert not held.worker or row.status not in TERMINAL_COMMITMENT, held
        assert not held.target_owner or row.status in ("TRANSFER_PENDING", "RECONCILIATION_REQUIRED"), (held, row)
        assert held.acted or row.status != "RECONCILIATION_REQUIRED" or not held.target_owner, held
    for row in rows(state, "commitments"):
        if row.status == "TRANSFER_PENDING":
            assert custodies[row.commitment_id].target_owner, row
            assert row.timer == "TRANSFER", row
    orphans = {orphan.subject_id for orphan in rows(state, "orphans") if orphan.kind == "NO_OWNER"}
    for owner in rows(state, "owners"):
        left = {one for who, one in state.entries("owned_commitments") if who == owner.owner_id}
        missed = sorted(left - orphans)
        assert not missed or (owner.deadline_at is not None and missed[0] > owner.swept), f"{owner} has {missed}"


def _check_slots(operations: list[Operation]) -> None:
    """The first generation names the latest, and a new one starts only where the one before is over."""
    slots: dict[tuple[str, str, str], list[Operation]] = {}
    for operation in operations:
        slots.setdefault((operation.intent_id, operation.action, operation.business_key), []).append(operation)
    for generations in slots.values():
        generations.sort(key=lambda one: one.generation)
        assert [one.generation for one in generations] == list(range(1, len(generations) + 1))
        assert generations[0].latest_generation == len(generations)
        assert sum(one.status in ("STAGED", "VALIDATED", "SUBMITTED") for one in generations) <= 1, generations


def snapshot(state: MemoryState) -> dict[str, Any]:
    """Everything in the state, as plain values that can be compared."""
    tables = {table: state.rows(table) for table in TABLES}
    indexes = {index: state.entries(index) for index in INDEXES}
    return {**tables, **indexes, "dues": state.due(2**62, 2**31)}
