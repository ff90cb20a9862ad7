"""Claims go out as they should, and their verdicts come back: the same over memory and over a real Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from joingate_producers import (
    Approver,
    ClaimRefused,
    Connection,
    Executor,
    JoinGateError,
    LedgerBroken,
    Observer,
    Operator,
    Planner,
    VerdictTimeout,
    goal,
    step,
)
from joingate_producers.client import RoleClient
from joingate_schemas.claims import ROLE_TYPES, DeclareIntent
from joingate_schemas.topics import partition_for

INTENT = "acme/fee-reversal/txn-77120"


def _dispatch(planner: Planner, **fields: Any) -> Any:
    return planner.dispatch(INTENT, intent_version=1, plan_id="p1", step_id="s1", **fields)


def test_a_verdict_carries_what_the_gate_said(world: Any) -> None:
    """Waiting brings the decision with its reason's number and advice, and its place in the ledger."""
    world.gate.rule = lambda claim: world.ruling("REJECTED", "DEPENDENCY_UNMET", detail="s0 is not joined")
    verdict = _dispatch(Planner(world.connect())).wait(20)
    assert (verdict.verdict, verdict.reason, verdict.number) == ("REJECTED", "DEPENDENCY_UNMET", 700)
    assert verdict.advice == "Wait for the named step."
    assert verdict.detail == "s0 is not joined"
    assert verdict.refused
    assert not verdict.accepted
    assert (verdict.seq, verdict.partition) == (1, partition_for(INTENT.encode(), 2))
    with pytest.raises(ClaimRefused, match=r"REJECTED for DEPENDENCY_UNMET \(700\): s0 is not joined") as caught:
        verdict.demand()
    assert caught.value.number == 700


def test_an_accepted_dispatch_is_pending_and_names_its_operation(world: Any) -> None:
    """ACCEPTED says that the claim holds, not that anything happened: the status tells that it is under way."""
    world.gate.rule = lambda claim: world.ruling(status="STAGED", subject_id="op-1")
    verdict = _dispatch(Planner(world.connect())).wait(20).demand()
    assert verdict.accepted
    assert verdict.pending
    assert verdict.operation_id == "op-1"


def test_verdicts_can_be_awaited(world: Any) -> None:
    """`await client.dispatch(...)` is the same wait for asyncio, many at once too."""

    async def ask(planner: Planner) -> list[str]:
        verdicts = await asyncio.gather(*[_awaited(planner, number) for number in range(5)])
        return [verdict.claim_id for verdict in verdicts]

    async def _awaited(planner: Planner, number: int) -> Any:
        return await _dispatch(planner, claim_id=f"c{number}")

    assert asyncio.run(ask(Planner(world.connect()))) == [f"c{number}" for number in range(5)]


def test_cancelling_one_who_waits_leaves_the_claim_to_the_others(world: Any) -> None:
    """A task that gives up takes nothing from the claim or from the next wait."""
    world.gate.hold()
    pending = _dispatch(Planner(world.connect()))

    async def give_up() -> None:
        task = asyncio.ensure_future(pending.within(20))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    world.gate.go_on()
    assert pending.wait(20).accepted


def test_a_timeout_says_that_the_claim_is_still_pending(world: Any) -> None:
    """It names the claim, sync and async, and waiting again brings the verdict that comes late."""
    world.gate.hold()
    pending = _dispatch(Planner(world.connect()), claim_id="c-late")
    world.until(lambda: pending.delivered, "the broker's confirmation")
    with pytest.raises(
        VerdictTimeout, match=r"Dispatch c-late within 0\.01 s: it was written and is still pending"
    ) as one:
        pending.wait(0.01)
    assert one.value.claim_id == "c-late"
    assert one.value.delivered
    assert pending.verdict is None

    async def await_it() -> None:
        with pytest.raises(VerdictTimeout):
            await pending.within(0.01)

    asyncio.run(await_it())
    world.gate.go_on()
    assert pending.wait(20).accepted
    assert pending.verdict is not None


