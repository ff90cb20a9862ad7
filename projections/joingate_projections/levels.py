"""Service levels (model §9), from what was folded of the ledger: what is open, how long things take, who found it.

Latencies are counted between fixed bounds, so a quantile is the bound that it lies under, never a guess within. What
is pending and already past an objective's limit has missed it, though it has not ended yet.
"""

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from joingate_projections.debts import levels_of
from joingate_projections.declared import latest_catalogue
from joingate_projections.store import View
from joingate_projections.tables import Row
from joingate_projections.tables.levels import bucket, day_of, pending_order
from joingate_schemas.catalogue import LATENCY_BOUNDS_MS, LevelMeasure, Objective

SCANNED_MAX = 2_000
"""Open commitments whose ages are looked at, oldest first; beyond them `ages_are_partial`."""
QUANTILES = (0.5, 0.9, 0.99, 0.999)
MEASURES: tuple[LevelMeasure, ...] = ("RELEASE", "TRANSFER", "RECONCILIATION", "DETECTION")
_DAY_MS = 86_400_000
# What was asked for a second time, in one form or another, and was not done a second time.
DUPLICATES = (
    "SAME_OPERATION", "IN_DOUBT_PENDING", "CLAIM_REPEATED", "ALREADY_SO", "ALREADY_CLAIMED", "DUPLICATE_SLOT",
    "KEY_MISMATCH", "KEY_PAYLOAD_MISMATCH", "OBJECTIVE_ALREADY_SATISFIED",
)  # fmt: skip
STALE = ("STALE_INTENT", "PLAN_SUPERSEDED", "NOT_FRESH")


def levels(view: View, now: int) -> Row:
    """Every measure, and how each declared objective stands."""
    catalogue = latest_catalogue(view)
    objectives = catalogue.objectives.values() if catalogue is not None else ()
    reasons = view.counts("decisions", "reason")
    return {
        "commitments": _commitments(view, now),
        "breaches": _breaches(view),
        "latencies": {measure.lower(): histogram(view, measure) for measure in MEASURES},
        "pending": {measure.lower(): _pending(view, measure, now) for measure in MEASURES if measure != "DETECTION"},
        "found": found(view),
        "unknown": _unknown(view),
        "debt": levels_of(view, now),
        "duplicates_prevented": _picked(reasons, DUPLICATES),
        "stale": _picked(reasons, STALE),
        "objectives": [_standing(view, one, now) for one in objectives],
    }


def _picked(reasons: Row, names: Iterable[str]) -> Row:
    by_reason = {name: reasons[name] for name in names if reasons.get(name)}
    return {"total": sum(by_reason.values()), "by_reason": by_reason}


def _commitments(view: View, now: int) -> Row:
    """What is open, how old it is, and how much of it stands on a version of its intent that is no longer wanted."""
    statuses = view.counts("commitments", "status")
    ages: list[int] = []
    left_behind = 0
    partial = False
    versions: dict[str, int] = {}
    for scanned, (since, key) in enumerate(view.find("commitments", "open_since", None)):
        if scanned == SCANNED_MAX:
            partial = True
            break
        ages.append(max(0, now - int(since)))
        row = view.get("commitments", key)
        if row is not None:
            left_behind += _is_stale(view, row, versions)
    shown = view.counts("commitments", "shown")
    return {
        "by_status": statuses,
        "active": sum(statuses.get(one, 0) for one in ("ACTIVE", "RELEASE_PENDING", "TRANSFER_PENDING")),
        "orphaned": shown.get("ORPHANED", 0),
        "orphans_by_kind": view.counts("orphans", "kind"),
        "age_ms": {"oldest": max(ages, default=None), **_exact_quantiles(ages)},
        "ages_are_partial": partial,
        "stale_intent": left_behind,
    }


def _is_stale(view: View, commitment: Row, versions: dict[str, int]) -> bool:
    """Whether its intent has moved on, and nobody decided to keep it."""
    intent_id = commitment["intent_id"]
    if intent_id not in versions:
        intent = view.get("intents", intent_id)
        # A cancelled or closed intent wants nothing any more, whatever its version.
        known = intent["version"] + (intent["status"] != "OPEN") if intent is not None else 0
        versions[intent_id] = known
    kept = commitment["disposition"] is not None and commitment["disposition"]["disposition"] == "KEEP"
    return bool(commitment["intent_version"] < versions[intent_id]) and not kept


def _exact_quantiles(values: list[int]) -> Row:
    ordered = sorted(values)
    return {
        f"p{100 * q:g}": ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)] if ordered else None
        for q in QUANTILES
    }


def _breaches(view: View) -> Row:
    """How many of the commitments that were ever in force, or due, were not kept; by type and in all."""
    obliged, breached = view.counts("", "obliged"), view.counts("", "breached")
    by_type = {of: _rate(breached.get(of, 0), count) for of, count in sorted(obliged.items())}
    return {**_rate(sum(breached.values()), sum(obliged.values())), "by_type": by_type}


def _rate(part: int, whole: int) -> Row:
    return {"breached": part, "obliged": whole, "rate": part / whole if whole else None}


