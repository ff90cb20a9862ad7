"""Executors of decorated functions under a real gate: killed, stopped and restarted, they act at most once."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import joingate_producers
from joingate.sample.client import Account, BankClient
from joingate.sample.faults import FaultKind
from joingate.sample.process import BankProcess
from joingate_producers.outbox import Outbox
from joingate_schemas import claims as c
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.facts import (
    AttemptStarted,
    OperationFailed,
    OperationInDoubt,
    OperationSettled,
    OperationWithdrawn,
    PermitIssued,
)
from joingate_schemas.ids import operation_id

pytestmark = pytest.mark.broker

HERE = Path(__file__).parent
CATALOGUE = """
version: '1'
silent_attempts_max: 100
downstreams:
  till: {capabilities: [NONE], in_flight_max: 200ms}
  keyed: {capabilities: [IDEMPOTENT_KEY, LOOKUP], key_horizon: 24h, in_flight_max: 200ms}
actions:
  pay: {downstream: till, effect: IRREVERSIBLE, kind: RETRYABLE, executor: teller, silence: 2s, permit: 4s,
        business_key: '{to}', arguments: {to: }}
  note: {downstream: keyed, effect: REVERSIBLE, kind: RETRYABLE, executor: teller, silence: 20s, permit: 20s,
         business_key: '{to}', arguments: {to: }}
  credit: {downstream: till, effect: IRREVERSIBLE, kind: RETRYABLE, executor: teller, silence: 2s, permit: 10s,
           business_key: '{account_id}', arguments: {account_id: , amount: }}
  issue_fee_credit: {downstream: keyed, effect: IRREVERSIBLE, kind: RETRYABLE, executor: teller, silence: 20s,
                     permit: 20s, business_key: '{account_id}', arguments: {account_id: , amount: }}
"""
PAGE = HERE.parents[2] / "docs" / "executors.md"


class Shop:
    """A gate under the catalogue above, an executor called teller, and what they did."""

    def __init__(self, desk: Any, tools: Any) -> None:
        self.desk = desk
        self.wait_for = tools.wait_for
        self.till = Path(desk.directory) / "till"
        self.go = Path(desk.directory) / "go"
        self.processes: list[subprocess.Popen[str]] = []

    # --- executors

    def journal(self, name: str = "teller") -> Path:
        return Path(self.desk.directory) / f"{name}.outbox"

    def executor(self, name: str = "teller", static: bool = True, **asked: Any) -> "subprocess.Popen[str]":
        """One with this journal. `static`: it comes back to its group without waiting for a session to end."""
        client = {"log_level": "0", **({"group.instance.id": name} if static else {})}
        settings = {
            "till": str(self.till), "bootstrap_servers": self.desk.bootstrap, "prefix": self.desk.prefix,
            "principal": "teller", "outbox": str(self.journal(name)), "client": client, **asked,
        }  # fmt: skip
        process = subprocess.Popen([sys.executable, str(HERE / "acting_process.py"), json.dumps(settings)], text=True)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def effects(self) -> list[list[str]]:
        """What the till took: action, operation, attempt and process."""
        return [line.split() for line in self.till.read_text().splitlines()] if self.till.exists() else []

    # --- claims

    def ask(self, to: str, action: str = "pay", **arguments: Any) -> str:
        """An intent with one step, dispatched; returns the operation's id."""
        intent = f"acme/{action}/{to}"
        step: c.PlanStep = {"step_id": "s", "action": action, "arguments": arguments or {"to": to}}
        self.desk.send(c.DeclareIntent(claim_id=f"{intent}-1", intent_id=intent, version=1, goals=[]))
        self.desk.send(
            c.Plan(claim_id=f"{intent}-2", intent_id=intent, intent_version=1, plan_id="p", steps=[step],
                   commitments=[])
        )  # fmt: skip
        self.desk.send(c.Dispatch(claim_id=f"{intent}-3", intent_id=intent, intent_version=1, plan_id="p", step_id="s"))
        self.desk.flush()
        return operation_id(intent, action, to, 1)

    # --- what came of it

    def facts(self, kind: type, operation: str = "") -> list[Any]:
        found = [fact for one in self.desk.ledger() for fact in one.facts if isinstance(fact, kind)]
        return [fact for fact in found if operation in ("", fact.operation_id)]

    def await_fact(self, kind: type, operation: str, count: int = 1) -> list[Any]:
        def enough() -> list[Any] | None:
            found = self.facts(kind, operation)
            return found if len(found) >= count else None

        found: list[Any] = self.wait_for(enough, f"{kind.__name__} of {operation}")
        return found

    def await_effects(self, count: int) -> list[list[str]]:
        found: list[list[str]] = self.wait_for(
            lambda: made if len(made := self.effects()) >= count else None, f"{count} effects"
        )
        return found


@pytest.fixture
def shop(desk: Any, tools: Any) -> Iterator[Shop]:
    made = Shop(desk, tools)
    with desk.gate(catalogue=catalogue_from_text(CATALOGUE)):
        yield made
        made.close()


