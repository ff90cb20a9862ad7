"""The facts about keys: which of them speaks for whom, and until when; folded on every partition alike."""

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
