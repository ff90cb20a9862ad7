"""The room that counts what an executor has under way: in all, of each action, and one at a time of an operation."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from joingate_producers.actions import Actions
from joingate_producers.commands import Received
from joingate_producers.outbox import Effect
from joingate_producers.tries import Leave
from joingate_schemas.decisions import Command


def effect_of(command: Command) -> Effect:
    """What the outbox calls the attempt that the command is about."""
    return Effect(command.operation_id, command.attempt, command.intent_id)


@dataclass(frozen=True, eq=False)
class Ready:
    """A command that may be acted on before `deadline_s` (monotonic). `received` is what to call done, if it came."""

    command: Command
    deadline_s: float
    received: Received | None
    prepared: object


@dataclass(eq=False)
class Running:
    """An effect under way in a thread of its own. `told`: its outcome, or a doubt in its place, is being reported."""

    ready: Ready
    leave: Leave
    told: bool = False
    abandoned: bool = False
    applied: bool = False


class Places:
    """Who waits, who is asked for, who runs. Every method may be called from any thread."""

    def __init__(self, actions: Actions, most: int) -> None:
        self._actions = actions
        self._most = most
        self._lock = threading.Lock()
        # By operation: the action of each that has a place and is being prepared, or waits for its permit.
        self._taken: dict[str, str] = {}
        self._preparing: dict[str, int] = {}  # the attempt, by operation
        self._waiting: list[Ready] = []
        self._running: dict[str, Running] = {}  # by operation
        self.is_stopped = False

    # --- before the permit -------------------------------------------------------------------------------------------

    def take_for(self, command: Command) -> bool:
        """Take a place for an operation that is to be prepared, if there is one."""
        with self._lock:
            if command.operation_id in self._taken or not self._is_free(command, len(self._taken)):
                return False
            self._taken[command.operation_id] = command.action
            return True

    def give_up(self, operation_id: str) -> None:
        """The place that was taken for the operation is free."""
        with self._lock:
            self._taken.pop(operation_id, None)

    def begin_preparation(self, command: Command) -> None:
        """Its prepare function runs."""
        with self._lock:
            self._preparing[command.operation_id] = command.attempt

    def end_preparation(self, operation_id: str, below: int | None) -> bool:
        """Its prepare function ended, or does not matter any more; false if it did not matter before.

        Concerns attempts under `below`, or any.
        """
        with self._lock:
            attempt = self._preparing.get(operation_id)
            if attempt is None or (below is not None and attempt >= below):
                return False
            del self._preparing[operation_id]
            return True

    # --- with it -----------------------------------------------------------------------------------------------------

    def wait(self, ready: Ready) -> None:
        """It may be begun as soon as there is a place; the one that was taken for it, if any, is free for it."""
        with self._lock:
            self._taken.pop(ready.command.operation_id, None)
            self._waiting.append(ready)

    def next(self) -> Running | None:
        """What is to be begun now, counted as running from here on; permits come before commands that are one."""
        with self._lock:
            if self.is_stopped:
                return None
            for ready in sorted(self._waiting, key=lambda one: one.command.kind == "EXECUTE"):
                one_phase = ready.command.kind == "EXECUTE"
                if self._is_free(ready.command, len(self._taken) if one_phase else 0):
                    self._waiting.remove(ready)
                    running = Running(ready, Leave(ready.deadline_s))
                    self._running[ready.command.operation_id] = running
                    return running
        return None

    def _is_free(self, command: Command, taken: int) -> bool:
        """Whether one more of its action may go on. `taken`: how many places are kept for others."""
        if command.operation_id in self._running or len(self._running) + taken >= self._most:
            return False
        action = self._actions.get(command.action)
        if action is None or action.at_once_max is None:
            return True
        of_it = sum(one.ready.command.action == command.action for one in self._running.values())
        if taken:
            of_it += sum(name == command.action for name in self._taken.values())
        return of_it < action.at_once_max

    def end(self, running: Running) -> list[Ready]:
        """Its place is free. Returns what waited of the operation and is obsolete, since the effect is there."""
        with self._lock:
            operation_id = running.ready.command.operation_id
            del self._running[operation_id]
            return self._take_out(lambda one: one.command.operation_id == operation_id) if running.applied else []

    def drop(self, operation_id: str, below: int | None) -> list[Ready]:
        """Take out what waits of the operation, in attempts under `below` or any, and let what runs send no more."""

        def meant(command: Command) -> bool:
            return command.operation_id == operation_id and (below is None or command.attempt < below)

        with self._lock:
            for running in self._running.values():
                if meant(running.ready.command):
                    running.leave.no_more.set()
            return self._take_out(lambda one: meant(one.command))

    def stop(self) -> list[Ready]:
        """Nothing is begun any more, and what runs sends no more. Returns what was waiting."""
        with self._lock:
            self.is_stopped = True
            for running in self._running.values():
                running.leave.no_more.set()
            return self._take_out(lambda one: True)

    def _take_out(self, meant: Callable[[Ready], bool]) -> list[Ready]:
        taken = [one for one in self._waiting if meant(one)]
        self._waiting = [one for one in self._waiting if not meant(one)]
        return taken

    # --- who tells ---------------------------------------------------------------------------------------------------

    def speak(self, running: Running) -> bool:
        """Its outcome is reported now; false if a doubt was reported in its place before."""
        with self._lock:
            running.told = True
            return not running.abandoned

    def abandon(self) -> list[Running]:
        """What runs and has not told its outcome: that is left to whoever called."""
        with self._lock:
            found = [one for one in self._running.values() if not one.told and not one.abandoned]
            for one in found:
                one.abandoned = True
            return found

    # --- counts ------------------------------------------------------------------------------------------------------

    def holds(self, effect: Effect) -> bool:
        """Whether this attempt waits for a place, or runs."""
        with self._lock:
            running = self._running.get(effect.operation_id)
            found = [*self._waiting, *([running.ready] if running is not None else [])]
            return any(effect_of(one.command) == effect for one in found)

    @property
    def are_taken(self) -> bool:
        """Whether there is no place left."""
        with self._lock:
            return len(self._running) + len(self._taken) >= self._most

    @property
    def waiting(self) -> int:
        """How many permitted commands wait for a place."""
        return len(self._waiting)

    @property
    def preparing(self) -> int:
        """How many prepare functions run."""
        return len(self._preparing)

    @property
    def running(self) -> int:
        """How many effects are under way."""
        return len(self._running)

    @property
    def speaking(self) -> int:
        """How many effects are under way that have not been abandoned."""
        with self._lock:
            return sum(not one.abandoned for one in self._running.values())
