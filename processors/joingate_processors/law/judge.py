"""The bench: every claim goes through the same guards, in the same order, and gets exactly one decision.

`judge` reads the state and says what follows; `fold` writes it. Neither knows a clock, an id source or a disk.
Guards: shape, role and principal, identity and replay here; intent and plan currency, state, approval and order in
the rules. A refusal that rests on "not known" becomes a hold where a quarantined record may have said it (model §6).
"""

from collections.abc import Callable
from typing import assert_never

from joingate_processors.law import (
    approvals,
    archive,
    commitment_claims,
    custody,
    intents,
    keys,
    observations,
    outcomes,
    overrides,
    owners,
    plan_approvals,
    plans,
    principals,
    promises,
    repeats,
    resources,
    timers,
    transfers,
)
from joingate_processors.law.arrival import Arrival, Due, FollowUp, Ruling
from joingate_processors.law.case import Case, Refused, refuse
from joingate_processors.law.evolve import evolve
from joingate_processors.law.state import (
    Commitment,
    Custody,
    Header,
    Operation,
    PlanRow,
    Seen,
    State,
    seen_key,
)
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import CLAIM_TYPES, EVERYWHERE, ROLE_TYPES, Role
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import derived_id
from joingate_schemas.record import from_datum

TOPIC_ROLES: dict[ClaimTopic, Role] = {
    "proposals": "PLANNER", "outcomes": "EXECUTOR", "approvals": "APPROVER", "observations": "OBSERVER",
    "overrides": "OPERATOR", "resource-verdicts": "GATE", "gate": "GATE",
}  # fmt: skip
"""Who speaks on which topic (model §2)."""

ID_LENGTH_MAX = 512
SKEW_MS_MAX = 1 << 62
"""The largest skew that is told: a stamp may hold any 64-bit number, and so must the fact about it."""
_ALLOWED: dict[ClaimTopic, frozenset[type]] = {
    topic: frozenset(CLAIM_TYPES[name] for name in ROLE_TYPES[role]) for topic, role in TOPIC_ROLES.items()
}
# The arbiter is the gate's kin, and says these only: what the gate says itself reaches it on no topic.
_ALLOWED["resource-verdicts"] = frozenset({c.ResourceGranted, c.ResourceDenied, c.ResourceExpired})
# Ids that rules build keys from, or that end up in them.
_IDS: dict[str, tuple[str, ...]] = {
    "Plan": ("plan_id",), "Dispatch": ("plan_id", "step_id"), "Succeed": ("plan_id", "step_id"),
    "Transfer": ("target_owner",), "AcceptTransfer": ("owner_id",), "AssignOwner": ("owner_id",),
    "RetireOwner": ("owner_id",), "Promise": ("owner_id", "counterparty", "business_key"), "Prepared": ("worker",),
    "RegisterKey": ("holder", "replaces_key"), "RevokeKey": ("holder", "key_id"),
}  # fmt: skip
_RESTS_ON_UNKNOWN = frozenset(
    "UNKNOWN_INTENT UNKNOWN_VERSION NOT_PLANNED NOT_DISPATCHED NOT_COMMITTED NOT_VERIFIED UNKNOWN_COMMITMENT "
    "UNKNOWN_OPERATION DEPENDENCY_UNMET PIVOT_NOT_LAST MISSING_JOIN OPEN_OPERATIONS OPEN_COMMITMENTS "
    "GOALS_NOT_SEEN UNKNOWN_KEY".split()
)
# Refused before their claim id counted: else a stranger could use up the id of somebody's honest claim.
_BEFORE_IDENTITY = frozenset(
    "MALFORMED WRONG_ROLE UNKNOWN_PRINCIPAL UNSIGNED BAD_SIGNATURE UNKNOWN_KEY KEY_REVOKED "
    "KEY_REPLACED OVER_LIMIT".split()
)
# Nor is a refusal that stays the same for ever remembered: what was archived must not grow again.
_UNREMEMBERED = _BEFORE_IDENTITY | {"INTENT_ARCHIVED"}
_NO_HEADER = Header()


