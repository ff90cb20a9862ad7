"""What a model is told: a state, ids, what to say to the person, what to do next and when; never a trace, never a key.

Every answer of the gateway is one of these, whatever went wrong: a refusal and a doubt are answers, not exceptions, for
a model that is given an exception mostly asks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from joingate_producers import Verdict
from joingate_schemas.catalogue import Action
from joingate_schemas.reasons import REASONS, Retry

Row: TypeAlias = dict[str, Any]
State = Literal[
    "PENDING", "DONE", "NOT_DONE", "IN_DOUBT", "UNDONE", "WITHDRAWN", "REFUSED", "KNOWN", "NOT_TAKEN", "SLOW_DOWN"
]
STATES: Mapping[State, str] = {
    "PENDING": "asked for and under way; not done yet",
    "DONE": "the system of record has it; `result` is what came back",
    "NOT_DONE": "proven not to have happened; it may be asked for again",
    "IN_DOUBT": "it may or may not have happened, and is being looked into",
    "UNDONE": "it happened and was undone",
    "WITHDRAWN": "taken back before it began; nothing happened",
    "REFUSED": "the gate said no; `reason` says why and what to do",
    "KNOWN": "what was asked about is told; nothing was asked for",
    "NOT_TAKEN": "the gateway could not pass it on; nothing was asked for by this call",
    "SLOW_DOWN": "too much at once; nothing was asked for by this call",
}
"""What each state means, for tool descriptions and the documentation."""
assert set(STATES) == set(get_args(State))

_WITHOUT_EFFECT: frozenset[str] = frozenset({"FAILED", "WITHDRAWN", "COMPENSATED"})
LOOK_S = {"ACTING": 2, "STAGED": 5, "APPROVAL": 60, "DOUBT": 15, "PERSON": 300, "LATER": 30, "UNREACHABLE": 5}
"""How long to wait before looking again, in seconds, by what is waited for."""
_HOLD_S_MAX = 300
# The ledger's advice where it speaks of claims, which a model does not make, in the gateway's own terms.
_ADVICE = {
    "MALFORMED": "Mend what is named.",
    "KEY_PAYLOAD_MISMATCH": "Go by the status of the first; look again with its ids. Nothing was changed.",
    "UNKNOWN_INTENT": "State the wish first with state_wish, or ask for the action by its own tool.",
    "STALE_INTENT": "Call context for what is wanted now.",
    "VERSION_CONFLICT": "Call context for what is wanted now.",
    "INTENT_CLOSED": "It is finished. An honest repetition is for the program around you to say.",
    "INTENT_CANCELLED": "Only if the person wants it after all: call want_again with its intent_id, then ask again.",
    "PLAN_CONFLICT": "Call context for the plan in force, and propose again.",
    "NOT_PLANNED": "Propose it with propose_plan first.",
    "PLAN_SUPERSEDED": "Call context for the plan in force.",
    "PLAN_CLOSED": "Only if the person wants it after all: call want_again with its intent_id, then plan again.",
}
_WAIT = (
    "Do not ask for it again, nor for the same in other words: that is answered with this status. Look again with "
    "look_again and these ids after look_again_s seconds. Until then tell the person that it is under way, not done."
)
_DOUBT = (
    "Do not ask for it again or try another way to the same effect. Look again with look_again after look_again_s "
    "seconds. Tell the person honestly that it is not known yet."
)
_SETTLED = "Nothing. Asking again returns this status; a further one needs another business entity."
_AGAIN = "If it is still wanted, ask again with the same arguments; else tell the person that it did not happen."


def ended_without_effect(status: str) -> bool:
    """Whether an operation with this status left nothing behind, so that the same may be asked for anew."""
    return status in _WITHOUT_EFFECT


@dataclass(frozen=True)
class Answer:
    """One answer. `look_again_s` is in seconds, None where looking again would tell nothing new.

    `status` is the ledger's own word. `reason` has name, number, meaning and advice where the gate refused or
    answered something out of the ordinary. `parts` are the things below an intent, each an answer as a row; `told` is
    what was asked about, where that is more than a state.
    """

    state: State
    say: str
    next: str = ""
    look_again_s: int | None = None
    intent_id: str = ""
    operation_id: str = ""
    commitment_id: str = ""
    plan_id: str = ""
    status: str = ""
    reason: Row = field(default_factory=dict)
    detail: str = ""
    result: str = ""
    parts: list[Row] = field(default_factory=list)
    told: Row = field(default_factory=dict)

    def row(self) -> Row:
        """As JSON, without what is empty; `look_again_s` stays where it is 0."""
        pairs = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in pairs if value not in ("", None, [], {})}


def reason_row(name: str) -> Row:
    """A reason as it is told: its stable number, what it means and what to do."""
    reason = REASONS.get(name, REASONS["UNKNOWN"])
    return {"name": name, "number": reason.number, "meaning": reason.meaning, "advice": reason.advice}


def refused(name: str, detail: str, **ids: Any) -> Answer:
    """The gate's no, or the gateway's in the gate's words, for the reason called `name`."""
    reason = REASONS.get(name, REASONS["UNKNOWN"])
    later = reason.retry is Retry.LATER
    again = {
        Retry.NO: "Asking again does not change the answer.",
        Retry.LATER: "It can be asked for again, unchanged, once that has happened; not at once.",
        Retry.CHANGED: "Ask again only with the fault mended.",
    }[reason.retry]
    return Answer(
        "REFUSED",
        f"This was not done: {_sentence(detail or reason.meaning)}",
        f"{_ADVICE.get(name, reason.advice)} {again} Do not say that it was done.",
        LOOK_S["LATER"] if later else None,
        reason=reason_row(name),
        detail=detail,
        **ids,
    )


