"""The table's rows about owners: transfers, assignments, retirements, leases and promises."""

from joingate_schemas import claims as c
from joingate_schemas.decisions import Decision

from .catalogues import with_speakers
from .driver import INTENT, Court, step
from .scenes import Row, closed, opened, then


def booked(court: Court) -> None:
    """Given: step s1 made a seat, which is in force."""
    court.open(step("s1", "book"))
    court.perform("s1")


def booked_by_principals(court: Court) -> None:
    """Given: the same, where the catalogue names who may speak."""
    court.open(step("s1", "book"))
    court.dispatch("s1")
    court.prepared("s1", principal="cloud")
    assert court.commit("s1", principal="cloud").verdict == "ACCEPTED"


def incident(court: Court) -> None:
    """Given: step s1 made an incident, which may leave our books."""
    court.open(step("s1", "open_incident"))
    court.perform("s1")


def offered(court: Court) -> None:
    """Given: a seat, which team:ops is asked to take over."""
    booked(court)
    assert court.transfer("s1").verdict == "ACCEPTED"


def offered_to_desk(court: Court) -> None:
    """Given: an incident, which a desk outside our books is asked to take over."""
    incident(court)
    assert court.transfer("s1", "desk:9").verdict == "ACCEPTED"


def handed_over(court: Court) -> None:
    """Given: a seat that team:ops has taken over."""
    offered(court)
    assert court.accept("s1").verdict == "ACCEPTED"


def leased(court: Court) -> None:
    """Given: a seat that worker w1 serves."""
    booked(court)
    assert court.lease("s1").verdict == "ACCEPTED"


def orphaned(court: Court) -> None:
    """Given: a seat whose owner was retired."""
    booked(court)
    assert court.retire().verdict == "ACCEPTED"


def ops_retired(court: Court) -> None:
    """Given: a seat, and team:ops is gone."""
    booked(court)
    court.retire("team:ops")


def _keep(court: Court) -> Decision:
    return court.satisfied("s1", fencing_token=court.token("s1"))


TRANSFER = [
    Row("of none", "UNKNOWN_COMMITMENT", lambda x: x.transfer("c9"), lambda x: x.transfer("s1"), given=booked),
    Row("to a worker", "NOT_DURABLE", lambda x: x.transfer("s1", "worker:17"), lambda x: x.transfer("s1"),
        given=booked),
    Row("to a name without a kind", "NOT_DURABLE", lambda x: x.transfer("s1", "ops"), lambda x: x.transfer("s1"),
        given=booked),
    Row("to a kind that is not declared", "NOT_DURABLE", lambda x: x.transfer("s1", "robot:3"),
        lambda x: x.transfer("s1", "person:ann"), given=booked),
    Row("to who is gone", "OWNER_RETIRED", lambda x: x.transfer("s1"), lambda x: x.transfer("s1", "person:ann"),
        given=ops_retired),
    Row("out of our books, of what may not leave them", "NOT_TRANSFERABLE", lambda x: x.transfer("s1", "desk:9"),
        lambda x: x.transfer("s1"), given=booked),
    Row("until a time that is past", "MALFORMED", lambda x: x.transfer("s1", acknowledge_by=x.now),
        lambda x: x.transfer("s1", acknowledge_by=x.now + 1), given=booked),
    Row("to an intent under another name", "MALFORMED", lambda x: x.transfer("s1", target_intent_id="acme/errand/2"),
        lambda x: x.transfer("s1", "intent:acme/errand/2", target_intent_id="acme/errand/2"), given=booked),
    Row("to its owner", "ALREADY_SO", lambda x: x.transfer("s1", f"intent:{INTENT}"), None, given=booked,
        verdict="REPLAYED"),
    Row("again", "ALREADY_SO", lambda x: x.transfer("s1"), None, given=offered, verdict="REPLAYED"),
    Row("to another while one is asked", "IN_TRANSFER", lambda x: x.transfer("s1", "person:ann"),
        lambda x: x.transfer("s1", f"intent:{INTENT}"), given=offered),
    Row("by who gave it away", "STALE_FENCE", lambda x: x.transfer("s1", "person:ann"),
        lambda x: x.transfer("s1", "person:ann", fencing_token=1), given=handed_over),
    Row("by who may not speak for its owner", "NOT_OWNER", lambda x: x.transfer("s1", principal="olga"),
        lambda x: x.transfer("s1"), given=booked_by_principals, catalogue=with_speakers),
    Row("asked", "OK", lambda x: x.transfer("s1"), None, given=booked, verdict="ACCEPTED",
        facts=("TransferOffered", "CommitmentChanged")),
    Row("taken back", "OK", lambda x: x.transfer("s1", f"intent:{INTENT}"), None, given=offered, verdict="ACCEPTED",
        facts=("CommitmentChanged",)),
]  # fmt: skip

