"""Changes of owner: asked for, acknowledged or seen, then the token rises; a message alone moves nothing (model §6).

The status TRANSFERRED is the end of an obligation that has left our books: an `external` owner took it over, and its
type is TRANSFERABLE. Between owners on our books the commitment goes on, with the status that it had.
"""

from joingate_processors.law import commitment_claims, commitments, custody, dispositions, leases
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import change, kind_of
from joingate_processors.law.state import Commitment, Custody
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact, CommitmentStatus, OrphanKind
from joingate_schemas.record import changed

_CLEARED_BY_AN_OWNER: tuple[OrphanKind, ...] = ("NO_OWNER", "LEFT_BEHIND", "OVERDUE")
_MAY_HAVE_ACTED = "its target may have acted, and has not acknowledged"


def transfer(case: Case, claim: c.Transfer) -> Ruling:
    """The owner asks another one to take over. Until that one answers, nobody may start anything new."""
    target = claim.target_owner
    if claim.target_intent_id is not None and target != f"intent:{claim.target_intent_id}":
        refuse("MALFORMED", f"target_owner is '{target}', which is not intent:{claim.target_intent_id}",
               claim.commitment_id)  # fmt: skip
    if claim.acknowledge_by is not None and claim.acknowledge_by <= case.now:
        refuse("MALFORMED", f"acknowledge_by {claim.acknowledge_by} is past", claim.commitment_id)
    custody.open_ground(case, claim.intent_id, claim.commitment_id, 0)
    row = commitment_claims.known(case, claim.intent_id, claim.commitment_id)
    offer = custody.offer_of(case, row)
    if offer is not None:
        return _while_offered(case, claim, row, offer)
    if target == row.owner_id:
        return Ruling("REPLAYED", "ALREADY_SO", f"{target} owns it", row.commitment_id, row.status)
    if row.status not in ("ACTIVE", "BREACHED") or row.release_wanted:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}: only what is in force, or unmet, can be handed over",
               row.commitment_id, row.status)  # fmt: skip
    custody.check_authority(case, claim, row)
    custody.check_can_own(case, row, target)
    _check_may_leave(case, row, target)
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, "TRANSFER_PENDING", _offered(case, claim, row))


def _offered(case: Case, claim: c.Transfer, row: Commitment) -> list[AnyFact]:
    held = case.state.custodies.get(row.commitment_id)
    by = claim.acknowledge_by if claim.acknowledge_by is not None else case.now + kind_of(case, row).transfer_ms
    return [
        f.TransferOffered(
            commitment_id=row.commitment_id, intent_id=row.intent_id, owner_id=row.owner_id,
            target_owner=claim.target_owner, target_intent_id=claim.target_intent_id,
            fencing_token=1 if held is None else max(held.offered_token, held.fencing_token) + 1,
            acknowledge_by=by, reason=claim.reason,
        ),
        change(row, "TRANSFER_PENDING", f"{claim.target_owner} is asked to take over", [], timer="TRANSFER",
               deadline_at=by),
    ]  # fmt: skip


def _while_offered(case: Case, claim: c.Transfer, row: Commitment, offer: Custody) -> Ruling:
    """The same offer again; or its owner names itself, and so takes it back."""
    if claim.target_owner == offer.target_owner:
        return Ruling("REPLAYED", "ALREADY_SO", f"{offer.target_owner} is asked", row.commitment_id, row.status)
    if claim.target_owner != row.owner_id or row.status != "TRANSFER_PENDING":
        refuse("IN_TRANSFER", f"{offer.target_owner} is asked to take it over, with token {offer.offered_token}",
               row.commitment_id, row.status)  # fmt: skip
    custody.check_authority(case, claim, row)
    return _ruled(row, not_taken(case, row, claim.reason or "its owner took the offer back"))


def _ruled(row: Commitment, facts: list[AnyFact]) -> Ruling:
    after = [fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)]
    return Ruling("ACCEPTED", "OK", "", row.commitment_id, after[-1] if after else row.status, facts)


def _check_may_leave(case: Case, row: Commitment, target: str) -> None:
    if custody.is_external(case, target) and kind_of(case, row).resolution != "TRANSFERABLE":
        refuse("NOT_TRANSFERABLE", f"{row.obligation_type} may not leave our books, and {target} is outside them",
               row.commitment_id, row.status)  # fmt: skip


