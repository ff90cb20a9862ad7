"""What approvers may say of a whole plan: one approval for each of its steps that needs one (model §3).

It is bound to the plan's content as recorded. A step that waits for it goes on; of one that is not dispatched yet the
approval stands until it is, under this plan or another in which the step is the same.
"""

from collections.abc import Iterator

from joingate_processors.law import approvals, principals
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.opening import digest
from joingate_processors.law.order import OPEN_OR_SETTLED
from joingate_processors.law.state import Operation, PlanRow, Step, plan_key, step_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Action
from joingate_schemas.facts import AnyFact

_Asked = tuple[Step, Action, str, Operation | None]
"""A step that needs an approval: what the catalogue says, its content's digest, and its operation that waits."""


def approve_plan(case: Case, claim: c.Approve, plan_id: str) -> Ruling:
    """Yes to all of it. Who may not approve one of its steps approves none: what is said of a whole means the whole."""
    plan = _named(case, claim, plan_id)
    if claim.expires_at is not None and claim.expires_at <= case.now:
        refuse("APPROVAL_STALE", f"it expired at {claim.expires_at}", plan_id, plan.status)
    asked = list(_asked(case, plan))
    known = case.catalogue.principals.get(claim.principal)
    for step, action, _, operation in asked:
        wrong = approvals.barred(case, action, "" if operation is None else operation.requested_by, claim.principal)
        if wrong is not None:
            refuse(wrong[0], f"step {step.step_id}: {wrong[1]}", plan_id, plan.status)
        over = "" if known is None else principals.over_limit(case, known, action.name, step.arguments)
        if over:
            refuse("OVER_LIMIT", f"step {step.step_id}: {over}", plan_id, plan.status)
    facts: list[AnyFact] = []
    standing: dict[str, str] = {}
    for step, action, content, operation in asked:
        if operation is None:
            standing[step.slot_id] = content
        else:
            facts += approvals.counted(case, action, operation, claim)[1]
    return _ruled(case, claim, plan, standing, facts, claim.expires_at)


def decline_plan(case: Case, claim: c.Decline, plan_id: str) -> Ruling:
    """No to all of it: what waits for an approval is withdrawn, and what was approved ahead is so no more."""
    plan = _named(case, claim, plan_id)
    facts: list[AnyFact] = []
    standing: dict[str, str] = {}
    for step, _, content, operation in _asked(case, plan):
        if operation is None:
            standing[step.slot_id] = content
        else:
            facts += approvals.declined(case, operation, claim)
    return _ruled(case, claim, plan, standing, facts, None)


def _ruled(
    case: Case, claim: c.Approve | c.Decline, plan: PlanRow, standing: dict[str, str], facts: list[AnyFact],
    expires_at: int | None,
) -> Ruling:  # fmt: skip
    if not standing and not facts:
        refuse(
            "NOT_AWAITING_APPROVAL", "no step of the plan needs an approval that it has not", plan.plan_id, plan.status
        )
    said = f.PlanApproved(
        intent_id=plan.intent_id, plan_id=plan.plan_id, principal=claim.principal, digest=claim.digest,
        granted=isinstance(claim, c.Approve), expires_at=expires_at, key_id=case.verified, given_at=case.appended_at,
        contents=standing,
    )  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"{len(standing)} steps ahead of their dispatch", plan.plan_id, plan.status,
                  [said, *facts])  # fmt: skip


def _named(case: Case, claim: c.Approve | c.Decline, plan_id: str) -> PlanRow:
    """The plan, if it is there, in force or a candidate, and has the content that was approved."""
    case.open_intent(claim.intent_id, 0)
    plan = case.state.plans.get(plan_key(claim.intent_id, plan_id))
    if plan is None:
        refuse("NOT_PLANNED", f"intent {claim.intent_id} has no plan {plan_id}", plan_id)
    if plan.status not in ("ADOPTED", "CANDIDATE"):
        refuse("APPROVAL_STALE", f"plan {plan_id} is {plan.status}: it is not what would be done", plan_id, plan.status)
    if claim.digest != plan.content_digest:
        refuse("APPROVAL_STALE", f"it is about {claim.digest}, the plan's content is {plan.content_digest}", plan_id,
               plan.status)  # fmt: skip
    return plan


def _asked(case: Case, plan: PlanRow) -> Iterator[_Asked]:
    """The plan's steps whose action needs an approval, as far as they have not got it by being under way."""
    at = plan.first_step
    while at is not None:
        step = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, at))
        if step is None:
            return
        at = step.following
        action, operation = case.catalogue.actions.get(step.action), case.slot_operation(step)
        if action is None or action.approval == "NONE":
            continue
        content = digest(action, step.business_key, step.arguments)
        if operation is not None and approvals.waits(operation):
            if operation.content_digest == content and not case.staleness(operation):
                yield step, action, content, operation
        elif operation is None or operation.status not in OPEN_OR_SETTLED:
            yield step, action, content, None
