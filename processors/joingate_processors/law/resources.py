"""What an operation needs that others want too: asked of the arbiter, granted or denied, given back (model §6).

Resources are asked for last, when approvals and hold windows are behind, one after the other in sorted order: of two
operations that want the same ones, the first to get the first gets on. Nobody waits for a holder: a denial ends the
operation and gives back what it had. The arbiter's word comes as a claim of its own; what leaves the gate for it is in
`outgoing_resources`. What the gate opens itself, to release or to undo, asks for nothing: it must always go on.
"""

from joingate_processors.law import amounts, order, outcomes, waiting
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT, waiting_for_resources
from joingate_processors.law.state import Commitment, Intent, Operation, State
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.arbitration import FreeOutcome
from joingate_schemas.catalogue import Action
from joingate_schemas.facts import AnyFact
from joingate_schemas.templates import fill

# --- asking ----------------------------------------------------------------------------------------------------------


def needed(
    case: Case, action: Action, intent: Intent, principal: str, business_key: str, arguments: c.Arguments
) -> dict[str, int]:
    """The arbitrated resources that the operation needs, with how much of each, by reference in sorted order.

    Refused as MALFORMED where a reference or a quantity needs what is not given.
    """
    found: dict[str, int] = {}
    given: c.Arguments = {**arguments, "tenant": intent.tenant, "principal": principal}
    for template in action.resources:
        kind = template.partition(":")[0]
        known = case.catalogue.resources.get(kind)
        if known is None or not known.arbitrated:
            continue
        reference = fill(template, business_key, given)
        if "{" in reference or not reference.partition(":")[2] or not reference.isprintable():
            refuse("MALFORMED", f"the resource {template} needs arguments that are not given: it reads '{reference}'")
        found[reference] = amounts.whole(action.quantities.get(kind, "1"), arguments, kind)
    return dict(sorted(found.items()))


def wanted(operation: f.OperationOpened, needs: dict[str, int]) -> list[AnyFact]:
    """That a new operation needs these; it asks for the first of them at once where it waits for nothing else."""
    facts: list[AnyFact] = [
        f.ResourceChanged(operation_id=operation.operation_id, intent_id=operation.intent_id, resource_ref=reference,
                          quantity=quantity, standing="WANTED") for reference, quantity in needs.items()
    ]  # fmt: skip
    if operation.timer == "RESOURCES":
        first = min(needs)
        facts.append(
            f.ResourceChanged(operation_id=operation.operation_id, intent_id=operation.intent_id, resource_ref=first,
                              quantity=needs[first], standing="ASKED")
        )  # fmt: skip
    return facts


def asking(operation: Operation, timer: f.Timer) -> list[AnyFact]:
    """That the operation asks for the first resource that it lacks, where that is what it waits for now."""
    lacking = order.lacking(operation) if timer == "RESOURCES" else []
    return [changed(operation, lacking[0], "ASKED")] if lacking else []


def changed(operation: Operation, reference: str, standing: f.ResourceStanding, detail: str = "") -> f.ResourceChanged:
    """How the operation stands to the resource from here on."""
    return f.ResourceChanged(
        operation_id=operation.operation_id, intent_id=operation.intent_id, resource_ref=reference,
        quantity=operation.needs.get(reference, 0), standing=standing, detail=detail,
    )  # fmt: skip


# --- the arbiter's word ----------------------------------------------------------------------------------------------


def granted(case: Case, claim: c.ResourceGranted) -> Ruling:
    """It has the resource: it asks for the next one, or goes on if everything is still fresh (law 7).

    What is granted to an operation that has ended meanwhile is given back in this very decision.
    """
    operation = _asked_by(case, claim)
    identity, reference = claim.operation_id, claim.resource_ref
    if operation is None:
        facts: list[AnyFact] = [_given_back(claim)]
        return Ruling("REJECTED", "UNKNOWN_OPERATION", f"nothing here asked for {reference}; it is given back",
                      identity, "", facts)  # fmt: skip
    if operation.status in ENDED_WITHOUT_EFFECT:
        facts = [changed(operation, reference, "RETURNED", f"it is {operation.status}")]
        return Ruling("REJECTED", "OPERATION_ENDED", f"it is {operation.status}; {reference} is given back", identity,
                      operation.status, facts)  # fmt: skip
    if reference != operation.asked:
        return Ruling("REPLAYED", "ALREADY_SO", f"it does not wait for {reference}", identity, operation.status)
    facts = [changed(operation, reference, "HELD")]
    if not _waits(operation):
        # It is in doubt or settled though it never went on: what it has is kept for it until that is cleared up.
        return Ruling("ACCEPTED", "OK", f"it is {operation.status}", identity, operation.status, facts)
    return _goes_on(case, operation, reference, facts)


def _goes_on(case: Case, operation: Operation, reference: str, facts: list[AnyFact]) -> Ruling:
    action, identity = case.action_of(operation), operation.operation_id
    stale = case.may_not_act(operation)
    if action is None or stale:
        cause = stale or "UNKNOWN_ACTION"
        return Ruling("REJECTED", cause, "its ground is no longer current", identity, "WITHDRAWN",
                      facts + outcomes.withdraw(case, operation, cause))  # fmt: skip
    lacking = [one for one in order.lacking(operation) if one != reference]
    status: f.OperationStatus
    timer: f.Timer
    if lacking:
        status, timer, deadline = waiting_for_resources(case)
        facts.append(changed(operation, lacking[0], "ASKED"))
    else:
        status, timer, deadline = order.act(case, action, operation)
        # What it waited for before it asked may have been taken back meanwhile, and a command may be the permit.
        wait = waiting.waits(case, operation)
        if wait is not None:
            status, timer, deadline = "STAGED", wait.timer, wait.deadline_at
            facts += wait.asks
    facts.append(f.OperationReady(operation_id=identity, intent_id=operation.intent_id, status=status, timer=timer,
                                  deadline_at=deadline))  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"it asks for {lacking[0]} next" if lacking else "", identity, status, facts)


