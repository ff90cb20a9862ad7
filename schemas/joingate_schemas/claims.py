"""The claims: everything that anyone may say to the gate (model §5), one class a claim.

Field names, order and defaults are those of the `.avsc` files beside this module; a test holds the two together.
Times are integers, milliseconds since the epoch, UTC. Nested records are plain dictionaries with typed keys.
`claim_id` is the producer's: the same id again is the same claim, however often it is sent.
"""

from typing import Literal, NotRequired, TypeAlias, TypedDict, get_args

from joingate_schemas.record import record

Scalar: TypeAlias = bool | int | float | str | None
Arguments: TypeAlias = dict[str, Scalar]

Role = Literal["PLANNER", "EXECUTOR", "APPROVER", "OBSERVER", "OPERATOR", "GATE"]
EdgeKind = Literal["REQUIRES", "INVALIDATES", "CONFLICTS_WITH", "ENABLES", "PREFERS", "SATISFIES", "UNKNOWN"]
Proof = Literal["REFUSED", "NOT_SENT", "TOMBSTONE", "SECOND_LOOK", "STATEMENT", "OVERRIDE", "UNKNOWN"]
SubjectKind = Literal[
    "OPERATION", "COMMITMENT", "GOAL", "OWNER", "CONDITION", "QUARANTINE", "INTENT", "PLAN", "LEASE", "UNKNOWN"
]
# PRESENT: it is there. ABSENT: proven not there (needs a proof). NOT_FOUND: looked and saw nothing, proves nothing.
# PENDING: the source says that it is still at work. SEVERAL: more than one match. UNREACHABLE: could not ask.
# REVOKED: the provider took it back. RESEND: the observer asks for a new attempt with the same key.
Finding = Literal["PRESENT", "ABSENT", "NOT_FOUND", "PENDING", "SEVERAL", "UNREACHABLE", "REVOKED", "RESEND", "UNKNOWN"]


class Goal(TypedDict):
    """A state that should become true, with how one would know."""

    goal_id: str
    acceptance: str
    parent_goal_id: NotRequired[str | None]
    evidence_requirements: NotRequired[list[str]]
    risk_class: NotRequired[str]


class Budgets(TypedDict):
    """Shares of the intent's capacity, each between 0 and 1, and the cost ceiling in the tenant's own unit."""

    exploration: float
    verification: float
    reconciliation: float
    cost_max: NotRequired[float | None]


class Edge(TypedDict):
    """A relation from the step that carries it to `step_id`."""

    kind: EdgeKind
    step_id: str


class PlanStep(TypedDict):
    """One step of a plan: an action on a business entity. (`action`, `business_key`) is its slot."""

    step_id: str
    action: str
    business_key: NotRequired[str]
    arguments: NotRequired[Arguments]
    goal_id: NotRequired[str | None]
    edges: NotRequired[list[Edge]]
    parallel: NotRequired[bool]
    commitments: NotRequired[list[str]]
    condition: NotRequired[str | None]


@record
class Claim:
    """What every claim carries."""

    claim_id: str
    intent_id: str
    principal: str = ""
    signature: bytes | None = None
    occurred_at: int = 0


# --- planner ---------------------------------------------------------------------------------------------------------


@record
class DeclareIntent(Claim):
    """The outcome that a principal wants now; a higher version supersedes the lower.

    `close_needs_goals`: its Close needs each goal observed as reached, beside all that any Close needs.
    """

    version: int
    tenant: str = ""
    objective: str = ""
    goals: list[Goal]
    budgets: Budgets | None = None
    close_needs_goals: bool = False


@record
class CancelIntent(Claim):
    """The outcome is not wanted any more. `intent_version` 0 means whatever version is current."""

    intent_version: int = 0
    reason: str = ""


@record
class Plan(Claim):
    """One proposed way; `replaces` names the plan in force or is null. A candidate is recorded, not adopted."""

    intent_version: int
    plan_id: str
    replaces: str | None = None
    adopt: bool = True
    steps: list[PlanStep]
    commitments: list[str]


@record
class Dispatch(Claim):
    """Do this step now. `arguments`, if given, are what is asked; `idempotency_key` may only repeat the derived one."""

    intent_version: int
    plan_id: str
    step_id: str
    arguments: Arguments | None = None
    idempotency_key: str | None = None


@record
class Abort(Claim):
    """Stop (planner), or it did not happen (executor, with a proof). `attempt` 0 means the current one."""

    operation_id: str
    attempt: int = 0
    proof: Proof | None = None
    error: str = ""
    evidence: list[str]


