"""What facts do to state: total, deterministic, the same for live decisions and for replay; `evolve` never refuses."""

from typing import assert_never

from joingate_processors.law import evolve_approvals as approvals
from joingate_processors.law import (
    evolve_archive,
    evolve_debt,
    evolve_draws,
    evolve_goals,
    evolve_keys,
    evolve_orphans,
    evolve_owners,
)
from joingate_processors.law.digests import digest_of
from joingate_processors.law.evolve_life import condition_observed, decided, latest_news, lived
from joingate_processors.law.evolve_resources import resource_changed
from joingate_processors.law.protocols import remember
from joingate_processors.law.state import (
    Commitment,
    Hold,
    Intent,
    Operation,
    PlanRow,
    Quarantine,
    State,
    Step,
    hold_key,
    newness,
    news_of,
    plan_key,
    step_key,
)
from joingate_schemas import facts as f
from joingate_schemas.claims import Edge
from joingate_schemas.facts import OPEN_OPERATION
from joingate_schemas.ids import operation_id
from joingate_schemas.record import changed, from_datum


def evolve(state: State, fact: f.AnyFact, at: int) -> None:
    """Write what `fact`, decided `at` (ms), changes. A fact about a row that is not there changes nothing."""
    match fact:
        case f.OperationOpened():
            _operation_opened(state, fact, at)
        case f.OperationSettled():
            # A person who says so decides that it stays, and takes it up by name.
            kept = {"compensating": False, "claimed": True} if fact.source == "OPERATOR" else {}
            _operation(state, fact.operation_id, status="SETTLED", external_id=fact.external_id, timer="NONE",
                       deadline_at=None, settled_at=at, **kept)  # fmt: skip
        case f.PlanRecorded():
            _plan_recorded(state, fact, at)
        case f.IntentDeclared():
            _intent_declared(state, fact)
        case f.PermitIssued():
            _permit_issued(state, fact, at)
        case f.StepSucceeded():
            _step_succeeded(state, fact, at)
        case f.AttemptStarted():
            _attempt_started(state, fact, at)
        case f.OperationReady():
            _operation_ready(state, fact, at)
        case f.OperationFailed():
            _operation_failed(state, fact)
        case f.OperationInDoubt():
            _operation_doubted(state, fact, at)
        case f.OperationEscalated():
            _operation(state, fact.operation_id, status="ESCALATED", timer=fact.timer, deadline_at=fact.deadline_at)
        case f.OperationWithdrawn():
            _operation(state, fact.operation_id, status="WITHDRAWN", timer="NONE", deadline_at=None)
        case f.OperationCompensated():
            _operation(state, fact.operation_id, status="COMPENSATED", compensated_by=fact.by, timer="NONE",
                       deadline_at=None)  # fmt: skip
        case f.CompensationRequested():
            # Only a human gate is waited for here: a compensating operation has deadlines of its own.
            _operation(state, fact.operation_id, compensating=True, deadline_at=fact.deadline_at,
                       timer="NONE" if fact.deadline_at is None else "ESCALATION")  # fmt: skip
        case f.ResourceChanged():
            resource_changed(state, fact)
        case f.ApprovalRecorded():
            approvals.recorded(state, fact)
        case f.PlanApproved():
            approvals.plan_approved(state, fact)
        case f.CommitmentProposed():
            _commitment_proposed(state, fact, at)
        case f.CommitmentDrawn() | f.CommitmentMigrated():
            evolve_draws.rewritten(state, fact)
        case f.CommitmentChanged():
            _commitment_changed(state, fact, at)
        case f.TransferOffered():
            evolve_owners.transfer_offered(state, fact)
        case f.TransferSeen():
            evolve_owners.transfer_seen(state, fact)
        case f.OwnerChanged():
            evolve_owners.owner_changed(state, fact)
        case f.LeaseChanged():
            evolve_owners.lease_changed(state, fact)
        case f.OwnerRetired():
            evolve_owners.owner_retired(state, fact)
        case f.ObservationRecorded():
            _observed(state, fact, at)
        case f.IntentCancelled():
            _intent(state, fact.intent_id, status="CANCELLED", plan_id=None)
        case f.IntentClosed():
            _intent(state, fact.intent_id, status="CLOSED", plan_id=None)
        case f.PlanEnded():
            _plan(state, fact.intent_id, fact.plan_id, status=fact.status, timer="NONE", deadline_at=None)
        case f.PlanProgress():
            _plan(state, fact.intent_id, fact.plan_id, stalled=fact.stalled,
                  timer="NONE" if fact.deadline_at is None else "PROGRESS", deadline_at=fact.deadline_at)  # fmt: skip
        case f.OrphanRaised():
            evolve_orphans.raised(state, fact)
        case f.OrphanCleared():
            evolve_orphans.cleared(state, fact)
        case f.QuarantineOpened():
            _quarantine_opened(state, fact, at)
        case f.HoldOpened():
            _hold_opened(state, fact)
        case f.QuarantineResolved():
            _quarantine_resolved(state, fact)
        case f.CatalogueLoaded():
            header = state.header.get("")
            if header is not None:
                state.header.put("", changed(header, catalogue_digest=fact.digest))
            state.catalogues.put(fact.digest, fact.catalogue.decode())
            remember(state, fact.catalogue.decode())
        case f.DispositionDecided():
            decided(state, fact)
        case f.EffectRecorded():
            _effect(state, fact)
        case f.KeyRegistered():
            evolve_keys.registered(state, fact)
        case f.KeyEnded():
            evolve_keys.ended(state, fact)
        case f.RetentionSet() | f.IntentArchived() | f.ArchiveSwept() | f.RetentionSwept():
            evolve_archive.archival(state, fact, at)
        case f.ClockSkewed():
            pass  # on the record for people and projections; no rule reads them
        case _:
            assert_never(fact)


