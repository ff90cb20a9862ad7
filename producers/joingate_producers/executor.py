"""The executor's client: reports what happened in the outside world, and may run the loop that makes it happen."""

import threading
from collections.abc import Sequence
from typing import ClassVar
from uuid import uuid4

from joingate_producers.client import RoleClient
from joingate_producers.connection import Connection
from joingate_producers.handling import Handlers
from joingate_producers.verdicts import PendingVerdict
from joingate_producers.worker import Worker
from joingate_schemas.claims import Abort, Commit, InDoubt, Prepared, Proof


class Executor(RoleClient):
    """Speaks for the executor called `name`, on the topic `outcomes`.

    Outcomes go through the outbox. Prepared does not: it asks for a permit for *this* process, and a permit for one
    that is gone would only leave the operation in doubt.
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

    def serve(self, handlers: Handlers, stop: threading.Event, *, group: str | None = None, threads: int = 4) -> None:
        """Take commands and perform them until `stop` is set; see `worker.Worker` for what it promises.

        `group` is the consumer group that the processes of this executor share. Returns when what was begun has been
        reported. Raises OutboxBroken and OutboxFull, having begun nothing that it could not note down.
        """
        Worker(self, handlers, group=group, threads=threads).run(stop)

    def warm_up(self) -> None:
        """Make sure that outcomes can be written, before anything is done of which there would be one to write.

        Raises Unreachable if a schema registry is configured and can't be asked.
        """
        subject = {**self._common("warm-up", None), "operation_id": "warm-up", "attempt": 1}
        self.connection.can_encode(Prepared(**subject, executor="warm-up"))
        for outcome in (Commit, Abort, InDoubt):
            self.connection.can_encode(outcome(**subject, evidence=[]))

    def _report(self, claim: Commit | Abort | InDoubt) -> PendingVerdict:
        return self._submit(claim, ends=(claim.operation_id, claim.attempt))
