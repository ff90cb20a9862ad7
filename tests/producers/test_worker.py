"""An executor's loop acts at most once, only with a permit in time, and never loses or invents an outcome."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from joingate_producers import (
    Applied,
    CommandStream,
    Connection,
    Doubt,
    Executor,
    JoinGateError,
    NotSent,
    Outcome,
    Refused,
)
from joingate_producers.outbox import Effect, Outbox
from joingate_schemas.claims import Abort, Commit, InDoubt, Prepared
from joingate_schemas.decisions import Command


class Effects:
    """A handler that remembers what it was asked to do."""

    def __init__(self, outcome: Callable[[Command], Outcome]) -> None:
        self.seen: list[Command] = []
        self._outcome = outcome

    def __call__(self, command: Command) -> Outcome:
        self.seen.append(command)
        return self._outcome(command)


def _applied(command: Command) -> Outcome:
    return Applied(f"ext-{command.business_key}", ["seen"], "done", command.operation_id)


@contextmanager
def serving(world: Any, handler: Callable[[Command], Outcome], **options: Any) -> Iterator[Executor]:
    """An executor called messenger whose loop runs; ends with the block, and raises what the loop raised."""
    executor = Executor(world.connect(outbox=world.outbox), "messenger")
    stop, failures = threading.Event(), []

    def run() -> None:
        try:
            executor.serve({"notify": handler}, stop, **options)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield executor
    finally:
        stop.set()
        thread.join()
        executor.connection.close()
    if failures:
        raise failures[0]


def _one(world: Any, kind: type) -> Any:
    world.until(lambda: world.gate.claims(kind), f"a {kind.__name__}")
    return world.gate.claims(kind)[0]


def test_two_phases_prepare_permit_effect_commit(world: Any) -> None:
    """The handler runs once, with the operation id as its key, and the Commit names the command that caused it."""
    world.gate.rule = world.gate.permits()
    handler = Effects(_applied)
    with serving(world, handler) as executor:
        command = world.gate.command("messenger", kind="PREPARE")
        commit = _one(world, Commit)
    prepared = world.gate.claims(Prepared)
    assert [(one.executor, one.worker, one.attempt) for one in prepared] == [("messenger", executor.worker, 1)]
    assert [one.operation_id for one in handler.seen] == [command.operation_id]
    assert (commit.external_id, commit.evidence, commit.result) == ("ext-k1", ["seen"], "done")
    assert commit.idempotency_key == command.operation_id
    permit = handler.seen[0]
    assert (permit.kind, permit.worker) == ("PERMIT", executor.worker)
    assert commit.caused_by == f"{permit.partition}/{permit.ledger_seq}"


def test_a_permit_whose_command_went_to_another_process_is_read_from_the_verdict(world: Any) -> None:
    """As when a partition moves between asking and answer: the ledger says who may act, so nothing is lost."""
    world.gate.rule = world.gate.permits(by_command=False)
    handler = Effects(_applied)
    with serving(world, handler) as executor:
        command = world.gate.command("messenger", kind="PREPARE")
        commit = _one(world, Commit)
        verdict_seq = 1  # of the Prepared, the first decision there is
        world.gate.command(
            "messenger", kind="PERMIT", worker=executor.worker, ledger_seq=command.ledger_seq + 100, business_key="k1"
        )
        world.gate.command("messenger", kind="EXECUTE", ledger_seq=command.ledger_seq + 101, business_key="k2")
        world.until(lambda: len(world.gate.claims(Commit)) == 2, "the commit of the other operation")
    assert commit.caused_by == f"{command.partition}/{verdict_seq}"
    assert [one.business_key for one in handler.seen] == ["k1", "k2"], "the command that came late changed nothing"
    assert world.gate.claims(Abort) == []


def test_one_phase_executes_at_once(world: Any) -> None:
    """EXECUTE is preparation and permit in one."""
    handler = Effects(_applied)
    with serving(world, handler):
        world.gate.command("messenger", kind="EXECUTE")
        _one(world, Commit)
    assert world.gate.claims(Prepared) == []
    assert len(handler.seen) == 1


def _raises(_: Command) -> Outcome:
    raise ConnectionResetError("the line went dead")


@pytest.mark.parametrize(
    ("handler", "kind", "expected"),
    [
        (lambda c: Refused("declined", ["r-1"]), Abort, {"proof": "REFUSED", "error": "declined", "evidence": ["r-1"]}),
        (lambda c: NotSent("no route"), Abort, {"proof": "NOT_SENT", "error": "no route"}),
        (lambda c: Doubt("no reply", ["t"]), InDoubt, {"cause": "no reply", "evidence": ["t"]}),
        (_raises, InDoubt, {"cause": "ConnectionResetError: the line went dead"}),
        (lambda c: None, InDoubt, {"cause": "the handler returned NoneType, which is no outcome"}),
        (
            lambda c: Applied(cast(str, 7)),
            InDoubt,
            {"cause": "its Applied could not be reported: external_id"},
        ),
    ],
    ids=["refused", "not sent", "doubt", "exception", "no outcome", "unreportable"],
)
def test_what_the_handler_says_is_what_is_reported(
    memory_world: Any, handler: Callable[[Command], Any], kind: type, expected: dict[str, Any]
) -> None:
    """Only a plain refusal or a certain not-sent is an abort; all else that is no success is a doubt."""
    memory_world.gate.rule = memory_world.gate.permits()
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="PREPARE")
        report = _one(memory_world, kind)
    assert {name: getattr(report, name) for name in expected} == expected


def test_a_command_that_comes_twice_acts_once(world: Any) -> None:
    """The same ledger position again, or the same attempt under another: one effect, one report."""
    handler = Effects(_applied)
    with serving(world, handler):
        first = world.gate.command("messenger", kind="EXECUTE", ledger_seq=5)
        world.gate.command("messenger", kind="EXECUTE", ledger_seq=5)
        world.gate.command("messenger", kind="EXECUTE", ledger_seq=6)
        world.gate.command("messenger", kind="EXECUTE", ledger_seq=7, business_key="k2")
        world.until(lambda: len(world.gate.claims(Commit)) == 2, "two commits")
    assert sorted(one.business_key for one in handler.seen) == ["k1", "k2"]
    assert first.operation_id in {one.operation_id for one in world.gate.claims(Commit)}


def test_a_command_of_a_replaced_gate_is_refused(memory_world: Any) -> None:
    """Its epoch is below one that was seen on the same ledger partition."""
    handler = Effects(_applied)
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="EXECUTE", epoch=3)
        memory_world.gate.command("messenger", kind="EXECUTE", epoch=2, business_key="k2")
        memory_world.gate.command("messenger", kind="EXECUTE", epoch=3, business_key="k3")
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 2, "two commits")
    assert sorted(one.business_key for one in handler.seen) == ["k1", "k3"]


def test_one_decision_may_command_several_operations(memory_world: Any) -> None:
    """They share a ledger position, and each is done."""
    handler = Effects(_applied)
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="EXECUTE", ledger_seq=5)
        memory_world.gate.command("messenger", kind="EXECUTE", ledger_seq=5, business_key="k2")
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 2, "two commits")


def test_a_permit_for_another_process_is_not_acted_on(memory_world: Any) -> None:
    """Nor one that nobody here asked for; of that, this process can say that it never began."""
    handler = Effects(_applied)
    with serving(memory_world, handler) as executor:
        memory_world.gate.command("messenger", kind="PERMIT", worker="somebody else")
        memory_world.gate.command("messenger", kind="PERMIT", worker=executor.worker, business_key="k2")
        abort = _one(memory_world, Abort)
    assert handler.seen == []
    assert abort.proof == "NOT_SENT"
    assert len(memory_world.gate.claims(Abort)) == 1


def test_a_permit_that_comes_too_late_is_given_back(memory_world: Any) -> None:
    """Its time runs from before Prepared was sent, on this process's clock; then only NOT_SENT may be said."""
    handler = Effects(_applied)
    memory_world.gate.rule = memory_world.gate.permits(permit_ms=1)
    with serving(memory_world, handler):
        memory_world.gate.hold()
        memory_world.gate.command("messenger", kind="PREPARE", permit_ms=1)
        memory_world.until(lambda: memory_world.memory.rows("t.outcomes"), "the Prepared")
        memory_world.gate.go_on()
        abort = _one(memory_world, Abort)
    assert handler.seen == []
    assert abort.proof == "NOT_SENT"


