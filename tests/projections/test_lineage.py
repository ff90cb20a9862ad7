"""Goals and lineage: every effect leads up to the intent that justifies it, every intent down to what came of it."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.errors import BadQuestion, NotFound
from joingate_projections.lineage import NODES_MAX, ancestors, tree_of
from joingate_projections.reader import StoreReader
from joingate_projections.store import ProjectionStore
from joingate_projections.tables import Row
from joingate_projections.tables.lineage import node
from joingate_schemas.facts import EffectRecorded
from joingate_schemas.record import changed

INTENT = "acme/release/4.2"
GOALS = [
    {"goal_id": "capacity", "acceptance": "a window is ours", "parent_goal_id": "live", "risk_class": "LOW"},
    {"goal_id": "live", "acceptance": "production runs 4.2", "evidence_requirements": ["health check"]},
]
DECLARED = {"as": "planner", "type": "DeclareIntent", "version": 1, "objective": "deploy 4.2", "goals": GOALS}
WINDOW = {
    "step_id": "window", "action": "reserve_window", "goal_id": "capacity",
    "arguments": {"window": "w1", "environment": "prod", "release": "4.2"},
}  # fmt: skip
TELL = {
    "step_id": "tell", "action": "notify", "goal_id": "live", "arguments": {"to": "ops", "text": "soon"},
    "edges": [{"kind": "REQUIRES", "step_id": "window"}, {"kind": "PREFERS", "step_id": "window"}],
}  # fmt: skip


@pytest.fixture
def deployed(scene: Any) -> Any:
    """A window is reserved for one goal and seen to be there, then somebody is told for another."""
    return scene(
        DECLARED,
        scene.planned(WINDOW, TELL),
        *scene.done("window"),
        scene.seen("window"),
        {"as": "planner", "type": "Succeed", "intent_version": 1, "plan_id": "p1", "step_id": "window"},
        *scene.done("tell", "messenger"),
    )


def named(answer: Row, *kinds: str) -> list[Row]:
    """The nodes of these kinds."""
    return [one for one in answer["nodes"] if one["kind"] in kinds]


def edges(answer: Row, of: str = "edges") -> set[tuple[str, str, str]]:
    """The edges by the kinds of their ends."""
    kinds = {one["n"]: one["kind"] for one in answer["nodes"]}
    return {(kinds[one["above"]], one["kind"], kinds[one["below"]]) for one in answer[of]}


CHAIN = ["INTENT", "GOAL", "GOAL", "COMMITMENT", "TASK", "OPERATION", "ATTEMPT", "EFFECT"]


def test_an_intent_leads_down_to_its_effects_and_their_verification(deployed: Any, open_store: ProjectionStore) -> None:
    """The whole chain of the model, each link once, subgoals below goals."""
    answer = deployed.reader(open_store).ask("lineage", INTENT)
    found = [(depth, one["kind"]) for depth, one, _ in tree_of(answer)]
    assert found[:8] == list(enumerate(CHAIN))
    assert (4, "VERIFICATION") in found  # of the commitment, by its observation
    assert found.count((0, "INTENT")) == 1
    assert len(found) == len(answer["nodes"])


def test_an_effect_leads_up_to_the_intent(deployed: Any, open_store: ProjectionStore) -> None:
    """From what the downstream calls it, through every level; and not into other branches."""
    answer = deployed.reader(open_store).ask("lineage", "x-window")
    assert [one["kind"] for _, one, _ in tree_of(answer)] == CHAIN
    (effect,) = named(answer, "EFFECT")
    assert answer["subjects"] == [effect["n"]]
    assert effect["external_id"] == "x-window"


def test_each_edge_names_the_decision_that_caused_it(deployed: Any, open_store: ProjectionStore) -> None:
    """The ledger position on an edge is that of the claim which made it."""
    answer = deployed.reader(open_store).ask("lineage", INTENT)
    kinds = {one["n"]: one["kind"] for one in answer["nodes"]}
    by: dict[tuple[str, str], set[str]] = {}
    for edge in answer["edges"]:
        claim = deployed.decisions[edge["at"]["seq"] - 1].claim_type
        by.setdefault((kinds[edge["above"]], kinds[edge["below"]]), set()).add(claim)
    assert by == {
        ("INTENT", "GOAL"): {"DeclareIntent"},
        ("GOAL", "GOAL"): {"DeclareIntent"},
        ("GOAL", "TASK"): {"Plan"},
        ("GOAL", "COMMITMENT"): {"Dispatch"},
        ("COMMITMENT", "TASK"): {"Dispatch"},
        ("TASK", "OPERATION"): {"Dispatch"},
        ("OPERATION", "ATTEMPT"): {"Dispatch"},
        ("ATTEMPT", "EFFECT"): {"Commit"},
        ("COMMITMENT", "VERIFICATION"): {"Observe"},
    }


@pytest.mark.parametrize("subject", ["live", "capacity", "window", "p1", "x-tell", INTENT])
def test_everything_is_found_by_its_own_id(deployed: Any, open_store: ProjectionStore, subject: str) -> None:
    """Goals, tasks, plans and effects too, and each leads to the intent."""
    answer = deployed.reader(open_store).ask("lineage", subject)
    assert answer["subjects"]
    assert named(answer, "INTENT") != []
    assert answer["position"] == {"0": len(deployed.decisions)}


def test_operations_attempts_and_commitments_are_found_by_theirs(deployed: Any, open_store: ProjectionStore) -> None:
    """An attempt is named by its operation and number."""
    reader = deployed.reader(open_store)
    whole = reader.ask("lineage", INTENT)
    (commitment,) = named(whole, "COMMITMENT")
    operation = next(one for one in named(whole, "OPERATION") if one["action"] == "notify")
    for subject, kind in (
        (commitment["commitment_id"], "COMMITMENT"),
        (operation["operation_id"], "OPERATION"),
        (f"{operation['operation_id']}#1", "ATTEMPT"),
    ):
        answer = reader.ask("lineage", subject)
        nodes = {one["n"]: one for one in answer["nodes"]}
        assert [nodes[one]["kind"] for one in answer["subjects"]] == [kind]
    for beside in (f"{operation['operation_id']}#2", f"{operation['operation_id']}#0", "nobody"):
        with pytest.raises(NotFound, match="Nothing in the lineage has the id"):
            reader.ask("lineage", beside)


def test_what_informs_is_shown_beside_what_binds(deployed: Any, open_store: ProjectionStore) -> None:
    """A plan's edges are relations between its tasks, from either end."""
    reader = deployed.reader(open_store)
    for subject in ("window", "tell", INTENT):
        assert edges(reader.ask("lineage", subject), "relations") == {
            ("TASK", "REQUIRES", "TASK"),
            ("TASK", "PREFERS", "TASK"),
        }


