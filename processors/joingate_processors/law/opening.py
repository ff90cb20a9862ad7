"""How operations come to be: phases, first status, deadlines, and the commitment that an action creates."""

from functools import lru_cache
from typing import assert_never

from joingate_processors.law import amounts
from joingate_processors.law.case import Case
from joingate_processors.law.protocols import protocol_of
from joingate_processors.law.state import Commitment, Operation
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Action, ObligationType
from joingate_schemas.claims import Arguments
from joingate_schemas.debt import weight_of
from joingate_schemas.ids import commitment_id, content_digest, operation_id
from joingate_schemas.templates import fill, names_in, plain

ENDED_WITHOUT_EFFECT: frozenset[f.OperationStatus] = frozenset({"FAILED", "WITHDRAWN", "COMPENSATED"})
"""Ends of an operation after which its slot's generation may rise (model §3)."""


def meaning_of(action: Action, arguments: Arguments) -> Arguments:
    """The arguments that carry meaning: the declared ones that do, or all where the action declares none."""
    if not action.arguments:
        return arguments
    return {a.name: arguments[a.name] for a in action.arguments if a.meaning and a.name in arguments}


def resource_refs(action: Action, business_key: str, arguments: Arguments) -> list[str]:
    """The resources that the action needs, with its templates filled from the arguments and the business key."""
    return [fill(template, business_key, arguments) for template in action.resources]


def obligation_refs(action: Action, business_key: str, arguments: Arguments) -> list[str]:
    """What the obligation of this action is about: its resources, or where it declares none, the entity acted on.

    A quota of whoever asks is used up by the asking, and no part of what came of it.
    """
    templates = [one for one in action.resources if not {"tenant", "principal"} & set(_names(one))]
    return [fill(one, business_key, arguments) for one in templates] or [f"{action.name}:{business_key}"]


def natural_key(action: Action, arguments: Arguments) -> str | None:
    """The business key that the action's template makes of the arguments.

    None if the action has no template, or an argument of it is not given; empty if one is given, but says nothing.
    """
    if not action.business_key:
        return None
    for name in _names(action.business_key):
        if name not in arguments:
            return None
        if not plain(arguments[name]):
            return ""
    return fill(action.business_key, "", arguments)


@lru_cache(maxsize=1024)
def _names(template: str) -> tuple[str, ...]:
    return names_in(template)


def digest(action: Action, business_key: str, arguments: Arguments) -> str:
    """What an approval of this content binds to, and what tells a retry from a changed wish."""
    refs = resource_refs(action, business_key, arguments) if action.resources else []
    return content_digest(action.name, meaning_of(action, arguments), refs)


def obligation_of(case: Case, made: Commitment | f.CommitmentProposed) -> ObligationType:
    """The protocol of its type that rules the commitment; cautious defaults where nobody knows it any more."""
    known = protocol_of(case.state, case.catalogue, made.obligation_type, made.type_version)
    return known if known is not None else ObligationType(made.obligation_type, resolution="UNKNOWN")


def phases_of(case: Case, action: Action) -> f.Phases:
    """Two phases unless nothing lasting happens, or it can be undone on a downstream that knows our keys."""
    if action.effect == "OBSERVE":
        return "ONE_PHASE"
    downstream = case.catalogue.downstreams.get(action.downstream)
    keyed = downstream is not None and "IDEMPOTENT_KEY" in downstream.capabilities
    return "ONE_PHASE" if action.effect == "REVERSIBLE" and keyed else "TWO_PHASE"


def ready(case: Case, action: Action, phases: f.Phases) -> tuple[f.OperationStatus, f.Timer, int]:
    """Where an operation goes when nothing holds it any more: status, timer and deadline."""
    return ("SUBMITTED" if phases == "ONE_PHASE" else "VALIDATED"), "SILENCE", case.now + action.silence_ms


def waiting_for_resources(case: Case) -> tuple[f.OperationStatus, f.Timer, int]:
    """Status, timer and deadline of an operation that waits for the arbiter's word."""
    return "STAGED", "RESOURCES", case.now + case.catalogue.resource_wait_ms


def opened(
    case: Case, action: Action, *, intent_id: str, intent_version: int, plan_id: str, step_id: str,
    goal_id: str | None, business_key: str, arguments: Arguments, generation: int, commitment: str | None = None,
    compensates: str | None = None, requested_by: str = "", identity: str = "", approval: bool = False,
    needs: bool = False,
) -> f.OperationOpened:  # fmt: skip
    """The operation of this slot and generation, STAGED if an approval, a hold window or the arbiter comes first.

    `approval`: somebody has to approve this one, whatever the action's own policy. What the gate opens to discharge
    an obligation needs the approvals of its action too, but has no hold window. `needs`: it has to ask the arbiter.
    """
    phases = phases_of(case, action)
    status, timer, deadline = ready(case, action, phases)
    if approval or action.approval != "NONE":
        status, timer, deadline = "STAGED", "APPROVAL", case.now + action.approval_ms
    elif plan_id and action.hold_ms:
        status, timer, deadline = "STAGED", "HOLD", case.now + action.hold_ms
    elif needs:
        status, timer, deadline = waiting_for_resources(case)
    return f.OperationOpened(
        operation_id=identity or operation_id(intent_id, action.name, business_key, generation), intent_id=intent_id,
        intent_version=intent_version, plan_id=plan_id, step_id=step_id, goal_id=goal_id, action=action.name,
        business_key=business_key, generation=generation, attempt=1, status=status, phases=phases,
        arguments=arguments, content_digest=digest(action, business_key, arguments),
        catalogue_digest=case.catalogue.digest, downstream=action.downstream, executor=action.executor,
        commitment_id=commitment, compensates=compensates, requested_by=requested_by,
        # What discharges an obligation is no exploration, whatever its action is in a plan.
        budget_class=action.budget_class if plan_id else "RECONCILIATION", cost=action.cost, timer=timer,
        deadline_at=deadline,
    )  # fmt: skip


