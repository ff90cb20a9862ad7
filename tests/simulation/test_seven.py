"""The seven rules about obligations: each can fail, over a ledger that breaks it, and holds over its honest twin."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from joingate_processors.forensics.checked_seven import merged
from joingate_processors.forensics.checker import Checker, RuleReport
from joingate_processors.forensics.violations import SEVEN
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import AnyFact, CommitmentStatus
from joingate_schemas.record import changed

from .stories import eventful

CODEC = Codec()
INTENT, OPERATION, COMMITMENT = "acme/release/1", "operation-1", "commitment-1"
TEAM, OTHERS = "team:deploy", "team:operations"


class Book:
    """A ledger written by hand, one decision after the other."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.status: CommitmentStatus = "PROPOSED"

    def add(
        self, claim: c.AnyClaim, *facts: AnyFact, topic: ClaimTopic = "proposals", verdict: Any = "ACCEPTED"
    ) -> None:
        seq = len(self.decisions) + 1
        self.decisions.append(
            Decision(
                seq=seq, epoch=1, decided_at=seq, topic=topic, offset=seq, appended_at=seq,
                claim_type=type(claim).__name__, claim_id=claim.claim_id, intent_id=claim.intent_id,
                principal=claim.principal, claim=CODEC.encode(claim), verdict=verdict, reason="OK", detail="",
                subject_id="", status="", refers_to=0, facts=list(facts), previous=b"",
            )
        )  # fmt: skip

    def common(self) -> dict[str, Any]:
        return {"claim_id": f"c{len(self.decisions) + 1}", "intent_id": INTENT}

    def change(self, after: CommitmentStatus, *evidence: str) -> AnyFact:
        """The commitment's change, from where it is."""
        before, self.status = self.status, after
        waits = after.endswith("_PENDING") or after in ("UNKNOWN", "RECONCILIATION_REQUIRED")
        return f.CommitmentChanged(
            commitment_id=COMMITMENT, intent_id=INTENT, before=before, after=after, cause="as told",
            evidence=list(evidence), operation_id=None, timer="RELEASE" if waits else "NONE",
            deadline_at=10_000 if waits else None,
        )  # fmt: skip

    # --- what is claimed -----------------------------------------------------------------------------------------

    def declared(self, version: int = 1) -> "Book":
        self.add(
            c.DeclareIntent(**self.common(), version=version, goals=[]),
            f.IntentDeclared(intent_id=INTENT, version=version, tenant="", objective="", goals=[], budgets=None,
                             content_digest="", supersedes=version - 1),
        )  # fmt: skip
        return self

    def planned(self, plan_id: str = "p1", version: int = 1) -> "Book":
        self.add(
            c.Plan(**self.common(), intent_version=version, plan_id=plan_id, steps=[], commitments=[]),
            f.PlanRecorded(intent_id=INTENT, plan_id=plan_id, intent_version=version, status="ADOPTED", replaces=None,
                           content_digest="", steps=[], commitments=[], deadline_at=10_000),
        )  # fmt: skip
        return self

    def dispatched(self, version: int = 1, plan_id: str = "p1", owner: str = TEAM) -> "Book":
        self.add(
            c.Dispatch(**self.common(), intent_version=version, plan_id=plan_id, step_id="s1"),
            opened(OPERATION, version, plan_id),
            f.CommitmentProposed(
                commitment_id=COMMITMENT, intent_id=INTENT, intent_version=version, goal_id=None, plan_id=plan_id,
                step_id="s1", owner_id=owner, obligation_type="window", type_version=1, resource_refs=[],
                counterparty_refs=[], quantity=None, attributes={}, generation=1, operation_id=OPERATION, due_at=None,
                valid_until=None, timer="NONE", deadline_at=None,
            ),
        )  # fmt: skip
        return self

    def permitted(self, operation_id: str = OPERATION, worker: str = "w1") -> "Book":
        self.add(
            c.Prepared(**self.common(), operation_id=operation_id, attempt=1, executor="cloud", worker=worker),
            f.PermitIssued(operation_id=operation_id, intent_id=INTENT, attempt=1, executor="cloud", worker=worker,
                           valid_until=10_000, timer="PERMIT", deadline_at=20_000),
            topic="outcomes",
        )  # fmt: skip
        return self

    def settled(self) -> "Book":
        self.add(
            c.Commit(**self.common(), operation_id=OPERATION, attempt=1, external_id="x", evidence=["receipt"]),
            f.OperationSettled(operation_id=OPERATION, intent_id=INTENT, attempt=1, external_id="x",
                               evidence=["receipt"], result="", source="EXECUTOR", late=False),
            topic="outcomes",
        )  # fmt: skip
        return self

    def doubted(self) -> "Book":
        self.add(
            c.InDoubt(**self.common(), operation_id=OPERATION, attempt=1, evidence=[]),
            f.OperationInDoubt(operation_id=OPERATION, intent_id=INTENT, attempt=1, cause="timeout", evidence=[],
                               dependants=[], timer="IN_DOUBT", deadline_at=10_000),
            self.change("UNKNOWN"), topic="outcomes",
        )  # fmt: skip
        return self

    def seen(self, after: CommitmentStatus, finding: c.Finding = "PRESENT", evidence: str = "look:1") -> "Book":
        """An observation of the commitment moves it."""
        self.add(
            c.Observe(**self.common(), subject_kind="COMMITMENT", subject_id=COMMITMENT, finding=finding,
                      source="cloud", external_ids=[], evidence=[evidence] if evidence else []),
            self.change(after, evidence), topic="observations",
        )  # fmt: skip
        return self

    def in_force(self, owner: str = TEAM) -> "Book":
        return self.declared().planned().dispatched(owner=owner).permitted().settled().seen("ACTIVE")

    def released(self, operation_id: str = "release-1") -> "Book":
        """Its release is asked for, and starts."""
        self.add(
            c.Release(**self.common(), commitment_id=COMMITMENT), opened(operation_id, 1, ""),
            self.change("RELEASE_PENDING"),
        )  # fmt: skip
        return self

    def loaded(self, observed: bool) -> "Book":
        """The catalogue, in which it is said whether a release needs to be observed."""
        catalogue = json.dumps({"obligations": {"window": {"observed": observed}}}).encode()
        claim = c.CatalogueChanged(claim_id="load", intent_id="", digest="", version="1", catalogue=catalogue)
        self.add(claim, f.CatalogueLoaded(digest="", version="1", catalogue=catalogue), topic="gate")
        return self

    def released_by_word(self, operation_id: str = "release-1") -> "Book":
        """Its executor commits, and that alone makes the commitment RELEASED."""
        self.add(
            c.Commit(**self.common(), operation_id=operation_id, attempt=1, external_id="r", evidence=["202 Accepted"]),
            f.OperationSettled(operation_id=operation_id, intent_id=INTENT, attempt=1, external_id="r",
                               evidence=["202 Accepted"], result="", source="EXECUTOR", late=False),
            self.change("RELEASED", "202 Accepted"), topic="outcomes",
        )  # fmt: skip
        return self

    def timer(self, after: CommitmentStatus, *evidence: str) -> "Book":
        self.add(
            c.TimerFired(**self.common(), timer="RELEASE", subject_kind="COMMITMENT", subject_id=COMMITMENT, due_at=1),
            self.change(after, *evidence), topic="gate",
        )  # fmt: skip
        return self

    def offered(self) -> "Book":
        self.add(
            c.Transfer(**self.common(), commitment_id=COMMITMENT, target_owner=OTHERS), self.change("TRANSFER_PENDING")
        )
        return self

    def taken(self, owner: str = OTHERS, token: int = 2) -> "Book":
        before = TEAM if owner == OTHERS else OTHERS
        self.add(
            c.AcceptTransfer(**self.common(), commitment_id=COMMITMENT, owner_id=owner, fencing_token=token,
                             evidence=["call:1"]),
            self.change("ACTIVE", "call:1"),
            f.OwnerChanged(commitment_id=COMMITMENT, intent_id=INTENT, before=before, after=owner, fencing_token=token,
                           cause="taken over", evidence=["call:1"]),
        )  # fmt: skip
        return self

    def retired(self, owner: str, *facts: AnyFact) -> "Book":
        gone = f.OwnerRetired(owner_id=owner, reason="", retired_at=1, found=len(facts), swept="", deadline_at=None)
        self.add(c.RetireOwner(claim_id="gone", intent_id="", owner_id=owner), gone, *facts, topic="observations")
        return self

    def asked_by(self, principal: str) -> "Book":
        claim = c.Release(**self.common(), commitment_id=COMMITMENT, principal=principal)
        self.add(claim, opened("release-2", 1, ""), self.change("RELEASE_PENDING"))
        return self


