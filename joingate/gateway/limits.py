"""How much a tenant may ask of the gateway: so many calls a minute, so many wishes open at a time."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from joingate.gateway.answers import Answer, slow_down


@dataclass(frozen=True)
class Limits:
    """Each tenant's own. `calls_per_minute` on average, `burst` at once; `open_max` wishes open. None: no limit.

    The rate is kept in this process, so that several gateways let in as much each. The open wishes are counted by the
    read side, whose lag may let in a few more.
    """

    calls_per_minute: float | None = 600.0
    burst: int = 60
    open_max: int | None = 400


class Throttle:
    """Counts the calls of each tenant. Any thread may ask."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}  # tenant -> (calls left, when that was), in seconds

    def admit(self, tenant: str) -> Answer | None:
        """None if the tenant may make a call now, which is counted; else how long it should wait."""
        rate = self.limits.calls_per_minute
        if rate is None:
            return None
        per_s, now = rate / 60.0, self._clock()
        with self._lock:
            left, since = self._left.get(tenant, (float(self.limits.burst), now))
            left = min(float(self.limits.burst), left + (now - since) * per_s)
            if left >= 1.0:
                self._left[tenant] = (left - 1.0, now)
                return None
            self._left[tenant] = (left, now)
        wait_s = max(1, math.ceil((1.0 - left) / per_s))
        return slow_down(f"{tenant} may make {rate:g} calls a minute, {self.limits.burst} at once", wait_s)
