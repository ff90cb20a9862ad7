"""What becomes of commitments when their ground changes: supersession, cancel, another plan (model §6).

By its resolution class, what nobody wants any more is released (RELEASABLE, EXPIRING), handed over (TRANSFERABLE),
compensated by another effect or by a person (COMPENSATABLE, IRREVERSIBLE), or looked at by a person (UNKNOWN).
"""

from typing import assert_never

from joingate_processors.law import custody
from joingate_processors.law.case import Case
from joingate_processors.law.commitments import (
    awaits_plan,
    change,
    cleared,
    is_late,
    kind_of,
    raise_orphan,
    reconcile,
    start_release,
    unplanned,
)
from joingate_processors.law.goals import subtrees
from joingate_processors.law.state import Commitment, Intent
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ResolutionClass
from joingate_schemas.facts import AnyFact, OrphanKind, Timer
from joingate_schemas.record import changed

_CLEARED_WHEN_KEPT: tuple[OrphanKind, ...] = ("LEFT_BEHIND", "LATE_SUCCESS")
PENDING: frozenset[f.Disposition] = frozenset({"REVALIDATE", "TRANSFER"})
"""Dispositions that wait for somebody: a plan that takes it up, or an owner that takes it over."""


def given_up_by(resolution: ResolutionClass) -> f.Disposition:
    """What becomes of a commitment of this class that nobody wants any more."""
    match resolution:
        case "RELEASABLE" | "EXPIRING":
            return "RELEASE"
        case "TRANSFERABLE":
            return "TRANSFER"
        case "COMPENSATABLE" | "IRREVERSIBLE":
            return "COMPENSATE"
        case "UNKNOWN":
            return "RECONCILE"
        case _:
            assert_never(resolution)


def _disposition(
    case: Case, commitment: Commitment, disposition: f.Disposition, reason: str, differs: list[str],
    ended: frozenset[str] = frozenset(), planned: bool = True,
) -> list[AnyFact]:  # fmt: skip
    if disposition != "KEEP" and custody.offer_of(case, commitment) is not None:
        # It is being handed over: if it comes back, it is given up then; if not, it is its new owner's.
        return [f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                                     disposition="TRANSFER", reason=reason, differs=differs)]  # fmt: skip
    facts: list[AnyFact] = [
        f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                             disposition=disposition, reason=reason, differs=differs)
    ]  # fmt: skip
    kind = kind_of(case, commitment)
    match disposition:
        case "RELEASE" | "COMPENSATE":
            facts += start_release(case, commitment, reason, [], ended=ended)
        case "RECONCILE" if _owner_decides(case, commitment):
            timer, deadline_at = _waits_for(case, commitment)
            facts.append(change(commitment, commitment.status, reason, [], timer=timer, deadline_at=deadline_at))
        case "RECONCILE":
            facts += reconcile(case, commitment, reason)
        case "REVALIDATE" | "TRANSFER":
            facts.append(change(commitment, commitment.status, reason, [], timer="DISPOSITION",
                                deadline_at=case.now + kind.disposition_ms))  # fmt: skip
        case "KEEP":
            if not planned and commitment.status == "ACTIVE":
                # Nothing has taken it up yet: if no plan does in time, somebody has to know.
                facts.append(change(commitment, "ACTIVE", reason, [], timer="DISPOSITION",
                                    deadline_at=case.now + kind.disposition_ms))  # fmt: skip
            elif commitment.timer == "DISPOSITION":
                timer, deadline_at = _waits_for(case, commitment)
                facts.append(change(commitment, commitment.status, reason, [], timer=timer, deadline_at=deadline_at))
            facts += cleared(case, commitment.intent_id, commitment.commitment_id, _CLEARED_WHEN_KEPT, reason)
        case "UNKNOWN":
            raise ValueError(f"commitment {commitment.commitment_id}: UNKNOWN is no disposition that one can decide")
        case _:
            assert_never(disposition)
    return facts


