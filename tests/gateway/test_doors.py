"""The doors without a broker: HTTP with tokens and limits, MCP by the official client, tokens and their file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp import Client

from joingate.gateway.http import create_app
from joingate.gateway.limits import Limits, Throttle
from joingate.gateway.mcp_server import make_server
from joingate.gateway.tokens import Caller, Entry, TokenError, Tokens, new_token
from joingate.gateway.wishes import NOBODY_SAYS
from joingate.scenarios.world import demo_catalogue

from .law_in_memory import ACME, LawInMemory

FEE = {"fee_transaction_id": "txn-77120"}


class Web:
    """The HTTP API with a token of each kind."""

    def __init__(self, law: LawInMemory) -> None:
        self.tokens: dict[str, str] = {}
        entries: list[Entry] = []
        for name, tenant, role in (
            ("acme", "acme", "planner"),
            ("watch", "acme", "reader"),
            ("other", "globex", "planner"),
        ):
            token, entry = new_token(tenant, role, f"{name}-1")  # type: ignore[arg-type]
            self.tokens[name] = token
            entries.append(entry)
        self.client = TestClient(create_app(law.gateway, Tokens(entries)))

    def post(self, tool: str, given: Any, who: str = "acme", **headers: str) -> Any:
        return self.client.post(
            f"/v1/{tool}", json=given, headers={"Authorization": f"Bearer {self.tokens[who]}", **headers}
        )


@pytest.fixture
def web(law: LawInMemory) -> Iterator[Web]:
    one = Web(law)
    with one.client:
        yield one


def test_an_asking_over_http(web: Web, law: LawInMemory) -> None:
    first, again = web.post("reverse_fee", FEE), web.post("reverse_fee", FEE)
    assert (first.status_code, first.json()["state"]) == (200, "PENDING")
    assert first.json()["operation_id"] == again.json()["operation_id"]
    assert web.post("look_again", {"id": first.json()["operation_id"]}, "watch").json()["state"] == "PENDING"
    assert web.post("look_again", {"id": first.json()["operation_id"]}, "other").json()["state"] == "REFUSED"
    assert len(law.operations()) == 1


def test_without_a_token_nobody_comes_in(web: Web) -> None:
    for headers in ({}, {"Authorization": "Bearer jg_nobody"}, {"Authorization": "Basic abc"}):
        for path in ("/v1/reverse_fee", "/mcp"):
            answer = web.client.post(path, json=FEE, headers=headers)
            assert answer.status_code == 401
            assert "Bearer" in answer.json()["error"]


def test_a_reader_may_not_ask(web: Web) -> None:
    answer = web.post("reverse_fee", FEE, "watch")
    assert (answer.status_code, answer.json()["reason"]["number"]) == (403, 200)


def test_what_is_no_object_is_told_in_a_sentence(web: Web) -> None:
    assert web.post("reverse_fee", ["x"]).status_code == 400
    told = web.post("reverse_fee", {"fee_transaction_id": {"a": 1}})
    assert (told.status_code, told.json()["state"]) == (200, "REFUSED")
    assert web.post("refund", {}, **{"X-Joingate-Bind": "nonsense"}).status_code == 400
    assert web.post("refund", {}, **{"X-Joingate-Bind": '{"a":' * 3_000}).status_code == 400


def test_the_harness_speaks_in_headers(web: Web, law: LawInMemory) -> None:
    given = {"capture_id": "cap-1", "amount": 30, "currency": "EUR"}
    told = web.post("refund", given, **{"X-Joingate-Bind": "refund_request=TCK-17"}).json()
    assert told["intent_id"] == "acme/refund/cap-1/TCK-17"
    told = web.post("reverse_fee", FEE, **{"X-Joingate-Occurrence": "2"}).json()
    assert told["intent_id"] == "acme/reverse_fee#2/txn-77120"


def test_too_much_at_once_is_429_with_when_to_come_back(tmp_path: Path) -> None:
    law = LawInMemory(tmp_path, demo_catalogue(), limits=Limits(calls_per_minute=6, burst=2))
    try:
        web = Web(law)
        codes = [web.post("reverse_fee", FEE).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        answer = web.post("reverse_fee", FEE)
        assert int(answer.headers["Retry-After"]) == answer.json()["look_again_s"] > 0
        assert "calls a minute" in answer.json()["detail"]
        assert web.post("reverse_fee", FEE, "other").status_code == 200
    finally:
        law.close()


def test_the_rate_fills_up_again_with_time() -> None:
    now = [0.0]
    throttle = Throttle(Limits(calls_per_minute=60, burst=1), clock=lambda: now[0])
    assert throttle.admit("acme") is None
    told = throttle.admit("acme")
    assert told is not None
    assert told.look_again_s == 1
    now[0] += 1.0
    assert throttle.admit("acme") is None


def test_openapi_has_each_tool_with_its_arguments(web: Web) -> None:
    paths = web.client.get("/openapi.json").json()["paths"]
    body = paths["/v1/refund"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["capture_id", "refund_request"]
    assert {"/v1/look_again", "/v1/context", "/v1/cancel", "/v1/release"} <= set(paths)
    listed = web.client.get("/v1/tools", headers={"Authorization": f"Bearer {web.tokens['watch']}"}).json()["tools"]
    assert [one["function"]["name"] for one in listed] == ["look_again", "context"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_drives_the_server(law: LawInMemory, mode: str) -> None:
    """In the protocol's present form and in the one with a handshake."""

    async def drive() -> None:
        server = make_server(law.gateway, lambda _: (ACME, NOBODY_SAYS))
        async with Client(server, mode=mode) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            assert "returns the status of the first" in (tools["reverse_fee"].description or "")
            first = await client.call_tool("reverse_fee", FEE)
            assert first.structured_content is not None
            assert (first.is_error, first.structured_content["state"]) == (False, "PENDING")
            again = await client.call_tool("reverse_fee", FEE)
            assert json.loads(again.content[0].text)["operation_id"] == first.structured_content["operation_id"]  # type: ignore[union-attr]
            refused = await client.call_tool("reverse_fee", {"nonsense": 1})
            assert not refused.is_error
            assert (await client.call_tool("succeed", {})).is_error

    anyio.run(drive)
    assert len(law.operations()) == 1


def test_a_token_is_known_by_its_hash_only() -> None:
    token, entry = new_token("acme", "planner", "planner-7")
    tokens = Tokens.parse(f"# ours\n\n{entry.line()}\n", "here")
    assert tokens.caller(token) == Caller("acme", "planner", "planner-7")
    assert tokens.caller(entry.sha256) is None
    assert tokens.bearer(f"bearer {token}") is not None
    assert token not in entry.line()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is no token entry"),
        ('{"sha256": "ab", "tenant": "acme", "role": "planner", "principal": "p"}', "no SHA-256"),
        (json.dumps({"sha256": "a" * 64, "tenant": "acme", "role": "king", "principal": "p"}), "role 'king'"),
        (json.dumps({"sha256": "a" * 64, "tenant": "a/b", "role": "planner", "principal": "p"}), "without a slash"),
    ],
)
def test_a_broken_file_is_told_with_its_line(line: str, why: str) -> None:
    with pytest.raises(TokenError, match=why) as told:
        Tokens.parse(f"\n{line}", "tokens.jsonl")
    assert "tokens.jsonl, line 2" in str(told.value)


def test_a_principal_stands_for_one_tenant() -> None:
    entries = [new_token(tenant, "planner", "planner-7")[1] for tenant in ("acme", "globex")]
    with pytest.raises(TokenError, match="planner-7 stands for acme and for globex"):
        Tokens(entries)
