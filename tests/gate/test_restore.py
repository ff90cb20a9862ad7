"""The way back to where the ledger ends: from the store, the changelog, or the ledger alone, and never wrongly."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.gate.changelog import CANARY_KEY, MARKER_KEY, Marker, pack_key, packed, row_prefix, unpacked
from joingate_processors.gate.logs import Halted
from joingate_processors.gate.restore import Restore, Restored
from joingate_processors.gate.store import Position, RocksState, state_layout
from joingate_processors.law.state import Header, Seen, State
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import HoldOpened
from joingate_schemas.topics import Topics

TOPICS = Topics("t.")
CODEC = Codec()
LEDGER, CHANGELOG = (TOPICS.ledger, 0), (TOPICS.changelog, 0)


class Record:
    """A record as the client gives it."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._key, self._value, self.at = key, value, 0

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return self.at

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0


class Logs:
    """Logs in memory, read in chunks of three; offsets are positions in the list, and some may be gone."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[Record | None]] = {LEDGER: [], CHANGELOG: []}

    def append(self, place: tuple[str, int], record: Record) -> None:
        record.at = len(self.logs[place])
        self.logs[place].append(record)

    def starts(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, 0)

    def ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {place: len(self.logs[place]) for place in places}

    def read(self, place: tuple[str, int], start: int) -> Iterator[list[Record]]:
        assert start <= len(self.logs[place])
        found = [record for record in self.logs[place][start:] if record is not None]
        yield from (found[n : n + 3] for n in range(0, len(found), 3))


def fold(state: State, decision: Decision, digest: bytes) -> None:
    """As much of a law as restoring can tell apart."""
    state.header.put("", Header(seq=decision.seq, epoch=decision.epoch, previous=digest.hex()))
    state.seen.put(decision.claim_id, Seen(seq=decision.seq, about="", verdict="", reason="", subject_id=""))
    state.catalogues.put(str(decision.seq % 3), str(decision.seq))


class World:
    """A gate's logs as it would have written them, a transaction a call, and the store of the gate that did."""

    def __init__(self, directory: Path, name: str = "store") -> None:
        self.logs = Logs()
        self.store = RocksState(directory / name)
        self.position = Position(layout=state_layout())
        self.previous = b""
        self.epoch = 1

    def transaction(self, count: int = 2, *, changelog: bool = True, store: bool = True, **fields: Any) -> None:
        first = self.position.seq + 1
        offset = len(self.logs.logs[LEDGER])
        for seq in range(first, first + count):
            self.decide(seq, **fields)
        changes, once = list(self.store.changes()), list(self.store.written_once())
        before = self.position
        self.position = Position(
            first + count - 1, self.epoch, {"proposals": first + count - 1}, before.ledger_offset,
            before.changelog_offset, before.marker + 1, state_layout(),
        )  # fmt: skip
        if changelog:
            for key, value in changes:
                self.logs.append(CHANGELOG, Record(row_prefix() + key, value))
            for part, pack in enumerate(packed(once)):
                self.logs.append(CHANGELOG, Record(pack_key(self.position.marker, part), pack))
            self.logs.append(CHANGELOG, Record(MARKER_KEY, Marker(self.position, first).to_bytes()))
            self.position = Position(
                self.position.seq, self.epoch, self.position.inputs, offset, len(self.logs.logs[CHANGELOG]) - 1,
                self.position.marker, state_layout(),
            )  # fmt: skip
        if store:
            self.store.commit(self.position)
        else:
            self.store.drop()

    def decide(self, seq: int, **fields: Any) -> None:
        topic: ClaimTopic = "proposals"
        decision = Decision(
            **{
                "seq": seq, "epoch": self.epoch, "decided_at": 0, "topic": topic, "offset": seq - 1, "appended_at": 0,
                "claim_type": "Close", "claim_id": f"c{seq}", "intent_id": "i", "principal": "", "claim": b"",
                "verdict": "REJECTED", "reason": "OK", "detail": "", "subject_id": "", "status": "", "refers_to": 0,
                "facts": [], "previous": self.previous, **fields,
            }
        )  # fmt: skip
        raw = CODEC.encode(decision)
        self.previous = hashlib.sha256(raw).digest()
        self.logs.append(LEDGER, Record(b"i", raw))
        fold(self.store, decision, self.previous)

    def restore(self, store: RocksState) -> Restored:
        logs: Any = self.logs
        restored = Restore(store, 0, TOPICS, logs, fold, CODEC.decode).run()
        assert restored.guard.seq == restored.position.seq == len({row for row, _ in store.rows("seen")})
        return restored