def proposed(
    case: Case, action: Action, operation: f.OperationOpened, condition: str | None = None
) -> f.CommitmentProposed | None:
    """The obligation that the operation will create; None if it creates none, or the ledger has it open already.

    `condition` is what has to be observed before it is made.
    """
    kind = case.catalogue.obligations.get(action.obligation or "")
    if kind is None or operation.commitment_id is None:
        return None
    if case.state.commitments.get(operation.commitment_id) is not None:
        return None
    return f.CommitmentProposed(
        commitment_id=operation.commitment_id, intent_id=operation.intent_id,
        intent_version=operation.intent_version, goal_id=operation.goal_id, plan_id=operation.plan_id,
        step_id=operation.step_id, owner_id=f"intent:{operation.intent_id}", obligation_type=kind.name,
        type_version=kind.version,
        resource_refs=obligation_refs(action, operation.business_key, operation.arguments),
        counterparty_refs=_counterparties(action, operation),
        quantity=amounts.whole(kind.quantity, operation.arguments, kind.name) if kind.quantity else None,
        attributes={name: str(operation.arguments[name]) for name in kind.attributes if name in operation.arguments},
        generation=operation.generation, operation_id=operation.operation_id,
        due_at=None if kind.due_ms is None else case.now + kind.due_ms,
        valid_until=None if kind.valid_ms is None else case.now + kind.valid_ms, timer="NONE", deadline_at=None,
        grace_until=None if kind.due_ms is None or not kind.grace_ms else case.now + kind.due_ms + kind.grace_ms,
        condition=condition, weight=weight_of(kind), principal=operation.requested_by,
    )  # fmt: skip


def _counterparties(action: Action, operation: f.OperationOpened) -> list[str]:
    """To whom the obligation of this operation is owed, as far as its action says so."""
    return [fill(action.counterparty, operation.business_key, operation.arguments)] if action.counterparty else []


def commitment_for(
    action: Action, intent_id: str, business_key: str, arguments: Arguments, generation: int
) -> str | None:
    """The id of the commitment that this operation creates; None if the action creates none."""
    if action.obligation is None:
        return None
    return commitment_id(intent_id, action.obligation, obligation_refs(action, business_key, arguments), generation)


def latest_generation(case: Case, intent_id: str, action: str, business_key: str) -> Operation | None:
    """The operation of this slot's latest generation; None if the slot was never used."""
    return case.latest(case.state.operations.get(operation_id(intent_id, action, business_key, 1)))


def discharging(
    case: Case, name: str | None, origin: Operation, business_key: str, commitment: str | None,
    compensates: str | None, requested_by: str = "", approval: bool = False,
) -> f.OperationOpened | None:  # fmt: skip
    """The gate's own operation that undoes `origin`: a release or a compensation; None if none may be opened.

    Its business key is the id of what it discharges, so that each obligation has one discharging slot. Only a
    generation that is proven to have no effect is followed by the next: none while one is open, in doubt or settled.
    """
    action = case.catalogue.actions.get(name or "")
    if action is None:
        return None
    latest = latest_generation(case, origin.intent_id, action.name, business_key)
    if latest is not None and latest.status not in ENDED_WITHOUT_EFFECT:
        return None
    generation = 1 if latest is None else latest.generation + 1
    arguments: Arguments = {
        **origin.arguments, "business_key": origin.business_key, "external_id": origin.external_id,
    }  # fmt: skip
    return opened(
        case, action, intent_id=origin.intent_id, intent_version=origin.intent_version, plan_id="", step_id="",
        goal_id=origin.goal_id, business_key=business_key, arguments=arguments, generation=generation,
        commitment=commitment, compensates=compensates, requested_by=requested_by, approval=approval,
    )  # fmt: skip


def discharging_action(case: Case, commitment: Commitment, origin: Operation | None) -> str | None:
    """The action that discharges such a commitment, by its resolution class; None if no machine may, or can.

    What stays in the world (COMPENSATABLE, IRREVERSIBLE) is mitigated by the release action of its type, or else by
    the compensation of the action that made it.
    """
    kind = obligation_of(case, commitment)
    match kind.resolution:
        case "RELEASABLE" | "EXPIRING" | "TRANSFERABLE":
            return kind.release_action
        case "COMPENSATABLE" | "IRREVERSIBLE":
            action = None if origin is None else case.action_of(origin)
            return kind.release_action or (None if action is None else action.compensation)
        case "UNKNOWN":
            return None
        case _:
            assert_never(kind.resolution)


def release_operation(
    case: Case, commitment: Commitment, requested_by: str = "", approval: bool = False
) -> f.OperationOpened | None:
    """The next generation of the commitment's release; None if its type has no release action, or none may start."""
    origin = case.state.operations.get(commitment.creating_operation or "")
    name = discharging_action(case, commitment, origin)
    if name is None or origin is None:
        return None
    identity = commitment.commitment_id
    return discharging(case, name, origin, identity, identity, None, requested_by, approval)
