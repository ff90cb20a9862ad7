"""The room where a plan's burden is reckoned: what it would lay on the world and on people, from its steps as declared.

Pure: the law records it with the plan, so that candidates can be compared by what was known when they were made.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import assert_never

from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.facts import Burden, StepDetail

_TELLS_BY_ITSELF = frozenset({"IDEMPOTENT_KEY", "LOOKUP"})


def burden_of(steps: Sequence[StepDetail], commitments: Collection[str], catalogue: Catalogue) -> Burden:
    """The burden of a plan with these steps, that names these commitments beside those that its steps rely on."""
    actions = [catalogue.actions.get(step["action"]) for step in steps]
    known = [action for action in actions if action is not None]
    obligations = [catalogue.obligations[one.obligation] for one in known if one.obligation in catalogue.obligations]
    named = set(commitments).union(*(step["commitments"] for step in steps))
    modes = Counter(mode for action in known for mode in _modes(action, catalogue))
    return {
        "by_class": dict(sorted(Counter(one.resolution for one in obligations).items())),
        "reused": len(named - catalogue.obligations.keys()),
        "approvals": sum(_approvals(action) for action in known),
        "promises": sum(action.communication == "PROMISES" for action in known),
        "exclusive": modes["EXCLUSIVE"],
        "scarce": modes["CAPACITY"] + modes["ONCE_EVER"],
        "irreversible": sum(action.irreversible for action in known),
        "doubtful": sum(_doubtful(action, catalogue) for action in known),
        "idle_cost": sum((one.idle_cost for one in obligations), 0.0),
        "cost": sum((action.cost for action in known), 0.0),
        "unknown": len(actions) - len(known),
    }


def _modes(action: Action, catalogue: Catalogue) -> list[str]:
    """How each resource that the action needs is scarce."""
    kinds = (reference.partition(":")[0] for reference in action.resources)
    return [catalogue.resources[kind].mode for kind in kinds if kind in catalogue.resources]


def _approvals(action: Action) -> int:
    """How many people have to say yes."""
    match action.approval:
        case "NONE":
            return 0
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
