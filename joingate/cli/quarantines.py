"""The commands by which a person ends trouble, by name: records that could not be read, and effects nobody allowed."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joingate.cli.lists import milliseconds
from joingate.cli.output import Json, counts, moment, print_json, show, table
from joingate.cli.reading import Api
from joingate.faults import FAILED, MALFORMED, FaceError

if TYPE_CHECKING:
    from joingate.settings import Settings
    from joingate_producers import Operator, PendingVerdict

_AT_ONCE_MAX = 500
"""How many claims are on their way before their verdicts are waited for."""

quarantine = typer.Typer(
    help="See what could not be read, mend it, or let it go.", no_args_is_help=True, rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(help="The record's id, as `quarantine list` shows it.")]
Person = Annotated[str, typer.Option("--as", help="Your name: whoever forces something signs for it.")]
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.add_typer(quarantine, name="quarantine")
    app.command("clear")(clear)


def clear(
    orphan_id: Annotated[str, typer.Argument(help="The incident's id, as `incidents --json` and `explain` show it.")],
    person: Person,
    reason: Why,
    evidence: Annotated[list[str], typer.Option("--evidence", help="What shows it; may be given more than once.")],
    api: Api = None,
    json: Json = False,
) -> None:
    """Say that an effect nobody allowed was dealt with: SUSPECTED_EFFECT and STRAY_EFFECT end by a person's word."""
    row = _row("orphans", orphan_id, api)
    with _operator(person) as (operator, _):
        pending = operator.override(
            row["intent_id"], subject_kind="OPERATION", subject_id=orphan_id, to="CLEARED", reason=reason,
            evidence=evidence,
        )  # fmt: skip
        if _tell([(orphan_id, pending)], json):
            raise typer.Exit(FAILED)


@quarantine.command("list")
def list_quarantined(
    every: Annotated[bool, typer.Option("--all", help="Those that are resolved, too.")] = False,
    api: Api = None,
    json: Json = False,
) -> None:
    """List records that could not be read, and how many claims wait for each."""
    rows = _rows([] if every else [("status", "OPEN")], api)
    if json:
        for row in rows:
            print_json(row)
    elif rows:
        columns = ("id", "since", "problem", "scope", "waiting", "status")
        show(table("", columns, [_cells(row) for row in rows]))
    else:
        print("Nothing is quarantined.")


