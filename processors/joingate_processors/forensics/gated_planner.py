"""The planner of a gated run: a model and its harness, impatient, forgetful and sure of itself."""

from joingate_processors.forensics.gated_stage import INTENT, Stage
from joingate_processors.forensics.scenario import StepFaults
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c


class Planner:
    """Asks, makes successes up, asks again under other names, regrets, and in the end does what is sensible."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._version = 1
        self._plans = 0
        self._confessed: set[str] = set()
        self._regretted: set[str] = set()
        self._replanned = not stage.scenario.two_ids
        self._redeclared = not stage.scenario.redeclared
        self._cancelled = not stage.scenario.cancelled
        required = {step.requires for step in stage.scenario.steps}
        self._relied_on = {step.entity for step in stage.scenario.steps if step.step_id in required}

    def move(self) -> None:
        """Do one thing, sensible or not."""
        stage, rng = self._stage, self._stage.rng
        plan_id = self._in_force()
        if plan_id is None:
            return
        if not self._replanned and rng.random() < 0.15:
            self._replanned = True
            self._plan(plan_id)
        elif not self._redeclared and rng.random() < 0.1:
            self._redeclared = True
            self._version += 1
            self._declare()
        elif not self._cancelled and rng.random() < 0.1:
            self._cancelled = True
            stage.say(c.CancelIntent(claim_id=stage.claim_id(), intent_id=INTENT, reason="changed its mind"), "PLANNER")
        elif rng.random() < 0.05:
            self._close()
        else:
            self._step(plan_id, rng.choice(stage.scenario.steps))

    def finish(self) -> None:
        """Do what is sensible: ask for what is missing, take up what is done, close."""
        plan_id = self._in_force()
        self._discharge()
        if plan_id is None:
            self._close()  # a cancelled intent is closed without a plan
            return
        self._confessed.update(step.step_id for step in self._stage.scenario.steps)
        for step in self._stage.scenario.steps:
            self._step(plan_id, step, sensible=True)
        self._close()

    def _discharge(self) -> None:
        """Give back, or report as fulfilled, what is in force."""
        stage = self._stage
        for commitment_id in stage.simulator.state.open_commitments.members(INTENT):
            commitment = stage.simulator.state.commitments.get(commitment_id)
            if commitment is None or commitment.status != "ACTIVE":
                continue
            claim: c.AnyClaim = c.Release(claim_id=stage.claim_id(), intent_id=INTENT, commitment_id=commitment_id)
            creating = stage.simulator.state.operations.get(commitment.creating_operation or "")
            relied_on = creating is not None and creating.business_key in self._relied_on
            if stage.rng.random() < 0.4 or relied_on:
                claim = c.MarkSatisfied(claim_id=stage.claim_id(), intent_id=INTENT, commitment_id=commitment_id,
                                        evidence=["it was used"])  # fmt: skip
            stage.say(claim, "PLANNER")

    def _in_force(self) -> str | None:
        """The plan in force, after asking for what is missing on the way to one."""
        intent = self._stage.simulator.state.intents.get(INTENT)
        if intent is None or intent.version < self._version:
            self._declare()
        if intent is None or (intent.plan_id is None and intent.status == "OPEN"):
            self._plan(None)  # said at once: it may overtake the declaration
        return None if intent is None else intent.plan_id

    def _declare(self) -> None:
        stage = self._stage
        goals: list[c.Goal] = [{"goal_id": "g", "acceptance": "it is done"}]
        stage.say(
            c.DeclareIntent(claim_id=stage.claim_id(), intent_id=INTENT, version=self._version, goals=goals,
                            objective=f"try {self._version}"),
            "PLANNER",
        )  # fmt: skip

    def _plan(self, replaces: str | None) -> None:
        """A plan with step ids of its own: each time the model plans, it makes new ones up."""
        stage = self._stage
        self._plans += 1
        plan_id = f"p{self._plans}"
        steps: list[c.PlanStep] = [
            {"step_id": f"{plan_id}.{step.step_id}", "action": step.action, "business_key": step.entity,
             "arguments": {step.argument: step.entity}, "edges": _edges(plan_id, step)}
            for step in stage.scenario.steps
        ]  # fmt: skip
        stage.say(
            c.Plan(claim_id=stage.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                   replaces=replaces, steps=steps, commitments=[]),
            "PLANNER",
        )  # fmt: skip

    def _operation(self, plan_id: str, step: StepFaults) -> tuple[str, Operation | None]:
        simulator = self._stage.simulator
        identity = simulator.names.operation_of(INTENT, f"{plan_id}.{step.step_id}")
        return identity, simulator.state.operations.get(identity)

    def _step(self, plan_id: str, step: StepFaults, *, sensible: bool = False) -> None:
        rng = self._stage.rng
        identity, operation = self._operation(plan_id, step)
        if step.fabricated and step.step_id not in self._confessed:
            self._fabricate(plan_id, step, identity)
        elif operation is None or operation.status in ("WITHDRAWN", "FAILED"):
            self._dispatch(plan_id, step)
        elif operation.status == "COMPENSATED" and step.entity in self._relied_on:
            self._dispatch(plan_id, step)  # it was regretted, and others rest on it: once more
        elif operation.status == "SETTLED":
            if step.late_abort and step.step_id not in self._regretted:
                self._regretted.add(step.step_id)
                self._abort(identity)
            else:
                self._succeed(plan_id, step)
        elif not sensible and step.fabricated and rng.random() < 0.2:
            self._commit(identity, operation.attempt)  # impatient: it is surely done by now
        elif not sensible and rng.random() < (0.4 if step.duplicated else 0.1):
            self._dispatch(plan_id, step)
        elif not sensible and step.late_abort and rng.random() < 0.1:
            self._abort(identity)

    def _fabricate(self, plan_id: str, step: StepFaults, identity: str) -> None:
        """The model says that it is done: as a success, as a commit of its own, as the end of everything."""
        rng = self._stage.rng
        if rng.random() < 0.5:
            self._commit(identity, 1)
        self._succeed(plan_id, step)
        if rng.random() < 0.3:
            self._close()
        if rng.random() < 0.5:
            self._confessed.add(step.step_id)

    def _commit(self, identity: str, attempt: int) -> None:
        stage = self._stage
        stage.say(
            c.Commit(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=identity, attempt=attempt,
                     external_id="made-up", evidence=["the model said so"]),
            "PLANNER",
        )  # fmt: skip

    def _dispatch(self, plan_id: str, step: StepFaults) -> None:
        stage = self._stage
        stage.say(
            c.Dispatch(claim_id=stage.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                       step_id=f"{plan_id}.{step.step_id}"),
            "PLANNER",
        )  # fmt: skip

    def _succeed(self, plan_id: str, step: StepFaults) -> None:
        stage = self._stage
        stage.say(
            c.Succeed(claim_id=stage.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                      step_id=f"{plan_id}.{step.step_id}", evidence=[]),
            "PLANNER",
        )  # fmt: skip

    def _abort(self, identity: str) -> None:
        stage = self._stage
        stage.say(
            c.Abort(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=identity, error="second thoughts",
                    evidence=[]),
            "PLANNER",
        )  # fmt: skip

    def _close(self) -> None:
        stage = self._stage
        stage.say(c.Close(claim_id=stage.claim_id(), intent_id=INTENT, outcome="done"), "PLANNER")


def _edges(plan_id: str, step: StepFaults) -> list[c.Edge]:
    return [] if step.requires is None else [{"kind": "REQUIRES", "step_id": f"{plan_id}.{step.requires}"}]
