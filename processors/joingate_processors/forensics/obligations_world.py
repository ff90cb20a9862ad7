"""What happens in one story of obligations, drawn from its seed; and the provider's books, which say what is true.

The alternatives that are compared live through the same stories: reservations that some plan wants, replies that get
lost, asks that come twice, workers that die, and a change of mind while something is still in flight. What stands at
the end is held here, in books that none of them can read but through the provider's own answers.
"""

import random
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["NONE", "LOST_BEFORE", "LOST_AFTER"]
Change = Literal["NONE", "CANCEL", "REPLAN", "SUPERSEDE"]
Fate = Literal["KEPT", "CHANGED", "DROPPED"]

FAULTY, TWICE, LATE, RESTARTED, CONTENDED = 0.35, 0.25, 0.25, 0.40, 0.50
SLOTS_MAX = 5
_CHANGES: tuple[Change, ...] = ("NONE", "CANCEL", "REPLAN", "REPLAN", "SUPERSEDE")
_FATES: tuple[Fate, ...] = ("KEPT", "KEPT", "CHANGED", "DROPPED")


@dataclass(frozen=True)
class Slot:
    """One thing to be reserved, and what goes wrong with it.

    `create` and `release`: the reply to the first such call is lost, before or after it took effect. `twice`: it is
    asked for again at once. `late`: its reservation is in flight when the change comes. `fate`: whether it is still
    wanted after the change, or with another attribute. `contended`: once given up, somebody else takes it.
    """

    entity: str
    create: Fault
    release: Fault
    twice: bool
    late: bool
    fate: Fate
    contended: bool


@dataclass(frozen=True)
class Story:
    """One story: what is reserved, what changes, and whether the system restarts before and after the change."""

    seed: int
    slots: tuple[Slot, ...]
    change: Change
    restarts: tuple[bool, bool]

    @property
    def wanted(self) -> dict[str, str]:
        """What must stand at the end: attribute by entity."""
        if self.change == "CANCEL":
            return {}
        if self.change == "NONE":
            return {slot.entity: "first" for slot in self.slots}
        return {slot.entity: attribute_after(slot) for slot in self.slots if slot.fate != "DROPPED"}


def attribute_after(slot: Slot) -> str:
    """The attribute that the slot is wanted with after the change."""
    return "second" if slot.fate == "CHANGED" else "first"


def draw_story(seed: int) -> Story:
    """The story of a seed. Deterministic."""
    rng = random.Random(f"obligations {seed}")
    slots = tuple(_slot(rng, number) for number in range(1, rng.randint(1, SLOTS_MAX) + 1))
    return Story(seed, slots, rng.choice(_CHANGES), (rng.random() < RESTARTED, rng.random() < RESTARTED))


def _slot(rng: random.Random, number: int) -> Slot:
    fate = rng.choice(_FATES)
    late = rng.random() < LATE
    return Slot(
        f"window-{number}",
        # What is in flight has not lost its reply yet.
        create="NONE" if late else _fault(rng), release=_fault(rng), twice=rng.random() < TWICE, late=late, fate=fate,
        # What is wanted otherwise must be given up by everybody, so that nobody could keep it from a rival.
        contended=rng.random() < CONTENDED and fate == "KEPT",
    )  # fmt: skip


def _fault(rng: random.Random) -> Fault:
    if rng.random() >= FAULTY:
        return "NONE"
    return "LOST_BEFORE" if rng.random() < 0.5 else "LOST_AFTER"


class Taken(Exception):
    """The provider refuses: somebody else has it."""


@dataclass
class Reservation:
    """One entry of the provider's books."""

    number: int
    entity: str
    attribute: str
    key: str
    stands: bool = True


@dataclass
class Provider:
    """A provider that knows no keys: whoever asks twice has two. It can be asked what stands.

    `calls` counts what it was asked; `duplicated` the reservations made while one for the same wish stood.
    """

    contended: frozenset[str]
    books: list[Reservation] = field(default_factory=list)
    calls: int = 0
    duplicated: int = 0
    _taken: set[str] = field(default_factory=set)

    def create(self, entity: str, attribute: str, key: str) -> int:
        """Reserve; returns the reservation's number. Raises Taken."""
        self.calls += 1
        if entity in self._taken:
            raise Taken(entity)
        self.duplicated += any(one.stands and (one.entity, one.attribute) == (entity, attribute) for one in self.books)
        self.books.append(Reservation(len(self.books) + 1, entity, attribute, key))
        return len(self.books)

    def release(self, number: int) -> None:
        """Give back; what is gone already is gone."""
        self.calls += 1
        one = self.books[number - 1]
        one.stands = False
        if one.entity in self.contended and not any(other.stands for other in self.books if other.entity == one.entity):
            self._taken.add(one.entity)

    def look_up(self, key: str) -> list[int]:
        """The numbers of what stands and was reserved under this key, which it keeps as a note."""
        self.calls += 1
        return [one.number for one in self.books if one.stands and one.key == key]


@dataclass(frozen=True)
class Outcome:
    """What one system came to in one story, by the provider's books, and what it cost.

    `leaked`: wishes that nobody has, and that stand. `duplicated`: reservations beside one for the same wish. `lost`:
    wishes that somebody has, and that do not stand. `calls` to the provider, `records` written durably, `people` asked.
    """

    leaked: int
    duplicated: int
    lost: int
    calls: int
    records: int
    people: int

    @property
    def damage(self) -> int:
        """Obligations leaked, duplicated or lost."""
        return self.leaked + self.duplicated + self.lost


def judged(story: Story, provider: Provider, records: int, people: int) -> Outcome:
    """Hold what stands against what is wanted."""
    stands = {(one.entity, one.attribute) for one in provider.books if one.stands}
    wanted = set(story.wanted.items())
    return Outcome(len(stands - wanted), provider.duplicated, len(wanted - stands), provider.calls, records, people)
