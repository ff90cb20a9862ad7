"""What everybody in a gated run shares: the gate, the world, the wire between them, and chance."""

import random
from collections import Counter

from joingate_processors.forensics.scenario import REORDERED, REPEATED, Scenario, Truth
from joingate_processors.forensics.simulator import Simulator
from joingate_schemas import claims as c
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec

INTENT = "acme/prove/1"


class Stage:
    """One scenario's stage: `simulator` is the gate, `truth` the world, `rng` draws what happens next.

    `met` counts the faults that are not drawn beforehand: those of the wire, and restarts.
    """

    def __init__(self, scenario: Scenario, rng: random.Random, catalogue: Catalogue, codec: Codec) -> None:
        self.scenario = scenario
        self.rng = rng
        self.truth = Truth(
            keyed=frozenset(name for name, one in catalogue.downstreams.items() if "IDEMPOTENT_KEY" in one.capabilities)
        )
        self.simulator = Simulator(catalogue, batch=rng.choice((1, 1, 2, 5)), codec=codec)
        self.met: Counter[str] = Counter()
        self._wire: list[tuple[c.AnyClaim, c.Role]] = []
        self._said = 0
        self._garbled = scenario.garbled

    def claim_id(self) -> str:
        """An id that no claim of this run has had."""
        self._said += 1
        return f"claim-{self._said}"

    def say(self, claim: c.AnyClaim, role: c.Role) -> None:
        """Put a claim on its way; it may come later than others, and twice."""
        self._wire.append((claim, role))
        if self.rng.random() < REPEATED:
            self.met["claims sent twice"] += 1
            self._wire.append((claim, role))

    def garble(self) -> None:
        """Once, in a scenario that has it: a record under the intent's key that nobody can read."""
        if self._garbled:
            self._garbled = False
            self.simulator.submit_raw(self.rng.randbytes(20), self.rng.choice(("proposals", "outcomes")), INTENT)

    def restart(self) -> None:
        """The gate forgets all but its ledger, and comes back."""
        self.met["restarts"] += 1
        self.simulator.restart()

    def deliver(self) -> None:
        """Let one claim arrive, not always the oldest."""
        if self._wire:
            late = self.rng.random() < REORDERED
            place = self.rng.randrange(len(self._wire)) if late else 0
            self.met["claims out of order"] += place > 0
            claim, role = self._wire.pop(place)
            self.simulator.submit(claim, role)

    def deliver_all(self) -> None:
        """Let everything arrive that is on its way, in order, and end the transaction."""
        while self._wire:
            self.simulator.submit(*self._wire.pop(0))
        self.simulator.flush()
