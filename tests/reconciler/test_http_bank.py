"""The HTTP adapter against the bundled bank: found, refused, several, forgotten keys, stale looks, down, unclear."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from joingate.sample.bank import BankProcess
from joingate.sample.client import Applied, BankClient
from joingate.sample.faults import FaultKind
from joingate_processors.reconciler.answers import (
    Exists,
    Found,
    Gone,
    NotFound,
    PartlyThere,
    Refused,
    Statement,
    Unreachable,
)
from joingate_processors.reconciler.http_bank import HttpBank
from joingate_schemas.decisions import InDoubtRequest

T = TypeVar("T")
Make = Callable[..., InDoubtRequest]
FAR_BACK_MS, FAR_AHEAD_MS = 1_000_000, 4_000_000_000_000


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BankProcess]:
    with BankProcess(tmp_path_factory.mktemp("bank") / "ledger.jsonl") as bank:
        yield bank


@pytest.fixture
def client(bank: BankProcess) -> Iterator[BankClient]:
    with BankClient(bank.url) as client:
        client.clear_faults()
        yield client
        client.clear_faults()


def ask(bank: BankProcess, question: Callable[[HttpBank], Awaitable[T]]) -> T:
    async def scene() -> T:
        adapter = HttpBank(bank.url, timeout_s=5.0)
        try:
            return await question(adapter)
        finally:
            await adapter.close()

    return asyncio.run(scene())


def act(client: BankClient, key: str | None, action: str = "notify", **arguments: str) -> str:
    reply = client.apply(action, arguments or {"text": "x"}, key)
    assert isinstance(reply, Applied)
    return reply.external_id


def test_an_effect_is_found_by_its_key(bank: BankProcess, client: BankClient, make_request: Make) -> None:
    made = act(client, "acme/one")
    answer = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="acme/one")))
    assert isinstance(answer, Found)
    assert (answer.external_ids, answer.key) == ((made,), "acme/one")
    assert answer.source_version is not None


def test_an_effect_is_found_after_the_bank_forgot_its_key(
    bank: BankProcess, client: BankClient, make_request: Make
) -> None:
    """Past the key's horizon "not found by key" is no absence: the record of effects still has it."""
    first = act(client, "k-forgotten")
    client.inject(FaultKind.FORGET_KEY, count=1)
    second = act(client, "k-forgotten")
    client.inject(FaultKind.FORGET_KEY, count=1)
    third = act(client, "k-forgotten")
    answer = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-forgotten")))
    assert isinstance(answer, Found)
    assert answer.external_ids == (first, second, third)


def test_a_refused_key_is_refused(bank: BankProcess, client: BankClient, make_request: Make) -> None:
    client.apply("reverse_fee", {"fee_transaction_id": "no-such-fee"}, "k-refused")
    answer = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-refused")))
    assert isinstance(answer, Refused)


def test_nothing_under_a_key_is_not_found_as_of_a_version(
    bank: BankProcess, client: BankClient, make_request: Make
) -> None:
    before = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-nothing")))
    act(client, None)
    after = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-nothing")))
    assert isinstance(before, NotFound)
    assert isinstance(after, NotFound)
    assert before.source_version is not None
    assert after.source_version == before.source_version + 1


def test_a_stale_look_says_how_old_it_is(bank: BankProcess, client: BankClient, make_request: Make) -> None:
    client.inject(FaultKind.STALE_LOOKUP)
    act(client, "k-stale")
    stale = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-stale")))
    client.clear_faults()
    fresh = ask(bank, lambda adapter: adapter.look_up(make_request(subject_id="k-stale")))
    assert isinstance(stale, NotFound)
    assert isinstance(fresh, Found)
    assert stale.source_version is not None
    assert fresh.source_version is not None
    assert stale.source_version < fresh.source_version


@pytest.mark.parametrize("close", [False, True])
def test_a_bank_that_is_down_is_unreachable(
    bank: BankProcess, client: BankClient, make_request: Make, close: bool
) -> None:
    client.inject(FaultKind.DOWN, close=close)
    request = make_request(resource_refs=["window:w"])
    assert isinstance(ask(bank, lambda adapter: adapter.look_up(request)), Unreachable)
    assert isinstance(ask(bank, lambda adapter: adapter.observe_resource(request)), Unreachable)
    assert isinstance(ask(bank, lambda adapter: adapter.read_statement(request)), Unreachable)


def test_a_reservation_exists_until_it_is_released(bank: BankProcess, client: BankClient, make_request: Make) -> None:
    made = act(client, "k-reserve", "reserve_window", window="production")
    request = make_request(resource_refs=["window:production"], external_ids=[made])
    assert isinstance(ask(bank, lambda adapter: adapter.observe_resource(request)), Exists)
    both = make_request(resource_refs=["window:production", "window:other"])
    assert isinstance(ask(bank, lambda adapter: adapter.observe_resource(both)), PartlyThere)
    act(client, "k-release", "release_window", window="production")
    assert isinstance(ask(bank, lambda adapter: adapter.observe_resource(request)), Gone)


def test_anothers_later_reservation_is_not_ours(bank: BankProcess, client: BankClient, make_request: Make) -> None:
    theirs = act(client, "k-theirs", "reserve_window", window="shared")
    ours = make_request(resource_refs=["window:shared"], external_ids=["bank-ours"])
    answer = ask(bank, lambda adapter: adapter.observe_resource(ours))
    assert isinstance(answer, Gone)
    assert theirs in answer.evidence[0]


def test_a_request_that_names_no_resource_concludes_nothing(
    bank: BankProcess, client: BankClient, make_request: Make
) -> None:
    assert isinstance(ask(bank, lambda adapter: adapter.observe_resource(make_request())), Unreachable)


@pytest.mark.parametrize(("until", "closed", "found"), [(FAR_BACK_MS, True, False), (FAR_AHEAD_MS, False, True)])
def test_a_statement_says_whether_its_period_is_closed(
    bank: BankProcess, client: BankClient, make_request: Make, until: int, closed: bool, found: bool
) -> None:
    """Booked now: not in the period that ended long ago, and in the one that is still open."""
    key = f"k-statement-{until}"
    made = act(client, key, "issue_fee_credit", account_id="9482", amount="1.00")
    request = make_request(subject_id=key, askable_from=until)
    answer = ask(bank, lambda adapter: adapter.read_statement(request))
    assert isinstance(answer, Statement)
    assert (answer.closed, answer.external_ids) == (closed, (made,) if found else ())


def test_nobody_at_the_address_is_unreachable(make_request: Make, tmp_path: Path) -> None:
    with BankProcess(tmp_path / "ledger.jsonl") as gone:
        pass
    assert isinstance(ask(gone, lambda adapter: adapter.look_up(make_request())), Unreachable)
