"""What is declared about the outside world (model §4): downstreams, actions, obligation types, resources, principals.

These are the plain, frozen values that the law reads; the loader with its sentences about mistakes is
`catalogue_file`. Durations are integers in milliseconds.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from joingate_schemas.claims import Role
from joingate_schemas.ids import key_id_of

Capability = Literal["IDEMPOTENT_KEY", "LOOKUP", "STATEMENT", "NONE"]
Effect = Literal["OBSERVE", "REVERSIBLE", "IRREVERSIBLE"]
StepKind = Literal["COMPENSATABLE", "RETRYABLE", "PIVOT"]
# CONTROL: of an automated check that neither plans nor executes.
ApprovalPolicy = Literal["NONE", "ANY", "CONTROL", "MAKER_CHECKER", "N_OF_M"]
SECOND_PARTY: frozenset[ApprovalPolicy] = frozenset({"CONTROL", "MAKER_CHECKER", "N_OF_M"})
"""Policies under which who asks may not be who approves."""
# Whose claims must be signed, where principals are declared. OPTIONAL: approvals and overrides only. REQUIRED: all.
# NONE is what a catalogue from before there were signatures says; none that is loaded from a file does.
Signatures = Literal["NONE", "OPTIONAL", "REQUIRED"]
ResolutionClass = Literal["RELEASABLE", "EXPIRING", "TRANSFERABLE", "COMPENSATABLE", "IRREVERSIBLE", "UNKNOWN"]
LateSuccess = Literal["RELEASE", "ORPHAN"]
LevelMeasure = Literal["RELEASE", "TRANSFER", "RECONCILIATION", "DETECTION"]
LATENCY_BOUNDS_MS = (
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
    3_600_000, 7_200_000, 14_400_000, 28_800_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
)  # fmt: skip
"""The bounds between which latencies are counted. An objective's `within` is one of them, so that it is met exactly."""
Draws = Literal["RETURNED", "CONSUMED"]
MissedAction = Literal["REPORT", "RELEASE"]
BudgetClass = Literal["EXPLORATION", "VERIFICATION", "RECONCILIATION"]
LimitScope = Literal["INTENT", "PRINCIPAL", "TENANT"]


@dataclass(frozen=True)
class Downstream:
    """A system of record and what it can be asked. `key_horizon_ms` null: it never forgets a key."""

    name: str
    capabilities: tuple[Capability, ...]
    key_horizon_ms: int | None = None
    in_flight_ms_max: int = 60_000
    statement_cut_off: str = ""
    lookup_backoff_ms: int = 1_000


@dataclass(frozen=True)
class Argument:
    """One argument: whether it carries meaning, and whether it comes from the downstream's records, not the model."""

    name: str
    meaning: bool = True
    from_records: bool = False


@dataclass(frozen=True)
class Action:
    """A tool. `executor` owns the topic `commands.<executor>`; `business_key` is a template such as `{fee_id}`.

    `counterparty` is a template too: to whom the obligation that it makes is owed, as in `customer:{to}`. `alike_ms` is
    the window within which much alike payloads are told as near-duplicates (None: they are not); the law ignores it.
    """

    name: str
    downstream: str
    effect: Effect
    kind: StepKind
    executor: str
    compensation: str | None = None
    human_gate: str = "operations"
    communication: Literal["NONE", "INFORMS", "PROMISES"] = "NONE"
    silence_ms: int = 30_000
    permit_ms: int = 30_000
    hold_ms: int = 0
    in_doubt_ms: int = 3_600_000
    approval: ApprovalPolicy = "NONE"
    approvals_needed: int = 1
    approvers: tuple[str, ...] = ()  # whose yes counts; empty: that of whoever speaks as an approver
    approval_ms: int = 86_400_000
    budget_class: BudgetClass = "EXPLORATION"
    cost: float = 0.0
    arguments: tuple[Argument, ...] = ()
    business_key: str = ""
    resources: tuple[str, ...] = ()
    quantities: dict[str, str] = field(default_factory=dict)  # kind of resource -> a number, or a template of one
    obligation: str | None = None
    counterparty: str = ""
    verification: bool = False
    draws: dict[str, str] = field(default_factory=dict)  # type of obligation -> a number, or a template of one
    alike_ms: int | None = None

    @property
    def irreversible(self) -> bool:
        """Whether the effect can't be taken back."""
        return self.effect == "IRREVERSIBLE"


