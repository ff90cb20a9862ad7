"""The gate's rows about resources: what asks for them, and what the arbiter's word does. Played by hand."""

from collections.abc import Callable
from dataclasses import replace

from joingate_schemas import claims as c
from joingate_schemas.decisions import Decision

from .catalogues import arbitrated
from .driver import INTENT, Court, step
from .scenes import Row, opened, then

BENCH, GPU, WINDOW = "bench:b1", "gpu:a100", "window:w1"
TRAIN = step("s1", "train", arguments={"pool": "a100", "bench": "b1", "count": 3})
SWEEP = step("s1", "sweep", arguments={"bench": "b1"})
Play = Callable[[Court], Decision]


def grant(reference: str, step_id: str = "s1", claim_id: str = "") -> Play:
    """The arbiter gives the resource to the step's operation."""
    return lambda x: x.say(
        c.ResourceGranted(claim_id=claim_id or x.claim_id(), intent_id=INTENT, operation_id=x.op_id(step_id),
                          resource_ref=reference), "resource-verdicts"
    )  # fmt: skip


def deny(reference: str, step_id: str = "s1") -> Play:
    """The arbiter refuses it: another operation has it."""
    return lambda x: x.say(
        c.ResourceDenied(claim_id=x.claim_id(), intent_id=INTENT, operation_id=x.op_id(step_id),
                         resource_ref=reference, holder="op-9", holder_intent_id="acme/other",
                         holder_status="HELD", detail=f"{reference} is held by operation op-9 of intent acme/other"),
        "resource-verdicts",
    )  # fmt: skip


def expire(reference: str, step_id: str = "s1") -> Play:
    """The arbiter says that a lease is over."""
    return lambda x: x.say(
        c.ResourceExpired(claim_id=x.claim_id(), intent_id=INTENT, operation_id=x.op_id(step_id),
                          resource_ref=reference), "resource-verdicts"
    )  # fmt: skip


def asked(one: c.PlanStep) -> Callable[[Court], object]:
    """Given: the step was dispatched."""
    return then(opened(one), lambda x: x.dispatch("s1"))


def working(x: Court) -> None:
    """Given: the step has its resource, and may act."""
    asked(SWEEP)(x)
    grant(BENCH)(x)


def reserved(x: Court) -> None:
    """Given: the step made a commitment that is in force, on a window that it has."""
    asked(step("s1", "reserve_window", "w1"))(x)
    grant(WINDOW)(x)
    x.active("s1")


ASKED = ("OperationOpened", "ResourceChanged", "ResourceChanged", "ResourceChanged")
DISPATCH = [
    Row("what needs two resources asks for the first", "OK", lambda x: x.dispatch("s1"), None, given=opened(TRAIN),
        verdict="ACCEPTED", facts=ASKED),
    Row("an approval comes before the asking", "OK", lambda x: x.dispatch("s1"), None, verdict="ACCEPTED",
        given=opened(step("s1", "train_approved", arguments={"bench": "b1"})),
        facts=("OperationOpened", "ResourceChanged")),
    Row("a quantity that is no whole number", "MALFORMED", lambda x: x.dispatch("s1"), None,
        given=opened(step("s1", "train", arguments={"pool": "a100", "bench": "b1", "count": 2.5}))),
    Row("a quantity of nothing", "MALFORMED", lambda x: x.dispatch("s1"), None,
        given=opened(step("s1", "train", arguments={"pool": "a100", "bench": "b1", "count": 0}))),
    Row("a resource that no argument names", "MALFORMED", lambda x: x.dispatch("s1"),
        lambda x: x.dispatch("s1", arguments={"bench": "b1"}), given=opened(step("s1", "sweep"))),
    Row("a quota of nobody", "MALFORMED", lambda x: x.dispatch("s1", principal=""), lambda x: x.dispatch("s1"),
        given=then(lambda x: x.declare(tenant="acme"), lambda x: x.plan(step("s1", "consult")))),
    Row("an approval given, and the asking begins", "OK", lambda x: x.approve("s1"), None, verdict="ACCEPTED",
        given=asked(step("s1", "train_approved", arguments={"bench": "b1"})),
        facts=("ApprovalRecorded", "OperationReady", "ResourceChanged")),
    Row("a worker that comes before the grant", "NOT_READY", lambda x: x.prepared("s1"),
        then(grant(BENCH), lambda x: x.prepared("s1")),
        given=then(asked(step("s1", "train_held", arguments={"bench": "b1"})), lambda x: x.advance(60_000),
                   lambda x: x.dispatch("s1"))),
]  # fmt: skip

