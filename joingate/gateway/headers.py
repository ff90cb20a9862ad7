"""The headers of a call: what a harness says in them, and no model; and what is said to a call without a token."""

import json
from collections.abc import Callable

from joingate.gateway.wishes import Harness
from joingate_schemas.claims import Scalar

BIND, OCCURRENCE, REQUEST = "x-joingate-bind", "x-joingate-occurrence", "x-joingate-request"
"""The headers in which a harness says what is no model's to say.

The first is `name=value`, and may come several times, or a JSON object of such pairs.
"""
NO_TOKEN = "The header `Authorization: Bearer <token>` is missing, or its token is not known here."


class BadHarness(Exception):
    """A header of the harness that can't be read; the text is a sentence."""


def harness_of(headers: Callable[[str], list[str]]) -> Harness:
    """What the harness says in its headers. Raises BadHarness."""
    bound: dict[str, Scalar] = {}
    for text in headers(BIND):
        if text.lstrip().startswith("{"):
            bound |= _object(text)
        else:
            name, value = bound_of(text, f"The header {BIND}")
            bound[name] = value
    occurrence, request = (next(iter(headers(name)), "") for name in (OCCURRENCE, REQUEST))
    return Harness(bound, occurrence, request)


def bound_of(text: str, where: str) -> tuple[str, str]:
    """`name=value`, as a pair. Raises BadHarness, which names `where` it stands."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadHarness(f"{where} is name=value, such as refund_request=TCK-17; {text!r} is not.")
    return name.strip(), value.strip()


def _object(text: str) -> dict[str, Scalar]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(isinstance(one, str | int | float | bool | None) for one in row.values()):
        raise BadHarness(f"The header {BIND} must be name=value, or a JSON object of plain values.")
    return row
