"""What leaves the gate because of a decision: commands, questions for the reconciler, commitment rows. Pure."""

from joingate_processors.law.case import Case
from joingate_processors.law.commitments import LOOK_AGAIN
from joingate_processors.law.order import still_unmet
from joingate_processors.law.outgoing_resources import resource_messages
from joingate_processors.law.state import Commitment, Operation, State, newness, news_of
from joingate_schemas import facts as f
from joingate_schemas.arbitration import AnyResourceMessage
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Command, CommandKind, CommitmentRow, Decision, InDoubtKind, InDoubtRequest
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact

Outgoing = Command | InDoubtRequest | CommitmentRow | AnyResourceMessage
# Most facts concern the ledger and its readers only, and most decisions hold no other.
_SPEAKING: frozenset[type] = frozenset(
    {
        f.OperationOpened, f.OperationReady, f.AttemptStarted, f.PermitIssued, f.OperationWithdrawn,
        f.OperationInDoubt, f.OperationEscalated, f.OperationSettled, f.OperationFailed, f.ObservationRecorded,
        f.CommitmentProposed, f.CommitmentChanged, f.OwnerChanged, f.LeaseChanged, f.OperationCompensated,
        f.ResourceChanged, f.CommitmentMigrated,
    }
)  # fmt: skip
# Why a resend, or the permit of one, is refused for good: who asked for it in vain must hear what else can be asked.
_NO_RESEND = frozenset({
    "NOT_FRESH", "KEY_WINDOW_PASSED", "INTENT_CLOSED", "INTENT_CANCELLED", "STALE_INTENT", "PLAN_SUPERSEDED",
    "APPROVAL_STALE",
})  # fmt: skip


def outgoing(state: State, decision: Decision, catalogue: Catalogue, partition: int) -> list[Outgoing]:
    """Everything that follows from `decision`, read from the state into which it was already folded."""
    out: list[Outgoing] = []
    speaking = [fact for fact in decision.facts if type(fact) in _SPEAKING]
    if not speaking:
        # A refusal has no facts that could speak for it; few decisions leave their subject in doubt.
        if decision.status == "IN_DOUBT" and decision.reason in _NO_RESEND:
            out += _refused_resend(state, decision, catalogue, partition)
        return out
    case = Case(state, catalogue, decision.decided_at, "GATE")
    for fact in speaking:
        match fact:
            case (
                f.OperationOpened()
                | f.OperationReady()
                | f.AttemptStarted()
                | f.PermitIssued()
                | f.OperationWithdrawn()
            ):
                operation = state.operations.get(fact.operation_id)
                kind = _command_kind(fact, operation)
                if operation is not None and kind is not None:
                    out.append(_command(case, decision, partition, operation, kind))
            case f.OperationInDoubt() | f.OperationEscalated() | f.OperationSettled() | f.OperationFailed():
                operation = state.operations.get(fact.operation_id)
                if operation is not None and _ends_authority(fact, operation):
                    # What was allowed to act and has not begun must not begin any more.
                    out.append(_command(case, decision, partition, operation, "WITHDRAW"))
                if operation is not None and operation.in_doubt_cause:
                    out.append(_operation_question(case, decision, partition, operation))
            case f.ObservationRecorded() if decision.reason == "STALE_OBSERVATION" and fact.subject_kind == "OPERATION":
                operation = state.operations.get(fact.subject_id)
                stamps = news_of(fact.source, fact.source_version, fact.source_time)
                if operation is not None and newness(stamps, operation.news) >= 0:
                    # Only what can't be compared makes us ask: the source has outdated the rest itself.
                    out.append(_operation_question(case, decision, partition, operation))
            case f.OwnerChanged() | f.LeaseChanged() | f.CommitmentMigrated():
                commitment = state.commitments.get(fact.commitment_id)
                if commitment is not None:
                    out.append(_row(state, decision, partition, commitment))
            case f.CommitmentProposed() | f.CommitmentChanged():
                commitment = state.commitments.get(fact.commitment_id)
                if commitment is not None:
                    out.append(_row(state, decision, partition, commitment))
                    question = _commitment_question(case, decision, partition, commitment, fact)
                    if question is not None:
                        out.append(question)
            case _:
                pass  # every other fact concerns the ledger and its readers only
    out += resource_messages(case, decision, partition, speaking)
    return out


