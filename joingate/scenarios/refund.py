"""The duplicate refund: one lost reply, an agent that tries again, and one credit or two.

The same story twice. Without a gate the agent's tool writes to the bank, and every new call is a new credit. With it
the agent can only say what it wants: the gate owns the key, the executor the retry, and the reconciler the doubt.
"""

from joingate.sample.client import Account, BankClient, InDoubt
from joingate.sample.faults import FaultKind
from joingate.scenarios.stage import SceneFailed, Stage
from joingate_producers import goal, step
from joingate_schemas.ids import operation_id

NAME = "duplicate refund"
FEE = "35.00"
ACTION = "reverse_fee"


def play_naive(stage: Stage) -> None:
    """The agent calls the tool itself, gets a timeout, and calls it again."""
    account = stage.entity("9481")
    _customer(stage, account, stage.entity("txn-77119"))
    # The tool that an agent is usually given: it speaks of an amount, and carries no key.
    stage.bank.inject(FaultKind.TIMEOUT_AFTER_APPLY, action="issue_fee_credit", count=1)
    with BankClient(stage.bank_url, timeout_s=0.5) as tool:
        wish = {"account_id": account, "amount": FEE}
        first = tool.apply("issue_fee_credit", wish, key=None)
        stage.expect("without a gate: the first call times out", isinstance(first, InDoubt), type(first).__name__)
        # "The credit failed, I will issue it again," says the model.
        tool.apply("issue_fee_credit", wish, key=None)
    credits = _credits(stage, account)
    stage.expect("without a gate: the customer is credited twice", credits == [FEE, FEE], " + ".join(credits))


def play_gated(stage: Stage) -> None:
    """The same wish as a claim, with the same lost reply."""
    account, fee = stage.entity("9482"), stage.entity("txn-77120")
    if fee != "txn-77120":  # that one is in a new bank's books
        _customer(stage, account, fee)
    intent = f"acme/fee-reversal/{fee}"
    key = operation_id(intent, ACTION, fee, 1)
    # The bank does it and can't be heard; nor can it be asked about this key until the line is mended.
    stage.bank.inject(FaultKind.TIMEOUT_AFTER_APPLY, action=ACTION)
    stage.bank.inject(FaultKind.DOWN, action=f"by-key/{key}")

    wanted = [goal("credited", f"the fee {fee} is reversed once")]
    stage.said(stage.planner.declare_intent(intent, goals=wanted, objective="the salary came a day late")).demand()
    plan = [step("s1", ACTION, arguments={"fee_transaction_id": fee})]
    stage.said(stage.planner.plan(intent, intent_version=1, plan_id="p1", steps=plan)).demand()
    told = stage.dispatch(intent, 1, "p1", "s1").demand()
    stage.expect("with the gate: the agent is told PENDING, with the id", told.pending and told.operation_id == key,
                 f"{told.status} {told.operation_id}")  # fmt: skip
    stage.operation(key, "IN_DOUBT")
    stage.expect("the lost reply makes it IN_DOUBT, not failed", True, "IN_DOUBT")

    _try_again(stage, intent, fee, key)
    stage.expect("while in doubt, the bank has one credit", *_once(stage, account, key))

    stage.bank.clear_faults()
    operation = stage.operation(key, "SETTLED")
    by = str(operation["source"])
    stage.expect("the doubt ends by evidence from the bank: SETTLED", by in ("OBSERVER", "EXECUTOR"), f"by {by}")
    stage.expect("at the end, the customer is credited once", *_once(stage, account, key))
    stage.succeed(intent, 1, "p2", "refund-the-fee").demand()
    closed = stage.said(stage.planner.close(intent, outcome="credited"))
    stage.expect_verdict("and the intent closes", closed, "ACCEPTED")


def _try_again(stage: Stage, intent: str, fee: str, key: str) -> None:
    """The model plans again in other words: another plan, another step id, the same wish."""
    again = [step("refund-the-fee", ACTION, arguments={"fee_transaction_id": fee, "amount": FEE})]
    stage.said(stage.planner.plan(intent, intent_version=1, plan_id="p2", replaces="p1", steps=again)).demand()
    answer = stage.dispatch(intent, 1, "p2", "refund-the-fee")
    stage.expect_verdict("the agent's second try is answered IN_DOUBT", answer, "REPLAYED", "IN_DOUBT_PENDING")
    stage.expect("it is the same operation, under the same key", answer.operation_id == key, answer.operation_id)
    commands = [
        fact
        for row in stage.decisions(key)
        if row["claim_type"] == "Dispatch"
        for fact in row["facts"]
        if fact["fact"] in ("OperationOpened", "AttemptStarted")
    ]
    stage.expect("and nothing was sent for it", len(commands) == 1, f"{len(commands)} operation opened by two asks")


def _customer(stage: Stage, account: str, fee: str) -> None:
    """A customer of the bank who was charged the fee."""
    for action, more in (("open_account", {"amount": "1200.00"}),
                         ("charge_fee", {"fee_transaction_id": fee, "amount": FEE})):  # fmt: skip
        stage.bank.apply(action, {"account_id": account, **more}, key=f"scene/{action}/{account}")


def _credits(stage: Stage, account: str) -> list[str]:
    """What the bank's own books say was given back to the customer."""
    there = stage.bank.account(account)
    if not isinstance(there, Account):
        raise SceneFailed(f"The bank does not answer for account {account}: {there}.")
    giving = (ACTION, "issue_fee_credit")
    return [str(entry["amount"]) for entry in there.entries if entry["action"] in giving]


def _once(stage: Stage, account: str, key: str) -> tuple[bool, str]:
    credits, effects = _credits(stage, account), stage.bank_effects(key)
    return credits == [FEE] and len(effects) == 1, f"{' + '.join(credits) or 'nothing'}, under {len(effects)} key"
