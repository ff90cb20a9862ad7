"""The gateway over HTTP: each tool as a POST, with OpenAPI; and the MCP server at /mcp on the same port.

The gate's answers, refusals and doubts among them, come as 200 with the answer as the body: they are answers, not
failures of the call. 401 no token, 403 not with this one, 400 not as the form says, 429 too much (Retry-After says how
long), 503 not passed on (Retry-After too). What a harness says of a request, and no model, is in headers.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from joingate.gateway import tools
from joingate.gateway.answers import STATES, Answer, State
from joingate.gateway.core import Gateway
from joingate.gateway.headers import NO_TOKEN, BadHarness, harness_of
from joingate.gateway.mcp_server import Door, asgi_door
from joingate.gateway.tokens import Caller, Tokens


class Told(BaseModel):
    """An answer. Fields that have nothing to say are left out."""

    model_config = ConfigDict(extra="allow")

    state: State = Field(description="; ".join(f"{state}: {meaning}" for state, meaning in STATES.items()))
    say: str = Field(description="What to say to the person.")
    next: str | None = Field(default=None, description="What the model should do.")
    look_again_s: int | None = Field(default=None, description="When to look again, in seconds from now.")


class Failed(BaseModel):
    """Why the call itself failed."""

    error: str = Field(description="A sentence: what happened, and what to do.")


def create_app(gateway: Gateway, tokens: Tokens) -> FastAPI:
    """The HTTP API and the MCP server over one gateway. Every call needs one of `tokens`."""
    door, sessions = asgi_door(Door(gateway, tokens))

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with sessions():
            yield

    app = FastAPI(
        title="Join Gate for agents", description=tools.RULES, version="1", docs_url=None, redoc_url=None,
        lifespan=lifespan,
    )  # fmt: skip
    _handle_errors(app)

    def known_caller(authorization: Annotated[str | None, Header()] = None) -> Caller:
        caller = tokens.bearer(authorization)
        if caller is None:
            raise HTTPException(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        return caller

    @app.get("/v1/tools", summary="The tools as models are told of them, in the form of function calling.")
    def listed(request: Request, caller: Annotated[Caller, Depends(known_caller)]) -> dict[str, Any]:
        every = tools.tools_of(gateway.catalogue, harness_of(request.headers.getlist)).values()
        shown = [one for one in every if caller.role != "reader" or one.only_looks]
        return {"tools": [function_form(one) for one in shown]}

    @app.get("/v1/health", summary="200 while the gateway runs.")
    def health() -> dict[str, bool]:
        return {"healthy": True}

    for tool in tools.tools_of(gateway.catalogue).values():
        _add_tool(app, gateway, tool, known_caller)
    app.router.routes.append(Route("/mcp", endpoint=door, methods=["GET", "POST", "DELETE"]))
    return app


def function_form(tool: tools.Tool) -> dict[str, Any]:
    """A tool in the form in which models that call functions are told of it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _add_tool(app: FastAPI, gateway: Gateway, tool: tools.Tool, known_caller: Callable[..., Caller]) -> None:
    async def ask(request: Request, caller: Annotated[Caller, Depends(known_caller)]) -> Response:
        harness = harness_of(request.headers.getlist)
        try:
            given = json.loads(await request.body() or b"{}")
        except (ValueError, RecursionError):
            return _failed(400, "The body is no JSON: send an object with the tool's arguments.")
        if not isinstance(given, dict):
            return _failed(400, "The body must be a JSON object with the tool's arguments.")
        answer = await run_in_threadpool(tools.call, gateway, caller, tool.name, given, harness)
        assert answer is not None, "the route is there because the tool is"
        return _response(answer)

    app.add_api_route(
        f"/v1/{tool.name}",
        ask,
        methods=["POST"],
        response_model=Told,
        responses={code: {"model": Told if code in (403, 429, 503) else Failed, "description": why}
                   for code, why in ((400, "Not as the form says."), (401, "No token."), (403, "Not with this token."),
                                     (429, "Too much at once."), (503, "Not passed on."))},
        summary=tool.description.partition(tools.RULES)[0].strip(),
        operation_id=tool.name,
        tags=["actions" if tool.action else "general"],
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": tool.schema}}}},
    )  # fmt: skip


def _response(answer: Answer) -> Response:
    code = {"SLOW_DOWN": 429, "NOT_TAKEN": 503}.get(answer.state, 200)
    if answer.reason.get("name") == "WRONG_ROLE":
        code = 403
    headers = {"Retry-After": str(answer.look_again_s)} if code in (429, 503) else {}
    return JSONResponse(answer.row(), code, headers)


def _failed(code: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, code)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(BadHarness)
    async def bad_harness(_: Request, error: BadHarness) -> Response:
        return _failed(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        return _failed(400, f"The request is not as it must be: {error.errors()[0]['msg']}.")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
