"""What a handler says of an effect that it was to make: four plain answers, none of which is a guess."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from joingate_schemas.decisions import Command


@dataclass(frozen=True)
class Applied:
    """The effect is there: its id at the system of record, the evidence, the result for the planner.

    `idempotency_key` is the key as the downstream echoed it, if it did. A downstream that is declared to know keys has
    to give one of the two, `external_id` or the key: the gate believes no evidence alone there (NO_EVIDENCE).
    """

    external_id: str
    evidence: list[str] = field(default_factory=list)
    result: str = ""
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Refused:
    """The downstream definitively refused this key, as a declined card: there is no effect, and will be none."""

    error: str
    evidence: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NotSent:
    """Nothing left this process, and nothing will: only to be said when that is certain."""

    error: str
    evidence: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Doubt:
    """It can't be told whether the effect happened: a timeout, a lost reply, an answer that makes no sense."""

    cause: str
    evidence: list[str] = field(default_factory=list)


Outcome: TypeAlias = Applied | Refused | NotSent | Doubt
Handler: TypeAlias = Callable[[Command], Outcome]
Handlers: TypeAlias = Mapping[str, Handler]
"""Handlers by action. One gets `command.operation_id` as the idempotency key to send downstream."""
