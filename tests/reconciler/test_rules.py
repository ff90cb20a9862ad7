"""The rules of reconciliation, without Kafka: what is asked next, and what an answer lets the reconciler say."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from joingate_processors.reconciler import rules
from joingate_processors.reconciler.answers import (
    Answer,
    AtWork,
    Exists,
    Found,
    Gone,
    NotFound,
    PartlyThere,
    Refused,
    ResendDue,
    Statement,
    Unreachable,
)
from joingate_processors.reconciler.rules import Policy, Row
from joingate_schemas.claims import Observe
from joingate_schemas.decisions import InDoubtRequest

POLICY = Policy(backoff_ms_first=1_000, backoff_ms_max=8_000, settle_ms=30_000, clock_margin_ms=0)
SINCE, ASKABLE = 1_000_000, 1_010_000
Make = Callable[..., InDoubtRequest]


def row_of(request: InDoubtRequest) -> Row:
    row = rules.opened(request, 0, SINCE, POLICY)
    assert row is not None
    return row


def play(row: Row, *answers: tuple[int, Answer]) -> tuple[Row, list[Observe]]:
    """The row and the claims after these answers, each to a question put at the given moment."""
    claims = []
    for asked_at, answer in answers:
        step = rules.answered(row, answer, asked_at, POLICY)
        assert step.row is not None
        row = step.row
        if step.claim is not None:
            claims.append(step.claim)
    return row, claims


@pytest.mark.parametrize(
    ("capabilities", "details", "way"),
    [
        (["IDEMPOTENT_KEY", "LOOKUP"], {}, "RESEND"),
        (["LOOKUP", "IDEMPOTENT_KEY"], {}, "LOOK_UP"),
        (["IDEMPOTENT_KEY", "LOOKUP"], {"fresh": False}, "LOOK_UP"),
        (["IDEMPOTENT_KEY", "LOOKUP"], {"key_until": SINCE}, "LOOK_UP"),
        (["IDEMPOTENT_KEY", "STATEMENT"], {"key_until": SINCE}, "STATEMENT"),
        (["IDEMPOTENT_KEY"], {"key_until": SINCE + 1}, "RESEND"),
        (["IDEMPOTENT_KEY"], {"key_until": SINCE}, None),
        (["IDEMPOTENT_KEY"], {"fresh": False}, None),
        (["IDEMPOTENT_KEY", "LOOKUP"], {"attempt": 4}, "RESEND"),
        (["IDEMPOTENT_KEY", "LOOKUP"], {"attempt": 5}, "LOOK_UP"),
        (["IDEMPOTENT_KEY"], {"attempt": 5}, "RESEND"),
        (["STATEMENT"], {}, "STATEMENT"),
        (["NONE"], {}, None),
        (["SOMETHING_NEW", "LOOKUP"], {}, "LOOK_UP"),
        (["LOOKUP"], {"kind": "VERIFY_COMMITMENT"}, "RESOURCE"),
        (["IDEMPOTENT_KEY", "LOOKUP"], {"kind": "VERIFY_RELEASE"}, "RESOURCE"),
        (["NONE"], {"kind": "VERIFY_RELEASE"}, None),
    ],
)
def test_the_first_capability_that_applies_says_what_is_done(
    make_request: Make, capabilities: list[str], details: dict[str, Any], way: str | None
) -> None:
    """Order of preference is the downstream's; a key past its horizon or a stale plan rules the resend out."""
    move = rules.move(row_of(make_request(capabilities=capabilities, **details)), SINCE, POLICY)
    assert (None if move is None else move.way) == way


def test_no_look_is_taken_before_the_longest_in_flight_time_has_passed(make_request: Make) -> None:
    """Before that moment whatever was sent may still arrive, so a look would prove nothing."""
    move = rules.move(row_of(make_request()), SINCE, dataclasses.replace(POLICY, clock_margin_ms=250))
    assert move == rules.Move("LOOK_UP", ASKABLE + 250)


