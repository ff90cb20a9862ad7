"""Intents: declared, superseded, cancelled, and closed only without a hole."""

from math import inf

from joingate_processors.law import archive, dispositions, goals, sparing
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.digests import digest_of
from joingate_processors.law.plans import end_plan, withdraw_unpermitted
from joingate_processors.law.state import Intent, PlanRow, step_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact

NAMED_MAX = 20
"""How many goals a refusal names: an intent may have thousands."""


def declare(case: Case, claim: c.DeclareIntent) -> Ruling:
    """A first version, or a higher one that supersedes: what is left behind by it is found in this decision."""
    if claim.version < 1:
        refuse("MALFORMED", f"version {claim.version} is below 1", claim.intent_id)
    _check_budgets(claim)
    _check_goals(claim)
    goals.check_tree(claim.intent_id, claim.goals)
    # Only what is asked for is part of it, so that a version declared before there was such a wish stays the same.
    terms = (claim.close_needs_goals,) if claim.close_needs_goals else ()
    content = digest_of(claim.tenant, claim.objective, claim.goals, claim.budgets, *terms)
    intent = case.state.intents.get(claim.intent_id)
    if intent is None:
        archive.check(case, claim.intent_id)
    else:
        if intent.status == "CLOSED":
            refuse("INTENT_CLOSED", f"intent {claim.intent_id} is closed", claim.intent_id, intent.status)
        if claim.version == intent.version and content == intent.content_digest:
            return Ruling("REPLAYED", "ALREADY_SO", "declared before", claim.intent_id, intent.status)
        if claim.version == intent.version:
            refuse("VERSION_CONFLICT", f"version {claim.version} has other content", claim.intent_id, intent.status)
        if claim.version < intent.version:
            refuse("STALE_INTENT", f"version {intent.version} is current", claim.intent_id, intent.status)
    facts: list[AnyFact] = [
        f.IntentDeclared(
            intent_id=claim.intent_id, version=claim.version, tenant=claim.tenant, objective=claim.objective,
            goals=claim.goals, budgets=claim.budgets, content_digest=content,
            supersedes=intent.version if intent is not None else 0, close_needs_goals=claim.close_needs_goals,
        )
    ]  # fmt: skip
    if intent is not None:
        if intent.plan_id is not None:
            facts += end_plan(case, intent, intent.plan_id, "SUPERSEDED", f"version {claim.version}")
        facts += withdraw_unpermitted(case, intent, f"version {claim.version} was declared")
        digests, parents = goals.own_digests(claim.goals), goals.parents_of(claim.goals)
        facts += dispositions.on_superseded(case, intent, digests, parents, _withdrawn(facts))
    return Ruling("ACCEPTED", "OK", "", claim.intent_id, "OPEN", facts)


def _check_budgets(claim: c.DeclareIntent) -> None:
    """Shares lie between 0 and 1, and a ceiling is a number that is not negative."""
    if claim.budgets is None:
        return
    shares = (claim.budgets["exploration"], claim.budgets["verification"], claim.budgets["reconciliation"])
    cost_max = claim.budgets.get("cost_max")
    if not all(0 <= share <= 1 for share in shares):
        refuse("MALFORMED", f"the budget's shares {shares} must lie between 0 and 1", claim.intent_id)
    if cost_max is not None and not 0 <= cost_max < inf:
        refuse("MALFORMED", f"the budget's ceiling {cost_max} must be a number from 0", claim.intent_id)


def _check_goals(claim: c.DeclareIntent) -> None:
    """Each goal says how one would know it: of another, nobody could tell whether it is reached."""
    for goal in claim.goals:
        if not goal["goal_id"] or not goal["acceptance"].strip():
            refuse("MALFORMED", f"goal '{goal['goal_id']}' needs an id and an acceptance: how one would see that it is "
                   "reached", claim.intent_id)  # fmt: skip
    if claim.close_needs_goals and not claim.goals:
        refuse("MALFORMED", "close_needs_goals asks that each goal is seen before the intent closes, and it names none",
               claim.intent_id)  # fmt: skip


def _withdrawn(facts: list[AnyFact]) -> set[str]:
    return {fact.operation_id for fact in facts if isinstance(fact, f.OperationWithdrawn)}


