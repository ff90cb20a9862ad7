"""The room of `joingate up`: a broker, every process, two stories played to their end, and a clean way out.

The order of things: broker, topics, canary, then the children (sample, gate, API, and the reconciler once the bank's
address is known), then the scenarios. It ends in the opposite order. The first signal asks for that; the second kills.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from joingate import deployment
from joingate.faults import FAILED, INTERRUPTED
from joingate.gate_file import read_gate, status_file
from joingate.ledger import LedgerReader
from joingate.local_kafka import choose_source, ensure_kafka
from joingate.processes import Crew
from joingate.scenarios import refund, release
from joingate.scenarios.stage import Expectation, SceneFailed, Stage
from joingate.settings import Settings, exports, find_catalogue
from joingate.show import Show, make_show
from joingate_producers import Connection, JoinGateError
from joingate_projections.errors import ReadError
from joingate_projections.reader import HttpReader

READY_S_MAX = 60.0
_LOOK_S = 0.2

STORIES: tuple[tuple[str, tuple[Callable[[Stage], None], ...]], ...] = (
    (refund.NAME, (refund.play_naive, refund.play_gated)),
    (release.NAME, (release.play_release,)),
    (f"{release.NAME}, superseded", (release.play_report_only,)),
)
"""Each story is told in a thread of its own, its parts one after the other."""


@dataclass(frozen=True)
class Options:
    """What `up` was asked for."""

    once: bool = False
    data_dir: Path | None = None
    machine: bool = False
    port_given: bool = False


class _Ending:
    """The event that asks all to end: set by the first signal; the second one ends everything at once."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.kill: Callable[[], None] = lambda: None

    def __enter__(self) -> "_Ending":
        self._before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        if self.event.is_set():
            self.kill()
            # The broker's watcher, and the children's pipes, see to what is left.
            os._exit(INTERRUPTED)
        self.event.set()


def run_up(settings: Settings, options: Options) -> int:
    """Run everything; returns the exit code. Raises FaceError with a sentence about what failed.

    0: everything held; 1: something did not; 130: it was to end by itself (`once`) and was interrupted before. Without
    `once` a signal is how it ends, and no failure.
    """
    catalogue = find_catalogue(_catalogue_of(settings))  # before a broker is started for nothing
    show = make_show(options.machine)
    with _Ending() as ending, contextlib.ExitStack() as stack:
        show.step(f"broker: {_broker_sentence(choose_source().value)}")
        broker = stack.enter_context(ensure_kafka(settings.client))
        run = stack.enter_context(_run_folder(options, show))
        here = _of_this_run(settings, options, broker.bootstrap_servers, run.path)
        show.step(f"topics at {here.bootstrap_servers}")
        created = deployment.create_topics(here, catalogue)
        deployment.try_canary(here)
        fresh = here.topics.ledger in created
        if fresh:
            _drop_derived(run.path)
        crew = Crew(run.path)
        ending.kill = lambda: _kill(crew, run)
        # A bank or topics of an earlier run know the stories' entities already.
        occurrence = "" if fresh and not options.data_dir else secrets.token_hex(3)
        held: bool | None = False
        try:
            held = _live(here, options, occurrence, crew, ending.event, show)
        finally:
            run.failed = held is False
            show.step("stopping")
            slow = crew.stop()
            if slow:
                show.step(f"had to kill {', '.join(slow)}, which did not end in time")
    if held is None:
        return INTERRUPTED if options.once else 0
    return 0 if held else FAILED


def _live(
    settings: Settings, options: Options, occurrence: str, crew: Crew, stop: threading.Event, show: Show
) -> bool | None:
    """From the first child to the end of the wish to go on; whether everything held, None if it was cut short."""
    api_url, bank_url = _start_all(crew, settings, stop, show)
    if stop.is_set():
        return None
    gate = _GateWatch(settings, show)
    held = _play(settings, bank_url, api_url, occurrence, crew, stop, show, gate)
    if held is None:
        return None
    _show_state(api_url, show)
    gate.look(again=True)
    held = held and not gate.halted
    if not options.once:
        show.address(api_url, bank_url, exports(settings.model_copy(update={"api_url": api_url})), well=held)
        _wait(crew, stop, gate)
    return held and not gate.halted


