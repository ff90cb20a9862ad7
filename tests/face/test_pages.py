"""The pages that are made from the code say what the code does; to make them anew, run this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.forensics.play import run_trace
from joingate_processors.forensics.trace_page import EXAMPLE, trace_markdown
from joingate_processors.law.lifecycle_page import commitments_markdown
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_text
from joingate_schemas.catalogue_page import AHEAD, MEANINGS, catalogue_markdown, without_effect
from joingate_schemas.catalogue_shape import SECTIONS, ArgumentShape, TopShape

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "traces.md": trace_markdown,
    "catalogue.md": catalogue_markdown,
    "commitments.md": commitments_markdown,
}
SMALL = """
version: '1'
downstreams:
  post: {capabilities: [NONE]}
actions:
  send: {downstream: post, effect: IRREVERSIBLE, kind: RETRYABLE}
"""
RECORDED = ", arguments: {amount: {from_records: true}, to: {}}}"
"""A further field of its action, which has no effect yet."""
TOLD = "actions.*.arguments.*.from_records (send.amount): this release does not act on it"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "make the pages anew: run this file"


def test_every_field_of_a_catalogue_is_explained_and_none_beside_them() -> None:
    shapes = {"": TopShape, **SECTIONS, "arguments": ArgumentShape}
    assert {section: set(shape.model_fields) for section, shape in shapes.items()} == {
        section: set(words) for section, words in MEANINGS.items()
    }
    assert all(set(names) <= MEANINGS[section].keys() for section, names in AHEAD.items())


def test_the_trace_on_the_page_plays() -> None:
    result = run_trace(EXAMPLE.splitlines())
    assert (result.failures, [one["verdict"] for one in result.decisions]) == ([], ["ACCEPTED"] * 6)


def test_a_catalogue_is_told_which_of_its_fields_have_no_effect() -> None:
    """Each field once, with all who set it; a catalogue that sets none hears nothing."""
    assert list(without_effect(catalogue_from_text(SMALL))) == []
    told = list(without_effect(catalogue_from_text(SMALL.rstrip()[:-1] + RECORDED)))
    assert told == [TOLD]
    assert any("from_records (reverse_fee.amount)" in one for one in without_effect(builtin_catalogue()))


def test_a_check_tells_it_beside_the_answer(joingate: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL.rstrip()[:-1] + RECORDED)
    said = joingate("catalogue", "check", path)
    assert said.code == 0
    assert TOLD in said.err
    (told,) = joingate("catalogue", "check", path, "--json").objects
    assert told["without_effect"] == [TOLD]


if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
