"""What has ended is archived after its retention, never over anything open, and nothing takes effect under it again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from joingate_processors.forensics.checker import check
from joingate_processors.law import archive
from joingate_processors.law.state import INDEXES, TABLES
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import AnyFact
from joingate_schemas.record import changed

from .catalogues import arbitrated, varied
from .driver import INTENT, Court, step
from .invariants import snapshot
from .market import Market
from .table_archive import KEPT_MS, keeping

DAY_MS = 86_400_000


@pytest.fixture
def court() -> Court:
    found = Court(keeping())
    found.load()
    return found


def closed(court: Court) -> None:
    """One notification, done, and the intent closed."""
    court.open(step("s1"))
    court.perform("s1")
    assert court.succeed("s1").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED"


def archived(court: Court) -> f.IntentArchived | None:
    """The fact that archived the intent, if one did."""
    found = [fact for decision in court.decisions for fact in decision.facts if isinstance(fact, f.IntentArchived)]
    assert len(found) < 2
    return found[0] if found else None


def _names(key: str) -> bool:
    return not {INTENT, f"intent:{INTENT}"}.isdisjoint(key.split("\x1f"))


def left(court: Court) -> dict[str, list[str]]:
    """The keys of every row that tells of the intent, by table, but for its tombstone."""
    state = court.state
    found = {
        name: [key for key, row in state.rows(name) if _names(key) or getattr(row, "intent_id", "") == INTENT]
        for name in TABLES
        if name != "archives"
    }
    found |= {name: [owner for owner, _ in state.entries(name) if _names(owner)] for name in INDEXES}
    return {name: keys for name, keys in found.items() if keys}


def sound(court: Court) -> None:
    """The ledger replays to this state, and the checker, which knows no law, has nothing against it."""
    assert snapshot(court.replayed()) == snapshot(court.state)
    assert check(court.decisions, raw=court.ledger) == []


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_closed_intent_is_archived_once_its_retention_has_passed_and_not_before(court: Court) -> None:
    closed(court)
    court.advance(KEPT_MS - 1)
    assert archived(court) is None
    court.advance(1)
    fact = archived(court)
    assert fact is not None
    assert (fact.status, fact.version, fact.retention_ms) == ("CLOSED", 1, KEPT_MS)
    assert left(court) == {}
    sound(court)


def test_without_a_declared_retention_everything_is_kept_for_ever() -> None:
    court = Court(varied())
    court.load()
    closed(court)
    court.advance(100 * 365 * DAY_MS)
    assert archived(court) is None
    assert left(court)


def test_a_cancelled_intent_is_archived_too_unless_it_is_wanted_again(court: Court) -> None:
    court.open(step("s1"))
    court.dispatch("s1")
    court.cancel()
    assert court.executor_abort("s1", proof="NOT_SENT").verdict in ("ACCEPTED", "REPLAYED")
    court.advance(KEPT_MS - 1)
    assert court.declare(2).verdict == "ACCEPTED"
    court.advance(2 * KEPT_MS)
    assert archived(court) is None
    court.cancel()
    court.advance(KEPT_MS)
    assert archived(court) is not None
    assert left(court) == {}
    sound(court)


def test_everything_that_ever_belonged_to_it_goes(court: Court) -> None:
    """Two plans, a commitment with its release, promises, a look, news of a goal and of a condition, an approval."""
    goal: c.Goal = {"goal_id": "g1", "acceptance": "it is there"}
    court.declare(goals=[goal])
    court.plan(step("s1", "reserve_window", goal_id="g1"), step("s2", "read_file"), step("s3", "pay_approved",
               arguments={"amount": 5}))  # fmt: skip
    court.active("s1")
    court.perform("s2")
    court.dispatch("s3")
    court.approve("s3")
    court.perform("s3")
    court.observe_goal("g1", "PRESENT")
    court.observe_condition("it rains", "PRESENT")
    court.promise(owner_id="team:ops")
    court.promise("and by night", "customer:8")
    court.release("s1")
    court.perform_release("s1")
    assert court.observe_commitment("s1", "ABSENT").status == "RELEASED"
    for one in ("s2", "s3"):
        assert court.succeed(one).verdict == "ACCEPTED"
    promises = [key for key, row in court.state.rows("commitments") if row.obligation_type == "promise"]  # type: ignore[attr-defined]
    for one in promises:
        court.observe_commitment(one, "PRESENT")
        assert court.satisfied(one).verdict == "ACCEPTED"
    court.plan(step("s2", "read_file"), step("s3", "pay_approved", arguments={"amount": 5}), plan_id="p2",
               replaces="p1")  # fmt: skip
    court.plan_id = "p2"
    for one in ("s2", "s3"):
        court.dispatch(one)
        if court.op(one).status == "SUBMITTED":
            court.commit(one)
        court.succeed(one)
    assert court.close().verdict == "ACCEPTED", court.decisions[-1]
    assert left(court)
    court.advance(KEPT_MS)
    assert archived(court) is not None, court.decisions[-1]
    assert left(court) == {}
    sound(court)


# --- what keeps it ---------------------------------------------------------------------------------------------------


def in_the_hands_of_others(court: Court) -> None:
    """Closed, and a commitment that it made is a team's now."""
    court.open(step("s1", "reserve_window"))
    court.active("s1")
    court.succeed("s1")
    court.transfer("s1")
    court.accept("s1")
    assert court.close().verdict == "ACCEPTED"