def contents(store: RocksState) -> object:
    return [store.rows(table) for table in ("header", "seen", "catalogues")]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[RocksState]:
    store = RocksState(tmp_path / "empty")
    yield store
    store.close()


def test_where_nothing_was_ever_decided_there_is_nothing_to_restore(world: World, empty: RocksState) -> None:
    restored = world.restore(empty)
    assert (restored.position, restored.stale_changelog) == (Position(layout=state_layout()), "")


def test_a_store_that_is_up_to_date_needs_nothing(world: World) -> None:
    world.transaction()
    world.transaction()
    before = contents(world.store)
    restored = world.restore(world.store)
    assert contents(world.store) == before
    assert (restored.position, restored.stale_changelog) == (world.position, "")


def test_a_store_that_is_behind_is_caught_up_from_the_ledger(world: World, empty: RocksState) -> None:
    world.transaction()
    for change in world.store.rows("seen"):
        empty.seen.put(change[0], change[1])  # type: ignore[arg-type]
    for decision in range(1, 3):
        empty.catalogues.put(str(decision), str(decision))
    header = world.store.header.get("")
    assert header is not None
    empty.header.put("", header)
    empty.commit(world.position)
    world.transaction(3)
    world.transaction(4)
    restored = world.restore(empty)
    assert contents(empty) == contents(world.store)
    assert (restored.position.marker, restored.position.seq, restored.stale_changelog) == (3, 9, "")
    assert restored.position.inputs == {"proposals": 9}


def test_an_empty_store_is_filled_from_the_changelog(world: World, empty: RocksState) -> None:
    for _ in range(4):
        world.transaction(3)
    world.logs.logs[LEDGER][:9] = [None] * 9  # which is not read but for its end
    restored = world.restore(empty)
    assert contents(empty) == contents(world.store)
    assert restored.position.seq == 12
    assert restored.stale_changelog == ""


def test_a_compacted_changelog_does_as_well(world: World, empty: RocksState) -> None:
    for _ in range(4):
        world.transaction(3)
    latest: dict[bytes | None, int] = {}
    log = world.logs.logs[CHANGELOG]
    for record in log[:-2]:
        if record is not None:
            latest[record.key()] = record.at
    world.logs.logs[CHANGELOG] = [
        one if n >= len(log) - 2 or (one is not None and latest[one.key()] == n) else None for n, one in enumerate(log)
    ]
    assert world.restore(empty).stale_changelog == ""
    assert contents(empty) == contents(world.store)


def test_a_missing_transaction_in_the_changelog_leads_back_to_the_ledger(world: World, empty: RocksState) -> None:
    for _ in range(3):
        world.transaction(2)
    markers = [one.at for one in world.logs.logs[CHANGELOG] if one is not None and one.key() == MARKER_KEY]
    for at in range(markers[0] + 1, markers[1] + 1):
        world.logs.logs[CHANGELOG][at] = None
    restored = world.restore(empty)
    assert "from marker 1 to 3" in restored.stale_changelog
    assert contents(empty) == contents(world.store)
    assert restored.position.inputs == {"proposals": 6}


@pytest.mark.parametrize("layout", ["of another release", "unfinished"])
def test_rows_of_another_layout_are_not_read(world: World, empty: RocksState, layout: str) -> None:
    world.transaction(2)
    empty.seen.put("stale", Seen(seq=9, about="", verdict="", reason="", subject_id=""))
    empty.commit(Position(seq=2, layout=layout))
    world.restore(empty)
    assert contents(empty) == contents(world.store)


