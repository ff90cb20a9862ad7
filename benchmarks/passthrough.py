"""The limit: the same bytes from one topic to another in transactions, with nothing decoded, decided or stored."""

from confluent_kafka import Consumer, Producer, TopicPartition

BATCH = 5_000


def run(bootstrap: str, source: str, sink: str, count: int) -> None:
    """Copy `count` records of `source` to `sink`, exactly once, `BATCH` a transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"{sink}-copy", "isolation.level": "read_committed",
            "enable.auto.commit": False, "queued.min.messages": 200_000, "queued.max.messages.kbytes": 262_144,
        }
    )  # fmt: skip
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "transactional.id": f"{sink}-copy", "linger.ms": 5,
            "compression.type": "lz4", "queue.buffering.max.messages": 2_000_000,
        }
    )  # fmt: skip
    producer.init_transactions()
    consumer.assign([TopicPartition(source, 0, 0)])
    done = 0
    while done < count:
        messages = consumer.consume(min(BATCH, count - done), 10)
        if not messages:
            raise RuntimeError(f"{source} gave {done} of {count} records.")
        producer.begin_transaction()
        for message in messages:
            producer.produce(sink, message.value(), key=message.key())
        done += len(messages)
        producer.send_offsets_to_transaction([TopicPartition(source, 0, done)], consumer.consumer_group_metadata())
        producer.commit_transaction()
    consumer.close()