class _GateWatch:
    """Tells what the gate's status file says is wrong, each sentence once; `halted` stays set."""

    def __init__(self, settings: Settings, show: Show) -> None:
        self._file = status_file(settings)
        self._show = show
        self._told: set[str] = set()
        self.halted = False

    def look(self, *, again: bool = False) -> None:
        """Look at the file; `again`: what was told before is told once more, if it still holds."""
        report = read_gate(self._file)
        if report is None or not report.problems:
            return
        self.halted = self.halted or report.halted
        for problem in report.problems:
            if again or problem not in self._told:
                self._told.add(problem)
                self._show.trouble(problem)


def _of_this_run(settings: Settings, options: Options, bootstrap: str, folder: Path) -> Settings:
    return settings.model_copy(
        update={
            "bootstrap_servers": bootstrap,
            "data_dir": folder,
            "gate_status": None,  # ours lies in the run's folder, whatever the environment knows of another
            "catalogue": _catalogue_of(settings),
            "port": _port(settings, options),
            # The client library's own remarks about a broker that starts or stops would be in the way here.
            "client": {"log_level": "0", **settings.client},
        }
    )


def _catalogue_of(settings: Settings) -> str:
    """The catalogue that was asked for; without a wish that of the stories."""
    return settings.catalogue if os.environ.get("JOINGATE_CATALOGUE") else "demo"


def _broker_sentence(source: str) -> str:
    return {
        "outside": "the one that BOOTSTRAP_SERVERS names",
        "java": "starting Kafka in Java (the first time, Maven fetches it)",
    }.get(source, "starting Kafka in a container")


class _Run:
    """The folder of a run; `own`: of our making, so that it goes with the run."""

    def __init__(self, path: Path, own: bool) -> None:
        self.path = path
        self.own = own
        self.failed = False


@contextlib.contextmanager
def _run_folder(options: Options, show: Show) -> Iterator[_Run]:
    """The run's folder; one of our own making goes at the end, unless its logs are needed."""
    if options.data_dir is not None:
        options.data_dir.mkdir(parents=True, exist_ok=True)
        yield _Run(options.data_dir.resolve(), own=False)
        return
    run = _Run(Path(tempfile.mkdtemp(prefix="joingate-run-")), own=True)
    try:
        yield run
    finally:
        if run.failed:
            _keep_logs_only(run.path)
            show.step(f"the logs of this run are in {run.path}")
        else:
            shutil.rmtree(run.path, ignore_errors=True)


def _drop_derived(path: Path) -> None:
    """Remove what was derived from a ledger that is gone: the topics were only made now, so it can't be of theirs."""
    for name in ("gate", "projections", "reconciler"):
        shutil.rmtree(path / name, ignore_errors=True)


def _kill(crew: Crew, run: _Run) -> None:
    crew.kill()
    if run.own:
        shutil.rmtree(run.path, ignore_errors=True)


def _keep_logs_only(path: Path) -> None:
    for one in path.iterdir():
        if one.is_dir():
            shutil.rmtree(one, ignore_errors=True)


def _port(settings: Settings, options: Options) -> int:
    """The API's port: the one that was asked for; without a wish the usual one if it is free, else any."""
    if options.port_given or settings.port == 0:
        return settings.port
    if options.once:
        return 0  # nobody will come back to it
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError:
            return 0
    return settings.port


