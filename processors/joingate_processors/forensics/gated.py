"""The room where planner, executor, reconciler and a person live through a scenario behind the gate.

They are honest where the model says that they are (an executor acts under its permit, once; a look-up tells the truth)
and faulty everywhere else: the planner makes successes up and asks again, answers get lost, claims come late, twice
and in another order, the gate is restarted. What the gate lets happen is what is checked.
"""

import random
from collections.abc import Callable

from joingate_processors.forensics.scenario import (
    REORDERED, REPEATED, RESTARTED, Scenario, StepFaults, Truth,
)  # fmt: skip
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command, InDoubtRequest

INTENT = "acme/prove/1"
_UNDOING = ("delete_file", "release_window", "withdraw_review")
_TURNS_A_STEP = 14
_TURNS_FIRST = 20
_ROUNDS_LAST = 8


class GatedRun:
    """One scenario behind the gate. `simulator` is the gate, `truth` the world."""

    def __init__(self, scenario: Scenario, rng: random.Random, catalogue: Catalogue, codec: Codec) -> None:
        self.scenario = scenario
        self.truth = Truth(keyed=frozenset(
            name for name, downstream in catalogue.downstreams.items() if "IDEMPOTENT_KEY" in downstream.capabilities
        ))  # fmt: skip
        self.simulator = Simulator(catalogue, batch=rng.choice((1, 1, 2, 5)), codec=codec)
        self._rng = rng
        self._wire: list[tuple[c.AnyClaim, c.Role]] = []
        self._said = 0
        self._heard = 0  # how much of what the gate sent is read
        self.executor = _Executor(self)
        self.reconciler = _Reconciler(self)
        self.planner = _Planner(self)

    @property
    def rng(self) -> random.Random:
        """Draws what happens next."""
        return self._rng

    def claim_id(self) -> str:
        """An id that no claim of this run has had."""
        self._said += 1
        return f"claim-{self._said}"

    def say(self, claim: c.AnyClaim, role: c.Role) -> None:
        """Put a claim on its way; it may come later than others, and twice."""
        self._wire.append((claim, role))
        if self._rng.random() < REPEATED:
            self._wire.append((claim, role))

    def run(self) -> None:
        """Live through it: first in disorder, then calmly until nothing moves any more."""
        rng = self._rng
        moves: list[tuple[float, Callable[[], None]]] = [
            (0.36, self.planner.move), (0.70, self.executor.move), (0.82, self.reconciler.move), (0.93, self._wait),
            (0.93 + RESTARTED, self.simulator.restart), (1.0, self._deliver),
        ]  # fmt: skip
        for _ in range(_TURNS_FIRST + _TURNS_A_STEP * len(self.scenario.steps)):
            drawn = rng.random()
            next(move for below, move in moves if drawn < below)()
            self._deliver()
            self._read_sent()
        for _ in range(_ROUNDS_LAST):
            if self._calm_round():
                return

    def _wait(self) -> None:
        self.simulator.advance(self._rng.choice((1, 50, 1_000, 5_000, 31_000, 95_000)))

    def _deliver(self) -> None:
        if self._wire:
            late = self._rng.random() < REORDERED
            claim, role = self._wire.pop(self._rng.randrange(len(self._wire)) if late else 0)
            self.simulator.submit(claim, role)

    def _read_sent(self) -> None:
        if self._rng.random() < 0.5:
            self.simulator.flush()
        sent = self.simulator.sent
        for record in sent[self._heard :]:
            if isinstance(record, Command):
                self.executor.inbox.append(record)
            elif isinstance(record, InDoubtRequest):
                self.reconciler.hear(record)
        self._heard = len(sent)

    def _calm_round(self) -> bool:
        """Everybody does what is to be done, then time passes. Returns whether nothing is left to do."""
        self.planner.finish()
        while self._wire:
            self.simulator.submit(*self._wire.pop(0))
        self.simulator.flush()
        self._read_sent()
        while self.executor.inbox or self._wire:
            self.executor.work_off()
            while self._wire:
                self.simulator.submit(*self._wire.pop(0))
            self.simulator.flush()
            self._read_sent()
        self.reconciler.work_off()
        self.simulator.advance(self._rng.choice((40_000, 120_000, 3_700_000)))
        intent = self.simulator.state.intents.get(INTENT)
        return intent is not None and intent.status == "CLOSED"


