"""The room where the command line is put together: its commands, its exit codes, and the one place that meets errors.

Exit codes: 0 it was done; 1 it failed, or the gate said no; 2 the command line or a given file is malformed; 130 it was
interrupted; `upgrade-check --strict` has one of its own, 3. Errors are one sentence on stderr; `--debug` shows where
they came from.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from joingate.cli import (
    catalogues,
    gateways,
    keys,
    lists,
    quarantines,
    questions,
    reading,
    scenes,
    serving,
    topics,
    tracing,
    upgrades,
)
from joingate.faults import FAILED, INTERRUPTED, MALFORMED, FaceError

HELP = """A gate over Apache Kafka that decides, exactly once, which of an agent's actions may go ahead.

Exit codes: 0 it was done; 1 it failed, or the gate said no; 2 the command line or a given file is malformed;
130 it was interrupted. Answers go to stdout, as JSON with --json; errors and progress go to stderr.
"""

# Errors whose text is a sentence for people, by their full name: a table of classes would load every room.
_SENTENCES: dict[str, int] = {
    "joingate.java_kafka.KafkaUnavailableError": FAILED,
    "joingate.sample.process.BankDidNotStart": FAILED,
    "joingate.scenarios.stage.SceneFailed": FAILED,
    "joingate_producers.errors.JoinGateError": FAILED,
    "joingate_processors.forensics.trace.TraceError": MALFORMED,
    "joingate_processors.reconciler.run.Stuck": FAILED,
    "joingate_processors.reconciler.security.Unsupported": MALFORMED,
    "joingate_projections.errors.ReadError": FAILED,
    "joingate_projections.store.StoreError": FAILED,
    "joingate_projections.worker.ProjectionError": FAILED,
    "joingate_schemas.canary.CanaryFailed": FAILED,
    "joingate_schemas.canary.LeakyBroker": FAILED,
    "joingate_schemas.catalogue_file.CatalogueError": MALFORMED,
    "joingate_schemas.registry.RegistryUnavailable": FAILED,
    "joingate_schemas.signing.KeyFileError": MALFORMED,
    "joingate_schemas.topics.TopicMismatch": FAILED,
    "joingate_schemas.topics.TopicsUnavailable": FAILED,
}


class Face(TyperGroup):
    """The group of all commands: turns whatever goes wrong below it into a sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; ends the process unless `standalone_mode` is off."""
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            if "--debug" in given:
                traceback.print_exc()
            sentence, code = explained(error, given)
            if isinstance(error, BrokenPipeError):
                # What is left in the buffer has nobody to go to; without this the interpreter complains at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if sentence:
                print(f"joingate: {sentence}", file=sys.stderr)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def explained(error: BaseException, given: Sequence[str] = ()) -> tuple[str, int]:
    """The sentence about an error, and the exit code. `given` is the command line that led to it."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "Interrupted.", INTERRUPTED
    if isinstance(error, FaceError):
        return str(error), error.exit_code
    for cls in type(error).__mro__:
        code = _SENTENCES.get(f"{cls.__module__}.{cls.__qualname__}")
        if code is not None:
            return str(error), code
    # Which library the command line's own mistakes come from depends on Typer's version; their shape does not.
    if type(error).__name__ == "NoArgsIsHelpError":
        print(str(getattr(error, "message", "")).rstrip())
        return "", 0
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        return f"{error.format_message()} Try --help.", MALFORMED
    if isinstance(error, BrokenPipeError):
        return "", FAILED  # whoever read our output has had enough of it
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f'The package {error.name} is missing: pip install "joingate[all]".', FAILED
    if type(error).__name__ == "KafkaException" and error.args:
        return f"The broker, or the way to it, failed: {error.args[0]}.", FAILED
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: " if error.filename else ""
        # A file that was named on the command line is at fault there; any other is a failure of the machine's.
        named = any(word.rpartition("=")[2] == str(error.filename) for word in given)
        return f"{what}{error.strerror}.", MALFORMED if named else FAILED
    return (
        f"This should not have happened ({type(error).__name__}: {error}): it is a fault of Join Gate. "
        "Run it again with --debug, and report what it shows.",
        FAILED,
    )


app = typer.Typer(
    cls=Face,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100},
)


def _tell_release(asked: bool) -> None:
    if asked:
        catalogues.version()
        raise typer.Exit


@app.callback()
def face(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from (before the command).")] = False,
    release: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_tell_release, help="Say which release this is, and end."),
    ] = False,
) -> None:
    """Read by `Face.main`, which meets the errors; declared here so that --help tells of it."""


for room in (
    serving, gateways, topics, tracing, scenes, reading, questions, lists, quarantines, keys, catalogues, upgrades,
):  # fmt: skip
    room.add_to(app)


def main() -> None:
    """The entry point of the script `joingate`."""
    app()