def test_a_repeat_is_the_same_claim_byte_for_byte(world: Any) -> None:
    """The gate hears the same claim id and the same bytes, and answers REPLAYED."""
    planner = Planner(world.connect())
    first = _dispatch(planner)
    decided = first.wait(20)
    again = planner.repeat(first).wait(20)
    assert again.replayed
    assert again.demand() is again
    assert again.refers_to == decided.seq
    assert again.recorded == (decided.seq, "ACCEPTED", "OK")
    assert again.claim_id == decided.claim_id
    heard = [claim for _, claim in world.gate.heard]
    assert heard[0] == heard[1]


def test_an_intents_claims_arrive_in_order_on_its_partition(world: Any) -> None:
    """Nothing is waited for in between, and yet each claim stands behind those that it builds on."""
    planner = Planner(world.connect())
    planner.declare_intent(INTENT, goals=[goal("g1", "the fee is back")], objective="one\nline more")
    planner.plan(INTENT, intent_version=1, plan_id="p1", steps=[step("s1", "reverse_fee", arguments={"amount": 12.5})])
    _dispatch(planner, arguments={"amount": 12, "note": None, "urgent": True}).wait(20)
    assert world.gate.types() == ["DeclareIntent", "Plan", "Dispatch"]
    assert world.gate.heard[0][1].goals[0]["acceptance"] == "the fee is back"
    assert world.gate.heard[2][1].arguments == {"amount": 12, "note": None, "urgent": True}
    assert {claim.principal for _, claim in world.gate.heard} == {"tester"}


def test_the_owner_is_retired_on_every_partition(world: Any) -> None:
    """One record and one verdict for each partition, under claim ids that a repeat forms again."""
    observer = Observer(world.connect())
    verdicts = [pending.wait(20) for pending in observer.retire_owner("acme/agents/7", claim_id="bye")]
    assert sorted((verdict.claim_id, verdict.partition) for verdict in verdicts) == [("bye/0", 0), ("bye/1", 1)]
    repeated = [pending.wait(20) for pending in observer.retire_owner("acme/agents/7", claim_id="bye")]
    assert all(verdict.replayed for verdict in repeated)


def test_each_role_can_make_each_of_its_claims(world: Any) -> None:
    """Every claim type of each role has its method, and arrives on the role's topic."""
    connection = world.connect()
    planner, executor = Planner(connection), Executor(connection, "messenger")
    approver, observer, operator = Approver(connection), Observer(connection), Operator(connection)
    pending = [
        planner.declare_intent(INTENT, budgets={"exploration": 0.5, "verification": 0.3, "reconciliation": 0.2}),
        planner.cancel_intent(INTENT, reason="not wanted"),
        planner.plan(INTENT, intent_version=1, plan_id="p1", steps=[step("s1", "notify", requires=["s0"])]),
        _dispatch(planner),
        planner.abort(INTENT, "op-1", reason="no"),
        planner.release(INTENT, "c-1"),
        planner.transfer(INTENT, "c-1", target_owner="other"),
        planner.accept_transfer(INTENT, "c-1", owner_id="other", fencing_token=2),
        planner.mark_satisfied(INTENT, "c-1", evidence=["seen"]),
        planner.request_reconciliation(INTENT, "op-1"),
        planner.promise(INTENT, intent_version=1, obligation_type="reply", counterparty="ann", text="by noon"),
        planner.succeed(INTENT, intent_version=1, plan_id="p1", step_id="s1"),
        planner.close(INTENT),
        executor.prepared(INTENT, "op-1", 1),
        executor.lease(INTENT, "c-1"),
        executor.commit(INTENT, "op-1", 1, external_id="ext-1"),
        executor.abort(INTENT, "op-1", 1, proof="REFUSED"),
        executor.in_doubt(INTENT, "op-1", 1, cause="timeout"),
        approver.approve(INTENT, operation_id="op-1", digest="d"),
        approver.decline(INTENT, plan_id="p1", digest="d"),
        observer.observe(INTENT, subject_kind="OPERATION", subject_id="op-1", finding="NOT_FOUND", source="bank"),
        observer.assign_owner(INTENT, "c-1", owner_id="team", policy="failover"),
        *observer.retire_owner("gone"),
        operator.override(INTENT, subject_kind="OPERATION", subject_id="op-1", to="FAILED", reason="r", evidence=["e"]),
        operator.request_reconciliation(INTENT, "op-1"),
        *operator.register_key("ann", b"k" * 32),
        *operator.revoke_key("ann", "0" * 32),
    ]
    assert all(one.wait(20).accepted for one in pending)
    roles: dict[str, type[RoleClient]] = {
        "PLANNER": Planner, "EXECUTOR": Executor, "APPROVER": Approver, "OBSERVER": Observer, "OPERATOR": Operator,
    }  # fmt: skip
    for role, client in roles.items():
        arrived = {type(claim).__name__ for topic, claim in world.gate.heard if topic == client.topic}
        assert arrived == ROLE_TYPES[role]  # type: ignore[index]


