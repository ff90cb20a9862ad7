"""Given, when, then: a court over the law in memory, which checks the state and the chain after every decision."""

import hashlib
from typing import Any

from joingate_processors.gate.vouching import vouched
from joingate_processors.law.arrival import Arrival
from joingate_processors.law.evolve import evolve
from joingate_processors.law.judge import fold, follow_ups, judge, timer_arrival
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.outgoing import Outgoing, outgoing
from joingate_processors.law.state import Commitment, Intent, Operation, State, Step, plan_key, step_key
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic, Command, Decision, InDoubtRequest
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import operation_id
from joingate_schemas.signing import Signer

from .invariants import check_state

CODEC = Codec()
INTENT = "acme/errand/1"
START_AT = 1_000_000_000
_TOPICS: dict[c.Role, ClaimTopic] = {
    "PLANNER": "proposals", "EXECUTOR": "outcomes", "APPROVER": "approvals", "OBSERVER": "observations",
    "OPERATOR": "overrides", "GATE": "gate",
}  # fmt: skip
HOME: dict[str, ClaimTopic] = {name: _TOPICS[role] for role in reversed(_TOPICS) for name in c.ROLE_TYPES[role]}
HOME.update(dict.fromkeys(("ResourceGranted", "ResourceDenied", "ResourceExpired"), "resource-verdicts"))
"""The topic of each type of claim; of those that two roles may write, the planner's."""


def step(step_id: str, action: str = "notify", business_key: str = "", **fields: Any) -> c.PlanStep:
    """A planned step; without a business key it has one of its own."""
    made: c.PlanStep = {"step_id": step_id, "action": action, "business_key": business_key or f"entity-{step_id}"}
    made.update(fields)  # type: ignore[typeddict-item]
    return made


