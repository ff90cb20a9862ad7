"""Every reason is numbered once, documented, used by the law and reached by a row of the table, or said to be kept."""

import ast
from pathlib import Path

import pytest

import joingate_processors.law
from joingate_schemas.reasons import REASONS, Retry, reason_number, reasons_markdown

from .test_table import TABLE

LAW = Path(joingate_processors.law.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reasons.md"

KEPT = {
    "UNKNOWN": "what an older release reads where a newer one wrote a reason that it does not know",
    **dict.fromkeys(
        (
            "RESOURCE_DENIED",
            "RESOURCE_SPENT",
            "OVER_CAPACITY",
            "RESOURCE_QUARANTINED",
            "STALE_MESSAGE",
            "NOT_SUPPORTED",
        ),
        "the arbiter gives it (tests/arbiter)",
    ),
    **dict.fromkeys(
        (
            "UNSIGNED",
            "BAD_SIGNATURE",
            "UNKNOWN_KEY",
            "KEY_REVOKED",
            "KEY_REPLACED",
            "OVER_LIMIT",
            "NOT_REGISTRAR",
            "KEY_TAKEN",
        ),
        "only where principals are declared, and they have a room of their own (test_principals)",
    ),
}
"""Reasons that no row of the table reaches, and why."""


def _named_in_law() -> set[str]:
    """Every text in the law's code that is the name of a reason or might be one: capitals where a reason stands."""
    found: set[str] = set()
    for path in sorted(LAW.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            place = {"refuse": 0, "Ruling": 1}.get(node.func.id)
            if place is None or len(node.args) <= place:
                continue
            found |= {one.value for one in ast.walk(node.args[place])
                      if isinstance(one, ast.Constant) and isinstance(one.value, str)}  # fmt: skip
    return found


def test_a_reasons_number_is_its_own_and_its_hundred_is_a_guards() -> None:
    numbers = [reason.number for reason in REASONS.values()]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1000 for number in numbers)
    assert numbers == sorted(numbers), "the table is read in its order"


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_says_what_it_means_what_to_do_and_whether_to_try_again(name: str) -> None:
    reason = REASONS[name]
    assert reason.name == name == name.upper()
    assert reason.meaning.endswith(".")
    assert reason.advice.endswith(".")
    assert isinstance(reason.retry, Retry)
    assert reason_number(name) == reason.number
    assert not any("|" in text or "\n" in text for text in (reason.meaning, reason.advice))


def test_a_reason_that_nobody_knows_has_number_0() -> None:
    assert reason_number("A_REASON_OF_TOMORROW") == 0


def test_every_reason_that_the_law_names_is_in_the_table() -> None:
    named = _named_in_law()
    assert len(named) > 40
    assert named <= set(REASONS), named - set(REASONS)


def test_every_reason_is_reached_by_a_row_of_the_table_or_kept_for_later() -> None:
    reached = {row.reason for rows in TABLE.values() for row in rows}
    assert reached | set(KEPT) == set(REASONS)
    assert not reached & set(KEPT)


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == reasons_markdown()
