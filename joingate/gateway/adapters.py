"""Adapters: a risky tool becomes a gated one in one line, for plain function calling and for LangChain and LangGraph.

The gated tool has the name and the arguments of the one that it stands for, and never calls it: its effect is an
executor's to perform. What the model gets is the gateway's answer, and never an exception.
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from joingate.gateway import tools
from joingate.gateway.answers import LOOK_S, not_taken, unsure
from joingate.gateway.core import Gateway
from joingate.gateway.headers import BIND, OCCURRENCE, REQUEST
from joingate.gateway.tokens import Caller
from joingate.gateway.wishes import Harness
from joingate_schemas.claims import Scalar

Row: TypeAlias = dict[str, Any]
Bound: TypeAlias = Mapping[str, Scalar] | Callable[[], Mapping[str, Scalar]]
ToolT = TypeVar("ToolT")


class Gate(Protocol):
    """A gateway as an agent's program sees it."""

    def call(self, name: str, arguments: Mapping[str, Any], harness: Harness) -> Row:
        """What the tool called `name` answers. It raises nothing."""
        ...


class LocalGate:
    """A gateway in this process, for one caller."""

    def __init__(self, gateway: Gateway, caller: Caller) -> None:
        self._gateway = gateway
        self._caller = caller

    def call(self, name: str, arguments: Mapping[str, Any], harness: Harness) -> Row:
        """See `Gate`."""
        answer = tools.call(self._gateway, self._caller, name, arguments, harness)
        return (answer or not_taken(f"the gateway has no tool {name}")).row()


class HttpGate:
    """A gateway at `url`, entered with `token`. A call that is lost on the way is told as one that may have got there.

    `timeout_s` is more than the gateway itself waits, so that its own PENDING comes first.
    """

    def __init__(self, url: str, token: str, timeout_s: float = 15.0) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def call(self, name: str, arguments: Mapping[str, Any], harness: Harness) -> Row:
        """See `Gate`."""
        request = Request(f"{self._url}/v1/{name}", json.dumps(dict(arguments)).encode(), method="POST")
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/json")
        for header, value in _headers(harness).items():
            request.add_header(header, value)
        try:
            with urlopen(request, timeout=self._timeout_s) as reply:
                return cast(Row, json.load(reply))
        except HTTPError as error:
            return _told(error) or not_taken(f"the gateway answered {error.code}").row()
        except URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return not_taken("the gateway does not answer").row()
            return unsure(name).row()
        except (OSError, ValueError):
            return unsure(name).row()


def _told(error: HTTPError) -> Row | None:
    """The answer in a reply that is no 200; None: there is none."""
    try:
        row = json.load(error)
    except ValueError:
        return None
    if isinstance(row, dict) and "state" in row:
        return row
    why = str(row.get("error", "")) if isinstance(row, dict) else ""
    return replace(not_taken(why), look_again_s=LOOK_S["PERSON"]).row()


def _headers(harness: Harness) -> dict[str, str]:
    """What the harness says, as headers; JSON in plain ASCII, whatever the arguments hold."""
    told = {OCCURRENCE: harness.occurrence, REQUEST: harness.request}
    told[BIND] = json.dumps(dict(harness.bound)) if harness.bound else ""
    return {name: value for name, value in told.items() if value}


def gated(
    tool: ToolT, gate: Gate, *, action: str, bind: Bound | None = None, occurrence: str = "", request: str = ""
) -> ToolT:
    """The tool, gated: the same name and arguments, and instead of its effect the asking for `action`.

    `tool` is a function, or a LangChain tool. `bind` are arguments that no model chooses, such as the ticket that a
    refund answers, or a function that tells them at each call; they vanish from what the model sees. `occurrence` and
    `request` are as in `Harness`. Raises TypeError for what is no tool.
    """

    def ask(given: Mapping[str, Any]) -> Row:
        bound = bind() if callable(bind) else (bind or {})
        arguments = {name: value for name, value in given.items() if value is not None and name not in bound}
        return gate.call(tools.tool_name(action), arguments, Harness(bound, occurrence, request))

    hidden = frozenset(bind() if callable(bind) else (bind or {}))
    if _is_langchain(tool):
        from joingate.gateway.langchain_tools import gated_tool

        return cast(ToolT, gated_tool(cast(Any, tool), ask, hidden))
    if inspect.isfunction(tool) or inspect.ismethod(tool):
        return cast(ToolT, _gated_function(tool, ask, hidden))
    raise TypeError(f"{tool!r} is neither a function nor a LangChain tool, so it can't be gated.")


def _is_langchain(tool: object) -> bool:
    # Whoever has made such a tool has loaded the library; nobody else needs it.
    library = sys.modules.get("langchain_core.tools")
    return library is not None and isinstance(tool, library.BaseTool)


def _gated_function(tool: Callable[..., Any], ask: Callable[[Mapping[str, Any]], Row], hidden: frozenset[str]) -> Any:
    signature = inspect.signature(tool)
    seen = [one for name, one in signature.parameters.items() if name not in hidden and name != "self"]
    signature = signature.replace(parameters=seen, return_annotation=dict)

    def asking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Row:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            return not_taken(f"{tool.__name__}: {error}").row()
        return ask(given.arguments)

    if inspect.iscoroutinefunction(tool):

        @functools.wraps(tool)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Row:
            import asyncio

            return await asyncio.to_thread(asking, args, kwargs)

        made: Any = wrapped_async
    else:

        @functools.wraps(tool)
        def wrapped(*args: Any, **kwargs: Any) -> Row:
            return asking(args, kwargs)

        made = wrapped
    made.__doc__ = told_of(inspect.getdoc(tool) or "")
    made.__signature__ = signature
    made.__annotations__ = {one.name: one.annotation for one in seen if one.annotation is not one.empty}
    # The way to the effect itself is not to be found through the gated tool.
    del made.__wrapped__
    return made


def told_of(description: str) -> str:
    """A tool's own description, and what every model is told beside it."""
    return f"{description.rstrip()}\n\n{tools.RULES}".lstrip()


def function_tools(gate: Gate, *names: str) -> dict[str, Callable[[Mapping[str, Any]], Row]]:
    """The gateway's own tools for a loop of function calls, by name: `table[call.name](call.arguments)`."""
    return {name: functools.partial(_call, gate, name) for name in names}


def _call(gate: Gate, name: str, arguments: Mapping[str, Any]) -> Row:
    return gate.call(name, arguments, Harness())
