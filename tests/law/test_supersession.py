"""What a higher version, a cancel or another plan leaves behind, and that it is found in the same decision."""

import pytest

from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision

from .catalogues import varied
from .driver import Court, step

G1: c.Goal = {"goal_id": "g1", "acceptance": "production runs 4.2"}
G2: c.Goal = {"goal_id": "g2", "acceptance": "notes are out"}
WINDOW = {"window": "w1", "environment": "prod", "release": "4.2"}


@pytest.fixture
def court() -> Court:
    """A window for goal g1, and a step of goal g2."""
    court = Court(varied())
    court.declare(goals=[G1, G2])
    court.plan(
        step("s1", "reserve_window", "w1", arguments=WINDOW, goal_id="g1"), step("s2", "write_file", goal_id="g2")
    )
    return court


def dispositions(decision: Decision) -> list[tuple[str, list[str]]]:
    return [(fact.disposition, fact.differs) for fact in decision.facts if isinstance(fact, f.DispositionDecided)]


CHANGED: c.Goal = {"goal_id": "g1", "acceptance": "production runs 4.3"}


@pytest.mark.parametrize(
    ("goals", "disposition", "status"),
    [([G1, G2], ("KEEP", []), "ACTIVE"), ([G1], ("KEEP", []), "ACTIVE"),
     ([CHANGED, G2], ("REVALIDATE", ["goal"]), "ACTIVE"), ([G2], ("RELEASE", ["goal_id"]), "RELEASE_PENDING")],
    ids=["all goals untouched", "the other goal gone", "its goal changed", "its goal gone"],
)  # fmt: skip
def test_a_higher_version_touches_only_the_commitments_of_touched_goals(
    court: Court, goals: list[c.Goal], disposition: tuple[str, list[str]], status: str
) -> None:
    court.active("s1")
    decision = court.declare(2, goals=goals)
    assert dispositions(decision) == [disposition]
    row = court.state.commitments.get(court.state.rows("commitments")[0][0])
    assert row is not None
    assert row.status == status


def test_a_commitment_of_no_goal_is_looked_at_again(court: Court) -> None:
    court = Court(varied())
    court.open(step("s1", "reserve_window"))
    court.active("s1")
    assert dispositions(court.declare(2)) == [("REVALIDATE", ["intent_version"])]