GRANTED = [
    Row("the first of two", "OK", grant(BENCH), None, given=asked(TRAIN), verdict="ACCEPTED",
        facts=("ResourceChanged", "ResourceChanged", "OperationReady")),
    Row("the last", "OK", grant(GPU), None, given=then(asked(TRAIN), grant(BENCH)), verdict="ACCEPTED",
        facts=("ResourceChanged", "OperationReady")),
    Row("again, under another id", "ALREADY_SO", grant(BENCH), None, given=working, verdict="REPLAYED"),
    Row("the same again", "CLAIM_REPEATED", grant(BENCH, claim_id="g1"), None, verdict="REPLAYED",
        given=then(asked(SWEEP), grant(BENCH, claim_id="g1"))),
    Row("to nothing that is known", "UNKNOWN_OPERATION", grant(BENCH, "elsewhere"), grant(BENCH), given=asked(SWEEP),
        facts=("ResourceChanged",)),
    Row("of what was never asked for", "UNKNOWN_OPERATION", grant("bench:b9"), grant(BENCH), given=asked(SWEEP),
        facts=("ResourceChanged",)),
    Row("to what has ended", "OPERATION_ENDED", grant(BENCH), None, given=then(asked(SWEEP), lambda x: x.abort("s1")),
        facts=("ResourceChanged",)),
    Row("to what acted unpermitted and is in doubt", "OK", grant(BENCH), None, verdict="ACCEPTED",
        given=then(asked(SWEEP), lambda x: x.commit("s1")), facts=("ResourceChanged",)),
    Row("when the approval has expired", "APPROVAL_STALE", grant(BENCH), None,
        given=then(asked(step("s1", "train_approved", arguments={"bench": "b1"})),
                   lambda x: x.approve("s1", expires_at=x.now + 5), lambda x: setattr(x, "now", x.now + 5),
                   lambda x: x.dispatch("s1")),
        facts=("ResourceChanged", "OperationWithdrawn")),
    Row("from somebody else", "WRONG_ROLE",
        lambda x: x.say(c.ResourceGranted(claim_id="g1", intent_id=INTENT, operation_id=x.op_id("s1"),
                                          resource_ref=BENCH), "proposals"), grant(BENCH), given=asked(SWEEP)),
]  # fmt: skip

DENIED = [
    Row("the first of two", "OK", deny(BENCH), None, given=asked(TRAIN), verdict="ACCEPTED",
        facts=("ResourceChanged", "OperationWithdrawn")),
    Row("the last", "OK", deny(GPU), None, given=then(asked(TRAIN), grant(BENCH)), verdict="ACCEPTED",
        facts=("ResourceChanged", "OperationWithdrawn")),
    Row("to nothing that is known", "UNKNOWN_OPERATION", deny(BENCH, "elsewhere"), deny(BENCH), given=asked(SWEEP)),
    Row("of what it has", "ALREADY_RESOLVED", deny(BENCH), None, given=working, verdict="REPLAYED"),
    Row("to what acted unpermitted and is in doubt", "OK", deny(BENCH), None, verdict="ACCEPTED",
        given=then(asked(SWEEP), lambda x: x.commit("s1")), facts=("ResourceChanged",)),
]  # fmt: skip

EXPIRED = [
    Row("while it may act", "OK", expire(BENCH), None, given=working, verdict="ACCEPTED", facts=("ResourceChanged",)),
    Row("while it is in doubt", "OK", expire(BENCH), None, given=then(working, lambda x: x.in_doubt("s1")),
        verdict="ACCEPTED", facts=("ResourceChanged",)),
    Row("after it ended", "OK", expire(BENCH), None, given=then(working, lambda x: x.commit("s1")),
        verdict="ACCEPTED", facts=("ResourceChanged",)),
    Row("of a commitment in force", "OK", expire(WINDOW), None, given=reserved, verdict="ACCEPTED",
        facts=("ResourceChanged",)),
    Row("of what is not known", "UNKNOWN_OPERATION", expire(BENCH, "elsewhere"), None, given=working,
        facts=("ResourceChanged",)),
]  # fmt: skip

_ALL = {"Dispatch of the scarce": DISPATCH, "ResourceGranted": GRANTED, "ResourceDenied": DENIED,
        "ResourceExpired": EXPIRED}  # fmt: skip
ROWS = {claim: [replace(row, catalogue=arbitrated) for row in rows] for claim, rows in _ALL.items()}
