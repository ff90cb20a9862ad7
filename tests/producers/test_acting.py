"""An executor made of decorated functions: places and limits, order, preparation, and how it comes to an end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from joingate_producers import (
    Actions,
    Applied,
    Context,
    Executor,
    NothingHappened,
    NotSent,
    OutboxBroken,
    Outcome,
    Retry,
)
from joingate_producers.executor import _signals_to
from joingate_producers.outbox import Effect, Outbox
from joingate_schemas.claims import Abort, Commit, InDoubt, Prepared

LONG_S = 3_600.0


class Serving:
    """An executor called messenger whose loop runs in a thread."""

    def __init__(self, world: Any, actions: Actions, **options: Any) -> None:
        self.executor = Executor(world.connect(outbox=world.outbox), "messenger")
        self.stop, self.hurry = threading.Event(), threading.Event()
        self.failures: list[BaseException] = []
        self.thread = threading.Thread(target=self._run, args=(actions, options))
        self.thread.start()

    def _run(self, actions: Actions, options: dict[str, Any]) -> None:
        try:
            self.executor.serve(actions, self.stop, hurry=self.hurry, **options)
        except BaseException as error:
            self.failures.append(error)

    def end(self) -> None:
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.executor.connection.close()


@contextmanager
def serving(world: Any, actions: Actions, **options: Any) -> Iterator[Serving]:
    """Ends with the block, and raises what the loop raised."""
    made = Serving(world, actions, **options)
    try:
        yield made
    finally:
        made.end()
    if made.failures:
        raise made.failures[0]


class Slow:
    """An effect that begins, says so, and ends when it is let."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.most = 0
        self.now = 0
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, context: Context) -> Outcome:
        with self._lock:
            self.begun.append(context.business_key)
            self.now += 1
            self.most = max(self.most, self.now)
        assert self.go_on.wait(60)
        with self._lock:
            self.now -= 1
        return Applied(f"ext-{context.business_key}")


def _actions(function: Callable[[Context], Any], name: str = "notify", **declared: Any) -> Actions:
    actions = Actions()
    actions.action(name, **declared)(function)
    return actions


def _claims(world: Any, kind: type, count: int = 1) -> list[Any]:
    world.until(lambda: len(world.gate.claims(kind)) >= count, f"{count} {kind.__name__}")
    found: list[Any] = world.gate.claims(kind)
    return found


@pytest.mark.parametrize("kind", ["PREPARE", "EXECUTE"])
def test_sync_and_async_functions_act_under_the_operation_s_key(world: Any, kind: str) -> None:
    """Both with what their prepare function returned, which ran before the permit was asked for."""
    world.gate.rule = world.gate.permits()
    actions = Actions()

    @actions.action("notify")
    def notify(context: Context) -> Outcome:
        return Applied(f"{context.key}/{context.prepared}", idempotency_key=context.key)

    @notify.prepare
    def look(context: Context) -> str:
        return f"seen {context.business_key}"

    @actions.action("tell", timeout_s=60)
    async def tell(context: Context) -> Outcome:
        await asyncio.sleep(0)
        return Applied(f"{context.key}/{context.prepared}", idempotency_key=context.key)

    @tell.prepare
    async def look_too(context: Context) -> str:
        return f"seen {context.business_key}"

    with serving(world, actions):
        made = [
            world.gate.command("messenger", kind=kind, action="notify", business_key="k1"),
            world.gate.command("messenger", kind=kind, action="tell", business_key="k2"),
        ]
        commits = _claims(world, Commit, 2)
    expected = {f"{one.operation_id}/seen {one.business_key}" for one in made}
    assert {one.external_id for one in commits} == expected
    assert len(world.gate.claims(Prepared)) == (2 if kind == "PREPARE" else 0)


def test_a_preparation_that_comes_to_nothing_gives_the_attempt_back(memory_world: Any) -> None:
    """No permit is asked for, and nothing is done."""
    slow = Slow()
    actions = _actions(slow)

    @actions["notify"].prepare
    def look(context: Context) -> None:
        raise NothingHappened("the account is closed")

    with serving(memory_world, actions):
        memory_world.gate.command("messenger", kind="PREPARE")
        (abort,) = _claims(memory_world, Abort)
    assert (abort.proof, abort.error) == ("NOT_SENT", "the account is closed")
    assert memory_world.gate.claims(Prepared) == []
    assert slow.begun == []


