"""The commands about records that could not be read: see them, mend them, or let them go."""

from pathlib import Path
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, moment, print_json, show, table
from joingate.cli.reading import Api
from joingate.faults import FAILED, FaceError

quarantine = typer.Typer(
    help="See what could not be read, mend it, or let it go.", no_args_is_help=True, rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(help="The record's id, as `quarantine list` shows it.")]
Person = Annotated[str, typer.Option("--as", help="Your name: whoever forces something signs for it.")]
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.add_typer(quarantine, name="quarantine")


@quarantine.command("list")
def list_quarantined(
    every: Annotated[bool, typer.Option("--all", help="Those that are resolved, too.")] = False,
    api: Api = None,
    json: Json = False,
) -> None:
    """List records that could not be read, and how many claims wait for each."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    reader = HttpReader(load_settings(api_url=api).api_url)
    filters = [] if every else [("status", "OPEN")]
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = reader.page("quarantine", filters, cursor=cursor)
        rows += page["rows"]
        cursor = page["next"]
        if cursor is None:
            break
    if json:
        for row in rows:
            print_json(row)
    elif rows:
        columns = ("id", "since", "problem", "scope", "waiting", "status")
        show(table("", columns, [_cells(row) for row in rows]))
    else:
        print("Nothing is quarantined.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    scope = row["scope"] or "the partition"
    return row["quarantine_id"], moment(row["created_at"]), row["problem"], scope, row["holds"], row["status"]


@quarantine.command("show")
def show_quarantined(record: Id, api: Api = None, json: Json = False) -> None:
    """Show a record that could not be read: where it lay, its bytes, and what is wrong with it."""
    row = _row(record, api)
    if json:
        print_json(row)
        return
    for name, value in row.items():
        if name != "record":
            print(f"{name}: {value}")
    for name, value in (row.get("record") or {}).items():
        if name in ("key", "value", "topic", "partition", "offset"):
            print(f"{name}: {value}")


@quarantine.command()
def redrive(
    record: Id,
    person: Person,
    reason: Why,
    replacement: Annotated[
        Path | None, typer.Option("--replacement", help="A file with the mended bytes; left out: as they were.")
    ] = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """Have the record decided after all, mended or as it was, and then what waited for it."""
    row = _row(record, api)
    if replacement is not None:
        mended = replacement.read_bytes()
    else:
        kept = row.get("record") or {}
        if not kept.get("value"):
            raise FaceError(f"The bytes of {record} are not known to the API: give them with --replacement.")
        mended = bytes.fromhex(kept["value"])
    _resolve(record, "REDRIVEN", person, reason, mended, json)


@quarantine.command()
def dismiss(record: Id, person: Person, reason: Why, json: Json = False) -> None:
    """Let the record go: it said nothing that counts. What waited for it is decided now."""
    _resolve(record, "DISMISSED", person, reason, None, json)


def _row(record: str, api: str | None) -> dict[str, Any]:
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    row: dict[str, Any] = HttpReader(load_settings(api_url=api).api_url).one("quarantine", record)["row"]
    return row


def _resolve(record: str, to: str, person: str, reason: str, replacement: bytes | None, json: bool) -> None:
    from joingate.settings import load_settings
    from joingate_producers import Operator

    settings = load_settings()
    with Operator.connect(
        bootstrap_servers=settings.bootstrap_servers,
        prefix=settings.prefix,
        registry_url=settings.registry_url,
        client=settings.client,
        principal=person,
        outbox=None,
    ) as operator:
        verdict = operator.override(
            _on_partition_of(record, settings.partitions),
            subject_kind="QUARANTINE",
            subject_id=record,
            to=to,
            reason=reason,
            evidence=[f"{person}: {reason}"],
            replacement=replacement,
        ).wait()
    if json:
        print_json({"id": record, "verdict": verdict.verdict, "reason": verdict.reason, "detail": verdict.detail})
    else:
        print(f"{record}: {verdict.verdict} {verdict.reason} {verdict.detail}".rstrip())
    if verdict.refused:
        raise typer.Exit(FAILED)


def _on_partition_of(record: str, partitions: int) -> str:
    """A key that lies on the record's own partition, where the gate remembers it. The record's own key may not."""
    from joingate_schemas.topics import partition_for

    parts = record.split("/")
    if len(parts) != 3 or not parts[1].isdigit() or int(parts[1]) >= partitions:
        raise FaceError(f"{record} is no quarantined record's id, which is <topic>/<partition>/<offset>.")
    number = 0
    while partition_for(f"quarantine/{number}".encode(), partitions) != int(parts[1]):
        number += 1
    return f"quarantine/{number}"
