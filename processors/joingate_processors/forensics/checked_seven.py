"""The checker's book of the seven rules about obligations: of each its verdict, over how many cases, and who broke it.

They are the ones that a commitment ledger is for. Like the other books it reads facts and claims only, never the law;
unlike them it says how often each rule was put to the test, so that a rule which nothing tried is not called held.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from joingate_processors.forensics.checked_operations import Effect, OperationBook
from joingate_processors.forensics.violations import SEVEN, Report
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision

RuleVerdict = Literal["HELD", "BROKEN", "NOT_TRIED"]

_TERMINAL = ("SATISFIED", "RELEASED", "TRANSFERRED")
_UNSETTLED = ("SUBMITTED", "IN_DOUBT", "ESCALATED")
_NEVER_MADE = ("WITHDRAWN", "FAILED")
_GONE = ("ABSENT", "REVOKED")
_STAYS = ("COMPENSATABLE", "IRREVERSIBLE")
_CREATES_ON_WORD = ("Observe", "Override", "Commit")
_HANDS_OVER = ("AcceptTransfer", "AssignOwner", "Observe", "Override")
# Claims whose own words count, whatever facts follow from them.
_ABOUT_OWNERS = ("Release", "Transfer", "MarkSatisfied")


@dataclass(frozen=True)
class RuleReport:
    """What came of one rule: HELD over `cases`, BROKEN by the commitments in `ids`, or NOT_TRIED by this ledger."""

    name: str
    sentence: str
    verdict: RuleVerdict
    cases: int
    ids: tuple[str, ...]

    def __str__(self) -> str:
        match self.verdict:
            case "BROKEN":
                return f"{self.name}: BROKEN by {', '.join(self.ids)}. {self.sentence}"
            case "NOT_TRIED":
                return f"{self.name}: not tried; nothing in this ledger could have broken it."
            case _:
                return f"{self.name}: held, {self.cases} times."


def merged(reports: Iterable[RuleReport]) -> list[RuleReport]:
    """One verdict on each rule over several ledgers, as the partitions of one are: broken in one is broken."""
    given = list(reports)
    found = []
    for name, sentence in SEVEN.items():
        same = [one for one in given if one.name == name]
        ids, cases = tuple(dict.fromkeys(one_id for one in same for one_id in one.ids)), sum(one.cases for one in same)
        found.append(RuleReport(name, sentence, _verdict(ids, cases), cases, ids))
    return found


def _verdict(ids: tuple[str, ...], cases: int) -> RuleVerdict:
    return "BROKEN" if ids else "HELD" if cases else "NOT_TRIED"


_ASSIGNING = frozenset({"AssignOwner", "RetireOwner", "TimerFired"})
"""By these the control plane gives a commitment to somebody as it stands: what is under way goes on."""


@dataclass
class _Duty:
    """One commitment: where it stands, who owns it, who owned it, and its fencing token.

    `fenced_seq`: the last decision by which it was taken over from somebody who had to let go of what he had started.
    """

    proposed: f.CommitmentProposed
    status: str
    owner: str
    fenced_seq: int
    token: int = -1
    past: set[str] = field(default_factory=set)
    serving: list[str] = field(default_factory=list)  # operations that serve it, in the order of their opening


@dataclass
class _Wish:
    """An intent: its version, and whether new obligations may be made for it."""

    version: int = 0
    open: bool = False
    plan: str | None = None


class SevenBook:
    """The seven rules over one ledger. Feed it each decision after the book of operations has read it."""

    def __init__(self, report: Report, operations: OperationBook) -> None:
        self._tell = report
        self._operations = operations
        self._duties: dict[str, _Duty] = {}
        self._owned: dict[str, set[str]] = {}  # owner -> commitments
        self._wishes: dict[str, _Wish] = {}
        self._retired: set[str] = set()
        self._ownerless: set[str] = set()  # commitments with an open incident that says so
        self._incidents: dict[str, str] = {}  # such an incident -> commitment
        self._cases: Counter[str] = Counter()
        self._broken: dict[str, dict[str, None]] = {name: {} for name in SEVEN}

    def reports(self) -> list[RuleReport]:
        """The verdict on each of the seven, in their order."""
        found = []
        for name, sentence in SEVEN.items():
            ids, cases = tuple(self._broken[name]), self._cases[name]
            found.append(RuleReport(name, sentence, _verdict(ids, cases), cases, ids))
        return found

    def _break(self, name: str, commitment_id: str, sentence: str, *more: str) -> None:
        self._broken[name].setdefault(commitment_id)
        self._tell(name, (commitment_id, *more), sentence)

    def needs_claim(self, decision: Decision) -> bool:
        """Whether `read` must have the decision's claim: most are not worth their decoding."""
        changes = any(isinstance(fact, f.CommitmentChanged) for fact in decision.facts)
        return changes or decision.claim_type in _ABOUT_OWNERS

    def read(self, decision: Decision, claim: c.AnyClaim | None) -> None:
        """Read one decision; `claim` is what it decided, None on a repeat or where `needs_claim` says no."""
        accepted = decision.verdict in ("ACCEPTED", "COMPENSATE")
        self._read_wishes(decision)
        self._read_incidents(decision)
        for fact in decision.facts:
            if isinstance(fact, f.CommitmentProposed):
                self._proposed(fact, decision)
        self._read_starts(decision)
        # Who speaks is asked before what they ask for has changed the owner.
        if accepted:
            self._check_speaker(claim, decision)
        came: dict[str, None] = {}
        for fact in decision.facts:
            if isinstance(fact, f.CommitmentChanged):
                self._changed(fact, decision, claim)
                if fact.after == "ACTIVE" != fact.before:
                    came[fact.commitment_id] = None
        if accepted:
            self._read_owners(decision)
        # A decision is judged by what it leaves: who takes over, or what is given up at once, comes with it.
        for duty in [self._duties[one] for one in came if one in self._duties]:
            if duty.status == "ACTIVE":
                self._check_owned(duty)
                self._check_current(duty, decision)

    # --- who wants what, and who is gone -----------------------------------------------------------------------------

    def _read_wishes(self, decision: Decision) -> None:
        for fact in decision.facts:
            match fact:
                case f.IntentDeclared():
                    self._wishes[fact.intent_id] = _Wish(fact.version, open=True)
                case f.IntentCancelled() | f.IntentClosed():
                    self._wish(fact.intent_id).open = False
                case f.PlanRecorded() if fact.status == "ADOPTED":
                    self._wish(fact.intent_id).plan = fact.plan_id
                case f.PlanEnded() if self._wish(fact.intent_id).plan == fact.plan_id:
                    self._wish(fact.intent_id).plan = None
                case _:
                    pass  # says nothing about what is wanted

    def _wish(self, intent_id: str) -> _Wish:
        return self._wishes.setdefault(intent_id, _Wish())

    def _read_incidents(self, decision: Decision) -> None:
        for fact in decision.facts:
            match fact:
                case f.OrphanRaised() if fact.kind == "NO_OWNER":
                    self._incidents[fact.orphan_id] = fact.subject_id
                    self._ownerless.add(fact.subject_id)
                case f.OrphanCleared() if fact.orphan_id in self._incidents:
                    self._ownerless.discard(self._incidents.pop(fact.orphan_id))
                case _:
                    pass  # tells of no owner

    def _read_owners(self, decision: Decision) -> None:
        """Who owns what from here on, and who is gone: what a gone owner had in force must show as an incident."""
        for fact in decision.facts:
            match fact:
                case f.OwnerChanged():
                    duty = self._duties.get(fact.commitment_id)
                    if duty is not None:
                        self._hand_over(duty, fact.after, decision, fact.fencing_token)
                case f.OwnerRetired():
                    self._retired.add(fact.owner_id)
                    # A sweep over many goes on by its timer; what it has not come to yet is not overlooked.
                    if fact.deadline_at is None:
                        for commitment_id in sorted(self._owned.get(fact.owner_id, ())):
                            self._check_owned(self._duties[commitment_id])
                case _:
                    pass  # changes no owner

    def _hand_over(self, duty: _Duty, owner: str, decision: Decision, token: int) -> None:
        commitment_id = duty.proposed.commitment_id
        self._cases["TRANSFER_FENCED"] += 1
        if token <= duty.token:
            self._break("TRANSFER_FENCED", commitment_id, f"it is taken over with token {token}, and {duty.token} "
                        "was used before", owner)  # fmt: skip
        duty.token = max(duty.token, token)
        if owner == duty.owner:
            return
        self._owned.setdefault(duty.owner, set()).discard(commitment_id)
        duty.past.add(duty.owner)
        duty.past.discard(owner)
        duty.owner = owner
        if decision.claim_type not in _ASSIGNING:
            duty.fenced_seq = decision.seq
        self._owned.setdefault(owner, set()).add(commitment_id)
        self._check_owned(duty)

    def _check_owned(self, duty: _Duty) -> None:
        if duty.status != "ACTIVE":
            return
        commitment_id, owner = duty.proposed.commitment_id, duty.owner
        self._cases["ACTIVE_OWNED"] += 1
        if not owner:
            self._break("ACTIVE_OWNED", commitment_id, "it is ACTIVE, and nobody owns it")
        elif owner in self._operations.workers:
            self._break("ACTIVE_OWNED", commitment_id, f"it is ACTIVE, and {owner}, which owns it, is a worker")
        elif owner in self._retired and commitment_id not in self._ownerless:
            self._break("ACTIVE_OWNED", commitment_id, f"it is ACTIVE, its owner {owner} is gone, and no incident "
                        "says so")  # fmt: skip

    # --- beginnings --------------------------------------------------------------------------------------------------

    def _proposed(self, fact: f.CommitmentProposed, decision: Decision) -> None:
        wish = self._wish(fact.intent_id)
        self._cases["STALE_CREATES"] += 1
        if not wish.open:
            self._break(
                "STALE_CREATES", fact.commitment_id, "it is made for an intent that is not open", fact.intent_id
            )
        elif fact.intent_version != wish.version:
            self._break("STALE_CREATES", fact.commitment_id, f"it is made for version {fact.intent_version}, and "
                        f"{wish.version} is in force", fact.intent_id)  # fmt: skip
        elif fact.plan_id and fact.plan_id != wish.plan:
            self._break("STALE_CREATES", fact.commitment_id, f"it is made by plan {fact.plan_id}, and {wish.plan} is "
                        "in force", fact.intent_id)  # fmt: skip
        self._duties[fact.commitment_id] = _Duty(fact, "PROPOSED", fact.owner_id, decision.seq)
        self._owned.setdefault(fact.owner_id, set()).add(fact.commitment_id)

    def _read_starts(self, decision: Decision) -> None:
        """Whatever starts, or is let act, for a commitment: on whose authority, and is the wish for it still there?"""
        moved: dict[str, str] = {}  # what a commitment became earlier in this very decision
        for fact in decision.facts:
            match fact:
                case f.CommitmentChanged():
                    moved[fact.commitment_id] = fact.after
                case f.OperationOpened() | f.OperationReady() | f.AttemptStarted() | f.PermitIssued():
                    effect = self._operations.effects.get(fact.operation_id)
                    duty = self._duties.get(effect.opened.commitment_id or "") if effect is not None else None
                    if effect is not None and duty is not None:
                        status = moved.get(duty.proposed.commitment_id, duty.status)
                        self._started(effect, duty, status, isinstance(fact, f.PermitIssued))
                        if isinstance(fact, f.OperationOpened) and fact.operation_id != duty.proposed.operation_id:
                            duty.serving.append(fact.operation_id)
                case _:
                    pass  # starts nothing

    def _started(self, effect: Effect, duty: _Duty, status: str, permit: bool) -> None:
        commitment_id, operation_id = duty.proposed.commitment_id, effect.opened.operation_id
        if status in ("TRANSFER_PENDING", "TRANSFERRED") or duty.past:
            self._cases["TRANSFER_FENCED"] += 1
        if status == "TRANSFER_PENDING":
            self._break("TRANSFER_FENCED", commitment_id, "something is started for it while it is handed over",
                        operation_id)  # fmt: skip
        elif duty.past and effect.opened_seq < duty.fenced_seq:
            self._break("TRANSFER_FENCED", commitment_id, "what its former owner had started may still act",
                        operation_id)  # fmt: skip
        if permit and operation_id == duty.proposed.operation_id:
            wish = self._wish(effect.opened.intent_id)
            self._cases["STALE_CREATES"] += 1
            if not wish.open or effect.opened.intent_version != wish.version:
                self._break("STALE_CREATES", commitment_id, "what makes it may act, and its intent is not current",
                            operation_id)  # fmt: skip

    # --- transitions -------------------------------------------------------------------------------------------------

    def _changed(self, fact: f.CommitmentChanged, decision: Decision, claim: c.AnyClaim | None) -> None:
        duty = self._duties.get(fact.commitment_id)
        if duty is None:
            return  # the book of commitments says that nobody proposed it
        before, duty.status = duty.status, fact.after
        if before in _TERMINAL:
            self._check_stays(fact, before, decision)
        match fact.after:
            case "SATISFIED" if before != "SATISFIED":
                self._cases["SATISFIED_SHOWN"] += 1
                if not any(fact.evidence) or decision.claim_type == "TimerFired":
                    self._break("SATISFIED_SHOWN", fact.commitment_id, f"{decision.claim_type} makes it SATISFIED "
                                "with nothing to show")  # fmt: skip
            case "RELEASED" if before != "RELEASED":
                self._check_released(fact, before, duty, claim)
            case "TRANSFERRED" if before != "TRANSFERRED":
                self._cases["TRANSFER_FENCED"] += 1
                if decision.claim_type not in _HANDS_OVER:
                    self._break("TRANSFER_FENCED", fact.commitment_id, f"{decision.claim_type} alone hands it over")
            case "TRANSFER_PENDING":
                self._cases["TRANSFER_FENCED"] += 1
            case _:
                pass  # an open state that none of the seven is about

    def _check_stays(self, fact: f.CommitmentChanged, before: str, decision: Decision) -> None:
        if fact.after == before:
            return
        self._cases["TERMINAL_STAYS"] += 1
        cited = decision.claim_type in _CREATES_ON_WORD and any(fact.evidence)
        if fact.before != before or not cited:
            self._break("TERMINAL_STAYS", fact.commitment_id, f"it was {before}, and {decision.claim_type} makes it "
                        f"{fact.after} without newer evidence")  # fmt: skip

    def _check_current(self, duty: _Duty, decision: Decision) -> None:
        if duty.owner != f"intent:{duty.proposed.intent_id}":
            return  # it stands on its owner, and outlives the intent that made it
        self._cases["STALE_CREATES"] += 1
        # What comes home to an intent that has ended is disposed of in the same decision.
        identity = duty.proposed.commitment_id
        decided = [fact for fact in decision.facts if isinstance(fact, f.DispositionDecided)]
        disposed = any(fact.commitment_id == identity for fact in decided)
        by_person = decision.claim_type in ("Override", "AssignOwner")
        if not (self._wish(duty.proposed.intent_id).open or by_person or disposed):
            self._break("STALE_CREATES", identity, "it comes into force, and its intent is not open")

    def _check_released(self, fact: f.CommitmentChanged, before: str, duty: _Duty, claim: c.AnyClaim | None) -> None:
        """RELEASED rests on evidence, and what it rests on is known: neither its making nor its release is in doubt."""
        commitment_id = fact.commitment_id
        self._cases["RELEASED_SHOWN"] += 1
        self._cases["UNKNOWN_KEPT"] += 1
        creation = self._operations.effects.get(duty.proposed.operation_id or "")
        serving = self._operations.effects.get(duty.serving[-1]) if duty.serving else None
        never_made = creation is not None and creation.status in _NEVER_MADE
        by_person = isinstance(claim, c.Override) and bool(claim.evidence)
        seen_gone = isinstance(claim, c.Observe) and claim.subject_id == commitment_id and claim.finding in _GONE
        # "202 Accepted" is enough only where it is declared that nobody need look.
        done = serving is not None and serving.status == "SETTLED" and not self._to_be_observed(duty, creation)
        if not any(fact.evidence):
            self._break("RELEASED_SHOWN", commitment_id, "it is RELEASED with nothing to show")
        elif not (never_made or by_person or seen_gone or done):
            self._break("RELEASED_SHOWN", commitment_id, f"{type(claim).__name__} is no evidence of its release")
        if by_person:
            return
        if creation is not None and creation.status in _UNSETTLED:
            self._break("UNKNOWN_KEPT", commitment_id, f"it is RELEASED while its creation is {creation.status}",
                        creation.opened.operation_id)  # fmt: skip
        unknown = before in ("UNKNOWN", "RECONCILIATION_REQUIRED")
        unknown = unknown or (serving is not None and serving.status in _UNSETTLED)
        if unknown and not (never_made or seen_gone or done):
            self._break("UNKNOWN_KEPT", commitment_id, f"it was {before}, nobody saw it gone, and it is RELEASED")

    def _to_be_observed(self, duty: _Duty, creation: Effect | None) -> bool:
        """Whether its being gone has to be seen. What stays in the world is not gone: what makes it good ends it."""
        declared = self._operations.declared(creation, "obligations", duty.proposed.obligation_type)
        return bool(declared.get("observed", False)) and declared.get("resolution") not in _STAYS

    # --- speaking for what one no longer owns ------------------------------------------------------------------------

    def _check_speaker(self, claim: c.AnyClaim | None, decision: Decision) -> None:
        match claim:
            case c.Release() | c.Transfer() | c.MarkSatisfied():
                duty = self._duties.get(claim.commitment_id)
                if duty is None or not duty.past:
                    return
                self._cases["TRANSFER_FENCED"] += 1
                if claim.principal in duty.past:
                    self._break("TRANSFER_FENCED", claim.commitment_id, f"{claim.principal} owned it once, and its "
                                f"{decision.claim_type} is taken")  # fmt: skip
            case _:
                pass  # speaks for no commitment