def judge(state: State, arrival: Arrival, catalogue: Catalogue, epoch: int) -> Decision:
    """The decision on `arrival`, in its place in the ledger. Reads only; total for any decoded claim."""
    claim = arrival.claim
    header = state.header.get("") or _NO_HEADER
    now = max(header.decided_at, arrival.appended_at)
    role = TOPIC_ROLES.get(arrival.topic, "GATE")
    case = Case(state, catalogue, now, role, arrival.appended_at)
    claim_type = type(claim).__name__
    said = b"" if arrival.topic == "gate" else repeats.digest_of_claim(claim)
    try:
        ruling = _ruled(case, arrival, claim_type, said)
    except Refused as refusal:
        ruling = refusal.ruling
    if ruling.reason in _RESTS_ON_UNKNOWN:
        archived = archive.so_said(case, claim, ruling)
        quarantine_id = _in_scope(state, claim.intent_id) if archived is None else None
        ruling = archived or ruling
        if quarantine_id is not None:
            return _held(arrival, header, now, epoch, quarantine_id, ruling)
    elif ruling.verdict == "REJECTED" and ruling.reason not in _UNREMEMBERED and archive.spoken_of(case, claim):
        # Whatever else is wrong with it: it is about what was archived, and leaves nothing behind.
        ruling = archive.so_said(case, claim, ruling) or ruling
    verdict, reason, detail, subject_id, status, facts, refers_to, recorded_verdict, recorded_reason = ruling
    if arrival.topic != "gate" and claim.occurred_at:
        skew_ms = claim.occurred_at - arrival.appended_at
        if not -catalogue.max_skew_ms <= skew_ms <= catalogue.max_skew_ms:
            told = max(-SKEW_MS_MAX, min(SKEW_MS_MAX, skew_ms))
            facts = [*facts, f.ClockSkewed(intent_id=claim.intent_id, skew_ms=told)]
    datum: dict[str, object] = {
        "seq": header.seq + 1, "epoch": epoch, "decided_at": now, "topic": arrival.topic, "offset": arrival.offset,
        "appended_at": arrival.appended_at, "claim_type": claim_type, "claim_id": claim.claim_id,
        "intent_id": claim.intent_id, "principal": claim.principal,
        "claim": b"" if verdict == "REPLAYED" else arrival.raw, "verdict": verdict, "reason": reason,
        "detail": detail, "subject_id": subject_id, "status": status, "refers_to": refers_to,
        "recorded_verdict": recorded_verdict, "recorded_reason": recorded_reason, "claim_digest": said,
        "facts": facts, "previous": bytes.fromhex(header.previous),
    }  # fmt: skip
    return from_datum(Decision, datum)  # one a claim: naming twenty fields in a call costs twice as much


def fold(state: State, decision: Decision, digest: bytes) -> None:
    """Write what the decision says into `state`; `digest` is the SHA-256 of its encoded record. Never refuses."""
    at = decision.decided_at
    header = state.header.get("") or _NO_HEADER
    state.header.put(
        "",
        from_datum(
            Header, {"seq": decision.seq, "epoch": decision.epoch, "previous": digest.hex(), "decided_at": at,
                     "catalogue_digest": header.catalogue_digest},
        ),
    )  # fmt: skip
    for fact in decision.facts:
        evolve(state, fact, at)
    if decision.topic != "gate" and not decision.refers_to and decision.reason not in _UNREMEMBERED:
        state.seen.put(
            seen_key(decision.intent_id, decision.claim_id),
            from_datum(
                Seen, {"seq": decision.seq, "about": decision.claim_type, "verdict": decision.verdict,
                       "reason": decision.reason, "subject_id": decision.subject_id,
                       "digest": decision.claim_digest.hex()},
            ),
        )  # fmt: skip


def follow_ups(state: State, decision: Decision, claim: c.AnyClaim) -> list[FollowUp]:
    """What is to be decided next, right after `decision` on `claim` was folded: claims that a quarantine held."""
    return overrides.follow_ups(state, decision, claim) if decision.claim_type == "Override" else []


def timer_arrival(state: State, due: Due, now: int, encode: Callable[[c.TimerFired], bytes]) -> Arrival:
    """The gate's own claim, made `now` (ms), that the deadline `due` passed; the same deadline makes the same claim."""
    kind, intent_id = _timed_row(state, due)
    claim = c.TimerFired(
        claim_id=derived_id("timer", due.subject_kind, due.key, due.timer, str(due.due_at)), intent_id=intent_id,
        principal="gate", timer=due.timer, subject_kind=kind, subject_id=due.key, due_at=due.due_at,
    )  # fmt: skip
    return Arrival(claim=claim, raw=encode(claim), topic="gate", offset=-1, appended_at=now)


