"""The sample's executors: they perform commands at the sample bank, under the gate's key, and say what came of it.

No model is in here. What the bank answers is passed on as it is; what it does not answer is a doubt, never a failure.
"""

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, assert_never

from joingate.sample.actions import ACTIONS
from joingate.sample.client import Applied, BankClient, InDoubt, NotSent, Refused
from joingate_producers import Applied as Done
from joingate_producers import Connection, Doubt, Executor, Handlers, Outcome
from joingate_producers import NotSent as NeverSent
from joingate_producers import Refused as Declined
from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.decisions import Command

REPLY_S_MAX = 1.0
"""How long the bank may take to answer, in seconds, before the outcome counts as unknown."""

# What an action of the catalogue is called at the bank, where the two differ.
_AT_THE_BANK = {"request_review": "reserve_reviewer", "withdraw_review": "release_reviewer"}
# What the gate adds to the arguments of an operation that undoes another.
_GATES_OWN = ("business_key", "external_id")


def performed_by(executor: str, catalogue: Catalogue) -> list[Action]:
    """The actions of this executor that the sample bank can perform."""
    return [one for one in catalogue.actions.values() if one.executor == executor and _name(one.name) in ACTIONS]


def executors_of(catalogue: Catalogue) -> list[str]:
    """The executors that have something to do at the sample bank."""
    names = sorted({action.executor for action in catalogue.actions.values()})
    return [name for name in names if performed_by(name, catalogue)]


def handlers(executor: str, catalogue: Catalogue, bank: BankClient) -> Handlers:
    """One handler for each action of this executor."""
    return {action.name: lambda command: perform(bank, command) for action in performed_by(executor, catalogue)}


def perform(bank: BankClient, command: Command) -> Outcome:
    """Send the command to the bank, with the operation's id as the key, and say what came of it."""
    answer = bank.apply(_name(command.action), _arguments(command), command.operation_id)
    match answer:
        case Applied():
            result = json.dumps(dict(answer.result), sort_keys=True)
            evidence = [f"bank:{answer.external_id}"]
            return Done(answer.external_id, evidence, result, answer.key)
        case Refused():
            return Declined(answer.reason, [f"bank refused key {command.operation_id}"])
        case InDoubt():
            return Doubt(f"{answer.cause}: {answer.detail}")
        case NotSent():
            return NeverSent(answer.detail)
        case _:
            assert_never(answer)


def run_executors(
    connection: Connection, catalogue: Catalogue, bank_url: str, names: Iterable[str], stop: threading.Event
) -> None:
    """Serve the executors called `names` until `stop` is set. Raises what the first of them failed of."""
    wanted = list(names)
    with BankClient(bank_url, timeout_s=REPLY_S_MAX) as bank, ThreadPoolExecutor(len(wanted)) as pool:
        serving = [pool.submit(_serve(connection, name, handlers(name, catalogue, bank)), stop) for name in wanted]
        wait(serving, return_when=FIRST_EXCEPTION)
        # One that failed leaves its commands unserved: end the others in order, and say so.
        stop.set()
        for one in serving:
            one.result()


def _serve(connection: Connection, name: str, of_actions: Handlers) -> Callable[[threading.Event], None]:
    executor = Executor(connection, name, principal=f"executor-{name}")
    return lambda stop: executor.serve(of_actions, stop)


def _name(action: str) -> str:
    return _AT_THE_BANK.get(action, action)


def _arguments(command: Command) -> dict[str, Any]:
    arguments = {name: value for name, value in command.arguments.items() if name not in _GATES_OWN}
    if command.action == "release_window" and command.arguments.get("external_id"):
        # So that a reservation which somebody else has made since is left alone.
        arguments["reservation"] = command.arguments["external_id"]
    return arguments
