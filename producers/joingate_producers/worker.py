"""The loop of an executor: prepares, asks for the permit, acts once, and reports, whatever happens in between.

What it promises. An effect starts only with a permit for this process, within the permit's time on this process's
monotonic clock, counted from before Prepared was sent; or with an EXECUTE command, before its `act_until`. Before it
starts, that is noted down on disk; the report and the end of the note are one write. So a crash before the note leaves
no effect; a crash after it is reported IN_DOUBT at the next start, never acted on again. An exception in a function is
a doubt, not an abort. A pause of the whole process between the last check and the effect is not guarded: no executor
can. Neither is a clock here that lags the broker's: by so much an EXECUTE is begun later than the gate reckons with.

The loop's own thread talks to Kafka and never waits for a function, so that a long one costs no membership in the
group. `places` says what may be under way at once.
"""

import logging
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from joingate_producers.actions import Actions, context_of
from joingate_producers.commands import CommandStream, Received
from joingate_producers.effects import Effects
from joingate_producers.errors import JoinGateError
from joingate_producers.handling import NothingHappened
from joingate_producers.outbox import Outbox
from joingate_producers.places import Places, Ready, effect_of
from joingate_producers.tries import Coroutines, prepare
from joingate_producers.verdicts import PendingVerdict
from joingate_schemas.decisions import Command
from joingate_schemas.facts import PermitIssued
from joingate_schemas.record import changed

if TYPE_CHECKING:
    from joingate_producers.executor import Executor

log = logging.getLogger("joingate.producers")

_POLL_S = 0.25
# While something is awaited that no command announces: a verdict, a preparation, a place.
_BUSY_POLL_S = 0.02
# So many permitted commands may wait for a place before no more are taken.
_WAITING_MAX = 256
# So many commands to prepare may wait, if permits are heard by the verdicts too: a hold keeps the commands back.
_PREPARES_MAX = 10_000
# So long the last words of a drain, which are on their way to the disk, are waited for.
_LAST_WORDS_S = 5.0


@dataclass(frozen=True)
class _Asked:
    """A permit that was asked for with Prepared, after the command to prepare; `at_s` is monotonic, before the asking.

    The permit comes as a command, and stands in the verdict on Prepared too. That is heard even when the partition of
    the command went to another process meanwhile, to which the permit would mean nothing.
    """

    at_s: float
    prepare: Command
    worker: str
    pending: PendingVerdict
    prepared: object

    @property
    def until_s(self) -> float:
        """When the permit will have run out (monotonic)."""
        return self.at_s + self.prepare.permit_ms / 1000

    @property
    def is_refused(self) -> bool:
        verdict = self.pending.verdict
        return verdict is not None and verdict.refused

    def permit(self) -> Command | None:
        """The permit as the verdict on Prepared tells it, if it is there."""
        verdict = self.pending.verdict
        for fact in verdict.facts if verdict is not None else ():
            if (
                isinstance(fact, PermitIssued)
                and (fact.operation_id, fact.attempt, fact.worker)
                == (self.prepare.operation_id, self.prepare.attempt, self.worker)
                and verdict is not None
            ):
                return changed(
                    self.prepare, kind="PERMIT", worker=self.worker, issued_at=verdict.decided_at,
                    ledger_seq=verdict.seq,
                )  # fmt: skip
        return None


@dataclass(frozen=True)
class _Prepared:
    """What came of a prepare function: its value, or why there is nothing to ask a permit for."""

    received: Received
    value: object
    refusal: str = ""
    failure: BaseException | None = None


