"""The arbiter's ledger is checked by a book that knows no law; each of its invariants is able to fail."""

from collections.abc import Callable
from typing import Any

import pytest

from joingate_processors.forensics.checked_resources import RESOURCE_INVARIANTS, check_resources
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.record import changed

from .bench import CODEC, Bench, free, quarantine, reserve

GPU: dict[str, Any] = {"ref": "gpu:g", "mode": "CAPACITY", "capacity": 5}


def story() -> Bench:
    """A ledger in which everything that the book reads occurs: grants, a denial, a quarantine, a lease, an end."""
    bench = Bench()
    bench.say(reserve("op-1", lease_ms=50))  # seq 1
    bench.say(reserve("op-2", n=2))  # 2: denied
    bench.say(reserve("op-3", n=3, quantity=3, **GPU))  # 3
    bench.say(reserve("op-4", n=4, quantity=2, **GPU))  # 4
    bench.advance(50)  # 5: the lease
    bench.say(free("op-1", n=6))  # 6
    bench.say(reserve("op-2", n=7))  # 7
    bench.say(quarantine("op-2", n=8))  # 8
    bench.say(free("op-2", n=9))  # 9
    bench.say(reserve("op-5", n=10))  # 10
    return bench


STORY = story()


def with_record(place: int, /, **fields: Any) -> list[ArbiterDecision]:
    return [changed(one, **fields) if one.seq == place else one for one in STORY.decisions]


def hold(seq: int, **fields: Any) -> dict[str, Any]:
    found = STORY.decisions[seq - 1].hold
    assert found is not None
    return {**found, **fields}


def without_end(seq: int) -> list[ArbiterDecision]:
    """The story in which what ended at `seq` goes on."""
    return with_record(seq, hold=STORY.decisions[seq - 2].hold)


BROKEN: list[tuple[str, str, Callable[[], list[ArbiterDecision]]]] = [
    ("CONTIGUOUS", "a gap", lambda: with_record(4, seq=40)),
    ("CHAINED", "another hash", lambda: with_record(4, previous=b"x")),
    ("EPOCH", "a lower epoch", lambda: with_record(4, epoch=0)),
    ("TIME", "back in time", lambda: with_record(4, decided_at=1)),
    ("ONCE", "a message twice", lambda: with_record(7, n=2)),
    ("ALONE", "two holders", lambda: with_record(2, verdict="GRANTED", reason="OK", hold=hold(1, operation_id="op-2"))),
    ("WITHIN", "beyond the capacity", lambda: with_record(4, hold=hold(4, quantity=3))),
    ("QUARANTINED", "granted all the same", lambda: without_end(9)),
    ("LEASE", "taken away", lambda: with_record(5, hold=None)),
    ("GRANT", "by a denial", lambda: with_record(2, hold=hold(1, operation_id="op-2"))),
    ("GRANT", "more than asked for", lambda: with_record(3, hold=hold(3, quantity=4))),
    ("GRANT", "beyond the capacity that was said", lambda: with_record(3, hold=hold(3, capacity=50))),
    ("GRANT", "a message of another", lambda: with_record(3, message=STORY.decisions[3].message)),
    ("GRANT", "a message that is none", lambda: with_record(3, message=b"\xff")),
    ("GRANT", "a message that asks for nothing", lambda: with_record(3, message=STORY.decisions[5].message)),
    ("GRANT", "under another number", lambda: with_record(3, n=4)),
    ("NAMED", "who does not have it", lambda: with_record(2, holder="op-9")),
    ("NAMED", "a denial that gives", lambda: with_record(2, hold=hold(1, operation_id="op-2"))),
]


def test_a_good_ledger_breaks_nothing() -> None:
    assert [one.verdict for one in STORY.decisions].count("DENIED") == 1
    assert check_resources(STORY.decisions, STORY.ledger, CODEC) == []


@pytest.mark.parametrize(("invariant", "how", "broken"), BROKEN, ids=[f"{one[0]} {one[1]}" for one in BROKEN])
def test_a_broken_ledger_is_caught(invariant: str, how: str, broken: Callable[[], list[ArbiterDecision]]) -> None:
    raw = STORY.ledger if invariant == "CHAINED" else None
    assert invariant in {one.invariant for one in check_resources(broken(), raw, CODEC)}, how


def test_what_was_done_without_a_grant_is_spent_and_breaks_nothing() -> None:
    """A late success is no less real, so it is no gift either."""
    bench = Bench()
    bench.say(reserve("op-1", mode="ONCE_EVER"))
    bench.say(free("op-1", n=2))
    assert bench.say(free("op-1", n=3, outcome="USED", mode="ONCE_EVER")).hold is not None
    assert check_resources(bench.decisions, bench.ledger, CODEC) == []


def test_every_invariant_has_a_ledger_that_breaks_it() -> None:
    assert {invariant for invariant, _, _ in BROKEN} == set(RESOURCE_INVARIANTS)
