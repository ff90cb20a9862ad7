"""The waiting room: reads the ledger from before a claim is sent, and hands each verdict to whoever waits for it.

One reader serves all clients of a connection. It stands at the ledger's end *before* the first claim goes out (the
sender is released only then), so no verdict can slip by. Nobody's verdict is believed from a partition of the ledger
that has a gap or a fork: everyone who waits for it is told so, and the other partitions go on.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any
from weakref import WeakValueDictionary

from joingate_producers.errors import JoinGateError, LedgerBroken, Undelivered, Unreachable, VerdictTimeout
from joingate_producers.verdict import Verdict, verdict_of
from joingate_producers.wire import ANY_PARTITION, Row, Tail
from joingate_schemas.claims import AnyClaim
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import Decision
from joingate_schemas.guard import LedgerFault, LedgerGuard
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import partition_for

log = logging.getLogger("joingate.producers")

_POLL_S = 0.25
_AGAIN_AFTER_S = 0.5


class Answer:
    """One claim's place in the waiting room: shared by all who wait for it, gone when nobody does."""

    def __init__(self, claim_id: str, key: bytes = b"", partition: int = ANY_PARTITION) -> None:
        self.claim_id = claim_id
        self._key = key
        self._partition = partition
        self.delivered = False
        self.future: Future[Verdict] = Future()

    def comes_on(self, count: int) -> int:
        """The partition, of `count`, on which the verdict comes."""
        return partition_for(self._key, count) if self._partition == ANY_PARTITION else self._partition

    def refuse(self, problem: str, kept: bool) -> None:
        """The broker does not take the claim; `kept` says whether the outbox still has it."""
        self.fail(Undelivered(self.claim_id, problem, kept))

    def fail(self, error: JoinGateError) -> None:
        """End the waiting with `error`, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(error)


class PendingVerdict:
    """A claim that was made, and whose verdict may be waited for: `wait(5)`, or `await` it, or leave it.

    Giving up waiting changes nothing about the claim, and one may wait again.
    """

    def __init__(
        self,
        claim: AnyClaim,
        value: bytes,
        partition: int,
        answer: Answer,
        reader: "VerdictReader",
        timeout_s: float,
    ) -> None:
        self.claim = claim
        self.claim_id = claim.claim_id
        self.value = value
        self.partition = partition
        self._answer = answer
        self._reader = reader
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        known = self.verdict
        said = f"{known.verdict} {known.reason}" if known else "no verdict yet"
        return f"<{type(self.claim).__name__} {self.claim_id}: {said}>"

    @property
    def delivered(self) -> bool:
        """Whether the broker has confirmed the claim."""
        return self._answer.delivered

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, if it is known by now."""
        future = self._answer.future
        return future.result() if future.done() and future.exception() is None else None

    def wait(self, timeout_s: float | None = None) -> Verdict:
        """The verdict, waiting for it up to `timeout_s` (the connection's `verdict_timeout_s` by default).

        Raises VerdictTimeout (the claim is still pending; wait again), Undelivered and LedgerBroken. A refusal is a
        verdict, not an exception: ask it, or use `Verdict.demand`.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            return self._answer.future.result(limit_s)
        except FutureTimeout:
            raise self._timed_out(limit_s) from None

    async def within(self, timeout_s: float | None = None) -> Verdict:
        """As `wait`, for asyncio. Cancelling it cancels the waiting only."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: Future[Verdict]) -> None:
            # A loop that was closed meanwhile has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(arrived.set)

        # An event, not a wrapped future: to cancel a wrapper would cancel the answer for everybody else who waits.
        self._answer.future.add_done_callback(tell)
        try:
            await asyncio.wait_for(arrived.wait(), limit_s)
        except TimeoutError:
            raise self._timed_out(limit_s) from None
        return self._answer.future.result()

    def __await__(self) -> Generator[Any, None, Verdict]:
        return self.within().__await__()

    def _timed_out(self, limit_s: float) -> VerdictTimeout:
        if self.delivered:
            state = "it was written and is still pending"
        else:
            state = "the broker has not confirmed it yet, and it is still on its way"
        why = f" ({self._reader.problem})" if self._reader.problem else ""
        return VerdictTimeout(
            self.claim_id,
            self.delivered,
            f"No verdict on {type(self.claim).__name__} {self.claim_id} within {limit_s:g} s: {state}{why}. "
            "Wait for it again, or repeat it with the same claim id; `joingate status` says whether the gate decides.",
        )


