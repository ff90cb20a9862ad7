"""The built-in catalogue, and small variations of it for what it does not hold."""

import json
from dataclasses import asdict, replace
from typing import Any

from joingate_schemas.catalogue import (
    Action,
    Argument,
    AssignmentPolicy,
    Catalogue,
    Downstream,
    ObligationType,
    Principal,
    Resource,
)
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_json


def _action(name: str, **fields: Any) -> Action:
    usual: dict[str, Any] = {
        "downstream": "bank", "effect": "IRREVERSIBLE", "kind": "RETRYABLE", "executor": "bank",
        "arguments": (Argument("amount"), Argument("note", meaning=False)),
    }  # fmt: skip
    return Action(name, **{**usual, **fields})


_EXTRA = (
    _action("pay"),
    _action("pay_approved", approval="ANY"),
    _action("pay_checked", approval="MAKER_CHECKER"),
    _action("pay_by_two", approval="N_OF_M", approvals_needed=2),
    _action("pay_by_ann", approval="ANY", approvers=("ann",)),
    _action("pay_controlled", approval="CONTROL"),
    _action("pay_held", hold_ms=60_000),
    _action("pay_verified", verification=True),
    _action("pay_and_apologise", compensation="apologise"),
    _action("apologise", downstream="messenger", executor="messenger"),
    _action("book", downstream="cloud", executor="cloud", effect="REVERSIBLE", kind="COMPENSATABLE",
            compensation="unbook", obligation="seat", resources=("seat:{business_key}",), arguments=()),
    _action("unbook", downstream="cloud", executor="cloud", effect="REVERSIBLE", arguments=()),
    _action("announce", downstream="cloud", executor="cloud", obligation="announcement", arguments=()),
    _action("unheard_of", downstream="gone", executor="gone"),
)  # fmt: skip


def varied(**fields: Any) -> Catalogue:
    """The built-in catalogue with the actions above, the types `seat` (taken at the executor's word, released when it
    succeeds late, leased) and `announcement` (can't be released), two more policies, and `fields` replaced."""
    whole = builtin_catalogue()
    changed: dict[str, Any] = {
        "actions": {**whole.actions, **{action.name: action for action in _EXTRA}},
        "obligations": {
            **whole.obligations,
            "seat": ObligationType(
                "seat", release_action="unbook", observed=False, late_success="RELEASE", lease_ms=60_000
            ),
            "announcement": ObligationType("announcement", resolution="IRREVERSIBLE"),
        },
        "policies": {
            **whole.policies,
            "seats-only": AssignmentPolicy("seats-only", ("team",), ("seat",)),
            "takeover": AssignmentPolicy("takeover", ("team", "desk"), takeover=True),
        },
        **fields,
    }
    return sealed(replace(whole, **changed))


def sealed(catalogue: Catalogue) -> Catalogue:
    """The catalogue as it is read back from its own canonical JSON, with the digest of that."""
    form = {name: value for name, value in asdict(catalogue).items() if name not in ("digest", "source")}
    return catalogue_from_json(json.dumps(form, sort_keys=True).encode())


_SHARED = (
    _action("train", downstream="workspace", executor="workspace", effect="REVERSIBLE", arguments=(),
            resources=("gpu:{pool}", "bench:{bench}"), quantities={"gpu": "{count}"}),
    _action("train_approved", approval="ANY", arguments=(), resources=("bench:{bench}",)),
    _action("train_held", hold_ms=60_000, arguments=(), resources=("bench:{bench}",)),
    _action("wire", downstream="clearing", executor="clearing", arguments=(), resources=("account:{account}",)),
    _action("consult", arguments=(), resources=("calls:{tenant}", "asks:{principal}")),
    _action("draw", arguments=(), resources=("capture:{capture}",), quantities={"capture": "{amount}"}),
    _action("once", arguments=(), resources=("fee:{business_key}",)),
    _action("sweep", downstream="workspace", executor="workspace", effect="REVERSIBLE", arguments=(),
            resources=("bench:{bench}",)),
)  # fmt: skip


def arbitrated() -> Catalogue:
    """The varied catalogue with actions on what is scarce, and resources of every kind that the arbiter decides on."""
    whole = varied()
    scarce = (
        Resource("window", "EXCLUSIVE", arbitrated=True, lease_ms=600_000),
        Resource("bench", "EXCLUSIVE", arbitrated=True, lease_ms=60_000),
        Resource("gpu", "CAPACITY", 4, {"a100": 8}, arbitrated=True), Resource("account", "CAPACITY", arbitrated=True),
        Resource("calls", "CAPACITY", 2, arbitrated=True), Resource("asks", "CAPACITY", 1, {"ann": 5}, arbitrated=True),
        Resource("capture", "CAPACITY", 100, arbitrated=True, keeps=True),
        Resource("fee", "ONCE_EVER", arbitrated=True),
    )  # fmt: skip
    return sealed(
        replace(
            whole,
            actions={**whole.actions, **{action.name: action for action in _SHARED}},
            downstreams={**whole.downstreams, "clearing": Downstream("clearing", ("STATEMENT",))},
            resources={**whole.resources, **{one.kind: one for one in scarce}},
        )
    )


def without_action(name: str) -> Catalogue:
    """The varied catalogue, from which one action was dropped."""
    whole = varied()
    return sealed(replace(whole, actions={key: action for key, action in whole.actions.items() if key != name}))


def without_type(name: str) -> Catalogue:
    """The varied catalogue, from which a type of obligation was dropped that open commitments may have."""
    whole = varied()
    return sealed(replace(whole, obligations={key: one for key, one in whole.obligations.items() if key != name}))


def raised(name: str) -> Catalogue:
    """The varied catalogue with a second version of the type, which is fulfilled by a receipt alone."""
    whole = varied()
    second = replace(whole.obligations[name], version=2, satisfied_evidence=("receipt",))
    return sealed(replace(whole, obligations={**whole.obligations, name: second}))


def without_keys() -> Catalogue:
    """The varied catalogue with a bank that does not know keys."""
    whole = varied()
    bank = Downstream("bank", ("LOOKUP", "STATEMENT"))
    return sealed(replace(whole, downstreams={**whole.downstreams, "bank": bank}))


def with_speakers() -> Catalogue:
    """The varied catalogue, in which planners may speak for these owners only."""
    known = (Principal("somebody", "PLANNER", owners=("intent",)), Principal("olga", "PLANNER", owners=("team:ops",)),
             Principal("pia", "PLANNER", owners=("person",)), Principal("cloud", "EXECUTOR"),
             Principal("registry", "OBSERVER"))  # fmt: skip
    return varied(principals={one.name: one for one in known})


def with_principals() -> Catalogue:
    """The varied catalogue, in which three principals may speak, one of them for another tenant."""
    known = (Principal("paula", "PLANNER", tenant="acme"), Principal("pete", "PLANNER", tenant="other"),
             Principal("eve", "EXECUTOR"), Principal("otto", "EXECUTOR", actions=("notify",)),
             Principal("nora", "PLANNER", actions=("notify",)))  # fmt: skip
    return varied(principals={one.name: one for one in known})
