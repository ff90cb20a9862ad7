"""The read API: the projections over HTTP, with OpenAPI, paging, live updates, metrics and one page for people.

Read-only. Every answer says in `position`, and in the header `X-Joingate-Position`, up to which seq of each partition
it holds; `?at_least=<partition>:<seq>` waits a little for a position, so that a caller reads its own writes. An error
is a JSON object with a sentence, never a traceback.
"""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from html import escape
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from joingate_projections.errors import BadQuestion, NotFound, ReadError
from joingate_projections.metrics import Metrics
from joingate_projections.paging import LIMIT_DEFAULT, LIMIT_MAX, TIMES, bounds_of
from joingate_projections.questions import QUESTIONS, Question
from joingate_projections.reader import StoreReader
from joingate_projections.store import StoreError
from joingate_projections.tables import TABLES, Row

AT_LEAST_S_MAX = 5.0
LOOK_S = 0.05
EVENTS_LOOK_S = 0.5
EVENTS_SILENCE_S = 15.0
_POSITION = re.compile(r"(\d{1,5}):(\d{1,18})")
_LOG = logging.getLogger(__name__)

# What callers may filter by, and the field that each means; the fields' own names are taken too.
_ALIASES = {
    "intent": "intent_id",
    "plan": "plan_id",
    "step": "step_id",
    "goal": "goal_id",
    "operation": "operation_id",
    "commitment": "commitment_id",
    "owner": "owner_id",
    "type": "obligation_type",
    "resource": "resource_refs",
    "due_after": "due_at_after",
    "due_before": "due_at_before",
    "subject": "subject_id",
    "claim": "mentions",
    "mentions": "mentions",
}
_NOT_FILTERS = frozenset({"limit", "cursor", "order", "newest", "at_least"})

Position = Annotated[dict[str, int], Field(description="Partition → the seq up to which the answer holds.")]


class Rows(BaseModel):
    """A page of rows."""

    rows: list[dict[str, Any]] = Field(description="The rows that fit, in order.")
    next: str | None = Field(description="The cursor of the next page; null: there is none.")
    position: Position


class One(BaseModel):
    """One row."""

    row: dict[str, Any]
    position: Position


class Explained(BaseModel):
    """Everything known by an id."""

    id: str
    known: dict[str, list[dict[str, Any]]] = Field(description="Table → the rows that are, or belong to, the id.")
    decisions: list[dict[str, Any]] = Field(description="The decisions that mention it, in ledger order, with advice.")
    next: str | None = Field(description="The cursor of further decisions; null: there are none.")
    position: Position


class Answer(BaseModel):
    """The answer to a question that is put together from several tables."""

    model_config = ConfigDict(extra="allow")

    position: Position


class Failed(BaseModel):
    """Why there is no answer."""

    error: str = Field(description="A sentence: what happened, to what, and what to do.")
    error_id: str | None = Field(default=None, description="Of an internal error, to find it in the log.")


_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Failed, "description": "The question is at fault."},
    503: {"model": Failed, "description": "The answer cannot be given now."},
}
_MISSING: dict[int | str, dict[str, Any]] = {**_ERRORS, 404: {"model": Failed, "description": "No such id."}}

_PATHS = {
    "intents": "Outcomes that somebody wants, with what they have outside.",
    "goals": "States that should become true, with what was seen of each and what it has outside.",
    "plans": "Ways that were proposed or taken.",
    "steps": "Planned steps, with the operation of their slot.",
    "operations": "Logical effects; an operation's id is its idempotency key.",
    "commitments": "Obligations in the outside world.",
    "orphans": "What has nobody behind it, oldest first.",
    "in_doubt": "What nobody knows, oldest first, with age and deadline.",
    "resources": "Who has what is scarce, oldest first: held, past its lease, in quarantine, or spent.",
    "quarantine": "Records that could not be read, with their bytes.",
    "decisions": "The ledger's decisions with their facts. `intent` and `claim` find those that mention an id.",
    "observations": "Each source's latest news about a subject; `unbelieved` says why it counted for nothing.",
    "keys": "Principals' keys that were registered or ended by a claim, by partition.",
    "alerts": "Operations whose payloads are much alike within a declared window. They block nothing.",
    "owners": "Owners that are gone, by partition, with how much of theirs was found.",
    "catalogues": "The catalogue in force on each partition.",
}


_GATE_UNKNOWN: Row = {
    "known": False,
    "problems": [],
    "sentence": "No gate's status file is known here: set JOINGATE_GATE_STATUS, or see /v1/health beside the gate.",
}