def accept(case: Case, claim: c.AcceptTransfer) -> Ruling:
    """The target takes over: with the offer's token, and with the evidence that the type asks for."""
    custody.open_ground(case, claim.intent_id, claim.commitment_id, 0)
    row = commitment_claims.known(case, claim.intent_id, claim.commitment_id)
    offer = custody.offer_of(case, row)
    if offer is None and row.owner_id == claim.owner_id:
        return Ruling("REPLAYED", "ALREADY_SO", f"{claim.owner_id} owns it", row.commitment_id, row.status)
    if offer is None:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}, and nobody is asked to take it over", row.commitment_id,
               row.status)  # fmt: skip
    if claim.owner_id != offer.target_owner or not custody.speaks_for(case, claim.principal, claim.owner_id):
        refuse("NOT_OWNER", f"{offer.target_owner} is asked, not '{claim.owner_id}' by '{claim.principal}'",
               row.commitment_id, row.status)  # fmt: skip
    if claim.fencing_token != offer.offered_token:
        refuse("STALE_FENCE", f"the offer's token is {offer.offered_token}, not {claim.fencing_token}",
               row.commitment_id, row.status)  # fmt: skip
    custody.check_can_own(case, row, claim.owner_id)
    _check_may_leave(case, row, claim.owner_id)
    lacks = _lacking(case, row, offer, claim.evidence)
    if lacks:
        refuse("NO_EVIDENCE", lacks, row.commitment_id, row.status)
    evidence = [*claim.evidence, f"accepted:{claim.claim_id}"]
    return _ruled(row, taken(case, row, offer, f"{claim.owner_id} acknowledged", evidence))


def _lacking(case: Case, row: Commitment, offer: Custody, evidence: list[str]) -> str:
    """What the evidence of taking over lacks, as a sentence; empty if nothing."""
    kind: ObligationType = kind_of(case, row)
    missing = [one for one in kind.transfer_evidence if not any(item.startswith(f"{one}:") for item in evidence)]
    if missing:
        return f"taking over a {kind.name} needs evidence that begins with {', '.join(f'{one}:' for one in missing)}"
    if custody.is_external(case, offer.target_owner) and not any(evidence):
        return f"what leaves our books for {offer.target_owner} needs evidence that it was received"
    return ""


def taken(case: Case, row: Commitment, offer: Custody, cause: str, evidence: list[str]) -> list[AnyFact]:
    """The offer's target owns it from here on; outside our books it is TRANSFERRED, else it goes on as it was."""
    facts = owned_by(case, row, offer.target_owner, offer.offered_token, cause, evidence)
    if custody.is_external(case, offer.target_owner):
        return facts + commitments.discharged(case, row, "TRANSFERRED", cause, evidence)
    facts += _goes_on(case, row, offer, cause, evidence)
    return facts + _come_home(case, row, offer.target_owner, offer.resumes if _resumed(facts) else row.status)


def _come_home(case: Case, row: Commitment, owner_id: str, status: CommitmentStatus) -> list[AnyFact]:
    """What its own intent gets back is looked at again, where the intent has moved on since it gave it away."""
    home = changed(row, owner_id=owner_id, status=status)
    if status != "ACTIVE" or not commitments.left_behind(case, home):
        return []
    return dispositions.revalidate(case, home, "it came back to its intent", ["plan"])


def owned_by(
    case: Case, row: Commitment, owner_id: str, token: int, cause: str, evidence: list[str]
) -> list[AnyFact]:  # fmt: skip
    """The new owner, with what its coming ends: the lease under the old one, and incidents of having none."""
    facts: list[AnyFact] = [
        f.OwnerChanged(commitment_id=row.commitment_id, intent_id=row.intent_id, before=row.owner_id, after=owner_id,
                       fencing_token=token, cause=cause, evidence=evidence),
        *leases.ended(case, row, "its owner changed"),
    ]  # fmt: skip
    return facts + commitments.cleared(case, row.intent_id, row.commitment_id, _CLEARED_BY_AN_OWNER, cause)


def _goes_on(case: Case, row: Commitment, offer: Custody, cause: str, evidence: list[str]) -> list[AnyFact]:
    after: CommitmentStatus = offer.resumes
    origin = case.state.operations.get(row.creating_operation or "")
    if origin is not None and origin.status != "SETTLED":
        return commitments.reconcile(case, row, f"{cause}; its creation is {origin.status}", evidence)
    timer, deadline_at = dispositions.resting(case, row, after)
    return [change(row, after, cause, evidence, timer=timer, deadline_at=deadline_at)]


def not_taken(case: Case, row: Commitment, cause: str) -> list[AnyFact]:
    """Back to its owner by an explicit event, or in question if the target may have acted.

    If its ground has gone meanwhile, it is given up at once, as it would have been then.
    """
    offer = custody.offer_of(case, row)
    if offer is None:
        return []
    if offer.acted:
        return commitments.reconcile(case, row, f"{cause}; {_MAY_HAVE_ACTED}")
    return _back(case, row, offer, cause, [])