def opened(operation_id: str, version: int, plan_id: str) -> f.OperationOpened:
    """An operation of the commitment: what makes it, or (of no plan) what gives it back."""
    action = "reserve_window" if plan_id else "release_window"
    return f.OperationOpened(
        operation_id=operation_id, intent_id=INTENT, intent_version=version, plan_id=plan_id,
        step_id="s1" if plan_id else "", goal_id=None, action=action, business_key=operation_id, generation=1,
        attempt=1, status="VALIDATED", phases="TWO_PHASE", arguments={}, content_digest="", catalogue_digest="",
        downstream="cloud", executor="cloud", commitment_id=COMMITMENT, compensates=None, timer="SILENCE",
        deadline_at=10_000,
    )  # fmt: skip


def no_owner() -> AnyFact:
    return f.OrphanRaised(
        orphan_id="orphan-1",
        kind="NO_OWNER",
        subject_kind="COMMITMENT",
        subject_id=COMMITMENT,
        intent_id=INTENT,
        since=1,
        cause="its owner is gone",
        suggested_action="assign one",
    )


def reports(decisions: list[Decision]) -> dict[str, RuleReport]:
    """The verdicts over a ledger, by name."""
    checker = Checker()
    for one in decisions:
        checker.read(one)
    return {one.name: one for one in checker.seven()}


