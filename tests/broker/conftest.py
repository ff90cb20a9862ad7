"""Everything in this folder needs a real Kafka, so it is marked `broker` here rather than file by file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from joingate_processors.gate.transactions import Writer
from joingate_processors.gate.writers import transactional_writer

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder only: pytest hands every collected test to this hook."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)


class _Refusing:
    """A producer whose transaction has failed by when the first record for `topic` is handed over, amid a batch."""

    def __init__(self, producer: Producer, topic: str, refused: list[str]) -> None:
        self._producer, self._topic, self._refused = producer, topic, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, *record: Any, **more: Any) -> None:
        if topic == self._topic and not self._refused:
            self._refused.append(topic)
            raise KafkaException(KafkaError(KafkaError._STATE, "the transaction has failed"))
        self._producer.produce(topic, *record, **more)


@pytest.fixture
def refuse_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[str]]:
    """Have the writers that a room (gate or arbiter) makes refuse one record for a topic; gives what was refused."""

    def refuse(room: Any, topic: str) -> list[str]:
        refused: list[str] = []

        def writer_of(
            settings: Any, name: str, stopping: Callable[[], bool], log: logging.Logger
        ) -> tuple[Producer, Writer]:
            producer, _ = transactional_writer(settings, name, stopping, log)
            refusing = _Refusing(producer, topic, refused)
            return producer, Writer(refusing, name, settings.commit_deadline_ms, stopping)

        monkeypatch.setattr(room, "transactional_writer", writer_of)
        return refused

    return refuse
