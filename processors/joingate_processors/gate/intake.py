"""The room where a record becomes a claim, or is set aside with what is wrong with it.

What can't be read, or lies where its key does not belong, goes to quarantine: its bytes to their own topic, and the
fact into the ledger, where it makes the law hold what would rest on not knowing it. A readable claim on the wrong
role's topic is not quarantined: the law refuses it as WRONG_ROLE.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from joingate_processors.law.arrival import Arrival
from joingate_schemas.claims import CLAIM_TYPES, EVERYWHERE, AnyClaim, Claim, ClaimQuarantined, Override
from joingate_schemas.codec import AnyRecord, Undecodable
from joingate_schemas.decisions import ClaimTopic, Quarantined
from joingate_schemas.record import changed
from joingate_schemas.topics import partition_for

# A quarantined record is wrapped in one of ours, which has to fit a topic: of larger ones the beginning is kept.
KEPT_BYTES_MAX = 1_048_576
_KNOWN_KEYS_MAX = 65_536
_CLAIMS = frozenset(CLAIM_TYPES.values())


class IntakeRecord(Protocol):
    """What is needed of confluent-kafka's `Message`."""

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def offset(self) -> int | None: ...

    def __len__(self) -> int: ...


class Unfit(NamedTuple):
    """A record that is no claim for this partition: the name of the reason, and a sentence."""

    problem: str
    detail: str
    scope: str | None


class Intake:
    """Turns one partition's records into arrivals. `decode` raises `Undecodable`."""

    def __init__(
        self, decode: Callable[[bytes | None], AnyRecord], partition: int, partitions: int, claim_bytes_max: int
    ) -> None:
        self._decode = decode
        self._partition = partition
        self._partitions = partitions
        self._claim_bytes_max = claim_bytes_max
        # Keys that were checked, with their text: the claims of an intent share one, and come together.
        self._known: dict[bytes, str] = {}

    def read(self, topic: ClaimTopic, record: IntakeRecord, offset: int, appended_at: int) -> Arrival | Unfit:
        """The claim in `record`, or why there is none. `topic` is its short name, `appended_at` in ms."""
        raw, key = record.value(), record.key()
        if raw is None or len(raw) > self._claim_bytes_max:
            return self._unfit(key, *self._size_problem(raw))
        try:
            claim = self._decode(raw)
        except Undecodable as error:
            return self._unfit(key, error.problem, error.detail)
        if type(claim) not in _CLAIMS or key is None or self._known.get(key) != claim.__dict__["intent_id"]:
            unfit = self._key_problem(key, claim)
            if unfit is not None:
                return unfit
        if type(claim) is Override and claim.replacement is not None:
            claim = self._mended(claim)
        return Arrival(claim, raw, topic, offset, appended_at)  # type: ignore[arg-type]  # it is one of _CLAIMS

    def _mended(self, claim: Override) -> Override:
        """The override, without its mended bytes if they are no claim for this partition: the law then refuses it."""
        assert claim.replacement is not None, "there are bytes to look at"
        try:
            mended = claim_of(self._decode(claim.replacement))
        except Undecodable:
            return changed(claim, replacement=None)
        belongs = partition_for(mended.intent_id.encode(), self._partitions)
        return claim if belongs == self._partition else changed(claim, replacement=None)

    def _size_problem(self, raw: bytes | None) -> tuple[str, str]:
        if raw is None:
            return "UNREADABLE", "the record has no value"
        return "OVERSIZED", f"the record has {len(raw)} bytes, and a claim may have {self._claim_bytes_max}"

    def _key_problem(self, key: bytes | None, claim: AnyRecord) -> Unfit | None:
        """What is wrong with the key of a readable record, if anything; a good one is remembered."""
        if not isinstance(claim, Claim):
            return self._unfit(key, "UNREADABLE", f"a {type(claim).__name__} is no claim")
        if type(claim).__name__ in EVERYWHERE:
            return None  # It is written to every partition, so its key decides nothing.
        if not key:
            return Unfit("MISSING_KEY", f"the {type(claim).__name__} {claim.claim_id} has no key", None)
        belongs = partition_for(key, self._partitions)
        if belongs != self._partition:
            return self._unfit(key, "WRONG_PARTITION", f"the key belongs on partition {belongs}, not {self._partition}")
        if key != claim.intent_id.encode():
            return self._unfit(key, "KEY_NOT_INTENT", f"the claim {claim.claim_id} is about {claim.intent_id!r}")
        if len(self._known) >= _KNOWN_KEYS_MAX:
            self._known.clear()
        self._known[key] = claim.intent_id
        return None

    @staticmethod
    def _unfit(key: bytes | None, problem: str, detail: str) -> Unfit:
        return Unfit(problem, detail, scope_of(key))


def scope_of(key: bytes | None) -> str | None:
    """What a record with this key may have been about: that key, or None, which is the whole partition."""
    try:
        return key.decode() if key else None
    except UnicodeDecodeError:
        return None


def quarantine_claim(unfit: Unfit, topic: str, partition: int, offset: int) -> ClaimQuarantined:
    """The gate's own claim that the record at these coordinates was set aside: the same one each time it is read."""
    quarantine_id = f"{topic}/{partition}/{offset}"
    return ClaimQuarantined(
        claim_id=quarantine_id,
        intent_id=unfit.scope or "",
        principal="gate",
        quarantine_id=quarantine_id,
        scope=unfit.scope,
        problem=unfit.problem,
        detail=unfit.detail,
    )


def quarantined(
    claim: ClaimQuarantined,
    record: IntakeRecord,
    topic: str,
    partition: int,
    offset: int,
    appended_at: int,
    ledger_seq: int,
    epoch: int,
) -> Quarantined:
    """The record itself as it goes to quarantine, with its bytes; of a very large one only the beginning."""
    value, detail = record.value(), claim.detail
    if value is not None and len(value) > KEPT_BYTES_MAX:
        detail = f"{detail}; the first {KEPT_BYTES_MAX} bytes are kept here, the record itself lies at {topic}"
        value = value[:KEPT_BYTES_MAX]
    return Quarantined(
        quarantine_id=claim.quarantine_id,
        topic=topic,
        partition=partition,
        offset=offset,
        appended_at=appended_at,
        key=record.key(),
        value=value,
        problem=claim.problem,
        detail=detail,
        ledger_seq=ledger_seq,
        epoch=epoch,
    )


def claim_of(record: AnyRecord) -> AnyClaim:
    """The claim that was decoded from bytes that the law kept. Raises `Undecodable` if it is another record of ours."""
    if not isinstance(record, Claim):
        raise Undecodable("UNREADABLE", f"a {type(record).__name__} is no claim")
    return record