def not_taken(why: str, **ids: Any) -> Answer:
    """The gateway can't reach the broker or has no room: nothing was asked for, and repeating is harmless."""
    return Answer(
        "NOT_TAKEN",
        "The request could not be passed on just now; nothing was done by this call.",
        "Ask again with the same arguments after look_again_s seconds: it is the same wish, and is done once.",
        LOOK_S["UNREACHABLE"],
        detail=why,
        **ids,
    )


def undecided(what: str, **ids: Any) -> Answer:
    """Passed on, and not decided yet."""
    return Answer(
        "PENDING", f"The request ({what}) was taken and is being processed; it is not done yet.", _WAIT,
        LOOK_S["STAGED"], **ids,
    )  # fmt: skip


def unsure(what: str, **ids: Any) -> Answer:
    """Something went wrong on the way, and whether it was passed on is not known."""
    return Answer(
        "PENDING",
        f"It is not known yet whether the request ({what}) was taken; it is not done as far as anybody knows.",
        "Look again with look_again and these ids after look_again_s seconds. If nothing is known by them then, ask "
        "again with the same arguments: it is the same wish, and is done once.",
        LOOK_S["STAGED"],
        **ids,
    )


def slow_down(why: str, after_s: int) -> Answer:
    """More than the tenant may ask at once."""
    return Answer(
        "SLOW_DOWN",
        "This can't be asked for just now; nothing was done by this call.",
        "Wait look_again_s seconds before the next call. Nothing is lost: what was asked for before goes on.",
        after_s,
        detail=why,
    )


def known(say: str, told: Row, **ids: Any) -> Answer:
    """Something that was asked about."""
    return Answer("KNOWN", say, "Go by what is told here.", told=told, **ids)


def of_status(
    status: str, what: str, *, action: Action | None, timer: str = "NONE", deadline_at: int | None = None,
    verified: bool = True, undoing: bool = False, result: str = "", now_ms: int = 0, **ids: Any,
) -> Answer:  # fmt: skip
    """How an operation is doing, in words. `timer` and `deadline_at` (ms) are what it waits for; `now_ms` the present.

    `verified` false: its executor says that it is done, and the declared second look is not in yet. `undoing`: it is
    to be undone. What this release does not know is a doubt.
    """
    match status:
        case "STAGED":
            say, look_s = _staged(what, timer, deadline_at, now_ms)
            answer = Answer("PENDING", say, _WAIT, look_s)
        case "VALIDATED" | "SUBMITTED":
            answer = Answer("PENDING", f"{what} is being processed; it is not done yet.", _WAIT, LOOK_S["ACTING"])
        case "SETTLED" if undoing:
            answer = Answer("PENDING", f"{what} was done and is being undone.", _WAIT, LOOK_S["DOUBT"])
        case "SETTLED" if not verified:
            say = f"{what} was carried out and waits for its verification; do not call it done yet."
            answer = Answer("PENDING", say, _WAIT, LOOK_S["DOUBT"])
        case "SETTLED":
            answer = Answer("DONE", f"{what} is done.", _SETTLED, result=result)
        case "FAILED":
            answer = Answer("NOT_DONE", f"{what} did not happen; that is certain.", _AGAIN)
        case "WITHDRAWN":
            answer = Answer("WITHDRAWN", f"{what} was taken back before it began; nothing happened.", _AGAIN)
        case "COMPENSATED":
            answer = Answer("UNDONE", f"{what} was done and then undone.", _AGAIN)
        case "ESCALATED":
            say = f"It is not known whether {what} happened; a person is looking into it."
            answer = Answer("IN_DOUBT", say, _DOUBT, LOOK_S["PERSON"])
        case _:
            say = f"It is not known yet whether {what} happened; that is being looked into."
            answer = Answer("IN_DOUBT", say, _DOUBT, LOOK_S["DOUBT"])
    return replace(answer, status=status, **ids)


def _staged(what: str, timer: str, deadline_at: int | None, now_ms: int) -> tuple[str, int]:
    if timer == "APPROVAL":
        return f"{what} waits for somebody's approval; it is not done yet.", LOOK_S["APPROVAL"]
    if timer == "HOLD" and deadline_at is not None:
        left_s = min(max(1, (deadline_at - now_ms + 999) // 1000), _HOLD_S_MAX)
        return f"{what} is accepted and can be cancelled for a short while before it begins.", left_s
    return f"{what} is accepted and waits for its turn; it is not done yet.", LOOK_S["STAGED"]


def of_verdict(verdict: Verdict, what: str, say: str = "", **ids: Any) -> Answer:
    """What the gate said to a claim that is not about an operation's status: taken, the same as before, or no."""
    if verdict.refused:
        return refused(verdict.reason, verdict.detail, status=verdict.status, **ids)
    if verdict.verdict == "COMPENSATE":
        told = "It has happened and can't be unsaid; what compensates it, or a person, follows instead."
        answer = Answer("PENDING", told, _WAIT, LOOK_S["DOUBT"], reason=reason_row(verdict.reason))
    elif verdict.pending:
        answer = Answer("PENDING", f"{what} is under way; it is not done yet.", _WAIT, LOOK_S["DOUBT"])
    else:
        answer = Answer("KNOWN", say or f"{what} is noted.", "Nothing.")
    return replace(answer, status=verdict.status, detail=verdict.detail, **ids)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
