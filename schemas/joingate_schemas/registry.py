"""The room that speaks to a schema registry (the Confluent API, which Apicurio speaks too), as little as we need.

Two requests: give me an id for this schema, and give me the schema of this id. Both answers never change, so that
each is asked once in a process. The standard library is enough for that, and keeps the base install light.
"""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 4_194_304
_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryUnavailable(RuntimeError):
    """The schema registry can't be asked, or refuses; the text says what was asked and what to do."""


class Registry:
    """A client for one registry; each request is bounded by `timeout_s` seconds for connecting and for each read."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """`url` is the root of the API, for instance http://127.0.0.1:8080/apis/ccompat/v7. Raises ValueError."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"The schema registry's address must begin with http:// or https://, and is {url!r}.")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, str] = {}

    def id_of(self, subject: str, schema: str) -> int:
        """The id of `schema` (JSON) under `subject`, registered if it is new. Raises RegistryUnavailable."""
        if subject not in self._ids:
            answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
            number = answer.get("id") if answer is not None else None
            if not isinstance(number, int) or not 0 <= number < 2**32:
                raise RegistryUnavailable(
                    f"The schema registry at {self._url} gave no id for {subject}: check that this is its API's root."
                )
            self._ids[subject] = number
        return self._ids[subject]

    def schema_of(self, number: int) -> str | None:
        """The schema (JSON) with this id, or None when the registry has none. Raises RegistryUnavailable."""
        if number not in self._schemas:
            answer = self._ask(f"/schemas/ids/{number}", None)
            schema = answer.get("schema") if answer is not None else None
            if not isinstance(schema, str):
                return None
            self._schemas[number] = schema
        return self._schemas[number]

    def _ask(self, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        """One request and its JSON answer; None for 404."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data=data, headers={"Content-Type": _TYPE, "Accept": _TYPE})
        try:
            with urlopen(request, timeout=self._timeout_s) as response:
                answer = json.loads(response.read(ANSWER_BYTES_MAX))
        except HTTPError as error:
            with error:
                if error.code == 404 and body is None:
                    return None
                said = error.read(500).decode(errors="replace").strip()
            raise RegistryUnavailable(
                f"The schema registry at {self._url} answered {error.code} to {path}: {said or 'no reason given'}."
            ) from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise RegistryUnavailable(
                f"The schema registry at {self._url} could not be asked for {path} ({error}): check that it runs there."
            ) from error
        return answer if isinstance(answer, dict) else None
