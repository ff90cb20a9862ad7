"""The room for rules between a catalogue's entries: names that must be declared, and declarations that can't be meant.

Each rule yields what is wrong and where; nothing stops at the first.
"""

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import TypeAlias, TypeVar, cast

from joingate_schemas.catalogue import LATENCY_BOUNDS_MS
from joingate_schemas.catalogue_shape import (
    NAME,
    ActionShape,
    DownstreamShape,
    LimitShape,
    ObjectiveShape,
    ObligationShape,
    OwnerShape,
    PolicyShape,
    PrincipalShape,
    ResourceShape,
    Shape,
)

Place: TypeAlias = tuple[str | int, ...]
Finding: TypeAlias = tuple[Place, str]
S = TypeVar("S", bound=Shape)
# What the gate adds to the arguments of an operation that undoes another one.
_GIVEN = frozenset({"business_key", "external_id"})
_DAY_MS = 86_400_000
# Who asks, for quotas: known when an operation is dispatched.
_ASKING = frozenset({"tenant", "principal"})


def lint(sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    """Every breach of a rule among the entries. An entry that is None was of the wrong shape: only its name counts."""
    for section, entries in sections.items():
        for name in entries:
            if not NAME.fullmatch(name):
                yield (section, name), "a name has letters, digits, dots, dashes and underscores, at most 100"
    for name, downstream in _of(sections, "downstreams", DownstreamShape):
        yield from _downstream(("downstreams", name), downstream)
    for name, action in _of(sections, "actions", ActionShape):
        yield from _action(("actions", name), action, sections)
    for name, obligation in _of(sections, "obligations", ObligationShape):
        yield from _obligation(("obligations", name), obligation, sections)
    for name, resource in _of(sections, "resources", ResourceShape):
        yield from _resource(("resources", name), resource)
    for name, principal in _of(sections, "principals", PrincipalShape):
        yield from _principal(("principals", name), principal, sections)
    for name, objective in _of(sections, "objectives", ObjectiveShape):
        yield from _objective(("objectives", name), objective, sections)
    for name, owner in _of(sections, "owners", OwnerShape):
        yield from _owner(("owners", name), owner)
    for name, policy in _of(sections, "policies", PolicyShape):
        yield from _policy(("policies", name), policy, sections)
    yield from _limits(dict(_of(sections, "limits", LimitShape)), sections)


def _of(sections: Mapping[str, Mapping[str, Shape | None]], section: str, shape: type[S]) -> Iterator[tuple[str, S]]:
    for name, entry in sections[section].items():
        if entry is not None:
            yield name, cast(S, entry)


def _undeclared(place: Place, what: str, name: str | None, declared: Mapping[str, object]) -> Iterator[Finding]:
    if name is not None and name not in declared:
        known = ", ".join(sorted(declared)) or "none"
        yield place, f"no {what} is called {name!r}; declared are: {known}"


def _downstream(at: Place, downstream: DownstreamShape) -> Iterator[Finding]:
    capabilities = downstream.capabilities
    if not capabilities:
        yield (
            (*at, "capabilities"),
            "say what it can be asked: IDEMPOTENT_KEY, LOOKUP, STATEMENT, or [NONE] for nothing",
        )
        return
    if "NONE" in capabilities and len(capabilities) > 1:
        yield (*at, "capabilities"), "NONE stands alone: it says that the downstream can be asked nothing"
    if len(set(capabilities)) != len(capabilities):
        yield (*at, "capabilities"), "a capability is named twice"
    if downstream.key_horizon is not None and "IDEMPOTENT_KEY" not in capabilities:
        yield (*at, "key_horizon"), "only a downstream with IDEMPOTENT_KEY has a key horizon"
    if "STATEMENT" in capabilities and not downstream.statement_cut_off:
        yield (*at, "statement_cut_off"), "with STATEMENT, say when a period closes, for instance 23:59 UTC"
    if downstream.statement_cut_off and "STATEMENT" not in capabilities:
        yield (*at, "statement_cut_off"), "only a downstream with STATEMENT has a cut-off"


def _placeholders(template: str) -> list[str] | None:
    """The names in braces of a template, or None if it is none."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        return None
    if any(form or conversion or name == "" for _, name, form, conversion in parts):
        return None
    return [name for _, name, _, _ in parts if name is not None]


def _is_amount(name: str) -> bool:
    return name.lower() in ("amount", "sum", "value") or name.lower().endswith("_amount")


def _template(at: Place, template: str, allowed: frozenset[str]) -> Iterator[Finding]:
    names = _placeholders(template)
    if names is None:
        yield at, f"{template!r} is no template: write names of arguments in braces, as in {{fee_id}}"
    for name in names or ():
        if name not in allowed:
            yield at, f"{{{name}}} is no declared argument; allowed are: {', '.join(sorted(allowed)) or 'none'}"


def _action(at: Place, action: ActionShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    yield from _undeclared((*at, "downstream"), "downstream", action.downstream, sections["downstreams"])
    yield from _undeclared((*at, "compensation"), "action", action.compensation, sections["actions"])
    yield from _undeclared((*at, "obligation"), "obligation", action.obligation, sections["obligations"])
    if action.compensation == at[-1]:
        yield (*at, "compensation"), "an action can't compensate itself"
    if action.kind == "COMPENSATABLE" and action.compensation is None:
        yield (*at, "compensation"), "a COMPENSATABLE step names the action that undoes it"
    if action.executor is not None and not NAME.fullmatch(action.executor):
        yield (*at, "executor"), "an executor's name has letters, digits, dots, dashes and underscores, at most 100"
    if action.effect == "OBSERVE":
        for field in ("compensation", "obligation"):
            if getattr(action, field) is not None:
                yield (*at, field), f"an action that only observes has no {field}"
        if action.kind != "RETRYABLE":
            yield (*at, "kind"), "an action that only observes is RETRYABLE"
    if action.approval != "N_OF_M" and action.approvals_needed != 1:
        yield (*at, "approvals_needed"), "only the approval policy N_OF_M counts approvals"
    if action.approval == "N_OF_M" and action.approvals_needed < 2:
        yield (*at, "approvals_needed"), "N_OF_M needs at least 2 approvals"
    if action.communication == "PROMISES" and action.obligation is None:
        yield (*at, "communication"), "what PROMISES makes an obligation: name its type in `obligation`"
    if action.communication == "INFORMS" and action.obligation is not None:
        yield (*at, "communication"), "what only INFORMS makes no obligation: declare PROMISES, or no `obligation`"
    if action.counterparty and action.obligation is None:
        yield (*at, "counterparty"), "only an action with an obligation has a counterparty"
    yield from _template((*at, "counterparty"), action.counterparty, frozenset(action.arguments) | {"business_key"})
    yield from _makes(at, action, sections)
    yield from _identity(at, action)
    yield from _resources(at, action, sections)
    yield from _draws(at, action, sections)


def _identity(at: Place, action: ActionShape) -> Iterator[Finding]:
    """What makes two wishes the same wish."""
    names = frozenset(action.arguments)
    for name in names:
        if not NAME.fullmatch(name):
            yield (*at, "arguments", name), "an argument's name has letters, digits, dots, dashes and underscores"
    yield from _template((*at, "business_key"), action.business_key, names)
    asked = [
        name for name, shape in action.arguments.items() if _is_amount(name) and not (shape and shape.from_records)
    ]
    used = _placeholders(action.business_key)
    if used is None:
        return
    if action.effect != "OBSERVE" and asked and not any(not _is_amount(name) for name in used):
        yield (
            (*at, "business_key"),
            f"an amount ({asked[0]}) would be the only identity, so that two honest wishes of equal amount look the "
            "same: name the business entity, as in {capture_id}",
        )
    for name in used:
        shape = action.arguments.get(name)
        if shape is not None and not shape.meaning:
            yield (*at, "business_key"), f"{{{name}}} carries no meaning (meaning: false), so it can't be an identity"


def _resources(at: Place, action: ActionShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    for number, reference in enumerate(action.resources):
        place = (*at, "resources", number)
        kind, colon, _ = reference.partition(":")
        if not colon:
            yield place, f"{reference!r} is no reference: write kind and name, as in window:{{business_key}}"
        else:
            yield from _undeclared(place, "resource", kind, sections["resources"])
        yield from _template(place, reference, frozenset(action.arguments) | _GIVEN | _ASKING)
    kinds = {reference.partition(":")[0] for reference in action.resources}
    for kind, quantity in action.quantities.items():
        place = (*at, "quantities", kind)
        shape = sections["resources"].get(kind)
        if kind not in kinds:
            yield place, f"the action uses no resource {kind!r}; it uses: {', '.join(sorted(kinds)) or 'none'}"
        elif isinstance(shape, ResourceShape) and shape.mode != "CAPACITY":
            yield place, f"a resource of mode {shape.mode} is taken as a whole and has no quantity"
        yield from _quantity(place, str(quantity), frozenset(action.arguments))


def _draws(at: Place, action: ActionShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    for kind, quantity in action.draws.items():
        place = (*at, "draws", kind)
        yield from _undeclared(place, "obligation", kind, sections["obligations"])
        shape = sections["obligations"].get(kind)
        if isinstance(shape, ObligationShape) and not shape.quantity:
            yield place, f"nothing is taken of a {kind}: say how much one holds, for instance quantity: 8"
        yield from _quantity(place, str(quantity), frozenset(action.arguments))


def _quantity(place: Place, quantity: str, arguments: frozenset[str]) -> Iterator[Finding]:
    names = _placeholders(quantity)
    if names == [] and not (quantity.isdecimal() and int(quantity) >= 1):
        yield place, f"{quantity!r} is no quantity: a whole number above 0, or an argument in braces, as in {{count}}"
    elif names and quantity != f"{{{names[0]}}}":
        yield place, f"{quantity!r} is no quantity: one argument in braces, and nothing beside it"
    else:
        yield from _template(place, quantity, arguments)


def _resource(at: Place, resource: ResourceShape) -> Iterator[Finding]:
    for field, value in (("capacity", resource.capacity), ("capacities", resource.capacities or None)):
        if value is not None and resource.mode != "CAPACITY":
            yield (*at, field), f"a resource of mode {resource.mode} has no capacity"
    capacities: dict[tuple[str, ...], float | None] = {("capacity",): resource.capacity}
    capacities |= {("capacities", name): capacity for name, capacity in resource.capacities.items()}
    for place, capacity in capacities.items():
        if resource.arbitrated and capacity is not None and not capacity.is_integer():
            yield (*at, *place), f"{capacity} is no whole number: count in the smallest unit, so that sums are exact"
    if resource.keeps and resource.mode != "CAPACITY":
        yield (*at, "keeps"), "only a quantity is kept by what was done; ONCE_EVER says so of a whole"
    for field in ("keeps", "lease"):
        if getattr(resource, field) and not resource.arbitrated:
            yield (*at, field), f"{field} needs arbitrated: true, for nobody else acts on it"


def _obligation(
    at: Place, obligation: ObligationShape, sections: Mapping[str, Mapping[str, Shape | None]]
) -> Iterator[Finding]:
    yield from _undeclared((*at, "release_action"), "action", obligation.release_action, sections["actions"])
    if obligation.resolution == "UNKNOWN":
        yield (*at, "resolution"), "UNKNOWN is what a release reads that does not know the class; declare a known one"
    if obligation.resolution == "RELEASABLE" and obligation.release_action is None:
        yield (*at, "release_action"), "a RELEASABLE obligation names the action that gives it back"
    if obligation.late_success == "RELEASE" and obligation.release_action is None:
        yield (*at, "late_success"), "RELEASE needs a release_action"
    if obligation.superseded_by and obligation.superseded_by not in obligation.attributes:
        yield (*at, "superseded_by"), f"{obligation.superseded_by!r} is none of its attributes"
    makers = [one for _, one in _of(sections, "actions", ActionShape) if one.obligation == at[-1]]
    for maker in makers if obligation.quantity else ():
        yield from _quantity((*at, "quantity"), str(obligation.quantity), frozenset(maker.arguments))
    if obligation.draws != "RETURNED" and not obligation.quantity:
        yield (*at, "draws"), "nothing is taken of what holds no quantity: say that first, for instance quantity: 8"
    for number, earlier in enumerate(obligation.migrates):
        if earlier >= obligation.version:
            yield (*at, "migrates", number), f"an earlier version goes on by this one, and {earlier} is none"
    for number, kind in enumerate(obligation.transfer_evidence):
        if not NAME.fullmatch(kind):
            yield (*at, "transfer_evidence", number), "a kind of evidence has letters, digits, dots and dashes"
    if obligation.resolution == "EXPIRING" and obligation.valid is None:
        yield (*at, "valid"), "an EXPIRING obligation says how long it lasts, for instance valid: 7d"
    if obligation.grace and obligation.due is None:
        yield (*at, "grace"), "grace counts from when it is due, so say that first, for instance due: 24h"
    if _placeholders(obligation.condition) is None:
        yield (*at, "condition"), f"{obligation.condition!r} is no template: write names of arguments in braces"


def _makes(at: Place, action: ActionShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    """What an action must have because of the obligation that it makes: the harder to undo, the stronger the yes."""
    made = sections["obligations"].get(action.obligation or "")
    if not isinstance(made, ObligationShape):
        return
    if made.resolution == "IRREVERSIBLE" and action.approval == "NONE":
        yield (
            (*at, "approval"),
            f"it makes the obligation {action.obligation}, which is IRREVERSIBLE: say whose yes it needs (ANY, "
            "MAKER_CHECKER or N_OF_M)",
        )
    mitigation = made.release_action or action.compensation
    second = sections["actions"].get(mitigation or "")
    if made.resolution == "IRREVERSIBLE" and isinstance(second, ActionShape) and second.approval == "NONE":
        yield (
            (*at, "obligation"),
            f"{mitigation} answers for the obligation {action.obligation}, which is IRREVERSIBLE: say in {mitigation} "
            "whose yes it needs",
        )
    if made.resolution == "COMPENSATABLE" and made.release_action is None and action.compensation is None:
        yield (
            (*at, "compensation"),
            f"it makes the obligation {action.obligation}, which is COMPENSATABLE: name what mitigates it, here or as "
            "the obligation's release_action",
        )
    for name in _placeholders(made.condition) or ():
        if name not in frozenset(action.arguments) | {"business_key"}:
            yield (
                (*at, "obligation"),
                f"{action.obligation} waits for {made.condition}, and {{{name}}} is no declared argument here",
            )


def _principal(
    at: Place, principal: PrincipalShape, sections: Mapping[str, Mapping[str, Shape | None]]
) -> Iterator[Finding]:
    if principal.role == "GATE":
        yield (*at, "role"), "the gate is no principal: nobody else may speak for it"
    for number, name in enumerate(principal.actions):
        yield from _undeclared((*at, "actions", number), "action", name, sections["actions"])
    known = dict.fromkeys(("intent", *sections["owners"]))
    for number, owner in enumerate(principal.owners if sections["owners"] else ()):
        yield from _undeclared((*at, "owners", number), "kind of owner", owner.partition(":")[0], known)


def _owner(at: Place, owner: OwnerShape) -> Iterator[Finding]:
    if at[-1] == "worker" and owner.durable:
        yield (*at, "durable"), "a worker is a process: it serves what others own, so it is not durable"
    if at[-1] == "intent" and (owner.external or not owner.durable):
        yield at, "an intent is durable, and what it takes over stays on our books"
    if owner.external and not owner.durable:
        yield (*at, "external"), "what leaves our books goes to an owner that is durable"


def _policy(at: Place, policy: PolicyShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    owners = sections["owners"]
    for number, kind in enumerate(policy.owners):
        place = (*at, "owners", number)
        owner = owners.get(kind)
        if owners and kind != "intent":
            yield from _undeclared(place, "kind of owner", kind, owners)
        if kind == "worker" or (isinstance(owner, OwnerShape) and (owner.external or not owner.durable)):
            yield place, f"nothing can be assigned to the kind {kind}: it is not durable, or outside our books"
    for number, name in enumerate(policy.obligations):
        yield from _undeclared((*at, "obligations", number), "obligation", name, sections["obligations"])


def _limits(limits: Mapping[str, LimitShape], sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    for name, limit in limits.items():
        at: Place = ("limits", name)
        other = seen.setdefault((limit.of, limit.only), name)
        if other != name:
            yield at, f"{other} limits the same already: one limit for each intent, principal or tenant"
        if limit.debt is None and limit.doubts is None and limit.reviews is None:
            yield at, "it limits nothing: give debt, doubts or reviews"
        if limit.age is not None and limit.debt is None:
            yield (*at, "age"), "age weighs obligations, so say how much debt there may be"
        if limit.of == "PRINCIPAL" and limit.only and sections["principals"]:
            yield from _undeclared((*at, "only"), "principal", limit.only, sections["principals"])


def _objective(
    at: Place, objective: ObjectiveShape, sections: Mapping[str, Mapping[str, Shape | None]]
) -> Iterator[Finding]:
    if objective.within not in LATENCY_BOUNDS_MS:
        near = min(LATENCY_BOUNDS_MS, key=lambda bound: abs(bound - objective.within))
        yield (
            (*at, "within"),
            f"latencies are counted between fixed bounds, and {objective.within} ms is none of them; the nearest is "
            f"{near} ms",
        )
    if objective.window % _DAY_MS:
        yield (*at, "window"), "latencies are counted by the day, so a window is whole days, such as 30d"
    yield from _undeclared((*at, "obligation"), "obligation", objective.obligation, sections["obligations"])
    if objective.obligation is not None and objective.measure == "DETECTION":
        yield (*at, "obligation"), "DETECTION is of effects, whatever obligation they belong to"
