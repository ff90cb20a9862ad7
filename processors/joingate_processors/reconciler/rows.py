"""The room for what the reconciler remembers: rows and guards as bytes, and what a guard lets through.

A row a subject, and a guard a gate partition: how far its in-doubt requests were taken in. JSON, because the rows
are few, and because a person who looks into the changelog should be able to read them.
"""

import json
from dataclasses import dataclass, replace
from enum import Enum

from joingate_processors.reconciler.rules import Missed, Row
from joingate_schemas.decisions import InDoubtRequest
from joingate_schemas.record import from_datum

_GUARD = b"\x00guard/"  # ids never hold control characters, so no subject has such a key


class Admission(Enum):
    """What becomes of a request that arrives."""

    NEW = "taken in"
    REPEATED = "seen before, dropped"
    REFUSED = "written by a gate that has been replaced, refused"


@dataclass(frozen=True)
class Guard:
    """The newest request of one gate partition: its writer's epoch, its ledger seq, and its subjects at that seq."""

    epoch: int = 0
    seq: int = 0
    subjects: tuple[str, ...] = ()

    def admits(self, request: InDoubtRequest) -> Admission:
        """Whether this request is news. Requests of one partition come in the order of its ledger."""
        if request.epoch < self.epoch:
            return Admission.REFUSED
        here = request.ledger_seq == self.seq
        if request.ledger_seq < self.seq or (here and request.subject_id in self.subjects):
            return Admission.REPEATED
        return Admission.NEW

    def after(self, request: InDoubtRequest) -> "Guard":
        """The guard once `request` was taken in."""
        subjects = self.subjects if request.ledger_seq == self.seq else ()
        return Guard(request.epoch, request.ledger_seq, (*subjects, request.subject_id))


def guard_key(partition: int) -> bytes:
    """The key of the guard of a gate partition."""
    return _GUARD + str(partition).encode()


def row_key(subject_id: str) -> bytes:
    """The key of a subject's row."""
    return subject_id.encode()


def is_row(key: bytes) -> bool:
    """Whether the key is that of a row, not of a guard."""
    return not key.startswith(_GUARD)


def encode_guard(guard: Guard) -> bytes:
    """The bytes of a guard."""
    return json.dumps(guard.__dict__).encode()


def decode_guard(value: bytes | None) -> Guard:
    """The guard in `value`; the guard of a partition of which nothing was seen, if there is none."""
    if value is None:
        return Guard()
    guard = Guard(**json.loads(value))
    return replace(guard, subjects=tuple(guard.subjects))


def encode_row(row: Row) -> bytes:
    """The bytes of a row."""
    missed = None if row.missed is None else row.missed.__dict__
    return json.dumps({**row.__dict__, "request": row.request.__dict__, "missed": missed}).encode()


def decode_row(value: bytes) -> Row:
    """The row in `value`."""
    fields = json.loads(value)
    request = from_datum(InDoubtRequest, fields.pop("request"))
    missed = fields.pop("missed")
    if missed is not None:
        missed = Missed(**{**missed, "evidence": tuple(missed["evidence"])})
    return Row(request=request, missed=missed, **fields)
