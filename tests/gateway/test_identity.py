"""One wish is done once: however a model words it, times out over it, plans it anew, or believes that it is done."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from joingate.gateway import tools
from joingate.gateway.limits import Limits
from joingate.gateway.tokens import Caller
from joingate.gateway.wishes import NOBODY_SAYS, Harness
from joingate.scenarios.world import demo_catalogue
from joingate_schemas.claims import Abort

from .law_in_memory import ACME, OTHER, LawInMemory

FEE = {"fee_transaction_id": "txn-77120"}


def use(law: LawInMemory, name: str, given: dict[str, Any], caller: Caller = ACME, harness: Harness = NOBODY_SAYS,
        gateway: Any = None) -> dict[str, Any]:  # fmt: skip
    """What a tool answers, as a model sees it."""
    answer = tools.call(gateway or law.gateway, caller, name, given, harness)
    assert answer is not None
    return answer.row()


def test_the_first_asking_is_pending_with_ids_and_when_to_look_again(law: LawInMemory) -> None:
    told = use(law, "reverse_fee", FEE)
    assert (told["state"], told["intent_id"]) == ("PENDING", "acme/reverse_fee/txn-77120")
    assert told["look_again_s"] > 0
    assert "not done yet" in told["say"]
    assert "Do not ask for it again" in told["next"]
    assert [one.operation_id for one in law.operations()] == [told["operation_id"]]


def test_asked_again_in_other_words_it_is_the_same_operation(law: LawInMemory) -> None:
    """Spelling, typing and arguments without meaning are wording; the business entity is not."""
    first = use(law, "refund", {"capture_id": "cap-1", "refund_request": "r1", "amount": 30, "currency": "EUR"})
    for again in (
        {"capture_id": " cap-1 ", "refund_request": "r1", "amount": 30.0, "currency": "EUR", "note": "as promised"},
        {"currency": "EUR", "amount": 30, "refund_request": "r1", "capture_id": "cap-1", "note": "please hurry"},
    ):
        told = use(law, "refund", again)
        assert (told["state"], told["operation_id"]) == ("PENDING", first["operation_id"])
    assert len(law.operations()) == 1


def test_honest_twins_of_equal_amount_are_two(law: LawInMemory) -> None:
    one = use(law, "refund", {"capture_id": "cap-1", "refund_request": "r1", "amount": 35, "currency": "EUR"})
    two = use(law, "refund", {"capture_id": "cap-2", "refund_request": "r1", "amount": 35, "currency": "EUR"})
    assert one["operation_id"] != two["operation_id"]
    assert (one["state"], two["state"]) == ("PENDING", "PENDING")


def test_other_arguments_for_the_same_wish_are_refused_with_the_status_of_the_first(law: LawInMemory) -> None:
    first = use(law, "refund", {"capture_id": "cap-1", "refund_request": "r1", "amount": 30, "currency": "EUR"})
    told = use(law, "refund", {"capture_id": "cap-1", "refund_request": "r1", "amount": 35, "currency": "EUR"})
    assert (told["state"], told["reason"]["number"]) == ("REFUSED", 303)
    assert told["operation_id"] == first["operation_id"]
    assert len(law.operations()) == 1


def test_a_time_out_and_a_retry_are_one_operation(law: LawInMemory) -> None:
    """The gate is away for a while; the model asks again and again, and once more when it is back."""
    hasty = law.another_gateway(wait_s=0.05)
    law.hold()
    told = [use(law, "reverse_fee", FEE, gateway=hasty) for _ in range(3)]
    assert {one["state"] for one in told} == {"PENDING"}
    assert "taken" in told[0]["say"]
    law.go_on()
    last = use(law, "reverse_fee", FEE)
    hasty.close()
    assert last["operation_id"] == told[0]["operation_id"]
    assert len(law.operations()) == 1


def test_many_at_once_through_two_gateways_are_one_operation(law: LawInMemory) -> None:
    other = law.another_gateway()
    told: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda g=gateway: told.append(use(law, "reverse_fee", FEE, gateway=g)))
        for gateway in (law.gateway, other) * 4
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    other.close()
    assert len({one["operation_id"] for one in told}) == 1
    assert len(law.operations()) == 1


def test_a_replanning_model_meets_the_first_asking(law: LawInMemory) -> None:
    """It states a wish of its own, plans the same effect there, and asks for it: the status of the first is told."""
    first = use(law, "reverse_fee", FEE)
    wish = use(law, "state_wish", {"kind": "complaint", "entity": "case-9", "objective": "give the fee back"})
    plan = use(law, "propose_plan", {"intent_id": wish["intent_id"], "steps": [
        {"name": "credit", "action": "reverse_fee", "arguments": FEE}]})  # fmt: skip
    told = use(law, "ask_step", {"intent_id": wish["intent_id"], "step": plan["told"]["steps"]["credit"]})
    assert told["operation_id"] == first["operation_id"]
    assert len(law.operations()) == 1


def test_the_other_way_round_the_action_meets_the_plan(law: LawInMemory) -> None:
    wish = use(law, "state_wish", {"kind": "complaint", "entity": "case-9"})
    plan = use(law, "propose_plan", {"intent_id": wish["intent_id"], "steps": [
        {"name": "credit", "action": "reverse_fee", "arguments": FEE}]})  # fmt: skip
    first = use(law, "ask_step", {"intent_id": wish["intent_id"], "step": plan["told"]["steps"]["credit"]})
    assert (first["state"], first["intent_id"]) == ("PENDING", "acme/complaint/case-9")
    told = use(law, "reverse_fee", FEE)
    assert (told["state"], told["operation_id"]) == ("PENDING", first["operation_id"])
    assert len(law.operations()) == 1
    law.settle(first["operation_id"])
    assert use(law, "reverse_fee", FEE)["state"] == "DONE"


def test_the_same_plan_in_other_words_is_the_plan_in_force(law: LawInMemory) -> None:
    wish = use(law, "state_wish", {"kind": "release", "entity": "4.2", "objective": "ship it"})
    again = use(law, "state_wish", {"kind": "release", "entity": "4.2", "objective": "bring 4.2 to production"})
    assert again["intent_id"] == wish["intent_id"] == "acme/release/4.2"
    steps = [{"name": "a", "action": "run_check", "arguments": {"check": "smoke"}},
             {"name": "b", "action": "notify", "arguments": {"to": "ops", "text": "done"}, "after": ["a"]}]  # fmt: skip
    one = use(law, "propose_plan", {"intent_id": wish["intent_id"], "steps": steps})
    renamed = [{**steps[0], "name": "first"}, {**steps[1], "name": "second", "after": ["first"]}]
    two = use(law, "propose_plan", {"intent_id": wish["intent_id"], "steps": renamed})
    assert one["plan_id"] == two["plan_id"]
    assert sorted(two["told"]["steps"].values()) == sorted(one["told"]["steps"].values())


def test_a_success_that_the_model_invents_changes_nothing(law: LawInMemory) -> None:
    """There is no tool to say it with, and the status stays what the ledger has."""
    first = use(law, "reverse_fee", FEE)
    for name in ("succeed", "commit", "close", "submit", "dispatch"):
        assert tools.call(law.gateway, ACME, name, {"operation_id": first["operation_id"]}) is None
    said = use(law, "mark_satisfied", {"commitment_id": first["operation_id"], "evidence": ["the model says so"]})
    assert said["state"] == "REFUSED"
    assert use(law, "look_again", {"id": first["operation_id"]})["state"] == "PENDING"


def test_a_doubt_is_told_honestly_and_ends_by_evidence(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    law.doubt(first["operation_id"])
    for told in (use(law, "reverse_fee", FEE), use(law, "look_again", {"id": first["intent_id"]})):
        assert (told["state"], told["operation_id"]) == ("IN_DOUBT", first["operation_id"])
        assert "not known" in told["say"]
        assert told["look_again_s"] > 0
    assert len(law.operations()) == 1


def test_what_is_done_is_told_with_its_result(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    law.settle(first["operation_id"], result='{"amount": "35.00"}')
    told = use(law, "look_again", {"id": first["operation_id"]})
    assert (told["state"], told["result"]) == ("DONE", '{"amount": "35.00"}')
    assert "look_again_s" not in told


def test_proven_absent_it_may_be_asked_for_again_and_is_begun_anew_once(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    row = law.prepare(first["operation_id"])
    law.say(Abort(claim_id="no", intent_id=row.intent_id, operation_id=row.operation_id, attempt=1, proof="REFUSED",
                  evidence=["declined"]), "EXECUTOR")  # fmt: skip
    assert use(law, "look_again", {"id": first["operation_id"]})["state"] == "NOT_DONE"
    again = [use(law, "reverse_fee", FEE) for _ in range(2)]
    assert {one["state"] for one in again} == {"PENDING"}
    assert again[0]["operation_id"] == again[1]["operation_id"] != first["operation_id"]
    assert len(law.operations()) == 2


def test_a_cancelled_wish_stays_so_until_the_person_wants_it_again(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    assert use(law, "cancel", {"id": first["intent_id"], "reason": "changed her mind"})["state"] == "KNOWN"
    told = use(law, "reverse_fee", FEE)
    assert (told["state"], told["reason"]["number"]) == ("REFUSED", 405)
    assert "want_again" in told["next"]
    use(law, "want_again", {"intent_id": first["intent_id"]})
    assert use(law, "reverse_fee", FEE)["state"] == "PENDING"


def test_an_occurrence_is_the_harness_s_to_say(law: LawInMemory) -> None:
    first = use(law, "deploy", {"environment": "production", "release": "4.2"})
    second = use(law, "deploy", {"environment": "production", "release": "4.2"}, harness=Harness(occurrence="2"))
    assert first["operation_id"] != second["operation_id"]
    told = use(law, "deploy", {"environment": "production", "release": "4.2", "occurrence": "3"})
    assert (told["state"], told["reason"]["number"]) == ("REFUSED", 100)


def test_what_the_harness_binds_is_no_model_s_to_choose(law: LawInMemory) -> None:
    bound = Harness(bound={"refund_request": "TCK-1"})
    schema = tools.tools_of(law.catalogue, bound)["refund"].schema
    assert "refund_request" not in schema["properties"]
    given = {"capture_id": "cap-1", "amount": 30, "currency": "EUR"}
    told = use(law, "refund", given, harness=bound)
    assert told["intent_id"] == "acme/refund/cap-1/TCK-1"
    invented = use(law, "refund", {**given, "refund_request": "TCK-2"}, harness=bound)
    assert invented["state"] == "REFUSED"
    assert len(law.operations()) == 1


def test_a_missing_entity_is_asked_for_and_not_made_up(law: LawInMemory) -> None:
    told = use(law, "reverse_fee", {})
    assert (told["state"], told["reason"]["number"]) == ("REFUSED", 100)
    assert "fee_transaction_id" in told["detail"]
    assert not law.operations()


def test_looking_twice_is_two_looks_but_never_two_at_a_time(law: LawInMemory) -> None:
    first = use(law, "observe_health", {"target": "web"})
    assert use(law, "observe_health", {"target": "web"})["operation_id"] == first["operation_id"]
    law.settle(first["operation_id"], result="well")
    assert use(law, "look_again", {"id": first["operation_id"]})["result"] == "well"
    assert use(law, "observe_health", {"target": "web"})["operation_id"] != first["operation_id"]


def test_one_tenant_never_sees_anothers(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    unknown = use(law, "look_again", {"id": "nobody-knows"}, caller=OTHER)
    for name, given in (
        ("look_again", {"id": first["operation_id"]}),
        ("look_again", {"id": first["intent_id"]}),
        ("context", {"intent_id": first["intent_id"]}),
        ("cancel", {"id": first["operation_id"]}),
        ("cancel", {"id": first["intent_id"]}),
        ("want_again", {"intent_id": first["intent_id"]}),
        ("propose_plan", {"intent_id": first["intent_id"], "steps": [
            {"name": "a", "action": "reverse_fee", "arguments": FEE}]}),
        ("ask_step", {"intent_id": first["intent_id"], "step": "ask"}),
        ("request_reconciliation", {"id": first["operation_id"]}),
    ):  # fmt: skip
        told = use(law, name, given, caller=OTHER)
        assert told["state"] == "REFUSED", name
        assert "PENDING" not in str(told)
    assert unknown["reason"]["name"] == use(law, "look_again", {"id": first["operation_id"]}, OTHER)["reason"]["name"]
    # The same entity of another tenant is another wish.
    assert use(law, "reverse_fee", FEE, caller=OTHER)["operation_id"] != first["operation_id"]
    assert use(law, "context", {"intent_id": first["intent_id"]})["told"]["operations"]


def test_a_reader_only_looks(law: LawInMemory) -> None:
    first = use(law, "reverse_fee", FEE)
    reader = Caller("acme", "reader", "watcher")
    assert use(law, "look_again", {"id": first["operation_id"]}, caller=reader)["state"] == "PENDING"
    told = use(law, "cancel", {"id": first["intent_id"]}, caller=reader)
    assert (told["state"], told["reason"]["number"]) == ("REFUSED", 200)


@pytest.mark.parametrize("broken", ["reads", "clients"])
def test_whatever_fails_the_model_gets_an_answer_and_no_trace(law: LawInMemory, broken: str) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("secret of the inside")

    setattr(law.gateway, "reads" if broken == "reads" else "_clients", fail)
    for name, given in (("reverse_fee", FEE), ("look_again", {"id": "acme/x"}), ("cancel", {"id": "acme/x"})):
        if broken == "clients" and name != "reverse_fee":
            continue
        told = use(law, name, given)
        assert told["state"] == "PENDING"
        assert "secret" not in str(told)
        assert "Traceback" not in str(told)


def test_a_tenant_has_so_many_wishes_open_and_another_is_not_held_by_it(tmp_path: Path) -> None:
    law = LawInMemory(tmp_path, demo_catalogue(), limits=Limits(calls_per_minute=None, open_max=2))
    try:
        told = [use(law, "reverse_fee", {"fee_transaction_id": f"txn-{n}"}) for n in range(3)]
        assert [one["state"] for one in told] == ["PENDING", "PENDING", "SLOW_DOWN"]
        assert "2 wishes open" in told[2]["detail"]
        assert use(law, "reverse_fee", {"fee_transaction_id": "txn-0"})["state"] == "PENDING"
        assert use(law, "reverse_fee", FEE, caller=OTHER)["state"] == "PENDING"
        law.settle(told[0]["operation_id"])
        assert use(law, "reverse_fee", {"fee_transaction_id": "txn-2"})["state"] == "PENDING"
    finally:
        law.close()
