"""The commands about topics: create what is missing, check what is there, list what there should be."""

from typing import Annotated

import typer

from joingate.cli.output import Json, duration, print_json, show, table

CatalogueName = Annotated[
    str | None, typer.Option("--catalogue", help="Whose executors get topics of commands [JOINGATE_CATALOGUE].")
]

topics = typer.Typer(
    help="Create, check or list the topics. Without a word: create what is missing, and check.", rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.add_typer(topics, name="topics")


@topics.callback(invoke_without_command=True)
def _bare(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        create()


@topics.command()
def create(catalogue: CatalogueName = None, json: Json = False) -> None:
    """Create what is missing, see that all of it fits, publish our schemas, and try the broker out."""
    from joingate import deployment
    from joingate.settings import find_catalogue, load_settings

    settings = load_settings(catalogue=catalogue)
    created = deployment.create_topics(settings, find_catalogue(settings.catalogue))
    deployment.try_canary(settings)
    if json:
        print_json({"created": created, "partitions": settings.partitions, "at": settings.bootstrap_servers})
    else:
        print(f"{len(created)} topics created at {settings.bootstrap_servers}; all of them fit.")


@topics.command()
def check(catalogue: CatalogueName = None, json: Json = False) -> None:
    """See that every topic is there, with the partitions and settings that the gate relies on."""
    from joingate import deployment
    from joingate.settings import find_catalogue, load_settings

    settings = load_settings(catalogue=catalogue)
    deployment.check_topics(settings, find_catalogue(settings.catalogue))
    if json:
        print_json({"fits": True, "at": settings.bootstrap_servers})
    else:
        print(f"All topics at {settings.bootstrap_servers} fit.")


@topics.command("list")
def list_topics(catalogue: CatalogueName = None, json: Json = False) -> None:
    """List the topics as they should be, with their settings. Asks no broker."""
    from joingate import deployment
    from joingate.settings import find_catalogue, load_settings

    settings = load_settings(catalogue=catalogue)
    specs = deployment.every_topic(settings, find_catalogue(settings.catalogue))
    if json:
        for spec in specs:
            print_json({"topic": spec.name, "partitions": spec.partitions, "settings": dict(spec.settings)})
        return
    rows = [(spec.name, spec.partitions, *_told(dict(spec.settings))) for spec in specs]
    show(table("", ("topic", "partitions", "kept", "record, at most", "time is"), rows))


def _told(settings: dict[str, str]) -> tuple[str, str, str]:
    """The settings as people say them: how long it is kept, how large a record may be, whose the stamps are."""
    if settings.get("cleanup.policy") == "compact":
        kept = "the latest of each key"
    else:
        ms = int(settings.get("retention.ms", "-1"))
        kept = "for ever" if ms < 0 else duration(ms)
    size = settings.get("max.message.bytes")
    stamped = "the broker's" if settings.get("message.timestamp.type") == "LogAppendTime" else "the writer's"
    return kept, f"{int(size) / 1024 / 1024:g} MiB" if size else "the broker's limit", stamped