def ends_elsewhere(court: Court) -> Decision:
    return court.satisfied("s1", fencing_token=court.token("s1"))


def in_doubt(court: Court) -> None:
    """Cancelled, and nobody knows whether it was paid."""
    court.open(step("s1", "pay"))
    court.permit("s1")
    court.in_doubt("s1")
    court.cancel()


def proven_absent(court: Court) -> Decision:
    return court.observe("s1", "ABSENT", proof="SECOND_LOOK", source_version=1)


def not_taken_up(court: Court) -> None:
    """Cancelled after it was paid, and nobody took that up."""
    court.open(step("s1", "pay"))
    court.perform("s1")
    court.cancel()


def taken_up_by_a_person(court: Court) -> Decision:
    return court.override("OPERATION", court.op_id("s1"), "COMPENSATED")


KEEPERS: list[Any] = [
    pytest.param(in_the_hands_of_others, ends_elsewhere, id="what somebody else took over"),
    pytest.param(in_doubt, proven_absent, id="a doubt"),
    pytest.param(not_taken_up, taken_up_by_a_person, id="an effect that nobody took up"),
]


@pytest.mark.parametrize(("given", "ends"), KEEPERS)
def test_it_is_kept_as_long_as_anything_is_open_and_its_retention_after_that(
    court: Court, given: Any, ends: Any
) -> None:
    given(court)
    court.advance(3 * KEPT_MS)
    assert archived(court) is None
    decision = ends(court)
    assert decision.verdict == "ACCEPTED", decision
    court.advance(KEPT_MS - 1)
    assert archived(court) is None
    court.advance(1)
    assert archived(court) is not None
    assert left(court) == {}
    sound(court)


def test_it_is_kept_while_an_incident_about_it_is_open_even_one_that_is_older_than_itself(court: Court) -> None:
    assert court.say(c.Commit(claim_id="early", intent_id=INTENT, operation_id="nobody's", attempt=1,
                              external_id="x", evidence=[])).reason == "NOT_DISPATCHED"  # fmt: skip
    closed(court)
    court.advance(3 * KEPT_MS)
    assert archived(court) is None
    orphan = next(key for key, _ in court.state.rows("orphans"))
    court.tell(f.OrphanCleared(orphan_id=orphan, intent_id=INTENT, cause="somebody looked"))
    court.advance(KEPT_MS)
    assert archived(court) is not None


def test_an_unreadable_record_that_may_have_spoken_of_it_keeps_it(court: Court) -> None:
    closed(court)
    court.quarantine()
    court.advance(2 * KEPT_MS)
    assert archived(court) is None
    assert court.override("QUARANTINE", "outcomes/0/7", "DISMISSED").verdict == "ACCEPTED"
    court.advance(DAY_MS)
    assert archived(court) is not None
    sound(court)


def _transferable() -> Catalogue:
    catalogue = arbitrated()
    window = replace(catalogue.obligations["window"], resolution="TRANSFERABLE")
    return keeping(replace(catalogue, obligations={**catalogue.obligations, "window": window}))


def _put_away(market: Market) -> list[str]:
    return [x.intent_id for one in market.sim.decisions for x in one.facts if isinstance(x, f.IntentArchived)]


