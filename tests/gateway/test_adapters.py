"""A scripted model with gated tools: it times out, paraphrases, invents a success, tries again; one effect results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from joingate.gateway.adapters import Gate, HttpGate, LocalGate, function_tools, gated
from joingate.gateway.tools import RULES
from joingate.gateway.wishes import Harness

from .law_in_memory import ACME, LawInMemory


def issue_refund(capture_id: str, amount: float, currency: str, refund_request: str, note: str = "") -> dict[str, Any]:
    """Give money back."""
    raise AssertionError("the tool itself must never be called by a model")


REFUND = {"capture_id": "cap-1", "amount": 35.0, "currency": "EUR"}
SCRIPT: list[dict[str, Any]] = [
    {**REFUND},
    {**REFUND, "note": "the salary came one day late"},  # in other words, after a time-out
    {**REFUND, "capture_id": " cap-1 "},  # planned again, spelt another way
    {**REFUND, "note": "I have already refunded this, just confirming"},  # believes that it is done
]


class LostReply(LocalGate):
    """The first call gets there, and its answer is lost on the way back."""

    calls = 0

    def call(self, name: str, arguments: Mapping[str, Any], harness: Harness) -> dict[str, Any]:
        told = super().call(name, arguments, harness)
        self.calls += 1
        return {"state": "PENDING", "say": "It is not known yet.", "look_again_s": 1} if self.calls == 1 else told


def test_function_calling_in_one_line(law: LawInMemory) -> None:
    gate: Gate = LostReply(law.gateway, ACME)
    refund = gated(issue_refund, gate, action="refund", bind={"refund_request": "TCK-17"})
    told = [refund(**arguments) for arguments in SCRIPT]  # type: ignore[call-arg]
    assert {one["state"] for one in told} == {"PENDING"}
    assert len({one["operation_id"] for one in told[1:]}) == 1
    assert len(law.operations()) == 1
    law.settle(told[-1]["operation_id"])
    assert refund(**SCRIPT[1])["state"] == "DONE"  # type: ignore[call-arg]
    assert len(law.operations()) == 1


def test_a_gated_function_looks_like_the_tool_and_hides_what_is_bound(law: LawInMemory) -> None:
    refund = gated(issue_refund, LocalGate(law.gateway, ACME), action="refund", bind={"refund_request": "TCK-17"})
    assert refund.__name__ == "issue_refund"
    assert list(inspect.signature(refund).parameters) == ["capture_id", "amount", "currency", "note"]
    assert (refund.__doc__ or "").startswith("Give money back.")
    assert RULES in (refund.__doc__ or "")
    assert not hasattr(refund, "__wrapped__")
    told = refund(capture_id="cap-1", amount=35.0, currency="EUR", refund_request="TCK-18")
    assert told["state"] == "NOT_TAKEN"
    assert not law.operations()


def test_two_honest_requests_of_equal_amount_are_two(law: LawInMemory) -> None:
    """Control: another ticket of the person's is another wish."""
    gate = LocalGate(law.gateway, ACME)
    for ticket in ("TCK-17", "TCK-18"):
        refund = gated(issue_refund, gate, action="refund", bind=lambda ticket=ticket: {"refund_request": ticket})  # type: ignore[misc]
        assert refund(**REFUND)["state"] == "PENDING"  # type: ignore[call-arg]
    assert len(law.operations()) == 2


async def _async_tool(fee_transaction_id: str) -> str:
    """Give a fee back."""
    raise AssertionError("never called")


def test_an_async_tool_stays_one(law: LawInMemory) -> None:
    import asyncio

    reverse: Any = gated(_async_tool, LocalGate(law.gateway, ACME), action="reverse_fee")
    assert asyncio.run(reverse("txn-1"))["state"] == "PENDING"


def test_what_is_no_tool_is_refused(law: LawInMemory) -> None:
    with pytest.raises(TypeError, match="neither a function nor a LangChain tool"):
        gated(object(), LocalGate(law.gateway, ACME), action="refund")


def test_a_gateway_that_is_away_is_an_answer(unused_tcp_port: int) -> None:
    told = HttpGate(f"http://127.0.0.1:{unused_tcp_port}", "no-token").call("refund", {}, Harness())
    assert told["state"] == "NOT_TAKEN"
    assert "same wish" in told["next"]


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- LangGraph -------------------------------------------------------------------------------------------------------


class ScriptedModel(BaseChatModel):
    """A model without a network: it asks as the script says, whatever it is answered, and then claims success."""

    script: list[dict[str, Any]]
    name_of_tool: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        turn = sum(isinstance(one, AIMessage) for one in messages)
        if turn < len(self.script):
            call = {"name": self.name_of_tool, "args": self.script[turn], "id": f"call-{turn}"}
            message = AIMessage("The credit failed, I will issue it again.", tool_calls=[call])
        else:
            message = AIMessage("Done! The customer has the money.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_a_graph_whose_model_tries_again_has_one_effect(law: LawInMemory) -> None:
    @tool
    def issue_credit(capture_id: str, amount: float, currency: str, refund_request: str, note: str = "") -> str:
        """Give money back."""
        raise AssertionError("the tool itself must never be called by a model")

    gate = LostReply(law.gateway, ACME)
    credit = gated(issue_credit, gate, action="refund", bind={"refund_request": "TCK-17"})
    assert "refund_request" not in credit.args
    assert RULES in credit.description
    model = ScriptedModel(script=SCRIPT, name_of_tool="issue_credit")

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def goes_on(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([credit]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", goes_on)
    graph.add_edge("tools", "think")
    ended = graph.compile().invoke({"messages": [HumanMessage("I was charged $35, give it back.")]})

    told = [json.loads(str(one.content)) for one in ended["messages"] if isinstance(one, ToolMessage)]
    assert [one["state"] for one in told] == ["PENDING"] * len(SCRIPT)
    assert len(law.operations()) == 1
    # Whatever the model claims at the end, the ledger says that it is under way.
    assert function_tools(gate, "look_again")["look_again"]({"id": told[-1]["operation_id"]})["state"] == "PENDING"
