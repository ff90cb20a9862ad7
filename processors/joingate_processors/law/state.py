"""What the law remembers: one row an entity, the tables that hold them, and the seam behind which a store keeps them.

Rows are records (frozen to the type checker, plain dictionaries at run time). Every row that waits for something
names it in `timer` and when in `deadline_at` (ms, None: waits for nothing): the store indexes rows by deadline, so
that setting one is the same write as the row itself.
"""

from typing import Protocol, TypeVar

from joingate_processors.law.archived import Archive
from joingate_processors.law.trusted import PrincipalKey as PrincipalKey
from joingate_processors.law.trusted import StandingApproval as StandingApproval
from joingate_schemas.catalogue import LimitScope
from joingate_schemas.claims import Arguments, Budgets, Edge, Finding
from joingate_schemas.debt import BacklogKind
from joingate_schemas.facts import (
    BudgetClass,
    CommitmentStatus,
    Disposition,
    OperationStatus,
    Phases,
    PlanStatus,
    Timer,
)
from joingate_schemas.record import record


@record
class Header:
    """Where this partition's ledger stands: the last seq, its hash (hex), its time, the writer's epoch."""

    seq: int = 0
    epoch: int = 0
    previous: str = ""
    decided_at: int = 0
    catalogue_digest: str = ""


@record
class Intent:
    """An intent, with the counts that make its Close a matter of looking at one row."""

    intent_id: str
    version: int
    tenant: str
    status: str  # OPEN | CANCELLED | CLOSED
    content_digest: str
    goals: dict[str, str]  # goal id -> digest of the goal's content
    plan_id: str | None
    operations_open: int
    operations_unclaimed: int  # settled, yet neither succeeded nor compensated
    commitments_open: int
    orphans_open: int
    parents: dict[str, str]  # goal id -> the goal that it is part of, where it is part of one
    required: dict[str, list[str]]  # goal id -> the kinds of evidence that its acceptance needs, where it needs some
    budgets: Budgets | None
    spent: dict[str, float]  # budget class -> what operations that may act, or may have acted, have cost
    close_needs_goals: bool  # its Close needs each goal observed as reached
    commitments_elsewhere: int  # open, yet somebody else's; and those that left our books and hold something scarce
    discharging: str  # the latest of the gate's own operations; each names the one before; empty where there is none


@record
class PlanRow:
    """A plan: its steps are rows of their own, chained from `first_step`."""

    plan_id: str
    intent_id: str
    intent_version: int
    status: PlanStatus
    replaces: str | None
    content_digest: str
    first_step: str | None
    steps: int
    steps_unjoined: int  # neither succeeded nor compensated
    commitments: list[str]
    progress_at: int
    stalled: bool
    timer: Timer
    deadline_at: int | None


@record
class Step:
    """A step as planned; what became of it is its slot's operation."""

    step_id: str
    plan_id: str
    intent_id: str
    ordinal: int
    following: str | None  # the next step of the plan
    barrier: str | None  # the nearest irreversible step before it that it must wait for
    invalidated_by: list[str]  # steps that make its effect worthless by settling after it
    action: str
    business_key: str
    slot_id: str  # the operation id of the slot's first generation
    arguments: Arguments
    goal_id: str | None
    edges: list[Edge]
    pivot: bool
    irreversible: bool
    dispatched: bool  # under this plan
    succeeded: bool
    commitments: list[str]  # that it relies on, besides those that the steps make which it requires
    condition: str | None  # what has to be observed before its obligation is made


@record
class Operation:
    """One logical effect. The row of generation 1 also names the slot's latest generation."""

    operation_id: str
    intent_id: str
    intent_version: int
    plan_id: str
    step_id: str
    goal_id: str | None
    action: str
    business_key: str
    generation: int
    latest_generation: int
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
    compensated_by: str | None
    compensating: bool  # its compensation was asked for
    ordered: bool  # its step waits for others
    opened_at: int
    settled_at: int | None
    first_permit_at: int | None
    permits: int  # attempts that were allowed to act
    permit_attempt: int  # the latest of them
    permitted: list[int]  # in two phases, each attempt that got its permit
    permit_at: int | None  # when the latest was allowed
    permit_worker: str
    external_id: str
    in_doubt_cause: str  # of its latest doubt; kept when resolved
    in_doubt_since: int | None
    doubted_attempt: int  # which attempt was current when it was last doubted
    claimed: bool  # succeeded under some plan
    observed: bool  # a source has shown the effect since it last came into doubt
    news: dict[str, int]  # `news_of` -> the latest
    requested_by: str  # who dispatched it; empty where the gate opened it
    budget_class: BudgetClass
    cost: float
    approvals: list[str]
    approval_expiries: dict[str, int]  # approver -> until when the approval holds, where it does not hold for ever
    approval_keys: dict[str, str]  # approver -> the key that signed it and when (ms), as `key@ms`
    needs: dict[str, int]  # the resources that it needs, and how much of each
    asked: str  # the one that it asked the arbiter for and has no word about yet; empty where there is none
    held: list[str]  # those that were granted; kept when given back, for what became of it is still asked about
    draws: dict[str, int]  # commitment id -> how much of it the operation takes, while it lives
    opened_before: str | None  # the gate's own operation before this one, empty for the first; None for a step's
    timer: Timer
    deadline_at: int | None


