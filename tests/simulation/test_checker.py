"""The checker is able to fail: a good ledger, broken in each invariant's own way, is caught by that invariant."""

import ast
import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from joingate_processors.forensics import (
    checked_admission,
    checked_archives,
    checked_commitments,
    checked_operations,
    checked_resources,
    checked_seven,
    checker,
    violations,
)
from joingate_processors.forensics.checker import INVARIANTS, Checker, check
from joingate_processors.forensics.violations import SEVEN
from joingate_schemas import facts as f
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.record import changed

from .stories import INTENT, OPERATIONS, eventful

STORY = eventful()
Ledger = list[Decision]


def where(fact_type: type, **fields: Any) -> tuple[int, int]:
    """The place of the first such fact: which decision, and which of its facts."""
    for place, decision in enumerate(STORY.decisions):
        for number, fact in enumerate(decision.facts):
            if type(fact) is fact_type and all(fact.__dict__[name] == value for name, value in fields.items()):
                return place, number
    raise AssertionError(f"the story has no {fact_type.__name__} with {fields}")


def decision(place: int, **fields: Any) -> Ledger:
    """The story with one decision changed."""
    return [changed(one, **fields) if at == place else one for at, one in enumerate(STORY.decisions)]


def fact(fact_type: type, edit: dict[str, Any], **fields: Any) -> Ledger:
    """The story with one fact changed."""
    place, number = where(fact_type, **fields)
    facts = list(STORY.decisions[place].facts)
    facts[number] = changed(facts[number], **edit)
    return decision(place, facts=facts)


def without(fact_type: type, **fields: Any) -> Ledger:
    """The story with one fact left out."""
    place, number = where(fact_type, **fields)
    facts = list(STORY.decisions[place].facts)
    del facts[number]
    return decision(place, facts=facts)


def with_fact(place: int, new: Any) -> Ledger:
    """The story with one fact more in the decision at `place`."""
    return decision(place, facts=[*STORY.decisions[place].facts, new])


def the(fact_type: type, **fields: Any) -> Any:
    place, number = where(fact_type, **fields)
    return STORY.decisions[place].facts[number]


def at(fact_type: type, **fields: Any) -> int:
    return where(fact_type, **fields)[0]


LAST = len(STORY.decisions) - 1
TELL = the(f.OperationOpened, step_id="tell", generation=2)
REFUND = the(f.OperationOpened, step_id="refund", generation=1)
REFUND_2 = the(f.OperationOpened, step_id="refund", generation=2)
WINDOW = the(f.OperationOpened, step_id="window")
WANTED = f.ResourceChanged(operation_id=WINDOW.operation_id, intent_id=INTENT, resource_ref="slot:1", quantity=1,
                           standing="WANTED")  # fmt: skip
OBLIGATION = the(f.CommitmentProposed)


def _upside_down() -> list[f.StepDetail]:
    """The plan, in which the step that goes first requires the last."""
    first, *others = the(f.PlanRecorded).steps
    return [{**first, "edges": [{"kind": "REQUIRES", "step_id": others[-1]["step_id"]}]}, *others]


def _rival() -> Ledger:
    """A second attempt is started and permitted while the first may have acted, where keys are not known."""
    place = at(f.PermitIssued, operation_id=TELL.operation_id)
    permit = the(f.PermitIssued, operation_id=TELL.operation_id)
    doubt = changed(the(f.OperationInDoubt), operation_id=TELL.operation_id)
    begun = changed(the(f.AttemptStarted), operation_id=TELL.operation_id, attempt=2)
    facts = [*STORY.decisions[place].facts, doubt, begun, changed(permit, attempt=2)]
    return decision(place, facts=facts)


def _doubt_of_no_attempt() -> Ledger:
    """A resend is started, and said to be in doubt before it had a permit."""
    doubt = the(f.OperationInDoubt)
    begun = changed(the(f.AttemptStarted), operation_id=doubt.operation_id, attempt=doubt.attempt + 1)
    place = at(f.OperationInDoubt)
    facts = [*STORY.decisions[place].facts, begun, changed(doubt, attempt=doubt.attempt + 1)]
    return decision(place, facts=facts)


def _said_twice() -> Ledger:
    again = changed(STORY.decisions[1], seq=STORY.decisions[-1].seq + 1, facts=[], decided_at=STORY.now, epoch=9)
    return [*STORY.decisions, again]


def _timer_fails_it() -> Ledger:
    """Silence itself is taken for proof."""
    place = at(f.OperationInDoubt)
    failed = changed(the(f.OperationFailed, operation_id=REFUND.operation_id))
    return decision(place, facts=[failed])


