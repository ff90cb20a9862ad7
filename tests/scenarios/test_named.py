"""The named scenarios: each failure has the outcome that the index promises, its ledger verified, and each can fail."""

import dataclasses
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from joingate.scenarios.named import FOLDER, ScenarioReport, play, scenario_named, scenarios
from joingate_processors.forensics.simulator import SimulatorFault
from joingate_processors.forensics.trace import ExpectLine, TraceError, read_trace
from joingate_processors.law import commitments, outcomes
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case
from joingate_processors.law.state import Commitment, Intent, Operation, PlanRow, plan_key
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.facts import AnyFact

NAMES = [one.name for one in scenarios()]


def test_every_row_of_failures_has_its_scenario() -> None:
    """Eleven injections (one in two forms) and ten modes (one in two forms), each with its trace and its outcome."""
    kinds = [one.kind for one in scenarios()]
    assert (kinds.count("INJECTION"), kinds.count("MODE")) == (12, 11)
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == {one.name for one in scenarios()}
    for one in scenarios():
        expected = [line for line in read_trace(one.trace).lines if isinstance(line, ExpectLine)]
        assert one.wrong.endswith(".") and one.expected.endswith("."), one.name  # noqa: PT018 - one habit, two fields
        assert len(expected) >= 3, f"{one.name} expects next to nothing"


def test_every_end_of_a_process_is_made_on_a_real_broker_too() -> None:
    """By a test of the scenario's name."""
    played = (Path(__file__).parents[1] / "broker" / "gate" / "test_scenarios.py").read_text()
    crashes = [one.name for one in scenarios() if one.crash]
    assert len(crashes) >= 8
    assert [name for name in crashes if f"def test_{name.replace('-', '_')}(" not in played] == []


def complaints(report: ScenarioReport) -> str:
    return "\n".join(report.lines())


@pytest.mark.parametrize("batch", [None, 3, 100])
@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_ends_as_expected(name: str, batch: int | None) -> None:
    """However many claims a poll takes: the outcome is the expected one, and the ledger is verified after it."""
    report = play(scenario_named(name), batch=batch)
    assert report.holds, complaints(report)
    assert report.audit.decided_again > 0
    assert "BROKEN" not in {one.verdict for one in report.audit.seven}


def test_together_they_try_the_rules_about_obligations() -> None:
    """No rule that this release can break is left untried by all of them."""
    tried = {rule.name for one in scenarios() for rule in play(one).audit.seven if rule.verdict == "HELD"}
    assert tried >= {"ACTIVE_OWNED", "SATISFIED_SHOWN", "RELEASED_SHOWN", "STALE_CREATES", "UNKNOWN_KEPT"}


# --- each can fail ---------------------------------------------------------------------------------------------------


def _silence_is_proof(case: Case, operation: Operation, *_: object) -> list[AnyFact]:
    """A law that rounds doubt down to failure."""
    return outcomes.fail(case, operation, operation.attempt, "UNKNOWN", [], "GATE")


def _word_is_enough(case: Case, commitment: Commitment) -> ObligationType:
    """A law that asks for no observation."""
    return dataclasses.replace(_kind_of(case, commitment), observed=False)


def _doubt_is_release(case: Case, operation: Operation, cause: str) -> list[AnyFact]:
    """A law that takes a release which timed out for done."""
    row = case.state.commitments.get(operation.commitment_id or "")
    return [] if row is None else commitments.discharged(case, row, "RELEASED", cause, ["it was asked for"])


def _forgotten(case: Case, row: Commitment, cause: str, evidence: list[str] | None = None) -> list[AnyFact]:
    """A law that drops what it can't read."""
    return commitments.discharged(case, row, "RELEASED", cause, ["nobody knows this type any more"])


def _nobody_looks(case: Case, claim: Any, row: Commitment) -> Any:
    return import_module("joingate_processors.law.news").kept(claim, row.status, "not of interest")


