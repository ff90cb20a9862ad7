"""The checker's book of commitments: how an obligation may move, and what each end of it needs to show."""

from dataclasses import dataclass, field

from joingate_processors.forensics.checked_operations import OperationBook
from joingate_processors.forensics.violations import Report
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.claims import AnyClaim
from joingate_schemas.decisions import Decision

_TERMINAL = ("SATISFIED", "RELEASED", "TRANSFERRED")
_WAITING = (
    "PENDING_CONDITION", "RELEASE_PENDING", "BREACHED", "TRANSFER_PENDING", "RECONCILIATION_REQUIRED", "UNKNOWN",
)  # fmt: skip
_NEVER_AGAIN = ("ACTIVE", "PROPOSED", "PENDING_CONDITION")
_NEWS = ("Observe", "Override", "Commit")  # what can carry evidence that is newer than an ending


@dataclass
class Obligation:
    """One commitment as the facts so far tell it."""

    proposed: f.CommitmentProposed
    status: str
    owner: str
    token: int = 0
    offered: int = 0
    orphaned: bool = False
    version: int = 1
    draws: dict[str, f.CommitmentDrawn] = field(default_factory=dict)  # by operation


class CommitmentBook:
    """Every commitment of one ledger."""

    def __init__(self, report: Report, operations: OperationBook) -> None:
        self._report = report
        self._operations = operations
        self.obligations: dict[str, Obligation] = {}
        self._of_intent: dict[str, list[str]] = {}
        self._retired: set[str] = set()

    def open_of(self, intent_id: str) -> list[str]:
        """The ids of the intent's commitments that are not discharged, and that nobody else owns."""
        found = [(one, self.obligations[one]) for one in self._of_intent.get(intent_id, ())]
        own = f"intent:{intent_id}"
        return [one for one, known in found if known.status not in _TERMINAL and known.owner == own]

    def of_intent(self, intent_id: str) -> list[Obligation]:
        """The intent's commitments, whoever owns them, in the order in which they were proposed."""
        return [self.obligations[one] for one in self._of_intent.get(intent_id, ())]

    def is_foreign(self, commitment_id: str | None) -> bool:
        """Whether somebody else than its intent owns it."""
        known = self.obligations.get(commitment_id or "")
        return known is not None and known.owner != f"intent:{known.proposed.intent_id}"

    def proposed(self, fact: f.CommitmentProposed) -> None:
        """A new obligation."""
        known = self.obligations.get(fact.commitment_id)
        if known is not None and known.status not in _TERMINAL:
            self._report("TRANSITION", (fact.commitment_id,), f"it is proposed, and is {known.status} already")
        elif known is not None:
            self._report("TERMINAL", (fact.commitment_id,), f"it is proposed again after it was {known.status}")
        else:
            self._of_intent.setdefault(fact.intent_id, []).append(fact.commitment_id)
        if fact.owner_id in self._retired:
            self._report("RETIRED", (fact.commitment_id, fact.owner_id), "it is given to an owner that is gone")
        self.obligations[fact.commitment_id] = Obligation(fact, "PROPOSED", fact.owner_id, version=fact.type_version)

    def drawn(self, fact: f.CommitmentDrawn) -> None:
        """An operation takes of it, which must hold that much beside what others take."""
        known = self.obligations.get(fact.commitment_id)
        if known is None:
            self._report("KNOWN", (fact.commitment_id, fact.operation_id), "it is drawn on, and was never proposed")
            return
        known.draws[fact.operation_id] = fact
        taken = sum(one.quantity for one in known.draws.values() if self._takes(one))
        if known.proposed.quantity is None or taken > known.proposed.quantity:
            self._report("DRAWN", (fact.commitment_id, fact.operation_id), f"{taken} are taken of it, and it holds "
                         f"{known.proposed.quantity or 0:g}")  # fmt: skip

    def migrated(self, fact: f.CommitmentMigrated, decision: Decision) -> None:
        """Another version of its type rules it: by a person's word, to a later one, while it is open."""
        known = self.obligations.get(fact.commitment_id)
        if known is None:
            self._report("KNOWN", (fact.commitment_id,), "it is moved to another version, and was never proposed")
            return
        if known.status in _TERMINAL:
            self._report("TERMINAL", (fact.commitment_id,), f"it is moved to version {fact.after}, and is "
                         f"{known.status}")  # fmt: skip
        if fact.before != known.version or fact.after <= fact.before or decision.claim_type != "Override":
            self._report("TRANSITION", (fact.commitment_id,), f"{decision.claim_type} moves it from version "
                         f"{fact.before} to {fact.after}, and version {known.version} rules it")  # fmt: skip
        known.version = fact.after

    def _takes(self, draw: f.CommitmentDrawn) -> bool:
        effect = self._operations.effects.get(draw.operation_id)
        ended = effect is None or effect.status in ("FAILED", "WITHDRAWN", "COMPENSATED")
        return not ended and (effect is None or effect.status != "SETTLED" or draw.consumed)

    def changed(self, fact: f.CommitmentChanged, decision: Decision) -> None:
        """A transition."""
        known = self.obligations.get(fact.commitment_id)
        ids = (fact.commitment_id,)
        if known is None:
            self._report("KNOWN", ids, "a change of a commitment that was never proposed")
            return
        if fact.before != known.status:
            self._report("TRANSITION", ids, f"it goes from {fact.before} to {fact.after}, but is {known.status}")
        if known.status in _TERMINAL and fact.after != known.status:
            self._check_return(fact, known.status, decision)
        if fact.after in _TERMINAL and not any(fact.evidence):
            self._report("EVIDENCE", ids, f"it is {fact.after} with nothing to show for it")
        if fact.after == "ACTIVE" and known.status != "ACTIVE":
            self._check_in_force(known)
        if fact.after in _WAITING and (fact.deadline_at is None or fact.timer in ("NONE", "UNKNOWN")):
            self._report("DEADLINE", ids, f"it is {fact.after} and waits for nothing that would end it")
        known.status = fact.after

    def _check_return(self, fact: f.CommitmentChanged, before: str, decision: Decision) -> None:
        cited = decision.claim_type in _NEWS and any(fact.evidence)
        if fact.after in _NEVER_AGAIN or not cited:
            self._report("TERMINAL", (fact.commitment_id,), f"it was {before} and is made {fact.after} by "
                         f"{decision.claim_type}")  # fmt: skip

    def _check_in_force(self, known: Obligation) -> None:
        owner, creation = known.owner, known.proposed.operation_id
        ids = (known.proposed.commitment_id, owner)
        if not owner or owner in self._operations.workers:
            self._report("OWNER", ids, "it is ACTIVE without a durable owner")
        effect = self._operations.effects.get(creation or "")
        if creation is not None and (effect is None or effect.status != "SETTLED"):
            said = "was never opened" if effect is None else f"is {effect.status}"
            self._report("OWNER", (*ids, creation), f"it is ACTIVE, and its creating operation {said}")

    # --- owners ------------------------------------------------------------------------------------------------------

    def offered(self, fact: f.TransferOffered) -> None:
        """Somebody is asked to take over."""
        known = self.obligations.get(fact.commitment_id)
        if known is None:
            self._report("KNOWN", (fact.commitment_id,), "a transfer of a commitment that was never proposed")
            return
        if fact.fencing_token <= max(known.token, known.offered) or fact.owner_id != known.owner:
            self._report("FENCE", (fact.commitment_id,), f"it is offered by {fact.owner_id} with {fact.fencing_token}, "
                         f"and is {known.owner}'s with {max(known.token, known.offered)}")  # fmt: skip
        known.offered = fact.fencing_token

    def owned(self, fact: f.OwnerChanged, decision: Decision) -> None:
        """Somebody else owns it."""
        known = self.obligations.get(fact.commitment_id)
        ids = (fact.commitment_id, fact.after)
        if known is None:
            self._report("KNOWN", ids, "a new owner of a commitment that was never proposed")
            return
        if decision.claim_type not in ("AcceptTransfer", "AssignOwner", "Observe"):
            self._report("TRANSFER", ids, f"it changes hands by {decision.claim_type}")
        if fact.fencing_token <= known.token or fact.before != known.owner:
            self._report("FENCE", ids, f"it goes from {fact.before} with token {fact.fencing_token}, and is "
                         f"{known.owner}'s with {known.token}")  # fmt: skip
        if not fact.after or fact.after in self._operations.workers:
            self._report("OWNER", ids, "it is given to no durable owner")
        if fact.after in self._retired:
            self._report("RETIRED", ids, "it is given to an owner that is gone")
        known.owner, known.token, known.orphaned = fact.after, fact.fencing_token, False

    def spoken(self, decision: Decision, claim: AnyClaim) -> None:
        """An accepted claim of a planner's about a commitment must name the token of its owner."""
        if isinstance(claim, c.Release | c.MarkSatisfied | c.Transfer):
            known = self.obligations.get(claim.commitment_id)
            if known is not None and claim.fencing_token != known.token:
                self._report("FENCE", (claim.commitment_id, decision.claim_id), f"{decision.claim_type} names token "
                             f"{claim.fencing_token}, and its owner's is {known.token}")  # fmt: skip

    def orphan(self, fact: f.OrphanRaised) -> None:
        """An incident: that a commitment has no owner is remembered."""
        if fact.kind == "NO_OWNER" and fact.subject_id in self.obligations:
            self.obligations[fact.subject_id].orphaned = True

    def retired(self, fact: f.OwnerRetired) -> None:
        """An owner is gone: heard before the incidents of the same decision."""
        self._retired.add(fact.owner_id)

    def swept(self, fact: f.OwnerRetired) -> None:
        """The decision is read to its end: if the sweep is over, nothing of the owner's may have been missed."""
        if fact.deadline_at is not None:
            return
        for one, known in self.obligations.items():
            if known.owner == fact.owner_id and known.status not in _TERMINAL and not known.orphaned:
                self._report("RETIRED", (one, fact.owner_id), "its owner is gone, and it is no orphan")
