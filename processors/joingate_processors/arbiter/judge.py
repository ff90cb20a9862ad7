"""The arbiter's bench: first in its ledger wins, and whoever is refused is told who has it.

Pure, like the gate's law: `judge` reads the state and gives every message one decision, `fold` writes it. Nobody
queues: a Reserve is granted or denied at once, so no operation ever waits for another one here. A message whose `n` is
not above the last one of the same operation on the same resource changes nothing, however often it comes.
"""

from typing import NamedTuple, assert_never

from joingate_processors.arbiter.state import ArbiterHeader, ArbiterState
from joingate_schemas.arbitration import (
    AnyResourceMessage,
    ArbiterDecision,
    ArbiterVerdict,
    Extend,
    Free,
    Hold,
    Quarantine,
    Reserve,
)

REMINDER_MS_MAX = 86_400_000
"""How long the arbiter pauses at most before it asks again about a lease that is over, where the lease is no longer."""


class Heard(NamedTuple):
    """One message as it reached the arbiter: decoded, with its bytes, its offset and its append time (ms).

    `message` None: it is none that can be decided here, for the reason `problem` and the sentence `detail`.
    """

    message: AnyResourceMessage | None
    raw: bytes
    offset: int
    appended_at: int
    problem: str = ""
    detail: str = ""


class Finding(NamedTuple):
    """What the law says of one message: `hold` is what the operation has of the resource from here on."""

    verdict: ArbiterVerdict
    reason: str
    hold: Hold | None
    detail: str = ""
    holder: Hold | None = None


def judge(state: ArbiterState, heard: Heard, epoch: int) -> ArbiterDecision:
    """The decision on a message, in its place in the ledger. Reads only; total for whatever was appended."""
    message = heard.message
    now = max(state.header.decided_at, heard.appended_at)
    if message is None:
        found = Finding("REJECTED", heard.problem, None, heard.detail)
        return _placed(state, epoch, now, heard.offset, heard.appended_at, "", None, heard.raw, found)
    found = _found(state, message, now)
    return _placed(
        state, epoch, now, heard.offset, heard.appended_at, type(message).__name__, message, heard.raw, found
    )


def lease_passed(state: ArbiterState, hold: Hold, now: int, epoch: int) -> ArbiterDecision:
    """The decision, at `now` (ms), that the lease of `hold` is over: it stays, and the gate is asked about it.

    What an operation may yet do is known to its gate alone, so no lease takes anything away by itself. It is asked
    again less and less often, for what stays in doubt for weeks must not fill the ledgers.
    """
    at = max(state.header.decided_at, now)
    pause_ms = max(hold["lease_ms"] or 1, min(at - hold["since"], REMINDER_MS_MAX))
    pending: Hold = {**hold, "status": "RECLAIM_PENDING", "deadline_at": at + pause_ms}
    key = (hold["resource_ref"], hold["operation_id"])
    message = Extend(
        resource_ref=key[0], operation_id=key[1], generation=hold["generation"], n=state.marks.get(key, 0),
        intent_id=hold["intent_id"], partition=-1, epoch=0,
    )  # fmt: skip
    found = Finding("DONE", "OK", pending, "its lease is over; its gate is asked whether it is needed still")
    return _placed(state, epoch, at, -1, at, "LeasePassed", message, b"", found)


def fold(state: ArbiterState, decision: ArbiterDecision, digest: bytes) -> None:
    """Write what the decision says; `digest` is the SHA-256 of its encoded record. Never refuses."""
    header = state.header
    state.header = ArbiterHeader(
        seq=decision.seq, epoch=decision.epoch, previous=digest, decided_at=decision.decided_at,
        next_offset=header.next_offset if decision.offset < 0 else decision.offset + 1,
    )  # fmt: skip
    state.forget_marks(decision.decided_at)
    if decision.gate_partition >= 0 and decision.reason != "STALE_MESSAGE":
        known = state.gates.get(decision.gate_partition, 0)
        state.gates[decision.gate_partition] = max(known, decision.gate_epoch)
    if not decision.message_type or decision.verdict == "REPLAYED" or decision.reason == "STALE_MESSAGE":
        return
    key = (decision.resource_ref, decision.operation_id)
    state.marks[key] = max(decision.n, state.marks.get(key, 0))
    if decision.hold is not None:
        state.put(decision.hold)
    else:
        state.end(*key, decision.decided_at)


