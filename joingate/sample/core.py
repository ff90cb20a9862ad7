"""The bank itself: one effect per key, written before it is told, and look-ups that say how old they are."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from joingate.sample.actions import Ask, Effect, Refusal, canonical, decide
from joingate.sample.books import Books, Hold
from joingate.sample.store import Entry, EntryKind, Ledger

Clock = Callable[[], datetime]

OPENING: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("open_account", {"account_id": "9482", "amount": "1200.00"}),
    ("charge_fee", {"account_id": "9482", "fee_transaction_id": "txn-77120", "amount": "35.00"}),
    ("open_account", {"account_id": "5501", "amount": "800.00"}),
    ("capture_payment", {"account_id": "5501", "capture_id": "cap-31007", "amount": "120.00"}),
)
"""What a new bank starts with: the customer of the overdraft story, and one who bought something."""


@dataclass(frozen=True, slots=True)
class BankOptions:
    """How this bank behaves. `key_horizon_s` is for how many seconds the key of an effect is recognised."""

    core_dedupe_fees: bool = False
    key_horizon_s: float = 86_400.0
    hold_s_max: float = 60.0
    """How long a connection that will not be answered is held before it is closed, in seconds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The entry that answers a request; `replayed` when it was there already."""

    entry: Entry
    replayed: bool


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The key already stands for another request, recorded in `entry`. Nothing was touched."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a statement: the entry and the account's balance after it."""

    entry: Entry
    account: str
    balance: Decimal


class Bank:
    """The ledger with its rules. Not thread-safe: the web application calls it from one event loop."""

    def __init__(self, ledger: Ledger, options: BankOptions, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.options = options
        self._ledger = ledger
        self._clock = clock
        self._books = Books.from_entries(ledger)
        self._last_at = max((entry.at for entry in ledger), default=datetime.min.replace(tzinfo=UTC))
        # Each opening entry is written on its own, so a crash among them is finished here rather than repeated.
        for action, arguments in OPENING[len(ledger) :]:
            self._write(self._decided(action, canonical(arguments), None))

    @property
    def version(self) -> int:
        """The ledger's length: rises with every entry, and dates every look-up."""
        return self._books.version

    @property
    def repaired(self) -> str | None:
        """What was cut off the ledger when it was opened, if anything."""
        return self._ledger.repaired

    def perform(self, action: str, arguments: Mapping[str, Any], key: str | None) -> Outcome | KeyConflict:
        """Do it once per key; without a key, every call is a new effect."""
        tidy = canonical(arguments)
        prior = None if key is None else self._remembered(key)
        if prior is None:
            return Outcome(self._write(self._decided(action, tidy, key)), replayed=False)
        # A tombstone answers for its key whatever is asked; everything else only for what was asked then.
        same = prior.kind is EntryKind.TOMBSTONE or (prior.action == action and prior.arguments == tidy)
        return Outcome(prior, replayed=True) if same else KeyConflict(prior)

    def tombstone(self, key: str) -> Outcome | KeyConflict:
        """Refuse `key` from now on; too late, and a conflict, if an effect was ever made under it."""
        for entry in self._books.by_reference.get(key, []):
            if entry.kind is EntryKind.EFFECT:
                return KeyConflict(entry)
        prior = self._remembered(key)
        if prior is not None:
            return Outcome(prior, replayed=True)
        entry = self._blank(EntryKind.TOMBSTONE, "tombstone", key, refused="this key was given a tombstone")
        return Outcome(self._write(entry), replayed=False)

    def forget(self, key: str) -> None:
        """Stop recognising the key of an effect, for good. Refusals and tombstones are promises and are kept."""
        prior = self._remembered(key)
        if prior is not None and prior.kind is EntryKind.EFFECT:
            self._write(self._blank(EntryKind.KEY_FORGOTTEN, prior.action, key))

    def by_key(self, key: str, as_of: int | None = None) -> Entry | None:
        """What `key` stands for, as far as the bank still recognises it (and had seen it at `as_of`)."""
        entry = self._remembered(key)
        return None if entry is None or (as_of is not None and entry.seq > as_of) else entry

    def by_reference(self, reference: str) -> list[Entry]:
        """Every entry that ever carried this key, however long ago: the horizon ends recognition, not the record."""
        return list(self._books.by_reference.get(reference, []))

    def by_external_id(self, external_id: str) -> Entry | None:
        """The entry that the bank itself calls by this id."""
        return self._books.by_external_id.get(external_id)

    def effects(self) -> Iterable[Entry]:
        """All effects, oldest first."""
        return (entry for entry in self._ledger if entry.kind is EntryKind.EFFECT)

    def holder(self, kind: str, name: str, as_of: int | None = None) -> Hold:
        """Who holds a resource, now or when the ledger was `as_of` entries long."""
        return self._books.holder(kind, name, as_of)

    def balance(self, account: str) -> Decimal | None:
        """The account's balance in currency units, or None if there is no such account."""
        return self._books.balances.get(account)

    def statement(self, account: str | None, until: datetime) -> tuple[list[Line], bool]:
        """Lines up to and including `until`, and whether the period is closed: no later entry can fall into it."""
        # Asked first: an entry written after this moment is stamped no earlier than it.
        closed = until < self._now()
        lines: list[Line] = []
        balances: dict[str, Decimal] = {}
        for entry in self.effects():
            if entry.account is None or entry.amount is None or entry.at > until:
                continue
            balances[entry.account] = balances.get(entry.account, Decimal()) + entry.amount
            if account in (None, entry.account):
                lines.append(Line(entry, entry.account, balances[entry.account]))
        return lines, closed

    def _now(self) -> datetime:
        # A wall clock that steps back must not put an entry into a period that was already closed.
        self._last_at = max(self._clock(), self._last_at)
        return self._last_at

    def _remembered(self, key: str) -> Entry | None:
        entry = self._books.keys.get(key)
        if entry is None or entry.kind is not EntryKind.EFFECT:
            return entry
        age = self._now() - entry.at
        return entry if age < timedelta(seconds=self.options.key_horizon_s) else None

    def _decided(self, action: str, arguments: Mapping[str, Any], key: str | None) -> Entry:
        match decide(Ask(self._books, action, arguments, self.options.core_dedupe_fees)):
            case Refusal(reason):
                return self._blank(EntryKind.REFUSAL, action, key, arguments=arguments, refused=reason)
            case Effect(account, amount, result):
                return self._blank(
                    EntryKind.EFFECT, action, key, arguments=arguments, account=account, amount=amount, result=result
                )

    def _blank(self, kind: EntryKind, action: str, key: str | None, **rest: Any) -> Entry:
        seq = self.version + 1
        return Entry(seq, kind, f"bank-{seq:08d}", key, action, self._now(), **rest)

    def _write(self, entry: Entry) -> Entry:
        # Disk first: an entry in the books that the disk lacks could be told to someone and then be gone.
        self._ledger.append(entry)
        self._books.fold(entry)
        return entry
