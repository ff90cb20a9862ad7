"""The room of `verify` and `replay`: a live ledger is read, checked by two that share no code, and written down.

The checker holds every invariant of the model against the facts. The law then decides each claim again, from the bytes
in the ledger, and must come to the same record. Nothing here writes to a topic.
"""

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from joingate.audit_resources import ResourceAudit
from joingate.faults import MALFORMED, FaceError
from joingate.ledger import ASK_S, Entry, LedgerReader, ResourceLedgerReader
from joingate.settings import Settings
from joingate_processors.forensics.checked_seven import RuleReport, merged
from joingate_processors.forensics.checker import Checker
from joingate_processors.forensics.snapshot import decision_object, plain
from joingate_processors.forensics.trace import TOPIC_OF
from joingate_processors.gate.vouching import vouched
from joingate_processors.law.arrival import Arrival
from joingate_processors.law.judge import fold, judge
from joingate_processors.law.memory import MemoryState
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_json
from joingate_schemas.claims import AnyClaim, Override
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import ClaimTopic, Decision
from joingate_schemas.facts import CatalogueLoaded, HoldOpened
from joingate_schemas.record import changed

_SPEAKER_ON = {topic: speaker for speaker, topic in TOPIC_OF.items()}
_SHOWN_MAX = 20


# --- verify ----------------------------------------------------------------------------------------------------------