@dataclass(frozen=True)
class ObligationType:
    """A kind of commitment, how it ends and what proves it.

    `observed`: ACTIVE and RELEASED each need an observation, not just the operation's Commit. `release_ms` is the
    deadline of a release; `disposition_ms` that of a decision after supersession; `transfer_ms` that of the target's
    acknowledgement, which brings evidence of each kind in `transfer_evidence` (its text begins with the kind and a
    colon). `lease_ms` null: no worker holds it under a lease. `superseded_by` names the attribute whose new value
    supersedes an older commitment that is otherwise alike. `condition` is a template of what has to be observed before
    such an obligation is made, within `condition_ms`. `due_ms` counts from when it was asked for, and `grace_ms` from
    then; what is missed is BREACHED, told to `escalation` every `escalation_ms`, and with `missed_action` RELEASE also
    given up. `satisfied_evidence` names kinds of evidence (what stands before the colon) that fulfilment has to bring.
    `migrates` names earlier versions whose open commitments go on by this one; those of the others keep their own.
    `valid_ms` is how long it lasts, counted from the permit of what makes it; `freshness_ms` how old an observation of
    it may be when something relies on it. `quantity` is how much it holds, a number or a template of one: steps that
    rely on it take of that what their actions `draws`, and `draws` here says whether it is used up by what is done.
    """

    name: str
    version: int = 1
    resolution: ResolutionClass = "RELEASABLE"
    release_action: str | None = None
    observed: bool = True
    attributes: tuple[str, ...] = ()
    late_success: LateSuccess = "ORPHAN"
    verification_ms: int = 600_000
    release_ms: int = 3_600_000
    release_retry_ms: int = 5_000
    disposition_ms: int = 600_000
    reconciliation_ms: int = 3_600_000
    valid_ms: int | None = None
    freshness_ms: int | None = None
    condition: str = ""
    condition_ms: int = 86_400_000
    due_ms: int | None = None
    grace_ms: int = 0
    satisfied_evidence: tuple[str, ...] = ()
    missed_action: MissedAction = "REPORT"
    escalation: str = "operations"
    escalation_ms: int = 86_400_000
    idle_cost: float = 0.0
    weight: float = 1.0
    transfer_ms: int = 3_600_000
    transfer_evidence: tuple[str, ...] = ()
    lease_ms: int | None = None
    superseded_by: str = ""
    migrates: tuple[int, ...] = ()
    quantity: str = ""
    draws: Draws = "RETURNED"


@dataclass(frozen=True)
class Resource:
    """Something scarce; `kind` is the part of a reference before the colon, as `window` in `window:production`.

    `arbitrated`: an operation that names it waits for the arbiter's grant; else it is only shown, and part of what is
    approved. `capacities` are those of single references, by their name, where `capacity` is everybody else's; both
    count whole smallest units. `keeps`: a settled operation does not give its quantity back. `lease_ms`: how long it
    is held until the gate is asked whether it is needed still.
    """

    kind: str
    mode: Literal["EXCLUSIVE", "CAPACITY", "ONCE_EVER"]
    capacity: float | None = None
    capacities: dict[str, float] = field(default_factory=dict)
    arbitrated: bool = False
    keeps: bool = False
    lease_ms: int | None = None


@dataclass(frozen=True)
class Principal:
    """Who may speak in which role. An empty `actions` means every action, an empty `owners` for every owner.

    `owners` are owners, or kinds of owner, for whom it may take over and speak. `keys` are public Ed25519 keys in hex;
    more are registered by claims. `vouches_for` are the principals of its role that it authenticates, and may sign
    for. `registrar`: it may register and revoke keys. `effect_max` is the strongest effect, and `amounts_max` the
    largest value of each argument, that it may ask for, perform or approve. Principals of one `party` are one person or
    one system to whoever compares maker and checker; empty: it is its own. `control`: an automated check.
    """

    name: str
    role: Role
    tenant: str = ""
    actions: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    vouches_for: tuple[str, ...] = ()
    registrar: bool = False
    effect_max: Effect = "IRREVERSIBLE"
    amounts_max: dict[str, float] = field(default_factory=dict)
    party: str = ""
    control: bool = False


