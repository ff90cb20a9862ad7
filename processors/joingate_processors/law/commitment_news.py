"""What systems of record say of commitments, and of the conditions that some of them wait for."""

from typing import assert_never

from joingate_processors.law import (
    commitment_claims,
    commitment_time,
    commitments,
    conditions,
    outcomes,
    starting,
    transfers,
)
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.commitments import change, kind_of, lapses, raise_orphan
from joingate_processors.law.deadlines import expired, is_missed
from joingate_processors.law.dispositions import PENDING
from joingate_processors.law.news import OBSERVER_PROOFS, contradicts, kept, outdated, recorded
from joingate_processors.law.opening import ENDED_WITHOUT_EFFECT
from joingate_processors.law.state import Commitment, Operation, condition_key
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT, AnyFact


def observe_condition(case: Case, claim: c.Observe) -> Ruling:
    """What waits for the condition goes on once it is so; anything else is kept, and it goes on waiting."""
    known = case.state.conditions.get(condition_key(claim.intent_id, claim.subject_id))
    stale = None if known is None else outdated(claim, known.news, known.finding)
    if stale is not None:
        return stale
    facts: list[AnyFact] = [recorded(claim)]
    for row in conditions.waiting_for(case, claim.intent_id, claim.subject_id) if claim.finding == "PRESENT" else ():
        facts.append(change(row, "PROPOSED", f"{claim.subject_id} is so", claim.evidence))
        operation = case.state.operations.get(row.creating_operation or "")
        if operation is not None and operation.status == "STAGED" and operation.timer == "CONDITION":
            facts += starting.go_on(case, operation, met=claim.subject_id)[1]
    return Ruling("ACCEPTED", "OK", "", claim.subject_id, claim.finding, facts)


def observe_commitment(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    """News about the thing itself: there, gone, taken back, several of it, or nothing that proves anything."""
    moved = transfers.observed(case, claim, row)
    if moved is not None:
        return Ruling("ACCEPTED", "OK", "", row.commitment_id, moved[0], [recorded(claim), *moved[1]])
    match claim.finding:
        case "PRESENT":
            return _present(case, claim, row)
        case "ABSENT" | "REVOKED":
            return _gone(case, claim, row)
        case "SEVERAL":
            if row.status in TERMINAL_COMMITMENT:
                return kept(claim, row.status, "it is discharged")
            if commitment_claims.unmade(case, row) is not None:
                return kept(claim, row.status, "nothing of it was made yet")
            facts = commitments.reconcile(case, row, "several things match it")
            return Ruling("ACCEPTED", "OK", "", row.commitment_id, "RECONCILIATION_REQUIRED", [recorded(claim), *facts])
        case "NOT_FOUND" | "PENDING" | "UNREACHABLE" | "RESEND" | "UNKNOWN":
            return kept(claim, row.status, "it proves nothing; it is asked again later")
        case _:
            assert_never(claim.finding)


# --- there -----------------------------------------------------------------------------------------------------------


def _present(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    """It is there: in force if its creation is settled and its ground current; else its disposition goes on."""
    facts: list[AnyFact] = [recorded(claim)]
    origin = case.state.operations.get(row.creating_operation or "")
    settled = origin is None or origin.status == "SETTLED"
    decided = row.disposition in ("RECONCILE", "COMPENSATE")
    match row.status:
        case "RECONCILIATION_REQUIRED" if decided:
            return kept(claim, row.status, "a person decides what becomes of it")
        case "RECONCILIATION_REQUIRED" if settled and row.release_wanted:
            facts += _still_there(case, claim, row)
        case "PROPOSED" | "UNKNOWN" | "RECONCILIATION_REQUIRED" if settled and not commitments.left_behind(case, row):
            facts += _in_force(case, claim, row)
            facts += commitments.cleared(case, row.intent_id, row.commitment_id, ("OVERDUE",), "observed")
        case "ACTIVE" if row.timer == "VERIFICATION" or expired(row, case.now) or claim.valid_until is not None:
            facts += _in_force(case, claim, row)
        case "BREACHED" if (
            not row.release_wanted and row.finding in ("ABSENT", "REVOKED") and contradicts(claim, row.news)
        ):
            facts += commitments.reconcile(case, row, f"{claim.source} shows again what it had shown to be gone")
        case "RELEASED" | "SATISFIED" | "TRANSFERRED" if contradicts(claim, row.news):
            facts.append(
                raise_orphan(case, "STRAY_EFFECT", "COMMITMENT", row.commitment_id, row.intent_id,
                             "its source shows again what it had shown to be gone", "ask its owner, then release it")
            )  # fmt: skip
        case _:
            return kept(claim, row.status, "as recorded")
    after = next((fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)), row.status)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, after, facts)


