"""The stage: what a scenario may use (the planner's client, the bank, the API), and how it says what must hold.

A scenario knows only public doors: claims through the SDK, the state through the HTTP API, the bank through its own.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from joingate.sample.client import BankClient
from joingate_producers import Connection, PendingVerdict, Planner, Verdict
from joingate_projections.errors import NotFound
from joingate_projections.reader import HttpReader

T = TypeVar("T")

VERDICT_S_MAX = 20.0
STATE_S_MAX = 30.0
_LOOK_S = 0.1
_TRIES_MAX = 4


class SceneFailed(Exception):
    """A scenario could not go on: something that it waits for did not come. The text is a sentence."""


@dataclass(frozen=True)
class Expectation:
    """One thing that must hold, whether it did, and what was found."""

    scenario: str
    text: str
    held: bool
    found: str


class Stage:
    """One scenario's stage. `occurrence` is empty on new topics, else it tells this run's entities from others'."""

    def __init__(
        self,
        scenario: str,
        *,
        connection: Connection,
        bank_url: str,
        api_url: str,
        occurrence: str,
        on_expectation: Callable[[Expectation], None],
        stop: threading.Event,
    ) -> None:
        self.scenario = scenario
        self.planner = Planner(connection, principal="planner-7")
        self.bank_url = bank_url
        self.bank = BankClient(bank_url, timeout_s=2.0)
        self.expectations: list[Expectation] = []
        self._reader = HttpReader(api_url)
        self._occurrence = occurrence
        self._on_expectation = on_expectation
        self._stop = stop

    def close(self) -> None:
        """Let go of the bank; the connection stays the caller's."""
        self.bank.close()

    def entity(self, name: str) -> str:
        """The business entity of this run. An honest repetition carries an occurrence: a closed intent is closed."""
        return f"{name}@{self._occurrence}" if self._occurrence else name

    # --- what must hold ----------------------------------------------------------------------------------------------

    def expect(self, text: str, held: bool, found: object = "") -> None:
        """Note whether something held, and what was found."""
        one = Expectation(self.scenario, text, held, str(found))
        self.expectations.append(one)
        self._on_expectation(one)

    def expect_verdict(self, text: str, verdict: Verdict, name: str, reason: str = "OK") -> None:
        """Note whether the gate answered with this verdict and reason."""
        found = f"{verdict.verdict} {verdict.reason}"
        self.expect(text, (verdict.verdict, verdict.reason) == (name, reason), f"{found} {verdict.detail}".rstrip())

    def bank_effects(self, key: str) -> list[Any]:
        """Every effect in the bank's books that ever carried this key."""
        reply = httpx.get(f"{self.bank_url}/effects", params={"reference": key}, timeout=5.0, trust_env=False)
        return list(reply.raise_for_status().json()["effects"])

    # --- claims ------------------------------------------------------------------------------------------------------

    def said(self, pending: PendingVerdict) -> Verdict:
        """The gate's verdict."""
        return pending.wait(VERDICT_S_MAX)

    def dispatch(self, intent_id: str, version: int, plan_id: str, step_id: str) -> Verdict:
        """Ask for a step."""
        return self.said(self.planner.dispatch(intent_id, intent_version=version, plan_id=plan_id, step_id=step_id))

    def succeed(self, intent_id: str, version: int, plan_id: str, step_id: str) -> Verdict:
        """Say that a step is done."""
        return self.said(self.planner.succeed(intent_id, intent_version=version, plan_id=plan_id, step_id=step_id))

    def settled(self, intent_id: str, version: int, plan_id: str, step_id: str) -> dict[str, Any]:
        """Ask for a step until its operation is settled, and return it.

        One that is proven not to have happened, as when its permit ran out on a busy machine, is asked for again:
        the gate then opens the slot's next generation.
        """
        for _ in range(_TRIES_MAX):
            verdict = self.dispatch(intent_id, version, plan_id, step_id).demand()
            operation = self.operation(verdict.operation_id, "SETTLED", "FAILED", "WITHDRAWN")
            if operation["status"] == "SETTLED":
                return operation
        raise SceneFailed(f"Step {step_id} of {intent_id} came to nothing {_TRIES_MAX} times ({operation['status']}).")

    # --- state, as the API has it ------------------------------------------------------------------------------------

    def operation(self, operation_id: str, *statuses: str) -> dict[str, Any]:
        """The operation's row, once it has one of these statuses."""
        return self._row("operations", operation_id, statuses)

    def commitment(self, commitment_id: str, *statuses: str) -> dict[str, Any]:
        """The commitment's row, once it has one of these statuses."""
        return self._row("commitments", commitment_id, statuses)

    def rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """The rows of a table that fit."""
        rows: list[dict[str, Any]] = self._reader.page(table, list(filters.items()))["rows"]
        return rows

    def decisions(self, subject_id: str) -> list[dict[str, Any]]:
        """The decisions that mention an id, in order."""
        return sorted(self.rows("decisions", mentions=subject_id), key=lambda row: (row["partition"], row["seq"]))

    def _row(self, table: str, key: str, statuses: Sequence[str]) -> dict[str, Any]:
        last = "not to be found"

        def look() -> dict[str, Any] | None:
            nonlocal last
            try:
                row: dict[str, Any] = self._reader.one(table, key)["row"]
            except NotFound:
                return None
            last = str(row["status"])
            return row if last in statuses else None

        return self.wait_for(look, lambda: f"{table[:-1]} {key} to be {' or '.join(statuses)}; it is {last}")

    def wait_for(self, look: Callable[[], T | None], what: Callable[[], str], limit_s: float = STATE_S_MAX) -> T:
        """What `look` finds, once it finds something. Raises SceneFailed at the deadline, or when all is to end."""
        deadline = time.monotonic() + limit_s
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise SceneFailed(f"Waited {limit_s:.0f} s for {what()}.")
            if self._stop.wait(_LOOK_S):
                raise SceneFailed("The scenario was stopped.")
        return found