@record
class Release(Claim):
    """Give the commitment back. `intent_version` 0 means whatever version is current."""

    commitment_id: str
    intent_version: int = 0
    reason: str = ""
    fencing_token: int = 0


@record
class Transfer(Claim):
    """Ask that `target_owner` takes the commitment over; its owner, named while that is pending, takes it back."""

    commitment_id: str
    target_owner: str
    target_intent_id: str | None = None
    acknowledge_by: int | None = None
    reason: str = ""
    fencing_token: int = 0


@record
class AcceptTransfer(Claim):
    """The target takes over; `fencing_token` is the one that the transfer was offered with."""

    commitment_id: str
    owner_id: str
    fencing_token: int = 0
    evidence: list[str]


@record
class MarkSatisfied(Claim):
    """The obligation was fulfilled, and here is the evidence."""

    commitment_id: str
    evidence: list[str]
    fencing_token: int = 0


@record
class RequestReconciliation(Claim):
    """Somebody should look at this operation or commitment again."""

    subject_kind: SubjectKind
    subject_id: str
    reason: str = ""
    fencing_token: int = 0


@record
class Promise(Claim):
    """A message that creates an expectation, as a structured commitment."""

    intent_version: int
    obligation_type: str
    counterparty: str
    text: str
    due_at: int | None = None
    goal_id: str | None = None
    business_key: str = ""
    owner_id: str = ""


@record
class Succeed(Claim):
    """The step is done: accepted only over a Commit that follows its Dispatch."""

    intent_version: int
    plan_id: str
    step_id: str
    evidence: list[str]


@record
class Close(Claim):
    """The intent is finished. Version 0 and no plan mean whatever is current."""

    intent_version: int = 0
    plan_id: str | None = None
    outcome: str = ""


# --- executor --------------------------------------------------------------------------------------------------------


@record
class Prepared(Claim):
    """`executor` is ready to perform this attempt; `worker` is the one process that asks for the permit.

    With a `commitment_id` in the place of the operation, the worker asks for that commitment's lease, or renews it:
    `attempt` is then the token of the lease that it holds, 0 for none.
    """

    operation_id: str
    attempt: int
    executor: str
    worker: str = ""
    commitment_id: str | None = None


@record
class Commit(Claim):
    """The effect is there: its id at the system of record, the key as echoed, the evidence, the result."""

    operation_id: str
    attempt: int
    external_id: str = ""
    evidence: list[str]
    idempotency_key: str | None = None
    caused_by: str | None = None
    result: str = ""


@record
class InDoubt(Claim):
    """The executor can't tell whether the effect happened."""

    operation_id: str
    attempt: int
    cause: str = ""
    evidence: list[str]


# --- approver --------------------------------------------------------------------------------------------------------


@record
class Approve(Claim):
    """Yes to exactly the content with `digest`."""

    operation_id: str | None = None
    plan_id: str | None = None
    digest: str
    expires_at: int | None = None
    comment: str = ""


@record
class Decline(Claim):
    """No to it."""

    operation_id: str | None = None
    plan_id: str | None = None
    digest: str
    comment: str = ""


# --- observer --------------------------------------------------------------------------------------------------------


@record
class Observe(Claim):
    """What a system of record says. Newer is by `source_version`, else `source_time`, within one `source` (law 8).

    About a commitment, `owner_id` is who was seen to act on it (PRESENT), or may be at it (PENDING).
    `valid_until`: until when (ms) a commitment that is PRESENT holds, as the source says; None where it does not say.
    """

    subject_kind: SubjectKind
    subject_id: str
    finding: Finding
    source: str
    source_version: int | None = None
    source_time: int | None = None
    external_ids: list[str]
    proof: Proof | None = None
    evidence: list[str]
    idempotency_key: str | None = None
    owner_id: str | None = None
    valid_until: int | None = None


@record
class RetireOwner(Claim):
    """The owner is gone; written to every partition, so `intent_id` is empty."""

    owner_id: str
    reason: str = ""


@record
class AssignOwner(Claim):
    """The control plane gives a commitment an owner under a declared policy."""

    commitment_id: str
    owner_id: str
    policy: str


# --- operator --------------------------------------------------------------------------------------------------------