def _intent(state: State, intent_id: str, **fields: object) -> None:
    intent = state.intents.get(intent_id)
    if intent is not None:
        state.intents.put(intent_id, changed(intent, **fields))


def _plan(state: State, intent_id: str, plan_id: str, **fields: object) -> None:
    key = plan_key(intent_id, plan_id)
    plan = state.plans.get(key)
    if plan is not None:
        state.plans.put(key, changed(plan, **fields))


def _operation(state: State, operation_id: str, **fields: object) -> None:
    operation = state.operations.get(operation_id)
    if operation is not None:
        _put_operation(state, operation, changed(operation, **fields))


def _unclaimed(operation: Operation) -> bool:
    # What is to be undone is no success, whoever took it up before: the intent can't close over it.
    return operation.status == "SETTLED" and (operation.compensating or not operation.claimed)


def _effect(state: State, fact: f.EffectRecorded) -> None:
    """A further effect leaves open which one a source has shown; the first id of a settled effect is learnt."""
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    if fact.stray:
        state.operations.put(fact.operation_id, changed(operation, observed=False))
    elif not operation.external_id:
        state.operations.put(fact.operation_id, changed(operation, external_id=fact.external_id))


def _put_operation(state: State, before: Operation | None, after: Operation) -> None:
    """Store `after`, keeping its intent's counts and indexes in step with the change from `before`."""
    operation_id, intent_id = after.operation_id, after.intent_id
    state.operations.put(operation_id, after)
    evolve_debt.operation_put(state, before, after)
    if after.draws and before is not None:
        evolve_draws.moved(state, before, after)
    opened = (after.status in OPEN_OPERATION) - (before is not None and before.status in OPEN_OPERATION)
    unclaimed = _unclaimed(after) - (before is not None and _unclaimed(before))
    if opened > 0:
        state.open_operations.add(intent_id, operation_id)
    elif opened < 0:
        state.open_operations.remove(intent_id, operation_id)
    if unclaimed > 0:
        state.unclaimed_operations.add(intent_id, operation_id)
    elif unclaimed < 0:
        state.unclaimed_operations.remove(intent_id, operation_id)
    intent = state.intents.get(intent_id) if opened or unclaimed else None
    if intent is not None:
        state.intents.put(
            intent_id,
            changed(
                intent,
                operations_open=intent.operations_open + opened,
                operations_unclaimed=intent.operations_unclaimed + unclaimed,
            ),
        )
        if intent.status != "OPEN":
            evolve_archive.stirred(state, intent)


def _intent_declared(state: State, fact: f.IntentDeclared) -> None:
    goals = {goal["goal_id"]: digest_of(goal) for goal in fact.goals}
    before = state.intents.get(fact.intent_id) if fact.supersedes else None
    if before is None:
        before = Intent(
            intent_id=fact.intent_id, version=fact.version, tenant=fact.tenant, status="OPEN", content_digest="",
            goals={}, plan_id=None, operations_open=0, operations_unclaimed=0, commitments_open=0, orphans_open=0,
            parents={}, required={}, budgets=None, spent={}, close_needs_goals=False, commitments_elsewhere=0,
            discharging="",
        )  # fmt: skip
    evolve_archive.reopened(state, before)
    after = changed(before, version=fact.version, status="OPEN", content_digest=fact.content_digest, goals=goals,
                    plan_id=None, **evolve_goals.declared(fact))  # fmt: skip
    state.intents.put(fact.intent_id, after)


