"""Resolution classes: what each allows when nobody wants the obligation any more, and whose yes that takes."""

from dataclasses import replace

import pytest

from joingate_processors.forensics.checker import check
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision

from .catalogues import sealed
from .driver import Court, step
from .life_catalogue import DAY_MS, HOUR_MS, MINUTE_MS, lived


def made(name: str, loaded: bool = False) -> tuple[Court, str]:
    """Step s1 made a commitment of that type, in force; and its id. `loaded`: the ledger knows the catalogue."""
    court = Court(lived())
    if loaded:
        court.load()
    court.open(step("s1", f"make_{name}", arguments={"name": "a"}))
    if court.dispatch("s1").status == "STAGED":
        court.approve("s1")
    court.permit("s1")
    court.commit("s1")
    if court.commitment("s1").status != "ACTIVE":
        court.observe_commitment("s1", "PRESENT")
    assert court.commitment("s1").status == "ACTIVE"
    return court, court.commitment_id("s1")


def decided(decision: Decision) -> list[str]:
    return [fact.disposition for fact in decision.facts if isinstance(fact, f.DispositionDecided)]


@pytest.mark.parametrize(
    ("name", "disposition", "status"),
    [("hold", "RELEASE", "RELEASE_PENDING"), ("quote", "RELEASE", "RELEASE_PENDING"), ("duty", "TRANSFER", "ACTIVE"),
     ("notice", "COMPENSATE", "RELEASE_PENDING"), ("filing", "COMPENSATE", "RELEASE_PENDING"),
     ("statement", "COMPENSATE", "RECONCILIATION_REQUIRED")],
)  # fmt: skip
def test_what_nobody_wants_any_more_is_given_up_by_its_class(name: str, disposition: str, status: str) -> None:
    court, key = made(name)
    assert decided(court.cancel()) == [disposition]
    row = court.commitment(key)
    assert (row.status, row.disposition) == (status, disposition)


def test_a_type_that_left_the_catalogue_is_given_up_by_nobody() -> None:
    court, key = made("hold")
    whole = lived()
    left = {name: one for name, one in whole.obligations.items() if name != "hold"}
    court.catalogue = sealed(replace(whole, obligations=left))
    assert decided(court.cancel()) == ["RECONCILE"]
    assert court.commitment(key).status == "RECONCILIATION_REQUIRED"


# --- EXPIRING --------------------------------------------------------------------------------------------------------


def test_what_lapses_is_released_only_once_it_is_seen_to_be_gone_after_its_time() -> None:
    court, key = made("quote")
    court.release("s1")
    assert court.observe_commitment(key, "ABSENT").reason == "NO_PROOF"
    court.advance(HOUR_MS)
    assert court.commitment(key).status == "RELEASE_PENDING", "that its time passed is no evidence"
    assert court.questions(key)[-1].kind == "VERIFY_RELEASE"
    assert court.observe_commitment(key, "ABSENT").status == "RELEASED"


def test_one_that_does_not_lapse_is_breached_in_the_end() -> None:
    court, key = made("quote")
    court.release("s1")
    court.advance(2 * HOUR_MS - MINUTE_MS)
    assert court.commitment(key).status == "RELEASE_PENDING"
    court.advance(11 * MINUTE_MS)
    assert (court.commitment(key).status, court.orphans()) == ("BREACHED", ["OVERDUE"])


def test_expiry_of_what_was_owed_is_no_satisfaction() -> None:
    court, key = made("quote")
    court.advance(HOUR_MS)
    assert court.commitment(key).status == "UNKNOWN"
    assert court.observe_commitment(key, "ABSENT").status == "BREACHED"
    assert court.close().reason == "MISSING_JOIN"


# --- TRANSFERABLE ----------------------------------------------------------------------------------------------------


def test_what_can_only_be_handed_over_waits_for_its_next_owner_and_is_then_an_incident() -> None:
    court, key = made("duty")
    court.cancel()
    court.advance(10 * MINUTE_MS - 1)
    assert (court.commitment(key).status, court.orphans()) == ("ACTIVE", [])
    court.advance(1)
    assert court.commitment(key).status == "RECONCILIATION_REQUIRED"
    assert court.orphans() == ["LEFT_BEHIND"]
    assert court.observe_commitment(key, "PRESENT").status == "RECONCILIATION_REQUIRED", "a person decides"


# --- COMPENSATABLE and IRREVERSIBLE ----------------------------------------------------------------------------------


def test_what_stays_in_the_world_is_discharged_by_the_evidence_of_what_mitigates_it() -> None:
    court, key = made("notice")
    decision = court.release("s1")
    correction = court.release_of(key)
    assert (decision.verdict, decision.reason) == ("COMPENSATE", "COMPENSATION")
    assert correction in decision.detail
    assert court.op(correction).action == "apologise"
    assert court.release("s1").verdict == "REPLAYED"
    court.prepared(correction)
    court.commit(correction, external_id="mail-2", evidence=["mail:2"])
    row = court.commitment(key)
    assert (row.status, "mail:2" in row.evidence) == ("RELEASED", True)
    assert (court.op("s1").status, court.op("s1").compensated_by) == ("COMPENSATED", correction)


def test_what_is_observed_is_discharged_by_the_mitigation_all_the_same_and_not_by_being_gone() -> None:
    court, key = made("filing", loaded=True)
    court.release("s1")
    amendment = court.release_of(key)
    court.approve(amendment, principal="carl")
    court.prepared(amendment)
    court.commit(amendment, external_id="file-2", evidence=["file:2"])
    assert court.commitment(key).status == "RELEASED"
    assert check(court.decisions) == [], "the checker takes that for evidence too"