def _refused_resend(state: State, decision: Decision, catalogue: Catalogue, partition: int) -> list[Outgoing]:
    """The question anew, with what holds now: the reconciler goes on to the next capability at once."""
    operation = state.operations.get(decision.subject_id)
    if operation is None or decision.claim_type not in ("Observe", "Prepared"):
        return []
    case = Case(state, catalogue, decision.decided_at, "GATE")
    return [_operation_question(case, decision, partition, operation)]


def _ends_authority(fact: AnyFact, operation: Operation) -> bool:
    """Whether it is known now, from elsewhere than the attempt that acted, how it ended."""
    settled_elsewhere = isinstance(fact, f.OperationSettled) and fact.source != "EXECUTOR"
    return operation.permits > 0 and (settled_elsewhere or isinstance(fact, f.OperationFailed))


def _command_kind(
    fact: f.OperationOpened | f.OperationReady | f.AttemptStarted | f.PermitIssued | f.OperationWithdrawn,
    operation: Operation | None,
) -> CommandKind | None:
    if isinstance(fact, f.OperationWithdrawn):
        return "WITHDRAW"
    if isinstance(fact, f.PermitIssued):
        return "PERMIT"
    if isinstance(fact, f.AttemptStarted):
        return "PREPARE" if operation is not None and operation.phases == "TWO_PHASE" else "EXECUTE"
    return {"VALIDATED": "PREPARE", "SUBMITTED": "EXECUTE"}.get(fact.status)  # type: ignore[return-value]


def _command(case: Case, decision: Decision, partition: int, operation: Operation, kind: CommandKind) -> Command:
    action = case.action_of(operation)
    return Command(
        kind=kind, operation_id=operation.operation_id, attempt=operation.attempt, generation=operation.generation,
        intent_id=operation.intent_id, intent_version=operation.intent_version, plan_id=operation.plan_id,
        step_id=operation.step_id, action=operation.action, business_key=operation.business_key,
        arguments=operation.arguments, downstream=operation.downstream, executor=operation.executor,
        worker=operation.permit_worker if kind == "PERMIT" else "", commitment_id=operation.commitment_id,
        issued_at=decision.decided_at, permit_ms=action.permit_ms if action is not None else 0,
        act_until=case.act_until(operation) if kind in ("PERMIT", "EXECUTE") else 0,
        partition=partition, ledger_seq=decision.seq, epoch=decision.epoch,
    )  # fmt: skip


def _operation_question(case: Case, decision: Decision, partition: int, operation: Operation) -> InDoubtRequest:
    kinds: dict[str, InDoubtKind] = {"ESCALATED": "HUMAN"}
    known = case.downstream_of(operation)
    open_question = operation.status in OPEN_OPERATION or decision.reason == "STALE_OBSERVATION"
    return InDoubtRequest(
        kind=kinds.get(operation.status, "RESOLVE_OPERATION" if open_question else "RESOLVED"),
        subject_kind="OPERATION", subject_id=operation.operation_id, intent_id=operation.intent_id,
        operation_id=operation.operation_id, action=operation.action, business_key=operation.business_key,
        downstream=operation.downstream, capabilities=list(known.capabilities) if known is not None else [],
        attempt=operation.attempt, cause=operation.in_doubt_cause or decision.reason,
        external_ids=[operation.external_id] if operation.external_id else [], resource_refs=[],
        since=operation.in_doubt_since or decision.decided_at, askable_from=case.quiet_from(operation),
        deadline_at=operation.deadline_at, key_until=case.key_known_until(operation),
        fresh=case.no_resend(operation) is None and still_unmet(case, operation) is None,
        partition=partition, ledger_seq=decision.seq, epoch=decision.epoch,
    )  # fmt: skip


