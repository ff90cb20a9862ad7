"""The room for what commands print: JSON for machines, tables for people, both on stdout; the rest on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

WIDTH_PIPED = 240

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def print_json(value: object) -> None:
    """One JSON object on one line."""
    print(json.dumps(value, ensure_ascii=False, default=str))


def note(sentence: str) -> None:
    """Something beside the answer, for the person at the terminal."""
    print(f"joingate: {sentence}", file=sys.stderr)


def is_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> "Table":
    """A table for people."""
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(escaped(cell) for cell in row))
    return made


def escaped(value: object) -> str:
    """Text of others, which must not be taken for Rich's markup."""
    from rich.markup import escape

    return escape("" if value is None else str(value))


def show(*things: object) -> None:
    """Print things that Rich knows how to."""
    from rich.console import Console

    # What is piped on is not folded to a screen that is not there.
    console = Console(highlight=False, width=None if is_terminal() else WIDTH_PIPED)
    for thing in things:
        console.print(thing)


def moment(ms: object) -> str:
    """A time in ms since the epoch, as people read it, in UTC."""
    if not isinstance(ms, int):
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def counts(found: Mapping[str, Any]) -> str:
    """Counts as text: `OPEN 3, CLOSED 1`."""
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items()) if count) or "none"
