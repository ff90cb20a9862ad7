"""The room for the changelog: the state's rows on a compacted topic, from which a gate elsewhere can restore them.

Each transaction writes the rows that it changed and one marker, which says how far the ledger then was. Keys carry the
layout of the rows, so that no release reads the rows of another. Markers share one key and are numbered: compaction
keeps the latest of what it cleaned and everything after it, so that two markers in a row always differ by one.

Rows that are written once and never again, one a claim, travel in packs: a record each would be most of the topic.
A pack is never changed, so it keeps the rows of what was archived since. Restoring leaves them out by the rows of the
archived intents, which are always there, where a deletion's record would not be for ever; rewriting drops the packs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from struct import Struct
from typing import Final

import orjson

from joingate_processors.gate.logs import Halted
from joingate_processors.gate.store import Position, state_layout
from joingate_processors.gate.tables import Change

MARKER_KEY: Final = b"marker"
CANARY_KEY: Final = b"canary"
"""The key of a record that is only ever aborted: a broker or client which shows it can't be trusted with the rest."""
PACK_TAG: Final = b"\x02"
_LAYOUT_BYTES: Final = 4
_SIZES: Final = Struct(">II")
FORGOTTEN_MIN = 100_000
"""Fewer deleted rows than this in packs are not worth a rewriting of the changelog."""
_PACK_ROWS: Final = 1_000  # of at most some 2 kB each, since ids are bounded


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of one transaction: the ledger records `first_seq` to `position.seq` are in it (none if first is higher).

    `complete` is false within a rewriting of the whole changelog: what was read so far is not a state. Since the last
    rewriting, some `packed` rows went into packs, and `forgotten` of those that lie in packs were deleted.
    """

    position: Position
    first_seq: int
    complete: bool = True
    packed: int = 0
    forgotten: int = 0

    def to_bytes(self) -> bytes:
        """Itself as JSON."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, value: bytes) -> "Marker":
        """The marker that `to_bytes` wrote. Raises ValueError, KeyError or TypeError if it is none."""
        read = orjson.loads(value)
        counts = read.get("packed", 0), read.get("forgotten", 0)  # earlier releases deleted nothing
        return cls(Position(**read["position"]), read["first_seq"], read["complete"], *counts)

    @property
    def wastes(self) -> bool:
        """Whether most of what lies in packs was deleted, so that rewriting them pays."""
        return self.forgotten >= FORGOTTEN_MIN and 2 * self.forgotten > self.packed


def row_prefix(layout: str | None = None) -> bytes:
    """What the keys of rows of this layout begin with; by default of our own."""
    return bytes.fromhex((layout or state_layout())[: 2 * _LAYOUT_BYTES])


class ChangelogReader:
    """Takes the changelog's records in order and gives back rows. `trouble` says what is wrong with it, if anything."""

    def __init__(self) -> None:
        self._prefix = row_prefix()
        self.marker: Marker | None = None
        self.marker_offset = 0
        self.trouble = ""

    def take(self, key: bytes | None, value: bytes | None, offset: int) -> list[Change]:
        """The rows that a record holds, by their keys in the store; none for markers and rows of other layouts."""
        if key == MARKER_KEY:
            self._take_marker(value, offset)
            return []
        if key == CANARY_KEY:
            raise Halted(
                "This broker, or this client, shows records of aborted transactions to readers of committed ones: a "
                "record that the gate wrote and aborted on the changelog was read back. Nothing decided here would "
                "hold; use Apache Kafka itself and a released confluent-kafka."
            )
        if key is None or not key.startswith(self._prefix):
            return []
        if key.startswith(PACK_TAG, _LAYOUT_BYTES):
            return unpacked(value or b"")
        return [(key[_LAYOUT_BYTES:], value)]

    def _take_marker(self, value: bytes | None, offset: int) -> None:
        try:
            marker = Marker.from_bytes(value or b"")
        except (ValueError, KeyError, TypeError) as error:
            self.trouble = f"a changelog marker can't be read ({error})"
            return
        if self.marker is not None and marker.position.marker != self.marker.position.marker + 1:
            self.trouble = (
                f"the changelog goes from marker {self.marker.position.marker} to {marker.position.marker}, so a "
                "transaction is missing"
            )
        self.marker, self.marker_offset = marker, offset

    def position(self) -> Position | None:
        """How far the rows that were read go, if they add up to a state of ours; else None, and `trouble` says why."""
        if self.marker is None:
            self.trouble = self.trouble or "the changelog is empty"
        elif not self.marker.complete:
            self.trouble = self.trouble or "the changelog was being rewritten and is not complete"
        elif self.marker.position.layout != state_layout():
            self.trouble = self.trouble or "the changelog was written by a release with other rows"
        if self.trouble or self.marker is None:
            return None
        return replace(self.marker.position, changelog_offset=self.marker_offset)


def pack_key(marker: int, part: int) -> bytes:
    """The key of the `part`-th pack of the transaction that ends with this marker; no other pack has it."""
    return row_prefix() + PACK_TAG + marker.to_bytes(8, "big") + part.to_bytes(4, "big")


def packed(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The rows, as the values of as few records as keep well below what a topic takes."""
    rest = iter(rows)
    sizes = _SIZES.pack
    while chunk := list(islice(rest, _PACK_ROWS)):
        yield b"".join([part for key, value in chunk for part in (sizes(len(key), len(value)), key, value)])


def unpacked(pack: bytes) -> list[Change]:
    """The rows that `packed` put together."""
    found: list[Change] = []
    at = 0
    while at < len(pack):
        key_size, value_size = _SIZES.unpack_from(pack, at)
        key_end = at + _SIZES.size + key_size
        at, start = key_end + value_size, at + _SIZES.size
        found.append((pack[start:key_end], pack[key_end:at]))
    return found


def left_over(key: bytes, held: Callable[[bytes], bool]) -> bool:
    """Whether rewriting the changelog must delete this key; `held` says whether the store has a row of it."""
    if key in (MARKER_KEY, CANARY_KEY):
        return False
    if key.startswith(row_prefix() + PACK_TAG):
        return True  # a rewriting packs everything anew
    return not (key.startswith(row_prefix()) and held(key[_LAYOUT_BYTES:]))
