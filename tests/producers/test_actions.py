"""What a decorated function may declare, and how one effect is tried: one key, in time, and no guess at the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from joingate_producers import (
    Action,
    Actions,
    Applied,
    Context,
    Declined,
    Doubt,
    Executor,
    JoinGateError,
    NothingHappened,
    NotSent,
    Outcome,
    Refused,
    Retry,
)
from joingate_producers.tries import Coroutines, Leave, perform, prepare
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.decisions import Command

DONE = Applied("ext-1")


def _command(**fields: Any) -> Command:
    return Command(
        **{
            "kind": "PERMIT", "operation_id": "op-1", "attempt": 2, "generation": 1, "intent_id": "acme/1",
            "intent_version": 1, "plan_id": "p", "step_id": "s", "action": "pay", "business_key": "b",
            "arguments": {"amount": 12}, "downstream": "bank", "executor": "teller", "worker": "w",
            "commitment_id": None, "issued_at": 0, "permit_ms": 1_000, "act_until": 0, "partition": 0, "ledger_seq": 1,
            "epoch": 1, **fields,
        }
    )  # fmt: skip


def _leave(seconds: float = 60.0) -> Leave:
    return Leave(time.monotonic() + seconds)


@pytest.fixture
def coroutines() -> Iterator[Coroutines]:
    made = Coroutines()
    yield made
    made.close()


class Script:
    """A function that answers by a script: an outcome to return, or an exception to raise. Remembers its contexts."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.contexts: list[Context] = []

    def __call__(self, context: Context) -> Outcome:
        self.contexts.append(context)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


def _perform(script: Script, coroutines: Coroutines, leave: Leave | None = None, **retry: Any) -> Outcome:
    policy = Retry(**{"first_s": 0.0, "most_s": 0.0, **retry})
    return perform(Action("pay", script, retry=policy), _command(), "ready", leave or _leave(), coroutines)


def test_the_function_is_told_key_attempt_arguments_and_time(coroutines: Coroutines) -> None:
    script = Script(DONE)
    leave = _leave()
    assert _perform(script, coroutines, leave) == DONE
    (context,) = script.contexts
    assert (context.key, context.operation_id, context.attempt, context.send) == ("op-1", "op-1", 2, 1)
    assert (context.arguments, context.prepared, context.business_key) == ({"amount": 12}, "ready", "b")
    assert context.deadline_s == leave.deadline_s
    assert 0 < context.left_s <= 60


def test_a_decorated_function_can_be_called_as_one() -> None:
    """So that its author's tests need no gate."""
    actions = Actions()

    @actions.action("pay")
    def pay(context: Context) -> Outcome:
        return Applied(context.key)

    assert pay(Context("op-7")) == Applied("op-7")
    assert list(actions) == ["pay"]


@pytest.mark.parametrize(
    ("answers", "retry", "sends", "outcome"),
    [
        ([TimeoutError("no reply"), DONE], {"tries": 3, "on": (TimeoutError,)}, 2, DONE),
        ([TimeoutError("no reply")], {"tries": 3}, 1, Doubt("TimeoutError: no reply")),
        ([KeyError("a bug")], {"tries": 3, "on": (TimeoutError,)}, 1, Doubt("KeyError: 'a bug'")),
        ([Doubt("504"), DONE], {"tries": 2, "on": (Doubt,)}, 2, DONE),
        ([Doubt("504", ["e"])], {"tries": 2, "on": (TimeoutError,)}, 1, Doubt("504", ["e"])),
        ([NothingHappened("no route"), NotSent("no route"), DONE], {"tries": 3}, 3, DONE),
        ([NothingHappened("no route", ["e"])] * 2, {"tries": 2}, 2, NotSent("no route", ["e"])),
        ([Declined("card declined", ["e"])], {"tries": 9, "on": (Exception,)}, 1, Refused("card declined", ["e"])),
        ([SystemExit(1)], {"tries": 2}, 1, Doubt("SystemExit: 1")),
        # What a later send did not do, an earlier one may have done.
        ([TimeoutError("t"), NothingHappened("n")], {"tries": 2, "on": (TimeoutError,)}, 2, Doubt("TimeoutError: t")),
        ([Doubt("a", ["1"]), Doubt("b", ["2"])], {"tries": 2, "on": (Doubt,)}, 2, Doubt("a; b", ["1", "2"])),
        # The downstream speaks of the key, and so of the earlier send too.
        ([TimeoutError("t"), Declined("no")], {"tries": 2, "on": (TimeoutError,)}, 2, Refused("no")),
    ],
)
def test_what_is_tried_again_and_what_is_said_in_the_end(
    coroutines: Coroutines, answers: list[Any], retry: dict[str, Any], sends: int, outcome: Outcome
) -> None:
    script = Script(*answers)
    assert _perform(script, coroutines, **retry) == outcome
    assert [one.send for one in script.contexts] == list(range(1, sends + 1))
    assert {one.key for one in script.contexts} == {"op-1"}