@pytest.mark.parametrize("kind", ["RESOLVED", "HUMAN"])
def test_what_is_resolved_or_a_persons_is_forgotten(make_request: Make, kind: str) -> None:
    assert rules.opened(make_request(kind=kind), 0, SINCE, POLICY) is None


def test_one_match_is_adopted_with_its_external_id(make_request: Make) -> None:
    _, claims = play(
        row_of(make_request()),
        (ASKABLE, Found(external_ids=("bank-7",), key="op-1", source_version=70, evidence=("e",))),
    )
    (claim,) = claims
    assert (claim.finding, claim.external_ids, claim.source, claim.source_version) == (
        "PRESENT",
        ["bank-7"],
        "bank",
        70,
    )
    assert (claim.subject_kind, claim.subject_id, claim.intent_id) == ("OPERATION", "op-1", "acme/fee/1")
    assert (claim.idempotency_key, claim.evidence, claim.proof) == ("op-1", ["e"], None)


def test_among_several_matches_none_is_picked(make_request: Make) -> None:
    _, claims = play(row_of(make_request()), (ASKABLE, Found(external_ids=("bank-7", "bank-9"))))
    assert [(claim.finding, claim.external_ids) for claim in claims] == [("SEVERAL", ["bank-7", "bank-9"])]


def test_a_definitive_refusal_proves_absence(make_request: Make) -> None:
    _, claims = play(row_of(make_request()), (ASKABLE, Refused(source_version=3)))
    assert [(claim.finding, claim.proof) for claim in claims] == [("ABSENT", "REFUSED")]


@pytest.mark.parametrize(
    ("looks", "proven"),
    [
        ([(ASKABLE, 5)], False),
        ([(ASKABLE - 1, 5), (ASKABLE + 5_000, 5)], False),  # the first came before it could count
        ([(ASKABLE, 5), (ASKABLE + 999, 5)], False),  # less than a back-off apart
        ([(ASKABLE, 5), (ASKABLE + 1_000, 4)], False),  # the second saw an older state
        ([(ASKABLE, 5), (ASKABLE + 1_000, 4), (ASKABLE + 3_000, 5)], True),
        ([(ASKABLE, 5), (ASKABLE + 1_000, 5)], True),
        ([(ASKABLE, None), (ASKABLE + 1_000, None)], True),  # the source has no versions to compare
    ],
)
def test_not_found_proves_absence_only_at_a_second_look(
    make_request: Make, looks: list[tuple[int, int | None]], proven: bool
) -> None:
    _, claims = play(row_of(make_request()), *((at, NotFound(source_version=version)) for at, version in looks))
    assert [(claim.finding, claim.proof) for claim in claims] == ([("ABSENT", "SECOND_LOOK")] if proven else [])


def test_an_effect_that_shows_up_at_the_second_look_is_present(make_request: Make) -> None:
    """Control: a late arrival is adopted, and the first miss is not held against it."""
    row, claims = play(
        row_of(make_request()), (ASKABLE, NotFound(source_version=1)), (ASKABLE + 1_000, Found(external_ids=("b",)))
    )
    assert [claim.finding for claim in claims] == ["PRESENT"]
    assert row.missed is None


def test_an_unreachable_source_lets_nothing_be_concluded_however_long(make_request: Make) -> None:
    away = [(ASKABLE + n * 60_000, Unreachable(detail="down")) for n in range(30)]
    row, claims = play(row_of(make_request()), *away)
    assert claims == []
    assert row.missed is None


def test_an_unreachable_source_between_two_looks_is_neither_a_look_nor_a_reset(make_request: Make) -> None:
    _, claims = play(
        row_of(make_request()),
        (ASKABLE, NotFound(source_version=1)),
        (ASKABLE + 1_000, Unreachable(detail="down")),
        (ASKABLE + 3_000, NotFound(source_version=1)),
    )
    assert [(claim.finding, claim.proof) for claim in claims] == [("ABSENT", "SECOND_LOOK")]


