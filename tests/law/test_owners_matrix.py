"""Every state of a commitment against every claim about who owns or serves it: what is decided, and where it stands."""

from collections.abc import Callable
from typing import get_args

import pytest

from joingate_processors.law.evolve_owners import put_commitment
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import CommitmentStatus
from joingate_schemas.record import changed

from .catalogues import varied
from .driver import INTENT, Court, step
from .invariants import snapshot


def _put(court: Court, status: CommitmentStatus) -> None:
    """The commitment as rules that are not asked here would leave it."""
    timer = "CONDITION" if status == "PENDING_CONDITION" else "ESCALATION"
    row = changed(court.commitment("s1"), status=status, timer=timer, deadline_at=court.now + 1_000)
    put_commitment(court.state, court.commitment("s1"), row)


def _in_question(court: Court) -> None:
    court.perform("s1")
    court.transfer("s1")
    court.observe_commitment("s1", "PENDING", owner_id="team:ops")
    court.advance(3_600_000)


def _transferred(court: Court) -> None:
    court.perform("s1")
    court.transfer("s1", "desk:9")
    court.accept("s1", "desk:9", evidence=["receipt:1"])


STATES: dict[str, tuple[str, Callable[[Court], object]]] = {
    "PROPOSED": ("book", lambda x: x.dispatch("s1")),
    "PENDING_CONDITION": ("book", lambda x: (x.dispatch("s1"), _put(x, "PENDING_CONDITION"))),
    "UNKNOWN": ("book", lambda x: (x.permit("s1"), x.in_doubt("s1"))),
    "ACTIVE": ("book", lambda x: x.perform("s1")),
    "BREACHED": ("book", lambda x: (x.perform("s1"), _put(x, "BREACHED"))),
    "RELEASE_PENDING": ("book", lambda x: (x.perform("s1"), x.release("s1"))),
    "TRANSFER_PENDING": ("book", lambda x: (x.perform("s1"), x.transfer("s1"))),
    "RECONCILIATION_REQUIRED": (
        "book", lambda x: (x.perform("s1"), x.reconcile("COMMITMENT", x.commitment_id("s1"))),
    ),
    "in question": ("book", _in_question),
    "SATISFIED": ("book", lambda x: (x.perform("s1"), x.satisfied("s1"))),
    "RELEASED": ("book", lambda x: (x.perform("s1"), x.release("s1"), x.perform_release("s1"))),
    "TRANSFERRED": ("open_incident", _transferred),
}  # fmt: skip
"""Each state, with the action that makes such a commitment, and how it comes there. In question is a transfer whose
target may have acted: it shows as RECONCILIATION_REQUIRED."""

ILLEGAL = ("REJECTED", "ILLEGAL_TRANSITION")
SO = ("REPLAYED", "ALREADY_SO")
OK = ("ACCEPTED", "OK")
FORBIDDEN = ("REJECTED", "POLICY_FORBIDS")
WAITS = ("REJECTED", "IN_TRANSFER")
Outcome = tuple[str, str]

