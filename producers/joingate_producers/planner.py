"""The planner's client: declares intents, proposes plans, and asks for steps; it can never say that one is done."""

from collections.abc import Sequence
from typing import ClassVar

from joingate_producers.client import ReconciliationClient
from joingate_producers.context import PlannerContext, read_context
from joingate_producers.verdict import Verdict
from joingate_producers.verdicts import PendingVerdict
from joingate_schemas.claims import (
    Abort,
    AcceptTransfer,
    Arguments,
    Budgets,
    CancelIntent,
    Close,
    DeclareIntent,
    Dispatch,
    Goal,
    MarkSatisfied,
    Plan,
    PlanStep,
    Promise,
    Release,
    Succeed,
    Transfer,
)


class Planner(ReconciliationClient):
    """Speaks for a planner, on the topic `proposals`. Cancel, abort, release and taking over go through the outbox."""

    topic: ClassVar[str] = "proposals"
    durable: ClassVar[frozenset[str]] = frozenset({"CancelIntent", "Abort", "Release", "AcceptTransfer"})

    # --- before planning ---------------------------------------------------------------------------------------------

    def context(
        self, intent_id: str, *, at_least: Verdict | None = None, timeout_s: float | None = None
    ) -> PlannerContext:
        """What there is to know before planning, for this principal; asked of the read side (`api_url`).

        `at_least`: the answer holds this verdict's decision already. Raises NotKnown if there is no such intent (yet),
        and Unreachable when the read side does not answer, or is not that far yet: trying again can help.
        """
        settings = self.connection.settings
        limit_s = settings.request_timeout_s if timeout_s is None else timeout_s
        return read_context(settings.api_url, intent_id, self.principal, at_least, limit_s)

    # --- intents and plans -------------------------------------------------------------------------------------------

    def declare_intent(
        self,
        intent_id: str,
        *,
        version: int = 1,
        goals: Sequence[Goal] = (),
        objective: str = "",
        tenant: str = "",
        budgets: Budgets | None = None,
        close_needs_goals: bool = False,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Say what is wanted now. A higher `version` supersedes the lower. `goals` are made with `goal`.

        `close_needs_goals`: it may close only once each goal was observed as reached (GOALS_NOT_SEEN before that).
        """
        common = self._common(intent_id, claim_id)
        return self._submit(
            DeclareIntent(
                **common, version=version, goals=list(goals), objective=objective, tenant=tenant, budgets=budgets,
                close_needs_goals=close_needs_goals,
            )
        )  # fmt: skip

    def cancel_intent(
        self, intent_id: str, *, intent_version: int = 0, reason: str = "", claim_id: str | None = None
    ) -> PendingVerdict:
        """It is not wanted any more. Version 0: whatever version is current."""
        return self._submit(
            CancelIntent(**self._common(intent_id, claim_id), intent_version=intent_version, reason=reason)
        )

    def plan(
        self,
        intent_id: str,
        *,
        intent_version: int,
        plan_id: str,
        steps: Sequence[PlanStep],
        replaces: str | None = None,
        adopt: bool = True,
        commitments: Sequence[str] = (),
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Propose one way, in place of the plan that it `replaces`. `steps` are made with `step`."""
        return self._submit(
            Plan(
                **self._common(intent_id, claim_id),
                intent_version=intent_version,
                plan_id=plan_id,
                replaces=replaces,
                adopt=adopt,
                steps=list(steps),
                commitments=list(commitments),
            )
        )

    def close(
        self,
        intent_id: str,
        *,
        intent_version: int = 0,
        plan_id: str | None = None,
        outcome: str = "",
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Close the intent: it is finished. Version 0 and no plan: whatever is current."""
        common = self._common(intent_id, claim_id)
        return self._submit(Close(**common, intent_version=intent_version, plan_id=plan_id, outcome=outcome))

    # --- steps and operations ----------------------------------------------------------------------------------------

    def dispatch(
        self,
        intent_id: str,
        *,
        intent_version: int,
        plan_id: str,
        step_id: str,
        arguments: Arguments | None = None,
        idempotency_key: str | None = None,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Ask that this step be done now. Asking again for the same wish is answered with its present status."""
        return self._submit(
            Dispatch(
                **self._common(intent_id, claim_id),
                intent_version=intent_version,
                plan_id=plan_id,
                step_id=step_id,
                arguments=arguments,
                idempotency_key=idempotency_key,
            )
        )

    def abort(
        self, intent_id: str, operation_id: str, *, attempt: int = 0, reason: str = "", claim_id: str | None = None
    ) -> PendingVerdict:
        """Stop the operation. Attempt 0: the current one. What has happened already is answered COMPENSATE."""
        common = self._common(intent_id, claim_id)
        return self._submit(Abort(**common, operation_id=operation_id, attempt=attempt, error=reason, evidence=[]))

    def succeed(
        self,
        intent_id: str,
        *,
        intent_version: int,
        plan_id: str,
        step_id: str,
        evidence: Sequence[str] = (),
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """The step is done: accepted only over an executor's Commit that followed its Dispatch."""
        return self._submit(
            Succeed(
                **self._common(intent_id, claim_id),
                intent_version=intent_version,
                plan_id=plan_id,
                step_id=step_id,
                evidence=list(evidence),
            )
        )

    # --- commitments -------------------------------------------------------------------------------------------------

    def promise(
        self,
        intent_id: str,
        *,
        intent_version: int,
        obligation_type: str,
        counterparty: str,
        text: str,
        due_at: int | None = None,
        goal_id: str | None = None,
        business_key: str = "",
        owner_id: str = "",
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """A message that creates an expectation, as a commitment. `due_at` is in milliseconds since the epoch, UTC."""
        return self._submit(
            Promise(
                **self._common(intent_id, claim_id),
                intent_version=intent_version,
                obligation_type=obligation_type,
                counterparty=counterparty,
                text=text,
                due_at=due_at,
                goal_id=goal_id,
                business_key=business_key,
                owner_id=owner_id,
            )
        )

    def release(
        self,
        intent_id: str,
        commitment_id: str,
        *,
        intent_version: int = 0,
        reason: str = "",
        fencing_token: int = 0,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Give the commitment back. Version 0: the current version. `fencing_token` is that of its present owner."""
        return self._submit(
            Release(
                **self._common(intent_id, claim_id),
                commitment_id=commitment_id,
                intent_version=intent_version,
                reason=reason,
                fencing_token=fencing_token,
            )
        )

    def transfer(
        self,
        intent_id: str,
        commitment_id: str,
        *,
        target_owner: str,
        target_intent_id: str | None = None,
        acknowledge_by: int | None = None,
        reason: str = "",
        fencing_token: int = 0,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Ask that another owner takes the commitment over, by `acknowledge_by` (ms since the epoch, UTC).

        Naming its present owner takes a pending offer back. `fencing_token` is the present owner's.
        """
        return self._submit(
            Transfer(
                **self._common(intent_id, claim_id),
                commitment_id=commitment_id,
                target_owner=target_owner,
                target_intent_id=target_intent_id,
                acknowledge_by=acknowledge_by,
                reason=reason,
                fencing_token=fencing_token,
            )
        )

    def accept_transfer(
        self,
        intent_id: str,
        commitment_id: str,
        *,
        owner_id: str,
        fencing_token: int = 0,
        evidence: Sequence[str] = (),
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """Take the commitment over, as `owner_id`, with the fencing token of the offer."""
        return self._submit(
            AcceptTransfer(
                **self._common(intent_id, claim_id),
                commitment_id=commitment_id,
                owner_id=owner_id,
                fencing_token=fencing_token,
                evidence=list(evidence),
            )
        )

    def mark_satisfied(
        self,
        intent_id: str,
        commitment_id: str,
        *,
        evidence: Sequence[str],
        fencing_token: int = 0,
        claim_id: str | None = None,
    ) -> PendingVerdict:
        """The obligation was fulfilled, and here is the evidence. `fencing_token` is its owner's present one."""
        return self._submit(
            MarkSatisfied(
                **self._common(intent_id, claim_id),
                commitment_id=commitment_id,
                evidence=list(evidence),
                fencing_token=fencing_token,
            )
        )