def _rows(filters: list[tuple[str, str]], api: str | None) -> list[dict[str, Any]]:
    """Every quarantined record that fits."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    reader = HttpReader(load_settings(api_url=api).api_url)
    page = reader.page("quarantine", filters)
    rows: list[dict[str, Any]] = page["rows"]
    while page["next"] is not None:
        page = reader.page("quarantine", filters, cursor=page["next"])
        rows += page["rows"]
    return rows


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    scope = row["scope"] or "the partition"
    return row["quarantine_id"], moment(row["created_at"]), row["problem"], scope, row["holds"], row["status"]


@quarantine.command("show")
def show_quarantined(record: Id, api: Api = None, json: Json = False) -> None:
    """Show a record that could not be read: where it lay, its bytes, and what is wrong with it."""
    row = _row("quarantine", record, api)
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
    row = _row("quarantine", record, api)
    if replacement is not None:
        mended = replacement.read_bytes()
    else:
        kept = row.get("record") or {}
        if not kept.get("value"):
            raise FaceError(f"The bytes of {record} are not known to the API: give them with --replacement.")
        mended = bytes.fromhex(kept["value"])
    with _operator(person) as (operator, settings):
        refused = _tell([_resolved(operator, settings, record, "REDRIVEN", reason, mended)], json)
    if refused:
        raise typer.Exit(FAILED)


@quarantine.command()
def dismiss(
    person: Person,
    reason: Why,
    record: Annotated[str | None, typer.Argument(help="The record's id; left out with --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every open record that fits the options below.")] = False,
    problem: Annotated[str | None, typer.Option("--problem", help="Only with this problem, such as OVERSIZED.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only under this key, which is an intent's id.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Only set aside before this time, such as 2026-11-30T15:00Z.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts.")] = False,
    api: Api = None,
    json: Json = False,
) -> None:
    """Let a record go: it said nothing that counts. What waited for it is decided now.

    With --all, everything that fits, after telling how many and asking. Exit codes: 0 all of them are dismissed, or
    nothing fits; 1 one was refused, or you said no; 2 it can't ask, for want of a terminal or because of --json, and
    --yes was not given.
    """
    if every is (record is not None):
        raise FaceError("Say which record, or --all.", MALFORMED)
    if record is not None:
        if (problem, scope, before) != (None, None, None):
            raise FaceError("--problem, --scope and --before choose among --all; one record needs none.", MALFORMED)
        chosen = [record]
    else:
        rows = _fitting(problem, scope, before, api)
        if rows and not yes:
            _ask(rows, json)
        chosen = [row["quarantine_id"] for row in rows]
    if chosen:
        _dismiss(chosen, person, reason, every, json)
    elif json:
        print_json({"dismissed": 0, "refused": 0})
    else:
        print("No open record fits: nothing was dismissed.")


def _fitting(problem: str | None, scope: str | None, before: str | None, api: str | None) -> list[dict[str, Any]]:
    """The open records that are meant."""
    until = milliseconds(before)
    filters = [(name, value) for name, value in (("problem", problem), ("scope", scope)) if value is not None]
    rows = _rows([("status", "OPEN"), *filters], api)
    return rows if until is None else [row for row in rows if row["created_at"] < int(until)]


def _ask(rows: list[dict[str, Any]], json: bool) -> None:
    """Tell what would be dismissed, and go on only at a yes."""
    found = f"{len(rows)} records: {counts(Counter(row['problem'] for row in rows))}"
    if json or not sys.stdin.isatty():
        raise FaceError(f"{found}. Nobody can be asked whether to dismiss them all: give --yes.", MALFORMED)
    waiting = sum(row["holds"] for row in rows)
    question = f"joingate: {found}; {waiting} claims wait for them. Dismiss them all? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise FaceError("Nothing was dismissed.")


def _dismiss(records: list[str], person: str, reason: str, every: bool, json: bool) -> None:
    refused = 0
    with _operator(person) as (operator, settings):
        for first in range(0, len(records), _AT_ONCE_MAX):
            some = records[first : first + _AT_ONCE_MAX]
            refused += _tell([_resolved(operator, settings, one, "DISMISSED", reason) for one in some], json)
    if every and json:
        print_json({"dismissed": len(records) - refused, "refused": refused})
    elif every:
        print(f"Dismissed: {len(records) - refused}. Refused: {refused}.")
    if refused:
        raise typer.Exit(FAILED)


def _row(table_name: str, record: str, api: str | None) -> dict[str, Any]:
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    row: dict[str, Any] = HttpReader(load_settings(api_url=api).api_url).one(table_name, record)["row"]
    return row


@contextmanager
def _operator(person: str) -> "Iterator[tuple[Operator, Settings]]":
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
        yield operator, settings


def _resolved(
    operator: "Operator", settings: "Settings", record: str, to: str, reason: str, replacement: bytes | None = None
) -> "tuple[str, PendingVerdict]":
    """The record's id, and the verdict that is to come on the claim that resolves it."""
    pending = operator.override(
        _on_partition_of(record, settings.partitions),
        subject_kind="QUARANTINE",
        subject_id=record,
        to=to,
        reason=reason,
        evidence=[f"{operator.principal}: {reason}"],
        replacement=replacement,
    )
    return record, pending


def _tell(resolved: "list[tuple[str, PendingVerdict]]", json: bool) -> int:
    """Wait for the verdicts and print them; how many are refusals."""
    refused = 0
    for record, pending in resolved:
        verdict = pending.wait()
        refused += verdict.refused
        if json:
            print_json({"id": record, "verdict": verdict.verdict, "reason": verdict.reason, "detail": verdict.detail})
        else:
            print(f"{record}: {verdict.verdict} {verdict.reason} {verdict.detail}".rstrip())
    return refused


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
