"""The room for rules about principals' keys: whose claims could be verified, and who may let others speak.

Beside `catalogue_lint`, which has the rules about everything else; each yields what is wrong and where.
"""

from collections.abc import Iterator, Mapping

from joingate_schemas.catalogue_lint import Finding, Place
from joingate_schemas.catalogue_shape import ActionShape, PrincipalShape, Shape

_ALWAYS_SIGN = frozenset({"APPROVER", "OPERATOR"})


def lint_keys(sections: Mapping[str, Mapping[str, Shape | None]], signed: bool) -> Iterator[Finding]:
    """Every breach of a rule about keys among the principals. `signed`: every claim must be signed."""
    principals = {name: one for name, one in sections["principals"].items() if isinstance(one, PrincipalShape)}
    holders: dict[str, str] = {}
    for name, one in principals.items():
        at: Place = ("principals", name)
        for number, key in enumerate(one.keys):
            other = holders.setdefault(key, name)
            if other != name or one.keys.index(key) != number:
                yield (*at, "keys", number), f"this key is {other}'s already: a key speaks for one principal"
        yield from _vouching(at, one, principals)
        if one.registrar and one.role != "OPERATOR":
            yield (*at, "registrar"), "only an OPERATOR registers keys, since that is who may write to `overrides`"
        if one.registrar and one.tenant:
            yield (*at, "registrar"), "keys concern every tenant, so who registers them belongs to none"
        yield from _amounts(at, one, sections)
    yield from _rootless(principals, signed)


def _vouching(at: Place, one: PrincipalShape, principals: Mapping[str, PrincipalShape]) -> Iterator[Finding]:
    for number, name in enumerate(one.vouches_for):
        place = (*at, "vouches_for", number)
        other = principals.get(name)
        if other is None:
            known = ", ".join(sorted(principals)) or "none"
            yield place, f"no principal is called {name!r}; declared are: {known}"
        elif other.role != one.role:
            yield place, f"it speaks as {one.role}, so it can't vouch for {name}, who speaks as {other.role}"
        elif one.tenant and other.tenant != one.tenant:
            yield place, f"it belongs to the tenant {one.tenant}, and {name} does not"


def _amounts(at: Place, one: PrincipalShape, sections: Mapping[str, Mapping[str, Shape | None]]) -> Iterator[Finding]:
    actions = [action for action in sections["actions"].values() if isinstance(action, ActionShape)]
    known = {argument for action in actions for argument in action.arguments}
    anything = any(not action.arguments for action in actions)
    for name in one.amounts_max:
        if name not in known and not anything:
            yield (*at, "amounts_max", name), "no action declares such an argument, so this limits nothing"


def _rootless(principals: Mapping[str, PrincipalShape], signed: bool) -> Iterator[Finding]:
    """Who must sign has a key here, or somebody with a key can register one."""
    if any(one.registrar and one.keys for one in principals.values()):
        return
    vouched = {name for one in principals.values() if one.keys for name in one.vouches_for}
    for name, one in principals.items():
        if (signed or one.role in _ALWAYS_SIGN) and not one.keys and name not in vouched:
            yield (
                ("principals", name, "keys"),
                f"what {name} says has to be signed, and nobody could register a key for it: give it one here, or "
                "declare an OPERATOR with `registrar: true` and a key",
            )
