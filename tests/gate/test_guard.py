"""A ledger defends itself: whoever reads it stops at a gap, a fork or a replaced writer, and drops what it has seen."""

import hashlib

import pytest

from joingate_schemas.decisions import Decision
from joingate_schemas.guard import RECENT_MAX, Fork, Gap, LedgerGuard, LowerEpoch


def record(seq: int, previous: bytes, epoch: int = 1, said: str = "") -> tuple[Decision, bytes]:
    """A ledger record and its bytes."""
    decision = Decision(
        seq=seq, epoch=epoch, decided_at=0, topic="proposals", offset=seq, appended_at=0, claim_type="Close",
        claim_id="", intent_id="", principal="", claim=b"", verdict="REJECTED", reason="", detail=said, subject_id="",
        status="", refers_to=0, facts=[], previous=previous,
    )  # fmt: skip
    return decision, repr(decision).encode()


def digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def chain(length: int, start: int = 1, previous: bytes = b"") -> list[tuple[Decision, bytes]]:
    """`length` records, each of which continues the one before."""
    made = []
    for seq in range(start, start + length):
        made.append(record(seq, previous))
        previous = digest(made[-1][1])
    return made


def test_a_chain_is_new_record_by_record_and_a_repeated_one_is_seen() -> None:
    guard = LedgerGuard()
    records = chain(3)
    assert [guard.check(*one) for one in records] == ["NEW"] * 3
    assert [guard.check(*one) for one in records] == ["SEEN"] * 3
    assert (guard.seq, guard.digest) == (3, digest(records[-1][1]))


def test_a_gap_stops_and_leaves_the_guard_where_it_was() -> None:
    guard = LedgerGuard()
    first, second, third = chain(3)
    guard.check(*first)
    with pytest.raises(Gap, match="from seq 1 to 3"):
        guard.check(*third)
    assert guard.check(*second) == "NEW"


def test_the_same_seq_with_other_bytes_is_a_fork() -> None:
    guard = LedgerGuard()
    guard.check(*record(1, b""))
    with pytest.raises(Fork, match="two records with seq 1"):
        guard.check(*record(1, b"", said="something else"))


def test_a_record_that_continues_another_past_is_a_fork() -> None:
    guard = LedgerGuard()
    guard.check(*record(1, b""))
    with pytest.raises(Fork, match="seq 2 continues another record"):
        guard.check(*record(2, digest(b"another past")))


def test_a_replaced_writer_is_refused_even_where_its_record_would_fit() -> None:
    guard = LedgerGuard()
    first, raw = record(1, b"", epoch=2)
    guard.check(first, raw)
    with pytest.raises(LowerEpoch, match="epoch 1, after epoch 2"):
        guard.check(*record(2, digest(raw), epoch=1))
    assert guard.check(*record(2, digest(raw), epoch=3)) == "NEW"


def test_a_reader_that_starts_in_the_middle_checks_from_there() -> None:
    guard = LedgerGuard.from_anywhere()
    seventh, eighth, _, tenth = chain(4, start=7, previous=b"unknown")
    assert guard.check(*seventh) == "NEW"
    assert guard.check(*eighth) == "NEW"
    with pytest.raises(Gap):
        guard.check(*tenth)


def test_a_reader_that_goes_on_from_a_stored_position_knows_its_last_record() -> None:
    first, second = chain(2)
    guard = LedgerGuard(1, digest(first[1]), epoch=1)
    assert guard.check(*first) == "SEEN"
    with pytest.raises(Fork):
        guard.check(*record(1, b"", said="something else"))
    assert guard.check(*second) == "NEW"


def test_what_a_guard_remembers_is_bounded() -> None:
    guard = LedgerGuard()
    for one in chain(RECENT_MAX + 10):
        guard.check(*one)
    assert guard.check(*record(5, b"", said="too old to compare")) == "SEEN"
    with pytest.raises(Fork):
        guard.check(*record(RECENT_MAX, b"", said="recent enough"))