class Worker:
    """One run of an executor's loop, until `stop` is set: at most `threads` of its `actions` are under way at once."""

    def __init__(
        self, executor: "Executor", actions: Actions, group: str | None, threads: int, stop: threading.Event
    ) -> None:
        outbox = executor.connection.outbox()
        if outbox is None:
            raise JoinGateError("An executor's loop needs an outbox, to note down what it is about to do: give one.")
        self._executor = executor
        self._outbox: Outbox = outbox
        self._actions = actions
        self._stream = CommandStream(executor.connection, executor.name, group)
        self._coroutines = Coroutines()
        self._places = Places(actions, threads)
        self._effects = Effects(executor, outbox, actions, self._stream, self._places, self._coroutines, stop)
        self._stop = stop
        # Used by the loop's thread only. PREPAREs wait for their turn, one for each operation: a newer attempt's takes
        # the older's place.
        self._prepares: dict[str, Received] = {}
        self._asked: dict[str, _Asked] = {}  # by operation
        self._made_ready: queue.SimpleQueue[_Prepared] = queue.SimpleQueue()

    def run(self, drain_s: float, hurry: threading.Event) -> None:
        """Until stopped, or until something fails that makes it unsafe to go on, which is raised."""
        failure: BaseException | None = None
        try:
            self._executor.warm_up()
            self._report_left_behind()
            while not self._stop.is_set() and self._effects.failure is None:
                self._turn()
        except BaseException as error:
            failure = error
        try:
            self._drain(time.monotonic() + drain_s, hurry)
        except JoinGateError as error:
            failure = failure or error
        finally:
            self._coroutines.close()
            self._stream.close()
        failure = failure or self._effects.failure
        if failure is not None:
            raise failure

    def _turn(self) -> None:
        busy = self._prepares or self._asked or self._places.preparing
        self._stream.hold(self._has_enough())
        for received in self._stream.poll(_BUSY_POLL_S if busy else _POLL_S):
            self._take(received)
        self._hear_preparations()
        self._hear_permits()
        self._prepare_next()
        self._effects.begin()

    def _has_enough(self) -> bool:
        if self._places.waiting >= _WAITING_MAX:
            return True
        return len(self._prepares) >= _PREPARES_MAX and self._executor.connection.settings.verdicts

    def _report_left_behind(self) -> None:
        """What an earlier process began and never reported: it may have happened or not."""
        for effect in self._outbox.take_left_behind():
            self._executor.in_doubt(
                effect.intent_id,
                effect.operation_id,
                effect.attempt,
                cause="the executor's process ended between the start of the effect and its report",
            )

    # --- commands ----------------------------------------------------------------------------------------------------

    def _take(self, received: Received) -> None:
        command = received.command
        if command.executor != self._executor.name:
            log.error("A command to the executor %s lay on the topic of %s, and was dropped: %s.",
                      command.executor, self._executor.name, command.operation_id)  # fmt: skip
            self._stream.done(received)
            return
        match command.kind:
            case "PREPARE":
                self._forget(command, older_only=True)
                self._to_prepare(received)
            case "PERMIT":
                self._permitted(received)
            case "EXECUTE":
                self._forget(command, older_only=True)
                self._execute(received)
            case "WITHDRAW":
                self._forget(command, older_only=False)
                self._stream.done(received)
            case "UNKNOWN":
                log.warning("A command of a kind unknown to this release was dropped: %s.", command.operation_id)
                self._stream.done(received)
            case _:
                assert_never(command.kind)

    def _to_prepare(self, received: Received) -> None:
        command = received.command
        if command.action in self._actions:
            self._prepares[command.operation_id] = received
        else:
            self._effects.give_back(command, f"this executor has no handler for the action {command.action}")
            self._stream.done(received)

    def _forget(self, command: Command, older_only: bool) -> None:
        """What waits of the operation is not begun any more, and what is under way sends no more.

        With `older_only`, only in attempts below the command's: they have been given up, and may advance nothing.
        """
        operation_id = command.operation_id
        below = command.attempt if older_only else None
        waiting = self._prepares.pop(operation_id, None)
        if waiting is not None:
            self._stream.done(waiting)
        asked = self._asked.get(operation_id)
        if asked is not None and (below is None or asked.prepare.attempt < below):
            del self._asked[operation_id]
            self._places.give_up(operation_id)
        self._places.end_preparation(operation_id, below)
        self._effects.drop(operation_id, below)

    def _permitted(self, received: Received) -> None:
        command = received.command
        asked = self._asked.get(command.operation_id)
        if asked is not None and asked.prepare.attempt == command.attempt and command.worker == self._executor.worker:
            self._begin(Ready(command, asked.at_s + command.permit_ms / 1000, received, asked.prepared))
            return
        # Else another process asked for it, or the verdict was quicker and it is under way, or it was asked for too
        # long ago, or withdrawn: then this process can say that it will never begin.
        if command.worker == self._executor.worker and not self._places.holds(effect_of(command)):
            self._effects.give_back(
                command, "the permit came for an attempt that was withdrawn, or asked for too long ago"
            )
        self._stream.done(received)

    def _execute(self, received: Received) -> None:
        command = received.command
        left_ms = command.act_until - time.time() * 1000
        if left_ms <= 0:
            # Said of an old command, NOT_SENT would be a guess: another process may have acted on it.
            log.warning("An EXECUTE of %s, %.0f s too old, was dropped.", command.operation_id, -left_ms / 1000)
            self._stream.done(received)
        elif command.action not in self._actions:
            # Nor here: a process with another set of actions may have had this very command before.
            self._effects.leave_in_doubt(command, f"this executor has no handler for the action {command.action}")
            self._stream.done(received)
        else:
            self._places.wait(Ready(command, time.monotonic() + left_ms / 1000, received, None))

    # --- permits -----------------------------------------------------------------------------------------------------

    def _prepare_next(self) -> None:
        """Take up the commands to prepare for which there is a place: a permit must not run out in a queue."""
        for operation_id, received in list(self._prepares.items()):
            if self._places.are_taken:
                return
            command = received.command
            if self._places.take_for(command):
                del self._prepares[operation_id]
                if self._actions[command.action].preparation is None:
                    self._ask(received, None)
                else:
                    self._places.begin_preparation(command)
                    threading.Thread(
                        target=self._make_ready, args=(received,), name="joingate-prepare", daemon=True
                    ).start()

    def _make_ready(self, received: Received) -> None:
        """In a thread of its own: run the prepare function."""
        command = received.command
        try:
            value = prepare(self._actions[command.action], context_of(command), self._stop, self._coroutines)
            found = _Prepared(received, value)
        except NothingHappened as error:
            found = _Prepared(received, None, refusal=error.error or "its preparation came to nothing")
        # The loop must hear of it, or the place would be held for ever.
        except BaseException as error:
            found = _Prepared(received, None, failure=error)
        self._made_ready.put(found)

    def _hear_preparations(self) -> None:
        while not self._made_ready.empty():
            found = self._made_ready.get()
            command = found.received.command
            if not self._places.end_preparation(command.operation_id, command.attempt + 1):
                self._places.give_up(command.operation_id)
                self._stream.done(found.received)  # withdrawn, or of an attempt that was given up
            elif found.failure is not None:
                self._places.give_up(command.operation_id)
                raise found.failure
            elif found.refusal:
                self._places.give_up(command.operation_id)
                self._effects.give_back(command, found.refusal)
                self._stream.done(found.received)
            else:
                self._ask(found.received, found.value)

    def _ask(self, received: Received, prepared: object) -> None:
        command, now_s = received.command, time.monotonic()
        pending = self._executor.prepared(command.intent_id, command.operation_id, command.attempt)
        self._asked[command.operation_id] = _Asked(now_s, command, self._executor.worker, pending, prepared)
        self._stream.done(received)

    def _hear_permits(self) -> None:
        """Begin what the verdicts permit, and give up what they refuse, or what came to nothing in time."""
        for operation_id, asked in list(self._asked.items()):
            permit = asked.permit()
            if permit is not None:
                self._begin(Ready(permit, asked.until_s, None, asked.prepared))
            elif asked.is_refused or time.monotonic() >= asked.until_s:
                del self._asked[operation_id]
                self._places.give_up(operation_id)

    def _begin(self, permitted: Ready) -> None:
        """Put the permitted one into the place that was taken for it."""
        del self._asked[permitted.command.operation_id]
        self._places.wait(permitted)
        self._effects.begin()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _drain(self, until_s: float, hurry: threading.Event) -> None:
        """Begin nothing more; let what runs end, until `until_s` (monotonic) or `hurry`; the rest is in doubt.

        It stays in the group meanwhile, lest another member be given the commands that are being worked on. A command
        that was not begun is not done: it comes again, to whoever reads on from our position.
        """
        waiting = self._effects.stop()
        failure: JoinGateError | None = None
        try:
            self._give_back_permits(waiting)
        except JoinGateError as error:
            failure = error  # what runs must be waited for all the same
        self._stream.hold(True)
        while self._places.running and time.monotonic() < until_s and not hurry.is_set():
            self._stream.poll(_BUSY_POLL_S)
        self._effects.abandon("the executor was stopped before the effect came to an end")
        last_s = time.monotonic() + _LAST_WORDS_S
        while self._places.speaking and time.monotonic() < last_s:
            self._stream.poll(_BUSY_POLL_S)
        if failure is not None:
            raise failure

    def _give_back_permits(self, waiting: list[Ready]) -> None:
        """What has a permit here, or may be given one yet, will not be begun: say so, or it would be in doubt."""
        for one in waiting:
            if one.command.kind == "PERMIT":
                self._effects.give_back(one.command, "the executor stopped before the effect was begun")
                if one.received is not None:
                    self._stream.done(one.received)
        for asked in self._asked.values():
            if not asked.is_refused:
                self._effects.give_back(asked.prepare, "the executor stopped before the permit came")
        self._asked.clear()
