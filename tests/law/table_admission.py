"""Rows of the join gate's table for debts, backlogs, budgets, and goals that are reached."""

from collections.abc import Callable
from typing import Any

from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue, Limit

from .draws_catalogue import quantified
from .driver import Court, step
from .limited_catalogue import limited, priced
from .scenes import Row, edges, opened, then

G1: c.Goal = {"goal_id": "g1", "acceptance": "production runs 4.2"}
PROVEN: c.Goal = {**G1, "evidence_requirements": ["health"]}
BUDGETS: c.Budgets = {"exploration": 0.5, "verification": 0.3, "reconciliation": 0.2, "cost_max": 10.0}


def of_goal(*goals: c.Goal, action: str = "write_file") -> Callable[[Court], None]:
    """Given: an intent with these goals, and a step s1 that serves the first."""

    def given(court: Court) -> None:
        court.declare(goals=list(goals or (G1,)))
        court.plan(step("s1", action, goal_id="g1"), step("s2", "write_file"))

    return given


def all_done(*goals: c.Goal, close_needs_goals: bool = True) -> Callable[[Court], None]:
    """Given: an intent with these goals, whose only step is done; it closes over goals that were seen, or over any."""

    def given(court: Court) -> None:
        court.declare(goals=list(goals), close_needs_goals=close_needs_goals)
        court.plan(step("s1", "write_file", goal_id="g1"))
        court.perform("s1")
        assert court.succeed("s1").verdict == "ACCEPTED"

    return given


def seen(finding: str, **given: Any) -> Callable[[Court], object]:
    """A source says this of goal g1."""
    return lambda court: court.observe_goal("g1", finding, **given)


def in_debt(court: Court) -> None:
    """Given: two holds are in force, which is all that may be; s3 would make a third."""
    court.open(*(step(f"s{n}", "make_hold") for n in (1, 2, 3)))
    court.active("s1")
    court.active("s2")


def budgeted(*steps: c.PlanStep, **budgets: Any) -> Callable[[Court], None]:
    """Given: an intent of these steps that may spend 10, half of it on exploration."""

    def given(court: Court) -> None:
        court.declare(budgets={**BUDGETS, **budgets})
        court.plan(*steps)

    return given


def eight_gpus(court: Court) -> None:
    """Given: s1 has reserved eight GPUs, of which s2 takes five and may act; s3 would take four."""
    uses = [
        step(one, "run_on_gpus", arguments={"need": need}, edges=edges("REQUIRES", "s1"), parallel=True)
        for one, need in (("s2", 5), ("s3", 4))
    ]
    court.open(step("s1", "reserve_gpus", arguments={"count": 8}), *uses)
    court.perform("s1")
    court.permit("s2")


def given_back(court: Court) -> None:
    """s1's hold is given back, with all evidence."""
    assert court.release("s1").verdict == "ACCEPTED"
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"


def with_limits(*limits: Limit) -> Callable[[], Catalogue]:
    """The catalogue with these limits."""
    return lambda: limited(*limits)


TRIES = (step("s1", "try_out"), step("s2", "try_out"), step("s3", "measure"))
DOUBTS = with_limits(Limit("doubts", "INTENT", doubts=1))
REVIEWS = with_limits(Limit("reviews", "TENANT", reviews=1))

