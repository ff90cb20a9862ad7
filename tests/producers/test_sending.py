"""What becomes of a claim when its delivery fails, the broker is away, or the process ends (field case C19)."""

from __future__ import annotations

from typing import Any

import pytest

from joingate_producers import (
    ConnectionClosed,
    Executor,
    Observer,
    OutboxFull,
    Planner,
    Undelivered,
    Unreachable,
    Unsent,
    VerdictTimeout,
)
from joingate_producers.wire import Delivery, Fate

INTENT = "acme/fee-reversal/txn-77120"
TIMED_OUT = Delivery(Fate.POSSIBLY_WRITTEN, "Local: Message timed out")
DEAD = Delivery(Fate.OUTLET_DEAD, "Local: Fatal error")


@pytest.mark.parametrize("written", [True, False], ids=["it was written", "it was not"])
def test_a_delivery_that_timed_out_is_sent_again_as_the_same_claim(memory_world: Any, written: bool) -> None:
    """Possibly written: the same bytes go out again, the gate decides once, the caller sees one verdict."""
    memory_world.memory.mishaps.append((written, TIMED_OUT))
    verdict = Planner(memory_world.connect()).declare_intent(INTENT).wait(20)
    assert verdict.accepted
    copies = 2 if written else 1
    memory_world.until(lambda: len(memory_world.gate.heard) == copies, f"{copies} copies")
    assert len({row.value for row in memory_world.memory.rows("t.proposals")}) == 1


def test_a_delivery_that_keeps_timing_out_is_never_given_up(memory_world: Any) -> None:
    """Sent again as often as it takes."""
    memory_world.memory.mishaps.extend([(False, TIMED_OUT)] * 3)
    assert Planner(memory_world.connect()).declare_intent(INTENT).wait(20).accepted


def test_a_dead_producer_is_replaced_and_loses_nothing(memory_world: Any) -> None:
    """All that it held goes out again through the new one, in the old order."""
    memory_world.memory.away = True
    planner = Planner(memory_world.connect())
    memory_world.memory.mishaps.append((False, DEAD))
    pending = [planner.declare_intent(INTENT, version=number) for number in range(1, 6)]
    memory_world.memory.away = False
    assert all(one.wait(20) for one in pending)
    first_heard = list(dict.fromkeys(claim.version for _, claim in memory_world.gate.heard))
    # What the dead one had handed over beyond the failure may come before it; what it had not, comes in order.
    assert sorted(first_heard) == [1, 2, 3, 4, 5]
    assert [version for version in first_heard if version != 1] == [2, 3, 4, 5]


def test_a_plain_refusal_of_the_broker_ends_the_claim(memory_world: Any) -> None:
    """No such topic, no right to write: the caller is told, and it is not tried for ever."""
    memory_world.memory.mishaps.append((False, Delivery(Fate.REFUSED, "Broker: Topic authorization failed")))
    connection = memory_world.connect()
    pending = Planner(connection).declare_intent(INTENT)
    with pytest.raises(Undelivered, match=r"Topic authorization failed\. It was not written\."):
        pending.wait(20)
    connection.close()
    assert memory_world.memory.rows("t.proposals") == []


def test_a_claim_refused_by_the_broker_stays_in_the_outbox(memory_world: Any) -> None:
    """The next start tries it again, when a person has mended the rights or the topic."""
    memory_world.memory.mishaps.append((False, Delivery(Fate.REFUSED, "Broker: Topic authorization failed")))
    connection = memory_world.connect(outbox=memory_world.outbox)
    with pytest.raises(Undelivered, match="It stays in the outbox"):
        Planner(connection).cancel_intent(INTENT).wait(20)
    connection.close()
    memory_world.connect(outbox=memory_world.outbox)
    memory_world.until(lambda: memory_world.gate.types() == ["CancelIntent"], "the cancel")


def test_a_claim_waits_for_a_broker_that_is_away(memory_world: Any) -> None:
    """Making it never blocks; the timeout says what is known; when the broker is back the verdict comes."""
    memory_world.memory.away = True
    pending = Planner(memory_world.connect()).declare_intent(INTENT, claim_id="c1")
    with pytest.raises(VerdictTimeout, match="has not confirmed it yet, and it is still on its way") as caught:
        pending.wait(0.05)
    assert not caught.value.delivered
    memory_world.memory.away = False
    assert pending.wait(20).accepted


def test_leaving_with_an_unconfirmed_claim_and_no_outbox_is_an_error(memory_world: Any) -> None:
    """The claim ids are named, so that they can be repeated."""
    memory_world.memory.away = True
    with (
        pytest.raises(Unsent, match="Repeat them with the same claim ids") as caught,
        memory_world.connect(close_timeout_s=0.05) as connection,
    ):
        Planner(connection).declare_intent(INTENT, claim_id="c1")
    assert caught.value.claim_ids == ("c1",)


def test_a_client_confirms_at_its_end_what_it_sent(memory_world: Any) -> None:
    """Leaving the client's block waits for the broker, and leaves the connection open."""
    connection = memory_world.connect()
    with Planner(connection) as planner:
        pending = planner.declare_intent(INTENT)
    assert pending.delivered
    assert Planner(connection).declare_intent(INTENT, version=2).wait(20).accepted


