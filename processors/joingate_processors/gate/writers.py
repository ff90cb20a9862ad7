"""The room where a partition's transactional producer is made, alike for the gate and the arbiter."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from confluent_kafka import KafkaException, Producer

from joingate_processors.gate.transactions import Writer
from joingate_schemas.topics import RECORD_BYTES_MAX


class WriterSettings(Protocol):
    """What a writer needs to be told."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client(self) -> Mapping[str, str | int | float | bool]: ...

    @property
    def transaction_timeout_ms(self) -> int: ...

    @property
    def commit_deadline_ms(self) -> int: ...


def transactional_writer(
    settings: WriterSettings, name: str, stopping: Callable[[], bool], log: logging.Logger
) -> tuple[Producer, Writer]:
    """A producer whose transactional id is `name`, and the writer over it; nobody is fenced yet."""
    producer = Producer(
        {
            **settings.client,
            "bootstrap.servers": settings.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": settings.transaction_timeout_ms,
            # The broker is busy ending a transaction for a millisecond or two when the next one calls: with the
            # client's own back-off of 100 ms, every other transaction would take that long.
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 100,
            "linger.ms": 5,  # within a transaction only: its commit sends what is left at once
            "compression.type": "lz4",
            "message.max.bytes": RECORD_BYTES_MAX,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
        },
        logger=log,
    )
    return producer, Writer(producer, name, settings.commit_deadline_ms, stopping)


def discard(producer: Producer, writer: Writer) -> None:
    """Let go of a producer; what it did not commit is undone. One whose call never came back is left alone."""
    writer.let_go()
    if not writer.stuck:
        producer.purge()
        # The flush takes note of what was purged. A producer that was fenced says so here once more: that is why it
        # is let go, and nothing is left to be done about it.
        with suppress(KafkaException):
            producer.flush(0)
        producer.close()
