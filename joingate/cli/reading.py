"""The commands that ask the API: how things stand, and why something is as it is."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, counts, moment, note, print_json, show, table
from joingate.faults import FAILED

Api = Annotated[str | None, typer.Option("--api", help="The API's address [JOINGATE_API_URL].")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command()(status)
    app.command()(explain)


def status(api: Api = None, json: Json = False) -> None:
    """Say how things stand: what is wrong first, then counts. Exit code 1 if gate or projections are not well."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    settings = load_settings(api_url=api)
    gate = _gate_beside(settings)
    reader = HttpReader(settings.api_url)
    try:
        health, summary, positions = reader.health(), reader.summary(), reader.positions()
    except Exception:
        # A halt is worth knowing just then.
        for problem in gate["problems"] if gate else ():
            note(problem)
        raise
    if gate is not None and not health.get("gate", {}).get("known"):
        # The API is not beside the gate, but we are.
        problems = [*gate["problems"], *health["problems"]]
        health = {**health, "gate": gate, "problems": problems, "healthy": not problems}
    if json:
        print_json({"health": health, "summary": summary, "positions": positions})
    else:
        _show_status(reader, health, summary)
    if not health["healthy"]:
        raise typer.Exit(FAILED)


def _gate_beside(settings: Any) -> dict[str, Any] | None:
    """What the gate's status file says, where this machine has it. One that is only old is of some other run."""
    from joingate.gate_file import read_gate, status_file

    report = read_gate(status_file(settings))
    if report is None or not (report.fresh or settings.gate_status):
        return None
    return report.row()


def _show_status(reader: Any, health: dict[str, Any], summary: dict[str, Any]) -> None:
    position = ", ".join(f"{partition}:{seq}" for partition, seq in sorted(health["position"].items()))
    for problem in health["problems"]:
        print(f"WRONG  {problem}")
    doubts, orphans = reader.page("in_doubt")["rows"], reader.page("orphans")["rows"]
    overdue = [row for row in doubts if row.get("overdue")]
    if overdue:
        print(
            f"OVERDUE  {len(overdue)} in doubt past their deadline: {', '.join(row['subject_id'] for row in overdue)}"
        )
    for found, title in ((doubts, "In doubt"), (orphans, "Orphaned")):
        if found:
            columns = ("since", "intent", "subject", "what", "cause")
            show(table(f"\n{title}", columns, [_trouble(row) for row in found]))
    if not (health["problems"] or doubts or orphans):
        print("Nothing is wrong, in doubt or orphaned.")
    if summary["signatures"]["sentence"]:
        print(f"UNSIGNED  {summary['signatures']['sentence']}")
    gate = health.get("gate", {})
    states = ", ".join(f"{number} {state}" for number, state in sorted(gate.get("partitions", {}).items()))
    print(f"Gate: {states or 'its status file is not known here (JOINGATE_GATE_STATUS)'}")
    print(f"Ledger position {position or 'none'}")
    show(table("", ("table", "counts"), list(_counted(summary["tables"]))))


_COUNTED_BY = ("shown", "verdict", "status", "kind")
"""By which field a table is counted for people, the first that it has."""


def _counted(tables: dict[str, dict[str, dict[str, int]]]) -> Iterator[tuple[str, str]]:
    for name, fields in tables.items():
        by = next((one for one in _COUNTED_BY if one in fields), next(iter(fields)))
        if any(fields[by].values()):
            yield name.replace("_", " "), counts(fields[by])


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