class VerdictReader:
    """Reads the ledger in a thread of its own, from the first claim on. `ready` is called once it stands at the end."""

    def __init__(
        self,
        make_tail: Callable[[], Tail],
        codec: Codec,
        ready: Callable[[], None],
        sender_problem: Callable[[], str],
        request_timeout_s: float,
    ) -> None:
        self._make_tail = make_tail
        self._codec = codec
        self._ready = ready
        self._sender_problem = sender_problem
        self._request_timeout_s = request_timeout_s
        self._lock = threading.Lock()
        self._waiting: WeakValueDictionary[tuple[str, str], Answer] = WeakValueDictionary()
        self._guards: dict[int, LedgerGuard] = {}
        self._broken: dict[int, LedgerBroken] = {}  # by partition
        self._start_problem = ""
        self._tail: Tail | None = None
        self._count = 1  # partitions of the ledger, once they are known
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str:
        """What is known to keep verdicts from coming, for the sentence of a timeout; empty if nothing is."""
        tail = self._tail
        return self._start_problem or self._sender_problem() or (tail.problem if tail else "")

    def expect(self, intent_id: str, claim_id: str, partition: int = ANY_PARTITION) -> Answer:
        """The place at which the verdict on this claim will arrive; the same one for all who hold it."""
        with self._lock:
            answer = self._waiting.get((intent_id, claim_id))
            if answer is None or answer.future.done():
                answer = Answer(claim_id, intent_id.encode(), partition)
                self._waiting[intent_id, claim_id] = answer
            if self._broken:
                error = self._broken.get(answer.comes_on(self._count))
                if error is not None:
                    answer.fail(error)
            return answer

    def start(self) -> None:
        """Begin reading, if that has not begun."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="joingate-verdicts", daemon=True)
                self._thread.start()

    def close(self, error: JoinGateError) -> None:
        """Stop reading; those who still wait get `error`."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._fail_all(error)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tail = self._tail = self._make_tail()
        try:
            if self._started(tail):
                self._ready()
                while not self._closing.is_set():
                    for row in tail.poll(_POLL_S):
                        self._take(row)
        except LedgerBroken as error:
            self._break(range(self._count), error)
        # Whatever it is, those who wait must hear of it, or they would wait for a thread that is gone.
        except Exception as error:
            log.exception("The reader of verdicts failed.")
            broken = LedgerBroken(f"The ledger can't be read any more ({error!r}). Open a new connection.")
            self._break(range(self._count), broken)
        finally:
            tail.close()

    def _break(self, partitions: Iterable[int], error: LedgerBroken) -> None:
        """Believe nothing more from these partitions."""
        log.error("Verdicts are no longer read: %s", error)
        with self._lock:
            self._broken.update(dict.fromkeys(partitions, error))
            waiting = [one for one in self._waiting.values() if one.comes_on(self._count) in self._broken]
        for answer in waiting:
            answer.fail(error)
        # Claims may go out all the same: what the gate decides on them holds, whether or not we can read it.
        self._ready()

    def _started(self, tail: Tail) -> bool:
        """Try until the end of the ledger is known; false if the connection is closed before."""
        while not self._closing.is_set():
            try:
                self._count = tail.start(self._request_timeout_s)
            except Unreachable as error:
                self._start_problem = str(error).rstrip(".")
                self._closing.wait(_AGAIN_AFTER_S)
            else:
                self._start_problem = ""
                return True
        return False

    def _take(self, row: Row) -> None:
        if row.partition in self._broken:
            return
        try:
            decision = self._decision(row)
        except LedgerBroken as error:
            self._break([row.partition], error)
            return
        if decision is None:
            return
        with self._lock:
            answer = self._waiting.get((decision.intent_id, decision.claim_id))
        if answer is not None and not answer.future.done():
            answer.delivered = True
            answer.future.set_result(verdict_of(decision, row.partition, row.offset))

    def _decision(self, row: Row) -> Decision | None:
        """The decision in a ledger record, checked against the one before; None if it was seen already."""
        where = f"The ledger's record {row.partition}/{row.offset}"
        if row.value is None:
            raise LedgerBroken(f"{where} has no value. Stop the gate, and have a person look at the ledger.")
        while True:
            try:
                decision = self._codec.decode(row.value)
                break
            except Undecodable as error:
                raise LedgerBroken(f"{where} can't be read ({error}). Use a release that can.") from error
            except RegistryUnavailable as error:
                # The record stays; what it says is known when the registry is back.
                self._start_problem = str(error).rstrip(".")
                if self._closing.wait(_AGAIN_AFTER_S):
                    return None
        self._start_problem = ""
        if not isinstance(decision, Decision):
            raise LedgerBroken(f"{where} is a {type(decision).__name__}. Something else writes to the ledger: stop it.")
        guard = self._guards.get(row.partition)
        if guard is None:
            guard = self._guards[row.partition] = LedgerGuard.from_anywhere(name=f"Ledger partition {row.partition}")
        try:
            return decision if guard.check(decision, row.value) == "NEW" else None
        except LedgerFault as error:
            raise LedgerBroken(str(error)) from error

    def _fail_all(self, error: JoinGateError) -> None:
        with self._lock:
            waiting = list(self._waiting.values())
        for answer in waiting:
            answer.fail(error)