def histogram(view: View, measure: LevelMeasure) -> Row:
    """A measure's latencies: how many, their mean, and the bound under which each quantile lies; by type and in all.

    `of` is the obligation's type, "" for operations, and of DETECTION who found it.
    """
    counts = _by_type(view.counts("", f"latency {measure}"))
    sums = view.counts("", f"latency-sum {measure}")
    whole = [sum(column) for column in zip(*counts.values(), strict=True)] if counts else _empty()
    by_type = {of: _summed(buckets, sums.get(of, 0)) for of, buckets in sorted(counts.items())}
    return {**_summed(whole, sum(sums.values())), "by_type": by_type}


def _empty() -> list[int]:
    return [0] * (len(LATENCY_BOUNDS_MS) + 1)


def _by_type(counts: Row) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, count in counts.items():
        of, _, place = name.rpartition("\x1f")
        found.setdefault(of, _empty())[int(place)] += count
    return found


def _summed(buckets: list[int], sum_ms: int) -> Row:
    count = sum(buckets)
    quantiles = {f"p{100 * q:g}_ms_max": _bound(buckets, q) for q in QUANTILES}
    return {
        "count": count,
        "sum_ms": sum_ms,
        "mean_ms": round(sum_ms / count) if count else None,
        **quantiles,
        "buckets": buckets,
    }


def _bound(buckets: list[int], quantile: float) -> int | None:
    """The bound under which the quantile lies; None: there is nothing, or it lies above all of them."""
    wanted, seen = math.ceil(quantile * sum(buckets)), 0
    for bound, count in zip(LATENCY_BOUNDS_MS, buckets, strict=False):
        seen += count
        if wanted and seen >= wanted:
            return bound
    return None


def _pending(view: View, measure: LevelMeasure, now: int) -> Row:
    """What has begun and not ended: how many (at most `SCANNED_MAX` are counted), and how old the oldest is."""
    since = [begun for _, (begun, _) in zip(range(SCANNED_MAX), _begun(view, measure), strict=False)]
    return {"count": len(since), "oldest_ms": max(0, now - since[0]) if since else None}


def _begun(view: View, measure: LevelMeasure) -> Iterator[tuple[int, str]]:
    """What of a measure has begun and not ended, oldest first: when it began, and the key of its row."""
    for order, key in view.find("pending", "order", None, (pending_order(measure, 0), "")):
        if not order.startswith(f"{measure} "):
            return
        yield int(order.rpartition(" ")[2]), key


def found(view: View) -> Row:
    """Who found trouble: we by ourselves, or a person who told us (which is how a customer's complaint comes in)."""
    by_trouble: dict[str, Row] = {}
    for name, count in view.counts("", "found").items():
        trouble, _, who = name.rpartition("\x1f")
        by_trouble.setdefault(trouble, {})[who.lower()] = count
    people = sum(row.get("person", 0) for row in by_trouble.values())
    total = sum(sum(row.values()) for row in by_trouble.values())
    return {"by_us": total - people, "by_people": people, "by_trouble": by_trouble}


def _unknown(view: View) -> Row:
    """What nobody knows at the moment."""
    operations, commitments = view.counts("operations", "status"), view.counts("commitments", "status")
    of_operations = sum(operations.get(one, 0) for one in ("IN_DOUBT", "ESCALATED", "UNKNOWN"))
    of_commitments = sum(commitments.get(one, 0) for one in ("UNKNOWN", "RECONCILIATION_REQUIRED"))
    return {"operations": of_operations, "commitments": of_commitments, "total": of_operations + of_commitments}


def _standing(view: View, objective: Objective, now: int) -> Row:
    """How an objective stands over its window. `burn` 1.0: all that may be missed has been; above it, it is not met.

    `total` counts what ended within the window, and what is pending beyond the limit, which has missed it already.
    """
    last, place = bucket(objective.within_ms), day_of(now)
    ended = within = 0
    for day in range(place - objective.window_ms // _DAY_MS + 1, place + 1):
        for of, buckets in _by_type(view.counts("", f"latency {objective.measure} {day:06d}")).items():
            if objective.obligation in (None, of):
                ended += sum(buckets)
                within += sum(buckets[: last + 1])
    overdue = _overdue(view, objective, now)
    total, missed = ended + overdue, ended - within + overdue
    # Exact, since 99.99 % of ten thousand lets one be missed, and binary fractions would not.
    allowed = (1 - Fraction(str(objective.share))) * total
    return {
        "name": objective.name,
        "measure": objective.measure,
        "obligation": objective.obligation,
        "within_ms": objective.within_ms,
        "share": objective.share,
        "window_ms": objective.window_ms,
        "total": total,
        "missed": missed,
        "overdue": overdue,
        "achieved": (total - missed) / total if total else None,
        "burn": float(missed / allowed) if total else None,
        "met": missed <= allowed if total else None,
    }


def _overdue(view: View, objective: Objective, now: int) -> int:
    """How many are pending for longer than the objective allows; oldest first, so that the first young one ends it."""
    count = 0
    for since, key in _begun(view, objective.measure):
        if now - since <= objective.within_ms:
            break
        row = view.get("pending", key)
        count += row is not None and objective.obligation in (None, row["of"])
    return count