def test_nothing_is_sent_without_leave(coroutines: Coroutines) -> None:
    """Whether the time is over, or somebody said that there be no more."""
    script = Script()
    assert isinstance(_perform(script, coroutines, _leave(0)), NotSent)
    told = _leave()
    told.no_more.set()
    assert isinstance(_perform(script, coroutines, told), NotSent)
    assert script.contexts == []


def test_no_send_begins_after_the_permit_has_run_out(coroutines: Coroutines) -> None:
    """A wait that would end too late is not begun, and what was unclear stays so."""
    script = Script(TimeoutError("t"), DONE)
    outcome = _perform(script, coroutines, _leave(30), tries=2, on=(TimeoutError,), first_s=60.0, most_s=60.0)
    assert (outcome, len(script.contexts)) == (Doubt("TimeoutError: t"), 1)


def test_a_wait_between_sends_ends_when_there_is_to_be_no_more(coroutines: Coroutines) -> None:
    leave = _leave(3_600)
    script = Script(TimeoutError("t"), DONE)
    said: list[Outcome] = []

    def act() -> None:
        said.append(_perform(script, coroutines, leave, tries=2, on=(TimeoutError,), first_s=1_800, most_s=1_800))

    thread = threading.Thread(target=act)
    thread.start()
    leave.no_more.set()
    thread.join(30)
    assert [type(one) for one in said] in ([Doubt], [NotSent])
    assert len(script.contexts) <= 1


@pytest.mark.parametrize(("sends", "whole"), [(1, 0.2), (2, 0.4), (3, 0.8), (6, 5.0), (5_000, 5.0)])
def test_waits_double_up_to_a_limit_and_are_spread(sends: int, whole: float) -> None:
    waits = {Retry(tries=9).wait_s(sends) for _ in range(200)}
    assert len(waits) > 100
    assert whole / 2 <= min(waits) < max(waits) <= whole


# --- async -----------------------------------------------------------------------------------------------------------


def test_an_async_function_acts_and_what_it_raises_is_a_doubt(coroutines: Coroutines) -> None:
    async def act(context: Context) -> Outcome:
        await asyncio.sleep(0)
        if context.send == 1:
            raise ConnectionResetError("gone")
        return Applied(f"{context.key}-{context.send}")

    again = Action("pay", act, retry=Retry(tries=2, first_s=0, most_s=0, on=(ConnectionError,)))
    assert perform(again, _command(), None, _leave(), coroutines) == Applied("op-1-2")
    once = perform(Action("pay", act), _command(), None, _leave(), coroutines)
    assert once == Doubt("ConnectionResetError: gone")


def test_an_async_send_that_takes_too_long_is_cut_off_and_unclear(coroutines: Coroutines) -> None:
    ended = threading.Event()

    async def act(context: Context) -> Outcome:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.set()
        return DONE

    outcome = perform(Action("pay", act, timeout_s=0.01), _command(), None, _leave(), coroutines)
    assert isinstance(outcome, Doubt)
    assert "TimeoutError" in outcome.cause
    assert ended.is_set(), "the coroutine was ended, so that no second send runs beside it"


def test_what_still_runs_at_the_end_is_cancelled_and_nothing_more_begins() -> None:
    coroutines = Coroutines()
    begun = threading.Event()
    said: list[Outcome] = []

    async def act(context: Context) -> Outcome:
        begun.set()
        await asyncio.sleep(3_600)
        return DONE

    thread = threading.Thread(
        target=lambda: said.append(perform(Action("pay", act), _command(), None, _leave(), coroutines))
    )
    thread.start()
    assert begun.wait(30)
    coroutines.close()
    thread.join(30)
    assert [type(one) for one in said] == [Doubt]
    assert isinstance(perform(Action("pay", act), _command(), None, _leave(), coroutines), NotSent)


