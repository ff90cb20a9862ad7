"""What belongs to an intent, found a page at a time, so that an archived one is forgotten in decisions of bounded size.

Rows whose keys begin with the intent's id are found by that: steps, plans, claim ids, news of conditions and goals.
Operations are found by the steps that they belong to; those that the gate opened itself hang in a chain, each naming
the one before. A commitment is found by its operation, a promise by the claim that made it.
"""

from dataclasses import dataclass, field

from joingate_processors.law.state import Operation, State, Step, seen_key
from joingate_schemas.ids import operation_id


@dataclass(slots=True)
class Belongings:
    """One page: ids of operations and commitments, how many rows of the other tables, and where the next one begins."""

    operations: list[str] = field(default_factory=list)
    commitments: list[str] = field(default_factory=list)
    steps: int = 0
    plans: int = 0
    conditions: int = 0
    goals: int = 0
    claims: int = 0
    swept: str = ""
    discharging: str = ""
    more: bool = False


def prefix_of(intent_id: str) -> str:
    """What the keys of an intent's steps, plans, claim ids, conditions and goals begin with."""
    return f"{intent_id}\x1f"


def claims_of(state: State, intent_id: str, after: str, limit: int, before_seq: int) -> tuple[list[str], str, bool]:
    """Keys of claims decided before `before_seq`, of the next `limit` above the id `after`; the last id; if more.

    What is said after the archiving concerns a quarantine, and is remembered as any claim is.
    """
    keys = state.seen.page(prefix_of(intent_id), seen_key(intent_id, after) if after else "", limit)
    old = [key for key in keys if (row := state.seen.get(key)) is not None and row.seq < before_seq]
    return old, keys[-1].rpartition("\x1f")[2] if keys else after, len(keys) == limit


def page_of(state: State, intent_id: str, discharging: str, swept: str, limit: int, before_seq: int) -> Belongings:
    """The next rows of the intent, about `limit` of them: as many more as belong to the operation that comes last."""
    page = _Page(state, intent_id, discharging, swept, limit)
    page.take_steps()
    if not page.more:
        page.take_chain()
    if not page.more:
        page.take_claims(before_seq)
    found = page.found
    for table in ("plans", "conditions", "goals"):
        if not page.more and page.room > 0:
            count = len(getattr(state, table).page(prefix_of(intent_id), "", page.room))
            setattr(found, table, count)
            page.room -= count
    found.more = page.more or page.room <= 0
    return found


class _Page:
    def __init__(self, state: State, intent_id: str, discharging: str, swept: str, limit: int) -> None:
        self.found = Belongings(swept=swept, discharging=discharging)
        self.room = limit
        self.more = False
        self._state = state
        self._intent_id = intent_id
        self._taken: set[str] = set()

    def take_steps(self) -> None:
        """Steps with the operations of their slots, a step only after all of those."""
        for key in self._state.steps.page(prefix_of(self._intent_id), "", max(self.room, 1)):
            step = self._state.steps.get(key)
            for one in () if step is None else self._slot(step):
                row = self._state.operations.get(one)
                # What the gate opened itself is left to its chain, of which it is a link.
                if row is not None and row.opened_before is None and self.room > 0:
                    self._take(row)
            if self.room <= 0:
                self.more = True
                return
            self.found.steps += 1
            self.room -= 1

    def _slot(self, step: Step) -> list[str]:
        """The operations of the step's slot, the first generation last: it alone says how many there are."""
        first = self._state.operations.get(step.slot_id)
        if first is None:
            return []
        later = range(first.latest_generation, 1, -1)
        return [
            *(operation_id(self._intent_id, step.action, step.business_key, one) for one in later),
            step.slot_id,
        ]

    def take_chain(self) -> None:
        """The operations that the gate opened itself, the latest first."""
        while self.found.discharging and self.room > 0:
            row = self._state.operations.get(self.found.discharging)
            if row is None:
                self.found.discharging = ""
                return
            self._take(row)
            self.found.discharging = row.opened_before or ""
        self.more = bool(self.found.discharging)

    def take_claims(self, before_seq: int) -> None:
        """Claim ids; one that made a promise, with that."""
        if self.room <= 0:
            return
        found = self.found
        keys, found.swept, self.more = claims_of(self._state, self._intent_id, found.swept, self.room, before_seq)
        for key in keys:
            seen = self._state.seen.get(key)
            if seen is not None and seen.about == "Promise":
                self._take_commitment(seen.subject_id)
        found.claims = len(keys)
        self.room -= len(keys)

    def _take(self, row: Operation) -> None:
        if row.operation_id not in self._taken:
            self._taken.add(row.operation_id)
            self.found.operations.append(row.operation_id)
            self.room -= 1
            self._take_commitment(row.commitment_id or "")

    def _take_commitment(self, commitment_id: str) -> None:
        row = self._state.commitments.get(commitment_id) if commitment_id else None
        if row is not None and row.intent_id == self._intent_id and commitment_id not in self._taken:
            self._taken.add(commitment_id)
            self.found.commitments.append(commitment_id)
            self.room -= 1