class _Planner:
    """A model and its harness: impatient, forgetful, sure of itself."""

    def __init__(self, run: GatedRun) -> None:
        self._run = run
        self._version = 1
        self._plans = 0
        self._confessed: set[str] = set()
        self._regretted: set[str] = set()
        self._replanned = not run.scenario.two_ids
        self._redeclared = not run.scenario.redeclared
        self._cancelled = not run.scenario.cancelled

    def move(self) -> None:
        """Do one thing, sensible or not."""
        run, rng = self._run, self._run.rng
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
            run.say(c.CancelIntent(claim_id=run.claim_id(), intent_id=INTENT, reason="changed its mind"), "PLANNER")
        elif rng.random() < 0.05:
            self._close()
        else:
            self._step(plan_id, rng.choice(run.scenario.steps))

    def finish(self) -> None:
        """Do what is sensible: ask for what is missing, take up what is done, close."""
        plan_id = self._in_force()
        self._discharge()
        if plan_id is None:
            self._close()  # a cancelled intent is closed without a plan
            return
        self._confessed.update(step.step_id for step in self._run.scenario.steps)
        for step in self._run.scenario.steps:
            self._step(plan_id, step, sensible=True)
        self._close()

    def _discharge(self) -> None:
        """Give back, or report as fulfilled, what is in force."""
        run = self._run
        for commitment_id in run.simulator.state.open_commitments.members(INTENT):
            commitment = run.simulator.state.commitments.get(commitment_id)
            if commitment is None or commitment.status != "ACTIVE":
                continue
            claim: c.AnyClaim = c.Release(claim_id=run.claim_id(), intent_id=INTENT, commitment_id=commitment_id)
            if run.rng.random() < 0.4:
                claim = c.MarkSatisfied(claim_id=run.claim_id(), intent_id=INTENT, commitment_id=commitment_id,
                                        evidence=["it was used"])  # fmt: skip
            run.say(claim, "PLANNER")

    def _in_force(self) -> str | None:
        """The plan in force, after asking for what is missing on the way to one."""
        intent = self._run.simulator.state.intents.get(INTENT)
        if intent is None or intent.version < self._version:
            self._declare()
        if intent is None or (intent.plan_id is None and intent.status == "OPEN"):
            self._plan(None)  # said at once: it may overtake the declaration
        return None if intent is None else intent.plan_id

    def _declare(self) -> None:
        run = self._run
        goals: list[c.Goal] = [{"goal_id": "g", "acceptance": "it is done"}]
        run.say(
            c.DeclareIntent(claim_id=run.claim_id(), intent_id=INTENT, version=self._version, goals=goals,
                            objective=f"try {self._version}"),
            "PLANNER",
        )  # fmt: skip

    def _plan(self, replaces: str | None) -> None:
        """A plan with step ids of its own: each time the model plans, it makes new ones up."""
        run = self._run
        self._plans += 1
        plan_id = f"p{self._plans}"
        steps: list[c.PlanStep] = [
            {"step_id": f"{plan_id}.{step.step_id}", "action": step.action, "business_key": step.entity,
             "arguments": {step.argument: step.entity}}
            for step in run.scenario.steps
        ]  # fmt: skip
        run.say(
            c.Plan(claim_id=run.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                   replaces=replaces, steps=steps, commitments=[]),
            "PLANNER",
        )  # fmt: skip

    def _operation(self, plan_id: str, step: StepFaults) -> tuple[str, Operation | None]:
        simulator = self._run.simulator
        identity = simulator.names.operation_of(INTENT, f"{plan_id}.{step.step_id}")
        return identity, simulator.state.operations.get(identity)

    def _step(self, plan_id: str, step: StepFaults, *, sensible: bool = False) -> None:
        rng = self._run.rng
        identity, operation = self._operation(plan_id, step)
        if step.fabricated and step.step_id not in self._confessed:
            self._fabricate(plan_id, step, identity)
        elif operation is None or operation.status in ("WITHDRAWN", "FAILED"):
            self._dispatch(plan_id, step)
        elif operation.status == "SETTLED":
            if step.late_abort and step.step_id not in self._regretted:
                self._regretted.add(step.step_id)
                self._abort(identity)
            else:
                self._succeed(plan_id, step)
        elif not sensible and rng.random() < (0.4 if step.duplicated else 0.1):
            self._dispatch(plan_id, step)
        elif not sensible and step.late_abort and rng.random() < 0.1:
            self._abort(identity)

    def _fabricate(self, plan_id: str, step: StepFaults, identity: str) -> None:
        """The model says that it is done: as a success, as a commit of its own, as the end of everything."""
        run, rng = self._run, self._run.rng
        if rng.random() < 0.5:
            run.say(
                c.Commit(claim_id=run.claim_id(), intent_id=INTENT, operation_id=identity, attempt=1,
                         external_id="made-up", evidence=["the model said so"]),
                "PLANNER",
            )  # fmt: skip
        self._succeed(plan_id, step)
        if rng.random() < 0.3:
            self._close()
        if rng.random() < 0.5:
            self._confessed.add(step.step_id)

    def _dispatch(self, plan_id: str, step: StepFaults) -> None:
        run = self._run
        run.say(
            c.Dispatch(claim_id=run.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                       step_id=f"{plan_id}.{step.step_id}"),
            "PLANNER",
        )  # fmt: skip

    def _succeed(self, plan_id: str, step: StepFaults) -> None:
        run = self._run
        run.say(
            c.Succeed(claim_id=run.claim_id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                      step_id=f"{plan_id}.{step.step_id}", evidence=[]),
            "PLANNER",
        )  # fmt: skip

    def _abort(self, identity: str) -> None:
        run = self._run
        run.say(
            c.Abort(claim_id=run.claim_id(), intent_id=INTENT, operation_id=identity, error="second thoughts",
                    evidence=[]),
            "PLANNER",
        )  # fmt: skip

    def _close(self) -> None:
        run = self._run
        run.say(c.Close(claim_id=run.claim_id(), intent_id=INTENT, outcome="done"), "PLANNER")


