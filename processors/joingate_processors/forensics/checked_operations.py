"""The checker's book of operations: what may happen to one effect, from dispatch to its end, by the model's words."""

import json
from dataclasses import dataclass, field
from typing import Any

from joingate_processors.forensics.violations import Report
from joingate_schemas import facts as f
from joingate_schemas.claims import Abort, AnyClaim, Commit, Observe, Override
from joingate_schemas.decisions import Decision

_OPEN = ("STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "ESCALATED")
_GIVES_WAY = ("FAILED", "WITHDRAWN", "COMPENSATED")
_PROOFS = ("REFUSED", "NOT_SENT", "TOMBSTONE", "SECOND_LOOK", "STATEMENT")
# Which claim, on which topic, may bring an ending from each source.
_ENDS = {"EXECUTOR": "outcomes", "OBSERVER": "observations", "OPERATOR": "overrides"}


@dataclass
class Effect:
    """One operation as the facts so far tell it."""

    opened: f.OperationOpened
    status: str
    attempt: int
    opened_seq: int
    deadline_at: int | None = None
    doubted_attempt: int = 0  # the latest attempt that was current in a doubt
    permits: set[int] = field(default_factory=set)  # attempts that were allowed to act
    allowed_seq: int = 0  # where it was last allowed to act
    allowed_at: int = 0  # and when
    settled_seq: int = 0
    settled_by: str = ""
    observed: bool = False
    claimed: bool = False
    undoing: bool = False  # its compensation was asked for


class OperationBook:
    """Every operation of one ledger."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.effects: dict[str, Effect] = {}
        self.workers: set[str] = set()
        self._slots: dict[tuple[str, str, str], str] = {}  # slot -> its latest operation
        self._of_intent: dict[str, list[str]] = {}
        self._present_seq: dict[str, int] = {}  # subject -> when it was last observed to be there
        self._catalogues: dict[str, dict[str, Any]] = {}

    def learn(self, fact: f.CatalogueLoaded) -> None:
        """Read what the catalogue declares from its own JSON."""
        self._catalogues[fact.digest] = json.loads(fact.catalogue)

    def of_intent(self, intent_id: str) -> list[Effect]:
        """The intent's operations, in the order in which they were opened."""
        return [self.effects[one] for one in self._of_intent.get(intent_id, ())]

    def of_slot(self, intent_id: str, action: str, business_key: str) -> Effect | None:
        """The slot's latest operation."""
        latest = self._slots.get((intent_id, action, business_key))
        return None if latest is None else self.effects[latest]

    def declared(self, effect: Effect | None, section: str, name: str) -> dict[str, Any]:
        """What was declared under `name` when the operation was opened; empty if nothing was, or there is none."""
        catalogue = self._catalogues.get(effect.opened.catalogue_digest, {}) if effect is not None else {}
        found: dict[str, Any] = catalogue.get(section, {}).get(name, {})
        return found

    def looks(self, effect: Effect) -> bool:
        """Whether the operation only looks, as far as was declared."""
        return self.declared(effect, "actions", effect.opened.action).get("effect") == "OBSERVE"

    def keyed(self, effect: Effect) -> bool:
        """Whether the operation's downstream recognises a repeated key, as far as was declared."""
        entry = self.declared(effect, "downstreams", effect.opened.downstream)
        return "IDEMPOTENT_KEY" in entry.get("capabilities", ())

    def _known(self, operation_id: str, what: str) -> Effect | None:
        effect = self.effects.get(operation_id)
        if effect is None:
            self._report("KNOWN", (operation_id,), f"{what} of an operation that was never opened")
        return effect

    def _pending(self, effect: Effect, timer: str, deadline_at: int | None) -> None:
        effect.deadline_at = deadline_at
        if effect.status in _OPEN and (deadline_at is None or timer in ("NONE", "UNKNOWN")):
            self._report("DEADLINE", (effect.opened.operation_id,),
                         f"the operation is {effect.status} and waits for nothing that would end it")  # fmt: skip

    # --- beginnings --------------------------------------------------------------------------------------------------

    def opened(self, fact: f.OperationOpened, seq: int, at: int) -> None:
        """A new operation, or the next generation of a slot."""
        slot = (fact.intent_id, fact.action, fact.business_key)
        ids = (fact.operation_id, fact.intent_id)
        known = self.effects.get(fact.operation_id)
        if known is not None:
            same = (known.opened.intent_id, known.opened.action, known.opened.business_key) == slot
            said = "was opened before" if same else "stands for another slot already"
            self._report("IDENTITY", ids, f"the operation {said}")
        before = self.of_slot(*slot)
        if before is not None and before.status in _OPEN:
            self._report(
                "ONE_OPEN", (*ids, before.opened.operation_id), f"its slot's operation is still {before.status}"
            )
        elif before is not None and before.status not in _GIVES_WAY and not self._still_there(before):
            self._report("GENERATION", (*ids, before.opened.operation_id), f"the generation before is {before.status}")
        expected = 1 if before is None else before.opened.generation + 1
        if fact.generation != expected:
            self._report("GENERATION", ids, f"generation {fact.generation} came where {expected} was next")
        effect = Effect(fact, fact.status, fact.attempt, seq, at)
        if fact.phases == "ONE_PHASE" and fact.status == "SUBMITTED":
            effect.permits.add(fact.attempt)
            effect.allowed_at = at
        self.effects[fact.operation_id] = effect
        self._slots[slot] = fact.operation_id
        self._of_intent.setdefault(fact.intent_id, []).append(fact.operation_id)
        self._check_phases(effect)
        self._pending(effect, fact.timer, fact.deadline_at)

    def _still_there(self, before: Effect) -> bool:
        """Whether what a settled release was to end was observed again after it: newer evidence than its Commit."""
        seen_seq = self._present_seq.get(before.opened.commitment_id or "", 0)
        return not before.opened.plan_id and before.status == "SETTLED" and seen_seq > before.settled_seq

    def _check_phases(self, effect: Effect) -> None:
        kind = self.declared(effect, "actions", effect.opened.action).get("effect")
        safe = kind == "OBSERVE" or (kind == "REVERSIBLE" and self.keyed(effect))
        if effect.opened.phases == "ONE_PHASE" and kind is not None and not safe:
            self._report("TWO_PHASES", (effect.opened.operation_id,),
                         f"{effect.opened.action} ({kind}) is to act on its command alone")  # fmt: skip

    def _allow(self, effect: Effect, attempt: int, seq: int, at: int) -> None:
        effect.permits.add(attempt)
        effect.allowed_seq, effect.allowed_at = seq, at

    def ready(self, fact: f.OperationReady, seq: int, at: int) -> None:
        """What was STAGED may go on."""
        effect = self._known(fact.operation_id, "readiness")
        if effect is None:
            return
        effect.status = fact.status
        if effect.opened.phases == "ONE_PHASE" and fact.status == "SUBMITTED":
            self._allow(effect, effect.attempt, seq, at)
        self._pending(effect, fact.timer, fact.deadline_at)

    def attempted(self, fact: f.AttemptStarted, seq: int, at: int) -> None:
        """The next attempt."""
        effect = self._known(fact.operation_id, "an attempt")
        if effect is None:
            return
        ids = (fact.operation_id,)
        if fact.attempt != effect.attempt + 1:
            self._report("ATTEMPT", ids, f"attempt {fact.attempt} follows attempt {effect.attempt}")
        one_phase = effect.opened.phases == "ONE_PHASE"
        before_permit = effect.status == "VALIDATED" and effect.attempt not in effect.permits
        resend = effect.status == "IN_DOUBT" and self.keyed(effect)
        if not (before_permit or resend or (one_phase and effect.status in ("SUBMITTED", "IN_DOUBT"))):
            self._report("ATTEMPT", ids, f"an attempt starts while the operation is {effect.status}")
        effect.attempt = fact.attempt
        if one_phase:
            self._allow(effect, fact.attempt, seq, at)
        self._pending(effect, fact.timer, fact.deadline_at)

    def permitted(self, fact: f.PermitIssued, seq: int, at: int) -> None:
        """The permit to act."""
        effect = self._known(fact.operation_id, "a permit")
        if effect is None:
            return
        ids = (fact.operation_id, f"attempt {fact.attempt}")
        if fact.attempt in effect.permits:
            self._report("PERMIT", ids, "this attempt has had its permit")
        if fact.attempt != effect.attempt:
            self._report("PERMIT", ids, f"attempt {effect.attempt} is current")
        if effect.status not in ("VALIDATED", "IN_DOUBT"):
            self._report("PERMIT", ids, f"the operation is {effect.status}")
        elif not self.keyed(effect) and (effect.permits or effect.status == "IN_DOUBT"):
            self._report("RIVAL", ids, f"an effect may be there already: it is {effect.status}, with "
                         f"{len(effect.permits)} permits before")  # fmt: skip
        if effect.status != "IN_DOUBT":
            effect.status = "SUBMITTED"
        self._allow(effect, fact.attempt, seq, at)
        if fact.worker:
            self.workers.add(fact.worker)
        self._pending(effect, fact.timer, fact.deadline_at)

    # --- endings -----------------------------------------------------------------------------------------------------

    def settled(self, fact: f.OperationSettled, decision: Decision, claim: AnyClaim | None) -> None:
        """The effect is taken as real."""
        effect = self._known(fact.operation_id, "a settlement")
        if effect is None:
            return
        ids = (fact.operation_id, f"attempt {fact.attempt}")
        wanted: dict[str, type] = {"EXECUTOR": Commit, "OBSERVER": Observe, "OPERATOR": Override}
        subject = getattr(claim, "operation_id", None) or getattr(claim, "subject_id", None)
        by = wanted.get(fact.source)
        if by is None or not isinstance(claim, by) or decision.topic != _ENDS[fact.source]:
            self._report("SETTLED", ids, f"{decision.claim_type} on {decision.topic} makes it real for {fact.source}")
        elif subject != fact.operation_id:
            self._report("SETTLED", ids, f"the {decision.claim_type} was about {subject}")
        elif decision.verdict != "ACCEPTED":
            self._report("SETTLED", ids, f"it was made real by a claim that was {decision.verdict}")
        if fact.source == "EXECUTOR" and fact.attempt not in effect.permits:
            self._report("SETTLED", ids, "the executor's attempt had no permit")
        # A person may overrule a proof of absence, and may say of a settled effect that it is to stay.
        overruled = fact.source == "OPERATOR" and effect.status in ("FAILED", "SETTLED")
        if effect.status not in _OPEN and not overruled:
            self._report("SETTLED", ids, f"it was {effect.status}, which only doubt can end")
        effect.status, effect.settled_seq, effect.settled_by = "SETTLED", decision.seq, fact.source
        # A person who says that it stays takes it up by name.
        effect.claimed = effect.claimed or fact.source == "OPERATOR"
        effect.undoing = effect.undoing and fact.source != "OPERATOR"

    def failed(self, fact: f.OperationFailed, decision: Decision, claim: AnyClaim | None) -> None:
        """The effect is taken as absent."""
        effect = self._known(fact.operation_id, "a failure")
        if effect is None:
            return
        ids = (fact.operation_id, f"attempt {fact.attempt}")
        match claim:
            case Override():
                proven = decision.topic == "overrides" and bool(claim.evidence) and fact.proof == "OVERRIDE"
            case Abort() | Observe():
                proven = claim.proof in _PROOFS and claim.proof == fact.proof and decision.topic in _ENDS.values()
            case _:
                proven = False
        if not proven:
            self._report("PROOF", ids, f"{decision.claim_type} on {decision.topic} proves nothing (as {fact.proof})")
        if isinstance(claim, Override):
            self._check_landed(effect, decision.decided_at, "overridden")
        elif isinstance(claim, Observe) and claim.proof in ("SECOND_LOOK", "STATEMENT"):
            stamp = claim.source_time if claim.source_time is not None else claim.occurred_at or decision.appended_at
            self._check_landed(effect, min(stamp, decision.appended_at), "looked at")
        if effect.status not in _OPEN:
            self._report("PROOF", ids, f"it was {effect.status}, which no proof of absence ends at once")
        effect.status, effect.claimed = "FAILED", False

    def _check_landed(self, effect: Effect, at: int, what: str) -> None:
        """A look (itself, not just its news) or a person's word `at` (ms) must come when what was sent has landed."""
        permit_ms = self.declared(effect, "actions", effect.opened.action).get("permit_ms", 0)
        in_flight_ms = self.declared(effect, "downstreams", effect.opened.downstream).get("in_flight_ms_max", 0)
        landed_at = effect.allowed_at + permit_ms + in_flight_ms
        if effect.allowed_at and at < landed_at:
            self._report("PROOF_TIME", (effect.opened.operation_id, f"attempt {effect.attempt}"),
                         f"it was {what} {at}, and what was sent may land until {landed_at}")  # fmt: skip

    def doubted(self, fact: f.OperationInDoubt) -> None:
        """Nobody knows."""
        effect = self._known(fact.operation_id, "doubt")
        if effect is None:
            return
        ids = (fact.operation_id, f"attempt {fact.attempt}")
        if effect.status in ("IN_DOUBT", "ESCALATED"):
            # Said again, it is the same doubt: of an attempt that was sent again, and with no more time than it had.
            if effect.status == "ESCALATED" or not effect.doubted_attempt < fact.attempt == effect.attempt:
                self._report("DOUBT", ids, f"the operation is {effect.status} already, over this attempt")
            elif fact.attempt not in effect.permits:
                self._report("DOUBT", ids, "this attempt was never allowed to act")
            if fact.deadline_at is None or (effect.deadline_at or 0) < fact.deadline_at:
                self._report("DEADLINE", ids, "a doubt that is said again puts its own end off")
        effect.status, effect.doubted_attempt = "IN_DOUBT", effect.attempt
        self._pending(effect, fact.timer, fact.deadline_at)

    def escalated(self, fact: f.OperationEscalated) -> None:
        """A person is asked."""
        effect = self._known(fact.operation_id, "an escalation")
        if effect is not None:
            effect.status = "ESCALATED"
            self._pending(effect, fact.timer, fact.deadline_at)

    def withdrawn(self, fact: f.OperationWithdrawn) -> None:
        """Ended before any permit."""
        effect = self._known(fact.operation_id, "a withdrawal")
        if effect is None:
            return
        if effect.permits:
            self._report("WITHDRAWN", (fact.operation_id,), f"attempts {sorted(effect.permits)} were allowed to act")
        if effect.status not in ("STAGED", "VALIDATED"):
            self._report("WITHDRAWN", (fact.operation_id,), f"it was {effect.status}")
        effect.status = "WITHDRAWN"

    def regretted(self, fact: f.CompensationRequested) -> None:
        """It is to be undone."""
        effect = self._known(fact.operation_id, "a compensation that is asked for")
        if effect is not None:
            effect.undoing = True

    def compensated(self, fact: f.OperationCompensated) -> None:
        """Its effect was undone."""
        effect = self._known(fact.operation_id, "a compensation")
        if effect is None:
            return
        by = self.effects.get(fact.by)
        if effect.status != "SETTLED":
            self._report("COMPENSATED", (fact.operation_id,), f"it is {effect.status}, so there is nothing to undo")
        if not fact.by or (by is not None and by.status != "SETTLED"):
            self._report("COMPENSATED", (fact.operation_id, fact.by), "what is said to undo it is not settled")
        effect.status = "COMPENSATED"

    def seen(self, fact: f.ObservationRecorded, seq: int) -> None:
        """A source spoke about an operation or a commitment."""
        if fact.finding != "PRESENT":
            return
        self._present_seq[fact.subject_id] = seq
        effect = self.effects.get(fact.subject_id)
        if effect is not None:
            effect.observed = True

    def joined(self, fact: f.StepSucceeded, seq: int) -> None:
        """A step rests on this operation."""
        effect = self._known(fact.operation_id, "a join")
        if effect is None:
            return
        ids = (fact.operation_id, fact.step_id)
        if effect.status != "SETTLED" or not effect.opened_seq < effect.settled_seq < seq:
            self._report(
                "JOIN", ids, f"the operation is {effect.status}: no settlement lies between dispatch and success"
            )
        elif effect.opened.phases != "ONE_PHASE" and not effect.permits and effect.settled_by != "OPERATOR":
            self._report("JOIN", ids, "the effect was never permitted")
        action = self.declared(effect, "actions", effect.opened.action)
        if action.get("verification") and not effect.observed:
            self._report("JOIN", ids, f"{effect.opened.action} asks for an observation, and there is none")
        effect.claimed = True
