"""Who has a commitment in hand: which owners last, who may speak for them, and that a foreign one outlives its intent.

The guards here are shared by every rule about commitments, so this room knows no other rule.
"""

from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import Commitment, Custody, Operation
from joingate_schemas import claims as c

_WORKER = "worker"


def owner_kind(owner_id: str) -> str:
    """The kind of an owner, as `team` of `team:operations`; empty if the id names no kind, or nobody of it."""
    kind, _, name = owner_id.partition(":")
    return kind if name else ""


def is_durable(case: Case, owner_id: str) -> bool:
    """Whether the owner outlives processes, by its declared kind; a worker never does."""
    kind = owner_kind(owner_id)
    if kind in ("intent", _WORKER, ""):
        return kind == "intent"
    declared = case.catalogue.owners.get(kind)
    return not case.catalogue.owners if declared is None else declared.durable


def is_external(case: Case, owner_id: str) -> bool:
    """Whether what the owner takes over leaves our books."""
    declared = case.catalogue.owners.get(owner_kind(owner_id))
    return declared is not None and declared.external


def is_retired(case: Case, owner_id: str) -> bool:
    """Whether the owner was said to be gone."""
    return case.state.owners.get(owner_id) is not None


def own_intent(row: Commitment) -> str:
    """The owner that the intent of the commitment is."""
    return f"intent:{row.intent_id}"


def is_foreign(row: Commitment) -> bool:
    """Whether somebody else than its intent owns it: then no change of that intent concerns it any more."""
    return row.owner_id != own_intent(row)


def check_owner(case: Case, owner_id: str, subject_id: str = "", status: str = "") -> None:
    """Refuse unless the owner may be given something: it is durable, and not retired."""
    if not is_durable(case, owner_id):
        refuse("NOT_DURABLE", f"'{owner_id}' is no durable owner: name one as kind:name, of a kind that is declared "
               "durable; a worker is none", subject_id, status)  # fmt: skip
    if is_retired(case, owner_id):
        refuse("OWNER_RETIRED", f"owner {owner_id} was retired, and is given nothing new", subject_id, status)


def open_ground(case: Case, intent_id: str, commitment_id: str, version: int) -> None:
    """Refuse unless the intent is open, at `version` (0: any). What somebody else owns is decided without asking it."""
    row = case.state.commitments.get(commitment_id)
    if row is None or row.intent_id != intent_id or not is_foreign(row):
        case.open_intent(intent_id, version)


def discharges_another(case: Case, operation: Operation) -> bool:
    """Whether the operation is the gate's own, to discharge what somebody else than its intent owns."""
    row = case.state.commitments.get(operation.commitment_id or "") if not operation.plan_id else None
    return row is not None and is_foreign(row)


def can_own(case: Case, row: Commitment, owner_id: str) -> bool:
    """Whether the commitment can be given to the owner now: it lasts, is not gone, and is no closed intent of ours."""
    if not is_durable(case, owner_id) or is_retired(case, owner_id):
        return False
    intent = case.state.intents.get(row.intent_id) if owner_id == own_intent(row) else None
    return intent is None or intent.status != "CLOSED"


def check_can_own(case: Case, row: Commitment, owner_id: str) -> None:
    """Refuse unless the commitment can be given to the owner now."""
    check_owner(case, owner_id, row.commitment_id, row.status)
    if not can_own(case, row, owner_id):
        refuse("INTENT_CLOSED", f"intent {row.intent_id} is closed, and is given nothing back", row.commitment_id,
               row.status)  # fmt: skip


def fencing_token(case: Case, row: Commitment) -> int:
    """The token that claims for the present owner carry; 0 while it never changed."""
    held = case.state.custodies.get(row.commitment_id)
    return 0 if held is None else held.fencing_token


def speaks_for(case: Case, principal: str, owner_id: str) -> bool:
    """Whether the catalogue lets the principal speak for the owner, by its id or by its kind."""
    known = case.catalogue.principals.get(principal)
    return known is None or not known.owners or owner_id in known.owners or owner_kind(owner_id) in known.owners


def check_authority(
    case: Case, claim: c.Release | c.Transfer | c.MarkSatisfied | c.RequestReconciliation, row: Commitment
) -> None:
    """Refuse unless the claim speaks for the present owner: who gave a commitment away has lost it (model §6)."""
    token = fencing_token(case, row)
    if claim.fencing_token != token:
        refuse("STALE_FENCE", f"token {claim.fencing_token} is not that of its owner {row.owner_id}, which is {token}",
               row.commitment_id, row.status)  # fmt: skip
    if not speaks_for(case, claim.principal, row.owner_id):
        refuse("NOT_OWNER", f"'{claim.principal}' may not speak for its owner {row.owner_id}", row.commitment_id,
               row.status)  # fmt: skip


def check_not_in_transfer(case: Case, row: Commitment) -> None:
    """Refuse while a transfer is under way, or in question: neither side may start anything new."""
    if offer_of(case, row) is not None:
        refuse("IN_TRANSFER", f"commitment {row.commitment_id} waits for somebody to take it over", row.commitment_id,
               row.status)  # fmt: skip


def out_of_hand(case: Case, row: Commitment) -> bool:
    """Whether nothing that its intent does may touch it now: it is somebody else's, or may be about to be."""
    return is_foreign(row) or offer_of(case, row) is not None


def offer_of(case: Case, row: Commitment) -> Custody | None:
    """The transfer that may still be taken up: pending, or in question since its target may have acted; else None."""
    held = case.state.custodies.get(row.commitment_id)
    if held is None or not held.target_owner:
        return None
    in_question = row.status == "RECONCILIATION_REQUIRED" and held.acted
    return held if row.status == "TRANSFER_PENDING" or in_question else None
