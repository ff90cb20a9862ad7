"""The room for asking a bank over HTTP: the bundled sample, or any system that answers the same three questions.

GET /effects/by-key/{key}, then GET /effects?reference={key}, since a key may be forgotten where its effect is not;
GET /resources/{kind}/{name}; GET /statement?until={time}&format=json. A reply that does not name what it was asked
about proves nothing, and counts as unreachable.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from joingate_processors.reconciler.answers import (
    Exists,
    Found,
    Gone,
    LookUp,
    NotFound,
    PartlyThere,
    Refused,
    ResourceView,
    Statement,
    StatementView,
    Unreachable,
)
from joingate_schemas.decisions import InDoubtRequest


class HttpBank:
    """One bank at `base_url`. `timeout_s` bounds a whole reply. Make and use it within one event loop."""

    def __init__(self, base_url: str, *, timeout_s: float = 5.0) -> None:
        self._base = base_url.rstrip("/")
        # No proxy from the environment: what it says in the bank's place would be taken for the bank's word.
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def look_up(self, request: InDoubtRequest) -> LookUp:
        """What the bank knows under the key `request.subject_id`."""
        key = request.subject_id
        known = await self._get(f"/effects/by-key/{quote(key, safe='')}")
        if isinstance(known, Unreachable):
            return known
        match known:
            case 200, {"state": "REFUSED", "key": str(echo), "refused": reason, "as_of": int(as_of)} if echo == key:
                return Refused(source_version=as_of, evidence=(f"key {key} refused as of {as_of}: {reason}",))
            case 200, {
                "state": "APPLIED",
                "key": str(echo),
                "external_id": str(one),
                "matches": 1,
                "as_of": int(as_of),
            } if echo == key:
                return Found(external_ids=(one,), key=key, source_version=as_of, evidence=(_as_of(one, as_of),))
            case (200, {"state": "APPLIED", "key": str(echo)}) | (404, {"state": "NOT_FOUND", "key": str(echo)}) if (
                echo == key
            ):
                # Several, or none that is recognised by its key: the record of effects tells.
                return await self._by_reference(key)
            case status, row:
                return _unclear(status, row)

    async def _by_reference(self, key: str) -> LookUp:
        listed = await self._get(f"/effects?reference={quote(key, safe='')}")
        if isinstance(listed, Unreachable):
            return listed
        match listed:
            case 200, {"effects": list(effects), "as_of": int(as_of)}:
                if any(_text(effect, "key") != key or not _text(effect, "external_id") for effect in effects):
                    return _unclear(200, {"effects": effects})
                ids = tuple(_text(effect, "external_id") for effect in effects)
                if not ids:
                    return NotFound(source_version=as_of, evidence=(f"nothing under key {key} as of {as_of}",))
                evidence = tuple(_as_of(each, as_of) for each in ids)
                return Found(external_ids=ids, key=key, source_version=as_of, evidence=evidence)
            case status, row:
                return _unclear(status, row)

    async def observe_resource(self, request: InDoubtRequest) -> ResourceView:
        """Whether every resource, none of them, or some exist now.

        Where the id of the reservation is known, only that one counts: another's later one is not ours.
        """
        there: list[bool] = []
        versions: list[int] = []
        evidence: list[str] = []
        for reference in request.resource_refs:
            kind, _, name = reference.partition(":")
            reply = await self._get(f"/resources/{quote(kind, safe='')}/{quote(name, safe='')}")
            if isinstance(reply, Unreachable):
                return reply
            match reply:
                case 200, {"kind": str(k), "name": str(n), "exists": bool(exists), "version": int(version)} if (
                    k == kind and n == name
                ):
                    holder = reply[1].get("holder")
                    there.append(exists and (not request.external_ids or holder in request.external_ids))
                    versions.append(version)
                    words = f"is held by {holder}" if exists else "is held by nobody"
                    evidence.append(f"{reference} {words} as of {version}")
                case status, row:
                    return _unclear(status, row)
        if not there:
            return Unreachable(detail="the request names no resource that could be asked about")
        # Of several looks the oldest is what the whole answer is as new as.
        kind_of = Exists if all(there) else PartlyThere if any(there) else Gone
        return kind_of(source_version=min(versions), evidence=tuple(evidence))

    async def read_statement(self, request: InDoubtRequest) -> StatementView:
        """The statement up to `request.askable_from`, when everything that was sent has landed or never will."""
        until = datetime.fromtimestamp(request.askable_from / 1000, UTC).isoformat()
        reply = await self._get(f"/statement?until={quote(until, safe='')}&format=json")
        if isinstance(reply, Unreachable):
            return reply
        match reply:
            case 200, {"closed": bool(closed), "lines": list(lines), "version": int(version)}:
                ids = tuple(_text(line, "external_id") for line in lines if _text(line, "key") == request.subject_id)
                if not all(ids):
                    return _unclear(200, {"lines": lines})
                words = f"statement until {until} as of {version}: {', '.join(ids) or 'no line'} under the key"
                return Statement(closed=closed, external_ids=ids, source_version=version, evidence=(words,))
            case status, row:
                return _unclear(status, row)

    async def _get(self, path: str) -> tuple[int, Mapping[str, Any]] | Unreachable:
        try:
            async with self._session.get(URL(self._base + path, encoded=True), allow_redirects=False) as reply:
                row = await reply.json(content_type=None)
                status = reply.status
        except TimeoutError:
            return Unreachable(detail=f"no reply in time from {self._base}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unreachable(detail=f"no clear reply from {self._base}: {type(error).__name__}: {error}")
        return (status, row) if isinstance(row, dict) else Unreachable(detail=f"unclear reply {status}")


def _text(row: object, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, str) else ""


def _as_of(external_id: str, as_of: int) -> str:
    return f"{external_id} applied as of {as_of}"


def _unclear(status: int, row: Mapping[str, Any]) -> Unreachable:
    return Unreachable(detail=f"unclear reply {status}: {str(row)[:200]}")
