"""The facts: everything that can follow from an accepted claim (model §6). State is what they add up to.

A fact carries the ids above it; its ledger position is that of the decision which holds it. Folding the facts of
the ledger in order rebuilds every row of state and every projection, with nothing else to ask.
Times are integers, milliseconds since the epoch, UTC; `None` means "no deadline" or "not known", as said.
"""

from typing import Literal, TypeAlias, TypedDict, get_args

from joingate_schemas.archive_facts import ArchiveSwept as ArchiveSwept
from joingate_schemas.archive_facts import IntentArchived as IntentArchived
from joingate_schemas.archive_facts import RetentionSet as RetentionSet
from joingate_schemas.archive_facts import RetentionSwept as RetentionSwept
from joingate_schemas.claims import Arguments, Budgets, Edge, Finding, Goal, Proof, SubjectKind
from joingate_schemas.commitment_facts import CommitmentDrawn as CommitmentDrawn
from joingate_schemas.commitment_facts import CommitmentMigrated as CommitmentMigrated
from joingate_schemas.key_facts import KeyEnd as KeyEnd
from joingate_schemas.key_facts import KeyEnded as KeyEnded
from joingate_schemas.key_facts import KeyRegistered as KeyRegistered
from joingate_schemas.key_facts import PlanApproved as PlanApproved
from joingate_schemas.owner_facts import LeaseChanged as LeaseChanged
from joingate_schemas.owner_facts import OwnerChanged as OwnerChanged
from joingate_schemas.owner_facts import OwnerRetired as OwnerRetired
from joingate_schemas.owner_facts import TransferOffered as TransferOffered
from joingate_schemas.owner_facts import TransferSeen as TransferSeen
from joingate_schemas.record import record