def _waits_for(case: Case, commitment: Commitment) -> tuple[Timer, int | None]:
    """What a commitment that keeps its status waits for, once its disposition is decided (law 10)."""
    kind = kind_of(case, commitment)
    if commitment.status in ("UNKNOWN", "RECONCILIATION_REQUIRED"):
        return "RECONCILIATION", case.now + kind.reconciliation_ms
    origin = case.state.operations.get(commitment.creating_operation or "")
    if commitment.status == "PROPOSED" and origin is not None and origin.status == "SETTLED":
        return "VERIFICATION", case.now + kind.verification_ms
    if commitment.status == "BREACHED":
        return "ESCALATION", case.now + kind.escalation_ms
    if commitment.status == "TRANSFER_PENDING":
        return commitment.timer, commitment.deadline_at
    return "NONE", None


def resting(case: Case, commitment: Commitment, status: f.CommitmentStatus) -> tuple[Timer, int | None]:
    """What the commitment waits for where it comes to rest in `status`."""
    timer, deadline_at = _waits_for(case, changed(commitment, status=status))
    return awaits_plan(case, commitment) if status == "ACTIVE" and timer == "NONE" else (timer, deadline_at)


def revalidate(case: Case, commitment: Commitment, reason: str, differs: list[str]) -> list[AnyFact]:
    """It is to be decided anew whether anything needs it: by a plan that takes it up in time, or it is given up."""
    return _disposition(case, commitment, "REVALIDATE", reason, differs)


def _owner_decides(case: Case, commitment: Commitment) -> bool:
    """Whether no machine may release it: it may succeed, or succeeded, after its ground was gone (by its type)."""
    if kind_of(case, commitment).late_success != "ORPHAN":
        return False
    origin = case.state.operations.get(commitment.creating_operation or "")
    if origin is not None and origin.status in f.OPEN_OPERATION:
        return True
    return is_late(case, commitment)


def decided(commitment: Commitment, disposition: f.Disposition, reason: str) -> list[AnyFact]:
    """What somebody decides who may, as a fact, where it goes against what was decided before; else nothing."""
    if commitment.disposition in ("UNKNOWN", disposition):
        return []
    return [
        f.DispositionDecided(commitment_id=commitment.commitment_id, intent_id=commitment.intent_id,
                             disposition=disposition, reason=reason, differs=[])
    ]  # fmt: skip


def kept_by_decision(case: Case, commitment: Commitment, reason: str) -> list[AnyFact]:
    """Kept because a person says so: it stands on the ground that is current now, and nobody has to decide any more."""
    facts = decided(commitment, "KEEP", reason)
    kinds: tuple[OrphanKind, ...] = (*_CLEARED_WHEN_KEPT, "OVERDUE")
    return facts + cleared(case, commitment.intent_id, commitment.commitment_id, kinds, reason)


def give_up(
    case: Case, commitment: Commitment, reason: str, differs: list[str], ended: frozenset[str] = frozenset()
) -> list[AnyFact]:
    """Nothing wants it any more: by its class, unless its owner decides. `ended`: operations that end with this."""
    by_class = given_up_by(kind_of(case, commitment).resolution)
    disposition = "RECONCILE" if _owner_decides(case, commitment) else by_class
    return _disposition(case, commitment, disposition, reason, differs, ended)


def not_taken_over(case: Case, commitment: Commitment) -> list[AnyFact]:
    """It had to find another owner and did not: an incident, and somebody has to look."""
    cause = "nobody took it over in time"
    return [
        *_disposition(case, commitment, "RECONCILE", cause, ["owner_id"]),
        raise_orphan(case, "LEFT_BEHIND", "COMMITMENT", commitment.commitment_id, commitment.intent_id, cause,
                     "transfer it to who can take it over, or override, with evidence"),
    ]  # fmt: skip