def _row(state: State, decision: Decision, partition: int, row: Commitment) -> CommitmentRow:
    held = state.custodies.get(row.commitment_id)
    return CommitmentRow(
        commitment_id=row.commitment_id, intent_id=row.intent_id, intent_version=row.intent_version,
        goal_id=row.goal_id, owner_id=row.owner_id, status=row.status, obligation_type=row.obligation_type,
        type_version=row.type_version, resource_refs=row.resource_refs, counterparty_refs=row.counterparty_refs,
        quantity=row.quantity, attributes=row.attributes, operation_id=row.serving_operation or row.creating_operation,
        created_at=row.created_at, due_at=row.due_at, valid_until=row.valid_until, evidence=row.evidence,
        partition=partition, ledger_seq=decision.seq, epoch=decision.epoch, grace_until=row.grace_until,
        breached_at=row.breached_at, condition=row.condition,
        fencing_token=0 if held is None else held.fencing_token, worker="" if held is None else held.worker,
        transfer_to="" if held is None else held.target_owner,
        transfer_token=0 if held is None else held.offered_token,
    )  # fmt: skip


def _rests(row: Commitment) -> bool:
    """Whether it is breached and nothing is asked about it: whoever asked knows enough."""
    return row.status == "BREACHED" and not row.release_wanted


def _lapsed(case: Case, row: Commitment) -> bool:
    """Whether it is UNKNOWN though it was made: its time has passed, so the thing itself is asked about."""
    origin = case.state.operations.get(row.creating_operation or "")
    return row.status == "UNKNOWN" and origin is not None and origin.status == "SETTLED"


def _commitment_question(
    case: Case, decision: Decision, partition: int, row: Commitment, fact: f.CommitmentProposed | f.CommitmentChanged
) -> InDoubtRequest | None:
    """Ask for the thing itself where an observation is waited for; say RESOLVED where one was."""
    kind: InDoubtKind
    asked = isinstance(fact, f.CommitmentChanged) and fact.cause == LOOK_AGAIN
    if row.timer == "VERIFICATION" or row.status == "RECONCILIATION_REQUIRED" or asked or _lapsed(case, row):
        kind = "VERIFY_RELEASE" if row.release_wanted else "VERIFY_COMMITMENT"
    elif (row.status == "ACTIVE" or row.status in TERMINAL_COMMITMENT or _rests(row)) and isinstance(
        fact, f.CommitmentChanged
    ):
        kind = "RESOLVED"
    elif (
        row.status in ("RELEASE_PENDING", "BREACHED")
        and isinstance(fact, f.CommitmentChanged)
        and fact.cause.startswith("release failed")
    ):
        kind = "VERIFY_RELEASE"  # a release that was refused may have found nothing to release
    else:
        return None
    origin = case.state.operations.get(row.creating_operation or "")
    serving = case.state.operations.get(row.serving_operation or "") or origin
    if origin is None or serving is None:
        return None  # an obligation that no operation of ours made: no downstream of ours can be asked
    known = case.downstream_of(origin)
    return InDoubtRequest(
        kind=kind, subject_kind="COMMITMENT", subject_id=row.commitment_id, intent_id=row.intent_id,
        operation_id=serving.operation_id, action=origin.action, business_key=origin.business_key,
        downstream=origin.downstream, capabilities=list(known.capabilities) if known is not None else [],
        attempt=serving.attempt, cause=fact.cause if isinstance(fact, f.CommitmentChanged) else "",
        external_ids=[origin.external_id] if origin.external_id else [], resource_refs=row.resource_refs,
        since=row.since, askable_from=case.quiet_from(serving) if serving.status in OPEN_OPERATION else 0,
        deadline_at=row.deadline_at, key_until=None, fresh=False, partition=partition, ledger_seq=decision.seq,
        epoch=decision.epoch,
    )  # fmt: skip