@dataclass(frozen=True)
class OwnerKind:
    """A kind of owner: the part of an owner's id before the colon, as `team` in `team:operations`.

    `durable`: it outlives processes, so that it may own. `external`: what it takes over leaves our books.
    """

    name: str
    durable: bool = True
    external: bool = False


@dataclass(frozen=True)
class AssignmentPolicy:
    """What the control plane may assign: obligations of these types (empty: every type) to owners of these kinds.

    `takeover`: also where the present owner is valid; else only where there is none any more.
    """

    name: str
    owners: tuple[str, ...]
    obligations: tuple[str, ...] = ()
    takeover: bool = False


@dataclass(frozen=True)
class Objective:
    """A promise about service: `share` of what `measure` counts is done within `within_ms`, over `window_ms`.

    `obligation` null: of every type. Whole days make up the window. The law does not act on it; the read side does.
    """

    name: str
    measure: LevelMeasure
    within_ms: int
    share: float
    window_ms: int = 2_592_000_000
    obligation: str | None = None


@dataclass(frozen=True)
class Limit:
    """How much may be open before nothing new is promised: of each intent, principal or tenant, or of `only` one.

    `debt` is of what obligations weigh, `doubts` and `reviews` are counts of what is unresolved and of what waits for
    a person; null: no limit. An obligation counts twice once it is `age_ms` old, three times at twice that; null: as
    on its first day. One whose state is uncertain counts `uncertain` times.
    """

    name: str
    of: LimitScope
    only: str = ""
    debt: float | None = None
    doubts: int | None = None
    reviews: int | None = None
    age_ms: int | None = None
    uncertain: float = 2.0


@dataclass(frozen=True)
class Catalogue:
    """One version of everything declared; `digest` is the SHA-256 of `source`, its canonical JSON.

    An empty `principals` means that any principal may speak in the role of the topic that its claim arrives on. An
    empty `owners` means that every kind of owner but `worker` is durable, and none external.
    `plan_progress_ms` is how long an adopted plan may go without progress before it is reported; `resource_wait_ms`
    how long an operation waits for the arbiter's word before it is withdrawn. `signatures` says whose claims must be
    signed where principals are declared. `retention_ms` is how long what has ended is kept before it is archived; null:
    for ever.
    """

    version: str
    digest: str
    source: bytes
    downstreams: dict[str, Downstream]
    actions: dict[str, Action]
    obligations: dict[str, ObligationType] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    principals: dict[str, Principal] = field(default_factory=dict)
    objectives: dict[str, Objective] = field(default_factory=dict)
    owners: dict[str, OwnerKind] = field(default_factory=dict)
    policies: dict[str, AssignmentPolicy] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    plan_progress_ms: int = 86_400_000
    max_skew_ms: int = 300_000
    resource_wait_ms: int = 60_000
    silent_attempts_max: int = 3
    signatures: Signatures = "NONE"
    retention_ms: int | None = None

    @cached_property
    def keys(self) -> dict[str, tuple[str, bytes]]:
        """The declared keys: by id, the principal whose key it is, and the public key."""
        declared = ((one.name, bytes.fromhex(key)) for one in self.principals.values() for key in one.keys)
        return {key_id_of(public_key): (name, public_key) for name, public_key in declared}

    @cached_property
    def discharging(self) -> frozenset[str]:
        """The actions that give back, undo or reconcile: told once a catalogue, for every dispatch asks."""
        undoing = {action.compensation for action in self.actions.values()}
        undoing |= {kind.release_action for kind in self.obligations.values()}
        undoing |= {name for name, action in self.actions.items() if action.budget_class == "RECONCILIATION"}
        return frozenset(name for name in undoing if name is not None)
