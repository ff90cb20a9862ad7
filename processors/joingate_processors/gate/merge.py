"""The room where one partition's intake topics become one order: by append time, and ties by topic.

Topics are fetched side by side, so that after an outage one may be hours ahead of another. What is known to be still
unfetched elsewhere and older is waited for, a little: order then follows what happened, not how fetching went. It is no
promise to claimants: whatever comes out is the ledger's order, and replay follows that.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter

from joingate_processors.gate.docket import Entry

PATIENCE_MS = 2_000
"""How long entries wait for a topic that is known to have older ones and brings none, before they go on without it."""
BATCH_BYTES = 64 << 20
"""How many bytes of claims are handed on at once; a single larger one goes alone."""


class _Queue:
    """One topic's entries, each with its place in time, and how far fetching has come."""

    __slots__ = ("awaited_since", "entries", "fetched_to", "latest", "readable_to", "size")

    def __init__(self, offset: int) -> None:
        self.entries: list[tuple[int, Entry]] = []
        self.size = 0  # of the entries' values, in bytes
        self.latest = 0  # a new leader's clock may lag; offsets are never turned round for it
        self.fetched_to = offset
        self.readable_to: int | None = None
        self.awaited_since: int | None = None  # monotonic (ms): since when others wait for it, and it brings nothing


class Merge:
    """Entries of one partition that were fetched and not handed on yet."""

    def __init__(self, inputs: Sequence[int]) -> None:
        """`inputs`: the next offset of each topic, topics in the order of ties."""
        self._queues = [_Queue(offset) for offset in inputs]
        self._ready: list[Entry] = []

    def add(self, rank: int, offset: int, entry: Entry) -> None:
        """An entry of the topic of `rank` was fetched, at `offset`."""
        queue = self._queues[rank]
        if entry[0] > queue.latest:
            queue.latest = entry[0]
        queue.entries.append((queue.latest, entry))
        queue.size += len(entry[2])
        queue.fetched_to = offset + 1
        queue.awaited_since = None

    def at_end(self, rank: int, offset: int) -> None:
        """Everything readable of the topic of `rank` below `offset` was fetched."""
        queue = self._queues[rank]
        queue.fetched_to = max(queue.fetched_to, offset)
        queue.readable_to = queue.fetched_to
        queue.awaited_since = None

    def load(self, rank: int, batch: int) -> float:
        """How many batches of `batch` entries, or of `BATCH_BYTES`, of that topic wait for older ones of others."""
        queue = self._queues[rank]
        return max(len(queue.entries) / batch, queue.size / BATCH_BYTES)

    @property
    def ready(self) -> bool:
        """Whether there are entries that need wait for nothing."""
        return bool(self._ready)

    @property
    def empty(self) -> bool:
        """Whether everything that was fetched was handed on."""
        return not self._ready and not any(queue.entries for queue in self._queues)

    def take(self, limit: int, ends: Callable[[int], int], now_ms: int) -> list[Entry]:
        """Up to `limit` entries, in order. `ends` gives the end of a topic as far as the client knows, else below 0."""
        if any(queue.entries for queue in self._queues):
            self._release(self._bound(ends, now_ms))
        sizes = accumulate(len(entry[2]) for entry in self._ready[:limit])
        cut = max(1, sum(1 for size in sizes if size <= BATCH_BYTES))
        taken, self._ready = self._ready[:cut], self._ready[cut:]
        return taken

    def ended(self) -> list[tuple[int, int]]:
        """The ranks of the topics that are read to their end, with that end, where everything was handed on."""
        if not self.empty:
            return []
        return [(n, queue.fetched_to) for n, queue in enumerate(self._queues) if queue.readable_to == queue.fetched_to]

    def _release(self, bound: int | None) -> None:
        released: list[tuple[int, Entry]] = []
        for queue in self._queues:
            count = len(queue.entries)
            if bound is not None and count and queue.entries[-1][0] > bound:
                count = sum(1 for at, _ in queue.entries if at <= bound)
            released += queue.entries[:count]
            queue.entries = queue.entries[count:]
            queue.size = sum(len(entry[2]) for _, entry in queue.entries)
        released.sort(key=itemgetter(0))  # stable: ties stay in the order of topics, then of offsets
        self._ready += [entry for _, entry in released]

    def _bound(self, ends: Callable[[int], int], now_ms: int) -> int | None:
        """The time up to which nothing older can still come from a topic that is known to have more."""
        bounds = []
        for rank, queue in enumerate(self._queues):
            if queue.readable_to == queue.fetched_to or 0 <= ends(rank) <= queue.fetched_to:
                continue
            if queue.entries:
                queue.awaited_since = None  # it is ahead of the others itself
            elif queue.awaited_since is None:
                queue.awaited_since = now_ms
            if queue.awaited_since is None or now_ms - queue.awaited_since <= PATIENCE_MS:
                bounds.append(queue.latest)
        return min(bounds) if bounds else None