def test_kill_9_between_effect_and_report_is_a_doubt_after_the_restart_and_no_second_effect(shop: Shop) -> None:
    """However often a process starts over the same journal: the doubt is told once, and others go on."""
    victim = shop.executor(dies_after=1)
    operation = shop.ask("ann")
    assert victim.wait(60) == -signal.SIGKILL
    for number in range(2):
        again = shop.executor()
        other = shop.ask(f"other-{number}")
        shop.await_fact(OperationSettled, other)
        again.send_signal(signal.SIGTERM)
        assert again.wait(60) == 0
    (doubt,) = shop.facts(OperationInDoubt, operation)
    assert "ended between the start of the effect and its report" in doubt.cause
    assert [one for one in shop.effects() if one[1] == operation] == [["pay", operation, "1", str(victim.pid)]]
    said = [one for one in shop.desk.ledger() if one.claim_type == "InDoubt"]
    assert len(said) == 1
    assert shop.facts(OperationSettled, operation) == []


def test_a_journal_that_is_lost_costs_a_doubt_by_silence_and_no_second_effect(shop: Shop) -> None:
    """The permit was for the process that is gone, so the next one may not use it; the gate's timer tells."""
    victim = shop.executor(dies_after=1)
    operation = shop.ask("ann")
    assert victim.wait(60) == -signal.SIGKILL
    for path in shop.journal().parent.glob("teller.outbox*"):
        path.unlink()
    shop.executor()
    shop.await_fact(OperationSettled, shop.ask("other"))
    (doubt,) = shop.await_fact(OperationInDoubt, operation)
    assert doubt.cause == "silence after the permit"
    assert [one[1] for one in shop.effects()].count(operation) == 1


def test_an_executor_that_is_silent_before_the_permit_is_asked_again_and_acts_once(shop: Shop) -> None:
    """Nobody is there when the command comes: the next attempt is, and an old command is no leave to act."""
    operation = shop.ask("ann")
    shop.await_fact(AttemptStarted, operation)
    shop.executor()
    (settled,) = shop.await_fact(OperationSettled, operation)
    assert settled.attempt >= 2
    assert [one[2] for one in shop.effects()] == [str(settled.attempt)]
    assert [one.attempt for one in shop.facts(PermitIssued, operation)] == [settled.attempt]


def test_a_frozen_executor_is_in_doubt_by_silence_and_its_late_word_settles(shop: Shop) -> None:
    """Stopped amid its effect for longer than its session: another takes its work over, and not what it is at."""
    frozen = shop.executor(static=False, waits_for=str(shop.go))
    operation = shop.ask("ann")
    shop.await_effects(1)
    frozen.send_signal(signal.SIGSTOP)
    (doubt,) = shop.await_fact(OperationInDoubt, operation)
    assert doubt.cause == "silence after the permit"
    shop.executor("second", static=False)
    # On every partition, so that the second has taken all of them over.
    others = [shop.ask(f"other-{number}") for number in range(6)]
    for other in others:
        shop.await_fact(OperationSettled, other)
    assert [one[1] for one in shop.effects()].count(operation) == 1
    shop.go.touch()
    frozen.send_signal(signal.SIGCONT)
    (settled,) = shop.await_fact(OperationSettled, operation)
    assert (settled.attempt, settled.external_id) == (1, f"till-{operation}")
    assert Counter(one[1] for one in shop.effects()) == dict.fromkeys([operation, *others], 1)


def test_a_stopped_executor_ends_what_runs_and_leaves_the_rest_to_the_next(shop: Shop) -> None:
    """SIGTERM amid work on more than it has places for: exit code 0, nothing in doubt, everything done once."""
    first = shop.executor(waits_for=str(shop.go), options={"threads": 2, "drain_s": 60.0})
    operations = [shop.ask(f"n{number}", "note") for number in range(6)]
    shop.await_effects(2)
    first.send_signal(signal.SIGTERM)
    shop.go.touch()
    assert first.wait(60) == 0
    shop.executor()
    for operation in operations:
        shop.await_fact(OperationSettled, operation)
    assert Counter(one[1] for one in shop.effects()) == dict.fromkeys(operations, 1)
    assert shop.facts(OperationInDoubt) == []


@pytest.mark.parametrize(
    ("action", "drain_s", "signals"),
    [
        ("pay", 0.2, [signal.SIGTERM]),
        ("note", 0.2, [signal.SIGTERM]),
        ("pay", 3_600.0, [signal.SIGTERM, signal.SIGINT]),
    ],
)
def test_what_does_not_end_before_the_drain_does_is_in_doubt(
    shop: Shop, action: str, drain_s: float, signals: list[signal.Signals]
) -> None:
    """Sync and async alike, at the deadline or at a second signal: reported before the process ends, with 0."""
    first = shop.executor(waits_for=str(shop.go), options={"drain_s": drain_s})
    operation = shop.ask("ann", action)
    shop.await_effects(1)
    for one in signals:
        first.send_signal(one)
    assert first.wait(60) == 0
    (doubt,) = shop.await_fact(OperationInDoubt, operation)
    assert "the executor was stopped before the effect came to an end" in doubt.cause
    assert len(Outbox(shop.journal())) == 0, "nothing is left to be told"


