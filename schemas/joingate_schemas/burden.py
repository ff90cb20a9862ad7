"""The room where a plan's burden is reckoned: what it would lay on the world and on people, from its steps as declared.

Pure: the law records it with the plan, so that candidates can be compared by what was known when they were made.
"""

from collections.abc import Collection, Sequence
from typing import assert_never

from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.facts import Burden, StepDetail

_TELLS_BY_ITSELF = frozenset({"IDEMPOTENT_KEY", "LOOKUP"})


def burden_of(steps: Sequence[StepDetail], commitments: Collection[str], catalogue: Catalogue) -> Burden:
    """The burden of a plan with these steps, that names these commitments beside those that its steps rely on."""
    burden: Burden = {
        "by_class": {}, "reused": 0, "approvals": 0, "promises": 0, "exclusive": 0, "scarce": 0, "irreversible": 0,
        "doubtful": 0, "idle_cost": 0.0, "cost": 0.0, "unknown": 0,
    }  # fmt: skip
    named, by_class = set(commitments), burden["by_class"]
    for step in steps:
        named.update(step["commitments"])
        action = catalogue.actions.get(step["action"])
        if action is None:
            burden["unknown"] += 1
            continue
        obligation = catalogue.obligations.get(action.obligation) if action.obligation is not None else None
        if obligation is not None:
            by_class[obligation.resolution] = by_class.get(obligation.resolution, 0) + 1
            burden["idle_cost"] += obligation.idle_cost
        for mode in _modes(action, catalogue) if action.resources else ():
            burden["exclusive" if mode == "EXCLUSIVE" else "scarce"] += 1
        burden["approvals"] += _approvals(action)
        burden["promises"] += action.communication == "PROMISES"
        burden["irreversible"] += action.irreversible
        burden["doubtful"] += _doubtful(action, catalogue)
        burden["cost"] += action.cost
    burden["reused"] = len(named - catalogue.obligations.keys()) if named else 0
    burden["by_class"] = dict(sorted(by_class.items()))
    return burden


def _modes(action: Action, catalogue: Catalogue) -> list[str]:
    """How each resource that the action needs is scarce."""
    kinds = (reference.partition(":")[0] for reference in action.resources)
    return [catalogue.resources[kind].mode for kind in kinds if kind in catalogue.resources]


def _approvals(action: Action) -> int:
    """How many people have to say yes."""
    match action.approval:
        case "NONE":
            return 0
        case "CONTROL":
            return 0  # no person is asked
        case "N_OF_M":
            return action.approvals_needed
        case "ANY" | "MAKER_CHECKER":
            return 1
        case _:
            assert_never(action.approval)


def _doubtful(action: Action, catalogue: Catalogue) -> bool:
    """Whether a doubt about it would wait for a person, or for a statement."""
    downstream = catalogue.downstreams.get(action.downstream)
    tells = downstream is not None and not _TELLS_BY_ITSELF.isdisjoint(downstream.capabilities)
    return action.effect != "OBSERVE" and not tells
