"""The desk: what is done with a request or an answer that arrives, over a table that may be Faust's or a dictionary.

Everything here survives being done twice. The order of steps, and the crash that each survives:

1. the claim is sent, and the broker has it        crash: the answer comes again, the same claim goes out again
2. the row is written                              crash: the answer comes again, and its ask is no longer the next
3. the position moves
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from joingate_processors.reconciler import rules
from joingate_processors.reconciler.answers import Answered
from joingate_processors.reconciler.rows import (
    Admission,
    decode_guard,
    decode_row,
    encode_guard,
    encode_row,
    guard_key,
    is_row,
    row_key,
)
from joingate_processors.reconciler.rules import Policy, Row
from joingate_processors.reconciler.schedule import Schedule
from joingate_processors.reconciler.status import Board
from joingate_schemas.claims import Observe
from joingate_schemas.decisions import InDoubtRequest

log = logging.getLogger(__name__)


class Rows(Protocol):
    """The table: bytes by key. Reading is always allowed, writing only while an event is at hand."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def items(self) -> Iterable[tuple[bytes, bytes]]: ...


class Desk:
    """Takes in requests and answers, and keeps the schedule in step with the table. `clock` gives ms."""

    def __init__(self, rows: Rows, schedule: Schedule, board: Board, policy: Policy, clock: Callable[[], int]) -> None:
        self._rows = rows
        self._schedule = schedule
        self._board = board
        self._policy = policy
        self._clock = clock

    def row(self, subject_id: str) -> Row | None:
        """The subject's open row, if there is one."""
        value = self._rows.get(row_key(subject_id))
        return None if value is None else decode_row(value)

    def recall(self) -> None:
        """Make the schedule anew from the table, as after a start or a rebalance."""
        self._schedule.clear()
        self._board.open.clear()
        for key, value in self._rows.items():
            if is_row(key):
                self._plan(decode_row(value))

    def take_request(self, request: InDoubtRequest, received_on: int) -> None:
        """Open, replace or forget the subject's row, unless the request was seen before or its writer is replaced."""
        guard = decode_guard(self._rows.get(guard_key(request.partition)))
        admission = guard.admits(request)
        match admission:
            case Admission.REPEATED:
                return
            case Admission.REFUSED:
                self._board.stale_epochs += 1
                log.error(
                    "refused a request about %s (ledger seq %d of partition %d): its writer had epoch %d, and epoch %d "
                    "has written since",
                    request.subject_id, request.ledger_seq, request.partition, request.epoch, guard.epoch,
                )  # fmt: skip
                return
            case Admission.NEW:
                self._take(request, received_on)
        # Last, so that a crash before it takes the request in again. And never a deletion: a changelog that ends in
        # one loses its last record to compaction, and Faust waits for that record for ever when it restores.
        self._rows.put(guard_key(request.partition), encode_guard(guard.after(request)))

    def _take(self, request: InDoubtRequest, received_on: int) -> None:
        if request.kind == "UNKNOWN":
            self._board.unknown_kinds += 1
            log.error(
                "a request about %s (ledger seq %d of partition %d) is of a kind that this release does not know: "
                "nothing is asked or concluded; run a release that knows it",
                request.subject_id, request.ledger_seq, request.partition,
            )  # fmt: skip
            return
        row = rules.opened(request, received_on, self._clock(), self._policy)
        if row is None:
            self._close(request.subject_id)
        else:
            self._put(row)

    async def take_answer(self, answered: Answered, send: Callable[[Observe], Awaitable[None]]) -> None:
        """Say what follows from the answer, and write down that it was said. `send` returns once the broker has it."""
        row = self.row(answered.subject_id)
        if row is None or not _is_next(row, answered):
            return
        step = rules.answered(row, answered.answer, answered.asked_at, self._policy)
        if step.claim is not None:
            await send(step.claim)
            self._board.claims += 1
        if step.row is not None:
            self._put(step.row)
            return
        log.warning(
            "what is known about %s was said %d times, and the gate has not settled it: it is asked about no more, and "
            "the gate turns to a person at its deadline",
            answered.subject_id, self._policy.tellings_max,
        )  # fmt: skip
        self._close(answered.subject_id)

    def _close(self, subject_id: str) -> None:
        self._rows.delete(row_key(subject_id))
        self._schedule.drop(subject_id)
        self._board.open.discard(subject_id)

    def _put(self, row: Row) -> None:
        self._rows.put(row_key(row.request.subject_id), encode_row(row))
        self._plan(row)

    def _plan(self, row: Row) -> None:
        subject_id = row.request.subject_id
        self._board.open.add(subject_id)
        move = rules.move(row, self._clock(), self._policy)
        if move is None:
            self._schedule.drop(subject_id)
        else:
            self._schedule.set(subject_id, move.at)


def _is_next(row: Row, answered: Answered) -> bool:
    """Whether this answers the row's present request, and its next question rather than one answered before."""
    request = row.request
    asked = (answered.partition, answered.ledger_seq, answered.ask)
    return asked == (request.partition, request.ledger_seq, row.asks + 1)
