"""The command about upgrades: whether a catalogue that is to come can serve what is open."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from joingate.cli.output import Json, note, print_json, short, show, table
from joingate.faults import FAILED, MALFORMED, FaceError

if TYPE_CHECKING:
    from joingate_processors.upgrade import Report

LIVE = "live"
CHANGED = 3
"""Exit code with --strict: everything can be discharged, and something by other rules than before."""

_WORDS = {"UNDISCHARGEABLE": "can't be discharged", "CHANGES": "behaviour changes", "FINE": "fine"}


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command("upgrade-check")(upgrade_check)


def upgrade_check(
    catalogue: Annotated[
        str | None, typer.Option("--catalogue", help="The new one: a file, or builtin, or demo [JOINGATE_CATALOGUE].")
    ] = None,
    ledger: Annotated[
        list[str] | None,
        typer.Option("--ledger", help="`live`, or a file of `replay --ledger`, once for each partition."),
    ] = None,
    former: Annotated[
        str | None, typer.Option("--former", help="The catalogue in force at a file's end, which the file only names.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 3 where behaviour changes for what is open.")] = False,
    json: Json = False,
) -> None:
    """Say what a new catalogue, under this release, means for all that is open, before a gate starts with it.

    Reads the ledger to its end. Exit code 1 if something could not be discharged any more; with --strict, 3 if
    something ends by other rules than before; else 0.
    """
    from joingate.settings import find_catalogue, load_settings
    from joingate.upgrade import check_files, check_live

    settings = load_settings(catalogue=catalogue)
    new = find_catalogue(settings.catalogue)
    sources = ledger or [LIVE]
    if LIVE in sources and (len(sources) > 1 or former is not None):
        raise FaceError("`live` stands alone: a live ledger has all partitions, and every catalogue.", MALFORMED)
    if sources == [LIVE]:
        report = check_live(settings, new)
    else:
        if former is None:
            note("Without --former, what is the same and what changes can't be told apart: only what is gone is seen.")
        before = None if former is None else find_catalogue(former)
        report = check_files([Path(one) for one in sources], new, before)
    if json:
        print_json(
            {"catalogue": {"version": new.version, "digest": new.digest}, "outcome": report.outcome,
             "lines": report.rows()}
        )  # fmt: skip
    else:
        _show(report)
    if report.outcome == "UNDISCHARGEABLE":
        raise typer.Exit(FAILED)
    if strict and report.outcome == "CHANGES":
        raise typer.Exit(CHANGED)


def _show(report: "Report") -> None:
    lines = report.lines()
    if not lines:
        print("Nothing is open, so that any catalogue will do.")
        return
    columns = ("outcome", "count", "what", "why", "what to do", "the first of them")
    rows = [(_WORDS[one.outcome], one.count, one.what, one.why, one.advice, short(" ".join(one.ids))) for one in lines]
    show(table("", columns, rows))
