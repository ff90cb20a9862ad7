"""The executors, the reconciler and the person of a gated run: they act under permits, and look at what is true."""

from joingate_processors.forensics.gated_stage import INTENT, Stage
from joingate_schemas import claims as c
from joingate_schemas.decisions import Command, InDoubtRequest
from joingate_schemas.facts import CompensationRequested

_UNDOING = ("delete_file", "release_window", "withdraw_review")


class Executor:
    """Processes without a model: they act once, under a permit; they crash, and their answers get lost."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.inbox: list[Command] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._withdrawn: set[str] = set()
        self._prepared_at: dict[tuple[str, int, str], int] = {}
        self._faults = {step.entity: step for step in stage.scenario.steps}
        self._calm = False

    def move(self) -> None:
        """Take one command, not always the oldest."""
        if self.inbox:
            self._do(self.inbox.pop(self._stage.rng.randrange(len(self.inbox))))

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
                self._act(command, in_time=self._stage.simulator.now - asked_at <= command.permit_ms)
            case "EXECUTE":
                self._act(command, in_time=self._stage.simulator.now <= command.act_until)
            case "UNKNOWN":
                raise AssertionError("the gate sends no command of an unknown kind")

    def _silence(self, command: Command) -> str:
        faults = self._faults.get(command.business_key)
        if faults is None or self._calm or self._stage.rng.random() < 0.2 * command.attempt:
            return "NONE"
        return faults.silence

    def _prepare(self, command: Command) -> None:
        stage = self._stage
        faults = self._faults.get(command.business_key)
        if faults is not None and faults.hasty and not self._calm:
            self._commit(command, f"hasty-{command.attempt}")
        if self._silence(command) == "BEFORE" and stage.rng.random() < 0.6:
            return
        workers = ["w1", "w2"] if stage.rng.random() < 0.2 else [stage.rng.choice(("w1", "w2"))]
        for worker in workers:
            self._prepared_at[command.operation_id, command.attempt, worker] = stage.simulator.now
            stage.say(
                c.Prepared(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                           attempt=command.attempt, executor=command.executor, worker=worker),
                "EXECUTOR",
            )  # fmt: skip

    def _act(self, command: Command, *, in_time: bool) -> None:
        """Perform the effect, if it still may, and say so, if the saying is not lost."""
        stage, rng = self._stage, self._stage.rng
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
            stage.say(
                c.InDoubt(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                          attempt=command.attempt, cause="timeout", evidence=[]),
                "EXECUTOR",
            )  # fmt: skip
            return
        self._commit(command, external_id)

    def _commit(self, command: Command, external_id: str) -> None:
        stage = self._stage
        stage.say(
            c.Commit(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                     attempt=command.attempt, external_id=external_id, evidence=[f"receipt:{external_id}"],
                     idempotency_key=command.operation_id),
            "EXECUTOR",
        )  # fmt: skip

    def _effect(self, command: Command) -> str:
        stage = self._stage
        if command.action == "read_file":
            return ""
        if command.action in _UNDOING:
            opened = stage.simulator.names.opened(command.operation_id)
            origin = opened.compensates if opened is not None else None
            if origin is None:
                commitment = stage.simulator.state.commitments.get(command.commitment_id or "")
                origin = commitment.creating_operation if commitment is not None else None
            stage.truth.undone.add(origin or "")
        return stage.truth.act(command.operation_id, command.action, command.business_key, command.downstream)

    def _abort(self, command: Command, proof: c.Proof | None, error: str) -> None:
        stage = self._stage
        stage.say(
            c.Abort(claim_id=stage.claim_id(), intent_id=INTENT, operation_id=command.operation_id,
                    attempt=command.attempt, proof=proof, error=error, evidence=[]),
            "EXECUTOR",
        )  # fmt: skip


class Reconciler:
    """Asks the systems of record what the gate wants to know, and a person where none can be asked."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
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
            self._look(self._questions[self._stage.rng.choice(sorted(self._questions))])

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
        stage, rng = self._stage, self._stage.rng
        now, found = stage.simulator.now, stage.truth.found(request.subject_id)
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
        stage = self._stage
        if stage.simulator.now < request.askable_from:
            return
        found = stage.truth.found(request.subject_id)
        stage.say(
            c.Override(claim_id=stage.claim_id(), intent_id=INTENT, principal="dana", subject_kind="OPERATION",
                       subject_id=request.subject_id, to="SETTLED" if found else "FAILED", reason="asked the recipient",
                       evidence=["call:17"], external_id=found[0] if found else ""),
            "OPERATOR",
        )  # fmt: skip

    def _commitment(self, request: InDoubtRequest) -> None:
        stage = self._stage
        commitment = stage.simulator.state.commitments.get(request.subject_id)
        creation = commitment.creating_operation if commitment is not None else None
        found = stage.truth.found(creation or "")
        self._observe(request, "PRESENT" if found else "ABSENT", found, None if found else "SECOND_LOOK")

    def _observe(self, request: InDoubtRequest, finding: c.Finding, found: list[str], proof: c.Proof | None) -> None:
        stage = self._stage
        self._version += 1
        # Now and then news is overtaken by later news of the same source.
        version = self._version - (2 if stage.rng.random() < 0.05 else 0)
        stage.say(
            c.Observe(claim_id=stage.claim_id(), intent_id=INTENT, subject_kind=request.subject_kind,
                      subject_id=request.subject_id, finding=finding, source=request.downstream,
                      source_version=max(version, 0), external_ids=found, proof=proof,
                      evidence=[f"look:{self._version}"]),
            "OBSERVER",
        )  # fmt: skip


