"""The clients of those who watch and decide over operations: approver, observer and operator."""

from collections.abc import Sequence
from typing import ClassVar
from uuid import uuid4

from joingate_producers.client import ReconciliationClient, RoleClient
from joingate_producers.errors import InvalidClaim
from joingate_producers.verdicts import PendingVerdict
from joingate_schemas.claims import (
    Approve,
    AssignOwner,
    Decline,
    Finding,
    Observe,
    Override,
    Proof,
    RetireOwner,
    SubjectKind,
)


class Approver(RoleClient):
    """Speaks for a human or an independent control, on the topic `approvals`. All of it goes through the outbox."""

    topic: ClassVar[str] = "approvals"
    durable: ClassVar[frozenset[str]] = frozenset({"Approve", "Decline"})

    def approve(
        self,
        intent_id: str,
        *,
        digest: str,
        operation_id: str | None = None,
        plan_id: str | None = None,
        expires_at: int | None = None,
        comment: str = "",
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Yes to exactly the content with `digest`, of an operation or of a plan. `expires_at` in ms, UTC."""
        self._one_of("Approve", operation_id, plan_id)
        return self._submit(
            Approve(
                **self._common(intent_id, claim_id),
                operation_id=operation_id,
                plan_id=plan_id,
                digest=digest,
                expires_at=expires_at,
                comment=comment,
            )
        )

    def decline(
        self,
        intent_id: str,
        *,
        digest: str,
        operation_id: str | None = None,
        plan_id: str | None = None,
        comment: str = "",
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """No to it."""
        self._one_of("Decline", operation_id, plan_id)
        common = self._common(intent_id, claim_id)
        return self._submit(
            Decline(**common, operation_id=operation_id, plan_id=plan_id, digest=digest, comment=comment)
        )

    @staticmethod
    def _one_of(claim_type: str, operation_id: str | None, plan_id: str | None) -> None:
        if (operation_id is None) == (plan_id is None):
            raise InvalidClaim(claim_type, "operation_id or plan_id", "must be given, one of the two")


class Observer(RoleClient):
    """Speaks for a system of record, a verifier or an owner registry, on the topic `observations`.

    What changes owners goes through the outbox; an observation can be made again.
    """

    topic: ClassVar[str] = "observations"
    durable: ClassVar[frozenset[str]] = frozenset({"RetireOwner", "AssignOwner"})

    def observe(
        self,
        intent_id: str,
        *,
        subject_kind: SubjectKind,
        subject_id: str,
        finding: Finding,
        source: str,
        source_version: int | None = None,
        source_time: int | None = None,
        external_ids: Sequence[str] = (),
        proof: Proof | None = None,
        evidence: Sequence[str] = (),
        idempotency_key: str | None = None,
        owner_id: str | None = None,
        valid_until: int | None = None,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """What `source` says, with its own version or time (ms since the epoch, UTC), by which newer is told.

        `valid_until` (ms): until when a commitment that is PRESENT holds, if the source says so; `owner_id`: who was
        seen to act on it.
        """
        return self._submit(
            Observe(
                **self._common(intent_id, claim_id),
                subject_kind=subject_kind,
                subject_id=subject_id,
                finding=finding,
                source=source,
                source_version=source_version,
                source_time=source_time,
                external_ids=list(external_ids),
                proof=proof,
                evidence=list(evidence),
                idempotency_key=idempotency_key,
                owner_id=owner_id,
                valid_until=valid_until,
            )
        )

    def retire_owner(self, owner_id: str, *, reason: str = "", claim_id: str | None = None) -> list[PendingVerdict]:
        """The owner is gone: said to every partition, so there is a verdict from each.

        Each partition's claim has the claim id with the partition's number behind it. Raises Unreachable when the
        number of partitions can't be asked for; then nothing was sent.
        """
        base = str(uuid4()) if claim_id is None else claim_id
        count = self.connection.wire.partitions(self._topic_name, self.connection.settings.request_timeout_s)
        return [
            self._submit(
                RetireOwner(**self._common("", f"{base}/{partition}"), owner_id=owner_id, reason=reason), partition
            )
            for partition in range(count)
        ]

    def assign_owner(
        self, intent_id: str, commitment_id: str, *, owner_id: str, policy: str, claim_id: str | None = None
    ) -> PendingVerdict:
        """The control plane gives the commitment an owner, under a declared policy."""
        common = self._common(intent_id, claim_id)
        return self._submit(AssignOwner(**common, commitment_id=commitment_id, owner_id=owner_id, policy=policy))


class Operator(ReconciliationClient):
    """Speaks for a person on duty, on the topic `overrides`. All of it goes through the outbox."""

    topic: ClassVar[str] = "overrides"
    durable: ClassVar[frozenset[str]] = frozenset({"Override", "RequestReconciliation"})

    def override(
        self,
        intent_id: str,
        *,
        subject_kind: SubjectKind,
        subject_id: str,
        to: str,
        reason: str,
        evidence: Sequence[str],
        external_id: str = "",
        replacement: bytes | None = None,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Force a transition, with a name (the principal), a reason and evidence; never silently."""
        if not self.principal:
            raise InvalidClaim("Override", "principal", "is empty: a forced transition has a person's name on it")
        if not evidence:
            raise InvalidClaim("Override", "evidence", "is empty: a forced transition needs some")
        return self._submit(
            Override(
                **self._common(intent_id, claim_id),
                subject_kind=subject_kind,
                subject_id=subject_id,
                to=to,
                reason=reason,
                evidence=list(evidence),
                external_id=external_id,
                replacement=replacement,
            )
        )