def test_the_questions_come_further_and_further_apart_up_to_a_limit(make_request: Make) -> None:
    row, waits = row_of(make_request()), []
    for _ in range(6):
        row, _ = play(row, (2_000_000, Unreachable(detail="down")))
        waits.append(row.not_before - 2_000_000)
    assert waits == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]


def test_a_source_at_work_is_told_of_once_and_ends_an_earlier_miss(make_request: Make) -> None:
    row, claims = play(
        row_of(make_request()),
        (ASKABLE, NotFound(source_version=1)),
        (ASKABLE + 1_000, AtWork(source_version=2)),
        (ASKABLE + 3_000, AtWork(source_version=3)),
    )
    assert [claim.finding for claim in claims] == ["PENDING"]
    assert row.missed is None


def test_a_clear_answer_is_asked_for_again_if_the_gate_does_not_settle_it(make_request: Make) -> None:
    """The gate may have had to refuse the claim; then the question must not be lost, and the repeat has its own id."""
    row, claims = play(row_of(make_request()), (ASKABLE, Found(external_ids=("b",))))
    move = rules.move(row, ASKABLE, POLICY)
    assert move == rules.Move("LOOK_UP", ASKABLE + 30_000)
    _, more = play(row, (move.at, Found(external_ids=("b",))))
    assert more[0].finding == "PRESENT"
    assert more[0].claim_id != claims[0].claim_id


def test_a_clear_answer_is_not_repeated_for_ever(make_request: Make) -> None:
    """Each repeat is a ledger record: when nothing comes of several, it is the gate's deadline that counts."""
    row: Row | None = row_of(make_request())
    said = []
    while row is not None:
        move = rules.move(row, ASKABLE, POLICY)
        assert move is not None
        step = rules.answered(row, Found(external_ids=("b",)), move.at, POLICY)
        said.append(step.claim)
        row = step.row
    assert len(said) == POLICY.tellings_max
    assert None not in said


def test_a_resend_is_asked_of_the_gate_with_the_same_key(make_request: Make) -> None:
    row = row_of(make_request(capabilities=["IDEMPOTENT_KEY", "LOOKUP"]))
    row, claims = play(row, (SINCE, ResendDue()))
    assert [(claim.finding, claim.idempotency_key, claim.source) for claim in claims] == [
        ("RESEND", "op-1", "reconciler")
    ]
    # The gate had no use for it: the next capability has its turn.
    assert rules.move(row, SINCE, POLICY) == rules.Move("LOOK_UP", SINCE + 30_000)


def test_each_further_resend_waits_longer(make_request: Make) -> None:
    """A downstream that fails every attempt must not be hammered by the loop of gate, executor and reconciler."""
    waits = []
    now = SINCE + 600_000  # the doubt is old by the time that the later attempts come to nothing
    for attempt in (1, 2, 3, 9):
        row = rules.opened(make_request(capabilities=["IDEMPOTENT_KEY"], attempt=attempt), 0, now, POLICY)
        assert row is not None
        move = rules.move(row, now, POLICY)
        assert move is not None
        waits.append(max(move.at, now) - now)
    assert waits == [0, 1_000, 2_000, 8_000]


def test_where_no_resend_is_left_the_next_capability_waits_for_no_back_off(make_request: Make) -> None:
    request = make_request(capabilities=["IDEMPOTENT_KEY", "LOOKUP"], attempt=7, fresh=False, askable_from=0)
    assert rules.move(row_of(request), SINCE, POLICY) == rules.Move("LOOK_UP", SINCE)


@pytest.mark.parametrize(
    ("closed", "ids", "said"),
    [
        (False, (), []),
        (False, ("b-1",), []),
        (True, (), [("ABSENT", "STATEMENT", [])]),
        (True, ("b-1",), [("PRESENT", None, ["b-1"])]),
        (True, ("b-1", "b-2"), [("SEVERAL", None, ["b-1", "b-2"])]),
    ],
)
def test_only_the_statement_of_a_closed_period_proves_anything(
    make_request: Make, closed: bool, ids: tuple[str, ...], said: list[tuple[str, str | None, list[str]]]
) -> None:
    row = row_of(make_request(capabilities=["STATEMENT"]))
    _, claims = play(row, (ASKABLE, Statement(closed=closed, external_ids=ids)))
    assert [(claim.finding, claim.proof, claim.external_ids) for claim in claims] == said


