"""What approvers may say: yes or no to exactly one content, which is what the digest binds it to.

An approval binds to content and not to a version or a plan (model §3): an unchanged step is approved in a new plan too,
a changed one is not. It is good for one generation of its operation.
"""

from joingate_processors.law import outcomes, starting
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, approvals_needed, refuse
from joingate_processors.law.state import Operation, StandingApproval
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import SECOND_PARTY, Action
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import operation_id


def approve(case: Case, claim: c.Approve) -> Ruling:
    """Count the approval; with enough of them the operation goes on, if its ground is still current."""
    operation = awaiting(case, claim)
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
    wrong = barred(case, action, operation.requested_by, claim.principal)
    if wrong is not None:
        refuse(*wrong, identity, operation.status)
    status, facts = counted(case, action, operation, claim)
    needed = approvals_needed(action)
    said = f"{case.parties({*case.approved_by(operation), claim.principal})} of {needed}"
    return Ruling("ACCEPTED", "OK", said if status == "STAGED" and needed > 1 else "", identity, status, facts)


def counted(
    case: Case, action: Action, operation: Operation, claim: c.Approve
) -> tuple[f.OperationStatus, list[AnyFact]]:
    """The approval on the record, and with it where the operation goes: on, to its hold window, or to wait for more."""
    facts: list[AnyFact] = [recorded(case, operation, claim, True)]
    if case.parties({*case.approved_by(operation), claim.principal}) < approvals_needed(action):
        return operation.status, facts
    if action.hold_ms and operation.plan_id:
        facts.append(
            f.OperationReady(operation_id=operation.operation_id, intent_id=operation.intent_id, status="STAGED",
                             timer="HOLD", deadline_at=case.now + action.hold_ms)
        )  # fmt: skip
        return "STAGED", facts
    status, on = starting.go_on(case, operation)
    return status, facts + on


def barred(case: Case, action: Action, maker: str, checker: str) -> tuple[str, str] | None:
    """Why the yes of `checker` does not count for what `maker` asked for, as reason and sentence; None if it does."""
    if action.approvers and checker not in action.approvers:
        return "NOT_AN_APPROVER", f"{action.name} is approved by {', '.join(action.approvers)}, not by '{checker}'"
    if action.approval == "CONTROL":
        known = case.catalogue.principals.get(checker)
        if known is None or not known.control:
            return "NOT_AN_APPROVER", f"{action.name} is approved by an automated control, and '{checker}' is none"
    if action.approval in SECOND_PARTY and (not checker or case.party_of(checker) == case.party_of(maker)):
        return "MAKER_IS_CHECKER", f"'{checker}' asked for it, or does not say who approves"
    return None


def carried(case: Case, action: Action, before: Operation | None, operation: f.OperationOpened) -> list[AnyFact]:
    """The approvals of the same content that nothing has used: those of the generation before, and those of a plan.

    So a new plan with an unchanged step asks nobody twice. One that had let an attempt act is spent.
    """
    if operation.status != "STAGED" or operation.timer != "APPROVAL":
        return []
    slot_id = operation.operation_id if before is None else _slot_of(before)
    unused: list[Operation | StandingApproval] = []
    if before is not None and not before.permits and before.content_digest == operation.content_digest:
        unused.append(before)
    standing = case.state.approvals.get(slot_id)
    if standing is not None and standing.content_digest == operation.content_digest:
        unused.append(standing)
    given: dict[str, AnyFact] = {}
    for row in unused:
        for name in sorted(case.approved_by(row)):
            if barred(case, action, operation.requested_by, name) is None:
                key_id, _, given_at = row.approval_keys.get(name, "").partition("@")
                given[name] = f.ApprovalRecorded(
                    operation_id=operation.operation_id, intent_id=operation.intent_id, principal=name,
                    digest=operation.content_digest, granted=True, expires_at=row.approval_expiries.get(name),
                    key_id=key_id, given_at=int(given_at) if given_at else None,
                )  # fmt: skip
    facts = [given[name] for name in sorted(given)]
    if given and case.parties(set(given)) >= approvals_needed(action):
        # It goes on as whatever waited for its hold window does, be that none: by the timer, past the same guards.
        facts.append(
            f.OperationReady(operation_id=operation.operation_id, intent_id=operation.intent_id, status="STAGED",
                             timer="HOLD", deadline_at=case.now + action.hold_ms)
        )  # fmt: skip
    return facts


def _slot_of(operation: Operation) -> str:
    return operation_id(operation.intent_id, operation.action, operation.business_key, 1)


def decline(case: Case, claim: c.Decline) -> Ruling:
    """No: the operation is withdrawn before it could act."""
    operation = awaiting(case, claim)
    if claim.digest != operation.content_digest:
        refuse("APPROVAL_STALE", "it declines other content", operation.operation_id, operation.status)
    return Ruling("ACCEPTED", "OK", "", operation.operation_id, "WITHDRAWN", declined(case, operation, claim))


def declined(case: Case, operation: Operation, claim: c.Decline) -> list[AnyFact]:
    """The no on the record, and the operation's end."""
    gone = outcomes.withdraw(case, operation, f"declined by {claim.principal}")
    return [recorded(case, operation, claim, False), *gone]


def waits(operation: Operation | None) -> bool:
    """Whether the operation waits for an approval."""
    return operation is not None and operation.status == "STAGED" and operation.timer == "APPROVAL"


def awaiting(case: Case, claim: c.Approve | c.Decline) -> Operation:
    """The operation that the claim names; refused if there is none, or it does not wait for an approval."""
    operation = case.state.operations.get(claim.operation_id or "")
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.operation_id}",
               claim.operation_id or "")  # fmt: skip
    if not waits(operation):
        refuse("NOT_AWAITING_APPROVAL", f"it is {operation.status}", operation.operation_id, operation.status)
    return operation


def recorded(case: Case, operation: Operation, claim: c.Approve | c.Decline, granted: bool) -> AnyFact:
    """That somebody said yes or no to the operation."""
    return f.ApprovalRecorded(
        operation_id=operation.operation_id, intent_id=operation.intent_id, principal=claim.principal,
        digest=operation.content_digest, granted=granted,
        expires_at=claim.expires_at if isinstance(claim, c.Approve) else None,
        key_id=case.verified, given_at=case.appended_at,
    )  # fmt: skip
