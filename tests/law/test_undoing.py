"""Two phases, pivots, holds: what goes first, what can still be called back, and in which order effects are undone."""

from dataclasses import replace

import pytest

from joingate_schemas import facts as f

from .catalogues import varied
from .driver import Court, step


def files(*names: str) -> Court:
    """Each of these steps writes a file, and has."""
    made = Court(varied())
    made.open(*(step(name, "write_file") for name in names))
    for name in names:
        made.perform(name)
        made.now += 1
    return made


def undo_of(x: Court, name: str) -> str:
    """The id of what undoes the step's effect."""
    decision = x.abort(name)
    wish = next(fact for fact in decision.facts if isinstance(fact, f.CompensationRequested))
    assert wish.by is not None
    return wish.by


# --- undoing ---------------------------------------------------------------------------------------------------------


def test_what_was_done_last_is_undone_first() -> None:
    x = files("a", "b", "c")
    last = undo_of(x, "c")
    first = undo_of(x, "a")
    middle = undo_of(x, "b")
    assert [x.op(one).status for one in (first, middle, last)] == ["STAGED", "STAGED", "SUBMITTED"]
    x.commit(last, external_id="undo-c")
    x.advance(30_000)
    assert [x.op(one).status for one in (first, middle)] == ["STAGED", "SUBMITTED"]
    x.commit(middle, external_id="undo-b")
    x.advance(30_000)
    assert x.commands(first) == ["EXECUTE 1"]
    x.commit(first, external_id="undo-a")
    assert [x.op(name).status for name in "abc"] == ["COMPENSATED"] * 3


def test_a_step_that_stays_keeps_nobody_from_undoing_an_earlier_one() -> None:
    x = files("a", "b")
    assert x.op(undo_of(x, "a")).status == "SUBMITTED"


def test_a_compensation_in_doubt_is_asked_about_and_holds_back_the_earlier_ones() -> None:
    x = files("a", "b")
    last, first = undo_of(x, "b"), undo_of(x, "a")
    x.in_doubt(last)
    assert x.questions(last)[-1].kind == "RESOLVE_OPERATION"
    x.advance(120_000)
    assert x.op(first).status == "STAGED"
    x.observe(last, "PRESENT", external_ids=["undo-b"])
    x.advance(30_000)
    assert x.op(first).status == "SUBMITTED"


def test_a_person_who_keeps_a_later_effect_lets_the_earlier_one_go() -> None:
    x = files("a", "b")
    undo_of(x, "b")
    first = undo_of(x, "a")
    x.override("OPERATION", x.op_id("b"), "SETTLED")
    x.advance(30_000)
    assert x.op(first).status == "SUBMITTED"


def test_a_compensation_does_not_overtake_what_it_undoes() -> None:
    """The effect comes into question while its undoing waits for its permit: nothing is undone until it is known."""
    x = Court(varied())
    x.open(step("a", "pay_and_apologise"))
    x.perform("a")
    undo = undo_of(x, "a")
    assert x.op(undo).status == "VALIDATED"
    x.executor_abort("a", proof="REFUSED")
    assert x.op("a").status == "IN_DOUBT"
    assert x.prepared(undo).reason == "DEPENDENCY_UNMET"
    x.observe("a", "PRESENT", external_ids=["ext-1"])
    assert x.prepared(undo).reason == "OK"


def test_a_compensation_waits_until_every_attempt_of_what_it_undoes_has_landed() -> None:
    x = Court(varied())
    x.open(step("a", "pay_and_apologise"))
    x.dispatch("a")
    x.prepared("a")
    x.in_doubt("a")
    x.observe("a", "RESEND")
    x.prepared("a")
    assert x.commit("a", attempt=1).status == "SETTLED"
    undo = undo_of(x, "a")
    assert x.op(undo).status == "STAGED", "the second attempt is allowed to act still"
    x.advance(30_000 + 60_000 + 30_000)
    assert x.op(undo).status == "VALIDATED"


