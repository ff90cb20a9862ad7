"""Given these decisions, then these rows: what folding makes of each fact, and that it never refuses."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_projections.fold import fold, fold_fact
from joingate_projections.tables import KEPT_MAX, At, MemoryRows, Row, joined
from joingate_projections.tables.shown import WORDS
from joingate_schemas import facts as f
from joingate_schemas.codec import UnknownFact
from joingate_schemas.decisions import Decision
from joingate_schemas.record import changed

INTENT = "acme/release/4.2"


def only(rows: MemoryRows, table: str) -> Row:
    """The one row of a table."""
    (row,) = rows.tables[table].values()
    return row


def step_of(rows: MemoryRows, plan_id: str = "p1", step_id: str = "s1") -> Row:
    """A step's row."""
    return rows.tables["steps"][joined(INTENT, plan_id, step_id)]


@pytest.fixture
def planned(hand: Any) -> Any:
    """A ledger with an intent and an adopted plan of one step."""
    hand.decide(hand.declared(), claim_type="DeclareIntent")
    hand.decide(hand.planned(), claim_type="Plan")
    return hand


def test_how_an_operation_stands_to_what_it_needs_is_shown_with_it(planned: Any) -> None:
    planned.decide(planned.opened(status="STAGED", timer="RESOURCES"))
    op = planned.operation()
    fact = f.ResourceChanged(operation_id=op, intent_id=INTENT, resource_ref="slot:1", quantity=2, standing="ASKED")
    planned.decide(fact, claim_type="Dispatch")
    planned.decide(changed(fact, standing="REFUSED", holder="op-9", holder_intent_id="acme/other", detail="held"))
    (shown,) = only(planned.rows(), "operations")["resources"].items()
    assert shown[0] == "slot:1"
    assert {name: shown[1][name] for name in ("quantity", "standing", "holder", "holder_intent_id", "detail")} == {
        "quantity": 2, "standing": "REFUSED", "holder": "op-9", "holder_intent_id": "acme/other", "detail": "held",
    }  # fmt: skip


# Each path of one operation: the facts, one a decision, and after each the operation's status and its word.
def _paths(hand: Any) -> dict[str, list[tuple[Any, str, str]]]:
    op = hand.operation()
    again = f.AttemptStarted(
        operation_id=op, intent_id=INTENT, attempt=2, cause="SILENCE", timer="SILENCE", deadline_at=1
    )
    ready = f.OperationReady(operation_id=op, intent_id=INTENT, status="VALIDATED", timer="SILENCE", deadline_at=2)
    escalated = f.OperationEscalated(
        operation_id=op, intent_id=INTENT, task="ask the bank", evidence=[], timer="ESCALATION", deadline_at=3
    )
    withdrawn = f.OperationWithdrawn(operation_id=op, intent_id=INTENT, cause="superseded")
    staged = hand.opened(status="STAGED", timer="APPROVAL")
    return {
        "two phases, then the join": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (hand.permitted(), "SUBMITTED", "EXECUTING"),
            (hand.settled(), "SETTLED", "EXECUTING"),
            (hand.observed(op), "SETTLED", "VERIFIED"),
            (hand.succeeded(), "SETTLED", "COMPLETE"),
        ],
        "one phase": [(hand.opened(status="SUBMITTED", phases="ONE_PHASE"), "SUBMITTED", "EXECUTING")],
        "staged until approved": [(staged, "STAGED", "PLAN"), (ready, "VALIDATED", "EXECUTING")],
        "withdrawn while staged": [(staged, "STAGED", "PLAN"), (withdrawn, "WITHDRAWN", "WITHDRAWN")],
        "silence before the permit": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (again, "VALIDATED", "EXECUTING"),
        ],
        "refused": [(hand.opened(), "VALIDATED", "EXECUTING"), (hand.failed(), "FAILED", "FAILED")],
        "doubt is not ended by a resend": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (hand.permitted(), "SUBMITTED", "EXECUTING"),
            (hand.doubted(), "IN_DOUBT", "IN DOUBT"),
            (again, "IN_DOUBT", "IN DOUBT"),
            (hand.permitted(attempt=2), "IN_DOUBT", "IN DOUBT"),
            (hand.settled(source="OBSERVER"), "SETTLED", "VERIFIED"),
        ],
        "doubt that a person has to end": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (hand.doubted(), "IN_DOUBT", "IN DOUBT"),
            (escalated, "ESCALATED", "IN DOUBT"),
            (hand.permitted(), "ESCALATED", "IN DOUBT"),
            (hand.failed(), "FAILED", "FAILED"),
        ],
        "newer news against a settled one": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (hand.settled(source="OPERATOR"), "SETTLED", "VERIFIED"),
            (hand.doubted(), "IN_DOUBT", "IN DOUBT"),
            (hand.settled(), "SETTLED", "EXECUTING"),
        ],
        "undone": [
            (hand.opened(), "VALIDATED", "EXECUTING"),
            (hand.settled(), "SETTLED", "EXECUTING"),
            (
                f.OperationCompensated(operation_id=op, intent_id=INTENT, by="another"),
                "COMPENSATED",
                "COMPENSATED",
            ),
        ],
        "a status of a newer release": [(hand.opened(status="UNKNOWN"), "UNKNOWN", "IN DOUBT")],
    }


