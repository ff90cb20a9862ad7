"""What an executor uses to act on the sample bank: a call ends as done, refused, not sent, or in doubt.

The line between "not sent" and "in doubt" is drawn where the first byte of the request could have left this
machine. Only these failures of httpx lie before it:

    ConnectError, ConnectTimeout     no connection was made (refused, unreachable, name unknown, TLS failed)
    PoolTimeout                      no connection was even tried for
    UnsupportedProtocol, InvalidURL  there was nowhere to send to

All others (WriteError, WriteTimeout, ReadError, ReadTimeout, CloseError, RemoteProtocolError, ProxyError...) may
come after the bank has the whole request. So may every reply that is not the bank's own answer about this very key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from joingate.sample.faults import FaultKind

BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
NO_DOUBT_STATUS = (404, 422)


class DoubtCause(StrEnum):
    """Why nobody can say whether the effect was made."""

    TIMEOUT = "TIMEOUT"
    """No reply in time."""
    CONNECTION_LOST = "CONNECTION_LOST"
    """The connection ended before the reply was whole."""
    SERVER_ERROR = "SERVER_ERROR"
    """A reply of 500 or above: whether it came before or after the effect is not said."""
    KEY_CONFLICT = "KEY_CONFLICT"
    """The key stands for another request there, so something exists under it: look it up."""
    UNCLEAR_REPLY = "UNCLEAR_REPLY"
    """A reply which does not name this key and what became of it."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect exists. `replayed`: an earlier send made it."""

    external_id: str
    key: str | None
    action: str
    result: Mapping[str, Any] = field(default_factory=dict)
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The bank definitively refused this key. With a key it stays refused; without one this call was refused."""

    reason: str
    key: str | None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The request may have left; whether the effect exists is unknown."""

    cause: DoubtCause
    detail: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Not one byte of this request left. Says nothing about earlier sends under the same key."""

    detail: str


@dataclass(frozen=True, slots=True)
class Found:
    """The bank knows the key. `matches` above one: several effects carry it."""

    external_id: str
    key: str
    action: str
    applied: bool
    refused: str | None
    result: Mapping[str, Any]
    matches: int
    version: int
    """Ledger position of the entry."""
    as_of: int
    """Ledger length from which the bank answered."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """The bank did not recognise the key when its ledger was `as_of` long: no proof that nothing will come."""

    as_of: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """There was no clear answer."""

    detail: str


@dataclass(frozen=True, slots=True)
class Resource:
    """Whether a reservation existed when the bank's ledger was `version` long, and which one holds it."""

    kind: str
    name: str
    exists: bool
    holder: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account's balance in currency units as text, and its entries as the bank gives them, oldest first."""

    account_id: str
    balance: str
    entries: tuple[Mapping[str, Any], ...]
    version: int