def _plan_recorded(state: State, fact: f.PlanRecorded, at: int) -> None:
    adopted = fact.status == "ADOPTED"
    steps = fact.steps
    state.plans.put(
        plan_key(fact.intent_id, fact.plan_id),
        PlanRow(
            plan_id=fact.plan_id, intent_id=fact.intent_id, intent_version=fact.intent_version, status=fact.status,
            replaces=fact.replaces, content_digest=fact.content_digest,
            first_step=steps[0]["step_id"] if steps else None, steps=len(steps), steps_unjoined=len(steps),
            commitments=fact.commitments, progress_at=at, stalled=False,
            timer="NONE" if fact.deadline_at is None else "PROGRESS", deadline_at=fact.deadline_at,
        ),
    )  # fmt: skip
    barrier: str | None = None
    edges, invalidated_by = _both_ways(steps)
    for position, step in enumerate(steps):
        step_id = step["step_id"]
        state.steps.put(
            step_key(fact.intent_id, fact.plan_id, step_id),
            Step(
                step_id=step_id, plan_id=fact.plan_id, intent_id=fact.intent_id, ordinal=step["ordinal"],
                following=steps[position + 1]["step_id"] if position + 1 < len(steps) else None,
                barrier=None if step["parallel"] else barrier, action=step["action"],
                business_key=step["business_key"], slot_id=step["slot_id"], arguments=step["arguments"],
                goal_id=step["goal_id"], edges=edges.get(step_id, step["edges"]),
                invalidated_by=invalidated_by.get(step_id, []), pivot=step["pivot"], irreversible=step["irreversible"],
                dispatched=False, succeeded=False, commitments=step["commitments"], condition=step.get("condition"),
            ),
        )  # fmt: skip
        if step["irreversible"] and not step["parallel"]:
            barrier = step_id
    if adopted:
        _intent(state, fact.intent_id, plan_id=fact.plan_id)


def _both_ways(steps: list[f.StepDetail]) -> tuple[dict[str, list[Edge]], dict[str, list[str]]]:
    """Edges of steps that others conflict with, as both sides have them; and what each step is invalidated by."""
    edges: dict[str, list[Edge]] = {}
    invalidated_by: dict[str, list[str]] = {}
    own = {step["step_id"]: step["edges"] for step in steps}
    for step_id, edge in [(step["step_id"], edge) for step in steps for edge in step["edges"]]:
        other = edge["step_id"]
        if edge["kind"] == "INVALIDATES":
            invalidated_by.setdefault(other, []).append(step_id)
        elif edge["kind"] == "CONFLICTS_WITH":
            back: Edge = {"kind": "CONFLICTS_WITH", "step_id": step_id}
            edges.setdefault(other, list(own.get(other, []))).append(back)
    return edges, invalidated_by


def _operation_opened(state: State, fact: f.OperationOpened, at: int) -> None:
    key = step_key(fact.intent_id, fact.plan_id, fact.step_id)
    step = state.steps.get(key) if fact.plan_id else None
    acting = fact.phases == "ONE_PHASE" and fact.status == "SUBMITTED"
    # Every field of the fact is one of the row, so the row is the fact and what it does not know yet.
    row = from_datum(
        Operation,
        {
            **fact.__dict__,
            "latest_generation": fact.generation, "compensated_by": None, "compensating": False, "opened_at": at,
            "ordered": step is not None and bool(step.edges or step.barrier or step.pivot or step.commitments),
            "settled_at": None,
            "first_permit_at": at if acting else None, "permits": 1 if acting else 0,
            "permit_attempt": fact.attempt if acting else 0, "permitted": [], "permit_at": at if acting else None,
            "permit_worker": "", "external_id": "", "in_doubt_cause": "", "in_doubt_since": None,
            "doubted_attempt": 0,
            # What the gate itself opened (a release, a compensation) is taken up by what it serves.
            "claimed": not fact.plan_id, "observed": False, "news": {}, "approvals": [],
            "approval_expiries": {}, "approval_keys": {}, "needs": {}, "asked": "", "held": [], "draws": {},
            "opened_before": evolve_archive.chained(state, fact) if not fact.plan_id else None,
        },
    )  # fmt: skip
    _put_operation(state, None, row)  # a generation is opened once: there is no row before it to look for
    if fact.generation > 1:
        # Generation 1 is where a slot is looked up, so its row names the latest.
        first_id = operation_id(fact.intent_id, fact.action, fact.business_key, 1)
        first = state.operations.get(first_id)
        if first is not None:
            state.operations.put(first_id, changed(first, latest_generation=fact.generation))
    if step is not None and not step.dispatched:
        state.steps.put(key, changed(step, dispatched=True))
    # A success was that of the generation before: this one has yet to make the join.
    _unjoin(state, step)