@record
class Override(Claim):
    """A person forces a transition, with a name (`principal`), a reason and evidence.

    On an operation `to` is SETTLED or FAILED; on a commitment its new status, or FREED: nobody has the resource any
    more of what an owner outside our books took over; or MIGRATED: the version of its type in force rules it; on a
    quarantined record DISMISSED, or REDRIVEN with the mended bytes in `replacement`.
    """

    subject_kind: SubjectKind
    subject_id: str
    to: str
    reason: str
    evidence: list[str]
    external_id: str = ""
    replacement: bytes | None = None


@record
class RegisterKey(Claim):
    """From here on `public_key` (Ed25519, 32 bytes) speaks for the principal `holder`; written to every partition.

    `replaces_key` is the id of the key whose place it takes, and which ends `overlap_ms` later; empty: it is one more.
    """

    holder: str
    public_key: bytes
    replaces_key: str = ""
    overlap_ms: int = 0
    reason: str = ""


@record
class RevokeKey(Claim):
    """The key speaks for nobody from `revoked_at` on; written to every partition. None: from when this was written."""

    holder: str
    key_id: str
    revoked_at: int | None = None
    reason: str = ""


# --- the gate's own --------------------------------------------------------------------------------------------------


@record
class TimerFired(Claim):
    """A deadline passed: `timer` says which, on which subject, due when."""

    timer: str
    subject_kind: SubjectKind
    subject_id: str
    due_at: int


@record
class ResourceGranted(Claim):
    """The arbiter gave the resource to the operation."""

    operation_id: str
    resource_ref: str


@record
class ResourceDenied(Claim):
    """The arbiter refused, for `reason`; `holder` has it, if anybody has, and how."""

    operation_id: str
    resource_ref: str
    holder: str
    holder_intent_id: str = ""
    holder_status: str = ""
    reason: str = "RESOURCE_DENIED"
    detail: str = ""


@record
class ResourceExpired(Claim):
    """The lease with which the operation has the resource is over: does it need it still?"""

    operation_id: str
    resource_ref: str


@record
class CatalogueChanged(Claim):
    """From here on this catalogue is in force on this partition.

    `accepted`: what is open here that it can't discharge, and who took that on; empty where it can discharge all.
    """

    digest: str
    version: str
    catalogue: bytes
    accepted: str = ""


@record
class ClaimQuarantined(Claim):
    """A record that could not be read was set aside. `scope` is its key, or null: then the whole partition."""

    quarantine_id: str
    scope: str | None = None
    problem: str
    detail: str = ""


@record
class ClaimHeld(Claim):
    """A readable claim waits: refusing it would rest on what a quarantined record may have said."""

    quarantine_id: str
    held_claim: bytes
    topic: str
    offset: int
    appended_at: int
    would_be: str


AnyClaim: TypeAlias = (
    DeclareIntent
    | CancelIntent
    | Plan
    | Dispatch
    | Abort
    | Release
    | Transfer
    | AcceptTransfer
    | MarkSatisfied
    | RequestReconciliation
    | Promise
    | Succeed
    | Close
    | Prepared
    | Commit
    | InDoubt
    | Approve
    | Decline
    | Observe
    | RetireOwner
    | AssignOwner
    | Override
    | RegisterKey
    | RevokeKey
    | TimerFired
    | ResourceGranted
    | ResourceDenied
    | ResourceExpired
    | CatalogueChanged
    | ClaimQuarantined
    | ClaimHeld
)
CLAIM_TYPES: dict[str, type[Claim]] = {cls.__name__: cls for cls in get_args(AnyClaim)}
"""Every claim class by its name, which is also its Avro record name (namespace `joingate`)."""

ROLE_TYPES: dict[Role, frozenset[str]] = {
    "PLANNER": frozenset(
        "DeclareIntent CancelIntent Plan Dispatch Abort Release Transfer AcceptTransfer MarkSatisfied "
        "RequestReconciliation Promise Succeed Close".split()
    ),
    "EXECUTOR": frozenset("Prepared Commit Abort InDoubt".split()),
    "APPROVER": frozenset("Approve Decline".split()),
    "OBSERVER": frozenset("Observe RetireOwner AssignOwner".split()),
    "OPERATOR": frozenset("Override RequestReconciliation RegisterKey RevokeKey".split()),
    "GATE": frozenset(
        "TimerFired ResourceGranted ResourceDenied ResourceExpired CatalogueChanged ClaimQuarantined ClaimHeld".split()
    ),
}
"""Which claims each role may write (model §2): a type outside its role's topic is WRONG_ROLE."""

EVERYWHERE: frozenset[str] = frozenset({"RetireOwner", "RegisterKey", "RevokeKey"})
"""Claims that concern every partition and are written to each of them: their `intent_id` is empty."""