ACCEPT = [
    Row("of none", "UNKNOWN_COMMITMENT", lambda x: x.accept("c9"), lambda x: x.accept("s1"), given=offered),
    Row("of what nobody was asked", "ILLEGAL_TRANSITION", lambda x: x.accept("s1"),
        then(lambda x: x.transfer("s1"), lambda x: x.accept("s1")), given=booked),
    Row("by somebody else", "NOT_OWNER", lambda x: x.accept("s1", "person:ann"), lambda x: x.accept("s1"),
        given=offered),
    Row("by who may not speak for the target", "NOT_OWNER", lambda x: x.accept("s1", principal="pia"),
        lambda x: x.accept("s1", principal="olga"), catalogue=with_speakers,
        given=then(booked_by_principals, lambda x: x.transfer("s1"))),
    Row("with the token of an offer that went back", "STALE_FENCE", lambda x: x.accept("s1", fencing_token=1),
        lambda x: x.accept("s1", fencing_token=2),
        given=then(offered, lambda x: x.transfer("s1", f"intent:{INTENT}"), lambda x: x.transfer("s1"))),
    Row("with no token", "STALE_FENCE", lambda x: x.accept("s1", fencing_token=0), lambda x: x.accept("s1"),
        given=offered),
    Row("by who was retired meanwhile", "OWNER_RETIRED", lambda x: x.accept("s1"), None,
        given=then(offered, lambda x: x.retire("team:ops"))),
    Row("without the evidence that its type asks for", "NO_EVIDENCE",
        lambda x: x.accept("s1", "desk:9", evidence=["a nod"]),
        lambda x: x.accept("s1", "desk:9", evidence=["receipt:77"]), given=offered_to_desk),
    Row("again", "ALREADY_SO", lambda x: x.accept("s1"), None, given=handed_over, verdict="REPLAYED"),
    Row("of what stays on our books", "OK", lambda x: x.accept("s1"), None, given=offered, verdict="ACCEPTED",
        facts=("OwnerChanged", "CommitmentChanged")),
    Row("of what was served by a worker", "OK", lambda x: x.accept("s1"), None, verdict="ACCEPTED",
        given=then(leased, lambda x: x.transfer("s1")), facts=("OwnerChanged", "LeaseChanged", "CommitmentChanged")),
    Row("of what leaves our books", "OK", lambda x: x.accept("s1", "desk:9", evidence=["receipt:77"]), None,
        given=offered_to_desk, verdict="ACCEPTED", facts=("OwnerChanged", "CommitmentChanged")),
]  # fmt: skip

AUTHORITY = [
    Row("a release while one is asked", "IN_TRANSFER", lambda x: x.release("s1"),
        then(lambda x: x.transfer("s1", f"intent:{INTENT}"), lambda x: x.release("s1")), given=offered),
    Row("satisfied while one is asked", "ILLEGAL_TRANSITION", lambda x: x.satisfied("s1"),
        then(lambda x: x.accept("s1"), _keep), given=offered),
    Row("a lease while one is asked", "IN_TRANSFER", lambda x: x.lease("s1"),
        then(lambda x: x.accept("s1"), lambda x: x.lease("s1")), given=offered),
    Row("a release by who gave it away", "STALE_FENCE", lambda x: x.release("s1"),
        lambda x: x.release("s1", fencing_token=1), given=handed_over),
    Row("satisfied by who gave it away", "STALE_FENCE", lambda x: x.satisfied("s1"), _keep, given=handed_over),
    Row("reconciling by who gave it away", "STALE_FENCE", lambda x: x.reconcile("COMMITMENT", x.commitment_id("s1")),
        lambda x: x.reconcile("COMMITMENT", x.commitment_id("s1"), topic="overrides"), given=handed_over),
    Row("a release by who speaks for another owner", "NOT_OWNER", lambda x: x.release("s1", principal="olga"),
        lambda x: x.release("s1"), given=booked_by_principals, catalogue=with_speakers),
]  # fmt: skip

