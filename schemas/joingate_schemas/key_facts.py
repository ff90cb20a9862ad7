"""The facts about who may speak and who said yes: keys, folded on every partition alike, and approvals of plans."""

from typing import Literal

from joingate_schemas.record import record

KeyEnd = Literal["REPLACED", "REVOKED", "UNKNOWN"]


@record
class KeyRegistered:
    """A key speaks for `holder` from here on."""

    key_id: str
    holder: str
    public_key: bytes
    by: str
    reason: str


@record
class KeyEnded:
    """A key speaks for nobody from `ends_at` (ms) on."""

    key_id: str
    holder: str
    ends_at: int
    end: KeyEnd
    by: str
    reason: str


@record
class PlanApproved:
    """An approver said yes (`granted`) or no to a whole plan: one approval for each step that is not dispatched yet.

    `contents`: of each of them, the operation id of its slot's first generation, and the digest of its content.
    """

    intent_id: str
    plan_id: str
    principal: str
    digest: str
    granted: bool
    expires_at: int | None = None
    key_id: str = ""
    given_at: int
    contents: dict[str, str]
