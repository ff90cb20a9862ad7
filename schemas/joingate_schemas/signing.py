"""The room of keys and signatures: Ed25519 over a claim's digest, and which key it was.

It stands on the package `cryptography`, which the base install does not bring (`pip install "joingate[signing]"`):
whoever neither signs nor verifies never loads it. A signature is the key's id, 16 bytes, and the signature proper, 64.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from joingate_schemas.canonical import claim_digest
from joingate_schemas.claims import AnyClaim
from joingate_schemas.ids import key_id_of
from joingate_schemas.record import changed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PUBLIC_KEY_BYTES = 32
KEY_ID_BYTES = 16
_SIGNATURE_BYTES = 64


class KeyFileError(ValueError):
    """A file that holds no key that can be used: the text says why, and what to do."""


class Signature(NamedTuple):
    """A signature taken apart: the id of the key in hex, and the 64 bytes that prove it."""

    key_id: str
    proof: bytes


def taken_apart(signature: bytes) -> Signature | None:
    """The two parts of what a claim carries; None if it is of another size."""
    if len(signature) != KEY_ID_BYTES + _SIGNATURE_BYTES:
        return None
    return Signature(signature[:KEY_ID_BYTES].hex(), signature[KEY_ID_BYTES:])


def verifies(public_key: bytes, proof: bytes, claim: AnyClaim) -> bool:
    """Whether `proof` is the signature of `claim` by the private half of `public_key` (32 bytes)."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public_key).verify(proof, claim_digest(claim))
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def _public(public_key: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public_key)


class Signer:
    """A private key. `public_key` (32 bytes) and `key_id` are what others know of it."""

    def __init__(self, private_key: "Ed25519PrivateKey") -> None:
        self._private_key = private_key
        self.public_key: bytes = private_key.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public_key)

    @classmethod
    def new(cls) -> "Signer":
        """A key that nobody has had."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "Signer":
        """The key of these 32 bytes: for tests, and for keys that are kept elsewhere. Raises ValueError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_file(cls, path: Path) -> "Signer":
        """The key in the file at `path`: PEM, PKCS #8, without a password. Raises KeyFileError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise KeyFileError(f"The key file {path} can't be read: {error.strerror}.") from error
        except (ValueError, TypeError) as error:
            raise KeyFileError(
                f"The file {path} holds no private key in PEM without a password: make one with `joingate keys new`."
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFileError(f"The key in {path} is none of Ed25519: make one with `joingate keys new`.")
        return cls(key)

    def write(self, path: Path) -> None:
        """Write the private key to a new file at `path` that only its owner may read. Raises KeyFileError."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        pem = self._private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            # Never over a file that is there: a key that is lost can't be made again.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise KeyFileError(f"The key file {path} can't be made: {error.strerror}.") from error
        with os.fdopen(handle, "wb") as file:
            file.write(pem)

    def sign(self, claim: AnyClaim) -> AnyClaim:
        """The claim with this key's signature. Raises `canonical.Uncanonical`."""
        return changed(claim, signature=bytes.fromhex(self.key_id) + self._private_key.sign(claim_digest(claim)))
