"""The room where one piece runs as a process of its own: until a signal comes, telling what it does as it goes.

Each tells its state in lines: sentences for people, or JSON for `up` and other keepers of processes. A child of `up`
also ends when its parent does, however that comes about: its standard input is a pipe that only the parent holds.
"""

import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from joingate.faults import FaceError
from joingate.settings import Settings, find_catalogue

PARENT_PIPE = "JOINGATE_PARENT_PIPE"
"""The environment variable that tells a process to end with its standard input."""
_ORPHAN_GRACE_S = 10.0


class Reporter:
    """What a process says of itself, once for each change: a sentence on stderr, or with `machine` JSON on stdout."""

    def __init__(self, service: str, machine: bool) -> None:
        self._service = service
        self._machine = machine
        self._said: object = None

    def say(self, state: str, sentence: str = "", *, ready: bool = False, **more: Any) -> None:
        """Tell the state, unless it was the last thing told. `ready`: the process does its work now."""
        key = (state, sentence, ready)
        if key == self._said:
            return
        self._said = key
        if self._machine:
            row = {"service": self._service, "state": state, "sentence": sentence, "ready": ready, **more}
            print(json.dumps(row, default=str), flush=True)
        else:
            print(f"joingate {self._service}: {state.lower()}{f', {sentence}' if sentence else ''}", file=sys.stderr)


def until_signal() -> threading.Event:
    """An event that SIGINT and SIGTERM set, and the parent's end where there is a parent to end with."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    if os.environ.get(PARENT_PIPE):
        threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    return stop


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    # As a signal, so that it ends as it would at the parent's own request; and at the latest after a while.
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_ORPHAN_GRACE_S)
    os._exit(1)


def folder(settings: Settings, service: str) -> Path:
    """The service's own folder in the data folder, made if missing. Raises FaceError."""
    path = settings.data_dir / service
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FaceError(f"The folder {path} can't be made ({error.strerror}): set JOINGATE_DATA_DIR.") from error
    return path


def log_to_stderr() -> None:
    """Warnings and worse go to stderr, where `up` keeps them in a file."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s")


# --- the pieces ------------------------------------------------------------------------------------------------------


def run_gate(settings: Settings, stop: threading.Event, reporter: Reporter, accept_undischargeable: str = "") -> None:
    """Decide claims until told to stop. `accept_undischargeable`: who takes on what the catalogue can't discharge."""
    from joingate_processors.gate.settings import GateSettings
    from joingate_processors.gate.status import GateStatus
    from joingate_processors.gate.worker import run_gate as run

    def tell(status: GateStatus) -> None:
        states = {number: one["state"] for number, one in status["partitions"].items()}
        troubles = [f"partition {n}: {one['sentence']}" for n, one in status["partitions"].items() if one["sentence"]]
        running = bool(states) and set(states.values()) == {"RUNNING"}
        if not status["running"]:
            reporter.say("STOPPED")
        elif running and not status["sentence"]:
            reporter.say("RUNNING", f"partitions {', '.join(states)}", ready=True, status=status)
        else:
            reporter.say("BUSY", status["sentence"] or "; ".join(troubles) or "joining its group", status=status)

    catalogue = find_catalogue(settings.catalogue)  # first: without one nothing is begun, and no folder made
    reporter.say("STARTING")
    run(
        GateSettings(
            bootstrap_servers=settings.bootstrap_servers,
            data_dir=folder(settings, "gate"),
            catalogue=catalogue,
            prefix=settings.prefix,
            partitions=settings.partitions,
            registry_url=settings.registry_url,
            client=settings.client,
            accept_undischargeable=accept_undischargeable,
        ),
        stop,
        tell,
    )


def run_arbiter(settings: Settings, stop: threading.Event, reporter: Reporter) -> None:
    """Decide on resources until told to stop."""
    from joingate_processors.arbiter.settings import ArbiterSettings
    from joingate_processors.arbiter.worker import Standing
    from joingate_processors.arbiter.worker import run_arbiter as run

    def tell(standing: Standing) -> None:
        troubles = [f"partition {number}: {sentence}" for number, (_, sentence) in standing.items() if sentence]
        if standing and all(state == "RUNNING" for state, _ in standing.values()):
            reporter.say("RUNNING", f"partitions {', '.join(map(str, sorted(standing)))}", ready=True)
        else:
            reporter.say("BUSY", "; ".join(troubles) or "taking its partitions over")

    reporter.say("STARTING")
    run(
        ArbiterSettings(
            bootstrap_servers=settings.bootstrap_servers,
            prefix=settings.prefix,
            partitions=settings.partitions,
            registry_url=settings.registry_url,
            client=settings.client,
        ),
        stop,
        tell,
    )
    reporter.say("STOPPED")


def run_project(settings: Settings, stop: threading.Event, reporter: Reporter, *, rebuild: bool = False) -> None:
    """Fold the ledger until told to stop."""
    from joingate_projections.lanes import Status
    from joingate_projections.worker import run_projections

    def tell(status: Status) -> None:
        reporter.say(status.state, f"{status.name}: {status.sentence}".rstrip(": "), ready=status.state == "FOLLOWING")

    reporter.say("STARTING")
    run_projections(_projection_settings(settings, rebuild), stop, tell)


def _projection_settings(settings: Settings, rebuild: bool) -> Any:
    from joingate_projections.worker import ProjectionSettings

    return ProjectionSettings(
        bootstrap_servers=settings.bootstrap_servers,
        directory=folder(settings, "projections"),
        topic_prefix=settings.prefix,
        registry_url=settings.registry_url,
        rebuild=rebuild,
        client=settings.client,
    )


