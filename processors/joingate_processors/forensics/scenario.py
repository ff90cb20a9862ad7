"""What goes wrong in one trace of `joingate prove`, drawn from its seed; and the world in which effects really happen.

The naive planner and the gated one meet the same faults. What is true is held here, in a table that neither can read
but through a downstream's own answers.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

Silence = Literal["NONE", "BEFORE", "AFTER"]

FABRICATED, SILENT, LOST_ACK = 0.30, 0.30, 0.50
DUPLICATED, TWO_IDS, LATE_ABORT, NO_PROOF, HASTY = 0.30, 0.25, 0.15, 0.10, 0.05
REDECLARED, CANCELLED, GARBLED, RESTARTED, REORDERED, REPEATED = 0.10, 0.05, 0.08, 0.03, 0.20, 0.10
REQUIRED = 0.40
STEPS_MAX = 6
"""How many steps a plan has at most, where their number is drawn."""
STEPS_ASKED_MAX = 100
"""How many may be asked for. A trace takes the square of it in time, since every step waits for those before."""

# Action, and the argument that names its entity. The last one of a plan may be a pivot.
_ACTIONS = (("write_file", "path"), ("notify", "to"), ("reserve_window", "window"), ("refund", "capture_id"),
            ("reverse_fee", "fee_transaction_id"), ("read_file", "path"))  # fmt: skip
_PIVOT = ("close_ticket", "ticket_id")


@dataclass(frozen=True)
class StepFaults:
    """One step, and what goes wrong with it.

    `fabricated`: the model says that it is done. `silence`: the executor never hears of it (BEFORE), or acts and its
    answer is lost (AFTER). `duplicated`: it is asked for again. `late_abort`: it is aborted once it is done.
    `no_proof`: the executor throws after acting, and says Abort. `hasty`: it says Commit before it has a permit.
    `requires`: the step that it rests on (None: on none).
    """

    step_id: str
    action: str
    argument: str
    entity: str
    fabricated: bool
    silence: Silence
    duplicated: bool
    late_abort: bool
    no_proof: bool
    hasty: bool
    requires: str | None = None


@dataclass(frozen=True)
class Scenario:
    """One trace's faults: its steps', a second plan with other ids for the same wish, a new version, a cancel, bytes
    that nobody can read.
    """

    seed: int
    steps: tuple[StepFaults, ...]
    two_ids: bool
    redeclared: bool
    cancelled: bool
    garbled: bool


def draw(seed: int, steps: int | None = None) -> tuple[Scenario, random.Random]:
    """The scenario of a seed, and the generator that goes on drawing the order of things. Deterministic.

    `steps` is how many the plan has; None draws 1 to `STEPS_MAX`.
    """
    rng = random.Random(seed)
    count = rng.randint(1, STEPS_MAX) if steps is None else steps
    actions = [rng.choice(_ACTIONS) for _ in range(count)]
    if rng.random() < 0.6:
        actions[-1] = _PIVOT
    # Edges are drawn apart, so that what else a seed tells is the same with them and without.
    edges = random.Random(f"edges of {seed}")
    faulty = tuple(
        replace(_step(rng, number, *action), requires=f"s{number - 1}")
        if number > 1 and edges.random() < REQUIRED
        else _step(rng, number, *action)
        for number, action in enumerate(actions, start=1)
    )
    scenario = Scenario(
        seed, faulty, two_ids=rng.random() < TWO_IDS, redeclared=rng.random() < REDECLARED,
        cancelled=rng.random() < CANCELLED, garbled=rng.random() < GARBLED,
    )  # fmt: skip
    return scenario, rng


def _step(rng: random.Random, number: int, action: str, argument: str) -> StepFaults:
    fabricated = rng.random() < FABRICATED
    silence: Silence = "NONE"
    if not fabricated and rng.random() < SILENT:
        silence = "AFTER" if rng.random() < LOST_ACK else "BEFORE"
    return StepFaults(
        f"s{number}", action, argument, f"{action}-{number}", fabricated, silence,
        duplicated=rng.random() < DUPLICATED, late_abort=rng.random() < LATE_ABORT,
        no_proof=rng.random() < NO_PROOF, hasty=rng.random() < HASTY,
    )  # fmt: skip


@dataclass
class Truth:
    """The systems of record: which effects exist, by the key that they were made with. A look leaves no effect."""

    keyed: frozenset[str] = frozenset({"bank", "workspace"})
    effects: dict[str, list[str]] = field(default_factory=dict)  # key -> external ids
    entity: dict[str, tuple[str, str]] = field(default_factory=dict)  # key -> action and entity
    undone: set[str] = field(default_factory=set)
    _made: int = 0

    def act(self, key: str, action: str, entity: str, downstream: str) -> str:
        """Perform the action under `key`; a downstream that knows keys answers a known one with the effect it has."""
        known = self.effects.setdefault(key, [])
        if known and downstream in self.keyed:
            return known[0]
        self._made += 1
        external_id = f"{downstream}-{self._made}"
        known.append(external_id)
        self.entity[key] = (action, entity)
        return external_id

    def found(self, key: str) -> list[str]:
        """The effects that a look-up by `key` shows now."""
        return [] if key in self.undone else list(self.effects.get(key, ()))

    def doubled(self) -> list[str]:
        """The entities on which more than one effect of the same action stands, as `action entity`, sorted."""
        standing: Counter[tuple[str, str]] = Counter()
        for key, made in self.effects.items():
            # What was undone once took back one effect; a second one under the same key still stands.
            standing[self.entity[key]] += len(made) - (key in self.undone)
        return sorted(f"{action} {entity}" for (action, entity), count in standing.items() if count > 1)
