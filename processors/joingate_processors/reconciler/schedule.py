"""The room for who is asked when: due subjects in order of time, in memory, rebuilt from the table after a restart."""

from heapq import heappop, heappush


class Schedule:
    """At most one moment a subject (ms); setting a new one replaces the old. Not thread-safe: one event loop."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, subject_id: str, at: int) -> None:
        """Ask about the subject at `at`."""
        self._at[subject_id] = at
        heappush(self._heap, (at, subject_id))

    def drop(self, subject_id: str) -> None:
        """Do not ask about the subject."""
        self._at.pop(subject_id, None)

    def clear(self) -> None:
        """Ask about nothing."""
        self._at.clear()
        self._heap.clear()

    def next_at(self) -> int | None:
        """The earliest moment, or None when nothing is to be asked."""
        # What was set anew or dropped is still in the heap; it is passed over when it comes up.
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> str | None:
        """A subject that is due by `now`, which leaves the schedule; None when none is."""
        at = self.next_at()
        if at is None or at > now:
            return None
        subject_id = heappop(self._heap)[1]
        del self._at[subject_id]
        return subject_id