@pytest.mark.parametrize(
    "path",
    [
        "two phases, then the join",
        "one phase",
        "staged until approved",
        "withdrawn while staged",
        "silence before the permit",
        "refused",
        "doubt is not ended by a resend",
        "doubt that a person has to end",
        "newer news against a settled one",
        "undone",
        "a status of a newer release",
    ],
)
def test_an_operation_follows_its_facts(planned: Any, path: str) -> None:
    """After each fact the row has the status that the ledger gave it and the word for people, and so has its step."""
    for fact, status, word in _paths(planned)[path]:
        planned.decide(fact)
        rows = planned.rows()
        operation = only(rows, "operations")
        assert (operation["status"], operation["shown"]) == (status, word), type(fact).__name__
        assert step_of(rows)["operation_status"] == status
        doubted = word == "IN DOUBT"
        assert bool(rows.tables["in_doubt"]) is doubted
        assert only(rows, "intents")["operations_in_doubt"] == doubted


def test_a_row_names_where_it_began_where_it_stands_and_what_is_above_it(planned: Any) -> None:
    """First and last ledger position and the lineage ids are on the row."""
    planned.decide(planned.opened(commitment_id="c1"))
    planned.decide()
    planned.decide(planned.permitted())
    row = only(planned.rows(), "operations")
    assert (row["first"], row["last"]) == ({"partition": 0, "seq": 3}, {"partition": 0, "seq": 5})
    assert (row["created_at"], row["updated_at"]) == (3_000, 5_000)
    assert (row["intent_id"], row["goal_id"], row["plan_id"], row["step_id"], row["commitment_id"]) == (
        INTENT,
        "g1",
        "p1",
        "s1",
        "c1",
    )


def test_attempts_permits_and_deadlines_are_the_latest(planned: Any) -> None:
    """An attempt raises the number; a permit is counted and names its worker; the deadline is the latest fact's."""
    op = planned.operation()
    planned.decide(planned.opened())
    planned.decide(
        f.AttemptStarted(
            operation_id=op, intent_id=INTENT, attempt=2, cause="SILENCE", timer="SILENCE", deadline_at=77_000
        )
    )
    row = only(planned.rows(), "operations")
    assert (row["attempt"], row["timer"], row["deadline_at"]) == (2, "SILENCE", 77_000)
    planned.decide(planned.permitted(attempt=2))
    row = only(planned.rows(), "operations")
    assert (row["permits"], row["permit_worker"], row["permit_until"]) == (1, "w1", 70_000)
    assert (row["timer"], row["deadline_at"]) == ("PERMIT", 80_000)
    planned.decide(planned.settled())
    row = only(planned.rows(), "operations")
    assert (row["timer"], row["deadline_at"]) == ("NONE", None)


def test_a_doubt_is_as_old_as_its_beginning(planned: Any) -> None:
    """Said again, escalated and resent, it keeps its `since`; ended and begun anew, it is young again."""
    planned.decide(planned.opened(), planned.permitted())
    planned.decide(planned.doubted())  # at 4 s
    planned.decide(planned.doubted(cause="still nothing"))
    doubt = only(planned.rows(), "in_doubt")
    assert (doubt["since"], doubt["cause"], doubt["dependants"]) == (4_000, "still nothing", ["s2"])
    assert (doubt["subject_kind"], doubt["subject_id"]) == ("OPERATION", planned.operation())
    assert (doubt["deadline_at"], doubt["first"]["seq"], doubt["last"]["seq"]) == (99_000, 4, 5)
    planned.decide(planned.settled())
    assert planned.rows().tables["in_doubt"] == {}
    planned.decide(planned.doubted())
    assert only(planned.rows(), "in_doubt")["since"] == 7_000