def _back(case: Case, row: Commitment, offer: Custody, cause: str, evidence: list[str]) -> list[AnyFact]:
    facts = _goes_on(case, row, offer, f"back to its owner {row.owner_id}: {cause}", evidence)
    if _resumed(facts):
        facts += commitments.cleared(case, row.intent_id, row.commitment_id, ("OVERDUE",), cause)
    as_before = changed(row, status=offer.resumes)
    if offer.resumes == "ACTIVE" and _resumed(facts) and commitments.left_behind(case, row):
        facts += dispositions.give_up(case, as_before, "its ground went while it was offered", ["plan"])
    return facts


def _resumed(facts: list[AnyFact]) -> bool:
    return any(isinstance(fact, f.CommitmentChanged) and fact.after != "RECONCILIATION_REQUIRED" for fact in facts)


def overdue(case: Case, row: Commitment) -> list[AnyFact]:
    """The target has not acknowledged in time."""
    return not_taken(case, row, "nobody acknowledged in time")


def observed(case: Case, claim: c.Observe, row: Commitment) -> tuple[CommitmentStatus, list[AnyFact]] | None:
    """What the news means for a transfer under way: its status and facts; None if it is about something else.

    Who is seen to act has taken over. That it may be at it lets the offer go back no more.
    """
    offer = custody.offer_of(case, row)
    if offer is None or claim.finding not in ("PRESENT", "PENDING"):
        return None
    target, facts = offer.target_owner, list[AnyFact]()
    if claim.owner_id == target:
        fit = custody.can_own(case, row, target)
        if claim.finding == "PRESENT" and fit and not _lacking(case, row, offer, claim.evidence):
            evidence = [*claim.evidence, f"observed:{claim.claim_id}"]
            facts = taken(case, row, offer, f"{target} was seen to act", evidence)
        elif not offer.acted:
            facts = [f.TransferSeen(commitment_id=row.commitment_id, intent_id=row.intent_id, target_owner=target,
                                    evidence=claim.evidence)]  # fmt: skip
    elif claim.owner_id == row.owner_id and row.status == "RECONCILIATION_REQUIRED" and claim.finding == "PRESENT":
        facts = _back(case, row, offer, "it was seen to act itself", claim.evidence)
    after = [fact.after for fact in facts if isinstance(fact, f.CommitmentChanged)]
    return (after[-1] if after else row.status), facts


def assign(case: Case, claim: c.AssignOwner) -> Ruling:
    """The control plane gives it an owner, as far as a declared policy goes; nobody has to acknowledge."""
    row = commitment_claims.known(case, claim.intent_id, claim.commitment_id)
    identity, status, owner_id = row.commitment_id, row.status, claim.owner_id
    policy = case.catalogue.policies.get(claim.policy)
    if policy is None:
        known = ", ".join(sorted(case.catalogue.policies)) or "none"
        refuse("UNKNOWN_POLICY", f"the catalogue has no policy '{claim.policy}'; declared are: {known}", identity)
    offer = custody.offer_of(case, row)
    if offer is None and owner_id == row.owner_id:
        return Ruling("REPLAYED", "ALREADY_SO", f"{owner_id} owns it", identity, status)
    if status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"it is {status}, so nobody has to own it", identity, status)
    if status == "TRANSFER_PENDING" and offer is not None and owner_id != offer.target_owner:
        refuse("IN_TRANSFER", f"{offer.target_owner} is asked to take it over", identity, status)
    custody.check_can_own(case, row, owner_id)
    fits = not policy.obligations or row.obligation_type in policy.obligations
    if custody.owner_kind(owner_id) not in policy.owners or not fits or custody.is_external(case, owner_id):
        refuse("POLICY_FORBIDS", f"policy {policy.name} gives no {row.obligation_type} to {owner_id}", identity, status)
    if offer is None and not policy.takeover and not custody.is_retired(case, row.owner_id):
        refuse("POLICY_FORBIDS", f"its owner {row.owner_id} is valid, and policy {policy.name} takes nothing over",
               identity, status)  # fmt: skip
    cause = f"assigned under policy {policy.name}"
    evidence = [f"assigned:{claim.claim_id}"]
    if offer is not None and owner_id == row.owner_id:
        return _ruled(row, _back(case, row, offer, cause, evidence))
    if offer is not None:
        return _ruled(row, taken(case, row, changed(offer, target_owner=owner_id), cause, evidence))
    return _ruled(row, _assigned(case, row, owner_id, cause, evidence))


def _assigned(case: Case, row: Commitment, owner_id: str, cause: str, evidence: list[str]) -> list[AnyFact]:
    held = case.state.custodies.get(row.commitment_id)
    token = 1 if held is None else max(held.offered_token, held.fencing_token) + 1
    facts = owned_by(case, row, owner_id, token, cause, evidence)
    if row.timer == "DISPOSITION":
        # What becomes of it is no longer decided by the change of plan of an intent that does not own it.
        timer, deadline_at = dispositions.resting(case, row, row.status)
        facts.append(change(row, row.status, cause, [], timer=timer, deadline_at=deadline_at))
    return facts + _come_home(case, row, owner_id, row.status)
