"""The executor's client: reports what happened in the outside world, and may run the loop that makes it happen."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ClassVar
from uuid import uuid4

from joingate_producers.actions import ONCE, Action, Actions, Function, Retry
from joingate_producers.client import RoleClient
from joingate_producers.connection import Connection
from joingate_producers.errors import JoinGateError, OutboxBroken
from joingate_producers.handling import Handler
from joingate_producers.verdicts import PendingVerdict
from joingate_producers.worker import Worker
from joingate_schemas.claims import Abort, Commit, InDoubt, Prepared, Proof

DRAIN_S = 20.0
"""How long a stopped executor waits for what is under way: less than the 30 s that most keepers of processes give."""


class Executor(RoleClient):
    """Speaks for the executor called `name`, on the topic `outcomes`.

    Outcomes go through the outbox; where that is broken, they are sent all the same, and OutboxBroken is raised.
    Prepared does not: it asks for a permit for *this* process, and a permit for one that is gone would only leave the
    operation in doubt.
    """

    topic: ClassVar[str] = "outcomes"
    durable: ClassVar[frozenset[str]] = frozenset({"Commit", "Abort", "InDoubt"})

    def __init__(
        self, connection: Connection, name: str = "", principal: str | None = None, worker: str | None = None
    ) -> None:
        """`name` is the executor as the catalogue names it, the principal by default; `worker` is this one process."""
        super().__init__(connection, principal)
        self.name = name or self.principal
        self.worker = str(uuid4()) if worker is None else worker
        self.actions = Actions()

    def prepared(
        self, intent_id: str, operation_id: str, attempt: int, *, claim_id: str | None = None
    ) -> PendingVerdict:
        """Ask for the permit of this attempt, for this process."""
        return self._submit(
            Prepared(
                **self._common(intent_id, claim_id),
                operation_id=operation_id,
                attempt=attempt,
                executor=self.name,
                worker=self.worker,
            )
        )

    def lease(
        self, intent_id: str, commitment_id: str, number: int = 0, *, claim_id: str | None = None
    ) -> PendingVerdict:
        """Ask for the lease of a commitment for this process, or renew the one with this number, before it runs out.

        The number of a new lease is in the verdict's detail and in the commitment's row.
        """
        return self._submit(
            Prepared(
                **self._common(intent_id, claim_id),
                operation_id="",
                attempt=number,
                executor=self.name,
                worker=self.worker,
                commitment_id=commitment_id,
            )
        )

    def commit(
        self,
        intent_id: str,
        operation_id: str,
        attempt: int,
        *,
        external_id: str = "",
        evidence: Sequence[str] = (),
        result: str = "",
        idempotency_key: str | None = None,
        caused_by: str | None = None,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """The effect is there, with its id at the system of record and the evidence.

        At a downstream that is declared to know keys, the reply has to show it: `external_id`, or `idempotency_key` as
        it was echoed. Evidence alone is refused there as NO_EVIDENCE, and the operation comes into doubt by silence.
        """
        return self._report(
            Commit(
                **self._common(intent_id, claim_id),
                operation_id=operation_id,
                attempt=attempt,
                external_id=external_id,
                evidence=list(evidence),
                result=result,
                idempotency_key=idempotency_key,
                caused_by=caused_by,
            )
        )

    def abort(
        self,
        intent_id: str,
        operation_id: str,
        attempt: int,
        *,
        proof: Proof | None = None,
        error: str = "",
        evidence: Sequence[str] = (),
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """It did not happen, by this kind of proof. Without a proof it is in doubt, not undone."""
        return self._report(
            Abort(
                **self._common(intent_id, claim_id),
                operation_id=operation_id,
                attempt=attempt,
                proof=proof,
                error=error,
                evidence=list(evidence),
            )
        )

    def in_doubt(
        self,
        intent_id: str,
        operation_id: str,
        attempt: int,
        *,
        cause: str = "",
        evidence: Sequence[str] = (),
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """It can't be told whether the effect happened."""
        return self._report(
            InDoubt(
                **self._common(intent_id, claim_id),
                operation_id=operation_id,
                attempt=attempt,
                cause=cause,
                evidence=list(evidence),
            )
        )

    # --- the loop ----------------------------------------------------------------------------------------------------

    def action(
        self, name: str, *, retry: Retry = ONCE, at_once_max: int | None = None, timeout_s: float | None = None
    ) -> Callable[[Function], Action]:
        """Declare the function, sync or async, that performs the action of this name when this executor runs.

        See `actions.Action` for what can be declared of it, and docs/executors.md for what it has to answer. Raises
        JoinGateError for what does not fit.
        """
        return self.actions.action(name, retry=retry, at_once_max=at_once_max, timeout_s=timeout_s)

    def run(self, *, group: str | None = None, threads: int = 4, drain_s: float = DRAIN_S) -> None:
        """Perform the declared actions until SIGTERM or SIGINT; then drain, as `serve` does. A second signal hurries.

        To be called from the main thread, whose signals it takes. Raises as `serve` does, and JoinGateError without an
        action.
        """
        if not self.actions:
            raise JoinGateError(f"The executor {self.name} has no action to perform: declare one with `action`.")
        stop, hurry = threading.Event(), threading.Event()
        # In a thread of its own, since a signal is heard only between two calls of the main thread: there a poll of
        # Kafka would put it off, and a further effect would begin meanwhile.
        with _signals_to(stop, hurry), ThreadPoolExecutor(1, thread_name_prefix="joingate-executor") as loop:
            loop.submit(
                self.serve, self.actions, stop, group=group, threads=threads, drain_s=drain_s, hurry=hurry
            ).result()

    def serve(
        self,
        handlers: Mapping[str, Handler | Action],
        stop: threading.Event,
        *,
        group: str | None = None,
        threads: int = 4,
        drain_s: float = DRAIN_S,
        hurry: threading.Event | None = None,
    ) -> None:
        """Take commands and perform them until `stop` is set; see `worker` for what it promises.

        `handlers` are actions, or functions of a command, by name. `group` is the consumer group that the processes of
        this executor share; at most `threads` effects are under way at once. Once stopped, it begins nothing more and
        returns when what was begun has ended, after `drain_s` seconds at the latest, or when `hurry` is set: what has
        not ended by then is reported as in doubt. Raises OutboxBroken and OutboxFull, having begun nothing that it
        could not note down.
        """
        if threads < 1:
            raise JoinGateError(f"An executor needs at least one place for an effect, and was given {threads}.")
        actions = handlers if isinstance(handlers, Actions) else Actions.of(handlers)
        Worker(self, actions, group, threads, stop).run(drain_s, hurry or threading.Event())

    def warm_up(self) -> None:
        """Make sure that outcomes can be written, before anything is done of which there would be one to write.

        Raises Unreachable if a schema registry is configured and can't be asked.
        """
        subject = {**self._common("warm-up", None), "operation_id": "warm-up", "attempt": 1}
        self.connection.can_encode(Prepared(**subject, executor="warm-up"))
        for outcome in (Commit, Abort, InDoubt):
            self.connection.can_encode(outcome(**subject, evidence=[]))

    def _report(self, claim: Commit | Abort | InDoubt) -> PendingVerdict:
        try:
            return self._submit(claim, ends=(claim.operation_id, claim.attempt))
        except OutboxBroken:
            # What the disk can't keep the broker still can: this process may be the only one that knows. Should it get
            # there, the doubt that the next start reports finds the operation ended.
            self.connection.submit(self._topic_name, claim, durable=False)
            raise


@contextmanager
def _signals_to(stop: threading.Event, hurry: threading.Event) -> Iterator[None]:
    # A signal may interrupt the handler of the one before, anywhere: each takes the next, and none touches what
    # another may hold.
    ends = iter((stop, hurry))

    def heard(number: int, frame: object) -> None:
        end = next(ends, None)
        if end is not None:
            end.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
