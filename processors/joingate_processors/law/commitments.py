"""Obligations: how an operation's fate moves them, and how they are given back."""

from joingate_processors.law import custody, reliance
from joingate_processors.law.case import Case
from joingate_processors.law.deadlines import in_force
from joingate_processors.law.opening import obligation_of, release_operation
from joingate_processors.law.state import Commitment, Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType, ResolutionClass
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact, CommitmentStatus, OrphanKind, Timer
from joingate_schemas.ids import orphan_id

_CLEARED_WHEN_DISCHARGED: tuple[OrphanKind, ...] = ("LEFT_BEHIND", "OVERDUE", "LATE_SUCCESS", "NO_OWNER")
NO_OWNER_ADVICE = "assign another owner under a declared policy, or release it"
LOOK_AGAIN = "to be seen again, for something relies on it"
"""The cause of a commitment's change that only asks whether it is still there."""
MITIGATED: frozenset[ResolutionClass] = frozenset({"COMPENSATABLE", "IRREVERSIBLE"})
"""Classes whose effect stays in the world: what is done about it is another effect, and its evidence discharges it."""
# How often what is overdue or waits for a person is looked at again, where the type says nothing.
REMINDER_MS = 86_400_000
# A pause that doubles stops doubling here: 128 times the first.
BACKOFF_DOUBLINGS_MAX = 7


def kind_of(case: Case, commitment: Commitment) -> ObligationType:
    """The protocol of its type that rules the commitment (protocols.py); cautious defaults where nobody knows it."""
    return obligation_of(case, commitment)


