"""The contract of a partition's state, over both stores: what one forgets or lists, so does the other."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_type_hints

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from joingate_processors.gate.store import Position, RocksState, StoreError, state_layout
from joingate_processors.law.arrival import Due
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import INDEXES, TABLES, State
from joingate_schemas.record import from_datum

PLAIN = {str: "", int: 0, bool: False, float: 0.0}


def row(table: str, **fields: object) -> object:
    """A row of `table`, its other fields filled with something of their type."""
    cls = TABLES[table]
    if cls is str:
        return str(fields)
    blank = {name: PLAIN.get(hint, {} if "dict" in str(hint) else None) for name, hint in get_type_hints(cls).items()}
    return from_datum(cls, {**blank, **fields})


@pytest.fixture(params=["memory", "rocks", "rocks after a commit", "rocks with hardly any cache"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    if request.param == "memory":
        yield MemoryState()
        return
    store = RocksState(tmp_path / "0", cache_rows=2 if "hardly" in request.param else 1000)
    if "after" in request.param:
        store.seen.put("other", row("seen", seq=1))
        store.commit(Position(seq=1))
    yield store
    store.close()


@pytest.mark.parametrize("table", [name for name in TABLES if name != "seen"])
def test_a_row_is_found_as_it_was_put_and_gone_once_deleted(state: State, table: str) -> None:
    rows = getattr(state, table)
    assert rows.get("k") is None
    first, second = row(table, seq=1), row(table, seq=2)
    rows.put("k", first)
    assert rows.get("k") == first
    rows.put("k", second)
    rows.put("other", first)
    assert rows.get("k") == second
    rows.delete("k")
    rows.delete("never there")
    assert rows.get("k") is None
    assert rows.get("other") == first


def test_keys_are_listed_by_what_they_begin_with_sorted_and_as_changed(state: State) -> None:
    steps = state.steps
    assert steps.page("a\x1f", "", 9) == []
    for key in ("a\x1fz", "a\x1fb", "a\x1fä", "b\x1fa", "ab", "a"):
        steps.put(key, row("steps", seq=1))
    assert steps.page("a\x1f", "", 9) == ["a\x1fb", "a\x1fz", "a\x1fä"]
    assert steps.page("a\x1f", "", 2) == ["a\x1fb", "a\x1fz"]
    assert steps.page("a\x1f", "a\x1fb", 9) == ["a\x1fz", "a\x1fä"]
    assert steps.page("", "a\x1fä", 9) == ["ab", "b\x1fa"]
    steps.delete("a\x1fz")
    steps.delete("never there")
    steps.put("a\x1fc", row("steps", seq=2))
    steps.put("a\x1fb", row("steps", seq=3))
    assert steps.page("a\x1f", "", 9) == ["a\x1fb", "a\x1fc", "a\x1fä"]
    if isinstance(state, RocksState):
        state.commit(Position(seq=2))
        assert steps.page("a\x1f", "", 9) == ["a\x1fb", "a\x1fc", "a\x1fä"]
        steps.delete("a\x1fb")
        steps.put("a\x1fz", row("steps", seq=4))
        assert steps.page("a\x1f", "", 9) == ["a\x1fc", "a\x1fz", "a\x1fä"]
        assert steps.page("a\x1f", "a\x1fc", 1) == ["a\x1fz"]
    steps.put("a\x1fz", row("steps", seq=5))
    assert steps.page("a\x1f", "a\x1fc", 9) == ["a\x1fz", "a\x1fä"]


@pytest.mark.parametrize("index", INDEXES)
def test_members_are_listed_sorted_and_by_owner(state: State, index: str) -> None:
    members = getattr(state, index)
    assert members.members("a") == []
    assert members.first("a") is None
    for owner, member in [("a", "z"), ("a", "ä"), ("a", "b"), ("", "b"), ("a\x00b", "c"), ("ab", "c"), ("a", "b")]:
        members.add(owner, member)
    assert members.members("a") == ["b", "z", "ä"]
    assert members.first("a") == "b"
    members.remove("a", "z")
    members.remove("a", "never there")
    members.remove("nobody", "x")
    assert members.members("a") == ["b", "ä"]
    assert members.members("") == ["b"]
    assert members.members("a\x00b") == ["c"]
    assert [members.first(owner) for owner in ("a", "", "a\x00b", "nobody")] == ["b", "b", "c", None]


@pytest.mark.parametrize("index", INDEXES)
def test_members_are_paged_through_in_order_without_the_others(state: State, index: str) -> None:
    members = getattr(state, index)
    for member in ("b", "z", "ä", "c"):
        members.add("a", member)
    members.add("ab", "d")
    assert members.page("a", "", 2) == ["b", "c"]
    assert members.page("a", "c", 2) == ["z", "ä"]
    assert members.page("a", "bb", 10) == ["c", "z", "ä"]
    assert members.page("a", "ä", 2) == members.page("nobody", "", 2) == []


def test_a_page_lies_over_what_is_written_and_what_is_not_yet(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    members = store.owned_commitments
    for member in ("b", "d", "f", "h"):
        members.add("team:ops", member)
    store.commit(Position(seq=1))
    members.remove("team:ops", "d")
    members.add("team:ops", "c")
    members.add("team:ops", "g")
    members.add("team:ops", "f")
    assert members.page("team:ops", "", 3) == ["b", "c", "f"]
    assert members.page("team:ops", "c", 3) == ["f", "g", "h"]
    store.drop()
    assert members.page("team:ops", "b", 9) == ["d", "f", "h"]
    store.close()


def test_the_first_member_is_found_over_what_is_written_and_what_is_not_yet(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    members = store.scoped_quarantines
    for member in ("c", "e"):
        members.add("", member)
    store.commit(Position(seq=1))
    assert members.first("") == "c"
    members.remove("", "c")
    assert members.first("") == "e"
    members.add("", "d")
    assert members.first("") == "d"
    members.add("", "f")
    members.remove("", "d")
    members.remove("", "e")
    assert members.first("") == "f"
    store.close()


def test_deadlines_come_in_the_order_of_time_then_kind_then_key(state: State) -> None:
    state.operations.put("o2", row("operations", timer="SILENCE", deadline_at=20))
    state.operations.put("o1", row("operations", timer="PERMIT", deadline_at=20))
    state.commitments.put("c1", row("commitments", timer="RELEASE", deadline_at=20))
    state.plans.put("p1", row("plans", timer="PROGRESS", deadline_at=10))
    state.plans.put("p2", row("plans", timer="NONE", deadline_at=None))
    state.plans.put("p3", row("plans", timer="PROGRESS", deadline_at=21))
    expected = [
        Due(10, "PLAN", "p1", "PROGRESS"),
        Due(20, "COMMITMENT", "c1", "RELEASE"),
        Due(20, "OPERATION", "o1", "PERMIT"),
        Due(20, "OPERATION", "o2", "SILENCE"),
    ]
    assert state.next_due() == 10
    assert state.due(9, 100) == []
    assert state.due(20, 100) == expected
    assert state.due(20, 3) == expected[:3]


def test_a_deadline_follows_its_row(state: State) -> None:
    state.operations.put("o", row("operations", timer="SILENCE", deadline_at=20))
    state.operations.put("o", row("operations", timer="PERMIT", deadline_at=5))
    assert state.due(100, 10) == [Due(5, "OPERATION", "o", "PERMIT")]
    state.operations.put("o", row("operations", timer="NONE", deadline_at=None))
    assert state.next_due() is None
    state.operations.put("o", row("operations", timer="SILENCE", deadline_at=7))
    state.operations.delete("o")
    assert state.due(100, 10) == []


def test_a_changed_deadline_of_a_committed_row_is_the_only_one(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    store.operations.put("o", row("operations", timer="SILENCE", deadline_at=20))
    store.commit(Position(seq=1))
    store.operations.put("o", row("operations", timer="PERMIT", deadline_at=30))
    assert store.due(100, 10) == [Due(30, "OPERATION", "o", "PERMIT")]
    store.commit(Position(seq=2))
    assert store.due(100, 10) == [Due(30, "OPERATION", "o", "PERMIT")]
    store.operations.put("o", row("operations", timer="SILENCE", deadline_at=10))
    store.drop()
    assert store.next_due() == 30
    store.close()


def test_a_row_changed_often_is_one_change_and_a_member_that_came_and_went_is_none(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    for version in range(5):
        store.intents.put("k", row("intents", version=version))
    store.open_operations.add("i", "o")
    store.open_operations.remove("i", "o")
    assert [key for key, _ in store.changes()] == [b"ik"]
    store.commit(Position(seq=5))
    store.open_operations.add("i", "o")
    store.commit(Position(seq=6))
    store.open_operations.add("i", "o")
    store.open_operations.remove("i", "o")
    assert [value for _, value in store.changes()] == [None]
    store.close()


def test_changes_make_the_same_state_elsewhere_timers_too(tmp_path: Path) -> None:
    here, there = RocksState(tmp_path / "here"), RocksState(tmp_path / "there")
    for seq, deadline in enumerate((20, 30, None, 40), start=1):
        here.operations.put("o", row("operations", timer="PERMIT", deadline_at=deadline))
        here.open_operations.add("i", f"o{seq}")
        here.catalogues.put("d", str(seq))
        here.seen.put(f"i\x1f{seq}", row("seen", seq=seq))
        changes, position = [*here.changes(), *here.written_once()], Position(seq=seq, inputs={"proposals": seq})
        there.apply(changes, position)
        here.commit(position)
        assert contents(there) == contents(here)
        assert there.due(100, 10) == here.due(100, 10)
        assert there.position == here.position
    here.close()
    there.close()


def test_reading_a_dropped_change_finds_what_was_committed(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    store.seen.put("k", row("seen", seq=1))
    store.intents.put("k", row("intents", version=1))
    store.commit(Position(seq=1))
    for sealed in (False, True):
        store.seen.put("k", row("seen", seq=2))
        store.intents.put("k", row("intents", version=2))
        store.intents.put("new", row("intents"))
        store.open_operations.add("k", "o")
        if sealed:
            list(store.changes())
        store.drop()
        assert store.seen.get("k") == row("seen", seq=1)
        assert store.intents.get("k") == row("intents", version=1)
        assert store.intents.get("new") is None
        assert store.open_operations.members("k") == []
        assert list(store.changes()) == []
        store.drop()
    store.close()


def test_a_store_comes_back_with_its_position_and_wiping_empties_it(tmp_path: Path) -> None:
    position = Position(seq=3, epoch=2, inputs={"proposals": 7}, ledger_offset=9, marker=4, layout=state_layout())
    store = RocksState(tmp_path / "0")
    assert store.position == Position(layout=state_layout())
    store.seen.put("k", row("seen", seq=1))
    store.commit(position)
    store.close()
    store = RocksState(tmp_path / "0")
    assert store.position == position
    assert store.seen.get("k") == row("seen", seq=1)
    store.wipe()
    assert store.position == Position(layout=state_layout())
    assert store.seen.get("k") is None
    store.close()


def test_a_store_that_is_open_elsewhere_is_refused_with_its_path(tmp_path: Path) -> None:
    store = RocksState(tmp_path / "0")
    with pytest.raises(StoreError, match=str(tmp_path / "0")):
        RocksState(tmp_path / "0")
    store.close()


VICTIM = """
    import sys
    from pathlib import Path
    from joingate_processors.gate.store import Position, RocksState
    from joingate_processors.law.state import Header, Seen
    store = RocksState(Path(sys.argv[1]))
    seq = store.position.seq
    while True:
        seq += 1
        for n in range(10):
            store.seen.put(f"{seq}-{n}", Seen(seq=seq, about="x" * 300, verdict="", reason="", subject_id=""))
        store.header.put("", Header(seq=seq))
        store.commit(Position(seq=seq))
        if seq % 40 == 0:
            store.flush()
        print(seq, flush=True)
