"""The room where planner, executor, reconciler and a person live through a scenario behind the gate.

They are honest where the model says that they are (an executor acts under its permit, once; a look-up tells the truth)
and faulty everywhere else: the planner makes successes up and asks again, answers get lost, claims come late, twice
and in another order, the gate is restarted. What the gate lets happen is what is checked.
"""

import random
from collections import Counter
from collections.abc import Callable

from joingate_processors.forensics.gated_planner import Planner
from joingate_processors.forensics.gated_stage import INTENT, Stage
from joingate_processors.forensics.gated_world import Executor, Person, Reconciler
from joingate_processors.forensics.scenario import RESTARTED, STEPS_MAX, Scenario, Truth
from joingate_processors.forensics.simulator import Simulator
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command, InDoubtRequest

_TURNS_A_STEP = 14
_TURNS_FIRST = 20
_ROUNDS_LAST = 8
_ROUNDS_A_STEP = 2
_PAUSES_MS = (1, 50, 1_000, 5_000, 31_000, 95_000)
_LONG_PAUSES_MS = (40_000, 120_000, 3_700_000)


class GatedRun:
    """One scenario behind the gate. `simulator` is the gate, `truth` the world."""

    def __init__(self, scenario: Scenario, rng: random.Random, catalogue: Catalogue, codec: Codec) -> None:
        self._stage = Stage(scenario, rng, catalogue, codec)
        self._planner = Planner(self._stage)
        self._executor = Executor(self._stage)
        self._reconciler = Reconciler(self._stage)
        self._person = Person(self._stage)
        self._heard = 0  # how much of what the gate sent is read

    @property
    def simulator(self) -> Simulator:
        """The gate."""
        return self._stage.simulator

    @property
    def truth(self) -> Truth:
        """What really happened."""
        return self._stage.truth

    @property
    def met(self) -> Counter[str]:
        """How often which fault of the wire, or a restart, was met."""
        return self._stage.met

    def run(self) -> None:
        """Live through it: first in disorder, then calmly until nothing moves any more."""
        rng, stage = self._stage.rng, self._stage
        moves: list[tuple[float, Callable[[], None]]] = [
            (0.36, self._planner.move), (0.70, self._executor.move), (0.82, self._reconciler.move),
            (0.85, self._person.move), (0.93, self._wait), (0.93 + RESTARTED, stage.restart),
            (1.0, stage.deliver),
        ]  # fmt: skip
        for _ in range(_TURNS_FIRST + _TURNS_A_STEP * len(stage.scenario.steps)):
            drawn = rng.random()
            next(move for below, move in moves if drawn < below)()
            stage.deliver()
            if rng.random() < 0.5:
                self.simulator.flush()
            if rng.random() < 0.05:
                stage.garble()
            self._read_sent()
        # What is irreversible waits for what is irreversible before it: a longer plan takes more rounds.
        longer = max(0, len(stage.scenario.steps) - STEPS_MAX)
        for _ in range(_ROUNDS_LAST + _ROUNDS_A_STEP * longer):
            if self._calm_round():
                return

    def _wait(self) -> None:
        self.simulator.advance(self._stage.rng.choice(_PAUSES_MS))

    def _read_sent(self) -> None:
        sent = self.simulator.sent
        for record in sent[self._heard :]:
            if isinstance(record, Command):
                self._executor.inbox.append(record)
            elif isinstance(record, InDoubtRequest):
                self._reconciler.hear(record)
        self._heard = len(sent)

    def _calm_round(self) -> bool:
        """Everybody does what is to be done, then time passes. Returns whether nothing is left to do."""
        self._planner.finish()
        self._stage.deliver_all()
        self._person.approve(calm=True)
        self._stage.deliver_all()
        self._read_sent()
        while self._executor.inbox:
            self._executor.work_off()
            self._stage.deliver_all()
            self._read_sent()
        self._reconciler.work_off()
        self._person.answer_gates()
        self._person.dismiss_quarantined()
        self.simulator.advance(self._stage.rng.choice(_LONG_PAUSES_MS))
        intent = self.simulator.state.intents.get(INTENT)
        return intent is not None and intent.status == "CLOSED"
