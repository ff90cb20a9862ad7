"""What was archived stays away: from the store, from its changelog however compacted, and from the ledger's tail."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.gate import changelog as changelog_room
from joingate_processors.gate.changelog import MARKER_KEY, PACK_TAG, Marker, pack_key, packed, row_prefix
from joingate_processors.gate.restore import Restore, Restored
from joingate_processors.gate.store import Position, RocksState, state_layout
from joingate_processors.law import archive
from joingate_processors.law.judge import fold
from joingate_schemas.topics import Topics

from .driver import CODEC, INTENT, Court, step
from .invariants import snapshot
from .table_archive import KEPT_MS, keeping
from .test_archive import left

TOPICS = Topics("t.")
LEDGER, CHANGELOG = (TOPICS.ledger, 0), (TOPICS.changelog, 0)


class Record:
    """A record as the client gives it."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self._key, self._value, self.at = key, value, 0

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return self.at


class Logs:
    """Logs in memory; offsets are positions in the list, and what was compacted away is None."""

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
        found = [record for record in self.logs[place][start:] if record is not None]
        yield from (found[n : n + 3] for n in range(0, len(found), 3))


class Gate:
    """The law over a store on disk, with its logs: `transaction` commits what a court was told since the last."""

    def __init__(self, directory: Path) -> None:
        self.logs = Logs()
        self.store = RocksState(directory / "store")
        self.position = Position(layout=state_layout())
        self.court = Court(keeping())
        self.court.state = self.store  # type: ignore[assignment]  # the store is the twin of the memory
        self.packed = self.forgotten = 0
        self.court.load()
        self.transaction()

    def transaction(self, *plays: Callable[[Court], object]) -> None:
        for play in plays:
            play(self.court)
        written = len(self.logs.logs[LEDGER])
        for raw in self.court.ledger[written:]:
            self.logs.append(LEDGER, Record(b"i", raw))
        for key, value in list(self.store.changes()):
            self.logs.append(CHANGELOG, Record(row_prefix() + key, value))
        marker = self.position.marker + 1
        once = list(self.store.written_once())
        for part, pack in enumerate(packed(once)):
            self.logs.append(CHANGELOG, Record(pack_key(marker, part), pack))
        self.packed, self.forgotten = self.packed + len(once), self.forgotten + self.store.forgotten_once
        seq = len(self.court.ledger)
        self.position = Position(seq, 1, {}, written, len(self.logs.logs[CHANGELOG]), marker, state_layout())
        told = Marker(self.position, written + 1, True, self.packed, self.forgotten)
        self.logs.append(CHANGELOG, Record(MARKER_KEY, told.to_bytes()))
        self.store.commit(self.position)

    def compact(self) -> None:
        """What a broker keeps in the end: the latest record of each key, and no deletion."""
        log = [record for record in self.logs.logs[CHANGELOG] if record is not None]
        latest = {record.key(): record.at for record in log}
        self.logs.logs[CHANGELOG] = [
            record if latest[record.key()] == record.at and record.value() is not None else None for record in log
        ]

    def restored(self, directory: Path) -> tuple[RocksState, Restored]:
        """Another machine's store, made from the logs."""
        store, logs = RocksState(directory / "other"), self.logs
        reading: Any = logs
        return store, Restore(store, 0, TOPICS, reading, fold, CODEC.decode).run()


def closed(court: Court) -> None:
    court.open(step("s1", "reserve_window"), step("s2", "notify"))
    court.active("s1")
    court.release("s1")
    court.perform_release("s1")
    court.observe_commitment("s1", "ABSENT")
    court.perform("s2")
    court.cancel()
    court.override("OPERATION", court.op_id("s2"), "COMPENSATED")


def passed(court: Court) -> None:
    """The retention, and whatever it takes to forget everything."""
    court.advance(KEPT_MS)
    court.advance(1_000)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A gate that has archived an intent, beside another that lives."""
    found = Gate(tmp_path)
    found.transaction(closed)
    found.transaction(lambda x: x.declare(intent_id="acme/errand/10"), lambda x: x.declare(intent_id="acme/errand/2"))
    return found


@pytest.mark.parametrize("rows_max", [500, 3])
def test_neither_store_nor_compacted_changelog_bring_it_back(
    gate: Gate, tmp_path: Path, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ROWS_MAX", rows_max)
    assert left(gate.court)
    gate.transaction(passed)
    assert left(gate.court) == {}
    expected = snapshot(gate.store)  # type: ignore[arg-type]
    gate.compact()
    store, restored = gate.restored(tmp_path)
    assert restored.stale_changelog == ""
    assert snapshot(store) == expected  # type: ignore[arg-type]
    assert store.archives.get(INTENT) is not None
    assert gate.forgotten == gate.packed - len(store.rows("seen")) > 5


def test_a_restore_in_the_middle_of_forgetting_goes_on_where_it_was(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs bring back what was forgotten, and a sweep that counts rows must not count those."""
    monkeypatch.setattr(archive, "ROWS_MAX", 4)
    gate.transaction(lambda x: x.advance(KEPT_MS))
    row = gate.store.archives.get(INTENT)
    assert row is not None
    while not row.swept:
        gate.transaction(lambda x: x.advance(1))
        row = gate.store.archives.get(INTENT)
        assert row is not None
    assert row.deadline_at is not None
    middle = snapshot(gate.store)  # type: ignore[arg-type]
    behind = len(gate.logs.logs[CHANGELOG])
    gate.transaction(passed)
    whole = list(gate.logs.logs[CHANGELOG])
    # The changelog ends in the middle: the rest is folded from the ledger, over what its packs brought back.
    gate.logs.logs[CHANGELOG] = whole[:behind]
    gate.compact()
    store, _ = gate.restored(tmp_path)
    assert snapshot(store) == snapshot(gate.store) != middle  # type: ignore[arg-type]


def test_what_is_remembered_after_it_is_no_part_of_it(gate: Gate, tmp_path: Path) -> None:
    """A person resolves a quarantined record under its id: that claim's id is remembered, and stays so."""
    gate.transaction(passed)
    gate.transaction(
        lambda x: x.quarantine(),
        lambda x: x.override("QUARANTINE", "outcomes/0/7", "DISMISSED", claim_id="aaa"),
    )
    assert gate.court.decisions[-1].verdict == "ACCEPTED"
    gate.compact()
    store, _ = gate.restored(tmp_path)
    assert [row for row, _ in store.rows("seen") if row.startswith(f"{INTENT}\x1f")] == [f"{INTENT}\x1faaa"]
    assert snapshot(store) == snapshot(gate.store)  # type: ignore[arg-type]


def test_a_changelog_that_is_mostly_of_archived_intents_is_to_be_rewritten(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.transaction(passed)
    monkeypatch.setattr(changelog_room, "FORGOTTEN_MIN", 5)
    _, restored = gate.restored(tmp_path)
    assert "of archived intents" in restored.stale_changelog
    packs = [record for record in gate.logs.logs[CHANGELOG] if record and record.key()[4:5] == PACK_TAG]
    assert packs, "what is rewritten are packs, and here are some"


def test_a_drop_undoes_an_archiving_that_was_not_committed(gate: Gate) -> None:
    before = snapshot(gate.store)  # type: ignore[arg-type]
    passed(gate.court)
    assert left(gate.court) == {}
    gate.store.drop()
    assert snapshot(gate.store) == before  # type: ignore[arg-type]