ASSIGN = [
    Row("of none", "UNKNOWN_COMMITMENT", lambda x: x.assign("c9"), lambda x: x.assign("s1"), given=orphaned),
    Row("under no policy", "UNKNOWN_POLICY", lambda x: x.assign("s1", policy="because"), lambda x: x.assign("s1"),
        given=orphaned),
    Row("of what has an owner", "POLICY_FORBIDS", lambda x: x.assign("s1"),
        lambda x: x.assign("s1", policy="takeover"), given=booked),
    Row("to a kind that the policy leaves out", "POLICY_FORBIDS", lambda x: x.assign("s1", "service:cleaner"),
        lambda x: x.assign("s1", "person:ann"), given=orphaned),
    Row("of a type that the policy leaves out", "POLICY_FORBIDS", lambda x: x.assign("s1", policy="seats-only"),
        lambda x: x.assign("s1"), given=then(incident, lambda x: x.retire())),
    Row("out of our books", "POLICY_FORBIDS", lambda x: x.assign("s1", "desk:9", policy="takeover"),
        lambda x: x.assign("s1", policy="takeover"), given=incident),
    Row("to a worker", "NOT_DURABLE", lambda x: x.assign("s1", "worker:17"), lambda x: x.assign("s1"), given=orphaned),
    Row("to who is gone too", "OWNER_RETIRED", lambda x: x.assign("s1"), lambda x: x.assign("s1", "person:ann"),
        given=then(orphaned, lambda x: x.retire("team:ops"))),
    Row("of what is over", "ILLEGAL_TRANSITION", lambda x: x.assign("s1"), None,
        given=then(booked, lambda x: x.satisfied("s1"))),
    Row("to another than who is asked", "IN_TRANSFER", lambda x: x.assign("s1", "person:ann", policy="on-call"),
        lambda x: x.assign("s1"), given=offered),
    Row("again", "ALREADY_SO", lambda x: x.assign("s1"), None, given=then(orphaned, lambda x: x.assign("s1")),
        verdict="REPLAYED"),
    Row("of an orphan", "OK", lambda x: x.assign("s1"), None, given=orphaned, verdict="ACCEPTED",
        facts=("OwnerChanged", "OrphanCleared")),
]  # fmt: skip

RETIRE = [
    Row("nobody", "MALFORMED", lambda x: x.retire(""), lambda x: x.retire("team:ops"), given=booked),
    Row("again", "ALREADY_SO", lambda x: x.retire(), None, given=orphaned, verdict="REPLAYED"),
    Row("who owns something", "OK", lambda x: x.retire(), None, given=booked, verdict="ACCEPTED",
        facts=("OwnerRetired", "OrphanRaised")),
    Row("who owns nothing", "OK", lambda x: x.retire("team:ops"), None, given=booked, verdict="ACCEPTED",
        facts=("OwnerRetired",)),
    Row("a step that would make an obligation of who is gone", "OWNER_RETIRED", lambda x: x.dispatch("s2"),
        lambda x: x.dispatch("s3"),
        given=then(opened(step("s2", "book"), step("s3", "write_file")), lambda x: x.retire())),
]  # fmt: skip

LEASE = [
    Row("of none", "UNKNOWN_COMMITMENT", lambda x: x.lease("c9"), lambda x: x.lease("s1"), given=booked),
    Row("by a worker without a name", "MALFORMED", lambda x: x.lease("s1", ""), lambda x: x.lease("s1"), given=booked),
    Row("with a number below 0", "MALFORMED", lambda x: x.lease("s1", number=-1), lambda x: x.lease("s1"),
        given=booked),
    Row("by another executor's worker", "WRONG_EXECUTOR", lambda x: x.lease("s1", executor="bank"),
        lambda x: x.lease("s1"), given=booked),
    Row("of a type without leases", "ILLEGAL_TRANSITION", lambda x: x.lease("s1"), None,
        given=then(opened(step("s1", "reserve_window")), lambda x: x.perform("s1"), lambda x: x.dispatch("s1"))),
    Row("of what is over", "ILLEGAL_TRANSITION", lambda x: x.lease("s1"), None,
        given=then(booked, lambda x: x.satisfied("s1"))),
    Row("while another holds it", "ALREADY_CLAIMED", lambda x: x.lease("s1", "w2"), lambda x: x.lease("s1", number=1),
        given=leased),
    Row("renewed after it ran out", "STALE_FENCE", lambda x: x.lease("s1", number=1), lambda x: x.lease("s1"),
        given=then(leased, lambda x: x.advance(60_000), lambda x: x.dispatch("s1"))),
    Row("renewed after another got it", "STALE_FENCE", lambda x: x.lease("s1", number=1),
        lambda x: x.lease("s1", "w2", number=2),
        given=then(leased, lambda x: x.advance(60_000), lambda x: x.lease("s1", "w2"))),
    Row("a permit for its release to another worker", "ALREADY_CLAIMED",
        lambda x: x.prepared(x.release_of("s1"), worker="w2"), lambda x: x.prepared(x.release_of("s1"), worker="w1"),
        given=then(leased, lambda x: x.release("s1"))),
    Row("granted", "OK", lambda x: x.lease("s1"), None, given=booked, verdict="ACCEPTED", facts=("LeaseChanged",)),
]  # fmt: skip