def _timed_row(state: State, due: Due) -> tuple[c.SubjectKind, str]:
    row: Operation | PlanRow | Commitment | Custody | None
    kind: c.SubjectKind
    match due.subject_kind:
        case "INTENT":
            return "INTENT", due.key  # empty where it is about no single one
        case "OWNER":
            return "OWNER", ""  # an owner's commitments lie under many intents
        case "LEASE":
            kind, row = "LEASE", state.custodies.get(due.key)
        case "OPERATION":
            kind, row = "OPERATION", state.operations.get(due.key)
        case "PLAN":
            kind, row = "PLAN", state.plans.get(due.key)
        case _:
            kind, row = "COMMITMENT", state.commitments.get(due.key)
    return kind, row.intent_id if row is not None else ""


def _ruled(case: Case, arrival: Arrival, claim_type: str, said: bytes) -> Ruling:
    claim = arrival.claim
    if arrival.topic != "gate":
        _check_shape(claim, claim_type)
        if type(claim) not in _ALLOWED.get(arrival.topic, frozenset()):
            refuse("WRONG_ROLE", f"{claim_type} may not arrive on {arrival.topic}", claim.claim_id)
        if case.catalogue.principals and case.role != "GATE":  # the arbiter is the gate's own kin
            principals.check(case, arrival)
        seen = case.state.seen.get(seen_key(claim.intent_id, claim.claim_id))
        if seen is not None:
            return repeats.repeated(case.state, claim, claim_type, said, seen)
    return _rule(case, claim)


def _check_shape(claim: c.AnyClaim, claim_type: str) -> None:
    if not claim.claim_id:
        refuse("MALFORMED", "claim_id is empty")
    if not claim.intent_id and claim_type not in EVERYWHERE:
        refuse("MALFORMED", "intent_id is empty")
    if not (claim.intent_id.isprintable() and claim.claim_id.isprintable()):
        refuse("MALFORMED", "an id holds control characters")
    if len(claim.intent_id) > ID_LENGTH_MAX or len(claim.claim_id) > ID_LENGTH_MAX:
        refuse("MALFORMED", f"an id is longer than {ID_LENGTH_MAX} characters")
    for name in _IDS.get(claim_type, ()):
        if not claim.__dict__[name].isprintable() or len(claim.__dict__[name]) > ID_LENGTH_MAX:
            refuse("MALFORMED", f"{name} holds control characters or is longer than {ID_LENGTH_MAX}")


