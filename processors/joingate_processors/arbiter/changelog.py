"""The room for the arbiter's changelog: the latest row of each holding, and a marker that says what they are rows of.

Both are written in the transaction of the decisions that they follow from, so that whoever reads committed records sees
all of it or nothing. The ledger stays the only truth: rows are believed only where their number is right and the ledger
has, in its place, the very record that the marker names.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from joingate_processors.arbiter.state import ArbiterHeader, ArbiterState, HoldKey, Row
from joingate_processors.gate.logs import Logs, Place
from joingate_schemas.arbitration import Hold

MARKER_KEY = b"\x00marker"
LAYOUT = hashlib.sha256(repr([1, Row._fields, sorted(Hold.__annotations__)]).encode()).hexdigest()[:16]
"""How rows are laid out by this release."""


@dataclass(frozen=True)
class Marker:
    """What the rows are rows of: `count` of them, after the ledger's record that `header` tells of.

    `ledger_offset`: where the ledger is to be read on, at or before that record.
    """

    header: ArbiterHeader
    gates: dict[int, int]
    count: int
    ledger_offset: int

    def to_bytes(self) -> bytes:
        """As it is written."""
        header = self.header
        return orjson.dumps({
            "layout": LAYOUT, "count": self.count, "ledger_offset": self.ledger_offset, "seq": header.seq,
            "epoch": header.epoch, "previous": header.previous.hex(), "decided_at": header.decided_at,
            "next_offset": header.next_offset, "gates": sorted(self.gates.items()),
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Marker | None":
        """As it was written; None: by a release that lays rows out otherwise."""
        form = orjson.loads(raw)
        if form["layout"] != LAYOUT:
            return None
        header = ArbiterHeader(
            seq=form["seq"], epoch=form["epoch"], previous=bytes.fromhex(form["previous"]),
            decided_at=form["decided_at"], next_offset=form["next_offset"],
        )  # fmt: skip
        return cls(header, dict(form["gates"]), form["count"], form["ledger_offset"])


@dataclass(frozen=True)
class Snapshot:
    """What the changelog holds: every row by its key, and the state that they make, if they can be believed so far."""

    keys: frozenset[bytes]
    marker: Marker | None
    state: ArbiterState
    stale: str
    """Why they can't be believed; empty if they can, or if there are none."""


def row_key(key: HoldKey) -> bytes:
    """The key under which a row is written."""
    return orjson.dumps(key)


def row_bytes(row: Row | None) -> bytes | None:
    """A row as it is written; None deletes it."""
    return None if row is None else orjson.dumps(tuple(row))


def changes(state: ArbiterState, keys: Iterable[HoldKey]) -> Iterable[tuple[bytes, bytes | None]]:
    """What is written of these keys' rows."""
    return ((row_key(key), row_bytes(state.row(key))) for key in keys)


def read_changelog(logs: Logs, place: Place) -> Snapshot:
    """Read it to its end. Raises what `Logs.read` does."""
    found: dict[bytes, bytes] = {}
    for chunk in logs.read(place, logs.starts([place])[place]):
        for message in chunk:
            key, value = message.key() or b"", message.value()
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
    raw = found.pop(MARKER_KEY, None)
    keys = frozenset(found)
    if raw is None:
        return Snapshot(keys, None, ArbiterState(), "its marker is not there" if found else "")
    marker = Marker.from_bytes(raw)
    if marker is None:
        return Snapshot(keys, None, ArbiterState(), "another release laid its rows out")
    if marker.count != len(found):
        return Snapshot(keys, marker, ArbiterState(), f"it has {len(found)} rows, and had {marker.count}")
    rows = {_key_of(key): Row(*orjson.loads(value)) for key, value in found.items()}
    return Snapshot(keys, marker, ArbiterState.of_rows(marker.header, marker.gates, rows), "")


def _key_of(key: bytes) -> HoldKey:
    resource_ref, operation_id = orjson.loads(key)
    return resource_ref, operation_id
