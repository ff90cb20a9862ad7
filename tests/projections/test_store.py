"""The store's promises: one batch or nothing, whatever kills it; rows as in memory; readers beside the writer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from joingate_projections.store import (
    Position,
    ProjectionStore,
    StoreError,
    fingerprint,
    folder_of,
    index_value,
    key_of,
    parts_of,
)
from joingate_projections.tables import TABLES

CHILD_DEADLINE_S = 60


def test_the_store_holds_what_memory_holds(hand: Any, directory: Path) -> None:
    """One ledger folded over the store and over its in-memory twin: the same rows in every table."""
    hand.story()
    memory = hand.rows()
    with ProjectionStore.open(directory) as store:
        hand.store_in(store)
        with store.view() as view:
            for table in TABLES:
                assert dict(view.rows(table)) == dict(sorted(memory.tables[table].items())), table


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_size_of_batches_changes_nothing(hand: Any, directory: Path, tmp_path: Path, size: int) -> None:
    """Rows, indexes and counts are equal however the ledger was cut, and however often it is folded anew."""
    hand.story()
    with ProjectionStore.open(directory) as store, ProjectionStore.open(tmp_path / "other") as other:
        hand.store_in(store)
        hand.store_in(other, size=size)
        assert fingerprint(store) == fingerprint(other)
        assert store.position("ledger", 0) == hand.position(len(hand.values))
        other.empty()
        assert fingerprint(other) != fingerprint(store)
        assert other.position("ledger", 0) is None
        hand.store_in(other, size=size)
        assert fingerprint(store) == fingerprint(other)


def test_a_store_goes_on_where_it_stopped(hand: Any, directory: Path, tmp_path: Path) -> None:
    """Closed halfway and opened again, it ends as if it had never been closed."""
    hand.story()
    with ProjectionStore.open(directory) as store:
        whole, hand.values = hand.values, hand.values[:6]
        hand.store_in(store)
        hand.values = whole
    with ProjectionStore.open(directory) as store, ProjectionStore.open(tmp_path / "other") as other:
        position = store.position("ledger", 0)
        assert position is not None
        hand.store_in(store, start=position.seq)
        hand.store_in(other)
        assert fingerprint(store) == fingerprint(other)


def test_an_index_follows_its_rows(directory: Path) -> None:
    """Found under the present value only, under each one of a list, and not at all once deleted."""
    with ProjectionStore.open(directory) as store:

        def write(row: dict[str, Any] | None) -> None:
            batch = store.batch()
            if row is None:
                batch.delete("commitments", "c1")
            else:
                batch.put("commitments", "c1", row)
            batch.commit()

        def found(field: str, value: str | None) -> list[tuple[str, str]]:
            with store.view() as view:
                return list(view.find("commitments", field, value))

        write({"status": "ACTIVE", "shown": "ACTIVE COMMITMENT", "resource_refs": ["a", "b"], "due_at": 5})
        assert found("status", "ACTIVE") == [("ACTIVE", "c1")]
        assert found("resource_refs", None) == [("a", "c1"), ("b", "c1")]
        assert found("due_at", None) == [(index_value(5), "c1")]
        write({"status": "RELEASED", "shown": "COMPLETE", "resource_refs": ["b"], "due_at": None})
        assert found("status", "ACTIVE") == []
        assert found("resource_refs", None) == [("b", "c1")]
        assert found("due_at", None) == []
        with store.view() as view:
            assert view.counts("commitments", "status") == {"RELEASED": 1}
        write(None)
        assert found("status", None) == []
        with store.view() as view:
            assert view.counts("commitments", "status") == {}
            assert view.get("commitments", "c1") is None


def test_keys_do_not_mix_whatever_ids_hold() -> None:
    """Refused claims carry any text as an id: parts with zeros, or none at all, stay apart and come back whole."""
    odd = [("a", "b"), ("a\0b",), ("a\0", "b"), ("a", "\0b"), ("", "ab"), ("a\x1fb", "ÿ"), ("ab", "")]
    keys = [key_of(*parts) for parts in odd]
    assert len(set(keys)) == len(keys)
    assert [tuple(parts_of(key)) for key in keys] == odd


def test_rows_walk_both_ways_and_from_anywhere(directory: Path) -> None:
    """By key, forwards and backwards, behind a given one; a neighbour's keys never show."""
    with ProjectionStore.open(directory) as store:
        batch = store.batch()
        for key in ("a", "a\x1fb", "a/b", "b"):
            batch.put("slots", key, {"key": key})
        batch.put("subject_orphans", "a", {})
        batch.commit()
        with store.view() as view:
            everything = [key for key, _ in view.rows("slots")]
            assert everything == ["a", "a\x1fb", "a/b", "b"]
            assert [key for key, _ in view.rows("slots", backwards=True)] == everything[::-1]
            assert [key for key, _ in view.rows("slots", after="a")] == everything[1:]
            assert [key for key, _ in view.rows("slots", after="a/b", backwards=True)] == ["a\x1fb", "a"]