ROWS = {
    "admission": [
        Row("beyond the intent's limit", "COMMITMENT_DEBT", lambda x: x.dispatch("s3"),
            then(given_back, lambda x: x.dispatch("s3")), given=in_debt, catalogue=limited),
        Row("beyond the principal's own limit", "COMMITMENT_DEBT", lambda x: x.dispatch("s3", principal="somebody"),
            lambda x: x.dispatch("s3", principal="ann"), given=in_debt,
            catalogue=with_limits(Limit("each", "PRINCIPAL", debt=9.0),
                                  Limit("somebody", "PRINCIPAL", only="somebody", debt=2.0))),
        Row("beyond the tenant's limit", "COMMITMENT_DEBT", lambda x: x.dispatch("s3"),
            then(given_back, lambda x: x.dispatch("s3")), given=in_debt,
            catalogue=with_limits(Limit("acme", "TENANT", only="acme", debt=2.0))),
        Row("a promise beyond the limit", "COMMITMENT_DEBT", lambda x: x.promise(),
            then(given_back, lambda x: x.satisfied("s2"), lambda x: x.promise()), given=in_debt, catalogue=limited),
        Row("adopting a plan whose lightest obligation would be too much", "COMMITMENT_DEBT",
            lambda x: x.plan(step("s9", "make_hold"), plan_id="p2", replaces="p1"),
            lambda x: x.plan(step("s1", "make_hold"), step("s9", "notify"), plan_id="p2", replaces="p1"),
            given=in_debt, catalogue=limited),
        Row("a new obligation over an unresolved doubt", "COMMITMENT_DEBT", lambda x: x.dispatch("s2"),
            then(lambda x: x.commit("s1"), lambda x: x.dispatch("s2")),
            given=then(opened(step("s1", "pay"), step("s2", "make_hold", parallel=True)), lambda x: x.permit("s1"),
                       lambda x: x.in_doubt("s1")), catalogue=DOUBTS),
        Row("one more question to people who have enough to decide", "COMMITMENT_DEBT", lambda x: x.dispatch("s2"),
            then(lambda x: x.approve("s1"), lambda x: x.dispatch("s2")),
            given=then(opened(step("s1", "pay_approved"), step("s2", "pay_approved", parallel=True)),
                       lambda x: x.dispatch("s1")), catalogue=REVIEWS),
    ],
    "budget": [
        Row("more than the share for exploration", "BUDGET_SPENT", lambda x: x.dispatch("s2"),
            lambda x: x.dispatch("s3"), given=then(budgeted(*TRIES), lambda x: x.dispatch("s1")), catalogue=priced),
        Row("more than the ceiling", "BUDGET_SPENT", lambda x: x.dispatch("s3"),
            then(lambda x: x.declare(2, budgets=BUDGETS), lambda x: x.plan(step("s3", "measure"), plan_id="p2"),
                 lambda x: x.dispatch("s3")),
            given=then(budgeted(*TRIES, cost_max=5.0, exploration=1.0), lambda x: x.dispatch("s1")),
            catalogue=priced),
    ],
    "quantities": [
        Row("more than is reserved", "EXCEEDS_COMMITMENT", lambda x: x.dispatch("s3"),
            then(lambda x: x.commit("s2"), lambda x: x.dispatch("s3")), given=eight_gpus, catalogue=quantified),
    ],
    "goals": [
        Row("work on a goal that is reached", "OBJECTIVE_ALREADY_SATISFIED", lambda x: x.dispatch("s1"),
            lambda x: x.dispatch("s2"), given=then(of_goal(), seen("PRESENT", source_version=1)), catalogue=priced),
        Row("older news of a goal", "STALE_OBSERVATION", lambda x: x.observe_goal("g1", "ABSENT", source_version=4),
            lambda x: x.observe_goal("g1", "ABSENT", source_version=6),
            given=then(of_goal(), seen("PRESENT", source_version=5)), facts=("ObservationRecorded",)),
        Row("a goal under one that is not declared", "MALFORMED",
            lambda x: x.declare(goals=[{**G1, "parent_goal_id": "g0"}]),
            lambda x: x.declare(goals=[{**G1, "parent_goal_id": "g0"}, {"goal_id": "g0", "acceptance": "well"}])),
        Row("goals that are part of each other", "MALFORMED",
            lambda x: x.declare(goals=[{"goal_id": "a", "acceptance": "a", "parent_goal_id": "b"},
                                       {"goal_id": "b", "acceptance": "b", "parent_goal_id": "a"}]),
            lambda x: x.declare(goals=[{"goal_id": "a", "acceptance": "a", "parent_goal_id": "b"},
                                       {"goal_id": "b", "acceptance": "b"}])),
        Row("to close over goals, and there are none", "MALFORMED", lambda x: x.declare(close_needs_goals=True),
            lambda x: x.declare(goals=[G1], close_needs_goals=True)),
        Row("another wish for how it closes under the same version", "VERSION_CONFLICT",
            lambda x: x.declare(goals=[G1], close_needs_goals=True),
            lambda x: x.declare(2, goals=[G1], close_needs_goals=True), given=lambda x: x.declare(goals=[G1])),
        Row("the close over a goal that nobody has seen", "GOALS_NOT_SEEN", lambda x: x.close(),
            then(seen("PRESENT", evidence=["health:200"]), lambda x: x.close()), given=all_done(PROVEN)),
        Row("the close over a goal that was seen without its evidence", "GOALS_NOT_SEEN", lambda x: x.close(),
            then(seen("PRESENT", source_version=2, evidence=["health:200"]), lambda x: x.close()),
            given=then(all_done(PROVEN), seen("PRESENT", source_version=1))),
        Row("two goals of one name", "MALFORMED", lambda x: x.declare(goals=[G1, G1]), lambda x: x.declare(goals=[G1])),
    ],
}  # fmt: skip
