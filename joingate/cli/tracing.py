"""The commands about traces and ledgers: play a trace with or without a broker, prove, verify, write one down."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joingate.cli.output import Json, is_terminal, note, print_json, short, show, table, without_catalogues
from joingate.faults import FAILED, FaceError

if TYPE_CHECKING:
    from joingate_processors.forensics.play import TraceResult
    from joingate_processors.forensics.prove import ProveResult
    from joingate_schemas.catalogue import Catalogue

TraceFile = Annotated[Path, typer.Argument(help="The trace: a file with one JSON object a line.")]
State = Annotated[bool, typer.Option("--state", help="Print what is remembered at the end, as the last object.")]
CatalogueName = Annotated[
    str | None,
    typer.Option("--catalogue", help="A catalogue's file, or builtin, or demo; goes before the trace's own."),
]
Partition = Annotated[int | None, typer.Option("--partition", help="Only this partition of the ledger.")]

_SEEDS_SHOWN_MAX = 5


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    for command in (simulate, submit, prove, verify, replay, trace):
        app.command()(command)


def simulate(trace_file: TraceFile, state: State = False, catalogue: CatalogueName = None, json: Json = False) -> None:
    """Play a trace in memory: the gate's own law, a clock of its own, no broker.

    Prints one JSON object a decision (a table, on a terminal without --json); the text of a catalogue is left out:
    `catalogue show NAME --json` has it. Exit code 1 if an `expect` failed,
    2 if the trace is malformed.
    """
    from joingate_processors.forensics.play import run_trace

    result = run_trace(trace_file, _catalogue(catalogue) if catalogue is not None else None)
    _print_result(result, state, json)


def _catalogue(name: str) -> "Catalogue":
    from joingate.settings import find_catalogue

    return find_catalogue(name)


def submit(
    trace_file: TraceFile,
    state: State = False,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for each decision, at most.")] = 30.0,
    json: Json = False,
) -> None:
    """Play a trace against a live gate, and print the same objects as `simulate`.

    Time is the broker's: `at` is passed over, `advance` is waited for. A `restart` is for `simulate` only.
    """
    from joingate.live import submit_trace
    from joingate.settings import load_settings

    result = submit_trace(load_settings(), trace_file, wait_s=wait)
    _print_result(result, state, json)


def _print_result(result: "TraceResult", state: bool, json: bool) -> None:
    if json or not is_terminal():
        for decision in result.decisions:
            print_json(without_catalogues(decision))
        if state:
            print_json(result.state)
    else:
        columns = ("line", "claim", "verdict", "what came of it")
        rows = [(d["line"], d["type"], f"{d['verdict']} {reason_of(d)}".rstrip(), came_of(d)) for d in result.decisions]
        show(table("", columns, rows))
        if state:
            print_json(result.state)
    for failure in result.failures:
        print(f"joingate: {failure}", file=sys.stderr)
    if result.failures:
        raise typer.Exit(FAILED)


def reason_of(decision: dict[str, Any]) -> str:
    """The reason, where it says more than that all is well."""
    return "" if decision["reason"] == "OK" else str(decision["reason"])


def came_of(decision: dict[str, Any]) -> str:
    """What followed from the decision, in one short line."""
    facts = ", ".join(fact["type"] for fact in decision["facts"])
    return short(": ".join(part for part in (facts, decision["detail"]) if part))


def prove(
    traces: Annotated[int | None, typer.Option("--traces", min=1, help="How many traces; without it 10000.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first trace's seed; each has the next.")] = 7,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, max=100, help="How many steps each plan has; without it 1 to 6, drawn."),
    ] = None,
    alternatives: Annotated[
        bool,
        typer.Option("--alternatives", help="Compare simpler systems of obligations instead; 1000 stories by default."),
    ] = False,
    json: Json = False,
) -> None:
    """Run many traces of everything that goes wrong, with a gate and without, and count what breaks.

    Exit code 1 if a trace broke anything behind the gate. One trace with a seed prints its whole ledger.
    With --alternatives: a task queue, one with durable cancellation, one with a ledger of commitments, and the full
    graph, over the same stories; what each leaked, duplicated and lost by the provider's books, and its cost.
    """
    if alternatives:
        _compare(traces, seed, json)
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    from joingate_processors.forensics.prove import TRACES
    from joingate_processors.forensics.prove import prove as run

    # On stderr, so that what is piped on is the answer alone; Rich shows nothing where no terminal is.
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("traces", total=traces or TRACES)
        result = run(traces or TRACES, seed, steps=steps, progress=lambda done: progress.update(bar, completed=done))
    if json:
        print_json(_proof(result))
    else:
        _show_proof(result)
    if not result.holds:
        raise typer.Exit(FAILED)


def _compare(stories: int | None, seed: int, json: bool) -> None:
    from joingate_processors.forensics.alternatives import STORIES, compare

    result = compare(stories or STORIES, seed)
    if json:
        print_json({**asdict(result), "holds": result.holds})
    else:
        columns = ("system", "leaked", "duplicated", "lost", "stories", "calls", "records", "people asked")
        rows = [
            (one.system, one.leaked, one.duplicated, one.lost, one.stories, one.calls, one.records, one.people)
            for one in result.tallies
        ]
        show(table(f"{result.stories} stories from seed {seed}, {result.obligations} obligations", columns, rows))
        for story_seed, violation in result.violations:
            print(f"seed {story_seed}: {violation}")
        print(
            "\nStories: those in which anything was leaked, duplicated or lost. Calls go to the provider, records are"
        )
        print("durable. A system that makes no obligations outside needs none of this, and pays for it all the same.")
    if not result.holds:
        raise typer.Exit(FAILED)


def _proof(result: "ProveResult") -> dict[str, Any]:
    shown = {key: dict(value) if hasattr(value, "most_common") else value for key, value in vars(result).items()}
    return {**shown, "holds": result.holds}


def _show_proof(result: "ProveResult") -> None:
    show(
        table(
            f"{result.traces} traces from seed {result.seed}, {result.decisions} decisions",
            ("", "naive (without a gate)", "behind the gate"),
            [
                ("traces that break an invariant", result.naive_violations, result.gated_violations),
                ("traces with an effect made twice", result.naive_doubled, result.gated_doubled),
            ],
        ),
        table("\nWhat went wrong in them", ("fault", "times"), result.faults.most_common()),
        table("\nWhat the gate answered, over all traces", ("verdict", "times"), result.verdicts.most_common()),
    )
    for decision in result.ledger or ():
        print_json(without_catalogues(decision))
    for trace_seed, violation in result.violations:
        print(f"seed {trace_seed}: {violation}")
    print("\nNaive: the same story with an agent that calls the tools itself, and tries again when no answer comes.")
    naive = ", ".join(map(str, result.naive_seeds[:_SEEDS_SHOWN_MAX])) or "none"
    print(f"The gate closed {result.closed} intents. Naive failures to look at (--json has all): seeds {naive}.")
    print(f"One again: joingate prove --traces 1 --seed SEED{f' --steps {result.steps}' if result.steps else ''}")


def verify(partition: Partition = None, json: Json = False) -> None:
    """Check a live ledger: its chain, every invariant by a checker of its own, and each decision by the law again.

    So too the arbiter's ledger, and the two beside each other: what was granted was asked for, and is given back.
    Reads only. Exit code 1 if anything is broken, or if there is nothing to check.
    """
    from joingate.audit import verify_ledger
    from joingate.settings import load_settings

    settings = load_settings()
    report = verify_ledger(settings, partition)
    if json:
        print_json(report.row())
    else:
        for line in report.lines():
            print(line)
    if not any(report.records.values()):
        which = "The ledger" if partition is None else f"Partition {partition} of the ledger"
        raise FaceError(
            f"{which} {settings.topics.ledger} at {settings.bootstrap_servers} holds no decision, so that nothing was "
            "checked: see that JOINGATE_PREFIX and BOOTSTRAP_SERVERS name the deployment that you mean."
        )
    if not report.holds:
        raise typer.Exit(FAILED)


def replay(
    partition: Annotated[
        int | None, typer.Option("--partition", help="Which partition of the ledger; an intent's own needs no saying.")
    ] = None,
    intent: Annotated[str | None, typer.Option("--intent", help="Only claims of this intent.")] = None,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Write the decisions instead, as `simulate` prints them.")
    ] = False,
) -> None:
    """Write what a live gate was told as a trace, on stdout, to be played again by `simulate`.

    Reads only. Claims that a REPLAYED decision answered are read from the topics where they arrived.
    """
    from joingate.audit import write_ledger, write_trace
    from joingate.settings import load_settings

    settings = load_settings()
    if ledger:
        for shown in write_ledger(settings, partition, intent):
            print_json(without_catalogues(shown))
        return
    lost = 0
    for line in write_trace(settings, partition, intent):
        if line is None:
            lost += 1
        else:
            print_json(line)
    if lost:
        note(f"{lost} repeated claims are gone from their topics, and are not in the trace: they changed nothing.")


def trace(
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of a trace's lines.")] = False,
) -> None:
    """Tell what a trace is; with --schema, print the JSON schema of its lines."""
    if schema:
        import json as codec

        from joingate_processors.forensics.trace_schema import trace_schema

        print(codec.dumps(trace_schema(), indent=2, ensure_ascii=False))
        return
    print(
        "A trace is a file with one JSON object a line: claims, raw records, moves of the clock, restarts, and what\n"
        "is expected. `joingate simulate` plays it in memory, `joingate submit` against a live gate, and\n"
        "`joingate replay` writes one from a live ledger. `joingate trace --schema` prints the schema of its lines."
    )
