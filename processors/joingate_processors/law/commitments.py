"""Obligations: how an operation's fate moves them, how they are given back, and what a plan's change does to them."""

from joingate_processors.law import custody
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.opening import release_operation
from joingate_processors.law.state import Commitment, Intent, Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact, CommitmentStatus, OrphanKind, Timer
from joingate_schemas.ids import orphan_id
from joingate_schemas.record import changed

_CLEARED_WHEN_KEPT: tuple[OrphanKind, ...] = ("LEFT_BEHIND", "LATE_SUCCESS")
_CLEARED_WHEN_DISCHARGED: tuple[OrphanKind, ...] = ("LEFT_BEHIND", "OVERDUE", "LATE_SUCCESS", "NO_OWNER")
NO_OWNER_ADVICE = "assign another owner under a declared policy, or release it"
# How often what is overdue or waits for a person is looked at again, where the type says nothing.
REMINDER_MS = 86_400_000
# A pause that doubles stops doubling here: 128 times the first.
BACKOFF_DOUBLINGS_MAX = 7


def kind_of(case: Case, commitment: Commitment) -> ObligationType:
    """What the catalogue says of the commitment's type; cautious defaults if it was dropped from it."""
    known = case.catalogue.obligations.get(commitment.obligation_type)
    return known if known is not None else ObligationType(commitment.obligation_type, resolution="UNKNOWN")


def change(
    commitment: Commitment, after: CommitmentStatus, cause: str, evidence: list[str], *, timer: Timer = "NONE",
    deadline_at: int | None = None, operation_id: str | None = None,
) -> f.CommitmentChanged:  # fmt: skip
    """The transition as a fact."""
    return f.CommitmentChanged(
        commitment_id=commitment.commitment_id, intent_id=commitment.intent_id, before=commitment.status,
        after=after, cause=cause, evidence=evidence, operation_id=operation_id, timer=timer, deadline_at=deadline_at,
    )  # fmt: skip


def raise_orphan(
    case: Case, kind: OrphanKind, subject_kind: c.SubjectKind, subject_id: str, intent_id: str, cause: str, advice: str,
    detail: str = "",
) -> f.OrphanRaised:  # fmt: skip
    """The incident as a fact, in the very decision of its cause."""
    return f.OrphanRaised(
        orphan_id=orphan_id(kind, subject_id, detail), kind=kind, subject_kind=subject_kind, subject_id=subject_id,
        intent_id=intent_id, since=case.now, cause=cause, suggested_action=advice,
    )  # fmt: skip


def cleared(
    case: Case, intent_id: str, subject_id: str, kinds: tuple[OrphanKind, ...], cause: str, detail: str = ""
) -> list[AnyFact]:
    """The open incidents of these kinds about the subject, cleared. Looks nothing up where the intent has none."""
    intent = case.state.intents.get(intent_id)
    if intent is None or not intent.orphans_open:
        return []
    ids = [orphan_id(kind, subject_id, detail) for kind in kinds]
    return [
        f.OrphanCleared(orphan_id=one, intent_id=intent_id, cause=cause)
        for one in ids
        if case.state.orphans.get(one) is not None
    ]


def discharged(
    case: Case, commitment: Commitment, after: CommitmentStatus, cause: str, evidence: list[str]
) -> list[AnyFact]:
    """The facts of a terminal transition, with the incidents that it ends."""
    facts: list[AnyFact] = [change(commitment, after, cause, evidence)]
    facts += cleared(case, commitment.intent_id, commitment.commitment_id, _CLEARED_WHEN_DISCHARGED, cause)
    return facts


def start_release(case: Case, commitment: Commitment, cause: str, evidence: list[str]) -> list[AnyFact]:
    """RELEASE_PENDING, with the release operation if the creation is settled; RECONCILIATION_REQUIRED if none can be.

    A creation that is still open is waited for: whatever it turns out to be, the release follows (model §6).
    """
    kind = kind_of(case, commitment)
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status in f.OPEN_OPERATION:
        return [change(commitment, "RELEASE_PENDING", f"{cause}; waits for its creation", evidence, timer="RELEASE",
                       deadline_at=case.now + kind.release_ms)]  # fmt: skip
    serving = case.state.operations.get(commitment.serving_operation or "")
    if serving is not None and serving.status in ("STAGED", "VALIDATED", "SUBMITTED"):
        return [change(commitment, "RELEASE_PENDING", f"{cause}; its release is under way", evidence, timer="RELEASE",
                       deadline_at=case.now + kind.release_ms)]  # fmt: skip
    operation = release_operation(case, commitment) if kind.resolution == "RELEASABLE" else None
    if operation is None:
        why = "has no release action" if serving is None else f"was released by an operation that is {serving.status}"
        return reconcile(case, commitment, f"{cause}; {kind.name} {why}", evidence)
    return [
        operation,
        change(commitment, "RELEASE_PENDING", cause, evidence, timer="RELEASE",
               deadline_at=case.now + kind.release_ms, operation_id=operation.operation_id),
    ]  # fmt: skip


