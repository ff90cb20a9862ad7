"""The simulator: time, restarts, torn transactions and unreadable bytes, as the gate would have them."""

import pytest

from joingate_processors.forensics.simulator import START_AT, Simulator, shared_codec
from joingate_processors.forensics.snapshot import state_object
from joingate_schemas import claims as c
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.decisions import Command, Decision, Quarantined
from joingate_schemas.facts import AttemptStarted, OperationInDoubt, OrphanRaised
from joingate_schemas.ids import operation_id
from joingate_schemas.record import changed

INTENT = "acme/sim/1"
NOTIFY = operation_id(INTENT, "notify", "ops", 1)


def simulator(batch: int = 1) -> Simulator:
    return Simulator(builtin_catalogue(), batch=batch)


def declare(sim: Simulator, claim_id: str = "i") -> Decision:
    return sim.submit(c.DeclareIntent(claim_id=claim_id, intent_id=INTENT, version=1, goals=[]), "PLANNER")


def plan(sim: Simulator, *steps: tuple[str, str, str]) -> Decision:
    planned: list[c.PlanStep] = [{"step_id": s, "action": a, "business_key": k} for s, a, k in steps]
    return sim.submit(
        c.Plan(claim_id="p", intent_id=INTENT, intent_version=1, plan_id="p1", steps=planned, commitments=[]), "PLANNER"
    )


def dispatch(sim: Simulator, step_id: str, claim_id: str | None = None) -> Decision:
    claim = c.Dispatch(
        claim_id=claim_id or f"d-{step_id}", intent_id=INTENT, intent_version=1, plan_id="p1", step_id=step_id
    )
    return sim.submit(claim, "PLANNER")


def prepared(sim: Simulator, attempt: int = 1) -> Decision:
    claim = c.Prepared(
        claim_id=f"x-{attempt}",
        intent_id=INTENT,
        operation_id=NOTIFY,
        attempt=attempt,
        executor="messenger",
        worker="w",
    )
    return sim.submit(claim, "EXECUTOR")


def test_the_clock_stands_still_until_it_is_moved() -> None:
    """Nothing but the caller moves time."""
    sim = simulator()
    declare(sim)
    plan(sim, ("s1", "notify", "ops"))
    assert {decision.decided_at for decision in sim.decisions} == {START_AT}
    sim.advance(500)
    assert dispatch(sim, "s1").decided_at == START_AT + 500


def test_the_clock_never_goes_back() -> None:
    """A claim can't be appended in the past."""
    sim = simulator()
    sim.advance(1_000)
    with pytest.raises(ValueError, match="never goes back"):
        sim.move_to(START_AT)


def test_timers_fire_at_their_own_time_however_far_the_clock_moves() -> None:
    """One long move and many short ones give the same ledger."""
    long, short = simulator(), simulator()
    for sim in (long, short):
        declare(sim)
        plan(sim, ("s1", "notify", "ops"))
        dispatch(sim, "s1")
    long.advance(400_000)
    for _ in range(400):
        short.advance(1_000)
    assert long.ledger == short.ledger
    fired = [one for one in long.decisions if one.claim_type == "TimerFired"]
    assert [one.decided_at - START_AT for one in fired][:2] == [30_000, 90_000]
    assert all(isinstance(one.facts[0], AttemptStarted) for one in fired)
    assert [fact.kind for one in fired for fact in one.facts[1:] if isinstance(fact, OrphanRaised)] == ["OVERDUE"]


def test_a_timer_is_decided_before_what_comes_after_it() -> None:
    """The permit's silence is in the ledger before the Commit that comes later, which is accepted all the same."""
    sim = simulator()
    declare(sim)
    plan(sim, ("s1", "notify", "ops"))
    dispatch(sim, "s1")
    prepared(sim)
    commit = c.Commit(
        claim_id="c", intent_id=INTENT, operation_id=NOTIFY, attempt=1, external_id="m-1", evidence=["messenger:m-1"]
    )
    decision = sim.submit(commit, "EXECUTOR", at=START_AT + 90_000)
    doubt = sim.decisions[decision.seq - 2]
    assert [type(fact) for fact in doubt.facts] == [OperationInDoubt]
    assert (decision.verdict, decision.status) == ("ACCEPTED", "SETTLED")


