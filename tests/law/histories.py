"""Random histories: many intents side by side, every type of claim from every role, timers, restarts, junk, repeats.

Half of the claims are what an honest party would say next, so that histories get somewhere; the other half say anything
about what there is, on any topic. What a seed tells is the same every time.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from random import Random
from typing import Any, Literal, get_args, get_origin, get_type_hints

from joingate.audit import AuditReport, audit_records
from joingate.ledger import Entry
from joingate_processors.forensics.checker import check
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.law.judge import TOPIC_ROLES
from joingate_processors.law.state import Commitment, Intent, Operation, plan_key, step_key
from joingate_processors.upgrade import compare
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import ClaimTopic, Command, Decision

from .driver import HOME, step
from .invariants import check_state, snapshot

INTENTS_MAX = 6  # at a time; a closed one makes room for the next
CHECKED_EVERY = 50  # claims between two checks of the whole state, which takes longer the more there is
# What the gate itself makes is left to it; the arbiter's word comes from outside, on a topic of its own.
OWN = frozenset({"TimerFired", "CatalogueChanged", "ClaimQuarantined", "ClaimHeld"})
OUTSIDE = [name for name in c.CLAIM_TYPES if name not in OWN]
TOPICS: tuple[ClaimTopic, ...] = tuple(one for one in TOPIC_ROLES if one != "gate")
PAUSES_MS = [1, 1_000, 5_000, 31_000, 91_000, 700_000, 4_000_000, 90_000_000]
OWNERS = ["team:deploy", "team:operations", "acme/history/1", "worker-1", ""]
PROOFS: tuple[Any, ...] = (None, *get_args(c.Proof))
FORCED = ["SETTLED", "FAILED", "COMPENSATED", "ACTIVE", "RELEASED", "RELEASE_PENDING", "SATISFIED", "TRANSFERRED",
          "BREACHED", "RECONCILIATION_REQUIRED", "UNKNOWN"]  # fmt: skip
ACTIONS = [
    "write_file",
    "reserve_window",
    "pay",
    "book",
    "pay_approved",
    "read_file",
    "notify",
    "pay_by_two",
    "pay_held",
    "try_out",
    "rent",
    "make_filing",
]
MAKING = ("reserve_gpus", "open_credit")
TAKING = (*MAKING, "run_on_gpus", "run_on_gpus", "run_when_told", "capture")
GOALS: list[c.Goal] = [
    {"goal_id": "g1", "acceptance": "g1"}, {"goal_id": "g2", "acceptance": "g2", "parent_goal_id": "g1"},
]  # fmt: skip


class History:
    """One seed's history on one partition. `simulator` is the gate; `said` counts the claims."""

    def __init__(
        self, seed: int, catalogue: Catalogue, rollouts: Sequence[Catalogue] = (), sense: float = 0.55, ends: float = 0
    ) -> None:
        """`rollouts` are catalogues that a restart now and then brings into force.

        `sense` is how many claims are what an honest party would say next; `ends` how many cancel an intent.
        """
        self.rng = Random(seed)
        self._sense, self._ends = sense, ends
        self._rollouts = rollouts
        self.simulator = Simulator(catalogue, batch=self.rng.choice((1, 1, 3, 7)))
        self.said = 0
        self._made = 0
        self._intents: list[str] = []
        self._sent: list[tuple[c.AnyClaim, ClaimTopic]] = []
        # Actions that take of what commitments hold, with those that make such commitments; then they are all there is.
        self.taking = [name for name in TAKING if name in catalogue.actions]
        self.actions = self.taking or [one for one in ACTIONS if one in catalogue.actions]
        self.limited = bool(catalogue.limits)  # then intents have budgets, and their goals are looked at

    # --- the whole of it ---------------------------------------------------------------------------------------------

    def run(self, claims: int) -> None:
        """Tell `claims` claims, and hold what comes of them to every invariant, on the way and at the end."""
        while self.said < claims:
            drawn = self.rng.random()
            if drawn < 0.08:
                self.simulator.advance(self.rng.choice(PAUSES_MS))
            elif drawn < 0.10:
                self._restart()
                if self._rollouts and self.rng.random() < 0.2:
                    self._roll_out()
            elif drawn < 0.11:
                self._junk()
            elif drawn < 0.15 and self._sent:
                late = self._ends and self.rng.random() < self._ends
                self._say(*self.rng.choice(self._sent if late else self._sent[-40:]))
            else:
                self._next()
            if self.said % CHECKED_EVERY == 0:
                check_state(self.simulator.state)
        self.finish()

    def finish(self) -> None:
        """Everything that was ever pending has had its deadline by now; the ledger is whole, and is all there is."""
        simulator = self.simulator
        simulator.advance(3 * 90_000_000)
        simulator.flush()
        check_state(simulator.state)
        commands = [record for record in simulator.sent if isinstance(record, Command)]
        broken = check(simulator.decisions, raw=simulator.ledger, commands=commands, codec=simulator.codec)
        assert broken == [], "\n".join(map(str, broken[:10]))
        self._restart()

    def decided_again(self) -> AuditReport:
        """The audit of the whole ledger: each claim decided again by the law, from the bytes in it."""
        simulator = self.simulator
        pairs = enumerate(zip(simulator.ledger, simulator.decisions, strict=True))
        return audit_records((Entry(0, place, raw, one) for place, (raw, one) in pairs), simulator.codec)

    def _restart(self) -> None:
        """What was not committed is decided again, and comes to the same (law 9)."""
        simulator = self.simulator
        told, before = list(map(_told, simulator.decisions)), snapshot(simulator.state)
        simulator.restart()
        again = list(map(_told, simulator.decisions))
        assert again == told, next((one, other) for one, other in zip(told, again, strict=False) if one != other)
        after = snapshot(simulator.state)
        for part in before:
            if part != "header":  # the epoch is another, and so are the hashes of what was decided again
                assert after[part] == before[part], part

    def _roll_out(self) -> None:
        """Another catalogue comes into force, by an orderly stop; what it lacks is open all the same."""
        self.simulator.flush()
        new, state = self.rng.choice(self._rollouts), self.simulator.state
        told = sum(line.count for line in compare(state, self.simulator.catalogue, new).lines())
        assert told >= len(state.entries("owned_commitments")) + len(state.entries("open_operations"))
        self.simulator.restart(new)

    # --- what is said ------------------------------------------------------------------------------------------------

    def _say(self, claim: c.AnyClaim, topic: ClaimTopic) -> Decision:
        self.said += 1
        self._sent.append((claim, topic))
        return self.simulator.submit_raw(self.simulator.codec.encode(claim), topic, claim.intent_id)

    def _junk(self) -> None:
        key = self.rng.choice([*self._intents, None])
        topic = self.rng.choice(("proposals", "outcomes", "observations"))
        decision = self.simulator.submit_raw(self.rng.randbytes(12), topic, key)  # type: ignore[arg-type]
        # Mostly somebody looks at it soon: else all that rests on "not known" waits to the end.
        if decision.claim_type == "ClaimQuarantined" and self.rng.random() < 0.8:
            self._say(
                c.Override(claim_id=self.new_id("look"), intent_id=key or "acme/history/1", principal="dana",
                           subject_kind="QUARANTINE", subject_id=decision.subject_id, to="DISMISSED", reason="noise",
                           evidence=["ticket"]),
                "overrides",
            )  # fmt: skip

    def new_id(self, word: str) -> str:
        """An id that this history has not had."""
        self._made += 1
        return f"{word}-{self._made}"

    def _next(self) -> None:
        intent_id = self._intent_id()
        row = self.simulator.state.intents.get(intent_id)
        view = _View(self, intent_id, row)
        drawn = self.rng.random()
        if drawn < self._ends:
            cancel = c.CancelIntent(claim_id=self.new_id("end"), intent_id=intent_id, principal="ann")
            self._say(cancel, "proposals")
        elif drawn < self._ends + self._sense:
            claim = view.sensible()
            self._say(claim, _home(type(claim).__name__))
        else:
            name = self.rng.choice(OUTSIDE)
            claim = view.anything(name)
            self._say(claim, _home(name) if self.rng.random() < 0.9 else self.rng.choice(TOPICS))

    def _intent_id(self) -> str:
        state = self.simulator.state
        rows = {one: state.intents.get(one) for one in self._intents}
        # What is archived has no row either, but a tombstone.
        new = {one for one, row in rows.items() if row is None and state.archives.get(one) is None}
        wanted = {one for one, row in rows.items() if row is not None and row.status != "CLOSED"}
        self._intents = [one for one in rows if one in new or one in wanted or self._lingers()]
        if len(self._intents) < INTENTS_MAX and (not self._intents or self.rng.random() < 0.1):
            self._intents.append(f"acme/{self.new_id('history')}")
        return self.rng.choice(self._intents)

    def _lingers(self) -> bool:
        """Whether a closed intent is still spoken of: it must stay closed."""
        return self.rng.random() < 0.8


