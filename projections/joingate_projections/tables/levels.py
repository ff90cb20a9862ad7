"""What service levels are made of (model §9): how long things took, by type and day, and counts of what happened.

A latency that has begun is a row of `pending` until it ends; then it is one more in a histogram. Histograms are
counters beside the tables: whole, for totals and metrics, and by day of the decision (UTC), for windows of objectives.
"""

from bisect import bisect_left
from typing import Literal, TypeAlias

from joingate_projections.tables import At, Row, Rows, joined, shown
from joingate_schemas.catalogue import LATENCY_BOUNDS_MS, LevelMeasure

Finder: TypeAlias = Literal["EXECUTOR", "OBSERVER", "GATE", "PERSON"]
DAY_MS = 86_400_000

# What a transition of a commitment does to a latency that has begun: these statuses leave it pending…
_UNRESOLVED = frozenset({"RECONCILIATION_REQUIRED", "UNKNOWN", "BREACHED"})
# …and this one ends it as wanted; any other ends it as not wanted any more, which is no latency.
_WANTED: dict[LevelMeasure, tuple[str, str]] = {
    "RELEASE": ("RELEASE_PENDING", "RELEASED"),
    "TRANSFER": ("TRANSFER_PENDING", "TRANSFERRED"),
}
_FINDERS: dict[str, Finder] = {
    "Prepared": "EXECUTOR",
    "Commit": "EXECUTOR",
    "Abort": "EXECUTOR",
    "InDoubt": "EXECUTOR",
    "Observe": "OBSERVER",
    "RetireOwner": "OBSERVER",
    "AssignOwner": "OBSERVER",
    "Override": "PERSON",
    "RequestReconciliation": "PERSON",
}


def finder(claim_type: str) -> Finder:
    """Who found what a decision reveals. PERSON: somebody told us; that is how a customer's complaint comes in.

    What no claim of another role reveals, the gate found by itself: by a timer, or in deciding something else.
    """
    return _FINDERS.get(claim_type, "GATE")


def commitment_moved(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """Latencies and counts of a commitment's transition; `new` gets what must be remembered of it."""
    before, after = old["status"] if old is not None else "", new["status"]
    of, subject = new["obligation_type"], ("COMMITMENT", new["commitment_id"])
    if old is not None and old["owner_id"] != new["owner_id"]:
        # Within our books a transfer ends with its new owner, and the commitment goes on as it was.
        _end(rows, "TRANSFER", subject, of, at, counts=True)
    if before == after:
        return
    for measure, (begins, wanted) in _WANTED.items():
        if after == begins:
            _begin(rows, measure, subject, of, at)
        elif after not in _UNRESOLVED:
            _end(rows, measure, subject, of, at, counts=after == wanted)
    _doubted(rows, subject, of, at, now=after in shown.DOUBTED_COMMITMENT, was=before in shown.DOUBTED_COMMITMENT)
    if after in ("ACTIVE", "BREACHED") and new["obliged_since"] is None:
        new["obliged_since"] = at.time
        rows.count("obliged", of)
    if after == "BREACHED":
        if old is None or not old["breached"]:
            rows.count("breached", of)
        found(rows, "BREACHED", at)


def operation_moved(rows: Rows, old: Row | None, new: Row, at: At) -> None:
    """How an action has fared, and how long doubts last."""
    before, after = old["status"] if old is not None else "", new["status"]
    if before == after:
        return
    if before:
        rows.count("fared", joined(new["action"], before), -1)
    rows.count("fared", joined(new["action"], after))
    was, now = before in shown.DOUBTED_OPERATION, after in shown.DOUBTED_OPERATION
    if now and not was:
        rows.count("fared", joined(new["action"], "EVER_IN_DOUBT"))
    _doubted(rows, ("OPERATION", new["operation_id"]), "", at, now=now, was=was)


def effect_detected(rows: Rows, operation: Row, at: At) -> None:
    """An effect became known: it cannot be older than the leave to act, so that is how late we may be."""
    since = operation["acting_since"] if operation["acting_since"] is not None else operation["created_at"]
    _observe(rows, "DETECTION", finder(at.claim_type), at.time - since, at)


def found(rows: Rows, trouble: str, at: At) -> None:
    """Trouble was found, by whoever's claim revealed it."""
    rows.count("found", joined(trouble, finder(at.claim_type)))


def _doubted(rows: Rows, subject: tuple[str, str], of: str, at: At, *, now: bool, was: bool) -> None:
    if now and not was:
        _begin(rows, "RECONCILIATION", subject, of, at)
        found(rows, "IN_DOUBT", at)
    elif was and not now:
        _end(rows, "RECONCILIATION", subject, of, at, counts=True)


def _begin(rows: Rows, measure: LevelMeasure, subject: tuple[str, str], of: str, at: At) -> None:
    """It is pending from here on, unless it is already: a doubt on the way does not make a release younger."""
    key = joined(measure, *subject)
    if rows.get("pending", key) is None:
        row = {"measure": measure, "of": of, "subject_kind": subject[0], "subject_id": subject[1], "since": at.time}
        rows.put("pending", key, {**row, "order": pending_order(measure, at.time)})


def _end(rows: Rows, measure: LevelMeasure, subject: tuple[str, str], of: str, at: At, *, counts: bool) -> None:
    key = joined(measure, *subject)
    row = rows.get("pending", key)
    if row is not None:
        rows.delete("pending", key)
        if counts:
            _observe(rows, measure, of, at.time - row["since"], at)


def _observe(rows: Rows, measure: LevelMeasure, of: str, latency_ms: int, at: At) -> None:
    name = joined(of, f"{bucket(latency_ms):02d}")
    rows.count(f"latency {measure}", name)
    rows.count(f"latency {measure} {day_of(at.time):06d}", name)
    rows.count(f"latency-sum {measure}", of, max(0, latency_ms))


def bucket(latency_ms: int) -> int:
    """The histogram's place for a latency: the first bound that it does not exceed; behind the last: one more."""
    return bisect_left(LATENCY_BOUNDS_MS, latency_ms)


def day_of(time_ms: int) -> int:
    """The day (UTC), counted from the epoch."""
    return time_ms // DAY_MS


def pending_order(measure: str, since: int) -> str:
    """By what the pending of a measure are found, oldest first."""
    return f"{measure} {since:020d}"
