"""The arbiter's ledger beside the gate's: an honest pair goes together, and each tampering with it shows, and where."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from joingate.audit_resources import ResourceAudit
from joingate.ledger import Entry, Ruling
from joingate_processors.forensics.checked_both import TWO_LEDGERS, TwoLedgers
from joingate_schemas.arbitration import ArbiterDecision
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import ResourceChanged
from joingate_schemas.record import changed

from .market import Market

Rulings = list[ArbiterDecision]


def story() -> Market:
    """Everything that the two say to each other: asked, granted, denied, prolonged, quarantined, given back, spent."""
    market = Market()
    market.want("one", "sweep", bench="b1")
    market.want("two", "sweep", bench="b1")  # denied
    market.sim.advance(60_000)  # the lease of the first is over, and it may yet act
    market.commit("one")
    market.dispatch("two")
    market.want("wire", "wire", account="9")
    market.prepared("wire")
    market.doubt("wire")  # nobody can be asked: quarantine
    market.override("wire", "SETTLED")
    market.want("held", "train_held", bench="b2")
    market.abort("held")
    market.want("last", "sweep", bench="b1")  # denied, so that something later is heard of this bench
    return market


STORY = story()


def beside(rulings: Iterable[ArbiterDecision], decisions: Iterable[Decision]) -> TwoLedgers:
    book = TwoLedgers()
    for ruling in rulings:
        book.ruling(0, ruling)
    for decision in decisions:
        book.decision(STORY.sim.partition, decision)
    return book


def broken(book: TwoLedgers) -> set[str]:
    return {violation.invariant for _, violation in [*book.unheard(), *book.unasked(), *book.kept()]}


def first(kind: str, verdict: str = "", **fields: Any) -> ArbiterDecision:
    """The first ruling of the story on such a message."""
    return next(
        one for one in STORY.sim.arbiter.decisions
        if one.message_type == kind and verdict in ("", one.verdict)
        and all(getattr(one, name) == value for name, value in fields.items())
    )  # fmt: skip


def instead(ruling: ArbiterDecision, /, **fields: Any) -> Rulings:
    """The story's rulings with this one told otherwise."""
    return [changed(one, **fields) if one is ruling else one for one in STORY.sim.arbiter.decisions]


def without(*gone: ArbiterDecision) -> Rulings:
    return [one for one in STORY.sim.arbiter.decisions if not any(one is other for other in gone)]


def beyond() -> int:
    return STORY.sim.decisions[-1].seq + 7


def test_an_honest_pair_of_ledgers_goes_together() -> None:
    kinds = {(one.message_type, one.verdict) for one in STORY.sim.arbiter.decisions}
    assert kinds >= {("Reserve", "GRANTED"), ("Reserve", "DENIED"), ("Quarantine", "DONE"), ("Free", "DONE")}
    book = beside(STORY.sim.arbiter.decisions, STORY.sim.decisions)
    assert broken(book) == set()
    assert book.under_way == 0
    assert book.held == 1, "what the second of them was granted, it has"


def quantity_of(ruling: ArbiterDecision, quantity: int) -> Rulings:
    assert ruling.hold is not None
    return instead(ruling, hold={**ruling.hold, "quantity": quantity})


TAMPERED: list[tuple[str, str, Callable[[], Rulings]]] = [
    ("ASKED", "a grant for another", lambda: instead(first("Reserve", "GRANTED"), operation_id="op-forged")),
    ("ASKED", "a grant of another thing", lambda: instead(first("Reserve", "GRANTED"), resource_ref="bench:b9")),
    ("ASKED", "a grant by another decision", lambda: instead(first("Reserve", "GRANTED"), n=1)),
    ("ASKED", "a grant by a decision that is not there", lambda: instead(first("Reserve", "GRANTED"), n=beyond())),
    ("ASKED", "a grant to another gate", lambda: instead(first("Reserve", "GRANTED"), gate_epoch=9)),
    ("ASKED", "more than was asked for", lambda: quantity_of(first("Reserve", "GRANTED"), 2)),
    ("ASKED", "a denial of what nobody asked", lambda: instead(first("Reserve", "DENIED"), n=1)),
    ("ASKED", "freed before its end", lambda: instead(first("Free"), n=first("Reserve", "GRANTED").n)),
    ("ASKED", "quarantined without a doubt", lambda: instead(first("Quarantine"), n=1)),
    ("ASKED", "prolonged for nothing", lambda: instead(first("Free"), message_type="Extend")),
    ("HEARD", "a grant that is gone", lambda: without(first("Reserve", "GRANTED"))),
    ("HEARD", "a grant told as a denial", lambda: instead(first("Reserve", "GRANTED"), verdict="DENIED", hold=None)),
    ("FREED", "kept after its end", lambda: without(first("Free"))),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "how", "rulings"), TAMPERED, ids=[f"{one[0]} {one[1]}" for one in TAMPERED])