def test_a_withdrawn_attempt_is_forgotten(memory_world: Any) -> None:
    """Even if its permit was under way."""
    handler = Effects(_applied)
    with serving(memory_world, handler) as executor:
        memory_world.gate.command("messenger", kind="PREPARE", ledger_seq=1)
        _one(memory_world, Prepared)
        memory_world.gate.command("messenger", kind="WITHDRAW", ledger_seq=2)
        memory_world.gate.command("messenger", kind="PERMIT", ledger_seq=3, worker=executor.worker)
        assert _one(memory_world, Abort).proof == "NOT_SENT"
    assert handler.seen == []


def test_an_action_without_handler_is_given_back_before_any_permit(memory_world: Any) -> None:
    """Rather than left to the gate's timers."""
    with serving(memory_world, _applied):
        memory_world.gate.command("messenger", kind="PREPARE", action="dance")
        given_back = _one(memory_world, Abort)
    assert memory_world.gate.claims(Prepared) == []
    assert (given_back.proof, given_back.error) == ("NOT_SENT", "this executor has no handler for the action dance")


def test_an_execute_without_handler_is_a_doubt(memory_world: Any) -> None:
    """The command is a permit too: a process that has the handler may have acted on it before it came here."""
    with serving(memory_world, _applied):
        memory_world.gate.command("messenger", kind="EXECUTE", action="sing")
        doubt = _one(memory_world, InDoubt)
    assert doubt.cause == "this executor has no handler for the action sing"
    assert memory_world.gate.claims(Abort) == []


