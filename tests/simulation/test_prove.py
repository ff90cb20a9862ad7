"""`joingate prove`: the gate keeps its invariants where the naive planner breaks them, and each seed tells it again."""

import dataclasses
from importlib import import_module
from importlib.resources import files

import pytest

from joingate_processors.forensics.prove import prove, run_one
from joingate_processors.forensics.scenario import STEPS_ASKED_MAX, Truth, draw
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.state import Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_text
from joingate_schemas.codec import Codec
from joingate_schemas.facts import AnyFact

TRACES = 2_000


def test_the_gate_holds_where_the_naive_planner_fails() -> None:
    """2,000 traces of everything that goes wrong: none breaks anything behind the gate, most do without it."""
    result = prove(TRACES, seed=7)
    assert result.violations == []
    assert (result.gated_violations, result.gated_doubled) == (0, 0)
    assert result.holds
    assert result.naive_violations > TRACES / 2
    assert result.naive_doubled > TRACES / 4
    # Each of them can be told again.
    assert (len(set(result.naive_seeds)), len(set(result.naive_doubled_seeds))) == (
        result.naive_violations, result.naive_doubled,
    )  # fmt: skip


@pytest.mark.slow
def test_the_gate_holds_over_ten_thousand_traces() -> None:
    """What no trace of a hundred shows may show in ten thousand, of seeds that no other test draws."""
    result = prove(10_000, seed=1_000_000)
    assert result.violations == []
    assert result.holds


def test_the_gate_does_not_hold_by_refusing_everything() -> None:
    """Most of the intents are closed in the end, and every verdict is given."""
    result = prove(100, seed=1_000)
    assert result.closed > 60
    verdicts = {name.split()[0] for name in result.verdicts}
    assert verdicts == {"ACCEPTED", "REPLAYED", "REJECTED", "COMPENSATE"}
    assert {name for name, times in result.faults.items() if times} >= {
        "fabricated successes",
        "lost acknowledgements",
        "late aborts",
        "two ids for one wish",
        "restarts",
        "claims out of order",
        "claims sent twice",
    }


def test_the_gate_holds_with_approvals_and_hold_windows() -> None:
    """The same under a catalogue in which people approve refunds and messages can be called back for a while."""
    text = (files("joingate_schemas") / "builtin.yaml").read_text()
    for action, more in (("refund", "approval: ANY"), ("notify", "hold: 20s"), ("close_ticket", "approval: ANY")):
        text = text.replace(f"  {action}:\n", f"  {action}:\n    {more}\n", 1)
    result = prove(150, seed=5_000, catalogue=catalogue_from_text(text))
    assert result.violations == []
    assert result.closed > 75
    assert result.verdicts["REJECTED APPROVAL_STALE"] > 0


def _anything_succeeds(case: Case, claim: c.Succeed) -> Ruling:
    """A law that takes the planner's word."""
    _, step = case.planned_step(case.open_intent(claim.intent_id, 0), claim.plan_id, claim.step_id)
    fact = f.StepSucceeded(
        intent_id=claim.intent_id, plan_id=claim.plan_id, step_id=claim.step_id, operation_id=step.slot_id
    )
    return Ruling("ACCEPTED", "OK", facts=[fact])


def _silence_is_proof(case: Case, operation: Operation, *_: object) -> list[AnyFact]:
    """A law that rounds doubt down to failure."""
    return [
        f.OperationFailed(operation_id=operation.operation_id, intent_id=operation.intent_id,
                          attempt=operation.attempt, proof="UNKNOWN", evidence=[], source="GATE")
    ]  # fmt: skip