def _any_plan(case: Case, intent: Intent, plan_id: str, named: str) -> PlanRow:
    """A law for which every plan is in force."""
    plan = case.state.plans.get(plan_key(intent.intent_id, plan_id))
    assert plan is not None
    return plan


def _prose_commits(case: Case, operation: Operation, *more: Any) -> list[AnyFact]:
    """A law that reads promises out of text."""
    made = f.CommitmentProposed(
        commitment_id="read-from-text", intent_id=operation.intent_id, intent_version=1, goal_id=None, plan_id="p1",
        step_id="s1", owner_id="model", obligation_type="promise", type_version=1, resource_refs=[],
        counterparty_refs=[], quantity=None, attributes={}, generation=1, operation_id=None, due_at=None,
        valid_until=None, timer="NONE", deadline_at=None,
    )  # fmt: skip
    return [*_settle(case, operation, *more), made]


_kind_of, _settle = commitments.kind_of, outcomes.settle
HOLES: dict[str, tuple[str, Callable[..., object]]] = {
    "crash-before-ledger": ("outcomes.doubt", _silence_is_proof),
    "ledger-ahead-of-the-world": ("commitments.kind_of", _word_is_enough),
    "release-timed-out": ("commitments.on_doubt", _doubt_is_release),
    "superseded-while-creating": ("commitments.left_behind", lambda case, row: False),
    "superseded-then-given-back": ("commitments.release_operation", lambda case, row: None),
    "approved-after-stale": ("intents.withdraw_unpermitted", lambda case, intent, cause: []),
    "reservation-expires": ("commitment_news._gone", _nobody_looks),
    "release-cannot-parse": ("commitments.reconcile", _forgotten),
    "cancel-dropped": ("dispositions.on_cancelled", lambda case, intent, withdrawn: []),
    "duplicate-attempt": ("case.Case.slot_operation", lambda case, step: None),
    "plans-taken-for-obligations": ("case.Case.plan_in_force", _any_plan),
    "commitment-taken-for-a-plan-node": ("dispositions.on_planned", lambda *of: []),
    "cancel-kills-the-cleanup": ("dispositions.on_cancelled", lambda case, intent, withdrawn: []),
    "created-twice": ("case.Case.slot_operation", lambda case, step: None),
    "review-of-stale-work": ("dispositions.on_superseded", lambda *of: []),
    "worker-dies-holding": (
        "timers._silence", lambda case, operation: Ruling("REJECTED", "ALREADY_RESOLVED", "nobody minds")
    ),
    "release-taken-for-done": ("commitments.kind_of", _word_is_enough),
    "promise-in-prose": ("outcomes.settle", _prose_commits),
    "every-branch-reserves": ("case.Case.plan_in_force", _any_plan),
    "replanned-without-a-diff": ("dispositions.on_planned", lambda *of: []),
    "owner-disappears": ("owners.retire", lambda case, claim: Ruling("ACCEPTED", "OK", "", claim.owner_id)),
    "transfer-target-crashes": ("custody.check_not_in_transfer", lambda case, row: None),
    "promise-as-a-claim": ("promises.promise", lambda case, claim: Ruling("ACCEPTED", "OK", "only words")),
}  # fmt: skip


def test_every_scenario_has_a_hole_that_breaks_it() -> None:
    assert set(HOLES) == set(NAMES)


@pytest.mark.parametrize("name", HOLES)
def test_a_scenario_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one rule taken out of the law, the scenario that the rule is for does not end as expected."""
    place, hole = HOLES[name]
    room, *path = place.split(".")
    target: Any = import_module(f"joingate_processors.law.{room}")
    for step in path[:-1]:
        target = getattr(target, step)
    monkeypatch.setattr(target, path[-1], hole)
    try:
        report = play(scenario_named(name))
    except (TraceError, SimulatorFault):
        return  # the story could not even be told to its end: the names in it stand for nothing
    assert not report.holds
