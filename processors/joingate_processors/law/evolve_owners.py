"""What facts about owners, transfers and leases do to state, and how a commitment's row keeps its indexes in step."""

from joingate_processors.law import evolve_debt
from joingate_processors.law.evolve_archive import stirred
from joingate_processors.law.state import Commitment, Custody, Owner, State
from joingate_schemas import facts as f
from joingate_schemas.facts import TERMINAL_COMMITMENT
from joingate_schemas.record import changed


def put_commitment(state: State, before: Commitment | None, after: Commitment) -> None:
    """Store `after`, keeping the indexes of what is not discharged, its intent's count and its custody in step."""
    state.commitments.put(after.commitment_id, after)
    evolve_debt.commitment_put(state, before, after)
    was, now = _owner_of_open(before), _owner_of_open(after)
    if was != now:
        if was is not None:
            state.owned_commitments.remove(was, after.commitment_id)
        if now is not None:
            state.owned_commitments.add(now, after.commitment_id)
        _count(state, before, after, was, now)
    if before is not None and before.status != after.status:
        _end_custody(state, after)


def _owner_of_open(row: Commitment | None) -> str | None:
    return None if row is None or row.status in TERMINAL_COMMITMENT else row.owner_id


def _count(state: State, before: Commitment | None, row: Commitment, was: str | None, now: str | None) -> None:
    """What others own does not count as the intent's own: it neither blocks its close nor ends with it."""
    own = f"intent:{row.intent_id}"
    mine = (now == own) - (was == own)
    if mine > 0:
        state.open_commitments.add(row.intent_id, row.commitment_id)
    elif mine < 0:
        state.open_commitments.remove(row.intent_id, row.commitment_id)
    others = _is_elsewhere(state, row, now, own) - (before is not None and _is_elsewhere(state, before, was, own))
    intent = state.intents.get(row.intent_id) if mine or others else None
    if intent is not None:
        after = changed(intent, commitments_open=intent.commitments_open + mine,
                        commitments_elsewhere=intent.commitments_elsewhere + others)  # fmt: skip
        state.intents.put(row.intent_id, after)
        stirred(state, intent)


def _is_elsewhere(state: State, row: Commitment, owner: str | None, own: str) -> bool:
    """Whether somebody else has it in hand: its open owner; or one outside our books, who holds something scarce."""
    if row.status != "TRANSFERRED":
        return owner is not None and owner != own
    origin = state.operations.get(row.creating_operation or "")
    return origin is not None and bool(origin.needs)


def _end_custody(state: State, row: Commitment) -> None:
    """A lease ends with its commitment; an offer ends once the commitment is neither offered nor in question."""
    held = state.custodies.get(row.commitment_id)
    if held is None:
        return
    in_question = row.status == "RECONCILIATION_REQUIRED" and held.acted
    if held.target_owner and row.status != "TRANSFER_PENDING" and not in_question:
        held = changed(held, target_owner="", acted=False)
    if held.worker and row.status in TERMINAL_COMMITMENT:
        held = changed(held, worker="", timer="NONE", deadline_at=None)
    state.custodies.put(row.commitment_id, held)


def _custody(state: State, commitment_id: str, intent_id: str) -> Custody:
    held = state.custodies.get(commitment_id)
    if held is not None:
        return held
    return Custody(
        commitment_id=commitment_id, intent_id=intent_id, fencing_token=0, offered_token=0, target_owner="",
        resumes="ACTIVE", acted=False, worker="", lease_token=0, timer="NONE", deadline_at=None,
    )  # fmt: skip


def transfer_offered(state: State, fact: f.TransferOffered) -> None:
    """Somebody is asked to take over; the row still shows what it goes back to."""
    row = state.commitments.get(fact.commitment_id)
    if row is not None:
        held = _custody(state, fact.commitment_id, fact.intent_id)
        held = changed(held, offered_token=fact.fencing_token, target_owner=fact.target_owner, resumes=row.status,
                       acted=False)  # fmt: skip
        state.custodies.put(fact.commitment_id, held)


def transfer_seen(state: State, fact: f.TransferSeen) -> None:
    """The target may have acted."""
    held = state.custodies.get(fact.commitment_id)
    if held is not None and held.target_owner == fact.target_owner:
        state.custodies.put(fact.commitment_id, changed(held, acted=True))


def owner_changed(state: State, fact: f.OwnerChanged) -> None:
    """The commitment is another's: the token is the new owner's, and no offer stands any more."""
    row = state.commitments.get(fact.commitment_id)
    if row is None:
        return
    held = _custody(state, fact.commitment_id, fact.intent_id)
    held = changed(held, fencing_token=fact.fencing_token, target_owner="", acted=False)
    state.custodies.put(fact.commitment_id, held)
    put_commitment(state, row, changed(row, owner_id=fact.after))


def lease_changed(state: State, fact: f.LeaseChanged) -> None:
    """A worker has the lease, or nobody any more."""
    if state.commitments.get(fact.commitment_id) is not None:
        held = _custody(state, fact.commitment_id, fact.intent_id)
        held = changed(held, worker=fact.worker, lease_token=fact.fencing_token,
                       timer="NONE" if fact.deadline_at is None else "LEASE", deadline_at=fact.deadline_at)  # fmt: skip
        state.custodies.put(fact.commitment_id, held)


def owner_retired(state: State, fact: f.OwnerRetired) -> None:
    """The owner is gone, and its commitments were found up to `swept`."""
    state.owners.put(
        fact.owner_id,
        Owner(owner_id=fact.owner_id, reason=fact.reason, retired_at=fact.retired_at, found=fact.found,
              swept=fact.swept, timer="NONE" if fact.deadline_at is None else "RETIREMENT",
              deadline_at=fact.deadline_at),
    )  # fmt: skip