def test_a_withdrawal_during_a_preparation_is_heard(memory_world: Any) -> None:
    """No permit is asked for when it ends, and its place is free for another."""
    memory_world.gate.rule = memory_world.gate.permits()
    begun, go_on = threading.Event(), threading.Event()
    actions = _actions(lambda context: Applied(context.business_key))

    @actions["notify"].prepare
    def look(context: Context) -> None:
        if context.business_key == "k1":
            begun.set()
            assert go_on.wait(60)

    with serving(memory_world, actions, threads=2):
        memory_world.gate.command("messenger", kind="PREPARE", business_key="k1")
        assert begun.wait(30)
        memory_world.gate.command("messenger", kind="WITHDRAW", business_key="k1")
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        _claims(memory_world, Commit)
        go_on.set()
        for number in range(3, 7):
            memory_world.gate.command("messenger", kind="PREPARE", business_key=f"k{number}")
        commits = _claims(memory_world, Commit, 5)
    assert sorted(one.external_id for one in commits) == ["k2", "k3", "k4", "k5", "k6"]
    assert len(memory_world.gate.claims(Prepared)) == 4


def test_retries_stay_within_one_attempt_and_one_report(memory_world: Any) -> None:
    """The gate hears of it once, when it is known what came of it."""
    memory_world.gate.rule = memory_world.gate.permits()
    keys: list[str] = []

    def act(context: Context) -> Outcome:
        keys.append(context.key)
        if context.send < 3:
            raise TimeoutError("no reply")
        return Applied("ext", idempotency_key=context.key)

    retry = Retry(tries=3, first_s=0, most_s=0, on=(TimeoutError,))
    with serving(memory_world, _actions(act, retry=retry)):
        command = memory_world.gate.command("messenger", kind="PREPARE")
        _claims(memory_world, Commit)
    assert keys == [command.operation_id] * 3
    assert [type(one) for _, one in memory_world.gate.heard] == [Prepared, Commit]


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PREPARE", "EXECUTE"])
def test_limits_hold_in_all_and_for_each_action(memory_world: Any, kind: str) -> None:
    """One action at its limit keeps no place from the others."""
    memory_world.gate.rule = memory_world.gate.permits()
    rare, common = Slow(), Slow()
    actions = Actions()
    actions.action("rare", at_once_max=1)(rare)
    actions.action("common")(common)
    with serving(memory_world, actions, threads=3):
        for number in range(4):
            memory_world.gate.command("messenger", kind=kind, action="rare", business_key=f"r{number}")
        for number in range(4):
            memory_world.gate.command("messenger", kind=kind, action="common", business_key=f"c{number}")
        memory_world.until(lambda: (rare.now, common.now) == (1, 2), "three effects")
        rare.go_on.set()
        common.go_on.set()
        _claims(memory_world, Commit, 8)
    assert rare.most == 1
    assert common.most <= 3
    assert len(set(rare.begun)) == len(set(common.begun)) == 4
    assert memory_world.gate.claims(Abort) == []


def test_permits_are_asked_for_only_when_there_is_a_place(memory_world: Any) -> None:
    """So that none runs out behind a long effect."""
    memory_world.gate.rule = memory_world.gate.permits()
    slow = Slow()
    with serving(memory_world, _actions(slow), threads=1):
        for number in range(5):
            memory_world.gate.command("messenger", kind="PREPARE", business_key=f"k{number}")
        memory_world.gate.command("messenger", kind="EXECUTE", action="sing", business_key="last")
        _claims(memory_world, InDoubt)  # the last command has been heard
        memory_world.until(lambda: slow.begun, "the first effect")
        assert len(memory_world.gate.claims(Prepared)) == 1
        slow.go_on.set()
        _claims(memory_world, Commit, 5)


