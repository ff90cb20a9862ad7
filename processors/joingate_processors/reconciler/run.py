"""The room that runs the reconciler until it is told to stop, and starts it again when something ended it.

Faust's own worker is left out: it takes over signals, logging, standard output and the process title, and it ends
the process when it is done. Here all of that stays with whoever calls.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from joingate_processors.reconciler import committed
from joingate_processors.reconciler.answers import Downstream
from joingate_processors.reconciler.app import Reconciler
from joingate_processors.reconciler.http_bank import HttpBank
from joingate_processors.reconciler.own_topics import make_ready
from joingate_processors.reconciler.security import credentials
from joingate_processors.reconciler.settings import ReconcilerSettings
from joingate_processors.reconciler.status import Board, Phase, ReconcilerStatus
from joingate_schemas.topics import TopicMismatch, Topics, TopicsUnavailable

log = logging.getLogger(__name__)

LOOK_S = 0.1
END_S_MAX = 60.0
"""How long a life that failed may take to end, in seconds: its client gives a broker that is away some time."""
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
    logged, reported and tried again for ever; raises Stuck when only a new process can help, and Unsupported for
    settings of the client that can't be followed.
    """
    credentials(settings.client)  # before anything starts: what can't be followed now can't be later
    with _quiet_libraries():
        loop = asyncio.new_event_loop()
        cut_off = True
        try:
            cut_off = loop.run_until_complete(_run(settings, stop, on_status, downstreams or {}))
        finally:
            _close(loop, cut_off)


def _close(loop: asyncio.AbstractEventLoop, cut_off: bool) -> None:
    """End what is left in the loop. What was cut off is left as it stands: it was told to end, and does not."""
    if cut_off:
        loop.set_exception_handler(lambda _loop, told: log.debug("left behind: %s", told.get("message")))
    else:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keep Faust and its client from logging each vain attempt, and tracebacks: we say it once, in a sentence.

    With our own logger at DEBUG they speak as they are configured.
    """
    loggers = [logging.getLogger(name) for name in ("aiokafka", "faust", "mode", committed.__name__)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        if not log.isEnabledFor(logging.DEBUG):
            logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


async def _run(
    settings: ReconcilerSettings,
    stop: threading.Event,
    on_status: Callable[[ReconcilerStatus], None],
    further: Mapping[str, Downstream],
) -> bool:
    """One life after another until the stop; whether the last had to be cut off."""
    board = Board()
    async with _reported(board, on_status), _adapters(settings, further) as downstreams:
        probe = _Probe(settings)
        failures = 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                return await _live(settings, stop, downstreams, board, probe)
            except Stuck:
                raise
            except BrokerAway as error:
                _fail(board, Phase.BROKER_AWAY, str(error))
            except (TopicsMissing, TopicMismatch, TopicsUnavailable) as error:
                _fail(board, Phase.FAILING, str(error))
            except Exception as error:
                _fail(board, Phase.FAILING, f"the reconciler failed, and starts again: {type(error).__name__}: {error}")
                log.debug("why the reconciler failed", exc_info=error)
            # A life that lasted was a good one, after which the next failure is the first again.
            failures = failures + 1 if time.monotonic() - began < END_S_MAX else 1
            await _pause(stop, min(settings.retry_s_max, settings.retry_s * 2 ** min(failures - 1, 16)))
    return False


async def _live(
    settings: ReconcilerSettings,
    stop: threading.Event,
    downstreams: Mapping[str, Downstream],
    board: Board,
    probe: "_Probe",
) -> bool:
    """One life of the Faust app, until the stop; whether it had to be cut off. Raises what else ended it."""
    partitions = await probe.partitions()
    await asyncio.to_thread(make_ready, settings, partitions)
    board.phase = Phase.STARTING
    life = Reconciler(settings, partitions, downstreams, board)
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
        ended = await _ended(life, starting, stop, settings.stop_deadline_s)
        if not ended and not stop.is_set():
            raise Stuck("the reconciler failed, and its consumer does not end: start the process again")
    if not ended:
        # What was handled and not committed is handled again, which changes nothing.
        log.error("the reconciler did not end in order within %.0f s, and was cut off", settings.stop_deadline_s)
    return not ended


async def _ended(life: Reconciler, starting: "asyncio.Task[None]", stop: threading.Event, deadline_s: float) -> bool:
    """Tell the app to stop; whether it did in time, which is `deadline_s` from the moment that `stop` is set."""
    clock = asyncio.get_running_loop().time
    # Faust swallows a cancellation, so its end is waited for, not awaited.
    ending = asyncio.create_task(life.app.stop())
    until, hurried = clock() + END_S_MAX, False
    while not ending.done() and clock() < until:
        await asyncio.wait([ending], timeout=LOOK_S)
        if stop.is_set() and not hurried:
            hurried, until = True, min(until, clock() + deadline_s)
    starting.cancel()
    if ending.done() and (error := ending.exception()) is not None:
        log.error("the reconciler met a fault while it stopped: %s: %s", type(error).__name__, error)
    return ending.done()


async def _watch(board: Board, probe: "_Probe", starting: "asyncio.Task[None]") -> None:
    """Keep the phase right while the app lives: the client library itself waits for a lost broker in silence."""
    while True:
        try:
            await probe.partitions()
        except BrokerAway as error:
            _fail(board, Phase.BROKER_AWAY, str(error))
        except TopicsMissing as error:
            _fail(board, Phase.FAILING, str(error))
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
        self._admin = AdminClient(
            {**settings.client, "bootstrap.servers": self._servers, "log_level": 0}, logger=silent
        )

    async def partitions(self) -> int:
        """The partitions of the topic. Raises BrokerAway or TopicsMissing."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> int:
        # Described, not looked up in the metadata: that could make a broker create the topic, with its own settings.
        asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=PROBE_S)
        try:
            return len(asked[self._topic].result().partitions)
        except KafkaException as error:
            fault = error.args[0]
            if fault.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicsMissing(
                    f"the topic {self._topic} is not at {self._servers}: create the gate's topics first; it is tried "
                    "again"
                ) from error
            raise BrokerAway(
                f"no broker answers at {self._servers} ({fault.str()}): nothing is reconciled until one does; it is "
                "tried again"
            ) from error


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
    if (board.phase, board.problem) != (phase, problem):
        log.error("%s", problem)
    board.phase, board.problem = phase, problem


async def _pause(stop: threading.Event, seconds: float) -> None:
    """Wait, but not past the stop."""
    end = asyncio.get_running_loop().time() + seconds
    while not stop.is_set() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_S)