def verdicts(book: Book) -> list[RuleReport]:
    return list(reports(book.decisions).values())


BROKEN: list[tuple[str, str, Callable[[], Book], Callable[[], Book]]] = [
    ("ACTIVE_OWNED", "nobody's", lambda: Book().in_force(owner=""), lambda: Book().in_force()),
    ("ACTIVE_OWNED", "a worker's", lambda: Book().in_force(owner="w1"), lambda: Book().in_force(owner="workflow-1")),
    ("ACTIVE_OWNED", "an owner is gone, and nobody says so",
     lambda: Book().in_force().retired(TEAM), lambda: Book().in_force().retired(TEAM, no_owner())),
    ("ACTIVE_OWNED", "it comes into force for an owner who is gone",
     lambda: Book().in_force().retired(OTHERS).offered().taken(),
     lambda: Book().in_force().offered().taken()),
    ("SATISFIED_SHOWN", "nothing to show",
     lambda: Book().in_force().seen("SATISFIED", evidence=""), lambda: Book().in_force().seen("SATISFIED")),
    ("SATISFIED_SHOWN", "expiry taken for it",
     lambda: Book().in_force().timer("SATISFIED", "it expired"), lambda: Book().in_force().seen("SATISFIED")),
    ("RELEASED_SHOWN", "nothing to show",
     lambda: Book().in_force().released().seen("RELEASED", "ABSENT", evidence=""),
     lambda: Book().in_force().released().seen("RELEASED", "ABSENT")),
    ("RELEASED_SHOWN", "a timer taken for it",
     lambda: Book().in_force().released().timer("RELEASED", "an hour passed"),
     lambda: Book().in_force().released().timer("RELEASE_PENDING").seen("RELEASED", "ABSENT")),
    ("RELEASED_SHOWN", "not found taken for gone",
     lambda: Book().in_force().released().seen("RELEASED", "NOT_FOUND"),
     lambda: Book().in_force().released().seen("RELEASED", "REVOKED")),
    ("RELEASED_SHOWN", "an accepted request taken for it",
     lambda: Book().loaded(observed=True).in_force().released().permitted("release-1").released_by_word(),
     lambda: Book().loaded(observed=False).in_force().released().permitted("release-1").released_by_word()),
    ("STALE_CREATES", "for an older version",
     lambda: Book().declared().declared(2).planned(version=2).dispatched(version=1),
     lambda: Book().declared().declared(2).planned(version=2).dispatched(version=2)),
    ("STALE_CREATES", "by a plan that is not in force",
     lambda: Book().declared().planned("p1").planned("p2").dispatched(plan_id="p1"),
     lambda: Book().declared().planned("p1").planned("p2").dispatched(plan_id="p2")),
    ("STALE_CREATES", "a permit after a newer version",
     lambda: Book().declared().planned().dispatched().declared(2).permitted(),
     lambda: Book().declared().planned().dispatched().permitted().declared(2)),
    ("TRANSFER_FENCED", "something starts on the way",
     lambda: Book().in_force().released().offered().permitted("release-1"),
     lambda: Book().in_force().offered().taken().released().permitted("release-1")),
    ("TRANSFER_FENCED", "what the source had started goes on",
     lambda: Book().in_force().released().offered().taken().permitted("release-1"),
     lambda: Book().in_force().released().permitted("release-1").offered().taken()),
    ("TRANSFER_FENCED", "a token that does not rise",
     lambda: Book().in_force().offered().taken(token=2).offered().taken(TEAM, token=2),
     lambda: Book().in_force().offered().taken(token=2).offered().taken(TEAM, token=3)),
    ("TRANSFER_FENCED", "its former owner speaks for it",
     lambda: Book().in_force().offered().taken().asked_by(TEAM),
     lambda: Book().in_force().offered().taken().asked_by(OTHERS)),
    ("TRANSFER_FENCED", "a message taken for a transfer",
     lambda: Book().in_force().offered().timer("TRANSFERRED", "it was told"),
     lambda: Book().in_force().offered().seen("TRANSFERRED")),
    ("UNKNOWN_KEPT", "its creation is in doubt",
     lambda: Book().declared().planned().dispatched().permitted().doubted().seen("RELEASED", "ABSENT"),
     lambda: Book().declared().planned().dispatched().permitted().settled().seen("RELEASED", "ABSENT")),
    ("UNKNOWN_KEPT", "a release that nobody saw",
     lambda: Book().in_force().released().timer("RECONCILIATION_REQUIRED").timer("RELEASED", "surely gone"),
     lambda: Book().in_force().released().timer("RECONCILIATION_REQUIRED").seen("RELEASED", "ABSENT")),
    ("TERMINAL_STAYS", "back in force by a timer",
     lambda: Book().in_force().seen("SATISFIED").timer("ACTIVE"),
     lambda: Book().in_force().seen("SATISFIED").seen("RECONCILIATION_REQUIRED")),
    ("TERMINAL_STAYS", "back without evidence",
     lambda: Book().in_force().seen("SATISFIED").seen("ACTIVE", evidence=""),
     lambda: Book().in_force().seen("SATISFIED").seen("RECONCILIATION_REQUIRED")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "how", "broken", "honest"), BROKEN, ids=[f"{one[0]} {one[1]}" for one in BROKEN])