@pytest.mark.parametrize(("proven", "status"), [(True, "RELEASED"), (False, "RECONCILIATION_REQUIRED")])
def test_no_release_ends_what_may_yet_be_made(proven: bool, status: str) -> None:
    """What makes good an effect that may or may not be there: first it has to be known whether it is."""
    court, key = made("filing", loaded=True)
    court.release("s1")
    amendment = court.release_of(key)
    court.approve(amendment, principal="carl")
    court.prepared(amendment)
    court.executor_abort("s1", proof="REFUSED")
    assert court.op("s1").status == "IN_DOUBT"
    court.commit(amendment, external_id="file-2", evidence=["file:2"])
    assert court.commitment(key).status == "RECONCILIATION_REQUIRED"
    if proven:
        court.advance(5 * MINUTE_MS)  # until then it may still land
        court.override("OPERATION", court.op_id("s1"), "FAILED")
    else:
        court.observe("s1", "PRESENT")
    assert court.commitment(key).status == status
    assert check(court.decisions) == []


def test_a_correction_without_a_trace_discharges_nothing() -> None:
    court, key = made("notice")
    court.release("s1")
    correction = court.release_of(key)
    court.prepared(correction)
    court.commit(correction, external_id="", evidence=[], idempotency_key=correction)
    assert court.commitment(key).status == "RELEASE_PENDING"


def test_what_a_person_answers_for_ends_by_their_word_and_evidence() -> None:
    court, key = made("statement")
    decision = court.release("s1")
    assert (decision.verdict, decision.status) == ("COMPENSATE", "RECONCILIATION_REQUIRED")
    assert "press-office" in decision.detail
    assert court.release("s1").verdict == "REPLAYED"
    for finding in ("PRESENT", "REVOKED"):
        assert court.observe_commitment(key, finding).status == "RECONCILIATION_REQUIRED", "a person answers for it"
    court.advance(DAY_MS)
    assert "OVERDUE" in court.orphans()
    assert court.override("COMMITMENT", key, "RELEASED").status == "RELEASED"
    assert "OVERDUE" not in court.orphans()


# --- how strong a yes ------------------------------------------------------------------------------------------------


def test_a_release_that_needs_an_approval_waits_for_it_also_when_the_intent_is_cancelled() -> None:
    for give_up in (lambda x: x.release("s1", principal="paula"), lambda x: x.cancel()):
        court, key = made("guarded_hold")
        give_up(court)
        release = court.release_of(key)
        assert court.op(release).status == "STAGED"
        assert court.prepared(release).reason == "NOT_READY"
        assert court.approve(release, principal="").reason == "MAKER_IS_CHECKER"
        assert court.approve(release, principal="carl").status == "VALIDATED"
        court.perform_release(key)
        assert court.observe_commitment(key, "ABSENT").status == "RELEASED"


def test_who_asked_for_the_release_may_not_approve_it() -> None:
    court, key = made("guarded_hold")
    court.release("s1", principal="paula")
    assert court.approve(court.release_of(key), principal="paula").reason == "MAKER_IS_CHECKER"


@pytest.mark.parametrize("how", ["declined", "in silence"])
def test_a_release_that_nobody_approves_goes_to_a_person_and_is_not_asked_for_behind_their_back(how: str) -> None:
    court, key = made("guarded_hold")
    court.release("s1")
    release = court.release_of(key)
    if how == "declined":
        court.decline(release)
    else:
        court.advance(DAY_MS)
    assert (court.op(release).status, court.commitment(key).status) == ("WITHDRAWN", "RECONCILIATION_REQUIRED")
    assert court.observe_commitment(key, "PRESENT").status == "RECONCILIATION_REQUIRED"
    court.advance(DAY_MS)
    assert court.release_of(key) == release
    assert "OVERDUE" in court.orphans()
    assert court.release("s1").status == "RELEASE_PENDING", "asked for again by name, it is asked about again"
    assert court.release_of(key) != release


def test_what_is_asked_for_by_name_goes_before_what_was_decided_earlier() -> None:
    court, key = made("guarded_hold")
    court.release("s1")
    court.decline(court.release_of(key))
    court.release("s1")
    release = court.release_of(key)
    court.approve(release, principal="carl")
    court.prepared(release)
    court.in_doubt(release)
    assert (court.commitment(key).status, court.commitment(key).disposition) == ("RECONCILIATION_REQUIRED", "RELEASE")
    court.observe(release, "ABSENT", proof="SECOND_LOOK", source_time=court.now + HOUR_MS)
    court.advance(HOUR_MS)
    court.observe(release, "ABSENT", proof="SECOND_LOOK")
    assert court.commitment(key).status in ("RELEASE_PENDING", "BREACHED"), "it is tried again"


def test_what_a_person_keeps_is_nobodys_question_any_more() -> None:
    court = Court(lived())
    court.open(step("s1", "make_hold"))
    court.permit("s1")
    key, operation = court.commitment_id("s1"), court.op_id("s1")
    court.cancel()
    court.commit(operation)
    assert court.orphans() == ["LATE_SUCCESS"]
    assert court.override("COMMITMENT", key, "ACTIVE").status == "ACTIVE"
    assert (court.orphans(), court.commitment(key).disposition) == ([], "KEEP")
    assert court.release(key).status == "RELEASE_PENDING"
    assert court.op(court.release_of(key)).status == "VALIDATED", (
        "its owner has spoken, so no approval of that is needed"
    )
