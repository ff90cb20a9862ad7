"""Whatever is claimed, in whatever order, at whatever time: one decision each, a sound state, the same on replay."""

from dataclasses import fields
from random import Random
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joingate_processors.forensics.checker import check
from joingate_processors.law.judge import TOPIC_ROLES
from joingate_schemas import claims as c
from joingate_schemas.decisions import ClaimTopic
from joingate_schemas.ids import commitment_id, operation_id

from .catalogues import varied
from .driver import CODEC, HOME, INTENT, Court, step
from .invariants import snapshot

# A small pool, so that claims meet: two intents, a few slots and their first generations, ids of nothing.
INTENTS = [INTENT, INTENT, INTENT, "acme/errand/2"]
STEPS: list[c.PlanStep] = [
    step("s1", "write_file", "f"), step("s2", "reserve_window", "w"), step("s3", "pay", "p"), step("s4", "book", "b"),
    step("s5", "pay_approved", "q"), step("s6", "read_file", "r"), step("s7", "notify", "n", parallel=True),
    step("s8", "close_ticket", "t", edges=[{"kind": "REQUIRES", "step_id": "s1"}]),
    step("s9", "open_incident", "i", parallel=True),
]  # fmt: skip
OPERATIONS = [
    operation_id(INTENT, one["action"], one["business_key"], generation) for one in STEPS for generation in (1, 2)
]
COMMITMENTS = [commitment_id(INTENT, kind, [f"{kind}:{key}"], 1) for kind, key in (("window", "w"), ("seat", "b"))]
RELEASES = [
    operation_id(INTENT, action, commitment, generation)
    for action, commitment in zip(("release_window", "unbook"), COMMITMENTS, strict=True)
    for generation in (1, 2)
]
UNDOINGS = [operation_id(INTENT, "delete_file", OPERATIONS[0], 1)]
POOL: dict[str, list[Any]] = {
    "intent_id": INTENTS,
    "operation_id": [*OPERATIONS, *RELEASES, *UNDOINGS, "nothing"],
    "commitment_id": [*COMMITMENTS, "nothing"],
    "subject_id": [*OPERATIONS, *RELEASES, *COMMITMENTS, *COMMITMENTS, "outcomes/0/1"],
    "quarantine_id": ["outcomes/0/1", "nowhere"],
    "plan_id": ["p1", "p2", "p3"],
    "replaces": [None, "p1", "p2", "p3"],
    "step_id": [one["step_id"] for one in STEPS],
    "principal": ["ann", "bob"],
    "intent_version": [0, 1, 1, 1, 2],
    "version": [1, 2, 2, 3],
    "attempt": [0, 1, 1, 1, 2],
    "executor": ["workspace", "cloud", "bank", "messenger"],
    "worker": ["w1", "w2"],
    "external_id": ["", "x", "x", "y"],
    "external_ids": [[], ["x"], ["x", "y"]],
    "source": ["record", "feed"],
    "source_version": [None, 1, 2, 3],
    "source_time": [None],
    "steps": [STEPS, STEPS[:4], STEPS[4:], list(reversed(STEPS)), []],
    "goals": [[], [{"goal_id": "g1", "acceptance": "a"}]],
    "commitments": [[], COMMITMENTS],
    "to": ["SETTLED", "FAILED", "COMPENSATED", "ACTIVE", "RELEASED", "RELEASE_PENDING", "SATISFIED",
           "RECONCILIATION_REQUIRED", "DISMISSED", "REDRIVEN", "MIGRATED", "FREED"],
    "idempotency_key": [None, None, None, "made-up"],
    "scope": [None, INTENT],
    "signature": [None],
    "occurred_at": [0],
    "budgets": [None],
    "arguments": [None, None, {"amount": 5}],
    "replacement": [CODEC.encode(c.CancelIntent(claim_id="redriven", intent_id="acme/errand/2"))],
    "catalogue": [b"{}"],
    "held_claim": [b""],
    "digest": ["d"],
    "due_at": [1],
    "target_owner": ["team:ops", "person:ann", "desk:9", f"intent:{INTENT}", "worker:1"],
    "owner_id": ["team:ops", "person:ann", f"intent:{INTENT}", ""],
    "target_intent_id": [None],
    "acknowledge_by": [None],
    "fencing_token": [0, 0, 1, 2],
    "obligation_type": ["promise", "review", "window"],
    "counterparty": ["customer:7", ""],
    "policy": ["on-call", "takeover", "because"],
    "expires_at": [None],
}  # fmt: skip


