"""What the gate writes: decisions into the ledger, commands, in-doubt requests, commitment rows, quarantine records."""

from typing import Literal

from joingate_schemas.claims import Arguments, SubjectKind
from joingate_schemas.facts import AnyFact, CommitmentStatus
from joingate_schemas.record import record

Verdict = Literal["ACCEPTED", "REPLAYED", "REJECTED", "COMPENSATE", "UNKNOWN"]
CommandKind = Literal["PREPARE", "PERMIT", "EXECUTE", "WITHDRAW", "UNKNOWN"]
InDoubtKind = Literal["RESOLVE_OPERATION", "VERIFY_COMMITMENT", "VERIFY_RELEASE", "HUMAN", "RESOLVED", "UNKNOWN"]
ClaimTopic = Literal[
    "outcomes", "observations", "resource-verdicts", "approvals", "overrides", "proposals", "gate", "UNKNOWN"
]


@record
class Decision:
    """One ledger record: the claim, what was decided, and the facts that follow.

    `seq` is contiguous per partition from 1; `epoch` is the writer's; `decided_at` never goes back on a partition;
    `previous` is the SHA-256 of the record before (empty for the first). `claim` is the claim's value exactly as
    it was appended, or empty on REPLAYED, where `claim_id` is enough. `detail` is a sentence for
    people. `refers_to` is the seq of the decision that a REPLAYED one repeats (0: none); on CLAIM_REPEATED,
    `recorded_verdict` and `recorded_reason` are that decision's own. `status` is the present status of the subject,
    where there is one. `claim_digest` is the first 16 bytes of the SHA-256 of what the claim says, by which a repeated
    claim id is told from a used one; empty for the gate's own claims. `topic` "gate" marks those; their offset is -1.
    """

    seq: int
    epoch: int
    decided_at: int
    topic: ClaimTopic
    offset: int
    appended_at: int
    claim_type: str
    claim_id: str
    intent_id: str
    principal: str
    claim: bytes
    verdict: Verdict
    reason: str
    detail: str
    subject_id: str
    status: str
    refers_to: int
    recorded_verdict: str = ""
    recorded_reason: str = ""
    claim_digest: bytes = b""
    facts: list[AnyFact]
    previous: bytes


@record
class Command:
    """What an executor is to do; keyed by intent, on the topic of its executor.

    PREPARE: get ready and answer Prepared. PERMIT: act now, within `permit_ms` of your own monotonic clock, counted
    from when you sent Prepared. EXECUTE: prepare and permit in one (one phase). WITHDRAW: do not begin any more.
    `act_until` (broker's clock; 0: not at all) is when PERMIT and EXECUTE run out, and what the gate reckons from.
    `operation_id` is the idempotency key to send downstream. `partition`, `ledger_seq` and `epoch` say which
    decision it came from: a consumer drops what it has seen and refuses a lower epoch.
    """

    kind: CommandKind
    operation_id: str
    attempt: int
    generation: int
    intent_id: str
    intent_version: int
    plan_id: str
    step_id: str
    action: str
    business_key: str
    arguments: Arguments
    downstream: str
    executor: str
    worker: str
    commitment_id: str | None
    issued_at: int
    permit_ms: int
    act_until: int
    partition: int
    ledger_seq: int
    epoch: int


@record
class InDoubtRequest:
    """What the reconciler is to find out; keyed by intent. RESOLVED: the subject is no longer in question.

    `capabilities` are the downstream's in order of preference. `askable_from` is when the longest in-flight time has
    passed; `key_until` is when the downstream may forget the key (null: never); `fresh` says whether a resend could
    still be permitted. `external_ids` are those known.
    """

    kind: InDoubtKind
    subject_kind: SubjectKind
    subject_id: str
    intent_id: str
    operation_id: str | None
    action: str
    business_key: str
    downstream: str
    capabilities: list[str]
    attempt: int
    cause: str
    external_ids: list[str]
    resource_refs: list[str]
    since: int
    askable_from: int
    deadline_at: int | None
    key_until: int | None
    fresh: bool
    partition: int
    ledger_seq: int
    epoch: int


@record
class CommitmentRow:
    """The present state of a commitment, on the compacted topic `commitments`, keyed by commitment id.

    Claims for its owner carry `fencing_token`; `transfer_to`, asked to take over, accepts with `transfer_token`.
    """

    commitment_id: str
    intent_id: str
    intent_version: int
    goal_id: str | None
    owner_id: str
    status: CommitmentStatus
    obligation_type: str
    type_version: int
    resource_refs: list[str]
    counterparty_refs: list[str]
    quantity: float | None
    attributes: dict[str, str]
    operation_id: str | None
    created_at: int
    due_at: int | None
    valid_until: int | None
    evidence: list[str]
    partition: int
    ledger_seq: int
    epoch: int
    fencing_token: int = 0
    worker: str = ""
    transfer_to: str = ""
    transfer_token: int = 0
    grace_until: int | None = None
    breached_at: int | None = None
    condition: str | None = None


@record
class Quarantined:
    """A record that could not be read, with its bytes and where it lay, for re-drive or dismissal."""

    quarantine_id: str
    topic: str
    partition: int
    offset: int
    appended_at: int
    key: bytes | None
    value: bytes | None
    problem: str
    detail: str
    ledger_seq: int
    epoch: int
