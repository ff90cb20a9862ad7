"""The room for rules about approvals: the harder an effect is to undo, the stronger the yes; and somebody can give it.

Beside `catalogue_lint`, which has the rules about everything else; each yields what is wrong and where.
"""

from collections.abc import Iterator, Mapping

from joingate_schemas.catalogue import ApprovalPolicy
from joingate_schemas.catalogue_lint import Finding, Place
from joingate_schemas.catalogue_shape import ActionShape, PrincipalShape, Shape, TopShape

_STRENGTH: dict[ApprovalPolicy, int] = {"NONE": 0, "ANY": 1, "CONTROL": 2, "MAKER_CHECKER": 2, "N_OF_M": 3}
_RISING = ("REVERSIBLE", "IRREVERSIBLE", "PIVOT")
_Principals = Mapping[str, PrincipalShape]


def lint_approvals(sections: Mapping[str, Mapping[str, Shape | None]], top: TopShape) -> Iterator[Finding]:
    """Every breach of a rule about approvals."""
    principals = {name: one for name, one in sections["principals"].items() if isinstance(one, PrincipalShape)}
    yield from _controls(principals)
    floors: dict[str, ApprovalPolicy] = {str(name): policy for name, policy in top.approval_floor.items()}
    least: ApprovalPolicy = "NONE"
    for name in _RISING:
        policy = floors.setdefault(name, least)
        if _STRENGTH[policy] < _STRENGTH[least]:
            yield ("approval_floor", name), f"{policy} is weaker than {least}, which what is easier to undo needs"
        least = policy
    for name, action in sections["actions"].items():
        if isinstance(action, ActionShape):
            yield from _action(("actions", name), action, floors, principals)


def _action(
    at: Place, action: ActionShape, floors: Mapping[str, ApprovalPolicy], principals: _Principals
) -> Iterator[Finding]:
    kind = "PIVOT" if action.kind == "PIVOT" else action.effect
    floor = floors.get(kind, "NONE")
    if _STRENGTH[action.approval] < _STRENGTH[floor]:
        yield (
            (*at, "approval"),
            f"{action.approval} is weaker than {floor}, which approval_floor asks of {kind}: the harder it is to undo, "
            "the stronger the yes",
        )
    if action.approvers and action.approval == "NONE":
        yield (*at, "approvers"), "nobody is asked with approval NONE: name a policy, or leave the approvers out"
    for number, name in enumerate(action.approvers):
        known = principals.get(name)
        if principals and (known is None or known.role != "APPROVER"):
            yield (*at, "approvers", number), f"the catalogue declares no APPROVER called {name!r}"
    counting = {
        known.party or name for name, known in principals.items()
        if known.role == "APPROVER" and name in (action.approvers or principals)
        and (action.approval != "CONTROL" or known.control)
    }  # fmt: skip
    if action.approval == "CONTROL" and not counting:
        yield (*at, "approval"), "CONTROL needs a principal with `role: APPROVER` and `control: true` whose yes counts"
    asked = action.approvals_needed if action.approval == "N_OF_M" else 0
    there = len(counting) if principals else len(set(action.approvers)) or asked
    if there < asked:
        yield (*at, "approvals_needed"), f"it needs {asked} parties, and {there} can approve it: nothing would go out"


def _controls(principals: _Principals) -> Iterator[Finding]:
    """What checks by machine is nobody who plans or executes, or it would check itself."""
    makers = {one.party or name: name for name, one in principals.items() if one.role in ("PLANNER", "EXECUTOR")}
    for name, one in principals.items():
        if one.control and one.role != "APPROVER":
            yield ("principals", name, "control"), f"a control approves, so its role is APPROVER, not {one.role}"
        elif one.control and (one.party or name) in makers:
            yield (
                ("principals", name, "party"),
                f"{makers[one.party or name]} of the same party plans or executes: a control is independent of both",
            )