# Tables whose rows have an id of their own; the others are found by filters.
_SINGLE = frozenset({"intents", "operations", "commitments", "orphans", "quarantine", "decisions"})


class _NotYet(Exception):
    """The position that was asked for is not reached."""


Gate = Callable[[], Row | None]
"""Tells what the gate says of itself: its `problems`, sentences, among others. None: no status of a gate is known."""


def create_app(reader: StoreReader, *, at_least_s_max: float = AT_LEAST_S_MAX, gate: Gate = lambda: None) -> FastAPI:
    """The API over a reader. `at_least_s_max` bounds how long a caller may wait for a position."""
    app = FastAPI(
        title="Join Gate projections",
        description=__doc__.partition("\n\n")[2],
        version="1",
        docs_url=None,  # The interactive pages load scripts from elsewhere; a page of our own is at /docs.
        redoc_url=None,
    )
    _handle_errors(app)
    _add_errors_and_headers(app)
    waiting = Depends(_waiter(reader, at_least_s_max))
    for table, description in _PATHS.items():
        _add_table(app, reader, table, description, waiting)
    for name, question in QUESTIONS.items():
        _add_question(app, reader, name, question, waiting)
    _add_explain(app, reader, waiting)
    _add_state(app, reader, waiting, gate)
    _add_live(app, reader)
    _add_docs(app)
    return app


def serve(
    reader: StoreReader,
    host: str = "127.0.0.1",
    port: int = 8400,
    on_ready: Callable[[str], None] = lambda url: None,
    gate: Gate = lambda: None,
) -> None:
    """Serve the API until the process is told to stop; `on_ready` gets its address once it listens.

    Port 0 takes any free one. Raises SystemExit when the address cannot be used.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                bound = self.servers[0].sockets[0].getsockname()
                on_ready(f"http://{host}:{bound[1]}")

    # Live updates never end by themselves; two seconds are enough for everything that does.
    config = uvicorn.Config(
        create_app(reader, gate=gate),
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    Server(config).run()


def position_text(position: dict[str, int]) -> str:
    """A position as one line: `0:12,1:7`."""
    return ",".join(f"{partition}:{seq}" for partition, seq in sorted(position.items(), key=lambda one: int(one[0])))


def _answer(response: Response, row: Row) -> Row:
    response.headers["X-Joingate-Position"] = position_text(row["position"])
    return row


def _positions(texts: list[str]) -> dict[int, int]:
    """`0:12` or `0:12,1:7`, several of them. Raises BadQuestion."""
    found: dict[int, int] = {}
    for text in ",".join(texts).split(","):
        if text.strip():
            match = _POSITION.fullmatch(text.strip())
            if match is None:
                raise BadQuestion(f"A position is written <partition>:<seq>, such as 0:12; {text!r} is not.")
            found[int(match[1])] = int(match[2])
    return found


def _waiter(reader: StoreReader, seconds_max: float) -> Callable[..., Awaitable[None]]:
    async def wait_for(
        at_least: Annotated[
            list[str] | None,
            Query(description="Answer only from this position on, `<partition>:<seq>`; waited for a little."),
        ] = None,
    ) -> None:
        wanted = _positions(at_least or [])
        deadline = time.monotonic() + seconds_max
        while wanted:
            reached = await run_in_threadpool(reader.position)
            short = {partition: seq for partition, seq in wanted.items() if reached.get(partition, 0) < seq}
            if not short:
                return
            if time.monotonic() >= deadline:
                partition, seq = next(iter(short.items()))
                raise _NotYet(
                    f"Partition {partition} is folded up to seq {reached.get(partition, 0)}, not yet to {seq}, after "
                    f"{seconds_max:g} s. Ask again, or see /v1/health for what keeps the projector."
                )
            await asyncio.sleep(LOOK_S)

    return wait_for


def _add_table(app: FastAPI, reader: StoreReader, table: str, description: str, waiting: Any) -> None:
    path = f"/v1/{table.replace('_', '-')}"
    fields = [field for field in TABLES[table].indexes if field not in TIMES]
    names = sorted({alias for alias, field in _ALIASES.items() if field in fields} | set(fields) - {"mentions"})
    if table == "decisions":
        names = sorted({*names, "intent"})
    filters = [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}, "description": f"Only {name}."}
        for name in names
    ]
    filters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": "integer"}, "description":
         "A time in milliseconds since the epoch, UTC: from it on (after), or up to it (before), ordered by it."}
        for name in bounds_of(table)
    ]  # fmt: skip

    def page(
        request: Request,
        response: Response,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
        order: Annotated[
            str | None, Query(description=f"A time to order by: {', '.join(sorted(TIMES))}, where the table has it.")
        ] = None,
        newest: Annotated[bool, Query(description="The other way round.")] = False,
    ) -> Row:
        asked = [(name, value) for name, value in request.query_params.multi_items() if name not in _NOT_FILTERS]
        wanted = [(_field(table, name), value) for name, value in asked]
        return _answer(response, reader.page(table, wanted, limit=limit, cursor=cursor, order=order, newest=newest))

    def one(response: Response, row_id: str) -> Row:
        return _answer(response, reader.one(table, _row_key(table, row_id)))

    app.add_api_route(
        path,
        page,
        methods=["GET"],
        response_model=Rows,
        dependencies=[waiting],
        responses=_ERRORS,
        summary=description,
        tags=[table],
        operation_id=f"list_{table}",
        openapi_extra={"parameters": filters},
    )
    if table not in _SINGLE:
        return
    app.add_api_route(
        path + "/{row_id:path}",
        one,
        methods=["GET"],
        response_model=One,
        dependencies=[waiting],
        responses=_MISSING,
        summary=f"One of {table} by its id.",
        tags=[table],
        operation_id=f"get_{table}",
    )


def _field(table: str, name: str) -> str:
    if table == "decisions" and name in ("intent", "intent_id"):
        return "mentions"
    return _ALIASES.get(name, name)


def _row_key(table: str, row_id: str) -> str:
    """A row's key from its id in a path. A decision is named by its ledger position, as in `0:12`."""
    match = _POSITION.fullmatch(row_id) if table == "decisions" else None
    return f"{int(match[1]):05d}:{int(match[2]):016d}" if match else row_id


