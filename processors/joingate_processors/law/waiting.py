"""What keeps an operation STAGED, beside approval and hold window: a condition, or a look at what it relies on."""

from typing import NamedTuple

from joingate_processors.law import conditions, order, reliance
from joingate_processors.law.case import Case
from joingate_processors.law.commitments import LOOK_AGAIN, change, kind_of
from joingate_processors.law.state import Commitment, Operation, Step
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact


class Wait(NamedTuple):
    """What keeps an operation STAGED: its timer and deadline (ms), and what is asked because of it."""

    timer: f.Timer
    deadline_at: int
    asks: list[AnyFact]


def revalidation(case: Case, step: Step, seen: str | None = None) -> Wait | None:
    """The wait for a look at what the step relies on and nobody has seen for too long; None if all of it is fresh."""
    old = reliance.stale_ones(case, step, seen)
    if not old:
        return None
    deadline = case.now + max(kind_of(case, row).verification_ms for row in old)
    return Wait("REVALIDATION", deadline, [look_again_at(case, row) for row in old if row.timer != "VERIFICATION"])


def look_again_at(case: Case, row: Commitment) -> f.CommitmentChanged:
    """The question whether it is still there; it stays in force while it is asked."""
    return change(row, row.status, LOOK_AGAIN, [], timer="VERIFICATION",
                  deadline_at=case.now + kind_of(case, row).verification_ms)  # fmt: skip


def is_carried(case: Case, operation: Operation) -> bool:
    """Whether all that the operation relies on is in force, and was seen lately enough."""
    step = reliance.step_of(case, operation)
    if step is None or reliance.stale_ones(case, step):
        return step is None
    return all(order.carries_nobody(case, row) is None for row in reliance.relied_on(case, step))


def waits(case: Case, operation: Operation, met: str | None = None, seen: str | None = None) -> Wait | None:
    """What a STAGED operation still waits for; `met` and `seen` are what is observed in this very decision."""
    row = conditions.awaited_by(case, operation)
    if row is not None and row.condition != met:
        deadline = row.deadline_at or case.now + kind_of(case, row).condition_ms
        # It was so, and is not any more: the obligation waits anew, so that it is found when the condition is seen.
        again = change(row, "PENDING_CONDITION", f"waits again for {row.condition}", [], timer="CONDITION",
                       deadline_at=deadline)  # fmt: skip
        return Wait("CONDITION", deadline, [again] if row.status == "PROPOSED" else [])
    step = reliance.step_of(case, operation) if operation.ordered else None
    return None if step is None else revalidation(case, step, seen)