def test_evidence_effects_and_approvals_are_kept_beside_the_state(planned: Any) -> None:
    """A stray effect advances nothing, an approval is on record with its digest, a wish to undo names its gate."""
    op = planned.operation()
    planned.decide(planned.opened(status="STAGED"))
    planned.decide(
        f.ApprovalRecorded(
            operation_id=op, intent_id=INTENT, principal="ann", digest="digest", granted=True, expires_at=5
        ),
        f.EffectRecorded(operation_id=op, intent_id=INTENT, attempt=1, external_id="msg-0", evidence=["x"], stray=True),
        f.CompensationRequested(
            operation_id=op, intent_id=INTENT, by=None, gate="operations", reason="late abort", deadline_at=None
        ),
    )
    row = only(planned.rows(), "operations")
    assert row["status"] == "STAGED"
    assert [(one["principal"], one["granted"]) for one in row["approvals"]] == [("ann", True)]
    assert [(one["external_id"], one["stray"]) for one in row["effects"]] == [("msg-0", True)]
    assert row["compensation"]["gate"] == "operations"


def test_a_row_stays_small_however_much_evidence_comes(planned: Any) -> None:
    """Endless repetition of effects is in the ledger; the row keeps the latest."""
    planned.decide(planned.opened())
    for n in range(KEPT_MAX + 5):
        planned.decide(
            f.EffectRecorded(
                operation_id=planned.operation(),
                intent_id=INTENT,
                attempt=1,
                external_id=f"msg-{n}",
                evidence=[],
                stray=False,
            )
        )
    effects = only(planned.rows(), "operations")["effects"]
    assert len(effects) == KEPT_MAX
    assert effects[-1]["external_id"] == f"msg-{KEPT_MAX + 4}"


# --- intents, plans, steps -------------------------------------------------------------------------------------------


def test_an_intent_goes_from_plan_to_complete(planned: Any) -> None:
    """Its word says how far it has come."""
    words = []
    for facts in (
        [],
        [planned.opened()],
        [planned.settled()],
        [planned.succeeded()],
        [
            f.PlanEnded(intent_id=INTENT, plan_id="p1", status="CLOSED", by=INTENT),
            f.IntentClosed(intent_id=INTENT, version=1, outcome="done"),
        ],
    ):
        planned.decide(*facts)
        words.append(only(planned.rows(), "intents")["shown"])
    assert words == ["PLAN", "EXECUTING", "PLAN", "VERIFIED", "COMPLETE"]
    rows = planned.rows()
    assert only(rows, "intents")["outcome"] == "done"
    assert only(rows, "plans")["shown"] == "COMPLETE"


def test_a_higher_version_ends_the_plan_and_keeps_what_is_outside(planned: Any) -> None:
    """The new version replaces what is wanted; counts live on; steps that were never dispatched are superseded."""
    planned.decide(planned.planned("p2", "ops", "board", replaces="p1"), f.PlanEnded(
        intent_id=INTENT, plan_id="p1", status="SUPERSEDED", by="p2"))  # fmt: skip
    planned.decide(planned.opened(plan_id="p2"), planned.permitted())
    planned.decide(
        planned.declared(version=2, supersedes=1),
        f.PlanEnded(intent_id=INTENT, plan_id="p2", status="SUPERSEDED", by="2"),
    )
    rows = planned.rows()
    intent = only(rows, "intents")
    assert (intent["version"], intent["plan_id"], intent["operations_open"]) == (2, None, 1)
    assert (intent["first"]["seq"], intent["shown"]) == (1, "EXECUTING")
    assert rows.tables["plans"][joined(INTENT, "p2")]["ended_by"] == "2"
    assert step_of(rows, "p1")["status"] == "SUPERSEDED"
    assert step_of(rows, "p2", "s1")["shown"] == "EXECUTING"
    assert step_of(rows, "p2", "s2")["shown"] == "SUPERSEDED"


