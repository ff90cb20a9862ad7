"""Field cases about acting twice, as far as the law decides them: C02, C03 and C04, each with its honest twin."""

from dataclasses import replace

import pytest

from joingate_schemas.catalogue import Catalogue

from .catalogues import varied
from .driver import Court, step

HOUR_MS = 3_600_000
WINDOW_MS = 600_000


def sent(x: Court, name: str) -> list[str]:
    """What the executor was told to do, withdrawals left out."""
    return [one for one in x.commands(x.op_id(name)) if not one.startswith("WITHDRAW")]


def short_memory() -> Catalogue:
    """A bank that remembers a key for ten minutes."""
    whole = varied()
    bank = replace(whole.downstreams["bank"], key_horizon_ms=WINDOW_MS)
    return replace(whole, downstreams={**whole.downstreams, "bank": bank})


# --- C02: the key is dropped on the way, and the provider can't be asked ---------------------------------------------


def test_c02_a_mail_in_doubt_is_never_sent_again_by_itself_and_goes_to_a_person() -> None:
    x = Court(varied())
    x.open(step("mail", "notify", "ann"))
    x.dispatch("mail")
    x.prepared("mail")
    x.advance(30_000 + 60_000)  # the reply was lost: silence past the permit and the flight
    assert x.op("mail").status == "IN_DOUBT"
    assert x.dispatch("mail").reason == "IN_DOUBT_PENDING"
    assert x.observe("mail", "RESEND").reason == "NOT_FRESH"
    assert x.observe("mail", "NOT_FOUND").status == "IN_DOUBT"
    x.advance(HOUR_MS)
    assert x.op("mail").status == "ESCALATED"
    assert x.questions(x.op_id("mail"))[-1].kind == "HUMAN"
    x.advance(48 * HOUR_MS)
    assert x.op("mail").status == "ESCALATED"
    assert sent(x, "mail") == ["PREPARE 1", "PERMIT 1"]
    assert x.executor_abort("mail", error="timed out").reason == "NO_PROOF"
    assert x.op("mail").generation == 1


def test_c02_control_a_mail_that_was_delivered_settles_and_another_is_not_held_up() -> None:
    x = Court(varied())
    x.open(step("ann", "notify", "ann"), step("bob", "notify", "bob", parallel=True))
    x.dispatch("ann")
    x.prepared("ann")
    x.in_doubt("ann")
    x.perform("bob")
    assert (x.op("ann").status, x.op("bob").status) == ("IN_DOUBT", "SETTLED")
    assert sent(x, "bob") == ["PREPARE 1", "PERMIT 1"]


def test_c02_that_a_downstream_takes_keys_is_believed_only_if_its_reply_shows_it() -> None:
    x = Court(varied())
    x.open(step("s1", "pay"))
    x.dispatch("s1")
    x.prepared("s1")
    assert x.commit("s1", external_id="", evidence=["200 OK"]).reason == "NO_EVIDENCE"
    assert x.op("s1").status == "SUBMITTED"
    assert x.commit("s1", external_id="", idempotency_key=x.op_id("s1")).status == "SETTLED"


# --- C03: one logged call, several physical ones ---------------------------------------------------------------------


def test_c03_each_physical_call_needs_a_permit_and_an_exception_gives_none_back() -> None:
    x = Court(varied())
    x.open(step("s1", "pay"))
    x.dispatch("s1")
    assert x.prepared("s1").reason == "OK"
    for worker in ("w2", "w3"):
        assert x.prepared("s1", worker=worker).reason == "ALREADY_CLAIMED", "the fallback's call has no permit"
    assert x.executor_abort("s1", error="TypeError in the tool").reason == "NO_PROOF"
    assert x.op("s1").status == "IN_DOUBT"
    for again in range(3):
        assert x.dispatch("s1").reason == "IN_DOUBT_PENDING", f"attempt {again} of the framework"
        assert x.prepared("s1").reason == "ALREADY_CLAIMED"
    assert [one for one in sent(x, "s1") if one.startswith("PERMIT")] == ["PERMIT 1"]
    assert x.executor_abort("s1", proof="REFUSED").status == "FAILED", "proof ends it, and only then"
    assert x.dispatch("s1").status == "VALIDATED"
    assert x.op("s1").generation == 2


