"""What the whole ledger is worth: simpler systems lose obligations over the same stories, the full graph loses none."""

from importlib import import_module
from pathlib import Path

import pytest

from joingate_processors.forensics.alternatives import SYSTEMS, Comparison, compare, outcomes
from joingate_processors.forensics.obligations_world import (
    Outcome,
    Provider,
    Slot,
    Story,
    Taken,
    draw_story,
    judged,
)
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec

STORIES = 300
PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
MARKS = ("<!-- alternatives table: begin -->\n", "<!-- alternatives table: end -->")


def markdown(result: Comparison) -> str:
    """The table of the page: what each system loses, and what it costs."""
    rows = [
        f"| {one.system} | {one.leaked} | {one.duplicated} | {one.lost} | {one.calls} | {one.records} | {one.people} |"
        for one in result.tallies
    ]
    head = f"{result.stories} stories from seed {result.seed}, {result.obligations} obligations:"
    names = "| system | leaked | duplicated | lost | calls to the provider | durable records | people asked |"
    return "\n".join([head, "", names, "|---|---|---|---|---|---|---|", *rows, ""])


@pytest.fixture(scope="module")
def result() -> Comparison:
    return compare(STORIES, seed=7)


def test_the_full_graph_loses_nothing_and_each_simpler_system_something(result: Comparison) -> None:
    """The ordering: each part that is added takes damage away, and only the whole takes all of it."""
    queue, cancellable, ledger, full = result.tallies
    assert [one.system for one in result.tallies] == list(SYSTEMS)
    assert (full.leaked, full.duplicated, full.lost) == (0, 0, 0)
    assert queue.damage > cancellable.damage > ledger.damage > full.damage
    assert queue.leaked and queue.duplicated  # noqa: PT018 - what it is known for
    assert cancellable.leaked and cancellable.duplicated and cancellable.lost  # noqa: PT018
    assert ledger.leaked and ledger.lost and not ledger.duplicated  # noqa: PT018 - it has identity, and no goals
    assert result.violations == []
    assert result.holds


def test_what_it_costs_is_told(result: Comparison) -> None:
    """The full graph writes more than any other, and asks people where it may not decide."""
    assert result.tallies[-1].records == max(one.records for one in result.tallies)
    assert result.tallies[-1].people > 0
    assert all(one.calls >= result.obligations for one in result.tallies)


def test_the_same_seeds_tell_the_same(result: Comparison) -> None:
    assert compare(STORIES, seed=7) == result
    assert compare(20, seed=8).tallies != compare(20, seed=7).tallies


def test_the_table_on_the_page_is_what_comes_of_it(result: Comparison) -> None:
    """To make it anew, run this file."""
    assert PAGE.read_text(encoding="utf-8").partition(MARKS[0])[2].partition(MARKS[1])[0] == markdown(result)


@pytest.mark.slow
def test_the_full_graph_loses_nothing_over_many_stories() -> None:
    assert compare(10_000, seed=100_000).holds


# --- the judge -------------------------------------------------------------------------------------------------------


def _slot(**fields: object) -> Slot:
    plain: dict[str, object] = {
        "entity": "w", "create": "NONE", "release": "NONE", "twice": False, "late": False, "fate": "KEPT",
        "contended": False,
    }  # fmt: skip
    return Slot(**{**plain, **fields})  # type: ignore[arg-type]


def _damage(story: Story) -> list[tuple[int, int, int]]:
    found = outcomes(story, builtin_catalogue(), Codec())
    return [(one.leaked, one.duplicated, one.lost) for one in found]