BROKEN: list[tuple[str, str, Callable[[], Ledger]]] = [
    ("CONTIGUOUS", "a record is missing", lambda: STORY.decisions[:3] + STORY.decisions[4:]),
    ("CONTIGUOUS", "a record is there twice", lambda: STORY.decisions[:4] + STORY.decisions[3:]),
    ("CHAINED", "a record was rewritten", lambda: decision(5, previous=b"\0" * 32)),
    ("EPOCH", "a replaced writer goes on", lambda: decision(5, epoch=0)),
    ("TIME", "time goes back", lambda: decision(LAST, decided_at=1)),
    ("ONCE", "a claim is decided twice", _said_twice),
    ("ROLE", "a planner commits", lambda: decision(at(f.OperationSettled), topic="proposals")),
    ("ROLE", "an executor closes", lambda: decision(LAST, topic="outcomes")),
    ("REFUSAL", "a refused dispatch opens", lambda: decision(at(f.OperationOpened), verdict="REJECTED")),
    ("REFUSAL", "a repeat is permitted", lambda: decision(at(f.PermitIssued), verdict="REPLAYED")),
    ("KNOWN", "a permit for nothing", lambda: without(f.OperationOpened, step_id="window")),
    ("KNOWN", "a change of nothing", lambda: without(f.CommitmentProposed)),
    ("IDENTITY", "one id for two slots",
     lambda: fact(f.OperationOpened, {"operation_id": WINDOW.operation_id}, step_id="tell", generation=2)),
    ("IDENTITY", "a lower version", lambda: fact(f.IntentDeclared, {"version": 0})),
    ("ONE_OPEN", "a second operation beside an open one",
     lambda: with_fact(at(f.PermitIssued, operation_id=REFUND.operation_id), REFUND_2)),
    ("GENERATION", "the next one after success",
     lambda: with_fact(LAST - 1, changed(REFUND_2, operation_id="another", generation=3))),
    ("GENERATION", "a generation left out",
     lambda: fact(f.OperationOpened, {"generation": 3}, step_id="refund", generation=2)),
    ("TWO_PHASES", "an irreversible act on its command alone",
     lambda: fact(f.OperationOpened, {"phases": "ONE_PHASE", "status": "SUBMITTED"}, step_id="tell", generation=2)),
    ("ATTEMPT", "an attempt left out", lambda: fact(f.AttemptStarted, {"attempt": 5})),
    ("ATTEMPT", "an attempt after the permit",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id),
                       changed(the(f.AttemptStarted), operation_id=TELL.operation_id, attempt=2))),
    ("PERMIT", "two permits for one attempt",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id),
                       the(f.PermitIssued, operation_id=TELL.operation_id))),
    ("PERMIT", "a permit for an older attempt", lambda: fact(f.PermitIssued, {"attempt": 1}, attempt=2)),
    ("RIVAL", "two attempts may act", _rival),
    ("DOUBT", "one attempt doubted twice", lambda: with_fact(at(f.OperationInDoubt), the(f.OperationInDoubt))),
    ("DOUBT", "an attempt that might not act", _doubt_of_no_attempt),
    ("FRESH", "for a plan that is gone",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id) - 1,
                       f.PlanEnded(intent_id=INTENT, plan_id="p1", status="SUPERSEDED", by="p2"))),
    ("FRESH", "for an older version",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id) - 1,
                       changed(the(f.IntentDeclared), version=2))),
    ("RESOURCES", "a permit without a grant", lambda: with_fact(at(f.OperationOpened, step_id="window"), WANTED)),
    ("RESOURCES", "a grant of nobody's",
     lambda: with_fact(at(f.OperationOpened, step_id="window"), changed(WANTED, standing="HELD"))),
    ("SETTLED", "no permit", lambda: without(f.PermitIssued, operation_id=TELL.operation_id)),
    ("SETTLED", "by a claim that is no Commit",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id),
                       changed(the(f.OperationSettled), operation_id=TELL.operation_id))),
    ("JOIN", "no settlement", lambda: without(f.OperationSettled, operation_id=TELL.operation_id)),
    ("JOIN", "another slot's operation",
     lambda: fact(f.StepSucceeded, {"operation_id": WINDOW.operation_id}, step_id="tell")),
    ("JOIN", "a plan that is not in force", lambda: fact(f.StepSucceeded, {"plan_id": "p0"}, step_id="tell")),
    ("PROOF", "silence", _timer_fails_it),
    ("PROOF", "another proof than was brought", lambda: fact(f.OperationFailed, {"proof": "STATEMENT"})),
    ("PROOF_TIME", "by a look while what was sent may land",
     lambda: decision(at(f.OperationFailed, operation_id=REFUND.operation_id), appended_at=1)),
    ("WITHDRAWN", "after its permit",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id),
                       f.OperationWithdrawn(operation_id=TELL.operation_id, intent_id=INTENT, cause="x"))),
    ("COMPENSATED", "what never happened",
     lambda: with_fact(at(f.PermitIssued, operation_id=TELL.operation_id),
                       f.OperationCompensated(operation_id=TELL.operation_id, intent_id=INTENT, by="x"))),
    ("COMPENSATED", "by nothing", lambda: fact(f.OperationCompensated, {"by": ""}, operation_id=OPERATIONS["write"])),
    ("REQUIRES", "a start on what is not there", lambda: fact(f.PlanRecorded, {"steps": _upside_down()})),
    ("CLOSE", "a missing join", lambda: without(f.StepSucceeded, step_id="tell")),
    ("CLOSE", "an open commitment",
     lambda: fact(f.CommitmentChanged, {"after": "BREACHED"}, after="RELEASED")),
    ("CLOSE", "an open operation", lambda: without(f.OperationWithdrawn)),
    ("CLOSED", "an operation under a closed intent", lambda: with_fact(LAST, changed(TELL, operation_id="more"))),
    ("CLOSED", "a version of a closed intent", lambda: with_fact(LAST, changed(the(f.IntentDeclared), version=2))),
    ("TRANSITION", "from a state that it is not in",
     lambda: fact(f.CommitmentChanged, {"before": "BREACHED"}, after="ACTIVE")),
    ("OWNER", "nobody's", lambda: fact(f.CommitmentProposed, {"owner_id": ""})),
    ("OWNER", "a worker's", lambda: fact(f.CommitmentProposed, {"owner_id": "w1"})),
    ("OWNER", "before its creation", lambda: without(f.OperationSettled, operation_id=WINDOW.operation_id)),
    ("OWNER", "given to a worker", lambda: fact(f.OwnerChanged, {"after": "w1"})),
    ("KNOWN", "a new owner of nothing", lambda: fact(f.OwnerChanged, {"commitment_id": "c9"})),
    ("KNOWN", "an offer of nothing", lambda: fact(f.TransferOffered, {"commitment_id": "c9"})),
    ("FENCE", "a token that does not rise", lambda: fact(f.OwnerChanged, {"fencing_token": 0})),
    ("FENCE", "taken from somebody else", lambda: fact(f.OwnerChanged, {"before": "team:other"})),
    ("FENCE", "an offer under a token that was used", lambda: fact(f.TransferOffered, {"fencing_token": 0})),
    ("FENCE", "heard after its token was taken away",
     lambda: fact(f.OwnerChanged, {"fencing_token": 7}, fencing_token=2)),
    ("TRANSFER", "by a message", lambda: decision(at(f.OwnerChanged), claim_type="Transfer")),
    ("RETIRED", "given to who is gone",
     lambda: with_fact(at(f.OwnerChanged) - 1, the(f.OwnerRetired))),
    ("RETIRED", "made for who is gone",
     lambda: with_fact(at(f.CommitmentProposed) - 1, changed(the(f.OwnerRetired), owner_id=f"intent:{INTENT}"))),
    ("RETIRED", "something of theirs was missed",
     lambda: fact(f.OwnerRetired, {"owner_id": f"intent:{INTENT}"})),
    ("EVIDENCE", "nothing to show", lambda: fact(f.CommitmentChanged, {"evidence": []}, after="RELEASED")),
    ("TERMINAL", "back in force",
     lambda: with_fact(LAST - 1, changed(the(f.CommitmentChanged, after="ACTIVE"), before="RELEASED"))),
    ("DEADLINE", "doubt without end", lambda: fact(f.OperationInDoubt, {"timer": "NONE", "deadline_at": None})),
    ("DEADLINE", "doubt that puts its end off",
     lambda: with_fact(at(f.OperationInDoubt), changed(the(f.OperationInDoubt), deadline_at=2**40 + STORY.now))),
    ("DEADLINE", "a release without end",
     lambda: fact(f.CommitmentChanged, {"timer": "NONE", "deadline_at": None}, after="RELEASE_PENDING")),
    ("DEADLINE", "a plan without end", lambda: fact(f.PlanRecorded, {"deadline_at": None})),
]  # fmt: skip


