"""What differs between two declarations of one thing, in words: a field's name, what it was, and what it becomes."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TypeVar

from joingate_processors.upgrade.report import Concern
from joingate_schemas.catalogue import Action, Downstream, ObligationType, Resource

Declared = TypeVar("Declared", ObligationType, Action, Downstream, Resource)

# What proves that an obligation has ended, or that it is there at all: to change it is to change what the states mean.
_EVIDENCE = {
    "resolution": "how one may end", "observed": "what ACTIVE and RELEASED demand",
    "satisfied_evidence": "what SATISFIED demands", "transfer_evidence": "what TRANSFERRED demands",
}  # fmt: skip
# Nothing open is decided by these: they are for people, or for what is asked for anew.
_OF_NO_EFFECT = frozenset(
    {"name", "version", "idle_cost", "cost", "business_key", "human_gate", "escalation", "lookup_backoff_ms"}
)


def changed_fields(before: Declared, after: Declared) -> list[str]:
    """The names of the fields that differ and that decide what is open."""
    names = (one.name for one in fields(before) if one.name not in _OF_NO_EFFECT)
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def told(before: Declared, after: Declared, names: Iterable[str]) -> str:
    """The changes of these fields, as `field: from → to`."""
    return ", ".join(f"{name}: {_said(getattr(before, name))} → {_said(getattr(after, name))}" for name in names)


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(str(getattr(one, 'name', one)) for one in value)}]"
    return "none" if value is None or value == "" else str(value)


def type_changes(before: ObligationType, after: ObligationType) -> list[Concern]:
    """What it means for an open commitment that its type is declared otherwise under the same version."""
    names = changed_fields(before, after)
    advice = f"raise the version of {before.name}: what is open then keeps the rules that it was made under"
    found = []
    meaning = [name for name in names if name in _EVIDENCE]
    if meaning:
        what = " and ".join(_EVIDENCE[name] for name in meaning)
        found.append(Concern("CHANGES", f"{what} changes ({told(before, after, meaning)})", advice))
    # What gives it back is told by the comparison of the ways.
    other = [name for name in names if name not in _EVIDENCE and name != "release_action"]
    if other:
        found.append(Concern("CHANGES", f"the type {before.name} changes ({told(before, after, other)})", advice))
    return found


def changes(before: Declared, after: Declared, what: str, advice: str) -> list[Concern]:
    """What it means that `what` is declared otherwise: nothing where no field that counts differs."""
    names = changed_fields(before, after)
    return [Concern("CHANGES", f"{what} changes ({told(before, after, names)})", advice)] if names else []