def _add_question(app: FastAPI, reader: StoreReader, name: str, question: Question, waiting: Any) -> None:
    def asked(request: Request) -> list[tuple[str, str]]:
        return [one for one in request.query_params.multi_items() if one[0] != "at_least"]

    def of_all(request: Request, response: Response) -> Row:
        return _answer(response, reader.ask(name, options=asked(request)))

    def of_one(request: Request, response: Response, subject: str) -> Row:
        return _answer(response, reader.ask(name, subject, asked(request)))

    parameters = [
        {"name": option, "in": "query", "required": False, "description": one.about, "schema": one.schema}
        for option, one in question.options.items()
    ]
    app.add_api_route(
        f"/v1/{name}" + ("/{subject:path}" if question.subject else ""),
        of_one if question.subject else of_all,
        methods=["GET"],
        response_model=Answer,
        dependencies=[waiting],
        responses=_MISSING if question.subject else _ERRORS,
        summary=question.about,
        tags=["questions"],
        operation_id=f"ask_{name.replace('-', '_')}",
        openapi_extra={"parameters": parameters},
    )


def _add_explain(app: FastAPI, reader: StoreReader, waiting: Any) -> None:
    @app.get(
        "/v1/explain/{subject_id:path}",
        response_model=Explained,
        dependencies=[waiting],
        responses=_MISSING,
        summary="Everything known by an id of any kind, with the decisions that mention it in order.",
        tags=["explain"],
    )
    def explain(
        response: Response,
        subject_id: str,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    ) -> Row:
        return _answer(response, reader.explain(subject_id, limit=limit, cursor=cursor))


def _add_state(app: FastAPI, reader: StoreReader, waiting: Any, gate: Gate) -> None:
    metrics = Metrics(reader)

    @app.get(
        "/v1/summary", dependencies=[waiting], responses=_ERRORS, summary="Counts by table and word.", tags=["state"]
    )
    def summary(response: Response) -> Row:
        return _answer(response, reader.summary())

    @app.get("/v1/positions", responses=_ERRORS, summary="How far each partition is folded.", tags=["state"])
    def positions(response: Response) -> Row:
        return _answer(response, reader.positions())

    @app.get("/v1/health", responses=_ERRORS, summary="200 if all is well; else 503 and what is wrong.", tags=["state"])
    def health(response: Response) -> Row:
        told, said = reader.health(), gate() or _GATE_UNKNOWN
        problems = [*said["problems"], *told["problems"]]
        response.status_code = 503 if problems else 200
        return _answer(response, {**told, "healthy": not problems, "problems": problems, "gate": said})

    @app.get(
        "/v1/gate", responses=_ERRORS, summary="What the gate says of itself: 503 if it is hindered.", tags=["state"]
    )
    def gate_says(response: Response) -> Row:
        said = gate() or _GATE_UNKNOWN
        response.status_code = 503 if said["problems"] else 200
        return said

    @app.get("/metrics", include_in_schema=False)
    def scrape() -> Response:
        return Response(metrics.text(), media_type=metrics.content_type)


