"""The room for what can go wrong in the SDK, drawn as one tree; every message is a sentence to act on.

JoinGateError
├── InvalidClaim      the claim is malformed; nothing was stored or sent
├── Unreachable       broker, topic or read side can't be asked now; trying again can help
├── NotKnown          the read side knows nothing by this id, or not yet
├── VerdictTimeout    no verdict yet: the claim is STILL PENDING, and can be waited for again
├── Undelivered       the broker refuses to take the claim (no such topic, no right to write)
├── ClaimRefused      the gate said no; raised only by `Verdict.demand`
├── LedgerBroken      the ledger has a gap or a fork, or can't be read: nothing in it is believed any more
├── OutboxFull        no room for another claim; nothing was sent
├── OutboxInUse       another process has this outbox open
├── OutboxBroken      the outbox file can't be read or written
├── Unsent            closed while claims may be unwritten, and no outbox keeps them
└── ConnectionClosed  the connection was closed before the call
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joingate_producers.verdict import Verdict


class JoinGateError(Exception):
    """Anything that the SDK raises on purpose. `str()` of it is a sentence for people."""


class InvalidClaim(JoinGateError):
    """A claim that no gate could accept. `claim_type` and `field` name the place; nothing was stored or sent."""

    def __init__(self, claim_type: str, field: str, problem: str) -> None:
        super().__init__(f"This {claim_type} was not sent: {field} {problem}.")
        self.claim_type = claim_type
        self.field = field


class Unreachable(JoinGateError):
    """Broker, topic, registry or read side can't be asked now. Trying again can help."""


class NotKnown(JoinGateError):
    """The read side knows nothing by the id that was asked for: it may not be decided yet, or the id is wrong."""


class VerdictTimeout(JoinGateError):
    """No verdict within the time given. The claim is still pending: wait again, or repeat it with its claim id.

    `delivered` says whether the broker has confirmed the claim; if not, it waits to be sent, or is on its way.
    """

    def __init__(self, claim_id: str, delivered: bool, message: str) -> None:
        super().__init__(message)
        self.claim_id = claim_id
        self.delivered = delivered


class Undelivered(JoinGateError):
    """The broker refuses to take the claim, for a reason that waiting does not mend."""

    def __init__(self, claim_id: str, problem: str, kept: bool) -> None:
        after = "It stays in the outbox and is tried again at the next start" if kept else "It was not written"
        super().__init__(f"Claim {claim_id} was refused by the broker: {problem}. {after}.")
        self.claim_id = claim_id


class ClaimRefused(JoinGateError):
    """The gate's no, or a COMPENSATE where a yes was demanded. `verdict` holds reason, number, advice and detail."""

    def __init__(self, verdict: "Verdict") -> None:
        said = f": {verdict.detail}" if verdict.detail else ""
        super().__init__(
            f"Claim {verdict.claim_id} was {verdict.verdict} for {verdict.reason} ({verdict.number}){said}. "
            f"{verdict.meaning} {verdict.advice}"
        )
        self.verdict = verdict
        self.reason = verdict.reason
        self.number = verdict.number
        self.advice = verdict.advice


class LedgerBroken(JoinGateError):
    """The ledger contradicts itself or can't be read; this connection believes nothing more from it."""


class OutboxFull(JoinGateError):
    """There is no room for another claim. Nothing was stored or sent."""


class OutboxInUse(JoinGateError):
    """Another process, or another connection of this one, has the outbox open."""


class OutboxBroken(JoinGateError):
    """The outbox file can't be read or written."""


class Unsent(JoinGateError):
    """At the deadline of a close, these claims were not confirmed, and no outbox keeps them. They may be written."""

    def __init__(self, claim_ids: Sequence[str], problem: str) -> None:
        shown = ", ".join(claim_ids[:5]) + (f" and {len(claim_ids) - 5} more" if len(claim_ids) > 5 else "")
        why = f" ({problem})" if problem else ""
        super().__init__(
            f"{len(claim_ids)} claim(s) may not have been written{why}: {shown}. "
            "Repeat them with the same claim ids: one that was written is then answered, not decided twice."
        )
        self.claim_ids = tuple(claim_ids)


class ConnectionClosed(JoinGateError):
    """The connection was closed before the call."""
