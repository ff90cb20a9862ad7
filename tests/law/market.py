"""Both deciders together in memory: several intents that want the same resources, and what is true of them all."""

from typing import Any

from joingate_processors.forensics.checked_both import TwoLedgers
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import OPEN_OPERATION
from joingate_schemas.ids import commitment_id, operation_id

from .catalogues import arbitrated


class Market:
    """Intents are called by one word; each has one plan of one step `s1`, unless it is replanned."""

    def __init__(self, catalogue: Catalogue | None = None, batch: int = 1) -> None:
        self.sim = Simulator(catalogue or arbitrated(), batch=batch)
        self._claims = 0
        self._slots: dict[str, tuple[str, str]] = {}
        self._plans: dict[str, str] = {}

    def say(self, cls: type[Any], role: c.Role, intent: str, **fields: Any) -> Decision:
        """A claim about the intent."""
        self._claims += 1
        common = {"claim_id": f"claim-{self._claims}", "intent_id": f"acme/{intent}", "principal": "ann"}
        decision = self.sim.submit(cls(**{**common, **fields}), role)
        self.sim.flush()
        return decision

    def want(self, intent: str, action: str, key: str = "", **arguments: Any) -> Decision:
        """The intent wants the action done: declared, planned and dispatched."""
        self.say(c.DeclareIntent, "PLANNER", intent, version=1, tenant="acme", goals=[])
        self.plan(intent, action, key, **arguments)
        return self.dispatch(intent)

    def plan(self, intent: str, action: str, key: str = "", **arguments: Any) -> Decision:
        """Plan it, in the place of the plan in force."""
        key = key or intent
        before, plan_id = self._plans.get(intent), f"p{self._claims}"
        planned: c.PlanStep = {"step_id": "s1", "action": action, "business_key": key, "arguments": arguments}
        self._slots[intent], self._plans[intent] = (action, key), plan_id
        return self.say(c.Plan, "PLANNER", intent, intent_version=1, plan_id=plan_id, replaces=before,
                        steps=[planned], commitments=[])  # fmt: skip

    def plan_id(self, intent: str) -> str:
        """The intent's latest plan."""
        return self._plans[intent]

    def dispatch(self, intent: str, **fields: Any) -> Decision:
        """Ask for it, or ask again."""
        return self.say(c.Dispatch, "PLANNER", intent, intent_version=1, plan_id=self._plans[intent], step_id="s1",
                        **fields)  # fmt: skip

    def op(self, intent: str) -> Operation:
        """The latest operation of the intent's step."""
        action, key = self._slots[intent]
        first = self.sim.state.operations.get(operation_id(f"acme/{intent}", action, key, 1))
        assert first is not None, intent
        latest = operation_id(f"acme/{intent}", action, key, first.latest_generation)
        row = self.sim.state.operations.get(latest)
        assert row is not None, intent
        return row

    def status(self, intent: str) -> str:
        """Where its operation stands."""
        return self.op(intent).status

    def prepared(self, intent: str) -> Decision:
        """A worker asks for the permit."""
        row = self.op(intent)
        return self.say(c.Prepared, "EXECUTOR", intent, operation_id=row.operation_id, attempt=row.attempt,
                        executor=row.executor, worker="w1")  # fmt: skip

    def commit(self, intent: str, **fields: Any) -> Decision:
        """The effect is there."""
        row = self.op(intent)
        return self.say(c.Commit, "EXECUTOR", intent, **{
            "operation_id": row.operation_id, "attempt": row.attempt, "external_id": f"ext-{intent}",
            "evidence": ["receipt"], **fields,
        })  # fmt: skip

    def settle(self, intent: str) -> None:
        """Its operation is permitted, where it needs that, and done."""
        if self.op(intent).phases == "TWO_PHASE":
            self.prepared(intent)
        self.commit(intent)

    def doubt(self, intent: str) -> Decision:
        """The executor can't tell."""
        row = self.op(intent)
        return self.say(c.InDoubt, "EXECUTOR", intent, operation_id=row.operation_id, attempt=row.attempt, evidence=[])

    def abort(self, intent: str) -> Decision:
        """The planner does not want it any more."""
        return self.say(c.Abort, "PLANNER", intent, operation_id=self.op(intent).operation_id, evidence=[])

    def override(self, intent: str, to: str) -> Decision:
        """A person says how the operation ended."""
        return self.say(c.Override, "OPERATOR", intent, subject_kind="OPERATION", to=to, reason="seen", external_id="",
                        subject_id=self.op(intent).operation_id, evidence=["ticket"])  # fmt: skip

    def commitment(self, intent: str, kind: str, reference: str) -> str:
        """The id of the commitment that its first operation made."""
        return commitment_id(f"acme/{intent}", kind, [reference], 1)

    def observe(self, intent: str, commitment: str, finding: c.Finding) -> Decision:
        """News of the commitment."""
        return self.say(c.Observe, "OBSERVER", intent, subject_kind="COMMITMENT", subject_id=commitment,
                        finding=finding, source="cloud", source_version=self._claims, external_ids=[],
                        evidence=["look"])  # fmt: skip

    def holders(self, reference: str) -> list[str]:
        """Who has the resource, by intent, and how."""
        held = self.sim.arbiter.state.holders(reference)
        return [f"{hold['intent_id'].removeprefix('acme/')} {hold['status']}" for hold in held]

    def commands(self, intent: str) -> list[str]:
        """The commands that went out for its latest operation."""
        identity = self.op(intent).operation_id
        return [one.kind for one in self.sim.sent if isinstance(one, Command) and one.operation_id == identity]

    def beside(self) -> TwoLedgers:
        """The two ledgers beside each other, as they are read when both are live: the arbiter's first."""
        book = TwoLedgers()
        for ruling in self.sim.arbiter.decisions:
            book.ruling(0, ruling)
        for decision in self.sim.decisions:
            book.decision(self.sim.partition, decision)
        return book

    def check(self) -> None:
        """What may act has what it needs; what the arbiter has given is known to its gate; nobody waits unheard."""
        beside = self.beside()
        assert [*beside.unheard(), *beside.unasked(), *beside.kept()] == []
        state, arbiter = self.sim.state, self.sim.arbiter.state
        for _, row in state.rows("operations"):
            assert isinstance(row, Operation)
            held = {one for one in row.needs if arbiter.hold(one, row.operation_id) is not None}
            if row.needs and row.status in ("VALIDATED", "SUBMITTED"):
                assert held == set(row.needs), f"it may act without what it needs: {row}"
            if row.status in ("WITHDRAWN", "FAILED", "COMPENSATED"):
                assert not held, f"it ended and holds {held}: {row}"
            if row.timer == "RESOURCES":
                assert not row.asked, f"the arbiter has answered everything: {row}"
        for hold in arbiter.all_holds():
            row = state.operations.get(hold["operation_id"])
            assert row is not None, hold
            assert hold["resource_ref"] in row.needs, hold
            if row.status == "SETTLED" and row.commitment_id is None:
                assert hold["status"] == "SPENT", hold
            elif row.status in OPEN_OPERATION:
                assert hold["status"] != "SPENT" or row.in_doubt_cause, hold