def test_a_restart_brings_everything_back_from_the_bytes() -> None:
    """State after a restart is the state before it, and the writer's epoch is a new one."""
    sim = simulator()
    declare(sim)
    plan(sim, ("s1", "notify", "ops"), ("s2", "reserve_window", "production"))
    dispatch(sim, "s1")
    prepared(sim)
    sim.advance(100_000)
    before, sent = state_object(sim.state, sim.names), list(sim.outgoing)
    sim.restart()
    assert state_object(sim.state, sim.names) == before
    assert sim.outgoing == sent
    assert dispatch(sim, "s2").epoch == 2
    assert sim.names.operation_of(INTENT, "s1") == NOTIFY


def test_a_torn_transaction_is_read_and_decided_again() -> None:
    """What was decided but not committed is decided again, alike but for the epoch, and sent once."""
    sim = simulator(batch=10)
    declare(sim)
    plan(sim, ("s1", "notify", "ops"))
    dispatch(sim, "s1")
    sim.advance(31_000)
    torn = list(sim.decisions)
    assert sim.sent == []
    sim.restart()
    again = [changed(one, epoch=1, previous=b"") for one in sim.decisions]
    assert again == [changed(one, epoch=1, previous=b"") for one in torn]
    sim.flush()
    commands = [(one.kind, one.attempt, one.ledger_seq) for one in sim.sent if isinstance(one, Command)]
    assert commands == [("PREPARE", 1, 4), ("PREPARE", 2, 5)]


def test_unreadable_bytes_are_set_aside_with_their_bytes() -> None:
    """The partition moves on, and the record lies in quarantine as it came."""
    sim = simulator()
    declare(sim)
    decision = sim.submit_raw(b"\xde\xad", "outcomes", INTENT)
    assert (decision.claim_type, decision.reason) == ("ClaimQuarantined", "UNREADABLE")
    kept = [one for one in sim.outgoing if isinstance(one, Quarantined)]
    assert [(one.value, one.key, one.topic, one.offset) for one in kept] == [
        (b"\xde\xad", INTENT.encode(), "outcomes", 0)
    ]
    assert plan(sim, ("s1", "notify", "ops")).verdict == "ACCEPTED"


@pytest.mark.parametrize(
    ("key", "problem"), [(None, "MISSING_KEY"), ("acme/sim/2", "KEY_NOT_INTENT")], ids=["no key", "another key"]
)
def test_a_claim_under_the_wrong_key_is_set_aside(key: str | None, problem: str) -> None:
    """A readable claim whose key is not its intent is quarantined, not decided."""
    sim = simulator()
    claim = c.DeclareIntent(claim_id="i", intent_id=INTENT, version=1, goals=[])
    decision = sim.submit_raw(shared_codec().encode(claim), "proposals", key)
    assert (decision.claim_type, decision.reason) == ("ClaimQuarantined", problem)


def test_a_redriven_record_is_decided_then_what_it_held() -> None:
    """The mended bytes come first, then the claims that waited for them, each once."""
    sim = simulator()
    declare(sim)
    bad = sim.submit_raw(b"\x00\x00", "proposals", INTENT)
    held = dispatch(sim, "s1")
    assert held.reason == "HELD"
    steps: list[c.PlanStep] = [{"step_id": "s1", "action": "notify", "business_key": "ops"}]
    mended = c.Plan(claim_id="p", intent_id=INTENT, intent_version=1, plan_id="p1", steps=steps, commitments=[])
    sim.submit(
        c.Override(
            claim_id="o", intent_id=INTENT, principal="dana", subject_kind="QUARANTINE", subject_id=bad.subject_id,
            to="REDRIVEN", reason="an old client", evidence=["ticket:1"], replacement=sim.codec.encode(mended),
        ),
        "OPERATOR",
    )  # fmt: skip
    assert [(one.claim_type, one.verdict) for one in sim.decisions[-3:]] == [
        ("Override", "ACCEPTED"), ("Plan", "ACCEPTED"), ("Dispatch", "ACCEPTED"),
    ]  # fmt: skip
    assert dispatch(sim, "s1").verdict == "REPLAYED"


def test_a_planner_can_not_use_up_an_executors_claim_id() -> None:
    """A Commit that a planner wrote is refused, and does not stand in the way of the real one with the same id."""
    sim = simulator()
    declare(sim)
    plan(sim, ("s1", "notify", "ops"))
    dispatch(sim, "s1")
    prepared(sim)
    commit = c.Commit(claim_id="c", intent_id=INTENT, operation_id=NOTIFY, attempt=1, external_id="m-1", evidence=["m"])
    assert sim.submit(commit, "PLANNER").reason == "WRONG_ROLE"
    assert sim.submit(commit, "EXECUTOR").verdict == "ACCEPTED"