# --- what an operation's fate does to the commitment that it creates or serves ---------------------------------------


def left_behind(case: Case, commitment: Commitment) -> bool:
    """Whether the ground that the commitment stood on is gone: version, plan or intent, and nothing kept it."""
    if custody.is_foreign(commitment):
        return False  # it stands on its owner
    intent = case.state.intents.get(commitment.intent_id)
    if intent is None or intent.status != "OPEN":
        return True
    return commitment.intent_version != intent.version or commitment.plan_id != (intent.plan_id or "")


def on_settled(case: Case, operation: Operation, external_id: str, evidence: list[str]) -> list[AnyFact]:
    """The operation's effect exists now."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None:
        return []
    proof = [*evidence, f"external:{external_id}"] if external_id else list(evidence)
    creating = commitment.creating_operation == operation.operation_id
    if creating and commitment.status == "RELEASED":
        # It was discharged as never created, and was created all the same: newer evidence reopens it (law 8).
        proof = proof or [f"operation:{operation.operation_id}"]
        return [*_created(case, commitment, proof), *_ownerless(case, commitment)]
    if commitment.status in TERMINAL_COMMITMENT:
        return []
    if creating:
        return _created(case, commitment, proof)
    kind = kind_of(case, commitment)
    if commitment.serving_operation != operation.operation_id:
        return []
    if kind.observed or not evidence:
        return [change(commitment, "RELEASE_PENDING", "release committed; to be observed", proof,
                       timer="VERIFICATION", deadline_at=case.now + kind.verification_ms)]  # fmt: skip
    return released(case, commitment, "release committed", proof, operation)


def _ownerless(case: Case, commitment: Commitment) -> list[AnyFact]:
    """The incident that nobody owns it, where it comes back after its owner was retired: no sweep will find it."""
    if not custody.is_retired(case, commitment.owner_id):
        return []
    cause = f"its owner {commitment.owner_id} was retired"
    return [raise_orphan(case, "NO_OWNER", "COMMITMENT", commitment.commitment_id, commitment.intent_id, cause,
                         NO_OWNER_ADVICE)]  # fmt: skip


def released(
    case: Case, commitment: Commitment, cause: str, evidence: list[str], by: Operation | None
) -> list[AnyFact]:
    """RELEASED by evidence; the operation that had created it counts as compensated, so its slot is free again.

    `by` is the release that is settled, None if it was not one. A release that has no permit yet is withdrawn, for
    whoever got the resource next must not lose it to us.
    """
    facts = discharged(case, commitment, "RELEASED", cause, evidence)
    serving = case.state.operations.get(commitment.serving_operation or "")
    if serving is not None and serving.status in ("STAGED", "VALIDATED"):
        facts.append(f.OperationWithdrawn(operation_id=serving.operation_id, intent_id=serving.intent_id, cause=cause))
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status == "SETTLED":
        named = by.operation_id if by is not None else f"commitment:{commitment.commitment_id}"
        facts.append(f.OperationCompensated(operation_id=origin.operation_id, intent_id=origin.intent_id, by=named))
    return facts


def _created(case: Case, commitment: Commitment, evidence: list[str]) -> list[AnyFact]:
    kind = kind_of(case, commitment)
    late = commitment.status == "RELEASED" or left_behind(case, commitment)
    if commitment.release_wanted or (late and kind.late_success == "RELEASE"):
        # The row of the creating operation still shows it open: it settles in this very decision.
        operation = release_operation(case, commitment) if kind.resolution == "RELEASABLE" else None
        if operation is not None:
            return [
                operation,
                change(commitment, "RELEASE_PENDING", "created after its release was wanted", evidence,
                       timer="RELEASE", deadline_at=case.now + kind.release_ms, operation_id=operation.operation_id),
            ]  # fmt: skip
    if commitment.release_wanted or late:
        return [
            change(commitment, "RECONCILIATION_REQUIRED", "late success", evidence, timer="RECONCILIATION",
                   deadline_at=case.now + kind.reconciliation_ms),
            raise_orphan(case, "LATE_SUCCESS", "COMMITMENT", commitment.commitment_id, commitment.intent_id,
                         "it was created after its ground was gone", "let its owner keep, transfer or release it"),
        ]  # fmt: skip
    if kind.observed:
        return [change(commitment, "PROPOSED", "created; to be observed", evidence, timer="VERIFICATION",
                       deadline_at=case.now + kind.verification_ms)]  # fmt: skip
    return [change(commitment, "ACTIVE", "created", evidence)]


def on_absent(case: Case, operation: Operation, cause: str, evidence: list[str]) -> list[AnyFact]:
    """The operation's effect is proven absent, or it was withdrawn before it could have any."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None or commitment.status in TERMINAL_COMMITMENT:
        return []
    if commitment.creating_operation == operation.operation_id:
        return discharged(case, commitment, "RELEASED", f"never created: {cause}", [f"absence:{cause}", *evidence])
    if commitment.serving_operation != operation.operation_id:
        return []
    kind = kind_of(case, commitment)
    # A release that was refused may have found nothing to release: that is looked at, and it is tried again.
    pause_ms = kind.release_retry_ms << min(operation.generation - 1, BACKOFF_DOUBLINGS_MAX)
    return [change(commitment, "RELEASE_PENDING", f"release failed: {cause}", evidence, timer="RELEASE",
                   deadline_at=case.now + pause_ms)]  # fmt: skip


