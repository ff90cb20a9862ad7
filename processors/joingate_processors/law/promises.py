"""Expectations that messages create: each is a commitment to somebody, with the digest of what was said and its due.

Only a type that some action of the catalogue PROMISES can be promised: other text stays text (model §1, prose is not a
commit).
"""

from joingate_processors.law import admission, custody
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.deadlines import first_of
from joingate_processors.law.digests import digest_of
from joingate_processors.law.plans import OPEN_MAX
from joingate_processors.law.state import Commitment
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.debt import weight_of
from joingate_schemas.ids import commitment_id

CONTENT = "content"
"""The attribute under which a promise keeps the digest of its words."""


def promise(case: Case, claim: c.Promise) -> Ruling:
    """What was said is an obligation from here on; where its type is observed, once somebody has seen the message."""
    kind = _promised(case, claim)
    refs = [f"to:{claim.counterparty}", *([f"about:{claim.business_key}"] if claim.business_key else [])]
    identity = commitment_id(claim.intent_id, kind.name, refs, 1)
    content = digest_of(claim.counterparty, claim.text, claim.due_at)
    intent = case.current_intent(claim.intent_id, claim.intent_version)
    known = case.state.commitments.get(identity)
    if known is not None:
        return _again(known, content)
    if intent.status == "CANCELLED":
        refuse("INTENT_CANCELLED", f"intent {claim.intent_id} was cancelled", identity, intent.status)
    if claim.goal_id is not None and claim.goal_id not in intent.goals:
        refuse("MALFORMED", f"intent {claim.intent_id} has no goal {claim.goal_id}", identity)
    owner_id = claim.owner_id or f"intent:{claim.intent_id}"
    custody.check_owner(case, owner_id, identity)
    if custody.is_external(case, owner_id) or not custody.speaks_for(case, claim.principal, owner_id):
        refuse("NOT_OWNER", f"'{claim.principal}' may not promise for {owner_id}", identity)
    if intent.commitments_open >= OPEN_MAX:
        refuse("COMMITMENT_DEBT", f"{intent.commitments_open} commitments are open, of {OPEN_MAX}", identity)
    admission.check(case, claim.intent_id, claim.principal, weight_of(kind), identity)
    due_at = claim.due_at if claim.due_at is not None or kind.due_ms is None else case.now + kind.due_ms
    made = f.CommitmentProposed(
        commitment_id=identity, intent_id=claim.intent_id, intent_version=intent.version, goal_id=claim.goal_id,
        plan_id=intent.plan_id or "", step_id="", owner_id=owner_id, obligation_type=kind.name,
        type_version=kind.version, resource_refs=refs, counterparty_refs=[claim.counterparty], quantity=None,
        attributes={CONTENT: content}, generation=1, operation_id=None, due_at=due_at,
        valid_until=case.now + kind.valid_ms if kind.valid_ms else None, timer="VERIFICATION",
        deadline_at=case.now + kind.verification_ms,
        grace_until=None if due_at is None or not kind.grace_ms else due_at + kind.grace_ms, condition=None,
        weight=weight_of(kind), principal=claim.principal,
    )  # fmt: skip
    if kind.observed:
        return Ruling("ACCEPTED", "OK", "in force once the message was seen", identity, "PROPOSED", [made])
    return Ruling("ACCEPTED", "OK", "", identity, "ACTIVE", [made, _in_force(claim, made, content)])


def _in_force(claim: c.Promise, made: f.CommitmentProposed, content: str) -> f.CommitmentChanged:
    timer, deadline_at = first_of(made.valid_until, made.due_at if made.grace_until is None else made.grace_until)
    return f.CommitmentChanged(
        commitment_id=made.commitment_id, intent_id=made.intent_id, before="PROPOSED", after="ACTIVE",
        cause=f"promised to {claim.counterparty}", evidence=[f"promise:{claim.claim_id}", f"{CONTENT}:{content}"],
        operation_id=None, timer=timer, deadline_at=deadline_at,
    )  # fmt: skip


def _promised(case: Case, claim: c.Promise) -> ObligationType:
    """The type of what is promised, if the catalogue lets a message promise it."""
    if not claim.counterparty or not claim.text:
        refuse("MALFORMED", "a promise needs a counterparty and its text", claim.claim_id)
    if claim.due_at is not None and claim.due_at <= case.now:
        refuse("MALFORMED", f"due_at {claim.due_at} is past: nothing can be promised for then", claim.claim_id)
    kind = case.catalogue.obligations.get(claim.obligation_type)
    if kind is None:
        known = ", ".join(sorted(case.catalogue.obligations)) or "none"
        refuse("UNKNOWN_OBLIGATION", f"the catalogue has no obligation '{claim.obligation_type}'; declared: {known}",
               claim.claim_id)  # fmt: skip
    promising = any(
        action.communication == "PROMISES" and action.obligation == kind.name
        for action in case.catalogue.actions.values()
    )
    if not promising:
        refuse("NOT_A_PROMISE", f"no action of the catalogue PROMISES a {kind.name}, so a message can't either",
               claim.claim_id)  # fmt: skip
    return kind


def _again(known: Commitment, content: str) -> Ruling:
    if known.attributes.get(CONTENT) != content:
        refuse("KEY_PAYLOAD_MISMATCH", "something else was promised to them about this before: correct that, or name "
               "another business_key", known.commitment_id, known.status)  # fmt: skip
    return Ruling("REPLAYED", "ALREADY_SO", f"it is {known.status}", known.commitment_id, known.status)