def _operation_ready(state: State, fact: f.OperationReady, at: int) -> None:
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    acting: dict[str, object] = {}
    if fact.status == "SUBMITTED":
        acting = {"permits": 1, "permit_attempt": operation.attempt, "permit_at": at, "first_permit_at": at}
    after = changed(operation, status=fact.status, timer=fact.timer, deadline_at=fact.deadline_at, **acting)
    _put_operation(state, operation, after)


def _attempt_started(state: State, fact: f.AttemptStarted, at: int) -> None:
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    acting: dict[str, object] = {}
    if operation.phases == "ONE_PHASE":
        acting = {"permits": operation.permits + 1, "permit_attempt": fact.attempt, "permit_at": at}
    after = changed(operation, attempt=fact.attempt, timer=fact.timer, deadline_at=fact.deadline_at, **acting)
    _put_operation(state, operation, after)


def _permit_issued(state: State, fact: f.PermitIssued, at: int) -> None:
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    after = changed(
        operation,
        # A resend out of doubt is permitted, yet the doubt stays until evidence ends it.
        status=operation.status if operation.status == "IN_DOUBT" else "SUBMITTED",
        first_permit_at=at if operation.first_permit_at is None else operation.first_permit_at,
        permits=operation.permits + 1, permit_attempt=fact.attempt, permitted=[*operation.permitted, fact.attempt],
        permit_at=at, permit_worker=fact.worker,
        timer=fact.timer, deadline_at=fact.deadline_at,
    )  # fmt: skip
    _put_operation(state, operation, after)


def _step_succeeded(state: State, fact: f.StepSucceeded, at: int) -> None:
    key = step_key(fact.intent_id, fact.plan_id, fact.step_id)
    step, plan = state.steps.get(key), state.plans.get(plan_key(fact.intent_id, fact.plan_id))
    if step is not None and not step.succeeded:
        state.steps.put(key, changed(step, succeeded=True))
        if plan is not None:
            joined = changed(plan, steps_unjoined=plan.steps_unjoined - 1, progress_at=at)
            state.plans.put(plan_key(fact.intent_id, fact.plan_id), joined)
    # The plan that takes the operation up owns it from here on, so that what becomes of it is found under that plan.
    _operation(state, fact.operation_id, claimed=True, plan_id=fact.plan_id, step_id=fact.step_id)


def _unjoin(state: State, step: Step | None) -> None:
    if step is None or not step.succeeded:
        return
    state.steps.put(step_key(step.intent_id, step.plan_id, step.step_id), changed(step, succeeded=False))
    plan = state.plans.get(plan_key(step.intent_id, step.plan_id))
    if plan is not None:
        _plan(state, plan.intent_id, plan.plan_id, steps_unjoined=plan.steps_unjoined + 1)


def _operation_failed(state: State, fact: f.OperationFailed) -> None:
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    after = changed(operation, status="FAILED", timer="NONE", deadline_at=None)
    if operation.claimed and operation.plan_id:
        # A success that proved false opens the join again.
        after = changed(after, claimed=False)
        _unjoin(state, state.steps.get(step_key(operation.intent_id, operation.plan_id, operation.step_id)))
    _put_operation(state, operation, after)


def _operation_doubted(state: State, fact: f.OperationInDoubt, at: int) -> None:
    operation = state.operations.get(fact.operation_id)
    if operation is None:
        return
    after = changed(
        operation,
        status="IN_DOUBT", in_doubt_cause=fact.cause,
        # Said again of a later attempt, the doubt is as old as it was.
        in_doubt_since=operation.in_doubt_since if operation.status == "IN_DOUBT" else at,
        doubted_attempt=operation.attempt, observed=False, timer=fact.timer, deadline_at=fact.deadline_at,
    )  # fmt: skip
    _put_operation(state, operation, after)