def _placed(
    state: ArbiterState, epoch: int, now: int, offset: int, appended_at: int, message_type: str,
    message: AnyResourceMessage | None, raw: bytes, found: Finding,
) -> ArbiterDecision:  # fmt: skip
    holder = found.holder
    return ArbiterDecision(
        seq=state.header.seq + 1, epoch=epoch, decided_at=now, offset=offset, appended_at=appended_at,
        message_type=message_type,
        resource_ref=message.resource_ref if message else "", operation_id=message.operation_id if message else "",
        generation=message.generation if message else 0, n=message.n if message else 0,
        intent_id=message.intent_id if message else "", gate_partition=message.partition if message else -1,
        gate_epoch=message.epoch if message else 0, message=raw, verdict=found.verdict, reason=found.reason,
        detail=found.detail, holder=holder["operation_id"] if holder else "",
        holder_intent_id=holder["intent_id"] if holder else "", holder_status=standing(holder) if holder else "",
        hold=found.hold, previous=state.header.previous,
    )  # fmt: skip


def standing(hold: Hold) -> str:
    """How a hold is told to others: its status, or that it keeps everybody else away."""
    return "QUARANTINED" if hold["quarantined"] else hold["status"]


def _found(state: ArbiterState, message: AnyResourceMessage, now: int) -> Finding:
    own = state.hold(message.resource_ref, message.operation_id)
    if message.epoch < state.gates.get(message.partition, 0):
        return Finding("REJECTED", "STALE_MESSAGE", own, "a gate that had been replaced wrote it")
    last = state.marks.get((message.resource_ref, message.operation_id), 0)
    if message.n <= last:
        said = "it was heard before" if message.n == last else f"the operation has said something newer, {last}"
        return Finding("REPLAYED", "STALE_MESSAGE" if message.n < last else "ALREADY_SO", own, said)
    match message:
        case Reserve():
            return _reserve(state, message, own, now)
        case Extend():
            return _extend(own, now)
        case Free():
            return _free(message, own, now)
        case Quarantine():
            return _quarantine(message, own, now)
        case _:
            assert_never(message)


def _reserve(state: ArbiterState, message: Reserve, own: Hold | None, now: int) -> Finding:
    if own is not None and own["quantity"]:
        return Finding("GRANTED", "ALREADY_SO", own, "the operation has it already")
    if message.mode == "UNKNOWN":
        return Finding("DENIED", "NOT_SUPPORTED", own, "this release does not know the resource's mode")
    if message.quantity < 1 or not message.resource_ref or not message.operation_id:
        return Finding("DENIED", "MALFORMED", own, "it names no resource, operation or quantity above 0")
    others = [hold for hold in state.holders(message.resource_ref) if hold["operation_id"] != message.operation_id]
    denied = _quarantined(others) or _taken(message, others) or _over(message, others)
    if denied is not None:
        reason, detail, holder = denied
        return Finding("DENIED", reason, own, detail, holder)
    granted: Hold = {
        "resource_ref": message.resource_ref, "operation_id": message.operation_id,
        "generation": message.generation, "intent_id": message.intent_id, "mode": message.mode,
        "quantity": message.quantity, "capacity": message.capacity, "keeps": message.keeps,
        "lease_ms": message.lease_ms, "status": "HELD",
        "quarantined": own is not None and own["quarantined"], "since": now, "deadline_at": _until(message, now),
    }  # fmt: skip
    return Finding("GRANTED", "OK", granted)


def _until(message: Reserve, now: int) -> int | None:
    return None if message.lease_ms is None else now + max(message.lease_ms, 1)


Denial = tuple[str, str, Hold | None]


def _named(hold: Hold) -> str:
    return f"operation {hold['operation_id']} of intent {hold['intent_id']}"


