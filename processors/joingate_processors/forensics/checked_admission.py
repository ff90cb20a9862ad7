"""The checker's book of admission: what was taken on although a limit, a budget or a goal that is reached forbade it.

It counts everything anew for each new obligation, by the catalogue's own JSON, where the law keeps sums in step.
"""

import json
from collections.abc import Iterator
from typing import Any

from joingate_processors.forensics.checked_commitments import CommitmentBook, Obligation
from joingate_processors.forensics.checked_operations import OperationBook
from joingate_processors.forensics.violations import Report
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision

_TERMINAL = ("SATISFIED", "RELEASED", "TRANSFERRED")
_DOUBTED = ("UNKNOWN", "RECONCILIATION_REQUIRED", "IN_DOUBT", "ESCALATED")
_UNCERTAIN = ("UNKNOWN", "RECONCILIATION_REQUIRED", "BREACHED")
_TIMES = {"COMPENSATABLE": 2, "IRREVERSIBLE": 4, "UNKNOWN": 4}
_SAYS_NOTHING = ("UNREACHABLE", "RESEND", "UNKNOWN")
_MINUTE_MS = 60_000
_SLACK = 1e-6


class AdmissionBook:
    """What each intent wants, may spend and has been shown, and what each obligation weighs."""

    def __init__(self, report: Report, operations: OperationBook, commitments: CommitmentBook) -> None:
        self._report = report
        self._operations = operations
        self._commitments = commitments
        self._catalogue: dict[str, Any] = {}
        self._wanted: dict[str, f.IntentDeclared] = {}
        self._cancelled: set[str] = set()
        self._made: dict[str, tuple[float, int]] = {}  # commitment -> its weight, and when it was made (ms)
        self._spent: dict[str, dict[str, tuple[str, float]]] = {}  # intent -> operation -> its class and cost
        # (intent, goal) -> source -> what it said, and of which content
        self._said: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}

    def read(self, fact: object, decision: Decision) -> None:
        """One fact, before the other books have it."""
        match fact:
            case f.CatalogueLoaded():
                self._catalogue = json.loads(fact.catalogue)
            case f.IntentDeclared():
                self._wanted[fact.intent_id] = fact
                self._cancelled.discard(fact.intent_id)
            case f.IntentCancelled():
                self._cancelled.add(fact.intent_id)
            case f.ObservationRecorded() if fact.subject_kind == "GOAL" and decision.verdict == "ACCEPTED":
                self._seen(fact)
            case f.OperationOpened():
                self._opened(fact)
            case f.PermitIssued():
                self._let_on(fact.operation_id)
            case f.OperationReady() if fact.status != "STAGED":
                self._let_on(fact.operation_id)
            case f.OperationWithdrawn():
                self._spent.get(fact.intent_id, {}).pop(fact.operation_id, None)
            case f.CommitmentProposed():
                self._proposed(fact, decision.decided_at)
            case _:
                pass  # takes nothing on, and allows nothing

    def _entry(self, section: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._catalogue.get(section, {}).get(name, {})
        return found

    def _discharges(self, action: str) -> bool:
        entries = [*self._catalogue.get("actions", {}).values(), *self._catalogue.get("obligations", {}).values()]
        undone = any(action in (one.get("compensation"), one.get("release_action")) for one in entries)
        return undone or self._entry("actions", action).get("budget_class") == "RECONCILIATION"

    # --- goals -------------------------------------------------------------------------------------------------------

    def _content(self, intent_id: str, goal_id: str) -> str | None:
        """The goal and everything below it, as text; None where it is not wanted."""
        wanted = self._wanted.get(intent_id)
        goals = {goal["goal_id"]: goal for goal in wanted.goals} if wanted is not None else {}
        if goal_id not in goals:
            return None
        found, grown = {goal_id}, True
        while grown:
            more = {one for one, goal in goals.items() if goal.get("parent_goal_id") in found} - found
            found, grown = found | more, bool(more)
        return json.dumps([goals[one] for one in sorted(found)], sort_keys=True)

    def _seen(self, fact: f.ObservationRecorded) -> None:
        content = self._content(fact.intent_id, fact.subject_id)
        wanted = self._wanted.get(fact.intent_id)
        if content is None or wanted is None or fact.finding in _SAYS_NOTHING:
            return
        (goal,) = [one for one in wanted.goals if one["goal_id"] == fact.subject_id][:1]
        kinds = {item.partition(":")[0] for item in fact.evidence}
        if fact.finding != "PRESENT" or kinds.issuperset(goal.get("evidence_requirements") or ()):
            said = self._said.setdefault((fact.intent_id, fact.subject_id), {})
            said[fact.source] = (fact.finding, content)

    def is_needless(self, intent_id: str, goal_id: str, action: str) -> bool:
        """Whether the goal is reached without this action, which neither looks nor discharges anything."""
        looks = self._entry("actions", action).get("effect") == "OBSERVE"
        return not looks and not self._discharges(action) and self._is_reached(intent_id, goal_id)

    def closed(self, intent_id: str) -> None:
        """An intent that is still wanted is closed: by its own terms, that may need each goal to be seen."""
        wanted = None if intent_id in self._cancelled else self._wanted.get(intent_id)
        for goal in wanted.goals if wanted is not None and wanted.close_needs_goals else ():
            if not self._is_reached(intent_id, goal["goal_id"]):
                self._report(
                    "CLOSE", (intent_id, goal["goal_id"]), f"goal {goal['goal_id']} was not seen to be reached"
                )

    def _is_reached(self, intent_id: str, goal_id: str) -> bool:
        content = self._content(intent_id, goal_id)
        said = self._said.get((intent_id, goal_id), {}).values()
        now = {finding for finding, of in said if of == content}
        return now == {"PRESENT"}

    # --- what is started ---------------------------------------------------------------------------------------------

    def _opened(self, fact: f.OperationOpened) -> None:
        action = self._entry("actions", fact.action)
        cost, of = float(action.get("cost") or 0.0), str(action.get("budget_class") or "EXPLORATION")
        ids = (fact.operation_id, fact.intent_id)
        discharges = not fact.plan_id or self._discharges(fact.action)
        looks = action.get("effect") == "OBSERVE"
        if fact.goal_id is not None and not (discharges or looks) and self._is_reached(fact.intent_id, fact.goal_id):
            self._report("REACHED", ids, f"{fact.action} is started for goal {fact.goal_id}, which is reached")
        self._spent.setdefault(fact.intent_id, {})[fact.operation_id] = (
            of if fact.plan_id else "RECONCILIATION", cost
        )  # fmt: skip
        if cost and not discharges:
            self._check_budget(fact.intent_id, of, ids)

    def _let_on(self, operation_id: str) -> None:
        """Nothing goes on for what is reached, unless it is to find out whether an earlier attempt acted."""
        effect = self._operations.effects.get(operation_id)
        opened = None if effect is None else effect.opened
        if effect is None or opened is None or opened.goal_id is None or not opened.plan_id or effect.permits:
            return
        if self.is_needless(opened.intent_id, opened.goal_id, opened.action):
            self._report("REACHED", (operation_id, opened.intent_id), f"{opened.action} goes on for goal "
                         f"{opened.goal_id}, which is reached")  # fmt: skip

    def _check_budget(self, intent_id: str, of: str, ids: tuple[str, ...]) -> None:
        wanted = self._wanted.get(intent_id)
        budgets = wanted.budgets if wanted is not None else None
        ceiling = budgets.get("cost_max") if budgets is not None else None
        if budgets is None or ceiling is None:
            return
        spent = self._spent[intent_id].values()
        whole, explored = sum(cost for _, cost in spent), sum(cost for one, cost in spent if one == "EXPLORATION")
        slack = _SLACK * max(1.0, ceiling)
        if whole > ceiling + slack:
            self._report("BUDGET", ids, f"it takes what is spent to {whole:g}, of {ceiling:g}")
        elif of == "EXPLORATION" and explored > ceiling * budgets["exploration"] + slack:
            self._report("BUDGET", ids, f"it takes exploration to {explored:g}, of {budgets['exploration']:g} of "
                         f"{ceiling:g}")  # fmt: skip

    # --- what is owed ------------------------------------------------------------------------------------------------

    def _proposed(self, fact: f.CommitmentProposed, now: int) -> None:
        kind = self._entry("obligations", fact.obligation_type)
        weight = min(1_000.0, float(kind.get("weight", 1.0)) * _TIMES.get(kind.get("resolution", "UNKNOWN"), 1))
        self._made[fact.commitment_id] = (weight, now)
        effect = self._operations.effects.get(fact.operation_id or "")
        if effect is not None and self._discharges(effect.opened.action):
            return
        tenant = fact.intent_id.split("/")[0]
        for of, who in (("INTENT", fact.intent_id), ("TENANT", tenant), ("PRINCIPAL", fact.principal)):
            limit = self._limit(of, who) if who else None
            if limit is not None:
                self._check_limit(limit, of, who, fact, weight, now)

    def _limit(self, of: str, who: str) -> dict[str, Any] | None:
        limits = [one for one in self._catalogue.get("limits", {}).values() if one["of"] == of]
        own = [one for one in limits if one["only"] == who]
        return next(iter(own or [one for one in limits if not one["only"]]), None)

    def _check_limit(
        self, limit: dict[str, Any], of: str, who: str, fact: f.CommitmentProposed, weight: float, now: int
    ) -> None:
        open_now = [one for one in self._open(of, who) if one.proposed.commitment_id != fact.commitment_id]
        owed = weight + sum(self._weighs(one, limit, now) for one in open_now)
        ids = (fact.commitment_id, who)
        if limit.get("debt") is not None and owed > limit["debt"] + _SLACK:
            self._report("DEBT", ids, f"it takes the debt of {who} to {owed:.6g}, of {limit['debt']:g}")
        doubts = sum(one.status in _DOUBTED for one in open_now)
        doubts += sum(
            effect.status in _DOUBTED and self._concerns(of, who, effect.opened.intent_id, effect.opened.requested_by)
            for effect in self._operations.effects.values()
        )
        if limit.get("doubts") is not None and doubts >= limit["doubts"]:
            self._report("DEBT", ids, f"it is taken on while {who} has {doubts} unresolved, of {limit['doubts']}")

    def _open(self, of: str, who: str) -> Iterator[Obligation]:
        for known in self._commitments.obligations.values():
            made = known.proposed
            handed_over = of == "INTENT" and known.owner != f"intent:{made.intent_id}"
            concerns = self._concerns(of, who, made.intent_id, made.principal)
            if concerns and known.status not in _TERMINAL and not handed_over:
                yield known

    @staticmethod
    def _concerns(of: str, who: str, intent_id: str, asked_by: str) -> bool:
        return who == {"INTENT": intent_id, "TENANT": intent_id.split("/")[0], "PRINCIPAL": asked_by}[of]

    def _weighs(self, known: Obligation, limit: dict[str, Any], now: int) -> float:
        weight, made_at = self._made[known.proposed.commitment_id]
        weight *= float(limit["uncertain"]) if known.status in _UNCERTAIN else 1.0
        if limit.get("age_ms") is None:
            return weight
        return weight * (1 + (now // _MINUTE_MS - made_at // _MINUTE_MS) * _MINUTE_MS / float(limit["age_ms"]))
