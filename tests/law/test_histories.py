"""Random histories keep every invariant: of the state on the way, of the ledger at the end, and over every restart."""

from collections import Counter
from dataclasses import replace

import pytest

from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue, Limit

from .catalogues import raised, sealed, varied, without_action, without_keys, without_type
from .draws_catalogue import quantified
from .histories import History
from .limited_catalogue import DAY_MS, priced
from .table_archive import keeping

SEEDS = range(3)
SEEDS_SLOW = range(1_000, 2_000)
CLAIMS = 1_000
# What a rollout may bring: an action or a type that open work needs is gone, a type has a second version, or the bank
# does not know keys any more.
ROLLOUTS = (
    varied(), without_action("release_window"), without_action("pay"), without_keys(), raised("window"),
    without_type("seat"),
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_of_a_thousand_claims_keeps_every_invariant(seed: int) -> None:
    """All types, all roles, timers, restarts, junk and repeats; and it is no history of refusals."""
    history = History(seed, varied(), ROLLOUTS)
    history.run(CLAIMS)
    decisions = history.simulator.decisions
    assert history.said >= CLAIMS
    assert {one.claim_type for one in decisions} >= set(c.CLAIM_TYPES) - {"ClaimHeld"}
    assert sum(one.verdict == "ACCEPTED" for one in decisions) > CLAIMS / 3
    audit = history.decided_again()
    assert audit.holds, "\n".join(audit.lines())
    assert "BROKEN" not in {one.verdict for one in audit.seven}
    assert {row.status for _, row in history.simulator.state.rows("commitments")} >= {"RELEASED"}  # type: ignore[attr-defined]


def test_a_seed_tells_the_same_history_again() -> None:
    first, second = History(7, varied(), ROLLOUTS), History(7, varied(), ROLLOUTS)
    first.run(150)
    second.run(150)
    assert first.simulator.ledger == second.simulator.ledger


def _tight() -> Catalogue:
    return priced(Limit("each", "INTENT", debt=6.0, age_ms=DAY_MS), Limit("who", "PRINCIPAL", debt=20.0, reviews=4),
                  Limit("all", "TENANT", doubts=6))  # fmt: skip


def test_histories_under_tight_limits_keep_every_invariant_and_reach_the_limits() -> None:
    reasons: set[str] = set()
    for seed in SEEDS:
        history = History(seed, _tight())
        history.run(CLAIMS)
        reasons |= {one.reason for one in history.simulator.decisions}
        audit = history.decided_again()
        assert audit.holds, "\n".join(audit.lines())
    assert reasons >= {"COMMITMENT_DEBT", "BUDGET_SPENT", "OBJECTIVE_ALREADY_SATISFIED"}


SHORT_MS = 2_000_000


def test_histories_in_which_what_has_ended_is_archived_keep_every_invariant() -> None:
    """Under a short retention, which a rollout may lift or change; and much of what is said comes too late."""
    reasons: Counter[str] = Counter()
    rollouts = (keeping(retention_ms=SHORT_MS), keeping(retention_ms=1), varied(), keeping(without_type("seat")))
    for seed in SEEDS:
        history = History(seed, keeping(retention_ms=SHORT_MS), rollouts if seed % 2 else (), sense=0.8, ends=0.1)
        history.run(CLAIMS)
        reasons += Counter(one.reason for one in history.simulator.decisions)
        reasons += Counter(type(fact).__name__ for one in history.simulator.decisions for fact in one.facts)
        audit = history.decided_again()
        assert audit.holds, "\n".join(audit.lines())
    assert reasons["IntentArchived"] >= 3
    assert reasons["INTENT_ARCHIVED"] >= 5


def _regraded() -> Catalogue:
    """The catalogue of quantities with a second version of a type: what is open may be moved to it."""
    whole = quantified()
    second = replace(whole.obligations["gpus"], version=2, satisfied_evidence=("ticket",))
    return sealed(replace(whole, obligations={**whole.obligations, "gpus": second}))


def test_histories_that_take_of_what_commitments_hold_keep_every_invariant() -> None:
    """Never more than is there, through restarts, moves to another version and whatever a person decides."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        history = History(seed, quantified(), (_regraded(), quantified()), sense=0.85)
        history.run(CLAIMS)
        seen += Counter(one.reason for one in history.simulator.decisions)
        seen += Counter(type(fact).__name__ for one in history.simulator.decisions for fact in one.facts)
        audit = history.decided_again()
        assert audit.holds, "\n".join(audit.lines())
    assert seen["CommitmentDrawn"]
    assert seen["EXCEEDS_COMMITMENT"]


@pytest.mark.slow
@pytest.mark.parametrize("start", SEEDS_SLOW[::50])
def test_a_thousand_histories_keep_every_invariant(start: int) -> None:
    for seed in range(start, start + 50):
        try:
            History(seed, varied(), ROLLOUTS if seed % 2 else ()).run(CLAIMS)
            if not seed % 10:
                History(seed, _tight()).run(CLAIMS)
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
