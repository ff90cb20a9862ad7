"""The room of `joingate submit`: a trace played against a live gate, by the same player that plays it in memory.

A live gate stands in the simulator's place: what a line says goes out through the SDK, what the gate decides is read
from the ledger, and the state is those decisions folded by the law. The clock is the broker's, so `at` moves nothing
and `advance` is waited for.
"""

import time
from pathlib import Path
from typing import cast

from confluent_kafka import KafkaError, Message, Producer

from joingate.faults import MALFORMED, FaceError
from joingate.ledger import Entry, LedgerReader
from joingate.settings import Settings
from joingate_processors.forensics.directory import Directory
from joingate_processors.forensics.play import Player, TraceResult
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.forensics.trace import ClaimLine, RawLine, Trace, read_trace
from joingate_processors.law.judge import fold
from joingate_processors.law.memory import MemoryState
from joingate_producers import Connection, InvalidClaim
from joingate_schemas.arbitration import Hold
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.claims import AnyClaim
from joingate_schemas.codec import Undecodable
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import HoldOpened

_POLL_S = 0.1


def submit_trace(settings: Settings, trace_file: Path, *, wait_s: float) -> TraceResult:
    """Play the trace in `trace_file` against the gate, waiting up to `wait_s` seconds for each decision.

    Raises TraceError where it is malformed, FaceError when the gate does not answer.
    """
    trace = read_trace(trace_file)
    with (
        LedgerReader(settings) as ledger,
        Connection(
            bootstrap_servers=settings.bootstrap_servers,
            prefix=settings.prefix,
            registry_url=settings.registry_url,
            client=settings.client,
            client_id="joingate-submit",
            outbox=None,
            verdicts=False,  # decisions of every kind are read here, not only those on our claims
        ) as connection,
    ):
        player = Player(trace, builtin_catalogue())
        # The player asks the gate for little, and the live one answers the same questions.
        player.simulator = cast(Simulator, LiveGate(settings, ledger, connection, _intents(trace), wait_s))
        return player.play()


def _intents(trace: Trace) -> frozenset[str]:
    """The intents that the trace is about: of what else happens at the gate, nothing is shown."""
    claims = {str(line.fields["intent_id"]) for line in trace.lines if isinstance(line, ClaimLine)}
    return frozenset(claims | {line.key or "" for line in trace.lines if isinstance(line, RawLine)})


class LiveGate:
    """What the player needs of a simulator, over a live gate. Folds the whole ledger first, to know every name."""

    def __init__(
        self, settings: Settings, ledger: LedgerReader, connection: Connection, intents: frozenset[str], wait_s: float
    ) -> None:
        self.codec = connection.codec
        self.state = MemoryState()
        self.names = Directory()
        self.decisions: list[Decision] = []
        self.causes: list[int | None] = []
        self.cause: int | None = None
        self.holds: list[Hold] = []  # The arbiter's books are a ledger of their own, which is not read here.
        self.now = 0  # The broker's clock is not ours to read, so that no `at` lies behind it.
        self._settings = settings
        self._ledger = ledger
        self._connection = connection
        self._intents = intents
        self._wait_s = wait_s
        for entry in ledger.to_end():
            self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        fold(self.state, entry.decision, entry.digest)
        self.names.read(entry.decision)

    def submit_raw(self, raw: bytes, topic: ClaimTopic, key: str | None, at: int | None = None) -> Decision:
        """Send the record, and return its decision. Raises FaceError when none comes."""
        self._take(self._ledger.poll(0))
        place = len(self.decisions)
        claim = self._claim(raw)
        coordinates = None
        if claim is None or not self._sent(claim, topic):
            coordinates = self._produce(raw, topic, key)
        deadline = time.monotonic() + self._wait_s
        while time.monotonic() < deadline:
            for entry in self._ledger.poll(_POLL_S):
                mine = _answers(entry, claim, raw, topic, coordinates)
                # The player looks for the line's own decision in the place where the line began.
                self._take([entry], place if mine else None)
                if mine:
                    return entry.decision
        raise FaceError(
            f"Line {self.cause}: no decision within {self._wait_s:g} s. See that a gate runs on the topics "
            f"{self._settings.prefix}* at {self._settings.bootstrap_servers}: `joingate status` tells of a halted one."
        )

    def _claim(self, raw: bytes) -> AnyClaim | None:
        try:
            return cast(AnyClaim, self.codec.decode(raw))
        except Undecodable:
            return None  # which is what the line is about

    def _sent(self, claim: AnyClaim, topic: ClaimTopic) -> bool:
        """Whether the SDK takes it. What no gate could accept it does not, and a trace may want to see that refused."""
        try:
            self._connection.submit(self._settings.prefix + topic, claim, durable=False)
        except InvalidClaim:
            return False
        return True

    def _produce(self, raw: bytes, topic: ClaimTopic, key: str | None) -> tuple[int, int]:
        """Write the bytes as they are; returns partition and offset."""
        reports: list[tuple[KafkaError | None, Message]] = []
        producer = Producer(
            {
                "log_level": 0,
                **self._settings.client,
                "bootstrap.servers": self._settings.bootstrap_servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        producer.produce(
            self._settings.prefix + topic, raw, key, on_delivery=lambda error, message: reports.append((error, message))
        )
        producer.flush(self._wait_s)
        if not reports or reports[0][0] is not None:
            why = reports[0][0] if reports else "no confirmation"
            raise FaceError(f"Line {self.cause}: the broker did not take the record ({why}).")
        return reports[0][1].partition() or 0, reports[0][1].offset() or 0

    def _take(self, entries: list[Entry], place: int | None = None) -> None:
        for entry in entries:
            self._learn(entry)
            decision = entry.decision
            if decision.intent_id in self._intents or place is not None:
                at = len(self.decisions) if place is None else place
                self.decisions.insert(at, decision)
                self.causes.insert(at, self.cause)

    def advance(self, ms: int) -> list[Decision]:
        """Wait, and take in what is decided meanwhile. Raises FaceError about a wait that is too long."""
        if ms > self._wait_s * 1000:
            raise FaceError(
                f"Line {self.cause}: an advance by {ms / 1000:g} s would have to be waited for; allow it with --wait.",
                MALFORMED,
            )
        before, deadline = len(self.decisions), time.monotonic() + ms / 1000
        while (left := deadline - time.monotonic()) > 0:
            self._take(self._ledger.poll(min(left, _POLL_S)))
        return self.decisions[before:]

    def move_to(self, _at: int) -> list[Decision]:
        """Nothing: the broker's clock goes by itself."""
        return []

    def restart(self) -> None:
        """Raises FaceError: a live gate is restarted by those who run it."""
        raise FaceError(f"Line {self.cause}: a live gate can't be restarted from here; use `simulate`.", MALFORMED)


def _answers(
    entry: Entry, claim: AnyClaim | None, raw: bytes, topic: ClaimTopic, coordinates: tuple[int, int] | None
) -> bool:
    """Whether the record decides what was sent: as a claim, as one that waits, or as a record that was set aside."""
    decision = entry.decision
    if claim is not None and coordinates is None:
        if (decision.intent_id, decision.claim_id) == (claim.intent_id, claim.claim_id):
            return True
        return any(isinstance(fact, HoldOpened) and fact.held_claim == raw for fact in decision.facts)
    if coordinates is None or entry.partition != coordinates[0]:
        return False
    here = (decision.topic, decision.offset) == (topic, coordinates[1])
    return here or decision.subject_id == f"{topic}/{coordinates[0]}/{coordinates[1]}"