@pytest.mark.parametrize("phases", ["pay", "notify"])
def test_c03_a_second_effect_that_was_made_all_the_same_is_an_incident_beside_the_one_that_counts(phases: str) -> None:
    x = Court(varied())
    x.open(step("s1", phases))
    x.perform("s1")
    assert x.commit("s1", external_id="ext-2").reason == "STRAY_EFFECT"
    assert x.op("s1").external_id == "ext-1"
    assert x.orphans() == ["STRAY_EFFECT"]


def test_c03_control_an_executor_that_proves_that_it_never_called_is_asked_anew() -> None:
    x = Court(varied())
    x.open(step("s1", "pay"))
    x.dispatch("s1")
    x.prepared("s1")
    assert x.executor_abort("s1", proof="NOT_SENT", error="no connection").status == "FAILED"
    x.perform("s1")
    assert (x.op("s1").generation, x.op("s1").status) == (2, "SETTLED")


# --- C04: the key is outlived by the retry ---------------------------------------------------------------------------


def doubted(catalogue: Catalogue) -> Court:
    """The effect's Commit was lost, and nobody knows."""
    x = Court(catalogue)
    x.open(step("s1", "pay"))
    x.dispatch("s1")
    x.prepared("s1")
    x.in_doubt("s1")
    return x


def test_c04_past_the_window_the_same_key_is_not_sent_again_and_a_look_settles_it() -> None:
    x = doubted(short_memory())
    x.advance(WINDOW_MS)
    assert x.observe("s1", "RESEND").reason == "KEY_WINDOW_PASSED"
    assert x.op("s1").attempt == 1
    assert x.dispatch("s1").reason == "IN_DOUBT_PENDING"
    assert sent(x, "s1") == ["PREPARE 1", "PERMIT 1"]
    assert x.observe("s1", "PRESENT", external_ids=["ext-1"]).status == "SETTLED"


def test_c04_a_resend_that_was_asked_for_in_time_gets_no_permit_once_the_window_would_pass_under_way() -> None:
    x = doubted(short_memory())
    assert x.observe("s1", "RESEND").verdict == "ACCEPTED"
    x.advance(WINDOW_MS - 90_000)  # what is permitted now may land when the key is forgotten
    assert x.prepared("s1").reason == "KEY_WINDOW_PASSED"


def test_c04_our_ledger_keeps_the_key_for_as_long_as_the_intent() -> None:
    x = doubted(short_memory())
    x.observe("s1", "PRESENT", external_ids=["ext-1"])
    key = x.op_id("s1")
    x.advance(400 * 24 * HOUR_MS)
    again = x.dispatch("s1")
    assert (again.verdict, again.subject_id, again.status) == ("REPLAYED", key, "SETTLED")


def test_c04_a_key_that_nobody_here_knows_is_refused_and_not_taken_for_new() -> None:
    x = doubted(varied())
    said = x.commit("an-operation-of-long-ago", external_id="ext-9")
    assert said.reason == "NOT_DISPATCHED"
    assert x.orphans() == ["SUSPECTED_EFFECT"]


def test_c04_control_within_the_window_the_same_key_goes_out_once_more() -> None:
    x = doubted(short_memory())
    assert x.observe("s1", "RESEND").verdict == "ACCEPTED"
    assert x.prepared("s1").reason == "OK"
    assert x.commit("s1").status == "SETTLED"
    assert [one for one in sent(x, "s1") if one.startswith("PERMIT")] == ["PERMIT 1", "PERMIT 2"]
