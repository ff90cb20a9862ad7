"""What facts about keys do to state. Ends only ever come closer: no later fact lets a key speak for longer."""

from joingate_processors.law.state import PrincipalKey, State
from joingate_schemas import facts as f
from joingate_schemas.record import changed


def registered(state: State, fact: f.KeyRegistered) -> None:
    """The key speaks for its holder."""
    if state.keys.get(fact.key_id) is None:
        made = PrincipalKey(key_id=fact.key_id, holder=fact.holder, public_key=fact.public_key.hex(), ends_at=None,
                            revoked=False)  # fmt: skip
        state.keys.put(fact.key_id, made)


def ended(state: State, fact: f.KeyEnded) -> None:
    """The key speaks for nobody from a time on, whether it was known here before or not."""
    row = state.keys.get(fact.key_id)
    revoked = fact.end != "REPLACED"
    if row is None:
        row = PrincipalKey(key_id=fact.key_id, holder=fact.holder, public_key="", ends_at=fact.ends_at, revoked=revoked)
    else:
        sooner = row.ends_at is None or fact.ends_at <= row.ends_at
        row = changed(row, ends_at=fact.ends_at if sooner else row.ends_at, revoked=revoked or row.revoked)
    state.keys.put(fact.key_id, row)