@record
class Commitment:
    """An obligation in the outside world."""

    commitment_id: str
    intent_id: str
    intent_version: int
    goal_id: str | None
    plan_id: str
    step_id: str
    owner_id: str
    status: CommitmentStatus
    obligation_type: str
    type_version: int
    resource_refs: list[str]
    counterparty_refs: list[str]
    quantity: float | None
    attributes: dict[str, str]
    generation: int
    creating_operation: str | None
    serving_operation: str | None
    release_wanted: bool
    finding: Finding
    news: dict[str, int]
    created_at: int
    since: int
    due_at: int | None
    valid_until: int | None
    evidence: list[str]
    release_deadline_at: int | None
    timer: Timer
    deadline_at: int | None
    grace_until: int | None  # when a missed one counts as breached; None: as soon as it is due
    condition: str | None  # what has to be observed before it is made
    breached_at: int | None  # its first breach, whatever became of it since
    observed_at: int | None  # when a source last showed it
    disposition: Disposition  # the latest; UNKNOWN while none was decided
    weight: int  # what it counts in debt, in thousandths
    principal: str  # who asked for it
    drawn: int  # how much of its quantity operations take now
    consumed: bool  # whether what they took is used up once they are settled


@record
class Condition:
    """What is known of something that obligations wait for: the latest that each source said, and the latest of all."""

    intent_id: str
    condition: str
    finding: Finding
    news: dict[str, int]


@record
class GoalNews:
    """What sources say of a goal: the latest of each, and what the goal and its subgoals were when they said it."""

    intent_id: str
    goal_id: str
    said: dict[str, Finding]  # by source
    grounds: dict[str, str]  # by source, the digest of the goal's subtree
    news: dict[str, int]


@record
class Debt:
    """What an intent, a principal or a tenant has open on this partition; there is no row where it has nothing.

    The sums are those of `joingate_schemas.debt`. `doubts` are operations and commitments that nobody knows the end
    of, `reviews` operations that wait for a person.
    """

    scope: str
    commitments: int
    weight: int
    moment: int
    uncertain_weight: int
    uncertain_moment: int
    doubts: int
    reviews: int


@record
class Custody:
    """Who has a commitment in hand, where more is to be known than its owner: tokens, a transfer, a worker's lease."""

    commitment_id: str
    intent_id: str
    fencing_token: int  # of its present owner
    offered_token: int  # the latest with which a transfer was offered; 0 for none
    target_owner: str  # who is asked to take over; empty where nobody is
    resumes: CommitmentStatus  # what it is again once the transfer has ended
    acted: bool  # the target may have acted before it acknowledged
    worker: str  # who holds the lease; empty where nobody does
    lease_token: int  # the latest lease's number; 0 for none
    timer: Timer
    deadline_at: int | None


@record
class Owner:
    """An owner that is gone, and how far its commitments on this partition were found."""

    owner_id: str
    reason: str
    retired_at: int
    found: int
    swept: str  # the id of the last one found
    timer: Timer
    deadline_at: int | None


@record
class Seen:
    """That a claim id was decided: what it was about, what it said (hex of its digest), and how it went."""

    seq: int
    about: str
    verdict: str
    reason: str
    subject_id: str
    digest: str = ""


@record
class Quarantine:
    """An unreadable record whose scope is in force until an operator resolves it."""

    quarantine_id: str
    scope: str | None
    problem: str
    opened_at: int
    holds: int
    resolved: bool


@record
class Hold:
    """A claim that waits for a quarantine; `claim` is its bytes in hex."""

    quarantine_id: str
    ordinal: int
    intent_id: str
    claim: str
    topic: str
    offset: int
    appended_at: int


@record
class Orphan:
    """An incident that is still open."""

    orphan_id: str
    intent_id: str
    kind: str
    subject_id: str
    since: int


Row = TypeVar("Row")