def test_each_of_the_seven_can_fail_and_its_honest_twin_holds(
    name: str, how: str, broken: Callable[[], Book], honest: Callable[[], Book]
) -> None:
    """The verdict names the rule and the commitment that broke it, and the twin is HELD over at least one case."""
    found = reports(broken().decisions)[name]
    assert (found.verdict, found.ids) == ("BROKEN", (COMMITMENT,)), how
    assert COMMITMENT in str(found)
    twin = reports(honest().decisions)[name]
    assert twin.verdict == "HELD", f"{how}: {twin}"
    assert twin.cases > 0


def test_every_one_of_the_seven_has_a_ledger_that_breaks_it() -> None:
    assert {name for name, *_ in BROKEN} == set(SEVEN)
    assert len(SEVEN) == 7


def test_what_no_ledger_tried_is_not_called_held() -> None:
    """An empty ledger breaks nothing, and proves nothing either."""
    assert {one.verdict for one in reports([]).values()} == {"NOT_TRIED"}


def test_a_breach_is_a_violation_too() -> None:
    """Whoever asks only for violations hears of it: at its seq, with the commitment's id."""
    checker = Checker()
    ledger = Book().in_force(owner="").decisions
    for one in ledger:
        checker.read(one)
    found = [one for one in checker.violations if one.invariant == "ACTIVE_OWNED"]
    assert [(one.seq, one.ids) for one in found] == [(len(ledger), (COMMITMENT,))]


def test_a_repeat_is_read_without_its_claim() -> None:
    """A REPLAYED record keeps no bytes; it is no reason to fail, nor to believe it."""
    book = Book().in_force().offered().taken()
    repeat = changed(book.decisions[-1], seq=len(book.decisions) + 1, verdict="REPLAYED", claim=b"", facts=[])
    assert reports([*book.decisions, repeat])["TRANSFER_FENCED"].verdict == "HELD"


def test_the_law_keeps_them_over_an_eventful_story() -> None:
    """None is broken by the law, and those that it has rules for are tried."""
    story = eventful()
    found = reports(story.decisions)
    assert not [one for one in found.values() if one.verdict == "BROKEN"]
    assert {name for name, one in found.items() if one.verdict == "HELD"} >= {
        "ACTIVE_OWNED", "RELEASED_SHOWN", "STALE_CREATES", "UNKNOWN_KEPT",
    }  # fmt: skip


def test_over_several_partitions_there_is_one_verdict_each() -> None:
    """Broken in one is broken, with its ids; what one tried counts."""
    good, bad, nothing = Book().in_force(), Book().in_force(owner=""), Book()
    found = {one.name: one for one in merged([one for book in (good, bad, nothing) for one in verdicts(book)])}
    assert (found["ACTIVE_OWNED"].verdict, found["ACTIVE_OWNED"].ids) == ("BROKEN", (COMMITMENT,))
    assert found["STALE_CREATES"].cases == 2 * reports(good.decisions)["STALE_CREATES"].cases
    assert found["SATISFIED_SHOWN"].verdict == "NOT_TRIED"
