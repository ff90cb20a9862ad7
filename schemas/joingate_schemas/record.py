"""How a record of ours is held in memory: a plain object whose `__dict__` is exactly its Avro datum.

The hot path decodes and encodes tens of thousands of records a second, so a record is frozen for the type
checker and unguarded at run time: decoding hands the decoder's dictionary over as the object's own, encoding
passes it back, and nothing is copied on the way (style rule: the law's types are closed and immutable, their
cost is measured).
"""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """Make `cls` a record: keyword-only, compared by value, frozen to the type checker."""
    return dataclass(kw_only=True)(cls)


def from_datum(cls: type[T], datum: dict[str, Any]) -> T:
    """The record of type `cls` over `datum`, which it takes over: the caller must not keep or change it."""
    made = object.__new__(cls)
    made.__dict__ = datum
    return made


def changed(old: T, **fields: Any) -> T:
    """A copy of `old` with `fields` replaced; `old` stays as it was."""
    made = object.__new__(type(old))
    made.__dict__ = old.__dict__ | fields
    return made
