"""The room for what commands print: JSON for machines, tables for people, both on stdout; the rest on stderr."""

import json
import re
import shutil
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
    """A table for people. Words are not broken as long as the longest of each column fit beside each other."""
    from rich.table import Table

    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column, width in zip(columns, _widths([list(columns), *cells], width_of_output()), strict=True):
        made.add_column(column, overflow="fold", width=width)
    for row in cells:
        made.add_row(*(escaped(cell) for cell in row))
    return made


_GAP = 2


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int | None]:
    """How wide each column is to be, so that no word is broken; left to Rich where that is not to be had."""
    columns = list(zip(*rows, strict=True))
    least = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    most = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    left = room - sum(least) - _GAP * (len(columns) - 1)
    if left < 0:
        return [None] * len(columns)
    # What is left goes to the narrowest wish first, so that a short column is whole before a long one is wide.
    widths = list(least)
    for place in sorted(range(len(columns)), key=lambda at: most[at] - least[at]):
        more = min(left, most[place] - least[place])
        widths[place] += more
        left -= more
    return [max(1, width) for width in widths]


def width_of_output() -> int:
    """How many characters fit on a line of stdout. What is piped on is not folded to a screen that is not there."""
    return shutil.get_terminal_size().columns if is_terminal() else WIDTH_PIPED


_LONG_ID = re.compile(r"\b[0-9a-f]{24,}\b")


def short(text: object) -> str:
    """The text with long ids and digests shortened in the middle; --json has them whole."""
    return _LONG_ID.sub(lambda found: f"{found[0][:8]}…{found[0][-4:]}", "" if text is None else str(text))


def duration(ms: object) -> str:
    """A span of ms in the largest unit that it is whole in."""
    if not isinstance(ms, int):
        return ""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def without_catalogues(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision as `simulate` prints it, less the text of catalogues, which buries everything else."""
    facts = [
        {name: value for name, value in fact.items() if name != "catalogue"}
        if fact["type"] == "CatalogueLoaded"
        else fact
        for fact in decision["facts"]
    ]
    return {**decision, "facts": facts}


def escaped(value: object) -> str:
    """Text of others, which must not be taken for Rich's markup."""
    from rich.markup import escape

    return escape("" if value is None else str(value))


def show(*things: object) -> None:
    """Print things that Rich knows how to."""
    from rich.console import Console

    console = Console(highlight=False, width=width_of_output())
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
