"""The outbox keeps what it was given: through kill -9 at any moment, full disks of others, and several processes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from joingate_producers import OutboxBroken, OutboxFull, OutboxInUse
from joingate_producers.outbox import Effect, Outbox, open_slot, slot_paths

# Puts claims and begins effects for ever, and says so once each is on disk.
_VICTIM = """
import sys
from pathlib import Path
from joingate_producers.outbox import Effect, Outbox

outbox = Outbox(Path(sys.argv[1]))
for number in range(1_000_000):
    outbox.put(f"c{number}", "t.outcomes", -1, b"key", b"value %d" % number)
    outbox.begin_effect(Effect(f"op-{number}", 1, "intent"))
    print(number, flush=True)
"""


def _put(outbox: Outbox, claim_id: str) -> int:
    return outbox.put(claim_id, "t.outcomes", -1, b"key", b"value of " + claim_id.encode())


def _kill_after(path: Path, lines: int) -> int:
    """Run the victim, kill -9 it after so many lines, and return the last number that it called done."""
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, str(path)], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    last = -1
    for _ in range(lines):
        last = int(victim.stdout.readline())
    victim.send_signal(signal.SIGKILL)
    last = int(([str(last)] + [line for line in victim.stdout.read().splitlines() if line])[-1])
    victim.wait()
    return last


@pytest.mark.parametrize("lines", [1, 7, 50])
def test_what_was_put_survives_kill_9(tmp_path: Path, lines: int) -> None:
    """All that was called done is there, in order and byte for byte, and at most one more."""
    path = tmp_path / "victim.outbox"
    last = _kill_after(path, lines)
    outbox = Outbox(path)
    kept = outbox.kept()
    assert len(kept) in (last + 1, last + 2)
    assert [(one.claim_id, one.value) for one in kept] == [(f"c{n}", b"value %d" % n) for n in range(len(kept))]
    left = outbox.take_left_behind()
    assert len(left) in (last + 1, last + 2)
    assert outbox.take_left_behind() == []
    assert not outbox.begin_effect(Effect("op-0", 1, "intent")), "begun before, so not again"


def test_a_torn_tail_costs_only_what_was_not_confirmed(tmp_path: Path) -> None:
    """Half a record at the end of the write-ahead log, as a power cut leaves it, is dropped; the rest is there."""
    path = tmp_path / "victim.outbox"
    _kill_after(path, 5)
    log = path.with_name(path.name + "-wal")
    before = log.read_bytes()
    assert before, "the kill left a log"
    log.write_bytes(before[:-2000])
    kept = Outbox(path).kept()
    assert [one.claim_id for one in kept] == [f"c{number}" for number in range(len(kept))]
    assert len(kept) >= 3


def test_delivered_claims_are_forgotten(tmp_path: Path) -> None:
    """In any order, and once."""
    outbox = Outbox(tmp_path / "o")
    first, second = _put(outbox, "c1"), _put(outbox, "c2")
    outbox.delivered(first)
    outbox.delivered(first)
    assert [one.claim_id for one in outbox.kept()] == ["c2"]
    outbox.delivered(second)
    assert len(outbox) == 0


def test_a_full_outbox_takes_no_more_until_there_is_room(tmp_path: Path) -> None:
    """Its size is bounded, across reopening too."""
    outbox = Outbox(tmp_path / "o", claims_max=2)
    first = _put(outbox, "c1")
    _put(outbox, "c2")
    with pytest.raises(OutboxFull, match="holds 2 claims"):
        _put(outbox, "c3")
    outbox.close()
    outbox = Outbox(tmp_path / "o", claims_max=2)
    with pytest.raises(OutboxFull):
        _put(outbox, "c3")
    outbox.delivered(first)
    _put(outbox, "c3")


def test_an_effect_has_a_place_for_its_report_before_it_begins(tmp_path: Path) -> None:
    """Without one it is not begun; with one, its report always fits."""
    outbox = Outbox(tmp_path / "o", claims_max=1)
    assert outbox.begin_effect(Effect("op-1", 1, "i"))
    with pytest.raises(OutboxFull):
        outbox.begin_effect(Effect("op-2", 1, "i"))
    outbox.put("c1", "t.outcomes", -1, b"k", b"v", ends=("op-1", 1))
    assert len(outbox) == 1


def test_an_effect_is_begun_once_whatever_became_of_it(tmp_path: Path) -> None:
    """Begun, reported or given back: the same attempt is not begun again, after a restart either."""
    outbox = Outbox(tmp_path / "o")
    assert outbox.begin_effect(Effect("op-1", 1, "i"))
    outbox.put("c1", "t.outcomes", -1, b"k", b"v", ends=("op-1", 1))
    assert outbox.surrender(Effect("op-2", 1, "i"))
    outbox.close()
    outbox = Outbox(tmp_path / "o")
    assert outbox.take_left_behind() == [], "one was reported, the other never begun"
    assert not outbox.begin_effect(Effect("op-1", 1, "i"))
    assert not outbox.begin_effect(Effect("op-2", 1, "i"))
    assert not outbox.surrender(Effect("op-1", 1, "i"))
    assert outbox.begin_effect(Effect("op-1", 2, "i")), "the next attempt is another one"


def test_one_outbox_belongs_to_one_process(tmp_path: Path) -> None:
    """The second is told, whether it is of this process or another, and the first does not notice."""
    path = tmp_path / "o"
    outbox = Outbox(path)
    with pytest.raises(OutboxInUse, match="give each its own client id or outbox"):
        Outbox(path)
    other = (
        "import sys; from pathlib import Path; from joingate_producers.outbox import Outbox; Outbox(Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", other, str(path)], capture_output=True, text=True, check=False)
    assert "OutboxInUse" in done.stderr
    _put(outbox, "c1")
    outbox.close()
    assert len(Outbox(path)) == 1


def test_a_file_that_is_no_outbox_is_told_as_such(tmp_path: Path) -> None:
    """Nothing is guessed about it, and it stays as it is."""
    path = tmp_path / "o"
    path.write_bytes(b"somebody else's notes, " * 100)
    with pytest.raises(OutboxBroken, match="can't be used"):
        Outbox(path)
    assert path.read_bytes().startswith(b"somebody else's")


def test_a_folder_that_can_t_be_written_is_told_as_such(tmp_path: Path) -> None:
    """A path below a file can't be made."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutboxBroken, match="can't be opened"):
        Outbox(tmp_path / "file" / "o")


