"""The room that shows decisions and state as plain JSON: what `joingate simulate` prints and an `expect` looks at."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from joingate_processors.forensics.directory import Directory
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import Operation
from joingate_schemas.arbitration import Hold
from joingate_schemas.codec import UnknownFact
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import AnyFact

Json: TypeAlias = dict[str, Any]


def plain(value: object) -> Any:
    """The value as JSON has it: bytes become hex digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def fact_object(fact: AnyFact | UnknownFact) -> Json:
    """The fact with its type's name first."""
    if isinstance(fact, UnknownFact):
        return {"type": fact.name, **plain(fact.datum)}
    return {"type": type(fact).__name__, **plain(fact.__dict__)}


def decision_object(decision: Decision, line: int | None) -> Json:
    """One line of a trace's output; `line` is the trace's line that caused it, None for what none did."""
    return {
        "line": line,
        "seq": decision.seq,
        "decided_at": decision.decided_at,
        "type": decision.claim_type,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "facts": [fact_object(fact) for fact in decision.facts],
        "detail": decision.detail,
        "subject_id": decision.subject_id,
        "status": decision.status,
    }


def state_object(state: MemoryState, names: Directory, holds: Iterable[Hold] = ()) -> Json:
    """Everything that is remembered, by part, each a list of rows in a settled order; `holds` are the arbiter's."""
    operations = [row for _, row in state.rows("operations") if isinstance(row, Operation)]
    return {
        "intents": _rows(state, "intents"),
        "plans": _rows(state, "plans"),
        "steps": [_with_operation(row, state, names) for row in _rows(state, "steps")],
        "operations": [plain(row.__dict__) for row in operations],
        "commitments": _rows(state, "commitments"),
        "resources": [plain(hold) for hold in holds],
        "approvals": [
            {"operation_id": row.operation_id, "intent_id": row.intent_id, "principal": principal}
            for row in operations for principal in row.approvals
        ],
        "orphans": _rows(state, "orphans"),
        "in_doubt": [_doubt(row) for row in operations if row.status in ("IN_DOUBT", "ESCALATED")],
        "quarantines": _rows(state, "quarantines"),
        "custodies": _rows(state, "custodies"),
        "owners": _rows(state, "owners"),
    }  # fmt: skip


def _rows(state: MemoryState, table: str) -> list[Json]:
    return [plain(row.__dict__) for _, row in state.rows(table)]


def _with_operation(step: Json, state: MemoryState, names: Directory) -> Json:
    """The step with what became of it: its slot's latest operation, if any was opened."""
    operation_id = names.latest_of_slot(step["slot_id"])
    operation = state.operations.get(operation_id) if operation_id is not None else None
    return {**step, "operation_id": operation_id, "operation_status": operation.status if operation else None}


def _doubt(row: Operation) -> Json:
    return {
        "operation_id": row.operation_id, "intent_id": row.intent_id, "step_id": row.step_id, "action": row.action,
        "attempt": row.attempt, "status": row.status, "cause": row.in_doubt_cause, "since": row.in_doubt_since,
        "deadline_at": row.deadline_at,
    }  # fmt: skip
