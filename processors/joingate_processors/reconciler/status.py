"""The room for what the reconciler says about itself: a board that its parts write on, and the snapshot of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """What the reconciler is doing."""

    STARTING = "STARTING"
    """Joining its group and restoring its table."""
    RUNNING = "RUNNING"
    BROKER_AWAY = "BROKER_AWAY"
    """No broker answers; it tries again."""
    FAILING = "FAILING"
    """Something else stopped it, and `problem` says what; it tries again."""
    STOPPED = "STOPPED"


@dataclass(frozen=True, kw_only=True)
class ReconcilerStatus:
    """A snapshot. Times are ms since the epoch; `next_ask_at` None: nothing is to be asked.

    `unconfigured` are downstreams that would be asked if one knew where; `unreachable` those whose last answer was
    none. `stale_epochs`, `unknown_kinds`, `undecodable` count requests that were not taken in; `claims` those sent.
    """

    phase: Phase
    problem: str
    open: int
    next_ask_at: int | None
    asks: int
    claims: int
    unconfigured: tuple[str, ...]
    unreachable: tuple[str, ...]
    stale_epochs: int
    unknown_kinds: int
    undecodable: int


@dataclass
class Board:
    """The same while it changes. Written from one event loop."""

    phase: Phase = Phase.STARTING
    problem: str = ""
    open: set[str] = field(default_factory=set)
    asks: int = 0
    claims: int = 0
    unconfigured: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    stale_epochs: int = 0
    unknown_kinds: int = 0
    undecodable: int = 0
    next_ask_at: Callable[[], int | None] = lambda: None

    def snapshot(self) -> ReconcilerStatus:
        """The board as it is now."""
        return ReconcilerStatus(
            phase=self.phase,
            problem=self.problem,
            open=len(self.open),
            next_ask_at=self.next_ask_at(),
            asks=self.asks,
            claims=self.claims,
            unconfigured=tuple(sorted(self.unconfigured)),
            unreachable=tuple(sorted(self.unreachable)),
            stale_epochs=self.stale_epochs,
            unknown_kinds=self.unknown_kinds,
            undecodable=self.undecodable,
        )
