"""Which keys speak for whom: what the catalogue declares and operators register, on each partition alike (model §2).

Claims about keys are written to every partition, as those about owners that are gone: each gate decides them in its
own ledger, so that a replay of that ledger alone finds the same keys at the same place. The catalogue, which the
ledger has too, holds the first ones.
"""

from typing import NamedTuple

from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import State
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.facts import AnyFact
from joingate_schemas.ids import key_id_of

PUBLIC_KEY_BYTES = 32
_KEY_ID_DIGITS = 32
OVERLAP_MS_MAX = 366 * 86_400_000
"""How long a key may still be good after another took its place (ms): a year and a day."""


class Key(NamedTuple):
    """A key as it stands: `public_key` None where only its end is known, `ends_at` (ms) None where it has none."""

    key_id: str
    holder: str
    public_key: bytes | None
    ends_at: int | None = None
    revoked: bool = False

    def problem(self, at: int) -> tuple[str, str] | None:
        """Why it does not speak for its holder at `at` (ms), as reason and sentence; None if it does."""
        if self.ends_at is None or at < self.ends_at:
            return None
        if self.revoked:
            return "KEY_REVOKED", f"the key {self.key_id} of {self.holder} is revoked from {self.ends_at} on"
        return "KEY_REPLACED", f"the key {self.key_id} of {self.holder} was replaced, and ended at {self.ends_at}"


def key_of(state: State, catalogue: Catalogue, key_id: str) -> Key | None:
    """The key with this id; None if neither the catalogue nor a claim has named it."""
    row, declared = state.keys.get(key_id), catalogue.keys.get(key_id)
    if row is None:
        return None if declared is None else Key(key_id, *declared)
    if declared is not None:
        return Key(key_id, *declared, row.ends_at, row.revoked)
    return Key(key_id, row.holder, bytes.fromhex(row.public_key) or None, row.ends_at, row.revoked)


def register(case: Case, claim: c.RegisterKey) -> Ruling:
    """One more key speaks for a principal, or one in the place of another."""
    if len(claim.public_key) != PUBLIC_KEY_BYTES:
        refuse("MALFORMED", f"a public key has {PUBLIC_KEY_BYTES} bytes, this one {len(claim.public_key)}")
    if not 0 <= claim.overlap_ms <= OVERLAP_MS_MAX:
        refuse("MALFORMED", f"an overlap lies between 0 and {OVERLAP_MS_MAX} ms")
    _check_registrar(case, claim.principal)
    if claim.holder not in case.catalogue.principals:
        refuse("UNKNOWN_PRINCIPAL", f"the catalogue has no principal '{claim.holder}'")
    key_id = key_id_of(claim.public_key)
    known = key_of(case.state, case.catalogue, key_id)
    if known is not None and (known.holder != claim.holder or known.public_key is None or known.ends_at is not None):
        ends = "" if known.ends_at is None else f", and ends at {known.ends_at}"
        refuse("KEY_TAKEN", f"the key {key_id} is {known.holder}'s{ends}", key_id)
    facts: list[AnyFact] = []
    if claim.replaces_key:
        facts += _replaced(case, claim, key_id)
    if known is not None and not facts:
        return Ruling("REPLAYED", "ALREADY_SO", f"it speaks for {claim.holder}", key_id, "REGISTERED")
    made = f.KeyRegistered(key_id=key_id, holder=claim.holder, public_key=claim.public_key, by=claim.principal,
                           reason=claim.reason)  # fmt: skip
    return Ruling("ACCEPTED", "OK", "", key_id, "REGISTERED", [made, *facts])


def _replaced(case: Case, claim: c.RegisterKey, key_id: str) -> list[AnyFact]:
    old = key_of(case.state, case.catalogue, claim.replaces_key)
    if old is None or old.holder != claim.holder or claim.replaces_key == key_id:
        refuse(
            "UNKNOWN_KEY", f"{claim.holder} has no other key {claim.replaces_key} to be replaced", claim.replaces_key
        )
    ends_at = case.appended_at + claim.overlap_ms
    if old.ends_at is not None and old.ends_at <= ends_at:
        return []
    return [_ended(claim.replaces_key, claim.holder, ends_at, "REPLACED", claim)]


def revoke(case: Case, claim: c.RevokeKey) -> Ruling:
    """The key is not to be trusted from a time on, also where nobody knows it yet: it may be registered later."""
    if len(claim.key_id) != _KEY_ID_DIGITS or set(claim.key_id) - set("0123456789abcdef"):
        refuse("MALFORMED", f"a key's id is {_KEY_ID_DIGITS} hex digits in small letters, not {claim.key_id!r}")
    _check_registrar(case, claim.principal)
    known = key_of(case.state, case.catalogue, claim.key_id)
    if known is not None and known.holder != claim.holder:
        refuse("KEY_TAKEN", f"the key {claim.key_id} is {known.holder}'s, not {claim.holder}'s", claim.key_id)
    at = case.appended_at if claim.revoked_at is None else claim.revoked_at
    if at < 0:
        refuse("MALFORMED", f"revoked_at is {at}, which is before any claim: give a time, or leave it out")
    if known is not None and known.revoked and known.ends_at is not None and known.ends_at <= at:
        return Ruling("REPLAYED", "ALREADY_SO", f"it is revoked from {known.ends_at} on", claim.key_id, "REVOKED")
    return Ruling("ACCEPTED", "OK", f"from {at} on", claim.key_id, "REVOKED",
                  [_ended(claim.key_id, claim.holder, at, "REVOKED", claim)])  # fmt: skip


def _ended(key_id: str, holder: str, at: int, end: f.KeyEnd, claim: c.RegisterKey | c.RevokeKey) -> f.KeyEnded:
    return f.KeyEnded(key_id=key_id, holder=holder, ends_at=at, end=end, by=claim.principal, reason=claim.reason)


def _check_registrar(case: Case, principal: str) -> None:
    """Who lets others speak is known by a key, whatever the deployment asks of everybody else."""
    known = case.catalogue.principals.get(principal)
    if known is None or not known.registrar:
        refuse("NOT_REGISTRAR", f"the catalogue does not declare '{principal}' a registrar of keys")
    if not case.verified:
        refuse("UNSIGNED", "a claim about keys has to be signed")