def not_planned(case: Case, commitment: Commitment) -> list[AnyFact]:
    """It was kept, and no plan has taken it up: an incident until one does, or it is released; and asked again."""
    timer, deadline_at = resting(case, commitment, commitment.status)
    cause = "it was kept, and no plan took it up in time"
    facts: list[AnyFact] = [change(commitment, commitment.status, cause, [], timer=timer, deadline_at=deadline_at)]
    if unplanned(case, commitment):
        facts.append(
            raise_orphan(case, "LEFT_BEHIND", "COMMITMENT", commitment.commitment_id, commitment.intent_id, cause,
                         "adopt a plan that uses it, or release it")
        )  # fmt: skip
    return facts


def _being_released(row: Commitment) -> bool:
    return row.status == "RELEASE_PENDING" or (row.status == "BREACHED" and row.release_wanted)


def _open_to_disposition(case: Case, intent: Intent, withdrawn: set[str]) -> list[Commitment]:
    """Commitments that a change of ground concerns: not those under release, nor those whose creation is withdrawn."""
    if not intent.commitments_open:
        return []
    rows = [case.state.commitments.get(one) for one in case.state.open_commitments.members(intent.intent_id)]
    return [
        row for row in rows
        if row is not None and not _being_released(row) and row.creating_operation not in withdrawn
    ]  # fmt: skip


def on_superseded(
    case: Case, intent: Intent, goals: dict[str, str], parents: dict[str, str], withdrawn: set[str]
) -> list[AnyFact]:
    """A higher version: goals that are untouched keep theirs, changed ones are looked at again, lost ones give up.

    A goal is touched by what changes in itself or below it, never by what changes above or beside it. `goals` and
    `parents` are those of the new version.
    """
    facts: list[AnyFact] = []
    if not intent.commitments_open:
        return facts
    before, after = subtrees(intent.goals, intent.parents), subtrees(goals, parents)
    for row in _open_to_disposition(case, intent, withdrawn):
        if row.goal_id is None:
            facts += _disposition(case, row, "REVALIDATE", "its intent was superseded", ["intent_version"])
        elif row.goal_id not in goals:
            facts += give_up(case, row, f"goal {row.goal_id} is gone", ["goal_id"], frozenset(withdrawn))
        elif goals[row.goal_id] != intent.goals.get(row.goal_id):
            facts += _disposition(case, row, "REVALIDATE", f"goal {row.goal_id} changed", ["goal"])
        elif after[row.goal_id] != before.get(row.goal_id):
            facts += _disposition(case, row, "REVALIDATE", f"what is part of goal {row.goal_id} changed", ["subgoals"])
        else:
            facts += _disposition(case, row, "KEEP", f"goal {row.goal_id} is untouched", [], planned=False)
    return facts


def on_cancelled(case: Case, intent: Intent, withdrawn: set[str]) -> list[AnyFact]:
    """Nobody wants the outcome: every open obligation is given up, as reconciliation work."""
    facts: list[AnyFact] = []
    for row in _open_to_disposition(case, intent, withdrawn):
        facts += give_up(case, row, "its intent was cancelled", ["intent"], frozenset(withdrawn))
    return facts


def on_planned(
    case: Case, intent: Intent, slots: dict[str, c.Arguments], named: set[str], withdrawn: set[str]
) -> list[AnyFact]:
    """A new plan: what it names, or creates in the same slot with the same attributes, is kept; the rest given up."""
    facts: list[AnyFact] = []
    for row in _open_to_disposition(case, intent, withdrawn):
        origin = case.state.operations.get(row.creating_operation or "")
        wanted = slots.get(f"{origin.action}\x1f{origin.business_key}") if origin is not None else None
        if row.commitment_id in named:
            facts += _disposition(case, row, "KEEP", "the new plan uses it", [])
        elif origin is None:
            facts += _disposition(case, row, "KEEP", "it was promised, and no plan makes it", [])
        elif wanted is None:
            facts += give_up(case, row, "the new plan does not need it", ["slot"], frozenset(withdrawn))
        else:
            differs = [name for name, value in row.attributes.items() if str(wanted.get(name, value)) != value]
            if differs:
                facts += give_up(case, row, "the new plan needs another", differs, frozenset(withdrawn))
            else:
                facts += _disposition(case, row, "KEEP", "the new plan needs the same", [])
    return facts
