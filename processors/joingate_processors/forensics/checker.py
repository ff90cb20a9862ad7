"""The room that checks a ledger without believing its writer: every invariant of the model, read off claims and facts.

It shares no code with the law, so that a fault in one is not a fault in both. It reads decisions in order and keeps its
own books; a live ledger can be fed as it grows. Finding nothing is a result: `Checker.checked` says over how much.
"""

import hashlib
from collections.abc import Iterable, Sequence

from joingate_processors.forensics.checked_admission import AdmissionBook
from joingate_processors.forensics.checked_archives import ArchiveBook
from joingate_processors.forensics.checked_commitments import CommitmentBook
from joingate_processors.forensics.checked_operations import Effect, OperationBook
from joingate_processors.forensics.checked_resources import ResourceBook
from joingate_processors.forensics.checked_seven import RuleReport, SevenBook
from joingate_processors.forensics.violations import INVARIANTS, Violation
from joingate_schemas import facts as f
from joingate_schemas.claims import AnyClaim
from joingate_schemas.codec import Codec, UnknownFact
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import AnyFact
from joingate_schemas.reasons import reason_number

__all__ = ["INVARIANTS", "Checker", "RuleReport", "Violation", "check"]

# Who may say what, as the model's table of roles has it; the gate's own claims come on no intake topic.
_SPEAKERS: dict[str, frozenset[str]] = {
    "proposals": frozenset({
        "DeclareIntent", "CancelIntent", "Plan", "Dispatch", "Abort", "Release", "Transfer", "AcceptTransfer",
        "MarkSatisfied", "RequestReconciliation", "Promise", "Succeed", "Close",
    }),
    "outcomes": frozenset({"Prepared", "Commit", "Abort", "InDoubt"}),
    "approvals": frozenset({"Approve", "Decline"}),
    "observations": frozenset({"Observe", "RetireOwner", "AssignOwner"}),
    "overrides": frozenset({"Override", "RequestReconciliation", "RegisterKey", "RevokeKey"}),
    "resource-verdicts": frozenset({"ResourceGranted", "ResourceDenied", "ResourceExpired"}),
    "gate": frozenset({"TimerFired", "CatalogueChanged", "ClaimQuarantined", "ClaimHeld"}),
}  # fmt: skip
_GRANTS = (f.OperationOpened, f.OperationReady, f.PermitIssued, f.StepSucceeded, f.IntentClosed, f.PlanRecorded,
           f.IntentDeclared)  # fmt: skip