def test_a_preparation_that_says_no_is_withdrawn_before_any_permit(shop: Shop) -> None:
    shop.executor()
    shop.ask("nobody")
    shop.wait_for(lambda: [one for one in shop.desk.ledger() if one.claim_type == "Abort"], "the Abort")
    (abort,) = [one for one in shop.desk.ledger() if one.claim_type == "Abort"]
    assert (abort.verdict, abort.status) == ("ACCEPTED", "WITHDRAWN")
    assert shop.facts(PermitIssued) == []
    assert shop.effects() == []


@pytest.mark.parametrize("fault", [FaultKind.DROP_REPLY, FaultKind.ERROR_500_AFTER_APPLY, None])
def test_the_example_on_the_page_credits_once_though_the_first_reply_is_lost(
    shop: Shop, tmp_path: Path, fault: FaultKind | None
) -> None:
    """As a reader would run it: within its permit it sends again under the same key, and SIGTERM ends it with 0."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "teller.py").write_text(example)
    with BankProcess(tmp_path / "bank.jsonl") as process, BankClient(process.url) as bank:
        for account in ("ann", "bob"):
            bank.apply("open_account", {"account_id": account, "amount": "100.00"}, f"open-{account}")
        if fault is not None:
            bank.inject(fault, action="issue_fee_credit", count=1)
        environment = {
            **os.environ, "BOOTSTRAP_SERVERS": shop.desk.bootstrap, "JOINGATE_PREFIX": shop.desk.prefix,
            "JOINGATE_STATE_DIR": str(tmp_path / "state"), "BANK_URL": process.url,
        }  # fmt: skip
        acting = subprocess.Popen([sys.executable, str(tmp_path / "teller.py")], env=environment, text=True)
        shop.processes.append(acting)
        credited = shop.ask("ann", "issue_fee_credit", account_id="ann", amount="35.00")
        (settled,) = shop.await_fact(OperationSettled, credited)
        refused = shop.ask("bob", "issue_fee_credit", account_id="bob", amount="0")
        shop.await_fact(OperationWithdrawn, refused)
        acting.send_signal(signal.SIGTERM)
        assert acting.wait(60) == 0
        assert (_credits(bank, "ann"), _credits(bank, "bob")) == (1, 0)
    assert settled.attempt == 1
    assert shop.facts(OperationInDoubt) == []


def test_what_the_page_says_of_the_answers_is_what_is_exported() -> None:
    """Each name that it gives for an answer can be imported, and its signature takes what the page shows."""
    page = PAGE.read_text()
    for name in (
        "Applied",
        "Refused",
        "Declined",
        "NotSent",
        "NothingHappened",
        "Doubt",
        "Retry",
        "Context",
        "Actions",
    ):
        assert f"`{name}" in page
        assert name in joingate_producers.__all__
    (shown,) = re.findall(r"`Retry\((.*?)\)`", page)
    assert shown.split(", ") == [one.name for one in dataclasses.fields(joingate_producers.Retry)]


KILLS = 5
CREDITS = 40


def test_killed_and_restarted_under_load_it_never_credits_twice_and_loses_nothing(shop: Shop, tmp_path: Path) -> None:
    """At a bank without keys, where each send is a credit: one at most for each wish, and an honest end for each."""
    with BankProcess(tmp_path / "bank.jsonl") as process, BankClient(process.url) as bank:
        accounts = [f"account-{number}" for number in range(CREDITS)]
        for account in accounts:
            bank.apply("open_account", {"account_id": account, "amount": "100.00"}, f"open-{account}")
        operations = {account: shop.ask(account, "credit", account_id=account, amount="35.00") for account in accounts}
        executor = shop.executor(bank=process.url)
        for number in range(KILLS):
            target = (number + 1) * CREDITS // (KILLS + 2)
            shop.wait_for(lambda target=target: len(shop.facts(OperationSettled)) >= target, f"{target} credits")
            executor.kill()
            executor.wait()
            executor = shop.executor(bank=process.url)

        def ended() -> bool:
            ends = {one.operation_id for one in shop.facts(OperationSettled)}
            ends |= {one.operation_id for one in shop.facts(OperationInDoubt)}
            return ends >= set(operations.values())

        shop.wait_for(ended, "an end for each")
        executor.send_signal(signal.SIGTERM)
        assert executor.wait(60) == 0
        credits = {account: _credits(bank, account) for account in accounts}
    assert set(credits.values()) <= {0, 1}, credits
    settled = {one.operation_id for one in shop.facts(OperationSettled)}
    doubts = {one.operation_id for one in shop.facts(OperationInDoubt)} - settled
    assert [account for account in accounts if operations[account] in settled and not credits[account]] == []
    assert [account for account in accounts if credits[account] and operations[account] not in settled | doubts] == []
    assert shop.facts(OperationFailed) == []
    assert len(doubts) <= KILLS * 4, "no more than was under way at the kills"


def _credits(bank: BankClient, account: str) -> int:
    found = bank.account(account)
    assert isinstance(found, Account)
    return sum(one["amount"] == "35.00" for one in found.entries)
