"""What the join gate's table is made of: a row beside its control, and the scenes in which rows are played.

`given` sets the scene, `when` makes the claim that is judged; `control` makes, over the same scene on its own, what
the refused claim should have been. Both are played by `test_table`; `test_reasons` counts which reasons are reached.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Decision, Verdict

from .catalogues import varied
from .driver import Court, step

Play = Callable[[Court], Decision]


@dataclass(frozen=True)
class Row:
    """One row. `facts` are the names of the facts that must follow, in order (None: any)."""

    name: str
    reason: str
    when: Play
    control: Play | None
    given: Callable[[Court], object] = field(default=lambda court: None)
    verdict: Verdict = "REJECTED"
    facts: tuple[str, ...] | None = ()
    catalogue: Callable[[], Catalogue] = varied


def opened(*steps: c.PlanStep) -> Callable[[Court], None]:
    """Given: an intent with a plan of these steps."""
    return lambda court: court.open(*(steps or (step("s2", "write_file"), step("s1"))))


def then(*plays: Callable[[Court], object]) -> Callable[[Court], Decision]:
    """Several claims in order; the last one's decision."""

    def play(court: Court) -> Decision:
        for one in plays[:-1]:
            one(court)
        decision = plays[-1](court)
        assert isinstance(decision, Decision)
        return decision

    return play


def permitted(court: Court) -> None:
    """Given: step s1 (notify) may act."""
    court.open(step("s2", "write_file"), step("s1"))
    court.permit("s1")


def paying(court: Court) -> None:
    """Given: step s1 (pay, at a bank with keys) may act."""
    court.open(step("s1", "pay"))
    court.permit("s1")


def eve_may_pay(court: Court) -> None:
    """Given: step s1 (pay) may act, where principals are declared: paula plans, and eve executes."""
    court.declare(principal="paula")
    court.plan(step("s1", "pay"), principal="paula")
    court.dispatch("s1", principal="paula")
    assert court.prepared("s1", principal="eve").verdict == "ACCEPTED"


def settled(court: Court) -> None:
    """Given: step s1 (notify) is done."""
    permitted(court)
    court.commit("s1")


def failed(court: Court) -> None:
    """Given: step s1 (notify) is proven not to have happened."""
    permitted(court)
    court.executor_abort("s1", proof="NOT_SENT")


def doubted(court: Court) -> None:
    """Given: nobody knows about step s1 (pay, at a bank with keys)."""
    court.open(step("s1", "pay"))
    court.permit("s1")
    court.in_doubt("s1")


def resent(court: Court) -> None:
    """Given: a second attempt of step s1 (pay) was permitted out of doubt."""
    doubted(court)
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"


def resent_and_permitted(court: Court) -> None:
    """Given: the second attempt of step s1 (pay) may act, long after the first."""
    doubted(court)
    court.advance(1_000_000)
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert court.prepared("s1").verdict == "ACCEPTED"


def superseded(court: Court) -> None:
    """Given: version 2 is declared, and nothing planned for it."""
    court.open(step("s1"))
    court.declare(2)


def approval(court: Court) -> None:
    """Given: step s1 waits for an approval."""
    court.open(step("s1", "pay_approved", arguments={"amount": 5}))
    court.dispatch("s1")


def checked(court: Court) -> None:
    """Given: step s1 waits for the approval of somebody other than who asked for it."""
    court.open(step("s1", "pay_checked"))
    court.dispatch("s1")


def seat(court: Court) -> None:
    """Given: step s1 made a commitment that is in force."""
    court.open(step("s1", "reserve_window"))
    court.active("s1")


def closed(court: Court) -> None:
    """Given: a closed intent."""
    settled_and_closed = then(
        opened(step("s1")), lambda x: x.perform("s1"), lambda x: x.succeed("s1"), lambda x: x.close()
    )
    assert settled_and_closed(court).verdict == "ACCEPTED"


def edges(kind: c.EdgeKind, target: str) -> list[c.Edge]:
    """One edge."""
    return [{"kind": kind, "step_id": target}]


def again(court: Court) -> Decision:
    """The last claim but under another type's id."""
    return court.succeed("s1", claim_id=court.decisions[-1].claim_id)
