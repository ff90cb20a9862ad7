"""A catalogue with commitments that hold a quantity, and actions that take of them."""

from typing import Any

from joingate_schemas.catalogue import Action, Argument, Catalogue, ObligationType

from .life_catalogue import lived


def _action(name: str, *arguments: str, **fields: Any) -> Action:
    usual: dict[str, Any] = {
        "downstream": "cloud", "effect": "REVERSIBLE", "kind": "RETRYABLE", "executor": "cloud",
        "arguments": tuple(Argument(one) for one in arguments),
    }  # fmt: skip
    return Action(name, **{**usual, **fields})


def quantified(**fields: Any) -> Catalogue:
    """GPUs, which a training takes and gives back, and a credit, which a capture uses up."""
    whole = lived()
    types = (
        ObligationType("gpus", release_action="free_hold", observed=False, quantity="{count}"),
        ObligationType("credit", release_action="free_hold", observed=False, quantity="100", draws="CONSUMED"),
    )
    actions = (
        _action("reserve_gpus", "count", obligation="gpus"),
        _action("open_credit", obligation="credit"),
        _action("run_on_gpus", "need", draws={"gpus": "{need}"}, effect="IRREVERSIBLE", downstream="bank",
                executor="bank"),
        _action("run_when_told", "need", draws={"gpus": "{need}"}, approval="ANY"),
        _action("capture", "sum", draws={"credit": "{sum}"}, effect="IRREVERSIBLE", compensation="uncapture"),
        _action("uncapture"),
    )  # fmt: skip
    return lived(
        actions={**whole.actions, **{one.name: one for one in actions}},
        obligations={**whole.obligations, **{one.name: one for one in types}}, **fields,
    )  # fmt: skip