def test_one_that_no_plan_takes_up_in_time_is_released(court: Court) -> None:
    court.active("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[CHANGED])
    court.advance(600_000 - 1)
    assert court.commitment(key).status == "ACTIVE"
    court.advance(1)
    assert court.commitment(key).status == "RELEASE_PENDING"


def test_one_that_the_next_plan_names_is_kept(court: Court) -> None:
    court.active("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[CHANGED])
    decision = court.plan(step("s9", commitments=[key]), plan_id="p2")
    assert dispositions(decision) == [("KEEP", [])]
    row = court.commitment(key)
    assert (row.status, row.intent_version, row.plan_id, row.deadline_at) == ("ACTIVE", 2, "p2", None)


@pytest.mark.parametrize(
    ("arguments", "disposition"),
    [(WINDOW, ("KEEP", [])), ({**WINDOW, "release": "4.3"}, ("RELEASE", ["release"])), (None, ("RELEASE", ["slot"]))],
    ids=["the same", "another release", "none"],
)
def test_another_plan_keeps_what_it_needs_alike_and_releases_the_rest(
    court: Court, arguments: c.Arguments | None, disposition: tuple[str, list[str]]
) -> None:
    court.active("s1")
    steps = [step("s9")] if arguments is None else [step("a", "reserve_window", "w1", arguments=arguments)]
    assert dispositions(court.plan(*steps, plan_id="p2", replaces="p1")) == [disposition]


def test_an_open_question_keeps_its_deadline_when_it_is_kept(court: Court) -> None:
    """Revalidation lends a commitment its own deadline; taken back, the question behind it is still asked."""
    court.perform("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[CHANGED])
    assert court.commitment(key).timer == "DISPOSITION"
    court.observe_commitment(key, "PRESENT")
    assert court.commitment(key).timer == "DISPOSITION", "there it is, but nobody has said that it is still wanted"
    court.plan(step("a", "reserve_window", "w1", arguments=WINDOW, goal_id="g1"), plan_id="p2")
    assert (court.commitment(key).status, court.commitment(key).timer) == ("PROPOSED", "VERIFICATION")
    assert court.observe_commitment(key, "PRESENT").status == "ACTIVE"


def test_cancel_stops_new_work_and_protects_the_discharging_of_what_is_owed(court: Court) -> None:
    court.active("s1")
    decision = court.cancel()
    assert dispositions(decision) == [("RELEASE", ["intent"])]
    assert court.dispatch("s2").reason == "PLAN_CLOSED"
    release = court.release_of(court.state.rows("commitments")[0][0])
    assert court.cancel().verdict == "REPLAYED"
    assert court.prepared(release).verdict == "ACCEPTED"
    court.declare(2)
    assert court.commit(release, external_id="rel-1").verdict == "ACCEPTED"
    assert court.observe_commitment(court.state.rows("commitments")[0][0], "ABSENT").status == "RELEASED"
    assert court.close().reason == "NOT_PLANNED"
    court.cancel()
    assert court.close().verdict == "ACCEPTED"


@pytest.mark.parametrize("change", ["version", "cancel", "plan"])
@pytest.mark.parametrize("reached", ["STAGED", "VALIDATED", "SUBMITTED", "IN_DOUBT", "SETTLED"])
def test_what_may_not_act_yet_is_withdrawn_and_what_may_is_tracked(change: str, reached: str) -> None:
    court = Court(varied())
    court.open(step("s1", "pay_approved" if reached == "STAGED" else "pay"))
    court.dispatch("s1")
    if reached not in ("STAGED", "VALIDATED"):
        court.prepared("s1")
    if reached == "IN_DOUBT":
        court.in_doubt("s1")
    if reached == "SETTLED":
        court.commit("s1")
    key = court.op_id("s1")
    match change:
        case "version":
            court.declare(2)
        case "cancel":
            court.cancel()
        case _:
            court.plan(step("s9"), plan_id="p2", replaces="p1")
    expected = "WITHDRAWN" if reached in ("STAGED", "VALIDATED") else reached
    assert court.op(key).status == expected
    assert court.commands(key)[-1].startswith("WITHDRAW") == (expected == "WITHDRAWN")
    if reached in ("SUBMITTED", "IN_DOUBT"):
        decision = court.commit(key)
        assert (decision.verdict, decision.status) == ("ACCEPTED", "SETTLED"), "fencing removes authority, not evidence"
        assert decision.facts[0].late  # type: ignore[union-attr]


def test_what_was_proposed_and_never_permitted_is_dropped_with_its_operation(court: Court) -> None:
    court.dispatch("s1")
    key = court.commitment_id("s1")
    assert dispositions(court.cancel()) == []
    assert court.commitment(key).status == "RELEASED"


# --- late success ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["cancel", "goal gone", "plan"])
def test_a_late_success_waits_for_its_owner_by_default(court: Court, change: str) -> None:
    court.permit("s1")
    key, operation = court.commitment_id("s1"), court.op_id("s1")
    match change:
        case "cancel":
            decision = court.cancel()
        case "goal gone":
            decision = court.declare(2, goals=[G2])
        case _:
            decision = court.plan(step("s9"), plan_id="p2", replaces="p1")
    assert [one for one, _ in dispositions(decision)] == ["RECONCILE"]
    assert court.commitment(key).status == "PROPOSED"
    court.commit(operation)
    assert court.commitment(key).status == "RECONCILIATION_REQUIRED"
    assert court.orphans() == ["LATE_SUCCESS"]
    assert len(court.state.rows("operations")) == 1, "nothing destroys it unasked"
    if change != "cancel":
        court.cancel()
    court.observe_commitment(key, "PRESENT")
    assert len(court.state.rows("operations")) == 1
    assert court.release(key).status == "RELEASE_PENDING"
    assert court.prepared(court.release_of(key)).reason == "NOT_READY", "destroyed only with an approval of just that"
    assert court.approve(court.release_of(key)).status == "VALIDATED"
    court.perform_release(key)
    court.observe_commitment(key, "ABSENT")
    assert court.orphans() == []


def test_a_late_success_is_released_where_its_type_says_so() -> None:
    court = Court(varied())
    court.open(step("s1", "book"))
    court.permit("s1")
    key, operation = court.commitment_id("s1"), court.op_id("s1")
    court.cancel()
    court.commit(operation)
    assert court.commitment(key).status == "RELEASE_PENDING"
    assert court.orphans() == []
    court.perform_release(key)
    assert court.commitment(key).status == "RELEASED"


def test_a_late_success_is_adopted_by_a_plan_that_needs_it(court: Court) -> None:
    court.permit("s1")
    key, operation = court.commitment_id("s1"), court.op_id("s1")
    court.declare(2, goals=[G2])
    court.commit(operation)
    assert court.orphans() == ["LATE_SUCCESS"]
    court.plan(step("a", "reserve_window", "w1", arguments=WINDOW), plan_id="p2")
    assert court.orphans() == []
    assert court.observe_commitment(key, "PRESENT").status == "ACTIVE"
    assert court.succeed("a").verdict == "ACCEPTED"


def test_a_late_success_that_nothing_released_or_wants_can_not_be_closed_over(court: Court) -> None:
    court.permit("s1")
    operation = court.op_id("s1")
    court.cancel()
    assert court.close().reason == "OPEN_OPERATIONS"
    court.commit(operation)
    assert court.close().verdict == "REJECTED"


def test_what_can_not_be_released_goes_to_the_human_gate_when_nothing_wants_it() -> None:
    court = Court(varied())
    court.open(step("s1", "announce"))
    court.active("s1")
    key = court.commitment_id("s1")
    assert [one for one, _ in dispositions(court.cancel())] == ["COMPENSATE"]
    assert court.commitment(key).status == "RECONCILIATION_REQUIRED"
    assert court.observe_commitment(key, "PRESENT").status == "RECONCILIATION_REQUIRED", "a person decides"


def test_one_that_is_still_to_be_seen_is_kept_for_its_goal_and_given_up_by_a_plan_without_it(court: Court) -> None:
    court.perform("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[G1])
    assert court.commitment(key).intent_version == 2, "kept, since its goal is untouched"
    court.plan(step("s9"), plan_id="p2")
    assert court.commitment(key).status == "RELEASE_PENDING"


# --- goals within goals ----------------------------------------------------------------------------------------------

TOP: c.Goal = {"goal_id": "top", "acceptance": "production runs 4.2"}
MIDDLE: c.Goal = {"goal_id": "middle", "acceptance": "the release is rolled out", "parent_goal_id": "top"}
BOTTOM: c.Goal = {"goal_id": "bottom", "acceptance": "a window is held", "parent_goal_id": "middle"}
SIDE: c.Goal = {"goal_id": "side", "acceptance": "notes are out", "parent_goal_id": "top"}
TREE = [TOP, MIDDLE, BOTTOM, SIDE]


def _with(changed: c.Goal) -> list[c.Goal]:
    return [changed if goal["goal_id"] == changed["goal_id"] else goal for goal in TREE]


UNTOUCHED, BELOW, ITSELF, GONE = ("KEEP", []), ("REVALIDATE", ["subgoals"]), ("REVALIDATE", ["goal"]), "gone"


@pytest.mark.parametrize(
    ("goals", "expected"),
    [
        (TREE, [UNTOUCHED] * 4),
        (_with({**TOP, "acceptance": "production runs 4.3"}), [ITSELF, UNTOUCHED, UNTOUCHED, UNTOUCHED]),
        (_with({**MIDDLE, "acceptance": "it is rolled out twice"}), [BELOW, ITSELF, UNTOUCHED, UNTOUCHED]),
        (_with({**BOTTOM, "acceptance": "two windows are held"}), [BELOW, BELOW, ITSELF, UNTOUCHED]),
        (_with({**BOTTOM, "parent_goal_id": "top"}), [BELOW, BELOW, ITSELF, UNTOUCHED]),
        ([TOP, MIDDLE, BOTTOM], [BELOW, UNTOUCHED, UNTOUCHED, GONE]),
        ([TOP, MIDDLE, SIDE], [BELOW, BELOW, GONE, UNTOUCHED]),
    ],
    ids=["nothing", "the top", "the middle", "the bottom", "the bottom moved up", "the side gone", "the bottom gone"],
)
def test_a_change_touches_the_goals_above_it_and_none_below_or_beside(
    goals: list[c.Goal], expected: list[tuple[str, list[str]] | str]
) -> None:
    court = Court(varied())
    court.declare(goals=TREE)
    names = [goal["goal_id"] for goal in TREE]
    court.plan(*(step(name, "reserve_window", name, goal_id=name) for name in names))
    for name in names:
        court.active(name)
    keys = {court.commitment_id(name): name for name in names}
    decision = court.declare(2, goals=goals)
    decided = {
        keys[fact.commitment_id]: ("gone" if fact.differs == ["goal_id"] else (fact.disposition, fact.differs))
        for fact in decision.facts
        if isinstance(fact, f.DispositionDecided)
    }
    assert [decided[name] for name in names] == expected


def test_a_window_kept_under_a_changed_top_goes_when_the_next_plan_needs_another() -> None:
    """Untouched does not mean right: what the plan for the changed top needs is compared attribute by attribute."""
    court = Court(varied())
    court.declare(goals=TREE)
    court.plan(step("s1", "reserve_window", "w1", arguments=WINDOW, goal_id="bottom"))
    court.active("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=_with({**TOP, "acceptance": "production runs 4.3"}))
    assert court.commitment(key).disposition == "KEEP"
    moved = step("s1", "reserve_window", "w1", arguments={**WINDOW, "release": "4.3"}, goal_id="bottom")
    assert dispositions(court.plan(moved, plan_id="p2")) == [("RELEASE", ["release"])]


# --- kept, and nothing takes it up -----------------------------------------------------------------------------------

DISPOSITION_MS = 600_000


def test_what_is_kept_without_a_plan_is_left_behind_in_time_until_a_plan_takes_it_up(court: Court) -> None:
    court.active("s1")
    key = court.commitment_id("s1")
    assert dispositions(court.declare(2, goals=[G1, G2])) == [("KEEP", [])]
    assert court.commitment(key).timer == "DISPOSITION"
    court.advance(DISPOSITION_MS - 1)
    assert court.orphans() == []
    court.advance(1)
    assert (court.commitment(key).status, court.orphans()) == ("ACTIVE", ["LEFT_BEHIND"])
    court.advance(DISPOSITION_MS)
    assert court.orphans() == ["LEFT_BEHIND"], "asked again, and one incident all the same"
    assert court.commitment(key).timer == "DISPOSITION"
    court.plan(step("s1", "reserve_window", "w1", arguments=WINDOW, goal_id="g1"), plan_id="p2")
    assert (court.commitment(key).timer, court.commitment(key).deadline_at) == ("NONE", None)
    assert court.orphans() == []


def test_what_is_kept_and_planned_in_time_is_no_incident(court: Court) -> None:
    court.active("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[G1, G2])
    court.plan(step("s1", "reserve_window", "w1", arguments=WINDOW, goal_id="g1"), plan_id="p2")
    court.advance(3 * DISPOSITION_MS)
    assert (court.commitment(key).timer, court.orphans()) == ("NONE", [])


def test_what_is_kept_without_a_plan_is_released_all_the_same(court: Court) -> None:
    court.active("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[G1, G2])
    court.advance(DISPOSITION_MS)
    assert court.release(key).status == "RELEASE_PENDING"
    court.perform_release(key)
    court.observe_commitment(key, "ABSENT")
    assert (court.commitment(key).status, court.orphans()) == ("RELEASED", [])


def test_what_is_kept_and_seen_only_afterwards_waits_for_a_plan_too(court: Court) -> None:
    court.perform("s1")
    key = court.commitment_id("s1")
    court.declare(2, goals=[G1, G2])
    assert court.commitment(key).timer == "VERIFICATION"
    court.observe_commitment(key, "PRESENT")
    assert (court.commitment(key).status, court.commitment(key).timer) == ("ACTIVE", "DISPOSITION")
    court.advance(DISPOSITION_MS)
    assert court.orphans() == ["LEFT_BEHIND"]