def _add_live(app: FastAPI, reader: StoreReader) -> None:
    page = (files("joingate_projections") / "page.html").read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    def home() -> HTMLResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    @app.get("/v1/events", summary="New decisions as they are folded (server-sent events).", tags=["events"])
    async def events(
        start: Annotated[
            list[str] | None,
            Query(alias="from", description="Begin behind this position, `0:12,1:7`; without it: with what is new."),
        ] = None,
        limit: Annotated[int | None, Query(ge=1, description="End after so many decisions.")] = None,
        last_event_id: Annotated[str | None, Header(description="Sent by browsers that connect again.")] = None,
    ) -> StreamingResponse:
        wanted = [last_event_id] if last_event_id is not None else start
        position = _positions(wanted) if wanted is not None else await run_in_threadpool(reader.position)
        stream = _events(reader, position, limit)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _add_docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        rows = "".join(
            f"<tr><td><code>{escape(path)}</code></td><td>{escape(told['get']['summary'])}</td>"
            f"<td>{escape(', '.join(one['name'] for one in told['get'].get('parameters', [])))}</td></tr>"
            for path, told in app.openapi()["paths"].items()
        )
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return HTMLResponse(_DOCS.replace("ROWS", rows), headers={"Content-Security-Policy": policy})


_DOCS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Join Gate: the API</title>
<style>body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 84rem; padding: 0 1rem }
:root { color-scheme: light dark } th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0 }
</style></head><body><h1>The API</h1><p>Everything is read by GET. <a href="/openapi.json">/openapi.json</a> has all of
it for machines, <a href="/metrics">/metrics</a> is for Prometheus, and the <a href="/">page</a> shows how things
stand.</p><table><thead><tr><th scope="col">Path</th><th scope="col">Answers</th><th scope="col">Parameters</th></tr>
</thead><tbody>ROWS</tbody></table></body></html>"""


async def _events(reader: StoreReader, position: dict[int, int], limit: int | None) -> AsyncIterator[str]:
    """Decisions behind `position`, each with the position after it as its id, until the caller goes."""
    left = limit
    silent_since = time.monotonic()
    yield "retry: 2000\n\n"
    while left is None or left > 0:
        for row in await run_in_threadpool(reader.since, position, min(LIMIT_DEFAULT, left or LIMIT_DEFAULT)):
            position = {**position, row["partition"]: row["seq"]}
            told = position_text({str(partition): seq for partition, seq in position.items()})
            yield f"id: {told}\nevent: decision\ndata: {json.dumps(row)}\n\n"
            silent_since = time.monotonic()
            left = None if left is None else left - 1
        if left == 0:
            return
        if time.monotonic() - silent_since >= EVENTS_SILENCE_S:
            # A comment: connections on which nothing is said for long are cut by what stands between.
            yield ": nothing new\n\n"
            silent_since = time.monotonic()
        await asyncio.sleep(EVENTS_LOOK_S)


def _handle_errors(app: FastAPI) -> None:
    """Every error as a sentence; what nobody foresaw is logged under an id."""

    @app.exception_handler(ReadError)
    def read_error(request: Request, error: ReadError) -> JSONResponse:
        code = 404 if isinstance(error, NotFound) else 400 if isinstance(error, BadQuestion) else 503
        return _failed(code, str(error))

    @app.exception_handler(_NotYet)
    def not_yet(request: Request, error: _NotYet) -> JSONResponse:
        return _failed(503, str(error), {"Retry-After": "1"})

    @app.exception_handler(StoreError)
    def store_error(request: Request, error: StoreError) -> JSONResponse:
        return _failed(503, str(error))

    @app.exception_handler(RequestValidationError)
    def at_fault(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][1:])
        return _failed(400, f"The parameter {name} is at fault: {first['msg']}. See /openapi.json for what it may be.")

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return _failed(404, f"There is no {request.url.path} here. See /openapi.json for what there is.")
        if error.status_code == 405:
            return _failed(405, f"{request.url.path} can only be read: use GET.", {"Allow": "GET"})
        return _failed(error.status_code, str(error.detail))


def _add_errors_and_headers(app: FastAPI) -> None:
    @app.middleware("http")
    async def unforeseen(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await call_next(request)
        except Exception:
            error_id = uuid.uuid4().hex[:12]
            _LOG.exception("internal error %s on %s", error_id, request.url.path)
            return _failed(
                500, f"Something went wrong inside. The log has it under {error_id}.", more={"error_id": error_id}
            )


def _failed(
    code: int, sentence: str, headers: dict[str, str] | None = None, more: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": sentence, **(more or {})}, code, headers)
