"""What only a real Kafka can show: aborted records, partitions, a broker that goes away, processes that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import joingate_producers
from joingate_producers import Applied, CommandStream, Executor, Outcome, Planner, Undelivered, VerdictTimeout
from joingate_producers.outbox import Outbox
from joingate_schemas.claims import Commit, DeclareIntent
from joingate_schemas.decisions import Command
from joingate_schemas.topics import partition_for

pytestmark = pytest.mark.broker

INTENT = "acme/fee-reversal/txn-77120"


def test_the_example_in_the_package_s_docstring_runs(
    broker_world: Any,
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Any,
) -> None:
    """A newcomer's first claim, with the address from the environment."""
    monkeypatch.setenv("BOOTSTRAP_SERVERS", bootstrap)
    monkeypatch.setenv("JOINGATE_PREFIX", broker_world.gate.topics.prefix)
    monkeypatch.setenv("JOINGATE_STATE_DIR", str(tmp_path))
    broker_world.gate.rule = lambda claim: broker_world.ruling(status="STAGED", subject_id="op-1")
    example = (joingate_producers.__doc__ or "").split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
    exec(textwrap.dedent(example), {})
    assert capsys.readouterr().out.split() == ["ACCEPTED", "STAGED", "op-1"]
    assert broker_world.gate.types() == ["DeclareIntent", "Plan", "Dispatch"]
    assert list(tmp_path.rglob("*.outbox")) == [], "a planner that never cancels leaves no file"


def test_claims_lie_where_murmur2_of_their_intent_says(broker_world: Any) -> None:
    """The same place as Java's producers and the gate expect."""
    planner = Planner(broker_world.connect())
    pending = {f"acme/intent/{number}/é": planner.declare_intent(f"acme/intent/{number}/é") for number in range(12)}
    for intent_id, one in pending.items():
        assert one.wait(20).partition == partition_for(intent_id.encode(), 2)


def test_a_decision_that_was_aborted_is_no_verdict(broker_world: Any) -> None:
    """Only what the gate committed counts: the aborted ACCEPTED is in the log, and nobody sees it."""
    gate = broker_world.gate
    planner = Planner(broker_world.connect())
    planner.declare_intent(INTENT, claim_id="c0").wait(20)
    gate.hold()
    pending = planner.declare_intent(INTENT, version=2, claim_id="c1")
    broker_world.until(lambda: pending.delivered, "the claim")
    claim = DeclareIntent(claim_id="c1", intent_id=INTENT, version=2, goals=[])
    partition = partition_for(INTENT.encode(), 2)
    heads, write = dict(gate._heads), broker_world.port.write
    broker_world.port.write = broker_world.port.write_and_abort
    gate.ledger(partition, claim, broker_world.ruling())
    broker_world.port.write = write
    gate._heads.update(heads)
    gate.rule = lambda claim: broker_world.ruling("REJECTED", "VERSION_CONFLICT")
    gate.go_on()
    assert pending.wait(20).reason == "VERSION_CONFLICT"


def test_a_command_that_was_aborted_is_not_acted_on(broker_world: Any) -> None:
    """The executor's stream shows only the committed one behind it."""
    gate, write = broker_world.gate, broker_world.port.write
    broker_world.port.write = broker_world.port.write_and_abort
    gate.command("messenger", kind="EXECUTE", business_key="aborted")
    broker_world.port.write = write
    gate.command("messenger", kind="EXECUTE", business_key="committed")
    with CommandStream(broker_world.connect(), "messenger") as stream:
        assert next(iter(stream)).business_key == "committed"


def test_a_misspelt_prefix_is_named_in_the_timeout(bootstrap: str, broker_world: Any) -> None:
    """Rather than a silence; and the broker did not create the topics."""
    connection = broker_world.connect(prefix="no-such-prefix.", close_timeout_s=0.1)
    pending = Planner(connection).declare_intent(INTENT)
    broker_world.until(lambda: pending._reader.problem, "the reader's complaint")
    with pytest.raises(VerdictTimeout, match=r"There is no topic no-such-prefix\.ledger"):
        pending.wait(0.1)
    with pytest.raises(joingate_producers.Unsent) as unsent:
        connection.close()
    assert "no-such-prefix.ledger" in str(unsent.value)
    assert "no-such-prefix.ledger" not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics


def test_a_topic_that_does_not_exist_refuses_the_claim(bootstrap: str, broker_world: Any) -> None:
    """The ledger is there, the role's topic is not: the claim is refused, not tried for ever."""
    gate = broker_world.gate
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([gate.topics.approvals])[gate.topics.approvals].result(30)
    connection = broker_world.connect(client={"topic.metadata.propagation.max.ms": "500"})
    pending = joingate_producers.Approver(connection).approve(INTENT, digest="d", operation_id="op-1")
    with pytest.raises(Undelivered, match="was refused by the broker"):
        pending.wait(30)


def test_commands_that_were_trimmed_before_they_were_read_stop_nothing(bootstrap: str, broker_world: Any) -> None:
    """The group's position is gone, so it goes on at the oldest that is left."""
    gate = broker_world.gate
    for number in range(3):
        gate.command("messenger", kind="WITHDRAW", business_key=f"k{number}")
    with CommandStream(broker_world.connect(), "messenger") as stream:
        taken = iter(stream)
        assert [next(taken).business_key for _ in range(2)] == ["k0", "k1"]
    last = gate.command("messenger", kind="WITHDRAW", business_key="k3")
    # Offsets 0 to 6: four commands, each with the marker of its transaction behind it.
    where = TopicPartition(gate.topics.commands("messenger"), last.partition, 7)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([where]).values():
        deleted.result(30)
    gate.command("messenger", kind="WITHDRAW", business_key="k4")
    with CommandStream(broker_world.connect(), "messenger") as stream:
        assert next(iter(stream)).business_key == "k4"


