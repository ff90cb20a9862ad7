"""Catalogues with limits on what may be open, and actions that cost something."""

from dataclasses import replace
from typing import Any

from joingate_schemas.catalogue import Action, Catalogue, Limit

from .life_catalogue import lived

DAY_MS = 86_400_000


def limited(*limits: Limit) -> Catalogue:
    """The catalogue of lives with these limits; without any, one of two weights for each intent."""
    held = limits or (Limit("each", "INTENT", debt=2.0),)
    return lived(limits={one.name: one for one in held})


def _costs(name: str, cost: float, budget_class: Any, **fields: Any) -> Action:
    usual: dict[str, Any] = {"downstream": "cloud", "effect": "REVERSIBLE", "kind": "RETRYABLE", "executor": "cloud"}
    return Action(name, budget_class=budget_class, cost=cost, **{**usual, **fields})


PRICED = (
    _costs("try_out", 3.0, "EXPLORATION"),
    _costs("try_held", 3.0, "EXPLORATION", hold_ms=60_000),
    _costs("measure", 3.0, "VERIFICATION", effect="OBSERVE"),
    _costs("tidy", 3.0, "RECONCILIATION"),
    _costs("rent", 1.0, "EXPLORATION", obligation="hold"),
)


def priced(*limits: Limit) -> Catalogue:
    """The catalogue of lives with actions of each budget class, of which giving back is dear too."""
    whole = lived()
    actions = {**whole.actions, **{one.name: one for one in PRICED}}
    actions["free_hold"] = replace(whole.actions["free_hold"], cost=50.0)
    return lived(actions=actions, limits={one.name: one for one in limits})