async def _through_async_blocks(world: Any) -> bool:
    async with Planner.connect(prefix="t.", wire=world.memory, outbox=None) as planner:
        verdict = await planner.declare_intent(INTENT)
    async with world.connect() as connection:
        return bool(verdict.accepted and (await Planner(connection).declare_intent(INTENT, version=2)).accepted)


def test_clients_and_connections_are_async_context_managers(memory_world: Any) -> None:
    """A client that made its own connection closes it."""
    import asyncio

    assert asyncio.run(_through_async_blocks(memory_world))


def test_a_cancel_survives_the_end_of_its_connection(memory_world: Any) -> None:
    """It is in the outbox: leaving is no error, and the next start sends the same claim."""
    memory_world.memory.away = True
    with memory_world.connect(outbox=memory_world.outbox, close_timeout_s=0.05) as connection:
        Planner(connection).cancel_intent(INTENT, claim_id="c1")
    memory_world.memory.away = False
    with memory_world.connect(outbox=memory_world.outbox) as connection:
        memory_world.until(lambda: memory_world.gate.types() == ["CancelIntent"], "the cancel")
        assert memory_world.gate.heard[0][1].claim_id == "c1"
        assert Planner(connection).cancel_intent(INTENT, claim_id="c1").wait(20).demand()


def test_a_confirmed_claim_is_not_sent_at_the_next_start(memory_world: Any) -> None:
    """What the broker has confirmed leaves the outbox."""
    with memory_world.connect(outbox=memory_world.outbox) as connection:
        Planner(connection).cancel_intent(INTENT).wait(20)
        Executor(connection, "messenger").commit(INTENT, "op-1", 1).wait(20)
    with memory_world.connect(outbox=memory_world.outbox) as connection:
        Planner(connection).declare_intent(INTENT).wait(20)
    assert sorted(memory_world.gate.types()) == ["CancelIntent", "Commit", "DeclareIntent"]


def test_only_what_must_not_be_lost_goes_through_the_outbox(memory_world: Any) -> None:
    """A planner that never cancels needs no file; a Prepared would ask for a permit for a process that is gone."""
    memory_world.memory.away = True
    connection = memory_world.connect(outbox=memory_world.outbox, close_timeout_s=0.05)
    Planner(connection).declare_intent(INTENT, claim_id="c1")
    Executor(connection, "messenger").prepared(INTENT, "op-1", 1, claim_id="c2")
    Executor(connection, "messenger").in_doubt(INTENT, "op-1", 1, claim_id="c3")
    with pytest.raises(Unsent) as caught:
        connection.close()
    assert caught.value.claim_ids == ("c1", "c2")


def test_too_many_unconfirmed_claims_are_turned_away(memory_world: Any) -> None:
    """Memory is bounded; what is turned away was not sent. An outcome is not turned away for that."""
    memory_world.memory.away = True
    connection = memory_world.connect(in_flight_max=2, outbox=memory_world.outbox)
    planner = Planner(connection)
    pending = [planner.declare_intent(INTENT, version=number) for number in (1, 2)]
    with pytest.raises(OutboxFull, match="2 claims wait for the broker"):
        planner.declare_intent(INTENT, version=3)
    Executor(connection, "messenger").commit(INTENT, "op-1", 1)
    memory_world.memory.away = False
    assert all(one.wait(20) for one in pending)
    memory_world.until(lambda: len(memory_world.gate.heard) == 3, "the commit")
    assert "version=3" not in str(memory_world.gate.heard)


def test_a_full_outbox_turns_a_cancel_away_and_sends_nothing(memory_world: Any) -> None:
    """The caller knows that it was not made."""
    memory_world.memory.away = True
    connection = memory_world.connect(outbox=memory_world.outbox, outbox_claims_max=1, close_timeout_s=0.05)
    planner = Planner(connection)
    planner.cancel_intent(INTENT, claim_id="c1")
    with pytest.raises(OutboxFull, match="holds 1 claims"):
        planner.cancel_intent(INTENT, claim_id="c2")
    memory_world.memory.away = False
    memory_world.until(lambda: len(memory_world.gate.heard) == 1, "the first cancel")
    connection.close()
    assert [claim.claim_id for _, claim in memory_world.gate.heard] == ["c1"]


def test_a_closed_connection_says_so(memory_world: Any) -> None:
    """To those who send, and to those who still wait."""
    connection = memory_world.connect()
    memory_world.gate.hold()
    planner = Planner(connection)
    pending = planner.declare_intent(INTENT)
    connection.close()
    with pytest.raises(ConnectionClosed, match="closed before the verdict came"):
        pending.wait(20)
    with pytest.raises(ConnectionClosed, match="open a new one"):
        planner.declare_intent(INTENT)


def test_an_owner_is_not_retired_on_some_partitions_only(memory_world: Any) -> None:
    """If their number can't be known, nothing is sent at all."""
    memory_world.memory.away = True
    with pytest.raises(Unreachable):
        Observer(memory_world.connect()).retire_owner("gone")
    memory_world.memory.away = False
    assert memory_world.gate.heard == []