def cancel(case: Case, claim: c.CancelIntent) -> Ruling:
    """Not wanted any more: new work stops here, obligations are discharged, what is in flight is tracked on."""
    intent = case.open_intent(claim.intent_id, claim.intent_version)
    if intent.status == "CANCELLED":
        return Ruling("REPLAYED", "ALREADY_SO", "cancelled before", claim.intent_id, intent.status)
    facts: list[AnyFact] = [f.IntentCancelled(intent_id=claim.intent_id, version=intent.version, reason=claim.reason)]
    if intent.plan_id is not None:
        facts += end_plan(case, intent, intent.plan_id, "CLOSED", "cancel")
    facts += withdraw_unpermitted(case, intent, "its intent was cancelled")
    facts += dispositions.on_cancelled(case, intent, _withdrawn(facts))
    facts += archive.ended(case, claim.intent_id, "it was cancelled")
    return Ruling("ACCEPTED", "OK", "", claim.intent_id, "CANCELLED", facts)


def close(case: Case, claim: c.Close) -> Ruling:
    """Finished: only if every join is made and nothing is open anywhere under the intent."""
    intent = case.open_intent(claim.intent_id, claim.intent_version)
    plan: PlanRow | None = None
    if intent.status == "OPEN":
        wanted = claim.plan_id or intent.plan_id
        if wanted is None:
            refuse("NOT_PLANNED", f"intent {claim.intent_id} has no plan in force", claim.intent_id, intent.status)
        plan = case.plan_in_force(intent, wanted, "its close")
        if plan.steps_unjoined:
            _check_joins(case, plan)
    _check_nothing_open(case, intent)
    if intent.close_needs_goals and intent.status == "OPEN":
        _check_goals_seen(case, intent)
    facts: list[AnyFact] = [f.IntentClosed(intent_id=claim.intent_id, version=intent.version, outcome=claim.outcome)]
    if plan is not None:
        facts += end_plan(case, intent, plan.plan_id, "CLOSED", "close")
    facts += archive.ended(case, claim.intent_id, "it was closed")
    return Ruling("ACCEPTED", "OK", "", claim.intent_id, "CLOSED", facts)


def _check_joins(case: Case, plan: PlanRow) -> None:
    """Refuse unless each step that has not succeeded is compensated by a record that names it, or had nothing to do."""
    at = plan.first_step
    while at is not None:
        step = case.state.steps.get(step_key(plan.intent_id, plan.plan_id, at))
        if step is None:
            return
        if not step.succeeded and not sparing.is_spared(case, step):
            operation = case.slot_operation(step)
            if operation is None or operation.status != "COMPENSATED":
                status = "not dispatched" if operation is None else operation.status
                refuse("MISSING_JOIN", f"step {step.step_id} ({step.action}) is {status} and has not succeeded",
                       step.slot_id if operation is None else operation.operation_id)  # fmt: skip
        at = step.following


def _check_goals_seen(case: Case, intent: Intent) -> None:
    """Refuse unless each goal of the version in force was observed as reached."""
    missing = goals.unreached(case.state, intent)
    if not missing:
        return
    named = ", ".join(_evidence_for(intent, one) for one in missing[:NAMED_MAX])
    more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
    refuse("GOALS_NOT_SEEN", f"version {intent.version} closes only once each goal is seen, and no source shows "
           f"{named}{more}", intent.intent_id, intent.status)  # fmt: skip


def _evidence_for(intent: Intent, goal_id: str) -> str:
    kinds = intent.required.get(goal_id)
    return f"{goal_id} (by evidence of {', '.join(kinds)})" if kinds else goal_id


def _check_nothing_open(case: Case, intent: Intent) -> None:
    state = case.state
    open_operations = state.open_operations.members(intent.intent_id) if intent.operations_open else []
    unclaimed = state.unclaimed_operations.members(intent.intent_id) if intent.operations_unclaimed else []
    for one in open_operations + unclaimed:
        operation = state.operations.get(one)
        action = case.action_of(operation) if operation is not None and operation.status == "SETTLED" else None
        if action is not None and action.effect == "OBSERVE":
            continue  # having looked leaves nothing behind that somebody must take up
        status = "open" if operation is None else operation.status
        refuse("OPEN_OPERATIONS", f"operation {one} is {status}, and nobody took it up", one, status)
    if intent.commitments_open:
        first = state.open_commitments.members(intent.intent_id)[0]
        commitment = state.commitments.get(first)
        state_of = "open" if commitment is None else commitment.status
        refuse("OPEN_COMMITMENTS", f"commitment {first} is {state_of}; {intent.commitments_open} open", first, state_of)
