"""The room for what a system of record can answer: closed unions, and the seam behind which an adapter asks.

An answer is written to a topic before anything follows from it, so it has a form on the wire too. No answer is ever
an exception: what could not be asked is `Unreachable`, from which nothing is concluded.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias, get_args

from joingate_schemas.decisions import InDoubtRequest


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What every answer of a source carries: its own version or time (ms), and the words that an auditor can check."""

    source_version: int | None = None
    source_time: int | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Found(Heard):
    """The effect is there, once for each external id. `key`: the idempotency key that the source itself named."""

    external_ids: tuple[str, ...]
    key: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError without an id: an effect that cannot be named was not found."""
        if not self.external_ids:
            raise ValueError("an effect that is found has an external id")


@dataclass(frozen=True, kw_only=True)
class NotFound(Heard):
    """The source saw nothing under the reference. One such answer proves nothing."""


@dataclass(frozen=True, kw_only=True)
class Refused(Heard):
    """The source definitively refused this key, and always will."""


@dataclass(frozen=True, kw_only=True)
class AtWork(Heard):
    """The source knows of it and has not finished."""


@dataclass(frozen=True, kw_only=True)
class Exists(Heard):
    """All of the resources are there."""


@dataclass(frozen=True, kw_only=True)
class Gone(Heard):
    """None of the resources is there."""


@dataclass(frozen=True, kw_only=True)
class PartlyThere(Heard):
    """Some of the resources are there, some are not."""


@dataclass(frozen=True, kw_only=True)
class Statement(Heard):
    """The period's statement. Only a `closed` one proves anything: nothing can be booked into it any more."""

    closed: bool
    external_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Unreachable:
    """There was no clear answer. It is not "absent": nothing is concluded, and it is asked again."""

    detail: str


@dataclass(frozen=True, kw_only=True)
class ResendDue:
    """No question was asked: the moment has come to ask the gate for a new attempt with the same key."""


LookUp: TypeAlias = Found | NotFound | Refused | AtWork | Unreachable
ResourceView: TypeAlias = Exists | Gone | PartlyThere | Unreachable
StatementView: TypeAlias = Statement | Unreachable
Answer: TypeAlias = (
    Found | NotFound | Refused | AtWork | Exists | Gone | PartlyThere | Statement | Unreachable | ResendDue
)


class Downstream(Protocol):
    """One system of record, as far as it can be asked. An adapter only ever reads; it never raises for the network."""

    async def look_up(self, request: InDoubtRequest) -> LookUp:
        """What became of the operation `request.subject_id`, which is the idempotency key that was sent."""
        ...

    async def observe_resource(self, request: InDoubtRequest) -> ResourceView:
        """Whether what `request.resource_refs` name exists now."""
        ...

    async def read_statement(self, request: InDoubtRequest) -> StatementView:
        """The statement of the period that holds everything which may have landed until `request.askable_from`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


_ANSWERS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Answer)}
_LISTS = ("evidence", "external_ids")


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An answer on its way back: to the `ask`-th question (from 1) of which request, and when that was put (ms)."""

    subject_id: str
    partition: int
    ledger_seq: int
    ask: int
    asked_at: int
    answer: Answer

    def encode(self) -> bytes:
        """The wire form, JSON."""
        row = {**self.__dict__, "answer": {"is": type(self.answer).__name__, **asdict(self.answer)}}
        return json.dumps(row, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Answered":
        """Read it back. Raises ValueError, KeyError or TypeError for what this release did not write."""
        row = json.loads(value)
        fields = row.pop("answer")
        kind = _ANSWERS[fields.pop("is")]
        tidy = {name: tuple(each) if name in _LISTS else each for name, each in fields.items()}
        return cls(**row, answer=kind(**tidy))
