"""What the clients of all roles share: a connection, a principal, claim ids, and the way out."""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self
from uuid import uuid4

from joingate_producers.connection import Connection
from joingate_producers.verdicts import PendingVerdict
from joingate_producers.wire import ANY_PARTITION
from joingate_schemas.claims import AnyClaim, RequestReconciliation, SubjectKind


class RoleClient:
    """A client that speaks in one role, on that role's topic.

    Every method that makes a claim checks it, sends it and returns a `PendingVerdict`: `wait(5)` for its verdict,
    `await` it, or leave it. `claim_id` is minted once for each call unless given; the same claim id again is the same
    claim. Such a method raises InvalidClaim, OutboxFull, OutboxBroken, Unreachable and ConnectionClosed, and has sent
    nothing then. As a context manager, sync or async, it waits at its end for the broker's confirmations.
    """

    # The attribute of `Topics` that names the role's topic.
    topic: ClassVar[str]
    # Claim types that go through the outbox by default: what must not be lost with the process.
    durable: ClassVar[frozenset[str]]

    def __init__(self, connection: Connection, principal: str | None = None) -> None:
        """`principal` is who speaks, the connection's by default. The connection stays the caller's to close."""
        self.connection = connection
        self.principal = connection.settings.principal if principal is None else principal
        self._owns_connection = False

    @classmethod
    def connect(cls, **settings: Any) -> Self:
        """A client with a connection of its own, made of these settings and closed with it."""
        client = cls(Connection(**settings))
        client._owns_connection = True
        return client

    def repeat(self, pending: PendingVerdict) -> PendingVerdict:
        """Send that claim again, byte for byte: it is decided once, and answered again."""
        return self.connection.repeat(self._topic_name, pending, durable=self._is_durable(pending.claim))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until the broker has confirmed what this client's connection sent. Raises Unsent at the deadline."""
        self.connection.flush(timeout_s)

    def end(self) -> None:
        """Flush, and close the connection if it is this client's own. Raises Unsent."""
        if self._owns_connection:
            self.connection.close()
        else:
            self.connection.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.end)

    # --- for the roles -----------------------------------------------------------------------------------------------

    @property
    def _topic_name(self) -> str:
        name: str = getattr(self.connection.topics, self.topic)
        return name

    def _common(self, intent_id: str, claim_id: str | None) -> dict[str, Any]:
        """The fields that every claim carries."""
        return {
            "claim_id": str(uuid4()) if claim_id is None else claim_id,
            "intent_id": intent_id,
            "principal": self.principal,
            "occurred_at": int(time.time() * 1000),
        }

    def _submit(
        self, claim: AnyClaim, partition: int = ANY_PARTITION, ends: tuple[str, int] | None = None
    ) -> PendingVerdict:
        return self.connection.submit(
            self._topic_name, claim, durable=self._is_durable(claim), partition=partition, ends=ends
        )

    def _everywhere(self, claim_id: str | None, make: Callable[[dict[str, Any]], AnyClaim]) -> list[PendingVerdict]:
        """A claim to every partition, each with the claim id and the partition's number behind it.

        Raises Unreachable when the number of partitions can't be asked for; then nothing was sent.
        """
        base = str(uuid4()) if claim_id is None else claim_id
        count = self.connection.wire.partitions(self._topic_name, self.connection.settings.request_timeout_s)
        return [self._submit(make(self._common("", f"{base}/{number}")), number) for number in range(count)]

    def _is_durable(self, claim: AnyClaim) -> bool:
        return type(claim).__name__ in self.durable


class ReconciliationClient(RoleClient):
    """A client in one of the roles that may ask for a second look."""

    def request_reconciliation(
        self,
        intent_id: str,
        subject_id: str,
        *,
        subject_kind: SubjectKind = "OPERATION",
        reason: str = "",
        fencing_token: int = 0,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Ask that somebody look at this operation or commitment again.

        `fencing_token` is that of a commitment's present owner; an operator needs none.
        """
        return self._submit(
            RequestReconciliation(
                **self._common(intent_id, claim_id),
                subject_kind=subject_kind,
                subject_id=subject_id,
                reason=reason,
                fencing_token=fencing_token,
            )
        )