def on_doubt(case: Case, operation: Operation, cause: str) -> list[AnyFact]:
    """Nobody knows whether the operation took effect, so nobody knows of its commitment either."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None or commitment.status in TERMINAL_COMMITMENT:
        return []
    kind = kind_of(case, commitment)
    deadline = case.now + kind.reconciliation_ms
    if commitment.creating_operation == operation.operation_id:
        if commitment.status == "PROPOSED":
            return [change(commitment, "UNKNOWN", f"creation in doubt: {cause}", [], timer="RECONCILIATION",
                           deadline_at=deadline)]  # fmt: skip
        return [change(commitment, "RECONCILIATION_REQUIRED", f"creation in doubt: {cause}", [],
                       timer="RECONCILIATION", deadline_at=deadline)]  # fmt: skip
    if commitment.serving_operation == operation.operation_id:
        return [change(commitment, "RECONCILIATION_REQUIRED", f"release in doubt: {cause}", [],
                       timer="RECONCILIATION", deadline_at=deadline)]  # fmt: skip
    return []


# --- supersession, cancel, replanning --------------------------------------------------------------------------------


def _disposition(
    case: Case, commitment: Commitment, disposition: f.Disposition, reason: str, differs: list[str]
) -> list[AnyFact]:
    if disposition != "KEEP" and custody.offer_of(case, commitment) is not None:
        # It is being handed over: if it comes back, it is given up then; if not, it is its new owner's.
        return [f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                                     disposition="TRANSFER", reason=reason, differs=differs)]  # fmt: skip
    facts: list[AnyFact] = [
        f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                             disposition=disposition, reason=reason, differs=differs)
    ]  # fmt: skip
    kind = kind_of(case, commitment)
    match disposition:
        case "RELEASE":
            facts += start_release(case, commitment, reason, [])
        case "RECONCILE" if _owner_decides(case, commitment):
            timer, deadline_at = _waits_for(case, commitment)
            facts.append(change(commitment, commitment.status, reason, [], timer=timer, deadline_at=deadline_at))
        case "RECONCILE":
            facts += reconcile(case, commitment, reason)
        case "REVALIDATE":
            facts.append(change(commitment, commitment.status, reason, [], timer="DISPOSITION",
                                deadline_at=case.now + kind.disposition_ms))  # fmt: skip
        case "KEEP":
            if commitment.timer == "DISPOSITION":
                timer, deadline_at = _waits_for(case, commitment)
                facts.append(change(commitment, commitment.status, reason, [], timer=timer, deadline_at=deadline_at))
            facts += cleared(case, commitment.intent_id, commitment.commitment_id, _CLEARED_WHEN_KEPT, reason)
        case _:
            pass
    return facts


def _waits_for(case: Case, commitment: Commitment) -> tuple[Timer, int | None]:
    """What a commitment that keeps its status waits for, once its disposition is decided (law 10)."""
    kind = kind_of(case, commitment)
    if commitment.status in ("UNKNOWN", "RECONCILIATION_REQUIRED"):
        return "RECONCILIATION", case.now + kind.reconciliation_ms
    origin = case.state.operations.get(commitment.creating_operation or "")
    if commitment.status == "PROPOSED" and origin is not None and origin.status == "SETTLED":
        return "VERIFICATION", case.now + kind.verification_ms
    return "NONE", None


def _owner_decides(case: Case, commitment: Commitment) -> bool:
    """Whether no machine may release it: it may succeed, or succeeded, after its ground was gone (by its type)."""
    if kind_of(case, commitment).late_success != "ORPHAN":
        return False
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status in f.OPEN_OPERATION:
        return True
    return case.state.orphans.get(orphan_id("LATE_SUCCESS", commitment.commitment_id)) is not None


def give_up(case: Case, commitment: Commitment, reason: str, differs: list[str]) -> list[AnyFact]:
    """Nothing wants it any more: released by its type's action, unless its owner decides; else reconciled."""
    releasable = kind_of(case, commitment).resolution == "RELEASABLE" and not _owner_decides(case, commitment)
    return _disposition(case, commitment, "RELEASE" if releasable else "RECONCILE", reason, differs)


