"""The commands that ask the API: how things stand, and why something is as it is."""

from typing import Annotated, Any

import typer

from joingate.cli.output import Json, counts, escaped, moment, print_json, show, table
from joingate.faults import FAILED

Api = Annotated[str | None, typer.Option("--api", help="The API's address [JOINGATE_API_URL].")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command()(status)
    app.command()(explain)


def status(api: Api = None, json: Json = False) -> None:
    """Say how things stand: what is open, in doubt, orphaned, refused. Exit code 1 if the projections are not well."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    reader = HttpReader(load_settings(api_url=api).api_url)
    health, summary, positions = reader.health(), reader.summary(), reader.positions()
    if json:
        print_json({"health": health, "summary": summary, "positions": positions})
    else:
        _show_status(reader, health, summary)
    if not health["healthy"]:
        raise typer.Exit(FAILED)


def _show_status(reader: Any, health: dict[str, Any], summary: dict[str, Any]) -> None:
    rows = [
        (name, field, counts(found)) for name, fields in summary["tables"].items() for field, found in fields.items()
    ]
    position = ", ".join(f"{partition}:{seq}" for partition, seq in sorted(health["position"].items()))
    well = "well" if health["healthy"] else "; ".join(health["problems"])
    show(f"Projections: {escaped(well)} (ledger {position})", table("", ("table", "by", "count"), rows))
    for name, title in (("in_doubt", "In doubt"), ("orphans", "Orphans")):
        found = reader.page(name)["rows"]
        if found:
            columns = ("since", "intent", "subject", "what", "cause")
            show(table(f"\n{title}", columns, [_trouble(row) for row in found]))


def _trouble(row: dict[str, Any]) -> tuple[str, ...]:
    what = row.get("kind") or row.get("status") or ""
    return moment(row["since"]), row["intent_id"], row["subject_id"], str(what), str(row.get("cause") or "")


def explain(
    subject: Annotated[str, typer.Argument(help="The id of anything: an intent, an operation, a claim…")],
    api: Api = None,
    json: Json = False,
) -> None:
    """Tell everything known about an id, and every decision that mentions it, in order."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader, lines_of

    reader = HttpReader(load_settings(api_url=api).api_url)
    explained = reader.explain(subject)
    cursor = explained["next"]
    while cursor is not None:
        more = reader.explain(subject, cursor=cursor)
        explained["decisions"] += more["decisions"]
        explained["next"] = cursor = more["next"]
    if json:
        print_json(explained)
    else:
        for line in lines_of(explained):
            print(line)
