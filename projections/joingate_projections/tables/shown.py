"""The words that people see (model §9), derived from a row alone, so that every page and message says the same.

Nine words: PLAN, PROPOSED COMMITMENT, ACTIVE COMMITMENT, EXECUTING, VERIFIED, COMPLETE, IN DOUBT, BREACHED, ORPHANED.
What ended without its result (withdrawn, failed, superseded, cancelled, compensated) is none of them and shows its
plain status. Trouble outranks progress: an orphan, then doubt, then a breach; nothing rounds them to a clean word.
"""

from joingate_projections.tables import Row

PLAN = "PLAN"
PROPOSED = "PROPOSED COMMITMENT"
ACTIVE = "ACTIVE COMMITMENT"
EXECUTING = "EXECUTING"
VERIFIED = "VERIFIED"
COMPLETE = "COMPLETE"
IN_DOUBT = "IN DOUBT"
BREACHED = "BREACHED"
ORPHANED = "ORPHANED"
WORDS = (PLAN, PROPOSED, ACTIVE, EXECUTING, VERIFIED, COMPLETE, IN_DOUBT, BREACHED, ORPHANED)

DOUBTED_OPERATION = frozenset({"IN_DOUBT", "ESCALATED", "UNKNOWN"})
DOUBTED_COMMITMENT = frozenset({"UNKNOWN", "RECONCILIATION_REQUIRED"})
ACTING = frozenset({"VALIDATED", "SUBMITTED"})


def of_operation(row: Row) -> str:
    """The word for an operation.

    STAGED is still PLAN: nothing acts yet. SETTLED stays EXECUTING as long as only its executor has said so; it is
    VERIFIED once somebody else saw the effect, and COMPLETE once it was taken up: its step joined, or its purpose
    (a compensation, a release) recorded as fulfilled.
    """
    status = row["status"]
    if row["orphans"]:
        return ORPHANED
    if status in DOUBTED_OPERATION:
        return IN_DOUBT
    if status == "STAGED":
        return PLAN
    if status in ACTING:
        return EXECUTING
    if status == "SETTLED":
        if row["taken_up"]:
            return COMPLETE
        return VERIFIED if row["seen"] else EXECUTING
    return str(status)


def of_step(row: Row) -> str:
    """The word for a step: that of its operation in this plan, or its own."""
    shown = row["operation_shown"]
    if shown in (ORPHANED, IN_DOUBT):
        return str(shown)
    if row["status"] == "SUCCEEDED":
        return COMPLETE
    if row["status"] == "DISPATCHED" and shown:
        # An operation that another plan took up is done, but this step is not joined yet.
        return VERIFIED if shown == COMPLETE else str(shown)
    return "SUPERSEDED" if row["status"] == "SUPERSEDED" else PLAN


def of_plan(row: Row) -> str:
    """The word for a plan."""
    status = row["status"]
    if row["orphans"]:
        return ORPHANED
    joined = row["steps"] and row["steps_joined"] >= row["steps"]
    if status == "CLOSED" and joined:
        return COMPLETE  # A plan that merely ended with its cancelled intent has completed nothing.
    if status in ("CANDIDATE", "ADOPTED"):
        if joined:
            return VERIFIED
        return EXECUTING if row["steps_dispatched"] else PLAN
    return IN_DOUBT if status == "UNKNOWN" else str(status)


def of_commitment(row: Row) -> str:
    """The word for a commitment. Work on giving it back or over leaves it ACTIVE until there is evidence."""
    if row["orphans"]:
        return ORPHANED
    match row["status"]:
        case "PROPOSED" | "PENDING_CONDITION":
            return PROPOSED
        case "ACTIVE" | "RELEASE_PENDING" | "TRANSFER_PENDING":
            return ACTIVE
        case "BREACHED":
            return BREACHED
        case "SATISFIED" | "RELEASED" | "TRANSFERRED":
            return COMPLETE
        case _:
            return IN_DOUBT


def of_intent(row: Row) -> str:
    """The word for an intent: the worst of what it has outside, else how far it has come."""
    outside = _outside(row)
    if outside is not None:
        return outside
    if row["status"] == "CANCELLED":
        return "CANCELLED"
    return VERIFIED if row["plan_steps"] and row["plan_steps_joined"] >= row["plan_steps"] else PLAN


def of_goal(row: Row) -> str:
    """The word for a goal: the worst of what it has outside; VERIFIED once its state was observed, else how far.

    A verified goal of an open intent stays VERIFIED while work for it goes on, but no trouble hides behind that.
    """
    outside = _outside(row)
    seen = row["observation"] is not None and row["observation"]["finding"] == "PRESENT"
    if outside in (None, EXECUTING, ACTIVE, PROPOSED) and seen and row["status"] == "OPEN":
        return VERIFIED
    if outside is not None:
        return outside
    return PLAN if row["status"] == "OPEN" else str(row["status"])


def _outside(row: Row) -> str | None:
    """The word for what an intent or a goal has outside, worst first; None: nothing is outside any more."""
    if row["orphans"]:
        return ORPHANED
    if row["operations_in_doubt"] or row["commitments_in_doubt"]:
        return IN_DOUBT
    if row["commitments_breached"]:
        return BREACHED
    if row["status"] == "CLOSED":
        return COMPLETE
    if row["operations_acting"]:
        return EXECUTING
    if row["commitments_active"]:
        return ACTIVE
    return PROPOSED if row["commitments_proposed"] else None
