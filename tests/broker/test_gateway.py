"""A real MCP client, the official SDK's, drives the gateway over stdio and HTTP, on a real broker with the bank."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from joingate import deployment
from joingate.gateway.adapters import HttpGate, gated
from joingate.gateway.tokens import new_token
from joingate.processes import Crew
from joingate.sample.client import BankClient
from joingate.sample.faults import FaultKind
from joingate.scenarios.world import demo_catalogue
from joingate.settings import load_settings

pytestmark = pytest.mark.broker
READY_S_MAX = 90.0
FEE = "35.00"


@dataclass
class World:
    """Gate, read side, reconciler, bank with executors, and gateway, each a process of its own."""

    environment: dict[str, str]
    url: str
    bank_url: str
    token: str

    def customer(self) -> tuple[str, str]:
        """An account and the fee that was charged to it."""
        name = uuid.uuid4().hex[:8]
        account, fee = f"acc-{name}", f"txn-{name}"
        with BankClient(self.bank_url, timeout_s=5.0) as bank:
            bank.apply("open_account", {"account_id": account, "amount": "1200.00"}, key=f"open-{name}")
            bank.apply(
                "charge_fee", {"account_id": account, "fee_transaction_id": fee, "amount": FEE}, key=f"fee-{name}"
            )
        return account, fee

    def credits(self, account: str) -> list[str]:
        """What the bank's own books say was given back."""
        with BankClient(self.bank_url, timeout_s=5.0) as bank:
            there: Any = bank.account(account)
        return [str(one["amount"]) for one in there.entries if one["action"] == "reverse_fee"]


@pytest.fixture(scope="module")
def world(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("gateway")
    prefix = f"t-{uuid.uuid4().hex[:12]}."
    token, entry = new_token("acme", "planner", "planner-7")
    tokens = folder / "tokens.jsonl"
    tokens.write_text(entry.line() + "\n")
    environment = {
        "BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": prefix, "JOINGATE_DATA_DIR": str(folder),
        "JOINGATE_CATALOGUE": "demo", "JOINGATE_GATEWAY_TOKENS": str(tokens), "JOINGATE_GATEWAY_TOKEN": token,
    }  # fmt: skip
    deployment.create_topics(load_settings(bootstrap_servers=bootstrap, prefix=prefix), demo_catalogue())
    crew = Crew(folder)
    try:
        serve = crew.start("serve", ["serve", "--port", "0"], environment)
        gate = crew.start("gate", ["gate"], environment)
        sample = crew.start("sample", ["sample"], environment)
        bank_url = str(crew.wait_ready(sample, READY_S_MAX, lambda: False)["url"])
        environment["JOINGATE_DOWNSTREAMS"] = json.dumps({"bank": bank_url})
        environment["JOINGATE_API_URL"] = str(crew.wait_ready(serve, READY_S_MAX, lambda: False)["url"])
        reconcile = crew.start("reconcile", ["reconcile"], environment)
        gateway = crew.start("gateway", ["gateway", "--port", "0"], environment)
        url = str(crew.wait_ready(gateway, READY_S_MAX, lambda: False)["url"])
        crew.wait_ready(gate, READY_S_MAX, lambda: False)
        crew.wait_ready(reconcile, READY_S_MAX, lambda: False)
        yield World(environment, url, bank_url, token)
        crew.check()
    finally:
        crew.stop()


async def asked(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    told = await client.call_tool(tool, given)
    assert told.structured_content is not None
    return dict(told.structured_content)


async def until(client: Client, told: dict[str, Any], state: str) -> dict[str, Any]:
    """Look again as the answers say, until the state is there."""
    deadline = time.monotonic() + 60.0
    while (seen := await asked(client, "look_again", id=told["operation_id"]))["state"] != state:
        assert time.monotonic() < deadline, seen
        assert seen["state"] in ("PENDING", "IN_DOUBT")
        await anyio.sleep(0.2)
    return seen


async def stubborn(client: Client, fee: str) -> dict[str, Any]:
    """A model that asks again, plans anew, and would not take PENDING for an answer."""
    first = await asked(client, "reverse_fee", fee_transaction_id=fee)
    assert first["state"] == "PENDING"
    again = await asked(client, "reverse_fee", fee_transaction_id=f" {fee} ")
    wish = await asked(client, "state_wish", kind="complaint", entity=fee, objective="give the fee back at once")
    steps = [{"name": "credit", "action": "reverse_fee", "arguments": {"fee_transaction_id": fee}}]
    plan = await asked(client, "propose_plan", intent_id=wish["intent_id"], steps=steps)
    anew = await asked(client, "ask_step", intent_id=wish["intent_id"], step=plan["told"]["steps"]["credit"])
    assert {again["operation_id"], anew["operation_id"]} == {first["operation_id"]}
    return first


@pytest.mark.slow
@pytest.mark.parametrize("door", ["stdio", "http"])
def test_one_credit_whatever_the_model_does(world: World, door: str, tmp_path: Path) -> None:
    account, fee = world.customer()

    async def drive() -> None:
        if door == "stdio":
            words = ["-m", "joingate", "gateway", "--stdio"]
            with (tmp_path / "stdio.log").open("w") as log:
                server = StdioServerParameters(command=sys.executable, args=words, env=_environment(world))
                async with Client(stdio_client(server, errlog=log)) as client:
                    await play(client)
        else:
            headers = {"Authorization": f"Bearer {world.token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30.0) as web,
                Client(streamable_http_client(f"{world.url}/mcp", http_client=web)) as client,
            ):
                await play(client)

    async def play(client: Client) -> None:
        assert "reverse_fee" in {one.name for one in (await client.list_tools()).tools}
        told = await until(client, await stubborn(client, fee), "DONE")
        assert "external_id" not in told
        assert (await asked(client, "reverse_fee", fee_transaction_id=fee))["state"] == "DONE"

    anyio.run(drive)
    assert world.credits(account) == [FEE]


@pytest.mark.slow
def test_a_lost_reply_is_told_as_a_doubt_and_ends_with_one_credit(world: World) -> None:
    """The bank does it and its answer is lost; a gated tool over HTTP tells that honestly, and it ends by evidence."""
    account, fee = world.customer()

    def reverse(fee_transaction_id: str) -> dict[str, Any]:
        """Give a fee back."""
        raise AssertionError("never called by a model")

    with BankClient(world.bank_url, timeout_s=5.0) as bank:
        bank.inject(FaultKind.TIMEOUT_AFTER_APPLY, action="reverse_fee", count=1)
    tool = gated(reverse, HttpGate(world.url, world.token), action="reverse_fee")
    states = []
    deadline = time.monotonic() + 90.0
    while not states or states[-1] != "DONE":
        assert time.monotonic() < deadline, states
        states.append(tool(fee)["state"])
        time.sleep(0.1)
    assert set(states) <= {"PENDING", "IN_DOUBT", "DONE"}
    assert world.credits(account) == [FEE]


@pytest.mark.slow
def test_the_wrong_token_opens_neither_door(world: World) -> None:
    for path in ("/v1/reverse_fee", "/mcp"):
        assert httpx.post(f"{world.url}{path}", json={}, trust_env=False).status_code == 401


def _environment(world: World) -> dict[str, str]:
    import os

    return {**world.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