def test_ids_that_two_intents_share_are_told_apart(scene: Any, open_store: ProjectionStore) -> None:
    """Without the intent both are answered, with it one; an option that there is not is refused."""
    other = {**DECLARED, "intent_id": "acme/other"}
    reader = scene(DECLARED, other).reader(open_store)
    assert len(reader.ask("lineage", "live")["subjects"]) == 2
    answer = reader.ask("lineage", "live", [("intent", "acme/other")])
    assert [one["intent_id"] for one in named(answer, "INTENT")] == ["acme/other"]
    with pytest.raises(BadQuestion, match="lineage has no option 'colour'"):
        reader.ask("lineage", "live", [("colour", "red")])


def test_a_release_hangs_below_its_commitment(scene: Any, open_store: ProjectionStore) -> None:
    """What discharges an obligation is found under it, though no plan asked for it."""
    played = scene(
        DECLARED,
        scene.planned(WINDOW),
        *scene.done("window"),
        scene.seen("window"),
        {"as": "planner", "type": "Release", "commitment_of": "window"},
    )
    answer = played.reader(open_store).ask("lineage", INTENT)
    release = next(one for one in named(answer, "OPERATION") if one["action"] == "release_window")
    above = [edge["above"] for edge in answer["edges"] if edge["below"] == release["n"]]
    nodes = {one["n"]: one for one in answer["nodes"]}
    assert [nodes[one]["kind"] for one in above] == ["COMMITMENT"]


