"""An executor of decorated functions in a process of its own: `acting_process.py SETTINGS`, a JSON object.

`till` in it is the file that is the downstream of `pay` and `note`: one line for each send, with operation, attempt and
process. A send ends at once, or once the file named by `waits_for` is there. `dies_after`: the process kills itself
after so many sends, before anybody hears of the last. `bank`, if given, is the address of a sample bank, at which
`credit` is sent without a key, so that each send is a credit of its own.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from joingate.sample import client as bank_client
from joingate_producers import (
    Applied,
    Connection,
    Context,
    Declined,
    Doubt,
    Executor,
    NothingHappened,
    Outcome,
    Retry,
)

WAIT_S_MAX = 120.0


class Till:
    """A file with a line for each effect."""

    def __init__(self, path: Path, waits_for: str, dies_after: int) -> None:
        self._path = path
        self._waits_for = Path(waits_for) if waits_for else None
        self._left = dies_after

    def take(self, context: Context) -> None:
        """The effect: on the disk, whatever becomes of this process."""
        with self._path.open("a") as file:
            file.write(f"{context.action} {context.key} {context.attempt} {os.getpid()}\n")
            file.flush()
            os.fsync(file.fileno())
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def may_end(self) -> bool:
        """Whether a send may end."""
        return self._waits_for is None or self._waits_for.exists()


def credited(bank: bank_client.BankClient, context: Context) -> Outcome:
    """A credit at the bank, without a key: what is sent twice is credited twice."""
    answer = bank.apply("issue_fee_credit", dict(context.arguments), None)
    match answer:
        case bank_client.Applied():
            return Applied(answer.external_id, ["the bank's reply"])
        case bank_client.Refused():
            raise Declined(answer.reason)
        case bank_client.NotSent():
            raise NothingHappened(answer.detail)
        case bank_client.InDoubt():
            return Doubt(answer.detail)


def main() -> None:
    asked = json.loads(sys.argv[1])
    till = Till(Path(asked.pop("till")), asked.pop("waits_for", ""), asked.pop("dies_after", 0))
    bank_url, options = asked.pop("bank", ""), asked.pop("options", {})
    with Connection(**asked) as connection:
        executor = Executor(connection, name="teller")

        @executor.action("pay", at_once_max=2)
        def pay(context: Context) -> Outcome:
            till.take(context)
            end_s = time.monotonic() + WAIT_S_MAX
            while not till.may_end() and time.monotonic() < end_s:
                time.sleep(0.02)
            return Applied(f"till-{context.key}", ["the till's own line"])

        @pay.prepare
        def look(context: Context) -> None:
            if context.arguments["to"] == "nobody":
                raise NothingHappened("nobody is named")

        @executor.action("note", timeout_s=WAIT_S_MAX)
        async def note(context: Context) -> Outcome:
            await asyncio.to_thread(till.take, context)
            while not till.may_end():
                await asyncio.sleep(0.02)
            return Applied(f"till-{context.key}", idempotency_key=context.key)

        if bank_url:
            bank = bank_client.BankClient(bank_url, timeout_s=5.0)

            @executor.action("credit", retry=Retry(tries=20, first_s=0.1, most_s=0.5))
            def credit(context: Context) -> Outcome:
                return credited(bank, context)

        executor.run(**options)


if __name__ == "__main__":
    main()