def test_a_cancelled_intent_says_so_only_when_nothing_is_outside(planned: Any) -> None:
    """While an operation acts the intent is EXECUTING; the plain status says that it was cancelled."""
    planned.decide(planned.opened())
    planned.decide(f.IntentCancelled(intent_id=INTENT, version=1, reason="changed my mind"))
    intent = only(planned.rows(), "intents")
    assert (intent["status"], intent["shown"], intent["plan_id"]) == ("CANCELLED", "EXECUTING", None)
    planned.decide(planned.failed())
    assert only(planned.rows(), "intents")["shown"] == "CANCELLED"


def test_a_step_planned_again_shows_the_operation_of_its_slot(planned: Any) -> None:
    """Replanned, the same wish is the same operation: its word moves to the new plan's step; a new generation too."""
    planned.decide(planned.opened(), planned.permitted())
    planned.decide(planned.planned("p2"), f.PlanEnded(
        intent_id=INTENT, plan_id="p1", status="SUPERSEDED", by="p2"))  # fmt: skip
    rows = planned.rows()
    assert step_of(rows, "p2")["operation_id"] == planned.operation()
    assert step_of(rows, "p2")["shown"] == "EXECUTING"
    planned.decide(planned.failed())
    assert step_of(planned.rows(), "p2")["shown"] == "FAILED"
    planned.decide(planned.opened(generation=2, plan_id="p2"))
    step = step_of(planned.rows(), "p2")
    assert (step["operation_id"], step["shown"]) == (planned.operation(generation=2), "EXECUTING")


def test_a_step_whose_operation_is_gone_is_planned_again_as_new(planned: Any) -> None:
    """After proven absence a new plan's step is a plan, not a failure."""
    planned.decide(planned.opened(), planned.failed())
    planned.decide(planned.planned("p2"))
    step = step_of(planned.rows(), "p2")
    assert (step["status"], step["operation_id"], step["shown"]) == ("PLANNED", None, "PLAN")


def test_what_another_plan_took_up_is_not_complete_here(planned: Any) -> None:
    """A done operation leaves the new plan's step to be joined; the plan that joins it owns the operation."""
    planned.decide(planned.opened(), planned.settled(), planned.succeeded())
    planned.decide(planned.planned("p2"))
    assert step_of(planned.rows(), "p2")["shown"] == "VERIFIED"
    planned.decide(planned.succeeded(plan_id="p2"))
    rows = planned.rows()
    assert step_of(rows, "p2")["shown"] == "COMPLETE"
    assert only(rows, "operations")["plan_id"] == "p2"


def test_a_success_that_proves_false_opens_the_join_again(planned: Any) -> None:
    """FAILED after the join: the step is not joined any more, and the plan counts it so."""
    planned.decide(planned.opened(), planned.settled(), planned.succeeded())
    assert only(planned.rows(), "plans")["steps_joined"] == 1
    planned.decide(planned.doubted())
    assert step_of(planned.rows())["shown"] == "IN DOUBT"
    planned.decide(planned.failed())
    rows = planned.rows()
    assert (only(rows, "plans")["steps_joined"], step_of(rows)["joined"], step_of(rows)["shown"]) == (
        0,
        False,
        "FAILED",
    )
    assert only(rows, "intents")["plan_steps_joined"] == 0


def test_a_compensated_step_counts_as_joined(planned: Any) -> None:
    """Close may rest on it; the compensating operation is complete by having undone the other."""
    undo = planned.operation(action="retract")
    planned.decide(planned.opened(), planned.settled())
    planned.decide(planned.opened(action="retract", plan_id="", step_id="", compensates=planned.operation()))
    planned.decide(planned.settled(operation_id=undo))
    planned.decide(f.OperationCompensated(operation_id=planned.operation(), intent_id=INTENT, by=undo))
    rows = planned.rows()
    assert (step_of(rows)["joined"], only(rows, "plans")["steps_joined"]) == (True, 1)
    assert rows.tables["operations"][undo]["shown"] == "COMPLETE"


def test_a_compensation_is_not_its_steps_operation(planned: Any) -> None:
    """Even where it names the step that it goes back to."""
    planned.decide(planned.opened(), planned.settled())
    planned.decide(planned.opened(action="retract", compensates=planned.operation()))
    assert step_of(planned.rows())["operation_id"] == planned.operation()


