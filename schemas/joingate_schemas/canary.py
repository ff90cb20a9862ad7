"""The room for the start-up canary: refuses a broker, or a client library, that shows what was aborted (case C16).

Everything that we promise rests on read_committed. Emulators and old clients have been seen to leak, depending on
compression and on how records share a fetch, so it is tried out, on the very broker and client, before any work.
"""

import time
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

# The library's stubs do not mark NewTopic as exported, although its documentation takes it from here.
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from joingate_schemas.topics import PASSING_FAULTS, ClientSettings, Topics

TIMEOUT_S = 30.0
_HOUR_MS = 3_600_000
_ABORTED, _COMMITTED = b"aborted", b"committed"


class LeakyBroker(RuntimeError):
    """An aborted record was shown to a reader of committed ones: nothing may run on this broker and client."""


class CanaryFailed(RuntimeError):
    """The canary could not be flown, so that nothing is known; the text says what stood in its way."""


def fly_canary(
    bootstrap: str, topics: Topics, *, compression: str = "none", client: ClientSettings | None = None
) -> None:
    """Write and abort a record, abort an empty transaction, commit a record, and read back what is committed.

    On a topic of its own (`<prefix>canary`, an hour's retention), which is created if need be. `compression` is a
    codec of the producer. Raises LeakyBroker when the aborted record shows, and CanaryFailed when it can't be tried.
    """
    topic = topics.prefix + "canary"
    run = uuid4().hex.encode()
    try:
        _create(bootstrap, topic, client or {})
        start = _write(bootstrap, topic, run, compression, client or {})
        _read_back(bootstrap, topic, start, run, client or {})
    except (KafkaException, TimeoutError) as error:
        raise CanaryFailed(f"The start-up canary could not be tried on {topic} at {bootstrap}: {error!r}.") from error


def _create(bootstrap: str, topic: str, client: ClientSettings) -> None:
    admin = AdminClient({**client, "bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, 1, -1, config={"retention.ms": str(_HOUR_MS)})
    try:
        future = admin.create_topics([wanted], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[topic]
        future.result(timeout=2 * TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _write(bootstrap: str, topic: str, run: bytes, compression: str, client: ClientSettings) -> int:
    """The three transactions; returns the offset of the aborted record."""
    producer = Producer(
        {
            **client,
            "bootstrap.servers": bootstrap,
            # Of this run alone: two processes that start together must not fence each other.
            "transactional.id": f"{topic}-{run.decode()}",
            "compression.codec": compression,
        }
    )
    offsets: list[int] = []
    faults: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            faults.append(error)
        else:
            offsets.append(message.offset() or 0)

    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    # Long enough, and alike enough, that every codec really compresses it.
    producer.produce(topic, _ABORTED * 100, run, on_delivery=delivered)
    # Aborting discards what was not sent yet: only a record that lies in the log tries anything out.
    if producer.flush(TIMEOUT_S) or faults:
        why = str(faults[0]) if faults else f"no answer within {TIMEOUT_S:.0f} s"
        raise CanaryFailed(f"The start-up canary could not write to {topic} at {bootstrap}: {why}.")
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, _COMMITTED * 100, run)
    producer.commit_transaction(TIMEOUT_S)
    return offsets[0]


def _read_back(
    bootstrap: str, topic: str, start: int, run: bytes, client: ClientSettings, isolation: str = "read_committed"
) -> None:
    """Read from the aborted record on, until this run's committed one has come."""
    consumer = Consumer(
        {
            **client,
            "bootstrap.servers": bootstrap,
            "group.id": topic,  # required by the library; nothing is committed, nothing is joined
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None:
                break
            fault = message.error()
            if fault is not None and fault.code() in PASSING_FAULTS:
                continue
            if fault is not None:
                raise CanaryFailed(f"The start-up canary could not read {topic} at {bootstrap}: {fault}.")
            if message.key() != run:
                continue
            if message.value() == _COMMITTED * 100:
                return
            raise LeakyBroker(
                f"The broker at {bootstrap}, or this client library, shows records of aborted transactions (offset "
                f"{message.offset()} of {topic}): use Apache Kafka itself and a current librdkafka, not an emulator."
            )
    finally:
        consumer.close()
    raise CanaryFailed(
        f"The start-up canary read no committed record from {topic} at {bootstrap} in {TIMEOUT_S:.0f} s."
    )
