"""What befalls the arbiter's loop from outside: it gives way, says so, and goes on by itself once that is over."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from joingate_processors.arbiter import partition as room
from joingate_processors.gate.clock import BrokerClock, ClockOff
from joingate_schemas import claims as c
from joingate_schemas.facts import OperationReady, OperationWithdrawn
from joingate_schemas.topics import TopicsUnavailable


def states(told: list[Any]) -> list[str]:
    """How each partition stands by now."""
    return [state for state, _ in told[-1].values()] if told else []


def make_anew(here: Any, tools: Any, topic: str) -> None:
    """Replace a topic by an empty one of the same name."""
    here.admin.delete_topics([topic])[topic].result(30)

    def made() -> bool:
        try:
            return topic in here.topics.create(here.bootstrap, 2, ["miller"])
        except TopicsUnavailable:
            return False

    tools.wait_for(made, f"{topic} to be made anew")


def test_a_client_that_refuses_records_amid_a_batch_is_replaced_and_the_batch_decided_anew(
    town: Callable[..., Any], tools: Any, refuse_once: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """As it does once it has heard, between two records, that its transaction can't stand: after a fence, say."""
    here = town()
    refused = refuse_once(room, here.topics.resource_verdicts)
    with here.arbiter_here() as told:
        operation = here.want("acme/1", "1")
        ready = tools.wait_for(lambda: here.facts(OperationReady), "the grant")
        tools.wait_for(lambda: states(told) == ["RUNNING"] * 2, "the partition to run again")
    assert refused
    assert [one.operation_id for one in ready] == [operation]
    assert "HALTED" not in {state for standing in told for state, _ in standing.values()}
    assert "may hand over no record: the transaction has failed" in caplog.text
    (ruling,) = here.rulings()
    assert (ruling.verdict, ruling.epoch) == ("GRANTED", 1), "what was refused is nowhere, so the epoch was not used"
    answers = Counter(record.claim_id for record, _, _ in here.read(here.topics.resource_verdicts)
                      if isinstance(record, c.Claim))  # fmt: skip
    assert list(answers.values()) == [1]


def test_a_clock_that_is_off_the_brokers_halts_it_until_the_clock_is_right_and_not_until_a_restart(
    town: Callable[..., Any], tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = town()
    wrong = threading.Event()

    class Clock(BrokerClock):
        def sample(self, marked: tuple[int, int], stamped_ms: int) -> None:
            super().sample(marked, stamped_ms)
            if wrong.is_set():
                raise ClockOff("This machine's clock is an hour ahead")

    monkeypatch.setattr(room, "BrokerClock", Clock)
    wrong.set()
    with here.arbiter_here(halted_retry_ms=50) as told:
        tools.wait_for(lambda: states(told) == ["HALTED"] * 2, "both partitions to halt")
        assert "clock is an hour ahead" in str(told[-1])
        wrong.clear()
        operation = here.want("acme/1", "1")
        ready = tools.wait_for(lambda: here.facts(OperationReady), "the grant")
        assert [one.operation_id for one in ready] == [operation]
        wrong.set()
        here.want("acme/2", "2")
        tools.wait_for(lambda: "HALTED" in states(told), "the partition that decided by a wrong clock to halt")
        wrong.clear()
        tools.wait_for(lambda: states(told) == ["RUNNING"] * 2, "both partitions to run")
    here.rulings()


def test_an_arbiter_whose_changelog_is_lost_folds_its_ledger_and_writes_its_rows_anew(
    town: Callable[..., Any], tools: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """And it reads them the next time: the same holder keeps everybody else away."""
    here = town()

    with here.arbiter_here() as told:
        here.want("acme/1", "1")
        tools.wait_for(lambda: here.facts(OperationReady), "the grant")
    make_anew(here, tools, here.topics.arbiter_changelog)
    for name, anew in (("acme/2", True), ("acme/3", False)):
        caplog.clear()
        with here.arbiter_here() as told:
            tools.wait_for(lambda told=told: states(told) == ["RUNNING"] * 2, "both partitions to run")
            here.want(name, "1")
            tools.wait_for(
                lambda name=name: [one for one in here.facts(OperationWithdrawn) if one.intent_id == name], "the denial"
            )
        assert ("the changelog is written anew: it is not there" in caplog.text) is anew
    assert [one.verdict for one in here.rulings() if one.message_type == "Reserve"] == ["GRANTED", "DENIED", "DENIED"]


def test_an_arbiter_whose_ledger_lost_its_end_halts(town: Callable[..., Any], tools: Any) -> None:
    """Going on, it would give what is held to somebody else."""
    here = town()
    with here.arbiter_here():
        here.want("acme/1", "1")
        tools.wait_for(lambda: here.facts(OperationReady), "the grant")
    make_anew(here, tools, here.topics.resource_ledger)
    with here.arbiter_here() as told:
        tools.wait_for(lambda: sorted(states(told)) == ["HALTED", "RUNNING"], "the partition that decided to halt")
        assert "records are gone" in str(told[-1])
