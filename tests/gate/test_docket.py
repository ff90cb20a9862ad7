"""A claim that the gate fails at is set aside, and the next one is decided: no claim stops another's."""

from dataclasses import dataclass, field

import pytest

from joingate_processors.gate import docket as room
from joingate_processors.gate.docket import Docket, Law
from joingate_processors.gate.intake import Intake
from joingate_processors.law.arrival import Arrival
from joingate_processors.law.judge import judge
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import State
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.claims import DeclareIntent
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Decision, Quarantined
from joingate_schemas.topics import Topics

CODEC, TOPICS = Codec(), Topics()
BAD = "acme/bad"


@dataclass
class Written:
    """A writer that keeps what it is given."""

    records: list[tuple[str, bytes]] = field(default_factory=list)

    def produce(self, topic: str, value: bytes, key: bytes | None, partition: int, **_: object) -> None:
        self.records.append((topic, value))

    def decisions(self) -> list[Decision]:
        found = [CODEC.decode(value) for topic, value in self.records if topic == TOPICS.ledger]
        assert all(isinstance(one, Decision) for one in found)
        return found  # type: ignore[return-value]


@dataclass
class Record:
    """An intake record."""

    claim: DeclareIntent
    at: int

    def key(self) -> bytes:
        return self.claim.intent_id.encode()

    def value(self) -> bytes:
        return CODEC.encode(self.claim)

    def offset(self) -> int:
        return self.at


def failing(state: State, arrival: Arrival, catalogue: Catalogue, epoch: int) -> Decision:
    """The law with a fault in it."""
    if arrival.topic != "gate" and arrival.claim.intent_id == BAD:
        raise ZeroDivisionError("a fault")
    return judge(state, arrival, catalogue, epoch)


def decided(law: Law) -> Written:
    """What a docket writes on a claim about BAD and one about another intent."""
    written = Written()
    docket = Docket(
        0, MemoryState(), written, 1, law=law, catalogue=builtin_catalogue(), codec=CODEC, topics=TOPICS,  # type: ignore[arg-type]
        intake=Intake(CODEC.decode, 0, 1, 1 << 18), on_first=lambda *_: None,
    )  # fmt: skip
    claims = [DeclareIntent(claim_id=f"c{n}", intent_id=one, version=1, goals=[]) for n, one in enumerate((BAD, "b"))]
    docket.claims([(1, "proposals", Record(claim, n)) for n, claim in enumerate(claims)], {"proposals": 0})
    return written


def test_a_claim_that_the_law_fails_at_is_set_aside_and_the_next_is_decided() -> None:
    written = decided(Law(judge=failing))
    first, second = written.decisions()
    assert (first.reason, first.subject_id) == ("UNDECIDABLE", "proposals/0/0")
    assert (second.verdict, second.intent_id, second.seq) == ("ACCEPTED", "b", 2)
    kept = [CODEC.decode(value) for topic, value in written.records if topic == TOPICS.quarantine]
    assert [one.problem for one in kept if isinstance(one, Quarantined)] == ["UNDECIDABLE"]


def test_a_decision_too_large_for_the_ledger_sets_its_claim_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    def long_winded(state: State, arrival: Arrival, catalogue: Catalogue, epoch: int) -> Decision:
        decision = judge(state, arrival, catalogue, epoch)
        if arrival.topic != "gate" and arrival.claim.intent_id == BAD:
            decision.__dict__["detail"] = "x" * 5_000
        return decision

    monkeypatch.setattr(room, "DECISION_BYTES_MAX", 4_000)
    assert [one.reason for one in decided(Law(judge=long_winded)).decisions()] == ["UNDECIDABLE", "OK"]