def test_a_flood_of_commands_to_prepare_is_taken_in_portions(
    memory_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more is kept in memory than may be; permits are heard by the verdicts meanwhile, and all is done."""
    monkeypatch.setattr("joingate_producers.worker._PREPARES_MAX", 2)
    memory_world.gate.rule = memory_world.gate.permits()
    with serving(memory_world, _actions(lambda context: Applied(context.business_key)), threads=1):
        for number in range(12):
            memory_world.gate.command("messenger", kind="PREPARE", business_key=f"k{number}")
        _claims(memory_world, Commit, 12)
    assert memory_world.gate.claims(Abort) == []


def test_a_command_to_another_executor_is_dropped(memory_world: Any) -> None:
    """Wherever it lies: who acts for whom is the gate's to say."""
    done: list[str] = []

    def act(context: Context) -> Outcome:
        done.append(context.business_key)
        return Applied("ext")

    with serving(memory_world, _actions(act)):
        stranger = memory_world.gate.command("stranger", kind="EXECUTE")
        memory_world.gate.raw_command("messenger", memory_world.gate.codec.encode(stranger))
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        _claims(memory_world, Commit)
    assert done == ["k2"]


def test_a_withdrawal_while_it_waits_for_its_place_leaves_no_position_behind(memory_world: Any) -> None:
    """What was withdrawn is done with: the group's position moves past it."""
    slow = Slow()
    with serving(memory_world, _actions(slow), threads=1):
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k1")
        memory_world.until(lambda: slow.begun, "the first")
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        last = memory_world.gate.command("messenger", kind="WITHDRAW", business_key="k2")
        slow.go_on.set()
        where = ("t.executor.messenger", "t.commands.messenger", last.partition)
        memory_world.until(lambda: memory_world.memory.committed.get(where) == 3, "the position behind all three")
    assert slow.begun == ["k1"]


def test_attempts_of_an_operation_act_one_after_the_other(memory_world: Any) -> None:
    """A long one that the gate took for silent is sent again: not beside the first, and not after its success."""
    slow = Slow()
    with serving(memory_world, _actions(slow), threads=4):
        memory_world.gate.command("messenger", kind="EXECUTE", attempt=1)
        memory_world.until(lambda: slow.begun, "the first attempt")
        memory_world.gate.command("messenger", kind="EXECUTE", attempt=2)
        memory_world.gate.command("messenger", kind="EXECUTE", action="sing", business_key="k2")
        _claims(memory_world, InDoubt)  # the second attempt has been heard
        assert slow.now == 1
        slow.go_on.set()
        _claims(memory_world, Commit)
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k3")
        commits = _claims(memory_world, Commit, 2)
    assert slow.begun == ["k1", "k3"]
    assert [one.attempt for one in commits] == [1, 1]


def test_an_attempt_that_was_given_up_sends_no_more(memory_world: Any) -> None:
    """Its successor sends instead, and only when it has ended: the fencing token is heard in the executor too."""
    sends: list[tuple[int, int]] = []
    begun = threading.Event()

    def act(context: Context) -> Outcome:
        sends.append((context.attempt, context.send))
        begun.set()
        if context.attempt == 1:
            raise TimeoutError("no reply")
        return Applied("ext")

    retry = Retry(tries=9, first_s=1_000, most_s=1_000, on=(TimeoutError,))
    with serving(memory_world, _actions(act, retry=retry)):
        memory_world.gate.command("messenger", kind="EXECUTE", attempt=1, permit_ms=4_000_000)
        assert begun.wait(30)
        memory_world.gate.command("messenger", kind="EXECUTE", attempt=2)
        _claims(memory_world, Commit)
    assert sends == [(1, 1), (2, 1)]
    assert [one.attempt for one in memory_world.gate.claims(InDoubt)] == [1]


# --- one phase, several processes ------------------------------------------------------------------------------------


def test_not_sent_of_a_command_that_another_may_have_had_is_a_doubt(memory_world: Any) -> None:
    """Field case C12: it lay there before this process came, so that one that is gone may have acted on it."""
    memory_world.gate.command("messenger", kind="EXECUTE")
    with serving(memory_world, _actions(lambda context: NotSent("no route"))):
        (doubt,) = _claims(memory_world, InDoubt)
        assert "another process may have been given the command before" in doubt.cause
        # The control: what was written since came to nobody else.
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        (abort,) = _claims(memory_world, Abort)
    assert (abort.proof, abort.error) == ("NOT_SENT", "no route")


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_drain_lets_end_what_runs_and_begins_nothing(memory_world: Any) -> None:
    """What has a permit, or may get one, is given back with proof; a plain command is left for the next process."""
    slow = Slow()
    actions = _actions(slow, at_once_max=1)
    actions.action("other")(lambda context: Applied("ext"))
    memory_world.gate.rule = lambda claim: None if isinstance(claim, Prepared) else memory_world.ruling()
    made = Serving(memory_world, actions, threads=3, drain_s=LONG_S)
    memory_world.gate.command("messenger", kind="EXECUTE", business_key="runs")
    memory_world.until(lambda: slow.begun, "the effect")
    memory_world.gate.command("messenger", kind="EXECUTE", business_key="waits")
    asked = memory_world.gate.command("messenger", kind="PREPARE", action="other", business_key="asked")
    _claims(memory_world, Prepared)
    made.stop.set()
    (abort,) = _claims(memory_world, Abort)
    assert (abort.operation_id, abort.proof) == (asked.operation_id, "NOT_SENT")
    assert made.thread.is_alive(), "it waits for what runs"
    slow.go_on.set()
    made.end()
    assert made.failures == []
    assert [one.external_id for one in _claims(memory_world, Commit)] == ["ext-runs"]
    assert memory_world.gate.claims(InDoubt) == []
    # The next process of the group finds what was not begun.
    with serving(memory_world, actions):
        _claims(memory_world, Commit, 2)
    assert slow.begun == ["runs", "waits"]


@pytest.mark.parametrize("by", ["deadline", "hurry"])
def test_what_does_not_end_in_a_drain_is_reported_in_doubt(memory_world: Any, by: str) -> None:
    """At the deadline, or when it is told to hurry; and its late end is told too, for it is true."""
    slow = Slow()
    made = Serving(memory_world, _actions(slow), drain_s=0.05 if by == "deadline" else LONG_S)
    command = memory_world.gate.command("messenger", kind="EXECUTE")
    memory_world.until(lambda: slow.begun, "the effect")
    made.stop.set()
    if by == "hurry":
        made.hurry.set()
    made.thread.join(60)
    assert not made.thread.is_alive()
    (doubt,) = _claims(memory_world, InDoubt)
    assert (doubt.operation_id, doubt.attempt) == (command.operation_id, 1)
    assert "stopped before the effect came to an end" in doubt.cause
    slow.go_on.set()
    _claims(memory_world, Commit)
    made.end()
    # Neither report is made again, and the command does not come again.
    with serving(memory_world, _actions(slow)):
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        _claims(memory_world, Commit, 2)
    assert slow.begun == ["k1", "k2"]
    assert len(memory_world.gate.claims(InDoubt)) == 1


def test_an_async_effect_that_does_not_end_in_a_drain_is_cancelled_and_in_doubt(memory_world: Any) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def act(context: Context) -> Outcome:
        begun.set()
        try:
            await asyncio.sleep(LONG_S)
        finally:
            ended.set()
        return Applied("ext")

    with serving(memory_world, _actions(act), drain_s=0.05):
        memory_world.gate.command("messenger", kind="EXECUTE")
        assert begun.wait(30)
    _claims(memory_world, InDoubt)
    assert ended.wait(30)
    assert memory_world.gate.claims(Commit) == []


def test_a_drain_ends_the_waits_between_sends(memory_world: Any) -> None:
    """No further send begins, and what was unclear is reported so."""
    begun = threading.Event()

    def act(context: Context) -> Outcome:
        begun.set()
        raise TimeoutError("no reply")

    retry = Retry(tries=2, first_s=1_000, most_s=1_000, on=(TimeoutError,))
    with serving(memory_world, _actions(act, retry=retry), drain_s=LONG_S):
        memory_world.gate.command("messenger", kind="EXECUTE", permit_ms=4_000_000)
        assert begun.wait(30)
    assert [one.cause for one in _claims(memory_world, InDoubt)] == ["TimeoutError: no reply"]


# --- the record before the effect ------------------------------------------------------------------------------------


class Disk:
    """Stands before an outbox's note, as a disk that is slow or full does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noting, self.go_on = threading.Event(), threading.Event()
        self.full = False
        original = Outbox.begin_effect

        def noted(outbox: Outbox, effect: Effect) -> bool:
            self.noting.set()
            assert self.go_on.wait(60)
            if self.full:
                raise OutboxBroken("The outbox can't be written: database or disk is full.")
            return original(outbox, effect)

        monkeypatch.setattr(Outbox, "begin_effect", noted)


def test_a_permit_that_runs_out_while_the_note_is_written_begins_nothing(
    memory_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk: the time is looked at again behind it, and as nothing was sent, that can be said."""
    disk = Disk(monkeypatch)
    slow = Slow()
    over = threading.Event()
    monkeypatch.setattr("joingate_producers.tries.Leave.holds", lambda leave: not over.is_set())
    memory_world.gate.rule = memory_world.gate.permits()
    with serving(memory_world, _actions(slow)):
        memory_world.gate.command("messenger", kind="PREPARE")
        assert disk.noting.wait(30)
        over.set()
        disk.go_on.set()
        (abort,) = _claims(memory_world, Abort)
    assert abort.proof == "NOT_SENT"
    assert slow.begun == []


def test_without_a_record_there_is_no_effect(memory_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the loop ends with a sentence rather than act without a note."""
    disk = Disk(monkeypatch)
    disk.full = True
    disk.go_on.set()
    slow = Slow()
    made = Serving(memory_world, _actions(slow))
    memory_world.gate.command("messenger", kind="EXECUTE")
    made.thread.join(60)
    made.end()
    assert slow.begun == []
    assert [str(one) for one in made.failures] == ["The outbox can't be written: database or disk is full."]


def test_a_report_that_the_disk_does_not_take_is_sent_all_the_same(
    memory_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect is there, and this process alone knows; the note stays, and the next start says doubt, too late."""
    original = Outbox.put

    def put(outbox: Outbox, *arguments: Any, **named: Any) -> int:
        if len(arguments) > 5 and arguments[5] is not None:
            raise OutboxBroken("The outbox can't be written: database or disk is full.")
        return original(outbox, *arguments, **named)

    monkeypatch.setattr(Outbox, "put", put)
    made = Serving(memory_world, _actions(lambda context: Applied("ext")))
    command = memory_world.gate.command("messenger", kind="EXECUTE")
    made.thread.join(60)
    made.end()
    assert [one.external_id for one in _claims(memory_world, Commit)] == ["ext"]
    assert [type(one) for one in made.failures] == [OutboxBroken]
    monkeypatch.undo()
    slow = Slow()
    slow.go_on.set()
    with serving(memory_world, _actions(slow)):
        (doubt,) = _claims(memory_world, InDoubt)
        memory_world.gate.command("messenger", kind="EXECUTE", business_key="k2")
        _claims(memory_world, Commit, 2)
    assert doubt.operation_id == command.operation_id
    assert slow.begun == ["k2"]


_FILLING = """
import resource, sys
from pathlib import Path
from joingate_producers import OutboxBroken
from joingate_producers.outbox import Effect, Outbox

outbox = Outbox(Path(sys.argv[1]))
assert outbox.begin_effect(Effect("first", 1, "intent"))
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, most))
noted = 0
try:
    while noted < 100_000:
        outbox.begin_effect(Effect(f"op-{noted}", 1, "intent" * 100))
        noted += 1
except OutboxBroken as error:
    print(noted, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
print(outbox.begin_effect(Effect("last", 1, "intent")))
"""


def test_a_full_disk_refuses_the_note_and_harms_none_before_it(tmp_path: Path) -> None:
    """On a real file that may not grow: what was confirmed is there, what was refused is not, and room mends it."""
    path = tmp_path / "full.outbox"
    done = subprocess.run(
        [sys.executable, "-c", _FILLING, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    refused, mended = done.stdout.splitlines()
    assert "can't be written" in refused
    assert mended == "True"
    noted = int(refused.split()[0])
    left = {one.operation_id for one in Outbox(path, 200_000).take_left_behind()}
    assert left == {"first", "last", *(f"op-{number}" for number in range(noted))}


def test_a_loop_that_is_full_of_long_effects_still_hears(memory_world: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its thread waits for none of them: what needs no place is answered at once."""
    caplog.set_level(logging.CRITICAL)
    slow = Slow()
    with serving(memory_world, _actions(slow), threads=1):
        memory_world.gate.command("messenger", kind="EXECUTE")
        memory_world.until(lambda: slow.begun, "the long effect")
        memory_world.gate.command("messenger", kind="PREPARE", action="sing", business_key="k2")
        _claims(memory_world, Abort)
        slow.go_on.set()
        _claims(memory_world, Commit)


class Interrupted(threading.Event):
    """An event that is interrupted by a further signal before it is set."""

    def set(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        super().set()


def test_a_signal_amid_the_handling_of_another_hurries_and_blocks_nobody() -> None:
    stop, hurry = Interrupted(), threading.Event()
    with _signals_to(stop, hurry):
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()
    assert hurry.is_set()
