"""The room of `joingate prove`: many seeded traces of everything that goes wrong, with a gate and without, and a count.

A trace is one whole story of one intent, seeded by its own number: `--seed S --traces 1` tells that story again, to the
letter. What is counted is traces, not steps, since one illegal close is a failed piece of work.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from joingate_processors.forensics.checker import Violation, check
from joingate_processors.forensics.gated import GatedRun
from joingate_processors.forensics.naive import run_naive
from joingate_processors.forensics.scenario import STEPS_ASKED_MAX, Scenario, draw
from joingate_processors.forensics.snapshot import Json, decision_object
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Command

TRACES = 10_000
SEED = 7


@dataclass(frozen=True)
class TraceOutcome:
    """What one trace came to, without the gate and with it."""

    seed: int
    scenario: Scenario
    naive_broken: list[str]
    naive_doubled: list[str]
    violations: list[Violation]
    gated_doubled: list[str]
    verdicts: Counter[str]
    closed: bool
    met: Counter[str]
    ledger: list[Json]


@dataclass
class ProveResult:
    """The counts over all traces.

    `naive_violations` and `gated_violations` count traces that break an invariant; `naive_doubled` and `gated_doubled`
    traces after which an effect stands twice in the world. `verdicts` counts decisions by verdict and reason; `closed`
    the intents that the gate could close; `faults` what went wrong, by name. `naive_seeds` and `naive_doubled_seeds`
    are the seeds of the naive ones, `gated_seeds` every seed of a gated one of either kind, and `violations` what those
    broke. `ledger` is the whole ledger where one trace was asked for. `steps` is how many steps each plan had (None:
    drawn for each).
    """

    traces: int
    seed: int
    steps: int | None = None
    naive_violations: int = 0
    naive_doubled: int = 0
    gated_violations: int = 0
    gated_doubled: int = 0
    decisions: int = 0
    closed: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    naive_seeds: list[int] = field(default_factory=list)
    naive_doubled_seeds: list[int] = field(default_factory=list)
    gated_seeds: list[int] = field(default_factory=list)
    violations: list[tuple[int, str]] = field(default_factory=list)
    ledger: list[Json] | None = None

    @property
    def holds(self) -> bool:
        """Whether no trace broke anything behind the gate."""
        return not self.gated_seeds


def prove(
    traces: int = TRACES, seed: int = SEED, *, steps: int | None = None,
    progress: Callable[[int], None] | None = None, catalogue: Catalogue | None = None,
) -> ProveResult:  # fmt: skip
    """Run traces with the seeds `seed`, `seed` + 1, … and count. `progress` is told after each how many are done.

    `steps` is how many steps each plan has, up to `STEPS_ASKED_MAX`; None draws 1 to 6 for each. Deterministic: the
    same arguments give the same result. Raises ValueError on fewer than one trace, and on a number of steps beyond.
    """
    if traces < 1:
        raise ValueError(f"At least one trace has to be run, not {traces}.")
    if steps is not None and not 1 <= steps <= STEPS_ASKED_MAX:
        raise ValueError(f"A plan of a trace has 1 to {STEPS_ASKED_MAX} steps, not {steps}.")
    declared, codec = catalogue or builtin_catalogue(), Codec()
    result = ProveResult(traces, seed, steps)
    for number in range(traces):
        outcome = run_one(seed + number, declared, codec, steps=steps, keep_ledger=traces == 1)
        _count(result, outcome)
        if progress is not None:
            progress(number + 1)
    return result


def run_one(
    seed: int, catalogue: Catalogue, codec: Codec, *, steps: int | None = None, keep_ledger: bool = False
) -> TraceOutcome:
    """The trace of one seed, without the gate and with it."""
    scenario, rng = draw(seed, steps)
    naive = run_naive(scenario)
    gated = GatedRun(scenario, rng, catalogue, codec)
    gated.run()
    simulator = gated.simulator
    commands = [record for record in simulator.outgoing if isinstance(record, Command)]
    violations = check(simulator.decisions, raw=simulator.ledger, commands=commands, codec=codec)
    verdicts = Counter(f"{one.verdict} {one.reason}" for one in simulator.decisions)
    closed = any(one.claim_type == "Close" and one.verdict == "ACCEPTED" for one in simulator.decisions)
    ledger = [decision_object(one, None) for one in simulator.decisions] if keep_ledger else []
    return TraceOutcome(
        seed,
        scenario,
        naive.broken(),
        naive.truth.doubled(),
        violations,
        gated.truth.doubled(),
        verdicts,
        closed,
        gated.met,
        ledger,
    )


def _count(result: ProveResult, outcome: TraceOutcome) -> None:
    result.naive_violations += bool(outcome.naive_broken)
    result.naive_doubled += bool(outcome.naive_doubled)
    result.gated_violations += bool(outcome.violations)
    result.gated_doubled += bool(outcome.gated_doubled)
    result.decisions += outcome.verdicts.total()
    result.closed += outcome.closed
    result.verdicts.update(outcome.verdicts)
    result.faults.update(_faults(outcome.scenario) + outcome.met)
    if outcome.naive_broken:
        result.naive_seeds.append(outcome.seed)
    if outcome.naive_doubled:
        result.naive_doubled_seeds.append(outcome.seed)
    if outcome.violations or outcome.gated_doubled:
        result.gated_seeds.append(outcome.seed)
        result.violations += [(outcome.seed, str(violation)) for violation in outcome.violations]
        result.violations += [(outcome.seed, f"DOUBLED: {one} was done twice") for one in outcome.gated_doubled]
    if outcome.ledger:
        result.ledger = outcome.ledger


def _faults(scenario: Scenario) -> Counter[str]:
    steps = scenario.steps
    return Counter({
        "steps": len(steps),
        "fabricated successes": sum(step.fabricated for step in steps),
        "silence before the effect": sum(step.silence == "BEFORE" for step in steps),
        "lost acknowledgements": sum(step.silence == "AFTER" for step in steps),
        "duplicate dispatches": sum(step.duplicated for step in steps),
        "late aborts": sum(step.late_abort for step in steps),
        "aborts without proof": sum(step.no_proof for step in steps),
        "commits without a permit": sum(step.hasty for step in steps),
        "two ids for one wish": int(scenario.two_ids),
        "new versions": int(scenario.redeclared),
        "cancels": int(scenario.cancelled),
        "unreadable records": int(scenario.garbled),
    })  # fmt: skip