class Person:
    """People: they approve or decline, undo by hand what was left to them, and look at what nobody can read."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._answered: set[str] = set()

    def move(self) -> None:
        """Answer what waits for an approval; now and then without patience for what is under way."""
        self.approve()
        if self._stage.rng.random() < 0.3:
            self.hurry()

    def hurry(self) -> None:
        """Say of what may have been sent, and is not to be seen, that it did not happen: mostly before it can land."""
        stage = self._stage
        for operation_id in stage.simulator.state.open_operations.members(INTENT):
            operation = stage.simulator.state.operations.get(operation_id)
            if operation is not None and operation.permits and not stage.truth.found(operation_id):
                stage.say(
                    c.Override(claim_id=stage.claim_id(), intent_id=INTENT, principal="dana", subject_kind="OPERATION",
                               subject_id=operation_id, to="FAILED", reason="nothing there", evidence=["screen:3"]),
                    "OPERATOR",
                )  # fmt: skip

    def approve(self, *, calm: bool = False) -> None:
        """Answer whatever waits for an approval: mostly yes, now and then no, or yes to other content."""
        stage = self._stage
        for operation_id in stage.simulator.state.open_operations.members(INTENT):
            operation = stage.simulator.state.operations.get(operation_id)
            if operation is None or operation.timer != "APPROVAL":
                continue
            digest = operation.content_digest if calm or stage.rng.random() < 0.8 else "of something else"
            answer = c.Approve if calm or stage.rng.random() < 0.9 else c.Decline
            stage.say(
                answer(claim_id=stage.claim_id(), intent_id=INTENT, principal="erin", operation_id=operation_id,
                       digest=digest),
                "APPROVER",
            )  # fmt: skip

    def answer_gates(self) -> None:
        """A person undoes by hand what the gate left to a human gate, and says so."""
        stage = self._stage
        for decision in stage.simulator.decisions:
            if decision.verdict != "COMPENSATE" or decision.subject_id in self._answered:
                continue
            operation = stage.simulator.state.operations.get(decision.subject_id)
            wishes = [fact for fact in decision.facts if isinstance(fact, CompensationRequested)]
            if operation is None or operation.status != "SETTLED" or any(wish.by for wish in wishes):
                continue
            self._answered.add(decision.subject_id)
            keeps = stage.rng.random() < 0.4
            if not keeps:
                stage.truth.undone.add(decision.subject_id)
            stage.say(
                c.Override(claim_id=stage.claim_id(), intent_id=INTENT, principal="dana", subject_kind="OPERATION",
                           subject_id=decision.subject_id, to="SETTLED" if keeps else "COMPENSATED",
                           reason="it may stay" if keeps else "made good by hand", evidence=["letter:9"]),
                "OPERATOR",
            )  # fmt: skip

    def dismiss_quarantined(self) -> None:
        """Look at what nobody can read, and dismiss it: what waited for it is decided then."""
        stage = self._stage
        for quarantine_id in stage.simulator.state.scoped_quarantines.members(INTENT):
            stage.say(
                c.Override(claim_id=stage.claim_id(), intent_id=INTENT, principal="dana", subject_kind="QUARANTINE",
                           subject_id=quarantine_id, to="DISMISSED", reason="noise", evidence=["ticket:4"]),
                "OPERATOR",
            )  # fmt: skip