def test_what_left_our_books_with_something_scarce_is_kept_for_the_arbiter_asks_about_it() -> None:
    """Else a lease that is over would free what somebody else has."""
    market = Market(_transferable())
    market.want("one", "reserve_window", "w1")
    market.settle("one")
    identity = market.op("one").commitment_id or ""
    market.observe("one", identity, "PRESENT")
    market.say(c.Transfer, "PLANNER", "one", commitment_id=identity, target_owner="desk:abroad")
    market.say(c.AcceptTransfer, "PLANNER", "one", commitment_id=identity, owner_id="desk:abroad", fencing_token=1,
               evidence=["receipt:1"])  # fmt: skip
    market.say(c.CancelIntent, "PLANNER", "one")
    market.sim.advance(KEPT_MS + DAY_MS)
    assert _put_away(market) == []
    assert market.holders("window:w1") == ["one HELD"]
    market.check()


def test_what_can_be_acted_on_once_ever_stays_so_when_who_acted_is_archived() -> None:
    """The arbiter's books are not the intent's: a second intent about the same entity is told who had it."""
    market = Market(keeping(arbitrated()))
    market.want("one", "once", "fee-1")
    market.settle("one")
    first = market.op("one").operation_id
    assert market.say(c.Succeed, "PLANNER", "one", intent_version=1, plan_id=market.plan_id("one"), step_id="s1",
                      evidence=[]).verdict == "ACCEPTED"  # fmt: skip
    assert market.say(c.Close, "PLANNER", "one").verdict == "ACCEPTED"
    market.sim.advance(KEPT_MS + DAY_MS)
    assert _put_away(market) == ["acme/one"]
    market.want("two", "once", "fee-1")
    assert market.status("two") == "WITHDRAWN"
    refused = [x for one in market.sim.decisions for x in one.facts if isinstance(x, f.ResourceChanged)]
    assert (refused[-1].standing, refused[-1].holder) == ("REFUSED", first)


# --- late words ------------------------------------------------------------------------------------------------------


def over(court: Court) -> None:
    """An archived intent, whose step s1 was settled as `ext-1`."""
    closed(court)
    court.advance(KEPT_MS)
    assert archived(court) is not None


ASKED: list[Any] = [
    pytest.param(lambda x: x.declare(), id="declared again"),
    pytest.param(lambda x: x.declare(2), id="a higher version"),
    pytest.param(lambda x: x.plan(step("s1")), id="planned"),
    pytest.param(lambda x: x.dispatch("s1"), id="dispatched again"),
    pytest.param(lambda x: x.succeed("s1"), id="succeeds"),
    pytest.param(lambda x: x.close(), id="closed again"),
    pytest.param(lambda x: x.cancel(), id="cancelled"),
    pytest.param(lambda x: x.promise(), id="promised under it"),
    pytest.param(lambda x: x.observe_goal("g1", "PRESENT"), id="a goal is seen"),
    pytest.param(lambda x: x.observe_condition("rain", "PRESENT"), id="a condition is seen"),
    pytest.param(lambda x: x.override("OPERATION", "any", "SETTLED"), id="overridden"),
    pytest.param(lambda x: x.reconcile("OPERATION", "any"), id="reconciled"),
    pytest.param(lambda x: x.release("any"), id="released"),
]


@pytest.mark.parametrize("asks", ASKED)
def test_whatever_is_asked_of_it_is_refused_by_name_and_leaves_no_row(court: Court, asks: Any) -> None:
    over(court)
    before = snapshot(court.state)
    decision = asks(court)
    assert (decision.verdict, decision.reason, decision.facts) == ("REJECTED", "INTENT_ARCHIVED", [])
    assert "archived at" in decision.detail
    after = snapshot(court.state)
    assert {name: rows for name, rows in after.items() if name != "header"} == {
        name: rows for name, rows in before.items() if name != "header"
    }
    assert court.out == [] or all(one.ledger_seq < decision.seq for one in court.out if hasattr(one, "ledger_seq"))
    sound(court)


def test_a_claim_id_from_before_is_refused_and_has_no_second_effect(court: Court) -> None:
    court.open(step("s1"))
    first = c.Dispatch(claim_id="once", intent_id=INTENT, intent_version=1, plan_id="p1", step_id="s1")
    assert court.say(first).verdict == "ACCEPTED"
    court.permit("s1")
    court.commit("s1")
    court.succeed("s1")
    court.close()
    assert court.say(first).reason == "CLAIM_REPEATED"
    court.advance(KEPT_MS)
    assert archived(court) is not None
    sent = len(court.out)
    assert court.say(first).reason == "INTENT_ARCHIVED"
    assert len(court.out) == sent
    sound(court)


def late_commit(court: Court, operation: str, external_id: str) -> Decision:
    return court.say(c.Commit(claim_id=court.claim_id(), intent_id=INTENT, operation_id=operation, attempt=1,
                              external_id=external_id, evidence=["log"]))  # fmt: skip