class _Executor:
    """Processes without a model: they act once, under a permit; they crash, and their answers get lost."""

    def __init__(self, run: GatedRun) -> None:
        self._run = run
        self.inbox: list[Command] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._withdrawn: set[str] = set()
        self._prepared_at: dict[tuple[str, int, str], int] = {}
        self._faults = {step.entity: step for step in run.scenario.steps}
        self._calm = False

    def move(self) -> None:
        """Take one command, not always the oldest."""
        if self.inbox:
            self._do(self.inbox.pop(self._run.rng.randrange(len(self.inbox))))

    def work_off(self) -> None:
        """Take every command, and fail at none from here on."""
        self._calm = True
        while self.inbox:
            self._do(self.inbox.pop(0))

    def _do(self, command: Command) -> None:
        seen = (command.kind, command.operation_id, command.attempt)
        if seen in self._seen:
            return  # a command that came twice is one command
        self._seen.add(seen)
        match command.kind:
            case "WITHDRAW":
                self._withdrawn.add(command.operation_id)
            case "PREPARE":
                if command.operation_id not in self._withdrawn:
                    self._prepare(command)
            case "PERMIT":
                asked_at = self._prepared_at[command.operation_id, command.attempt, command.worker]
                self._act(command, in_time=self._run.simulator.now - asked_at <= command.permit_ms)
            case "EXECUTE":
                self._act(command, in_time=self._run.simulator.now - command.issued_at <= command.permit_ms)
            case "UNKNOWN":
                raise AssertionError("the gate sends no command of an unknown kind")

    def _silence(self, command: Command) -> str:
        faults = self._faults.get(command.business_key)
        if faults is None or self._calm or self._run.rng.random() < 0.2 * command.attempt:
            return "NONE"
        return faults.silence

    def _prepare(self, command: Command) -> None:
        run = self._run
        faults = self._faults.get(command.business_key)
        if faults is not None and faults.hasty and not self._calm:
            self._commit(command, f"hasty-{command.attempt}")
        if self._silence(command) == "BEFORE" and run.rng.random() < 0.6:
            return
        workers = ["w1", "w2"] if run.rng.random() < 0.2 else [run.rng.choice(("w1", "w2"))]
        for worker in workers:
            self._prepared_at[command.operation_id, command.attempt, worker] = run.simulator.now
            run.say(
                c.Prepared(claim_id=run.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                           attempt=command.attempt, executor=command.executor, worker=worker),
                "EXECUTOR",
            )  # fmt: skip

    def _act(self, command: Command, *, in_time: bool) -> None:
        """Perform the effect, if it still may, and say so, if the saying is not lost."""
        run, rng = self._run, self._run.rng
        silence, faults = self._silence(command), self._faults.get(command.business_key)
        if not in_time or (not self._calm and rng.random() < 0.05):
            self._abort(command, "NOT_SENT", "it was too late to act")
            return
        if silence == "BEFORE":
            return  # it died before the effect
        external_id = self._effect(command)
        if silence == "AFTER":
            return  # it died after the effect
        if faults is not None and faults.no_proof and not self._calm:
            self._abort(command, None, "the connection broke")
            return
        if not self._calm and rng.random() < 0.05:
            run.say(
                c.InDoubt(claim_id=run.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                          attempt=command.attempt, cause="timeout", evidence=[]),
                "EXECUTOR",
            )  # fmt: skip
            return
        self._commit(command, external_id)

    def _commit(self, command: Command, external_id: str) -> None:
        run = self._run
        run.say(
            c.Commit(claim_id=run.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                     attempt=command.attempt, external_id=external_id, evidence=[f"receipt:{external_id}"],
                     idempotency_key=command.operation_id),
            "EXECUTOR",
        )  # fmt: skip

    def _effect(self, command: Command) -> str:
        run = self._run
        if command.action == "read_file":
            return ""
        if command.action in _UNDOING:
            opened = run.simulator.names.opened(command.operation_id)
            origin = opened.compensates if opened is not None else None
            if origin is None:
                commitment = run.simulator.state.commitments.get(command.commitment_id or "")
                origin = commitment.creating_operation if commitment is not None else None
            run.truth.undone.add(origin or "")
        return run.truth.act(command.operation_id, command.action, command.business_key, command.downstream)

    def _abort(self, command: Command, proof: c.Proof | None, error: str) -> None:
        run = self._run
        run.say(
            c.Abort(claim_id=run.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                    attempt=command.attempt, proof=proof, error=error, evidence=[]),
            "EXECUTOR",
        )  # fmt: skip


