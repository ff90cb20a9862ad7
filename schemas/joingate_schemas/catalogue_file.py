"""The room where a catalogue comes in: from a file of a person's, with every mistake named; from its canonical JSON.

A file is YAML (or JSON, which YAML contains). The canonical form is JSON with sorted keys: its SHA-256 is the
catalogue's digest, it is what travels in CatalogueChanged, and reading it back gives the equal catalogue.
"""

import dataclasses
import difflib
import hashlib
import json
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from joingate_schemas.catalogue import (
    Action,
    Argument,
    AssignmentPolicy,
    Catalogue,
    Downstream,
    Limit,
    Objective,
    ObligationType,
    OwnerKind,
    Principal,
    Resource,
)
from joingate_schemas.catalogue_approvals import lint_approvals
from joingate_schemas.catalogue_keys import lint_keys
from joingate_schemas.catalogue_lint import Place, lint
from joingate_schemas.catalogue_shape import IN_MS, SECTIONS, ActionShape, ObligationShape, Shape, TopShape

FILE_BYTES_MAX = 200_000  # A catalogue travels in one claim, so that it must fit into one.
_TOP = ("version", *IN_MS[TopShape].values(), "silent_attempts_max", "signatures")
_NODES_MAX = 100_000
_DEPTH_MAX = 20
_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One mistake: the file, the line (from 1), the field (as in actions.refund.silence) and what is wrong with it."""

    file: str
    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field + ': ' if self.field else ''}{self.text}"


class CatalogueError(ValueError):
    """A catalogue that does not load: all its `mistakes`, one a line of the text."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.field, mistake.text)))
        super().__init__("\n".join(map(str, self.mistakes)))


# --- text to plain values, with lines --------------------------------------------------------------------------------


class _Tree:
    """A YAML document as plain values, with the line on which each began and what was wrong on the way."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.lines: dict[Place, int] = {(): 1}
        self.value: Any = None
        self._nodes = 0
        try:
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            if node is not None:
                self.value = self._plain(loader, node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            self.mistakes.append(Mistake(file, mark.line + 1 if mark else 1, "", f"this is no YAML: {error.problem}"))
        except (yaml.YAMLError, ValueError) as error:
            self.mistakes.append(Mistake(file, 1, "", f"this is no YAML: {error}"))
        except RecursionError:
            self.mistakes.append(Mistake(file, 1, "", "its values are nested too deeply to be read"))

    def line(self, place: Place) -> int:
        """The line of `place`, or of the nearest thing around it that is in the file."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]

    def add(self, place: Place, text: str) -> None:
        """Note a mistake at `place`."""
        self.mistakes.append(Mistake(self.file, self.line(place), ".".join(map(str, place)), text))

    def _plain(self, loader: yaml.SafeLoader, node: yaml.Node, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        # Aliases let a short text stand for a huge tree, or for one that contains itself.
        self._nodes += 1
        if self._nodes > _NODES_MAX or len(place) > _DEPTH_MAX:
            raise ValueError("it holds too many values, or values nested too deeply")
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
            raise ValueError(f"the tag {node.tag} has no meaning here")
        if isinstance(node, yaml.MappingNode):
            self._twice(node, place)
            loader.flatten_mapping(node)
            return {key: self._plain(loader, item, (*place, key)) for key, item in self._keys(loader, node, place)}
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(loader, item, (*place, number)) for number, item in enumerate(node.value)]
        return loader.construct_object(node)

    def _keys(self, loader: yaml.SafeLoader, node: yaml.MappingNode, place: Place) -> list[tuple[str, yaml.Node]]:
        found = []
        for key_node, item in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self.lines.setdefault((*place, str(key)), key_node.start_mark.line + 1)
                self.add((*place, str(key)), "a key is text: put it in quotes")
                continue
            self.lines[(*place, key)] = key_node.start_mark.line + 1
            found.append((key, item))
        return found

    def _twice(self, node: yaml.MappingNode, place: Place) -> None:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                where = (*place, str(key_node.value))
                line = key_node.start_mark.line + 1
                self.mistakes.append(Mistake(self.file, line, ".".join(map(str, where)), "it is here twice"))
            if isinstance(key_node.value, str):
                seen.add(key_node.value)


