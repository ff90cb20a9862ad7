"""The MCP server: the same tools for models that speak the Model Context Protocol, over stdio and streamable HTTP.

Over stdio one token is given to the process, and so is what its harness says. Over HTTP each request brings its token
and the harness's headers. An answer is structured content, and its JSON as text for clients that read only that.
"""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from joingate.gateway import tools
from joingate.gateway.core import Gateway
from joingate.gateway.headers import NO_TOKEN, BadHarness, harness_of
from joingate.gateway.tokens import Caller, Tokens
from joingate.gateway.wishes import NOBODY_SAYS, Harness

_Whose = Callable[[ServerRequestContext[Any, Any]], tuple[Caller, Harness]]


class Door:
    """A gateway with whoever may come in."""

    def __init__(self, gateway: Gateway, tokens: Tokens) -> None:
        self.gateway = gateway
        self.tokens = tokens


def make_server(gateway: Gateway, whose: _Whose) -> Server[Any]:
    """A server over the gateway; `whose` says of a request who speaks, and what its harness says."""

    async def list_tools(
        context: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        caller, harness = whose(context)
        every = tools.tools_of(gateway.catalogue, harness).values()
        shown = [one for one in every if caller.role != "reader" or one.only_looks]
        return types.ListToolsResult(tools=[_told(one) for one in shown])

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        caller, harness = whose(context)
        given = params.arguments or {}
        answer = await anyio.to_thread.run_sync(tools.call, gateway, caller, params.name, given, harness)
        if answer is None:
            text = f"There is no tool {params.name}: use one of those that are listed."
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        row = answer.row()
        text = json.dumps(row, ensure_ascii=False)
        # A refusal and a doubt are no errors of the tool: what looks like one is mostly tried again.
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=row)

    return Server(
        "joingate", version="1", title="Join Gate", instructions=tools.RULES, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip


def _told(tool: tools.Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.only_looks, destructive_hint=not tool.only_looks, idempotent_hint=True, open_world_hint=True
    )
    return types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints)


async def serve_stdio(gateway: Gateway, caller: Caller, harness: Harness = NOBODY_SAYS) -> None:
    """Serve the one client at the other end of stdin and stdout, until it ends."""
    server = make_server(gateway, lambda _: (caller, harness))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class _Guarded:
    """The server as an ASGI application that lets nobody in without a token."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = make_server(door.gateway, self._whose)
        # Each request stands for itself, so that several gateways can be behind one address.
        self.manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        self._inner = StreamableHTTPASGIApp(self.manager)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if self._door.tokens.bearer(request.headers.get("authorization")) is None:
            answer = JSONResponse({"error": NO_TOKEN}, 401, {"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)
            return
        try:
            harness_of(request.headers.getlist)
        except BadHarness as error:
            await JSONResponse({"error": str(error)}, 400)(scope, receive, send)
            return
        await self._inner(scope, receive, send)

    def _whose(self, context: ServerRequestContext[Any, Any]) -> tuple[Caller, Harness]:
        request = context.request
        assert isinstance(request, Request), "over HTTP there is a request"
        caller = self._door.tokens.bearer(request.headers.get("authorization"))
        assert caller is not None, "nobody comes this far without a token"
        return caller, harness_of(request.headers.getlist)


def asgi_door(door: Door) -> tuple[Any, Callable[[], contextlib.AbstractAsyncContextManager[None]]]:
    """The server as an ASGI application, and what must run while it is served."""
    guarded = _Guarded(door)
    return guarded, guarded.manager.run
