"""The room for finding out whose open transaction holds a partition back: the client library has no call for it.

Asks the partition's leader with Kafka's DescribeProducers (key 61, version 0), over a plain socket. Where the listener
wants TLS or SASL it finds nothing, and the status does without: it is told to people, and nothing decides on it.
"""

import socket
import struct
from io import BytesIO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 2.0
_DESCRIBE_PRODUCERS = 61
_ANSWER_BYTES_MAX = 1 << 20


def open_transaction(admin: AdminClient, topic: str, partition: int) -> int | None:
    """The producer id of the oldest open transaction on the partition; None if there is none, or nobody says."""
    try:
        metadata = admin.list_topics(topic, timeout=_TIMEOUT_S)
        leader = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        with socket.create_connection((leader.host, leader.port), _TIMEOUT_S) as connection:
            connection.sendall(_request(topic, partition))
            return _oldest(BytesIO(_answer(connection)))
    except (OSError, KafkaException, KeyError, ValueError, struct.error):
        return None


def _request(topic: str, partition: int) -> bytes:
    name = topic.encode()
    client = b"joingate"
    body = (
        struct.pack(">hhih", _DESCRIBE_PRODUCERS, 0, 1, len(client)) + client + b"\0"
        + b"\x02" + _varint(len(name) + 1) + name + b"\x02" + struct.pack(">i", partition) + b"\0\0"
    )  # fmt: skip
    return struct.pack(">i", len(body)) + body


def _answer(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 < size <= _ANSWER_BYTES_MAX:
        raise ValueError("that is no answer of a broker")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ValueError("the broker closed the connection")
        found += more
    return found


def _oldest(answer: BytesIO) -> int | None:
    """The producer with the lowest start of a transaction, of the one partition that the answer is about."""
    answer.read(4 + 1 + 4 + 1)  # correlation, tags, throttle time, one topic
    answer.read(_read_varint(answer) - 1)  # its name
    answer.read(1 + 4)  # one partition, its number
    (error,) = struct.unpack(">h", answer.read(2))
    if error:
        return None
    answer.read(max(0, _read_varint(answer) - 1))  # its message
    found = []
    for _ in range(_read_varint(answer) - 1):
        producer, _, _, _, _, start = struct.unpack(">qiiqiq", answer.read(36))
        answer.read(1)
        if start >= 0:
            found.append((start, producer))
    return min(found)[1] if found else None


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(answer: BytesIO) -> int:
    value = shift = 0
    while True:
        byte = answer.read(1)
        if not byte:
            raise ValueError("the answer ends too early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7