def test_a_full_disk_is_told_and_what_was_put_before_stays(tmp_path: Path) -> None:
    """SQLite's own limit on the size of the file stands in for the disk's."""
    outbox = Outbox(tmp_path / "o")
    _put(outbox, "c1")
    pages = outbox._db.execute("PRAGMA page_count").fetchone()[0]
    outbox._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(OutboxBroken, match="full"):
        outbox.put("c2", "t.outcomes", -1, b"k", b"x" * 100_000)
    outbox._db.execute("PRAGMA max_page_count=100000")
    _put(outbox, "c3")
    assert [one.claim_id for one in outbox.kept()] == ["c1", "c3"]
    assert len(outbox) == 2


def test_processes_of_one_name_take_a_slot_each(tmp_path: Path) -> None:
    """Two clients with the same id do not get in each other's way."""
    one, two = open_slot(tmp_path, "planner"), open_slot(tmp_path, "planner")
    assert one.path != two.path
    assert slot_paths(tmp_path, "planner") == [one.path, two.path]
    assert slot_paths(tmp_path, "other") == []


def test_whoever_starts_takes_over_what_the_dead_left(tmp_path: Path) -> None:
    """Claims and unreported effects of processes that never come back are not forgotten; the living keep theirs."""
    living, dead, empty = (open_slot(tmp_path, "planner") for _ in range(3))
    _put(living, "c-living")
    _put(dead, "c-dead")
    dead.begin_effect(Effect("op-1", 1, "i"))
    dead.close()
    empty.close()
    heir = open_slot(tmp_path, "planner")
    assert [one.claim_id for one in heir.kept()] == ["c-dead"]
    assert heir.take_left_behind() == [Effect("op-1", 1, "i")]
    assert [one.claim_id for one in living.kept()] == ["c-living"]
    heir.close()
    assert len(open_slot(tmp_path, "planner")) == 2


def test_old_notes_of_ended_effects_are_dropped_at_opening(tmp_path: Path) -> None:
    """So that the file does not grow for ever; what was not reported stays however old it is."""
    path = tmp_path / "o"
    outbox = Outbox(path)
    outbox.begin_effect(Effect("op-old", 1, "i"))
    outbox.put("c1", "t", -1, b"k", b"v", ends=("op-old", 1))
    outbox.begin_effect(Effect("op-open", 1, "i"))
    outbox.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE effects SET since_ms = 0")
    db.close()
    outbox = Outbox(path)
    assert outbox.take_left_behind() == [Effect("op-open", 1, "i")]
    assert outbox.begin_effect(Effect("op-old", 1, "i"))
