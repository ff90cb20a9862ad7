"""The table of keys that were registered or ended by a claim, one row for each partition that has heard of it.

Every partition decides such a claim for itself, so that a key which one of them lacks is seen here.
"""

from joingate_projections.tables import At, Row, Rows, joined
from joingate_schemas.facts import KeyEnded, KeyRegistered


def registered(rows: Rows, fact: KeyRegistered, at: At) -> None:
    """The key speaks for its holder on this partition."""
    key = _key(fact.key_id, at)
    if rows.get("keys", key) is None:
        row = _row(fact.key_id, fact.holder, at)
        rows.put("keys", key, {**row, "public_key": fact.public_key.hex(), "by": fact.by, "reason": fact.reason})


def ended(rows: Rows, fact: KeyEnded, at: At) -> None:
    """The key speaks for nobody from `ends_at` on; an end only ever comes closer."""
    key = _key(fact.key_id, at)
    old = rows.get("keys", key) or _row(fact.key_id, fact.holder, at)
    sooner = old["ends_at"] is None or fact.ends_at <= old["ends_at"]
    status = "REVOKED" if fact.end != "REPLACED" or old["status"] == "REVOKED" else "REPLACED"
    change = {
        "status": status,
        "ends_at": fact.ends_at if sooner else old["ends_at"],
        "ended_by": fact.by,
        "ended_because": fact.reason,
    }
    rows.put("keys", key, {**old, **change, **at.touched()})


def _key(key_id: str, at: At) -> str:
    return joined(key_id, f"{at.partition:05d}")


def _row(key_id: str, holder: str, at: At) -> Row:
    return {
        "key_id": key_id,
        "holder": holder,
        "partition": at.partition,
        "status": "REGISTERED",
        "public_key": "",
        "by": "",
        "reason": "",
        "ends_at": None,
        "ended_by": "",
        "ended_because": "",
        **at.born(),
    }