PlanStatus = Literal["CANDIDATE", "ADOPTED", "SUPERSEDED", "CLOSED", "UNKNOWN"]
OperationStatus = Literal[
    "STAGED", "VALIDATED", "SUBMITTED", "SETTLED", "FAILED", "IN_DOUBT", "ESCALATED", "WITHDRAWN", "COMPENSATED",
    "UNKNOWN",
]  # fmt: skip
CommitmentStatus = Literal[
    "PROPOSED", "PENDING_CONDITION", "ACTIVE", "SATISFIED", "RELEASE_PENDING", "RELEASED", "TRANSFER_PENDING",
    "TRANSFERRED", "BREACHED", "RECONCILIATION_REQUIRED", "UNKNOWN",
]  # fmt: skip
TERMINAL_COMMITMENT: frozenset[CommitmentStatus] = frozenset({"SATISFIED", "RELEASED", "TRANSFERRED"})
OPEN_OPERATION: frozenset[OperationStatus] = frozenset({"STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "ESCALATED"})
BudgetClass = Literal["EXPLORATION", "VERIFICATION", "RECONCILIATION", "UNKNOWN"]
Phases = Literal["ONE_PHASE", "TWO_PHASE", "UNKNOWN"]
Source = Literal["EXECUTOR", "OBSERVER", "OPERATOR", "PLANNER", "GATE", "UNKNOWN"]
Disposition = Literal["KEEP", "RELEASE", "TRANSFER", "REVALIDATE", "RECONCILE", "COMPENSATE", "UNKNOWN"]
OrphanKind = Literal[
    "NO_OWNER", "LEFT_BEHIND", "OVERDUE", "STRAY_EFFECT", "SUSPECTED_EFFECT", "LATE_SUCCESS", "STALLED_PLAN", "UNKNOWN"
]
# Which deadline an entity waits for; a timer that fires carries the same word.
Timer = Literal[
    "NONE", "APPROVAL", "HOLD", "SILENCE", "PERMIT", "IN_DOUBT", "ESCALATION", "PROGRESS", "DISPOSITION", "RELEASE",
    "VERIFICATION", "RECONCILIATION", "RESOURCES", "TRANSFER", "LEASE", "RETIREMENT", "CONDITION", "REVALIDATION",
    "DUE", "VALIDITY", "RETENTION", "UNKNOWN",
]  # fmt: skip
# WANTED: the operation needs it. ASKED: a Reserve went out. HELD: granted. REFUSED: another has it. RETURNED: given
# back. EXTENDED: its lease begins anew. OVERDUE: its lease is over, and the operation may yet act, so it keeps it.
ResourceStanding = Literal["WANTED", "ASKED", "HELD", "REFUSED", "RETURNED", "EXTENDED", "OVERDUE", "UNKNOWN"]


class StepDetail(TypedDict):
    """A planned step as adopted, with what the catalogue says of its action at that moment.

    `ordinal` is its place in the order that listing and REQUIRES edges give; `slot_id` is the operation id of its
    slot's first generation.
    """

    step_id: str
    ordinal: int
    action: str
    business_key: str
    slot_id: str
    arguments: Arguments
    goal_id: str | None
    edges: list[Edge]
    parallel: bool
    pivot: bool
    irreversible: bool
    commitments: list[str]
    condition: str | None


class Burden(TypedDict):
    """What a plan would lay on the world and on people, reckoned from its steps and the catalogue (model §6).

    `by_class` counts the commitments that it would make, by how they may end; `reused` those in force that it uses
    instead. `approvals` are yeses that it needs from people, `promises` messages that others will rely on; `doubtful`
    steps whose effect nobody but a person or a statement could tell in doubt. `exclusive` resources shut others out.
    `idle_cost` is what an hour of holding all of it unused costs, `cost` what its steps take of their budgets.
    `unknown` steps are of actions that the catalogue does not have.
    """

    by_class: dict[str, int]
    reused: int
    approvals: int
    promises: int
    exclusive: int
    scarce: int
    irreversible: int
    doubtful: int
    idle_cost: float
    cost: float
    unknown: int


@record
class IntentDeclared:
    """An intent's first version, or a higher one that supersedes `supersedes` (0: none)."""

    intent_id: str
    version: int
    tenant: str
    objective: str
    goals: list[Goal]
    budgets: Budgets | None
    content_digest: str
    supersedes: int
    close_needs_goals: bool = False


@record
class IntentCancelled:
    """Not wanted any more; obligations live on until discharged."""

    intent_id: str
    version: int
    reason: str


@record
class IntentClosed:
    """Finished, with every join made; never reopens."""

    intent_id: str
    version: int
    outcome: str


@record
class PlanRecorded:
    """A plan was adopted, or kept as a candidate. `burden`: by the catalogue in force then; None in older ledgers."""

    intent_id: str
    plan_id: str
    intent_version: int
    status: PlanStatus
    replaces: str | None
    content_digest: str
    steps: list[StepDetail]
    commitments: list[str]
    deadline_at: int | None
    burden: Burden | None = None


@record
class PlanEnded:
    """A plan lost its force: superseded, or closed with its intent."""

    intent_id: str
    plan_id: str
    status: PlanStatus
    by: str


@record
class PlanProgress:
    """The progress deadline of a plan was set anew (`stalled` false), or it passed with open joins and no progress."""

    intent_id: str
    plan_id: str
    stalled: bool
    since: int
    deadline_at: int | None


@record
class StepSucceeded:
    """The join is made: this step's operation is settled, verified and taken as success."""

    intent_id: str
    plan_id: str
    step_id: str
    operation_id: str


@record
class OperationOpened:
    """A logical operation exists; its id is the idempotency key sent downstream."""

    operation_id: str
    intent_id: str
    intent_version: int
    plan_id: str
    step_id: str
    goal_id: str | None
    action: str
    business_key: str
    generation: int
    attempt: int
    status: OperationStatus
    phases: Phases
    arguments: Arguments
    content_digest: str
    catalogue_digest: str
    downstream: str
    executor: str
    commitment_id: str | None
    compensates: str | None
    requested_by: str = ""
    budget_class: BudgetClass = "EXPLORATION"
    cost: float = 0.0
    timer: Timer
    deadline_at: int | None


@record
class OperationReady:
    """What a STAGED operation waited for is there: it is VALIDATED (PREPARE goes out) or SUBMITTED (one phase)."""

    operation_id: str
    intent_id: str
    status: OperationStatus
    timer: Timer
    deadline_at: int | None


@record
class AttemptStarted:
    """The next attempt of the same operation, same key: after silence, or a resend from doubt."""

    operation_id: str
    intent_id: str
    attempt: int
    cause: str
    timer: Timer
    deadline_at: int | None


@record
class PermitIssued:
    """The one permit of this attempt; valid until `valid_until`, doubted from `deadline_at` on."""

    operation_id: str
    intent_id: str
    attempt: int
    executor: str
    worker: str
    valid_until: int
    timer: Timer
    deadline_at: int | None


@record
class OperationSettled:
    """The effect exists. `late`: the intent, plan or attempt had moved on when it became known."""

    operation_id: str
    intent_id: str
    attempt: int
    external_id: str
    evidence: list[str]
    result: str
    source: Source
    late: bool


@record
class OperationFailed:
    """The effect is proven absent, by `proof`."""

    operation_id: str
    intent_id: str
    attempt: int
    proof: Proof
    evidence: list[str]
    source: Source


@record
class OperationInDoubt:
    """Nobody knows whether the effect exists; `dependants` are the steps and operations that relied on knowing."""

    operation_id: str
    intent_id: str
    attempt: int
    cause: str
    evidence: list[str]
    dependants: list[str]
    timer: Timer
    deadline_at: int | None


@record
class OperationEscalated:
    """A person has to settle it; `task` says what is asked of whom."""

    operation_id: str
    intent_id: str
    task: str
    evidence: list[str]
    timer: Timer
    deadline_at: int | None


@record
class OperationWithdrawn:
    """Ended before any permit: no effect can have happened."""

    operation_id: str
    intent_id: str
    cause: str


@record
class OperationCompensated:
    """Its effect was undone by `by`, a settled operation, or by what the evidence names."""

    operation_id: str
    intent_id: str
    by: str


@record
class CompensationRequested:
    """An explicit, named wish to undo: `by` is the compensating operation, or null where `gate` names who must act."""

    operation_id: str
    intent_id: str
    by: str | None
    gate: str
    reason: str
    deadline_at: int | None


@record
class EffectRecorded:
    """Evidence of an effect that advances nothing. `stray`: no permit or plan stands behind it."""

    operation_id: str
    intent_id: str
    attempt: int
    external_id: str
    evidence: list[str]
    stray: bool


@record
class ResourceChanged:
    """How an operation stands to a resource that it needs. `holder` has what was refused; `detail` is for people."""

    operation_id: str
    intent_id: str
    resource_ref: str
    quantity: int
    standing: ResourceStanding
    holder: str = ""
    holder_intent_id: str = ""
    detail: str = ""


@record
class ApprovalRecorded:
    """An approver said yes (`granted`) or no to the content with `digest`."""

    operation_id: str
    intent_id: str
    principal: str
    digest: str
    granted: bool
    expires_at: int | None
    key_id: str = ""
    given_at: int | None = None


@record
class ObservationRecorded:
    """What a source said, kept as its latest news about the subject."""

    subject_kind: SubjectKind
    subject_id: str
    intent_id: str
    finding: Finding
    source: str
    source_version: int | None
    source_time: int | None
    evidence: list[str]


@record
class CommitmentProposed:
    """An obligation is about to be made by `operation_id`; not yet in force.

    `weight` (thousandths) is what it counts in the debt of its intent, its tenant and `principal`, who asked for it.
    """

    commitment_id: str
    intent_id: str
    intent_version: int
    goal_id: str | None
    plan_id: str
    step_id: str
    owner_id: str
    obligation_type: str
    type_version: int
    resource_refs: list[str]
    counterparty_refs: list[str]
    quantity: float | None
    attributes: dict[str, str]
    generation: int
    operation_id: str | None
    due_at: int | None
    valid_until: int | None
    timer: Timer
    deadline_at: int | None
    grace_until: int | None = None
    condition: str | None = None
    weight: int = 1_000
    principal: str = ""


@record
class CommitmentChanged:
    """A transition, with what caused it, the evidence, and the operation that serves it now.

    `valid_until`: until when it may be relied on from here on; None: as before.
    """

    commitment_id: str
    intent_id: str
    before: CommitmentStatus
    after: CommitmentStatus
    cause: str
    evidence: list[str]
    operation_id: str | None
    timer: Timer
    deadline_at: int | None
    valid_until: int | None = None


@record
class DispositionDecided:
    """What becomes of an open commitment after supersession, cancel or a new plan, and why."""

    commitment_id: str
    intent_id: str
    disposition: Disposition
    reason: str
    differs: list[str]


@record
class OrphanRaised:
    """Something in the outside world has nobody behind it: an incident, until its cause is gone."""

    orphan_id: str
    kind: OrphanKind
    subject_kind: SubjectKind
    subject_id: str
    intent_id: str
    since: int
    cause: str
    suggested_action: str


@record
class OrphanCleared:
    """The cause is gone."""

    orphan_id: str
    intent_id: str
    cause: str


@record
class ClockSkewed:
    """The claim's own stamp lies `skew_ms` from its append time (positive: in the future). It moved nothing."""

    intent_id: str
    skew_ms: int


@record
class QuarantineOpened:
    """Within `scope` (a key; null: the whole partition) what is not known is unknown, not unsaid."""

    quarantine_id: str
    scope: str | None
    problem: str
    detail: str


@record
class HoldOpened:
    """A claim waits on `quarantine_id`; `held_claim` is its bytes, decided once the scope is resolved."""

    quarantine_id: str
    intent_id: str
    held_claim: bytes
    topic: str
    offset: int
    appended_at: int


@record
class QuarantineResolved:
    """Re-driven or dismissed by an operator: its holds are decided now, in order."""

    quarantine_id: str
    scope: str | None
    resolution: str


@record
class CatalogueLoaded:
    """This catalogue decides from here on."""

    digest: str
    version: str
    catalogue: bytes


AnyFact: TypeAlias = (
    IntentDeclared
    | IntentCancelled
    | IntentClosed
    | PlanRecorded
    | PlanEnded
    | PlanProgress
    | StepSucceeded
    | OperationOpened
    | OperationReady
    | AttemptStarted
    | PermitIssued
    | OperationSettled
    | OperationFailed
    | OperationInDoubt
    | OperationEscalated
    | OperationWithdrawn
    | OperationCompensated
    | CompensationRequested
    | EffectRecorded
    | ResourceChanged
    | ApprovalRecorded
    | ObservationRecorded
    | CommitmentProposed
    | CommitmentChanged
    | TransferOffered
    | TransferSeen
    | OwnerChanged
    | LeaseChanged
    | OwnerRetired
    | DispositionDecided
    | OrphanRaised
    | OrphanCleared
    | ClockSkewed
    | QuarantineOpened
    | HoldOpened
    | QuarantineResolved
    | CatalogueLoaded
    | CommitmentDrawn
    | CommitmentMigrated
    | KeyRegistered
    | KeyEnded
    | PlanApproved
    | RetentionSet
    | IntentArchived
    | ArchiveSwept
    | RetentionSwept
)
FACT_TYPES: dict[str, type] = {cls.__name__: cls for cls in get_args(AnyFact)}
"""Every fact class by its name, which is also its Avro record name (namespace `joingate`)."""