def _quarantined(others: list[Hold]) -> Denial | None:
    for hold in others:
        if hold["quarantined"]:
            return (
                "RESOURCE_QUARANTINED",
                (f"{_named(hold)} may have acted on {hold['resource_ref']}, and nobody can be asked yet"),
                hold,
            )
    return None


def _taken(message: Reserve, others: list[Hold]) -> Denial | None:
    """Whoever has it to itself, or what can't be shared since the one that asks wants it to itself."""
    alone = message.mode != "CAPACITY"
    for hold in others:
        if not alone and hold["mode"] == "CAPACITY":
            continue
        if hold["status"] == "SPENT":
            return "RESOURCE_SPENT", f"{_named(hold)} has acted on {hold['resource_ref']}, once and for all", hold
        over = ", past its lease, and may yet act" if hold["status"] == "RECLAIM_PENDING" else ""
        return "RESOURCE_DENIED", f"{hold['resource_ref']} is held by {_named(hold)}{over}", hold
    return None


def _over(message: Reserve, others: list[Hold]) -> Denial | None:
    if message.mode != "CAPACITY" or message.capacity is None:
        return None
    taken = sum(hold["quantity"] for hold in others)
    if taken + message.quantity <= message.capacity:
        return None
    holder = others[0] if others else None
    named = "" if holder is None else f", first of them by {_named(holder)}"
    detail = f"{taken} of {message.capacity} of {message.resource_ref} are held{named}; it asks for {message.quantity}"
    return "OVER_CAPACITY", detail, holder


def _extend(own: Hold | None, now: int) -> Finding:
    if own is None or own["status"] == "SPENT":
        return Finding("REJECTED", "NOT_HELD", own, "the operation holds nothing whose lease could begin anew")
    lease = own["lease_ms"]
    renewed: Hold = {
        **own, "status": "HELD", "quarantined": False, "deadline_at": None if lease is None else now + max(lease, 1),
    }  # fmt: skip
    return Finding("DONE", "OK", renewed if own["quantity"] else None)


def _free(message: Free, own: Hold | None, now: int) -> Finding:
    if message.outcome == "UNKNOWN":
        return Finding("REJECTED", "NOT_SUPPORTED", own, "this release does not know how it ended, so it stays held")
    if message.outcome == "UNUSED":
        return Finding("DONE", "OK" if own is not None else "NOT_HELD", None)
    terms = own if own is not None and own["quantity"] else _unreserved(message, now)
    if terms["mode"] != "ONCE_EVER" and not terms["keeps"]:
        return Finding("DONE", "OK" if own is not None else "NOT_HELD", None)
    # What was done counts, whether or not it was held then: a late success is no less real (law 3).
    spent: Hold = {**terms, "status": "SPENT", "quarantined": False, "deadline_at": None}
    return Finding("DONE", "OK", spent, "" if own is not None else "it acted on what it did not hold any more")


def _unreserved(message: Free, now: int) -> Hold:
    return {
        "resource_ref": message.resource_ref, "operation_id": message.operation_id,
        "generation": message.generation, "intent_id": message.intent_id, "mode": message.mode,
        "quantity": message.quantity, "capacity": None, "keeps": message.keeps, "lease_ms": None, "status": "HELD",
        "quarantined": False, "since": now, "deadline_at": None,
    }  # fmt: skip


def _quarantine(message: Quarantine, own: Hold | None, now: int) -> Finding:
    if own is not None:
        return Finding("DONE", "OK", {**own, "quarantined": True}, message.cause)
    # It gave the resource back and may have acted all the same: nobody else may begin on it, though it holds nothing.
    bare: Hold = {
        "resource_ref": message.resource_ref, "operation_id": message.operation_id,
        "generation": message.generation, "intent_id": message.intent_id, "mode": "CAPACITY", "quantity": 0,
        "capacity": None, "keeps": False, "lease_ms": None, "status": "HELD", "quarantined": True, "since": now,
        "deadline_at": None,
    }  # fmt: skip
    return Finding("DONE", "OK", bare, message.cause)
