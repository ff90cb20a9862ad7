"""What the gate answered, as an object to ask, rather than a ledger record to read."""

from dataclasses import dataclass
from typing import NamedTuple

from joingate_producers.errors import ClaimRefused
from joingate_schemas.decisions import Decision
from joingate_schemas.decisions import Verdict as VerdictName
from joingate_schemas.facts import OPEN_OPERATION, AnyFact, LeaseChanged
from joingate_schemas.reasons import REASONS

# Claims whose subject is an operation, so that `subject_id` is its id.
_ABOUT_OPERATIONS = frozenset({"Dispatch", "Abort", "Prepared", "Commit", "InDoubt", "Approve", "Decline", "Succeed"})
_UNDER_WAY = OPEN_OPERATION | {
    "PROPOSED", "PENDING_CONDITION", "RELEASE_PENDING", "TRANSFER_PENDING", "RECONCILIATION_REQUIRED",
}  # fmt: skip


class Recorded(NamedTuple):
    """The decision that a claim had when its id was first decided."""

    seq: int
    verdict: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """The gate's answer to one claim, and where it stands in the ledger.

    `verdict`, `reason`, `detail`, `subject_id`, `status` and `facts` are the decision's. `number` is the reason's
    stable number, `meaning` and `advice` are its sentences. `seq` is the position on `partition` of the ledger;
    `offset` is where it lies there in Kafka's terms; `decided_at` is in milliseconds since the epoch, UTC. `refers_to`,
    `recorded_verdict` and `recorded_reason` are those of the decision that a repeated claim id had (see `recorded`).
    """

    claim_id: str
    claim_type: str
    intent_id: str
    verdict: VerdictName
    reason: str
    number: int
    meaning: str
    advice: str
    detail: str
    subject_id: str
    status: str
    partition: int
    seq: int
    offset: int
    decided_at: int
    refers_to: int
    recorded_verdict: str
    recorded_reason: str
    facts: tuple[AnyFact, ...]

    @property
    def accepted(self) -> bool:
        """The claim holds, and its facts follow."""
        return self.verdict == "ACCEPTED"

    @property
    def replayed(self) -> bool:
        """It was decided before; `status` is the present status, and nothing was sent again."""
        return self.verdict == "REPLAYED"

    @property
    def recorded(self) -> Recorded | None:
        """The first decision on a claim id that is answered for a second time; None for any other verdict."""
        if not self.recorded_verdict:
            return None
        return Recorded(self.refers_to, self.recorded_verdict, self.recorded_reason)

    @property
    def refused(self) -> bool:
        """The gate said no, now or when it first decided this claim id; `reason` and `advice` say why."""
        recorded = self.recorded
        return self.verdict == "REJECTED" or (recorded is not None and recorded.verdict == "REJECTED")

    @property
    def pending(self) -> bool:
        """What is asked is under way and not settled: go by `operation_id` or `subject_id`, and do not ask again."""
        return not self.refused and (self.status in _UNDER_WAY or self.reason == "HELD")

    @property
    def operation_id(self) -> str:
        """The operation that this is about, which is its idempotency key; empty if it is about none."""
        leases = any(isinstance(fact, LeaseChanged) for fact in self.facts)
        if self.claim_type in _ABOUT_OPERATIONS and self.subject_id and not leases:
            return self.subject_id
        return next((str(found) for fact in self.facts if (found := getattr(fact, "operation_id", None))), "")

    def demand(self) -> "Verdict":
        """This verdict, if the claim was ACCEPTED, or REPLAYED over a decision that was. Else raises ClaimRefused."""
        said = self.verdict if self.recorded is None else self.recorded.verdict
        if said in ("ACCEPTED", "REPLAYED"):
            return self
        raise ClaimRefused(self)


def verdict_of(decision: Decision, partition: int, offset: int) -> Verdict:
    """The verdict in a ledger record that lies at `offset` of `partition`."""
    reason = REASONS.get(decision.reason, REASONS["UNKNOWN"])
    return Verdict(
        claim_id=decision.claim_id,
        claim_type=decision.claim_type,
        intent_id=decision.intent_id,
        verdict=decision.verdict,
        reason=decision.reason,
        number=reason.number,
        meaning=reason.meaning,
        advice=reason.advice,
        detail=decision.detail,
        subject_id=decision.subject_id,
        status=decision.status,
        partition=partition,
        seq=decision.seq,
        offset=offset,
        decided_at=decision.decided_at,
        refers_to=decision.refers_to,
        recorded_verdict=decision.recorded_verdict,
        recorded_reason=decision.recorded_reason,
        facts=tuple(decision.facts),
    )
