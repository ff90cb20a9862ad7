"""The page docs/gateway.md says what the code does, and its worked example runs against a served gateway."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from joingate.gateway.answers import STATES
from joingate.gateway.http import create_app
from joingate.gateway.tokens import Tokens, new_token
from joingate.gateway.tools import tools_of
from joingate.settings import variables

from .law_in_memory import LawInMemory

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")


@pytest.fixture
def served(law: LawInMemory) -> Iterator[tuple[str, str]]:
    """A gateway on a port of its own: its address and a token."""
    token, entry = new_token("acme", "planner", "planner-7")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(create_app(law.gateway, Tokens([entry])), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 30.0
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield url, token
        server.should_exit = True
        thread.join()


def test_the_worked_example_runs(law: LawInMemory, served: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"url": served[0], "token": served[1]}
    exec(compile(example, "docs/gateway.md", "exec"), names)
    assert "not done yet" in capsys.readouterr().out
    assert len(law.operations()) == 1


def test_every_state_and_every_general_tool_is_on_the_page(law: LawInMemory) -> None:
    for state, meaning in STATES.items():
        assert f"| `{state}` | {meaning} |" in PAGE
    for tool in tools_of(law.catalogue).values():
        if not tool.action:
            assert f"`{tool.name}`" in PAGE


def test_the_variables_that_it_names_exist() -> None:
    known = {*variables(), "JOINGATE_GATEWAY_TOKEN"}
    assert set(re.findall(r"JOINGATE_[A-Z_]+", PAGE)) <= known
