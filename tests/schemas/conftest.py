"""What the tests of the schemas share: one codec, and an example of any record, made from its type hints alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest

from joingate_schemas.codec import Codec


def _example(hint: Any) -> Any:
    """A value that the hint allows, as full as it can be: nothing empty, nothing null."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.NotRequired:
        return _example(args[0])
    if origin is typing.Literal:
        return args[0]
    if origin in (typing.Union, types.UnionType):
        return _example(next(arg for arg in args if arg is not type(None)))
    if origin is list:
        return [_example(args[0]), _example(args[0])]
    if origin is dict:
        return {"a": _example(args[1]), "ü": _example(args[1])}
    if typing.is_typeddict(hint):
        return {k: _example(v) for k, v in typing.get_type_hints(hint, include_extras=True).items()}
    if dataclasses.is_dataclass(hint):
        return filled(typing.cast(type, hint))
    return {bool: True, int: 1_796_035_200_123, float: 0.25, str: "straße 7", bytes: b"\x00\xff"}[hint]


def filled(cls: type, **fields: Any) -> Any:
    """A record of `cls` with every field filled, `fields` as given."""
    hints = typing.get_type_hints(cls)
    made = {field.name: _example(hints[field.name]) for field in dataclasses.fields(cls) if field.name not in fields}
    return cls(**made, **fields)


@pytest.fixture(scope="session")
def example() -> Callable[..., Any]:
    """`filled`, for any record class."""
    return filled


@pytest.fixture(scope="session")
def codec() -> Codec:
    """One codec without a registry."""
    return Codec()
