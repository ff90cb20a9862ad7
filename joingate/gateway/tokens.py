"""Who may speak through the gateway: tokens, each for a tenant, a role and a principal; only their hashes are kept.

A token is 32 random bytes, shown once when it is made. The file holds one JSON object a line with the token's SHA-256,
which is enough for what nobody can guess, and no secret itself.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

Role = Literal["planner", "reader"]
ROLES: tuple[Role, ...] = get_args(Role)
"""A planner may use every operation; a reader only looks."""
_PREFIX = "jg_"


class TokenError(Exception):
    """A file of tokens that can't be used. The text is a sentence that names the line."""


@dataclass(frozen=True)
class Caller:
    """Whom a token stands for. `principal` is the name under which the gateway speaks to the gate."""

    tenant: str
    role: Role
    principal: str

    def owns(self, intent_id: str) -> bool:
        """Whether the intent is its tenant's: by what the id begins with, as the law reads it."""
        return intent_id.startswith(f"{self.tenant}/")


@dataclass(frozen=True)
class Entry:
    """A line of the file: whom the token with this hash stands for."""

    sha256: str
    tenant: str
    role: Role
    principal: str

    def line(self) -> str:
        """As the file has it."""
        return json.dumps(asdict(self))


def new_token(tenant: str, role: Role, principal: str) -> tuple[str, Entry]:
    """A new token, and the line that lets it in. Raises TokenError about a name that does not fit."""
    token = _PREFIX + secrets.token_urlsafe(32)
    entry = Entry(_hash(token), tenant, role, principal)
    _check(entry, "this token")
    return token, entry


class Tokens:
    """The tokens that are let in."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Raises TokenError where one principal stands for two tenants, since then its debts would be shared."""
        self._entries = tuple(entries)
        tenants: dict[str, str] = {}
        for entry in self._entries:
            if tenants.setdefault(entry.principal, entry.tenant) != entry.tenant:
                raise TokenError(f"The principal {entry.principal} stands for {tenants[entry.principal]} and for "
                                 f"{entry.tenant}: give each tenant principals of its own.")  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """Those of a file. Raises TokenError with a sentence that names the line, and OSError."""
        return cls.parse(path.read_text(encoding="utf-8"), str(path))

    @classmethod
    def parse(cls, text: str, where: str) -> "Tokens":
        """Those of a text with one JSON object a line; empty lines and those that begin with # are left out."""
        entries = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                entries.append(_entry(line, f"{where}, line {number}"))
        return cls(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def caller(self, token: str) -> Caller | None:
        """Whom the token stands for; None: nobody. How long it takes does not tell which hash came near."""
        asked = _hash(token)
        found: Entry | None = None
        for entry in self._entries:  # all of them, whichever it is
            if hmac.compare_digest(entry.sha256, asked):
                found = entry
        return None if found is None else Caller(found.tenant, found.role, found.principal)

    def bearer(self, header: str | None) -> Caller | None:
        """Whom the header `Authorization: Bearer <token>` stands for."""
        kind, _, token = (header or "").partition(" ")
        return self.caller(token.strip()) if kind.lower() == "bearer" and token.strip() else None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _entry(line: str, where: str) -> Entry:
    try:
        row = json.loads(line)
        entry = Entry(**row)
    except (ValueError, TypeError) as error:
        raise TokenError(f"{where} is no token entry: make one with `joingate gateway token`.") from error
    _check(entry, where)
    return entry


def _check(entry: Entry, where: str) -> None:
    texts: tuple[object, ...] = (entry.sha256, entry.tenant, entry.principal)  # as read, whatever they are
    if not all(isinstance(one, str) and one and one.isprintable() for one in texts) or "/" in entry.tenant:
        raise TokenError(f"{where} needs a hash, a tenant without a slash, and a principal.")
    if entry.role not in ROLES:
        raise TokenError(f"{where} has the role {entry.role!r}; it is one of {', '.join(ROLES)}.")
    if len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
        raise TokenError(f"{where} has a hash that is no SHA-256 in hex.")