def test_a_tampered_ledger_is_caught(invariant: str, how: str, rulings: Callable[[], Rulings]) -> None:
    assert invariant in broken(beside(rulings(), STORY.sim.decisions)), how


def test_every_invariant_has_a_ledger_that_breaks_it() -> None:
    assert {invariant for invariant, _, _ in TAMPERED} == set(TWO_LEDGERS)


def test_a_gates_ledger_that_lost_its_asking_is_caught_too() -> None:
    def forgetful(decision: Decision) -> Decision:
        left = [one for one in decision.facts if not (isinstance(one, ResourceChanged) and one.standing == "ASKED")]
        return changed(decision, facts=left)

    assert broken(beside(STORY.sim.arbiter.decisions, map(forgetful, STORY.sim.decisions))) == {"ASKED"}


def test_what_the_arbiter_has_not_heard_yet_is_under_way_and_no_fault() -> None:
    """The gate's ledger was read after the arbiter's, and had gone on: a grant is not heard, an end is not told yet."""
    rulings = STORY.sim.arbiter.decisions
    behind = [one for one in rulings if one.seq < first("Free").seq]
    book = beside(behind, STORY.sim.decisions)
    assert {violation.invariant for _, violation in [*book.unasked(), *book.kept()]} == set()
    assert book.under_way == 1
    unheard = book.unheard()
    assert {violation.invariant for _, violation in unheard} == {"HEARD"}
    for ruling in rulings:
        book.granted(ruling)
    assert book.unheard() == [], "reading the arbiter's ledger once more clears it up"


def test_of_a_gates_partition_that_is_not_read_nothing_is_said() -> None:
    book, whole = TwoLedgers(only=1), TwoLedgers()
    for ruling in STORY.sim.arbiter.decisions:
        book.ruling(0, ruling)
        whole.ruling(0, ruling)
    assert STORY.sim.partition != 1
    assert broken(book) == set()
    assert broken(whole) == {"ASKED"}, "but where all of them are read, each must have its decision"


def audited(rulings: Rulings) -> ResourceAudit:
    audit = ResourceAudit(STORY.sim.codec, [0])
    for place, ruling in enumerate(rulings):
        audit.ruling(Ruling(0, place, STORY.sim.codec.encode(ruling), ruling))
    for place, decision in enumerate(STORY.sim.decisions):
        audit.entry(Entry(STORY.sim.partition, place, STORY.sim.ledger[place], decision))
    return audit


def test_the_arbiters_law_decides_every_message_again_and_comes_to_the_same() -> None:
    audit = audited(STORY.sim.arbiter.decisions)
    assert (audit.breaches(), audit.disagreements, audit.lacks) == ([], [], False)
    assert audit.records == {0: len(STORY.sim.arbiter.decisions)}


@pytest.mark.parametrize(
    ("rulings", "said"),
    [
        (lambda: instead(first("Reserve", "DENIED"), holder="op-9"), "was DENIED RESOURCE_DENIED, and is DENIED"),
        (lambda: instead(first("Reserve", "DENIED"), message=b"\xff"), "and can't be decided again"),
        (lambda: instead(first("LeasePassed"), operation_id="op-9"), "and can't be decided again"),
    ],
    ids=["told otherwise", "a message that can't be read", "a lease of nobody"],
)  # fmt: skip
def test_what_the_law_decides_otherwise_is_told(rulings: Callable[[], Rulings], said: str) -> None:
    assert said in "\n".join(audited(rulings()).disagreements)
