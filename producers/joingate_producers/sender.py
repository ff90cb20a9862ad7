"""The sender: hands claims to the broker in order, hears what became of each, and sends again what may be lost.

A delivery that timed out is *possibly written* (field case C19), so the very same bytes, claim id included, go out
again until the broker confirms them: written twice is decided once. Only a plain refusal ends a claim unwritten.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from joingate_producers.errors import ConnectionClosed, OutboxFull
from joingate_producers.wire import Delivery, Fate, Outlet

log = logging.getLogger("joingate.producers")

_POLL_S = 0.25
# So long a claim waits that goes out again, lest an error which comes back at once makes a busy loop.
_AGAIN_AFTER_S = 0.25


@dataclass(eq=False)
class Parcel:
    """One claim on its way. `written` and `refused` are called once, from the sender's thread."""

    claim_id: str
    topic: str
    partition: int
    key: bytes
    value: bytes
    written: Callable[[], None]
    refused: Callable[[str], None]
    kept: bool = False  # in the outbox
    outlet_number: int = field(default=0, init=False)


class Sender:
    """Sends parcels in the order of `send`, once `release` was called; before that it collects them.

    It holds its outlet and a thread that waits for reports. Any thread may call it.
    """

    def __init__(self, make_outlet: Callable[[], Outlet], in_flight_max: int) -> None:
        self._make_outlet = make_outlet
        self._in_flight_max = in_flight_max
        # Also held while reports are taken: an outlet may report within the call that hands it a record.
        self._changed = threading.Condition(threading.RLock())
        self._unsettled: dict[Parcel, None] = {}  # in order of sending
        self._again: list[Parcel] = []
        self._released = False
        self._closed = False
        self._closing = threading.Event()
        self._outlet_died = False
        self._outlet_number = 1
        self.problem = ""
        self._outlet = make_outlet()
        self._thread = threading.Thread(target=self._run, name="joingate-sender", daemon=True)
        self._thread.start()

    def send(self, parcel: Parcel) -> None:
        """Take the parcel on. Raises ConnectionClosed, and OutboxFull when too many are on their way.

        What the outbox keeps always finds room: its number is bounded there, and an outcome must not be turned away.
        """
        with self._changed:
            self.check_room(parcel.kept)
            self._unsettled[parcel] = None
            if self._released:
                self._hand_over(parcel)

    def check_room(self, kept: bool) -> None:
        """Raises what `send` would raise now."""
        if self._closed:
            raise ConnectionClosed("The connection is closed, so nothing can be sent through it: open a new one.")
        if not kept and len(self._unsettled) >= self._in_flight_max:
            raise OutboxFull(
                f"{len(self._unsettled)} claims wait for the broker, which is all that may (in_flight_max): "
                "wait for verdicts before sending more."
            )

    def release(self) -> None:
        """From now on claims go out at once; those collected so far go first."""
        with self._changed:
            if not self._released:
                self._released = True
                for parcel in list(self._unsettled):
                    self._hand_over(parcel)

    def flush(self, timeout_s: float) -> list[Parcel]:
        """Wait until all parcels are settled; returns the ones that are not in time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unsettled, timeout_s)
            return list(self._unsettled)

    def close(self) -> None:
        """Stop. What is unsettled stays so: flush before."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self._closing.set()
        self._thread.join()
        self._outlet.close()

    # --- under the lock ----------------------------------------------------------------------------------------------

    def _hand_over(self, parcel: Parcel) -> None:
        number = parcel.outlet_number = self._outlet_number
        self._outlet.produce(
            parcel.topic,
            parcel.key,
            parcel.value,
            parcel.partition,
            lambda delivery: self._reported(parcel, number, delivery),
        )

    def _reported(self, parcel: Parcel, outlet_number: int, delivery: Delivery) -> None:
        with self._changed:
            if self._closed or parcel not in self._unsettled:
                return
            if delivery.fate is Fate.WRITTEN:
                self._settle(parcel, parcel.written)
                return
            self.problem = delivery.problem
            if outlet_number != self._outlet_number:
                return  # the dead outlet's last words: the new one has the parcel already
            match delivery.fate:
                case Fate.REFUSED:
                    self._settle(parcel, lambda: parcel.refused(delivery.problem))
                case Fate.OUTLET_DEAD:
                    self._outlet_died = True
                case _:
                    log.info("Claim %s is sent again: %s.", parcel.claim_id, delivery.problem)
                    self._again.append(parcel)

    def _settle(self, parcel: Parcel, tell: Callable[[], None]) -> None:
        del self._unsettled[parcel]
        self._changed.notify_all()
        tell()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._outlet.poll(_POLL_S)
            if (self._again or self._outlet_died) and self._closing.wait(_AGAIN_AFTER_S):
                return
            with self._changed:
                if self._outlet_died:
                    self._replace_outlet()
                again, self._again = self._again, []
                for parcel in again:
                    if parcel in self._unsettled and parcel.outlet_number == self._outlet_number:
                        self._hand_over(parcel)

    def _replace_outlet(self) -> None:
        """1. New outlet first, so that the old one's last reports count as such. 2. All unsettled again, in order."""
        log.warning("The producer died (%s) and is replaced; what it held is sent again.", self.problem)
        dead, self._outlet = self._outlet, self._make_outlet()
        self._outlet_number += 1
        self._outlet_died = False
        dead.close()
        for parcel in list(self._unsettled):
            self._hand_over(parcel)
