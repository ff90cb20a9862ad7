"""Properties over orders: whatever comes when, what must not be is refused, and nothing else decides but the order."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from joingate_processors.forensics.checker import check
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.forensics.snapshot import Json, fact_object, state_object
from joingate_schemas import claims as c
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.decisions import Decision

from .stories import INTENT, OPERATIONS, Said, close, commit, dispatch, honest

SHUFFLES = settings(max_examples=60, deadline=None)
# The honest claims, with a planner's own Commits, early closes and repeats among them.
CLAIMS: list[Said] = [
    *honest(),
    commit(OPERATIONS["tell"], "PLANNER", "fabricated"),
    close("early"),
    dispatch("tell", "again"),
    commit(OPERATIONS["close"], "PLANNER", "fabricated too"),
    dispatch("tell"),
]
ORDERS = st.permutations(range(len(CLAIMS)))


def played(order: list[int], batch: int = 1, restarts: frozenset[int] = frozenset(), move_ms: int = 0) -> Simulator:
    sim = Simulator(builtin_catalogue(), batch=batch)
    for place, number in enumerate(order):
        sim.submit(*CLAIMS[number])
        if move_ms:
            sim.advance(move_ms)
        if place in restarts:
            sim.restart()
    return sim


def verdicts(sim: Simulator) -> list[tuple[str, str, str, list[Json]]]:
    return [(d.claim_id, d.verdict, d.reason, [fact_object(fact) for fact in d.facts]) for d in sim.decisions]


def accepted(sim: Simulator, claim_type: type[c.Claim]) -> list[Decision]:
    return [d for d in sim.decisions if d.claim_type == claim_type.__name__ and d.verdict == "ACCEPTED"]


def positions(sim: Simulator, claim_type: type[c.Claim], field: str) -> dict[str, int]:
    """Where claims of a type were accepted, by the field that says what they are about."""
    return {getattr(sim.codec.decode(d.claim), field): d.seq for d in accepted(sim, claim_type)}


@SHUFFLES
@given(ORDERS)
def test_nothing_counts_out_of_order(order: list[int]) -> None:
    """In every order: a Commit counts only after its Dispatch, a success only after its Commit, a close after all."""
    sim = played(order)
    dispatched, succeeded = positions(sim, c.Dispatch, "step_id"), positions(sim, c.Succeed, "step_id")
    committed = positions(sim, c.Commit, "operation_id")
    for step_id, operation in OPERATIONS.items():
        if operation in committed:
            assert dispatched[step_id] < committed[operation]
        if step_id in succeeded:
            assert committed[operation] < succeeded[step_id]
    for decision in accepted(sim, c.Close):
        assert all(succeeded.get(step_id, decision.seq) < decision.seq for step_id in OPERATIONS)


@SHUFFLES
@given(ORDERS)
def test_a_planners_commit_is_refused_in_every_order(order: list[int]) -> None:
    """Prose is not a commit, wherever it falls."""
    sim = played(order)
    fabricated = [d for d in sim.decisions if d.claim_type == "Commit" and d.topic == "proposals"]
    assert [d.reason for d in fabricated] == ["WRONG_ROLE", "WRONG_ROLE"]
    assert not any(d.facts for d in fabricated)


@SHUFFLES
@given(ORDERS)
def test_a_dispatch_after_the_commit_starts_nothing(order: list[int]) -> None:
    """Once a Commit counts, no further Dispatch of that step is accepted, and no command goes out for it."""
    sim = played(order)
    for decision in accepted(sim, c.Commit):
        later = [d for d in sim.decisions[decision.seq :] if d.claim_type == "Dispatch"]
        for d in later:
            assert d.subject_id != decision.subject_id or d.verdict in ("REPLAYED", "REJECTED")


@SHUFFLES
@given(ORDERS)
def test_no_order_breaks_an_invariant(order: list[int]) -> None:
    """The independent checker finds nothing in the ledger of any order."""
    sim = played(order, move_ms=7_000)
    assert check(sim.decisions, raw=sim.ledger) == []


@SHUFFLES
@given(ORDERS, st.integers(2, 30), st.frozensets(st.integers(0, len(CLAIMS)), max_size=4), st.sampled_from([0, 7_000]))
def test_only_the_order_decides(order: list[int], batch: int, restarts: frozenset[int], move_ms: int) -> None:
    """Neither how many claims a poll takes nor a restart, torn transactions included, changes a verdict or a fact."""
    assert verdicts(played(order, batch, restarts, move_ms)) == verdicts(played(order, move_ms=move_ms))


@SHUFFLES
@given(ORDERS)
def test_replaying_the_ledger_gives_the_state(order: list[int]) -> None:
    """The state is what the ledger's facts add up to, with nothing else to ask."""
    sim = played(order, move_ms=7_000)
    before = state_object(sim.state, sim.names)
    sim.restart()
    assert state_object(sim.state, sim.names) == before


def test_the_honest_order_is_accepted_throughout() -> None:
    """The control: what is refused in other orders is not refused for its own sake."""
    sim = Simulator(builtin_catalogue())
    assert {sim.submit(*said).verdict for said in honest()} == {"ACCEPTED"}
    assert sim.state.intents.get(INTENT) is not None


def test_each_of_the_three_orders_of_the_article_is_refused() -> None:
    """Dispatch after Commit, success before Dispatch, close with a missing join: in any surroundings."""
    rng = random.Random(3)
    for _ in range(50):
        order = list(range(len(CLAIMS)))
        rng.shuffle(order)
        sim = played(order)
        seen: set[str] = set()
        for d in sim.decisions:
            if d.claim_type == "Succeed" and f"Dispatch {d.subject_id}" not in seen:
                assert d.verdict != "ACCEPTED"
            if d.claim_type == "Commit" and d.topic == "outcomes" and f"Dispatch {d.subject_id}" not in seen:
                assert d.verdict == "REJECTED"
            if d.claim_type == "Close" and len([one for one in seen if one.startswith("Succeed")]) < len(OPERATIONS):
                assert d.verdict == "REJECTED"
            if d.verdict == "ACCEPTED":
                seen.add(f"{d.claim_type} {d.subject_id}")
