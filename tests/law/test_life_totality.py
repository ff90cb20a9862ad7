"""Whatever happens to commitments of every class and type: only moves of the table, a sound state, replay agrees."""

from random import Random
from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joingate_processors.forensics.checker import check
from joingate_processors.law.lifecycle import MOVES
from joingate_schemas import claims as c
from joingate_schemas import facts as f

from .driver import Court, step
from .invariants import snapshot
from .life_catalogue import TYPES, lived
from .test_lifecycle import moves_of

G1: c.Goal = {"goal_id": "g1", "acceptance": "so"}
G2: c.Goal = {"goal_id": "g1", "acceptance": "otherwise"}
MAKERS = [step(kind.name, f"make_{kind.name}", arguments={"name": "a"}, goal_id="g1") for kind in TYPES]
RELYING = [
    step(f"on-{name}", action, edges=[{"kind": "REQUIRES", "step_id": name}])
    for name, action in (("hold", "notify"), ("fresh_hold", "pay"), ("quote", "pay_approved"), ("reply", "pay_held"))
]  # fmt: skip
STEPS = [*MAKERS, *RELYING, step("later", "make_hold", "entity-later", condition="weather")]
VERBS = (
    "settle settle settle dispatch dispatch see see see look release release satisfy reconcile force approve decline "
    "condition doubt refuse advance advance advance cancel declare plan planned abort succeed permit"
).split()
TIMES_MS = [1, 31_000, 91_000, 700_000, 4_000_000, 90_000_000, 700_000_000]
OVERRIDES = [*get_args(f.CommitmentStatus), "SETTLED"]
Move = tuple[str, int]


def _play(court: Court, verb: str, chance: Random) -> None:
    operation = chance.choice([key for key, _ in court.state.rows("operations")] or ["nothing"])
    commitment = chance.choice([key for key, _ in court.state.rows("commitments")] or ["nothing"])
    planned = chance.choice(STEPS)["step_id"]
    news = {"source": chance.choice(["record", "feed"]), "source_version": chance.choice([None, 1, 2, 3, 4])}
    match verb:
        case "settle":
            court.dispatch(planned)
            subject = chance.choice([court.op_id(planned), operation])
            court.prepared(subject)
            court.commit(subject, evidence=chance.choice([[], ["receipt"]]))
        case "permit":
            court.prepared(operation)
        case "dispatch" | "succeed":
            getattr(court, verb)(planned)
        case "see":
            court.observe_commitment(commitment, "PRESENT", **news)
        case "look":
            until = chance.choice([None, court.now - 5, court.now + 10_000_000])
            court.observe_commitment(commitment, chance.choice(get_args(c.Finding)), valid_until=until,
                                     proof=chance.choice([None, "SECOND_LOOK", "STATEMENT"]), **news)  # fmt: skip
        case "release":
            court.release(commitment)
        case "satisfy":
            court.satisfied(commitment, evidence=["receipt:1"])
        case "reconcile":
            court.reconcile("COMMITMENT", commitment)
        case "force" if chance.random() < 0.5:
            court.override("COMMITMENT", commitment, chance.choice(OVERRIDES))
        case "force":
            court.override("OPERATION", operation, chance.choice(["SETTLED", "FAILED", "COMPENSATED"]))
        case "approve":
            court.approve(operation)
        case "decline" if operation != "nothing":
            court.decline(operation)
        case "condition":
            court.observe_condition(
                chance.choice(["weather", "migration:a"]), chance.choice(["PRESENT", "ABSENT"]), **news
            )
        case "doubt":
            court.in_doubt(operation)
        case "refuse":
            court.prepared(operation)
            court.executor_abort(operation, proof="REFUSED")
        case "abort":
            court.abort(operation)
        case "advance":
            court.advance(chance.choice(TIMES_MS))
        case "cancel":
            court.cancel()
        case "declare":
            court.declare(court.intent().version + 1, goals=chance.choice([[G1], [G2], []]))
        case "plan" | "planned":
            named = chance.choice([[], [commitment]]) if commitment != "nothing" else []
            steps = STEPS if verb == "planned" else chance.sample(MAKERS, 3)
            court.plan(*steps, plan_id=f"p{len(court.decisions)}", replaces=court.intent().plan_id, commitments=named)
        case _:
            pass


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 2**20)), min_size=10, max_size=80))
def test_commitments_move_only_as_the_table_says_and_leave_a_sound_state(moves: list[Move]) -> None:
    """The state is checked by the court after every decision, and the whole ledger by the checker that knows no law."""
    court = Court(lived())
    court.load()
    court.declare(goals=[G1])
    court.plan(*STEPS)
    for verb, number in moves:
        _play(court, verb, Random(number))
    made = moves_of(court)
    assert made <= set(MOVES), made - set(MOVES)
    assert snapshot(court.replayed()) == snapshot(court.state)
    assert check(court.decisions, raw=court.ledger) == []