def test_what_undoes_an_operation_hangs_below_it(scene: Any, open_store: ProjectionStore) -> None:
    """A late abort is a compensation, and its operation is found under the one that it undoes."""
    write = {"step_id": "write", "action": "write_file", "business_key": "notes"}
    played = scene(
        DECLARED,
        scene.planned(write),
        {"as": "planner", "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "write"},
        {"as": "executor", "type": "Commit", "step": "write", "external_id": "f1", "evidence": ["seen"]},
        {"as": "planner", "type": "Abort", "step": "write"},
    )
    reader = played.reader(open_store)
    # The effect is not above what undoes it: both come from the operation.
    assert ("OPERATION", "UNDONE_BY", "OPERATION") not in edges(reader.ask("lineage", "f1"))
    assert ("OPERATION", "UNDONE_BY", "OPERATION") in edges(reader.ask("lineage", INTENT))


def test_a_stray_effect_is_found_by_its_external_id(hand: Any, open_store: ProjectionStore) -> None:
    """Though no operation settled with it; the operation that was meant leads up from it."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned(), claim_type="Plan")
    hand.decide(hand.opened())
    hand.decide(hand.settled(), claim_type="Commit")
    hand.decide(
        EffectRecorded(
            operation_id=hand.operation(), intent_id=INTENT, attempt=1, external_id="msg-2", evidence=["x"], stray=True
        ),
        claim_type="Commit",
    )
    hand.store_in(open_store)
    with open_store.view() as view:
        (effect,) = ancestors(view, node("EFFECT", hand.operation(), "1", "msg-2"))[-1:]
    assert effect["kind"] == "ATTEMPT"
    answer = StoreReader(open_store).ask("lineage", "msg-2")
    (stray,) = named(answer, "EFFECT")
    assert (stray["external_id"], stray["stray"]) == ("msg-2", True)
    assert [one["intent_id"] for one in named(answer, "INTENT")] == [INTENT]


def test_a_goal_that_moves_leaves_its_old_place_on_the_record(scene: Any, open_store: ProjectionStore) -> None:
    """The tree shows where it hangs now; what the next version leaves out is DROPPED."""
    moved = [{"goal_id": "capacity", "acceptance": "a window is ours"}]
    reader = scene(DECLARED, {**DECLARED, "version": 2, "goals": moved}).reader(open_store)
    assert edges(reader.ask("lineage", "capacity")) == {("INTENT", "LEADS_TO", "GOAL")}
    (capacity,) = reader.page("goals", [("goal_id", "capacity")])["rows"]
    assert (capacity["since_version"], capacity["intent_version"], capacity["parent_goal_id"]) == (1, 2, None)
    (live,) = reader.page("goals", [("status", "DROPPED")])["rows"]
    assert (live["goal_id"], live["shown"], live["evidence_requirements"]) == ("live", "DROPPED", ["health check"])


def test_goals_in_a_circle_are_still_told(hand: Any, open_store: ProjectionStore) -> None:
    """An older release let them be declared: the answer ends all the same, and every node is in its tree."""
    circle = [
        {"goal_id": "a", "acceptance": "a", "parent_goal_id": "b"},
        {"goal_id": "b", "acceptance": "b", "parent_goal_id": "a"},
    ]
    hand.decide(changed(hand.declared(), goals=circle), claim_type="DeclareIntent")
    hand.store_in(open_store)
    answer = StoreReader(open_store).ask("lineage", "a")
    assert {one["goal_id"] for _, one, _ in tree_of(answer)} == {"a", "b"}


def test_a_goal_is_verified_by_what_was_seen_of_it(scene: Any, open_store: ProjectionStore) -> None:
    """Its state is what counts, not the work; trouble outside outranks it, and a new acceptance begins anew."""
    seen = {
        "as": "observer", "type": "Observe", "subject_kind": "GOAL", "subject_id": "live", "finding": "PRESENT",
        "source": "cloud",
    }  # fmt: skip
    reader = scene(DECLARED, seen).reader(open_store)
    (live,) = reader.page("goals", [("goal_id", "live")])["rows"]
    assert (live["shown"], live["observation"]["finding"]) == ("VERIFIED", "PRESENT")
    assert ("GOAL", "LEADS_TO", "VERIFICATION") in edges(reader.ask("lineage", "live"))
    (capacity,) = reader.page("goals", [("goal_id", "capacity")])["rows"]
    assert capacity["shown"] == "PLAN"


def test_a_goal_shows_what_it_has_outside(deployed: Any, open_store: ProjectionStore) -> None:
    """Its own commitment, and not that of its neighbour; the counts go down again by themselves."""
    rows = {row["goal_id"]: row for row in deployed.reader(open_store).page("goals")["rows"]}
    assert (rows["capacity"]["shown"], rows["capacity"]["commitments_active"]) == ("ACTIVE COMMITMENT", 1)
    assert (rows["live"]["shown"], rows["live"]["commitments_open"]) == ("PLAN", 0)


def test_an_answer_is_bounded(hand: Any, open_store: ProjectionStore) -> None:
    """A huge intent is answered up to a limit, which is said."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned("p1", *(f"k{n}" for n in range(NODES_MAX))), claim_type="Plan")
    hand.store_in(open_store)
    answer = StoreReader(open_store).ask("lineage", INTENT)
    assert (len(answer["nodes"]), answer["cut"]) == (NODES_MAX, True)
    assert StoreReader(open_store).ask("lineage", "s7")["cut"] is False
