"""The full graph of the comparison: the gate's own law, with an honest planner, executors that die, and a reconciler.

Goals, commitments, tasks and operations are what the law makes of the planner's claims. Whatever it shows as unclear
is looked up, whatever it shows as left behind is decided by its owner; about what it shows to nobody, nobody does
anything.
"""

from joingate_processors.forensics.obligations_world import (
    Outcome,
    Provider,
    Slot,
    Story,
    Taken,
    attribute_after,
    judged,
)  # fmt: skip
from joingate_processors.forensics.simulator import Simulator
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command, InDoubtRequest

INTENT = "acme/obligations/1"
_ROUND_MS = 31_000
_ROUNDS_MAX = 60


class FullGraph:
    """One story behind the gate. `simulator` is the gate, for whoever wants to check its ledger."""

    def __init__(self, story: Story, provider: Provider, catalogue: Catalogue, codec: Codec) -> None:
        self.story = story
        self.simulator = Simulator(catalogue, codec=codec)
        self._provider = provider
        self._slots = {slot.entity: slot for slot in story.slots}
        self._heard = 0
        self._said = 0
        self._people = 0
        self._plan_id = "p1"
        self._version = 1
        self._faults: set[tuple[str, str]] = set()
        self._in_flight: list[tuple[Command, int]] = []
        self._questions: dict[str, InDoubtRequest] = {}
        self._looks = 0
        self._decided: set[str] = set()

    def run(self) -> Outcome:
        """Live through the story, until nothing moves any more."""
        story = self.story
        self._declare(1, [slot.entity for slot in story.slots])
        self._plan("p1", None, [(slot, "first") for slot in story.slots])
        for slot in story.slots:
            for _ in range(2 if slot.twice else 1):
                self._dispatch(slot)
        self._work()
        self._answer()
        if story.restarts[0]:
            self.simulator.restart()
        self._change()
        for command, number in self._in_flight:
            self._commit(command, str(number))
        self._in_flight.clear()
        if story.restarts[1]:
            self.simulator.restart()
        for _ in range(_ROUNDS_MAX):
            self._ask_for_what_is_missing()
            self._work()
            self._answer()
            self._own()
            self._approve()
            self.simulator.advance(_ROUND_MS)
            if self._is_quiet():
                break
        return judged(story, self._provider, len(self.simulator.ledger), self._people)

    def _is_quiet(self) -> bool:
        """Whether nothing is open but commitments in force, and each of those is wanted."""
        state = self.simulator.state
        if self._questions or state.open_operations.members(INTENT):
            return False
        rows = [state.commitments.get(one) for one in state.open_commitments.members(INTENT)]
        return {row.status for row in rows if row is not None} <= {"ACTIVE"} and len(rows) == len(self.story.wanted)

    def _say(self, claim: c.AnyClaim, role: c.Role) -> None:
        self.simulator.submit(claim, role)

    def _id(self) -> str:
        self._said += 1
        return f"claim-{self._said}"

    # --- the planner -------------------------------------------------------------------------------------------------

    def _declare(self, version: int, entities: list[str]) -> None:
        self._version = version
        goals: list[c.Goal] = [{"goal_id": one, "acceptance": f"{one} is reserved"} for one in entities]
        self._say(c.DeclareIntent(claim_id=self._id(), intent_id=INTENT, version=version, goals=goals), "PLANNER")

    def _plan(self, plan_id: str, replaces: str | None, wanted: list[tuple[Slot, str]]) -> None:
        if not wanted:
            return
        self._plan_id = plan_id
        steps: list[c.PlanStep] = [
            {"step_id": slot.entity, "action": "reserve_window", "goal_id": slot.entity, "parallel": True,
             "arguments": {"window": slot.entity, "environment": "production", "release": attribute}}
            for slot, attribute in wanted
        ]  # fmt: skip
        self._say(
            c.Plan(claim_id=self._id(), intent_id=INTENT, intent_version=self._version, plan_id=plan_id,
                   replaces=replaces, steps=steps, commitments=[]),
            "PLANNER",
        )  # fmt: skip

    def _dispatch(self, slot: Slot) -> None:
        self._say(
            c.Dispatch(claim_id=self._id(), intent_id=INTENT, intent_version=self._version, plan_id=self._plan_id,
                       step_id=slot.entity),
            "PLANNER",
        )  # fmt: skip

    def _change(self) -> None:
        story = self.story
        kept = [(slot, attribute_after(slot)) for slot in story.slots if slot.fate != "DROPPED"]
        match story.change:
            case "NONE":
                return
            case "CANCEL":
                self._say(c.CancelIntent(claim_id=self._id(), intent_id=INTENT), "PLANNER")
            case "SUPERSEDE":
                self._declare(2, [slot.entity for slot, _ in kept])
                self._plan("p2", None, kept)
            case "REPLAN" if kept:
                self._plan("p2", "p1", kept)
            case "REPLAN":
                # A plan for nothing is no plan: the wish itself is gone.
                self._say(c.CancelIntent(claim_id=self._id(), intent_id=INTENT), "PLANNER")

    def _ask_for_what_is_missing(self) -> None:
        """Whatever is wanted and not in force is asked for: the gate answers with what is on its way, or starts it."""
        state, wanted = self.simulator.state, self.story.wanted
        rows = [state.commitments.get(one) for one in state.open_commitments.members(INTENT)]
        there = {row.resource_refs[0] for row in rows if row is not None and row.status == "ACTIVE"}
        for entity in wanted:
            if f"window:{entity}" not in there:
                self._dispatch(self._slots[entity])

    def _own(self) -> None:
        """The owner decides about what the gate shows as left to it: given back, if it is not what is wanted."""
        state, wanted = self.simulator.state, self.story.wanted
        for commitment_id in state.open_commitments.members(INTENT):
            row = state.commitments.get(commitment_id)
            if row is None or row.status not in ("RECONCILIATION_REQUIRED", "UNKNOWN") or row.release_wanted:
                continue
            entity = row.resource_refs[0].partition(":")[2]
            unwanted = wanted.get(entity) != row.attributes.get("release")
            if unwanted and commitment_id not in self._decided:
                self._decided.add(commitment_id)
                self._people += 1
                self._say(c.Release(claim_id=self._id(), intent_id=INTENT, commitment_id=commitment_id), "PLANNER")

    def _approve(self) -> None:
        """A person agrees to what waits for one: nobody but the owner's decision is behind it."""
        state = self.simulator.state
        for operation_id in state.open_operations.members(INTENT):
            row = state.operations.get(operation_id)
            if row is not None and row.timer == "APPROVAL":
                self._people += 1
                self._say(
                    c.Approve(claim_id=self._id(), intent_id=INTENT, principal="owner", operation_id=operation_id,
                              digest=row.content_digest),
                    "APPROVER",
                )  # fmt: skip

    # --- executors ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Take every command that has gone out, until none is left."""
        while self._heard < len(self.simulator.sent):
            record = self.simulator.sent[self._heard]
            self._heard += 1
            match record:
                case Command(kind="PREPARE"):
                    self._say(
                        c.Prepared(claim_id=self._id(), intent_id=INTENT, operation_id=record.operation_id,
                                   attempt=record.attempt, executor=record.executor, worker="w1"),
                        "EXECUTOR",
                    )  # fmt: skip
                case Command(kind="PERMIT"):
                    self._act(record)
                case InDoubtRequest(kind="RESOLVED"):
                    self._questions.pop(record.subject_id, None)
                case InDoubtRequest():
                    self._questions[record.subject_id] = record
                case _:
                    pass  # rows and withdrawals ask for nothing here

    def _act(self, command: Command) -> None:
        """Perform the effect under the permit; the first worker that acts on a slot dies where the story says so."""
        slot = self._slots[str(command.arguments["window"])]
        creates = command.action == "reserve_window"
        first = ("create" if creates else "release", slot.entity) not in self._faults
        self._faults.add(("create" if creates else "release", slot.entity))
        fault = (slot.create if creates else slot.release) if first else "NONE"
        if fault == "LOST_BEFORE":
            return
        try:
            number = self._effect(command, slot, creates)
        except Taken:
            self._say(
                c.Abort(claim_id=self._id(), intent_id=INTENT, operation_id=command.operation_id,
                        attempt=command.attempt, proof="REFUSED", error="somebody else has it", evidence=["409"]),
                "EXECUTOR",
            )  # fmt: skip
            return
        if fault == "LOST_AFTER":
            return
        if creates and first and slot.late:
            self._in_flight.append((command, number))
            return
        self._commit(command, str(number))

    def _effect(self, command: Command, slot: Slot, creates: bool) -> int:
        if creates:
            return self._provider.create(slot.entity, str(command.arguments["release"]), command.operation_id)
        number = int(str(command.arguments["external_id"]) or self._created(command))
        self._provider.release(number)
        return number

    def _created(self, command: Command) -> int:
        """The number of what the commitment's creation made, where its Commit never told it."""
        row = self.simulator.state.commitments.get(command.commitment_id or "")
        found = self._provider.look_up((row.creating_operation if row is not None else None) or "")
        return found[0]

    def _commit(self, command: Command, external_id: str) -> None:
        self._say(
            c.Commit(claim_id=self._id(), intent_id=INTENT, operation_id=command.operation_id, attempt=command.attempt,
                     external_id=external_id, evidence=[f"receipt:{external_id}"]),
            "EXECUTOR",
        )  # fmt: skip

    # --- the reconciler ----------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Look up whatever is in question, once the provider can have an answer."""
        for subject_id in sorted(self._questions):
            request = self._questions[subject_id]
            if self.simulator.now < request.askable_from:
                continue
            self._looks += 1
            creation = subject_id
            if request.subject_kind == "COMMITMENT":
                row = self.simulator.state.commitments.get(subject_id)
                creation = (row.creating_operation if row is not None else None) or ""
            found = self._provider.look_up(creation)
            released = request.kind == "RESOLVE_OPERATION" and self._releases(subject_id)
            present = released == "GONE" if released else bool(found)
            self._observe(request, present, [str(one) for one in found])

    def _releases(self, operation_id: str) -> str:
        """Of an operation that releases: whether what it releases is GONE, or is THERE; empty for another."""
        operation = self.simulator.state.operations.get(operation_id)
        if operation is None or operation.action != "release_window":
            return ""
        row = self.simulator.state.commitments.get(operation.commitment_id or "")
        creation = (row.creating_operation if row is not None else None) or ""
        return "THERE" if self._provider.look_up(creation) else "GONE"

    def _observe(self, request: InDoubtRequest, present: bool, found: list[str]) -> None:
        self._say(
            c.Observe(claim_id=self._id(), intent_id=INTENT, subject_kind=request.subject_kind,
                      subject_id=request.subject_id, finding="PRESENT" if present else "ABSENT", source="cloud",
                      source_version=self._looks, external_ids=found if present else [],
                      proof=None if present else "SECOND_LOOK", evidence=[f"look:{self._looks}"]),
            "OBSERVER",
        )  # fmt: skip
