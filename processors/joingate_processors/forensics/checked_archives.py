"""The checker's book of archiving: what is put away had ended, long enough ago, with nothing open; and stays away."""

import json
from collections import Counter

from joingate_processors.forensics.checked_commitments import CommitmentBook
from joingate_processors.forensics.checked_operations import OperationBook
from joingate_processors.forensics.violations import Report
from joingate_schemas import facts as f
from joingate_schemas.codec import UnknownFact
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import AnyFact

_TERMINAL = ("SATISFIED", "RELEASED", "TRANSFERRED")
_OPEN = ("STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "ESCALATED")
_ENDS = (f.OperationSettled, f.OperationFailed, f.OperationWithdrawn, f.OrphanRaised, f.OrphanCleared)
# What may still be told of an archived intent: what a late record says, what is given back, and what goes.
_AFTERWARDS = (f.EffectRecorded, f.OrphanRaised, f.OrphanCleared, f.ResourceChanged, f.ClockSkewed, f.ArchiveSwept,
               f.QuarantineOpened, f.QuarantineResolved, f.HoldOpened)  # fmt: skip
# Claims that are no more about the intent whose id they carry than about any other.
_ABOUT_OTHERS = ("Override", "RetireOwner")


class ArchiveBook:
    """Every archived intent of one ledger, and what has to be known of the others before they may be."""

    def __init__(self, report: Report, operations: OperationBook, commitments: CommitmentBook) -> None:
        self._tell = report
        self._operations = operations
        self._commitments = commitments
        self._ended: dict[str, str] = {}  # intent -> how it ended
        self._changed_at: dict[str, int] = {}  # intent -> when it, or something under it, last began or ended
        self._incidents: dict[str, str] = {}  # open incident -> intent
        self._troubled: Counter[str] = Counter()  # intent -> its open incidents
        self._unreadable: dict[str, str] = {}  # open quarantine -> its scope
        self._archived: set[str] = set()
        self._retention_ms: int | None = None

    def read(self, decision: Decision) -> None:
        """Read one decision, after the books of operations and commitments have."""
        one = decision.intent_id
        granted = decision.verdict in ("ACCEPTED", "COMPENSATE") and decision.topic != "gate"
        if one in self._archived and granted and decision.claim_type not in _ABOUT_OTHERS:
            said = f"{decision.claim_type} is {decision.verdict}, and its intent was archived"
            self._tell("ARCHIVED", (one, decision.claim_id), said)
        for fact in decision.facts:
            self._read_fact(fact, decision)

    def _read_fact(self, fact: AnyFact | UnknownFact, decision: Decision) -> None:
        one: str = getattr(fact, "intent_id", "")
        if one in self._archived and not isinstance(fact, _AFTERWARDS):
            self._tell("ARCHIVED", (one,), f"{type(fact).__name__} follows under it, and it was archived")
        ends = isinstance(fact, _ENDS) or (isinstance(fact, f.CommitmentChanged) and fact.after in _TERMINAL)
        if ends:
            self._changed_at[one] = decision.decided_at
        match fact:
            case f.IntentDeclared():
                self._ended.pop(fact.intent_id, None)
            case f.IntentCancelled():
                self._end(fact.intent_id, "CANCELLED", decision)
            case f.IntentClosed():
                self._end(fact.intent_id, "CLOSED", decision)
            case f.OrphanRaised() if fact.orphan_id not in self._incidents:
                self._incidents[fact.orphan_id] = fact.intent_id
                self._troubled[fact.intent_id] += 1
            case f.OrphanCleared() if fact.orphan_id in self._incidents:
                self._troubled[self._incidents.pop(fact.orphan_id)] -= 1
            case f.QuarantineOpened():
                self._unreadable[fact.quarantine_id] = fact.scope or ""
            case f.QuarantineResolved():
                self._unreadable.pop(fact.quarantine_id, None)
            case f.CatalogueLoaded():
                self._retention_ms = _retention_of(fact.catalogue)
            case f.IntentArchived():
                self._check(fact, decision)
            case f.ArchiveSwept():
                self._check_swept(fact)
            case _:
                pass  # says nothing of what is open, or was put away

    def _end(self, intent_id: str, how: str, decision: Decision) -> None:
        self._ended[intent_id] = how
        self._changed_at[intent_id] = decision.decided_at

    def _check(self, fact: f.IntentArchived, decision: Decision) -> None:
        one = fact.intent_id
        found = []
        if self._ended.get(one) != fact.status:
            found.append(f"it is {self._ended.get(one, 'not ended')}, not {fact.status}")
        for effect in self._operations.of_intent(one):
            left = effect.status == "SETTLED" and not effect.claimed and effect.opened.plan_id
            if effect.status in _OPEN or (effect.status == "SETTLED" and effect.undoing):
                found.append(f"its operation {effect.opened.operation_id} is {effect.status}")
            elif left and not self._operations.looks(effect):
                found.append(f"its operation {effect.opened.operation_id} was taken up by nobody")
        for duty in self._commitments.of_intent(one):
            if duty.status not in _TERMINAL:
                found.append(f"its commitment {duty.proposed.commitment_id} is {duty.status}")
        if self._troubled[one]:
            found.append(f"{self._troubled[one]} incidents about it are open")
        if {one, ""} & set(self._unreadable.values()):
            found.append("a quarantined record may have spoken of it")
        passed = decision.decided_at - self._changed_at.get(one, decision.decided_at)
        if self._retention_ms is None or passed < self._retention_ms:
            found.append(f"{passed} ms have passed since its end, and {self._retention_ms} are declared")
        for sentence in found:
            self._tell("ARCHIVED", (one,), f"it is archived, and {sentence}")
        self._archived.add(one)

    def _check_swept(self, fact: f.ArchiveSwept) -> None:
        if fact.intent_id not in self._archived:
            self._tell("ARCHIVED", (fact.intent_id,), "its rows go, and it was not archived")
        known = {effect.opened.operation_id for effect in self._operations.of_intent(fact.intent_id)}
        for one in fact.operations:
            if one not in known:
                self._tell("ARCHIVED", (fact.intent_id, one), "an operation goes with it that is not its own")


def _retention_of(catalogue: bytes) -> int | None:
    """The retention that a catalogue's canonical JSON declares; None where it declares none, or is no catalogue."""
    try:
        found = json.loads(catalogue).get("retention_ms")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, int) else None
