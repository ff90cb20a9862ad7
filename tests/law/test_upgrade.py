"""Another catalogue over what is open: what is fine, what ends by other rules, what nobody could end any more."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.gate.logs import Halted
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.store import Position, RocksState
from joingate_processors.gate.taking_up import undischargeable
from joingate_processors.upgrade import Report, compare
from joingate_schemas.catalogue import Catalogue, Downstream, OwnerKind, Principal
from joingate_schemas.catalogue_file import builtin_catalogue

from .catalogues import arbitrated, sealed, varied
from .driver import Court, step

PLANNED = step("w", "reserve_window", "w-1", arguments={"window": "w-1", "environment": "prod", "release": "4.2"})


def without(catalogue: Catalogue, section: str, *names: str, **fields: Any) -> Catalogue:
    """The catalogue, as another version, less these entries of a section."""
    kept = {name: entry for name, entry in getattr(catalogue, section).items() if name not in names}
    return sealed(replace(catalogue, version="2", **{section: kept}, **fields))


def edited(catalogue: Catalogue, section: str, name: str, **fields: Any) -> Catalogue:
    """The catalogue, as another version, with some fields of one entry replaced."""
    entries = getattr(catalogue, section)
    return sealed(replace(catalogue, version="2", **{section: {**entries, name: replace(entries[name], **fields)}}))


def windowed() -> Court:
    """A window is reserved, in force, and its step taken up."""
    court = Court()
    court.load()
    court.open(PLANNED)
    court.active("w")
    assert court.succeed("w").verdict == "ACCEPTED"
    return court


def refunding(*says: str, catalogue: Catalogue | None = None) -> Court:
    """A refund is dispatched, and whatever `says` names was said of it."""
    court = Court(catalogue)
    court.load()
    court.open(step("r", "refund", "cap-1/1"))
    assert court.dispatch("r").verdict == "ACCEPTED"
    for say in says:
        assert getattr(court, say)("r").verdict == "ACCEPTED"
    return court


def outcomes(report: Report) -> list[tuple[str, int]]:
    """The outcomes with their counts, gravest first."""
    return [(line.outcome, line.count) for line in report.lines()]


def why(report: Report) -> str:
    """Every reason, in order."""
    return " / ".join(line.why for line in report.lines())


def meaning(court: Court, new: Catalogue) -> Report:
    """What `new` means where the court's own catalogue is in force."""
    return compare(court.state, court.catalogue, new)


# --- what is fine ----------------------------------------------------------------------------------------------------


def test_nothing_open_is_nothing_to_say() -> None:
    court = Court()
    court.load()
    court.open(PLANNED)
    assert outcomes(meaning(court, without(builtin_catalogue(), "obligations", "window"))) == []


def test_the_same_declarations_are_fine() -> None:
    """The control: a gate that refuses every upgrade is as broken as one that refuses none."""
    court = windowed()
    assert outcomes(meaning(court, court.catalogue)) == [("FINE", 1)]


def test_what_is_declared_besides_changes_nothing() -> None:
    court = windowed()
    assert outcomes(meaning(court, varied())) == [("FINE", 1)]


def test_what_concerns_nothing_open_may_go() -> None:
    court = windowed()
    gone = without(builtin_catalogue(), "obligations", "review", "incident", "promise")
    assert outcomes(meaning(court, gone)) == [("FINE", 1)]


def test_what_is_discharged_needs_nothing_any_more() -> None:
    court = windowed()
    assert court.release("w").verdict == "ACCEPTED"
    court.perform_release("w")
    assert court.observe_commitment("w", "ABSENT", proof="SECOND_LOOK").status == "RELEASED"
    assert outcomes(meaning(court, without(builtin_catalogue(), "obligations", "window"))) == []


def test_a_raised_version_rules_what_is_new_and_leaves_what_is_open_as_it_is() -> None:
    court = windowed()
    raised = edited(court.catalogue, "obligations", "window", version=2, satisfied_evidence=("receipt",))
    report = meaning(court, raised)
    assert outcomes(report) == [("FINE", 1)]
    assert "ruled by version 1 to its end" in why(report)


