"""What passing time does to a commitment: due and missed, valid and expired; releases go on past their deadline."""

from joingate_processors.law import transfers
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitment_claims import dropped, unmade
from joingate_processors.law.commitments import (
    change,
    kind_of,
    look_again,
    raise_orphan,
    reconcile,
    release_due,
    start_release,
)
from joingate_processors.law.dispositions import PENDING, give_up, not_planned, not_taken_over
from joingate_processors.law.state import Commitment
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact, Timer
from joingate_schemas.record import changed


def fired(case: Case, row: Commitment) -> Ruling:
    """Decide what the passed deadline means for the commitment."""
    kind = kind_of(case, row)
    facts: list[AnyFact]
    match row.timer:
        case "DISPOSITION" if row.disposition == "TRANSFER":
            facts = not_taken_over(case, row)
        case "DISPOSITION" if row.disposition == "KEEP":
            facts = not_planned(case, row)
        case "DISPOSITION":
            facts = give_up(case, row, "no plan took it up in time", ["plan"])
        case "RELEASE":
            facts = _release_again(case, row)
        case "VERIFICATION" if row.release_wanted:
            facts = _release_again(case, row)
        case "VERIFICATION":
            facts = reconcile(case, row, "nothing was observed in time")
        case "RECONCILIATION" if row.disposition == "REVALIDATE":
            facts = give_up(case, row, "no plan took it up in time", ["plan"])
        case "RECONCILIATION":
            facts = [
                change(row, row.status, "still not reconciled", [], timer="RECONCILIATION",
                       deadline_at=case.now + kind.reconciliation_ms),
                raise_orphan(case, "OVERDUE", "COMMITMENT", row.commitment_id, row.intent_id,
                             "its reconciliation is past its deadline", "ask the system of record, then override"),
            ]  # fmt: skip
        case "DUE":
            facts = breach(case, row, f"it was due at {row.due_at} and is not fulfilled", [])
        case "VALIDITY":
            facts = [change(row, "UNKNOWN", f"its time passed at {row.valid_until}; to be observed", [],
                            timer="RECONCILIATION", deadline_at=case.now + kind.reconciliation_ms)]  # fmt: skip
        case "CONDITION":
            facts = _condition_missed(case, row)
        case "TRANSFER":
            facts = transfers.overdue(case, row)
        case "ESCALATION":
            facts = [
                change(row, row.status, f"{kind.escalation} is told again", [], timer="ESCALATION",
                       deadline_at=case.now + kind.escalation_ms),
                _incident(case, row, "it is breached and not discharged"),
            ]  # fmt: skip
        case _:
            refuse("ALREADY_RESOLVED", f"a commitment has no timer {row.timer}", row.commitment_id)
    changes = [fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)]
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, changes[-1] if changes else row.status, facts)


def breach(case: Case, row: Commitment, cause: str, evidence: list[str]) -> list[AnyFact]:
    """BREACHED: told at once to whom its type says, and given up if its type says that too.

    There it rests, open, until it is fulfilled late, released, compensated or overridden; the breach itself stays on
    the record.
    """
    kind = kind_of(case, row)
    timer: Timer = "DISPOSITION" if row.disposition in PENDING else "ESCALATION"
    deadline: int | None = case.now + (kind.disposition_ms if timer == "DISPOSITION" else kind.escalation_ms)
    if row.release_wanted:
        timer, deadline = row.timer, row.deadline_at  # its release goes on as it was
    facts: list[AnyFact] = [
        change(row, "BREACHED", cause, evidence, timer=timer, deadline_at=deadline),
        _incident(case, row, cause),
    ]
    if kind.missed_action == "RELEASE" and not row.release_wanted:
        facts += give_up(case, changed(row, status="BREACHED", timer=timer), cause, ["breached"])
    return facts


def _incident(case: Case, row: Commitment, cause: str) -> AnyFact:
    kind = kind_of(case, row)
    return raise_orphan(case, "OVERDUE", "COMMITMENT", row.commitment_id, row.intent_id, cause,
                        f"{kind.escalation}: fulfil it late and mark it satisfied, or release it")  # fmt: skip


def _condition_missed(case: Case, row: Commitment) -> list[AnyFact]:
    """Its condition was not observed in time: dropped as a fact, for nothing was made."""
    origin = unmade(case, row)
    assert origin is not None, f"{row.commitment_id} waits for its condition, and something of it was made"
    return dropped(case, origin, f"its condition {row.condition} was not observed in time")


def _release_again(case: Case, row: Commitment) -> list[AnyFact]:
    """Go on releasing, past the deadline too: then it is breached, and an incident. Giving up is not an ending."""
    kind = kind_of(case, row)
    facts: list[AnyFact] = []
    if row.release_deadline_at is not None and case.now >= release_due(case, row, kind):
        cause = "its release is past its deadline"
        if row.status == "RELEASE_PENDING":
            facts.append(change(row, "BREACHED", f"{cause}, and goes on", [], timer="RELEASE",
                                deadline_at=case.now + kind.release_ms))  # fmt: skip
            row = changed(row, status="BREACHED")
        facts.append(
            raise_orphan(case, "OVERDUE", "COMMITMENT", row.commitment_id, row.intent_id, cause,
                         f"{kind.escalation}: release it by hand and override, with evidence")
        )  # fmt: skip
    serving = case.state.operations.get(row.serving_operation or "")
    if serving is not None and serving.status in f.OPEN_OPERATION:
        return [*facts, change(row, row.status, "its release goes on", [], timer="RELEASE",
                               deadline_at=look_again(case, row, kind.release_ms))]  # fmt: skip
    return facts + start_release(case, row, "release again", [])
