"""What observations have in common, whatever they are about: newer or older (law 8), when it was looked, as said."""

from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.state import newness, news_of
from joingate_schemas import claims as c
from joingate_schemas import facts as f

OBSERVER_PROOFS: frozenset[c.Proof] = frozenset({"REFUSED", "TOMBSTONE", "SECOND_LOOK", "STATEMENT"})
"""The proofs of absence that an observer may bring."""


def stamps_of(claim: c.Observe) -> dict[str, int]:
    """How new the news is, by its source's own version and time."""
    return news_of(claim.source, claim.source_version, claim.source_time)


def outdated(claim: c.Observe, news: dict[str, int], status: str) -> Ruling | None:
    """The refusal of what the same source has outdated itself, kept as evidence; None where it has not."""
    if newness(stamps_of(claim), news) >= 0:
        return None
    return Ruling("REJECTED", "STALE_OBSERVATION", f"{claim.source} has said something newer before", claim.subject_id,
                  status, [recorded(claim)])  # fmt: skip


def contradicts(claim: c.Observe, news: dict[str, int]) -> bool:
    """Whether the news is comparably newer than what its source said before."""
    return newness(stamps_of(claim), news) > 0


def looked_at(case: Case, claim: c.Observe) -> int:
    """When the source was looked at (ms): as it says itself, else as the observer does, but never after the log had it.

    A stamp from the future proves nothing the earlier; one that lags makes the observer look again later.
    """
    said = claim.source_time if claim.source_time is not None else claim.occurred_at or case.appended_at
    return min(said, case.appended_at)


def recorded(claim: c.Observe) -> f.ObservationRecorded:
    """The news as a fact."""
    return f.ObservationRecorded(
        subject_kind=claim.subject_kind, subject_id=claim.subject_id, intent_id=claim.intent_id,
        finding=claim.finding, source=claim.source, source_version=claim.source_version,
        source_time=claim.source_time, evidence=claim.evidence,
    )  # fmt: skip


def kept(claim: c.Observe, status: str, detail: str) -> Ruling:
    """Accepted as news that changes nothing."""
    return Ruling("ACCEPTED", "OK", detail, claim.subject_id, status, [recorded(claim)])
