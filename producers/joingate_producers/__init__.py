"""The SDK of Join Gate: clients for planners, executors, approvers, observers and operators.

    from joingate_producers import Planner, goal, step

    with Planner.connect(principal="planner-7") as planner:
        intent = "acme/release/4.2"
        planner.declare_intent(intent, goals=[goal("g1", "production runs 4.2")]).wait(5).demand()
        planner.plan(intent, intent_version=1, plan_id="p1", steps=[step("s1", "notify", business_key="ops")]).wait(5)
        verdict = planner.dispatch(intent, intent_version=1, plan_id="p1", step_id="s1").wait(5)
        print(verdict.verdict, verdict.status, verdict.operation_id)

A claim is checked here, sent once however often it is repeated, and answered by the gate; `wait` for the answer,
`await` it, or leave it. The base install is all that this package needs.
"""

from joingate_producers.actions import Action, Actions, Context, Retry
from joingate_producers.checking import goal, step
from joingate_producers.commands import CommandStream, Received
from joingate_producers.connection import Connection, OutboxChoice
from joingate_producers.context import PlannerContext
from joingate_producers.errors import (
    ClaimRefused,
    ConnectionClosed,
    InvalidClaim,
    JoinGateError,
    LedgerBroken,
    NotKnown,
    OutboxBroken,
    OutboxFull,
    OutboxInUse,
    Undelivered,
    Unreachable,
    Unsent,
    VerdictTimeout,
)
from joingate_producers.executor import Executor
from joingate_producers.handling import (
    Applied,
    Declined,
    Doubt,
    Handler,
    Handlers,
    NothingHappened,
    NotSent,
    Outcome,
    Refused,
)
from joingate_producers.memory import MemoryBroker
from joingate_producers.overseers import Approver, Observer, Operator
from joingate_producers.planner import Planner
from joingate_producers.settings import Settings
from joingate_producers.verdict import Verdict
from joingate_producers.verdicts import PendingVerdict
from joingate_schemas.signing import Signer

__all__ = [
    "Action",
    "Actions",
    "Applied",
    "Approver",
    "ClaimRefused",
    "CommandStream",
    "Connection",
    "ConnectionClosed",
    "Context",
    "Declined",
    "Doubt",
    "Executor",
    "Handler",
    "Handlers",
    "InvalidClaim",
    "JoinGateError",
    "LedgerBroken",
    "MemoryBroker",
    "NotKnown",
    "NotSent",
    "NothingHappened",
    "Observer",
    "Operator",
    "OutboxBroken",
    "OutboxChoice",
    "OutboxFull",
    "OutboxInUse",
    "Outcome",
    "PendingVerdict",
    "Planner",
    "PlannerContext",
    "Received",
    "Refused",
    "Retry",
    "Settings",
    "Signer",
    "Undelivered",
    "Unreachable",
    "Unsent",
    "Verdict",
    "VerdictTimeout",
    "goal",
    "step",
]
