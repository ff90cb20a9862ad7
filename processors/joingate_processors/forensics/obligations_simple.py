"""The three simpler systems of the comparison: a task queue, one with durable cancellation, one with a ledger.

Each is built as well as its parts allow, and no better: at-least-once delivery, three tries, releases that are tried
again. What it does not write down it does not know after a restart; what it has no record for, it can't give back.
"""

from dataclasses import dataclass, field

from joingate_processors.forensics.obligations_world import (
    Outcome,
    Provider,
    Slot,
    Story,
    Taken,
    attribute_after,
    judged,
)  # fmt: skip

_TRIES_MAX = 3


class Lost(Exception):
    """The reply to a call did not come. Whether the call took effect is not known."""


@dataclass
class SimpleSystem:
    """What the three have in common: a queue of tasks and calls whose replies may get lost."""

    story: Story
    provider: Provider
    records: int = 0
    done: dict[str, list[int]] = field(default_factory=dict)  # entity -> reservations that it knows of
    _faults: set[tuple[str, str]] = field(default_factory=set)

    def run(self) -> Outcome:
        """Live through the story."""
        story = self.story
        for slot in story.slots:
            for _ in range(2 if slot.twice else 1):
                self.task(slot, "first", in_flight=slot.late)
        if story.restarts[0]:
            self.restart()
        if story.change != "NONE":
            self.changed()
        for slot in story.slots:
            if slot.late:
                self.arrived(slot)
        if story.restarts[1]:
            self.restart()
        if story.change in ("REPLAN", "SUPERSEDE"):
            for slot in story.slots:
                if slot.fate != "DROPPED":
                    self.task(slot, attribute_after(slot))
        return judged(story, self.provider, self.records, people=0)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call_create(self, slot: Slot, attribute: str, key: str) -> int:
        """Reserve; the first reply of a slot may be lost. Raises Lost and Taken."""
        first = self._first("create", slot.entity)
        if first and slot.create == "LOST_BEFORE":
            raise Lost
        number = self.provider.create(slot.entity, attribute, key)
        if first and slot.create == "LOST_AFTER":
            raise Lost
        return number

    def call_release(self, slot: Slot, number: int) -> None:
        """Give back; a lost reply is answered by trying again, which does no harm."""
        first = self._first("release", slot.entity)
        if not (first and slot.release == "LOST_BEFORE"):
            self.provider.release(number)
        if first and slot.release != "NONE":
            self.provider.release(number)

    def _first(self, call: str, entity: str) -> bool:
        first = (call, entity) not in self._faults
        self._faults.add((call, entity))
        return first

    # --- what each does its own way ----------------------------------------------------------------------------------

    def task(self, slot: Slot, attribute: str, *, in_flight: bool = False) -> None:
        """Reserve, at least once: a lost reply is tried again, since the queue knows of no reply but one that came."""
        self.records += 2  # put into the queue, and taken off it
        for _ in range(_TRIES_MAX):
            try:
                number = self.call_create(slot, attribute, "")
            except Lost:
                continue
            except Taken:
                return
            if not in_flight:
                self.done.setdefault(slot.entity, []).append(number)
            return

    def arrived(self, slot: Slot) -> None:
        """The reply of what was in flight comes in; the call itself had been made."""

    def changed(self) -> None:
        """The wish has changed, or is gone."""

    def restart(self) -> None:
        """The worker dies: what it was at is delivered again, and what it only remembered is forgotten."""
        self.done.clear()
        for slot in self.story.slots:
            if slot.late and self.redelivers():
                self.task(slot, "first")

    def redelivers(self) -> bool:
        """Whether the queue delivers again what was taken and not yet acknowledged."""
        return True


class TaskQueue(SimpleSystem):
    """A queue of tasks. Cancelling empties it, and so forgets what is done."""


class CancellableQueue(SimpleSystem):
    """Cancellation is durable: no task starts after it, and each task that is known as done is undone."""

    def changed(self) -> None:
        """Undo whatever the cancelled run is known to have done; a new plan is a new run."""
        self.records += 1
        for slot in self.story.slots:
            for number in self.done.pop(slot.entity, ()):
                self.records += 2
                self.call_release(slot, number)

    def restart(self) -> None:
        """Results are kept with the tasks; only what was not acknowledged comes again."""
        for slot in self.story.slots:
            if slot.late and self.redelivers():
                self.task(slot, "first", in_flight=True)

    def redelivers(self) -> bool:
        """A task of a cancelled run is not taken again."""
        return self.story.change == "NONE"


class LedgerQueue(SimpleSystem):
    """A ledger of commitments beside the queue: nothing is made twice, and a cancel releases what is in force.

    It has no goals and no plans, so that it can't tell which commitments a new plan still needs, and nothing in it is
    waiting for a success that comes too late.
    """

    def task(self, slot: Slot, attribute: str, *, in_flight: bool = False) -> None:
        """One commitment an entity: asked again, the ledger answers; a lost reply is looked up before another try."""
        if self.done.get(slot.entity):
            return
        self.records += 4  # the task, and the commitment proposed and in force
        key = slot.entity
        for _ in range(_TRIES_MAX):
            found = self.provider.look_up(key)
            if found:
                self.done[slot.entity] = found
                return
            try:
                number = self.call_create(slot, attribute, key)
            except Lost:
                continue
            except Taken:
                return
            self.done[slot.entity] = [] if in_flight else [number]
            return

    def arrived(self, slot: Slot) -> None:
        """The ledger is told that it is in force, whoever still wants it."""
        if not self.done.get(slot.entity):
            self.records += 1
            self.done[slot.entity] = self.provider.look_up(slot.entity)

    def changed(self) -> None:
        """A cancel releases what is in force; a new plan has nothing to compare with."""
        self.records += 1
        if self.story.change != "CANCEL":
            return
        for slot in self.story.slots:
            for number in self.done.pop(slot.entity, ()):
                self.records += 2
                self.call_release(slot, number)

    def restart(self) -> None:
        """The ledger is durable: nothing is forgotten, and what is delivered again is looked up first."""
