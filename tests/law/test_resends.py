"""Sending again out of doubt: under the same key, with a permit of its own; in vain, it is asked about anew."""

import pytest

from joingate_schemas import claims as c

from .catalogues import raised, varied, without_keys
from .driver import Court, step
from .scenes import doubted, paying, resent

DAY_MS = 86_400_000


@pytest.fixture
def court() -> Court:
    return Court(varied())


def test_a_resend_is_a_new_attempt_under_the_same_key_and_ends_no_doubt(court: Court) -> None:
    resent(court)
    key = court.op_id("s1")
    assert (court.op("s1").status, court.op("s1").attempt) == ("IN_DOUBT", 2)
    assert court.prepared("s1").status == "IN_DOUBT"
    assert court.commands(key) == ["PREPARE 1", "PERMIT 1", "PREPARE 2", "PERMIT 2"]
    assert court.commit("s1").status == "SETTLED"


def test_the_twin_of_a_resent_attempt_is_the_same_effect_and_another_id_a_stray_one(court: Court) -> None:
    resent(court)
    court.prepared("s1")
    court.commit("s1", attempt=1)
    assert court.commit("s1", attempt=2).verdict == "REPLAYED"
    assert court.commit("s1", attempt=2, external_id="ext-2").reason == "STRAY_EFFECT"


def test_the_reconciler_is_told_whether_a_resend_could_be_permitted(court: Court) -> None:
    doubted(court)
    first = court.questions(court.op_id("s1"))[-1]
    assert (first.fresh, first.key_until) == (True, court.op("s1").first_permit_at + DAY_MS)  # type: ignore[operator]
    court.cancel()
    court.advance(3_600_000)
    assert not court.questions(court.op_id("s1"))[-1].fresh


@pytest.mark.parametrize("lost", ["plan", "key"])
@pytest.mark.parametrize("asked", ["RESEND", "Prepared"])
def test_a_resend_in_vain_brings_the_question_again_and_says_that_none_is_left(
    court: Court, asked: str, lost: str
) -> None:
    (resent if asked == "Prepared" else doubted)(court)
    key = court.op_id("s1")
    before = court.questions(key)
    if lost == "plan":
        court.cancel()
    else:
        court.now = court.op("s1").first_permit_at + DAY_MS - 1  # type: ignore[operator]
    refused = court.prepared("s1") if asked == "Prepared" else court.observe("s1", "RESEND")
    assert (refused.verdict, refused.facts) == ("REJECTED", [])
    question = court.questions(key)[-1]
    assert len(court.questions(key)) == len(before) + 1
    assert (question.kind, question.fresh, question.ledger_seq) == ("RESOLVE_OPERATION", False, refused.seq)
    assert (question.since, question.key_until) == (before[0].since, before[0].key_until)
    court.prepared("s1", worker="w9", attempt=9)
    court.observe("s1", "RESEND", claim_id=refused.claim_id)
    assert len(court.questions(key)) == len(before) + 1, "no other refusal asks, and none asks twice"


def test_what_was_sent_again_to_no_avail_is_asked_about_anew_by_the_same_deadline(court: Court) -> None:
    resent(court)
    court.prepared("s1")
    key, before = court.op_id("s1"), court.op("s1")
    court.now += 1_000
    assert court.in_doubt("s1", cause="timeout again").verdict == "ACCEPTED"
    first, second = court.questions(key)
    assert (second.kind, second.attempt, second.cause, second.fresh) == (
        "RESOLVE_OPERATION", 2, "timeout again", True,
    )  # fmt: skip
    assert (second.since, second.deadline_at) == (first.since, before.deadline_at)
    assert (court.op("s1").in_doubt_since, court.op("s1").deadline_at) == (before.in_doubt_since, before.deadline_at)
    court.in_doubt("s1")
    assert len(court.questions(key)) == 2, "said twice, it is one doubt"
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert court.op("s1").attempt == 3


def test_a_second_doubt_does_not_make_not_sent_a_proof_over_an_effect_without_a_permit(court: Court) -> None:
    """Attempt 1 acted without a permit while attempt 2 had one: what attempt 2 did not do says nothing of it."""
    court.open(step("s1", "pay"))
    court.dispatch("s1")
    court.advance(30_000)
    court.prepared("s1")
    assert court.commit("s1", attempt=1).reason == "NO_PERMIT"
    assert court.in_doubt("s1").verdict == "REPLAYED"
    assert court.executor_abort("s1", proof="NOT_SENT").reason == "NO_PROOF"


def test_a_downstream_that_never_forgets_a_key_takes_a_resend_at_any_time(court: Court) -> None:
    court.open(step("s1", "write_file"))
    court.dispatch("s1")
    court.in_doubt("s1")
    court.now += 400 * DAY_MS
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert court.commands(court.op_id("s1")) == ["EXECUTE 1", "EXECUTE 2"]


@pytest.mark.parametrize("keyed_at_first", [True, False])
def test_keys_that_the_bank_learnt_or_lost_since_the_first_send_carry_no_resend(keyed_at_first: bool) -> None:
    before, after = (varied(), without_keys()) if keyed_at_first else (without_keys(), varied())
    court = Court(before)
    court.load()
    paying(court)
    court.in_doubt("s1")
    court.catalogue = after
    court.say(c.CatalogueChanged(claim_id="again", intent_id="", digest=after.digest, version="2",
                                 catalogue=after.source))  # fmt: skip
    refused = court.observe("s1", "RESEND")
    assert (refused.verdict, refused.reason) == ("REJECTED", "NOT_FRESH")
    assert court.op("s1").attempt == 1


def test_a_catalogue_that_changes_nothing_about_the_bank_leaves_the_resend_allowed() -> None:
    court = Court(varied())
    court.load()
    paying(court)
    court.in_doubt("s1")
    court.catalogue = after = raised("window")
    court.say(c.CatalogueChanged(claim_id="again", intent_id="", digest=after.digest, version="2",
                                 catalogue=after.source))  # fmt: skip
    assert court.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert court.op("s1").attempt == 2


@pytest.mark.parametrize("keyed_at_first", [True, False])
def test_a_tombstone_proves_nothing_of_what_was_sent_to_a_bank_without_keys(keyed_at_first: bool) -> None:
    before = varied() if keyed_at_first else without_keys()
    court = Court(before)
    court.load()
    paying(court)
    court.in_doubt("s1")
    court.catalogue = after = raised("window")
    court.say(c.CatalogueChanged(claim_id="again", intent_id="", digest=after.digest, version="2",
                                 catalogue=after.source))  # fmt: skip
    court.advance(600_000)
    court.observe("s1", "ABSENT", proof="TOMBSTONE")
    assert court.op("s1").status == ("FAILED" if keyed_at_first else "IN_DOUBT")