PROMISE = [
    Row("to nobody", "MALFORMED", lambda x: x.promise(counterparty=""), lambda x: x.promise(), given=opened()),
    Row("of nothing", "MALFORMED", lambda x: x.promise(""), lambda x: x.promise(), given=opened()),
    Row("for a time that is past", "MALFORMED", lambda x: x.promise(due_at=x.now),
        lambda x: x.promise(due_at=x.now + 1), given=opened()),
    Row("of a type that there is not", "UNKNOWN_OBLIGATION", lambda x: x.promise(obligation_type="moon"),
        lambda x: x.promise(), given=opened()),
    Row("of a type that no message makes", "NOT_A_PROMISE", lambda x: x.promise(obligation_type="window"),
        lambda x: x.promise(), given=opened()),
    Row("of an intent that there is not", "UNKNOWN_INTENT", lambda x: x.promise(), None),
    Row("for a version that is gone", "STALE_INTENT", lambda x: x.promise(intent_version=1), lambda x: x.promise(),
        given=then(opened(), lambda x: x.declare(2))),
    Row("under a closed intent", "INTENT_CLOSED", lambda x: x.promise(), None, given=closed),
    Row("under a cancelled intent", "INTENT_CANCELLED", lambda x: x.promise(), None,
        given=then(opened(), lambda x: x.cancel())),
    Row("for a goal that the intent has not", "MALFORMED", lambda x: x.promise(goal_id="g9"), lambda x: x.promise(),
        given=opened()),
    Row("owned by a worker", "NOT_DURABLE", lambda x: x.promise(owner_id="worker:17"),
        lambda x: x.promise(owner_id="team:ops"), given=opened()),
    Row("owned outside our books", "NOT_OWNER", lambda x: x.promise(owner_id="desk:9"), lambda x: x.promise(),
        given=opened()),
    Row("in another's name", "NOT_OWNER", lambda x: x.promise(owner_id="team:ops"), lambda x: x.promise(),
        given=opened(), catalogue=with_speakers),
    Row("by who is gone", "OWNER_RETIRED", lambda x: x.promise(), lambda x: x.promise(owner_id="team:ops"),
        given=then(opened(), lambda x: x.retire())),
    Row("other words about the same", "KEY_PAYLOAD_MISMATCH", lambda x: x.promise("done by one"),
        lambda x: x.promise("done by one", business_key="order-2"), given=then(opened(), lambda x: x.promise())),
    Row("again", "ALREADY_SO", lambda x: x.promise(), None, given=then(opened(), lambda x: x.promise()),
        verdict="REPLAYED"),
    Row("a message", "OK", lambda x: x.promise(), None, given=opened(), verdict="ACCEPTED",
        facts=("CommitmentProposed", "CommitmentChanged")),
    Row("a message that has to be seen", "OK", lambda x: x.promise(obligation_type="review"), None, given=opened(),
        verdict="ACCEPTED", facts=("CommitmentProposed",)),
]  # fmt: skip

TIMERS = [
    Row("an owner's timer that nothing waits for", "ALREADY_RESOLVED",
        lambda x: x.say(c.TimerFired(claim_id="t1", intent_id="", timer="RETIREMENT", subject_kind="OWNER",
                                     subject_id=f"intent:{INTENT}", due_at=1)), None, given=orphaned),
    Row("a lease's timer that nothing waits for", "ALREADY_RESOLVED",
        lambda x: x.say(c.TimerFired(claim_id="t1", intent_id=INTENT, timer="LEASE", subject_kind="LEASE",
                                     subject_id=x.commitment_id("s1"), due_at=1)), None, given=leased),
]  # fmt: skip

FREED = [
    Row("of what is ours still", "ILLEGAL_TRANSITION",
        lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "FREED"),
        lambda x: x.release("s1"), given=booked),
    Row("of what holds nothing that others want", "NOT_HELD",
        lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "FREED"), None,
        given=then(offered_to_desk, lambda x: x.accept("s1", "desk:9", evidence=["receipt:77"]))),
    Row("without evidence", "NO_EVIDENCE",
        lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "FREED", evidence=[]), None,
        given=then(offered_to_desk, lambda x: x.accept("s1", "desk:9", evidence=["receipt:77"]))),
]  # fmt: skip

ROWS = {
    "Transfer": TRANSFER, "AcceptTransfer": ACCEPT, "authority": AUTHORITY, "AssignOwner": ASSIGN,
    "RetireOwner": RETIRE, "lease": LEASE, "Promise": PROMISE, "owners' timers": TIMERS, "freed": FREED,
}  # fmt: skip