CLAIMS: dict[str, tuple[Callable[[Court], Decision], dict[str, Outcome], Outcome]] = {
    "Transfer to team:ops": (
        lambda x: x.transfer("s1", fencing_token=x.token("s1")),
        {"ACTIVE": OK, "BREACHED": OK, "TRANSFER_PENDING": SO, "in question": SO}, ILLEGAL,
    ),
    "Transfer to its owner": (
        lambda x: x.transfer("s1", f"intent:{INTENT}", fencing_token=x.token("s1")),
        {"TRANSFER_PENDING": OK, "in question": WAITS, "TRANSFERRED": ILLEGAL}, SO,
    ),
    "AcceptTransfer": (lambda x: x.accept("s1"), {"TRANSFER_PENDING": OK, "in question": OK}, ILLEGAL),
    "AssignOwner while its owner is valid": (
        lambda x: x.assign("s1"),
        {"TRANSFER_PENDING": OK, "in question": OK, "SATISFIED": ILLEGAL, "RELEASED": ILLEGAL, "TRANSFERRED": ILLEGAL},
        FORBIDDEN,
    ),
    "AssignOwner, taking over": (
        lambda x: x.assign("s1", policy="takeover"),
        {"SATISFIED": ILLEGAL, "RELEASED": ILLEGAL, "TRANSFERRED": ILLEGAL}, OK,
    ),
    "AssignOwner to its owner": (
        lambda x: (x.retire(), x.assign("s1", f"intent:{INTENT}"))[1],
        {"TRANSFER_PENDING": WAITS, "in question": ("REJECTED", "OWNER_RETIRED"), "TRANSFERRED": ILLEGAL}, SO,
    ),
    "a lease": (
        lambda x: x.lease("s1"),
        {"TRANSFER_PENDING": WAITS, "in question": WAITS, "SATISFIED": ILLEGAL, "RELEASED": ILLEGAL,
         "TRANSFERRED": ILLEGAL}, OK,
    ),
    "Observe that the target acts": (
        lambda x: x.observe_commitment("s1", "PRESENT", owner_id="team:ops"), {}, OK,
    ),
    "Release": (
        lambda x: x.release("s1", fencing_token=x.token("s1")),
        {"TRANSFER_PENDING": WAITS, "in question": WAITS, "RELEASE_PENDING": SO, "RELEASED": SO, "SATISFIED": ILLEGAL,
         "TRANSFERRED": ILLEGAL}, OK,
    ),
    "Release by who lost it": (
        lambda x: x.release("s1", fencing_token=9),
        {"TRANSFER_PENDING": WAITS, "in question": WAITS, "RELEASE_PENDING": SO, "RELEASED": SO, "SATISFIED": ILLEGAL,
         "TRANSFERRED": ILLEGAL}, ("REJECTED", "STALE_FENCE"),
    ),
    "RetireOwner": (lambda x: x.retire(), {}, OK),
}  # fmt: skip
"""Each claim: what it gets in the states that are named, and what in all others."""

AFTER: dict[tuple[str, str], str] = {
    ("Transfer to team:ops", "ACTIVE"): "TRANSFER_PENDING",
    ("Transfer to team:ops", "BREACHED"): "TRANSFER_PENDING",
    ("Transfer to its owner", "TRANSFER_PENDING"): "ACTIVE",
    ("AcceptTransfer", "TRANSFER_PENDING"): "ACTIVE",
    ("AcceptTransfer", "in question"): "ACTIVE",
    ("AssignOwner while its owner is valid", "TRANSFER_PENDING"): "ACTIVE",
    ("AssignOwner while its owner is valid", "in question"): "ACTIVE",
    ("AssignOwner, taking over", "TRANSFER_PENDING"): "ACTIVE",
    ("AssignOwner, taking over", "in question"): "ACTIVE",
    ("Observe that the target acts", "TRANSFER_PENDING"): "ACTIVE",
    ("Observe that the target acts", "in question"): "ACTIVE",
    ("Observe that the target acts", "RECONCILIATION_REQUIRED"): "ACTIVE",
    ("Release", "PROPOSED"): "RELEASED",
    ("Release", "PENDING_CONDITION"): "RELEASED",
    ("Release", "UNKNOWN"): "RELEASE_PENDING",
    ("Release", "ACTIVE"): "RELEASE_PENDING",
    ("Release", "BREACHED"): "RELEASE_PENDING",
    ("Release", "RECONCILIATION_REQUIRED"): "RELEASE_PENDING",
}
"""Where the commitment stands after an accepted claim; it stays where it was in every pair that is not named."""
SHOWN = {"in question": "RECONCILIATION_REQUIRED"}


def _court(state: str) -> Court:
    action, given = STATES[state]
    court = Court(varied())
    court.open(step("s1", action))
    given(court)
    assert court.commitment("s1").status == SHOWN.get(state, state)
    return court


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_about_an_owner_is_decided_by_the_state(state: str, claim: str) -> None:
    court = _court(state)
    say, named, others = CLAIMS[claim]
    decision = say(court)
    assert (decision.verdict, decision.reason) == named.get(state, others), decision.detail
    before = SHOWN.get(state, state)
    after = AFTER.get((claim, state), before) if decision.verdict == "ACCEPTED" else before
    assert court.commitment("s1").status == after
    if state not in ("PENDING_CONDITION", "BREACHED"):  # those were put there, and the ledger does not know of it
        assert snapshot(court.replayed()) == snapshot(court.state)


def test_the_matrix_has_every_state() -> None:
    assert {SHOWN.get(state, state) for state in STATES} == set(get_args(CommitmentStatus))
    assert all((claim in CLAIMS and state in STATES) for claim, state in AFTER)