_GRANTING = ("ACCEPTED", "COMPENSATE")
_OPEN = ("STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "ESCALATED")
# A claim that waited for a quarantine is decided again; one that borrowed another's id is refused under that id; of an
# archived intent no claim is remembered.
_DECIDED_AGAIN = ("HELD", "CLAIM_ID_REUSED", "INTENT_ARCHIVED")


class _Course:
    """An intent's plan in force and its joins, as the facts so far tell them."""

    def __init__(self) -> None:
        self.version = 0
        self.closed = False
        self.plan: str | None = None
        self.steps: dict[str, dict[str, tuple[str, str]]] = {}  # plan -> step -> slot's action and business key
        self.requires: dict[tuple[str, str], list[str]] = {}  # (plan, step) -> the steps that it requires
        self.joined: dict[tuple[str, str], str] = {}  # (plan, step) -> operation
        self.goal_of: dict[tuple[str, str], str] = {}  # (plan, step) -> the goal that it is for


def check(
    decisions: Iterable[Decision],
    *,
    raw: Sequence[bytes] | None = None,
    commands: Iterable[Command] = (),
    codec: Codec | None = None,
) -> list[Violation]:
    """Every breach in a ledger, in order; empty if it keeps all invariants.

    `decisions` are its records from seq 1; `raw` the same as bytes, without which the chain is not checked. `commands`
    are those that left the gate. `codec` reads the claims within (needed for a registry's wire form).
    """
    checker = Checker(codec)
    for place, decision in enumerate(decisions):
        checker.read(decision, None if raw is None else raw[place])
    for command in commands:
        checker.read_command(command)
    return checker.violations


class Checker:
    """Checks one ledger as it comes. `violations` are the breaches so far, `checked` how many records were read."""

    def __init__(self, codec: Codec | None = None) -> None:
        self.violations: list[Violation] = []
        self.checked = 0
        self._codec = codec or Codec()
        self._operations = OperationBook(self._report)
        self._commitments = CommitmentBook(self._report, self._operations)
        self._seven = SevenBook(self._report, self._operations)
        self._resources = ResourceBook(self._report)
        self._admission = AdmissionBook(self._report, self._operations, self._commitments)
        self._archives = ArchiveBook(self._report, self._operations, self._commitments)
        self._courses: dict[str, _Course] = {}
        self._decided: set[tuple[str, str]] = set()
        self._not_granting: set[int] = set()
        self._seq = 0
        self._epoch = 0
        self._decided_at = 0
        self._digest: bytes | None = b""

    def _report(self, invariant: str, ids: tuple[str, ...], sentence: str) -> None:
        assert invariant in INVARIANTS, invariant
        self.violations.append(Violation(self._seq, invariant, ids, sentence))

    def read(self, decision: Decision, raw: bytes | None = None) -> list[Violation]:
        """Read the ledger's next record, and its bytes if the chain is to be checked. Returns what it breaks."""
        before = len(self.violations)
        self._read_place(decision, raw)
        self._read_authority(decision)
        if decision.verdict == "ACCEPTED" and decision.claim_type in ("Release", "MarkSatisfied", "Transfer"):
            claim = self._claim(decision)
            if claim is not None:
                self._commitments.spoken(decision, claim)
        for fact in decision.facts:
            self._admission.read(fact, decision)
            self._read_fact(fact, decision)
        for fact in decision.facts:
            if isinstance(fact, f.OwnerRetired):
                self._commitments.swept(fact)
        self._archives.read(decision)
        self._seven.read(decision, self._claim(decision) if self._seven.needs_claim(decision) else None)
        self.checked += 1
        return self.violations[before:]

    def seven(self) -> list[RuleReport]:
        """The verdict on each of the seven rules about obligations, over what was read so far."""
        return self._seven.reports()

    def read_command(self, command: Command) -> list[Violation]:
        """Hold a command that left the gate against the ledger read so far. Returns what it breaks."""
        before = len(self.violations)
        ids = (command.operation_id, f"seq {command.ledger_seq}")
        if command.kind != "WITHDRAW":
            effect = self._operations.effects.get(command.operation_id)
            if command.ledger_seq in self._not_granting or not 0 < command.ledger_seq <= self._seq:
                self._report("COMMAND", ids, f"{command.kind} comes from a decision that grants nothing")
            elif effect is None:
                self._report("COMMAND", ids, f"{command.kind} of an operation that was never opened")
            elif command.kind in ("PERMIT", "EXECUTE") and command.attempt not in effect.permits:
                self._report("COMMAND", ids, f"{command.kind} for attempt {command.attempt}, which has no permit")
        return self.violations[before:]

    # --- the record --------------------------------------------------------------------------------------------------

    def _read_place(self, decision: Decision, raw: bytes | None) -> None:
        """Where the record stands in the ledger."""
        expected, self._seq = self._seq + 1, decision.seq
        ids = (f"seq {decision.seq}",)
        if decision.seq != expected:
            self._report("CONTIGUOUS", ids, f"seq {decision.seq} came where {expected} was next")
        if raw is not None and self._digest is not None and decision.previous != self._digest:
            self._report("CHAINED", ids, "it does not carry the hash of the record before")
        if decision.epoch < self._epoch:
            self._report("EPOCH", ids, f"epoch {decision.epoch} came after {self._epoch}")
        if decision.decided_at < self._decided_at:
            self._report("TIME", ids, f"it was decided at {decision.decided_at}, before {self._decided_at}")
        self._digest = None if raw is None else hashlib.sha256(raw).digest()
        self._epoch = max(self._epoch, decision.epoch)
        self._decided_at = max(self._decided_at, decision.decided_at)

    def _read_authority(self, decision: Decision) -> None:
        """Who said it, whether it was said before, and what the verdict lets follow."""
        ids = (decision.claim_id, decision.intent_id)
        granting = decision.verdict in _GRANTING
        if granting and decision.claim_type not in _SPEAKERS.get(decision.topic, frozenset()):
            self._report("ROLE", ids, f"{decision.claim_type} on {decision.topic} was {decision.verdict}")
        if not granting:
            self._not_granting.add(decision.seq)
            for fact in decision.facts:
                if isinstance(fact, _GRANTS):
                    self._report("REFUSAL", ids, f"it was {decision.verdict}, yet {type(fact).__name__} follows")
        if decision.verdict == "REPLAYED" or decision.reason in _DECIDED_AGAIN or not _identified(decision):
            return
        key = (decision.intent_id, decision.claim_id)
        if key in self._decided:
            self._report("ONCE", ids, f"the claim was decided before, and is {decision.verdict} now")
        self._decided.add(key)

    def _claim(self, decision: Decision) -> AnyClaim | None:
        """The claim that was decided; None on a repeat, which keeps no bytes."""
        if not decision.claim:
            return None
        claim = self._codec.decode(decision.claim)
        return claim  # type: ignore[return-value]  # whatever else it were, no rule below would take it for a claim

    # --- the facts ---------------------------------------------------------------------------------------------------

    def _read_fact(self, fact: AnyFact | UnknownFact, decision: Decision) -> None:
        operations, commitments, seq = self._operations, self._commitments, decision.seq
        match fact:
            case f.OperationOpened():
                self._opens(fact.intent_id, fact.operation_id, fact.plan_id, fact.commitment_id, "an operation")
                operations.opened(fact, seq, decision.decided_at)
                self._check_requires(fact.operation_id)
                # What the generation before was taken for is not true of this one.
                self._course(fact.intent_id).joined.pop((fact.plan_id, fact.step_id), None)
            case f.OperationReady():
                operations.ready(fact, seq, decision.decided_at)
                if fact.status == "SUBMITTED":
                    self._check_requires(fact.operation_id)
                if fact.status != "STAGED":
                    self._resources.acts(fact.operation_id)
                self._check_fresh(fact.operation_id, seq)
            case f.AttemptStarted():
                operations.attempted(fact, seq, decision.decided_at)
                self._check_fresh(fact.operation_id, seq)
            case f.PermitIssued():
                effect = operations.effects.get(fact.operation_id)
                if effect is not None:
                    self._opens(fact.intent_id, fact.operation_id, effect.opened.plan_id, effect.opened.commitment_id,
                                "a permit")  # fmt: skip
                operations.permitted(fact, seq, decision.decided_at)
                self._resources.acts(fact.operation_id)
                self._check_requires(fact.operation_id)
                self._check_fresh(fact.operation_id, seq)
            case f.OperationSettled():
                operations.settled(fact, decision, self._claim(decision))
            case f.OperationFailed():
                operations.failed(fact, decision, self._claim(decision))
                self._unjoin(fact.intent_id, fact.operation_id)
            case f.OperationInDoubt():
                operations.doubted(fact)
            case f.OperationEscalated():
                operations.escalated(fact)
            case f.OperationWithdrawn():
                operations.withdrawn(fact)
            case f.CompensationRequested():
                operations.regretted(fact)
            case f.OperationCompensated():
                operations.compensated(fact)
            case f.ResourceChanged():
                self._resources.changed(fact, decision)
            case f.StepSucceeded():
                self._joined(fact, seq)
            case f.ObservationRecorded():
                operations.seen(fact, seq)
            case f.CommitmentProposed():
                self._starts(fact.intent_id, fact.commitment_id, "a commitment")
                commitments.proposed(fact)
            case f.CommitmentMigrated():
                commitments.migrated(fact, decision)
            case f.CommitmentDrawn():
                commitments.drawn(fact)
            case f.CommitmentChanged():
                commitments.changed(fact, decision)
            case f.TransferOffered():
                commitments.offered(fact)
            case f.OwnerChanged():
                commitments.owned(fact, decision)
            case f.OwnerRetired():
                commitments.retired(fact)
            case f.OrphanRaised():
                commitments.orphan(fact)
            case f.IntentDeclared():
                self._declared(fact)
            case f.PlanRecorded():
                self._planned(fact)
            case f.PlanEnded():
                self._plan_ended(fact, decision)
            case f.IntentClosed():
                self._closed(fact)
            case f.CatalogueLoaded():
                operations.learn(fact)
            case _:
                pass  # moves nothing that an invariant is about

    def _course(self, intent_id: str) -> _Course:
        return self._courses.setdefault(intent_id, _Course())

    def _starts(self, intent_id: str, subject_id: str, what: str) -> None:
        if self._course(intent_id).closed:
            self._report("CLOSED", (intent_id, subject_id), f"{what} starts under a closed intent")

    def _opens(self, intent_id: str, operation_id: str, plan_id: str, commitment_id: str | None, what: str) -> None:
        """Work under a closed intent is only what discharges an obligation that somebody else took over from it."""
        if plan_id or not self._commitments.is_foreign(commitment_id):
            self._starts(intent_id, operation_id, what)

    def _check_fresh(self, operation_id: str, seq: int) -> None:
        """What was just allowed to act must rest on what is wanted now; what the gate opened itself rests on a duty."""
        effect = self._operations.effects.get(operation_id)
        if effect is None or not effect.opened.plan_id or effect.allowed_seq != seq:
            return
        course = self._course(effect.opened.intent_id)
        if (effect.opened.intent_version, effect.opened.plan_id) != (course.version, course.plan):
            then = f"version {effect.opened.intent_version} and plan {effect.opened.plan_id}"
            now = f"version {course.version} and plan {course.plan}"
            self._report("FRESH", (operation_id,), f"it may act for {then}, while {now} are in force")

    def _check_requires(self, operation_id: str) -> None:
        """What is started, or may act, must have under it what its step requires."""
        effect = self._operations.effects.get(operation_id)
        if effect is None or not effect.opened.plan_id:
            return
        intent_id, plan_id, step_id = effect.opened.intent_id, effect.opened.plan_id, effect.opened.step_id
        course = self._course(intent_id)
        for required in course.requires.get((plan_id, step_id), ()):
            slot = course.steps[plan_id].get(required)
            under = None if slot is None else self._operations.of_slot(intent_id, *slot)
            if slot is not None and self._spared(intent_id, plan_id, required, slot[0], under):
                continue
            if under is None or under.status != "SETTLED" or under.undoing:
                said = "was never dispatched" if under is None else f"is {under.status}"
                said += ", to be undone" if under is not None and under.undoing else ""
                self._report("REQUIRES", (operation_id, step_id), f"step {required} under it {said}")
                continue
            obligation = self._commitments.obligations.get(under.opened.commitment_id or "")
            if obligation is not None and obligation.status not in ("ACTIVE", "SATISFIED"):
                self._report("REQUIRES", (operation_id, step_id), f"the commitment of step {required} under it is "
                             f"{obligation.status}")  # fmt: skip

    def _declared(self, fact: f.IntentDeclared) -> None:
        course = self._course(fact.intent_id)
        if course.closed or fact.version <= course.version:
            said = "is closed" if course.closed else f"has version {course.version}"
            self._report("CLOSED" if course.closed else "IDENTITY", (fact.intent_id,),
                         f"version {fact.version} is declared, and it {said}")  # fmt: skip
        course.version = fact.version

    def _spared(self, intent_id: str, plan_id: str, step_id: str, action: str, effect: Effect | None) -> bool:
        """Whether nothing was done for the step, and its goal is reached without it."""
        goal_id = self._course(intent_id).goal_of.get((plan_id, step_id))
        untouched = effect is None or effect.status in ("FAILED", "WITHDRAWN")
        return untouched and goal_id is not None and self._admission.is_needless(intent_id, goal_id, action)

    def _planned(self, fact: f.PlanRecorded) -> None:
        course = self._course(fact.intent_id)
        course.steps[fact.plan_id] = {
            step["step_id"]: (step["action"], step["business_key"]) for step in fact.steps
        }  # fmt: skip
        for step in fact.steps:
            edges = [edge["step_id"] for edge in step["edges"] if edge["kind"] == "REQUIRES"]
            if edges:
                course.requires[fact.plan_id, step["step_id"]] = edges
            if step["goal_id"] is not None:
                course.goal_of[fact.plan_id, step["step_id"]] = step["goal_id"]
        if fact.status != "ADOPTED":
            return
        self._starts(fact.intent_id, fact.plan_id, "a plan")
        course.plan = fact.plan_id
        if fact.deadline_at is None:
            self._report("DEADLINE", (fact.intent_id, fact.plan_id), "the plan is adopted and waits for nothing")

    def _plan_ended(self, fact: f.PlanEnded, decision: Decision) -> None:
        course = self._course(fact.intent_id)
        # A plan that ends with its intent is closed in one decision; the close is judged by the plan as it stood.
        closes = any(isinstance(other, f.IntentClosed) for other in decision.facts)
        if course.plan == fact.plan_id and not closes:
            course.plan = None

    def _joined(self, fact: f.StepSucceeded, seq: int) -> None:
        course = self._course(fact.intent_id)
        ids = (fact.intent_id, fact.step_id, fact.operation_id)
        self._starts(fact.intent_id, fact.step_id, "a join")
        if fact.plan_id != course.plan:
            self._report("JOIN", ids, f"plan {fact.plan_id} is not in force")
        slot = course.steps.get(fact.plan_id, {}).get(fact.step_id)
        effect = self._operations.effects.get(fact.operation_id)
        if effect is not None and slot != (effect.opened.action, effect.opened.business_key):
            self._report("JOIN", ids, "the operation is not that of the step's slot")
        self._operations.joined(fact, seq)
        course.joined[fact.plan_id, fact.step_id] = fact.operation_id

    def _unjoin(self, intent_id: str, operation_id: str) -> None:
        course = self._course(intent_id)
        course.joined = {step: one for step, one in course.joined.items() if one != operation_id}

    def _closed(self, fact: f.IntentClosed) -> None:
        course = self._course(fact.intent_id)
        if course.closed:
            self._report("CLOSED", (fact.intent_id,), "it is closed a second time")
        course.closed = True
        for step_id, slot in course.steps.get(course.plan or "", {}).items():
            effect = self._operations.of_slot(fact.intent_id, *slot)
            if self._spared(fact.intent_id, course.plan or "", step_id, slot[0], effect):
                continue
            if (course.plan or "", step_id) not in course.joined and not _undone(effect):
                said = "was never dispatched" if effect is None else f"is {effect.status} and has not succeeded"
                self._report("CLOSE", (fact.intent_id, step_id), f"step {step_id} {said}")
        for effect in self._operations.of_intent(fact.intent_id):
            # A mere look leaves nothing behind that somebody would have to take up.
            lasting = effect.opened.plan_id and not self._operations.looks(effect)
            left = effect.status == "SETTLED" and not effect.claimed and lasting
            if effect.status in _OPEN or left:
                said = "taken up by nobody" if left else "open"
                self._report(
                    "CLOSE", (fact.intent_id, effect.opened.operation_id), f"an operation is {effect.status}, {said}"
                )
        for commitment_id in self._commitments.open_of(fact.intent_id):
            status = self._commitments.obligations[commitment_id].status
            self._report("CLOSE", (fact.intent_id, commitment_id), f"a commitment is {status}")
        self._admission.closed(fact.intent_id)


def _identified(decision: Decision) -> bool:
    """Whether the claim got as far as its identity: shape and role come first, and may refuse one claim many times."""
    return decision.verdict != "REJECTED" or not 100 <= reason_number(decision.reason) < 300


def _undone(effect: Effect | None) -> bool:
    return effect is not None and effect.status == "COMPENSATED"
