"""What steps take of the commitments that they rely on: never more than one holds, and free again as it should be."""

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.law import draws
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue_file import CatalogueError, catalogue_from_text

from .draws_catalogue import quantified
from .driver import Court, step
from .invariants import snapshot
from .scenes import edges


def runs(step_id: str, need: c.Scalar, action: str = "run_on_gpus") -> c.PlanStep:
    """A step that takes so many of the GPUs that step `r` reserves."""
    return step(step_id, action, arguments={"need": need}, edges=edges("REQUIRES", "r"), parallel=True)


def reserved(*steps: c.PlanStep, count: int = 8) -> Court:
    """Step `r` has reserved GPUs; `steps` may follow."""
    court = Court(quantified())
    court.load()
    court.open(step("r", "reserve_gpus", arguments={"count": count}), *steps)
    court.perform("r")
    assert (court.commitment("r").status, court.commitment("r").quantity) == ("ACTIVE", count)
    return court


def sound(court: Court) -> None:
    """The checker finds nothing, and the ledger alone rebuilds the state."""
    assert check(court.decisions) == []
    assert snapshot(court.replayed()) == snapshot(court.state)


def test_steps_share_what_was_reserved_and_whoever_would_take_more_is_told_what_is_left() -> None:
    court = reserved(runs("a", 5), runs("b", 4), runs("c", 3))
    assert court.dispatch("a").verdict == "ACCEPTED"
    refused = court.dispatch("b")
    assert (refused.verdict, refused.reason, refused.facts) == ("REJECTED", "EXCEEDS_COMMITMENT", [])
    assert f"takes 4 of a gpus, and {court.commitment_id('r')} has 3 of 8 left" in refused.detail
    assert court.dispatch("c").verdict == "ACCEPTED", "three fit still"
    assert court.commitment("r").drawn == 8
    sound(court)


def test_what_is_done_gives_back_for_the_next_one() -> None:
    court = reserved(runs("a", 8), runs("b", 8))
    court.perform("a")
    assert court.commitment("r").drawn == 0
    court.perform("b")
    sound(court)


@pytest.mark.parametrize("end", ["aborted", "failed", "declined", "replanned"])
def test_what_ends_without_effect_gives_back(end: str) -> None:
    court = reserved(runs("a", 8, "run_when_told" if end == "declined" else "run_on_gpus"), runs("b", 8))
    court.dispatch("a")
    assert court.dispatch("b").reason == "EXCEEDS_COMMITMENT"
    match end:
        case "aborted":
            court.abort("a")
        case "failed":
            court.prepared("a")
            court.executor_abort("a", proof="NOT_SENT")
        case "declined":
            court.decline("a")
        case _:
            again = step("r", "reserve_gpus", arguments={"count": 8})
            court.plan(again, runs("b", 8), plan_id="p2", replaces="p1")
    assert court.dispatch("b").verdict == "ACCEPTED"
    sound(court)


def test_what_nobody_knows_the_end_of_keeps_what_it_took() -> None:
    court = reserved(runs("a", 8), runs("b", 1))
    court.permit("a")
    court.in_doubt("a")
    assert court.dispatch("b").reason == "EXCEEDS_COMMITMENT"
    court.advance(10_000_000)
    assert court.op("a").status == "ESCALATED"
    assert court.dispatch("b").reason == "EXCEEDS_COMMITMENT"
    court.override("OPERATION", court.op_id("a"), "FAILED")
    assert court.dispatch("b").verdict == "ACCEPTED"
    sound(court)


def test_what_came_back_as_an_effect_takes_again_what_it_had_given_back() -> None:
    court = reserved(runs("a", 8), runs("b", 1))
    court.permit("a")
    court.executor_abort("a", proof="NOT_SENT")
    assert court.commitment("r").drawn == 0
    assert court.commit("a").reason == "CONFLICTING_OUTCOME"
    assert court.commitment("r").drawn == 8
    assert court.dispatch("b").reason == "EXCEEDS_COMMITMENT"
    sound(court)


def test_what_is_used_up_stays_used_up_until_it_is_undone() -> None:
    court = Court(quantified())
    court.load()
    takes = [step(one, "capture", arguments={"sum": 60}, edges=edges("REQUIRES", "r"), parallel=True) for one in "ab"]
    court.open(step("r", "open_credit"), *takes)
    court.perform("r")
    court.perform("a")
    assert court.commitment("r").drawn == 60
    assert court.dispatch("b").reason == "EXCEEDS_COMMITMENT"
    undone = court.abort("a")
    (by,) = [fact.operation_id for fact in undone.facts if isinstance(fact, f.OperationOpened)]
    court.perform(by)
    assert court.op("a").status == "COMPENSATED"
    assert court.dispatch("b").verdict == "ACCEPTED"
    sound(court)


