"""The room that asks what the whole ledger of obligations is worth: what four systems lose over the same stories.

A simpler system is compared with the gate over the same seeded faults; the provider's books are the judge, not what any
of them says of itself. What it costs is told beside it: calls, durable records, and questions to people.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from joingate_processors.forensics.checker import check
from joingate_processors.forensics.obligations_gate import FullGraph
from joingate_processors.forensics.obligations_simple import CancellableQueue, LedgerQueue, TaskQueue
from joingate_processors.forensics.obligations_world import Outcome, Provider, Story, draw_story
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec

STORIES = 1_000
SEED = 7
SEEDS_KEPT = 5

SYSTEMS = ("task queue", "+ durable cancellation", "+ commitment ledger", "full graph")
"""The systems that are compared, from the simplest on."""


@dataclass
class Tally:
    """What one system came to over all stories; `stories` are those in which it lost anything, `seeds` the first."""

    system: str
    leaked: int = 0
    duplicated: int = 0
    lost: int = 0
    calls: int = 0
    records: int = 0
    people: int = 0
    stories: int = 0
    seeds: list[int] = field(default_factory=list)

    @property
    def damage(self) -> int:
        """Obligations leaked, duplicated or lost."""
        return self.leaked + self.duplicated + self.lost

    def add(self, seed: int, outcome: Outcome) -> None:
        """Count one story."""
        self.leaked += outcome.leaked
        self.duplicated += outcome.duplicated
        self.lost += outcome.lost
        self.calls += outcome.calls
        self.records += outcome.records
        self.people += outcome.people
        if outcome.damage:
            self.stories += 1
            if len(self.seeds) < SEEDS_KEPT:
                self.seeds.append(seed)


@dataclass
class Comparison:
    """The tallies, by system, over how many stories and wanted obligations; `violations` of the gate's ledgers."""

    stories: int
    seed: int
    obligations: int = 0
    tallies: list[Tally] = field(default_factory=list)
    violations: list[tuple[int, str]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the full graph lost nothing, and its ledgers keep every invariant."""
        return not self.tallies[-1].damage and not self.violations


def compare(
    stories: int = STORIES, seed: int = SEED, *, progress: Callable[[int], None] | None = None,
    catalogue: Catalogue | None = None,
) -> Comparison:  # fmt: skip
    """Run the stories `seed`, `seed` + 1, … through every system. Deterministic. Raises ValueError on fewer than one.

    `progress` is told after each how many are done; `catalogue` is the gate's, which must have the built-in one's
    windows.
    """
    if stories < 1:
        raise ValueError(f"At least one story has to be run, not {stories}.")
    declared, codec = catalogue or builtin_catalogue(), Codec()
    result = Comparison(stories, seed, tallies=[Tally(system) for system in SYSTEMS])
    for number in range(stories):
        story = draw_story(seed + number)
        result.obligations += len(story.slots)
        for tally, outcome in zip(result.tallies, outcomes(story, declared, codec, result.violations), strict=True):
            tally.add(story.seed, outcome)
        if progress is not None:
            progress(number + 1)
    return result


def outcomes(
    story: Story, catalogue: Catalogue, codec: Codec, violations: list[tuple[int, str]] | None = None
) -> list[Outcome]:
    """What each system comes to in the story, in the order of `SYSTEMS`; the gate's breaches go to `violations`."""
    found = [kind(story, _provider(story)).run() for kind in (TaskQueue, CancellableQueue, LedgerQueue)]
    gate = FullGraph(story, _provider(story), catalogue, codec)
    found.append(gate.run())
    if violations is not None:
        broken = check(gate.simulator.decisions, raw=gate.simulator.ledger, codec=codec)
        violations += [(story.seed, str(one)) for one in broken]
    return found


def _provider(story: Story) -> Provider:
    return Provider(frozenset(slot.entity for slot in story.slots if slot.contended))
