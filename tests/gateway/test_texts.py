"""What models are told: the texts say what they must, for every tool, whatever the catalogue declares."""

from __future__ import annotations

import pytest

from joingate.gateway.answers import STATES, of_status
from joingate.gateway.tools import LOOKING, RULES, Tool, tools_of
from joingate_schemas.catalogue_file import builtin_catalogue

TOOLS = tools_of(builtin_catalogue())
ASKING = ("state_wish", "propose_plan", "ask_step", *sorted(builtin_catalogue().actions))


@pytest.mark.parametrize(
    "promise",
    [
        "You ask; a gate decides and an executor acts.",
        "One wish is asked for once: asking again in other words, after a time-out, or with a new plan returns the "
        "status of the first and does nothing.",
        "PENDING means that it is under way: tell the person so, do not say that it is done, and call look_again after "
        "look_again_s seconds.",
        "Only DONE is done.",
        "IN_DOUBT means that nobody knows yet: say so, and do not try another way.",
        "You never make up keys or ids.",
    ],
)
def test_the_rules_say(promise: str) -> None:
    assert promise in RULES


@pytest.mark.parametrize("name", ASKING)
def test_every_tool_that_asks_carries_the_rules(name: str) -> None:
    assert TOOLS[name].description.endswith(RULES)


def test_there_is_a_tool_for_each_action_and_the_narrow_ones_and_no_other() -> None:
    general = {
        "state_wish", "propose_plan", "ask_step", "look_again", "context", "cancel", "want_again", "release",
        "transfer", "mark_satisfied", "request_reconciliation",
    }  # fmt: skip
    assert set(TOOLS) == general | set(builtin_catalogue().actions)
    assert {name for name, tool in TOOLS.items() if tool.only_looks} == LOOKING == {"look_again", "context"}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_no_tool_takes_a_key_a_claim_or_a_principal(tool: Tool) -> None:
    names = " ".join(tool.schema["properties"])
    assert not any(word in names for word in ("idempotency", "claim", "attempt", "plan_id", "principal"))
    assert tool.schema["additionalProperties"] is False


def test_an_action_says_what_it_is_and_what_tells_wishes_apart() -> None:
    refund = TOOLS["refund"].description
    assert "can't be taken back" in refund
    assert "capture_id with refund_request: take them from the person or the records, never make one up" in refund
    assert TOOLS["refund"].schema["required"] == ["capture_id", "refund_request"]
    assert "can be undone" in TOOLS["reserve_window"].description
    assert "it changes nothing" in TOOLS["observe_health"].description


def test_what_the_records_say_is_not_asked_of_a_model() -> None:
    assert "amount" not in TOOLS["reverse_fee"].schema["properties"]


@pytest.mark.parametrize(
    "status", ["STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "ESCALATED", "UNKNOWN", "a new one"]
)
def test_what_is_not_settled_is_never_told_as_done(status: str) -> None:
    told = of_status(status, "the refund", action=None).row()
    assert told["state"] in ("PENDING", "IN_DOUBT")
    assert told["look_again_s"] > 0
    assert "look_again" in told["next"]
    assert "is done." not in told["say"]


def test_every_state_is_explained() -> None:
    assert all(STATES.values())