def test_a_gap_in_the_ledger_stops_its_partition_only(world: Any) -> None:
    """Who waits for that partition hears of it, at once and for ever; the other partition's verdicts go on."""
    connection = world.connect()
    planner = Planner(connection)
    here, elsewhere = "acme/a/1", next(
        f"acme/b/{number}" for number in range(9) if partition_for(f"acme/b/{number}".encode(), 2)
        != partition_for(b"acme/a/1", 2)
    )  # fmt: skip
    planner.declare_intent(here).wait(20)
    partition = partition_for(here.encode(), 2)
    torn = DeclareIntent(claim_id="torn", intent_id=here, version=1, goals=[])
    world.gate.ledger(partition, torn, world.ruling(), skip=1)
    with pytest.raises(LedgerBroken, match="goes from seq 1 to 3"):
        planner.declare_intent(here, version=2).wait(20)
    with pytest.raises(LedgerBroken, match="goes from seq 1 to 3"):
        planner.declare_intent(here, version=3).wait(20)
    assert planner.declare_intent(elsewhere).wait(20).accepted


def test_a_ledger_record_that_is_no_record_stops_its_partition(world: Any) -> None:
    """What can't be read can't be skipped either: it may be the very verdict that is waited for."""
    planner = Planner(world.connect())
    planner.declare_intent(INTENT).wait(20)
    world.port.write(world.gate.topics.ledger, INTENT.encode(), b"\x00garbage", partition_for(INTENT.encode(), 2))
    with pytest.raises(LedgerBroken, match="can't be read"):
        planner.declare_intent(INTENT, version=2).wait(20)


def test_many_clients_share_one_connection(world: Any) -> None:
    """Each gets the verdicts on its own claims."""
    connection: Connection = world.connect()
    planner, operator = Planner(connection, "one"), Operator(connection, "two")
    pending = [planner.declare_intent(f"acme/many/{number}") for number in range(20)]
    asked = operator.request_reconciliation("acme/many/0", "op-1")
    assert all(one.wait(20).claim_id == one.claim_id for one in [*pending, asked])
    assert {claim.principal for _, claim in world.gate.heard} == {"one", "two"}


def test_a_connection_that_reads_no_verdicts_still_sends(world: Any) -> None:
    """Asked for a verdict it says why there is none, and at its end the claim has arrived."""
    with world.connect(verdicts=False) as connection:
        pending = Planner(connection).declare_intent(INTENT)
        with pytest.raises(JoinGateError, match="told not to read verdicts"):
            pending.wait(5)
    world.until(lambda: world.gate.types() == ["DeclareIntent"], "the claim")
