"""The room where a trace is played: line by line on the simulator, holding each expectation against what came."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never, cast

from joingate_processors.forensics.directory import UnknownName
from joingate_processors.forensics.expectations import difference
from joingate_processors.forensics.shapes import Json, record_fields
from joingate_processors.forensics.simulator import START_AT, Simulator
from joingate_processors.forensics.snapshot import decision_object, state_object
from joingate_processors.forensics.trace import (
    NAMES,
    TOPIC_OF,
    ClaimLine,
    Clock,
    ClockLine,
    ExpectLine,
    RawLine,
    RestartLine,
    Trace,
    TraceError,
    TraceLine,
    read_trace,
    stands_for,
)  # fmt: skip
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import CatalogueError, builtin_catalogue, load_catalogue
from joingate_schemas.claims import CLAIM_TYPES, AnyClaim
from joingate_schemas.facts import QuarantineOpened
from joingate_schemas.ids import derived_id
from joingate_schemas.record import from_datum


@dataclass(frozen=True)
class Failure:
    """An expectation that was not met: its line, the line that it is about, and the differences, one a line."""

    line: int
    of: int | None
    lines: tuple[str, ...]

    def __str__(self) -> str:
        about = "the state" if self.of is None else f"line {self.of}"
        return f"line {self.line}: {about} is not as expected\n" + "\n".join(f"  {line}" for line in self.lines)


@dataclass
class TraceResult:
    """What came of a trace: its decisions as JSON objects, the state at the end, and what was not as expected."""

    decisions: list[Json]
    state: Json
    failures: list[Failure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0, or 1 if an expectation failed. (A malformed trace gives no result: TraceError, and exit code 2.)"""
        return 1 if self.failures else 0

    def output(self, *, state: bool = False) -> Iterator[Json]:
        """The objects that `joingate simulate` prints, one a line; with `state`, the state as the last."""
        yield from self.decisions
        if state:
            yield self.state


def run_trace(
    source: str | Path | Iterable[str | Json], catalogue: Catalogue | None = None, *, batch: int | None = None
) -> TraceResult:
    """Play the trace in a file (a path), or in lines of text or objects, and say what came of it.

    `catalogue` goes before the one that the trace names, which is looked for beside the trace; without either the
    built-in one is in force. `batch` goes before the trace's own. Raises TraceError where the trace, or the catalogue
    that it names, is malformed; OSError where the trace can't be read.
    """
    trace = read_trace(source)
    beside = Path(source).parent if isinstance(source, str | Path) else Path()
    if catalogue is None:
        catalogue = catalogue_of(trace, beside)
    return Player(trace, catalogue, batch=batch, beside=beside).play()


def catalogue_of(trace: Trace, beside: Path) -> Catalogue:
    """The catalogue that the trace names, which lies in `beside`, or the built-in one. Raises TraceError."""
    return builtin_catalogue() if trace.catalogue is None else _load(beside / trace.catalogue, 1)


def _load(path: Path, line: int) -> Catalogue:
    try:
        return load_catalogue(path)
    except (CatalogueError, OSError) as error:
        raise TraceError(line, "catalogue", str(error)) from error


