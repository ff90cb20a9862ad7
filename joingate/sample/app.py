"""The bank's counter: its HTTP end points, and the ways in which they can fail on purpose."""

import asyncio
import csv
import io
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.types import ASGIApp, Receive, Scope, Send

from joingate.sample.actions import ACTIONS
from joingate.sample.books import CURRENCY
from joingate.sample.core import Bank, KeyConflict, Line, Outcome
from joingate.sample.faults import ON_EFFECT, Fault, FaultKind, Faults
from joingate.sample.store import Entry, EntryKind, LedgerBroken

KEY_LENGTH_MAX = 255
NEVER_DOWN = ("/faults", "/health")
REPLAYED = {"Idempotent-Replay": "true"}


class Lines:
    """The open connections by the client's address, so that one can be cut without a reply."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], asyncio.Transport] = {}

    def opened(self, transport: asyncio.Transport) -> None:
        """Remember a new connection."""
        self._open[_address(transport.get_extra_info("peername"))] = transport

    def closed(self, transport: asyncio.Transport) -> None:
        """Forget one that ended."""
        self._open.pop(_address(transport.get_extra_info("peername")), None)

    def cut(self, client: tuple[str, int] | None) -> None:
        """Close the client's connection at once; nothing that is still to be written gets out."""
        transport = self._open.get(_address(client))
        if transport is not None:
            transport.abort()


class EffectRequest(BaseModel):
    """What is to be done, apart from the action, which is in the path."""

    model_config = ConfigDict(extra="forbid")
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class FaultRequest(BaseModel):
    """A fault to set: for `count` requests, for `seconds`, or until the faults are cleared."""

    model_config = ConfigDict(extra="forbid")
    kind: FaultKind
    action: str | None = None
    count: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    delay_s: float = Field(default=1.0, ge=0, le=60)
    close: bool = False


