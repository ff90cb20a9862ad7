"""Guards before any rule: who may say what where, what counts as the same claim, and in which order refusals come."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import pytest

from joingate_processors.law.judge import TOPIC_ROLES
from joingate_processors.law.repeats import digest_of_claim
from joingate_processors.law.state import seen_key
from joingate_producers.verdict import verdict_of
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.reasons import reason_number
from joingate_schemas.record import changed

from .catalogues import varied, with_principals
from .driver import CODEC, INTENT, START_AT, Court, step
from .invariants import snapshot
from .scenes import edges, opened, permitted, settled

# One claim of each type, about things that exist in `permitted` or need not exist.
CLAIMS: dict[str, dict[str, Any]] = {
    "DeclareIntent": {"version": 2, "goals": []},
    "CancelIntent": {},
    "Plan": {"intent_version": 1, "plan_id": "p2", "steps": [step("s1")], "commitments": []},
    "Dispatch": {"intent_version": 1, "plan_id": "p1", "step_id": "s1"},
    "Abort": {"operation_id": "o", "evidence": []},
    "Release": {"commitment_id": "k"},
    "Transfer": {"commitment_id": "k", "target_owner": "team:ops"},
    "AcceptTransfer": {"commitment_id": "k", "owner_id": "team:ops", "evidence": []},
    "MarkSatisfied": {"commitment_id": "k", "evidence": ["e"]},
    "RequestReconciliation": {"subject_kind": "OPERATION", "subject_id": "o"},
    "Promise": {"intent_version": 1, "obligation_type": "window", "counterparty": "x", "text": "we will"},
    "Succeed": {"intent_version": 1, "plan_id": "p1", "step_id": "s1", "evidence": []},
    "Close": {},
    "Prepared": {"operation_id": "o", "attempt": 1, "executor": "bank"},
    "Commit": {"operation_id": "o", "attempt": 1, "evidence": []},
    "InDoubt": {"operation_id": "o", "attempt": 1, "evidence": []},
    "Approve": {"operation_id": "o", "digest": "d"},
    "Decline": {"operation_id": "o", "digest": "d"},
    "Observe": {"subject_kind": "GOAL", "subject_id": "g", "finding": "PRESENT", "source": "s", "external_ids": [],
                "evidence": []},
    "RetireOwner": {"owner_id": "team:ops"},
    "AssignOwner": {"commitment_id": "k", "owner_id": "team:ops", "policy": "p"},
    "Override": {"subject_kind": "OPERATION", "subject_id": "o", "to": "FAILED", "reason": "r", "evidence": ["e"]},
    "RegisterKey": {"holder": "ann", "public_key": b"k" * 32},
    "RevokeKey": {"holder": "ann", "key_id": "0" * 32},
    "TimerFired": {"timer": "SILENCE", "subject_kind": "OPERATION", "subject_id": "o", "due_at": 1},
    "ResourceGranted": {"operation_id": "o", "resource_ref": "r:1"},
    "ResourceDenied": {"operation_id": "o", "resource_ref": "r:1", "holder": "h"},
    "ResourceExpired": {"operation_id": "o", "resource_ref": "r:1"},
    "CatalogueChanged": {"digest": "d", "version": "2", "catalogue": b"{}"},
    "ClaimQuarantined": {"quarantine_id": "outcomes/0/9", "scope": "other", "problem": "UNREADABLE"},
    "ClaimHeld": {"quarantine_id": "outcomes/0/9", "held_claim": b"", "topic": "outcomes", "offset": 1,
                  "appended_at": 1, "would_be": "UNKNOWN_INTENT"},
}  # fmt: skip
TOPICS: tuple[ClaimTopic, ...] = (*TOPIC_ROLES, "UNKNOWN")


def made(name: str, claim_id: str = "the-claim") -> c.AnyClaim:
    return c.CLAIM_TYPES[name](claim_id=claim_id, intent_id=INTENT, **CLAIMS[name])  # type: ignore[return-value]


def test_the_matrix_knows_every_claim_and_every_topic() -> None:
    assert set(CLAIMS) == set(c.CLAIM_TYPES)
    assert set(TOPICS) == set(get_args(ClaimTopic))


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("name", CLAIMS)
def test_only_the_roles_own_topic_lets_a_claim_be_heard(name: str, topic: ClaimTopic) -> None:
    court = Court()
    permitted(court)
    before = snapshot(court.state)
    decision = court.say(made(name), topic)
    role = TOPIC_ROLES.get(topic)
    heard = () if role is None else c.ROLE_TYPES[role]
    if topic == "resource-verdicts":
        # The arbiter's topic: what the gate says itself is believed from none.
        heard = ("ResourceGranted", "ResourceDenied", "ResourceExpired")
    if topic != "gate" and name not in heard:
        assert (decision.verdict, decision.reason, decision.facts) == ("REJECTED", "WRONG_ROLE", [])
        after = snapshot(court.state)
        assert {**after, "header": []} == {**before, "header": []}, "what a stranger says leaves nothing behind"
    else:
        assert decision.reason != "WRONG_ROLE"


@pytest.mark.parametrize("reason", ["WRONG_ROLE", "UNKNOWN_PRINCIPAL"])
def test_a_stranger_can_not_use_up_the_id_of_an_honest_claim(reason: str) -> None:
    court = Court(with_principals())
    for claim in (
        c.DeclareIntent(claim_id="d", intent_id=INTENT, principal="paula", version=1, goals=[]),
        c.Plan(claim_id="p", intent_id=INTENT, principal="paula", intent_version=1, plan_id="p1", steps=[step("s1")],
               commitments=[]),
        c.Dispatch(claim_id="k", intent_id=INTENT, principal="paula", intent_version=1, plan_id="p1", step_id="s1"),
    ):  # fmt: skip
        assert court.say(claim).verdict == "ACCEPTED"
    ready = {"executor": "messenger", "claim_id": "the-same"}
    if reason == "WRONG_ROLE":
        assert court.prepared("s1", topic="proposals", principal="paula", **ready).reason == reason
    else:
        assert court.prepared("s1", principal="mallory", **ready).reason == reason
    assert court.prepared("s1", principal="eve", **ready).verdict == "ACCEPTED"


# --- the same claim --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in c.ROLE_TYPES["GATE"]])
def test_a_repeated_claim_id_returns_its_recorded_decision_and_changes_nothing(name: str) -> None:
    court = Court()
    permitted(court)
    first = court.say(made(name))
    before = snapshot(court.state)
    for _ in range(2):
        again = court.say(made(name))
        assert (again.verdict, again.reason, again.refers_to) == ("REPLAYED", "CLAIM_REPEATED", first.seq)
        assert (again.recorded_verdict, again.recorded_reason) == (first.verdict, first.reason)
        assert (again.facts, again.claim) == ([], b"")
        assert f"{first.verdict} ({first.reason})" in again.detail
    assert {**snapshot(court.state), "header": []} == {**before, "header": []}


def test_a_claim_id_of_another_type_is_refused_and_the_first_decision_stands() -> None:
    court = Court()
    opened()(court)
    first = court.dispatch("s1", claim_id="x")
    reused = court.succeed("s1", claim_id="x")
    assert (reused.reason, reused.recorded_verdict) == ("CLAIM_ID_REUSED", ""), "that decision is another claim's"
    again = court.dispatch("s1", claim_id="x")
    assert (again.reason, again.refers_to) == ("CLAIM_REPEATED", first.seq)


def test_a_claim_id_of_a_ledger_without_digests_is_still_answered_by_its_record() -> None:
    court = Court()
    court.declare(claim_id="x")
    key = seen_key(INTENT, "x")
    row = court.state.seen.get(key)
    assert row is not None
    assert len(row.digest) == 32
    court.state.seen.put(key, changed(row, digest=""))
    assert court.declare(objective="other", claim_id="x").reason == "CLAIM_REPEATED"


def test_what_a_claim_says_is_compared_and_not_how_it_was_written() -> None:
    """A client of another release may leave out, or spell out, what has its default; arguments have no order."""
    said = c.Plan(claim_id="a", intent_id=INTENT, intent_version=1, plan_id="p1", commitments=[],
                  steps=[{"step_id": "s1", "action": "notify", "arguments": {"to": "ops", "text": ""}}])  # fmt: skip
    filled: c.PlanStep = {
        "step_id": "s1", "action": "notify", "business_key": "", "arguments": {"text": "", "to": "ops"},
        "goal_id": None, "edges": [], "parallel": False, "commitments": [], "condition": None,
    }  # fmt: skip
    assert digest_of_claim(changed(said, steps=[filled])) == digest_of_claim(said)
    for other in ({"parallel": True}, {"arguments": {"to": "ops"}}, {"condition": "signed"}):
        assert digest_of_claim(changed(said, steps=[{**filled, **other}])) != digest_of_claim(said), other


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in c.ROLE_TYPES["GATE"]])
def test_every_field_that_says_something_tells_a_used_claim_id_from_a_repeated_one(name: str) -> None:
    claim = made(name)
    for field in fields(claim):
        other = changed(claim, **{field.name: "something else"})
        same = field.name in ("claim_id", "intent_id", "signature", "occurred_at")
        assert (digest_of_claim(other) == digest_of_claim(claim)) == same, field.name


def test_a_repeated_claim_id_tells_the_present_status_of_what_it_was_about() -> None:
    """Who asks again, not having heard, goes by what has become of it: still under way, or settled meanwhile."""
    court = Court(varied())
    court.declare(claim_id="d")
    court.plan(step("s1", "reserve_window"), claim_id="p")
    court.dispatch("s1", claim_id="k")
    refused = court.succeed("s1", claim_id="refused")
    court.perform("s1")
    court.observe_commitment("s1", "PRESENT", claim_id="o")
    court.release("s1", claim_id="r")

    def now() -> list[str]:
        again = [
            court.declare(claim_id="d"), court.plan(step("s1", "reserve_window"), claim_id="p"),
            court.dispatch("s1", claim_id="k"), court.observe_commitment("s1", "PRESENT", claim_id="o"),
            court.release("s1", claim_id="r"), court.succeed("s1", claim_id="refused"),
        ]  # fmt: skip
        assert {one.reason for one in again} == {"CLAIM_REPEATED"}
        return [one.status for one in again]

    assert now() == ["OPEN", "ADOPTED", "SETTLED", "RELEASE_PENDING", "RELEASE_PENDING", "SETTLED"]
    court.cancel()
    court.perform_release("s1")
    court.observe_commitment("s1", "ABSENT")
    assert now() == ["CANCELLED", "CLOSED", "COMPENSATED", "RELEASED", "RELEASED", "COMPENSATED"]
    assert (refused.verdict, court.decisions[-1].recorded_verdict) == ("REJECTED", "REJECTED")


def test_who_did_not_hear_of_a_dispatch_and_sends_it_again_knows_whether_it_is_still_under_way() -> None:
    """C19: the report said timed out, and the claim was in the log all the same."""
    court = Court(varied())
    opened()(court)
    court.dispatch("s1", claim_id="k")
    for status, under_way, then in (
        ("VALIDATED", True, lambda: court.prepared("s1")), ("SUBMITTED", True, lambda: court.in_doubt("s1")),
        ("IN_DOUBT", True, lambda: court.commit("s1")), ("SETTLED", False, lambda: None),
    ):  # fmt: skip
        again = verdict_of(court.dispatch("s1", claim_id="k"), 0, 0)
        assert (again.replayed, again.status, again.pending) == (True, status, under_way)
        then()


def test_a_claim_id_counts_within_its_intent() -> None:
    court = Court()
    assert court.declare(claim_id="x").verdict == "ACCEPTED"
    assert court.declare(claim_id="x", intent_id="acme/errand/2").verdict == "ACCEPTED"


def test_a_refusal_is_repeated_though_it_would_pass_by_now() -> None:
    court = Court()
    permitted(court)
    assert court.succeed("s1", claim_id="x").reason == "NOT_COMMITTED"
    court.commit("s1")
    assert court.succeed("s1", claim_id="x").verdict == "REPLAYED"
    assert court.succeed("s1", claim_id="y").verdict == "ACCEPTED"


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skew_ms", "flagged"), [(300_000, False), (300_001, True), (-300_000, False), (-300_001, True)]
)
def test_a_stamp_far_from_the_append_time_is_flagged_and_moves_nothing(skew_ms: int, flagged: bool) -> None:
    court = Court()
    opened()(court)
    decision = court.dispatch("s1", occurred_at=court.now + skew_ms)
    assert decision.verdict == "ACCEPTED"
    assert decision.decided_at == START_AT
    assert court.op("s1").deadline_at == START_AT + 30_000
    skews = [fact.skew_ms for fact in decision.facts if isinstance(fact, f.ClockSkewed)]
    assert skews == ([skew_ms] if flagged else [])


def test_a_claim_without_a_stamp_has_no_skew() -> None:
    court = Court()
    assert not [fact for fact in court.declare(occurred_at=0).facts if isinstance(fact, f.ClockSkewed)]


def test_the_ledgers_time_never_goes_back() -> None:
    court = Court()
    court.declare()
    claim = c.CancelIntent(claim_id="x", intent_id=INTENT)
    decision = court.say(claim, appended_at=START_AT - 10_000)
    assert (decision.decided_at, decision.appended_at) == (START_AT, START_AT - 10_000)


def test_the_ledger_is_contiguous_and_chained() -> None:
    court = Court()
    settled(court)
    assert [decision.seq for decision in court.decisions] == list(range(1, len(court.decisions) + 1))
    assert court.decisions[0].previous == b""
    assert all(len(decision.previous) == 32 for decision in court.decisions[1:])
    header = court.state.header.get("")
    assert header is not None
    assert (header.seq, header.decided_at) == (len(court.decisions), START_AT)


# --- order -----------------------------------------------------------------------------------------------------------

CIRCLE = step("s1", edges=edges("REQUIRES", "s1"))
# Claims that break two guards: what comes first, the reason that is given, the one that stays behind it.
ORDER: list[tuple[str, str, str, Callable[[Court], object], Callable[[Court], Decision]]] = [
    ("shape before role", "MALFORMED", "WRONG_ROLE", opened(),
        lambda x: x.dispatch("s1", claim_id="", topic="outcomes")),
    ("role before principal", "WRONG_ROLE", "UNKNOWN_PRINCIPAL", opened(),
     lambda x: x.dispatch("s1", topic="outcomes", principal="mallory")),
    ("principal before identity", "UNKNOWN_PRINCIPAL", "CLAIM_REPEATED", opened(),
     lambda x: x.declare(claim_id="claim-1", principal="mallory")),
    ("identity before currency", "CLAIM_REPEATED", "STALE_INTENT", opened(),
     lambda x: (x.declare(2), x.declare(1, claim_id="claim-1"))[1]),
    ("a plan's shape before currency", "CYCLE", "STALE_INTENT", opened(),
     lambda x: (x.declare(2), x.plan(CIRCLE, plan_id="p2", intent_version=1))[1]),
    ("a version that is missing before one that is stale", "MALFORMED", "UNKNOWN_INTENT", lambda x: None,
     lambda x: x.dispatch("s1", intent_version=0)),
    ("closed before stale", "INTENT_CLOSED", "UNKNOWN_VERSION",
     lambda x: (opened(step("s1"))(x), x.perform("s1"), x.succeed("s1"), x.close()),
     lambda x: x.dispatch("s1", intent_version=9)),
    ("the intent before the plan", "STALE_INTENT", "PLAN_SUPERSEDED", opened(),
     lambda x: (x.declare(2), x.dispatch("s1", intent_version=1))[1]),
    ("the plan before the state of its slot", "PLAN_SUPERSEDED", "SAME_OPERATION", settled,
     lambda x: (x.plan(step("s9"), plan_id="p2", replaces="p1"), x.dispatch("s1", plan_id="p1"))[1]),
    ("the planned arguments before the slot's state", "KEY_PAYLOAD_MISMATCH", "SAME_OPERATION",
     lambda x: (opened(step("s1", "pay", arguments={"amount": 5}))(x), x.perform("s1")),
     lambda x: x.dispatch("s1", arguments={"amount": 6})),
    ("the slot's state before the order of steps", "SAME_OPERATION", "DEPENDENCY_UNMET",
     lambda x: (opened(step("a"), step("b"))(x), x.perform("a"), x.perform("b"), x.abort("a")),
     lambda x: x.dispatch("b")),
    ("the key before the order of steps", "KEY_MISMATCH", "DEPENDENCY_UNMET", opened(step("a"), step("b")),
     lambda x: x.dispatch("b", idempotency_key="run-1")),
    ("what is required before the pivot's place", "DEPENDENCY_UNMET", "PIVOT_NOT_LAST",
     opened(step("a", "write_file"), step("b", "close_ticket", edges=edges("REQUIRES", "a"))),
     lambda x: x.dispatch("b")),
    ("the executor before the attempt", "WRONG_EXECUTOR", "NOT_DISPATCHED", permitted,
     lambda x: x.prepared("s1", attempt=9, executor="bank")),
    ("the attempt before the claim on it", "STALE_ATTEMPT", "ALREADY_CLAIMED",
     lambda x: (opened(step("s1", "pay"))(x), x.permit("s1"), x.in_doubt("s1"), x.observe("s1", "RESEND")),
     lambda x: x.prepared("s1", attempt=1)),
    ("the state before freshness", "OPERATION_ENDED", "PLAN_SUPERSEDED",
     lambda x: (opened()(x), x.dispatch("s1"), x.plan(step("s9"), plan_id="p2", replaces="p1")),
     lambda x: x.prepared(x.state.rows("operations")[0][0])),
    ("a name before evidence of a thing that is not there", "NO_EVIDENCE", "UNKNOWN_INTENT", lambda x: None,
     lambda x: x.override("OPERATION", "o", "FAILED", reason="")),
    ("evidence before currency", "NO_EVIDENCE", "UNKNOWN_INTENT", lambda x: None,
     lambda x: x.satisfied("k", evidence=[])),
    ("the thing before its news", "UNKNOWN_OPERATION", "STALE_OBSERVATION", opened(),
     lambda x: x.observe("s1", "PRESENT", source_version=0)),
    ("older news before its proof", "STALE_OBSERVATION", "NO_PROOF",
     lambda x: (permitted(x), x.observe("s1", "PENDING", source_version=5)),
     lambda x: x.observe("s1", "ABSENT", source_version=4)),
    ("a proof before its time", "NO_PROOF", "TOO_EARLY", permitted,
        lambda x: x.observe("s1", "ABSENT", proof="NOT_SENT")),
    ("joins before what else is open", "MISSING_JOIN", "OPEN_OPERATIONS", permitted, lambda x: x.close()),
    ("operations before commitments", "OPEN_OPERATIONS", "OPEN_COMMITMENTS",
     lambda x: (opened(step("s1", "reserve_window"))(x), x.active("s1"), x.succeed("s1"), x.abort("s1")),
     lambda x: x.close()),
    ("whether it waits before what it approves", "NOT_AWAITING_APPROVAL", "APPROVAL_STALE", permitted,
     lambda x: x.approve("s1", digest="other")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "hidden", "given", "when"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
def test_of_two_broken_guards_the_earlier_one_answers(
    reason: str, hidden: str, given: Callable[[Court], object], when: Callable[[Court], Decision]
) -> None:
    assert reason_number(reason) != reason_number(hidden)
    catalogue = with_principals() if "PRINCIPAL" in reason + hidden else varied()
    court = Court(varied())
    given(court)
    court.catalogue = catalogue
    assert when(court).reason == reason


def test_a_decision_carries_the_claim_as_it_was_appended() -> None:
    court = Court()
    decision = court.declare(claim_id="x")
    claim = CODEC.decode(decision.claim)
    assert isinstance(claim, c.DeclareIntent)
    assert (claim.claim_id, decision.claim_type, decision.topic) == ("x", "DeclareIntent", "proposals")


def _with_narrow_principals() -> Court:
    """Steps s1 (notify, permitted) and s2 (write_file), before principals were declared that may not do everything."""
    court = Court(varied())
    permitted(court)
    court.catalogue = with_principals()
    return court


def test_a_planner_dispatches_only_the_actions_that_are_its_own() -> None:
    court = _with_narrow_principals()
    assert court.dispatch("s2", principal="nora").reason == "UNKNOWN_PRINCIPAL"
    assert court.dispatch("s1", principal="nora").reason == "SAME_OPERATION"
    assert court.dispatch("s2", principal="paula").verdict == "ACCEPTED", "none named means every action"
    assert court.op("s2").requested_by == "paula"


def test_an_executor_speaks_only_of_the_actions_that_are_its_own() -> None:
    court = _with_narrow_principals()
    court.dispatch("s2", principal="paula")
    for foreign in (court.prepared, court.executor_abort, court.in_doubt):
        assert foreign("s2", principal="otto").reason == "UNKNOWN_PRINCIPAL"
    assert court.commit("s2", principal="otto").reason == "WRONG_EXECUTOR"
    assert (court.op("s2").status, court.orphans()) == ("IN_DOUBT", ["STRAY_EFFECT"]), "what was done is kept"
    assert court.commit("s1", principal="otto").verdict == "ACCEPTED"
    assert court.commit("s2", principal="eve").verdict == "ACCEPTED"
    assert (court.op("s2").status, court.orphans()) == ("SETTLED", []), "it is the same effect"
