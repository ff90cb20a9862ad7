"""Both deciders on a real broker: one resource, two that race for it, and a kill at every step in between."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from joingate_processors.arbiter.partition import ArbiterPartition
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.gate.transactions import WriterLost
from joingate_schemas import claims as c
from joingate_schemas.arbitration import Reserve
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command
from joingate_schemas.facts import OperationReady, OperationWithdrawn, ResourceChanged
from joingate_schemas.topics import Topics

DEADLINE_S = 60.0


def test_killed_at_each_step_of_a_transaction_one_gets_the_resource_and_the_other_is_told(
    town: Callable[..., Any],
    tools: Any,
) -> None:
    """EOS across both deciders: each message is decided once, each answered once, and one resource has one holder."""
    here = town()
    races: list[tuple[str, str, str]] = []
    for n, step in enumerate(tools.steps):
        process = here.arbiter(crash=step)
        races.append((f"slot:{n}", here.want(f"acme/{n}/a", str(n)), here.want(f"acme/{n}/b", str(n))))
        assert process.wait(DEADLINE_S) == -signal.SIGKILL, f"it did not die when: {step}"
    process = here.arbiter()
    withdrawn = tools.wait_for(
        lambda: found if len(found := here.facts(OperationWithdrawn)) == len(races) else None, "one loser a race"
    )
    ready = tools.wait_for(
        lambda: found if len(found := here.facts(OperationReady)) == len(races) else None, "one winner a race"
    )
    losers, winners = {fact.operation_id: fact for fact in withdrawn}, {fact.operation_id for fact in ready}
    for slot, one, other in races:
        assert len({one, other} & winners) == len({one, other} & losers.keys()) == 1
        (loser,), (winner,) = {one, other} & losers.keys(), {one, other} & winners
        assert f"{slot} is held by operation {winner}" in losers[loser].cause
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    reserved = [(record.operation_id, record.n) for record, _, _ in here.read(here.topics.resource_claims)
                if isinstance(record, Reserve)]  # fmt: skip
    rulings = here.rulings()
    asked = Counter((one.operation_id, one.n) for one in rulings if one.message_type == "Reserve")
    assert asked == Counter(reserved), "each message is decided exactly once"
    granted = [one.resource_ref for one in rulings if one.verdict == "GRANTED"]
    assert sorted(granted) == sorted(slot for slot, _, _ in races)
    told = Counter(record.claim_id for record, _, _ in here.read(here.topics.resource_verdicts)
                   if isinstance(record, c.Claim))  # fmt: skip
    assert len(told) == 2 * len(races)
    assert set(told.values()) == {1}, "each is answered exactly once"
    commands = [record for record, _, _ in here.read(here.topics.commands("miller")) if isinstance(record, Command)]
    assert Counter((one.operation_id, one.kind) for one in commands if one.kind == "EXECUTE") == Counter(
        (winner, "EXECUTE") for winner in winners
    )


def test_what_is_given_back_before_a_restart_is_free_after_it_and_a_lease_outlives_its_arbiter(
    town: Callable[..., Any],
    tools: Any,
) -> None:
    here = town(lease_ms=1)
    first = here.arbiter()
    held = here.want("acme/held", "1")
    tools.wait_for(lambda: [x for x in here.facts(ResourceChanged) if x.standing == "HELD"], "the grant")
    tools.wait_for(lambda: [x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"], "the lease to be over")
    first.kill()
    first.wait()
    before = len([x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"])
    here.arbiter()
    tools.wait_for(lambda: len([x for x in here.facts(ResourceChanged) if x.standing == "OVERDUE"]) > before,
             "the next arbiter to ask about the same lease")  # fmt: skip
    here.send(
        c.Commit(claim_id="done", intent_id="acme/held", operation_id=held, attempt=1, external_id="x",
                 evidence=["e"], idempotency_key=held), here.topics.outcomes,
    )  # fmt: skip
    tools.wait_for(lambda: [one for one in here.rulings() if one.message_type == "Free"], "what it had to come back")
    other = here.want("acme/other", "1")
    tools.wait_for(lambda: [x for x in here.facts(OperationReady) if x.operation_id == other], "the other to get it")
    epochs = [one.epoch for one in here.rulings() if one.resource_ref == "slot:1"]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2


def test_the_command_runs_an_arbiter_until_it_is_asked_to_end(bootstrap: str, topic_prefix: str) -> None:
    Topics(topic_prefix).create(bootstrap, 1)
    environment = {"BOOTSTRAP_SERVERS": bootstrap, "JOINGATE_PREFIX": topic_prefix, "JOINGATE_PARTITIONS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "joingate", "arbiter", "--json"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = next(row for line in process.stdout if (row := json.loads(line))["ready"])
        assert (said["service"], said["state"], said["sentence"]) == ("arbiter", "RUNNING", "partitions 0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_an_arbiter_that_was_replaced_may_not_decide(bootstrap: str, topic_prefix: str) -> None:
    topics = Topics(topic_prefix)
    topics.create(bootstrap, 1)
    settings = ArbiterSettings(bootstrap_servers=bootstrap, prefix=topic_prefix, partitions=1)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": settings.group})
    old, new = (
        ArbiterPartition(0, settings, topics, Codec(), consumer.consumer_group_metadata, lambda: False)
        for _ in range(2)
    )
    old.open()
    old.decide(())
    new.open()
    with pytest.raises(WriterLost):
        old.decide(())
    new.decide(())
    for partition in (old, new):
        partition.close()
    consumer.close()
