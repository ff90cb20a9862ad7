"""The rows of what is believed ahead: keys of principals, and approvals given before there is an operation."""

from joingate_schemas.record import record


@record
class PrincipalKey:
    """A key that was registered or ended by a claim; one that only the catalogue declares has no row."""

    key_id: str
    holder: str
    public_key: str  # hex; empty where only its end is known
    ends_at: int | None  # from when on (ms) it speaks for nobody
    revoked: bool  # else another key took its place then


@record
class StandingApproval:
    """Approvals of a step's content that no operation has used yet: those of a plan whose step is not dispatched."""

    slot_id: str
    intent_id: str
    content_digest: str
    approvals: list[str]
    approval_expiries: dict[str, int]
    approval_keys: dict[str, str]