class Court:
    """One partition's law. Claims that say nothing else are about intent `INTENT`, its last `version` and `plan_id`."""

    def __init__(self, catalogue: Catalogue | None = None) -> None:
        self.catalogue = catalogue or builtin_catalogue()
        self.state = MemoryState()
        self.now = START_AT
        self.decisions: list[Decision] = []
        self.ledger: list[bytes] = []
        self.out: list[Outgoing] = []
        self.signers: dict[str, Signer] = {}  # whose claims are signed, and by what
        self.plan_id = "p1"
        self.version = 1
        self._claims = 0
        self._offsets = 0

    # --- deciding ----------------------------------------------------------------------------------------------------

    def say(self, claim: c.AnyClaim, topic: ClaimTopic | None = None, appended_at: int | None = None) -> Decision:
        """The claim arrives on `topic` (its own, if none is named); returns its decision, or that it is held."""
        signer = self.signers.get(claim.principal)
        raw = CODEC.encode(claim if signer is None else signer.sign(claim))
        topic = topic or HOME[type(claim).__name__]
        self._offsets += 1
        offset = -1 if topic == "gate" else self._offsets
        place = len(self.decisions)
        self._decide(self._heard(raw, topic, offset, self.now if appended_at is None else appended_at))
        return self.decisions[place]

    def _heard(self, raw: bytes, topic: ClaimTopic, offset: int, appended_at: int) -> Arrival:
        claim = CODEC.decode(raw)
        assert isinstance(claim, c.Claim)
        return Arrival(claim=claim, raw=raw, topic=topic, offset=offset, appended_at=appended_at)  # type: ignore[arg-type]

    def _decide(self, arrival: Arrival) -> None:
        heard = vouched(self.state, self.catalogue, arrival, CODEC.decode)
        decision = judge(self.state, heard, self.catalogue, epoch=1)
        raw = CODEC.encode(decision)
        fold(self.state, decision, hashlib.sha256(raw).digest())
        self.ledger.append(raw)
        self.decisions.append(decision)
        self.out += outgoing(self.state, decision, self.catalogue, 0)
        check_state(self.state)
        for freed in follow_ups(self.state, decision, arrival.claim):
            self._decide(self._heard(freed.raw, freed.topic, freed.offset, freed.appended_at))

    def advance(self, ms: int) -> list[Decision]:
        """Let time pass and every timer fire at its own time; returns what they decided."""
        until, before = self.now + ms, len(self.decisions)
        while due := self.state.due(until, 1):
            self.now = max(self.now, due[0].due_at)
            self._decide(timer_arrival(self.state, due[0], self.now, CODEC.encode))
            assert self.state.due(until, 1) != due, f"{due[0]} fired and is still due"
        self.now = until
        return self.decisions[before:]

    def tell(self, fact: AnyFact) -> None:
        """Fold a fact that no claim led to: for what another part of the law brings about."""
        evolve(self.state, fact, self.now)

    def replayed(self) -> MemoryState:
        """The state that the encoded ledger alone rebuilds."""
        state = MemoryState()
        for raw in self.ledger:
            self.fold_into(state, raw)
        return state

    @staticmethod
    def fold_into(state: State, raw: bytes) -> None:
        """Fold one record of the ledger into a state."""
        decision = CODEC.decode(raw)
        assert isinstance(decision, Decision)
        fold(state, decision, hashlib.sha256(raw).digest())

    def claim_id(self) -> str:
        """An id that no claim has had."""
        self._claims += 1
        return f"claim-{self._claims}"

    def _common(self, given: dict[str, Any]) -> dict[str, Any]:
        common: dict[str, Any] = {"claim_id": self.claim_id(), "intent_id": INTENT, "principal": "somebody"}
        return {**common, **{name: value for name, value in given.items() if name != "topic"}}

    def _say(self, cls: type[Any], given: dict[str, Any], **fields: Any) -> Decision:
        return self.say(cls(**{**fields, **self._common(given)}), given.get("topic"))

    # --- looking -----------------------------------------------------------------------------------------------------

    def intent(self) -> Intent:
        """The intent's row."""
        row = self.state.intents.get(INTENT)
        assert row is not None
        return row

    def step(self, step_id: str, plan_id: str | None = None) -> Step:
        """The row of a planned step."""
        row = self.state.steps.get(step_key(INTENT, plan_id or self.plan_id, step_id))
        assert row is not None, step_id
        return row

    def op_id(self, step_id: str) -> str:
        """The id of the step's operation, of its slot's latest generation; what is no step's id stands for itself."""
        row = self.state.steps.get(step_key(INTENT, self.plan_id, step_id))
        if row is None:
            return step_id
        first = self.state.operations.get(row.slot_id)
        if first is None or first.latest_generation == 1:
            return row.slot_id
        return operation_id(INTENT, row.action, row.business_key, first.latest_generation)

    def op(self, step_id: str) -> Operation:
        """The operation's row."""
        row = self.state.operations.get(self.op_id(step_id))
        assert row is not None, step_id
        return row

    def commitment_id(self, step_id: str) -> str:
        """The id of the commitment that the step's operation creates; what is no step's id stands for itself."""
        row = self.state.operations.get(self.op_id(step_id))
        return step_id if row is None or row.commitment_id is None else row.commitment_id

    def commitment(self, step_id: str) -> Commitment:
        """The commitment's row."""
        row = self.state.commitments.get(self.commitment_id(step_id))
        assert row is not None, step_id
        return row

    def release_of(self, step_id: str) -> str:
        """The id of the operation that releases the step's commitment now."""
        serving = self.commitment(step_id).serving_operation
        assert serving is not None
        return serving

    def orphans(self) -> list[str]:
        """The kinds of the open incidents."""
        return sorted(row.kind for _, row in self.state.rows("orphans"))  # type: ignore[attr-defined]

    def commands(self, operation: str) -> list[str]:
        """The commands that went out for the operation, as `KIND attempt`."""
        return [f"{o.kind} {o.attempt}" for o in self.out if isinstance(o, Command) and o.operation_id == operation]

    def questions(self, subject_id: str) -> list[InDoubtRequest]:
        """What went to the reconciler about the subject."""
        return [o for o in self.out if isinstance(o, InDoubtRequest) and o.subject_id == subject_id]

    # --- saying ------------------------------------------------------------------------------------------------------

    def declare(self, version: int = 1, goals: list[c.Goal] | None = None, **given: Any) -> Decision:
        decision = self._say(c.DeclareIntent, given, version=version, goals=goals or [])
        if decision.verdict == "ACCEPTED":
            self.version = version
        return decision

    def plan(self, *steps: c.PlanStep, plan_id: str = "p1", **given: Any) -> Decision:
        decision = self._say(c.Plan, given, intent_version=given.pop("intent_version", self.version), plan_id=plan_id,
                             steps=list(steps), commitments=given.pop("commitments", []))  # fmt: skip
        if decision.verdict == "ACCEPTED" and given.get("adopt", True):
            self.plan_id = plan_id
        return decision

    def dispatch(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.Dispatch, given, intent_version=self.version, plan_id=self.plan_id, step_id=step_id)

    def prepared(self, step_id: str, **given: Any) -> Decision:
        row = self.state.operations.get(self.op_id(step_id))
        executor, attempt = ("messenger", 1) if row is None else (row.executor, row.attempt)
        return self._say(c.Prepared, given, operation_id=self.op_id(step_id), attempt=attempt, executor=executor,
                         worker="w1")  # fmt: skip

    def commit(self, step_id: str, **given: Any) -> Decision:
        row = self.state.operations.get(self.op_id(step_id))
        return self._say(c.Commit, given, operation_id=self.op_id(step_id), attempt=1 if row is None else row.attempt,
                         external_id="ext-1", evidence=["receipt"])  # fmt: skip

    def abort(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.Abort, given, operation_id=self.op_id(step_id), evidence=[])

    def executor_abort(self, step_id: str, **given: Any) -> Decision:
        return self.abort(step_id, topic="outcomes", **given)

    def in_doubt(self, step_id: str, **given: Any) -> Decision:
        row = self.state.operations.get(self.op_id(step_id))
        return self._say(c.InDoubt, given, operation_id=self.op_id(step_id), attempt=1 if row is None else row.attempt,
                         evidence=[])  # fmt: skip

    def succeed(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.Succeed, given, intent_version=self.version, plan_id=self.plan_id, step_id=step_id,
                         evidence=[])  # fmt: skip

    def close(self, **given: Any) -> Decision:
        return self._say(c.Close, given)

    def cancel(self, **given: Any) -> Decision:
        return self._say(c.CancelIntent, given)

    def observe(self, step_id: str, finding: str, **given: Any) -> Decision:
        """News about the step's operation."""
        return self._say(c.Observe, given, subject_kind="OPERATION", subject_id=self.op_id(step_id), finding=finding,
                         source="record", external_ids=[], evidence=["looked"])  # fmt: skip

    def observe_commitment(self, step_id: str, finding: str, **given: Any) -> Decision:
        return self._say(c.Observe, given, subject_kind="COMMITMENT", subject_id=self.commitment_id(step_id),
                         finding=finding, source="record", external_ids=[], evidence=["looked"])  # fmt: skip

    def observe_condition(self, condition: str, finding: str, **given: Any) -> Decision:
        return self._say(c.Observe, given, subject_kind="CONDITION", subject_id=condition, finding=finding,
                         source="record", external_ids=[], evidence=["looked"])  # fmt: skip

    def observe_goal(self, goal_id: str, finding: str, **given: Any) -> Decision:
        return self._say(c.Observe, given, subject_kind="GOAL", subject_id=goal_id, finding=finding, source="record",
                         external_ids=[], evidence=["looked"])  # fmt: skip

    def release(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.Release, given, commitment_id=self.commitment_id(step_id))

    def satisfied(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.MarkSatisfied, given, commitment_id=self.commitment_id(step_id), evidence=["done"])

    def approve(self, step_id: str, **given: Any) -> Decision:
        row = self.state.operations.get(self.op_id(step_id))
        return self._say(c.Approve, given, operation_id=self.op_id(step_id), digest=row.content_digest if row else "")

    def approve_plan(self, plan_id: str, **given: Any) -> Decision:
        row = self.state.plans.get(plan_key(INTENT, plan_id))
        return self._say(c.Approve, given, plan_id=plan_id, digest=row.content_digest if row else "")

    def decline_plan(self, plan_id: str, **given: Any) -> Decision:
        row = self.state.plans.get(plan_key(INTENT, plan_id))
        return self._say(c.Decline, given, plan_id=plan_id, digest=row.content_digest if row else "")

    def decline(self, step_id: str, **given: Any) -> Decision:
        return self._say(c.Decline, given, operation_id=self.op_id(step_id), digest=self.op(step_id).content_digest)

    def override(self, kind: c.SubjectKind, subject_id: str, to: str, **given: Any) -> Decision:
        return self._say(c.Override, given, subject_kind=kind, subject_id=subject_id, to=to, reason="seen by hand",
                         evidence=["ticket-7"])  # fmt: skip

    def reconcile(self, kind: c.SubjectKind, subject_id: str, **given: Any) -> Decision:
        return self._say(c.RequestReconciliation, given, subject_kind=kind, subject_id=subject_id)

    def transfer(self, step_id: str, target: str = "team:ops", **given: Any) -> Decision:
        return self._say(c.Transfer, given, commitment_id=self.commitment_id(step_id), target_owner=target)

    def accept(self, step_id: str, owner_id: str = "team:ops", **given: Any) -> Decision:
        """The target takes over, with the token of the offer, unless another is given."""
        held = self.state.custodies.get(self.commitment_id(step_id))
        return self._say(c.AcceptTransfer, given, commitment_id=self.commitment_id(step_id), owner_id=owner_id,
                         fencing_token=0 if held is None else held.offered_token, evidence=[])  # fmt: skip

    def assign(self, step_id: str, owner_id: str = "team:ops", policy: str = "on-call", **given: Any) -> Decision:
        return self._say(c.AssignOwner, given, commitment_id=self.commitment_id(step_id), owner_id=owner_id,
                         policy=policy)  # fmt: skip

    def retire(self, owner_id: str = f"intent:{INTENT}", **given: Any) -> Decision:
        return self._say(c.RetireOwner, {"intent_id": "", **given}, owner_id=owner_id)

    def lease(self, step_id: str, worker: str = "w1", number: int = 0, **given: Any) -> Decision:
        """The worker asks for the lease of the step's commitment, or renews the one with this number."""
        origin = self.state.operations.get(self.op_id(step_id))
        return self._say(c.Prepared, given, operation_id="", attempt=number, worker=worker,
                         executor="cloud" if origin is None else origin.executor,
                         commitment_id=self.commitment_id(step_id))  # fmt: skip

    def promise(self, text: str = "done by noon", counterparty: str = "customer:7", **given: Any) -> Decision:
        return self._say(c.Promise, given, intent_version=self.version, obligation_type="promise", text=text,
                         counterparty=counterparty)  # fmt: skip

    def token(self, step_id: str) -> int:
        """The fencing token of the commitment's present owner."""
        held = self.state.custodies.get(self.commitment_id(step_id))
        return 0 if held is None else held.fencing_token

    def quarantine(
        self, scope: str | None = INTENT, problem: str = "UNREADABLE", place: str = "outcomes/0/7"
    ) -> Decision:
        return self.say(c.ClaimQuarantined(claim_id=place, intent_id=scope or "", quarantine_id=place, scope=scope,
                                           problem=problem, detail="rubbish"))  # fmt: skip

    def load(self, accepted: str = "") -> Decision:
        """The gate takes up its catalogue."""
        return self.say(
            c.CatalogueChanged(claim_id="load", intent_id="", digest=self.catalogue.digest, version="1",
                               catalogue=self.catalogue.source, accepted=accepted)
        )  # fmt: skip

    # --- whole stretches ---------------------------------------------------------------------------------------------

    def open(self, *steps: c.PlanStep, **given: Any) -> None:
        """The intent is declared and the plan adopted."""
        assert self.declare().verdict == "ACCEPTED"
        decision = self.plan(*steps, **given)
        assert decision.verdict == "ACCEPTED", decision

    def permit(self, step_id: str) -> None:
        """The step is dispatched and, in two phases, has its permit."""
        if self.state.operations.get(self.op_id(step_id)) is None or self.op(step_id).status in ("FAILED", "WITHDRAWN"):
            decision = self.dispatch(step_id)
            assert decision.verdict == "ACCEPTED", decision
        if self.op(step_id).phases == "TWO_PHASE":
            decision = self.prepared(step_id)
            assert decision.verdict == "ACCEPTED", decision

    def perform(self, step_id: str, **given: Any) -> None:
        """The step's operation is settled."""
        self.permit(step_id)
        decision = self.commit(step_id, **given)
        assert decision.verdict == "ACCEPTED", decision

    def perform_release(self, step_id: str) -> None:
        """The release of the step's commitment gets its permit and is committed."""
        release = self.release_of(step_id)
        assert self.prepared(release).verdict == "ACCEPTED"
        assert self.commit(release, external_id="rel-1").verdict == "ACCEPTED"

    def active(self, step_id: str) -> None:
        """The step's commitment is made and observed."""
        self.perform(step_id)
        assert self.observe_commitment(step_id, "PRESENT").status == "ACTIVE"