def run_serve(
    settings: Settings, stop: threading.Event, reporter: Reporter, *, read_only: bool, rebuild: bool = False
) -> None:
    """Answer over HTTP until told to stop; fold the ledger too, unless `read_only` (another process does that)."""
    from joingate.gate_file import read_gate, status_file
    from joingate_projections.api import serve
    from joingate_projections.reader import StoreReader
    from joingate_projections.store import ProjectionStore

    directory = folder(settings, "projections")
    store = ProjectionStore.open_reader(directory) if read_only else ProjectionStore.open(directory)
    failure: list[BaseException] = []
    projector: threading.Thread | None = None
    try:
        if not read_only:
            projector = threading.Thread(
                target=_fold_beside, args=(settings, store, stop, rebuild, failure), name="projector"
            )
            projector.start()

        def ready(url: str) -> None:
            reporter.say("SERVING", url, ready=True, url=url)

        def gate() -> dict[str, Any] | None:
            report = read_gate(status_file(settings))
            return None if report is None else report.row()

        # The server takes the signals over while it runs, and hands them on to our handlers when it has ended.
        serve(StoreReader(store), settings.host, settings.port, ready, gate)
    except SystemExit as error:
        raise FaceError(
            f"The API can't listen on {settings.host}:{settings.port}: another process has it, or may not. "
            "Set JOINGATE_PORT."
        ) from error
    finally:
        stop.set()
        if projector is not None:
            projector.join()
        store.close()
    if failure:
        raise failure[0]


def _fold_beside(
    settings: Settings, store: Any, stop: threading.Event, rebuild: bool, failure: list[BaseException]
) -> None:
    from joingate_projections.worker import run_projections

    try:
        run_projections(_projection_settings(settings, rebuild), stop, store=store)
    except Exception as error:
        # The server's thread says it; without a projector there is nothing to serve, so that ends too.
        failure.append(error)
        os.kill(os.getpid(), signal.SIGTERM)


def run_reconcile(settings: Settings, stop: threading.Event, reporter: Reporter) -> None:
    """Ask systems of record about what is in doubt, until told to stop."""
    from joingate_processors.reconciler import Policy, ReconcilerSettings, ReconcilerStatus, run_reconciler

    catalogue = find_catalogue(settings.catalogue)

    def tell(status: ReconcilerStatus) -> None:
        reporter.say(
            str(status.phase), status.problem, ready=status.phase == "RUNNING", status=dataclasses.asdict(status)
        )

    run_reconciler(
        ReconcilerSettings(
            bootstrap_servers=settings.bootstrap_servers,
            state_dir=folder(settings, "reconciler"),
            prefix=settings.prefix,
            client=settings.client,
            downstreams=settings.downstreams,
            policy=Policy(backoffs_ms={name: one.lookup_backoff_ms for name, one in catalogue.downstreams.items()}),
            registry_url=settings.registry_url,
            key_file=settings.key_file,
        ),
        stop,
        tell,
    )


def run_sample(settings: Settings, stop: threading.Event, reporter: Reporter, *, bank_port: int = 0) -> None:
    """Run the sample bank, and the executors that act at it, until told to stop."""
    from joingate.sample.executors import executors_of, run_executors
    from joingate.sample.process import BankProcess
    from joingate_producers import Connection

    catalogue = find_catalogue(settings.catalogue)
    reporter.say("STARTING")
    state = folder(settings, "sample")
    names = executors_of(catalogue)
    with (
        BankProcess(state / "bank.jsonl", host=settings.host, port=bank_port) as bank,
        Connection(
            bootstrap_servers=settings.bootstrap_servers,
            prefix=settings.prefix,
            registry_url=settings.registry_url,
            client=settings.client,
            client_id="sample-executors",
            state_dir=state,
        ) as connection,
    ):
        reporter.say("SERVING", f"bank at {bank.url}, executors {', '.join(names)}", ready=True, url=bank.url)
        run_executors(connection, catalogue, bank.url, names, stop)
    reporter.say("STOPPED")


def run_gateway(settings: Settings, stop: threading.Event, reporter: Reporter) -> None:
    """Serve agents over HTTP and MCP until told to stop."""
    import uvicorn

    from joingate.gateway.http import create_app
    from joingate.gateway.running import made_gateway, read_tokens

    tokens = read_tokens(settings)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                port = self.servers[0].sockets[0].getsockname()[1]
                url = f"http://{settings.host}:{port}"
                reporter.say("SERVING", f"{url}, MCP at {url}/mcp", ready=True, url=url)

    reporter.say("STARTING")
    with made_gateway(settings) as gateway:
        config = uvicorn.Config(
            create_app(gateway, tokens), host=settings.host, port=settings.gateway_port, log_level="warning",
            timeout_graceful_shutdown=5,
        )  # fmt: skip
        try:
            # The server takes the signals over while it runs, and hands them on to our handlers when it has ended.
            Server(config).run()
        except SystemExit as error:
            raise FaceError(
                f"The gateway can't listen on {settings.host}:{settings.gateway_port}: another process has it, or may "
                "not. Set JOINGATE_GATEWAY_PORT."
            ) from error
        finally:
            stop.set()
    reporter.say("STOPPED")


def run_gateway_stdio(settings: Settings, bind: list[str], occurrence: str, request: str) -> None:
    """Serve the one MCP client at the other end of stdin and stdout, with the token of the settings."""
    import anyio

    from joingate.gateway.mcp_server import serve_stdio
    from joingate.gateway.running import made_gateway, read_tokens, said_by

    harness = said_by(bind, occurrence, request)
    caller = read_tokens(settings).caller(settings.gateway_token)
    if caller is None:
        raise FaceError("The token in JOINGATE_GATEWAY_TOKEN is not known: make one with `joingate gateway token`.")
    with made_gateway(settings) as gateway:
        anyio.run(serve_stdio, gateway, caller, harness)
