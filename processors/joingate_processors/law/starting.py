"""How a STAGED operation goes on once something it waited for is there: off it goes, or to the next wait."""

from joingate_processors.law import order, outcomes, reliance, resources
from joingate_processors.law.case import Case
from joingate_processors.law.state import Commitment, Operation
from joingate_processors.law.waiting import waits
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact


def go_on(
    case: Case, operation: Operation, met: str | None = None, seen: str | None = None
) -> tuple[f.OperationStatus, list[AnyFact]]:
    """Where it goes now that something it waited for is there: on, to the next wait, or withdrawn with its ground."""
    action = case.action_of(operation)
    stale = case.may_not_act(operation)
    if action is None or stale:
        return "WITHDRAWN", outcomes.withdraw(case, operation, stale or "its action left the catalogue")
    status, timer, deadline = order.start(case, action, operation)
    wait = waits(case, operation, met, seen)
    if wait is not None:
        status, timer, deadline, asks = "STAGED", wait.timer, wait.deadline_at, wait.asks
    else:
        asks = resources.asking(operation, timer)
    ready = f.OperationReady(operation_id=operation.operation_id, intent_id=operation.intent_id, status=status,
                             timer=timer, deadline_at=deadline)  # fmt: skip
    return status, [ready, *asks]


def seen_again(case: Case, row: Commitment) -> list[AnyFact]:
    """The operations that waited for a look at the commitment, going on now that it is seen."""
    facts: list[AnyFact] = []
    for one in reliance.open_operations_on(case, row):
        operation = case.state.operations.get(one)
        if operation is not None and operation.status == "STAGED" and operation.timer == "REVALIDATION":
            facts += go_on(case, operation, seen=row.commitment_id)[1]
    return facts
