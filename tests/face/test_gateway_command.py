"""The command `joingate gateway`: tokens are made and kept as hashes, and what is wrong is one sentence."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from joingate.gateway.tokens import Caller, Tokens


def test_a_token_is_shown_once_and_lets_its_holder_in(joingate: Any, tmp_path: Path) -> None:
    path = tmp_path / "some" / "tokens.jsonl"
    (told,) = joingate(
        "gateway", "token", "--tenant", "acme", "--principal", "planner-7", "--tokens", path, "--json"
    ).objects
    said = joingate("gateway", "token", "--tenant", "acme", "--principal", "eyes", "--role", "reader", "--tokens", path)
    assert said.code == 0
    assert "not shown again" in said.sentence
    tokens = Tokens.read(path)
    assert tokens.caller(told["token"]) == Caller("acme", "planner", "planner-7")
    assert tokens.caller(said.out.strip()) == Caller("acme", "reader", "eyes")
    assert told["token"] not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_what_can_t_be_a_token_is_refused_and_nothing_is_written(joingate: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    for words in (("--tenant", "a/b", "--principal", "p"), ("--tenant", "a", "--principal", "p", "--role", "king")):
        said = joingate("gateway", "token", *words, "--tokens", path)
        assert said.code == 2
        assert said.sentence
    assert not path.exists()


def test_without_tokens_there_is_no_gateway(joingate: Any, tmp_path: Path) -> None:
    said = joingate("gateway", "--tokens", tmp_path / "none.jsonl")
    assert (said.code, "joingate gateway token" in said.sentence) == (1, True)
    (tmp_path / "broken.jsonl").write_text("{\n")
    said = joingate("gateway", "--tokens", tmp_path / "broken.jsonl")
    assert said.code == 2
    assert "line 1" in said.sentence


def test_what_the_harness_says_goes_with_stdio(joingate: Any) -> None:
    said = joingate("gateway", "--bind", "a=b")
    assert (said.code, "--stdio" in said.sentence) == (2, True)


def test_stdio_needs_a_token_that_is_known(joingate: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    joingate("gateway", "token", "--tenant", "acme", "--principal", "planner-7", "--tokens", path)
    said = joingate("gateway", "--stdio", "--tokens", path, environment={"JOINGATE_GATEWAY_TOKEN": "jg_other"})
    assert (said.code, "JOINGATE_GATEWAY_TOKEN" in said.sentence) == (1, True)
