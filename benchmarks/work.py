"""The common work: claims of many small intents, and how fast an output topic filled.

Each intent lives its whole life: DeclareIntent, Plan (one reversible step, so one phase), Dispatch; the executor's
Commit; then Succeed and Close. All peers read the same bytes. For the gate they lie on the topics of their roles, in
waves of intents: a wave's Commits are appended after its Dispatches and before its Succeeds, as in life.
"""

import json
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_json
from joingate_schemas.claims import AnyClaim, Close, Commit, DeclareIntent, Dispatch, Plan, PlanStep, Succeed
from joingate_schemas.codec import Codec
from joingate_schemas.ids import operation_id

_STEP: PlanStep = {
    "step_id": "s1", "action": "write_file", "business_key": "report.txt", "arguments": {}, "goal_id": None,
    "edges": [], "parallel": False, "commitments": [],
}  # fmt: skip


CLAIMS_PER_INTENT = 6
WAVE = 2_000
"""Intents whose claims are under way together: a second of them or less, as short as executors mostly take."""


def catalogue() -> Catalogue:
    """The built-in catalogue with patience: no executor is silent, its Commit only lies further on in the topic."""
    form = json.loads(builtin_catalogue().source)
    form["actions"]["write_file"]["silence_ms"] = 3_600_000
    return catalogue_from_json(json.dumps(form, sort_keys=True, separators=(",", ":")).encode())


def planner_claims(number: int, at: int) -> list[AnyClaim]:
    """How the planner begins the intent `number`, stamped `at` (ms)."""
    intent_id = f"acme/report/{number:08d}"
    return [
        DeclareIntent(claim_id=f"d{number}", intent_id=intent_id, principal="bench", occurred_at=at, version=1,
                      tenant="acme", objective="write the report", goals=[]),
        Plan(claim_id=f"p{number}", intent_id=intent_id, principal="bench", occurred_at=at, intent_version=1,
             plan_id="p1", steps=[_STEP], commitments=[]),
        Dispatch(claim_id=f"x{number}", intent_id=intent_id, principal="bench", occurred_at=at, intent_version=1,
                 plan_id="p1", step_id="s1"),
    ]  # fmt: skip


def executor_claims(number: int, at: int) -> list[AnyClaim]:
    """What the executor reports of the intent `number`, stamped `at` (ms)."""
    intent_id = f"acme/report/{number:08d}"
    operation = operation_id(intent_id, "write_file", "report.txt", 1)
    return [
        Commit(claim_id=f"c{number}", intent_id=intent_id, principal="bench", occurred_at=at, operation_id=operation,
               attempt=1, external_id="file-1", evidence=["ev:1"])
    ]  # fmt: skip


def closing_claims(number: int, at: int) -> list[AnyClaim]:
    """How the planner ends the intent `number`, stamped `at` (ms)."""
    intent_id = f"acme/report/{number:08d}"
    return [
        Succeed(claim_id=f"s{number}", intent_id=intent_id, principal="bench", occurred_at=at, intent_version=1,
                plan_id="p1", step_id="s1", evidence=[]),
        Close(claim_id=f"e{number}", intent_id=intent_id, principal="bench", occurred_at=at, intent_version=1,
              plan_id="p1", outcome="written"),
    ]  # fmt: skip


def waves(intents: int, wave: int, at: int, planner: str, executor: str) -> Iterator[tuple[str, list[AnyClaim]]]:
    """The claims of so many intents, in the order of their lives, with the topic that each run of them belongs on."""
    for start in range(0, intents, wave):
        numbers = range(start, min(start + wave, intents))
        for topic, claims_of in ((planner, planner_claims), (executor, executor_claims), (planner, closing_claims)):
            yield topic, [claim for number in numbers for claim in claims_of(number, at)]


def fill(bootstrap: str, runs: Iterable[tuple[str, list[AnyClaim]]], codec: Codec) -> None:
    """Append each run of claims to its topic, keyed by intent, a run only after the one before has arrived."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4",
            "partitioner": "murmur2_random", "queue.buffering.max.messages": 2_000_000,
        }
    )  # fmt: skip
    for topic, claims in runs:
        for claim in claims:
            producer.produce(topic, codec.encode(claim), key=claim.intent_id.encode())
        left = producer.flush(60)
        if left:
            raise RuntimeError(f"{left} of {len(claims)} claims did not reach {topic} within a minute.")


def make_topics(bootstrap: str, names: list[str]) -> None:
    """Plain topics of one partition whose records carry the time at which the broker appended them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, 1, -1, config={"message.timestamp.type": "LogAppendTime"}) for name in names]
    for future in admin.create_topics(wanted).values():
        future.result()


def committed_rate(bootstrap: str, topic: str, start: int, count: int) -> float:
    """Records a second with which `count` committed records after the first `start` were appended.

    Both ends are append times of records in the topic, so neither start-up nor the reader is in the figure.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "bench-rate", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.max.bytes": 50_000_000,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, first, last = 0, 0, 0
    while seen < start + count:
        batch = consumer.consume(10_000, 30)
        if not batch:
            raise RuntimeError(f"{topic} holds {seen} committed records, {start + count} were to come.")
        for message in batch:
            if message.error() is not None:
                raise RuntimeError(f"reading {topic}: {message.error()}")
            seen += 1
            at = message.timestamp()[1]
            if seen == start + 1:
                first = at
            if seen == start + count:
                last = at
    consumer.close()
    return count / max(last - first, 1) * 1000
