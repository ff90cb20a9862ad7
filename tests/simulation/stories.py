"""Whole stories of one intent, as claims in their honest order: what the tests shuffle, repeat, tear and mutate."""

from joingate_processors.forensics.simulator import Simulator
from joingate_schemas import claims as c
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.ids import commitment_id, operation_id

INTENT = "acme/story/1"
Said = tuple[c.AnyClaim, c.Role]

STEPS: list[c.PlanStep] = [
    {"step_id": "write", "action": "write_file", "business_key": "report"},
    {"step_id": "tell", "action": "notify", "business_key": "ops"},
    {"step_id": "close", "action": "close_ticket", "business_key": "T-1"},
]
EXECUTORS = {"write": "workspace", "tell": "messenger", "close": "cloud"}
OPERATIONS = {step["step_id"]: operation_id(INTENT, step["action"], step["business_key"], 1) for step in STEPS}


def declare(version: int = 1) -> Said:
    return c.DeclareIntent(claim_id=f"declare-{version}", intent_id=INTENT, version=version, goals=[]), "PLANNER"


def plan(steps: list[c.PlanStep] | None = None, plan_id: str = "p1", replaces: str | None = None) -> Said:
    return c.Plan(
        claim_id=f"plan-{plan_id}", intent_id=INTENT, intent_version=1, plan_id=plan_id, replaces=replaces,
        steps=STEPS if steps is None else steps, commitments=[],
    ), "PLANNER"  # fmt: skip


def dispatch(step_id: str, claim_id: str = "", plan_id: str = "p1") -> Said:
    return c.Dispatch(
        claim_id=claim_id or f"dispatch-{step_id}", intent_id=INTENT, intent_version=1, plan_id=plan_id, step_id=step_id
    ), "PLANNER"


def prepared(operation: str, executor: str, attempt: int = 1, worker: str = "w1") -> Said:
    return c.Prepared(
        claim_id=f"prepared-{operation}-{attempt}-{worker}", intent_id=INTENT, operation_id=operation, attempt=attempt,
        executor=executor, worker=worker,
    ), "EXECUTOR"  # fmt: skip


def commit(operation: str, role: c.Role = "EXECUTOR", claim_id: str = "", attempt: int = 1) -> Said:
    return c.Commit(
        claim_id=claim_id or f"commit-{operation}", intent_id=INTENT, operation_id=operation, attempt=attempt,
        external_id=f"ext-{operation[:8]}", evidence=[f"receipt-{operation[:8]}"],
    ), role  # fmt: skip


def succeed(step_id: str, plan_id: str = "p1") -> Said:
    return c.Succeed(
        claim_id=f"succeed-{step_id}", intent_id=INTENT, intent_version=1, plan_id=plan_id, step_id=step_id, evidence=[]
    ), "PLANNER"


def close(claim_id: str = "close") -> Said:
    return c.Close(claim_id=claim_id, intent_id=INTENT), "PLANNER"


def observe(kind: c.SubjectKind, subject: str, finding: c.Finding, version: int, proof: c.Proof | None = None) -> Said:
    return c.Observe(
        claim_id=f"observe-{subject}-{version}", intent_id=INTENT, subject_kind=kind, subject_id=subject,
        finding=finding, source="cloud", source_version=version, external_ids=[], proof=proof,
        evidence=[f"look-{version}"],
    ), "OBSERVER"  # fmt: skip


def step_claims(step_id: str) -> list[Said]:
    """One step from its dispatch to its success."""
    operation = OPERATIONS[step_id]
    asked = [] if step_id == "write" else [prepared(operation, EXECUTORS[step_id])]
    return [dispatch(step_id), *asked, commit(operation), succeed(step_id)]


def honest() -> list[Said]:
    """Everything in its order, up to the close."""
    return [declare(), plan(), *step_claims("write"), *step_claims("tell"), *step_claims("close"), close()]


def handed_over(commitment: str, target: str, token: int) -> list[Said]:
    """The commitment's owner asks the target to take over, which does so with the token of the offer."""
    return [
        (c.Transfer(claim_id=f"transfer-{token}", intent_id=INTENT, commitment_id=commitment, target_owner=target,
                    fencing_token=token - 1), "PLANNER"),
        (c.AcceptTransfer(claim_id=f"accept-{token}", intent_id=INTENT, commitment_id=commitment, owner_id=target,
                          fencing_token=token, evidence=[]), "PLANNER"),
    ]  # fmt: skip


def eventful() -> Simulator:
    """A story in which every kind of fact that the checker reads occurs, played to its close."""
    sim = Simulator(builtin_catalogue())
    window, refund = operation_id(INTENT, "reserve_window", "prod", 1), operation_id(INTENT, "refund", "c1", 1)
    again = operation_id(INTENT, "refund", "c1", 2)
    told, late = OPERATIONS["tell"], operation_id(INTENT, "notify", "late", 1)
    steps: list[c.PlanStep] = [
        {"step_id": "window", "action": "reserve_window", "business_key": "prod"},
        {"step_id": "refund", "action": "refund", "business_key": "c1", "parallel": True},
        {"step_id": "tell", "action": "notify", "business_key": "ops", "parallel": True},
        {"step_id": "write", "action": "write_file", "business_key": "report", "parallel": True},
        {"step_id": "late", "action": "notify", "business_key": "late", "parallel": True},
    ]

    def say(*said: Said) -> None:
        for claim, role in said:
            sim.submit(claim, role)

    say(declare(), plan(steps), dispatch("window"), prepared(window, "cloud"), commit(window))
    obligation = commitment_id(INTENT, "window", ["window:prod"], 1)
    say(observe("COMMITMENT", obligation, "PRESENT", 1), succeed("window"), dispatch("late"))
    say(*handed_over(obligation, "team:ops", 1), *handed_over(obligation, f"intent:{INTENT}", 2))
    say((c.RetireOwner(claim_id="retire", intent_id="", owner_id="team:ops"), "OBSERVER"))
    sim.advance(30_000)  # silence before the permit: the next attempt
    say(prepared(late, "messenger", 2), commit(late, attempt=2), succeed("late"))
    say(dispatch("refund"), prepared(refund, "bank"))
    sim.advance(100_000)  # silence after the permit: doubt
    say(observe("OPERATION", refund, "ABSENT", 1, "SECOND_LOOK"), dispatch("refund", "dispatch-refund-2"))
    say(prepared(again, "bank"), commit(again), succeed("refund"))
    say(dispatch("tell"), (c.Abort(claim_id="stop", intent_id=INTENT, operation_id=told, evidence=[]), "PLANNER"))
    say(dispatch("tell", "dispatch-tell-2"))
    told_2 = operation_id(INTENT, "notify", "ops", 2)
    say(prepared(told_2, "messenger"), commit(told_2), succeed("tell"))
    say(dispatch("write"), commit(OPERATIONS["write"]))
    say((c.Abort(claim_id="regret", intent_id=INTENT, operation_id=OPERATIONS["write"], evidence=[]), "PLANNER"))
    undo = next(one.subject_id for one in reversed(sim.decisions) if one.verdict == "COMPENSATE")
    undone_by = operation_id(INTENT, "delete_file", undo, 1)
    say(commit(undone_by))
    say((c.Release(claim_id="release", intent_id=INTENT, commitment_id=obligation, fencing_token=2), "PLANNER"))
    release = operation_id(INTENT, "release_window", obligation, 1)
    say(prepared(release, "cloud"), commit(release), observe("COMMITMENT", obligation, "ABSENT", 2, "SECOND_LOOK"))
    say(close())
    return sim
