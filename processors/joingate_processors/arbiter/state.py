"""What the arbiter remembers of one partition: who has what, how long, and what was heard last of each operation.

Everything here is made of the arbiter's ledger alone, so that folding it again gives the same (`judge.fold` writes).
The rows of the changelog are the same once more, so that a long ledger need not be folded from its beginning.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from joingate_schemas.arbitration import Hold

MARKS_MS = 30 * 86_400_000
"""How long it is remembered what an operation said last of a resource that it gave back (ms): as long as a message
stays on its topic, so that no late or repeated one can come after it is forgotten."""

HoldKey = tuple[str, str]
"""A resource's reference and an operation's id."""


class Row(NamedTuple):
    """What is remembered of one operation and one resource: the mark of what it said last, and what it has.

    `entered`: the seq at which the hold began; `ended_at`: when it ended (ms), where there is none.
    """

    mark: int
    entered: int
    hold: Hold | None
    ended_at: int


@dataclass(slots=True)
class ArbiterHeader:
    """Where the ledger stands: as the gate's header, and the offset of the next message on `resource-claims`."""

    seq: int = 0
    epoch: int = 0
    previous: bytes = b""
    decided_at: int = 0
    next_offset: int | None = None


class ArbiterState:
    """One partition's resources. `judge` reads it, `fold` alone writes it."""

    def __init__(self) -> None:
        self.header = ArbiterHeader()
        self.marks: dict[HoldKey, int] = {}
        self.gates: dict[int, int] = {}  # the gate's partition -> the highest epoch that wrote from it
        self._holds: dict[str, dict[str, Hold]] = {}  # reference -> operation -> what it has
        self._dues: list[tuple[int, str, str]] = []
        self._ended: deque[tuple[int, HoldKey, int]] = deque()  # when, what, and the mark it had then
        self._entered: dict[HoldKey, int] = {}  # the seq at which a hold began, by which holders are ordered
        self._ended_at: dict[HoldKey, int] = {}  # of what is held no more and still remembered, when it ended
        self.touched: set[HoldKey] = set()
        """What changed since somebody emptied this set: their rows are to be written."""

    def hold(self, resource_ref: str, operation_id: str) -> Hold | None:
        """What the operation has of the resource; None: nothing."""
        return self._holds.get(resource_ref, {}).get(operation_id)

    def holders(self, resource_ref: str) -> list[Hold]:
        """Everything that is held of the resource, in the order in which it was granted."""
        return list(self._holds.get(resource_ref, {}).values())

    def all_holds(self) -> list[Hold]:
        """Every hold, by reference and then in the order in which it was granted."""
        return [hold for ref in sorted(self._holds) for hold in self._holds[ref].values()]

    def due(self, now: int) -> Hold | None:
        """The hold whose lease was over first, at or before `now` (ms); None if there is none."""
        if not self._dues or self._dues[0][0] > now:
            return None
        _, resource_ref, operation_id = self._dues[0]
        return self.hold(resource_ref, operation_id)

    def next_due(self) -> int | None:
        """When the first lease is over (ms), or None."""
        return self._dues[0][0] if self._dues else None

    def put(self, hold: Hold) -> None:
        """Write a hold, which may be there already."""
        self._forget_due(self.hold(hold["resource_ref"], hold["operation_id"]))
        key = (hold["resource_ref"], hold["operation_id"])
        self._holds.setdefault(key[0], {})[key[1]] = hold
        self._entered.setdefault(key, self.header.seq)
        self._ended_at.pop(key, None)
        self.touched.add(key)
        if hold["deadline_at"] is not None:
            insort(self._dues, (hold["deadline_at"], hold["resource_ref"], hold["operation_id"]))

    def end(self, resource_ref: str, operation_id: str, at: int) -> None:
        """Forget a hold, which need not be there, at `at` (ms); its mark is kept for as long as a message may come."""
        held = self._holds.get(resource_ref, {})
        self._forget_due(held.pop(operation_id, None))
        if not held:
            self._holds.pop(resource_ref, None)
        key = (resource_ref, operation_id)
        self._ended.append((at, key, self.marks.get(key, 0)))
        self._entered.pop(key, None)
        self._ended_at[key] = at
        self.touched.add(key)

    def forget_marks(self, now: int) -> None:
        """Let go of the marks of what ended longer ago than a message lives, and was not spoken of since."""
        while self._ended and self._ended[0][0] + MARKS_MS < now:
            _, key, mark = self._ended.popleft()
            if self.marks.get(key) == mark and self.hold(*key) is None:
                del self.marks[key]
                self._ended_at.pop(key, None)
                self.touched.add(key)

    # --- as rows

    def row(self, key: HoldKey) -> Row | None:
        """All that is remembered under the key; None: nothing."""
        mark = self.marks.get(key)
        if mark is None:
            return None
        return Row(mark, self._entered.get(key, 0), self.hold(*key), self._ended_at.get(key, 0))

    @classmethod
    def of_rows(cls, header: ArbiterHeader, gates: dict[int, int], rows: Mapping[HoldKey, Row]) -> "ArbiterState":
        """The state that these are all rows of."""
        state = cls()
        state.header, state.gates = header, gates
        state.marks = {key: row.mark for key, row in rows.items()}
        for key, row in sorted(rows.items(), key=lambda one: one[1].entered):
            if row.hold is not None:
                state._holds.setdefault(key[0], {})[key[1]] = row.hold
                state._entered[key] = row.entered
                if row.hold["deadline_at"] is not None:
                    state._dues.append((row.hold["deadline_at"], *key))
        state._dues.sort()
        ended = sorted((row.ended_at, key, row.mark) for key, row in rows.items() if row.hold is None)
        state._ended.extend(ended)
        state._ended_at = {key: at for at, key, _ in ended}
        return state

    def _forget_due(self, hold: Hold | None) -> None:
        if hold is not None and hold["deadline_at"] is not None:
            due = (hold["deadline_at"], hold["resource_ref"], hold["operation_id"])
            del self._dues[bisect_left(self._dues, due)]