class Counter:
    """Every end point, over one bank, one set of faults and the open connections."""

    def __init__(self, bank: Bank, faults: Faults, lines: Lines) -> None:
        self._bank = bank
        self._faults = faults
        self._lines = lines

    async def perform(
        self,
        action: str,
        body: EffectRequest,
        request: Request,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Perform an effect, once per Idempotency-Key; without the header every call is a new effect."""
        if complaint := _complaint(idempotency_key, body.arguments):
            return _problem(400, complaint)
        fault = self._faults.take(ON_EFFECT, action)
        kind = None if fault is None else fault.kind
        if kind is FaultKind.TIMEOUT_BEFORE_APPLY:
            return await self._never_answer(request)
        if fault is not None and kind is FaultKind.SLOW:
            await asyncio.sleep(fault.delay_s)
        if idempotency_key is not None and self._faults.take(frozenset({FaultKind.FORGET_KEY}), action):
            self._bank.forget(idempotency_key)
        answer = self._bank.perform(action, body.arguments, idempotency_key)
        match kind:
            case FaultKind.TIMEOUT_AFTER_APPLY:
                return await self._never_answer(request)
            case FaultKind.DROP_REPLY:
                self._lines.cut(_client(request.scope))
                return await self._never_answer(request)
            case FaultKind.ERROR_500_AFTER_APPLY:
                return _problem(500, "something went wrong; whether the request was carried out is not said")
            case _:
                return _effect_reply(answer, action, idempotency_key)

    async def by_key(self, key: str) -> Response:
        """What a key stands for. NOT_FOUND is true as of the version given, and is no proof for later."""
        as_of = self._as_of()
        entry = self._bank.by_key(key, as_of)
        if entry is None:
            return JSONResponse({"state": "NOT_FOUND", "key": key, "as_of": as_of}, 404)
        matches = sum(each.kind is EntryKind.EFFECT for each in self._bank.by_reference(key) if each.seq <= as_of)
        return JSONResponse(_entry(entry) | {"matches": matches, "as_of": as_of})

    async def by_external_id(self, external_id: str) -> Response:
        """What the bank itself calls by this id."""
        as_of = self._as_of()
        entry = self._bank.by_external_id(external_id)
        if entry is None or entry.seq > as_of:
            return JSONResponse({"state": "NOT_FOUND", "external_id": external_id, "as_of": as_of}, 404)
        return JSONResponse(_entry(entry) | {"as_of": as_of})

    async def effects(self, reference: str | None = None, action: str | None = None) -> Response:
        """Effects, oldest first, by the key that they once carried and by action; not ended by the key horizon."""
        as_of = self._as_of()
        source: Iterable[Entry] = self._bank.effects() if reference is None else self._bank.by_reference(reference)
        found = [
            _entry(entry)
            for entry in source
            if entry.kind is EntryKind.EFFECT and entry.seq <= as_of and action in (None, entry.action)
        ]
        return JSONResponse({"effects": found, "as_of": as_of})

    async def resource(self, kind: str, name: str) -> Response:
        """Whether a reservation exists now, and since which ledger position that is so."""
        as_of = self._as_of()
        hold = self._bank.holder(kind, name, as_of)
        row = {"kind": kind, "name": name, "exists": hold.holder is not None, "holder": hold.holder}
        return JSONResponse(row | {"since": hold.seq, "version": as_of})

    async def account(self, account_id: str) -> Response:
        """Balance and entries of an account."""
        balance = self._bank.balance(account_id)
        if balance is None:
            return _problem(404, f"there is no account {account_id}")
        entries = [_entry(entry) for entry in self._bank.effects() if entry.account == account_id]
        row = {"account_id": account_id, "balance": str(balance), "currency": CURRENCY, "entries": entries}
        return JSONResponse(row | {"version": self._bank.version})

    async def statement(
        self,
        until: datetime,
        account: str | None = None,
        form: Annotated[Literal["csv", "json"], Query(alias="format")] = "csv",
    ) -> Response:
        """The lines of one account, or of all, up to `until` (ISO 8601 with a zone), and if the period is closed."""
        if until.tzinfo is None:
            return _problem(400, "until must carry a time zone, such as 2025-01-31T23:59:59Z")
        lines, closed = self._bank.statement(account, until)
        rows = [_statement_row(line) for line in lines]
        if form == "json":
            head = {"account": account, "until": until.isoformat(), "closed": closed, "currency": CURRENCY}
            return JSONResponse(head | {"lines": rows, "version": self._bank.version})
        headers = {"Statement-Closed": str(closed).lower(), "Statement-Version": str(self._bank.version)}
        return PlainTextResponse(_csv(rows), media_type="text/csv", headers=headers)

    async def tombstone(self, key: str) -> Response:
        """Refuse a key from now on, unless an effect was already made under it (409)."""
        if complaint := _complaint(key, {}):
            return _problem(400, complaint)
        answer = self._bank.tombstone(key)
        if isinstance(answer, KeyConflict):
            error = f"too late: {answer.entry.external_id} was made under this key"
            return JSONResponse(_entry(answer.entry) | {"error": error, "as_of": self._bank.version}, 409)
        row = {"state": "REFUSED", "key": key, "refused": answer.entry.refused, "as_of": self._bank.version}
        return JSONResponse(row, headers=REPLAYED if answer.replayed else None)

    async def health(self) -> Response:
        """Whether the process serves, how long its ledger is, and whether the ledger was repaired at opening."""
        return JSONResponse({"status": "UP", "version": self._bank.version, "repaired": self._bank.repaired})

    async def add_fault(self, body: FaultRequest) -> Response:
        """Set a fault."""
        self._faults.add(Fault(**body.model_dump(), as_of=self._bank.version))
        return JSONResponse(self._fault_rows(), 201)

    async def list_faults(self) -> Response:
        """The faults in force."""
        return JSONResponse(self._fault_rows())

    async def clear_faults(self) -> Response:
        """End every fault."""
        self._faults.clear()
        return JSONResponse(self._fault_rows())

    def _fault_rows(self) -> dict[str, Any]:
        rows = [{"kind": fault.kind, "action": fault.action, "left": left} for fault, left in self._faults.active()]
        return {"faults": rows}

    def _as_of(self) -> int:
        fault = self._faults.take(frozenset({FaultKind.STALE_LOOKUP}), None)
        return self._bank.version if fault is None else fault.as_of

    async def _never_answer(self, request: Request) -> Response:
        """Wait until the client hangs up; cut the line if it never does."""
        try:
            async with asyncio.timeout(self._bank.options.hold_s_max):
                await _hang_up(request.receive)
        except TimeoutError:
            self._lines.cut(_client(request.scope))
            await _hang_up(request.receive)
        return Response()  # the connection is gone, and this with it


class DownGate:
    """Stands before every end point and lets nothing but faults and health through while the bank is DOWN."""

    def __init__(self, app: ASGIApp, faults: Faults, lines: Lines) -> None:
        self._app = app
        self._faults = faults
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, answer 503 or close the connection."""
        fault = None
        if scope["type"] == "http" and scope["path"] not in NEVER_DOWN:
            head, _, action = scope["path"].removeprefix("/").partition("/")
            fault = self._faults.take(frozenset({FaultKind.DOWN}), action if head == "effects" else None)
        if fault is None:
            await self._app(scope, receive, send)
        elif fault.close:
            self._lines.cut(_client(scope))
            await _hang_up(receive)
        else:
            await _problem(503, "the bank is down")(scope, receive, send)


def make_app(bank: Bank, faults: Faults, lines: Lines) -> FastAPI:
    """The web application over a bank."""
    app = FastAPI(title="Join Gate's sample bank")
    counter = Counter(bank, faults, lines)
    # Keys and names may hold slashes; the look-up by key comes first because an external id is a path of one part.
    for method, path, end_point in (
        ("POST", "/effects/{action}", counter.perform),
        ("GET", "/effects/by-key/{key:path}", counter.by_key),
        ("GET", "/effects/{external_id}", counter.by_external_id),
        ("GET", "/effects", counter.effects),
        ("GET", "/resources/{kind}/{name:path}", counter.resource),
        ("GET", "/accounts/{account_id}", counter.account),
        ("GET", "/statement", counter.statement),
        ("POST", "/tombstones/{key:path}", counter.tombstone),
        ("GET", "/health", counter.health),
        ("POST", "/faults", counter.add_fault),
        ("GET", "/faults", counter.list_faults),
        ("DELETE", "/faults", counter.clear_faults),
    ):
        app.add_api_route(path, end_point, methods=[method], response_model=None)
    app.add_middleware(DownGate, faults=faults, lines=lines)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(LedgerBroken, _broken)
    return app


async def _malformed(_request: Request, error: Exception) -> Response:
    # The framework's own status for this is 422, which at this bank means that the bank refuses the key.
    details = error.errors() if isinstance(error, RequestValidationError) else []
    return _problem(400, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in details))


