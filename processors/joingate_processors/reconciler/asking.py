"""The asker: takes what is due, puts the question to its downstream, and delivers the answer.

Each downstream has its own lane of a few questions at once, so that one which answers slowly or never delays no
other. Nothing is remembered here: a crash loses at most an answer, and the question is put again.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from joingate_processors.reconciler import rules
from joingate_processors.reconciler.answers import Answer, Answered, Downstream, ResendDue, Unreachable
from joingate_processors.reconciler.rules import Policy, Row, Way
from joingate_processors.reconciler.schedule import Schedule
from joingate_processors.reconciler.status import Board

log = logging.getLogger(__name__)

LOOK_S_MAX = 0.25
"""How long the asker sleeps at most, in seconds, before it looks at the schedule again."""


@dataclass
class _Lane:
    """The questions to one downstream: how many are out, and whose turn is next."""

    running: int = 0
    waiting: deque[str] = field(default_factory=deque)


class Asker:
    """Asks what is due by the schedule. `read` gives a subject's row; `deliver` returns once the answer is durable."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        read: Callable[[str], Row | None],
        deliver: Callable[[Row, Answered], Awaitable[None]],
        downstreams: Mapping[str, Downstream],
        board: Board,
        policy: Policy,
        clock: Callable[[], int],
        at_once: int = 4,
    ) -> None:
        self._schedule = schedule
        self._read = read
        self._deliver = deliver
        self._downstreams = downstreams
        self._board = board
        self._policy = policy
        self._clock = clock
        self._at_once = at_once
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    async def run(self) -> None:
        """Ask until cancelled; what is then out is given up."""
        try:
            while True:
                self.look()
                await asyncio.sleep(self._pause_s())
        finally:
            self._ended = True
            for task in self._tasks:
                task.cancel()

    def look(self) -> None:
        """Start whatever is due now."""
        now = self._clock()
        while (subject_id := self._schedule.take(now)) is not None:
            row = self._read(subject_id)
            move = None if row is None else rules.move(row, now, self._policy)
            if row is None or move is None:
                continue
            if move.at > now:
                # Another way than was planned, as when the downstream has forgotten the key meanwhile.
                self._schedule.set(subject_id, move.at)
                continue
            name = row.request.downstream
            if not self._can(move.way, name):
                continue
            self._lanes[name].waiting.append(subject_id)
            self._pump(name)

    def forget(self) -> None:
        """Ask nothing that is not out yet: the table that the schedule was made from may be another's now."""
        self._schedule.clear()
        for lane in self._lanes.values():
            lane.waiting.clear()

    async def settle(self) -> None:
        """Wait for every question that is out."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _pause_s(self) -> float:
        at = self._schedule.next_at()
        return LOOK_S_MAX if at is None else min(LOOK_S_MAX, max(0.01, (at - self._clock()) / 1000))

    def _can(self, way: Way, name: str) -> bool:
        """Whether the question can be put; the first time that it can't, say so."""
        if way == "RESEND" or name in self._downstreams:
            return True
        if name not in self._board.unconfigured:
            self._board.unconfigured.add(name)
            log.error(
                "downstream %s should be asked, and the reconciler has no address for it: nothing is asked there until "
                "the reconciler is started with one; meanwhile the gate turns to a person at each deadline",
                name,
            )
        return False

    def _pump(self, name: str) -> None:
        lane = self._lanes[name]
        while lane.waiting and lane.running < self._at_once and not self._ended:
            lane.running += 1
            task = asyncio.create_task(self._ask(name, lane.waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, name: str, subject_id: str) -> None:
        try:
            await self._question(subject_id)
        except Exception:
            # Nothing was written, so the question stands.
            log.exception("the answer about %s could not be delivered; it is asked again", subject_id)
            self._schedule.set(subject_id, self._clock() + self._policy.backoff_ms_max)
        finally:
            lane = self._lanes[name]
            lane.running -= 1
            self._pump(name)

    async def _question(self, subject_id: str) -> None:
        now = self._clock()
        # Read again: while it waited for its turn, the subject may have been resolved.
        row = self._read(subject_id)
        move = None if row is None else rules.move(row, now, self._policy)
        if row is None or move is None or not self._can(move.way, row.request.downstream):
            return
        request = row.request
        answer = await self._answer(move.way, row)
        self._board.asks += 1
        answered = Answered(
            subject_id=subject_id,
            partition=request.partition,
            ledger_seq=request.ledger_seq,
            ask=row.asks + 1,
            asked_at=now,
            answer=answer,
        )
        await self._deliver(row, answered)

    async def _answer(self, way: Way, row: Row) -> Answer:
        request = row.request
        if way == "RESEND":
            return ResendDue()
        downstream = self._downstreams[request.downstream]
        answer: Answer
        try:
            match way:
                case "LOOK_UP":
                    answer = await downstream.look_up(request)
                case "RESOURCE":
                    answer = await downstream.observe_resource(request)
                case "STATEMENT":
                    answer = await downstream.read_statement(request)
                case _:
                    assert_never(way)
        except Exception as error:
            # An adapter is somebody else's code: its fault is no answer, and must not stop the other questions.
            log.exception("the adapter of downstream %s failed over %s", request.downstream, request.subject_id)
            answer = Unreachable(detail=f"{type(error).__name__}: {error}")
        self._note(request.downstream, answer)
        return answer

    def _note(self, name: str, answer: Answer) -> None:
        if not isinstance(answer, Unreachable):
            self._board.unreachable.discard(name)
        elif name not in self._board.unreachable:
            self._board.unreachable.add(name)
            log.warning("downstream %s gives no clear answer (%s); it is asked again later", name, answer.detail)
