"""Holds the bank's client to its word: only what surely never left is "not sent", only the bank's word ends a doubt."""

import socket
import threading

import httpx
import pytest

from joingate.sample.client import Applied, BankClient, DoubtCause, InDoubt, NotSent, Refused, Unreachable

DEADLINE_S = 20.0


def gist(reply: Applied | Refused | InDoubt | NotSent) -> object:
    """The reply without its wording, which no test holds on to."""
    match reply:
        case InDoubt(cause, _):
            return cause
        case NotSent():
            return NotSent
        case _:
            return reply


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError("refused"), NotSent),
        (httpx.ConnectTimeout("late"), NotSent),
        (httpx.PoolTimeout("busy"), NotSent),
        (httpx.UnsupportedProtocol("gopher"), NotSent),
        (httpx.InvalidURL("nowhere"), NotSent),
        (httpx.WriteTimeout("late"), DoubtCause.TIMEOUT),
        (httpx.ReadTimeout("late"), DoubtCause.TIMEOUT),
        (httpx.WriteError("broken"), DoubtCause.CONNECTION_LOST),
        (httpx.ReadError("reset"), DoubtCause.CONNECTION_LOST),
        (httpx.CloseError("broken"), DoubtCause.CONNECTION_LOST),
        (httpx.RemoteProtocolError("no reply"), DoubtCause.CONNECTION_LOST),
        (httpx.LocalProtocolError("short body"), DoubtCause.CONNECTION_LOST),
        (httpx.ProxyError("in between"), DoubtCause.CONNECTION_LOST),
        (httpx.DecodingError("garbled"), DoubtCause.CONNECTION_LOST),
        (httpx.TooManyRedirects("round"), DoubtCause.CONNECTION_LOST),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_only_errors_before_the_first_byte_are_not_sent(error: Exception, expected: object) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with BankClient("http://bank", transport=httpx.MockTransport(fail)) as client:
        assert gist(client.apply("notify", {"text": "x"}, "k")) == expected
        assert isinstance(client.look_up("k"), Unreachable)


GOOD = {"external_id": "b-1", "key": "k", "action": "notify", "state": "APPLIED", "result": {}}
NO = {"key": "k", "action": "notify", "state": "REFUSED", "refused": "no"}
UNCLEAR = DoubtCause.UNCLEAR_REPLY


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, GOOD, Applied("b-1", "k", "notify")),
        (200, GOOD | {"key": "other"}, UNCLEAR),
        (200, {name: GOOD[name] for name in GOOD if name != "key"}, UNCLEAR),
        (200, GOOD | {"external_id": ""}, UNCLEAR),
        (200, GOOD | {"action": "deploy"}, UNCLEAR),
        (200, NO, UNCLEAR),
        (202, GOOD, UNCLEAR),
        (302, GOOD, UNCLEAR),
        (422, NO, Refused("no", "k")),
        (404, NO, Refused("no", "k")),
        (422, GOOD, UNCLEAR),
        (422, {"detail": []}, UNCLEAR),
        (404, {"detail": "Not Found"}, UNCLEAR),
        (400, {"error": "malformed"}, UNCLEAR),
        (409, NO, DoubtCause.KEY_CONFLICT),
        (500, NO, DoubtCause.SERVER_ERROR),
        (503, {}, DoubtCause.SERVER_ERROR),
        (200, [], UNCLEAR),
    ],
)
def test_only_the_banks_own_words_about_this_key_end_the_doubt(status: int, body: object, expected: object) -> None:
    reply = httpx.MockTransport(lambda request: httpx.Response(status, json=body))
    with BankClient("http://bank", transport=reply) as client:
        assert gist(client.apply("notify", {"text": "x"}, "k")) == expected


@pytest.mark.parametrize(("status", "body"), [(404, {"detail": "Not Found"}), (200, {}), (200, []), (503, {})])
def test_a_404_that_is_not_the_banks_is_no_answer_to_a_look_up(status: int, body: object) -> None:
    reply = httpx.MockTransport(lambda request: httpx.Response(status, json=body))
    with BankClient("http://bank", transport=reply) as client:
        assert isinstance(client.look_up("k"), Unreachable)
        assert isinstance(client.resource("window", "w"), Unreachable)
        assert isinstance(client.account("a"), Unreachable)


def test_a_refused_connection_is_not_sent() -> None:
    with socket.socket() as bound:  # bound but not listening, so nobody else can answer there
        bound.bind(("127.0.0.1", 0))
        with BankClient(f"http://127.0.0.1:{bound.getsockname()[1]}") as client:
            assert gist(client.apply("notify", {"text": "x"}, "k")) is NotSent


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"what?\r\n\r\n"])
def test_a_server_that_breaks_off_leaves_a_doubt(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(said)

        server = threading.Thread(target=answer, daemon=True)
        server.start()
        with BankClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
            doubt = client.apply("notify", {"text": "x"}, "k")
        server.join(DEADLINE_S)
    assert gist(doubt) is DoubtCause.CONNECTION_LOST


@pytest.mark.parametrize("key", ["", "two\nlines", "ключ"])
def test_a_key_that_no_header_can_carry_is_a_mistake_and_raises(key: str) -> None:
    with BankClient("http://bank") as client, pytest.raises(ValueError, match="printable ASCII"):
        client.apply("notify", {"text": "x"}, key)
