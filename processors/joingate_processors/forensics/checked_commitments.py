"""The checker's book of commitments: how an obligation may move, and what each end of it needs to show."""

from dataclasses import dataclass

from joingate_processors.forensics.checked_operations import OperationBook
from joingate_processors.forensics.violations import Report
from joingate_schemas import facts as f
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


class CommitmentBook:
    """Every commitment of one ledger."""

    def __init__(self, report: Report, operations: OperationBook) -> None:
        self._report = report
        self._operations = operations
        self.obligations: dict[str, Obligation] = {}
        self._of_intent: dict[str, list[str]] = {}

    def open_of(self, intent_id: str) -> list[str]:
        """The ids of the intent's commitments that are not discharged."""
        return [one for one in self._of_intent.get(intent_id, ()) if self.obligations[one].status not in _TERMINAL]

    def proposed(self, fact: f.CommitmentProposed) -> None:
        """A new obligation."""
        known = self.obligations.get(fact.commitment_id)
        if known is not None and known.status not in _TERMINAL:
            self._report("TRANSITION", (fact.commitment_id,), f"it is proposed, and is {known.status} already")
        elif known is not None:
            self._report("TERMINAL", (fact.commitment_id,), f"it is proposed again after it was {known.status}")
        else:
            self._of_intent.setdefault(fact.intent_id, []).append(fact.commitment_id)
        self.obligations[fact.commitment_id] = Obligation(fact, "PROPOSED")

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
        owner, creation = known.proposed.owner_id, known.proposed.operation_id
        ids = (known.proposed.commitment_id, owner)
        if not owner or owner in self._operations.workers:
            self._report("OWNER", ids, "it is ACTIVE without a durable owner")
        effect = self._operations.effects.get(creation or "")
        if creation is not None and (effect is None or effect.status != "SETTLED"):
            said = "was never opened" if effect is None else f"is {effect.status}"
            self._report("OWNER", (*ids, creation), f"it is ACTIVE, and its creating operation {said}")
