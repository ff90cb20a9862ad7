"""The rules of reconciliation, pure: given a request and the answers so far, what to do next and what may be said.

The reconciler never sends an effect, never mints a key, never picks among several matches, and concludes nothing
from silence (model §7). All times are milliseconds since the epoch and come in as arguments. What `answered` says
depends on the row and the answer alone, both durable: after a crash the same answer makes the same claim again,
under the same id (field case C19).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

from joingate_processors.reconciler.answers import (
    Answer,
    AtWork,
    Exists,
    Found,
    Gone,
    Heard,
    NotFound,
    PartlyThere,
    Refused,
    ResendDue,
    Statement,
    Unreachable,
)
from joingate_schemas.claims import Finding, Observe, Proof
from joingate_schemas.decisions import InDoubtRequest
from joingate_schemas.ids import derived_id
from joingate_schemas.record import changed

Way: TypeAlias = Literal["RESEND", "LOOK_UP", "STATEMENT", "RESOURCE"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How patiently questions are put, in milliseconds.

    `backoff_ms_first` doubles with each unclear answer up to `backoff_ms_max`; `backoffs_ms` has the first one of those
    downstreams for which the catalogue declares its own. `settle_ms` is how long the gate may
    take over a clear answer before the question is put again, in case that it could not use the claim.
    `tellings_max` is how often it is put again: then everything that could be said was said, and it is the gate's.
    `resent_attempts_max` is up to which attempt a resend goes before the next capability; where there is no other, it
    goes on. `clock_margin_ms` is by how much this machine's clock may be ahead of the broker's.
    """

    backoff_ms_first: int = 1_000
    backoff_ms_max: int = 60_000
    backoffs_ms: Mapping[str, int] = field(default_factory=dict)
    settle_ms: int = 30_000
    settle_ms_max: int = 600_000
    tellings_max: int = 8
    resent_attempts_max: int = 4
    clock_margin_ms: int = 250
    principal: str = "reconciler"

    def first_ms(self, downstream: str) -> int:
        """The first back-off between questions to `downstream`."""
        return self.backoffs_ms.get(downstream, self.backoff_ms_first)

    def backoff_ms(self, downstream: str, times: int) -> int:
        """The `times`-th back-off (from 1) between questions to `downstream`."""
        first = self.first_ms(downstream)
        return doubles(first, max(first, self.backoff_ms_max), times)


@dataclass(frozen=True, kw_only=True)
class Missed:
    """A look that counted and saw nothing: the first of the two that prove absence."""

    asked_at: int
    source_version: int | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """An open request with all that was learnt about it.

    `asks` counts answers, `tries` the unclear ones in a row, `told` the clear ones; `said` is the finding said last.
    """

    request: InDoubtRequest
    received_on: int  # the partition of the topic that the request came on, which is also its answers'
    not_before: int
    asks: int = 0
    tries: int = 0
    told: int = 0
    said: str = ""
    resent: bool = False
    missed: Missed | None = None


@dataclass(frozen=True)
class Move:
    """The next thing to do, and from when on."""

    way: Way
    at: int


@dataclass(frozen=True)
class Step:
    """The row as it is after an answer, or None where it is closed, and the claim that follows, if any."""

    row: Row | None
    claim: Observe | None


def doubles(first: int, most: int, times: int) -> int:
    """The `times`-th back-off (from 1): `first`, doubled each time, at most `most`."""
    return min(most, first << min(times - 1, 32)) if times > 0 else 0


def opened(request: InDoubtRequest, received_on: int, now: int, policy: Policy) -> Row | None:
    """The row of a new request, or None when the subject is out of question here: resolved, or a person's now."""
    match request.kind:
        case "RESOLVED" | "HUMAN":
            return None
        case "RESOLVE_OPERATION" | "VERIFY_COMMITMENT" | "VERIFY_RELEASE":
            # An operation on its n-th attempt was resent before, to no avail: the n-th resend waits longer, from now,
            # since the doubt itself may be old. Where none is left, the next capability is due at once.
            wait = policy.backoff_ms(request.downstream, request.attempt - 1) if request.fresh else 0
            return Row(request=request, received_on=received_on, not_before=now + wait if wait else request.since)
        case "UNKNOWN":
            raise ValueError("a request of an unknown kind has no row")
        case _:
            assert_never(request.kind)


def move(row: Row, now: int, policy: Policy) -> Move | None:
    """What to do next and when, by the downstream's declared capabilities in order; None: nothing can be asked."""
    way = _way(row, now, policy)
    match way:
        case None:
            return None
        case "RESEND":
            return Move(way, row.not_before)
        case "LOOK_UP" | "STATEMENT" | "RESOURCE":
            # Before this moment something may still be on its way, so that a look could prove nothing.
            return Move(way, max(row.not_before, row.request.askable_from + policy.clock_margin_ms))
        case _:
            assert_never(way)


def _way(row: Row, now: int, policy: Policy) -> Way | None:
    request = row.request
    if request.kind != "RESOLVE_OPERATION":
        return "RESOURCE" if "LOOKUP" in request.capabilities else None
    remembered = request.key_until is None or now < request.key_until
    may_resend = "IDEMPOTENT_KEY" in request.capabilities and request.fresh and remembered
    # One resend a request: if the gate could not use it, the next capability is tried; and if one attempt after the
    # other came to nothing clear, likewise.
    prefers_resend = may_resend and not row.resent and request.attempt <= policy.resent_attempts_max
    for capability in request.capabilities:
        if capability == "IDEMPOTENT_KEY" and prefers_resend:
            return "RESEND"
        if capability == "LOOKUP":
            return "LOOK_UP"
        if capability == "STATEMENT":
            return "STATEMENT"
    return "RESEND" if may_resend else None


