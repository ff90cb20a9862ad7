"""Holds the sample bank to its word: one effect per key, nothing lost that was told, and every way of failing.

Nothing here sleeps: a test asks until the condition holds, or fails at a deadline.
"""

import csv
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from joingate.sample.actions import ACTIONS
from joingate.sample.bank import BankProcess
from joingate.sample.client import (
    Account,
    Applied,
    BankClient,
    DoubtCause,
    Found,
    InDoubt,
    NotFound,
    NotSent,
    Refused,
    Resource,
    Unreachable,
)
from joingate.sample.core import Bank, BankOptions, KeyConflict, Outcome
from joingate.sample.faults import FaultKind
from joingate.sample.store import EntryKind, Ledger

DEADLINE_S = 20.0
SHORT_S = 0.3


def until(condition: Callable[[], object]) -> None:
    """Ask again until the condition holds, with a deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come to hold"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BankProcess]:
    with BankProcess(tmp_path_factory.mktemp("bank") / "ledger.jsonl") as bank:
        yield bank


@pytest.fixture
def client(shared: BankProcess) -> Iterator[BankClient]:
    with BankClient(shared.url) as client:
        yield client
        client.clear_faults()


@pytest.fixture
def http(shared: BankProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared.url, trust_env=False) as http:
        yield http


@pytest.fixture
def fee(client: BankClient, request: pytest.FixtureRequest) -> str:
    """A fee of 35.00 on an account of its own; both are named after the test."""
    name: str = request.node.name
    client.apply("open_account", {"account_id": name, "amount": "100.00"}, None)
    charged = client.apply("charge_fee", {"account_id": name, "fee_transaction_id": name, "amount": "35.00"}, None)
    assert isinstance(charged, Applied)
    return name


def balance(client: BankClient, account: str) -> str:
    seen = client.account(account)
    assert isinstance(seen, Account)
    return seen.balance


def cause_of(reply: object) -> DoubtCause:
    assert isinstance(reply, InDoubt)
    return reply.cause


def reverse(client: BankClient, fee: str, key: str | None, timeout_s: float = 10.0) -> object:
    return client.apply("reverse_fee", {"fee_transaction_id": fee}, key, timeout_s)


# Effects and keys


def test_the_same_key_has_one_effect_and_the_same_reply(client: BankClient, fee: str) -> None:
    first = reverse(client, fee, f"k-{fee}")
    again = reverse(client, fee, f"k-{fee}")
    assert isinstance(first, Applied)
    assert isinstance(again, Applied)
    assert (first.replayed, again.replayed) == (False, True)
    assert (first.external_id, first.result) == (again.external_id, again.result)
    assert balance(client, fee) == "100.00"


def test_the_naive_tool_credits_twice(client: BankClient, fee: str) -> None:
    """The story that the product exists for: no key, a lost reply, a second call."""
    client.inject(FaultKind.TIMEOUT_AFTER_APPLY, count=1)
    credit = {"account_id": fee, "amount": 35.00}
    assert isinstance(client.apply("issue_fee_credit", credit, None, SHORT_S), InDoubt)
    until(lambda: balance(client, fee) == "100.00")
    assert isinstance(client.apply("issue_fee_credit", credit, None), Applied)
    assert balance(client, fee) == "135.00"


def test_by_default_the_core_reverses_a_fee_twice_under_two_keys(client: BankClient, fee: str) -> None:
    assert isinstance(reverse(client, fee, f"a-{fee}"), Applied)
    assert isinstance(reverse(client, fee, f"b-{fee}"), Applied)
    assert balance(client, fee) == "135.00"


def test_a_core_that_dedupes_fees_refuses_the_second_reversal(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        bank = Bank(ledger, BankOptions(core_dedupe_fees=True))
        first = bank.perform("reverse_fee", {"fee_transaction_id": "txn-77120"}, "a")
        second = bank.perform("reverse_fee", {"fee_transaction_id": "txn-77120"}, "b")
    assert isinstance(first, Outcome)
    assert first.entry.kind is EntryKind.EFFECT
    assert isinstance(second, Outcome)
    assert second.entry.kind is EntryKind.REFUSAL


@pytest.mark.parametrize("amount", ["35.00", 35, 35.0, "35"])
def test_one_amount_in_several_notations_is_one_meaning(client: BankClient, fee: str, amount: object) -> None:
    account = {"account_id": fee}
    first = client.apply("issue_fee_credit", account | {"amount": "35.00"}, f"k-{fee}")
    again = client.apply("issue_fee_credit", account | {"amount": amount}, f"k-{fee}")
    assert isinstance(first, Applied)
    assert isinstance(again, Applied)
    assert again.external_id == first.external_id


def test_a_key_with_another_meaning_is_a_conflict_and_touches_nothing(
    client: BankClient, http: httpx.Client, fee: str
) -> None:
    key = f"k-{fee}"
    assert isinstance(client.apply("issue_fee_credit", {"account_id": fee, "amount": "1.00"}, key), Applied)
    before = balance(client, fee)
    body = {"arguments": {"account_id": fee, "amount": "2.00"}}
    assert http.post("/effects/issue_fee_credit", json=body, headers={"Idempotency-Key": key}).status_code == 409
    assert cause_of(reverse(client, fee, key)) is DoubtCause.KEY_CONFLICT
    assert balance(client, fee) == before


def test_a_refused_key_stays_refused_although_it_could_now_succeed(client: BankClient, http: httpx.Client) -> None:
    reverse_late = {"fee_transaction_id": "fee-to-come"}
    refused = client.apply("reverse_fee", reverse_late, "refused-key")
    assert isinstance(refused, Refused)
    assert not refused.replayed
    coming = {"account_id": "9482", "fee_transaction_id": "fee-to-come", "amount": "5.00"}
    assert isinstance(client.apply("charge_fee", coming, None), Applied)
    again = client.apply("reverse_fee", reverse_late, "refused-key")
    assert isinstance(again, Refused)
    assert again.replayed
    assert again.reason == refused.reason
    found = client.look_up("refused-key")
    assert isinstance(found, Found)
    assert not found.applied
    assert found.refused == refused.reason
    raw = http.post(
        "/effects/reverse_fee", json={"arguments": reverse_late}, headers={"Idempotency-Key": "refused-key"}
    )
    assert raw.status_code == 422
    assert raw.json()["key"] == "refused-key"


def test_an_unknown_action_is_refused_in_a_sentence(client: BankClient, http: httpx.Client) -> None:
    reply = http.post("/effects/print_money", json={"arguments": {}})
    assert reply.status_code == 404
    assert "print_money" in reply.json()["refused"]
    assert isinstance(client.apply("print_money", {}, "print"), Refused)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"not json", "k"),
        (b'{"arguments": [1]}', "k"),
        (b'{"arguments": {"text": NaN}}', "k"),
        (b'{"arguments": {"text": "\\ud800"}}', "k"),
        (b'{"arguments": {"text": "x"}}', ""),
        (b'{"arguments": {"text": "x"}}', "k" * 256),
    ],
)
def test_a_malformed_request_is_400_and_leaves_no_trace(http: httpx.Client, content: bytes, key: str) -> None:
    before = http.get("/health").json()["version"]
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    assert http.post("/effects/notify", content=content, headers=headers).status_code == 400
    assert http.get("/health").json()["version"] == before


GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "reverse_fee": {"fee_transaction_id": "txn-77120"},
    "issue_fee_credit": {"account_id": "9482", "amount": "35.00"},
    "refund": {"capture_id": "cap-31007", "amount": "1.00"},
    "reserve_window": {"window": "w-each"},
    "release_window": {"window": "w-each"},
    "reserve_reviewer": {"reviewer": "r-each"},
    "release_reviewer": {"reviewer": "r-each"},
    "notify": {"text": "hello"},
    "deploy": {"release": "r1"},
    "observe_health": {},
    "run_check": {"check": "smoke"},
    "close_ticket": {"ticket_id": "T-1"},
    "open_account": {"account_id": "each", "amount": "1.00"},
    "charge_fee": {"account_id": "9482", "fee_transaction_id": "each", "amount": "1.00"},
    "capture_payment": {"account_id": "9482", "capture_id": "each", "amount": "1.00"},
    "set_condition": {"name": "each", "ok": True},
}


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_applies_and_refuses_what_it_lacks(client: BankClient, action: str) -> None:
    assert isinstance(client.apply(action, GOOD_ARGUMENTS[action], f"each-{action}"), Applied)
    for missing in ACTIONS[action][0]:
        rest = {name: value for name, value in GOOD_ARGUMENTS[action].items() if name != missing}
        assert isinstance(client.apply(action, rest, f"each-{action}-without-{missing}"), Refused)


@pytest.mark.parametrize("amount", [0, -1, "1.005", "much", True, None, "1e12", "Infinity", [], "1e99999999"])
def test_an_amount_that_is_none_is_refused(client: BankClient, fee: str, amount: object) -> None:
    assert isinstance(client.apply("issue_fee_credit", {"account_id": fee, "amount": amount}, None), Refused)
    assert balance(client, fee) == "65.00"


def test_refunds_stop_at_what_was_captured(client: BankClient, fee: str) -> None:
    client.apply("capture_payment", {"account_id": fee, "capture_id": fee, "amount": "50.00"}, None)
    refund = {"capture_id": fee, "amount": "20.00"}
    assert isinstance(client.apply("refund", refund, f"1-{fee}"), Applied)
    assert isinstance(client.apply("refund", refund, f"2-{fee}"), Applied)
    assert isinstance(client.apply("refund", refund, f"3-{fee}"), Refused)


# Resources


def test_a_window_is_exclusive_and_releasing_what_is_gone_says_so(client: BankClient) -> None:
    window = {"window": "sat/02:00"}
    held = client.apply("reserve_window", window, "w1")
    assert isinstance(held, Applied)
    assert isinstance(client.apply("reserve_window", window, "w2"), Refused)
    seen = client.resource("window", "sat/02:00")
    assert isinstance(seen, Resource)
    assert seen.exists
    assert seen.holder == held.external_id
    mine = window | {"reservation": held.external_id}
    outcomes = [client.apply("release_window", mine, key) for key in ("w3", "w4")]
    assert [each.result["outcome"] for each in outcomes if isinstance(each, Applied)] == ["RELEASED", "ALREADY_GONE"]
    gone = client.resource("window", "sat/02:00")
    assert isinstance(gone, Resource)
    assert not gone.exists
    assert gone.version > seen.version


def test_a_release_leaves_a_later_reservation_of_another_alone(client: BankClient) -> None:
    window = {"window": "sun"}
    first = client.apply("reserve_window", window, "s1")
    assert isinstance(first, Applied)
    client.apply("release_window", window | {"reservation": first.external_id}, "s2")
    second = client.apply("reserve_window", window, "s3")
    assert isinstance(second, Applied)
    late = client.apply("release_window", window | {"reservation": first.external_id}, "s4")
    assert isinstance(late, Applied)
    assert late.result["outcome"] == "ALREADY_GONE"
    seen = client.resource("window", "sun")
    assert isinstance(seen, Resource)
    assert seen.holder == second.external_id


def test_a_failing_condition_is_what_health_and_checks_report(client: BankClient) -> None:
    client.apply("set_condition", {"name": "staging", "ok": False}, None)
    health = client.apply("observe_health", {"target": "staging"}, None)
    assert isinstance(health, Applied)
    assert health.result["healthy"] is False
    client.apply("set_condition", {"name": "staging", "ok": True}, None)
    check = client.apply("run_check", {"check": "staging"}, None)
    assert isinstance(check, Applied)
    assert check.result["passed"] is True


# Faults


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (FaultKind.TIMEOUT_AFTER_APPLY, DoubtCause.TIMEOUT),
        (FaultKind.DROP_REPLY, DoubtCause.CONNECTION_LOST),
        (FaultKind.ERROR_500_AFTER_APPLY, DoubtCause.SERVER_ERROR),
    ],
)
def test_a_reply_lost_after_the_effect_is_in_doubt_and_a_resend_finds_it(
    client: BankClient, fee: str, kind: FaultKind, cause: DoubtCause
) -> None:
    key = f"k-{fee}"
    client.inject(kind, action="reverse_fee", count=1)
    # Only the reply that never comes is worth giving up on early.
    timeout_s = SHORT_S if cause is DoubtCause.TIMEOUT else DEADLINE_S
    assert cause_of(reverse(client, fee, key, timeout_s)) is cause
    until(lambda: isinstance(client.look_up(key), Found))
    found = client.look_up(key)
    assert isinstance(found, Found)
    assert found.applied
    again = reverse(client, fee, key)
    assert isinstance(again, Applied)
    assert again.replayed
    assert again.external_id == found.external_id
    assert balance(client, fee) == "100.00"


def test_a_timeout_before_the_effect_looks_the_same_and_left_nothing(client: BankClient, fee: str) -> None:
    client.inject(FaultKind.TIMEOUT_BEFORE_APPLY, count=1)
    assert cause_of(reverse(client, fee, f"k-{fee}", SHORT_S)) is DoubtCause.TIMEOUT
    assert isinstance(client.look_up(f"k-{fee}"), NotFound)
    assert balance(client, fee) == "65.00"


def test_a_slow_request_lands_after_its_caller_gave_up_and_after_not_found(client: BankClient, fee: str) -> None:
    client.inject(FaultKind.SLOW, count=1, delay_s=2.0)
    assert cause_of(reverse(client, fee, f"k-{fee}", SHORT_S)) is DoubtCause.TIMEOUT
    assert isinstance(client.look_up(f"k-{fee}"), NotFound)
    until(lambda: isinstance(client.look_up(f"k-{fee}"), Found))
    assert balance(client, fee) == "100.00"


@pytest.mark.parametrize("close", [False, True])
def test_a_bank_that_is_down_serves_only_faults_and_health(
    client: BankClient, http: httpx.Client, fee: str, close: bool
) -> None:
    client.inject(FaultKind.DOWN, close=close)
    cause = DoubtCause.CONNECTION_LOST if close else DoubtCause.SERVER_ERROR
    assert cause_of(reverse(client, fee, f"k-{fee}")) is cause
    assert isinstance(client.look_up(f"k-{fee}"), Unreachable)
    assert isinstance(client.account(fee), Unreachable)
    assert isinstance(client.resource("window", "w"), Unreachable)
    assert http.get("/health").status_code == 200
    client.clear_faults()
    assert isinstance(client.look_up(f"k-{fee}"), NotFound)


def test_a_stale_look_up_says_not_found_and_says_as_of_when(client: BankClient, fee: str) -> None:
    client.inject(FaultKind.STALE_LOOKUP, count=2)
    assert isinstance(reverse(client, fee, f"k-{fee}"), Applied)
    held = client.apply("reserve_window", {"window": fee}, f"w-{fee}")
    assert isinstance(held, Applied)
    stale = client.look_up(f"k-{fee}")
    unseen = client.resource("window", fee)
    fresh = client.look_up(f"k-{fee}")
    assert isinstance(stale, NotFound)
    assert isinstance(fresh, Found)
    assert stale.as_of < fresh.version <= fresh.as_of
    assert unseen == Resource("window", fee, False, None, stale.as_of)


def test_a_forgotten_key_lets_the_duplicate_through_and_look_up_by_reference_shows_both(
    client: BankClient, http: httpx.Client, fee: str
) -> None:
    key = f"k-{fee}"
    first = reverse(client, fee, key)
    client.inject(FaultKind.FORGET_KEY, count=1)
    second = reverse(client, fee, key)
    assert isinstance(first, Applied)
    assert isinstance(second, Applied)
    assert not second.replayed
    assert balance(client, fee) == "135.00"
    rows = http.get("/effects", params={"reference": key}).json()["effects"]
    assert [row["external_id"] for row in rows] == [first.external_id, second.external_id]
    found = client.look_up(key)
    assert isinstance(found, Found)
    assert found.matches == 2


def test_a_fault_strikes_only_its_action_and_only_so_often(client: BankClient, http: httpx.Client, fee: str) -> None:
    client.inject(FaultKind.ERROR_500_AFTER_APPLY, action="notify", count=2)
    assert isinstance(reverse(client, fee, None), Applied)
    replies = [client.apply("notify", {"text": "x"}, None) for _ in range(3)]
    assert [type(reply) for reply in replies] == [InDoubt, InDoubt, Applied]
    assert http.get("/faults").json() == {"faults": []}


def test_a_fault_with_seconds_ends_by_itself(client: BankClient) -> None:
    client.inject(FaultKind.DOWN, seconds=1.0)
    assert isinstance(client.look_up("k"), Unreachable)
    until(lambda: isinstance(client.look_up("k"), NotFound))


def test_a_caller_who_never_gives_up_is_cut_off_in_the_end(tmp_path: Path) -> None:
    with BankProcess(tmp_path / "ledger", hold_s_max=SHORT_S) as bank, BankClient(bank.url) as client:
        client.inject(FaultKind.TIMEOUT_AFTER_APPLY)
        doubt = reverse(client, "txn-77120", "k", DEADLINE_S)
        assert cause_of(doubt) is DoubtCause.CONNECTION_LOST
        assert isinstance(client.look_up("k"), Found)


# Crashes


def test_kill_9_between_effect_and_reply_keeps_the_effect(tmp_path: Path) -> None:
    with BankProcess(tmp_path / "ledger") as bank, BankClient(bank.url) as client:
        client.inject(FaultKind.TIMEOUT_AFTER_APPLY, count=1)
        ends: list[object] = []
        caller = threading.Thread(target=lambda: ends.append(reverse(client, "txn-77120", "k", DEADLINE_S)))
        caller.start()
        until(lambda: b'"k"' in bank.ledger.read_bytes())
        bank.restart()
        caller.join(DEADLINE_S)
        assert [cause_of(end) for end in ends] == [DoubtCause.CONNECTION_LOST]
        again = reverse(client, "txn-77120", "k")
        assert isinstance(again, Applied)
        assert again.replayed
        assert balance(client, "9482") == "1200.00"


def test_a_killed_bank_is_not_sent_to_until_it_is_back_at_the_same_address(tmp_path: Path) -> None:
    with BankProcess(tmp_path / "ledger") as bank, BankClient(bank.url) as client:
        bank.kill()
        assert isinstance(reverse(client, "txn-77120", "k"), NotSent)
        bank.restart()
        assert isinstance(reverse(client, "txn-77120", "k"), Applied)


PARENT = """
import sys
from pathlib import Path
from joingate.sample.bank import BankProcess
bank = BankProcess(Path(sys.argv[1]))
bank.start()
print(bank.url, flush=True)
sys.stdin.read()
"""


def test_the_bank_dies_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "ledger")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().decode().strip()
        with BankClient(url) as client:
            assert isinstance(client.look_up("k"), NotFound)
            os.kill(parent.pid, signal.SIGKILL)
            until(lambda: isinstance(reverse(client, "no-such-fee", None), NotSent))


# Key horizon, tombstones, statement


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 31, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bank(tmp_path: Path, clock: Clock) -> Iterator[Bank]:
    with Ledger(tmp_path / "ledger") as ledger:
        yield Bank(ledger, BankOptions(key_horizon_s=60), clock)


def credit(bank: Bank, key: str) -> Outcome:
    done = bank.perform("issue_fee_credit", {"account_id": "9482", "amount": "1.00"}, key)
    assert isinstance(done, Outcome)
    return done


def test_past_the_horizon_a_key_is_forgotten_but_the_record_stays(bank: Bank, clock: Clock) -> None:
    first = credit(bank, "k")
    clock.now += timedelta(seconds=59)
    assert credit(bank, "k").replayed
    clock.now += timedelta(seconds=1)
    assert bank.by_key("k") is None
    second = credit(bank, "k")
    assert not second.replayed
    assert bank.by_reference("k") == [first.entry, second.entry]


def test_past_the_horizon_a_refusal_and_a_tombstone_still_hold(bank: Bank, clock: Clock) -> None:
    refused = bank.perform("reverse_fee", {"fee_transaction_id": "none"}, "refused")
    bank.tombstone("dead")
    clock.now += timedelta(days=365)
    assert isinstance(refused, Outcome)
    assert bank.perform("reverse_fee", {"fee_transaction_id": "none"}, "refused") == Outcome(refused.entry, True)
    assert credit(bank, "dead").entry.kind is EntryKind.TOMBSTONE


def test_a_tombstone_comes_too_late_for_an_effect_even_one_whose_key_is_forgotten(bank: Bank, clock: Clock) -> None:
    made = credit(bank, "k")
    clock.now += timedelta(seconds=60)
    assert bank.by_key("k") is None
    assert bank.tombstone("k") == KeyConflict(made.entry)


def test_a_tombstone_over_http_refuses_the_key_for_good(tmp_path: Path) -> None:
    with (
        BankProcess(tmp_path / "ledger") as bank,
        BankClient(bank.url) as client,
        httpx.Client(base_url=bank.url, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)) as http,
    ):
        assert http.post("/tombstones/acme%2Fk").status_code == 200
        assert http.post("/tombstones/acme/k").headers["Idempotent-Replay"] == "true"
        bank.restart()
        assert isinstance(reverse(client, "txn-77120", "acme/k"), Refused)
        found = client.look_up("acme/k")
        assert isinstance(found, Found)
        assert not found.applied
        assert isinstance(reverse(client, "txn-77120", "used"), Applied)
        assert http.post("/tombstones/used").status_code == 409


def test_a_key_horizon_given_to_the_process_is_kept(tmp_path: Path) -> None:
    with BankProcess(tmp_path / "ledger", key_horizon_s=SHORT_S) as bank, BankClient(bank.url) as client:
        assert isinstance(reverse(client, "txn-77120", "k"), Applied)
        until(lambda: isinstance(client.look_up("k"), NotFound))
        again = reverse(client, "txn-77120", "k")
        assert isinstance(again, Applied)
        assert not again.replayed


def test_a_statement_is_closed_once_nothing_can_fall_into_it_any_more(bank: Bank, clock: Clock) -> None:
    end = clock.now
    first = credit(bank, "k1")
    assert bank.statement("9482", end)[1] is False
    clock.now += timedelta(seconds=1)
    lines, closed = bank.statement("9482", end)
    assert closed
    assert lines[-1].entry == first.entry
    clock.now = end - timedelta(hours=1)
    later = credit(bank, "k2")
    assert later.entry.at > end, "a clock that steps back must not write into a closed period"
    assert bank.statement("9482", end)[0] == lines


def test_a_statement_as_csv_and_json_says_the_same(client: BankClient, http: httpx.Client, fee: str) -> None:
    assert isinstance(reverse(client, fee, f"k-{fee}"), Applied)
    period = {"account": fee, "until": "2999-01-01T00:00:00Z"}
    as_csv = http.get("/statement", params=period)
    as_json = http.get("/statement", params=period | {"format": "json"}).json()
    rows = list(csv.DictReader(io.StringIO(as_csv.text)))
    assert [(row["action"], row["amount"], row["balance"]) for row in rows] == [
        ("open_account", "100.00", "100.00"),
        ("charge_fee", "-35.00", "65.00"),
        ("reverse_fee", "35.00", "100.00"),
    ]
    assert rows[-1]["key"] == f"k-{fee}"
    assert [row["external_id"] for row in rows] == [row["external_id"] for row in as_json["lines"]]
    assert as_csv.headers["Statement-Closed"] == "false"
    assert as_json["closed"] is False
    assert http.get("/statement", params={"until": "2999-01-01T00:00:00"}).status_code == 400


def test_an_effect_can_be_asked_for_by_the_banks_own_id(client: BankClient, http: httpx.Client, fee: str) -> None:
    done = reverse(client, fee, f"k-{fee}")
    assert isinstance(done, Applied)
    row = http.get(f"/effects/{done.external_id}").json()
    assert (row["key"], row["state"], row["amount"]) == (f"k-{fee}", "APPLIED", "35.00")
    assert http.get("/effects/bank-99999999").json()["state"] == "NOT_FOUND"
