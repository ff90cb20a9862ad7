"""Which steps and operations rely on which commitments, and what that asks of them (law 7).

A step relies on the commitments that it names, and on those that the steps make which it requires.
"""

from joingate_processors.law.case import Case, refuse
from joingate_processors.law.deadlines import expired, stale
from joingate_processors.law.opening import obligation_of
from joingate_processors.law.state import Commitment, Operation, Step, plan_key, step_key


def relied_on(case: Case, step: Step) -> list[Commitment]:
    """The commitments that the step relies on, as far as they are in the ledger; the named ones first."""
    if not step.commitments and not step.edges:
        return []
    found: dict[str, Commitment] = {}
    for one in step.commitments:
        row = case.state.commitments.get(one)
        if row is not None and row.intent_id == step.intent_id:
            found[one] = row
    for edge in step.edges:
        if edge["kind"] != "REQUIRES":
            continue
        other = case.state.steps.get(step_key(step.intent_id, step.plan_id, edge["step_id"]))
        maker = None if other is None else case.slot_operation(other)
        row = None if maker is None or maker.commitment_id is None else case.state.commitments.get(maker.commitment_id)
        if row is not None:
            found.setdefault(row.commitment_id, row)
    return list(found.values())


def step_of(case: Case, operation: Operation) -> Step | None:
    """The step that the operation was dispatched for; None for what the gate opened itself."""
    if not operation.plan_id:
        return None
    return case.state.steps.get(step_key(operation.intent_id, operation.plan_id, operation.step_id))


def check(case: Case, step: Step, subject_id: str, status: str = "") -> None:
    """Refuse if the step names what is not there, or relies on what has expired: also before a timer said so."""
    for one in step.commitments:
        row = case.state.commitments.get(one)
        if row is None or row.intent_id != step.intent_id:
            refuse("UNKNOWN_COMMITMENT", f"step {step.step_id} relies on commitment {one}, which intent "
                   f"{step.intent_id} does not have", subject_id, status)  # fmt: skip
    for row in relied_on(case, step):
        if expired(row, case.now):
            refuse("COMMITMENT_EXPIRED", f"step {step.step_id} relies on commitment {row.commitment_id}, whose time "
                   f"passed at {row.valid_until}", subject_id, status)  # fmt: skip


def stale_ones(case: Case, step: Step, seen: str | None = None) -> list[Commitment]:
    """What the step relies on and nobody has seen for too long; `seen` is what is being seen in this decision."""
    return [
        row
        for row in relied_on(case, step)
        if row.commitment_id != seen and stale(row, obligation_of(case, row), case.now)
    ]


def open_operations_on(case: Case, row: Commitment, ended: frozenset[str] = frozenset()) -> list[str]:
    """The open operations whose steps rely on the commitment; those in `ended` end in this very decision."""
    intent = case.state.intents.get(row.intent_id)
    if intent is None or not intent.operations_open:
        return []
    found = []
    for one in case.state.open_operations.members(row.intent_id):
        operation = case.state.operations.get(one) if one not in ended else None
        step = None if operation is None or not operation.ordered else step_of(case, operation)
        if step is not None and any(other.commitment_id == row.commitment_id for other in relied_on(case, step)):
            found.append(one)
    return found


def waiting_step_on(case: Case, row: Commitment) -> str | None:
    """The step of the plan in force that relies on the commitment and is yet to be done; None if there is none."""
    intent = case.state.intents.get(row.intent_id)
    plan = None if intent is None or intent.plan_id is None else case.state.plans.get(
        plan_key(row.intent_id, intent.plan_id)
    )  # fmt: skip
    at = None if plan is None or not plan.steps_unjoined else plan.first_step
    while at is not None and plan is not None:
        step = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, at))
        if step is None:
            return None
        if not step.succeeded and any(other.commitment_id == row.commitment_id for other in relied_on(case, step)):
            operation = case.slot_operation(step)
            if operation is None or operation.status not in ("SETTLED", "COMPENSATED"):
                return at
        at = step.following
    return None
