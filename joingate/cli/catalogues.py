"""The commands about what is declared and what is meant: catalogues, reasons, and this release."""

from pathlib import Path
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, duration, note, print_json, show, table
from joingate.faults import MALFORMED, FaceError

catalogue = typer.Typer(
    help="Check a catalogue's file, or show what one declares.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.add_typer(catalogue, name="catalogue")
    app.command()(reason)
    app.command()(version)


@catalogue.command()
def check(file: Annotated[Path, typer.Argument(help="The catalogue's file.")], json: Json = False) -> None:
    """Say whether the file loads, or all that is wrong with it, by line and field; and what has no effect yet."""
    from joingate_schemas.catalogue_file import CatalogueError, load_catalogue
    from joingate_schemas.catalogue_page import without_effect

    try:
        found = load_catalogue(file)
    except CatalogueError as error:
        if not json:
            raise
        print_json({"fits": False, "mistakes": [vars(mistake) for mistake in error.mistakes]})
        raise typer.Exit(MALFORMED) from error
    ahead = list(without_effect(found))
    if json:
        print_json({"fits": True, "version": found.version, "digest": found.digest, "without_effect": ahead})
    else:
        for sentence in ahead:
            note(f"{file}: {sentence}.")
        print(
            f"{file} fits: version {found.version}, {len(found.actions)} actions at {len(found.downstreams)} "
            f"downstreams, digest {found.digest[:12]}."
        )


@catalogue.command("show")
def show_catalogue(
    name: Annotated[
        str | None,
        typer.Argument(help="A catalogue's file, or builtin, or demo; left out: the one of JOINGATE_CATALOGUE."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a catalogue declares: downstreams, actions and obligations, as the gate understands them."""
    import json as codec

    from joingate.settings import find_catalogue, load_settings

    if name is None:
        name = load_settings().catalogue
        note(
            f"This is the catalogue `{name}` (JOINGATE_CATALOGUE, or builtin without it). `make run` runs `demo`: "
            "joingate catalogue show demo. What a live gate has in force: /v1/catalogues of its API."
        )
    found = find_catalogue(name)
    if json:
        print_json({"digest": found.digest, **codec.loads(found.source)})
        return
    show(
        f"Catalogue {name}, version {found.version}, digest {found.digest[:12]}",
        table(
            "\nDownstreams",
            ("name", "can be asked by", "in flight, at most"),
            [(d.name, ", ".join(d.capabilities), duration(d.in_flight_ms_max)) for d in found.downstreams.values()],
        ),
        table(
            "\nActions",
            ("name", "executor", "effect, kind", "undone by", "creates", "approval"),
            [
                (a.name, a.executor, f"{a.effect} {a.kind}", a.compensation or "", a.obligation or "", a.approval)
                for a in found.actions.values()
            ],
        ),
        table(
            "\nObligations",
            ("name", "ends as", "given back by", "needs an observation"),
            [
                (o.name, o.resolution, o.release_action or "", "yes" if o.observed else "no")
                for o in found.obligations.values()
            ],
        ),
    )


def reason(
    name: Annotated[str | None, typer.Argument(help="Its name or number; left out: all of them.")] = None,
    json: Json = False,
) -> None:
    """Explain a reason that a decision gave: what it means, what to do, and whether to try again."""
    from joingate_schemas.reasons import REASONS, Reason

    def row(one: Reason) -> dict[str, Any]:
        return {"number": one.number, "name": one.name, "meaning": one.meaning, "advice": one.advice,
                "retry": one.retry.value}  # fmt: skip

    if name is None:
        if json:
            for one in REASONS.values():
                print_json(row(one))
        else:
            show(table("", ("number", "name", "meaning"), [(r.number, r.name, r.meaning) for r in REASONS.values()]))
        return
    found = next((one for one in REASONS.values() if name.upper() == one.name or name == str(one.number)), None)
    if found is None:
        raise FaceError(f"There is no reason {name}. `joingate reason` lists them all.", MALFORMED)
    if json:
        print_json(row(found))
    else:
        print(
            f"{found.name} ({found.number})\n{found.meaning}\n{found.advice}\nTrying again helps: {found.retry.value}."
        )


def version(json: Json = False) -> None:
    """Say which release this is, and what it runs on."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    names = ("joingate", "confluent-kafka", "fastavro", "faust-streaming", "rocksdict")
    found: dict[str, str] = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version_of(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    if json:
        print_json(found)
    else:
        print(
            "\n".join(
                f"{name} {number}" for name, number in sorted(found.items(), key=lambda one: one[0] != "joingate")
            )
        )