class _Reconciler:
    """Asks the systems of record what the gate wants to know, and a person where none can be asked."""

    def __init__(self, run: GatedRun) -> None:
        self._run = run
        self._questions: dict[str, InDoubtRequest] = {}
        self._version = 0

    def hear(self, request: InDoubtRequest) -> None:
        """Take in a question, or that one is settled."""
        if request.kind == "RESOLVED":
            self._questions.pop(request.subject_id, None)
        else:
            self._questions[request.subject_id] = request

    def move(self) -> None:
        """Look into one question."""
        if self._questions:
            self._look(self._questions[self._run.rng.choice(sorted(self._questions))])

    def work_off(self) -> None:
        """Look into every question."""
        for subject_id in sorted(self._questions):
            self._look(self._questions[subject_id])

    def _look(self, request: InDoubtRequest) -> None:
        match request.kind:
            case "RESOLVE_OPERATION":
                self._operation(request)
            case "HUMAN":
                self._person(request)
            case _:
                self._commitment(request)

    def _operation(self, request: InDoubtRequest) -> None:
        run, rng = self._run, self._run.rng
        now, found = run.simulator.now, run.truth.found(request.subject_id)
        if "IDEMPOTENT_KEY" in request.capabilities and request.fresh and rng.random() < 0.3:
            self._observe(request, "RESEND", [], None)
        elif "LOOKUP" not in request.capabilities:
            return
        elif found:
            self._observe(request, "PRESENT", found, None)
        elif now >= request.askable_from or rng.random() < 0.1:
            # Now and then it looks too early: what was sent may still land, and the gate has to know.
            self._observe(request, "ABSENT", [], "SECOND_LOOK")
        else:
            self._observe(request, "NOT_FOUND", [], None)

    def _person(self, request: InDoubtRequest) -> None:
        run = self._run
        if run.simulator.now < request.askable_from:
            return
        found = run.truth.found(request.subject_id)
        run.say(
            c.Override(claim_id=run.claim_id(), intent_id=INTENT, principal="dana", subject_kind="OPERATION",
                       subject_id=request.subject_id, to="SETTLED" if found else "FAILED", reason="asked the recipient",
                       evidence=["call:17"], external_id=found[0] if found else ""),
            "OPERATOR",
        )  # fmt: skip

    def _commitment(self, request: InDoubtRequest) -> None:
        run = self._run
        commitment = run.simulator.state.commitments.get(request.subject_id)
        creation = commitment.creating_operation if commitment is not None else None
        found = run.truth.found(creation or "")
        self._observe(request, "PRESENT" if found else "ABSENT", found, None if found else "SECOND_LOOK")

    def _observe(self, request: InDoubtRequest, finding: c.Finding, found: list[str], proof: c.Proof | None) -> None:
        run = self._run
        self._version += 1
        # Now and then news is overtaken by later news of the same source.
        version = self._version - (2 if run.rng.random() < 0.05 else 0)
        run.say(
            c.Observe(claim_id=run.claim_id(), intent_id=INTENT, subject_kind=request.subject_kind,
                      subject_id=request.subject_id, finding=finding, source=request.downstream,
                      source_version=max(version, 0), external_ids=found, proof=proof,
                      evidence=[f"look:{self._version}"]),
            "OBSERVER",
        )  # fmt: skip

