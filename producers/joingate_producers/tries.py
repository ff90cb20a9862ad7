"""The room where one effect is tried: sent, and perhaps sent again with the same key, until it can be said what came.

The time is checked before each send, right before the function is called: a permit that ran out while a disk was slow
or while it waited between two sends begins nothing.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from joingate_producers.actions import Action, Context, Retry, context_of
from joingate_producers.handling import Applied, Doubt, NothingHappened, NotSent, Outcome, Refused
from joingate_schemas.decisions import Command

log = logging.getLogger("joingate.producers")

_WORDS_MAX = 500
# So long the loop of the coroutines may take to end what was cancelled.
_ENDING_S = 2.0


@dataclass(frozen=True)
class Leave:
    """Leave to begin sends: until `deadline_s` (monotonic), and while nobody said that there be `no_more`."""

    deadline_s: float
    no_more: threading.Event = field(default_factory=threading.Event)

    def holds(self) -> bool:
        """Whether a send may begin now."""
        return not self.no_more.is_set() and time.monotonic() < self.deadline_s

    def pause(self, wait_s: float) -> bool:
        """Wait for so long; false, at once, if no send may begin at the end of it."""
        if time.monotonic() + wait_s >= self.deadline_s:
            return False
        return not self.no_more.wait(wait_s)


class Coroutines:
    """An event loop in a thread of its own, made when it is first needed, for the functions that are async."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, awaitable: Awaitable[Any], timeout_s: float | None, may_begin: Callable[[], bool]) -> Any:
        """What it comes to. Raises TimeoutError after `timeout_s`, when it has been cancelled, and what it raises.

        Raises NothingHappened if it is a coroutine that may not begin any more when its turn on the loop comes.
        """

        async def bounded() -> Any:
            if inspect.iscoroutine(awaitable) and not may_begin():
                awaitable.close()
                raise NothingHappened("the loop was busy until there was no leave to begin it any more")
            return await asyncio.wait_for(awaitable, timeout_s)

        with self._lock:
            if self._closed:
                if inspect.iscoroutine(awaitable):
                    awaitable.close()
                raise NothingHappened("the executor has ended")
            future = asyncio.run_coroutine_threadsafe(bounded(), self._running())
        return future.result()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._turn, args=(self._loop,), name="joingate-async", daemon=True)
            self._thread.start()
        return self._loop

    @staticmethod
    def _turn(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()

    def close(self) -> None:
        """Cancel what still runs. One that does not let itself be cancelled goes down with the process."""
        with self._lock:
            self._closed = True
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_ENDING_S)


def perform(action: Action, command: Command, prepared: object, leave: Leave, coroutines: Coroutines) -> Outcome:
    """Send, and send again as the action's Retry says, while there is leave; then what came of it."""

    def call(send: int) -> object:
        context = context_of(command, leave.deadline_s, send, prepared)
        return _value(action.function(context), coroutines, action.timeout_s, leave.holds)

    return _tried(call, action.retry, leave, f"{command.action} on operation {command.operation_id}")


def prepare(action: Action, context: Context, no_more: threading.Event, coroutines: Coroutines) -> object:
    """What the action's prepare function returned, None without one. Raises NothingHappened if it comes to nothing."""
    if action.preparation is None:
        return None
    for send in range(1, action.retry.tries + 1):
        try:
            return _value(action.preparation(context), coroutines, action.timeout_s, lambda: True)
        except NothingHappened:
            raise
        # It has no effect in the world, so whatever it raises says that nothing happened, and it may be tried again.
        except Exception as error:
            log.warning("Preparing %s of operation %s failed: %r.", action.name, context.operation_id, error)
            if send == action.retry.tries or no_more.wait(action.retry.wait_s(send)):
                raise NothingHappened(f"preparing it failed: {_words(error)}") from error
    raise AssertionError("there is at least one try")


def _value(answer: object, coroutines: Coroutines, timeout_s: float | None, may_begin: Callable[[], bool]) -> object:
    return coroutines.run(answer, timeout_s, may_begin) if inspect.isawaitable(answer) else answer


def _tried(call: Callable[[int], object], retry: Retry, leave: Leave, what: str) -> Outcome:
    unclear: list[Doubt] = []
    send = 0
    outcome: Outcome = NotSent("there was no leave to begin it any more")
    while leave.holds():
        send += 1
        outcome, cause = _sent(call, send, what)
        if isinstance(outcome, Doubt):
            unclear.append(outcome)
        again = isinstance(outcome, NotSent) or (isinstance(outcome, Doubt) and isinstance(cause, retry.on))
        if not again or send >= retry.tries or not leave.pause(retry.wait_s(send)):
            break
    if not unclear or isinstance(outcome, Applied | Refused):
        return outcome
    # Of sends that were unclear, no later one proves anything: what was not sent last may have been sent first.
    causes = list(dict.fromkeys(one.cause for one in unclear))
    return Doubt("; ".join(causes)[:_WORDS_MAX], [item for one in unclear for item in one.evidence])


def _sent(call: Callable[[int], object], send: int, what: str) -> tuple[Outcome, object]:
    """What came of one send, and what a Retry is asked about: the exception, or what was returned."""
    try:
        answer = call(send)
    except NothingHappened as error:
        return error.outcome, error
    # Whatever else it raises, to end the process included, says nothing about the effect.
    except BaseException as error:
        log.exception("%s: send %d failed.", what, send)
        return Doubt(_words(error)), error
    if not isinstance(answer, Applied | Refused | NotSent | Doubt):
        return Doubt(f"the handler returned {type(answer).__name__}, which is no outcome"), answer
    return answer, answer


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_WORDS_MAX]
