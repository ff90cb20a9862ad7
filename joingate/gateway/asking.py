"""How the gateway asks the gate and the read side, and what becomes of it when either is slow or away.

Nothing raises past here but `NotAWish`: what was not passed on is NOT_TAKEN, and what was passed on and is not decided
yet is PENDING. Both are safe to repeat, since a wish is known by what it is about.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

from joingate.gateway.answers import Answer, Row, not_taken, refused, undecided, unsure
from joingate.gateway.wishes import NotAWish
from joingate_producers import (
    InvalidClaim,
    JoinGateError,
    OutboxBroken,
    OutboxFull,
    PendingVerdict,
    Undelivered,
    Unreachable,
    Verdict,
)
from joingate_projections.errors import NotFound, ReadError
from joingate_projections.reader import Reader

log = logging.getLogger("joingate.gateway")

VERDICT_S_MAX = 60.0
"""How long one asking goes on waiting for its verdict, in the background if need be."""
_FRESH_S_MAX = 5.0
_LOOK_S = 0.05
_KNOWN_MAX = 10_000


class ReadSide:
    """The read side, asked so that a caller reads its own writes: never older than what this gateway heard itself."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: OrderedDict[str, tuple[int, int]] = OrderedDict()  # intent -> (partition, seq)

    def heard(self, verdict: Verdict) -> None:
        """Note that the ledger is at least this far for the verdict's intent."""
        with self._lock:
            old = self._heard.pop(verdict.intent_id, (verdict.partition, 0))
            self._heard[verdict.intent_id] = (verdict.partition, max(old[1], verdict.seq))
            while len(self._heard) > _KNOWN_MAX:
                self._heard.popitem(last=False)

    def knows_of(self, intent_id: str) -> bool:
        """Whether this gateway had a verdict about the intent, lately."""
        with self._lock:
            return intent_id in self._heard

    def one(self, table: str, key: str, intent_id: str = "") -> Row | None:
        """The row, not older than what was heard of its intent; None if there is none. Raises ReadError."""

        def ask() -> Row:
            try:
                return self._reader.one(table, key)
            except NotFound:
                pass
            # The position first: what is not there after it was not there at it.
            position = self._reader.positions()["position"]
            try:
                return self._reader.one(table, key)
            except NotFound:
                return {"row": None, "position": position}

        row: Row | None = self._fresh(ask, intent_id or key)["row"]
        return row

    def page(self, table: str, intent_id: str, limit: int = 100, **filters: str) -> list[Row]:
        """Rows of an intent, not older than what was heard of it. Raises ReadError."""
        wanted = [("intent_id", intent_id), *filters.items()]
        rows: list[Row] = self._fresh(lambda: self._reader.page(table, wanted, limit=limit), intent_id)["rows"]
        return rows

    def count(self, table: str, limit: int, **filters: str) -> int:
        """How many rows fit, up to `limit` and the reader's own bound for one page. Raises ReadError."""
        return len(self._reader.page(table, list(filters.items()), limit=limit)["rows"])

    def ask(self, question: str, subject: str, **options: str) -> Row:
        """A question of the read side. Raises ReadError; NotFound where nothing is known."""
        return self._fresh(lambda: self._reader.ask(question, subject, list(options.items())), subject)

    def _fresh(self, ask: Callable[[], Row], intent_id: str) -> Row:
        with self._lock:
            partition, seq = self._heard.get(intent_id, (0, 0))
        deadline = self._clock() + _FRESH_S_MAX
        while True:
            try:
                answer = ask()
            except NotFound:
                if seq == 0 or self._clock() >= deadline:
                    raise
            else:
                if int(answer["position"].get(str(partition), 0)) >= seq:
                    return answer
                if self._clock() >= deadline:
                    raise ReadError("The read side is behind what was decided; it catches up by itself. Look again.")
            time.sleep(_LOOK_S)


def verdict_of(pending: PendingVerdict, reads: ReadSide) -> Verdict:
    """The verdict, waited for as long as one asking may last. Raises what `PendingVerdict.wait` raises."""
    verdict = pending.wait(VERDICT_S_MAX)
    reads.heard(verdict)
    return verdict


class Askings:
    """Askings under way. The same one, asked for while it is under way, is joined and not begun again."""

    def __init__(self, wait_s: float, threads: int = 16, waiting_max: int = 256) -> None:
        self.wait_s = wait_s
        self._waiting_max = waiting_max
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="joingate-asking")
        self._lock = threading.RLock()
        self._under_way: dict[Hashable, Future[Answer]] = {}

    def run(self, identity: Hashable, what: str, asking: Callable[[], Answer], ids: Row) -> Answer:
        """What comes of `asking`, or PENDING with `ids` if that takes longer than `wait_s`; then it goes on."""
        with self._lock:
            under_way = self._under_way.get(identity)
            if under_way is None:
                if len(self._under_way) >= self._waiting_max:
                    return not_taken("too many requests wait for the gate", **ids)
                under_way = self._pool.submit(answered, asking, what, ids)
                self._under_way[identity] = under_way
                under_way.add_done_callback(lambda _: self._forget(identity))
        try:
            return under_way.result(self.wait_s)
        except FutureTimeout:
            return undecided(what, **ids)

    def _forget(self, identity: Hashable) -> None:
        # Run by the pool, or at once within `run` where it was done already: hence the lock that a thread may re-enter.
        with self._lock:
            self._under_way.pop(identity, None)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def answered(asking: Callable[[], Answer], what: str, ids: Row) -> Answer:
    """What comes of `asking`, with everything that can go wrong as an answer."""
    try:
        return asking()
    except NotAWish as error:
        return error.answer
    except InvalidClaim as error:
        return refused("MALFORMED", str(error), **ids)
    except (OutboxFull, OutboxBroken, Unreachable, Undelivered) as error:
        log.warning("%s could not be passed on: %s", what, error)
        return not_taken("the broker can't be reached, or has no room", **ids)
    except ReadError as error:
        log.warning("%s could not be passed on: %s", what, error)
        return not_taken("the read side can't be reached, or is behind", **ids)
    except JoinGateError as error:
        # It was passed on, and its verdict was not seen: a time-out, a connection that ended, a ledger that is broken.
        log.warning("The verdict on %s is not known: %s", what, error)
        return undecided(what, **ids)
    # Whatever else it is, a model must not be shown it; whoever runs the gateway finds it in the log.
    except Exception:
        log.exception("Asking for %s failed.", what)
        return unsure(what, **ids)