def test_a_late_commit_of_the_effect_on_record_is_no_incident_and_any_other_is(court: Court) -> None:
    closed(court)
    operation, external_id = court.op_id("s1"), court.op("s1").external_id
    court.advance(KEPT_MS)
    known = late_commit(court, operation, external_id)
    assert (known.reason, known.facts) == ("INTENT_ARCHIVED", [])
    other = late_commit(court, operation, "another")
    assert other.reason == "INTENT_ARCHIVED"
    assert [type(fact) for fact in other.facts] == [f.EffectRecorded, f.OrphanRaised]
    sound(court)


def test_what_the_arbiter_grants_too_late_is_given_back(court: Court) -> None:
    over(court)
    decision = court.say(c.ResourceGranted(claim_id="g", intent_id=INTENT, operation_id="gone", resource_ref="bench:1",
                                           principal="arbiter"), "resource-verdicts")  # fmt: skip
    assert decision.reason == "INTENT_ARCHIVED"
    assert [fact.standing for fact in decision.facts if isinstance(fact, f.ResourceChanged)] == ["RETURNED"]
    assert left(court) == {}
    sound(court)


def test_another_occurrence_of_the_same_wish_is_another_intent(court: Court) -> None:
    over(court)
    assert court.declare(intent_id=f"{INTENT}/2").verdict == "ACCEPTED"


# --- bounds, catalogues ----------------------------------------------------------------------------------------------