def _open_to_disposition(case: Case, intent: Intent, withdrawn: set[str]) -> list[Commitment]:
    """Commitments that a change of ground concerns: not those under release, nor those whose creation is withdrawn."""
    if not intent.commitments_open:
        return []
    rows = [case.state.commitments.get(one) for one in case.state.open_commitments.members(intent.intent_id)]
    return [
        row for row in rows
        if row is not None and row.status != "RELEASE_PENDING" and row.creating_operation not in withdrawn
    ]  # fmt: skip


def on_superseded(case: Case, intent: Intent, goals: dict[str, str], withdrawn: set[str]) -> list[AnyFact]:
    """A higher version: goals that are untouched keep theirs, changed ones are looked at again, lost ones give up."""
    facts: list[AnyFact] = []
    for row in _open_to_disposition(case, intent, withdrawn):
        if row.goal_id is None:
            facts += _disposition(case, row, "REVALIDATE", "its intent was superseded", ["intent_version"])
        elif row.goal_id not in goals:
            facts += give_up(case, row, f"goal {row.goal_id} is gone", ["goal_id"])
        elif goals[row.goal_id] != intent.goals.get(row.goal_id):
            facts += _disposition(case, row, "REVALIDATE", f"goal {row.goal_id} changed", ["goal"])
        else:
            facts += _disposition(case, row, "KEEP", f"goal {row.goal_id} is untouched", [])
    return facts


def on_cancelled(case: Case, intent: Intent, withdrawn: set[str]) -> list[AnyFact]:
    """Nobody wants the outcome: every open obligation is given up, as reconciliation work."""
    facts: list[AnyFact] = []
    for row in _open_to_disposition(case, intent, withdrawn):
        facts += give_up(case, row, "its intent was cancelled", ["intent"])
    return facts


def on_planned(
    case: Case, intent: Intent, slots: dict[str, c.Arguments], named: set[str], withdrawn: set[str]
) -> list[AnyFact]:
    """A new plan: what it names, or creates in the same slot with the same attributes, is kept; the rest given up."""
    facts: list[AnyFact] = []
    for row in _open_to_disposition(case, intent, withdrawn):
        origin = case.state.operations.get(row.creating_operation or "")
        wanted = slots.get(f"{origin.action}\x1f{origin.business_key}") if origin is not None else None
        if row.commitment_id in named:
            facts += _disposition(case, row, "KEEP", "the new plan uses it", [])
        elif origin is None:
            facts += _disposition(case, row, "KEEP", "it was promised, and no plan makes it", [])
        elif wanted is None:
            facts += give_up(case, row, "the new plan does not need it", ["slot"])
        else:
            differs = [name for name, value in row.attributes.items() if str(wanted.get(name, value)) != value]
            if differs:
                facts += give_up(case, row, "the new plan needs another", differs)
            else:
                facts += _disposition(case, row, "KEEP", "the new plan needs the same", [])
    return facts