def change(
    commitment: Commitment, after: CommitmentStatus, cause: str, evidence: list[str], *, timer: Timer = "NONE",
    deadline_at: int | None = None, operation_id: str | None = None, valid_until: int | None = None,
) -> f.CommitmentChanged:  # fmt: skip
    """The transition as a fact. What is in force waits for its own times too; `valid_until` None: as before."""
    if after == "ACTIVE":
        timer, deadline_at = in_force(commitment, valid_until, timer, deadline_at)
    return f.CommitmentChanged(
        commitment_id=commitment.commitment_id, intent_id=commitment.intent_id, before=commitment.status,
        after=after, cause=cause, evidence=evidence, operation_id=operation_id, timer=timer, deadline_at=deadline_at,
        valid_until=valid_until,
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


def reconcile(case: Case, row: Commitment, cause: str, evidence: list[str] | None = None) -> list[AnyFact]:
    """Somebody has to look: RECONCILIATION_REQUIRED with its deadline."""
    kind = kind_of(case, row)
    return [change(row, "RECONCILIATION_REQUIRED", cause, evidence or [], timer="RECONCILIATION",
                   deadline_at=case.now + kind.reconciliation_ms)]  # fmt: skip


def under_release(commitment: Commitment) -> CommitmentStatus:
    """What a commitment that is being given back is called: a breached release stays BREACHED while it goes on."""
    return "BREACHED" if commitment.status == "BREACHED" and commitment.release_wanted else "RELEASE_PENDING"


def lapses(commitment: Commitment, kind: ObligationType) -> bool:
    """Whether it is given back by letting its time pass: it expires, and nothing ends it sooner."""
    return kind.resolution == "EXPIRING" and kind.release_action is None and commitment.valid_until is not None


def release_due(case: Case, commitment: Commitment, kind: ObligationType) -> int:
    """When a release must be done (ms), or the commitment is breached; what lapses has time from then on."""
    since = case.now if commitment.release_deadline_at is None else commitment.release_deadline_at
    if lapses(commitment, kind):
        since = max(since, commitment.valid_until or 0)
    return since + kind.release_ms


def look_again(case: Case, commitment: Commitment, wait_ms: int) -> int:
    """When a release is looked at again (ms): after `wait_ms`, and at its deadline if that comes first."""
    due = release_due(case, commitment, kind_of(case, commitment))
    return case.now + wait_ms if case.now >= due else min(case.now + wait_ms, due)


def is_late(case: Case, commitment: Commitment) -> bool:
    """Whether it came to be after its ground was gone and its owner has not said what becomes of it."""
    return case.state.orphans.get(orphan_id("LATE_SUCCESS", commitment.commitment_id)) is not None


def start_release(
    case: Case, commitment: Commitment, cause: str, evidence: list[str], *, requested_by: str = "",
    ended: frozenset[str] = frozenset(),
) -> list[AnyFact]:  # fmt: skip
    """RELEASE_PENDING, with the release operation if one may start now; RECONCILIATION_REQUIRED if none can be.

    A creation that is still open is waited for: whatever it turns out to be, the release follows (model §6). So is an
    open operation that relies on it, but for those in `ended`, which end in this very decision. What came too late is
    given back only with an approval of that.
    """
    kind = kind_of(case, commitment)
    state, under = case.state, under_release(commitment)
    origin = state.operations.get(commitment.creating_operation or "")
    serving = state.operations.get(commitment.serving_operation or "")

    def waits(what: str, wait_ms: int) -> list[AnyFact]:
        return [change(commitment, under, f"{cause}; {what}", evidence, timer="RELEASE",
                       deadline_at=look_again(case, commitment, wait_ms))]  # fmt: skip

    if origin is not None and origin.status in f.OPEN_OPERATION:
        return waits("waits for its creation", kind.release_ms)
    if serving is not None and serving.status in ("STAGED", "VALIDATED", "SUBMITTED"):
        return waits("its release is under way", kind.release_ms)
    relying = reliance.open_operations_on(case, commitment, ended)
    if relying:
        return waits(f"waits for operation {relying[0]}, which relies on it", kind.verification_ms)
    operation = release_operation(case, commitment, requested_by, approval=is_late(case, commitment))
    if operation is not None:
        return [
            operation,
            change(commitment, under, cause, evidence, timer="RELEASE",
                   deadline_at=look_again(case, commitment, kind.release_ms), operation_id=operation.operation_id),
        ]  # fmt: skip
    if lapses(commitment, kind) and case.now < (commitment.valid_until or 0):
        return [change(commitment, under, f"{cause}; waits for its expiry", evidence, timer="RELEASE",
                       deadline_at=commitment.valid_until)]  # fmt: skip
    if lapses(commitment, kind):
        return [change(commitment, under, f"{cause}; its time has passed, to be observed", evidence,
                       timer="VERIFICATION", deadline_at=case.now + kind.verification_ms)]  # fmt: skip
    why = (
        f"{kind.name} can't be given back by machine, so {human_gate(case, origin)} decides" if serving is None
        else f"it was released by an operation that is {serving.status}"
    )  # fmt: skip
    return reconcile(case, commitment, f"{cause}; {why}", evidence)


def human_gate(case: Case, origin: Operation | None) -> str:
    """Who decides where no machine may: the gate that the action names which made the obligation."""
    action = None if origin is None else case.action_of(origin)
    return f"the human gate {'operations' if action is None else action.human_gate}"


def freed(case: Case, operation: Operation) -> list[AnyFact]:
    """The releases that waited for this operation alone, started: it relied on what is to be given back, and ends."""
    step = reliance.step_of(case, operation) if operation.ordered else None
    facts: list[AnyFact] = []
    ended = frozenset({operation.operation_id})
    for row in reliance.relied_on(case, step) if step is not None else ():
        waits = row.release_wanted and row.timer == "RELEASE" and row.serving_operation is None
        if waits and not reliance.open_operations_on(case, row, ended):
            facts += start_release(case, row, "what relied on it has ended", [], ended=ended)
    return facts


# --- what an operation's fate does to the commitment that it creates or serves ---------------------------------------


def left_behind(case: Case, commitment: Commitment) -> bool:
    """Whether the ground that the commitment stood on is gone: version, plan or intent, and nothing kept it."""
    if custody.is_foreign(commitment):
        return False  # it stands on its owner
    intent = case.state.intents.get(commitment.intent_id)
    if intent is None or intent.status != "OPEN":
        return True
    return commitment.intent_version != intent.version or commitment.plan_id != (intent.plan_id or "")


def unplanned(case: Case, commitment: Commitment) -> bool:
    """Whether it was kept when its intent was superseded, and no plan was adopted since that could take it up."""
    intent = case.state.intents.get(commitment.intent_id)
    waits = intent is not None and intent.status == "OPEN" and intent.plan_id is None
    return waits and commitment.disposition == "KEEP" and not custody.is_foreign(commitment)


def seen_until(case: Case, commitment: Commitment) -> int | None:
    """Until when (ms) what is seen beyond its time may be relied on: nobody knows, so no longer than a sight lasts.

    None while its time has not passed.
    """
    if commitment.valid_until is None or commitment.valid_until > case.now:
        return None
    kind = kind_of(case, commitment)
    return case.now + (kind.verification_ms if kind.freshness_ms is None else kind.freshness_ms)


def awaits_plan(case: Case, commitment: Commitment) -> tuple[Timer, int | None]:
    """What a commitment in force waits for, beside its own times: a plan, where it was kept and there is none."""
    if not unplanned(case, commitment):
        return "NONE", None
    return "DISPOSITION", case.now + kind_of(case, commitment).disposition_ms


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
        return [*_created(case, commitment, operation, proof), *_ownerless(case, commitment)]
    if commitment.status in TERMINAL_COMMITMENT:
        return []
    if creating:
        return _created(case, commitment, operation, proof)
    kind = kind_of(case, commitment)
    if commitment.serving_operation != operation.operation_id:
        return []
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status in f.OPEN_OPERATION:
        # Its release says nothing of whether what makes it has acted, or may yet.
        return [change(commitment, "RECONCILIATION_REQUIRED", "release committed; its creation is in doubt", proof,
                       timer="RECONCILIATION", deadline_at=case.now + kind.reconciliation_ms)]  # fmt: skip
    if kind.resolution in MITIGATED and proof:
        # The thing itself stays in the world: what discharges it is the evidence of what mitigates it.
        return released(case, commitment, "compensated", proof, operation)
    if kind.observed or not evidence:
        return [change(commitment, under_release(commitment), "release committed; to be observed", proof,
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
    facts += unbegun(case, commitment, cause)
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status == "SETTLED":
        named = by.operation_id if by is not None else f"commitment:{commitment.commitment_id}"
        facts.append(f.OperationCompensated(operation_id=origin.operation_id, intent_id=origin.intent_id, by=named))
    return facts


def unbegun(case: Case, commitment: Commitment, cause: str) -> list[AnyFact]:
    """Its release, withdrawn if it may not have acted yet: what is discharged must not be given back any more."""
    serving = case.state.operations.get(commitment.serving_operation or "")
    if serving is None or serving.status not in ("STAGED", "VALIDATED"):
        return []
    return [f.OperationWithdrawn(operation_id=serving.operation_id, intent_id=serving.intent_id, cause=cause)]


def _created(case: Case, commitment: Commitment, creation: Operation, evidence: list[str]) -> list[AnyFact]:
    kind = kind_of(case, commitment)
    # It can't have begun before its permit, so that from there on its time is never taken for longer than it is.
    since = case.now if creation.permit_at is None else creation.permit_at
    valid_until = None if kind.valid_ms is None else since + kind.valid_ms
    late = commitment.status == "RELEASED" or left_behind(case, commitment)
    if commitment.release_wanted or (late and kind.late_success == "RELEASE"):
        # The row of the creating operation still shows it open: it settles in this very decision.
        operation = release_operation(case, commitment)
        if operation is not None:
            return [
                operation,
                change(commitment, under_release(commitment), "created after its release was wanted", evidence,
                       timer="RELEASE", deadline_at=look_again(case, commitment, kind.release_ms),
                       operation_id=operation.operation_id, valid_until=valid_until),
            ]  # fmt: skip
    if commitment.release_wanted or late:
        return [
            change(commitment, "RECONCILIATION_REQUIRED", "late success", evidence, timer="RECONCILIATION",
                   deadline_at=case.now + kind.reconciliation_ms, valid_until=valid_until),
            raise_orphan(case, "LATE_SUCCESS", "COMMITMENT", commitment.commitment_id, commitment.intent_id,
                         "it was created after its ground was gone", "let its owner keep, transfer or release it"),
        ]  # fmt: skip
    if kind.observed:
        return [change(commitment, "PROPOSED", "created; to be observed", evidence, timer="VERIFICATION",
                       deadline_at=case.now + kind.verification_ms, valid_until=valid_until)]  # fmt: skip
    timer, deadline_at = awaits_plan(case, commitment)
    return [change(commitment, "ACTIVE", "created", evidence, timer=timer, deadline_at=deadline_at,
                   valid_until=valid_until)]  # fmt: skip


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
    if operation.status == "STAGED" and operation.timer == "APPROVAL":
        # Who may say so has not said yes: that is not tried again behind their back.
        said = "its release was not approved"
        decided = f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                                       disposition="RECONCILE", reason=said, differs=[])  # fmt: skip
        return [decided, *reconcile(case, commitment, said, evidence)]
    # A release that was refused may have found nothing to release: that is looked at, and it is tried again.
    pause_ms = kind.release_retry_ms << min(operation.generation - 1, BACKOFF_DOUBLINGS_MAX)
    return [change(commitment, under_release(commitment), f"release failed: {cause}", evidence, timer="RELEASE",
                   deadline_at=look_again(case, commitment, pause_ms))]  # fmt: skip


def of_several(case: Case, operation: Operation) -> list[AnyFact]:
    """Several effects match the operation, so nobody knows which of them is the commitment that it made."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None or commitment.creating_operation != operation.operation_id:
        return []
    if commitment.status not in ("PROPOSED", "UNKNOWN"):
        return []
    return reconcile(case, commitment, "several effects match its creation")


def on_doubt(case: Case, operation: Operation, cause: str) -> list[AnyFact]:
    """Nobody knows whether the operation took effect, so nobody knows of its commitment either."""
    commitment = case.state.commitments.get(operation.commitment_id or "")
    if commitment is None or commitment.status in TERMINAL_COMMITMENT:
        return []
    kind = kind_of(case, commitment)
    deadline = case.now + kind.reconciliation_ms
    if commitment.creating_operation == operation.operation_id:
        if commitment.status in ("PROPOSED", "PENDING_CONDITION"):
            return [change(commitment, "UNKNOWN", f"creation in doubt: {cause}", [], timer="RECONCILIATION",
                           deadline_at=deadline)]  # fmt: skip
        return [change(commitment, "RECONCILIATION_REQUIRED", f"creation in doubt: {cause}", [],
                       timer="RECONCILIATION", deadline_at=deadline)]  # fmt: skip
    if commitment.serving_operation == operation.operation_id:
        return [change(commitment, "RECONCILIATION_REQUIRED", f"release in doubt: {cause}", [],
                       timer="RECONCILIATION", deadline_at=deadline)]  # fmt: skip
    return []