PLAIN: dict[Any, list[Any]] = {
    str: ["", "words"], int: [1], bool: [True, False], bytes: [b""], float: [0.5], type(None): [None],
}  # fmt: skip


def _value(chance: Random, name: str, hint: Any) -> Any:
    if name in POOL and not (name == "version" and hint is str):
        return chance.choice(POOL[name])
    if get_origin(hint) is Literal:
        return chance.choice(get_args(hint))
    if hint == list[str]:
        return chance.choice([[], ["evidence"]])
    if hint in PLAIN:
        return chance.choice(PLAIN[hint])
    of = chance.choice(get_args(hint))
    return None if of is type(None) else _value(chance, name, of)


def _claim(chance: Random, name: str) -> c.AnyClaim:
    """A claim of this type that its schema allows, its fields from the pool."""
    cls = c.CLAIM_TYPES[name]
    hints = get_type_hints(cls)
    claim_id = chance.choice(["c1", "c2", *[str(chance.random()) for _ in range(4)]])
    known = {one.name: _value(chance, one.name, hints[one.name]) for one in fields(cls) if one.name != "claim_id"}
    return cls(claim_id=claim_id, **known)  # type: ignore[return-value]


TOPICS: tuple[ClaimTopic, ...] = (*TOPIC_ROLES, "UNKNOWN")
# What only the gate itself makes is left to the gate: it never makes up a timer or another partition's catalogue.
OUTSIDE = [name for name in c.CLAIM_TYPES if name not in c.ROLE_TYPES["GATE"]] + [
    "ResourceGranted", "ResourceDenied", "ResourceExpired",
]  # fmt: skip
# Most moves are about what there is, so that runs get somewhere: a verb, and a number that picks subject and details.
VERBS = (
    "transfer transfer accept accept assign serve serve promise retire seen "
    "dispatch dispatch dispatch prepared prepared commit commit settle settle settle abort doubt observe observe look "
    "look release override force succeed succeed plan satisfy reconcile approve advance advance advance anything "
    "misplace declare cancel close quarantine resolve resolve"
).split()
TIMES_MS = [1, 5_000, 31_000, 91_000, 700_000, 4_000_000, 90_000_000]
Move = tuple[str, int]
MOVES: st.SearchStrategy[Move] = st.tuples(st.sampled_from(VERBS), st.integers(0, 2**20))


def _play(court: Court, move: Move) -> None:
    verb, chance = move[0], Random(move[1])
    match verb:
        case "advance":
            court.advance(chance.choice(TIMES_MS))
        case "anything" | "misplace":
            claim = _claim(chance, chance.choice(OUTSIDE))
            topic = chance.choice(TOPICS)
            court.say(claim, HOME[type(claim).__name__] if verb == "anything" or topic == "gate" else topic)
        case "quarantine" if court.state.quarantines.get("outcomes/0/1") is None:
            court.quarantine(chance.choice([None, INTENT]), place="outcomes/0/1")
        case "quarantine" | "resolve":
            court.override("QUARANTINE", "outcomes/0/1", chance.choice(["DISMISSED", "REDRIVEN"]),
                           replacement=POOL["replacement"][0])  # fmt: skip
        case _:
            _about(court, verb, chance)