def test_a_stalled_plan_shows_up_until_it_moves(planned: Any) -> None:
    """The orphan marks plan and intent; progress takes the mark of stalling away."""
    stalled = f.PlanProgress(intent_id=INTENT, plan_id="p1", stalled=True, since=9_000, deadline_at=None)
    orphan = planned.orphaned("p1", kind="PLAN")
    planned.decide(stalled, orphan)
    rows = planned.rows()
    assert (only(rows, "plans")["stalled_since"], only(rows, "plans")["shown"]) == (9_000, "ORPHANED")
    assert only(rows, "intents")["shown"] == "ORPHANED"
    moving = f.PlanProgress(intent_id=INTENT, plan_id="p1", stalled=False, since=0, deadline_at=99_000)
    planned.decide(moving, planned.cleared())
    plan = only(planned.rows(), "plans")
    assert (plan["stalled"], plan["deadline_at"], plan["shown"]) == (False, 99_000, "PLAN")


def test_a_candidate_that_is_adopted_keeps_where_it_began(planned: Any) -> None:
    """A candidate does not become the intent's plan; recorded again as adopted, it does."""
    planned.decide(planned.planned("p2", status="CANDIDATE"))
    rows = planned.rows()
    assert only(rows, "intents")["plan_id"] == "p1"
    assert rows.tables["plans"][joined(INTENT, "p2")]["status"] == "CANDIDATE"
    planned.decide(planned.planned("p2"))
    rows = planned.rows()
    plan = rows.tables["plans"][joined(INTENT, "p2")]
    assert (plan["status"], plan["first"]["seq"], plan["last"]["seq"]) == ("ADOPTED", 3, 4)
    assert only(rows, "intents")["plan_id"] == "p2"


# --- commitments, orphans --------------------------------------------------------------------------------------------


def test_a_commitment_goes_from_proposed_to_complete(planned: Any) -> None:
    """Each transition with its word, its evidence added, and the time of the last change of status."""
    release = planned.operation(action="release_window")
    planned.decide(planned.proposed())
    seen = [only(planned.rows(), "commitments")["shown"]]
    planned.decide(planned.opened(action="release_window", plan_id="", step_id=""))
    for before, after, operation in (
        ("PROPOSED", "ACTIVE", None),
        ("ACTIVE", "RELEASE_PENDING", release),
        ("RELEASE_PENDING", "RECONCILIATION_REQUIRED", release),
        ("RECONCILIATION_REQUIRED", "RELEASED", release),
    ):
        planned.decide(planned.moved(before, after, operation_id=operation))
        rows = planned.rows()
        seen.append(only(rows, "commitments")["shown"])
        assert bool(rows.tables["in_doubt"]) is (after == "RECONCILIATION_REQUIRED")
    assert seen == ["PROPOSED COMMITMENT", "ACTIVE COMMITMENT", "ACTIVE COMMITMENT", "IN DOUBT", "COMPLETE"]
    row = only(rows, "commitments")
    assert (row["operation_id"], row["creating_operation"]) == (release, planned.operation())
    assert row["evidence"] == ["seen:ACTIVE", "seen:RELEASE_PENDING", "seen:RECONCILIATION_REQUIRED", "seen:RELEASED"]
    assert (row["since"], only(rows, "intents")["commitments_open"]) == (8_000, 0)
    assert rows.tables["operations"][release]["taken_up"]


def test_a_breach_stays_on_the_record(planned: Any) -> None:
    """Discharged later, the commitment is COMPLETE, and still known to have been breached."""
    planned.decide(planned.proposed(), planned.moved("PROPOSED", "ACTIVE"))
    planned.decide(planned.moved("ACTIVE", "BREACHED"))
    rows = planned.rows()
    assert (only(rows, "commitments")["shown"], only(rows, "intents")["shown"]) == ("BREACHED", "BREACHED")
    planned.decide(planned.moved("BREACHED", "RELEASED"))
    breached_at = only(rows, "commitments")["since"]
    row = only(planned.rows(), "commitments")
    assert (row["shown"], row["breached"], row["breached_at"]) == ("COMPLETE", True, breached_at)


def test_a_commitments_time_is_prolonged_only_by_a_change_that_says_so(planned: Any) -> None:
    """A change that says nothing of it leaves it as it was."""
    planned.decide(planned.proposed(), planned.moved("PROPOSED", "ACTIVE", valid_until=77_000))
    planned.decide(planned.moved("ACTIVE", "UNKNOWN"))
    assert only(planned.rows(), "commitments")["valid_until"] == 77_000


