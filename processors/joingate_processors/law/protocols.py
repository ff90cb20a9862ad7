"""The room for what is open under former declarations: each version of an obligation type that this ledger has known.

A commitment pins the version of its type that it was made under (model §8). While the catalogue in force declares that
version, it is the catalogue's word that counts, so that deadlines can be corrected for what is open too. Once the
version is another, or the type is gone, what was last loaded under the pinned version goes on ruling the commitment. It
is ruled by another version only where the catalogue in force says that this one migrates it; that this catalogue came
into force is the fact which says so.
"""

import json
from functools import lru_cache
from typing import Any

from joingate_processors.law.state import State
from joingate_schemas.catalogue import Catalogue, ObligationType
from joingate_schemas.catalogue_file import CatalogueError, catalogue_from_json, obligation_from_json


def protocol_key(name: str, version: int) -> str:
    """The key under which a version of an obligation type is remembered."""
    return f"{name}\x1f{version}"


def remember(state: State, catalogue: str) -> None:
    """Keep what a catalogue, as canonical JSON, says of its obligation types, each under its version."""
    for name, entry in _obligations(catalogue).items():
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        state.protocols.put(protocol_key(name, entry.get("version", 1)), text)


def _obligations(catalogue: str) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(catalogue).get("obligations", {})
    except (ValueError, AttributeError):
        return {}  # no gate loads such a one, and folding a fact never refuses
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}


def protocol_of(state: State, catalogue: Catalogue, name: str, version: int) -> ObligationType | None:
    """What rules a commitment of this type and version under `catalogue`; None if neither it nor the ledger knows."""
    declared = catalogue.obligations.get(name)
    if declared is not None and version in (declared.version, *declared.migrates):
        return declared
    remembered = state.protocols.get(protocol_key(name, version))
    return declared if remembered is None else obligation_from_json(name, remembered)


def catalogue_of(state: State, digest: str) -> Catalogue | None:
    """A catalogue that was in force here; None if this ledger never loaded one of that digest."""
    text = state.catalogues.get(digest)
    return None if text is None else declared_by(text)


@lru_cache(maxsize=64)
def declared_by(text: str) -> Catalogue | None:
    """The catalogue of this canonical JSON; None if it is none that a release could read."""
    try:
        return catalogue_from_json(text.encode())
    except CatalogueError:
        return None  # what no release can read pins nothing
