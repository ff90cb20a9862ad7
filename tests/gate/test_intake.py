"""What is no claim for this partition is set aside with its problem; everything else reaches the law."""

import pytest

from joingate_processors.gate.intake import KEPT_BYTES_MAX, Intake, Unfit, quarantine_claim, quarantined
from joingate_processors.law.arrival import Arrival
from joingate_schemas.claims import CancelIntent, Override, RegisterKey, RetireOwner, RevokeKey
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Quarantined
from joingate_schemas.topics import partition_for

CODEC = Codec()
PARTITIONS = 4
INTENT = next(name for n in range(100) if partition_for((name := f"acme/a/{n}").encode(), PARTITIONS) == 1)
ELSEWHERE = next(name for n in range(100) if partition_for((name := f"acme/b/{n}").encode(), PARTITIONS) == 2)
NEIGHBOUR = next(name for n in range(100) if partition_for((name := f"acme/c/{n}").encode(), PARTITIONS) == 1)


class Record:
    """A record as the client gives it."""

    def __init__(self, value: bytes | None, key: bytes | None) -> None:
        self._value, self._key = value, key

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return 7


def claim(intent_id: str = INTENT) -> bytes:
    return CODEC.encode(CancelIntent(claim_id="c1", intent_id=intent_id))


def read(value: bytes | None, key: bytes | None) -> Arrival | Unfit:
    return Intake(CODEC.decode, 1, PARTITIONS, 1_000).read("proposals", Record(value, key), 7, 123)


def test_a_claim_arrives_with_its_bytes_and_coordinates() -> None:
    arrival = read(claim(), INTENT.encode())
    assert isinstance(arrival, Arrival)
    assert (arrival.raw, arrival.topic, arrival.offset, arrival.appended_at) == (claim(), "proposals", 7, 123)
    assert arrival.claim == CancelIntent(claim_id="c1", intent_id=INTENT)


@pytest.mark.parametrize(
    ("value", "key", "problem", "scope"),
    [
        (b"junk", INTENT.encode(), "UNREADABLE", INTENT),
        (b"junk", None, "UNREADABLE", None),
        (b"junk", b"\xff\xfe", "UNREADABLE", None),
        (None, INTENT.encode(), "UNREADABLE", INTENT),
        (b"", INTENT.encode(), "UNREADABLE", INTENT),
        (b"\xc3\x01" + b"12345678", INTENT.encode(), "UNKNOWN_SCHEMA", INTENT),
        (b"\x00\x00\x00\x00\x05junk", INTENT.encode(), "UNKNOWN_SCHEMA", INTENT),
        (b"x" * 1_001, INTENT.encode(), "OVERSIZED", INTENT),
        (claim(), None, "MISSING_KEY", None),
        (claim(), b"", "MISSING_KEY", None),
        (claim(ELSEWHERE), ELSEWHERE.encode(), "WRONG_PARTITION", ELSEWHERE),
        (claim(), NEIGHBOUR.encode(), "KEY_NOT_INTENT", NEIGHBOUR),
    ],
)
def test_what_is_no_claim_for_this_partition_is_unfit(
    value: bytes | None, key: bytes | None, problem: str, scope: str | None
) -> None:
    unfit = read(value, key)
    assert isinstance(unfit, Unfit)
    assert (unfit.problem, unfit.scope) == (problem, scope)
    assert unfit.detail


def test_a_record_of_ours_that_is_no_claim_is_unfit_even_under_a_key_that_was_seen() -> None:
    intake = Intake(CODEC.decode, 1, PARTITIONS, 1_000)
    assert isinstance(intake.read("proposals", Record(claim(), INTENT.encode()), 7, 0), Arrival)
    other = Quarantined(
        quarantine_id="", topic="", partition=0, offset=0, appended_at=0, key=None, value=None, problem="", detail="",
        ledger_seq=0, epoch=0,
    )  # fmt: skip
    unfit = intake.read("proposals", Record(CODEC.encode(other), INTENT.encode()), 8, 0)
    assert isinstance(unfit, Unfit)
    assert unfit.problem == "UNREADABLE"


@pytest.mark.parametrize("key", [None, ELSEWHERE.encode(), b"bob"])
def test_a_retired_owner_is_heard_on_every_partition_whatever_the_key(key: bytes | None) -> None:
    arrival = read(CODEC.encode(RetireOwner(claim_id="c", intent_id="", owner_id="bob")), key)
    assert isinstance(arrival, Arrival)


def test_claims_about_keys_are_heard_on_every_partition_too() -> None:
    for one in (
        RegisterKey(claim_id="c", intent_id="", holder="ann", public_key=b"k" * 32),
        RevokeKey(claim_id="c", intent_id="", holder="ann", key_id="00"),
    ):
        assert isinstance(read(CODEC.encode(one), b""), Arrival)


@pytest.mark.parametrize(("mended", "stays"), [(claim(), True), (b"junk", False), (claim(ELSEWHERE), False)])
def test_mended_bytes_that_are_no_claim_for_this_partition_do_not_reach_the_law(mended: bytes, stays: bool) -> None:
    override = Override(
        claim_id="o", intent_id=INTENT, subject_kind="QUARANTINE", subject_id="proposals/1/3", to="REDRIVEN",
        reason="r", evidence=[], replacement=mended,
    )  # fmt: skip
    arrival = read(CODEC.encode(override), INTENT.encode())
    assert isinstance(arrival, Arrival)
    assert isinstance(arrival.claim, Override)
    assert arrival.claim.replacement == (mended if stays else None)


def test_a_record_is_quarantined_under_its_coordinates_and_a_huge_one_only_in_part() -> None:
    huge = Record(b"x" * (KEPT_BYTES_MAX + 1), INTENT.encode())
    unfit = Intake(CODEC.decode, 1, PARTITIONS, 1_000).read("proposals", huge, 7, 123)
    assert isinstance(unfit, Unfit)
    claimed = quarantine_claim(unfit, "proposals", 1, 7)
    assert claimed.claim_id == claimed.quarantine_id == "proposals/1/7"
    wrapped = quarantined(claimed, huge, "proposals", 1, 7, 123, ledger_seq=5, epoch=2)
    assert wrapped.value is not None
    assert len(wrapped.value) == KEPT_BYTES_MAX
    assert "the first" in wrapped.detail
    assert (wrapped.ledger_seq, wrapped.epoch, wrapped.problem) == (5, 2, "OVERSIZED")
