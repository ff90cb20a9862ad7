"""The loop of an executor: prepares, asks for the permit, acts once, and reports, whatever happens in between.

What it promises. An effect starts only with a permit for this process, within the permit's time on this process's
monotonic clock, counted from before Prepared was sent; or with an EXECUTE command, before its `act_until`. Before it
starts, that is noted down on disk; the report and the end of the note are one write. So a crash before the note leaves
no effect; a crash after it is reported IN_DOUBT at the next start, never acted on again. An exception in a handler is a
doubt, not an abort. A pause of the whole process between the last check and the effect is not guarded: no executor can.
Neither is a clock here that lags the broker's: by so much an EXECUTE is begun later than the gate reckons with.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from joingate_producers.commands import CommandStream, Received
from joingate_producers.errors import InvalidClaim, JoinGateError
from joingate_producers.handling import Applied, Doubt, Handlers, NotSent, Outcome, Refused
from joingate_producers.outbox import Effect, Outbox
from joingate_producers.verdicts import PendingVerdict
from joingate_schemas.decisions import Command
from joingate_schemas.facts import PermitIssued
from joingate_schemas.record import changed

if TYPE_CHECKING:
    from joingate_producers.executor import Executor

log = logging.getLogger("joingate.producers")

_POLL_S = 0.25
# So many commands may wait for a thread before no more are taken.
_WAITING_MAX = 256


def _effect(command: Command) -> Effect:
    return Effect(command.operation_id, command.attempt, command.intent_id)


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

    @property
    def until_s(self) -> float:
        """When the permit will have run out (monotonic)."""
        return self.at_s + self.prepare.permit_ms / 1000

    def is_open(self) -> bool:
        """Whether the permit may still come in time."""
        verdict = self.pending.verdict
        return time.monotonic() < self.until_s and not (verdict is not None and verdict.refused)

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


class Worker:
    """One run of an executor's loop. `handlers` by action; `threads` effects may be under way at once."""

    def __init__(self, executor: "Executor", handlers: Handlers, group: str | None, threads: int) -> None:
        outbox = executor.connection.outbox()
        if outbox is None:
            raise JoinGateError("An executor's loop needs an outbox, to note down what it is about to do: give one.")
        self._executor = executor
        self._outbox: Outbox = outbox
        self._handlers = handlers
        self._stream = CommandStream(executor.connection, executor.name, group)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="joingate-effect")
        self._prepares_max = 2 * threads
        self._lock = threading.Lock()
        self._under_way: dict[Future[None], Effect] = {}
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        # Permits asked for. Used by the loop's thread only.
        self._asked: dict[Effect, _Asked] = {}
        # PREPAREs that wait for their turn, one for each operation: a newer attempt's takes the older's place.
        self._prepares: dict[str, Received] = {}

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set, or something fails that makes it unsafe to go on, which is raised."""
        try:
            self._executor.warm_up()
            self._report_left_behind()
            while not stop.is_set() and self._failure is None:
                self._stream.hold(len(self._under_way) >= _WAITING_MAX)
                for received in self._stream.poll(_POLL_S):
                    self._take(received)
                self._ask_and_begin()
        finally:
            self._stopping.set()
            self._pool.shutdown(wait=True)
            self._stream.close()
        if self._failure is not None:
            raise self._failure

    def _report_left_behind(self) -> None:
        """What an earlier process began and never reported: it may have happened or not."""
        for effect in self._outbox.take_left_behind():
            self._executor.in_doubt(
                effect.intent_id,
                effect.operation_id,
                effect.attempt,
                cause="the executor's process ended between the start of the effect and its report",
            )

    # --- commands, in the loop's thread ------------------------------------------------------------------------------

    def _take(self, received: Received) -> None:
        command = received.command
        match command.kind:
            case "PREPARE":
                older = self._prepares.pop(command.operation_id, None)
                if older is not None:
                    self._stream.done(older)
                self._prepares[command.operation_id] = received
            case "PERMIT":
                self._permitted(received)
            case "EXECUTE":
                self._execute(received)
            case "WITHDRAW":
                older = self._prepares.pop(command.operation_id, None)
                if older is not None:
                    self._stream.done(older)
                self._asked.pop(_effect(command), None)
                self._withdraw(command)
                self._stream.done(received)
            case "UNKNOWN":
                log.warning("A command of a kind unknown to this release was dropped: %s.", command.operation_id)
                self._stream.done(received)
            case _:
                assert_never(command.kind)

    def _ask_and_begin(self) -> None:
        """Begin what the verdicts permit; ask for no more permits than will find a thread while they last."""
        for effect, asked in list(self._asked.items()):
            permit = asked.permit()
            if permit is not None:
                del self._asked[effect]
                self._start(permit, asked.until_s, None)
            elif not asked.is_open():
                del self._asked[effect]
        while self._prepares and len(self._asked) + len(self._under_way) < self._prepares_max:
            received = self._prepares.pop(next(iter(self._prepares)))
            command = received.command
            if command.action in self._handlers:
                now_s = time.monotonic()
                pending = self._executor.prepared(command.intent_id, command.operation_id, command.attempt)
                self._asked[_effect(command)] = _Asked(now_s, command, self._executor.worker, pending)
            else:
                self._give_back(command, f"this executor has no handler for the action {command.action}")
            self._stream.done(received)

    def _permitted(self, received: Received) -> None:
        command = received.command
        asked = self._asked.pop(_effect(command), None)
        if asked is not None and command.worker == self._executor.worker:
            self._start(command, asked.at_s + command.permit_ms / 1000, received)
            return
        # Else another process asked for it, or the verdict was quicker and it is under way, or it was asked for too
        # long ago, or withdrawn: then this process can say that it will never begin.
        if command.worker == self._executor.worker and not self._is_under_way(_effect(command)):
            self._give_back(command, "the permit came for an attempt that was withdrawn, or asked for too long ago")
        self._stream.done(received)

    def _is_under_way(self, effect: Effect) -> bool:
        with self._lock:
            return effect in self._under_way.values()

    def _execute(self, received: Received) -> None:
        command = received.command
        left_ms = command.act_until - time.time() * 1000
        if left_ms <= 0:
            # Said of an old command, NOT_SENT would be a guess: another process may have acted on it.
            log.warning("An EXECUTE of %s, %.0f s too old, was dropped.", command.operation_id, -left_ms / 1000)
            self._stream.done(received)
        elif command.action not in self._handlers:
            # Nor here: a process with another set of handlers may have had this very command before.
            if self._outbox.surrender(_effect(command)):
                self._tell(command, Doubt(cause=f"this executor has no handler for the action {command.action}"))
            self._stream.done(received)
        else:
            self._start(command, time.monotonic() + left_ms / 1000, received)

    def _withdraw(self, command: Command) -> None:
        """Whatever attempt of the operation waits for a thread is not begun any more."""
        with self._lock:
            waiting = [one for one in self._under_way.values() if one.operation_id == command.operation_id]
        for effect in waiting:
            self._outbox.surrender(effect)  # false for what has begun, which is reported

    def _give_back(self, command: Command, why: str) -> None:
        """This attempt will never be begun here: said, unless it was begun or given back before."""
        if self._outbox.surrender(_effect(command)):
            self._executor.abort(command.intent_id, command.operation_id, command.attempt, proof="NOT_SENT", error=why)

    # --- effects, in the pool's threads ------------------------------------------------------------------------------

    def _start(self, command: Command, deadline_s: float, received: Received | None) -> None:
        """Hand it to a thread, to begin before `deadline_s` (monotonic).

        `received` is the command to call done, if it came as one.
        """
        with self._lock:
            under_way = self._pool.submit(self._perform, command, deadline_s, received)
            self._under_way[under_way] = _effect(command)
        under_way.add_done_callback(self._ended)

    def _ended(self, under_way: Future[None]) -> None:
        with self._lock:
            self._under_way.pop(under_way)
            self._failure = self._failure or under_way.exception()

    def _perform(self, command: Command, deadline_s: float, received: Received | None) -> None:
        """1. The last check. 2. The note on disk. 3. The effect. 4. The report. 5. The command is done."""
        one_phase = command.kind == "EXECUTE"
        if one_phase and self._stopping.is_set():
            return  # not done: it comes again, to the next process
        late = time.monotonic() >= deadline_s
        if one_phase and late:
            log.warning("An EXECUTE of %s waited too long for a thread, and was dropped.", command.operation_id)
        elif late or self._stopping.is_set():
            self._give_back(command, "the permit ran out before the effect was begun")
        elif self._outbox.begin_effect(_effect(command)):
            self._report(command, self._outcome(command))
        else:
            log.warning("Attempt %d of %s was begun before; not again.", command.attempt, command.operation_id)
        if received is not None:
            self._stream.done(received)

    def _outcome(self, command: Command) -> Outcome:
        try:
            outcome: object = self._handlers[command.action](command)
        # Whatever a handler raises says nothing about the effect, so it is passed on as a doubt by that name.
        except Exception as error:
            log.exception("The handler of %s failed on operation %s.", command.action, command.operation_id)
            return Doubt(cause=f"{type(error).__name__}: {error}"[:500])
        if not isinstance(outcome, Applied | Refused | NotSent | Doubt):
            return Doubt(cause=f"the handler returned {type(outcome).__name__}, which is no outcome")
        return outcome

    def _report(self, command: Command, outcome: Outcome) -> None:
        try:
            self._tell(command, outcome)
        except InvalidClaim as error:
            # The effect may be there, and what was said of it can't be written: that much can be told.
            log.error("The outcome of operation %s can't be reported as it is: %s", command.operation_id, error)
            self._tell(command, Doubt(cause=f"its {type(outcome).__name__} could not be reported: {error.field}"))

    def _tell(self, command: Command, outcome: Outcome) -> None:
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