def test_a_view_stands_still(hand: Any, directory: Path) -> None:
    """What another thread writes meanwhile is in the next view: rows and position of an answer belong together."""
    with ProjectionStore.open(directory) as store:
        hand.decide(hand.declared())
        hand.store_in(store)
        hand.decide(hand.planned())
        writer = threading.Thread(target=lambda: hand.store_in(store, start=1))
        with store.view() as view:
            writer.start()
            for _ in range(3):
                assert [position.seq for position in view.positions()] == [1]
                assert list(view.rows("plans")) == []
        writer.join()
        with store.view() as view:
            assert [position.seq for position in view.positions()] == [2]
            assert len(list(view.rows("plans"))) == 1


def test_a_store_of_another_layout_is_emptied(hand: Any, directory: Path) -> None:
    """Each layout has a folder of its own; a folder that holds another one all the same is emptied, not misread."""
    hand.story()
    with ProjectionStore.open(directory, version=1) as store:
        hand.store_in(store)
        assert not store.emptied
    with ProjectionStore.open(directory, version=2) as store:
        assert not store.emptied
        assert store.position("ledger", 0) is None
    folder_of(directory, 2).rename(directory / "aside")
    folder_of(directory, 1).rename(folder_of(directory, 2))
    with ProjectionStore.open(directory, version=2) as store:
        assert store.emptied
        assert store.position("ledger", 0) is None
        with store.view() as view:
            assert list(view.rows("intents")) == []


def test_a_damaged_store_is_emptied(hand: Any, directory: Path) -> None:
    """Nothing in it is worth more than folding the ledger again."""
    hand.story()
    with ProjectionStore.open(directory) as store:
        hand.store_in(store)
    (folder_of(directory) / "CURRENT").write_text("nonsense\n")
    with ProjectionStore.open(directory) as store:
        assert store.emptied
        hand.store_in(store)
        assert store.position("ledger", 0) == hand.position(len(hand.values))


def test_one_process_writes(directory: Path) -> None:
    """A second writer is told so in a sentence."""
    with ProjectionStore.open(directory), pytest.raises(StoreError, match="Another process writes the projections"):
        ProjectionStore.open(directory)


def test_a_reader_needs_a_store(directory: Path) -> None:
    """Without one it says what to start, and leaves nothing behind."""
    with pytest.raises(StoreError, match=r"There are no projections in .* yet"):
        ProjectionStore.open_reader(directory)
    assert not directory.exists()


READER = """
import json, sys
from pathlib import Path
from joingate_projections.store import ProjectionStore, StoreError

with ProjectionStore.open_reader(Path(sys.argv[1])) as store:
    for line in sys.stdin:
        with store.view() as view:
            said = [sorted(key for key, _ in view.rows("intents")), [p.seq for p in view.positions()]]
        try:
            store.put_statuses({})
        except StoreError:
            said.append("refused")
        print(json.dumps(said), flush=True)
"""


