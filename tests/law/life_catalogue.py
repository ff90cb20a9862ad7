"""A catalogue with an obligation type of each resolution class, and of each way in which time can pass for one."""

from typing import Any

from joingate_schemas.catalogue import Action, Catalogue, ObligationType

from .catalogues import varied

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def _makes(obligation: str, **fields: Any) -> Action:
    usual: dict[str, Any] = {
        "downstream": "cloud", "effect": "REVERSIBLE", "kind": "RETRYABLE", "executor": "cloud",
        "obligation": obligation,
    }  # fmt: skip
    return Action(f"make_{obligation}", **{**usual, **fields})


def _undoes(name: str, **fields: Any) -> Action:
    usual: dict[str, Any] = {"downstream": "cloud", "effect": "REVERSIBLE", "kind": "RETRYABLE", "executor": "cloud"}
    return Action(name, **{**usual, **fields})


TYPES = (
    ObligationType("hold", release_action="free_hold", valid_ms=7 * DAY_MS),
    ObligationType("fresh_hold", release_action="free_hold", freshness_ms=HOUR_MS),
    ObligationType("guarded_hold", release_action="free_guarded"),
    ObligationType("quote", resolution="EXPIRING", valid_ms=HOUR_MS, observed=False),
    ObligationType("duty", resolution="TRANSFERABLE"),
    ObligationType("notice", resolution="COMPENSATABLE", observed=False),
    ObligationType("filing", resolution="IRREVERSIBLE", release_action="amend"),
    ObligationType("statement", resolution="IRREVERSIBLE"),
    ObligationType("reply", release_action="free_hold", due_ms=HOUR_MS, grace_ms=10 * MINUTE_MS, escalation="support",
                   satisfied_evidence=("receipt",)),
    ObligationType("errand", release_action="free_hold", due_ms=HOUR_MS, missed_action="RELEASE"),
    ObligationType("message", release_action="free_hold", condition="migration:{name}", condition_ms=HOUR_MS),
)  # fmt: skip
"""hold: lasts 7 days. fresh_hold: a sight of it is good for an hour. guarded_hold: given back only with approval.
quote: lapses after an hour. reply: due in an hour with 10 minutes' grace; errand: given up when missed.
message: made once `migration:{name}` is observed, within an hour."""

ACTIONS = (
    *(_makes(kind.name) for kind in TYPES if kind.name not in ("notice", "statement")),
    _makes("notice", compensation="apologise"),
    _makes("statement", approval="ANY", human_gate="press-office"),
    _undoes("free_hold"),
    _undoes("free_guarded", approval="MAKER_CHECKER", hold_ms=MINUTE_MS),
    _undoes("amend", approval="ANY"),
)


def lived(**fields: Any) -> Catalogue:
    """The varied catalogue with these types, and one action `make_<type>` for each."""
    whole = varied()
    usual: dict[str, Any] = {
        "actions": {**whole.actions, **{one.name: one for one in ACTIONS}},
        "obligations": {**whole.obligations, **{one.name: one for one in TYPES}},
    }
    return varied(**{**usual, **fields})