class BankClient:
    """A client of one bank. `timeout_s` bounds each phase of a call (connect, write, read), not their sum."""

    def __init__(self, url: str, *, timeout_s: float = 5.0, transport: httpx.BaseTransport | None = None) -> None:
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=url,
            transport=transport,
            # A kept connection that the bank closed meanwhile fails after sending: a doubt that need not be.
            limits=httpx.Limits(max_keepalive_connections=0),
            # A proxy from the environment would take the request before the bank can refuse the connection.
            trust_env=False,
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        self._http.close()

    def apply(
        self, action: str, arguments: Mapping[str, Any], key: str | None, timeout_s: float | None = None
    ) -> Applied | Refused | InDoubt | NotSent:
        """Ask for an effect. Never raises for what the network or the bank does.

        Raises ValueError for a key or arguments that cannot be sent, before anything is.
        """
        if key is not None and not (key and key.isascii() and key.isprintable()):
            raise ValueError("an idempotency key is printable ASCII")
        content = json.dumps({"arguments": dict(arguments)}, allow_nan=False).encode()
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        path = f"/effects/{quote(action, safe='')}"
        try:
            reply = self._http.post(path, content=content, headers=headers, timeout=self._bound(timeout_s))
        except (*BEFORE_SENDING, httpx.InvalidURL) as error:
            return NotSent(_words(error))
        except httpx.TimeoutException as error:
            return InDoubt(DoubtCause.TIMEOUT, _words(error))
        except httpx.HTTPError as error:
            return InDoubt(DoubtCause.CONNECTION_LOST, _words(error))
        return _read_effect(reply, action, key)

    def look_up(self, key: str) -> Found | NotFound | Unreachable:
        """What the bank knows under `key`."""
        reply = self._get(f"/effects/by-key/{quote(key, safe='')}")
        if isinstance(reply, Unreachable):
            return reply
        status, row = reply
        try:
            if status == 404 and row["state"] == "NOT_FOUND" and row["key"] == key:
                return NotFound(int(row["as_of"]))
            if status == 200 and row["state"] in ("APPLIED", "REFUSED") and row["key"] == key:
                return _found(row)
        except (KeyError, TypeError, ValueError):
            pass  # as unclear as a reply about something else
        return Unreachable(f"unclear reply {status}: {row}")

    def resource(self, kind: str, name: str) -> Resource | Unreachable:
        """Whether a reservation of the resource exists now."""
        reply = self._get(f"/resources/{quote(kind, safe='')}/{quote(name, safe='')}")
        if isinstance(reply, Unreachable):
            return reply
        status, row = reply
        try:
            if status == 200:
                return Resource(row["kind"], row["name"], bool(row["exists"]), row["holder"], int(row["version"]))
        except (KeyError, TypeError, ValueError):
            pass  # reported below
        return Unreachable(f"unclear reply {status}: {row}")

    def account(self, account_id: str) -> Account | Unreachable:
        """Balance and entries of an account."""
        reply = self._get(f"/accounts/{quote(account_id, safe='')}")
        if isinstance(reply, Unreachable):
            return reply
        status, row = reply
        try:
            if status == 200:
                return Account(row["account_id"], row["balance"], tuple(row["entries"]), int(row["version"]))
        except (KeyError, TypeError, ValueError):
            pass  # reported below
        return Unreachable(f"unclear reply {status}: {row}")

    def inject(self, kind: FaultKind, **details: Any) -> None:
        """Make the bank fail, for tests and demonstrations (action, count, seconds, delay_s, close)."""
        body = {"kind": kind.value, **details}
        self._http.post("/faults", json=body, timeout=self._timeout_s).raise_for_status()

    def clear_faults(self) -> None:
        """Make the bank well again."""
        self._http.delete("/faults", timeout=self._timeout_s).raise_for_status()

    def _bound(self, timeout_s: float | None) -> float:
        return self._timeout_s if timeout_s is None else timeout_s

    def _get(self, path: str) -> tuple[int, dict[str, Any]] | Unreachable:
        try:
            reply = self._http.get(path, timeout=self._timeout_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Unreachable(_words(error))
        row = _row(reply)
        return Unreachable(f"unclear reply {reply.status_code}") if row is None else (reply.status_code, row)


def _read_effect(reply: httpx.Response, action: str, key: str | None) -> Applied | Refused | InDoubt:
    """What the reply proves. A key that is not echoed was perhaps never read, so it proves nothing."""
    status, row = reply.status_code, _row(reply)
    if status >= 500:
        return InDoubt(DoubtCause.SERVER_ERROR, f"reply {status}")
    if status == 409:
        return InDoubt(DoubtCause.KEY_CONFLICT, f"reply {status}: {row}")
    unclear = InDoubt(DoubtCause.UNCLEAR_REPLY, f"reply {status}: {row}")
    if row is None or "key" not in row or row["key"] != key or row.get("action") != action:
        return unclear
    replayed = reply.headers.get("Idempotent-Replay") == "true"
    match status, row:
        case 200, {"state": "APPLIED", "external_id": str(external_id), "result": dict(result)} if external_id:
            return Applied(external_id, key, action, result, replayed)
        case int(), {"state": "REFUSED", "refused": str(reason)} if status in NO_DOUBT_STATUS:
            return Refused(reason, key, replayed)
        case _:
            return unclear


def _row(reply: httpx.Response) -> dict[str, Any] | None:
    try:
        row = reply.json()
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _found(row: Mapping[str, Any]) -> Found:
    return Found(
        external_id=row["external_id"],
        key=row["key"],
        action=row["action"],
        applied=row["state"] == "APPLIED",
        refused=row["refused"],
        result=row["result"],
        matches=int(row["matches"]),
        version=int(row["version"]),
        as_of=int(row["as_of"]),
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
