"""Owners that are gone: everything that they own becomes an orphan, a bounded number in each decision."""

from joingate_processors.law import leases
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import NO_OWNER_ADVICE, raise_orphan
from joingate_processors.law.state import Owner
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact

SWEEP_MAX = 500
"""How many commitments of a retired owner one decision finds: its record stays well below what a ledger record may be,
and 100,000 of them take 200 decisions, between which other claims are heard."""


def retire(case: Case, claim: c.RetireOwner) -> Ruling:
    """The owner is gone: it gets nothing new, and what it owns on this partition is found, beginning now."""
    if not claim.owner_id:
        refuse("MALFORMED", "owner_id is empty: name the owner that is gone")
    known = case.state.owners.get(claim.owner_id)
    if known is not None:
        return Ruling("REPLAYED", "ALREADY_SO", f"retired before; {known.found} found", claim.owner_id, "RETIRED")
    facts = _sweep(case, claim.owner_id, claim.reason, case.now, 0, "")
    return Ruling("ACCEPTED", "OK", "", claim.owner_id, "RETIRED", facts)


def _sweep(case: Case, owner_id: str, reason: str, retired_at: int, found: int, after: str) -> list[AnyFact]:
    """The next commitments of the owner above the id `after`, each an orphan; and a timer if there may be more."""
    page = case.state.owned_commitments.page(owner_id, after, SWEEP_MAX)
    more = len(page) == SWEEP_MAX
    facts: list[AnyFact] = [
        f.OwnerRetired(owner_id=owner_id, reason=reason, retired_at=retired_at, found=found + len(page),
                       swept=page[-1] if page else after,
                       # Later than now, so that the timer which fires is another one than the timer that follows.
                       deadline_at=case.now + 1 if more else None)
    ]  # fmt: skip
    for one in page:
        row = case.state.commitments.get(one)
        if row is not None:
            facts.append(
                raise_orphan(case, "NO_OWNER", "COMMITMENT", one, row.intent_id, f"its owner {owner_id} was retired",
                             NO_OWNER_ADVICE)
            )  # fmt: skip
    return facts


def timer_fired(case: Case, claim: c.TimerFired) -> Ruling:
    """A retired owner is swept on, or a worker's lease ran out; a timer that no longer fits decides nothing."""
    if claim.subject_kind == "OWNER":
        owner = case.state.owners.get(claim.subject_id)
        if owner is not None and (owner.timer, owner.deadline_at) == (claim.timer, claim.due_at):
            return _swept_on(case, owner)
    if claim.subject_kind == "LEASE":
        held = case.state.custodies.get(claim.subject_id)
        if held is not None and (held.timer, held.deadline_at) == (claim.timer, claim.due_at):
            return leases.ran_out(case, held)
    refuse("ALREADY_RESOLVED", f"{claim.timer} of {claim.subject_id} is not waited for any more", claim.subject_id)


def _swept_on(case: Case, owner: Owner) -> Ruling:
    facts = _sweep(case, owner.owner_id, owner.reason, owner.retired_at, owner.found, owner.swept)
    return Ruling("ACCEPTED", "OK", f"{owner.found} found before", owner.owner_id, "RETIRED", facts)