def test_two_processes_of_an_executor_share_the_work_and_act_once(broker_world: Any, tmp_path: Any) -> None:
    """The second joins amid the work: partitions move, and each operation has one effect."""
    gate = broker_world.gate
    gate.rule = gate.permits()
    done: list[str] = []
    stop = threading.Event()

    def act(command: Command) -> Outcome:
        done.append(command.operation_id)
        return Applied(command.business_key)

    def serve(number: int) -> threading.Thread:
        executor = Executor(broker_world.connect(outbox=tmp_path / f"{number}.outbox"), "messenger")
        thread = threading.Thread(target=executor.serve, args=({"notify": act}, stop))
        thread.start()
        return thread

    threads = [serve(1)]
    try:
        for number in range(10):
            gate.command("messenger", kind="PREPARE", intent_id=f"acme/{number}")
        broker_world.until(lambda: done, "the first effect")
        threads.append(serve(2))
        for number in range(10, 20):
            gate.command("messenger", kind="PREPARE", intent_id=f"acme/{number}")
        broker_world.until(lambda: len(gate.claims(Commit)) == 20, "20 commits")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(done) == len(set(done)) == 20


# --- a broker that goes away -----------------------------------------------------------------------------------------


def test_a_broker_that_does_not_answer_delays_and_loses_nothing(own_world: Any, own_kafka: Any) -> None:
    """Paused amid the work: claims can be made, waiting says what is known, and then the verdicts come."""
    planner = Planner(own_world.connect())
    planner.declare_intent(INTENT).wait(20)
    own_kafka.pause()
    pending = [planner.declare_intent(INTENT, version=number) for number in range(2, 6)]
    with pytest.raises(VerdictTimeout) as caught:
        pending[0].wait(0.5)
    assert not caught.value.delivered
    own_kafka.resume()
    assert [one.wait(60).accepted for one in pending] == [True] * 4
    assert [claim.version for _, claim in own_world.gate.heard] == [1, 2, 3, 4, 5]


def test_a_broker_that_is_killed_and_comes_back_loses_nothing(own_world: Any, own_kafka: Any) -> None:
    """As in a power cut; claims made meanwhile, and those of a connection made meanwhile, are decided afterwards."""
    planner = Planner(own_world.connect())
    planner.declare_intent(INTENT).wait(20)
    own_world.gate.hold()
    own_kafka.kill()
    early = planner.declare_intent(INTENT, version=2)
    late = Planner(own_world.connect()).declare_intent("acme/another/1")
    with pytest.raises(VerdictTimeout, match="still on its way"):
        late.wait(0.5)
    own_kafka.restart()
    own_world.gate.go_on()
    assert early.wait(60).accepted
    assert late.wait(60).accepted


def test_a_delivery_that_times_out_on_a_real_broker_is_decided_once(own_world: Any, own_kafka: Any) -> None:
    """Field case C19: the report says timed out, the record may be there; sent again, it is one claim."""
    connection = own_world.connect(delivery_timeout_s=0.5)
    planner = Planner(connection)
    planner.declare_intent(INTENT).wait(20)
    own_kafka.pause()
    pending = planner.declare_intent(INTENT, version=2, claim_id="c19")
    own_world.until(lambda: "timed out" in connection._sender.problem.lower(), "the report of a time-out")
    own_kafka.resume()
    assert pending.wait(60).verdict == "ACCEPTED"
    connection.flush(30)
    copies = [claim for _, claim in own_world.gate.heard if claim.claim_id == "c19"]
    assert len(copies) >= 1
    assert all(copy == copies[0] for copy in copies)


_CANCELLING = """
import sys, time
from joingate_producers import Connection, Planner
bootstrap, prefix, outbox = sys.argv[1:]
connection = Connection(bootstrap_servers=bootstrap, prefix=prefix, outbox=outbox, client={"log_level": "0"})
Planner(connection, "tester").cancel_intent("acme/fee-reversal/txn-77120", claim_id="c-cancel")
print("cancelled", flush=True)
time.sleep(3600)
"""


def test_a_cancel_survives_kill_9_while_the_broker_is_away(own_world: Any, own_kafka: Any, tmp_path: Any) -> None:
    """The process said that it cancelled, and died with the broker out of reach: the next one sends that claim."""
    outbox = tmp_path / f"{uuid.uuid4()}.outbox"
    own_kafka.pause()
    victim = subprocess.Popen(
        [sys.executable, "-c", _CANCELLING, own_kafka.bootstrap_servers, own_world.gate.topics.prefix, str(outbox)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert victim.stdout.readline().strip() == "cancelled"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    own_kafka.resume()
    connection = own_world.connect(outbox=outbox)
    own_world.until(lambda: own_world.gate.types() == ["CancelIntent"], "the cancel")
    assert own_world.gate.heard[0][1].claim_id == "c-cancel"
    connection.close()
    assert len(Outbox(outbox)) == 0