def test_an_execute_from_long_ago_is_dropped_without_a_word(memory_world: Any) -> None:
    """Somebody may have acted on it: neither to act nor to deny it would be honest."""
    handler = Effects(_applied)
    long_ago = int(time.time() * 1000) - 86_400_000
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="EXECUTE", issued_at=long_ago)
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        _one(memory_world, Commit)
    assert [one.business_key for one in handler.seen] == ["k2"]
    assert memory_world.gate.claims(Abort) == []


def test_a_command_that_can_t_be_read_stops_nothing_else(world: Any) -> None:
    """It is passed over; the ones behind it are done."""
    handler = Effects(_applied)
    with serving(world, handler):
        world.gate.raw_command("messenger", b"\xc3\x01garbage")
        world.gate.command("messenger", kind="EXECUTE")
        _one(world, Commit)


def test_what_is_begun_is_finished_before_the_loop_ends(memory_world: Any) -> None:
    """Stopping waits for the effect under way and its report; the next command is left for the next process."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(command: Command) -> Outcome:
        begun.set()
        assert go_on.wait(30)
        return _applied(command)

    executor = Executor(memory_world.connect(outbox=memory_world.outbox), "messenger")
    stop = threading.Event()
    thread = threading.Thread(target=executor.serve, args=({"notify": slow}, stop), kwargs={"threads": 1})
    thread.start()
    memory_world.gate.command("messenger", kind="EXECUTE")
    assert begun.wait(30)
    memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
    stop.set()
    go_on.set()
    thread.join()
    executor.connection.close()
    memory_world.until(lambda: len(memory_world.gate.claims(Commit)) >= 1, "the commit")
    done = len(memory_world.gate.claims(Commit))
    handler = Effects(_applied)
    with serving(memory_world, handler):
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 2, "both commits")
    assert len(handler.seen) == 2 - done, "each was done once, by one of the two processes"


def test_what_waits_for_a_thread_is_not_begun_once_it_is_withdrawn(memory_world: Any) -> None:
    """An EXECUTE behind a long effect: the gate knows by now how its operation ended, so it must not act."""
    begun, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow(command: Command) -> Outcome:
        seen.append(command.business_key)
        begun.set()
        assert go_on.wait(30)
        return _applied(command)

    with serving(memory_world, slow, threads=1):
        memory_world.gate.command("messenger", kind="EXECUTE")
        assert begun.wait(30)
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        memory_world.gate.command("messenger", kind="WITHDRAW", business_key="k2")
        # What comes behind it and needs no thread is answered once the withdrawal was heard.
        memory_world.gate.command("messenger", kind="EXECUTE", action="sing", business_key="k3")
        memory_world.until(lambda: memory_world.gate.claims(InDoubt), "what comes behind the withdrawal")
        go_on.set()
        memory_world.until(lambda: memory_world.gate.claims(Commit), "the commit of the first")
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k4")
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 2, "the commit of the last")
    assert seen == ["k1", "k4"]


def test_an_execute_whose_time_is_over_is_not_acted_on(memory_world: Any) -> None:
    """The gate takes what it sent for landed from `act_until` and the longest way on: nothing may begin later."""
    now = int(time.time() * 1000)
    handler = Effects(_applied)
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="EXECUTE", act_until=now - 1)
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2", act_until=now + 60_000)
        memory_world.until(lambda: memory_world.gate.claims(Commit), "the commit of the second")
    assert [one.business_key for one in handler.seen] == ["k2"]
    assert memory_world.gate.claims(Abort) == []


def test_more_commands_than_threads_are_all_done(memory_world: Any) -> None:
    """Permits are asked for as threads come free, so that none runs out in a queue."""
    memory_world.gate.rule = memory_world.gate.permits()
    handler = Effects(_applied)
    with serving(memory_world, handler, threads=2):
        for number in range(20):
            memory_world.gate.command("messenger", kind="PREPARE", business_key=f"k{number}")
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 20, "20 commits")
    assert len({one.operation_id for one in handler.seen}) == len(handler.seen) == 20
    assert memory_world.gate.claims(Abort) == []


def test_refused_prepares_free_their_places(memory_world: Any) -> None:
    """A backlog of attempts that the gate no longer wants is worked off, not waited out."""
    memory_world.gate.rule = lambda claim: memory_world.ruling("REJECTED", "STALE_ATTEMPT")
    with serving(memory_world, _applied, threads=1):
        for number in range(6):
            memory_world.gate.command("messenger", kind="PREPARE", business_key=f"k{number}", permit_ms=3_600_000)
        memory_world.until(lambda: len(memory_world.gate.claims(Prepared)) == 6, "6 Prepareds")


def test_a_loop_needs_an_outbox(memory_world: Any) -> None:
    """Without one it could not note down what it is about to do."""
    with pytest.raises(JoinGateError, match="needs an outbox"):
        Executor(memory_world.connect(), "messenger").serve({}, threading.Event())


_CRASHING = """
import sys, threading, time
from joingate_producers import Applied, Connection, Executor