# --- what changes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"satisfied_evidence": ("receipt",)}, "what SATISFIED demands changes (satisfied_evidence: [] → [receipt])"),
        ({"transfer_evidence": ("receipt",)}, "what TRANSFERRED demands changes"),
        ({"observed": False}, "what ACTIVE and RELEASED demand changes (observed: True → False)"),
        ({"release_ms": 60_000}, "the type window changes (release_ms: 3600000 → 60000)"),
        ({"release_action": "withdraw_review"}, "it is given back by withdraw_review instead of release_window"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_edit_under_the_same_version_is_a_change_of_behaviour(fields: dict[str, Any], told: str) -> None:
    court = windowed()
    report = meaning(court, edited(court.catalogue, "obligations", "window", **fields))
    assert report.outcome == "CHANGES"
    assert told in why(report)


def test_what_only_people_read_is_no_change_of_behaviour() -> None:
    court = windowed()
    assert meaning(court, edited(court.catalogue, "obligations", "window", idle_cost=9.0)).outcome == "FINE"


def test_another_executor_has_to_run_beside_the_former_one() -> None:
    court = refunding("prepared")
    report = meaning(court, edited(court.catalogue, "actions", "refund", executor="teller"))
    assert report.outcome == "CHANGES"
    assert "its commands lie with the executor bank, and new ones go to teller" in why(report)


def test_a_wish_that_waits_for_approval_is_told_apart() -> None:
    court = Court(varied())
    court.load()
    court.open(step("p", "pay_approved"))
    court.dispatch("p")
    report = meaning(court, edited(court.catalogue, "actions", "pay_approved", approval="N_OF_M", approvals_needed=2))
    (line,) = report.lines()
    assert (line.outcome, line.what) == ("CHANGES", "operations that wait for approval, of action pay_approved")
    assert "approval: ANY → N_OF_M, approvals_needed: 1 → 2" in line.why


def test_a_resource_that_is_gone_is_told_of_whoever_waits_for_it() -> None:
    court = Court(arbitrated())
    court.load()
    court.open(step("s", "sweep", arguments={"bench": "b1"}))
    assert court.dispatch("s").status == "STAGED"
    report = meaning(court, without(court.catalogue, "resources", "bench"))
    assert report.outcome == "CHANGES"
    assert "the resource bench is not declared any more" in why(report)
    assert meaning(court, without(court.catalogue, "resources", "gpu")).outcome == "FINE"


def test_owners_and_targets_that_do_not_last_any_more_are_told() -> None:
    court = windowed()
    assert court.transfer("w", "team:ops").verdict == "ACCEPTED"
    fleeting = {**court.catalogue.owners, "team": OwnerKind("team", durable=False)}
    report = meaning(court, sealed(replace(court.catalogue, owners=fleeting)))
    assert "the transfer to team:ops can't be acknowledged any more" in why(report)
    assert court.accept("w").verdict == "ACCEPTED"
    report = meaning(court, sealed(replace(court.catalogue, owners=fleeting)))
    assert "owners of the kind team do not last any more" in why(report)


def test_whoever_lost_its_owner_and_the_policy_for_another_is_told() -> None:
    court = windowed()
    court.transfer("w", "team:ops")
    court.accept("w")
    assert meaning(court, without(court.catalogue, "policies", "on-call")).outcome == "FINE"
    court.retire("team:ops")
    report = meaning(court, without(court.catalogue, "policies", "on-call"))
    assert "its owner is retired, and fewer policies, or none, may assign it another" in why(report)


def test_a_version_that_no_catalogue_of_the_ledger_told_is_ruled_by_the_one_that_is_there() -> None:
    """As where only a file of the ledger is at hand, without its catalogues."""
    court = Court()
    court.open(PLANNED)
    court.active("w")
    report = meaning(court, edited(court.catalogue, "obligations", "window", version=2))
    assert "nobody knows its version 1 any more: version 2 rules it" in why(report)


# --- what can't be discharged ----------------------------------------------------------------------------------------


def test_a_type_that_is_gone_can_not_be_discharged() -> None:
    court = windowed()
    report = meaning(court, without(court.catalogue, "obligations", "window"))
    (line,) = report.lines()
    assert (line.outcome, line.count, line.ids) == ("UNDISCHARGEABLE", 1, [court.commitment_id("w")])
    assert line.what == "ACTIVE commitments of type window, version 1"
    assert line.why == "the type window is not declared any more"
    assert line.advice == "keep the type window with its action release_window until its last one is discharged"


def test_a_release_action_that_is_gone_leaves_no_way_back_even_under_a_new_version() -> None:
    court = windowed()
    raised = edited(court.catalogue, "obligations", "window", version=2, release_action="withdraw_review")
    assert meaning(court, raised).outcome == "FINE"
    report = meaning(court, without(raised, "actions", "release_window"))
    assert report.outcome == "UNDISCHARGEABLE"
    assert "nothing gives it back: the action release_window is not declared any more" in why(report)


def test_a_correction_that_is_gone_leaves_a_promise_without_one() -> None:
    court = Court()
    court.load()
    court.open(step("m", "promise", "c-1/it", arguments={"to": "c-1", "about": "it", "text": "soon"}))
    court.perform("m")
    assert court.commitment("m").status == "ACTIVE"
    report = meaning(court, edited(court.catalogue, "actions", "promise", compensation=None))
    assert report.outcome == "UNDISCHARGEABLE"
    assert "nothing gives it back: the action correct_promise is not named for it any more" in why(report)


def test_a_downstream_that_is_gone_can_not_be_asked() -> None:
    court = windowed()
    report = meaning(court, moved(court.catalogue))
    assert report.outcome == "UNDISCHARGEABLE"
    assert "the downstream cloud, which is asked whether it is there, is not declared any more" in why(report)


@pytest.mark.parametrize("said", [(), ("prepared",), ("prepared", "in_doubt")], ids=len)
def test_an_action_that_is_gone_stops_what_it_might_begin_and_not_what_it_may_have_done(said: tuple[str, ...]) -> None:
    """Refused narrowly: whether it happened can still be asked of its downstream."""
    court = refunding(*said)
    report = meaning(court, without(court.catalogue, "actions", "refund"))
    assert [line.outcome for line in report.lines()] == ["CHANGES"]


def bankless(catalogue: Catalogue) -> Catalogue:
    """The catalogue with the bank's actions done at the workspace, and no bank."""
    actions = {name: replace(one, downstream="workspace") if one.downstream == "bank" else one
               for name, one in catalogue.actions.items()}  # fmt: skip
    return without(replace(catalogue, actions=actions), "downstreams", "bank")


@pytest.mark.parametrize(
    ("said", "outcome"),
    [((), "CHANGES"), (("prepared",), "UNDISCHARGEABLE"), (("prepared", "in_doubt"), "UNDISCHARGEABLE")],
    ids=("not permitted", "permitted", "in doubt"),
)
def test_a_downstream_that_is_gone_leaves_nobody_who_knows_whether_it_happened(
    said: tuple[str, ...], outcome: str
) -> None:
    court = refunding(*said)
    assert [line.outcome for line in meaning(court, bankless(court.catalogue)).lines()] == [outcome]


def test_what_a_person_has_in_hand_needs_no_downstream() -> None:
    court = refunding("prepared", "in_doubt")
    court.advance(3_700_000)
    assert court.op("r").status == "ESCALATED"
    assert meaning(court, bankless(court.catalogue)).outcome == "CHANGES"


def test_nobody_left_who_may_report_is_no_way_to_an_end() -> None:
    court = refunding("prepared")
    deaf = replace(court.catalogue, principals={"ann": Principal("ann", "PLANNER")})
    assert "no principal may speak as executor of refund any more" in why(meaning(court, sealed(deaf)))
    heard = replace(court.catalogue, principals={"bank": Principal("bank", "EXECUTOR", actions=("refund",))})
    assert meaning(court, sealed(heard)).outcome == "FINE"


# --- the answer is true ----------------------------------------------------------------------------------------------


def released_by_machine(court: Court) -> bool:
    """Whether the window is given back with no person's help: by a release, and a look by whoever can be asked."""
    if court.release("w").status != "RELEASE_PENDING":
        return False
    court.perform_release("w")
    asked = court.questions(court.commitment_id("w"))
    if court.commitment("w").status != "RELEASED" and asked[-1].kind == "VERIFY_RELEASE" and asked[-1].capabilities:
        court.observe_commitment("w", "ABSENT", proof="SECOND_LOOK")
    return court.commitment("w").status == "RELEASED"


def moved(catalogue: Catalogue) -> Catalogue:
    """The catalogue with all that was done at the cloud done in the sky, and no cloud."""
    actions = {name: replace(one, downstream="sky", executor="sky") if one.downstream == "cloud" else one
               for name, one in catalogue.actions.items()}  # fmt: skip
    sky = {**catalogue.downstreams, "sky": Downstream("sky", ("LOOKUP",))}
    return without(replace(catalogue, actions=actions, downstreams=sky), "downstreams", "cloud")


WINDOW = ("obligations", "window")
UPGRADES = {
    "the same": lambda it: it,
    "a raised version": lambda it: edited(it, *WINDOW, version=2, release_action=None),
    "another release action": lambda it: edited(it, *WINDOW, release_action="withdraw_review"),
    "no release action": lambda it: edited(it, *WINDOW, release_action=None),
    "another class": lambda it: edited(it, *WINDOW, resolution="UNKNOWN"),
    "no observation": lambda it: edited(it, *WINDOW, observed=False),
    "no action, and a raised version": lambda it: without(
        edited(it, *WINDOW, version=2, release_action="withdraw_review"), "actions", "release_window"
    ),
    "neither type nor action": lambda it: without(without(it, "obligations", "window"), "actions", "release_window"),
    "another executor": lambda it: edited(it, "actions", "release_window", executor="teller"),
    "another downstream": moved,
    "other capabilities": lambda it: edited(it, "downstreams", "cloud", capabilities=("STATEMENT",)),
}


@pytest.mark.parametrize("name", UPGRADES)
def test_what_is_said_to_be_dischargeable_is_discharged_and_nothing_else(name: str) -> None:
    """The prediction is held against the law itself, which then works under the new catalogue."""
    court = windowed()
    new = UPGRADES[name](court.catalogue)
    report = meaning(court, new)
    court.catalogue = new
    court.load(accepted="ann: to see what becomes of it")
    assert released_by_machine(court) == (report.outcome != "UNDISCHARGEABLE"), why(report)


@pytest.mark.parametrize("finding", ["PRESENT", "ABSENT"])
def test_what_may_have_happened_is_found_out_without_its_action_and_not_sent_again(finding: str) -> None:
    court = refunding("prepared", "in_doubt")
    court.catalogue = without(court.catalogue, "actions", "refund")
    court.load()
    assert court.observe("r", "RESEND").reason == "NOT_FRESH"
    asked = court.questions(court.op_id("r"))[-1]
    assert (asked.fresh, asked.capabilities) == (False, ["IDEMPOTENT_KEY", "LOOKUP"])
    found = court.observe("r", finding, proof="TOMBSTONE" if finding == "ABSENT" else None)
    assert found.status == {"PRESENT": "SETTLED", "ABSENT": "FAILED"}[finding]


def test_an_executor_that_is_at_it_is_heard_although_its_action_is_gone() -> None:
    court = refunding("prepared")
    court.catalogue = without(court.catalogue, "actions", "refund")
    court.load()
    assert court.commit("r").status == "SETTLED"
    assert court.succeed("r").verdict == "ACCEPTED"
    assert court.close().verdict == "ACCEPTED"


# --- the gate --------------------------------------------------------------------------------------------------------


def settings(new: Catalogue, accepted: str = "") -> GateSettings:
    return GateSettings(bootstrap_servers="nowhere:9092", data_dir=Path("/nowhere"), catalogue=new,
                        accept_undischargeable=accepted)  # fmt: skip


def test_a_gate_does_not_start_over_what_it_can_not_discharge_and_says_what_to_do() -> None:
    court = windowed()
    new = without(court.catalogue, "obligations", "window")
    with pytest.raises(Halted) as halted:
        undischargeable(court.state, settings(new))
    told = str(halted.value)
    assert "1 ACTIVE commitments of type window, version 1" in told
    assert court.commitment_id("w") in told
    assert f"Start the gate with the former catalogue (1, {court.catalogue.digest[:12]})" in told
    assert "keep the type window with its action release_window until its last one is discharged" in told
    assert undischargeable(court.state, settings(court.catalogue)) == ""


def test_who_takes_it_on_is_recorded_with_what_was_taken_on() -> None:
    court = windowed()
    new = without(court.catalogue, "obligations", "window")
    accepted = undischargeable(court.state, settings(new, "ann, ticket 12"))
    assert accepted.startswith("ann, ticket 12: 1 ACTIVE commitments of type window, version 1")
    decision = court.load(accepted=accepted)
    assert decision.detail == accepted


def test_accepting_beforehand_records_nothing_where_nothing_is_lost() -> None:
    court = windowed()
    assert undischargeable(court.state, settings(varied(), "ann, ticket 12")) == ""


def test_the_store_on_disk_sees_what_the_one_in_memory_does(tmp_path: Path) -> None:
    court = windowed()
    store = RocksState(tmp_path / "0")
    try:
        for raw in court.ledger:
            court.fold_into(store, raw)
        store.commit(Position(seq=len(court.ledger)))
        new = without(court.catalogue, "obligations", "window")
        assert compare(store, court.catalogue, new).rows() == meaning(court, new).rows()
        with pytest.raises(Halted, match="1 ACTIVE commitments of type window"):
            undischargeable(store, settings(new))
    finally:
        store.close()


# --- several versions in one gate ------------------------------------------------------------------------------------


def test_a_commitment_is_ruled_by_its_own_version_and_a_new_one_by_the_new() -> None:
    court = windowed()
    court.catalogue = edited(court.catalogue, "obligations", "window", version=2, satisfied_evidence=("receipt",))
    court.load()
    assert court.satisfied("w").status == "SATISFIED"
    court.plan(PLANNED, step("v", "reserve_window", "w-2"), plan_id="p2", replaces="p1")
    court.active("v")
    assert court.commitment("v").type_version == 2
    assert court.satisfied("v").reason == "NO_EVIDENCE"


def test_an_edit_under_the_same_version_rules_what_is_open_too() -> None:
    court = windowed()
    court.catalogue = edited(court.catalogue, "obligations", "window", satisfied_evidence=("receipt",))
    court.load()
    assert court.satisfied("w").reason == "NO_EVIDENCE"


def test_a_type_that_was_dropped_all_the_same_demands_the_evidence_that_it_did() -> None:
    """What an operator took on gets no laxer by it: its own version's demands stay."""
    court = Court(edited(builtin_catalogue(), "obligations", "window", satisfied_evidence=("receipt",)))
    court.load()
    court.open(PLANNED)
    court.active("w")
    court.catalogue = without(court.catalogue, "obligations", "window")
    court.load(accepted="ann: it is looked after by hand")
    assert court.satisfied("w").reason == "NO_EVIDENCE"
    assert court.release("w").status == "RELEASE_PENDING"


def test_versions_are_remembered_by_the_ledger_alone() -> None:
    court = windowed()
    court.catalogue = edited(court.catalogue, "obligations", "window", version=2)
    court.load()
    assert court.replayed().rows("protocols") == court.state.rows("protocols")
    assert {key for key, _ in court.state.rows("protocols")} >= {"window\x1f1", "window\x1f2"}


def test_shorter_times_shorten_no_wait_for_what_went_out_before() -> None:
    """A permit is out for 30 s, and what was sent takes up to 60 s, whatever the next catalogue says."""
    court = refunding("prepared")
    permit_at, quick = court.now, edited(court.catalogue, "downstreams", "bank", in_flight_ms_max=1_000)
    court.in_doubt("r")
    court.catalogue = edited(quick, "actions", "refund", permit_ms=1_000)
    court.load()
    court.advance(10_000)
    assert court.observe("r", "ABSENT", proof="SECOND_LOOK").verdict == "REJECTED"
    assert court.questions(court.op_id("r"))[-1].askable_from == permit_at + 90_000
    court.advance(81_000)
    assert court.observe("r", "ABSENT", proof="SECOND_LOOK").status == "FAILED"


def test_what_was_never_permitted_ends_by_its_silence_once_its_action_is_gone() -> None:
    """Else its executor would be asked for ever about what can't be permitted."""
    court = refunding()
    court.catalogue = without(court.catalogue, "actions", "refund")
    court.load()
    court.advance(31_000)
    assert court.op("r").status == "WITHDRAWN"
