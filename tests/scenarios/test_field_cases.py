"""The field cases as traces: failures that others had, each played on the law, with controls against over-blocking."""

import hashlib
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.forensics.play import Player, catalogue_of, run_trace
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.forensics.snapshot import state_object
from joingate_processors.forensics.trace import ClaimLine, read_trace
from joingate_schemas.catalogue_file import builtin_catalogue, load_catalogue
from joingate_schemas.decisions import Command

TRACES = sorted((Path(__file__).parent / "traces").glob("*.jsonl"))
CASES = "C01 C05 C07 C09 C12 C14 C17 C19 C22 C23 C24 C26 C28 C29 C30 C31 C32 C33 C35 C37 C38".split()


def test_every_case_has_its_trace() -> None:
    """None of the cases that the law decides is left out."""
    assert {path.name[:3] for path in TRACES} == set(CASES)


@pytest.mark.parametrize("batch", [None, 1, 3, 100])
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_field_case(path: Path, batch: int | None) -> None:
    """Every expectation of the trace holds, however many claims a poll takes."""
    result = run_trace(path, batch=batch)
    assert not result.failures, "\n".join(str(failure) for failure in result.failures)


def _played(path: Path) -> Simulator:
    trace = read_trace(path)
    player = Player(trace, catalogue_of(trace, path.parent), beside=path.parent)
    player.play()
    player.simulator.flush()
    return player.simulator


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_field_case_breaks_no_invariant(path: Path) -> None:
    """The checker, which knows nothing of the law, finds nothing in the ledger that came of it."""
    simulator = _played(path)
    commands = [record for record in simulator.sent if isinstance(record, Command)]
    violations = check(simulator.decisions, raw=simulator.ledger, commands=commands)
    assert not violations, "\n".join(str(violation) for violation in violations)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_two_replays_have_one_fingerprint_and_send_nothing(path: Path) -> None:
    """C38: rebuilding the view from the log gives the same view, and neither a command nor a record goes out."""
    simulator = _played(path)
    sent = len(simulator.outgoing)
    before = _fingerprint(simulator)
    simulator.restart()
    first = _fingerprint(simulator)
    simulator.restart()
    assert first == _fingerprint(simulator) == before
    assert len(simulator.outgoing) == sent


def _fingerprint(simulator: Simulator) -> str:
    state = json.dumps(state_object(simulator.state, simulator.names), sort_keys=True)
    return hashlib.sha256(state.encode()).hexdigest()


def test_the_group_starts_from_the_beginning_again() -> None:
    """C38, by accident: offsets expire, every claim is read again; each is REPLAYED and nothing is sent."""
    path = next(path for path in TRACES if path.name.startswith("C01-each"))
    player = Player(read_trace(path), builtin_catalogue())
    player.play()
    simulator, sent = player.simulator, len(player.simulator.outgoing)
    claims = [line for line in read_trace(path).lines if isinstance(line, ClaimLine)]
    decided = [one for one in simulator.decisions if one.topic != "gate" and one.claim]
    assert len(decided) < len(claims)  # REPLAYED ones keep no bytes; the others are sent again as they were
    for one in decided:
        again = simulator.submit_raw(one.claim, one.topic, one.intent_id)
        assert (again.verdict, again.reason, again.facts) == ("REPLAYED", "CLAIM_REPEATED", [])
        subject = simulator.state.operations.get(one.subject_id) or simulator.state.commitments.get(one.subject_id)
        if subject is not None:
            assert again.status == subject.status, "it is told how it is now"
    assert len(simulator.outgoing) == sent


@pytest.mark.parametrize(
    ("place", "case", "invariant"),
    [
        ("evolve._unjoin", "C35-closed-over-a-second-try-that-failed", "CLOSE"),
        ("order.still_unmet", "C35-the-ground-is-gone-before-the-permit", "REQUIRES"),
    ],
)
def test_without_its_guard_the_law_breaks_an_invariant_in_the_case(
    place: str, case: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker sees what the guard prevents: a join by the generation before, a permit on what is gone."""
    room, name = place.split(".")
    monkeypatch.setattr(import_module(f"joingate_processors.law.{room}"), name, lambda *_: None)
    simulator = _played(next(path for path in TRACES if path.stem == case))
    assert invariant in {violation.invariant for violation in check(simulator.decisions)}


@pytest.mark.parametrize(
    ("place", "hole", "case"),
    [
        ("case.Case.slot_operation", lambda case, step: None, "C07-resume-runs-the-finished-sibling-again"),
        ("plans._asked", lambda action, step, asked: step.arguments, "C09-approved-one-thing-executed-another"),
        ("approvals.carried", lambda *of: [], "C09-control-an-approval-outlives-a-new-plan"),
    ],
    ids=["no slot is looked up", "no content is compared", "no approval is kept"],
)
def test_without_its_rule_the_case_does_not_end_as_it_must(
    place: str, hole: Callable[..., object], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case is able to fail."""
    room, *path = place.split(".")
    target = import_module(f"joingate_processors.law.{room}")
    for step in path[:-1]:
        target = getattr(target, step)
    monkeypatch.setattr(target, path[-1], hole)
    assert run_trace(next(path for path in TRACES if path.stem == case)).failures


def test_a_trace_that_says_what_the_arbiter_said_is_answered_by_nobody_else() -> None:
    """As one from a live ledger does: who held the resource then may be no part of it."""
    here = Path(__file__).parent / "traces"
    lines = [json.loads(line) for line in (here / "C37-control-one-after-the-other-through-the-same-slot.jsonl").open()]
    asked = [line for line in lines if line.get("intent_id") == "acme/op1"][:3]
    asked[0].pop("catalogue")
    denied = {"as": "arbiter", "type": "ResourceDenied", "intent_id": "acme/op1", "step": "s1",
              "resource_ref": "slot:c1", "holder": "op-9"}  # fmt: skip
    scarce = load_catalogue(here / "scarce.yaml")
    alone = run_trace([*asked, {"expect": {"state": {"operations": [{"status": "VALIDATED"}]}}}], scarce)
    told = run_trace([*asked, denied, {"expect": {"status": "WITHDRAWN"}}], scarce)
    assert alone.failures == told.failures == []
