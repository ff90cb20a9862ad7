"""Who may say what: the guards on a principal's role, signature, tenant, actions and limits (model §2).

They run before a claim's id counts, for a stranger must not use up the id of somebody's honest claim. Where the
catalogue declares no principals there is nobody to hold anything against, and none of this is asked.
"""

from joingate_processors.law.arrival import Arrival, Signed
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import Operation, Step, step_key
from joingate_schemas import claims as c
from joingate_schemas.catalogue import SECOND_PARTY, Effect, Principal

ALWAYS_SIGNED: tuple[type[c.Claim], ...] = (c.Approve, c.Decline, c.Override, c.RegisterKey, c.RevokeKey)
"""Claims that let something happen which nothing else would: signed wherever principals are declared."""

_STRENGTH: dict[Effect, int] = {"OBSERVE": 0, "REVERSIBLE": 1, "IRREVERSIBLE": 2}


def check(case: Case, arrival: Arrival) -> None:
    """Refuse the claim if its principal may not say it, or has not shown to be who it says."""
    claim = arrival.claim
    known = case.catalogue.principals.get(claim.principal)
    if known is None or known.role != case.role:
        refuse("UNKNOWN_PRINCIPAL", f"'{claim.principal}' may not speak as {case.role.lower()}", claim.claim_id)
    _check_signature(case, claim, arrival.signed)
    if known.tenant:
        _check_tenant(known, claim)
    if known.actions or known.amounts_max or known.effect_max != "IRREVERSIBLE":
        _check_limits(case, known, claim)


def _check_signature(case: Case, claim: c.AnyClaim, signed: Signed | None) -> None:
    signatures = case.catalogue.signatures
    if signed is None:
        if signatures == "REQUIRED" or (
            signatures == "OPTIONAL" and (isinstance(claim, ALWAYS_SIGNED) or _makes_for_a_checker(case, claim))
        ):
            refuse("UNSIGNED", f"a {type(claim).__name__} has to be signed", claim.claim_id)
        return
    if signed.problem:
        refuse(signed.problem, signed.detail, claim.claim_id)
    if signed.holder != claim.principal:
        holder = case.catalogue.principals.get(signed.holder)
        if holder is None or claim.principal not in holder.vouches_for or holder.role != case.role:
            refuse("BAD_SIGNATURE", f"the key {signed.key_id} is {signed.holder}'s, who does not vouch for "
                   f"'{claim.principal}'", claim.claim_id)  # fmt: skip
    case.verified = signed.key_id


def _makes_for_a_checker(case: Case, claim: c.AnyClaim) -> bool:
    """Whether it asks for what only a second party may approve: who the first one is has to be known for that."""
    if not isinstance(claim, c.Dispatch):
        return False
    step = case.state.steps.get(step_key(claim.intent_id, claim.plan_id, claim.step_id))
    action = None if step is None else case.catalogue.actions.get(step.action)
    return action is not None and action.approval in SECOND_PARTY


def _check_tenant(known: Principal, claim: c.AnyClaim) -> None:
    if not claim.intent_id.startswith(f"{known.tenant}/"):
        refuse("UNKNOWN_PRINCIPAL", f"'{known.name}' belongs to tenant {known.tenant}", claim.claim_id)
    if isinstance(claim, c.DeclareIntent) and claim.tenant not in ("", known.tenant):
        refuse("UNKNOWN_PRINCIPAL", f"'{known.name}' belongs to tenant {known.tenant}, and declares for {claim.tenant}",
               claim.claim_id)  # fmt: skip


def _check_limits(case: Case, known: Principal, claim: c.AnyClaim) -> None:
    name, arguments = _meant(case, claim)
    if name is None:
        return
    if known.actions and name not in known.actions:
        refuse("UNKNOWN_PRINCIPAL", f"'{known.name}' may not speak of {name}", claim.claim_id)
    over = over_limit(case, known, name, arguments)
    if over:
        refuse("OVER_LIMIT", over, claim.claim_id)


def over_limit(case: Case, known: Principal, name: str, arguments: c.Arguments) -> str:
    """Why the action with these arguments is more than the principal may; empty if it is not."""
    action = case.catalogue.actions.get(name)
    if action is not None and _STRENGTH[action.effect] > _STRENGTH[known.effect_max]:
        return f"{name} is {action.effect}, and '{known.name}' goes no further than {known.effect_max}"
    for argument, most in known.amounts_max.items():
        value = arguments.get(argument)
        # What is no number can't be held against one, and would else be the way around it.
        if value is not None and (isinstance(value, (bool, str)) or not value <= most):
            return f"{argument} is {value!r}, and '{known.name}' goes no further than {most:g}"
    return ""


def _meant(case: Case, claim: c.AnyClaim) -> tuple[str | None, c.Arguments]:
    """The action that the claim starts, reports or approves, with its arguments; None where it is about none known.

    A Commit is not asked here: what was done is kept, whoever did it (law 3), so `outcomes` refuses it itself.
    """
    row: Step | Operation | None
    match claim:
        case c.Dispatch():
            row = case.state.steps.get(step_key(claim.intent_id, claim.plan_id, claim.step_id))
        case c.Prepared() | c.Abort() | c.InDoubt() | c.Approve() | c.Decline():
            row = case.state.operations.get(claim.operation_id or "")
        case _:
            row = None
    if row is None:
        return None, {}
    if isinstance(claim, c.Dispatch) and claim.arguments is not None:
        return row.action, {**row.arguments, **claim.arguments}
    return row.action, row.arguments