"""


def test_killed_at_any_moment_rows_and_position_agree(tmp_path: Path) -> None:
    """C20: the store opens at some commit, never between two, and never ahead of what was committed."""
    reached = 0
    for patience in (1, 30, 130):
        victim = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(VICTIM), str(tmp_path / "0")], stdout=subprocess.PIPE, text=True
        )
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(patience)]
        os.kill(victim.pid, signal.SIGKILL)
        last = int((lines + victim.stdout.read().splitlines())[-1])
        victim.wait()
        store = RocksState(tmp_path / "0")
        seq = store.position.seq
        assert reached <= seq <= last + 1
        assert len(store.rows("seen")) == seq * 10
        header = store.header.get("")
        assert (header.seq if header else 0) == seq
        reached = seq
        store.close()
    assert reached >= 120


def contents(state: MemoryState | RocksState) -> dict[str, object]:
    """Everything that a state holds."""
    return {name: state.rows(name) for name in TABLES} | {name: state.entries(name) for name in INDEXES}


# Few of each, so that runs come back to the same row often.
KEYS = st.sampled_from(["a", "ä", ""])
TABLE_NAMES = st.sampled_from(["operations", "commitments", "operations", "seen", "catalogues"])
CHANGED = ["operations", "commitments", "catalogues"]  # the rows of `seen` are never deleted
DEADLINES = st.sampled_from([None, 0, 1, 5, 5_000_000_000_000])


class TheStoreAgreesWithItsTwin(RuleBasedStateMachine):
    """Any run of changes, commits, drops, kills of the cache and re-openings leaves disk and twin alike."""

    @initialize(cache=st.sampled_from([0, 3, 1000]))
    def open(self, cache: int) -> None:
        self.directory = TemporaryDirectory()
        self.cache = cache
        self.store = RocksState(Path(self.directory.name) / "0", cache_rows=cache)
        self.committed: list[tuple[str, ...]] = []
        self.running: list[tuple[object, ...]] = []
        self.seq = 0

    def _twin(self) -> MemoryState:
        twin = MemoryState()
        for name, method, *arguments in [*self.committed, *self.running]:
            getattr(getattr(twin, str(name)), str(method))(*arguments)
        return twin

    def _do(self, name: str, method: str, *arguments: object) -> None:
        getattr(getattr(self.store, name), method)(*arguments)
        self.running.append((name, method, *arguments))

    @rule(table=TABLE_NAMES, key=KEYS, deadline=DEADLINES, version=st.integers(0, 3))
    def put(self, table: str, key: str, deadline: int | None, version: int) -> None:
        waits = {"timer": "NONE" if deadline is None else "HOLD", "deadline_at": deadline}
        fields = waits if table in ("operations", "commitments") else {}
        self._do(table, "put", key, row(table, intent_id=key, version=version, **fields))

    @rule(table=st.sampled_from(CHANGED), key=KEYS)
    def delete(self, table: str, key: str) -> None:
        self._do(table, "delete", key)

    @rule(table=TABLE_NAMES, key=KEYS)
    def get(self, table: str, key: str) -> None:
        assert getattr(self.store, table).get(key) == getattr(self._twin(), table).get(key)

    @rule(owner=KEYS, member=KEYS, method=st.sampled_from(["add", "remove"]))
    def change_index(self, owner: str, member: str, method: str) -> None:
        self._do("open_operations", method, owner, member)

    @rule(changelog_first=st.booleans())
    def commit(self, changelog_first: bool) -> None:
        if changelog_first:
            list(self.store.changes())
        self.seq += 1
        self.store.commit(Position(seq=self.seq))
        self.committed += self.running
        self.running = []

    @rule(changelog_first=st.booleans())
    def drop(self, changelog_first: bool) -> None:
        if changelog_first:
            list(self.store.changes())
        self.store.drop()
        self.running = []

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = RocksState(Path(self.directory.name) / "0", cache_rows=self.cache)
        self.running = []
        assert self.store.position.seq == self.seq

    @invariant()
    def alike(self) -> None:
        twin = self._twin()
        assert contents(self.store) == contents(twin)
        assert self.store.due(10, 3) == twin.due(10, 3)
        assert self.store.next_due() == twin.next_due()
        for owner in ("a", "ä"):
            assert self.store.open_operations.members(owner) == twin.open_operations.members(owner)
            for after in ("", "a"):
                assert self.store.open_operations.page(owner, after, 1) == twin.open_operations.page(owner, after, 1)

    def teardown(self) -> None:
        self.store.close()
        self.directory.cleanup()


TestTheStoreAgreesWithItsTwin = TheStoreAgreesWithItsTwin.TestCase
TestTheStoreAgreesWithItsTwin.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