def answered(row: Row, answer: Answer, asked_at: int, policy: Policy) -> Step:
    """What follows from an answer to the question that was put at `asked_at`."""
    tries = row.tries + 1
    wait = policy.backoff_ms(row.request.downstream, tries)
    seen = _Seen(replace(row, asks=row.asks + 1, tries=tries, not_before=asked_at + wait), asked_at, policy)
    match answer:
        case Unreachable():
            return Step(seen.row, None)
        case ResendDue():
            return seen.resend()
        case Found() | Statement(closed=True, external_ids=[_, *_]):
            finding: Finding = "PRESENT" if len(answer.external_ids) == 1 else "SEVERAL"
            key = answer.key if isinstance(answer, Found) else None
            return seen.concludes(finding, answer, external_ids=answer.external_ids, key=key)
        case Refused():
            return seen.concludes("ABSENT", answer, proof="REFUSED", key=row.request.subject_id)
        case NotFound():
            return seen.misses(answer)
        case AtWork():
            return seen.notes("PENDING", answer)
        case Statement(closed=True):
            return seen.concludes("ABSENT", answer, proof="STATEMENT")
        case Statement():
            return Step(seen.row, None)
        case Exists():
            wanted = row.request.kind == "VERIFY_COMMITMENT"
            return seen.concludes("PRESENT", answer) if wanted else seen.notes("PRESENT", answer)
        case Gone():
            # That a release is done needs one look at the source. While the release itself is open (then what was sent
            # has a time to land), or one look was said in vain, it needs two; so does that a commitment vanished.
            once = row.request.kind == "VERIFY_RELEASE" and not row.request.askable_from and row.said != "ABSENT"
            return seen.concludes("ABSENT", answer) if once else seen.misses(answer)
        case PartlyThere():
            return seen.notes("PRESENT" if row.request.kind == "VERIFY_RELEASE" else "NOT_FOUND", answer)
        case _:
            assert_never(answer)


@dataclass(frozen=True)
class _Seen:
    """One answer at work: the row with that ask counted, when the question was put, and the policy."""

    row: Row
    asked_at: int
    policy: Policy

    def resend(self) -> Step:
        """Ask the gate for a new attempt; an executor, not we, then sends the same key."""
        request = self.row.request
        evidence = [f"{request.downstream} takes the same key again: attempt {request.attempt} is in doubt"]
        asked = self._claim("RESEND", self.policy.principal)
        claim = changed(asked, evidence=evidence, idempotency_key=request.subject_id)
        return self._told(replace(self.row, resent=True), claim)

    def misses(self, answer: NotFound | Gone) -> Step:
        """Nothing was seen: the first look is kept, a second that agrees proves absence."""
        missed = self.row.missed
        if self.asked_at < self.row.request.askable_from:
            return Step(self.row, None)
        if missed is None:
            first = Missed(asked_at=self.asked_at, source_version=answer.source_version, evidence=answer.evidence)
            return Step(replace(self.row, missed=first), None)
        if self.asked_at - missed.asked_at < self.policy.first_ms(self.row.request.downstream) or _older(
            answer, missed
        ):
            return Step(self.row, None)
        return self.concludes("ABSENT", answer, proof="SECOND_LOOK", before=missed.evidence)

    def concludes(
        self,
        finding: Finding,
        heard: Heard,
        *,
        external_ids: Sequence[str] = (),
        proof: Proof | None = None,
        key: str | None = None,
        before: Sequence[str] = (),
    ) -> Step:
        """Say it, and leave the gate time to act on it."""
        claim = changed(
            self._heard(finding, heard),
            external_ids=list(external_ids),
            evidence=[*before, *heard.evidence],
            proof=proof,
            idempotency_key=key,
        )
        missed = self.row.missed if finding == "ABSENT" else None
        return self._told(replace(self.row, missed=missed, said=finding), claim)

    def notes(self, finding: Finding, heard: Heard) -> Step:
        """Say it once, and go on asking: it does not answer the question."""
        row = replace(self.row, missed=None, said=finding)
        return Step(row, None if row.said == self.row.said else self._heard(finding, heard))

    def _told(self, row: Row, claim: Observe) -> Step:
        """Leave the gate time to act on the claim. It normally resolves the subject, which closes the row."""
        told = row.told + 1
        if told >= self.policy.tellings_max:
            return Step(None, claim)
        wait = doubles(self.policy.settle_ms, self.policy.settle_ms_max, told)
        return Step(replace(row, tries=0, told=told, not_before=self.asked_at + wait), claim)

    def _heard(self, finding: Finding, heard: Heard) -> Observe:
        return changed(
            self._claim(finding, self.row.request.downstream),
            source_version=heard.source_version,
            source_time=heard.source_time,
            evidence=list(heard.evidence),
        )

    def _claim(self, finding: Finding, source: str) -> Observe:
        request = self.row.request
        return Observe(
            claim_id=claim_id(request, self.row.asks),
            intent_id=request.intent_id,
            principal=self.policy.principal,
            occurred_at=self.asked_at,
            subject_kind=request.subject_kind,
            subject_id=request.subject_id,
            finding=finding,
            source=source,
            external_ids=[],
            evidence=[],
        )


def claim_id(request: InDoubtRequest, ask: int) -> str:
    """The id of what is said after the `ask`-th answer to this request: the same after a crash, another for another.

    The request's ledger position is part of it, since one attempt can come into doubt more than once.
    """
    position = (str(request.attempt), str(request.partition), str(request.ledger_seq))
    return derived_id("observe", request.subject_id, *position, str(ask))


def _older(answer: Heard, missed: Missed) -> bool:
    """Whether the second look saw an older state of the source than the first, as behind a stale replica."""
    if answer.source_version is None or missed.source_version is None:
        return False
    return answer.source_version < missed.source_version