def _declaring(declared: dict[str, Any], **sections: dict[str, Any]) -> Ledger:
    """The story under a catalogue that says more, for an intent that wants other things."""
    ledger = [*STORY.decisions]
    for fact_type, edit in (
        (
            f.CatalogueLoaded,
            lambda old: {"catalogue": json.dumps(_merged(json.loads(old.catalogue), sections)).encode()},
        ),
        (f.IntentDeclared, lambda old: declared),
    ):
        place, number = where(fact_type)
        facts = list(ledger[place].facts)
        facts[number] = changed(facts[number], **edit(facts[number]))
        ledger[place] = changed(ledger[place], facts=facts)
    return ledger


def _merged(catalogue: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """The catalogue with these fields of these entries; an entry that it has not is added."""
    for section, entries in sections.items():
        for name, edit in entries.items():
            catalogue[section][name] = {**catalogue[section].get(name, {}), **edit}
    return catalogue


GOAL = {"goal_id": "g1", "acceptance": "it is done"}
LIMIT = {"of": "INTENT", "only": "", "debt": None, "doubts": None, "reviews": None, "age_ms": None, "uncertain": 2.0}
BUDGETS = {"exploration": 0.5, "verification": 0.5, "reconciliation": 0.0}


def _limited(**limit: Any) -> Ledger:
    return _declaring({}, limits={"each": {**LIMIT, **limit}})


def _doubted_before() -> Ledger:
    """The refund is in doubt when the window is promised."""
    ledger, place = _limited(doubts=1), at(f.CommitmentProposed)
    doubt = [changed(REFUND, status="SUBMITTED"), changed(the(f.OperationInDoubt), operation_id=REFUND.operation_id)]
    ledger[place] = changed(ledger[place], facts=[*doubt, *ledger[place].facts])
    return ledger


def _worth(cost: float, cost_max: float) -> Ledger:
    priced = {name: {"cost": cost} for name in ("reserve_window", "notify")}
    return _declaring({"budgets": {**BUDGETS, "cost_max": cost_max}}, actions=priced)


def _reached(finding: str) -> Ledger:
    """The window is dispatched for a goal of which a source has said this."""
    ledger, (place, number) = _declaring({"goals": [GOAL]}), where(f.OperationOpened, step_id="window")
    seen = f.ObservationRecorded(
        subject_kind="GOAL", subject_id="g1", intent_id=INTENT, finding=finding, source="record",  # type: ignore[arg-type]
        source_version=1, source_time=None, evidence=["looked"],
    )  # fmt: skip
    facts = list(ledger[place].facts)
    facts[number] = changed(facts[number], goal_id="g1")
    ledger[place] = changed(ledger[place], facts=[seen, *facts])
    return ledger


def _drawn(quantity: int) -> Ledger:
    """So much is taken of the window's commitment, which holds 8, by the operation that makes it."""
    ledger, (place, number) = list(STORY.decisions), where(f.CommitmentProposed)
    facts = list(ledger[place].facts)
    facts[number] = changed(facts[number], quantity=8.0)
    made = facts[number]
    takes = f.CommitmentDrawn(commitment_id=made.commitment_id, intent_id=INTENT, operation_id=made.operation_id,
                              quantity=quantity, consumed=True)  # fmt: skip
    ledger[place] = changed(ledger[place], facts=[*facts, takes])
    return ledger


def _moved(before: int, after: int) -> Ledger:
    """A person moves the window's commitment from one version of its type to another."""
    made = next(fact for one in STORY.decisions for fact in one.facts if isinstance(fact, f.CommitmentProposed))
    ledger, (place, _) = list(STORY.decisions), where(f.CommitmentProposed)
    move = f.CommitmentMigrated(commitment_id=made.commitment_id, intent_id=INTENT, before=before, after=after,
                                reason="moved by olga: so agreed", differs=[], evidence=["ticket-7"])  # fmt: skip
    ledger[place] = changed(ledger[place], facts=[*ledger[place].facts, move], claim_type="Override")
    return ledger


ADMITTED: list[tuple[str, str, Callable[[], Ledger], Callable[[], Ledger]]] = [
    ("DEBT", "beyond the limit", lambda: _limited(debt=0.5), lambda: _limited(debt=1.0)),
    ("DEBT", "over a doubt", _doubted_before, lambda: _limited(doubts=1)),
    ("BUDGET", "beyond the ceiling", lambda: _worth(3.0, 2.0), lambda: _worth(0.1, 2.0)),
    ("BUDGET", "beyond the share for exploration", lambda: _worth(0.6, 2.0), lambda: _worth(0.2, 2.0)),
    ("REACHED", "for a goal that is reached", lambda: _reached("PRESENT"), lambda: _reached("ABSENT")),
    ("TRANSITION", "a move to the version that rules it", lambda: _moved(1, 1), lambda: _moved(1, 2)),
    ("TRANSITION", "a move from another version", lambda: _moved(2, 3), lambda: _moved(1, 3)),
    ("DRAWN", "more than it holds", lambda: _drawn(9), lambda: _drawn(8)),
]


@pytest.mark.parametrize(
    ("invariant", "broken", "control"), [(one[0], *one[2:]) for one in ADMITTED], ids=[one[1] for one in ADMITTED]
)
def test_what_should_not_have_been_admitted_is_caught_and_its_twin_is_not(
    invariant: str, broken: Callable[[], Ledger], control: Callable[[], Ledger]
) -> None:
    found = [one for one in check(broken()) if one.invariant == invariant]
    assert found
    assert all(one.seq > 0 and one.ids and one.sentence for one in found)
    assert [one for one in check(control()) if one.invariant == invariant] == []


def test_a_good_ledger_breaks_nothing() -> None:
    """The control, over a story in which everything that the checker reads occurs; it ends closed."""
    commands = [record for record in STORY.outgoing if isinstance(record, Command)]
    assert commands
    assert check(STORY.decisions, raw=STORY.ledger, commands=commands) == []
    assert STORY.decisions[-1].verdict == "ACCEPTED"


@pytest.mark.parametrize(("invariant", "how", "broken"), BROKEN, ids=[f"{one[0]} {one[1]}" for one in BROKEN])
def test_a_broken_ledger_is_caught(invariant: str, how: str, broken: Callable[[], Ledger]) -> None:
    """Each mutation shows as a violation of the invariant that it breaks, with the seq, the ids and a sentence."""
    ledger = broken()
    raw = STORY.ledger if invariant == "CHAINED" else None
    found = [violation for violation in check(ledger, raw=raw) if violation.invariant == invariant]
    assert found, f"{how}: {check(ledger)}"
    assert all(violation.seq > 0 and violation.ids and violation.sentence for violation in found)


def _command(**fields: Any) -> Command:
    permits = [one for one in STORY.outgoing if isinstance(one, Command) and one.kind == "PERMIT"]
    return changed(permits[0], **fields)


@pytest.mark.parametrize(
    "command",
    [
        _command(ledger_seq=next(one.seq for one in STORY.decisions if one.verdict != "ACCEPTED")),
        _command(ledger_seq=10_000),
        _command(attempt=9),
        _command(operation_id="never opened", kind="PREPARE"),
    ],
    ids=["of a refusal", "of no decision", "without a permit", "of nothing"],
)
def test_a_command_without_its_decision_is_caught(command: Command) -> None:
    """What leaves the gate must rest on a decision that allows it."""
    ledger = [*STORY.decisions]
    refused = next(place for place, one in enumerate(ledger) if one.verdict == "COMPENSATE")
    ledger[refused] = changed(ledger[refused], verdict="REJECTED", facts=[])
    command = changed(command, ledger_seq=refused + 1) if command.ledger_seq == refused + 1 else command
    assert "COMMAND" in {violation.invariant for violation in check(ledger, commands=[command])}


def test_every_invariant_has_a_ledger_that_breaks_it() -> None:
    """The tables above leave none out; the seven about obligations have a table of their own, as has archiving."""
    admitted = {one[0] for one in ADMITTED} | {"ARCHIVED"}
    assert {invariant for invariant, _, _ in BROKEN} | {"COMMAND"} | admitted == set(INVARIANTS) - set(SEVEN)


def test_a_live_ledger_can_be_fed_as_it_grows() -> None:
    """Record by record it says what each one breaks, and over how much it found nothing."""
    live = Checker()
    assert [live.read(one, raw) for one, raw in zip(STORY.decisions, STORY.ledger, strict=True)] == [[]] * (LAST + 1)
    assert live.checked == LAST + 1
    beside = changed(STORY.decisions[-1], seq=LAST + 2, previous=b"")
    assert {violation.invariant for violation in live.read(beside, Codec().encode(beside))} >= {"CHAINED", "CLOSED"}


def test_the_checker_shares_no_code_with_the_law() -> None:
    """It imports neither the law nor anything that is built on it."""
    modules = (checker, checked_admission, checked_archives, checked_operations, checked_commitments,
               checked_resources, checked_seven,
               violations)  # fmt: skip
    books = [module.__name__.rpartition(".")[2] for module in modules]
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("joingate_processors"):
                name = (node.module or "").rpartition(".")[2]
                assert name in books


def test_a_violation_reads_as_a_sentence() -> None:
    """It can be printed as it is."""
    violation = check(decision(5, epoch=0))[0]
    assert str(violation).startswith("seq 6: EPOCH: epoch 0 came after 1")
    assert dataclasses.astuple(violation)[0] == 6