def _start_all(crew: Crew, settings: Settings, stop: threading.Event, show: Show) -> tuple[str, str]:
    """Start the children; returns the addresses of the API and of the bank."""
    environment = {
        "BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "JOINGATE_PREFIX": settings.prefix,
        "JOINGATE_PARTITIONS": str(settings.partitions),
        "JOINGATE_DATA_DIR": str(settings.data_dir),
        "JOINGATE_CATALOGUE": settings.catalogue,
        "JOINGATE_GATE_STATUS": str(status_file(settings)),
    }
    show.step("starting the sample bank with its executors, the gate, and the API")
    sample = crew.start("sample", ["sample"], environment)
    gate = crew.start("gate", ["gate"], environment)
    serve = crew.start("serve", ["serve", "--host", settings.host, "--port", str(settings.port)], environment)
    bank_url = str(crew.wait_ready(sample, READY_S_MAX, stop.is_set).get("url", ""))
    catalogue = find_catalogue(settings.catalogue)
    asked = {name: bank_url for name, one in catalogue.downstreams.items() if one.capabilities != ("NONE",)}
    show.step("starting the reconciler")
    arbiter = None
    if any(resource.arbitrated for resource in catalogue.resources.values()):
        show.step("starting the arbiter, for the catalogue has resources that it decides on")
        arbiter = crew.start("arbiter", ["arbiter"], environment)
    reconcile = crew.start(
        "reconcile", ["reconcile"], {**environment, "JOINGATE_DOWNSTREAMS": json.dumps(asked | settings.downstreams)}
    )
    api_url = str(crew.wait_ready(serve, READY_S_MAX, stop.is_set).get("url", ""))
    crew.wait_ready(gate, READY_S_MAX, stop.is_set)
    crew.wait_ready(reconcile, READY_S_MAX, stop.is_set)
    if arbiter is not None:
        crew.wait_ready(arbiter, READY_S_MAX, stop.is_set)
    return api_url, bank_url


# --- the stories -----------------------------------------------------------------------------------------------------


def _play(
    settings: Settings,
    bank_url: str,
    api_url: str,
    occurrence: str,
    crew: Crew,
    stop: threading.Event,
    show: Show,
    gate: _GateWatch,
) -> bool | None:
    """Tell all stories at once, showing each decision; whether everything held, None if they were cut short."""
    show.step("playing the scenarios")
    over = threading.Event()  # also set when a story can't go on, so that the others don't wait for nothing
    connection = Connection(
        bootstrap_servers=settings.bootstrap_servers,
        prefix=settings.prefix,
        registry_url=settings.registry_url,
        client=settings.client,
        principal="planner-7",
        state_dir=settings.data_dir / "planner",
    )
    with show.live(), connection, LedgerReader(settings, from_end=True) as ledger:

        def stage(name: str) -> Stage:
            return Stage(
                name,
                connection=connection,
                bank_url=bank_url,
                api_url=api_url,
                occurrence=occurrence,
                on_expectation=show.expectation,
                stop=over,
            )

        with ThreadPoolExecutor(len(STORIES)) as pool:
            told = [pool.submit(_tell, stage(name), parts) for name, parts in STORIES]
            try:
                while not all(one.done() for one in told) and not stop.is_set():
                    crew.check()
                    gate.look()
                    for entry in ledger.poll(_LOOK_S):
                        show.decision(entry)
            finally:
                over.set()
        # What the last claims led to is still on its way.
        for entry in ledger.poll(_LOOK_S):
            show.decision(entry)
    if stop.is_set():
        return None
    held = [_held(name, one, show) for (name, _), one in zip(STORIES, told, strict=True)]
    return all(held)


def _tell(stage: Stage, parts: tuple[Callable[[Stage], None], ...]) -> list[Expectation]:
    try:
        for part in parts:
            part(stage)
    finally:
        stage.close()
    return stage.expectations


def _held(name: str, told: Future[list[Expectation]], show: Show) -> bool:
    """Whether everything in a story held. One that could not be told to its end is said so."""
    try:
        expectations = told.result()
    except (SceneFailed, JoinGateError, ReadError) as error:
        show.expectation(Expectation(name, "the story is told to its end", False, str(error)))
        return False
    return bool(expectations) and all(one.held for one in expectations)


def _show_state(api_url: str, show: Show) -> None:
    """The state as the API has it."""
    reader = HttpReader(api_url)
    state: dict[str, list[dict[str, Any]]] = {
        table: reader.page(table)["rows"] for table in ("intents", "operations", "commitments", "orphans", "in_doubt")
    }
    show.state(state)


def _wait(crew: Crew, stop: threading.Event, gate: _GateWatch) -> None:
    """Until told to stop. Raises FaceError when a child ends before."""
    while not stop.wait(_LOOK_S):
        crew.check()
        gate.look()
