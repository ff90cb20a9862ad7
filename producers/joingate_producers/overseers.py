"""The clients of those who watch and decide over operations: approver, observer and operator."""

from collections.abc import Sequence
from typing import ClassVar

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
    RegisterKey,
    RetireOwner,
    RevokeKey,
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
        return self._everywhere(claim_id, lambda common: RetireOwner(**common, owner_id=owner_id, reason=reason))

    def assign_owner(
        self, intent_id: str, commitment_id: str, *, owner_id: str, policy: str, claim_id: str | None = None
    ) -> PendingVerdict:
        """The control plane gives the commitment an owner, under a declared policy."""
        common = self._common(intent_id, claim_id)
        return self._submit(AssignOwner(**common, commitment_id=commitment_id, owner_id=owner_id, policy=policy))


class Operator(ReconciliationClient):
    """Speaks for a person on duty, on the topic `overrides`. All of it goes through the outbox."""

    topic: ClassVar[str] = "overrides"
    durable: ClassVar[frozenset[str]] = frozenset({"Override", "RequestReconciliation", "RegisterKey", "RevokeKey"})

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

    def register_key(
        self,
        holder: str,
        public_key: bytes,
        *,
        replaces: str = "",
        overlap_ms: int = 0,
        reason: str = "",
        claim_id: str | None = None,
    ) -> list[PendingVerdict]:
        """From here on the Ed25519 key speaks for the principal `holder`: said to every partition, as `retire_owner`.

        `replaces` is the id of the key that it takes the place of, which is good for `overlap_ms` more. Wait for every
        verdict: until then the key is not known everywhere. Raises Unreachable.
        """
        return self._everywhere(
            claim_id,
            lambda common: RegisterKey(
                **common,
                holder=holder,
                public_key=public_key,
                replaces_key=replaces,
                overlap_ms=overlap_ms,
                reason=reason,
            ),
        )

    def revoke_key(
        self, holder: str, key_id: str, *, revoked_at: int | None = None, reason: str = "", claim_id: str | None = None
    ) -> list[PendingVerdict]:
        """The key speaks for nobody from `revoked_at` (ms, UTC; None: now) on: said to every partition.

        Wait for every verdict: until then some partition may still believe it. Raises Unreachable.
        """
        return self._everywhere(
            claim_id,
            lambda common: RevokeKey(**common, holder=holder, key_id=key_id, revoked_at=revoked_at, reason=reason),
        )
