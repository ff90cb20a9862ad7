"""The join gate, row by row: what is refused, for which reason and with which facts; and the control that passes."""

import pytest

from . import (
    table_admission,
    table_archive,
    table_executor,
    table_life,
    table_others,
    table_owners,
    table_planner,
    table_resources,
)
from .driver import Court
from .invariants import snapshot
from .scenes import Row

TABLE = {
    **table_planner.ROWS, **table_executor.ROWS, **table_others.ROWS, **table_resources.ROWS, **table_owners.ROWS,
    **table_life.ROWS, **table_admission.ROWS, **table_archive.ROWS,
}  # fmt: skip
ROWS = [pytest.param(row, id=f"{claim}: {row.name} ({row.reason})") for claim, rows in TABLE.items() for row in rows]


@pytest.mark.parametrize("row", ROWS)
def test_the_row_is_decided_as_the_table_says(row: Row) -> None:
    court = Court(row.catalogue())
    row.given(court)
    decision = row.when(court)
    assert (decision.verdict, decision.reason) == (row.verdict, row.reason), decision.detail
    if row.facts is not None:
        assert tuple(type(fact).__name__ for fact in decision.facts) == row.facts
    assert decision.detail or decision.verdict == "ACCEPTED", "a refusal says what happened"
    assert decision.claim == b"" or decision.verdict != "REPLAYED"
    assert snapshot(court.replayed()) == snapshot(court.state)


@pytest.mark.parametrize("row", [param for param in ROWS if param.values[0].control is not None])
def test_the_rows_control_passes(row: Row) -> None:
    court = Court(row.catalogue())
    row.given(court)
    assert row.control is not None
    decision = row.control(court)
    assert (decision.verdict, decision.reason) == ("ACCEPTED", "OK"), decision.detail


def test_no_two_rows_are_called_alike() -> None:
    names = [param.id for param in ROWS]
    assert len(set(names)) == len(names)
