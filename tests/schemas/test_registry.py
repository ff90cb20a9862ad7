"""The registry's wire form, against a small registry on loopback that can also fail in the ways that real ones do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from joingate_schemas.claims import Close, Dispatch
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.registry import Registry, RegistryUnavailable

Example = Callable[..., Any]


class SmallRegistry(HTTPServer):
    """Hands out ids from 1 for schemas, under `/api`; counts what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ids: dict[str, int] = {}
        self.subjects: list[str] = []
        self.asked = 0
        self.broken: tuple[int, bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api"


class _Handler(BaseHTTPRequestHandler):
    server: SmallRegistry

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        self.server.subjects.append(self.path.removeprefix("/api/subjects/").removesuffix("/versions"))
        self._answer(200, {"id": self.server.ids.setdefault(text, len(self.server.ids) + 1)})

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/api/schemas/ids/"))
        found = [text for text, known in self.server.ids.items() if known == number]
        self._answer(*(200, {"schema": found[0]}) if found else (404, {"error_code": 40403}))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.server.asked += 1
        status, data = self.server.broken or (status, json.dumps(body).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    server = SmallRegistry()
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


def test_with_a_registry_records_carry_its_id_and_each_schema_is_registered_once(
    registry: SmallRegistry, example: Example
) -> None:
    codec = Codec(registry.url)
    assert registry.asked == 0
    values = [codec.encode(example(Dispatch)) for _ in range(3)]
    assert [value[:5] for value in values] == [b"\x00\x00\x00\x00\x01"] * 3
    assert registry.subjects == ["joingate.Dispatch"]
    assert codec.encode(example(Close))[:5] == b"\x00\x00\x00\x00\x02"


def test_each_form_is_read_by_whoever_writes_the_other(registry: SmallRegistry, codec: Codec, example: Example) -> None:
    record = example(Dispatch)
    with_registry, reader = Codec(registry.url), Codec(registry.url)
    value = with_registry.encode(record)
    assert reader.decode(value) == record
    assert reader.record_type_of(value) == "Dispatch"
    assert reader.decode(codec.encode(record)) == record
    before = registry.asked
    assert reader.decode(value) == record
    assert registry.asked == before, "an id's schema is asked for once"
    with pytest.raises(Undecodable, match="no registry is configured") as caught:
        codec.decode(value)
    assert caught.value.problem == "UNKNOWN_SCHEMA"


def test_another_releases_schema_comes_from_the_registry(
    registry: SmallRegistry, codec: Codec, example: Example
) -> None:
    record = example(Close, outcome="")
    schema = json.loads(codec.schema_json(Close))
    schema["fields"] = schema["fields"][:-1]
    registry.ids[json.dumps(schema)] = 9
    datum = codec.encode(record)[10:-1]  # without the last field, an empty text
    assert Codec(registry.url).decode(b"\x00\x00\x00\x00\x09" + datum) == record


def test_an_id_that_the_registry_does_not_know_is_an_unknown_schema(registry: SmallRegistry) -> None:
    with pytest.raises(Undecodable, match="no schema with id 77") as caught:
        Codec(registry.url).decode(b"\x00\x00\x00\x00\x4dxx")
    assert caught.value.problem == "UNKNOWN_SCHEMA"


def test_a_schema_of_the_registrys_that_is_none_is_an_unknown_schema(registry: SmallRegistry) -> None:
    registry.ids["syntax = 'proto3';"] = 5
    with pytest.raises(Undecodable, match="schema 5 is of no use") as caught:
        Codec(registry.url).decode(b"\x00\x00\x00\x00\x05xx")
    assert caught.value.problem == "UNKNOWN_SCHEMA"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((500, b"the disk is full"), "answered 500.*the disk is full"),
        ((401, b""), "answered 401.*no reason given"),
        ((404, b"{}"), "answered 404"),
        ((200, b"<html>"), "could not be asked"),
        ((200, b"[]"), "gave no id for joingate.Dispatch"),
        ((200, b'{"id": "x"}'), "gave no id for joingate.Dispatch"),
    ],
)
def test_a_registry_that_fails_is_unavailable_and_not_the_records_fault(
    registry: SmallRegistry, example: Example, answer: tuple[int, bytes], told: str
) -> None:
    registry.broken = answer
    codec = Codec(registry.url)
    with pytest.raises(RegistryUnavailable, match=told):
        codec.encode(example(Dispatch))
    registry.broken = None
    assert codec.encode(example(Dispatch))[:5] == b"\x00\x00\x00\x00\x01", "the next try may succeed"


def test_a_registry_that_is_not_there_or_does_not_answer_is_unavailable_within_the_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryUnavailable, match="could not be asked"):
            Registry(address).schema_of(1)
        silent.listen()  # takes the connection, and never says a word
        with pytest.raises(RegistryUnavailable, match="could not be asked"):
            Registry(address, timeout_s=0.2).schema_of(1)


def test_an_address_that_is_no_http_address_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        Codec("file:///etc")
