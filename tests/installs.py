"""What the base install and the extras bring, read from pyproject.toml and from what is installed here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
_OURS = canonicalize_name(_PROJECT["name"])
_TOOLS = "dev"

BASE: tuple[str, ...] = tuple(_PROJECT["dependencies"])
"""What the base install asks for."""
EXTRAS: tuple[str, ...] = tuple(
    asked for name, extra in _PROJECT["optional-dependencies"].items() if name != _TOOLS for asked in extra
)
"""What the extras ask for, those of developers left out."""


@cache
def _closure(asked: tuple[str, ...]) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    todo = [(Requirement(one), "") for one in asked]
    done: set[tuple[str, str]] = set()
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        fits = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if name == _OURS or not fits:
            continue
        found[name] = distribution(name)
        for wanted in {"", *requirement.extras} - {one for of, one in done if of == name}:
            done.add((name, wanted))
            todo += [(Requirement(one), wanted) for one in found[name].requires or ()]
    return found


def distributions(asked: Iterable[str]) -> list[Distribution]:
    """The installed distributions that these requirements bring, those below them too."""
    return list(_closure(tuple(asked)).values())


def import_names(asked: Iterable[str]) -> set[str]:
    """The names by which what these requirements bring is imported."""
    brought = _closure(tuple(asked)).keys()
    return {
        name
        for name, whose in packages_distributions().items()
        if any(canonicalize_name(one) in brought for one in whose)
    }