def test_another_process_reads_while_the_writer_writes(hand: Any, hands: Any, directory: Path) -> None:
    """It follows batch by batch, a rebuild included, and cannot write."""
    with ProjectionStore.open(directory) as store:
        hand.decide(hand.declared())
        hand.store_in(store)
        with subprocess.Popen(
            [sys.executable, "-c", READER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None

            def ask() -> Any:
                reader.stdin.write("?\n")  # type: ignore[union-attr]
                reader.stdin.flush()  # type: ignore[union-attr]
                return json.loads(reader.stdout.readline())  # type: ignore[union-attr]

            assert ask() == [[hand.intent_id], [1], "refused"]
            other = hands(partition=1, intent_id="acme/other")
            other.decide(other.declared())
            other.store_in(store)
            hand.decide(hand.planned())
            hand.store_in(store, start=1)
            assert ask() == [["acme/other", hand.intent_id], [2, 1], "refused"]
            store.empty()
            assert ask() == [[], [], "refused"]
            other.store_in(store)
            assert ask() == [["acme/other"], [1], "refused"]
            reader.stdin.close()
            assert reader.wait(CHILD_DEADLINE_S) == 0


FOLDER = """
import hashlib, sys
from pathlib import Path
from joingate_projections.fold import fold
from joingate_projections.store import Position, ProjectionStore
from joingate_schemas.codec import Codec

codec = Codec()
values = [bytes.fromhex(line) for line in Path(sys.argv[2]).read_text().split()]
with ProjectionStore.open(Path(sys.argv[1])) as store:
    position = store.position("ledger", 0)
    print("open", flush=True)
    for index in range(position.seq if position else 0, len(values)):
        batch = store.batch()
        fold(batch, codec.decode(values[index]), 0)
        digest = hashlib.sha256(values[index]).hexdigest()
        batch.reached(Position("ledger", 0, offset=index, seq=index + 1, epoch=1, digest=digest))
        batch.commit()
        print(index + 1, flush=True)
    print("done", flush=True)
"""


def test_killed_at_any_moment_the_store_is_the_replay_up_to_its_position(
    hands: Any, directory: Path, tmp_path: Path
) -> None:
    """kill -9 again and again, at another moment each time: rows and position always agree, the end is right (C20)."""
    hand = hands()
    for n in range(12):
        one = hands(intent_id=f"acme/refund/{n}")
        one.codec, one.decisions, one.values = hand.codec, hand.decisions, hand.values
        one.story()
    ledger = tmp_path / "ledger"
    ledger.write_text("\n".join(value.hex() for value in hand.values))
    finished = False
    for lines_before_the_kill in (1, 2, 9, 17, 30, 41, 1_000):
        with subprocess.Popen(
            [sys.executable, "-c", FOLDER, str(directory), str(ledger)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _, line in zip(range(lines_before_the_kill), child.stdout, strict=False):
                finished = line.strip() == "done"
            child.send_signal(signal.SIGKILL)
        with ProjectionStore.open(directory) as store:
            assert not store.emptied
            position = store.position("ledger", 0)
            seq = position.seq if position else 0
            assert position is None or position == hand.position(seq)
            _assert_is_replay(hands, hand, seq, store, tmp_path / f"replay-{lines_before_the_kill}")
    assert finished
    assert seq == len(hand.values)


def _assert_is_replay(hands: Any, hand: Any, seq: int, store: ProjectionStore, directory: Path) -> None:
    """The store equals one into which the first `seq` decisions are folded now."""
    prefix = hands()
    prefix.values = hand.values[:seq]
    with ProjectionStore.open(directory) as replay:
        prefix.store_in(replay, size=50)
        assert fingerprint(replay) == fingerprint(store)


FULL = """
import resource, signal, sys
from pathlib import Path
from joingate_projections.store import Position, ProjectionStore, StoreError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with ProjectionStore.open(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    for seq in range(1, 10_000):
        batch = store.batch()
        batch.put("slots", f"{seq:06d}", {"filler": "x" * 500})
        batch.reached(Position("ledger", 0, offset=seq, seq=seq, epoch=1, digest=""))
        try:
            batch.commit()
        except StoreError as error:
            print(seq, error)
            break
"""


def test_a_full_disk_loses_nothing(directory: Path) -> None:
    """The batch that does not fit is refused with a sentence and is not there afterwards; what was written is."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(directory)],
        capture_output=True,
        text=True,
        timeout=CHILD_DEADLINE_S,
        check=True,
    )
    refused, _, sentence = done.stdout.partition(" ")
    assert "cannot be written" in sentence
    assert "Make room" in sentence
    with ProjectionStore.open(directory) as store:
        position = store.position("ledger", 0)
        assert position is not None
        assert position.seq == int(refused) - 1
        with store.view() as view:
            assert len(list(view.rows("slots"))) == position.seq


def test_what_a_writer_says_of_itself_is_no_part_of_the_projection(hand: Any, directory: Path) -> None:
    """Statuses are read beside the rows, and do not enter the fingerprint."""
    hand.story()
    with ProjectionStore.open(directory) as store:
        hand.store_in(store)
        before = fingerprint(store)
        store.put_statuses({"gone": {}})
        store.put_statuses({"ledger-0": {"state": "STOPPED"}})
        assert fingerprint(store) == before
        with store.view() as view:
            assert view.statuses() == {"ledger-0": {"state": "STOPPED"}}
            assert view.positions() == [Position(**vars(hand.position(len(hand.values))))]