def test_a_coroutine_whose_turn_comes_after_its_permit_s_end_sends_nothing(coroutines: Coroutines) -> None:
    """Another one that blocks the loop eats its time up: the clock is looked at when it begins, not when it waits."""
    blocking, go_on, over = threading.Event(), threading.Event(), threading.Event()
    sent: list[str] = []

    async def block(context: Context) -> Outcome:
        blocking.set()
        assert go_on.wait(30)
        return DONE

    async def act(context: Context) -> Outcome:
        sent.append(context.key)
        return DONE

    class Told(Leave):
        looks = 0

        def holds(self) -> bool:
            over.set()
            type(self).looks += 1
            return type(self).looks == 1

    said: list[Outcome] = []
    leaves = [(block, _leave()), (act, Told(time.monotonic() + 60))]
    threads = [
        threading.Thread(
            target=lambda function=function, leave=leave: said.append(
                perform(Action("pay", function), _command(), None, leave, coroutines)
            )
        )
        for function, leave in leaves
    ]
    threads[0].start()
    assert blocking.wait(30)
    threads[1].start()
    assert over.wait(30)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert sent == []
    assert sorted(type(one).__name__ for one in said) == ["Applied", "NotSent"]


# --- preparation -----------------------------------------------------------------------------------------------------


def test_a_preparation_is_tried_again_and_its_value_kept(coroutines: Coroutines) -> None:
    """It has no effect in the world, so that whatever it raises may be tried again."""
    action = Action("pay", Script(), retry=Retry(tries=2, first_s=0, most_s=0))
    failures = [KeyError("x")]

    @action.prepare
    async def look(context: Context) -> str:
        if failures:
            raise failures.pop()
        return context.key

    assert prepare(action, Context("op-9"), threading.Event(), coroutines) == "op-9"


def test_a_preparation_that_fails_says_that_nothing_happened(coroutines: Coroutines) -> None:
    action = Action("pay", Script())
    action.prepare(Script(ValueError("no such account")))
    with pytest.raises(NothingHappened, match="preparing it failed: ValueError: no such account"):
        prepare(action, Context("op-9"), threading.Event(), coroutines)


def test_a_preparation_that_says_no_is_not_asked_again(coroutines: Coroutines) -> None:
    script = Script(NothingHappened("closed"))
    action = Action("pay", Script(), retry=Retry(tries=3))
    action.prepare(script)
    with pytest.raises(NothingHappened, match="closed"):
        prepare(action, Context("op-9"), threading.Event(), coroutines)
    assert len(script.contexts) == 1


# --- declarations ----------------------------------------------------------------------------------------------------


def _twice() -> None:
    actions = Actions()
    actions.action("pay")(Script())
    actions.action("pay")(Script())


def _prepared_twice() -> None:
    action = Action("pay", Script())
    action.prepare(Script())
    action.prepare(Script())


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (_twice, "declared twice"),
        (_prepared_twice, "has a prepare function already"),
        (lambda: Action("", Script()), "needs the name"),
        (lambda: Action("pay", Script(), at_once_max=0), "at least 1"),
        (lambda: Action("pay", Script(), timeout_s=1), "is not async"),
        (lambda: Retry(tries=0), "tries of at least 1"),
        (lambda: Retry(first_s=2, most_s=1), "first_s <= most_s"),
    ],
)
def test_what_does_not_fit_is_a_sentence(declare: Any, said: str) -> None:
    with pytest.raises(JoinGateError, match=said):
        declare()


def test_an_executor_without_an_action_does_not_run(memory_world: Any) -> None:
    with pytest.raises(JoinGateError, match="has no action to perform"):
        Executor(memory_world.connect(outbox=memory_world.outbox), "messenger").run()


CATALOGUE = """
version: '1'
downstreams:
  post: {capabilities: [NONE]}
  bank: {capabilities: [IDEMPOTENT_KEY]}
actions:
  send: {downstream: post, effect: IRREVERSIBLE, kind: RETRYABLE, executor: teller}
  pay: {downstream: bank, effect: IRREVERSIBLE, kind: RETRYABLE, executor: teller}
  look: {downstream: post, effect: OBSERVE, kind: RETRYABLE, executor: teller}
"""


def test_a_catalogue_contradicts_what_it_does_not_allow() -> None:
    """Sending again after a doubt is for those who honour keys, and for what has no effect."""
    again = Retry(tries=2, on=(TimeoutError,))
    actions = Actions()
    for name in ("send", "pay", "look", "dance"):
        actions.action(name, retry=again)(Script())
    catalogue = catalogue_from_text(CATALOGUE)
    unknown, unkeyed = sorted(actions.problems("teller", catalogue))
    assert "has no action dance" in unknown
    assert unkeyed.startswith("send is sent again after a doubt, and post is not declared to honour keys")
    safe = Actions()
    safe.action("send", retry=Retry(tries=5))(Script())
    assert safe.problems("teller", catalogue) == []
    assert "belongs to the executor teller" in safe.problems("clerk", catalogue)[0]
