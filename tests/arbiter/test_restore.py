"""The arbiter's rows make the state that its ledger makes, and are believed only where they go with that ledger."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joingate_processors.arbiter import changelog as room
from joingate_processors.arbiter.changelog import MARKER_KEY, Marker, changes, row_key
from joingate_processors.arbiter.judge import fold
from joingate_processors.arbiter.restore import Restore, Restored
from joingate_processors.arbiter.state import MARKS_MS, ArbiterState
from joingate_processors.gate.logs import Halted
from joingate_schemas.topics import Topics

from .bench import CODEC, Bench, free, quarantine, reserve
from .test_properties import MOVES, Move, message

TOPICS = Topics("t.")
Rows = dict[bytes, bytes]


class Message:
    """A record as the client shows it."""

    def __init__(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.at, self.name, self.body = offset, key, value

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.name

    def value(self) -> bytes | None:
        return self.body


class Logs:
    """The two logs of one partition; it notes from where the ledger was read."""

    def __init__(self, bench: Bench, rows: Rows) -> None:
        self.rows = [Message(at, *row) for at, row in enumerate(rows.items())]
        # As in Kafka, the offsets of a log that transactions write to have holes.
        self.ledger = [Message(2 * at, b"", raw) for at, raw in enumerate(bench.ledger)]
        self.read_from: list[int] = []

    def starts(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, 0)

    def read(self, place: tuple[str, int], start: int) -> Iterator[list[Any]]:
        if place[0] == TOPICS.arbiter_changelog:
            yield list(self.rows)
            return
        self.read_from.append(start)
        end = self.ledger[-1].at + 1 if self.ledger else 0
        if start > end:
            raise Halted("records are gone")
        yield [one for one in self.ledger if one.at >= start]

    def restored(self) -> Restored:
        return Restore(0, TOPICS, self, CODEC).run()  # type: ignore[arg-type] - what is needed of `Logs`


def rows_of(bench: Bench, upto: int | None = None) -> Rows:
    """The changelog once the first `upto` decisions are written, one transaction each."""
    state, rows = ArbiterState(), Rows()
    for decision, raw in list(zip(bench.decisions, bench.ledger, strict=True))[:upto]:
        fold(state, decision, hashlib.sha256(raw).digest())
        for key, value in changes(state, state.touched):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        state.touched.clear()
        last = 2 * max(0, decision.seq - 2)  # of the transaction before: its own is not known yet
        rows[MARKER_KEY] = Marker(state.header, state.gates, len(state.marks), last).to_bytes()
    return rows


def look(state: ArbiterState) -> dict[str, Any]:
    """Everything that the law reads of a state, now and later."""
    refs = {hold["resource_ref"] for hold in state.all_holds()}
    return {
        "header": state.header, "marks": state.marks, "gates": state.gates, "due": state.next_due(),
        "holders": {ref: state.holders(ref) for ref in refs}, "rows": {key: state.row(key) for key in state.marks},
    }  # fmt: skip


def drained(state: ArbiterState, now: int) -> dict[str, Any]:
    """The same, once all that can be forgotten by then is forgotten."""
    state.forget_marks(now)
    return look(state)


def story() -> Bench:
    bench = Bench()
    for operation, pool in (("op-1", "a"), ("op-2", "a"), ("op-3", "b")):
        bench.say(reserve(operation, int(operation[-1]), f"gpu:{pool}", mode="CAPACITY", capacity=9))
    bench.say(reserve("op-4", 4, lease_ms=50))
    bench.advance(50)
    bench.say(free("op-1", 5, ref="gpu:a"))
    bench.say(quarantine("op-5", 6, "gpu:b"))
    bench.say(None, b"rubbish")
    return bench


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(MOVES, st.integers(0, 40)), max_size=30), st.data())
def test_rows_and_the_rest_of_the_ledger_make_the_state_that_the_whole_ledger_makes(
    moves: list[tuple[Move, int]], data: st.DataObject
) -> None:
    bench = Bench()
    for n, (move, ms) in enumerate(moves, 1):
        bench.advance(ms)
        bench.say(message(move, n))
    upto = data.draw(st.integers(0, len(bench.decisions)), label="how many the changelog has")
    logs = Logs(bench, rows_of(bench, upto))
    restored = logs.restored()
    assert (restored.stale == "") == (upto > 0 or not bench.decisions)
    assert look(restored.state) == look(bench.replayed())
    later = bench.now + data.draw(st.integers(0, 2 * MARKS_MS), label="how much later")
    assert drained(restored.state, later) == drained(bench.replayed(), later)


def test_only_what_the_ledger_has_beyond_the_rows_is_read() -> None:
    bench = story()
    logs = Logs(bench, rows_of(bench, 6))
    assert logs.restored().stale == ""
    assert logs.read_from == [8], "from the record before the last that the rows follow from"


def test_what_is_forgotten_leaves_no_row_behind() -> None:
    bench = story()
    before = rows_of(bench)
    bench.now += MARKS_MS + 1
    bench.say(reserve("late", 99, "window:late"))
    after = rows_of(bench)
    gone = row_key(("gpu:a", "op-1"))
    assert gone in before
    assert gone not in after
    assert look(Logs(bench, after).restored().state) == look(bench.replayed())


def test_without_a_changelog_the_whole_ledger_is_folded_and_the_rows_are_written_anew() -> None:
    bench = story()
    restored = Logs(bench, {}).restored()
    assert look(restored.state) == look(bench.replayed())
    assert (restored.stale, restored.keys) == ("it is not there", frozenset())
    assert Logs(Bench(), {}).restored().stale == "", "where nothing was decided yet there is nothing to write"


def test_rows_without_a_marker_or_too_few_of_them_are_not_believed() -> None:
    """As after a rewriting that was cut short, or on a topic that was made anew while the arbiter ran."""
    bench = story()
    whole = rows_of(bench)
    unmarked = {key: value for key, value in whole.items() if key != MARKER_KEY}
    fewer = {key: value for key, value in whole.items() if key != row_key(("gpu:b", "op-3"))}
    for rows, why in ((unmarked, "its marker is not there"), (fewer, "and had")):
        restored = Logs(bench, rows).restored()
        assert why in restored.stale
        assert look(restored.state) == look(bench.replayed())
        assert restored.keys == rows.keys() - {MARKER_KEY}, "what lies there is to be removed"


def test_rows_of_another_layout_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = story()
    rows = rows_of(bench)
    monkeypatch.setattr(room, "LAYOUT", "another")
    restored = Logs(bench, rows).restored()
    assert restored.stale == "another release laid its rows out"
    assert look(restored.state) == look(bench.replayed())


def test_rows_of_another_ledger_are_not_believed() -> None:
    bench, other = story(), Bench()
    for n in range(1, len(bench.decisions) + 3):
        other.say(reserve(f"else-{n}", n, f"window:{n}"))
    restored = Logs(other, rows_of(bench)).restored()
    assert "another record" in restored.stale
    assert look(restored.state) == look(other.replayed())


def test_a_ledger_that_ends_before_its_rows_do_halts() -> None:
    """Deciding over it would give what is held to somebody else."""
    bench = story()
    logs = Logs(bench, rows_of(bench))
    del logs.ledger[-1]
    with pytest.raises(Halted, match="records are gone"):
        logs.restored()
    logs.ledger.clear()
    with pytest.raises(Halted, match="records are gone"):
        logs.restored()
