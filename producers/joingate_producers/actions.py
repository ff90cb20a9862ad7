"""The room where a plain function, sync or async, becomes what an executor does for an action of the catalogue.

    actions = Actions()

    @actions.action("refund", retry=Retry(tries=3, on=(TimeoutError,)), at_once_max=2)
    def refund(context: Context) -> Applied:
        reply = bank.refund(context.arguments["capture_id"], key=context.key)
        return Applied(reply.id, idempotency_key=reply.key)

    @refund.prepare
    def look(context: Context) -> None: ...

`Executor.action` is the same for one executor. Nothing here knows Kafka: a decorated function is called with a
`Context` that a test can make by hand.
"""

import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias, TypeVar

from joingate_producers.errors import JoinGateError
from joingate_producers.handling import Doubt, Handler, Outcome
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.decisions import Command


@dataclass(frozen=True)
class Context:
    """What the function is told about the one send that it is to make.

    `key` goes downstream with every send; it is the operation's id, and never to be replaced by one's own. `attempt`
    is the fencing token; `send` counts the sends of this attempt, from 1. No send may begin after `deadline_s`, in
    seconds of `time.monotonic()`. `prepared` is what the action's prepare function returned.
    """

    operation_id: str
    attempt: int = 1
    action: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    intent_id: str = ""
    business_key: str = ""
    deadline_s: float = inf
    send: int = 1
    prepared: Any = None
    command: Command | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The idempotency key."""
        return self.operation_id

    @property
    def left_s(self) -> float:
        """How long, in seconds, until no send may begin any more; 0 at the least."""
        return max(0.0, self.deadline_s - time.monotonic())


def context_of(command: Command, deadline_s: float = inf, send: int = 1, prepared: object = None) -> Context:
    """The context of one send under this command."""
    return Context(
        operation_id=command.operation_id,
        attempt=command.attempt,
        action=command.action,
        arguments=command.arguments,
        intent_id=command.intent_id,
        business_key=command.business_key,
        deadline_s=deadline_s,
        send=send,
        prepared=prepared,
        command=command,
    )


@dataclass(frozen=True)
class Retry:
    """How often one attempt may send, always with the same key, always within its permit.

    What surely was not sent (`NotSent`, `NothingHappened`) is tried again, up to `tries` sends in all. After anything
    that leaves it unclear, only what `on` names is: exception types, and `Doubt` itself for a doubt that the function
    returned. To name one is to say that the downstream honours keys; where it does not, each send is another effect.
    Before the second send it waits `first_s` seconds, then twice as long each time, up to `most_s`; of each wait a
    random part between half and all is waited, so that many executors do not come back at once.
    """

    tries: int = 1
    first_s: float = 0.2
    most_s: float = 5.0
    on: tuple[type[Exception] | type[Doubt], ...] = ()

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_s < 0 or self.most_s < self.first_s:
            raise JoinGateError(
                f"A Retry needs tries of at least 1 and 0 <= first_s <= most_s, and has {self.tries}, "
                f"{self.first_s:g} and {self.most_s:g}: mend it where the action is declared."
            )

    def wait_s(self, sends: int) -> float:
        """How long to wait after so many sends, in seconds."""
        whole = min(self.most_s, self.first_s * 2.0 ** min(sends - 1, 60))
        return whole * random.uniform(0.5, 1.0)


ONCE = Retry()
"""One send, and no second."""

Function: TypeAlias = Callable[[Context], Outcome | Awaitable[Outcome]]
Preparation: TypeAlias = Callable[[Context], Any]
_P = TypeVar("_P", bound=Preparation)


class Action:
    """A function that performs an action, with what its author declared of it. Called, it calls the function."""

    def __init__(
        self,
        name: str,
        function: Function,
        *,
        retry: Retry = ONCE,
        at_once_max: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """`at_once_max` effects of this action may be under way at once in a process, or as many as there are places.

        `timeout_s` ends a send of an async function; what is cut off so is unclear. Raises JoinGateError.
        """
        if not name:
            raise JoinGateError("An action needs the name that the catalogue gives it.")
        if at_once_max is not None and at_once_max < 1:
            raise JoinGateError(f"at_once_max of action {name} is {at_once_max}, and has to be at least 1.")
        if timeout_s is not None and not inspect.iscoroutinefunction(function):
            raise JoinGateError(
                f"The function of action {name} is not async, so that nothing can end it after timeout_s: "
                "give its client a timeout instead."
            )
        if timeout_s is not None and timeout_s <= 0:
            raise JoinGateError(f"timeout_s of action {name} is {timeout_s:g}, and has to be above 0.")
        self.name = name
        self.function = function
        self.retry = retry
        self.at_once_max = at_once_max
        self.timeout_s = timeout_s
        self.preparation: Preparation | None = None

    def __call__(self, context: Context) -> Outcome | Awaitable[Outcome]:
        return self.function(context)

    def __repr__(self) -> str:
        return f"<Action {self.name}>"

    def prepare(self, function: _P) -> _P:
        """Declare what is done before the permit is asked for. It must have no lasting effect in the outside world.

        What it returns is `Context.prepared` of the sends. If it raises, the attempt is given back; whatever but
        NothingHappened is tried again before, by the action's Retry.
        """
        if self.preparation is not None:
            raise JoinGateError(f"Action {self.name} has a prepare function already.")
        self.preparation = function
        return function


class Actions(Mapping[str, Action]):
    """The actions of one executor, by name."""

    def __init__(self) -> None:
        self._actions: dict[str, Action] = {}

    @classmethod
    def of(cls, handlers: Mapping[str, Handler | Action]) -> "Actions":
        """Handlers of commands as actions: one send each, and as many at once as there are places."""
        made = cls()
        for name, handler in handlers.items():
            made._add(handler if isinstance(handler, Action) else Action(name, _taking_commands(handler)))
        return made

    def action(
        self, name: str, *, retry: Retry = ONCE, at_once_max: int | None = None, timeout_s: float | None = None
    ) -> Callable[[Function], Action]:
        """Declare the function that performs the action of this name; see `Action`. Raises JoinGateError."""

        def declare(function: Function) -> Action:
            return self._add(Action(name, function, retry=retry, at_once_max=at_once_max, timeout_s=timeout_s))

        return declare

    def problems(self, executor: str, catalogue: Catalogue) -> list[str]:
        """What of these actions the catalogue contradicts, as sentences; empty if nothing."""
        return [sentence for action in self.values() for sentence in _contradicted(action, executor, catalogue)]

    def _add(self, action: Action) -> Action:
        if action.name in self._actions:
            raise JoinGateError(f"Action {action.name} is declared twice: one function performs an action.")
        self._actions[action.name] = action
        return action

    def __getitem__(self, name: str) -> Action:
        return self._actions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    def __len__(self) -> int:
        return len(self._actions)


def _taking_commands(handler: Handler) -> Function:
    def function(context: Context) -> Outcome:
        assert context.command is not None, "the loop makes contexts of commands"
        return handler(context.command)

    return function


def _contradicted(action: Action, executor: str, catalogue: Catalogue) -> Iterator[str]:
    declared = catalogue.actions.get(action.name)
    if declared is None:
        yield f"The catalogue {catalogue.version} has no action {action.name}, so no command for it will ever come."
        return
    if declared.executor != executor:
        yield f"{action.name} belongs to the executor {declared.executor}, and this one is called {executor}."
    downstream = catalogue.downstreams.get(declared.downstream)
    honours_keys = downstream is not None and "IDEMPOTENT_KEY" in downstream.capabilities
    if action.retry.tries > 1 and action.retry.on and declared.effect != "OBSERVE" and not honours_keys:
        yield (
            f"{action.name} is sent again after a doubt, and {declared.downstream} is not declared to honour keys, so "
            "that each send may be another effect: leave `on` of its Retry empty, or declare IDEMPOTENT_KEY."
        )