@pytest.mark.parametrize(
    ("kind", "answers", "said"),
    [
        ("VERIFY_COMMITMENT", [Exists(source_version=4)], ["PRESENT"]),
        ("VERIFY_COMMITMENT", [Gone(source_version=4)], []),
        ("VERIFY_COMMITMENT", [Gone(source_version=4), Gone(source_version=5)], ["ABSENT"]),
        ("VERIFY_COMMITMENT", [PartlyThere(), PartlyThere()], ["NOT_FOUND"]),
        ("VERIFY_RELEASE", [Gone(source_version=4)], ["ABSENT"]),
        ("VERIFY_RELEASE", [Exists(), Exists(), Gone()], ["PRESENT", "ABSENT"]),
        ("VERIFY_RELEASE", [PartlyThere(), Gone()], ["PRESENT", "ABSENT"]),
        ("VERIFY_RELEASE", [Unreachable(detail="down")], []),
    ],
)
def test_a_commitment_is_verified_by_looking_at_its_resource(
    make_request: Make, kind: str, answers: list[Answer], said: list[str]
) -> None:
    """What answers the question is said; what does not is said once; that a commitment vanished needs two looks."""
    row = row_of(make_request(kind=kind, subject_kind="COMMITMENT", subject_id="c-1", askable_from=0))
    _, claims = play(row, *((ASKABLE + n * 10_000, answer) for n, answer in enumerate(answers)))
    assert [claim.finding for claim in claims] == said
    assert all(claim.subject_kind == "COMMITMENT" and claim.subject_id == "c-1" for claim in claims)


def test_while_a_release_is_open_it_takes_two_looks_to_see_that_its_commitment_is_gone(make_request: Make) -> None:
    """One look proves nothing while what was sent may land; the gate refuses it (NO_PROOF)."""
    row = row_of(make_request(kind="VERIFY_RELEASE", subject_kind="COMMITMENT", subject_id="c-1"))
    _, claims = play(row, *((ASKABLE + n * 10_000, Gone(source_version=n)) for n in range(2)))
    assert [(claim.finding, claim.proof) for claim in claims] == [("ABSENT", "SECOND_LOOK")]


def test_the_same_answer_makes_the_same_claim_again(make_request: Make) -> None:
    """C19: after a crash between sending and recording, what goes out is byte for byte what went out before."""
    row, answer = row_of(make_request()), Found(external_ids=("b",), source_version=1)
    first, second = (rules.answered(row, answer, ASKABLE, POLICY).claim for _ in range(2))
    assert first == second


def test_a_new_request_about_the_same_attempt_has_claim_ids_of_its_own(make_request: Make) -> None:
    """One attempt can come into doubt twice; the gate would take a repeated id for the old claim."""
    ids = {rules.claim_id(make_request(ledger_seq=seq), ask) for seq in (1, 2) for ask in (1, 2)}
    assert len(ids) == 4


def test_a_downstream_is_asked_at_the_pace_that_the_catalogue_declares(make_request: Make) -> None:
    """Its `lookup_backoff` is the first pause, and the least between the two looks that prove absence."""
    request = make_request(capabilities=["LOOKUP"])
    for pace, wait in (({}, 1_000), ({request.downstream: 4_000}, 4_000), ({"another": 4_000}, 1_000)):
        policy = Policy(backoff_ms_first=1_000, backoffs_ms=pace, clock_margin_ms=0)
        row, waits = row_of(request), []
        for _ in range(2):
            step = rules.answered(row, Unreachable(detail="away"), ASKABLE, policy)
            assert step.row is not None
            row = step.row
            waits.append(row.not_before - ASKABLE)
        assert waits == [wait, 2 * wait]
