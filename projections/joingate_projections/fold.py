"""Folding: one decision of the ledger into rows. Pure over the rows: no clock, no ids, no IO; total: it never refuses.

What a release does not know (an unknown fact, an unknown symbol) is counted and skipped, never guessed at. The
decision itself always becomes a row, found again by every id that it mentions, so nothing is out of sight.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, assert_never

from joingate_projections.tables import (
    At,
    Row,
    Rows,
    alike,
    archives,
    commitments,
    decision_key,
    goals,
    incidents,
    intents,
    joined,
    keys,
    operations,
    orphans,
    owners,
    resources,
)
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.claims import Dispatch, Plan, Succeed
from joingate_schemas.codec import Codec, Undecodable, UnknownFact
from joingate_schemas.decisions import Decision, Quarantined
from joingate_schemas.facts import (
    AnyFact,
    ApprovalRecorded,
    ArchiveSwept,
    AttemptStarted,
    CatalogueLoaded,
    ClockSkewed,
    CommitmentChanged,
    CommitmentDrawn,
    CommitmentMigrated,
    CommitmentProposed,
    CompensationRequested,
    DispositionDecided,
    EffectRecorded,
    HoldOpened,
    IntentArchived,
    IntentCancelled,
    IntentClosed,
    IntentDeclared,
    KeyEnded,
    KeyRegistered,
    LeaseChanged,
    ObservationRecorded,
    OperationCompensated,
    OperationEscalated,
    OperationFailed,
    OperationInDoubt,
    OperationOpened,
    OperationReady,
    OperationSettled,
    OperationWithdrawn,
    OrphanCleared,
    OrphanRaised,
    OwnerChanged,
    OwnerRetired,
    PermitIssued,
    PlanApproved,
    PlanEnded,
    PlanProgress,
    PlanRecorded,
    QuarantineOpened,
    QuarantineResolved,
    ResourceChanged,
    RetentionSet,
    RetentionSwept,
    StepSucceeded,
    TransferOffered,
    TransferSeen,
)
from joingate_schemas.reasons import reason_number

# The fields of facts that hold the id of something that one would ask about.
_IDS = (
    "intent_id",
    "operation_id",
    "commitment_id",
    "orphan_id",
    "quarantine_id",
    "subject_id",
    "by",
    "compensates",
    "external_id",
    "resource_ref",
    "holder",
    "key_id",
)


# Claims about a plan or a step of it. Refused, they leave no fact that would say which.
_OF_PLANS = frozenset({"Plan", "Dispatch", "Succeed"})


def fold(rows: Rows, decision: Decision, partition: int, codec: Codec | None = None) -> None:
    """Fold a decision of `partition` into `rows`. The caller sees to order, gaps and repetition.

    `codec` reads the claims of refused decisions; it knows whatever schemas it was taught (None: ours alone). Raises
    RegistryUnavailable, before anything is changed, when only the registry could tell what such a claim says.
    """
    asked = _asked(rows, decision, codec or _ours())
    refused = decision.reason if decision.verdict == "REJECTED" else ""
    at = At(partition, decision.seq, decision.decided_at, decision.claim_type, refused)
    for fact in decision.facts:
        fold_fact(rows, fact, at)
    rows.put("decisions", decision_key(partition, decision.seq), _decision_row(decision, at, asked))


@cache
def _ours() -> Codec:
    return Codec()


def _asked(rows: Rows, decision: Decision, codec: Codec) -> Row | None:
    """Which plan, and which step of it, a refused claim was about; None where it was about neither.

    Only refused claims are decoded for it, since the facts of the others say as much.
    """
    if decision.verdict != "REJECTED" or decision.claim_type not in _OF_PLANS or not decision.claim:
        return None
    try:
        claim = codec.decode(decision.claim)
    except Undecodable:
        rows.count("unknown_claims", decision.claim_type)
        return None
    match claim:
        case Plan():
            return {"plan_id": claim.plan_id}
        case Dispatch() | Succeed():
            return {"plan_id": claim.plan_id, "step_id": claim.step_id}
        case _:
            return None


def fold_quarantined(rows: Rows, record: Quarantined) -> None:
    """Keep a quarantined record's bytes and coordinates, beside the row that the ledger's facts make of it."""
    row = _plain(vars(record))
    for name in ("key", "value"):
        data: bytes | None = getattr(record, name)
        row[name] = data.hex() if data is not None else None
    rows.put("quarantine_records", record.quarantine_id, row)


def fold_arbiter(rows: Rows, decision: ArbiterDecision, partition: int) -> None:
    """Fold a decision of the arbiter's `partition` into `rows`. The caller sees to order, gaps and repetition."""
    resources.held(rows, decision, partition)