class Table(Protocol[Row]):
    """Rows by key. Nothing read from a table may be changed in place: put a changed copy."""

    def get(self, key: str) -> Row | None: ...

    def put(self, key: str, row: Row) -> None: ...

    def delete(self, key: str) -> None: ...

    def page(self, prefix: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of the keys that begin with `prefix`, above `after`, sorted, without listing the others."""
        ...


class Index(Protocol):
    """Sets of members by owner, for the few rules that must enumerate what is open."""

    def members(self, owner: str) -> list[str]:
        """The members, sorted, so that every store enumerates in the same order (law 9)."""
        ...

    def first(self, owner: str) -> str | None:
        """The first of the members, without listing the others; None where there are none."""
        ...

    def page(self, owner: str, after: str, limit: int) -> list[str]:
        """Up to `limit` of the members above `after`, sorted, without listing the others."""
        ...

    def add(self, owner: str, member: str) -> None: ...

    def remove(self, owner: str, member: str) -> None: ...


class State(Protocol):
    """Everything that one partition remembers. `decide` only reads it; `evolve` alone writes it."""

    header: Table[Header]  # one row, key ""
    intents: Table[Intent]  # key: intent id
    plans: Table[PlanRow]  # key: plan_key
    steps: Table[Step]  # key: step_key
    operations: Table[Operation]  # key: operation id
    commitments: Table[Commitment]  # key: commitment id
    custodies: Table[Custody]  # key: commitment id; only where there was a transfer, an assignment or a lease
    owners: Table[Owner]  # key: owner id; only those that were retired
    conditions: Table[Condition]  # key: condition_key
    goals: Table[GoalNews]  # key: goal_key; only those of which a source has said something
    debts: Table[Debt]  # key: scope_key
    seen: Table[Seen]  # key: seen_key
    quarantines: Table[Quarantine]  # key: quarantine id
    holds: Table[Hold]  # key: hold_key
    orphans: Table[Orphan]  # key: orphan id
    archives: Table[Archive]  # key: intent id; of ended intents that wait for their retention, or were archived
    catalogues: Table[str]  # key: digest; the catalogue's canonical JSON
    protocols: Table[str]  # key: protocol_key; what the latest catalogue with that version said of the type, as JSON
    keys: Table[PrincipalKey]  # key: key id
    approvals: Table[StandingApproval]  # key: the operation id of the slot's first generation

    open_operations: Index  # owner: intent id; members: operation ids that are open
    unclaimed_operations: Index  # owner: intent id; members: settled operations that nobody took up
    open_commitments: Index  # owner: intent id; members: commitments that are not terminal and that the intent owns
    owned_commitments: Index  # owner: an owner's id; members: commitment ids that are not terminal
    scoped_quarantines: Index  # owner: scope ("" for the partition); members: quarantine ids
    backlogs: Index  # owner: backlog_key; members: what is open of it, so that somebody can be told what to discharge


TABLES: dict[str, type] = {
    "header": Header,
    "intents": Intent,
    "plans": PlanRow,
    "steps": Step,
    "operations": Operation,
    "commitments": Commitment,
    "custodies": Custody,
    "owners": Owner,
    "conditions": Condition,
    "goals": GoalNews,
    "debts": Debt,
    "seen": Seen,
    "quarantines": Quarantine,
    "holds": Hold,
    "orphans": Orphan,
    "archives": Archive,
    "catalogues": str,
    "protocols": str,
    "keys": PrincipalKey,
    "approvals": StandingApproval,
}
"""Every table of `State` with the class of its rows."""

INDEXES: tuple[str, ...] = (
    "open_operations", "unclaimed_operations", "open_commitments", "owned_commitments", "scoped_quarantines",
    "backlogs",
)  # fmt: skip
"""Every index of `State`."""

TIMED_TABLES: dict[str, str] = {
    "plans": "PLAN", "operations": "OPERATION", "commitments": "COMMITMENT", "custodies": "LEASE", "owners": "OWNER",
    "archives": "INTENT",
}  # fmt: skip
"""Tables whose rows carry `timer` and `deadline_at`, with the subject kind that their timers name."""


def news_of(source: str, version: int | None, time: int | None) -> dict[str, int]:
    """What a source says of how new its news is, by the names under which rows keep the latest of it.

    Versions and times are two number lines, each of one source: only like is compared with like (law 8).
    """
    stamps = {} if version is None else {f"version\x1f{source}": version}
    return stamps if time is None else {**stamps, f"time\x1f{source}": time}


def newness(stamps: dict[str, int], news: dict[str, int]) -> int:
    """How `stamps` compare with the latest in `news`: below 0 older, above 0 newer, 0 the same or not comparable."""
    for name, stamp in stamps.items():  # a version goes before a time
        if name in news:
            return stamp - news[name]
    return 0


def plan_key(intent_id: str, plan_id: str) -> str:
    """The key of a plan's row; ids never hold control characters (MALFORMED), so it is unambiguous."""
    return f"{intent_id}\x1f{plan_id}"


def step_key(intent_id: str, plan_id: str, step_id: str) -> str:
    """The key of a step's row."""
    return f"{intent_id}\x1f{plan_id}\x1f{step_id}"


def condition_key(intent_id: str, condition: str) -> str:
    """The key of a condition's row, beside the intent that waits for it."""
    return f"{intent_id}\x1f{condition}"


def goal_key(intent_id: str, goal_id: str) -> str:
    """The key of what is said of a goal."""
    return f"{intent_id}\x1f{goal_id}"


def scope_key(of: LimitScope, subject: str) -> str:
    """The key of a debt: of an intent, a principal or a tenant, by its id."""
    return f"{of}\x1f{subject}"


def backlog_key(scope: str, kind: BacklogKind) -> str:
    """The owner under which a scope's open obligations, doubts or reviews are listed."""
    return f"{scope}\x1f{kind}"


def seen_key(intent_id: str, claim_id: str) -> str:
    """The key under which a claim id is remembered, beside its intent."""
    return f"{intent_id}\x1f{claim_id}"


def hold_key(quarantine_id: str, ordinal: int) -> str:
    """The key of the `ordinal`-th hold (from 1) of a quarantine."""
    return f"{quarantine_id}\x1f{ordinal}"
