"""A broker that is away for longer than any deadline of ours, while claims keep coming: nothing is lost, or doubled."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from joingate.local_kafka import LocalKafka
from joingate_processors.gate.settings import GateSettings

AWAY_S = 70.0
PATIENCE_S = 180.0
INTENTS_A_SECOND = 40
UNDERWAY_MAX = 1_000


class Load:
    """Whole refunds up to their dispatch, at a steady pace, by a producer that is patient and repeats nothing."""

    def __init__(self, desk: Any, tools: Any) -> None:
        self._desk = desk
        self._tools = tools
        self._producer = Producer(
            {"bootstrap.servers": desk.bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True,
             "message.timeout.ms": 600_000, "linger.ms": 5}
        )  # fmt: skip
        self._stop = threading.Event()
        self.claim_ids: list[str] = []
        self.delivered = 0
        self.faults: list[KafkaError] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Within it, claims keep coming; at its end, all of them are delivered."""
        thread = threading.Thread(target=self._run, name="load", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.faults == []

    def _run(self) -> None:
        while not self._stop.is_set():
            if len(self._producer) < UNDERWAY_MAX:
                for claim in self._tools.refund(f"acme/load/{len(self.claim_ids)}")[:3]:
                    value, key = self._desk.codec.encode(claim), claim.intent_id.encode()
                    self._producer.produce(self._desk.topics.proposals, value, key, on_delivery=self._told)
                    self.claim_ids.append(claim.claim_id)
            self._producer.poll(1 / INTENTS_A_SECOND)

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.faults.append(error)


@pytest.mark.slow
@pytest.mark.parametrize("away", ["killed", "frozen"])
def test_a_gate_under_load_outlives_a_broker_that_is_away_for_longer_than_its_deadlines(
    away: str, make_desk: Callable[..., Any], tools: Any
) -> None:
    """Past the commit's deadline and the transaction's time-out: the writer is replaced, each claim is decided once."""
    with LocalKafka() as kafka:
        leave, come_back = (kafka.kill, kafka.restart) if away == "killed" else (kafka.pause, kafka.resume)
        desk = make_desk(servers=kafka.bootstrap_servers)
        settings: GateSettings = desk.settings()
        assert max(settings.commit_deadline_ms, settings.transaction_timeout_ms) < AWAY_S * 1000
        load = Load(desk, tools)
        with desk.gate() as gate, load.going_on():
            desk.await_claims(200)
            gone_at = time.monotonic()
            leave()
            # Of a broker that is gone the client tells; of one that hangs, the group that gives no place any more.
            said = "does not answer" if away == "killed" else "gives the gate no place"
            tools.wait_for(lambda: said in gate.status["sentence"], "the gate to say so", AWAY_S)
            # The outage's length is what is tried here: nothing can be waited for in its place.
            threading.Event().wait(max(0.0, gone_at + AWAY_S - time.monotonic()))
            assert gate.thread.is_alive()
            before = load.delivered
            come_back()
            tools.wait_for(lambda: load.delivered >= before + 200, "the load to go on", PATIENCE_S)
            tools.wait_for(
                lambda: gate.states() == ["RUNNING"] and not gate.status["sentence"], "all to be well again", PATIENCE_S
            )
        with desk.gate():  # what came last may have come when that gate had been told to stop
            ledger = desk.await_claims(len(load.claim_ids))
        decided = [one for one in ledger if one.topic != "gate"]
        assert Counter(one.claim_id for one in decided) == Counter(load.claim_ids)
        assert Counter(one.verdict for one in decided) == {"ACCEPTED": len(load.claim_ids)}
        commands = [one.record for one in desk.read(desk.topics.commands("teller"))]
        asked = Counter((one.intent_id, one.operation_id, one.attempt) for one in commands)
        assert set(asked.values()) == {1}
        assert len(asked) == sum(one.claim_type == "Dispatch" for one in decided)
        desk.verify()