def test_a_step_that_relies_on_nothing_of_the_kind_is_told_what_to_name() -> None:
    court = Court(quantified())
    court.open(step("a", "run_on_gpus", arguments={"need": 1}))
    refused = court.dispatch("a")
    assert refused.reason == "DEPENDENCY_UNMET"
    assert "relies on none that has any" in refused.detail


def test_a_named_commitment_of_an_earlier_plan_is_drawn_on_too_and_the_first_with_enough_left_is_taken() -> None:
    court = reserved()
    first = court.commitment_id("r")
    more = step("r2", "reserve_gpus", arguments={"count": 4}, parallel=True)
    uses = [
        step(one, "run_on_gpus", arguments={"need": need}, commitments=[first], edges=edges("REQUIRES", "r2"),
             parallel=True)
        for one, need in (("a", 6), ("b", 4), ("c", 3))
    ]  # fmt: skip
    court.plan(more, *uses, plan_id="p2", replaces="p1", commitments=[first])
    court.perform("r2")
    for one in "ab":
        assert court.dispatch(one).verdict == "ACCEPTED"
    assert (court.op("a").draws, court.op("b").draws) == ({first: 6}, {court.commitment_id("r2"): 4})
    refused = court.dispatch("c")
    assert refused.reason == "EXCEEDS_COMMITMENT"
    assert "has 2 of 8 left" in refused.detail
    assert "has 0 of 4 left" in refused.detail
    sound(court)


@pytest.mark.parametrize("need", [0, -1, 2.5, "many", None])
def test_what_is_taken_is_a_whole_number_above_nothing(need: c.Scalar) -> None:
    court = reserved(runs("a", need))
    assert court.dispatch("a").reason == "MALFORMED"


def test_what_is_reserved_is_a_whole_number_above_nothing() -> None:
    court = Court(quantified())
    court.open(step("r", "reserve_gpus", arguments={"count": 0}))
    assert court.dispatch("r").reason == "MALFORMED"


SMALL = """
version: '1'
downstreams:
  cloud: {capabilities: [IDEMPOTENT_KEY]}
actions:
  reserve: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE, obligation: gpus, arguments: {count: }}
  free: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE}
  run: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE, arguments: {need: }, draws: DRAWS}
obligations:
  gpus: {release_action: free, TYPE}
  hold: {release_action: free}
"""


@pytest.mark.parametrize(
    ("draws_of", "kind", "said"),
    [
        ("{}", "draws: CONSUMED", "nothing is taken of what holds no quantity"),
        ("{}", 'quantity: "{size}"', "size"),
        ("{}", "quantity: few", "is no quantity"),
        ("{gpus: 1}", "version: 2", "nothing is taken of a gpus"),
        ("{hold: 1}", "quantity: 8", "nothing is taken of a hold"),
        ("{nothing: 1}", "quantity: 8", "no obligation is called 'nothing'"),
        ("{gpus: some}", "quantity: 8", "is no quantity"),
        ('{gpus: "{count}"}', "quantity: 8", "count"),
    ],
)
def test_a_catalogue_in_which_nothing_could_be_taken_is_refused(draws_of: str, kind: str, said: str) -> None:
    with pytest.raises(CatalogueError, match=said):
        catalogue_from_text(SMALL.replace("DRAWS", draws_of).replace("TYPE", kind))


def test_a_quantity_is_a_number_or_an_argument_of_what_makes_it() -> None:
    read = catalogue_from_text(SMALL.replace("DRAWS", '{gpus: "{need}"}').replace("TYPE", 'quantity: "{count}"'))
    assert (read.obligations["gpus"].quantity, read.actions["run"].draws) == ("{count}", {"gpus": "{need}"})
    read = catalogue_from_text(SMALL.replace("DRAWS", "{gpus: 2}").replace("TYPE", "quantity: 8, draws: CONSUMED"))
    assert (read.obligations["gpus"].quantity, read.actions["run"].draws) == ("8", {"gpus": "2"})


def test_the_checker_sees_what_takes_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    court = reserved(runs("a", 5), runs("b", 5))
    court.dispatch("a")
    monkeypatch.setattr(draws, "drawn", lambda case, *_: [draws.Draw(court.commitment("r"), 5)])
    court.dispatch("b")
    assert [one.invariant for one in check(court.decisions)] == ["DRAWN"]
