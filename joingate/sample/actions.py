"""The bank's business rules: for each action, what it does to the books or why it is refused.

Rules only read. They run when the effect is about to be written, with nothing in between, so what they saw still
holds when it is. Whether a fee may be reversed twice is a choice: many old cores allow it, and the duplicate refund
needs one that does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from joingate.sample.books import RELEASES, RESERVES, Books, Charge

CENT = Decimal("0.01")
AMOUNT_MAX = Decimal("1e12")


@dataclass(frozen=True, slots=True)
class Effect:
    """What an accepted action writes: who is touched, by how much (signed), and what the caller is told."""

    account: str | None = None
    amount: Decimal | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the bank will not do it, in a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as the rules see it; `core_dedupe_fees` makes a fee reversible once ever."""

    books: Books
    action: str
    arguments: Mapping[str, Any]
    core_dedupe_fees: bool

    def text(self, name: str) -> str:
        """A required argument that names something."""
        return str(self.arguments[name])

    def amount(self) -> Decimal:
        """The required amount, already checked."""
        return Decimal(self.arguments["amount"])


def canonical(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with amounts in cents' notation, so that 35, 35.0 and "35.00" mean the same under one key."""
    tidy = dict(arguments)
    if "amount" in tidy:
        amount = _to_amount(tidy["amount"])
        if amount is not None:
            tidy["amount"] = str(amount)
    return tidy


def decide(ask: Ask) -> Effect | Refusal:
    """What comes of a request whose key, if it has one, is new."""
    if ask.action not in ACTIONS:
        return Refusal(f"this bank has no action {ask.action!r}; it has {', '.join(sorted(ACTIONS))}")
    required, rule = ACTIONS[ask.action]
    for name in required:
        if name not in ask.arguments:
            return Refusal(f"{ask.action} needs the argument {name!r}")
        if complaint := _complaint(name, ask.arguments[name]):
            return Refusal(f"{ask.action}: {complaint}")
    return rule(ask)


def _complaint(name: str, value: object) -> str | None:
    if name == "amount":
        if _to_amount(value) is None:
            return f"amount must be above zero, with at most two decimals, not {value!r}"
    elif name == "ok":
        if not isinstance(value, bool):
            return f"ok must be true or false, not {value!r}"
    elif not isinstance(value, str) or not value:
        return f"{name} must be a non-empty text, not {value!r}"
    return None


def _to_amount(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        amount = Decimal(str(value))
        if not amount.is_finite() or not 0 < amount < AMOUNT_MAX or amount != amount.quantize(CENT):
            return None
        return amount.quantize(CENT)
    except InvalidOperation:
        return None


def _open_account(ask: Ask) -> Effect | Refusal:
    account = ask.text("account_id")
    if account in ask.books.balances:
        return Refusal(f"account {account} is already open")
    return Effect(account, ask.amount(), {"account_id": account, "amount": str(ask.amount())})


def _take(ask: Ask, name: str, known: Mapping[str, Charge]) -> Effect | Refusal:
    account = ask.text("account_id")
    if account not in ask.books.balances:
        return Refusal(f"there is no account {account}")
    if ask.text(name) in known:
        return Refusal(f"{ask.text(name)} is already in the books")
    result = {"account_id": account, "amount": str(ask.amount()), name: ask.text(name)}
    return Effect(account, -ask.amount(), result)


def _charge_fee(ask: Ask) -> Effect | Refusal:
    return _take(ask, "fee_transaction_id", ask.books.fees)


def _capture_payment(ask: Ask) -> Effect | Refusal:
    return _take(ask, "capture_id", ask.books.captures)


def _reverse_fee(ask: Ask) -> Effect | Refusal:
    fee_id = ask.text("fee_transaction_id")
    fee = ask.books.fees.get(fee_id)
    if fee is None:
        return Refusal(f"there is no fee {fee_id} to reverse")
    earlier = ask.books.reversals.get(fee_id, [])
    if ask.core_dedupe_fees and earlier:
        return Refusal(f"fee {fee_id} was already reversed by {earlier[0]}")
    # The amount is the bank's own: a caller who could name it could also get it wrong.
    result = {"account_id": fee.account, "amount": str(fee.amount), "fee_transaction_id": fee_id}
    return Effect(fee.account, fee.amount, result)


def _issue_fee_credit(ask: Ask) -> Effect | Refusal:
    account = ask.text("account_id")
    if account not in ask.books.balances:
        return Refusal(f"there is no account {account}")
    return Effect(account, ask.amount(), {"account_id": account, "amount": str(ask.amount())})


def _refund(ask: Ask) -> Effect | Refusal:
    capture_id = ask.text("capture_id")
    capture = ask.books.captures.get(capture_id)
    if capture is None:
        return Refusal(f"there is no captured payment {capture_id}")
    left = capture.amount - ask.books.refunded.get(capture_id, Decimal())
    if ask.amount() > left:
        return Refusal(f"{ask.amount()} is more than the {left} of {capture_id} that is not yet refunded")
    result = {"account_id": capture.account, "amount": str(ask.amount()), "capture_id": capture_id}
    return Effect(capture.account, ask.amount(), result)


def _reserve(ask: Ask) -> Effect | Refusal:
    kind, argument = RESERVES[ask.action]
    name = ask.text(argument)
    hold = ask.books.holder(kind, name)
    if hold.holder is not None:
        return Refusal(f"{kind} {name} is held by {hold.holder}")
    return Effect(result={"kind": kind, "name": name, "outcome": "RESERVED"})


def _release(ask: Ask) -> Effect | Refusal:
    kind, argument = RELEASES[ask.action]
    name = ask.text(argument)
    held_by = ask.books.holder(kind, name).holder
    wanted = ask.arguments.get("reservation")
    result = {"kind": kind, "name": name, "reservation": held_by if wanted is None else wanted}
    # Someone else's later reservation is left alone: the one that was to be released is gone all the same.
    if held_by is None or wanted not in (None, held_by):
        return Effect(result=result | {"outcome": "ALREADY_GONE", "held_by": held_by})
    return Effect(result=result | {"outcome": "RELEASED", "held_by": None})


def _notify(ask: Ask) -> Effect | Refusal:
    return Effect(result={"outcome": "DELIVERED", "to": ask.arguments.get("to", "customer")})


def _deploy(ask: Ask) -> Effect | Refusal:
    environment = str(ask.arguments.get("environment", "production"))
    previous = ask.books.releases.get(environment)
    return Effect(result={"release": ask.text("release"), "environment": environment, "previous": previous})


def _observe_health(ask: Ask) -> Effect | Refusal:
    target = str(ask.arguments.get("target", "production"))
    return Effect(result={"target": target, "healthy": target not in ask.books.failing})


def _run_check(ask: Ask) -> Effect | Refusal:
    return Effect(result={"check": ask.text("check"), "passed": ask.text("check") not in ask.books.failing})


def _close_ticket(ask: Ask) -> Effect | Refusal:
    ticket = ask.text("ticket_id")
    earlier = ask.books.closed_tickets.get(ticket)
    return Effect(result={"ticket_id": ticket, "outcome": "CLOSED" if earlier is None else "ALREADY_CLOSED"})


def _set_condition(ask: Ask) -> Effect | Refusal:
    return Effect(result={"name": ask.text("name"), "ok": ask.arguments["ok"]})


Rule = Callable[[Ask], Effect | Refusal]

ACTIONS: Mapping[str, tuple[tuple[str, ...], Rule]] = {
    # What agents ask for.
    "reverse_fee": (("fee_transaction_id",), _reverse_fee),
    "issue_fee_credit": (("account_id", "amount"), _issue_fee_credit),
    "refund": (("capture_id", "amount"), _refund),
    "reserve_window": (("window",), _reserve),
    "release_window": (("window",), _release),
    "reserve_reviewer": (("reviewer",), _reserve),
    "release_reviewer": (("reviewer",), _release),
    "notify": (("text",), _notify),
    "deploy": (("release",), _deploy),
    "observe_health": ((), _observe_health),
    "run_check": (("check",), _run_check),
    "close_ticket": (("ticket_id",), _close_ticket),
    # What the world does to the bank, so that a story can be set up over the same door.
    "open_account": (("account_id", "amount"), _open_account),
    "charge_fee": (("account_id", "fee_transaction_id", "amount"), _charge_fee),
    "capture_payment": (("account_id", "capture_id", "amount"), _capture_payment),
    "set_condition": (("name", "ok"), _set_condition),
}
"""Action to the arguments that it needs and its rule."""
