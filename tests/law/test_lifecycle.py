"""The table of a commitment's life is the law: each cell is played, each move is one of its moves."""

from typing import get_args

import pytest

from joingate_processors.law.lifecycle import COLUMNS, MATRIX, MOVES, STATES, Row
from joingate_schemas import facts as f
from joingate_schemas.reasons import REASONS

from .driver import Court, step
from .invariants import snapshot
from .life_catalogue import lived
from .life_plays import PLAYS, SITUATIONS, played

ROWS = {row.name: row for rows in MATRIX.values() for row in rows}
CELLS = [
    pytest.param(row, letter, outcome, id=f"{row.name}: {COLUMNS[letter][0]} ({COLUMNS[letter][1] or 'final'})")
    for row in ROWS.values()
    for outcome, letters in row.outcomes.items()
    for letter in letters
]
VERDICTS = {"refused": "REJECTED", "replayed": "REPLAYED", "compensate": "COMPENSATE"}


def moves_of(court: Court) -> set[tuple[str, str]]:
    """Every move from one state to another that was decided."""
    return {
        (fact.before, fact.after)
        for decision in court.decisions
        for fact in decision.facts
        if isinstance(fact, f.CommitmentChanged) and fact.before != fact.after
    }


@pytest.mark.parametrize(("row", "letter", "outcome"), CELLS)
def test_the_cell_is_what_the_law_does(row: Row, letter: str, outcome: str) -> None:
    court, decision, after = played(letter, row.name)
    words = outcome.split()
    verdict, reason = ("ACCEPTED", "OK") if words[0] not in VERDICTS else (VERDICTS[words.pop(0)], words.pop(0))
    assert (decision.verdict, decision.reason) == (verdict, reason), decision.detail
    assert after == (words[0] if words and words[0] != "stays" else COLUMNS[letter][0])
    assert moves_of(court) <= set(MOVES)
    if letter != "T":  # its state was told, not decided, so that no ledger rebuilds it
        assert snapshot(court.replayed()) == snapshot(court.state)


@pytest.mark.parametrize("name", ROWS)
def test_each_row_says_exactly_once_what_happens_in_each_column(name: str) -> None:
    letters = "".join(ROWS[name].outcomes.values())
    assert sorted(letters) == sorted(COLUMNS)


def test_every_row_and_column_can_be_played_and_none_is_played_beside_them() -> None:
    assert PLAYS.keys() == ROWS.keys()
    assert SITUATIONS.keys() == COLUMNS.keys()


def test_all_eleven_states_are_explained_and_have_a_column() -> None:
    assert STATES.keys() == set(get_args(f.CommitmentStatus))
    assert {status for status, _ in COLUMNS.values()} == STATES.keys()


def test_every_reason_in_the_table_is_one() -> None:
    said = {word for row in ROWS.values() for outcome in row.outcomes for word in outcome.split()}
    assert said - REASONS.keys() - STATES.keys() <= {"stays", *VERDICTS}


def test_no_move_leads_out_of_what_is_final_but_by_evidence_that_it_was_made_after_all() -> None:
    assert {move for move in MOVES if move[0] in f.TERMINAL_COMMITMENT} == {
        ("RELEASED", "RELEASE_PENDING"), ("RELEASED", "RECONCILIATION_REQUIRED"),
    }  # fmt: skip


def _taken_up_late(release: bool) -> Court:
    """Proven never made, and made all the same: of a type that gives that back, or of one that waits for its owner."""
    court = Court(lived())
    court.open(step("s1", "book" if release else "make_hold"))
    court.permit("s1")
    court.executor_abort("s1", proof="NOT_SENT")
    court.commit("s1")
    court.observe("s1", "PRESENT", external_ids=["ext-1"])
    return court


def _looked_at_while_made() -> Court:
    court = Court(lived())
    court.open(step("s1", "make_hold"))
    court.permit("s1")
    court.reconcile("COMMITMENT", court.commitment_id("s1"))
    court.commit("s1")
    return court


def _kept_after_all() -> Court:
    court = Court(lived())
    court.open(step("s1", "make_hold"))
    court.active("s1")
    court.release("s1")
    court.prepared(court.release_of("s1"))
    court.executor_abort(court.release_of("s1"), proof="REFUSED")
    court.override("COMMITMENT", court.commitment_id("s1"), "ACTIVE")
    return court


def _left_our_books() -> Court:
    """Breached by a person's word, offered all the same, and taken over by an owner outside our books."""
    court = Court(lived())
    court.open(step("s1", "make_duty"))
    court.active("s1")
    court.override("COMMITMENT", court.commitment_id("s1"), "BREACHED")
    court.transfer("s1", "desk:abroad")
    court.accept("s1", "desk:abroad", evidence=["receipt:1"])
    assert court.commitment("s1").status == "TRANSFERRED"
    return court


def test_every_move_is_made_by_some_cell_or_by_one_of_five_rarer_histories() -> None:
    courts = [played(letter, row)[0] for letter in COLUMNS for row in ROWS]
    courts += [_taken_up_late(True), _taken_up_late(False), _looked_at_while_made(), _kept_after_all(),
               _left_our_books()]  # fmt: skip
    assert set().union(*map(moves_of, courts)) == set(MOVES)
