"""What approvers may say: yes or no to exactly one content, which is what the digest binds it to."""

from joingate_processors.law import outcomes, starting
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, approvals_needed, refuse
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Action
from joingate_schemas.facts import AnyFact


def approve(case: Case, claim: c.Approve) -> Ruling:
    """Count the approval; with enough of them the operation goes on, if its ground is still current."""
    operation = _awaiting(case, claim)
    identity = operation.operation_id
    if claim.digest != operation.content_digest:
        refuse("APPROVAL_STALE", f"it approves {claim.digest}, the content is {operation.content_digest}", identity,
               operation.status)  # fmt: skip
    if claim.expires_at is not None and claim.expires_at <= case.now:
        refuse("APPROVAL_STALE", f"it expired at {claim.expires_at}", identity, operation.status)
    action = case.action_of(operation)
    if action is None:
        refuse("UNKNOWN_ACTION", f"the catalogue in force has no {operation.action}", identity, operation.status)
    stale = case.staleness(operation)
    if stale:
        facts = outcomes.withdraw(case, operation, stale)
        return Ruling("REJECTED", stale, "its ground is no longer current", identity, "WITHDRAWN", facts)
    if action.approval == "MAKER_CHECKER" and claim.principal in ("", operation.requested_by):
        refuse("MAKER_IS_CHECKER", f"'{claim.principal}' asked for it, or does not say who approves", identity,
               operation.status)  # fmt: skip
    facts = [_recorded(operation, claim, True)]
    names = {*case.approved_by(operation), claim.principal}
    needed = approvals_needed(action)
    if len(names) < needed:
        return Ruling("ACCEPTED", "OK", f"{len(names)} of {needed}", identity, operation.status, facts)
    if action.hold_ms and operation.plan_id:
        facts.append(f.OperationReady(operation_id=identity, intent_id=operation.intent_id, status="STAGED",
                                      timer="HOLD", deadline_at=case.now + action.hold_ms))  # fmt: skip
        return Ruling("ACCEPTED", "OK", "", identity, "STAGED", facts)
    status, on = starting.go_on(case, operation)
    return Ruling("ACCEPTED", "OK", "", identity, status, facts + on)


def carried(case: Case, action: Action, before: Operation | None, operation: f.OperationOpened) -> list[AnyFact]:
    """The approvals that the generation before did not use, where the content is unchanged; with enough, it goes on.

    An approval binds to content and not to a version or a plan (model §3), so that a new plan with an unchanged step
    asks nobody twice. It is still single use: one that had let an attempt act is spent.
    """
    waits = operation.status == "STAGED" and operation.timer == "APPROVAL"
    if before is None or not waits or before.permits or before.content_digest != operation.content_digest:
        return []
    names = case.approved_by(before)
    if action.approval == "MAKER_CHECKER":
        names.discard(operation.requested_by)
    facts: list[AnyFact] = [
        f.ApprovalRecorded(operation_id=operation.operation_id, intent_id=operation.intent_id, principal=name,
                           digest=operation.content_digest, granted=True,
                           expires_at=before.approval_expiries.get(name))
        for name in sorted(names)
    ]  # fmt: skip
    if len(names) >= approvals_needed(action):
        # It goes on as whatever waited for its hold window does, be that none: by the timer, past the same guards.
        facts.append(
            f.OperationReady(operation_id=operation.operation_id, intent_id=operation.intent_id, status="STAGED",
                             timer="HOLD", deadline_at=case.now + action.hold_ms)
        )  # fmt: skip
    return facts


def decline(case: Case, claim: c.Decline) -> Ruling:
    """No: the operation is withdrawn before it could act."""
    operation = _awaiting(case, claim)
    if claim.digest != operation.content_digest:
        refuse("APPROVAL_STALE", "it declines other content", operation.operation_id, operation.status)
    facts = [_recorded(operation, claim, False), *outcomes.withdraw(case, operation, f"declined by {claim.principal}")]
    return Ruling("ACCEPTED", "OK", "", operation.operation_id, "WITHDRAWN", facts)


def _awaiting(case: Case, claim: c.Approve | c.Decline) -> Operation:
    operation = case.state.operations.get(claim.operation_id or "")
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.operation_id}",
               claim.operation_id or "")  # fmt: skip
    if operation.status != "STAGED" or operation.timer != "APPROVAL":
        refuse("NOT_AWAITING_APPROVAL", f"it is {operation.status}", operation.operation_id, operation.status)
    return operation


def _recorded(operation: Operation, claim: c.Approve | c.Decline, granted: bool) -> AnyFact:
    return f.ApprovalRecorded(
        operation_id=operation.operation_id, intent_id=operation.intent_id, principal=claim.principal,
        digest=claim.digest, granted=granted,
        expires_at=claim.expires_at if isinstance(claim, c.Approve) else None,
    )  # fmt: skip
