"""The command about named scenarios: what goes wrong in a system of obligations, and what must come of it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from joingate.cli.output import Json, is_terminal, print_json, show, table, without_catalogues
from joingate.cli.tracing import came_of, reason_of
from joingate.faults import FAILED, MALFORMED, FaceError

if TYPE_CHECKING:
    from joingate.scenarios.named import NamedScenario, ScenarioReport

_KINDS = {"INJECTION": "injected failure", "MODE": "failure mode"}


def add_to(app: typer.Typer) -> None:
    """Add the command of this room."""
    app.command()(scenario)


def scenario(
    name: Annotated[str | None, typer.Argument(help="Which scenario; --list has them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List every scenario, and what must come of it.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Play every scenario, one line each.")] = False,
    json: Json = False,
) -> None:
    """Play a named failure in memory: what goes wrong, what must come of it, what came, and the ledger verified.

    Exit code 1 if what came is not what must come, or the ledger breaks an invariant.
    """
    from joingate.scenarios.named import play, scenario_named, scenarios

    if [name is not None, listed, every].count(True) != 1:
        raise FaceError("Name one scenario, or ask for --list or --all.", MALFORMED)
    if listed:
        _show_list(scenarios(), json)
        return
    reports = [play(one) for one in (scenarios() if name is None else (scenario_named(name),))]
    for report in reports:
        _show(report, brief=every, json=json)
    if not all(report.holds for report in reports):
        raise typer.Exit(FAILED)


def _show_list(known: "tuple[NamedScenario, ...]", json: bool) -> None:
    if json:
        for one in known:
            print_json(vars(one))
        return
    rows = [(one.name, _KINDS[one.kind], one.wrong) for one in known]
    show(table("", ("scenario", "kind", "what goes wrong"), rows))


def _show(report: "ScenarioReport", *, brief: bool, json: bool) -> None:
    if json:
        row = report.row()
        print_json({**row, "decisions": [without_catalogues(one) for one in row["decisions"]]})
        return
    one = report.scenario
    if brief:
        print(f"{one.name}: {'held' if report.holds else 'FAILED'}")
        return
    print(f"{_KINDS[one.kind].capitalize()}: {one.wrong}")
    print(f"Expected: {one.expected}\n")
    _show_decisions(report.decisions)
    print()
    for line in report.lines():
        print(line)


def _show_decisions(decisions: list[dict[str, Any]]) -> None:
    if not is_terminal():
        for decision in decisions:
            print_json(without_catalogues(decision))
        return
    rows = [
        (one["line"], one["type"], f"{one['verdict']} {reason_of(one)}".rstrip(), came_of(one)) for one in decisions
    ]
    show(table("", ("line", "claim", "verdict", "what came of it"), rows))
