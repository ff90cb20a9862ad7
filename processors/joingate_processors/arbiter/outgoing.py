"""What the arbiter answers: the claims that tell a gate what became of its wishes. Pure."""

from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.claims import ResourceDenied, ResourceExpired, ResourceGranted
from joingate_schemas.ids import derived_id

Answer = ResourceGranted | ResourceDenied | ResourceExpired


def answer(decision: ArbiterDecision) -> Answer | None:
    """The claim for the gate, keyed by the operation's intent; None where nobody waits for one.

    Its id is made of what it is about, so that the same answer is the same claim.
    """
    what = (decision.operation_id, decision.resource_ref)
    if decision.message_type == "LeasePassed":
        return ResourceExpired(
            claim_id=derived_id("resource-expired", *what, str(decision.seq)), intent_id=decision.intent_id,
            principal="arbiter", operation_id=decision.operation_id, resource_ref=decision.resource_ref,
        )  # fmt: skip
    claim_id = derived_id("resource-verdict", *what, str(decision.n))
    if decision.verdict == "GRANTED":
        return ResourceGranted(
            claim_id=claim_id, intent_id=decision.intent_id, principal="arbiter",
            operation_id=decision.operation_id, resource_ref=decision.resource_ref,
        )  # fmt: skip
    if decision.verdict == "DENIED":
        return ResourceDenied(
            claim_id=claim_id, intent_id=decision.intent_id, principal="arbiter",
            operation_id=decision.operation_id, resource_ref=decision.resource_ref, holder=decision.holder,
            holder_intent_id=decision.holder_intent_id, holder_status=decision.holder_status,
            reason=decision.reason, detail=decision.detail,
        )  # fmt: skip
    return None