# --- hold windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["abort", "cancel", "replan"])
def test_within_its_hold_window_it_can_be_called_back_and_no_command_goes_out(how: str) -> None:
    x = Court(varied())
    x.open(step("s1", "pay_held"))
    assert x.dispatch("s1").status == "STAGED"
    operation = x.op_id("s1")
    x.advance(59_999)
    match how:
        case "abort":
            assert x.abort("s1").status == "WITHDRAWN"
        case "cancel":
            x.cancel()
        case _:
            x.plan(step("s9", "write_file"), plan_id="p2", replaces="p1")
    x.advance(600_000)
    assert x.op(operation).status == "WITHDRAWN"
    assert not [one for one in x.commands(operation) if not one.startswith("WITHDRAW")]


def test_after_its_hold_window_it_goes_out_and_an_abort_is_no_undoing_by_itself() -> None:
    x = Court(varied())
    x.open(step("s1", "pay_held"))
    x.dispatch("s1")
    x.advance(60_000)
    assert x.commands(x.op_id("s1")) == ["PREPARE 1"]
    x.prepared("s1")
    assert x.abort("s1").reason == "NO_PROOF"


def test_the_hold_window_begins_once_the_approval_is_there() -> None:
    whole = varied()
    held = replace(whole.actions["pay_approved"], hold_ms=60_000)
    x = Court(varied(actions={**whole.actions, "pay_approved": held}))
    x.open(step("s1", "pay_approved"))
    x.dispatch("s1")
    x.advance(90_000)
    assert x.approve("s1").status == "STAGED"
    x.advance(59_999)
    assert x.abort("s1").status == "WITHDRAWN"


# --- order by kind ---------------------------------------------------------------------------------------------------


def order(x: Court) -> list[str]:
    """The plan's steps in the order that the law gave them."""
    rows = [row for _, row in x.state.rows("steps") if row.plan_id == x.plan_id]  # type: ignore[attr-defined]
    return [row.step_id for row in sorted(rows, key=lambda row: row.ordinal)]  # type: ignore[attr-defined]


def test_the_pivot_goes_last_wherever_it_is_listed() -> None:
    x = Court(varied())
    x.open(step("t", "close_ticket"), step("a", "write_file"), step("b", "pay"))
    assert order(x) == ["a", "b", "t"]
    assert x.dispatch("t").reason == "PIVOT_NOT_LAST"
    x.perform("a")
    assert x.dispatch("t").reason == "PIVOT_NOT_LAST"
    x.perform("b")
    assert x.dispatch("t").verdict == "ACCEPTED"


def test_what_requires_the_pivot_and_what_only_looks_stays_behind_it() -> None:
    x = Court(varied())
    x.open(
        step("d", "deploy"), step("n", "notify", edges=[{"kind": "REQUIRES", "step_id": "d"}]),
        step("h", "observe_health"), step("a", "write_file"),
        step("m", "notify", edges=[{"kind": "REQUIRES", "step_id": "n"}]),
    )  # fmt: skip
    assert order(x) == ["a", "d", "n", "h", "m"]
    x.perform("a")
    x.perform("d")
    x.perform("n")
    assert x.dispatch("h").verdict == "ACCEPTED"


def test_the_pivot_waits_for_what_is_in_doubt_before_it() -> None:
    x = Court(varied())
    x.open(step("a", "pay"), step("t", "close_ticket"))
    x.dispatch("a")
    x.prepared("a")
    x.in_doubt("a")
    assert x.dispatch("t").reason == "PIVOT_NOT_LAST"
    x.observe("a", "PRESENT", external_ids=["ext-1"])
    assert x.dispatch("t").verdict == "ACCEPTED"
    x.executor_abort("a", proof="REFUSED")
    assert x.prepared("t").reason == "PIVOT_NOT_LAST", "it is looked at again when the permit is asked for"
