"""A gate comes back with another catalogue: over what it could not bring to an end it does not start."""

from typing import Any

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.claims import Commit, DeclareIntent, Dispatch, Plan, Release
from joingate_schemas.facts import CommitmentChanged
from joingate_schemas.ids import operation_id
from joingate_schemas.topics import partition_for

INTENT = "acme/slot/1"
WITH_SLOTS = """
version: "1"
downstreams:
  desk: {capabilities: [IDEMPOTENT_KEY, LOOKUP]}
actions:
  book: {downstream: desk, executor: teller, effect: REVERSIBLE, kind: COMPENSATABLE, compensation: cancel,
         obligation: slot, business_key: "{slot}", arguments: {slot: }}
  cancel: {downstream: desk, executor: teller, effect: REVERSIBLE, kind: RETRYABLE, business_key: "{slot}",
           arguments: {slot: }}
obligations:
  slot: {release_action: cancel, observed: false}
"""
WITHOUT_SLOTS = """
version: "2"
downstreams:
  desk: {capabilities: [IDEMPOTENT_KEY, LOOKUP]}
actions:
  call: {downstream: desk, executor: teller, effect: REVERSIBLE, kind: RETRYABLE, business_key: "{who}",
         arguments: {who: }}
"""


def catalogue(text: str) -> Catalogue:
    return catalogue_from_text(text)


def booked(desk: Any) -> str:
    """A slot is booked, and in force; the id of its commitment."""
    operation = operation_id(INTENT, "book", "monday", 1)
    step = {"step_id": "s", "action": "book", "business_key": "monday", "arguments": {"slot": "monday"}}
    for claim in (
        DeclareIntent(claim_id="1", intent_id=INTENT, version=1, goals=[]),
        Plan(claim_id="2", intent_id=INTENT, intent_version=1, plan_id="p", steps=[step], commitments=[]),
        Dispatch(claim_id="3", intent_id=INTENT, intent_version=1, plan_id="p", step_id="s"),
    ):
        desk.send(claim)
    desk.flush()
    desk.await_claims(3)
    commit = Commit(claim_id="4", intent_id=INTENT, operation_id=operation, attempt=1, external_id="x",
                    evidence=["receipt:x"], idempotency_key=operation)  # fmt: skip
    desk.send(commit, desk.topics.outcomes)
    desk.flush()
    (made,) = [fact.commitment_id for one in desk.await_claims(4) for fact in one.facts
               if isinstance(fact, CommitmentChanged) and fact.after == "ACTIVE"]  # fmt: skip
    return str(made)


def states(gate: Any) -> list[str]:
    """The states of its partitions, by their numbers."""
    return [one["state"] for _, one in sorted(gate.status["partitions"].items())] if gate.status else []


def test_a_gate_does_not_start_over_a_commitment_whose_type_was_dropped_until_the_type_is_back(
    desk: Any, tools: Any
) -> None:
    here = partition_for(INTENT.encode(), 2)
    with desk.gate(catalogue=catalogue(WITH_SLOTS)):
        commitment = booked(desk)
    before = [one.seq for one in desk.ledger() if one.intent_id == INTENT]
    with desk.gate(catalogue=catalogue(WITHOUT_SLOTS)) as gate:
        # The other partition has nothing open: the new catalogue is as good as any there.
        wanted = ["HALTED" if number == here else "RUNNING" for number in range(2)]
        tools.wait_for(lambda: states(gate) == wanted, "one partition to halt, and the other to run")
        told = gate.sentences()
    assert "1 ACTIVE commitments of type slot, version 1" in told
    assert commitment in told
    assert "the type slot is not declared any more" in told
    assert "Start the gate with the former catalogue (1," in told
    assert "keep the type slot with its action cancel until its last one is discharged" in told
    with desk.gate(catalogue=catalogue(WITH_SLOTS)) as gate:
        tools.wait_for(lambda: gate.states() == ["RUNNING"] * 2, "the gate to run")
        assert [one.seq for one in desk.ledger() if one.intent_id == INTENT] == before
        desk.send(Release(claim_id="5", intent_id=INTENT, commitment_id=commitment))
        desk.flush()
        (release,) = [one for one in desk.await_claims(5) if one.claim_type == "Release"]
    assert (release.verdict, release.status) == ("ACCEPTED", "RELEASE_PENDING")


def test_who_takes_it_on_all_the_same_is_in_the_ledger(desk: Any, tools: Any) -> None:
    with desk.gate(catalogue=catalogue(WITH_SLOTS)):
        commitment = booked(desk)
    with desk.gate(catalogue=catalogue(WITHOUT_SLOTS), accept_undischargeable="ann: cancelled by hand") as gate:
        tools.wait_for(lambda: gate.states() == ["RUNNING"] * 2, "the gate to run")
    taken = [one.detail for one in desk.ledger() if one.claim_type == "CatalogueChanged" and one.detail]
    assert len(taken) == 1
    assert taken[0].startswith("ann: cancelled by hand: 1 ACTIVE commitments of type slot")
    assert commitment in taken[0]
