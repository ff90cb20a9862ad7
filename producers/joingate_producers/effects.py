"""The room where an effect is made: noted down, tried, and reported, in threads of their own.

The order of the writes, and what it leaves if the process dies between two of them:

1. The place and the time are checked. Dies here: nothing happened; the gate hears nothing, and its timer tells.
2. The note, synced to disk (`Outbox.begin_effect`). Dies here: nothing happened, but nobody can tell that any more, so
   the next start reports a doubt. If the note can't be written, for a full disk, nothing is begun.
3. The time, checked again right before each send: a slow disk eats the permit up, and then nothing is sent.
4. The effect. Dies within or after it: the note tells the next start, which reports a doubt and acts on it no more.
5. The report, put into the outbox in the same transaction that ends the note. Dies before: as 4. Dies after: the next
   start sends the very same report.
6. The command's position, committed to Kafka at a later poll. Dies before: the command comes again, and is known by
   its note; to another process of the group, that is by its permit, which is not for that one. Of an EXECUTE, which any
   process may act on, it is the downstream that knows the key: those go to downstreams that honour keys only.
7. The broker's confirmation, after which the report leaves the outbox. Dies before: it is sent again, byte for byte,
   and answered REPLAYED.
"""

import logging
import threading
from typing import TYPE_CHECKING, assert_never

from joingate_producers.actions import Actions, context_of
from joingate_producers.commands import CommandStream
from joingate_producers.errors import InvalidClaim, JoinGateError
from joingate_producers.handling import Applied, Doubt, NothingHappened, NotSent, Outcome, Refused
from joingate_producers.outbox import Outbox
from joingate_producers.places import Places, Ready, Running, effect_of
from joingate_producers.tries import Coroutines, perform, prepare
from joingate_schemas.decisions import Command

if TYPE_CHECKING:
    from joingate_producers.executor import Executor

log = logging.getLogger("joingate.producers")