def denied(case: Case, claim: c.ResourceDenied) -> Ruling:
    """Another operation has it: this one is withdrawn, says who, and gives back what it had."""
    operation = _asked_by(case, claim)
    if operation is None:
        refuse("UNKNOWN_OPERATION", f"nothing here asked for {claim.resource_ref}", claim.operation_id)
    if claim.resource_ref != operation.asked:
        return Ruling("REPLAYED", "ALREADY_RESOLVED", f"it does not wait for {claim.resource_ref}",
                      operation.operation_id, operation.status)  # fmt: skip
    said = claim.detail or f"{claim.resource_ref} is held by operation {claim.holder}"
    facts: list[AnyFact] = [
        f.ResourceChanged(
            operation_id=operation.operation_id, intent_id=operation.intent_id, resource_ref=claim.resource_ref,
            quantity=operation.needs.get(claim.resource_ref, 0), standing="REFUSED", holder=claim.holder,
            holder_intent_id=claim.holder_intent_id, detail=said,
        )
    ]  # fmt: skip
    if not _waits(operation):
        return Ruling("ACCEPTED", "OK", f"{said}; it is {operation.status}", operation.operation_id,
                      operation.status, facts)  # fmt: skip
    facts += outcomes.withdraw(case, operation, f"{claim.reason}: {said}")
    return Ruling("ACCEPTED", "OK", said, operation.operation_id, "WITHDRAWN", facts)


def expired(case: Case, claim: c.ResourceExpired) -> Ruling:
    """A lease is over. What has ended gives the resource back; what may yet act keeps it, and everybody can see that.

    A commitment in force goes on holding it, for that is what it is; and so does one that an owner outside our books
    has taken over, who has the same thing still, until a person frees it.
    """
    operation = _asked_by(case, claim)
    identity, reference = claim.operation_id, claim.resource_ref
    if operation is None:
        return Ruling("REJECTED", "UNKNOWN_OPERATION", f"nothing here holds {reference}; it is given back", identity,
                      "", [_given_back(claim)])  # fmt: skip
    status = operation.status
    if outcome_of(case.state, operation) is not None:
        return Ruling("ACCEPTED", "OK", f"it is {status}: {reference} is given back", identity, status,
                      [changed(operation, reference, "RETURNED", f"it is {status}")])  # fmt: skip
    commitment = _made_by(case.state, operation)
    if commitment is not None and commitment.status == "TRANSFERRED" and reference not in operation.held:
        detail = f"a person freed {reference}"
        return Ruling("ACCEPTED", "OK", detail, identity, status, [changed(operation, reference, "RETURNED", detail)])
    if status == "SETTLED" and commitment is not None and commitment.status in ("ACTIVE", "TRANSFERRED"):
        how = "in force" if commitment.status == "ACTIVE" else f"with {commitment.owner_id}, who took it over"
        detail = f"the commitment {commitment.commitment_id} is {how}"
        return Ruling("ACCEPTED", "OK", detail, identity, status, [changed(operation, reference, "EXTENDED", detail)])
    detail = f"it is {status}" if commitment is None or status != "SETTLED" else (
        f"the commitment {commitment.commitment_id} is {commitment.status}"
    )  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"{detail}, so {reference} stays with it past its lease", identity, status,
                  [changed(operation, reference, "OVERDUE", detail)])  # fmt: skip


def not_answered(case: Case, operation: Operation) -> list[AnyFact]:
    """The arbiter said nothing in time: withdrawn, so that asking again is a new wish and nobody waits for ever."""
    return outcomes.withdraw(case, operation, f"the arbiter did not answer about {operation.asked} in time")


# --- giving back -----------------------------------------------------------------------------------------------------


def outcome_of(state: State, operation: Operation) -> FreeOutcome | None:
    """With which outcome the operation gives its resources back now; None while it keeps them."""
    if operation.status in ENDED_WITHOUT_EFFECT:
        return "UNUSED"
    if operation.status != "SETTLED":
        return None
    commitment = _made_by(state, operation)
    if commitment is None or commitment.status == "SATISFIED":
        return "USED"
    # One that left our books is not given back with it: its new owner has the same thing, and nobody else may.
    return "UNUSED" if commitment.status == "RELEASED" else None


def _made_by(state: State, operation: Operation) -> Commitment | None:
    commitment = state.commitments.get(operation.commitment_id) if operation.commitment_id else None
    return commitment if commitment and commitment.creating_operation == operation.operation_id else None


def _asked_by(case: Case, claim: c.ResourceGranted | c.ResourceDenied | c.ResourceExpired) -> Operation | None:
    operation = case.state.operations.get(claim.operation_id)
    known = operation is not None and operation.intent_id == claim.intent_id
    return operation if operation is not None and known and claim.resource_ref in operation.needs else None


def _waits(operation: Operation) -> bool:
    return operation.status == "STAGED" and operation.timer == "RESOURCES"


def _given_back(claim: c.ResourceGranted | c.ResourceExpired) -> AnyFact:
    return f.ResourceChanged(
        operation_id=claim.operation_id, intent_id=claim.intent_id, resource_ref=claim.resource_ref, quantity=0,
        standing="RETURNED", detail="nothing here asked for it",
    )  # fmt: skip