async def _broken(_request: Request, error: Exception) -> Response:
    return _problem(500, str(error))


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _address(client: Any) -> tuple[str, int]:
    # Version 6 addresses come with two more parts than the client's address in a request has.
    return ("", 0) if client is None else (str(client[0]), int(client[1]))


def _client(scope: Scope) -> tuple[str, int] | None:
    client: tuple[str, int] | None = scope.get("client")
    return client


def _complaint(key: str | None, arguments: dict[str, Any]) -> str | None:
    if key is not None and not (0 < len(key) <= KEY_LENGTH_MAX and key.isascii() and key.isprintable()):
        return f"an idempotency key is 1 to {KEY_LENGTH_MAX} printable ASCII characters"
    try:
        # What could not be written down or sent back must not be applied either.
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        return f"arguments cannot be written as JSON: {error}"
    return None


def _problem(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _effect_reply(answer: Outcome | KeyConflict, action: str, key: str | None) -> Response:
    entry = answer.entry
    if isinstance(answer, KeyConflict):
        error = f"this key stands for another request, {entry.action} ({entry.external_id})"
        return JSONResponse({"error": error, "key": key, "external_id": entry.external_id}, 409)
    headers = REPLAYED if answer.replayed else None
    row = {"external_id": entry.external_id, "key": key, "action": action}
    if entry.kind is EntryKind.EFFECT:
        return JSONResponse(row | {"state": "APPLIED", "result": dict(entry.result)}, headers=headers)
    status = 422 if action in ACTIONS else 404
    return JSONResponse(row | {"state": "REFUSED", "refused": entry.refused}, status, headers=headers)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "external_id": entry.external_id,
        "key": entry.key,
        "action": entry.action,
        "state": "APPLIED" if entry.kind is EntryKind.EFFECT else "REFUSED",
        "refused": entry.refused,
        "arguments": dict(entry.arguments),
        "account": entry.account,
        "amount": None if entry.amount is None else str(entry.amount),
        "result": dict(entry.result),
        "at": entry.at.isoformat(),
        "version": entry.seq,
    }


def _statement_row(line: Line) -> dict[str, Any]:
    entry = line.entry
    return {
        "version": entry.seq,
        "at": entry.at.isoformat(),
        "external_id": entry.external_id,
        "key": entry.key,
        "action": entry.action,
        "account": line.account,
        "amount": str(entry.amount),
        "balance": str(line.balance),
    }


def _csv(rows: list[dict[str, Any]]) -> str:
    columns = ["version", "at", "external_id", "key", "action", "account", "amount", "balance"]
    sheet = io.StringIO(newline="")
    writer = csv.DictWriter(sheet, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return sheet.getvalue()
