"""The room that puts a gateway together from the settings: its connection, its read side, its tokens, its limits."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from joingate.faults import MALFORMED, FaceError
from joingate.gateway.core import Gateway
from joingate.gateway.headers import BadHarness, bound_of
from joingate.gateway.limits import Limits
from joingate.gateway.tokens import TokenError, Tokens
from joingate.gateway.wishes import Harness
from joingate.settings import Settings, find_catalogue
from joingate_producers import Connection, Planner
from joingate_projections.reader import HttpReader


def tokens_file(settings: Settings) -> Path:
    """Where the tokens' hashes are."""
    return settings.gateway_tokens or settings.data_dir / "gateway" / "tokens.jsonl"


def read_tokens(settings: Settings) -> Tokens:
    """The tokens that are let in. Raises FaceError: a gateway that lets nobody in is of no use."""
    path = tokens_file(settings)
    try:
        tokens = Tokens.read(path)
    except FileNotFoundError:
        raise FaceError(f"There is no file of tokens at {path}: make a token with `joingate gateway token`.") from None
    except TokenError as error:
        raise FaceError(str(error), MALFORMED) from error
    if not len(tokens):
        raise FaceError(f"The file of tokens {path} has none: make one with `joingate gateway token`.")
    return tokens


@contextlib.contextmanager
def made_gateway(settings: Settings) -> Iterator[Gateway]:
    """A gateway to the broker and the read side of the settings, with the catalogue that they name."""
    catalogue = find_catalogue(settings.catalogue)
    limits = Limits(settings.gateway_calls, max(1, int(settings.gateway_calls / 10)), settings.gateway_open)
    with Connection(
        bootstrap_servers=settings.bootstrap_servers,
        prefix=settings.prefix,
        registry_url=settings.registry_url,
        client=settings.client,
        client_id="gateway",
        key_file=settings.key_file,
        state_dir=settings.data_dir / "gateway",
    ) as connection:
        gateway = Gateway(
            catalogue, lambda principal: Planner(connection, principal), HttpReader(settings.api_url), limits=limits
        )
        try:
            yield gateway
        finally:
            gateway.close()


def said_by(bind: Sequence[str], occurrence: str, request: str) -> Harness:
    """What the harness says on a command line. Raises FaceError."""
    try:
        return Harness(dict(bound_of(text, "--bind") for text in bind), occurrence, request)
    except BadHarness as error:
        raise FaceError(str(error), MALFORMED) from error
