"""The commands that run: all of it at once, or one piece, until Ctrl-C or SIGTERM."""

from pathlib import Path
from typing import Annotated

import typer

from joingate.cli.output import Json

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where state is kept [JOINGATE_DATA_DIR].")]
CatalogueName = Annotated[
    str | None, typer.Option("--catalogue", help="A catalogue's file, or builtin, or demo [JOINGATE_CATALOGUE].")
]
Host = Annotated[str | None, typer.Option("--host", help="The address to listen on [JOINGATE_HOST].")]
Port = Annotated[int | None, typer.Option("--port", help="The API's port; 0 takes a free one [JOINGATE_PORT].")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    for command in (up, gate, arbiter, project, serve, reconcile, sample):
        app.command()(command)


def up(
    once: Annotated[
        bool, typer.Option("--once", help="End after the scenarios; exit 0 if all held, 130 if interrupted.")
    ] = False,
    data_dir: DataDir = None,
    port: Port = None,
    json: Json = False,
) -> None:
    """Start everything, play the two bundled scenarios, and go on until Ctrl-C.

    A Kafka broker is found (BOOTSTRAP_SERVERS) or started. State is kept in a folder that goes when all ends, or in
    --data-dir. Ctrl-C ends it with exit code 0, or 130 where --once was not done yet; a second one ends it at once.
    """
    from joingate.settings import load_settings
    from joingate.up import Options, run_up

    settings = load_settings(port=port)
    raise typer.Exit(run_up(settings, Options(once=once, data_dir=data_dir, machine=json, port_given=port is not None)))


def gate(
    catalogue: CatalogueName = None,
    data_dir: DataDir = None,
    accept_undischargeable: Annotated[
        str,
        typer.Option(
            "--accept-undischargeable",
            help="Start over what the catalogue can't discharge: who takes that on, and why. It is recorded.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Decide claims: one gate worker. Start several, each with a --data-dir of its own, to share the partitions.

    With a catalogue that can't discharge what is open it does not start; `joingate upgrade-check` says so before.
    """
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(catalogue=catalogue, data_dir=data_dir)
    services.run_gate(settings, services.until_signal(), services.Reporter("gate", json), accept_undischargeable)


def arbiter(json: Json = False) -> None:
    """Decide who gets what is scarce: one arbiter worker. Start several to share the partitions; none needs a disk."""
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    services.run_arbiter(load_settings(), services.until_signal(), services.Reporter("arbiter", json))


def project(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Forget the projections, and fold anew.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Fold the ledger into the projections, without answering questions (see `serve --read-only`)."""
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(data_dir=data_dir)
    services.run_project(settings, services.until_signal(), services.Reporter("project", json), rebuild=rebuild)


def serve(
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only answer; `joingate project` folds, on this machine.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Forget the projections, and fold anew.")] = False,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Answer questions about the ledger over HTTP, and fold it in the same process."""
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(host=host, port=port, data_dir=data_dir)
    reporter = services.Reporter("serve", json)
    services.run_serve(settings, services.until_signal(), reporter, read_only=read_only, rebuild=rebuild)


def reconcile(data_dir: DataDir = None, json: Json = False) -> None:
    """Find out what became of what is in doubt, by asking the systems of record [JOINGATE_DOWNSTREAMS]."""
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(data_dir=data_dir)
    services.run_reconcile(settings, services.until_signal(), services.Reporter("reconcile", json))


def sample(
    host: Annotated[str | None, typer.Option("--host", help="The bank's address [JOINGATE_HOST].")] = None,
    port: Annotated[int, typer.Option("--port", help="The bank's port; 0 takes a free one.")] = 0,
    catalogue: CatalogueName = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Run the sample bank, and executors that act at it; see `up` for scenarios that use them."""
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(host=host, catalogue=catalogue, data_dir=data_dir)
    services.run_sample(settings, services.until_signal(), services.Reporter("sample", json), bank_port=port)
