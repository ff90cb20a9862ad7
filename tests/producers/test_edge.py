"""The edge of the SDK: what it exports, what it takes from the environment, what it refuses before sending."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

import joingate_producers
from joingate_producers import (
    Approver,
    ClaimRefused,
    Connection,
    InvalidClaim,
    JoinGateError,
    MemoryBroker,
    Operator,
    Planner,
    Unreachable,
    goal,
    step,
)
from joingate_producers.settings import settings_from
from joingate_producers.verdict import verdict_of
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import CLAIM_TYPES, AnyClaim, DeclareIntent, Dispatch
from joingate_schemas.decisions import Decision

INTENT = "acme/fee/1"

EXPORTS = """
Action Actions Applied Approver ClaimRefused CommandStream Connection ConnectionClosed Context Declined Doubt Executor
Handler Handlers InvalidClaim JoinGateError LedgerBroken MemoryBroker NotKnown NotSent NothingHappened Observer
Operator OutboxBroken OutboxChoice OutboxFull OutboxInUse Outcome PendingVerdict Planner PlannerContext Received
Refused Retry Settings Signer Undelivered Unreachable Unsent Verdict VerdictTimeout goal step
""".split()


def test_the_public_names_are_these() -> None:
    """A name that is added or taken away is a decision, so it is made here too."""
    assert sorted(joingate_producers.__all__) == sorted(EXPORTS)
    assert all(hasattr(joingate_producers, name) for name in EXPORTS)


def test_every_error_is_one_of_ours() -> None:
    """`except JoinGateError` catches all that the SDK raises on purpose, and the tree in the docstring names each."""
    from joingate_producers import errors

    ours = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert all(issubclass(one, JoinGateError) for one in ours)
    assert errors.__doc__ is not None
    assert [one.__name__ for one in ours if one.__name__ not in errors.__doc__] == []


def test_settings_come_from_the_caller_then_the_environment_then_the_defaults() -> None:
    """In that order; an empty variable counts as none."""
    env = {"BOOTSTRAP_SERVERS": "b:1", "JOINGATE_PREFIX": "env.", "SCHEMA_REGISTRY_URL": "", "JOINGATE_PRINCIPAL": "p"}
    found = settings_from({"prefix": "mine."}, env)
    assert (found.bootstrap_servers, found.prefix, found.registry_url) == ("b:1", "mine.", None)
    assert found.name == "p"
    assert settings_from({}, {}).bootstrap_servers == "127.0.0.1:9092"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bootstrap": "x"}, "The setting bootstrap does not fit"),
        ({"in_flight_max": 0}, "The setting in_flight_max does not fit"),
        ({"client": {"no.such.setting": "1"}}, "A setting for the Kafka client does not fit"),
    ],
)
def test_a_setting_that_does_not_fit_is_told_in_a_sentence(given: dict[str, Any], said: str) -> None:
    """Before anything is opened."""
    with pytest.raises(JoinGateError, match=said):
        Connection(outbox=None, **given)


def test_a_registry_address_that_is_none_is_told() -> None:
    """At the connection, not at the first claim."""
    with pytest.raises(Unreachable, match="http"):
        Connection(outbox=None, wire=MemoryBroker(), registry_url="not a url")


Call = Callable[[Planner], Any]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: p.declare_intent(""), "This DeclareIntent was not sent: intent_id is empty."),
        (
            lambda p: p.declare_intent("a\nb"),
            "DeclareIntent was not sent: intent_id has a control character at position 1",
        ),
        (lambda p: p.declare_intent(INTENT, version=0), "version is 0, and must be at least 1"),
        (lambda p: p.declare_intent(INTENT, version=2**63), "version is 9223372036854775808, and must be at most"),
        (lambda p: p.declare_intent(INTENT, version=cast(int, "1")), "version does not fit"),
        (lambda p: p.declare_intent(INTENT, version=cast(int, True)), "version does not fit"),
        (lambda p: p.declare_intent(INTENT, claim_id=""), "claim_id is empty"),
        (lambda p: p.declare_intent(INTENT, tenant="a\x00"), "tenant has a control character"),
        (lambda p: p.declare_intent("a\u2028b"), "intent_id has an unprintable character at position 1"),
        (lambda p: p.declare_intent("a" * 513), "intent_id has more than 512 characters"),
        (lambda p: p.declare_intent("\ud800"), "intent_id has half of a surrogate pair"),
        (
            lambda p: p.declare_intent(
                INTENT, budgets={"exploration": 1.5, "verification": 0.0, "reconciliation": 0.0}
            ),
            "budgets.exploration is 1.5, and must be at most 1",
        ),
        (
            lambda p: p.declare_intent(INTENT, goals=cast(Any, [{"goal_id": "g", "acceptanc": "x"}])),
            "goals[0].acceptance is missing",
        ),
        (lambda p: p.cancel_intent(INTENT, intent_version=-1), "intent_version is -1, and must be at least 0"),
        (lambda p: p.plan(INTENT, intent_version=1, plan_id="", steps=[]), "plan_id is empty"),
        (
            lambda p: p.dispatch(INTENT, intent_version=1, plan_id="p", step_id="s", arguments={"a": math.nan}),
            "arguments.a is not a finite number",
        ),
        (
            lambda p: p.dispatch(INTENT, intent_version=1, plan_id="p", step_id="s", arguments={"a": 2**70}),
            "arguments.a is a number of more than 64 bits: give it as text",
        ),
        (
            lambda p: p.dispatch(
                INTENT, intent_version=1, plan_id="p", step_id="s", arguments=cast(Any, {"a": {"b": 1}})
            ),
            "arguments.a is a dict, and must be null, true, false, a number or a text",
        ),
        (lambda p: p.abort(INTENT, "op", attempt=-1), "attempt is -1, and must be at least 0"),
        (lambda p: p.abort(INTENT, ""), "operation_id is empty"),
        (lambda p: p.mark_satisfied(INTENT, "c", evidence=cast(Any, [1])), "evidence[0] does not fit"),
        (lambda p: p.declare_intent(INTENT, objective="x" * 300_000), "takes 300"),
        (lambda p: Approver(p.connection).approve(INTENT, digest="d"), "operation_id or plan_id must be given"),
        (
            lambda p: Operator(p.connection, "").override(
                INTENT, subject_kind="OPERATION", subject_id="o", to="FAILED", reason="r", evidence=["e"]
            ),
            "principal is empty: a forced transition has a person's name on it",
        ),
        (
            lambda p: Operator(p.connection, "ann").override(
                INTENT, subject_kind="OPERATION", subject_id="o", to="FAILED", reason="r", evidence=[]
            ),
            "evidence is empty",
        ),
        (
            lambda p: Operator(p.connection, "ann").override(
                INTENT, subject_kind="OPERATION", subject_id="o", to="FAILED", reason="", evidence=["e"]
            ),
            "reason is empty",
        ),
    ],
)
def test_a_malformed_claim_is_refused_in_a_sentence_and_not_sent(call: Call, said: str) -> None:
    """The field is named, and neither the outbox nor the broker hears of it."""
    broker = MemoryBroker()
    with Connection(outbox=None, wire=broker, prefix="t.") as connection:
        with pytest.raises(InvalidClaim) as caught:
            call(Planner(connection, "tester"))
        assert said in str(caught.value)
    assert all(broker.rows(topic) == [] for topic in connection.topics.intake)


def test_steps_and_goals_are_checked_as_they_are_made() -> None:
    """So that the mistake is found where it was written."""
    with pytest.raises(InvalidClaim, match=r"This step was not sent: action is empty\."):
        step("s1", "")
    with pytest.raises(InvalidClaim, match="goal_id is empty"):
        goal("", "done")
    made = step("s2", "notify", requires=["s1"], enables=["s3"], goal="g1", arguments={"to": "ops"})
    assert made.get("edges") == [{"kind": "REQUIRES", "step_id": "s1"}, {"kind": "ENABLES", "step_id": "s3"}]


def test_there_is_a_check_for_every_claim() -> None:
    """A claim type that is added to the schemas can be checked here."""
    from joingate_producers.checking import _model

    for name in CLAIM_TYPES:
        assert set(_model(name).model_fields) >= {"claim_id", "intent_id"}


@pytest.mark.parametrize(
    ("claim", "refused"),
    [
        (DeclareIntent(claim_id="c", intent_id=INTENT, version=1, goals=[]), False),
        (Dispatch(claim_id="c", intent_id=INTENT, intent_version=1, plan_id="p", step_id="s"), True),
    ],
    ids=["accepted", "refused"],
)
def test_a_repeated_claim_is_answered_with_what_was_decided_first(claim: AnyClaim, refused: bool) -> None:
    """A claim that was refused is not made good by repeating it: what the law recorded of it is passed on as it is."""
    from joingate_processors.law.arrival import Arrival
    from joingate_processors.law.judge import fold, judge
    from joingate_processors.law.memory import MemoryState

    state = MemoryState()
    catalogue = Catalogue(version="1", digest="", source=b"", downstreams={}, actions={})
    arrival = Arrival(claim=claim, raw=b"raw", topic="proposals", offset=0, appended_at=1_000)
    first = judge(state, arrival, catalogue, epoch=1)
    fold(state, first, b"\x01" * 32)
    again = verdict_of(judge(state, arrival, catalogue, epoch=1), 0, 0)
    assert (again.verdict, again.reason) == ("REPLAYED", "CLAIM_REPEATED")
    assert again.recorded == (1, first.verdict, first.reason)
    # Whatever the sentence for people says, in this release or the next.
    assert dataclasses.replace(again, detail="seen").recorded == again.recorded
    assert verdict_of(first, 0, 0).recorded is None
    assert again.refused is refused
    if refused:
        with pytest.raises(ClaimRefused, match="CLAIM_REPEATED"):
            again.demand()
    else:
        assert again.demand() is again


def test_a_reason_of_a_newer_release_is_passed_on_by_name() -> None:
    """Its number is unknown here, and the advice says whom to ask."""
    decision = Decision(
        seq=1, epoch=1, decided_at=1, topic="proposals", offset=0, appended_at=1, claim_type="Dispatch", claim_id="c",
        intent_id="i", principal="", claim=b"", verdict="REJECTED", reason="BRAND_NEW", detail="", subject_id="",
        status="", refers_to=0, facts=[], previous=b"",
    )  # fmt: skip
    verdict = verdict_of(decision, 0, 0)
    assert (verdict.reason, verdict.number) == ("BRAND_NEW", 0)
    assert verdict.advice == "Read it with the release that wrote it."
