"""What is said of an effect that was to be made: four plain answers, none of which is a guess."""

from collections.abc import Callable, Mapping, Sequence
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


class NothingHappened(Exception):
    """To be raised where it is certain that nothing left this process, as `NotSent` is to be returned.

    The only exceptions that end an effect as undone are this one and `Declined`: any other says nothing about what
    happened, and is passed on as a doubt.
    """

    def __init__(self, error: str, evidence: Sequence[str] = ()) -> None:
        """`error` says why; `evidence` refers to what shows it."""
        super().__init__(error)
        self.error = error
        self.evidence = list(evidence)

    @property
    def outcome(self) -> NotSent | Refused:
        """The same as a returned answer."""
        return NotSent(self.error, self.evidence)


class Declined(NothingHappened):
    """To be raised where the downstream refused this key for good, as `Refused` is to be returned."""

    @property
    def outcome(self) -> Refused:
        """The same as a returned answer."""
        return Refused(self.error, self.evidence)
