"""A plan's burden: each part of it reckoned from what the catalogue declares, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_schemas.burden import burden_of
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.facts import StepDetail

CATALOGUE = catalogue_from_text(
    """
version: "1"
downstreams:
  cloud: {capabilities: [LOOKUP]}
  post: {capabilities: [NONE]}
actions:
  look: {downstream: post, effect: OBSERVE, kind: RETRYABLE, cost: 0.5}
  reserve:
    downstream: cloud
    effect: REVERSIBLE
    kind: COMPENSATABLE
    compensation: free
    obligation: hold
    resources: ["window:{business_key}", "quota:cpu"]
  free: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE}
  announce:
    {downstream: post, effect: IRREVERSIBLE, kind: RETRYABLE, communication: PROMISES, approval: N_OF_M,
     approvals_needed: 3, obligation: word}
  sign:
    {downstream: cloud, effect: IRREVERSIBLE, kind: PIVOT, approval: MAKER_CHECKER, resources: ["fee:{business_key}"]}
obligations:
  hold: {resolution: RELEASABLE, release_action: free, idle_cost: 1.5}
  word: {resolution: IRREVERSIBLE, idle_cost: 0.25}
resources:
  window: {mode: EXCLUSIVE}
  quota: {mode: CAPACITY}
  fee: {mode: ONCE_EVER}
"""
)
NOTHING = {
    "by_class": {}, "reused": 0, "approvals": 0, "promises": 0, "exclusive": 0, "scarce": 0, "irreversible": 0,
    "doubtful": 0, "idle_cost": 0.0, "cost": 0.0, "unknown": 0,
}  # fmt: skip


def step(action: str, *commitments: str) -> StepDetail:
    """A step of this action."""
    return {
        "step_id": action, "ordinal": 0, "action": action, "business_key": "k", "slot_id": "s", "arguments": {},
        "goal_id": None, "edges": [], "parallel": False, "pivot": False, "irreversible": False,
        "commitments": list(commitments),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "commitments", "parts"),
    [
        ([], [], {}),
        (["look"], [], {"cost": 0.5}),
        (["free"], [], {}),
        (["reserve"], [], {"by_class": {"RELEASABLE": 1}, "exclusive": 1, "scarce": 1, "idle_cost": 1.5}),
        (["reserve", "reserve"], [], {"by_class": {"RELEASABLE": 2}, "exclusive": 2, "scarce": 2, "idle_cost": 3.0}),
        (
            ["announce"],
            [],
            {"by_class": {"IRREVERSIBLE": 1}, "approvals": 3, "promises": 1, "irreversible": 1, "doubtful": 1,
             "idle_cost": 0.25},
        ),
        (["sign"], [], {"approvals": 1, "irreversible": 1, "scarce": 1}),
        (["look"], ["c1", "hold"], {"cost": 0.5, "reused": 1}),
        (["nobody knows it"], [], {"unknown": 1}),
    ],
)  # fmt: skip
def test_each_part_is_what_the_catalogue_says(steps: list[str], commitments: list[str], parts: dict[str, Any]) -> None:
    """Looking costs and commits to nothing; a type that is wanted is no commitment that is used again."""
    assert burden_of([step(one) for one in steps], commitments, CATALOGUE) == {**NOTHING, **parts}


def test_a_commitment_that_several_steps_rely_on_is_used_once() -> None:
    """Whether the plan names it too or not."""
    assert burden_of([step("look", "c1"), step("free", "c1", "c2")], ["c2"], CATALOGUE)["reused"] == 2