bootstrap, prefix, outbox, where = sys.argv[1:]

def handler(command):
    print("EFFECT", command.operation_id, flush=True)
    if where == "in the effect":
        time.sleep(3600)
    return Applied("ext-1")

connection = Connection(bootstrap_servers=bootstrap, prefix=prefix, principal="messenger", outbox=outbox)
Executor(connection).serve({"notify": handler}, threading.Event())
"""


@pytest.mark.broker
def test_kill_9_in_an_effect_is_reported_as_doubt_and_never_acted_on_again(
    broker_world: Any, bootstrap: str, tmp_path: Path
) -> None:
    """The note is on disk before the effect, so the next start tells the gate, and refuses the same command."""
    topics, outbox = broker_world.gate.topics, tmp_path / "crash.outbox"
    victim = subprocess.Popen(
        [sys.executable, "-c", _CRASHING, bootstrap, topics.prefix, str(outbox), "in the effect"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    command = broker_world.gate.command("messenger", kind="EXECUTE")
    assert victim.stdout.readline().split() == ["EFFECT", command.operation_id]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    handler = Effects(_applied)
    executor = Executor(broker_world.connect(outbox=outbox), "messenger")
    stop = threading.Event()
    thread = threading.Thread(target=executor.serve, args=({"notify": handler}, stop))
    thread.start()
    try:
        doubt = _one(broker_world, InDoubt)
        assert doubt.operation_id == command.operation_id
        assert "ended between the start of the effect and its report" in doubt.cause
        # The dead member's session must end before this one is given its partitions, and the command again.
        broker_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        broker_world.until(lambda: broker_world.gate.claims(Commit), "the commit of the other operation")
    finally:
        stop.set()
        thread.join()
    assert [one.business_key for one in handler.seen] == ["k2"]


def test_an_outcome_that_was_noted_is_sent_by_the_next_process(memory_world: Any) -> None:
    """The process ended after the report was put and before it was sent: the Commit arrives, and nothing is redone."""
    outbox = Outbox(memory_world.outbox)
    command = memory_world.gate.command("messenger", kind="EXECUTE")
    assert outbox.begin_effect(Effect(command.operation_id, 1, command.intent_id))
    commit = Commit(
        claim_id="c1", intent_id=command.intent_id, operation_id=command.operation_id, attempt=1, evidence=[]
    )
    value = memory_world.gate.codec.encode(commit)
    outbox.put("c1", "t.outcomes", -1, command.intent_id.encode(), value, ends=(command.operation_id, 1))
    outbox.close()
    handler = Effects(_applied)
    with serving(memory_world, handler):
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        memory_world.until(lambda: len(memory_world.gate.claims(Commit)) == 2, "both commits")
    assert [one.business_key for one in handler.seen] == ["k2"]
    assert memory_world.gate.claims(InDoubt) == []


def test_the_stream_yields_commands_and_goes_on_where_it_was_left(world: Any) -> None:
    """A command counts as handled when the next is asked for; a new stream of the group begins behind it."""
    connection: Connection = world.connect()
    for number in range(3):
        world.gate.command("messenger", kind="WITHDRAW", business_key=f"k{number}")
    with CommandStream(connection, "messenger") as stream:
        taken = iter(stream)
        assert [next(taken).business_key for _ in range(2)] == ["k0", "k1"]
    with CommandStream(connection, "messenger") as stream:
        taken = iter(stream)
        assert [next(taken).business_key for _ in range(2)] == ["k1", "k2"]
