"""What every rule has at hand: the state to read, the catalogue, the time, and the guards that many rules share."""

from typing import NoReturn, assert_never

from joingate_processors.law.archived import Archive
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.protocols import catalogue_of
from joingate_processors.law.state import Intent, Operation, PlanRow, StandingApproval, State, Step, plan_key, step_key
from joingate_schemas.catalogue import Action, Capability, Catalogue, Downstream
from joingate_schemas.claims import Proof, Role
from joingate_schemas.ids import operation_id

# What a downstream must be able to do before absence can be proven by its word: a law of keys, of looks, of periods.
_PROVEN_BY: dict[Proof, Capability] = {"TOMBSTONE": "IDEMPOTENT_KEY", "SECOND_LOOK": "LOOKUP", "STATEMENT": "STATEMENT"}


class Refused(Exception):
    """Not an error: a guard's refusal on its way to `judge`, which turns it into the decision."""

    def __init__(self, ruling: Ruling) -> None:
        self.ruling = ruling


def refuse(reason: str, detail: str, subject_id: str = "", status: str = "") -> NoReturn:
    """End the rule here: REJECTED for `reason`."""
    raise Refused(Ruling("REJECTED", reason, detail, subject_id, status))


def approvals_needed(action: Action) -> int:
    """How many approvals let an operation of `action` go on."""
    match action.approval:
        case "NONE":
            return 0
        case "ANY" | "CONTROL" | "MAKER_CHECKER":
            return 1
        case "N_OF_M":
            return action.approvals_needed
        case _:
            assert_never(action.approval)