def _in_force(case: Case, claim: c.Observe, row: Commitment) -> list[AnyFact]:
    """ACTIVE by what was seen, for as long as that says; and what waited for the look goes on."""
    kind = kind_of(case, row)
    if is_missed(row):
        # That it is there does not fulfil what was due: it is breached, as before it was in question.
        return commitment_time.breach(case, row, "observed; it was due and is not fulfilled", claim.evidence)
    timer, deadline_at = commitments.awaits_plan(case, row)
    if row.disposition in PENDING:
        timer = "DISPOSITION"
        deadline_at = row.deadline_at if row.timer == timer else case.now + kind.disposition_ms
    valid_until = commitments.seen_until(case, row) if claim.valid_until is None else claim.valid_until
    active = change(row, "ACTIVE", "observed", claim.evidence, timer=timer, deadline_at=deadline_at,
                    valid_until=valid_until)  # fmt: skip
    return [active, *starting.seen_again(case, row)]


def _still_there(case: Case, claim: c.Observe, row: Commitment) -> list[AnyFact]:
    """Its release is not to be seen: started anew where there is none; one that claimed success is doubted."""
    serving = case.state.operations.get(row.serving_operation or "")
    if serving is None or serving.status in ENDED_WITHOUT_EFFECT:
        return commitments.start_release(case, row, "still there", claim.evidence)
    if serving.status == "SETTLED":
        return outcomes.doubt(case, serving, serving.attempt, "CONFLICTING_OUTCOME", claim.evidence)
    return []


# --- gone ------------------------------------------------------------------------------------------------------------


def _gone(case: Case, claim: c.Observe, row: Commitment) -> Ruling:
    """It is not there: released, if that was wanted and its creation is not in doubt; breached, if it was owed."""
    identity, status = row.commitment_id, row.status
    if status in TERMINAL_COMMITMENT:
        return kept(claim, status, "as recorded")
    origin = case.state.operations.get(row.creating_operation or "")
    if origin is not None and origin.status in OPEN_OPERATION:
        return kept(claim, status, "its creation is still open, so not being there proves nothing")
    if row.release_wanted:
        return _released(case, claim, row, origin)
    facts: list[AnyFact]
    if status != "BREACHED" and _was_owed(case, claim, row, origin):
        said = f"{claim.source} says {claim.finding.lower()}"
        facts = commitment_time.breach(case, row, said, claim.evidence)
        after = [fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)][-1]
        return Ruling("ACCEPTED", "OK", "", identity, after, [recorded(claim), *facts])
    if status in ("BREACHED", "RECONCILIATION_REQUIRED"):
        return kept(claim, status, "as recorded")
    facts = commitments.reconcile(case, row, f"{claim.source} says {claim.finding.lower()}")
    return Ruling("ACCEPTED", "OK", "", identity, "RECONCILIATION_REQUIRED", [recorded(claim), *facts])


def _was_owed(case: Case, claim: c.Observe, row: Commitment, origin: Operation | None) -> bool:
    """Whether what was in force is gone for certain: taken back, proven absent, or not seen after its time passed.

    What was never seen, or waits for a person's decision, or is being handed over, is looked into instead.
    """
    if row.disposition in ("RECONCILE", "COMPENSATE") or row.status == "TRANSFER_PENDING":
        return False
    never_seen = row.observed_at is None and kind_of(case, row).observed
    if row.status == "PROPOSED" or (row.status == "RECONCILIATION_REQUIRED" and never_seen):
        return False
    return claim.finding == "REVOKED" or expired(row, case.now) or _is_proof(case, claim, origin)


def _is_proof(case: Case, claim: c.Observe, origin: Operation | None) -> bool:
    if claim.proof is None or claim.proof not in OBSERVER_PROOFS:
        return False
    return origin is None or case.can_prove(origin, claim.proof)


def _released(case: Case, claim: c.Observe, row: Commitment, origin: Operation | None) -> Ruling:
    serving = case.state.operations.get(row.serving_operation or "")
    if not _proves_gone(case, claim, row, origin, serving):
        return Ruling("REJECTED", "NO_PROOF", "its release has not ended, and a look proves no absence",
                      row.commitment_id, row.status, [recorded(claim)])  # fmt: skip
    by = serving if serving is not None and serving.status == "SETTLED" else None
    evidence = claim.evidence or [f"{claim.source}:{claim.finding}"]
    facts = commitments.released(case, row, "observed to be gone", evidence, by)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "RELEASED", [recorded(claim), *facts])


def _proves_gone(
    case: Case, claim: c.Observe, row: Commitment, origin: Operation | None, serving: Operation | None
) -> bool:
    """Whether the news ends a commitment under release: after its release has ended, seeing it gone is enough.

    So it is after the time of what is given back by letting it lapse.
    """
    if claim.finding == "REVOKED" or (serving is not None and serving.status not in OPEN_OPERATION):
        return True
    if lapses(row, kind_of(case, row)) and (row.valid_until or 0) <= case.now:
        return True
    return _is_proof(case, claim, origin)