_ALLOWED: dict[str, frozenset[type]] = import_module("joingate_processors.law.judge")._ALLOWED
_COMMITTING_PLANNER = {**_ALLOWED, "proposals": _ALLOWED["proposals"] | {c.Commit}}
HOLES: dict[str, tuple[str, object, str]] = {
    "a success without its commit": ("plans.succeed", _anything_succeeds, "JOIN"),
    "a close with joins missing": ("intents._check_joins", lambda case, plan: None, "CLOSE"),
    "a close over what is open": ("intents._check_nothing_open", lambda case, intent: None, "CLOSE"),
    "a start on what is not there": ("order._edges_unmet", lambda case, plan, step: None, "REQUIRES"),
    "a permit on what is gone": ("order.still_unmet", lambda case, operation: None, "REQUIRES"),
    "doubt taken for failure": ("outcomes.doubt", _silence_is_proof, "PROOF"),
    "permits for what is superseded": ("case.Case.staleness", lambda case, operation: "", "FRESH"),
    "absence inside a live permit": ("case.Case.quiet_from", lambda case, operation: 0, "PROOF_TIME"),
    "a person's word inside a live permit": ("overrides._check_landed", lambda case, operation: None, "PROOF_TIME"),
    "everything in one phase": ("opening.phases_of", lambda case, action: "ONE_PHASE", "TWO_PHASES"),
    "a planner that may commit": ("judge._ALLOWED", _COMMITTING_PLANNER, "ROLE"),
}  # fmt: skip


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_in_the_law_is_found(hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof can fail: with one guard taken out of the law, a few traces show it, and the seed shows it again."""
    place, instead, invariant = HOLES[hole]
    room, *path, name = place.split(".")
    owner = import_module(f"joingate_processors.law.{room}")
    for part in path:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name, instead)
    catalogue, codec = builtin_catalogue(), Codec()
    found = next((seed for seed in range(7, 157) if invariant in _broken(seed, catalogue, codec)), None)
    assert found is not None
    result = prove(1, seed=found)
    assert result.gated_seeds == [found]
    assert any(f": {invariant}: " in sentence for _, sentence in result.violations)


def _broken(seed: int, catalogue: Catalogue, codec: Codec) -> set[str]:
    return {violation.invariant for violation in run_one(seed, catalogue, codec).violations}


def test_the_same_seed_tells_the_same_story() -> None:
    """A result can be had again, and a seed of a run can be told alone."""
    first, second = prove(20, seed=40), prove(20, seed=40)
    assert dataclasses.asdict(first) == dataclasses.asdict(second)
    alone = prove(1, seed=first.naive_seeds[-1])
    assert (alone.naive_violations, alone.naive_seeds) == (1, first.naive_seeds[-1:])
    assert prove(1, seed=first.naive_doubled_seeds[-1]).naive_doubled == 1
    assert alone.ledger is not None
    assert [one["seq"] for one in alone.ledger] == list(range(1, len(alone.ledger) + 1))


@pytest.mark.parametrize("steps", [1, 12, 40])
def test_plans_have_as_many_steps_as_are_asked_for_and_the_gate_holds(steps: int) -> None:
    """Long plans are lived through to the end as short ones are, and a seed of such a run can be told alone."""
    traces = 60 // steps + 5
    result = prove(traces, seed=7, steps=steps)
    assert (result.steps, result.faults["steps"]) == (steps, traces * steps)
    assert result.violations == []
    assert result.closed > traces * 0.7
    assert result.naive_violations > 0
    again = prove(1, seed=result.naive_seeds[0], steps=steps)
    assert again.naive_seeds == result.naive_seeds[:1]


@pytest.mark.parametrize("steps", [0, STEPS_ASKED_MAX + 1])
def test_a_number_of_steps_beyond_what_can_be_run_is_refused(steps: int) -> None:
    """With what may be asked for."""
    with pytest.raises(ValueError, match=f"1 to {STEPS_ASKED_MAX} steps, not {steps}"):
        prove(1, steps=steps)


def test_progress_is_told_after_each_trace() -> None:
    """A long run can show how far it is."""
    told: list[int] = []
    prove(3, seed=1, progress=told.append)
    assert told == [1, 2, 3]


def test_no_traces_prove_nothing() -> None:
    """A count over nothing would look like a proof."""
    with pytest.raises(ValueError, match="At least one trace"):
        prove(0)


def test_faults_come_as_often_as_they_are_said_to() -> None:
    """Three in ten successes are made up, and three in ten of the other steps meet silence."""
    steps = [step for seed in range(2_000) for step in draw(seed)[0].steps]
    honest = [step for step in steps if not step.fabricated]
    assert 0.27 < 1 - len(honest) / len(steps) < 0.33
    assert 0.27 < sum(step.silence != "NONE" for step in honest) / len(honest) < 0.33


def test_the_world_counts_what_really_happened() -> None:
    """A downstream that knows keys acts once a key, another each time; what was undone once stands once less."""
    truth = Truth()
    truth.act("k1", "refund", "capture-1", "bank")
    truth.act("k1", "refund", "capture-1", "bank")
    assert truth.doubled() == []
    truth.act("k2", "refund", "capture-1", "bank")
    truth.act("k3", "notify", "ops", "messenger")
    truth.act("k3", "notify", "ops", "messenger")
    assert truth.doubled() == ["notify ops", "refund capture-1"]
    truth.undone.add("k2")
    assert truth.doubled() == ["notify ops"]