def fold_fact(rows: Rows, fact: AnyFact | UnknownFact, at: At) -> None:
    """Do to the rows what one fact says."""
    match fact:
        case IntentDeclared():
            intents.intent_declared(rows, fact, at)
        case IntentCancelled():
            intents.intent_cancelled(rows, fact, at)
        case IntentClosed():
            intents.intent_closed(rows, fact, at)
        case PlanRecorded():
            intents.plan_recorded(rows, fact, at)
        case PlanEnded():
            intents.plan_ended(rows, fact, at)
        case PlanProgress():
            intents.plan_progress(rows, fact, at)
        case StepSucceeded():
            operations.taken_up_by_step(rows, fact, at)
            intents.step_succeeded(rows, fact, at)
        case OperationOpened():
            operations.opened(rows, fact, at)
            alike.opened(rows, fact, at)
        case OperationReady():
            operations.ready(rows, fact, at)
        case AttemptStarted():
            operations.attempt_started(rows, fact, at)
        case PermitIssued():
            operations.permitted(rows, fact, at)
        case OperationSettled():
            operations.settled(rows, fact, at)
        case OperationFailed():
            operations.failed(rows, fact, at)
        case OperationInDoubt():
            operations.in_doubt(rows, fact, at)
        case OperationEscalated():
            operations.escalated(rows, fact, at)
        case OperationWithdrawn():
            operations.withdrawn(rows, fact, at)
        case OperationCompensated():
            operations.compensated(rows, fact, at)
        case CompensationRequested():
            operations.compensation_requested(rows, fact, at)
        case EffectRecorded():
            operations.effect_recorded(rows, fact, at)
        case ResourceChanged():
            resources.changed(rows, fact, at)
        case ApprovalRecorded():
            operations.approval_recorded(rows, fact, at)
        case ObservationRecorded():
            _observed(rows, fact, at)
        case CommitmentProposed():
            commitments.proposed(rows, fact, at)
        case CommitmentDrawn():
            commitments.drawn(rows, fact, at)
        case CommitmentMigrated():
            commitments.migrated(rows, fact, at)
        case CommitmentChanged():
            commitments.transition(rows, fact, at)
        case TransferOffered():
            owners.transfer_offered(rows, fact, at)
        case TransferSeen():
            owners.transfer_seen(rows, fact, at)
        case OwnerChanged():
            owners.owner_changed(rows, fact, at)
        case LeaseChanged():
            owners.lease_changed(rows, fact, at)
        case OwnerRetired():
            owners.owner_retired(rows, fact, at)
        case PlanApproved():
            intents.plan_approved(rows, fact, at)
        case KeyRegistered():
            keys.registered(rows, fact, at)
        case KeyEnded():
            keys.ended(rows, fact, at)
        case DispositionDecided():
            commitments.disposition_decided(rows, fact, at)
        case OrphanRaised():
            orphans.raised(rows, fact, at)
        case OrphanCleared():
            orphans.cleared(rows, fact, at)
        case ClockSkewed():
            rows.count("clock_skews", "claims")
        case QuarantineOpened():
            incidents.quarantine_opened(rows, fact, at)
        case HoldOpened():
            incidents.hold_opened(rows, fact, at)
        case QuarantineResolved():
            incidents.quarantine_resolved(rows, fact, at)
        case CatalogueLoaded():
            row = {"partition": at.partition, "digest": fact.digest, "version": fact.version, **at.born()}
            rows.put("catalogues", f"{at.partition:05d}", row)
            rows.put("catalogue_sources", fact.digest, {"json": fact.catalogue.decode(errors="replace")})
            alike.declared(rows, fact, at)
        case RetentionSet():
            archives.retention_set(rows, fact, at)
        case RetentionSwept():
            archives.retention_swept(rows, fact, at)
        case IntentArchived():
            archives.archived(rows, fact, at)
        case ArchiveSwept():
            archives.swept(rows, fact, at)
        case UnknownFact():
            rows.count("unknown_facts", fact.name)
        case _:
            assert_never(fact)