# --- plain values to entries -----------------------------------------------------------------------------------------


def _sentence(error: ErrorDetails, shape: type[Shape]) -> str:
    """What pydantic found, in a sentence that says what is allowed."""
    match error["type"]:
        case "extra_forbidden":
            key = str(error["loc"][-1])
            known = _fields_at(shape, error["loc"][:-1])
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            return f"there is no such field; {hint}allowed are: {', '.join(known)}"
        case "missing":
            return "this field must be given"
        case "literal_error":
            return f"{error['input']!r} is not allowed; allowed are: {error['ctx']['expected'].replace(' or ', ', ')}"
        case "value_error":
            return f"{error['input']!r} is not allowed: {error['ctx']['error']}"
        case _:
            return f"{error['input']!r} is not allowed: {error['msg'][0].lower()}{error['msg'][1:]}"


def _fields_at(shape: type[Shape], place: Place) -> list[str]:
    """The fields that may stand at `place` within an entry: those of an argument, or of the entry itself."""
    if place and shape is ActionShape:
        return ["meaning", "from_records"]
    return [*shape.model_fields, *(SECTIONS if shape is TopShape else ())]


def _checked(tree: _Tree, shape: type[Shape], value: Any, place: Place) -> Shape | None:
    """The entry at `place`; its mistakes are noted. None where they leave nothing that more rules can be held to."""
    if not isinstance(value, dict):
        tree.add(place, f"here belongs a mapping with some of: {', '.join(shape.model_fields)}")
        return None
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        for found in error.errors():
            # Pydantic names the branch of a union within its path; no key of a file holds such names.
            inner = tuple(part for part in found["loc"] if part in _parts(value))
            if found["type"] == "missing":
                inner = (*inner, found["loc"][-1])
            tree.add((*place, *inner), _sentence(found, shape))
        # Durations and unknown fields are nobody's concern but their own: without them the other rules can go on.
        wrong = {found["loc"][0] for found in error.errors()}
        unruled = {*IN_MS.get(shape, {}), *(key for key in value if key not in shape.model_fields)} - {"key_horizon"}
        if not wrong <= unruled:
            return None
        return shape.model_validate({key: item for key, item in value.items() if key not in wrong})


def _parts(value: Any) -> set[str | int]:
    """Every key and index within a value."""
    if isinstance(value, dict):
        return {*value, *(part for item in value.values() for part in _parts(item))}
    if isinstance(value, list):
        return {*range(len(value)), *(part for item in value for part in _parts(item))}
    return set()


def _in_ms(shape: Shape) -> dict[str, Any]:
    """The entry's fields under their names in `catalogue`."""
    names = IN_MS.get(type(shape), {})
    return {names.get(key, key): value for key, value in shape.model_dump().items()}


def _canonical_entry(name: str, shape: Shape) -> dict[str, Any]:
    fields = _in_ms(shape)
    if isinstance(shape, ActionShape):
        fields["executor"] = shape.executor or shape.downstream
        fields["quantities"] = {kind: str(quantity) for kind, quantity in shape.quantities.items()}
        fields["draws"] = {kind: str(quantity) for kind, quantity in shape.draws.items()}
        fields["arguments"] = [
            {"name": key, **(argument or {"meaning": True, "from_records": False})}
            for key, argument in fields["arguments"].items()
        ]
    if isinstance(shape, ObligationShape):
        fields["quantity"] = str(shape.quantity)
    return fields


# --- the public face -------------------------------------------------------------------------------------------------


