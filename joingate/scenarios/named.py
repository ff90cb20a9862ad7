"""The named scenarios: what goes wrong in a system of obligations, each as a trace with the outcome that it must have.

Each is played in memory by the gate's own law, and its ledger is then verified: by the checker, which shares no code
with the law, by the seven rules about obligations, and by deciding each claim again. A crash is also made on a real
broker, in the tests; here it is a restart.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from joingate.audit import AuditReport, audit_records
from joingate.faults import MALFORMED, FaceError
from joingate.ledger import Entry
from joingate_processors.forensics.checker import check
from joingate_processors.forensics.play import Failure, Player, TraceResult, catalogue_of
from joingate_processors.forensics.shapes import near_miss
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.forensics.snapshot import state_object
from joingate_processors.forensics.trace import read_trace
from joingate_schemas.decisions import Command

FOLDER = Path(str(files("joingate.scenarios"))) / "failures"
"""Where the index, the traces and their catalogues lie: in the package, so that an installed one has them."""

Kind = Literal["INJECTION", "MODE"]


@dataclass(frozen=True)
class NamedScenario:
    """One scenario, as the index has it.

    `kind`: a failure that is injected, or a way in which such systems fail. `wrong` and `expected` are sentences.
    `crash`: the failure is the end of a process, so that it is also played on a real broker.
    """

    name: str
    kind: Kind
    wrong: str
    expected: str
    crash: bool = False

    @property
    def trace(self) -> Path:
        """Its trace."""
        return FOLDER / f"{self.name}.jsonl"


@dataclass
class ScenarioReport:
    """What came of a scenario: what the trace expected and did not get, and what is wrong with the ledger it left."""

    scenario: NamedScenario
    decisions: list[dict[str, Any]]
    failures: list[Failure] = field(default_factory=list)
    audit: AuditReport = field(default_factory=AuditReport)
    commands: list[str] = field(default_factory=list)
    forgot: bool = False

    @property
    def holds(self) -> bool:
        """Whether the outcome is the expected one, and the ledger keeps every invariant."""
        return not self.failures and self.audit.holds and not self.commands and not self.forgot

    def row(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            **asdict(self.scenario), "holds": self.holds, "failures": [str(one) for one in self.failures],
            "decisions": self.decisions, "verify": self.audit.row(), "commands": self.commands, "forgot": self.forgot,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """What is wrong, or that nothing is, as sentences."""
        yield from (str(failure) for failure in self.failures)
        yield from self.audit.lines()
        yield from (f"A command that no decision allows: {one}" for one in self.commands)
        if self.forgot:
            yield "The state that the ledger alone rebuilds is another one."
        yield "As expected." if self.holds else "Not as expected."


@cache
def scenarios() -> tuple[NamedScenario, ...]:
    """Every named scenario, in the order of the index. Raises ValueError where the index is malformed."""
    found = [NamedScenario(**_entry(one)) for one in yaml.safe_load((FOLDER / "index.yaml").read_text("utf-8"))]
    names = [one.name for one in found]
    if len(set(names)) != len(names):
        raise ValueError(f"Two scenarios have one name: {sorted(name for name in names if names.count(name) > 1)}.")
    return tuple(found)


def _entry(written: dict[str, Any]) -> dict[str, Any]:
    if written.get("kind") not in get_args(Kind):
        raise ValueError(f"{written.get('name')}: kind {written.get('kind')!r} is none of {', '.join(get_args(Kind))}.")
    return written


def scenario_named(name: str) -> NamedScenario:
    """The scenario called `name`. Raises FaceError, which says what was probably meant."""
    known = {one.name: one for one in scenarios()}
    if name not in known:
        raise FaceError(
            f"There is no scenario {name!r}{near_miss(name, known)}; `joingate scenario --list` has them all.",
            MALFORMED,
        )
    return known[name]


def play(scenario: NamedScenario, *, batch: int | None = None) -> ScenarioReport:
    """Play the scenario in memory, and verify the ledger that came of it. `batch` goes before the trace's own."""
    trace = read_trace(scenario.trace)
    player = Player(trace, catalogue_of(trace, FOLDER), batch=batch, beside=FOLDER)
    result: TraceResult = player.play()
    simulator = player.simulator
    simulator.flush()
    commands = [record for record in simulator.sent if isinstance(record, Command)]
    uncovered = [
        str(one) for one in check(simulator.decisions, commands=commands, codec=simulator.codec)
        if one.invariant == "COMMAND"
    ]  # fmt: skip
    audit = audit_records(_entries(simulator), simulator.codec)
    before = state_object(simulator.state, simulator.names)
    simulator.restart()
    forgot = state_object(simulator.state, simulator.names) != before
    return ScenarioReport(scenario, result.decisions, result.failures, audit, uncovered, forgot)


def _entries(simulator: Simulator) -> Iterator[Entry]:
    for place, (raw, decision) in enumerate(zip(simulator.ledger, simulator.decisions, strict=True)):
        yield Entry(simulator.partition, place, raw, decision)
