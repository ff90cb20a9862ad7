"""The room that runs the reconciler until it is told to stop, and starts it again when something ended it.

Faust's own worker is left out: it takes over signals, logging, standard output and the process title, and it ends
the process when it is done. Here all of that stays with whoever calls.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from joingate_processors.reconciler.answers import Downstream
from joingate_processors.reconciler.app import Reconciler
from joingate_processors.reconciler.http_bank import HttpBank
from joingate_processors.reconciler.settings import ReconcilerSettings
from joingate_processors.reconciler.status import Board, Phase, ReconcilerStatus
from joingate_schemas.topics import Topics

log = logging.getLogger(__name__)

LOOK_S = 0.1
PROBE_S = 2.0
"""How often, in seconds, the broker is asked whether it is there, and how long it may take to answer."""


class BrokerAway(Exception):
    """No broker answered; the text is a sentence."""


class TopicsMissing(Exception):
    """The gate's topics are not there; the text is a sentence."""


class Stuck(Exception):
    """After a failure the old consumer could not be ended, so no new one may start in this process."""


def run_reconciler(
    settings: ReconcilerSettings,
    stop: threading.Event,
    on_status: Callable[[ReconcilerStatus], None],
    downstreams: Mapping[str, Downstream] | None = None,
) -> None:
    """Reconcile until `stop` is set, which may be done from any thread or from a signal handler.

    `on_status` is called from this thread with each status that differs from the one before. `downstreams` are
    further adapters, by name, beside those of `settings.downstreams`; they are used in this thread's event loop.
    Returns within about `settings.stop_deadline_s` of the stop. A broker that is away, and other failures, are
    logged, reported and tried again for ever; raises Stuck when only a new process can help.
    """
    asyncio.run(_run(settings, stop, on_status, downstreams or {}))


async def _run(
    settings: ReconcilerSettings,
    stop: threading.Event,
    on_status: Callable[[ReconcilerStatus], None],
    further: Mapping[str, Downstream],
) -> None:
    board = Board()
    async with _reported(board, on_status), _adapters(settings, further) as downstreams:
        probe = _Probe(settings)
        failures = 0
        while not stop.is_set():
            board.phase = Phase.STARTING
            try:
                await _live(settings, stop, downstreams, board, probe)
            except Stuck:
                raise
            except BrokerAway as error:
                _fail(board, Phase.BROKER_AWAY, str(error))
            except TopicsMissing as error:
                _fail(board, Phase.FAILING, str(error))
            except Exception as error:
                _fail(board, Phase.FAILING, f"the reconciler failed, and starts again: {type(error).__name__}: {error}")
                log.debug("why the reconciler failed", exc_info=error)
            failures += 1
            await _pause(stop, min(settings.retry_s_max, settings.retry_s * 2 ** min(failures - 1, 16)))


async def _live(
    settings: ReconcilerSettings,
    stop: threading.Event,
    downstreams: Mapping[str, Downstream],
    board: Board,
    probe: "_Probe",
) -> None:
    """One life of the Faust app: until the stop, or until it fails, which raises what it failed of."""
    life = Reconciler(settings, await probe.partitions(), downstreams, board)
    starting = asyncio.create_task(life.app.start())
    probing = asyncio.create_task(_watch(board, probe, starting))
    try:
        while not stop.is_set():
            if starting.done():
                starting.result()
            if life.app.crashed:
                raise life.app.crash_reason or RuntimeError("Faust crashed, and gave no reason")
            await asyncio.sleep(LOOK_S)
    finally:
        probing.cancel()
        await _end(life, starting, settings.stop_deadline_s, stop)


async def _end(life: Reconciler, starting: "asyncio.Task[None]", deadline_s: float, stop: threading.Event) -> None:
    try:
        await asyncio.wait_for(life.app.stop(), deadline_s)
    except TimeoutError:
        if not stop.is_set():
            raise Stuck("the reconciler failed, and its consumer does not end: start the process again") from None
        # What was handled and not committed is handled again, which changes nothing.
        log.error("the reconciler did not end in order within %.0f s, and was cut off", deadline_s)
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def _watch(board: Board, probe: "_Probe", starting: "asyncio.Task[None]") -> None:
    """Keep the phase right while the app lives: the client library itself waits for a lost broker in silence."""
    while True:
        try:
            await probe.partitions()
        except (BrokerAway, TopicsMissing) as error:
            if board.phase is not Phase.BROKER_AWAY:
                _fail(board, Phase.BROKER_AWAY, str(error))
        else:
            phase = Phase.RUNNING if starting.done() else Phase.STARTING
            if board.phase is not phase:
                log.info("the reconciler is %s", phase.lower())
                board.phase, board.problem = phase, ""
        await asyncio.sleep(LOOK_S if board.phase is Phase.STARTING else PROBE_S)


class _Probe:
    """Asks the broker whether it is there, and how many partitions `in-doubt` has."""

    def __init__(self, settings: ReconcilerSettings) -> None:
        self._servers = settings.bootstrap_servers
        self._topic = Topics(settings.prefix).in_doubt
        # Refused connections are what this is here to find out; we say it in a sentence of our own.
        silent = logging.Logger("joingate.reconciler.silent", level=logging.CRITICAL + 1)
        self._admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0}, logger=silent)

    async def partitions(self) -> int:
        """The partitions of the topic. Raises BrokerAway or TopicsMissing."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> int:
        try:
            topic = self._admin.list_topics(self._topic, timeout=PROBE_S).topics[self._topic]
        except KafkaException as error:
            raise BrokerAway(
                f"no broker answers at {self._servers} ({error.args[0].str()}): nothing is reconciled until one does; "
                "it is tried again"
            ) from error
        if topic.error is not None or not topic.partitions:
            raise TopicsMissing(
                f"the topic {self._topic} is not at {self._servers}: create the gate's topics first; it is tried again"
            )
        return len(topic.partitions)


@asynccontextmanager
async def _adapters(
    settings: ReconcilerSettings, further: Mapping[str, Downstream]
) -> AsyncIterator[Mapping[str, Downstream]]:
    """One adapter a downstream, closed at the end; the `further` ones too."""
    timeout_s = settings.ask_timeout_s
    banks = {name: HttpBank(url, timeout_s=timeout_s) for name, url in settings.downstreams.items()}
    adapters: dict[str, Downstream] = {**banks, **further}
    try:
        yield adapters
    finally:
        for adapter in adapters.values():
            await adapter.close()


@asynccontextmanager
async def _reported(board: Board, on_status: Callable[[ReconcilerStatus], None]) -> AsyncIterator[None]:
    """Tell of every change of the board, and at the end that it has stopped."""

    async def report() -> None:
        told = None
        while True:
            status = board.snapshot()
            if status != told:
                on_status(status)
                told = status
            await asyncio.sleep(LOOK_S)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        board.phase = Phase.STOPPED
        on_status(board.snapshot())


def _fail(board: Board, phase: Phase, problem: str) -> None:
    board.phase, board.problem = phase, problem
    log.error("%s", problem)


async def _pause(stop: threading.Event, seconds: float) -> None:
    """Wait, but not past the stop."""
    end = asyncio.get_running_loop().time() + seconds
    while not stop.is_set() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_S)