def catalogue_from_text(text: str, file: str = "<text>") -> Catalogue:
    """The catalogue that `text` declares; `file` is what mistakes call it. Raises CatalogueError with all of them."""
    if len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        raise CatalogueError([Mistake(file, 1, "", f"a catalogue has at most {FILE_BYTES_MAX} bytes")])
    tree = _Tree(file, text)
    whole = tree.value if isinstance(tree.value, dict) else {}
    if not isinstance(tree.value, dict) and not tree.mistakes:
        tree.add((), f"here belongs a mapping with version and the sections {', '.join(SECTIONS)}")
    if tree.mistakes and not whole:
        raise CatalogueError(tree.mistakes)
    top = _checked(tree, TopShape, {key: value for key, value in whole.items() if key not in SECTIONS}, ())
    sections: dict[str, dict[str, Shape | None]] = {}
    for section, shape in SECTIONS.items():
        entries = whole.get(section)
        if entries is not None and not isinstance(entries, dict):
            tree.add((section,), "here belongs a mapping from names to entries")
        plain = entries if isinstance(entries, dict) else {}
        sections[section] = {name: _checked(tree, shape, entry, (section, name)) for name, entry in plain.items()}
    for section in ("downstreams", "actions"):
        if section not in whole:
            tree.add((section,), "this section must be given")
    said = top if isinstance(top, TopShape) else TopShape(version="?")
    for place, wrong in (
        *lint(sections), *lint_keys(sections, said.signatures == "REQUIRED"), *lint_approvals(sections, said),
    ):  # fmt: skip
        tree.add(place, wrong)
    if tree.mistakes or top is None:
        raise CatalogueError(tree.mistakes)
    form = {
        **_in_ms(top),
        **{
            section: {name: _canonical_entry(name, entry) for name, entry in entries.items() if entry is not None}
            for section, entries in sections.items()
        },
    }
    # Sorted and without spaces, so that the order in which a file lists things does not change its digest.
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return catalogue_from_json(text.encode())


def load_catalogue(path: Path) -> Catalogue:
    """The catalogue in the file at `path`. Raises CatalogueError, also when the file can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogueError([Mistake(str(path), 1, "", f"the file can't be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise CatalogueError([Mistake(str(path), 1, "", f"the file is not UTF-8: {error}")]) from error
    return catalogue_from_text(text, str(path))


@cache
def builtin_catalogue() -> Catalogue:
    """The catalogue that ships with the package, of the bundled scenarios and of traces that name none."""
    return catalogue_from_text((files("joingate_schemas") / "builtin.yaml").read_text(encoding="utf-8"), "builtin.yaml")


@lru_cache(maxsize=64)
def catalogue_from_json(source: bytes) -> Catalogue:
    """The catalogue of this canonical JSON, as it travels and is replayed. Raises CatalogueError.

    The file was checked when it was loaded, so this only rebuilds: what an older release left out takes its default,
    what a newer one added is dropped.
    """
    try:
        form = json.loads(source)
        return Catalogue(
            digest=hashlib.sha256(source).hexdigest(),
            source=source,
            downstreams={name: _made(Downstream, name, entry) for name, entry in form["downstreams"].items()},
            actions={name: _made(Action, name, entry) for name, entry in form["actions"].items()},
            obligations={name: _made(ObligationType, name, entry) for name, entry in form["obligations"].items()},
            resources={name: _made(Resource, name, entry) for name, entry in form["resources"].items()},
            principals={name: _made(Principal, name, entry) for name, entry in form["principals"].items()},
            objectives={name: _made(Objective, name, entry) for name, entry in form.get("objectives", {}).items()},
            # Catalogues of the first release have no such sections.
            owners={name: _made(OwnerKind, name, entry) for name, entry in form.get("owners", {}).items()},
            policies={name: _made(AssignmentPolicy, name, entry) for name, entry in form.get("policies", {}).items()},
            limits={name: _made(Limit, name, entry) for name, entry in form.get("limits", {}).items()},
            **{key: form[key] for key in _TOP if key in form},
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        wrong = f"this is no catalogue in canonical JSON ({error!r})"
        raise CatalogueError([Mistake("<canonical JSON>", 1, "", wrong)]) from error


@lru_cache(maxsize=256)
def obligation_from_json(name: str, source: str) -> ObligationType:
    """The obligation type called `name` whose entry in a catalogue's canonical JSON is `source`."""
    made: ObligationType = _made(ObligationType, name, json.loads(source))
    return made


def _made(cls: Any, name: str, entry: dict[str, Any]) -> Any:
    """The frozen entry called `name`; lists become tuples, for a catalogue never changes."""
    known = {field.name for field in dataclasses.fields(cls)}
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key in known}
    if cls is Action:
        plain["arguments"] = tuple(_made(Argument, argument["name"], argument) for argument in entry["arguments"])
    plain["kind" if cls is Resource else "name"] = name
    return cls(**plain)
