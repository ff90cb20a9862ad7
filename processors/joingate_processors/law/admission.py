"""Who may take on more: debts, backlogs and budgets held against the declared limits (model §6, "Admission").

Refused is only what would add to them. What discharges an obligation (a release, a compensation, a transfer, the
reconciliation of a doubt, a Succeed, a Close) asks nobody here, and a plan's step that does so is let through too.
"""

from joingate_processors.law.case import Case, approvals_needed, refuse
from joingate_processors.law.state import Intent, backlog_key, scope_key
from joingate_schemas.catalogue import Action, Catalogue, Limit, LimitScope
from joingate_schemas.debt import UNIT, BacklogKind, Weighed, debt, limit_for, tenant_of, weight_of
from joingate_schemas.facts import StepDetail

_CLOSE_ENOUGH = 1e-9  # what sums of costs are off by, for a budget that is spent to its last cent


def discharges(catalogue: Catalogue, action: Action) -> bool:
    """Whether the action gives back, undoes or reconciles: such work is never held up by what it makes less."""
    return action.name in catalogue.discharging


def check(case: Case, intent_id: str, principal: str, weight: int, subject_id: str) -> None:
    """Refuse a new obligation of this `weight` (thousandths) where a limit is reached; `subject_id` is its id."""
    if not case.catalogue.limits:
        return
    for of, who in _subjects(intent_id, principal):
        limit = limit_for(case.catalogue, of, who)
        if limit is not None:
            _check_debt(case, limit, who, weight, subject_id)
            _check_backlog(case, limit, who, "DOUBT", subject_id)
            _check_backlog(case, limit, who, "REVIEW", subject_id)


def check_dispatch(case: Case, action: Action, intent_id: str, principal: str, commitment: str | None) -> None:
    """Refuse a step that would make an obligation, or ask a person, beyond a limit."""
    if not case.catalogue.limits:
        return
    kind = case.catalogue.obligations.get(action.obligation or "")
    asks = approvals_needed(action) > 0
    makes = kind is not None and commitment is not None and case.state.commitments.get(commitment) is None
    if not (makes or asks) or discharges(case.catalogue, action):
        return
    if kind is not None and commitment is not None and makes:
        check(case, intent_id, principal, weight_of(kind), commitment)
        return
    for of, who in _subjects(intent_id, principal):
        limit = limit_for(case.catalogue, of, who)
        if limit is not None:
            _check_backlog(case, limit, who, "REVIEW", intent_id)


def check_plan(case: Case, intent_id: str, principal: str, steps: list[StepDetail], plan_id: str) -> None:
    """Refuse to adopt a plan where not even the lightest obligation that it would make could be taken on now.

    One that makes none, or only discharges, is always adopted: it is the way out.
    """
    if not case.catalogue.limits:
        return
    lightest: int | None = None
    for step in steps:
        action = case.catalogue.actions.get(step["action"])
        kind = None if action is None else case.catalogue.obligations.get(action.obligation or "")
        if action is None or kind is None or case.state.operations.get(step["slot_id"]) is not None:
            continue  # it makes nothing, or its slot was used before: then what it made is there, or its Dispatch asks
        if not discharges(case.catalogue, action):
            lightest = weight_of(kind) if lightest is None else min(lightest, weight_of(kind))
    if lightest is not None:
        check(case, intent_id, principal, lightest, plan_id)


def check_budget(case: Case, intent: Intent, action: Action, subject_id: str) -> None:
    """Refuse what the intent's ceiling, or its share for exploration, does not cover."""
    ceiling = None if intent.budgets is None else intent.budgets.get("cost_max")
    if not action.cost or ceiling is None or intent.budgets is None or discharges(case.catalogue, action):
        return
    spent, total = intent.spent.get(action.budget_class, 0.0), sum(intent.spent.values())
    slack = _CLOSE_ENOUGH * max(1.0, ceiling)
    if total + action.cost > ceiling + slack:
        refuse("BUDGET_SPENT", f"{action.name} costs {action.cost:g}; of the {ceiling:g} of intent {intent.intent_id}, "
               f"{total:g} is spent", subject_id)  # fmt: skip
    share = intent.budgets["exploration"] * ceiling
    if action.budget_class == "EXPLORATION" and spent + action.cost > share + slack:
        refuse("BUDGET_SPENT", f"{action.name} costs {action.cost:g}; of the {share:g} that intent {intent.intent_id} "
               f"has for exploration, {spent:g} is spent", subject_id)  # fmt: skip


def _subjects(intent_id: str, principal: str) -> list[tuple[LimitScope, str]]:
    found: list[tuple[LimitScope, str]] = [("INTENT", intent_id), ("TENANT", tenant_of(intent_id))]
    return [*found, ("PRINCIPAL", principal)] if principal else found


def _check_debt(case: Case, limit: Limit, who: str, weight: int, subject_id: str) -> None:
    if limit.debt is None:
        return
    scope = scope_key(limit.of, who)
    row = case.state.debts.get(scope)
    sum_of = Weighed() if row is None else Weighed(
        row.weight, row.moment, row.uncertain_weight, row.uncertain_moment
    )  # fmt: skip
    owed, more = debt(sum_of, limit, case.now), weight / UNIT
    if owed + more <= limit.debt:
        return
    has = f"{limit.of.lower()} {who} has a debt of {owed:.6g}, and {more:g} more would exceed its limit {limit.debt:g}"
    first = case.state.backlogs.first(backlog_key(scope, "DEBT"))
    if first is None:
        refuse("COMMITMENT_DEBT", f"{has}; it is heavier by itself than the limit allows", subject_id)
    commitment = case.state.commitments.get(first.rpartition("\x1f")[2])
    named = "the oldest" if commitment is None else (
        f"{commitment.obligation_type} {commitment.commitment_id} of intent {commitment.intent_id}, which is "
        f"{commitment.status}"
    )  # fmt: skip
    refuse("COMMITMENT_DEBT", f"{has}: discharge {named}, first", subject_id)


def _check_backlog(case: Case, limit: Limit, who: str, kind: BacklogKind, subject_id: str) -> None:
    most = limit.doubts if kind == "DOUBT" else limit.reviews
    if most is None:
        return
    scope = scope_key(limit.of, who)
    row = case.state.debts.get(scope)
    count = 0 if row is None else row.doubts if kind == "DOUBT" else row.reviews
    if count < most:
        return
    first = case.state.backlogs.first(backlog_key(scope, kind))
    what, do = ("unresolved", "settle") if kind == "DOUBT" else ("waiting for a person", "decide")
    refuse("COMMITMENT_DEBT", f"{limit.of.lower()} {who} has {count} {what}, and may have {most}: {do} {first} first",
           subject_id)  # fmt: skip
