"""The room that knows derived ids by the names that people give: which operation is step s1's, which commitment.

It reads facts only, so that it works over any ledger, and it decides nothing: a trace, a test or a page asks it.
"""

from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision


class UnknownName(LookupError):
    """Nothing in the ledger goes by that name; the text is a sentence."""


class Directory:
    """Names of one ledger. Feed it every decision, in order."""

    def __init__(self) -> None:
        self._plan: dict[str, str] = {}  # intent id -> its plan in force, or the latest one that was
        self._slots: dict[tuple[str, str], list[tuple[str, str]]] = {}  # (intent, step) -> [(plan, slot id)] in order
        self._slot_of: dict[tuple[str, str, str], str] = {}  # (intent, action, business key) -> slot id
        self._latest: dict[str, str] = {}  # slot id -> its latest operation
        self._operations: dict[str, f.OperationOpened] = {}
        self._attempts: dict[str, int] = {}
        self._compensations: dict[str, str] = {}  # operation -> the latest operation that undoes it
        self._commitments: dict[tuple[str, str], str] = {}  # (intent, step) -> the latest commitment it made
        self._servants: dict[str, str] = {}  # commitment -> the latest operation that serves it
        self._digests: dict[str, str] = {}

    def read(self, decision: Decision) -> None:
        """Take in what the decision's facts name."""
        for fact in decision.facts:
            match fact:
                case f.PlanRecorded():
                    self._plan_recorded(fact)
                case f.OperationOpened():
                    self._operation_opened(fact)
                case f.AttemptStarted():
                    self._attempts[fact.operation_id] = fact.attempt
                case f.CommitmentProposed():
                    self._commitments[fact.intent_id, fact.step_id] = fact.commitment_id
                case f.CommitmentChanged() if fact.operation_id is not None:
                    self._servants[fact.commitment_id] = fact.operation_id
                case _:
                    pass  # names nothing new

    def _plan_recorded(self, fact: f.PlanRecorded) -> None:
        if fact.status == "ADOPTED":
            self._plan[fact.intent_id] = fact.plan_id
        for step in fact.steps:
            slot = step["slot_id"]
            self._slots.setdefault((fact.intent_id, step["step_id"]), []).append((fact.plan_id, slot))
            self._slot_of[fact.intent_id, step["action"], step["business_key"]] = slot

    def _operation_opened(self, fact: f.OperationOpened) -> None:
        self._operations[fact.operation_id] = fact
        self._attempts[fact.operation_id] = fact.attempt
        self._digests[fact.operation_id] = fact.content_digest
        if fact.compensates is not None:
            self._compensations[fact.compensates] = fact.operation_id
        slots = dict(self._slots.get((fact.intent_id, fact.step_id), ()))
        slot = slots.get(fact.plan_id) or self._slot_of.get((fact.intent_id, fact.action, fact.business_key))
        self._latest[slot or fact.operation_id] = fact.operation_id

    # --- answers -----------------------------------------------------------------------------------------------------

    def operation_of(self, intent_id: str, step_id: str) -> str:
        """The current operation of the step's slot, under the plan in force, else the latest plan that has the step.

        A step that was never dispatched answers with the id that its operation would have. Raises UnknownName.
        """
        slots = self._slots.get((intent_id, step_id))
        if not slots:
            raise UnknownName(f"no plan of intent {intent_id} has had a step {step_id} so far")
        slot = dict(slots).get(self._plan.get(intent_id, ""), slots[-1][1])
        return self._latest.get(slot, slot)

    def latest_of_slot(self, slot_id: str) -> str | None:
        """The latest operation of the slot, or None if none was opened."""
        return self._latest.get(slot_id)

    def attempt_of(self, operation_id: str) -> int:
        """The operation's current attempt; 1 for one that was never opened."""
        return self._attempts.get(operation_id, 1)

    def digest_of(self, operation_id: str) -> str:
        """The content digest that an approval of the operation names. Raises UnknownName."""
        if operation_id not in self._digests:
            raise UnknownName(f"operation {operation_id} was never opened, so it has no content to approve")
        return self._digests[operation_id]

    def compensation_of(self, intent_id: str, step_id: str) -> str:
        """The operation that undoes the step's operation. Raises UnknownName."""
        operation = self.operation_of(intent_id, step_id)
        if operation not in self._compensations:
            raise UnknownName(f"nothing compensates step {step_id} of intent {intent_id} so far")
        return self._compensations[operation]

    def commitment_of(self, intent_id: str, step_id: str) -> str:
        """The latest commitment that the step proposed. Raises UnknownName."""
        if (intent_id, step_id) not in self._commitments:
            raise UnknownName(f"step {step_id} of intent {intent_id} has proposed no commitment so far")
        return self._commitments[intent_id, step_id]

    def release_of(self, intent_id: str, step_id: str) -> str:
        """The latest operation that serves the step's commitment: its release. Raises UnknownName."""
        commitment = self.commitment_of(intent_id, step_id)
        if commitment not in self._servants:
            raise UnknownName(f"nothing releases the commitment of step {step_id} of intent {intent_id} so far")
        return self._servants[commitment]

    def opened(self, operation_id: str) -> f.OperationOpened | None:
        """How the operation was opened, or None if it was not."""
        return self._operations.get(operation_id)