class Player:
    """Plays one trace. `simulator` is what it is played on; in `beside` lie the catalogues that restarts name."""

    def __init__(
        self, trace: Trace, catalogue: Catalogue, *, batch: int | None = None, beside: Path | None = None
    ) -> None:
        self._trace = trace
        self._beside = beside or Path()
        first = trace.lines[0] if trace.lines else None
        start = first.clock.at if first is not None and not isinstance(first, ExpectLine) else None
        self.simulator = Simulator(catalogue, start_at=START_AT if start is None else start, batch=batch or trace.batch)
        # A trace that says what the arbiter said, as one from a live ledger does, is not answered a second time.
        self.simulator.arbitrates = not any(
            isinstance(line, ClaimLine) and line.speaker == "arbiter" for line in trace.lines
        )
        self._own: dict[int, int] = {}  # line -> place of its own decision, among those that it caused
        self._intents: dict[int, str] = {}  # line -> the intent that it is about
        self._failures: list[Failure] = []

    def play(self) -> TraceResult:
        """Play every line. Raises TraceError."""
        simulator = self.simulator
        before: TraceLine | None = None
        for line in self._trace.lines:
            if isinstance(line, ExpectLine):
                self._hold(line, before)
                continue
            simulator.cause = line.line
            self._move(line.line, line.clock)
            self._do(line)
            before = line
        pairs = zip(simulator.decisions, simulator.causes, strict=True)
        decisions = [decision_object(decision, cause) for decision, cause in pairs]
        return TraceResult(
            decisions,
            state_object(simulator.state, simulator.names, simulator.holds),
            self._failures,
        )

    def _move(self, line: int, clock: Clock) -> None:
        if clock.advance is not None:
            self.simulator.advance(clock.advance)
        elif clock.at is not None:
            if clock.at < self.simulator.now:
                raise TraceError(
                    line, "at", f"the clock stands at {self.simulator.now} and never goes back to {clock.at}"
                )
            self.simulator.move_to(clock.at)

    def _do(self, line: ClaimLine | RawLine | RestartLine | ClockLine) -> None:
        match line:
            case ClaimLine():
                claim = self._claim(line)
                self._own[line.line] = len(self.simulator.decisions)
                self._intents[line.line] = claim.intent_id
                raw = self.simulator.codec.encode(claim)
                self.simulator.submit_raw(raw, TOPIC_OF[line.speaker], claim.intent_id)
            case RawLine():
                self._own[line.line] = len(self.simulator.decisions)
                self._intents[line.line] = line.key or ""
                self.simulator.submit_raw(line.raw, line.topic, line.key)
            case RestartLine():
                self._restart(line)
            case ClockLine():
                pass  # the clock has moved; there is no more to it
            case _:
                assert_never(line)

    def _restart(self, line: RestartLine) -> None:
        if line.catalogue is None:
            self.simulator.restart()
            return
        # Another catalogue is rolled out by an orderly stop, which ends the transaction; only a crash tears one.
        self.simulator.flush()
        self.simulator.restart(_load(self._beside / line.catalogue, line.line))

    # --- claims ------------------------------------------------------------------------------------------------------

    def _claim(self, line: ClaimLine) -> AnyClaim:
        datum = dict(line.fields)
        # From the line number, so that a trace without ids has the same ids wherever and however often it is played.
        datum.setdefault("claim_id", derived_id("trace", str(line.line)))
        if "principal" not in line.said:
            datum["principal"] = line.speaker
        for word, name in line.names.items():
            datum |= self._resolved(line, word, name, datum["intent_id"])
        return cast(AnyClaim, from_datum(CLAIM_TYPES[line.type], datum))

    def _resolved(self, line: ClaimLine, word: str, name: str | int, intent_id: str) -> Json:
        """The fields that the name stands for, but for those that the line gives itself."""
        names = self.simulator.names
        try:
            if word == "quarantine_of":
                found: Json = {"subject_kind": "QUARANTINE", "subject_id": self._quarantine_of(int(name))}
            elif word == "commitment_of":
                subject = names.commitment_of(intent_id, str(name))
                found = {"subject_kind": "COMMITMENT", "subject_id": subject, "commitment_id": subject}
            else:
                subject = self._operation(word, intent_id, str(name))
                found = {"subject_kind": "OPERATION", "subject_id": subject, "operation_id": subject,
                         "attempt": names.attempt_of(subject)}  # fmt: skip
                if line.type in ("Approve", "Decline") and "digest" not in line.said:
                    found["digest"] = names.digest_of(subject)
        except UnknownName as unknown:
            raise TraceError(line.line, word, f"{unknown}") from unknown
        wanted = stands_for(line.type, word)
        return {key: value for key, value in found.items() if key in wanted and key not in line.said}

    def _operation(self, word: str, intent_id: str, step_id: str) -> str:
        names = self.simulator.names
        match word:
            case "step":
                return names.operation_of(intent_id, step_id)
            case "compensation_of":
                return names.compensation_of(intent_id, step_id)
            case _:
                return names.release_of(intent_id, step_id)

    def _quarantine_of(self, line: int) -> str:
        for decision, cause in zip(self.simulator.decisions, self.simulator.causes, strict=True):
            for fact in decision.facts if cause == line else ():
                if isinstance(fact, QuarantineOpened):
                    return fact.quarantine_id
        raise UnknownName(f"nothing was quarantined on line {line}")

    # --- expectations ------------------------------------------------------------------------------------------------

    def _hold(self, line: ExpectLine, before: TraceLine | None) -> None:
        if line.decision:
            of = line.of if line.of is not None else before.line if before is not None else None
            if of is None:
                raise TraceError(line.line, "expect", "there is no line before it whose decision it could be about")
            lines = self._decision_difference(line, of)
            if lines:
                self._failures.append(Failure(line.line, of, tuple(lines)))
        if line.state:
            sim = self.simulator
            state = state_object(sim.state, sim.names, sim.holds)
            lines = difference(line.state, state)
            if lines:
                self._failures.append(Failure(line.line, None, tuple(lines)))

    def _decision_difference(self, line: ExpectLine, of: int) -> list[str]:
        """How the decision of line `of` differs; of several that the line caused, the one that comes closest."""
        caused = [
            (place, decision_object(decision, cause))
            for place, (decision, cause) in enumerate(zip(self.simulator.decisions, self.simulator.causes, strict=True))
            if cause == of
        ]
        own = self._own.get(of)
        # A line with a claim is judged by that claim's decision; `type` may ask for another that it brought about.
        candidates = [shown for place, shown in caused if "type" in line.decision or own is None or place == own]
        if not candidates:
            return ["no decision came of it"]
        expected = self._named(line, of)
        differences = [difference(expected, shown) for shown in candidates]
        best = min(range(len(candidates)), key=lambda place: len(differences[place]))
        if differences[best]:
            shown = candidates[best]
            return [
                f"{shown['type']}: {shown['verdict']} ({shown['reason']}) {shown['detail']}".rstrip(),
                *differences[best],
            ]
        return []

    def _named(self, line: ExpectLine, of: int) -> Json:
        """What is expected, with the names in its facts replaced by the ids that they stand for."""
        facts = line.decision.get("facts")
        if facts is None:
            return line.decision
        return {**line.decision, "facts": [self._named_fact(line, fact, of) for fact in facts]}

    def _intent_before(self, of: int) -> str:
        """The intent that line `of` is about, or the latest line before it that is about one."""
        lines = [line for line in self._intents if line <= of]
        return self._intents[max(lines)] if lines else ""

    def _named_fact(self, line: ExpectLine, fact: dict[str, Any], of: int) -> Json:
        given = [word for word in NAMES if word in fact]
        if not given:
            return fact
        word = given[0]
        intent_id = fact.get("intent_id") or self._intent_before(of)
        try:
            if word == "commitment_of":
                found = {"commitment_id": self.simulator.names.commitment_of(intent_id, fact[word])}
            elif word == "quarantine_of":
                found = {"quarantine_id": self._quarantine_of(fact[word])}
            else:
                found = {"operation_id": self._operation(word, intent_id, fact[word])}
        except UnknownName as unknown:
            raise TraceError(line.line, f"expect.facts.{word}", f"{unknown}") from unknown
        if "subject_id" in _fields_of(fact):
            found = {"subject_id": next(iter(found.values()))}
        return {**{key: value for key, value in fact.items() if key not in NAMES}, **found}


def _fields_of(fact: Json) -> frozenset[str]:
    return frozenset(record_fields(fact["type"])) if "type" in fact else frozenset()