def test_a_disposition_says_what_becomes_of_it(planned: Any) -> None:
    """With its reason and the attributes that differ."""
    planned.decide(planned.proposed(), planned.moved("PROPOSED", "ACTIVE"))
    planned.decide(
        f.DispositionDecided(
            commitment_id="c1", intent_id=INTENT, disposition="RELEASE", reason="other window", differs=["window"]
        )
    )
    decided = only(planned.rows(), "commitments")["disposition"]
    assert (decided["disposition"], decided["differs"]) == ("RELEASE", ["window"])


def test_an_orphan_marks_its_subject_until_it_is_cleared(planned: Any) -> None:
    """The table of orphans, the subject's word and the intent's count go up and down together."""
    planned.decide(planned.proposed(), planned.moved("PROPOSED", "ACTIVE"))
    planned.decide(planned.orphaned("c1"))
    planned.decide(planned.orphaned("c1"))  # The same incident again.
    rows = planned.rows()
    orphan = only(rows, "orphans")
    assert (orphan["since"], orphan["cause"], orphan["suggested_action"]) == (
        500,
        "its intent was superseded",
        "release it",
    )
    assert only(rows, "commitments")["shown"] == "ORPHANED"
    assert (only(rows, "intents")["orphans"], only(rows, "intents")["shown"]) == (1, "ORPHANED")
    planned.decide(planned.cleared())
    planned.decide(planned.cleared())
    rows = planned.rows()
    assert rows.tables["orphans"] == {}
    assert rows.tables["subject_orphans"] == {}
    assert only(rows, "commitments")["shown"] == "ACTIVE COMMITMENT"
    assert only(rows, "intents")["orphans"] == 0


def test_an_orphan_may_come_before_its_subject(hand: Any) -> None:
    """An effect suspected before its dispatch, of an intent not yet declared: both are marked from their first row."""
    hand.decide(hand.orphaned(hand.operation(), kind="OPERATION"))
    assert list(hand.rows().tables["orphans"]) == ["o1"]
    hand.decide(hand.declared())
    hand.decide(hand.planned())
    hand.decide(hand.opened())
    rows = hand.rows()
    assert only(rows, "operations")["shown"] == "ORPHANED"
    assert only(rows, "intents")["orphans"] == 1


# --- quarantine, news, the unknown -----------------------------------------------------------------------------------


def test_a_quarantine_counts_what_waits_for_it_and_ends(hand: Any) -> None:
    """Opened, two claims held, resolved."""
    hand.decide(f.QuarantineOpened(quarantine_id="q1", scope=None, problem="UNREADABLE", detail="no magic byte"))
    for offset in (4, 5):
        hand.decide(
            f.HoldOpened(
                quarantine_id="q1",
                intent_id=INTENT,
                held_claim=b"\xc3\x01",
                topic="proposals",
                offset=offset,
                appended_at=1,
            )
        )
    row = only(hand.rows(), "quarantine")
    assert (row["status"], row["scope"], row["problem"], row["holds"]) == ("OPEN", None, "UNREADABLE", 2)
    hand.decide(f.QuarantineResolved(quarantine_id="q1", scope=None, resolution="DISMISSED"))
    row = only(hand.rows(), "quarantine")
    assert (row["status"], row["resolution"], row["holds"]) == ("RESOLVED", "DISMISSED", 0)


def test_each_sources_latest_news_is_kept(planned: Any) -> None:
    """One row a source, and the latest of all on the subject."""
    op = planned.operation()
    planned.decide(planned.opened())
    planned.decide(planned.observed(op, "NOT_FOUND"))
    planned.decide(planned.observed(op, "PRESENT"))
    rows = planned.rows()
    assert only(rows, "observations")["finding"] == "PRESENT"
    assert only(rows, "operations")["observation"]["finding"] == "PRESENT"


def test_an_unknown_fact_is_counted_and_skipped(hand: Any) -> None:
    """A fact of a newer release changes no row, and what is known beside it is folded."""
    decision = hand.decide(hand.declared())
    decision.__dict__["facts"] = [UnknownFact("OperationTeleported", {"operation_id": "x"}), *decision.facts]
    rows = MemoryRows()
    fold(rows, decision, 0)
    assert rows.counters == {("unknown_facts", "OperationTeleported"): 1}
    assert only(rows, "intents")["status"] == "OPEN"
    assert only(rows, "decisions")["facts"][0] == {"fact": "OperationTeleported", "unknown": True}


