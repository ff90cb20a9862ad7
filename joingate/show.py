"""The room that shows a run of `up`: a live table on a terminal, plain lines elsewhere, JSON lines for machines."""

import contextlib
import json
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from joingate.ledger import Entry
from joingate.scenarios.stage import Expectation

SHOWN_MAX = 18
"""Decisions in the live table; the ledger has them all."""
WIDTH_PIPED = 240
_WORDS = {"ACCEPTED": "green", "REPLAYED": "cyan", "REJECTED": "red", "COMPENSATE": "yellow"}
_COLUMNS: dict[str, tuple[str, ...]] = {
    "intents": ("intent_id", "version", "status", "shown"),
    "operations": ("action", "business_key", "status", "shown", "attempt", "external_id", "intent_id"),
    "commitments": ("obligation_type", "resource_refs", "status", "shown", "intent_id"),
    "orphans": ("kind", "subject_id", "cause"),
    "in_doubt": ("subject_kind", "subject_id", "cause"),
}


class Show(Protocol):
    """What a run tells of itself. May be called from several threads."""

    def step(self, text: str) -> None:
        """What is being done now."""
        ...

    def live(self) -> contextlib.AbstractContextManager[None]:
        """Within it, decisions come."""
        ...

    def decision(self, entry: Entry) -> None:
        """One more record of the ledger."""
        ...

    def expectation(self, one: Expectation) -> None:
        """Something held, or not."""
        ...

    def state(self, state: dict[str, list[dict[str, Any]]]) -> None:
        """How things stand at the end, by table."""
        ...

    def trouble(self, text: str) -> None:
        """Something that somebody must see to, such as a halted partition."""
        ...

    def address(self, api_url: str, bank_url: str, exports: str, *, well: bool) -> None:
        """Where to look, while it goes on; `well`: nothing is wrong."""
        ...


class JsonShow:
    """One JSON object a line, its kind in `show`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def _say(self, kind: str, **row: Any) -> None:
        with self._lock:
            print(json.dumps({"show": kind, **row}, default=str), flush=True)

    def step(self, text: str) -> None:
        """See `Show`."""
        self._say("step", text=text)

    def live(self) -> contextlib.AbstractContextManager[None]:
        """See `Show`."""
        return contextlib.nullcontext()

    def decision(self, entry: Entry) -> None:
        """See `Show`."""
        one = entry.decision
        self._say("decision", partition=entry.partition, seq=one.seq, decided_at=one.decided_at, type=one.claim_type,
                  intent_id=one.intent_id, principal=one.principal, verdict=one.verdict, reason=one.reason,
                  detail=one.detail, facts=[_name(fact) for fact in one.facts])  # fmt: skip

    def expectation(self, one: Expectation) -> None:
        """See `Show`."""
        self._say("expectation", **vars(one))

    def state(self, state: dict[str, list[dict[str, Any]]]) -> None:
        """See `Show`."""
        self._say("state", **state)

    def trouble(self, text: str) -> None:
        """See `Show`."""
        self._say("trouble", text=text)

    def address(self, api_url: str, bank_url: str, exports: str, *, well: bool) -> None:
        """See `Show`."""
        self._say("address", api=api_url, bank=bank_url, exports=exports, well=well)


class PeopleShow:
    """For people: on a terminal decisions run through one table, elsewhere each is a line."""

    def __init__(self) -> None:
        # What is piped on is not folded to a screen that is not there.
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_PIPED)
        self._lock = threading.Lock()
        self._latest: deque[Entry] = deque(maxlen=SHOWN_MAX)
        self._count = 0
        self._expectations: list[Expectation] = []
        self._live: Live | None = None

    def step(self, text: str) -> None:
        """See `Show`."""
        self._console.print(f"[dim]joingate:[/] {escape(text)}")

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """See `Show`."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def decision(self, entry: Entry) -> None:
        """See `Show`."""
        with self._lock:
            self._latest.append(entry)
            self._count += 1
            if self._live is None:
                self._console.print(" ".join(_cells(entry)), soft_wrap=True)
            else:
                self._refresh()

    def expectation(self, one: Expectation) -> None:
        """See `Show`."""
        with self._lock:
            self._expectations.append(one)
            if self._live is None:
                self._console.print(_line(one), soft_wrap=True)
            else:
                self._refresh()

    def _refresh(self) -> None:
        assert self._live is not None, "only a live table is refreshed"
        made = Table(title=f"Decisions ({self._count})", title_justify="left", box=None, pad_edge=False)
        for column in ("at", "claim", "verdict", "intent", "facts"):
            made.add_column(column, overflow="ellipsis", no_wrap=True)
        for entry in self._latest:
            made.add_row(*_cells(entry))
        self._live.update(Group(made, "", *(_line(one) for one in self._expectations)), refresh=True)

    def state(self, state: dict[str, list[dict[str, Any]]]) -> None:
        """See `Show`."""
        for name, rows in state.items():
            title = name.replace("_", " ").capitalize()
            if not rows:
                self._console.print(f"\n[bold]{title}[/]: none")
                continue
            made = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False)
            for column in _COLUMNS[name]:
                made.add_column(column.replace("_", " "), overflow="fold")
            for row in rows:
                made.add_row(*(_cell(row.get(column)) for column in _COLUMNS[name]))
            self._console.print(made)
        failed = [one for one in self._expectations if not one.held]
        self._console.print(
            f"\n{len(self._expectations) - len(failed)} of {len(self._expectations)} expectations held."
        )
        for one in failed:
            self._console.print(_line(one))

    def trouble(self, text: str) -> None:
        """See `Show`."""
        self._console.print(f"[red]✗[/] {escape(text)}", soft_wrap=True)

    def address(self, api_url: str, bank_url: str, exports: str, *, well: bool) -> None:
        """See `Show`."""
        state = "Everything runs." if well else "It goes on, but not all is well: see above, and `joingate status`."
        self._console.print(
            f"\n{state}\nPage and API: {api_url}  bank: {bank_url}\n"
            f"For other commands: {escape(exports)}\nCtrl-C ends it.",
            soft_wrap=True,
        )


def make_show(machine: bool) -> Show:
    """The show that fits whoever looks. Raises nothing."""
    # Lines must come out as they are made, also into a pipe.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return JsonShow() if machine else PeopleShow()


def _name(fact: object) -> str:
    return (
        str(getattr(fact, "name", type(fact).__name__)) if type(fact).__name__ == "UnknownFact" else type(fact).__name__
    )


def _cells(entry: Entry) -> tuple[str, ...]:
    one = entry.decision
    colour = _WORDS.get(one.verdict, "white")
    reason = "" if one.reason == "OK" else f" {one.reason}"
    who = f" by {one.principal}" if one.principal else ""
    return (
        f"{entry.partition}:{one.seq}",
        escape(f"{one.claim_type}{who}"),
        f"[{colour}]{one.verdict}{reason}[/]",
        escape(one.intent_id),
        escape(", ".join(_name(fact) for fact in one.facts)),
    )


def _line(one: Expectation) -> str:
    mark = "[green]✓[/]" if one.held else "[red]✗[/]"
    return f"{mark} {escape(one.scenario)}: {escape(one.text)} [dim]({escape(one.found)})[/]"


def _cell(value: object) -> str:
    return escape(", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value))