def _home(name: str) -> ClaimTopic:
    """The topic of a type of claim, as its role has it; the arbiter's kin come on a topic of their own."""
    return "resource-verdicts" if name in c.ROLE_TYPES["GATE"] else HOME[name]


def _told(decision: Decision) -> tuple[Any, ...]:
    """A decision without what a new writer changes: its epoch and the hash before."""
    return (decision.seq, decision.claim_id, decision.decided_at, decision.verdict, decision.reason, decision.facts)


class _View:
    """What there is of one intent, to speak about."""

    def __init__(self, history: History, intent_id: str, row: Intent | None) -> None:
        self._history, self._rng, self._id, self._row = history, history.rng, intent_id, row
        state = history.simulator.state
        self._operations: list[Operation] = [
            one
            for _, one in state.rows("operations")
            if one.intent_id == intent_id  # type: ignore[attr-defined]
        ]
        self._commitments: list[Commitment] = [
            one
            for _, one in state.rows("commitments")
            if one.intent_id == intent_id  # type: ignore[attr-defined]
        ]
        self._version = row.version if row is not None else 1

    def _common(self) -> dict[str, Any]:
        return {
            "claim_id": self._history.new_id("c"),
            "intent_id": self._id,
            "principal": self._rng.choice(["ann", "bob"]),
        }

    # --- what an honest party would say next -------------------------------------------------------------------------

    def sensible(self) -> c.AnyClaim:
        """The next sensible claim about one thing that there is, whichever that is."""
        row, rng = self._row, self._rng
        if row is None or row.status != "OPEN":
            return self._declare()
        if self._history.limited and rng.random() < 0.05:
            return self._look("GOAL", rng.choice(["g1", "g2"]), rng.choice(["PRESENT", "PRESENT", "ABSENT"]), None)
        if row.plan_id is None or rng.random() < 0.04:
            return self._plan()
        moves: list[Callable[[], c.AnyClaim | None]] = [
            *[lambda one=one: self._about_operation(one) for one in self._operations],  # type: ignore[misc]
            *[lambda one=one: self._about_commitment(one) for one in self._commitments],  # type: ignore[misc]
            self._dispatch, self._dispatch, self._succeed,
        ]  # fmt: skip
        for move in rng.sample(moves, min(4, len(moves))):
            claim = move()
            if claim is not None:
                return claim
        return c.Close(**self._common()) if rng.random() < 0.3 else self._dispatch()

    def _declare(self) -> c.AnyClaim:
        goals: list[c.Goal] = [{"goal_id": one, "acceptance": one} for one in ("g1", "g2") if self._rng.random() < 0.7]
        version = 1 if self._row is None else self._row.version + 1
        budgets: c.Budgets | None = None
        if self._history.limited:
            goals = GOALS if self._rng.random() < 0.7 else [{**GOALS[0], "acceptance": self._history.new_id("g1")}]
            budgets = {"exploration": 0.6, "verification": 0.2, "reconciliation": 0.2,
                       "cost_max": self._rng.choice([5.0, 20.0])}  # fmt: skip
        return c.DeclareIntent(**self._common(), version=version, goals=goals, budgets=budgets)

    def _plan(self) -> c.AnyClaim:
        replaces = self._row.plan_id if self._row is not None else None
        return c.Plan(
            **self._common(), intent_version=self._version, plan_id=self._history.new_id("p"), replaces=replaces,
            adopt=self._rng.random() < 0.9, steps=self._steps(),
            commitments=[one.commitment_id for one in self._commitments if self._rng.random() < 0.3],
        )  # fmt: skip

    def _steps(self) -> list[c.PlanStep]:
        rng, steps = self._rng, list[c.PlanStep]()
        # Of goals that the intent has, for a step of one that it has not is malformed.
        goals = ["g1", "g2"] if self._row is None else list(self._row.goals)
        for number in range(rng.randint(1, 5)):
            edges: list[c.Edge] = []
            if steps and rng.random() < 0.4:
                kind: Any = rng.choice(["REQUIRES", "REQUIRES", "REQUIRES", "INVALIDATES", "CONFLICTS_WITH", "PREFERS"])
                edges.append({"kind": kind, "step_id": rng.choice(steps)["step_id"]})
            goal = rng.choice([*goals, None])
            action = rng.choice(self._history.actions)
            key = f"{action}-{number}" if rng.random() < 0.8 else f"{action}-again"
            made = step(f"s{number}", action, key, edges=edges, goal_id=goal, parallel=rng.random() < 0.3)
            if self._history.taking:
                made["arguments"] = {"count": 8, "need": rng.randint(3, 8), "sum": rng.choice([30, 60, 100])}
                made["commitments"] = [one.commitment_id for one in self._commitments if one.status == "ACTIVE"]
                made["parallel"] = True  # what has to be ready is what it takes of
                if action in MAKING:
                    made["edges"] = []  # what holds something comes first, and others rely on it
            if (action, key) not in [(one["action"], one.get("business_key")) for one in steps]:
                steps.append(made)
        return steps

    def _step_id(self) -> str:
        row, state = self._row, self._history.simulator.state
        plan = state.plans.get(plan_key(self._id, row.plan_id)) if row is not None and row.plan_id else None
        known: list[str] = []
        at = plan.first_step if plan is not None else None
        while at is not None and plan is not None:
            known.append(at)
            found = state.steps.get(step_key(self._id, plan.plan_id, at))
            at = found.following if found is not None else None
        return self._rng.choice(known or ["s0"])

    def _plan_id(self) -> str:
        return (self._row.plan_id if self._row is not None else None) or "p0"

    def _dispatch(self) -> c.AnyClaim:
        return c.Dispatch(**self._common(), intent_version=self._version, plan_id=self._plan_id(),
                          step_id=self._step_id())  # fmt: skip

    def _succeed(self) -> c.AnyClaim:
        return c.Succeed(**self._common(), intent_version=self._version, plan_id=self._plan_id(),
                         step_id=self._step_id(), evidence=[])  # fmt: skip

    def _about_operation(self, one: Operation) -> c.AnyClaim | None:
        common, rng = self._common(), self._rng
        about = {"operation_id": one.operation_id, "attempt": one.attempt}
        match one.status:
            case "STAGED" if one.timer == "APPROVAL":
                return c.Approve(**common, operation_id=one.operation_id, digest=one.content_digest)
            case "VALIDATED":
                return c.Prepared(**common, **about, executor=one.executor, worker=rng.choice(["w1", "w2"]))
            case "SUBMITTED" if rng.random() < 0.75:
                return c.Commit(**common, **about, external_id=f"x-{one.operation_id[:8]}", evidence=["receipt"])
            case "SUBMITTED":
                return c.InDoubt(**common, **about, cause="timeout", evidence=[])
            case "IN_DOUBT":
                finding, proof = rng.choice([("PRESENT", None), ("ABSENT", "SECOND_LOOK"), ("RESEND", None)])
                return self._look("OPERATION", one.operation_id, finding, proof)
            case "ESCALATED":
                to = rng.choice(["SETTLED", "FAILED"])
                return c.Override(**common, subject_kind="OPERATION", subject_id=one.operation_id, to=to,
                                  reason="asked", evidence=["ticket"])  # fmt: skip
            case _:
                return None

    def _about_commitment(self, one: Commitment) -> c.AnyClaim | None:
        common, rng = self._common(), self._rng
        if self._history.taking and rng.random() < 0.1:
            to = rng.choice(["MIGRATED", "FREED", "SATISFIED"])
            return c.Override(**common, subject_kind="COMMITMENT", subject_id=one.commitment_id, to=to,
                              reason="asked", evidence=["ticket:1"])  # fmt: skip
        match one.status:
            case "PROPOSED" | "UNKNOWN":
                return self._look("COMMITMENT", one.commitment_id, "PRESENT", None)
            case "ACTIVE" if self._history.taking and rng.random() < 0.8:
                return self._dispatch()
            case "ACTIVE" if rng.random() < 0.3:
                return c.MarkSatisfied(**common, commitment_id=one.commitment_id, evidence=["used"])
            case "ACTIVE" if rng.random() < 0.3:
                return c.Release(**common, commitment_id=one.commitment_id)
            case "RELEASE_PENDING" | "RECONCILIATION_REQUIRED":
                return self._look("COMMITMENT", one.commitment_id, rng.choice(["ABSENT", "PRESENT"]), "SECOND_LOOK")
            case _:
                return None

    def _look(self, kind: c.SubjectKind, subject_id: str, finding: c.Finding, proof: c.Proof | None) -> c.AnyClaim:
        version = self._rng.choice([None, self._history.said, self._history.said, 1])
        return c.Observe(
            **self._common(), subject_kind=kind, subject_id=subject_id, finding=finding, source="record",
            source_version=version, external_ids=[f"x-{subject_id[:8]}"] if finding == "PRESENT" else [], proof=proof,
            evidence=["look"],
        )  # fmt: skip

    # --- anything ----------------------------------------------------------------------------------------------------

    def anything(self, name: str) -> c.AnyClaim:
        """A claim of this type that its schema allows, about what there is of the intent, more or less."""
        cls = c.CLAIM_TYPES[name]
        hints = get_type_hints(cls)
        operation = self._rng.choice(self._operations) if self._operations else None
        commitment = self._rng.choice(self._commitments) if self._commitments else None
        kind, subject_id = self._subject(operation, commitment)
        pool = self._pool(operation, commitment)
        pool |= {"subject_kind": [kind], "subject_id": [subject_id]}
        known = {one.name: self._value(one.name, hints[one.name], pool) for one in fields(cls)}
        return cls(**{**known, **{key: value for key, value in self._common().items() if key in known}})  # type: ignore[return-value]

    def _subject(self, operation: Operation | None, commitment: Commitment | None) -> tuple[str, str]:
        choices = [("OPERATION", operation.operation_id)] if operation is not None else []
        choices += [("COMMITMENT", commitment.commitment_id)] * 2 if commitment is not None else []
        more: list[tuple[str, str]] = [("GOAL", "g1"), ("OWNER", "team:deploy"), ("CONDITION", "migrated"),
                                       ("INTENT", self._id), ("OPERATION", "nothing")]  # fmt: skip
        return self._rng.choice(choices * 3 + more)

    def _pool(self, operation: Operation | None, commitment: Commitment | None) -> dict[str, list[Any]]:
        attempt = operation.attempt if operation is not None else 1
        plan_id, version, now = self._plan_id(), self._version, self._history.simulator.now
        return {
            "operation_id": [operation.operation_id if operation is not None else "nothing"],
            "commitment_id": [commitment.commitment_id if commitment is not None else "nothing"],
            "attempt": [attempt, attempt, attempt, 0, 1, attempt + 1],
            "executor": [operation.executor if operation is not None else "bank", "messenger"],
            "worker": ["w1", "w2", ""],
            "digest": [operation.content_digest if operation is not None else "d", "of something else"],
            "plan_id": [plan_id, plan_id, plan_id, "p0"],
            "replaces": [plan_id, plan_id, None],
            "step_id": [self._step_id()],
            "intent_version": [version, version, version, 0, version - 1, version + 1],
            "version": [version, version + 1, version + 1, version - 1],
            "owner_id": OWNERS, "target_owner": OWNERS, "policy": ["on-call"],
            "target_intent_id": [None, "acme/history-2", self._id],
            "external_id": ["", f"x-{operation.operation_id[:8]}" if operation is not None else "x", "y"],
            "external_ids": [[], ["x"], ["x", "y"]],
            "source": ["record", "feed"],
            "source_version": [None, 1, self._history.said, self._history.said],
            "source_time": [None, now],
            "proof": list(PROOFS), "to": FORCED,
            "steps": [self._steps()],
            "goals": [[], [{"goal_id": "g1", "acceptance": "g1"}]],
            "commitments": [[], [commitment.commitment_id] if commitment is not None else []],
            "idempotency_key": [None, None, None, "made-up", operation.operation_id if operation is not None else None],
            "arguments": [None, None, {"amount": 5}],
            "obligation_type": ["window", "seat", "review"], "resource_ref": ["window:1"], "holder": ["another"],
            "due_at": [None, now + 60_000], "acknowledge_by": [None, now + 60_000],
            "expires_at": [None, None, now + 40_000],
            "fencing_token": [0, 1, 2, 3], "occurred_at": [0], "budgets": [None], "signature": [None],
            "replacement": [None], "quarantine_id": ["nowhere"],
        }  # fmt: skip

    def _value(self, name: str, hint: Any, pool: dict[str, list[Any]]) -> Any:
        rng = self._rng
        if name in pool and not (name == "version" and hint is str):
            return rng.choice(pool[name])
        if get_origin(hint) is Literal:
            return rng.choice(get_args(hint))
        if hint == list[str]:
            return rng.choice([[], ["evidence"], ["evidence"]])
        plain: dict[Any, list[Any]] = {
            str: ["", "words"], int: [0, 1], bool: [True, False], bytes: [b""], float: [0.5], type(None): [None],
        }  # fmt: skip
        if hint in plain:
            return rng.choice(plain[hint])
        return self._value(name, rng.choice(get_args(hint)), pool)