def test_a_large_intent_goes_in_decisions_of_bounded_size_and_is_over_from_the_first(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ROWS_MAX", 5)
    steps = [step(f"s{n}", "reserve_window" if n % 3 == 0 else "notify", business_key=f"k{n}") for n in range(12)]
    court.open(*steps)
    for one in steps:
        if one["action"] == "reserve_window":
            court.active(one["step_id"])
            court.release(one["step_id"])
            court.perform_release(one["step_id"])
            assert court.observe_commitment(one["step_id"], "ABSENT").status == "RELEASED"
        else:
            court.permit(one["step_id"])
            assert court.executor_abort(one["step_id"], proof="NOT_SENT").status == "FAILED"
            court.perform(one["step_id"])
            court.succeed(one["step_id"])
    assert court.cancel().verdict == "ACCEPTED"
    failed = court.op_id("s1")
    court.advance(KEPT_MS - 1)
    court.now += 1
    pages: list[f.ArchiveSwept] = []
    while due := court.state.due(court.now + 1_000, 1):
        court.now = max(court.now, due[0].due_at)
        fired = court.advance(0)
        pages += [fact for one in fired for fact in one.facts if isinstance(fact, f.ArchiveSwept)]
        late = late_commit(court, failed, "late")
        assert late.reason in ("INTENT_ARCHIVED", "CLAIM_REPEATED", "ALREADY_SO", "STRAY_EFFECT"), late
        assert court.declare(3).reason == "INTENT_ARCHIVED"
    assert len(pages) > 10
    assert all(len(one.operations) + len(one.commitments) + one.steps + one.claims <= 7 for one in pages)
    assert pages[-1].deadline_at is None
    rows = left(court)
    assert set(rows) <= {"orphans", "backlogs"}
    sound(court)


def rolled_out(court: Court, catalogue: Catalogue) -> None:
    """Another catalogue is in force from here on."""
    court.catalogue = catalogue
    court.say(c.CatalogueChanged(claim_id=court.claim_id(), intent_id="", digest=catalogue.digest, version="2",
                                 catalogue=catalogue.source))  # fmt: skip


def test_a_retention_that_is_declared_later_finds_what_had_ended_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ROWS_MAX", 2)
    court = Court(varied())
    court.load()
    for n in range(5):
        court.declare(intent_id=f"acme/errand/old-{n}")
        court.cancel(intent_id=f"acme/errand/old-{n}")
    court.declare()
    court.advance(10 * DAY_MS)
    rolled_out(court, keeping())
    court.advance(KEPT_MS + 1_000)
    gone = [fact.intent_id for one in court.decisions for fact in one.facts if isinstance(fact, f.IntentArchived)]
    assert sorted(gone) == [f"acme/errand/old-{n}" for n in range(5)]
    assert court.intent().status == "OPEN"
    sound(court)


@pytest.mark.parametrize(("later", "gone"), [(2 * KEPT_MS, False), (None, False), (KEPT_MS, True), (DAY_MS, True)])
def test_the_retention_that_counts_is_the_one_in_force_when_it_is_over(
    court: Court, later: int | None, gone: bool
) -> None:
    closed(court)
    rolled_out(court, keeping(retention_ms=later))
    court.advance(KEPT_MS)
    assert (archived(court) is not None) == gone
    if later:
        court.advance(KEPT_MS)
        assert archived(court) is not None
    sound(court)


# --- the checker, which knows no law ---------------------------------------------------------------------------------


def _over(given: Callable[[Court], None] = closed) -> Court:
    court = Court(keeping())
    court.load()
    given(court)
    court.advance(KEPT_MS)
    assert archived(court) is not None
    return court


def _without(court: Court, *kinds: type) -> list[Decision]:
    """The ledger as if these facts had not followed."""
    return [changed(one, facts=[fact for fact in one.facts if not isinstance(fact, kinds)]) for one in court.decisions]


def _sooner(court: Court) -> list[Decision]:
    place = next(n for n, one in enumerate(court.decisions) if any(isinstance(x, f.IntentArchived) for x in one.facts))
    return [changed(one, decided_at=one.decided_at - 1) if n == place else one for n, one in enumerate(court.decisions)]


def _with(court: Court, new: AnyFact, where: type) -> list[Decision]:
    """The ledger with one fact more, before the first of that kind."""
    place = next(n for n, one in enumerate(court.decisions) if any(isinstance(x, where) for x in one.facts))
    return [changed(one, facts=[new, *one.facts]) if n == place else one for n, one in enumerate(court.decisions)]


def _incident() -> f.OrphanRaised:
    return f.OrphanRaised(orphan_id="o", kind="STRAY_EFFECT", subject_kind="OPERATION", subject_id="x",
                          intent_id=INTENT, since=1, cause="", suggested_action="")  # fmt: skip


def _heard_again(court: Court) -> list[Decision]:
    court.declare(2)
    return [*court.decisions[:-1], changed(court.decisions[-1], verdict="ACCEPTED", reason="OK")]


def _elsewhere(court: Court) -> None:
    in_the_hands_of_others(court)
    assert ends_elsewhere(court).verdict == "ACCEPTED"


BROKEN: list[Any] = [
    pytest.param(lambda: _without(_over(), f.IntentClosed), id="it had not ended"),
    pytest.param(lambda: _without(_over(), f.OperationSettled), id="an operation is open"),
    pytest.param(lambda: _without(_over(), f.StepSucceeded), id="an effect was taken up by nobody"),
    pytest.param(lambda: [changed(one, facts=[x for x in one.facts if getattr(x, "after", "") != "SATISFIED"])
                          for one in _over(_elsewhere).decisions], id="a commitment is open, whoever owns it"),
    pytest.param(lambda: _with(_over(), _incident(), f.IntentArchived), id="an incident is open"),
    pytest.param(lambda: _with(_over(), f.QuarantineOpened(quarantine_id="q", scope=INTENT, problem="UNREADABLE",
                                                           detail=""), f.IntentClosed), id="a record is unreadable"),
    pytest.param(lambda: _sooner(_over()), id="its retention has not passed"),
    pytest.param(lambda: _heard_again(_over()), id="it is spoken of again"),
    pytest.param(lambda: _without(_over(), f.IntentArchived), id="its rows go, and it was not archived"),
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_ledger_that_archives_what_it_may_not_is_caught(broken: Callable[[], list[Decision]]) -> None:
    """The control is every other test here: each checks its ledger, in which nothing is wrong."""
    found = [one for one in check(broken()) if one.invariant == "ARCHIVED"]
    assert found
    assert all(one.seq > 0 and one.ids and one.sentence for one in found)


def test_approvals_that_stood_ahead_of_their_steps_go_with_the_intent(court: Court) -> None:
    court.open(step("s1", "pay_approved", "a"), step("s2", "pay_approved", "b", parallel=True))
    assert court.approve_plan("p1", principal="ann").reason == "OK"
    assert len(court.state.rows("approvals")) == 2
    court.cancel()
    court.advance(KEPT_MS + DAY_MS)
    assert archived(court) is not None
    assert left(court) == {}
    sound(court)


def test_a_plan_that_is_wrong_in_itself_is_told_that_its_intent_was_archived_and_leaves_nothing(court: Court) -> None:
    closed(court)
    court.advance(KEPT_MS + DAY_MS)
    assert archived(court) is not None
    wrong = court.plan(step("s1", edges=[{"kind": "REQUIRES", "step_id": "nowhere"}]), plan_id="p9")
    assert wrong.reason == "INTENT_ARCHIVED"
    assert left(court) == {}
