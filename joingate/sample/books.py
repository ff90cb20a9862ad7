"""The bank's books: what the ledger says now about money, keys and resources, folded from its entries.

Everything here is derived; opening the ledger again gives the same books.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from joingate.sample.store import Entry, EntryKind

CURRENCY = "USD"

RESERVES = {"reserve_window": ("window", "window"), "reserve_reviewer": ("reviewer", "reviewer")}
"""Action to (resource kind, name of the argument that names the resource)."""

RELEASES = {"release_window": ("window", "window"), "release_reviewer": ("reviewer", "reviewer")}
"""The same for giving a resource back."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Money taken from an account, a fee or a captured payment; `amount` is what the customer paid, above zero."""

    account: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Hold:
    """From ledger position `seq` on, the resource was held by reservation `holder`, or by nobody."""

    seq: int
    holder: str | None


class Books:
    """Balances, fees, captures, keys, resources and conditions after the entries folded so far."""

    def __init__(self) -> None:
        self.version = 0
        self.balances: dict[str, Decimal] = {}
        self.fees: dict[str, Charge] = {}
        self.reversals: dict[str, list[str]] = defaultdict(list)
        self.captures: dict[str, Charge] = {}
        self.refunded: dict[str, Decimal] = defaultdict(Decimal)
        self.releases: dict[str, str] = {}
        self.closed_tickets: dict[str, str] = {}
        self.failing: set[str] = set()
        self.keys: dict[str, Entry] = {}
        self.by_external_id: dict[str, Entry] = {}
        self.by_reference: dict[str, list[Entry]] = defaultdict(list)
        self._holds: dict[tuple[str, str], list[Hold]] = defaultdict(list)

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Self:
        """The books that these entries, in order, lead to."""
        books = cls()
        for entry in entries:
            books.fold(entry)
        return books

    def fold(self, entry: Entry) -> None:
        """Take one more entry in. Never refuses: what is in the ledger has happened."""
        self.version = entry.seq
        if entry.kind is EntryKind.KEY_FORGOTTEN:
            if entry.key is not None:
                self.keys.pop(entry.key, None)
            return
        self.by_external_id[entry.external_id] = entry
        if entry.key is not None:
            self.keys[entry.key] = entry
            self.by_reference[entry.key].append(entry)
        if entry.kind is EntryKind.EFFECT:
            self._fold_money(entry)
            self._fold_resource(entry)

    def holder(self, kind: str, name: str, as_of: int | None = None) -> Hold:
        """Who holds the resource now, or held it when the ledger was `as_of` entries long."""
        for hold in reversed(self._holds.get((kind, name), [])):
            if as_of is None or hold.seq <= as_of:
                return hold
        return Hold(0, None)

    def _fold_money(self, entry: Entry) -> None:
        if entry.account is None or entry.amount is None:
            return
        self.balances[entry.account] = self.balances.get(entry.account, Decimal()) + entry.amount
        match entry.action:
            case "charge_fee":
                self.fees[str(entry.arguments["fee_transaction_id"])] = Charge(entry.account, -entry.amount)
            case "reverse_fee":
                self.reversals[str(entry.arguments["fee_transaction_id"])].append(entry.external_id)
            case "capture_payment":
                self.captures[str(entry.arguments["capture_id"])] = Charge(entry.account, -entry.amount)
            case "refund":
                self.refunded[str(entry.arguments["capture_id"])] += entry.amount
            case _:
                pass  # other money entries change the balance and nothing else

    def _fold_resource(self, entry: Entry) -> None:
        if entry.action in RESERVES:
            kind, argument = RESERVES[entry.action]
            self._holds[kind, str(entry.arguments[argument])].append(Hold(entry.seq, entry.external_id))
        elif entry.action in RELEASES and entry.result["outcome"] == "RELEASED":
            kind, argument = RELEASES[entry.action]
            self._holds[kind, str(entry.arguments[argument])].append(Hold(entry.seq, None))
        elif entry.action == "deploy":
            self.releases[str(entry.result["environment"])] = str(entry.arguments["release"])
            self._holds["deployment", str(entry.result["environment"])].append(Hold(entry.seq, entry.external_id))
        elif entry.action == "close_ticket":
            self.closed_tickets.setdefault(str(entry.arguments["ticket_id"]), entry.external_id)
        elif entry.action == "set_condition":
            (self.failing.discard if entry.arguments["ok"] else self.failing.add)(str(entry.arguments["name"]))