def _about(court: Court, verb: str, chance: Random) -> None:
    """A claim about something that there is."""
    operation = chance.choice([key for key, _ in court.state.rows("operations")] or ["nothing"])
    commitment = chance.choice([key for key, _ in court.state.rows("commitments")] or ["nothing"])
    step_id = chance.choice(STEPS)["step_id"]
    source = {"source": chance.choice(["record", "feed"]), "source_version": chance.choice([None, 1, 2, 3, 4])}
    match verb:
        case "dispatch" | "succeed":
            getattr(court, verb)(step_id)
        case "prepared":
            court.prepared(operation, worker=chance.choice(["w1", "w2"]))
        case "commit":
            court.commit(operation, attempt=chance.choice([1, 1, 2, 3]), external_id=chance.choice(["", "x", "y"]))
        case "settle":
            court.prepared(operation)
            court.commit(operation)
        case "abort":
            court.abort(operation, topic=chance.choice(["proposals", "outcomes"]), attempt=chance.choice([0, 0, 1, 2]),
                        proof=chance.choice([None, *get_args(c.Proof)]))  # fmt: skip
        case "doubt":
            court.in_doubt(operation)
        case "observe":
            court.observe(operation, chance.choice(get_args(c.Finding)),
                          proof=chance.choice([None, *get_args(c.Proof)]),
                          external_ids=chance.choice([[], ["x"], ["x", "y"]]), **source)  # fmt: skip
        case "look":
            court.observe_commitment(commitment, chance.choice(get_args(c.Finding)), **source)
        case "release" | "satisfy":
            token = chance.choice([court.token(commitment), court.token(commitment), 0])
            (court.release if verb == "release" else court.satisfied)(commitment, fencing_token=token)
        case "override":
            court.override("OPERATION", operation, chance.choice(POOL["to"]), external_id=chance.choice(["", "x"]))
        case "force":
            court.override("COMMITMENT", commitment, chance.choice(POOL["to"]))
        case "plan":
            plan_id = f"p{chance.randrange(9)}"
            court.plan(*chance.choice(POOL["steps"]), plan_id=plan_id, replaces=court.intent().plan_id,
                       commitments=chance.choice([[], [commitment]]))  # fmt: skip
        case "declare":
            court.declare(court.intent().version + chance.choice([0, 1, 1]), goals=chance.choice(POOL["goals"]))
        case "cancel" | "close":
            getattr(court, verb)()
        case "reconcile":
            court.reconcile(*chance.choice([("OPERATION", operation), ("COMMITMENT", commitment)]))
        case "transfer" | "accept" | "assign" | "serve" | "seen":
            _about_owners(court, verb, commitment, chance)
        case "promise":
            court.promise(chance.choice(["soon", "later"]), chance.choice(["customer:7", "customer:8"]),
                          owner_id=chance.choice(["", "", "team:ops"]))  # fmt: skip
        case "retire":
            court.retire(chance.choice(["service:x", "service:x", "team:ops", "person:ann", f"intent:{INTENT}"]))
        case "approve":
            court.approve("s5")
        case _:
            raise AssertionError(verb)


def _about_owners(court: Court, verb: str, commitment: str, chance: Random) -> None:
    """A claim about who has the commitment in hand, mostly with the token that is right."""
    target = chance.choice(POOL["target_owner"])
    held = court.state.custodies.get(commitment)
    token = chance.choice([court.token(commitment), court.token(commitment), 0, 1, 2])
    match verb:
        case "transfer":
            court.transfer(commitment, target, fencing_token=token)
        case "accept":
            asked = held.target_owner if held is not None and held.target_owner else target
            court.accept(commitment, chance.choice([asked, asked, target]), evidence=["receipt:1"])
        case "assign":
            court.assign(commitment, target, chance.choice(POOL["policy"]))
        case "serve":
            number = 0 if held is None else held.lease_token
            court.lease(commitment, chance.choice(["w1", "w2"]), chance.choice([0, number, 1]))
        case _:
            asked = held.target_owner if held is not None and held.target_owner else target
            court.observe_commitment(commitment, chance.choice(["PRESENT", "PENDING"]),
                                     owner_id=chance.choice([None, asked, target, f"intent:{INTENT}"]))  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(MOVES, min_size=10, max_size=60))
def test_any_claims_in_any_order_get_one_decision_each_and_leave_a_sound_state(moves: list[Move]) -> None:
    """The state is checked by the court after every decision, and the whole ledger by the checker that knows no law."""
    court = Court(varied())
    court.load()
    court.declare()
    court.plan(*STEPS)
    for move in moves:
        before = len(court.decisions)
        _play(court, move)
        assert len(court.decisions) >= before
    assert [one.seq for one in court.decisions] == list(range(1, len(court.decisions) + 1))
    assert snapshot(court.replayed()) == snapshot(court.state)
    assert check(court.decisions, raw=court.ledger) == []


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(c.CLAIM_TYPES)), st.sampled_from(TOPICS), st.integers(0, 2**20))
def test_any_claim_gets_a_decision_on_any_topic_over_an_empty_state(name: str, topic: ClaimTopic, number: int) -> None:
    court = Court(varied())
    decision = court.say(_claim(Random(number), name), topic)
    assert decision.seq == 1
    assert decision.verdict in ("ACCEPTED", "REJECTED", "REPLAYED")
