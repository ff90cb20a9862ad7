"""The room where commitment debt is reckoned: what open obligations weigh, by consequence, age and uncertainty.

Pure, and the same for the law and the read side. Weights are whole thousandths and ages whole minutes, so that sums
kept in step one by one are exactly the sums counted anew.
"""

from typing import Literal, NamedTuple

from joingate_schemas.catalogue import Catalogue, Limit, LimitScope, ObligationType, ResolutionClass
from joingate_schemas.facts import CommitmentStatus, OperationStatus, Timer

BacklogKind = Literal["DEBT", "DOUBT", "REVIEW"]
"""What is listed of a scope, to say what to discharge first: obligations, doubts, what waits for a person."""

CONSEQUENCE: dict[ResolutionClass, int] = {
    "RELEASABLE": 1, "EXPIRING": 1, "TRANSFERABLE": 1, "COMPENSATABLE": 2, "IRREVERSIBLE": 4, "UNKNOWN": 4,
}  # fmt: skip
"""How many times an obligation counts for how it may end: what stays in the world weighs more."""

UNIT = 1_000
"""Thousandths: what an obligation of weight 1 that can be given back weighs."""
WEIGHT_MAX = 1_000 * UNIT
"""The most that one obligation weighs: sums of very many stay within 64 bits."""
MINUTE_MS = 60_000

UNCERTAIN: frozenset[CommitmentStatus] = frozenset({"UNKNOWN", "RECONCILIATION_REQUIRED", "BREACHED"})
"""States of an open commitment that weigh more, for nobody can rely on how they end."""
DOUBTED_COMMITMENT: frozenset[CommitmentStatus] = frozenset({"UNKNOWN", "RECONCILIATION_REQUIRED"})
DOUBTED_OPERATION: frozenset[OperationStatus] = frozenset({"IN_DOUBT", "ESCALATED"})


class Weighed(NamedTuple):
    """Open obligations summed up, in thousandths; a moment is the sum of weight times minute of creation."""

    weight: int = 0
    moment: int = 0
    uncertain_weight: int = 0
    uncertain_moment: int = 0


def weight_of(kind: ObligationType) -> int:
    """What an obligation of this type weighs from its first minute on, in thousandths."""
    return min(WEIGHT_MAX, round(kind.weight * UNIT) * CONSEQUENCE[kind.resolution])


def weighed(weight: int, created_at: int, status: CommitmentStatus) -> Weighed:
    """One open obligation, made at `created_at` (ms), as a sum of one."""
    moment = weight * (created_at // MINUTE_MS)
    return Weighed(weight, moment, weight, moment) if status in UNCERTAIN else Weighed(weight, moment)


def added(sum_of: Weighed, more: Weighed, sign: int = 1) -> Weighed:
    """The sum with `more` added, or with `sign` -1 taken away."""
    return Weighed(*(one + sign * other for one, other in zip(sum_of, more, strict=True)))


def debt(sum_of: Weighed, limit: Limit, now: int) -> float:
    """The debt at `now` (ms), in weights: each obligation as often as `limit` says for its age and its uncertainty."""
    minute, extra = now // MINUTE_MS, limit.uncertain - 1
    whole = sum_of.weight + extra * sum_of.uncertain_weight
    if limit.age_ms is not None:
        certain_age = minute * sum_of.weight - sum_of.moment
        uncertain_age = minute * sum_of.uncertain_weight - sum_of.uncertain_moment
        whole += (certain_age + extra * uncertain_age) * MINUTE_MS / limit.age_ms
    return whole / UNIT


def waits_for_person(status: OperationStatus, timer: Timer) -> bool:
    """Whether the operation is part of the review backlog: it waits for an approval, or for a person to settle it."""
    return (status == "STAGED" and timer == "APPROVAL") or timer == "ESCALATION"


def tenant_of(intent_id: str) -> str:
    """Whose an intent is: what its id begins with, which is what a principal's own tenant is held against."""
    return intent_id.partition("/")[0]


def limit_for(catalogue: Catalogue, of: LimitScope, subject: str) -> Limit | None:
    """The limit that holds for this intent, principal or tenant: its own before that of all; None if there is none."""
    general: Limit | None = None
    for limit in catalogue.limits.values():
        if limit.of == of and limit.only == subject:
            return limit
        if limit.of == of and not limit.only:
            general = limit
    return general
