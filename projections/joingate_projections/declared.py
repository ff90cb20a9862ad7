"""The catalogue in force where something was decided, as the read side has it: from the ledger, not from a file."""

from typing import Any

from joingate_projections.store import View
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import CatalogueError, catalogue_from_json


def catalogue_on(view: View, partition: int) -> Catalogue | None:
    """The catalogue in force on a partition; None: the ledger holds none there, or one that this release can't read."""
    row = view.get("catalogues", f"{partition:05d}")
    source = view.get("catalogue_sources", row["digest"]) if row is not None else None
    if source is None:
        return None
    try:
        return catalogue_from_json(source["json"].encode())
    except CatalogueError:
        return None  # The gate had read it, so a newer release wrote it; whoever asks is told that none is known.


def latest_catalogue(view: View) -> Catalogue | None:
    """The catalogue that came into force last, on whichever partition; None: none is known."""
    rows = [row for _, row in view.rows("catalogues")]
    newest = max(rows, key=lambda row: (row["created_at"], row["partition"]), default=None)
    return catalogue_on(view, newest["partition"]) if newest is not None else None


def signatures_of(catalogue: Catalogue | None) -> dict[str, Any]:
    """How who speaks is known: the principals declared, whose claims must be signed, and a sentence if nobody's."""
    if catalogue is None:
        return {"principals": 0, "asked": "UNKNOWN", "sentence": ""}
    asked = catalogue.signatures if catalogue.principals else "NONE"
    sentence = ""
    if asked == "NONE":
        sentence = (
            "No claim has to be signed, approvals and overrides neither: whoever can write to a topic is believed to "
            "be who it says. Declare principals in the catalogue (docs/principals.md)."
        )
    return {"principals": len(catalogue.principals), "asked": asked, "sentence": sentence}