class Effects:
    """Makes the effects that `places` lets begin. `failure` is what made it unsafe to begin another, if anything."""

    def __init__(
        self,
        executor: "Executor",
        outbox: Outbox,
        actions: Actions,
        stream: CommandStream,
        places: Places,
        coroutines: Coroutines,
        stop: threading.Event,
    ) -> None:
        """`stop`: once it is set, nothing more is begun."""
        self._executor = executor
        self._outbox = outbox
        self._actions = actions
        self._stream = stream
        self._places = places
        self._coroutines = coroutines
        self._stop = stop
        self.failure: BaseException | None = None

    def begin(self) -> None:
        """Begin what there is a place for."""
        while not self._stop.is_set() and self.failure is None and (running := self._places.next()) is not None:
            # A thread of its own, and no pool's: a pool waits at the end for what may never end.
            threading.Thread(target=self._run, args=(running,), name="joingate-effect", daemon=True).start()

    def stop(self) -> list[Ready]:
        """Begin nothing any more; returns what was waiting to be begun."""
        return self._places.stop()

    def drop(self, operation_id: str, below: int | None) -> None:
        """What waits of the operation, in attempts under `below` or any, is not begun; what runs sends no more."""
        self._surrender(self._places.drop(operation_id, below))

    def abandon(self, why: str) -> None:
        """Report what is still under way as in doubt. Should one end after all, its outcome is reported too."""
        for running in self._places.abandon():
            command = running.ready.command
            log.error("%s of operation %s is left in doubt: %s.", command.action, command.operation_id, why)
            self._tell(command, Doubt(why))
            self._done(running.ready)

    # --- what is not begun -------------------------------------------------------------------------------------------

    def give_back(self, command: Command, why: str) -> None:
        """This attempt will never be begun here: said, unless it was begun or given back before."""
        if self._outbox.surrender(effect_of(command)):
            self._tell(command, NotSent(why))

    def leave_in_doubt(self, command: Command, why: str) -> None:
        """This attempt will not be begun here, and whether it was begun elsewhere is not known here."""
        if self._outbox.surrender(effect_of(command)):
            self._tell(command, Doubt(why))

    def _surrender(self, dropped: list[Ready]) -> None:
        for ready in dropped:
            self._outbox.surrender(effect_of(ready.command))  # false for what has begun, which is reported
            self._done(ready)

    def _done(self, ready: Ready) -> None:
        if ready.received is not None:
            self._stream.done(ready.received)

    # --- in the effect's thread --------------------------------------------------------------------------------------

    def _run(self, running: Running) -> None:
        try:
            if self._make(running):
                self._done(running.ready)
        # Whatever it is, nothing more must be begun, and the loop has to raise it.
        except BaseException as error:
            log.exception("Operation %s can't be seen through.", running.ready.command.operation_id)
            self.failure = self.failure or error
        try:
            self._surrender(self._places.end(running))
        except JoinGateError as error:
            self.failure = self.failure or error
        self.begin()

    def _make(self, running: Running) -> bool:
        """Make the effect, if it may still be made. False if the command is to come again."""
        ready, leave = running.ready, running.leave
        command = ready.command
        one_phase = command.kind == "EXECUTE"
        if one_phase and (ready.received is None or not self._stream.is_ours(ready.received)):
            return False  # its partition went to another process, which has the command by now
        if not leave.holds():
            return self._too_late(running)
        prepared = ready.prepared
        if one_phase:
            try:
                prepared = prepare(self._actions[command.action], context_of(command), leave.no_more, self._coroutines)
            except NothingHappened as error:
                if self._places.is_stopped:
                    return False
                if self._outbox.surrender(effect_of(command)):
                    self._report(running, NotSent(error.error, error.evidence))
                return True
        if self._outbox.begin_effect(effect_of(command)):
            outcome = perform(self._actions[command.action], command, prepared, leave, self._coroutines)
            self._report(running, outcome)
        else:
            log.warning("Attempt %d of %s was begun before; not again.", command.attempt, command.operation_id)
        return True

    def _too_late(self, running: Running) -> bool:
        command = running.ready.command
        if command.kind != "EXECUTE":
            self.give_back(command, "the permit ran out before the effect was begun")
            return True
        if self._places.is_stopped:
            return False  # not begun: it comes again, to the next process
        log.warning("An EXECUTE of %s was withdrawn, or waited too long for a place: dropped.", command.operation_id)
        return True

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, running: Running, outcome: Outcome) -> None:
        command = running.ready.command
        running.applied = isinstance(outcome, Applied)
        received = running.ready.received
        if isinstance(outcome, NotSent) and command.kind == "EXECUTE" and not (received and received.first_heard):
            # No permit binds an EXECUTE to one process, so that this one may speak for itself only.
            outcome = Doubt(
                f"nothing was sent here ({outcome.error}), but another process may have been given the command before",
                outcome.evidence,
            )
        if self._places.speak(running):
            self._tell(command, outcome)
            return
        try:
            self._tell(command, outcome)  # late, after the doubt; what is true is worth telling
        except JoinGateError as error:
            log.warning("Operation %s ended after its doubt was told, as %s, which can't be told any more: %s",
                        command.operation_id, outcome, error)  # fmt: skip

    def _tell(self, command: Command, outcome: Outcome) -> None:
        try:
            self._say(command, outcome)
        except InvalidClaim as error:
            # The effect may be there, and what was said of it can't be written: that much can be told.
            log.error("The outcome of operation %s can't be reported as it is: %s", command.operation_id, error)
            self._say(command, Doubt(cause=f"its {type(outcome).__name__} could not be reported: {error.field}"))

    def _say(self, command: Command, outcome: Outcome) -> None:
        intent_id, operation_id, attempt = command.intent_id, command.operation_id, command.attempt
        match outcome:
            case Applied():
                self._executor.commit(
                    intent_id,
                    operation_id,
                    attempt,
                    external_id=outcome.external_id,
                    evidence=outcome.evidence,
                    result=outcome.result,
                    idempotency_key=outcome.idempotency_key,
                    caused_by=f"{command.partition}/{command.ledger_seq}",
                )
            case Refused() | NotSent():
                self._executor.abort(
                    intent_id,
                    operation_id,
                    attempt,
                    proof="REFUSED" if isinstance(outcome, Refused) else "NOT_SENT",
                    error=outcome.error,
                    evidence=outcome.evidence,
                )
            case Doubt():
                self._executor.in_doubt(
                    intent_id, operation_id, attempt, cause=outcome.cause, evidence=outcome.evidence
                )
            case _:
                assert_never(outcome)