def test_no_fact_is_refused_however_little_is_known(hand: Any) -> None:
    """Every fact, alone over empty tables: facts about what is not there change nothing and raise nothing."""
    for name, cls in f.FACT_TYPES.items():
        fact = cls(**{field: _any(field) for field in cls.__annotations__})
        rows = MemoryRows()
        fold_fact(rows, fact, At(0, 1, 1_000))
        for table in rows.tables.values():
            assert all(row["shown"] in WORDS for row in table.values() if "shown" in row), name


def _any(field: str) -> Any:
    if field in ("evidence", "dependants", "steps", "commitments", "goals", "resource_refs", "differs"):
        return []
    if field in ("held_claim", "catalogue", "public_key"):
        return b"{}"
    if field in ("status", "before", "after"):
        return "UNKNOWN"
    return 1_000 if field == "weight" else "x"


def test_a_decision_is_found_by_every_id_it_mentions(hand: Any) -> None:
    """Intent, claim, subject, operation, commitment, plan and step lead to it; bytes are named, not copied."""
    hand.decide(hand.opened(commitment_id="c1"), hand.proposed(), claim_id="claim-7", subject_id=hand.operation())
    hand.decide(f.CatalogueLoaded(digest="d1", version="v1", catalogue=b"{}"), claim_type="CatalogueChanged")
    decision, catalogue = hand.rows().tables["decisions"].values()
    assert set(decision["mentions"]) == {
        INTENT,
        "claim-7",
        hand.operation(),
        "c1",
        joined(INTENT, "p1"),
        joined(INTENT, "p1", "s1"),
    }
    assert decision["reason_number"] == 1
    assert catalogue["facts"][0]["catalogue"]["bytes"] == 2
    assert hand.rows().tables["catalogues"]["00000"]["version"] == "v1"


def test_folding_reads_no_clock_and_shares_nothing(hand: Any) -> None:
    """The same ledger twice gives equal rows, and folding changes no decision."""
    hand.story()
    before = list(hand.values)
    first, second = hand.rows(), hand.rows()
    assert first.tables == second.tables
    assert [hand.codec.encode(decision) for decision in hand.decisions] == before
    rows = MemoryRows()
    for decision in hand.decisions:
        assert isinstance(decision, Decision)
        fold(rows, decision, 0)
    assert [hand.codec.encode(decision) for decision in hand.decisions] == before


def test_a_plan_that_ended_with_its_cancelled_intent_is_not_complete(planned: Any) -> None:
    """Nothing was done, and nothing will be: neither the plan nor its steps show a clean word."""
    planned.decide(
        f.IntentCancelled(intent_id=INTENT, version=1, reason="not wanted"),
        f.PlanEnded(intent_id=INTENT, plan_id="p1", status="CLOSED", by=INTENT),
        claim_type="CancelIntent",
    )
    rows = planned.rows()
    assert (only(rows, "plans")["shown"], step_of(rows)["shown"]) == ("CLOSED", "SUPERSEDED")
    assert (only(rows, "goals")["shown"], only(rows, "intents")["shown"]) == ("CANCELLED", "CANCELLED")


def test_every_word_for_people_comes_from_the_one_list_or_is_a_plain_status(hand: Any) -> None:
    """Whatever table: intents, goals, plans, steps, operations and commitments speak the same nine words."""
    hand.story()
    tables = hand.rows().tables
    shown = {row["shown"] for rows in tables.values() for row in rows.values() if "shown" in row}
    assert {"ORPHANED", "COMPLETE", "IN DOUBT"} <= shown <= set(WORDS)


def test_a_stalled_plan_is_marked_as_the_law_names_it(planned: Any) -> None:
    """By its intent and itself, with a slash between; an id with a slash in it is no other plan."""
    planned.decide(planned.orphaned(f"{INTENT}/p1", kind="PLAN"))
    assert only(planned.rows(), "plans")["shown"] == "ORPHANED"
    planned.decide(planned.cleared())
    assert only(planned.rows(), "plans")["shown"] == "PLAN"