@dataclass
class AuditReport:
    """What came of an audit: records by partition, breaches as sentences, and what could not be decided again.

    `records` has every partition that was read, the empty ones too. Over no record at all nothing was shown to hold.
    `repeated` counts REPLAYED decisions, whose claims the ledger names and does not keep. `resource_records` are those
    of the arbiter's ledger; its breaches are among the others. `resources_under_way` counts what is held for operations
    that are over, of which the arbiter has not heard yet. `seven` are the verdicts on the seven rules about
    obligations, over all partitions.
    """

    records: dict[int, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    decided_again: int = 0
    repeated: int = 0
    resource_records: dict[int, int] = field(default_factory=dict)
    resources_held: int = 0
    resources_under_way: int = 0
    seven: list[RuleReport] = field(default_factory=lambda: merged(()))

    @property
    def holds(self) -> bool:
        """Whether there was something to check, and nothing of it is broken."""
        return any(self.records.values()) and not self.violations and not self.disagreements

    def row(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**vars(self), "seven": [asdict(one) for one in self.seven], "holds": self.holds}

    def lines(self) -> Iterator[str]:
        """The report as sentences."""
        for partition, count in sorted(self.records.items()):
            yield f"Partition {partition}: {f'{count} records, linked without a gap' if count else 'empty'}."
        for partition, count in sorted(self.resource_records.items()):
            if count:
                yield f"Resource partition {partition}: {count} records, linked without a gap."
        if any(self.resource_records.values()):
            yield (
                f"Resources held or spent: {self.resources_held}; to be given back by what the arbiter has not heard "
                f"yet: {self.resources_under_way}."
            )
        yield f"Invariants broken: {len(self.violations)}."
        yield from self.violations[:_SHOWN_MAX]
        yield "The seven rules about obligations:"
        yield from (f"  {one}" for one in self.seven)
        yield (
            f"Decided again by the law: {self.decided_again}, otherwise: {len(self.disagreements)} "
            f"({self.repeated} repeated claims taken as recorded)."
        )
        yield from self.disagreements[:_SHOWN_MAX]


def verify_ledger(settings: Settings, partition: int | None = None) -> AuditReport:
    """Read both ledgers to their ends and check them. Raises FaceError when one can't be read, or its chain is broken.

    The arbiter's is read first: whatever it heard by then has its decision in what is read of the gate's after it.
    """
    with ResourceLedgerReader(settings) as books:
        resources = ResourceAudit(books.codec, books.reads, only=partition)
        for ruling in books.to_end():
            resources.ruling(ruling)
    with LedgerReader(settings, partition=partition) as ledger:
        report = audit_records(ledger.to_end(), ledger.codec, ledger.reads, resources)
    if resources.lacks:
        with ResourceLedgerReader(settings) as books:
            for ruling in books.to_end():
                resources.later(ruling)
    _tell_resources(report, resources)
    return report


def _tell_resources(report: AuditReport, resources: ResourceAudit) -> None:
    report.violations += resources.breaches()
    report.disagreements += resources.disagreements
    report.resource_records = resources.records
    report.resources_held, report.resources_under_way = resources.held, resources.under_way


def audit_records(
    entries: Iterable[Entry], codec: Codec, partitions: Iterable[int] = (), resources: ResourceAudit | None = None
) -> AuditReport:
    """Check records of a ledger, each partition's in order from its first. `partitions`: which there are.

    `resources` has read the arbiter's ledger, and hears of the records too.
    """
    report, audits = AuditReport(records=dict.fromkeys(partitions, 0)), dict[int, _Audit]()
    for entry in entries:
        audit = audits.setdefault(entry.partition, _Audit(codec, report))
        report.records[entry.partition] = report.records.get(entry.partition, 0) + 1
        audit.read(entry)
        if resources is not None:
            resources.entry(entry)
    report.seven = merged(one for audit in audits.values() for one in audit.seven())
    return report


class _Audit:
    """One partition's books: the checker's, and the law's."""

    def __init__(self, codec: Codec, report: AuditReport) -> None:
        self._checker = Checker(codec)
        self._codec = codec
        self._state = MemoryState()
        self._catalogue: Catalogue = builtin_catalogue()
        self._report = report

    def read(self, entry: Entry) -> None:
        """The next record."""
        decision = entry.decision
        for violation in self._checker.read(decision, entry.raw):
            self._report.violations.append(f"Partition {entry.partition}: {violation}")
        arrival = self._arrival(decision)
        if arrival is None:
            self._report.repeated += 1
        else:
            self._report.decided_again += 1
            heard = vouched(self._state, self._catalogue, arrival, self._codec.decode)
            again = judge(self._state, heard, self._catalogue, decision.epoch)
            if again != decision:
                self._report.disagreements.append(_disagreement(entry, again))
        fold(self._state, decision, entry.digest)
        for fact in decision.facts:
            if isinstance(fact, CatalogueLoaded):
                self._catalogue = catalogue_from_json(fact.catalogue)

    def seven(self) -> list[RuleReport]:
        """The verdicts on the seven rules about obligations, over this partition."""
        return self._checker.seven()

    def _arrival(self, decision: Decision) -> Arrival | None:
        """What the gate heard, as far as the ledger has it."""
        for fact in decision.facts:
            if isinstance(fact, HoldOpened):
                return self._heard(fact.held_claim, cast(ClaimTopic, fact.topic), fact.offset, fact.appended_at)
        if not decision.claim:
            return None
        arrival = self._heard(decision.claim, decision.topic, decision.offset, decision.appended_at)
        if isinstance(arrival.claim, Override) and decision.reason == "MALFORMED":
            # Mended bytes that are no claim for the partition were kept from the law, which then had none to go by.
            arrival = replace(arrival, claim=changed(arrival.claim, replacement=None))
        return arrival

    def _heard(self, raw: bytes, topic: ClaimTopic, offset: int, appended_at: int) -> Arrival:
        claim = cast(AnyClaim, self._codec.decode(raw))
        return Arrival(claim=claim, raw=raw, topic=topic, offset=offset, appended_at=appended_at)


def _disagreement(entry: Entry, again: Decision) -> str:
    one = entry.decision
    differ = [name for name, value in vars(one).items() if vars(again)[name] != value]
    return (
        f"Partition {entry.partition}, seq {one.seq}: {one.claim_type} {one.claim_id} was {one.verdict} {one.reason}, "
        f"and is {again.verdict} {again.reason} by this release's law (differs in {', '.join(differ)})."
    )


# --- replay ----------------------------------------------------------------------------------------------------------


def write_ledger(settings: Settings, partition: int | None, intent: str | None) -> Iterator[dict[str, Any]]:
    """Each decision as `simulate` prints it. Raises FaceError, also where there is none."""
    with LedgerReader(settings, partition=partition, key=intent or "") as ledger:
        number = _the_one(ledger)
        found = False
        for entry in ledger.to_end():
            if intent is None or entry.decision.intent_id == intent:
                found = True
                yield decision_object(entry.decision, None)
    if not found:
        raise _nothing(number, intent)


def _the_one(ledger: LedgerReader) -> int:
    if len(ledger.reads) > 1:
        raise FaceError(
            f"The ledger has {len(ledger.reads)} partitions, each with clock and order of its own: "
            "say which with --partition, or ask for one intent with --intent.",
            MALFORMED,
        )
    return ledger.reads[0]


def _nothing(partition: int, intent: str | None) -> FaceError:
    if intent is None:
        return FaceError(f"Partition {partition} of the ledger has no decision yet.")
    return FaceError(f"Partition {partition} of the ledger has nothing about the intent {intent}: see how it is spelt.")


def write_trace(settings: Settings, partition: int | None, intent: str | None) -> Iterator[dict[str, Any] | None]:
    """The trace's lines; None for a record that is gone from its topic. Raises FaceError, also where there is none.

    Without a partition it is the one that the intent is on, or the ledger's only one.
    """
    with LedgerReader(settings, partition=partition, key=intent or "") as ledger:
        number = _the_one(ledger)
        entries = [one for one in ledger.to_end() if intent is None or one.decision.intent_id == intent]
        codec = ledger.codec
    if not entries:
        raise _nothing(number, intent)
    heard = [one for entry in entries for one in _heard_by(entry.decision)]
    there = _read_intake(settings, number, {(one.topic, one.offset) for one in heard if one.raw is None})
    told: set[tuple[str, int]] = set()
    for one in heard:
        if (one.topic, one.offset) in told:
            continue  # a claim that had waited is decided once more, and was told when it came
        told.add((one.topic, one.offset))
        key, raw = there.get((one.topic, one.offset), (None, None)) if one.raw is None else (None, one.raw)
        yield None if raw is None else _line(codec, one, key, raw)


@dataclass(frozen=True)
class _Heard:
    """A record that reached the gate: where it lay, when, and its bytes if the ledger has them."""

    topic: str
    offset: int
    appended_at: int
    raw: bytes | None


def _heard_by(decision: Decision) -> list[_Heard]:
    if decision.claim_type == "ClaimQuarantined":
        topic, _, offset = decision.subject_id.split("/")
        return [_Heard(topic, int(offset), decision.appended_at, None)]
    for fact in decision.facts:
        if isinstance(fact, HoldOpened):
            return [_Heard(fact.topic, fact.offset, fact.appended_at, fact.held_claim)]
    if decision.topic == "gate":
        return []
    return [_Heard(decision.topic, decision.offset, decision.appended_at, decision.claim or None)]


def _line(codec: Codec, heard: _Heard, key: bytes | None, raw: bytes) -> dict[str, Any]:
    """The line that makes the same record arrive."""
    try:
        claim = codec.decode(raw)
    except Undecodable:
        bare = {"at": heard.appended_at, "raw": raw.hex(), "topic": heard.topic}
        return bare if key is None else {**bare, "key": key.decode(errors="replace")}
    said = {
        one.name: plain(getattr(claim, one.name))
        for one in fields(claim)
        if one.default is MISSING or getattr(claim, one.name) != one.default
    }
    # The principal is given even where it is empty: a trace would fill it with the speaker's name.
    said["principal"] = getattr(claim, "principal", "")
    return {"at": heard.appended_at, "as": _SPEAKER_ON.get(cast(Any, heard.topic), "arbiter"),
            "type": type(claim).__name__, **said}  # fmt: skip


def _read_intake(
    settings: Settings, partition: int, wanted: set[tuple[str, int]]
) -> dict[tuple[str, int], tuple[bytes | None, bytes | None]]:
    """Key and value of those records that are still in their topics."""
    found: dict[tuple[str, int], tuple[bytes | None, bytes | None]] = {}
    if not wanted:
        return found
    consumer = Consumer(
        {
            "log_level": 0,
            **settings.client,
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": f"{settings.prefix}reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        ends = {topic: max(offset for name, offset in wanted if name == topic) for topic, _ in wanted}
        starts = {topic: min(offset for name, offset in wanted if name == topic) for topic, _ in wanted}
        consumer.assign([TopicPartition(settings.prefix + topic, partition, start) for topic, start in starts.items()])
        while ends:
            message = consumer.poll(ASK_S)
            if message is None:
                raise FaceError(f"The intake topics at {settings.bootstrap_servers} were not read to their end.")
            topic, offset = settings.topics.short(message.topic() or ""), message.offset() or 0
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise FaceError(f"The topic {message.topic()} can't be read: {error.str()}.")
            if error is None and (topic, offset) in wanted:
                found[topic, offset] = (message.key(), message.value())
            if error is not None or offset >= ends.get(topic, 0):
                ends.pop(topic, None)
    finally:
        consumer.close()
    return found