def _commitment_proposed(state: State, fact: f.CommitmentProposed, at: int) -> None:
    evolve_owners.put_commitment(
        state,
        state.commitments.get(fact.commitment_id),
        Commitment(
            commitment_id=fact.commitment_id, intent_id=fact.intent_id, intent_version=fact.intent_version,
            goal_id=fact.goal_id, plan_id=fact.plan_id, step_id=fact.step_id, owner_id=fact.owner_id,
            status="PROPOSED", obligation_type=fact.obligation_type, type_version=fact.type_version,
            resource_refs=fact.resource_refs, counterparty_refs=fact.counterparty_refs, quantity=fact.quantity,
            attributes=fact.attributes, generation=fact.generation, creating_operation=fact.operation_id,
            serving_operation=None, release_wanted=False, finding="UNKNOWN", news={}, created_at=at, since=at,
            due_at=fact.due_at, valid_until=fact.valid_until, evidence=[], release_deadline_at=None,
            timer=fact.timer, deadline_at=fact.deadline_at, grace_until=fact.grace_until, condition=fact.condition,
            breached_at=None, observed_at=None, disposition="UNKNOWN", weight=fact.weight, principal=fact.principal,
            drawn=0, consumed=False,
        ),
    )  # fmt: skip


def _commitment_changed(state: State, fact: f.CommitmentChanged, at: int) -> None:
    before = state.commitments.get(fact.commitment_id)
    if before is None:
        return
    known = set(before.evidence)
    evolve_owners.put_commitment(
        state,
        before,
        changed(
            before,
            status=fact.after,
            since=at if fact.after != before.status else before.since,
            evidence=before.evidence + [item for item in fact.evidence if item not in known],
            serving_operation=fact.operation_id if fact.operation_id is not None else before.serving_operation,
            release_wanted=fact.after != "ACTIVE" and (before.release_wanted or fact.after == "RELEASE_PENDING"),
            release_deadline_at=(
                None if fact.after == "ACTIVE"
                else at if fact.after == "RELEASE_PENDING" and before.release_deadline_at is None
                else before.release_deadline_at
            ),
            timer=fact.timer,
            deadline_at=fact.deadline_at,
            **lived(before, fact, at),
        ),
    )  # fmt: skip


def _observed(state: State, fact: f.ObservationRecorded, at: int) -> None:
    """What is older than its source's latest is kept as evidence, in the ledger alone (law 8)."""
    stamps = news_of(fact.source, fact.source_version, fact.source_time)
    if fact.subject_kind == "OPERATION":
        operation = state.operations.get(fact.subject_id)
        if operation is not None and newness(stamps, operation.news) >= 0:
            news = latest_news(operation.news, stamps)
            observed = operation.observed or fact.finding == "PRESENT"
            state.operations.put(fact.subject_id, changed(operation, news=news, observed=observed))
    elif fact.subject_kind == "COMMITMENT":
        commitment = state.commitments.get(fact.subject_id)
        if commitment is not None and newness(stamps, commitment.news) >= 0:
            news = latest_news(commitment.news, stamps)
            seen_at = at if fact.finding == "PRESENT" else commitment.observed_at
            after = changed(commitment, news=news, finding=fact.finding, observed_at=seen_at)
            state.commitments.put(fact.subject_id, after)
    elif fact.subject_kind == "CONDITION":
        condition_observed(state, fact, stamps)
    elif fact.subject_kind == "GOAL":
        evolve_goals.observed(state, fact, stamps)


def _quarantine_opened(state: State, fact: f.QuarantineOpened, at: int) -> None:
    state.quarantines.put(
        fact.quarantine_id,
        Quarantine(quarantine_id=fact.quarantine_id, scope=fact.scope, problem=fact.problem, opened_at=at, holds=0,
                   resolved=False),
    )  # fmt: skip
    state.scoped_quarantines.add(fact.scope or "", fact.quarantine_id)


def _hold_opened(state: State, fact: f.HoldOpened) -> None:
    quarantine = state.quarantines.get(fact.quarantine_id)
    if quarantine is None:
        return
    ordinal = quarantine.holds + 1
    state.quarantines.put(fact.quarantine_id, changed(quarantine, holds=ordinal))
    state.holds.put(
        hold_key(fact.quarantine_id, ordinal),
        Hold(quarantine_id=fact.quarantine_id, ordinal=ordinal, intent_id=fact.intent_id,
             claim=fact.held_claim.hex(), topic=fact.topic, offset=fact.offset, appended_at=fact.appended_at),
    )  # fmt: skip


def _quarantine_resolved(state: State, fact: f.QuarantineResolved) -> None:
    quarantine = state.quarantines.get(fact.quarantine_id)
    if quarantine is not None:
        state.quarantines.put(fact.quarantine_id, changed(quarantine, resolved=True))
        state.scoped_quarantines.remove(quarantine.scope or "", fact.quarantine_id)