NOTHING = (0, 0, 0)
# What each system loses, in the order of SYSTEMS: leaked, duplicated, lost.
TABLE: list[tuple[str, Story, list[tuple[int, int, int]]]] = [
    ("nothing goes wrong", Story(1, (_slot(),), "NONE", (False, False)), [NOTHING] * 4),
    ("a lost reply", Story(1, (_slot(create="LOST_AFTER"),), "NONE", (False, False)),
     [(0, 1, 0), (0, 1, 0), NOTHING, NOTHING]),
    ("a reply lost before the effect", Story(1, (_slot(create="LOST_BEFORE"),), "NONE", (False, False)), [NOTHING] * 4),
    ("asked twice", Story(1, (_slot(twice=True),), "NONE", (False, False)), [(0, 1, 0), (0, 1, 0), NOTHING, NOTHING]),
    ("cancelled", Story(1, (_slot(),), "CANCEL", (False, False)), [(1, 0, 0), NOTHING, NOTHING, NOTHING]),
    ("cancelled in flight", Story(1, (_slot(late=True),), "CANCEL", (False, False)),
     [(1, 0, 0), (1, 0, 0), (1, 0, 0), NOTHING]),
    ("cancelled, the release's reply lost", Story(1, (_slot(release="LOST_AFTER"),), "CANCEL", (False, False)),
     [(1, 0, 0), NOTHING, NOTHING, NOTHING]),
    ("dropped by a new plan", Story(1, (_slot(), _slot(entity="v", fate="DROPPED")), "REPLAN", (False, False)),
     [(1, 1, 0), NOTHING, (1, 0, 0), NOTHING]),
    ("kept by a new plan, and contended", Story(1, (_slot(contended=True),), "REPLAN", (False, False)),
     [(0, 1, 0), (0, 0, 1), NOTHING, NOTHING]),
    ("wanted with another attribute", Story(1, (_slot(fate="CHANGED"),), "SUPERSEDE", (False, False)),
     [(1, 0, 0), NOTHING, (1, 0, 1), NOTHING]),
    ("a restart while in flight", Story(1, (_slot(late=True),), "NONE", (True, False)),
     [(0, 1, 0), (0, 1, 0), NOTHING, NOTHING]),
]  # fmt: skip


@pytest.mark.parametrize(("story", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_fault_alone_shows_what_each_system_lacks(story: Story, expected: list[tuple[int, int, int]]) -> None:
    """The truth table: by the provider's books, whatever the systems say of themselves."""
    assert _damage(story) == expected


def test_the_judge_counts_what_stands_against_what_is_wanted() -> None:
    story = Story(1, (_slot(entity="a"), _slot(entity="b"), _slot(entity="c")), "NONE", (False, False))
    provider = Provider(frozenset({"a"}))
    provider.create("a", "first", "k")
    provider.create("a", "first", "k")
    provider.create("x", "first", "k")
    assert judged(story, provider, 5, 1) == Outcome(leaked=1, duplicated=1, lost=2, calls=3, records=5, people=1)
    for number in (1, 2):
        provider.release(number)
    with pytest.raises(Taken):
        provider.create("a", "first", "k")


@pytest.mark.parametrize("rule", ["on_planned", "on_cancelled", "on_superseded"])
def test_without_a_rule_the_full_graph_leaks_too(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is able to fail: the gate is judged by the same books."""
    monkeypatch.setattr(import_module("joingate_processors.law.dispositions"), rule, lambda *of: [])
    assert not compare(60, seed=7).holds


def test_stories_hold_every_fault_and_every_change() -> None:
    stories = [draw_story(seed) for seed in range(200)]
    slots = [slot for story in stories for slot in story.slots]
    assert {story.change for story in stories} == {"NONE", "CANCEL", "REPLAN", "SUPERSEDE"}
    assert {slot.create for slot in slots} == {slot.release for slot in slots} == {"NONE", "LOST_BEFORE", "LOST_AFTER"}
    assert {slot.fate for slot in slots} == {"KEPT", "CHANGED", "DROPPED"}
    assert any(slot.twice for slot in slots) and any(slot.late for slot in slots)  # noqa: PT018
    assert any(slot.contended for slot in slots)
    with pytest.raises(ValueError, match="At least one story"):
        compare(0)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}{markdown(compare(STORIES, seed=7))}{MARKS[1]}{after}", encoding="utf-8")