class Case:
    """One claim's hearing: reads only. `now` is the decision's time (ms), `role` that of the claim's topic.

    `appended_at` (ms) is when the claim reached the log, which lies before `now` where it had to wait. `verified` is
    the id of the key that has shown who speaks; empty where none has.
    """

    __slots__ = ("appended_at", "catalogue", "now", "role", "state", "verified")

    def __init__(
        self, state: State, catalogue: Catalogue, now: int, role: Role, appended_at: int | None = None
    ) -> None:
        self.state = state
        self.catalogue = catalogue
        self.now = now
        self.appended_at = now if appended_at is None else appended_at
        self.role = role
        self.verified = ""

    def open_intent(self, intent_id: str, version: int) -> Intent:
        """The intent, if it exists, is not closed, and `version` (0: any) is the current one; else refused."""
        intent = self.state.intents.get(intent_id)
        if intent is None:
            refuse("UNKNOWN_INTENT", f"intent {intent_id} was never declared")
        if intent.status == "CLOSED":
            refuse("INTENT_CLOSED", f"intent {intent_id} is closed", status=intent.status)
        if version and version != intent.version:
            if version < intent.version:
                refuse("STALE_INTENT", f"version {version} was superseded by {intent.version}", status=intent.status)
            refuse("UNKNOWN_VERSION", f"version {version} was not declared; {intent.version} is current")
        return intent

    def archived(self, intent_id: str) -> Archive | None:
        """What is left of an archived intent; None if it was not archived. Looked for only where it has no row."""
        if self.state.intents.get(intent_id) is not None:
            return None
        row = self.state.archives.get(intent_id)
        return row if row is not None and row.archived_at is not None else None

    def current_intent(self, intent_id: str, version: int) -> Intent:
        """The intent, for a claim that asks for something new: it names the version that justifies it (model §3)."""
        if version < 1:
            refuse("MALFORMED", "intent_version is missing: name the version that justifies this")
        return self.open_intent(intent_id, version)

    def plan_in_force(self, intent: Intent, plan_id: str, named: str) -> PlanRow:
        """The plan `plan_id`, if it is the one in force; `named` is what the claim wants of it, for the refusal."""
        if intent.plan_id == plan_id:
            plan = self.state.plans.get(plan_key(intent.intent_id, plan_id))
            if plan is not None:
                return plan
        other = self.state.plans.get(plan_key(intent.intent_id, plan_id))
        if other is None:
            refuse("NOT_PLANNED", f"intent {intent.intent_id} has no plan {plan_id}, so {named} is not planned")
        if other.status == "CLOSED":
            refuse("PLAN_CLOSED", f"plan {plan_id} ended with its intent", status=other.status)
        if other.status == "CANDIDATE":
            refuse("NOT_PLANNED", f"plan {plan_id} is a candidate, not adopted", status=other.status)
        refuse("PLAN_SUPERSEDED", f"plan {plan_id} was superseded; {intent.plan_id} is in force", status=other.status)

    def planned_step(self, intent: Intent, plan_id: str, step_id: str) -> tuple[PlanRow, Step]:
        """The step of the plan in force; else refused."""
        plan = self.plan_in_force(intent, plan_id, step_id)
        step = self.state.steps.get(step_key(intent.intent_id, plan_id, step_id))
        if step is None:
            refuse("NOT_PLANNED", f"plan {plan_id} has no step {step_id}")
        return plan, step

    def slot_operation(self, step: Step) -> Operation | None:
        """The operation of the step's slot, of its latest generation; None while there is none."""
        return self.latest(self.state.operations.get(step.slot_id))

    def latest(self, first: Operation | None) -> Operation | None:
        """The latest generation of the slot whose first is `first`."""
        if first is None or first.latest_generation == 1:
            return first
        latest = operation_id(first.intent_id, first.action, first.business_key, first.latest_generation)
        return self.state.operations.get(latest)

    def action_of(self, operation: Operation) -> Action | None:
        """What the catalogue now says of the operation's action; None if it was dropped from it."""
        return self.catalogue.actions.get(operation.action)

    def downstream_of(self, operation: Operation) -> Downstream | None:
        """What the catalogue now says of the operation's downstream; None if it was dropped from it."""
        return self.catalogue.downstreams.get(operation.downstream)

    def quiet_from(self, operation: Operation) -> int:
        """When everything that may have acted has landed or never will (ms); 0 if nothing can have.

        A permit that is out runs by what was declared when it was given, and what was sent then takes as long as it
        did: a catalogue with shorter times shortens no wait for what went out before.
        """
        known = self._declarations(operation)
        downstreams = (one.downstreams.get(operation.downstream) for one in known)
        in_flight = max((one.in_flight_ms_max for one in downstreams if one is not None), default=0)
        if operation.permit_at is None:
            # Somebody may have acted unpermitted, but not later than it came into doubt.
            return 0 if operation.in_doubt_since is None else operation.in_doubt_since + in_flight
        actions = (one.actions.get(operation.action) for one in known)
        return operation.permit_at + max((one.permit_ms for one in actions if one is not None), default=0) + in_flight

    def _declarations(self, operation: Operation) -> list[Catalogue]:
        """The catalogue in force, and that which the operation was dispatched under, where it is another."""
        if operation.catalogue_digest == self.catalogue.digest:
            return [self.catalogue]
        pinned = catalogue_of(self.state, operation.catalogue_digest)
        return [self.catalogue] if pinned is None else [self.catalogue, pinned]

    def act_until(self, operation: Operation) -> int:
        """Until when the latest attempt that was allowed to act may begin (ms); 0 while none was."""
        action = self.action_of(operation)
        return 0 if operation.permit_at is None else operation.permit_at + (0 if action is None else action.permit_ms)

    def can_prove(self, operation: Operation, proof: Proof) -> bool:
        """Whether the operation's downstream is able to what `proof` rests on, as far as it is declared.

        A key's tombstone keeps out only what was sent to a downstream that minded keys: it must have had them then too.
        """
        needed = _PROVEN_BY.get(proof)
        known = self._declarations(operation) if proof == "TOMBSTONE" else [self.catalogue]
        downstreams = [one.downstreams.get(operation.downstream) for one in known]
        return needed is None or all(one is not None and needed in one.capabilities for one in downstreams)

    def approved_by(self, row: Operation | StandingApproval) -> set[str]:
        """Whose approval holds now: it has not expired, and the key that signed it was not revoked from before then."""
        expiries, signed = row.approval_expiries, row.approval_keys
        return {
            name for name in row.approvals
            if (name not in expiries or expiries[name] > self.now)
            and (name not in signed or self._was_trusted(signed[name]))
        }  # fmt: skip

    def _was_trusted(self, signed: str) -> bool:
        """Whether the key is not known by now to have been in wrong hands when it signed; `signed` is `key@ms`."""
        key_id, _, given_at = signed.partition("@")
        key = self.state.keys.get(key_id)
        return key is None or not key.revoked or key.ends_at is None or int(given_at) < key.ends_at

    def party_of(self, principal: str) -> str:
        """Who stands behind a principal: those of one party are one maker, or one checker."""
        known = self.catalogue.principals.get(principal)
        return principal if known is None or not known.party else known.party

    def parties(self, principals: set[str]) -> int:
        """How many parties stand behind them."""
        return len({self.party_of(one) for one in principals})

    def key_known_until(self, operation: Operation) -> int | None:
        """Until when the downstream knows the key (ms): 0 if it has no keys, None if it never forgets.

        A key is known from the first send on only if the downstream had keys then: what a later catalogue says of it
        holds for later sends, so both have to know keys, and the shorter horizon counts.
        """
        downstreams = [one.downstreams.get(operation.downstream) for one in self._declarations(operation)]
        if any(one is None or "IDEMPOTENT_KEY" not in one.capabilities for one in downstreams):
            return 0
        horizons = [one.key_horizon_ms for one in downstreams if one is not None and one.key_horizon_ms is not None]
        if not horizons or operation.first_permit_at is None:
            return None
        return operation.first_permit_at + min(horizons)

    def key_outlives(self, operation: Operation, acting_ms: int) -> bool:
        """Whether the downstream still knows the key when what is allowed now, for `acting_ms`, has landed."""
        until, downstream = self.key_known_until(operation), self.downstream_of(operation)
        in_flight = 0 if downstream is None else downstream.in_flight_ms_max
        return until is None or self.now + acting_ms + in_flight < until

    def no_resend(self, operation: Operation) -> tuple[str, str] | None:
        """Why no new attempt under the same key may be permitted now, as reason and sentence; None if one may."""
        stale = self.may_not_act(operation)
        if stale:
            return "NOT_FRESH", f"its ground is gone: {stale}"
        if not operation.permits:
            return "NOT_FRESH", "no attempt was ever permitted, so there is nothing to send again"
        if self.key_known_until(operation) == 0:
            return "NOT_FRESH", f"{operation.downstream} has no idempotency keys"
        action = self.action_of(operation)
        if action is None:
            return "NOT_FRESH", f"the catalogue in force has no {operation.action}"
        if not self.key_outlives(operation, action.permit_ms):
            return "KEY_WINDOW_PASSED", f"{operation.downstream} may forget the key before a new attempt has landed"
        return None

    def staleness(self, operation: Operation) -> str:
        """Empty if what justifies the operation is still current (law 7), else the reason's name."""
        if not operation.plan_id:
            return ""  # discharging work, opened by the gate: no supersession or cancel takes its ground away
        intent = self.state.intents.get(operation.intent_id)
        if intent is None or intent.status == "CLOSED":
            return "INTENT_CLOSED"
        if intent.status == "CANCELLED":
            return "INTENT_CANCELLED"
        if operation.intent_version != intent.version:
            return "STALE_INTENT"
        if operation.plan_id != intent.plan_id:
            return "PLAN_SUPERSEDED"
        return ""

    def may_not_act(self, operation: Operation) -> str:
        """Empty if it may be allowed to act now, as far as its ground and its approvals go, else the reason's name."""
        stale = self.staleness(operation)
        if stale or not (operation.approval_expiries or operation.approval_keys):
            return stale
        action, holding = self.action_of(operation), self.approved_by(operation)
        enough = (
            action is None or len(holding) == len(operation.approvals)
            or self.parties(holding) >= approvals_needed(action)
        )  # fmt: skip
        return "" if enough else "APPROVAL_STALE"
