"""The commands that list what is open: commitments, by whatever they are filtered by, and what needs somebody."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, moment, print_json, show, table
from joingate.cli.questions import AtLeast, Intent, age, asked
from joingate.cli.reading import Api
from joingate.faults import MALFORMED, FaceError

Limit = Annotated[int | None, typer.Option("--limit", min=1, max=500, help="How many at once.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where a page ended; it said how.")]
Moment = Annotated[str | None, typer.Option(help="A time such as 2026-11-30T15:00Z, or milliseconds since the epoch.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    for command in (commitments, incidents):
        app.command()(command)


def commitments(
    status: Annotated[str | None, typer.Option("--status", help="Only with this status, such as ACTIVE.")] = None,
    shown: Annotated[str | None, typer.Option("--shown", help="Only with this word, such as ORPHANED.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.")] = None,
    resource: Annotated[str | None, typer.Option("--resource", help="Only on this resource.")] = None,
    of: Annotated[str | None, typer.Option("--type", help="Only of this obligation type.")] = None,
    intent: Intent = None,
    due_after: Moment = None,
    due_before: Moment = None,
    every: Annotated[bool, typer.Option("--all", help="Discharged ones too, in the order of their ids.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """List commitments: those that are open, oldest first; or by when they are due, if that is asked for."""
    from joingate.settings import load_settings
    from joingate_projections.paging import LIMIT_DEFAULT
    from joingate_projections.reader import HttpReader

    filters = [
        (name, value)
        for name, value in (
            ("status", status), ("shown", shown), ("owner", owner), ("resource", resource), ("type", of),
            ("intent", intent), ("due_after", milliseconds(due_after)), ("due_before", milliseconds(due_before)),
        )
        if value is not None
    ]  # fmt: skip
    by_due = due_after is not None or due_before is not None
    answer = HttpReader(load_settings(api_url=api).api_url).page(
        "commitments", filters, limit=limit or LIMIT_DEFAULT, cursor=cursor,
        order=None if by_due or every else "open_since",
    )  # fmt: skip
    if json:
        print_json(answer)
        return
    columns = ("commitment", "state", "type", "resources", "owner", "due", "since", "intent")
    show(table("", columns, [_row(row) for row in answer["rows"]]))
    _more(answer)


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    state = row["shown"] if row["shown"].startswith(row["status"]) else f"{row['shown']} ({row['status']})"
    return (
        row["commitment_id"], state, row["obligation_type"], ", ".join(row["resource_refs"]), row["owner_id"],
        moment(row["due_at"]), moment(row["since"]), row["intent_id"],
    )  # fmt: skip


def incidents(
    word: Annotated[
        str | None, typer.Option("--word", help="ORPHANED, IN DOUBT, BREACHED, UNREADABLE or NEAR DUPLICATE.")
    ] = None,
    intent: Intent = None,
    at_least: AtLeast = None,
    limit: Limit = None,
    cursor: Cursor = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """List everything that needs somebody, oldest first: age, cause, what to do, and what it comes from."""
    answer = asked(api, "incidents", word=word, intent=intent, at_least=at_least, limit=limit, cursor=cursor)
    if json:
        print_json(answer)
        return
    if not answer["rows"] and answer["next"] is None:
        print("Nothing is orphaned, in doubt, breached or unreadable.")
        return
    for row in answer["rows"]:
        late = ", past its deadline" if row["overdue"] else ""
        print(f"{row['word']} for {age(row['age_ms'])}{late}: {row['subject_kind'].lower()} {row['subject_id']}")
        print(f"  {row['kind']}: {row['cause'] or 'no cause told'}")
        print(f"  to do: {row['suggested_action']}")
        if row["lineage"]:
            print(f"  comes from: {' > '.join(one['name'] for one in row['lineage'])}")
    _more(answer)


def _more(answer: dict[str, Any]) -> None:
    if answer["next"] is not None:
        print(f"There is more: --cursor {answer['next']}")


def milliseconds(text: str | None) -> str | None:
    """A time as the API takes it. Raises FaceError."""
    if text is None or text.isdigit():
        return text
    try:
        told = datetime.fromisoformat(text)
    except ValueError as error:
        raise FaceError(
            f"{text!r} is no time: write 2026-11-30T15:00Z, or milliseconds since the epoch.", MALFORMED
        ) from error
    return str(int((told if told.tzinfo is not None else told.replace(tzinfo=UTC)).timestamp() * 1000))
