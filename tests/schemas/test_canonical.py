"""The canonical form of claims: what is signed, held by vectors that other languages can be held to, and by laws."""

from typing import Any, cast

import pytest

from joingate_schemas import claims as c
from joingate_schemas.canonical import Uncanonical, claim_bytes, claim_digest
from joingate_schemas.codec import Codec
from joingate_schemas.ids import key_id_of
from joingate_schemas.record import changed
from joingate_schemas.signing import KeyFileError, Signer, taken_apart, verifies

CODEC = Codec()
SEED = bytes(range(32))
APPROVE = c.Approve(
    claim_id="c-1", intent_id="acme/fee/77", principal="ann", operation_id="op-1", digest="ab", expires_at=1_000
)
PLAN = c.Plan(
    claim_id="c-2", intent_id="acme/fee/77", intent_version=1, plan_id="p1", commitments=[],
    steps=[{"step_id": "s1", "action": "notify", "arguments": {"b": 1, "a": 0.5, "é": "ü", "t": True, "n": None}}],
)  # fmt: skip


def test_the_canonical_form_is_these_bytes() -> None:
    """The page about principals shows them: a client in another language must come to the same."""
    assert claim_bytes(APPROVE) == (
        b"joingate claim 1\ns7:Approve{s8:claim_ids3:c-1s6:digests2:abs10:expires_ati1000;s9:intent_ids11:acme/fee/77"
        b"s12:operation_ids4:op-1s9:principals3:ann}"
    )
    assert claim_bytes(PLAN) == (
        b"joingate claim 1\ns4:Plan{s8:claim_ids3:c-2s9:intent_ids11:acme/fee/77s14:intent_versioni1;s7:plan_ids2:p1"
        b"s5:steps[{s6:actions6:notifys9:arguments{s1:ad3fe0000000000000s1:bi1;s1:nns1:tts2:\xc3\xa9s2:\xc3\xbc}"
        b"s7:step_ids2:s1}]}"
    )


def test_the_signature_is_these_bytes() -> None:
    """Ed25519 has no random in it, so that key and claim alone make the signature."""
    signer = Signer.from_seed(SEED)
    signed = signer.sign(APPROVE)
    assert claim_digest(APPROVE).hex() == "c9bec2dfb339a44bbff55e8dfa77672b82c1c197161c8aab86b3d99892c29575"
    assert signed.signature is not None
    assert signed.signature.hex() == (
        "56475aa75463474c0285df5dbf2bcab7"
        "da9e6045a707f38d97461595bc527ef048811c6b437e7dfa24a2c2e65ea04134"
        "94fa7c9af2ad50fc620b558987e0c1791bc29cc5751bc12d310a91e254ad820e"
    )


CLAIMS = [
    APPROVE, PLAN,
    c.DeclareIntent(claim_id="c", intent_id="i", version=2, objective="x", goals=[{"goal_id": "g", "acceptance": "a"}],
                    budgets={"exploration": 1, "verification": 0, "reconciliation": 0.5}),
    c.Dispatch(claim_id="c", intent_id="i", intent_version=1, plan_id="p", step_id="s", arguments={"amount": 12.0}),
    c.Override(claim_id="c", intent_id="i", subject_kind="QUARANTINE", subject_id="q", to="REDRIVEN", reason="r",
               evidence=["e"], replacement=b"\x00\xff"),
    c.Observe(claim_id="c", intent_id="i", subject_kind="OPERATION", subject_id="o", finding="PRESENT", source="bank",
              external_ids=[], evidence=[]),
    c.RegisterKey(claim_id="c", intent_id="", holder="ann", public_key=b"k" * 32),
]  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_sending_a_claim_does_not_change_its_canonical_form(claim: c.AnyClaim) -> None:
    """Whole numbers where the schema has a double, and fields that were left out, come back otherwise: not in this."""
    assert claim_bytes(cast(c.AnyClaim, CODEC.decode(CODEC.encode(claim)))) == claim_bytes(claim)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_any_other_value_of_any_field_makes_another_digest_but_for_the_signature(claim: c.AnyClaim) -> None:
    others = {str: "other", int: 7, bytes: b"other"}
    for name in type(claim).__annotations__ | c.Claim.__annotations__:
        value: Any = getattr(claim, name)
        other = others.get(type(value))
        if other is None or name == "signature" or name in ("subject_kind", "finding"):
            continue
        assert claim_digest(changed(claim, **{name: other})) != claim_digest(claim), name
    assert claim_digest(changed(claim, signature=b"x")) == claim_digest(claim)


def test_what_stands_in_one_field_can_not_be_moved_into_the_next() -> None:
    one = c.CancelIntent(claim_id="ab", intent_id="c")
    other = c.CancelIntent(claim_id="a", intent_id="bc")
    assert claim_digest(one) != claim_digest(other)


def test_two_types_with_the_same_fields_have_two_digests() -> None:
    fields = {"claim_id": "c", "intent_id": "i", "operation_id": "o", "digest": "d"}
    assert claim_digest(c.Approve(**fields)) != claim_digest(c.Decline(**fields))


def test_a_value_that_its_schema_has_no_place_for_is_named() -> None:
    with pytest.raises(Uncanonical, match=r"intent_version"):
        claim_bytes(changed(PLAN, intent_version="one"))
    with pytest.raises(Uncanonical, match=r"steps: arguments"):
        claim_bytes(changed(PLAN, steps=[{"step_id": "s", "action": "a", "arguments": {"x": [1]}}]))
    with pytest.raises(Uncanonical, match=r"steps: the field action is missing"):
        claim_bytes(changed(PLAN, steps=[{"step_id": "s"}]))


def test_a_signature_proves_the_claim_by_that_key_alone() -> None:
    signer, other = Signer.from_seed(SEED), Signer.new()
    signed = signer.sign(APPROVE)
    parts = taken_apart(signed.signature or b"")
    assert parts is not None
    assert parts.key_id == signer.key_id == key_id_of(signer.public_key)
    assert verifies(signer.public_key, parts.proof, signed)
    assert not verifies(other.public_key, parts.proof, signed)
    assert not verifies(signer.public_key, parts.proof, changed(signed, digest="cd"))
    assert taken_apart(parts.proof) is None


def test_a_key_is_kept_in_a_file_that_only_its_owner_reads_and_that_is_never_written_over(tmp_path: Any) -> None:
    path = tmp_path / "ann.key"
    made = Signer.new()
    made.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Signer.from_file(path).key_id == made.key_id
    with pytest.raises(KeyFileError, match="can't be made"):
        Signer.new().write(path)
    assert Signer.from_file(path).key_id == made.key_id


@pytest.mark.parametrize(
    ("content", "said"), [(None, "can't be read"), (b"hello", "holds no private key")], ids=["missing", "no key"]
)
def test_a_file_that_holds_no_key_is_told_in_a_sentence(tmp_path: Any, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KeyFileError, match=said):
        Signer.from_file(path)