# News that the law kept and did not believe: outdated by its own source, or an absence that proves nothing.
_UNBELIEVED = frozenset({"STALE_OBSERVATION", "NO_PROOF", "TOO_EARLY"})


def _observed(rows: Rows, fact: ObservationRecorded, at: At) -> None:
    """The latest news of each source, and on the row of the subject the latest of all that was believed."""
    news = {
        "finding": fact.finding,
        "source": fact.source,
        "source_version": fact.source_version,
        "source_time": fact.source_time,
        "evidence": fact.evidence,
        "at": at.time,
    }
    key = joined(fact.subject_kind, fact.intent_id, fact.subject_id, fact.source)
    believed = at.refused not in _UNBELIEVED
    # What is outdated is no source's latest word; the decision keeps it. What is unproven is, and says so.
    if at.refused != "STALE_OBSERVATION" or rows.get("observations", key) is None:
        rows.put("observations", key, {**vars(fact), "unbelieved": None if believed else at.refused, **at.born()})
    if not believed:
        return
    if fact.subject_kind == "OPERATION":
        operations.observed(rows, fact.subject_id, news, at)
    elif fact.subject_kind == "COMMITMENT":
        commitments.observed(rows, fact.subject_id, news, at)
    elif fact.subject_kind == "GOAL":
        goals.observed(rows, fact, news, at)


def _decision_row(decision: Decision, at: At, asked: Row | None) -> Row:
    facts = [_fact_row(fact) for fact in decision.facts]
    return {
        "partition": at.partition,
        "seq": decision.seq,
        "epoch": decision.epoch,
        "decided_at": decision.decided_at,
        "topic": decision.topic,
        "offset": decision.offset,
        "appended_at": decision.appended_at,
        "claim_type": decision.claim_type,
        "claim_id": decision.claim_id,
        "intent_id": decision.intent_id,
        "principal": decision.principal,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "reason_number": reason_number(decision.reason),
        "detail": decision.detail,
        "subject_id": decision.subject_id,
        "status": decision.status,
        "refers_to": decision.refers_to,
        "recorded_verdict": decision.recorded_verdict,
        "recorded_reason": decision.recorded_reason,
        "asked": asked,
        "facts": facts,
        "mentions": sorted({*_mentions(decision, facts), *_refused(decision, asked)}),
    }


def _fact_row(fact: AnyFact | UnknownFact) -> Row:
    if isinstance(fact, UnknownFact):
        return {"fact": fact.name, "unknown": True}
    return {"fact": type(fact).__name__, **_plain(vars(fact))}


def _plain(fields: dict[str, Any]) -> Row:
    """The fields as JSON; bytes, which only the ledger keeps, are named by size and digest."""
    return {
        name: {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()} if isinstance(value, bytes) else value
        for name, value in fields.items()
    }


def _mentions(decision: Decision, facts: list[Row]) -> Iterator[str]:
    """Every id that the decision is about, so that it is found by each of them."""
    yield from (one for one in (decision.intent_id, decision.claim_id, decision.subject_id) if one)
    for fact in facts:
        for name in _IDS:
            one = fact.get(name)
            if isinstance(one, str) and one:
                yield one
        if fact.get("plan_id"):
            yield joined(fact["intent_id"], fact["plan_id"])
        if fact.get("plan_id") and fact.get("step_id"):
            yield joined(fact["intent_id"], fact["plan_id"], fact["step_id"])


def _refused(decision: Decision, asked: Row | None) -> Iterator[str]:
    """The plan and the step that a refused claim was about, by their keys; and bare, for what was never recorded."""
    if asked is not None:
        path = [one for one in asked.values() if one]
        yield from path
        yield from (joined(decision.intent_id, *path[:depth]) for depth in range(1, len(path) + 1))
