"""The room where the seats of a worker are kept: which partitions are its own, how each stands, who takes them over.

Alike for the gate and the arbiter. A seat is a partition number that the group gave to this worker. Whatever befalls
one leads to one of three ends: it is taken over anew, it halts until a person has looked, or it halts and is tried
again now and then. The others go on. Seats are taken over in the background, so that one that restores holds no other
up.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

from confluent_kafka import KafkaException

from joingate_processors.gate.clock import wall_ms
from joingate_processors.gate.logs import Halted, Stopping
from joingate_processors.gate.membership import GroupAdmin, confirm
from joingate_processors.gate.transactions import WriterLost

SeatState = Literal["RESTORING", "RUNNING", "STALLED", "HALTED"]

_REOPEN_PAUSE_S_MAX = 5.0
_OPENING_MAX = 8


class Occupied(Protocol):
    """What is needed of a partition."""

    number: int
    epoch: int

    def open(self) -> None:
        """Take it over; called in another thread than the rest, which waits for it. May raise anything."""

    def close(self) -> None:
        """Let it go; what was not committed is undone. It can be opened again."""


PartitionT = TypeVar("PartitionT", bound=Occupied)


class Seat(Generic[PartitionT]):
    """A partition number that this worker was given: the partition itself, its state, and its taking over."""

    def __init__(self, partition: PartitionT) -> None:
        self.partition = partition
        self.state: SeatState = "RESTORING"
        self.sentence = "it is being taken over"
        self.last_error = ""
        self.since = wall_ms()
        self.opening: Future[None] | None = None
        self.failures = 0
        self.retry_at = 0.0

    def become(self, state: SeatState, sentence: str) -> None:
        """Be in this state, with a sentence about it, since now if it is another one."""
        if state != self.state:
            self.since = wall_ms()
        self.state, self.sentence = state, sentence

    @property
    def running(self) -> bool:
        """Whether it decides."""
        return self.state in ("RUNNING", "STALLED")


@dataclass(frozen=True)
class House:
    """Whose seats they are: the `name` of the service for sentences, its group and log, how long it waits.

    `of_this_machine` are the faults that a machine may come to suffer and recover from without us, such as a full disk:
    what they halted is tried again after `halted_retry_ms`.
    """

    name: str
    group: str
    log: logging.Logger
    halted_retry_ms: int
    of_this_machine: tuple[type[Exception], ...]


SeatT = TypeVar("SeatT", bound=Seat[Any])


class Seats(Generic[SeatT]):
    """The seats of one worker, by partition number. All of it belongs to the worker's thread, but for `guarded`."""

    def __init__(
        self,
        house: House,
        make: Callable[[int, Callable[[], bool]], SeatT],
        admin: Callable[[], GroupAdmin],
        stop: threading.Event,
    ) -> None:
        """`make` gives the seat of a partition number; the second that it is given says whether to give up waiting.

        `admin` gives the client that can ask the group. All seats are let go once `stop` is set.
        """
        self._house = house
        self._make = make
        self._admin = admin
        self._stop = stop
        self._member_id = ""
        self._pool = ThreadPoolExecutor(max_workers=_OPENING_MAX, thread_name_prefix=f"joingate-{house.name}")
        self.by_number: dict[int, SeatT] = {}
        self._vacated: dict[int, threading.Event] = {}
        self.owned: set[int] = set()
        """The numbers that the group gives this worker now; while it deals out anew, none."""

    # --- which are ours

    def deal(self, numbers: set[int], member_id: str) -> None:
        """The group gave us these, under this name. Those that we had before go on.

        Had another worker had one of them meanwhile, our writer is fenced, and its next transaction says so.
        """
        self.owned, self._member_id = numbers, member_id
        for number in self.by_number.keys() - numbers:
            self._vacate(number)
        for number in sorted(numbers - self.by_number.keys()):
            self._vacated[number] = threading.Event()
            self.by_number[number] = self._make(number, partial(self._over, self._vacated[number]))

    def _over(self, vacated: threading.Event) -> bool:
        return vacated.is_set() or self._stop.is_set()

    def withdraw(self) -> None:
        """The group is being dealt out anew. Nothing is open now, so the seats wait: most will be ours again."""
        self.owned = set()

    def of(self, number: int | None) -> SeatT | None:
        """The seat of a partition that the client speaks of; None: it is none of ours any more."""
        return None if number is None else self.by_number.get(number)

    def running(self) -> Iterator[SeatT]:
        """The seats that are ours and decide, by number."""
        return (self.by_number[number] for number in sorted(self.owned) if self.by_number[number].running)

    @property
    def running_numbers(self) -> set[int]:
        """The numbers of the seats that are ours and decide."""
        return {seat.partition.number for seat in self.running()}

    @property
    def opening(self) -> bool:
        """Whether one is being taken over."""
        return any(seat.opening is not None for seat in self.by_number.values())

    # --- what befalls them

    def guarded(self, seat: SeatT, call: Callable[..., None], *arguments: object) -> bool:
        """Whether `call` went well; if not, the seat is set to be taken over again, or halted. Others go on."""
        try:
            call(*arguments)
            return True
        except WriterLost as error:
            self.reopen(seat, str(error))
        except KafkaException as error:
            self.reopen(seat, f"the client gives up ({error.args[0].str()})")
        except Stopping:
            self._house.log.info("Partition %s is let go before it was taken over.", seat.partition.number)
        except self._house.of_this_machine as error:
            self.halt(seat, str(error))
            seat.retry_at = time.monotonic() + self._house.halted_retry_ms / 1000
        except Halted as error:
            self.halt(seat, str(error))
        except Exception as error:
            self._house.log.exception("Partition %s met a fault that nothing foresaw.", seat.partition.number)
            self.halt(seat, f"a fault of the {self._house.name} ({type(error).__name__}: {error}): report it")
        return False

    def reopen(self, seat: SeatT, why: str) -> None:
        """Have the seat taken over anew, after a pause that grows with each time that it does not help."""
        seat.failures += 1
        seat.retry_at = time.monotonic() + min(_REOPEN_PAUSE_S_MAX, 0.1 * 2 ** min(seat.failures, 10))
        if seat.last_error != why:
            self._house.log.warning("Partition %s is taken over anew: %s.", seat.partition.number, why)
        seat.last_error = why
        seat.become("RESTORING", f"it is taken over anew: {why}")

    def reopen_all(self, why: str) -> None:
        """Have every seat that decides taken over anew."""
        for seat in self.by_number.values():
            if seat.running:
                self.reopen(seat, why)

    def halt(self, seat: SeatT, why: str) -> None:
        """Let nothing more be decided there until a person has looked."""
        if seat.last_error != why:
            self._house.log.error("Partition %s HALTED: %s", seat.partition.number, why)
        seat.last_error, seat.retry_at = why, math.inf
        seat.failures += 1  # so that it is opened again only if it is still ours
        seat.become("HALTED", why)
        seat.partition.close()

    # --- taking over, and letting go

    def tend(self) -> None:
        """Begin the takings-over whose time has come, and see how those under way went."""
        for number in self.owned:
            seat = self.by_number[number]
            if seat.opening is not None and seat.opening.done():
                self._opened(seat, seat.opening)
            elif seat.opening is None and not seat.running and time.monotonic() >= seat.retry_at:
                seat.opening = self._open(seat)

    def _open(self, seat: SeatT) -> Future[None]:
        """Take it over in the background; anew only once the group has said that it is still ours (membership.py)."""
        partition = seat.partition
        if not seat.failures:
            return self._pool.submit(partition.open)
        place = self._house.group, self._member_id, partition.number
        return self._pool.submit(confirm, self._admin(), *place, partition.open)

    def _opened(self, seat: SeatT, opening: Future[None]) -> None:
        seat.opening = None
        if self.guarded(seat, opening.result):
            seat.failures = 0
            seat.become("RUNNING", "")
            self._house.log.info("Partition %s runs, epoch %s.", seat.partition.number, seat.partition.epoch)

    def aside(self, call: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Run something in the threads in which seats are taken over."""
        return self._pool.submit(call, *arguments)

    def _vacate(self, number: int) -> None:
        seat = self.by_number.pop(number)
        self._vacated.pop(number).set()
        if seat.opening is not None:
            wait([seat.opening])
        seat.partition.close()

    def let_go(self) -> None:
        """Let every seat go, having waited for its taking over to end."""
        for number in list(self.by_number):
            self._vacate(number)
        self.owned = set()
        self._pool.shutdown(wait=False)  # what else runs there is nobody's concern any more
