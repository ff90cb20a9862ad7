"""Rows of the join gate's table for what is said of an intent that was archived."""

from dataclasses import replace

from joingate_schemas.catalogue import Catalogue

from .catalogues import sealed, varied
from .driver import INTENT, Court
from .scenes import Row, closed

KEPT_MS = 30 * 86_400_000


def keeping(catalogue: Catalogue | None = None, retention_ms: int | None = KEPT_MS) -> Catalogue:
    """The catalogue with a retention of thirty days."""
    return sealed(replace(catalogue or varied(), retention_ms=retention_ms))


def archived(court: Court) -> None:
    """Given: an intent that is archived."""
    court.load()
    closed(court)
    court.advance(KEPT_MS)
    assert court.state.intents.get(INTENT) is None


ROWS = {
    "archived intents": [
        Row("the same wish again", "INTENT_ARCHIVED", lambda x: x.declare(2),
            lambda x: x.declare(intent_id=f"{INTENT}/2"), given=archived, catalogue=keeping),
        Row("its step dispatched again", "INTENT_ARCHIVED", lambda x: x.dispatch("s1"), None, given=archived,
            catalogue=keeping),
        Row("a goal of it seen", "INTENT_ARCHIVED", lambda x: x.observe_goal("g1", "PRESENT"), None, given=archived,
            catalogue=keeping),
        Row("an effect that nobody knows", "INTENT_ARCHIVED", lambda x: x.commit("unheard-of", external_id="x"), None,
            given=archived, facts=("EffectRecorded", "OrphanRaised"), catalogue=keeping),
        Row("approval of what is gone", "INTENT_ARCHIVED", lambda x: x.approve("gone"), None, given=archived,
            catalogue=keeping),
    ],
}  # fmt: skip