def _rule(case: Case, claim: c.AnyClaim) -> Ruling:
    match claim:  # the most frequent first
        case c.Dispatch():
            return plans.dispatch(case, claim)
        case c.Commit():
            return outcomes.commit(case, claim)
        case c.Plan():
            return plans.plan(case, claim)
        case c.DeclareIntent():
            return intents.declare(case, claim)
        case c.Prepared():
            return outcomes.prepared(case, claim)
        case c.Succeed():
            return plans.succeed(case, claim)
        case c.Close():
            return intents.close(case, claim)
        case c.TimerFired():
            return timers.timer_fired(case, claim)
        case _ if (gone := archive.spoken_of(case, claim)) is not None:
            return archive.over(gone)
        case c.Observe():
            return observations.observe(case, claim)
        case c.Abort():
            return outcomes.abort(case, claim)
        case c.InDoubt():
            return outcomes.in_doubt(case, claim)
        case c.CancelIntent():
            return intents.cancel(case, claim)
        case c.Release():
            return commitment_claims.release(case, claim)
        case c.MarkSatisfied():
            return commitment_claims.mark_satisfied(case, claim)
        case c.RequestReconciliation():
            return _request_reconciliation(case, claim)
        case c.Approve():
            if claim.operation_id is None and claim.plan_id is not None:
                return plan_approvals.approve_plan(case, claim, claim.plan_id)
            return approvals.approve(case, claim)
        case c.Decline():
            if claim.operation_id is None and claim.plan_id is not None:
                return plan_approvals.decline_plan(case, claim, claim.plan_id)
            return approvals.decline(case, claim)
        case c.Override():
            return overrides.override(case, claim)
        case c.RegisterKey():
            return keys.register(case, claim)
        case c.RevokeKey():
            return keys.revoke(case, claim)
        case c.ResourceGranted():
            return resources.granted(case, claim)
        case c.ResourceDenied():
            return resources.denied(case, claim)
        case c.ResourceExpired():
            return resources.expired(case, claim)
        case c.CatalogueChanged():
            fact = f.CatalogueLoaded(digest=claim.digest, version=claim.version, catalogue=claim.catalogue)
            return Ruling(
                "ACCEPTED", "OK", claim.accepted, claim.digest, "", [fact, *archive.retention_declared(case, claim)]
            )
        case c.ClaimQuarantined():
            opened = f.QuarantineOpened(quarantine_id=claim.quarantine_id, scope=claim.scope, problem=claim.problem,
                                        detail=claim.detail)  # fmt: skip
            return Ruling("REJECTED", claim.problem, claim.detail, claim.quarantine_id, "", [opened])
        case c.Transfer():
            return transfers.transfer(case, claim)
        case c.AcceptTransfer():
            return transfers.accept(case, claim)
        case c.AssignOwner():
            return transfers.assign(case, claim)
        case c.RetireOwner():
            return owners.retire(case, claim)
        case c.Promise():
            return promises.promise(case, claim)
        case c.ClaimHeld():
            refuse("NOT_SUPPORTED", f"this release has no rule for {type(claim).__name__}", claim.claim_id)
        case _:
            assert_never(claim)


def _request_reconciliation(case: Case, claim: c.RequestReconciliation) -> Ruling:
    if claim.subject_kind not in ("OPERATION", "COMMITMENT"):
        refuse("MALFORMED", f"a {claim.subject_kind} can't be reconciled", claim.subject_id)
    if claim.subject_kind == "COMMITMENT":
        custody.open_ground(case, claim.intent_id, claim.subject_id, 0)
        return commitment_claims.request_reconciliation(case, claim)
    case.open_intent(claim.intent_id, 0)
    operation = case.state.operations.get(claim.subject_id)
    if operation is None or operation.intent_id != claim.intent_id:
        refuse("UNKNOWN_OPERATION", f"intent {claim.intent_id} has no operation {claim.subject_id}", claim.subject_id)
    if operation.status != "SUBMITTED":
        return Ruling("REPLAYED", "ALREADY_RESOLVED", f"it is {operation.status}", claim.subject_id, operation.status)
    facts: list[AnyFact] = outcomes.doubt(case, operation, operation.attempt, claim.reason or "asked for", [])
    return Ruling("ACCEPTED", "OK", "", claim.subject_id, "IN_DOUBT", facts)


def _in_scope(state: State, intent_id: str) -> str | None:
    """The quarantined record within whose scope `intent_id` lies, if there is one; its own key's first."""
    for owner in (intent_id, ""):
        first = state.scoped_quarantines.first(owner)
        if first is not None:
            return first
    return None


def _held(arrival: Arrival, header: Header, now: int, epoch: int, quarantine_id: str, ruling: Ruling) -> Decision:
    """The record that the claim waits; its own decision follows once the quarantine is resolved."""
    claim = arrival.claim
    hold = f.HoldOpened(
        quarantine_id=quarantine_id, intent_id=claim.intent_id, held_claim=arrival.raw, topic=arrival.topic,
        offset=arrival.offset, appended_at=arrival.appended_at,
    )  # fmt: skip
    return Decision(
        seq=header.seq + 1, epoch=epoch, decided_at=now, topic="gate", offset=-1, appended_at=arrival.appended_at,
        claim_type="ClaimHeld", claim_id=derived_id("held", claim.claim_id, str(header.seq + 1)),
        intent_id=claim.intent_id, principal="gate", claim=b"", verdict="ACCEPTED", reason="HELD",
        detail=f"it would be {ruling.reason}: {ruling.detail}", subject_id=quarantine_id, status="", refers_to=0,
        facts=[hold], previous=bytes.fromhex(header.previous),
    )  # fmt: skip