# --- claims about commitments ----------------------------------------------------------------------------------------


def known(case: Case, intent_id: str, commitment_id: str) -> Commitment:
    """The commitment, if the intent has it; else refused."""
    row = case.state.commitments.get(commitment_id)
    if row is None or row.intent_id != intent_id:
        refuse("UNKNOWN_COMMITMENT", f"intent {intent_id} has no commitment {commitment_id}", commitment_id)
    return row


def release(case: Case, claim: c.Release) -> Ruling:
    """Give it back: always as a release that has to be proven, never as a deletion."""
    custody.open_ground(case, claim.intent_id, claim.commitment_id, claim.intent_version)
    row = known(case, claim.intent_id, claim.commitment_id)
    if row.status in ("RELEASE_PENDING", "RELEASED"):
        return Ruling("REPLAYED", "ALREADY_SO", f"it is {row.status}", row.commitment_id, row.status)
    if row.status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}", row.commitment_id, row.status)
    custody.check_not_in_transfer(case, row)
    custody.check_authority(case, claim, row)
    cause = claim.reason or "release asked for"
    origin = case.state.operations.get(row.creating_operation or "")
    if (
        row.status == "PROPOSED"
        and origin is not None
        and origin.status in ("STAGED", "VALIDATED")
        and not origin.permits
    ):
        facts: list[AnyFact] = [
            f.OperationWithdrawn(operation_id=origin.operation_id, intent_id=origin.intent_id, cause=cause)
        ]
        facts += on_absent(case, origin, "no permit was issued", [])
        return Ruling("ACCEPTED", "OK", "dropped before it was made", row.commitment_id, "RELEASED", facts)
    facts = start_release(case, row, cause, [])
    after = next(fact.after for fact in facts if isinstance(fact, f.CommitmentChanged))
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, after, facts)


def mark_satisfied(case: Case, claim: c.MarkSatisfied) -> Ruling:
    """Fulfilled, by evidence; only what is in force can be."""
    if not claim.evidence:
        refuse("NO_EVIDENCE", "satisfaction needs evidence", claim.commitment_id)
    custody.open_ground(case, claim.intent_id, claim.commitment_id, 0)
    row = known(case, claim.intent_id, claim.commitment_id)
    if row.status == "SATISFIED":
        return Ruling("REPLAYED", "ALREADY_SO", "it is SATISFIED", row.commitment_id, row.status)
    if row.status not in ("ACTIVE", "BREACHED"):
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}, not in force", row.commitment_id, row.status)
    custody.check_authority(case, claim, row)
    facts = discharged(case, row, "SATISFIED", "marked satisfied", claim.evidence)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "SATISFIED", facts)


def reconcile(case: Case, row: Commitment, cause: str, evidence: list[str] | None = None) -> list[AnyFact]:
    """Somebody has to look: RECONCILIATION_REQUIRED with its deadline."""
    kind = kind_of(case, row)
    return [change(row, "RECONCILIATION_REQUIRED", cause, evidence or [], timer="RECONCILIATION",
                   deadline_at=case.now + kind.reconciliation_ms)]  # fmt: skip


def request_reconciliation(case: Case, claim: c.RequestReconciliation) -> Ruling:
    """Ask that a commitment is looked at; a terminal one stays as it is."""
    row = known(case, claim.intent_id, claim.subject_id)
    if row.status == "RECONCILIATION_REQUIRED":
        return Ruling("REPLAYED", "ALREADY_SO", "it is being reconciled", row.commitment_id, row.status)
    if row.status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}", row.commitment_id, row.status)
    if case.role == "PLANNER":
        custody.check_authority(case, claim, row)
    facts = reconcile(case, row, claim.reason or "asked for")
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "RECONCILIATION_REQUIRED", facts)


def resting(case: Case, commitment: Commitment, status: CommitmentStatus) -> tuple[Timer, int | None]:
    """What the commitment waits for where it comes to rest in `status`."""
    return _waits_for(case, changed(commitment, status=status))


def revalidate(case: Case, commitment: Commitment, reason: str, differs: list[str]) -> list[AnyFact]:
    """It is to be decided anew whether anything needs it: by a plan that takes it up in time, or it is given up."""
    return _disposition(case, commitment, "REVALIDATE", reason, differs)