def test_a_changelog_that_lost_everything_is_to_be_rewritten(world: World, empty: RocksState) -> None:
    world.transaction(2)
    world.logs.logs[CHANGELOG] = []
    assert "empty" in world.restore(empty).stale_changelog
    assert contents(empty) == contents(world.store)


def test_a_changelog_that_is_behind_the_ledger_is_to_be_rewritten(world: World, empty: RocksState) -> None:
    world.transaction(2)
    world.transaction(2, changelog=False)
    assert "goes to seq 2, and the ledger to 4" in world.restore(empty).stale_changelog
    assert contents(empty) == contents(world.store)


def test_a_store_of_another_past_is_made_anew(world: World, tmp_path: Path) -> None:
    other = World(tmp_path, "other")
    other.transaction(2, detail="something else")
    world.transaction(2)
    world.transaction(2)
    world.restore(other.store)
    assert contents(other.store) == contents(world.store)
    other.store.close()


def test_a_store_that_is_ahead_of_the_ledger_is_made_anew(world: World, tmp_path: Path) -> None:
    world.transaction(2)
    before = contents(world.store)
    ledger, changelog = len(world.logs.logs[LEDGER]), len(world.logs.logs[CHANGELOG])
    world.transaction(2)
    world.transaction(2)
    del world.logs.logs[LEDGER][ledger:], world.logs.logs[CHANGELOG][changelog:]
    world.restore(world.store)
    assert contents(world.store) == before


def test_a_ledger_with_a_gap_halts_with_a_sentence(world: World, empty: RocksState) -> None:
    for _ in range(3):
        world.transaction(2)
    world.logs.logs[LEDGER][2] = None
    world.logs.logs[CHANGELOG] = []
    with pytest.raises(Halted, match="from seq 2 to 4"):
        world.restore(empty)


def test_a_changelog_ahead_of_the_ledger_halts(world: World, empty: RocksState) -> None:
    world.transaction(2)
    world.transaction(2)
    del world.logs.logs[LEDGER][2:]
    with pytest.raises(Halted, match="ledger records are gone"):
        world.restore(empty)


def test_a_ledger_record_that_cannot_be_read_halts_and_names_its_place(world: World, empty: RocksState) -> None:
    world.transaction(2)
    world.logs.append(LEDGER, Record(b"i", b"junk"))
    with pytest.raises(Halted, match=r"t\[0\]@2 can't be read"):
        world.restore(empty)


def test_an_aborted_record_that_is_shown_halts(world: World, empty: RocksState) -> None:
    """C16: the canary."""
    world.logs.append(CHANGELOG, Record(CANARY_KEY, b"aborted"))
    with pytest.raises(Halted, match="shows records of aborted transactions"):
        world.restore(empty)


def test_positions_are_known_from_the_ledger_alone_for_held_and_quarantined_records_too(
    world: World, empty: RocksState
) -> None:
    hold = HoldOpened(quarantine_id="q", intent_id="i", held_claim=b"", topic="proposals", offset=7, appended_at=0)
    world.transaction(1, topic="outcomes", offset=4)
    world.transaction(1, topic="gate", offset=-1, claim_type="ClaimHeld", facts=[hold])
    world.transaction(1, topic="gate", offset=-1, claim_type="ClaimQuarantined", subject_id="approvals/0/3")
    world.transaction(1, topic="gate", offset=-1, claim_type="TimerFired")
    world.transaction(1, topic="proposals", offset=2)  # a claim that was held, decided later
    world.logs.logs[CHANGELOG] = []
    assert world.restore(empty).position.inputs == {"outcomes": 5, "proposals": 8, "approvals": 4}


def test_packs_hold_what_was_packed_whatever_it_is() -> None:
    rows = [(f"d{n}".encode() * (n % 5), bytes(n % 7)) for n in range(2_500)]
    packs = list(packed(rows))
    assert len(packs) == 3
    assert [row for pack in packs for row in unpacked(pack)] == rows
    assert unpacked(b"") == []
