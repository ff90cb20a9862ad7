"""The gateway's core: the narrow operations that a model may use, over the planner's client and the read side.

It is all that stands between a model and the gate: it says intents, plans and dispatches in the model's stead, and
never more than a planner may. No operation takes a raw claim or a key, and none says that something was done. The HTTP
API, the MCP server and the adapters are different doors to this one room.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from joingate.gateway import answers, looking
from joingate.gateway.answers import Answer, Row, of_verdict, refused
from joingate.gateway.asking import Askings, ReadSide, answered, verdict_of
from joingate.gateway.limits import Limits, Throttle
from joingate.gateway.tokens import Caller
from joingate.gateway.wishes import (
    NOBODY_SAYS,
    Harness,
    NotAWish,
    Wish,
    action_of,
    business_key_of,
    checked_arguments,
    home_of,
    intent_of,
    seat_of,
    under,
    wish_of,
)
from joingate_producers import Planner, Verdict, goal, step
from joingate_projections.reader import Reader
from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.claims import PlanStep, Scalar
from joingate_schemas.facts import OPEN_OPERATION, OperationOpened
from joingate_schemas.ids import derived_id, operation_id

_STEP = "ask"
_TRIES_MAX = 4
_NOT_PLANNED = frozenset({"NOT_PLANNED", "UNKNOWN_INTENT"})


@dataclass(frozen=True)
class PlannedStep:
    """A step as a model proposes it: `name` is its own word for it, used in `after` of others and forgotten then."""

    name: str
    action: str
    arguments: Mapping[str, Scalar]
    after: Sequence[str] = ()


class Gateway:
    """The operations. `clients` gives the planner's client of a principal, which signs where signatures are asked for.

    `wait_s` is how long a call waits for the gate before it answers PENDING; what it asked goes on. Any thread may
    call.
    """

    def __init__(
        self, catalogue: Catalogue, clients: Callable[[str], Planner], reader: Reader, *, limits: Limits | None = None,
        wait_s: float = 5.0,
    ) -> None:  # fmt: skip
        self.catalogue = catalogue
        self.reads = ReadSide(reader)
        self.throttle = Throttle(limits or Limits())
        self._clients = clients
        self._askings = Askings(wait_s)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way. The clients stay the caller's to close."""
        self._askings.close()

    # --- a wish that is one action -----------------------------------------------------------------------------------

    def act(
        self, caller: Caller, action: str, arguments: Mapping[str, Scalar], harness: Harness = NOBODY_SAYS
    ) -> Answer:
        """Ask for an action: the first time it is begun, every other time the status of the first is told."""
        try:
            wish = wish_of(self.catalogue, caller.tenant, action, arguments, harness)
        except NotAWish as error:
            return error.answer
        ids: Row = {
            "intent_id": wish.intent_id,
            "operation_id": operation_id(wish.intent_id, action, wish.business_key, 1),
        }
        if wish.action.effect == "OBSERVE":
            ids.pop("operation_id")
        identity = (caller.tenant, caller.principal, wish.intent_id, json.dumps(wish.arguments, sort_keys=True))
        return self._askings.run(identity, wish.what, lambda: self._act(caller, wish), ids)

    def _act(self, caller: Caller, wish: Wish) -> Answer:
        full = self._full(caller, wish.intent_id)
        if full is not None:
            return full
        seat = self._seated(caller, wish, wish.intent_id)
        if isinstance(seat, Answer):
            return seat
        version, declared = seat
        plan_id, replaces = f"{_STEP}-{version}", None
        if wish.action.effect == "OBSERVE":
            found = self._look_before(wish, declared)
            if isinstance(found, Answer):
                return found
            plan_id, replaces = found
        planner = self._clients(caller.principal)
        planned = planner.plan(
            wish.intent_id, intent_version=version, plan_id=plan_id, replaces=replaces,
            steps=[step(_STEP, wish.action.name, arguments=wish.arguments)],
        )  # fmt: skip
        # Both are on their way to one partition in this order: the one answer is known when the other is.
        asked = planner.dispatch(
            wish.intent_id, intent_version=version, plan_id=plan_id, step_id=_STEP, arguments=wish.arguments
        )
        verdict = verdict_of(asked, self.reads)
        if verdict.refused and verdict.reason in _NOT_PLANNED:
            plan = verdict_of(planned, self.reads)
            if plan.refused:
                return refused(plan.reason, plan.detail, intent_id=wish.intent_id)
        if verdict.reason == "KEY_PAYLOAD_MISMATCH":
            first = self._operation_at(wish.intent_id, wish)
            if first is not None:
                return self._first(wish, wish.intent_id, first)
        return self._dispatched(verdict, wish.action, wish.what, plan_id)

    def _seated(self, caller: Caller, wish: Wish, home: str) -> tuple[int, Verdict] | Answer:
        """Take the wish's seat for the intent `home`: the version to go on with, or the status of who has it.

        The seat is an intent of its own that the gate declares once, so that of two who ask at a time one is first,
        whichever gateways they came through. Whoever would begin it anew, after nothing came of it, declares the next
        version first, so that of several one does.
        """
        seat = wish.intent_id
        planner = self._clients(caller.principal)
        goals = under(home) if home != seat else []
        version = 1
        for _ in range(_TRIES_MAX):
            verdict = verdict_of(
                planner.declare_intent(
                    seat, version=version, tenant=caller.tenant, objective=wish.objective, goals=goals
                ),
                self.reads,
            )
            if verdict.accepted:
                return version, verdict
            if verdict.refused and verdict.reason not in ("VERSION_CONFLICT", "STALE_INTENT", "INTENT_CLOSED"):
                return refused(verdict.reason, verdict.detail, intent_id=seat)
            row = self.reads.one("intents", seat)
            if row is None:
                return answers.undecided(wish.what, intent_id=seat)
            at = home_of(row)
            # In this order: what the intent's row tells of its end can't be newer than what is read of its operations.
            serving = self.reads.one("intents", at)
            found = self._operation_at(at, wish)
            ended = found is not None and answers.ended_without_effect(found["status"])
            if at == home and not ended and verdict.reason != "INTENT_CLOSED":
                if not verdict.refused:
                    return version, verdict
                version = int(row["version"])
            elif verdict.reason == "INTENT_CLOSED" or not (ended or (found is None and _is_over(serving))):
                return self._first(wish, at, found)
            elif at == home and row["status"] == "CANCELLED":
                return refused("INTENT_CANCELLED", f"{wish.what} was taken back", intent_id=seat)
            else:
                version = int(row["version"]) + 1
        return answers.undecided(wish.what, intent_id=seat)

    def _operation_at(self, intent_id: str, wish: Wish) -> Row | None:
        """The newest operation of the wish under an intent."""
        rows = self.reads.page("operations", intent_id, limit=500, action=wish.action.name)
        own = [row for row in rows if row["business_key"] == wish.business_key and row["compensates"] is None]
        return max(own, key=lambda row: int(row["generation"]), default=None)

    def _first(self, wish: Wish, at: str, operation: Row | None) -> Answer:
        if operation is None:
            return replace(
                answers.undecided(wish.what, intent_id=at), detail=f"it was asked for before, under {at}, and is not "
                "begun yet; go on there with ask_step",
            )  # fmt: skip
        told = looking.of_operation(operation, wish.action, self._now())
        if looking.says_the_same(wish.action, operation["arguments"], wish.arguments):
            return replace(told, detail=f"it was asked for before, under {at}")
        said = refused("KEY_PAYLOAD_MISMATCH", f"{wish.what} was asked for before with other arguments, and "
                       f"{_lower(told.say)}", status=told.status)  # fmt: skip
        return replace(said, intent_id=at, operation_id=str(operation["operation_id"]))

    def _look_before(self, wish: Wish, declared: Verdict) -> Answer | tuple[str, str | None]:
        """For an action that only looks: the look that is under way, or the plan under which to look anew."""
        intent = self.reads.one("intents", wish.intent_id)
        in_force = intent["plan_id"] if intent is not None else None
        if in_force is not None:
            for row in self.reads.page("operations", wish.intent_id, plan_id=str(in_force)):
                if row["status"] in OPEN_OPERATION:
                    return looking.of_operation(row, wish.action, self._now())
        return f"look-{declared.seq}", in_force

    def _dispatched(self, verdict: Verdict, action: Action, what: str, plan_id: str) -> Answer:
        """The answer to a Dispatch: the status of its operation, or the gate's no with what is known beside it."""
        ids: Row = {"intent_id": verdict.intent_id, "operation_id": verdict.operation_id, "plan_id": plan_id}
        if verdict.refused:
            said = refused(verdict.reason, verdict.detail, status=verdict.status, **ids)
            if not verdict.status:
                # Nothing was begun for it, so there is no operation whose id would tell anything.
                return replace(said, operation_id="")
            told = answers.of_status(verdict.status, what, action=action)
            return replace(said, say=f"{said.say} {told.say}")
        if verdict.verdict == "COMPENSATE" or verdict.reason == "HELD":
            return of_verdict(verdict, what, **ids)
        for fact in verdict.facts:
            if isinstance(fact, OperationOpened) and fact.operation_id == verdict.operation_id:
                return answers.of_status(
                    fact.status, what, action=action, timer=fact.timer, deadline_at=fact.deadline_at,
                    now_ms=self._now(), **ids,
                )  # fmt: skip
        row = self.reads.one("operations", verdict.operation_id, verdict.intent_id)
        if row is None:
            return answers.of_status(verdict.status, what, action=action, verified=not action.verification, **ids)
        told = replace(looking.of_operation(row, action, self._now()), plan_id=plan_id)
        if verdict.reason in ("SAME_OPERATION", "IN_DOUBT_PENDING"):
            told = replace(told, reason=answers.reason_row(verdict.reason))
        return told

    # --- a wish of several steps -------------------------------------------------------------------------------------

    def state_wish(
        self, caller: Caller, kind: str, entity: str = "", objective: str = "", goals: Sequence[tuple[str, str]] = (),
        harness: Harness = NOBODY_SAYS,
    ) -> Answer:  # fmt: skip
        """State what a person wants: the intent of a kind and a business entity. Said again, it is the same one.

        `goals` are pairs of an id and how one would see that it is reached. Without an entity the harness's request
        stands for it, and without that an id is minted.
        """

        def state() -> Answer:
            named = f"{entity}#{harness.occurrence}" if entity and harness.occurrence else entity
            intent_id = intent_of(self.catalogue, caller.tenant, kind, named or harness.request or str(uuid4()))
            return self._full(caller, intent_id) or self._state(caller, intent_id, objective, goals)

        return self._answered("the wish", state)

    def _state(self, caller: Caller, intent_id: str, objective: str, goals: Sequence[tuple[str, str]]) -> Answer:
        row = self.reads.one("intents", intent_id)
        if row is not None:
            told = looking.intent_row(row)
            say = f"This wish is known; it is {row['status'].lower()}."
            return answers.known(say, told, intent_id=intent_id, status=str(row["status"]))
        wanted = [goal(name, acceptance) for name, acceptance in goals]
        claim = self._clients(caller.principal).declare_intent(
            intent_id, tenant=caller.tenant, objective=objective, goals=wanted
        )
        verdict = verdict_of(claim, self.reads)
        if verdict.refused and verdict.reason in ("VERSION_CONFLICT", "STALE_INTENT"):
            # Somebody stated it at the same moment in other words; the first words stand.
            return answers.known("This wish is known.", {}, intent_id=intent_id, status=verdict.status)
        return of_verdict(verdict, "the wish", "The wish is noted; nothing is done for it yet.", intent_id=intent_id)

    def want_again(self, caller: Caller, intent_id: str) -> Answer:
        """A person wants after all what was cancelled: the same intent, in its next version. Nothing is begun by it."""

        def want() -> Answer:
            row = self._intent(self._own(caller, intent_id))
            if row["status"] != "CANCELLED":
                say = f"This wish was not cancelled; it is {row['status'].lower()}."
                return answers.known(say, looking.intent_row(row), intent_id=intent_id, status=str(row["status"]))
            claim = self._clients(caller.principal).declare_intent(
                intent_id, version=int(row["version"]) + 1, tenant=caller.tenant, objective=str(row["objective"]),
                goals=row["goals"], budgets=row["budgets"],
            )  # fmt: skip
            say = "The wish stands again; ask for what is to be done."
            return of_verdict(verdict_of(claim, self.reads), "the wish", say, intent_id=intent_id)

        return self._answered("the wish", want)

    def propose_plan(
        self, caller: Caller, intent_id: str, steps: Sequence[PlannedStep], harness: Harness = NOBODY_SAYS
    ) -> Answer:
        """Propose the steps by which the wish is to be met, in place of the plan that it has. Nothing is begun by it.

        What is in force already, in whatever words, is answered with it. `told` has the ledger's name of each step.
        """
        return self._answered("the plan", lambda: self._propose(caller, self._own(caller, intent_id), steps, harness))

    def _propose(self, caller: Caller, intent_id: str, steps: Sequence[PlannedStep], harness: Harness) -> Answer:
        row = self._intent(intent_id)
        names, planned = self._steps(steps, harness)
        content = derived_id("gateway-plan", str(row["version"]), json.dumps(planned, sort_keys=True))[:13]
        in_force: str | None = row["plan_id"]
        told = {"steps": names}
        if in_force is not None and in_force.startswith(f"plan-{content}-"):
            say = "This plan is in force."
            return answers.known(say, told, intent_id=intent_id, plan_id=in_force, status="ADOPTED")
        # What it replaces is part of its name, so that a plan may come back after another one.
        plan_id = f"plan-{content}-{derived_id(in_force or '')[:8]}"
        claim = self._clients(caller.principal).plan(
            intent_id, intent_version=int(row["version"]), plan_id=plan_id, steps=planned, replaces=in_force
        )
        verdict = verdict_of(claim, self.reads)
        say = "The plan is noted; each step is begun only when it is asked for with ask_step."
        answer = of_verdict(verdict, "the plan", say, intent_id=intent_id, plan_id=plan_id)
        return answer if verdict.refused else replace(answer, told=told)

    def _steps(self, steps: Sequence[PlannedStep], harness: Harness) -> tuple[dict[str, str], list[PlanStep]]:
        """The steps, named by what they do, so that the same steps have the same names whoever proposes them."""
        named: dict[str, str] = {}
        details: list[tuple[PlannedStep, Action, dict[str, Scalar]]] = []
        for one in steps:
            action = action_of(self.catalogue, one.action)
            arguments = checked_arguments(action, one.arguments, harness)
            key = business_key_of(action, arguments)
            if one.name in named:
                raise NotAWish(refused("DUPLICATE_STEP", f"two steps of the plan are called {one.name}"))
            named[one.name] = f"{action.name}:{key}" if key else action.name
            details.append((one, action, arguments))
        for one, _, _ in details:
            for other in one.after:
                if other not in named:
                    raise NotAWish(refused("UNKNOWN_STEP", f"step {one.name} comes after {other}, which is no step"))
        planned = [
            step(
                named[one.name], action.name, arguments=arguments, requires=sorted(named[other] for other in one.after)
            )
            for one, action, arguments in details
        ]
        return named, planned

    def ask_step(self, caller: Caller, intent_id: str, step_name: str, harness: Harness = NOBODY_SAYS) -> Answer:
        """Ask for a step of the plan in force, by the ledger's name of it. Asked again, its status is told."""
        try:
            self._own(caller, intent_id)
        except NotAWish as error:
            return error.answer
        identity = (caller.tenant, caller.principal, intent_id, step_name, harness.occurrence)
        ids: Row = {"intent_id": intent_id}
        return self._askings.run(
            identity, f"step {step_name}", lambda: self._ask_step(caller, intent_id, step_name, harness), ids
        )

    def _ask_step(self, caller: Caller, intent_id: str, step_name: str, harness: Harness) -> Answer:
        intent = self._intent(intent_id)
        plan_id: str | None = intent["plan_id"]
        rows = self.reads.page("steps", intent_id, plan_id=plan_id, step_id=step_name) if plan_id is not None else []
        if plan_id is None or not rows:
            return refused("NOT_PLANNED", f"the plan in force has no step {step_name}", intent_id=intent_id)
        row = rows[0]
        action = action_of(self.catalogue, str(row["action"]))
        key = str(row["business_key"])
        wish = Wish(seat_of(caller.tenant, action, key, harness.occurrence), action, key, row["arguments"])
        if action.effect != "OBSERVE" and action.business_key:
            seat = self._seated(caller, wish, intent_id)
            if isinstance(seat, Answer):
                return seat
        claim = self._clients(caller.principal).dispatch(
            intent_id, intent_version=int(intent["version"]), plan_id=plan_id, step_id=step_name
        )
        return self._dispatched(verdict_of(claim, self.reads), action, wish.what, plan_id)

    # --- looking -----------------------------------------------------------------------------------------------------

    def look_again(self, caller: Caller, subject_id: str) -> Answer:
        """How an intent, an operation or a commitment of this tenant is doing."""
        return self._answered(subject_id, lambda: looking.look(self.reads, self.catalogue, caller, subject_id))

    def context(self, caller: Caller, intent_id: str) -> Answer:
        """What there is to know before planning for an intent."""

        def ask() -> Answer:
            return looking.context(self.reads, caller, self._own(caller, intent_id))

        return self._answered("the context", ask)

    # --- taking back, and obligations --------------------------------------------------------------------------------

    def cancel(self, caller: Caller, subject_id: str, reason: str = "") -> Answer:
        """Take back an intent, or one operation. What has happened already is compensated, not unsaid."""

        def cancel() -> Answer:
            planner = self._clients(caller.principal)
            found = looking.find(self.reads, caller, subject_id, ("intents", "operations"))
            if found.table == "intents":
                verdict = verdict_of(planner.cancel_intent(found.intent_id, reason=reason), self.reads)
                say = "It is taken back; what is in force already is being given back."
                return of_verdict(verdict, "taking it back", say, intent_id=found.intent_id)
            verdict = verdict_of(planner.abort(found.intent_id, subject_id, reason=reason), self.reads)
            ids: Row = {"intent_id": found.intent_id, "operation_id": subject_id}
            return of_verdict(verdict, "taking it back", "It is taken back.", **ids)

        return self._answered("taking it back", cancel)

    def release(self, caller: Caller, commitment_id: str, reason: str = "") -> Answer:
        """Give a commitment back. It is given back only when there is evidence of it."""
        return self._obliged(
            caller, commitment_id, "giving it back",
            lambda planner, row: planner.release(
                row["intent_id"], commitment_id, reason=reason, fencing_token=int(row["fencing_token"])
            ),
        )  # fmt: skip

    def transfer(self, caller: Caller, commitment_id: str, target_owner: str, reason: str = "") -> Answer:
        """Ask that another owner takes a commitment over. It stays where it is until that one acknowledges."""
        other = target_owner.removeprefix("intent:") if target_owner.startswith("intent:") else ""
        if other and not caller.owns(other):
            return refused("UNKNOWN_INTENT", f"you have no intent {other}")
        return self._obliged(
            caller, commitment_id, "handing it over",
            lambda planner, row: planner.transfer(
                row["intent_id"], commitment_id, target_owner=target_owner, reason=reason,
                fencing_token=int(row["fencing_token"]),
            ),
        )  # fmt: skip

    def mark_satisfied(self, caller: Caller, commitment_id: str, evidence: Sequence[str]) -> Answer:
        """Say that a commitment was fulfilled, with the evidence. The gate judges the evidence."""
        return self._obliged(
            caller, commitment_id, "fulfilling it",
            lambda planner, row: planner.mark_satisfied(
                row["intent_id"], commitment_id, evidence=list(evidence), fencing_token=int(row["fencing_token"])
            ),
        )  # fmt: skip

    def request_reconciliation(self, caller: Caller, subject_id: str, reason: str = "") -> Answer:
        """Ask that somebody look again at a commitment, or at an operation that is in doubt."""

        def request() -> Answer:
            found = looking.find(self.reads, caller, subject_id, ("operations", "commitments"))
            commitment = found.table == "commitments"
            claim = self._clients(caller.principal).request_reconciliation(
                found.intent_id, subject_id, subject_kind="COMMITMENT" if commitment else "OPERATION", reason=reason,
                fencing_token=int(found.row["fencing_token"]) if commitment else 0,
            )  # fmt: skip
            ids: Row = {"commitment_id" if commitment else "operation_id": subject_id, "intent_id": found.intent_id}
            return of_verdict(verdict_of(claim, self.reads), "the second look", "It is being looked at again.", **ids)

        return self._answered("the second look", request)

    def _obliged(self, caller: Caller, commitment_id: str, what: str, claim: Callable[[Planner, Row], Any]) -> Answer:
        def say() -> Answer:
            found = looking.find(self.reads, caller, commitment_id, ("commitments",))
            verdict = verdict_of(claim(self._clients(caller.principal), found.row), self.reads)
            return of_verdict(verdict, what, intent_id=found.intent_id, commitment_id=commitment_id)

        return self._answered(what, say)

    # --- what they share ---------------------------------------------------------------------------------------------

    def _answered(self, what: str, asking: Callable[[], Answer]) -> Answer:
        return answered(asking, what, {})

    def _own(self, caller: Caller, intent_id: str) -> str:
        if not caller.owns(intent_id):
            raise NotAWish(refused("UNKNOWN_INTENT", f"you have no intent {intent_id}"))
        return intent_id

    def _intent(self, intent_id: str) -> Row:
        row = self.reads.one("intents", intent_id)
        if row is None:
            raise NotAWish(refused("UNKNOWN_INTENT", f"you have no intent {intent_id}; state the wish first"))
        return row

    def _full(self, caller: Caller, intent_id: str) -> Answer | None:
        """No, if this would be one open wish more than the tenant may have; asking for a known one is always let in."""
        most = self.throttle.limits.open_max
        if most is None or self.reads.knows_of(intent_id) or self.reads.one("intents", intent_id) is not None:
            return None
        if self.reads.count("intents", most, open_for=caller.tenant) < most:
            return None
        return answers.slow_down(f"{caller.tenant} has {most} wishes open, which is all that it may", 60)

    def _now(self) -> int:
        return int(time.time() * 1000)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _is_over(intent: Row | None) -> bool:
    """Whether nothing will be begun under an intent any more; of one that is not seen yet nobody can tell."""
    return intent is not None and intent["status"] != "OPEN"
