"""The ways in which the bank can be told to fail, and for how long.

Faults live in memory only: a restarted bank is a healthy one, over the same ledger.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """One way of failing."""

    TIMEOUT_AFTER_APPLY = "TIMEOUT_AFTER_APPLY"
    """The effect is on disk; the caller never hears of it."""
    TIMEOUT_BEFORE_APPLY = "TIMEOUT_BEFORE_APPLY"
    """Nothing is done; to the caller it looks the same as the one above."""
    DROP_REPLY = "DROP_REPLY"
    """The effect is on disk; the connection closes without a reply."""
    ERROR_500_AFTER_APPLY = "ERROR_500_AFTER_APPLY"
    """The effect is on disk; the reply is an error."""
    SLOW = "SLOW"
    """The request lies in transit for `delay_s` and is then done, whether or not anybody still waits."""
    DOWN = "DOWN"
    """Nothing but /faults and /health is served."""
    STALE_LOOKUP = "STALE_LOOKUP"
    """Look-ups answer as of the moment when the fault was set, and say so in their version."""
    FORGET_KEY = "FORGET_KEY"
    """The bank forgets the key of a request just before it handles it."""


ON_EFFECT = frozenset(
    {
        FaultKind.TIMEOUT_AFTER_APPLY,
        FaultKind.TIMEOUT_BEFORE_APPLY,
        FaultKind.DROP_REPLY,
        FaultKind.ERROR_500_AFTER_APPLY,
        FaultKind.SLOW,
    }
)
"""The faults of which one effect request suffers at most one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to set. With neither count nor seconds it lasts until the faults are cleared."""

    kind: FaultKind
    action: str | None = None
    """The only action that it strikes; None for all. Look-ups are not actions and ignore it."""
    count: int | None = None
    seconds: float | None = None
    delay_s: float = 1.0
    """SLOW only."""
    close: bool = False
    """DOWN only: close the connection instead of answering 503."""
    as_of: int = 0
    """STALE_LOOKUP only: the ledger length to answer from."""


@dataclass(slots=True)
class _Row:
    fault: Fault
    left: int | None
    until_s: float | None


class Faults:
    """The faults in force. The oldest that fits a request is the one that strikes."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._rows: list[_Row] = []

    def add(self, fault: Fault) -> None:
        """Set a fault; its seconds run from now."""
        until_s = None if fault.seconds is None else self._monotonic() + fault.seconds
        self._rows.append(_Row(fault, fault.count, until_s))

    def clear(self) -> None:
        """End every fault."""
        self._rows.clear()

    def active(self) -> list[tuple[Fault, int | None]]:
        """What is in force, each with the number of times it will still strike (None: no such limit)."""
        self._expire()
        return [(row.fault, row.left) for row in self._rows]

    def take(self, kinds: frozenset[FaultKind], action: str | None) -> Fault | None:
        """The fault that strikes this request, used up by one; None if it goes well."""
        self._expire()
        for row in self._rows:
            if row.fault.kind in kinds and row.fault.action in (None, action):
                if row.left is not None:
                    row.left -= 1
                return row.fault
        return None

    def _expire(self) -> None:
        now_s = self._monotonic()
        self._rows = [row for row in self._rows if row.left != 0 and (row.until_s is None or now_s < row.until_s)]
