"""The room for one partition's transactional writer: it says what became of a transaction, in three words.

Committed: the call returns. `Aborted`: nothing of it will ever be seen, do it again. `WriterLost`: this writer may not
go on (another took over, or nobody knows how its last transaction ended), so it must be replaced and the state read
from the ledger. librdkafka's many errors become one of these here and nowhere else.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

Result = TypeVar("Result")
OnDelivery = Callable[[KafkaError | None, Message], None]

# What a single call may wait before we look again whether to go on.
_CALL_S_MAX = 5.0
_POSITIONS_S_MAX = 10.0
_LEAVING_S_MAX = 2.0  # who stops, or has given up, waits no longer than this for what is under way
_PAUSE_S = 0.1


class Aborted(RuntimeError):
    """The transaction was undone, for the reason in the text; the same work can be tried again."""


class WriterLost(RuntimeError):
    """The writer was fenced, broke, or left a transaction in doubt: replace it, and restore."""


class RecordTooLarge(RuntimeError):
    """A record is larger than any writer may write; the text says how large, and for which topic."""


class TransactionalProducer(Protocol):
    """What is needed of confluent-kafka's `Producer`."""

    def init_transactions(self, timeout: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float
    ) -> None: ...

    def commit_transaction(self, timeout: float) -> None: ...

    def abort_transaction(self, timeout: float) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> None: ...


class Writer:
    """A transactional producer whose calls either do what they say, or raise `Aborted` or `WriterLost`.

    `stopping` says whether to give up waiting for a broker that does not answer.
    """

    def __init__(
        self, producer: TransactionalProducer, name: str, deadline_ms: int, stopping: Callable[[], bool]
    ) -> None:
        self._producer = producer
        self._name = name
        self._deadline_s = deadline_ms / 1000
        self._stopping = stopping
        self.doubtful = False
        """Whether a transaction's end was unknown for a while: then replace the writer before the next one."""
        self.stuck = False
        """Whether a call never came back: then the producer must be left alone, not closed."""
        self._ahead: tuple[list[tuple[str, int, int]], Future[None]] | None = None
        self._hand_over = producer.produce

    def fence(self) -> None:
        """End whatever an earlier writer of this name left open, and lock it out. Raises `WriterLost`."""
        self._until_definite("take over as", self._producer.init_transactions)

    def begin(self) -> None:
        """Begin a transaction. Raises `WriterLost`."""
        self._until_definite("begin a transaction as", lambda _: self._producer.begin_transaction())

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, on_delivery: OnDelivery | None = None
    ) -> None:
        """Hand over a record of the running transaction. Raises BufferError when the queue is full, and `WriterLost`
        when the client takes none: it refuses them as soon as it knows that the transaction can't stand."""
        try:
            if on_delivery is None:
                self._hand_over(topic, value, key, partition)
            else:
                self._hand_over(topic, value, key, partition, on_delivery=on_delivery)
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                # No other writer could write it either: that is a fault of ours, and not this writer's.
                raise RecordTooLarge(f"{len(value or b'')} bytes for {topic}: {error.str()}") from exception
            raise WriterLost(f"{self._name} may hand over no record: {error.str()}") from exception

    def flush(self) -> None:
        """Wait until the broker has what was handed over. Raises `WriterLost` if it does not take it."""
        deadline = time.monotonic() + self._deadline_s
        try:
            while self._producer.flush(_PAUSE_S):
                if time.monotonic() > deadline or self._stopping():
                    raise WriterLost(f"{self._name}: the broker takes no records")
        except KafkaException as exception:
            raise WriterLost(f"{self._name} may hand over no record: {exception.args[0].str()}") from exception

    def produce_when_there_is_room(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, on_delivery: OnDelivery | None = None
    ) -> None:
        """Hand over a record although the queue was full. Raises `WriterLost` when it stays full."""
        deadline = time.monotonic() + self._deadline_s
        while True:
            self._producer.poll(_PAUSE_S)
            try:
                self.produce(topic, value, key, partition, on_delivery)
                return
            except BufferError as error:
                if time.monotonic() > deadline or self._stopping():
                    raise WriterLost(f"{self._name}: the broker takes no records ({error})") from error

    def commit(self, positions: list[TopicPartition], group: Callable[[], object]) -> None:
        """Commit the transaction with the group's `positions`. Raises `Aborted` or `WriterLost`."""
        try:
            self.send_positions(positions, group)
            self.end()
        except _MustAbort as error:
            self.abort()
            raise Aborted(str(error)) from error

    def send_positions_ahead(self, positions: list[TopicPartition], group: Callable[[], object]) -> None:
        """Begin to make the group's `positions` part of the transaction, while its records are still being made.

        What comes of it is heard by `commit`, which must be given the same ones.
        """
        send = self._producer.send_offsets_to_transaction
        self._ahead = _plain(positions), self._aside(lambda: send(positions, group(), _CALL_S_MAX))

    def send_positions(self, positions: list[TopicPartition], group: Callable[[], object]) -> None:
        """Make the group's `positions` part of the transaction."""
        send, ahead = self._producer.send_offsets_to_transaction, self._ahead
        self._ahead = None
        assert ahead is None or ahead[0] == _plain(positions), "a batch ends where its entries end"
        under_way = [ahead[1]] if ahead is not None else []

        def call(timeout: float) -> None:
            came = under_way.pop() if under_way else self._aside(lambda: send(positions, group(), timeout))
            self._come_back(came, _POSITIONS_S_MAX).result()

        self._until_definite("send positions as", call, abortable=True)

    def end(self) -> None:
        """Make everything in the transaction visible, at once."""
        self._until_definite("commit as", self._producer.commit_transaction, abortable=True, ends=True)

    def abort(self) -> None:
        """Undo the running transaction. Raises `WriterLost`."""
        self._until_definite("abort as", self._producer.abort_transaction)

    def let_go(self) -> None:
        """Wait for what is under way, so that the producer can be closed; `stuck` tells if that is in vain."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with suppress(WriterLost):
                self._come_back(ahead[1], _LEAVING_S_MAX)

    def _aside(self, call: Callable[[], None]) -> Future[None]:
        """Run `call` in a thread that can be left behind, since it may never come back: librdkafka keeps no time-out
        where positions are sent, and can wait for a group coordinator that has moved for ever (its issues 5456 and
        5511)."""
        came: Future[None] = Future()

        def run() -> None:
            try:
                call()
            except BaseException as error:
                came.set_exception(error)
            else:
                came.set_result(None)

        threading.Thread(target=run, name=f"positions of {self._name}", daemon=True).start()
        return came

    def _come_back(self, came: Future[None], patience_s: float) -> Future[None]:
        """Wait for what runs aside. Raises `WriterLost` if it does not end."""
        since = time.monotonic()
        while not wait([came], _PAUSE_S).done:
            if time.monotonic() - since > (_LEAVING_S_MAX if self._stopping() else patience_s):
                self.stuck = True
                raise WriterLost(f"{self._name}: sending positions does not come back")
        return came

    def _until_definite(
        self, doing: str, call: Callable[[float], None], *, abortable: bool = False, ends: bool = False
    ) -> None:
        """Repeat `call` until it succeeds or fails for good, up to the deadline.

        `abortable`: a failure may ask for an abort. `ends`: the call ends the transaction, so that not knowing whether
        it did makes this writer doubtful.
        """
        deadline = time.monotonic() + self._deadline_s
        while True:
            try:
                call(_CALL_S_MAX)
                return
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                said = f"could not {doing} {self._name}: {error.str()}"
                if error.txn_requires_abort() and abortable:
                    raise _MustAbort(said) from exception
                if error.fatal() or not error.retriable():
                    raise WriterLost(said) from exception
                self.doubtful = self.doubtful or ends
                if time.monotonic() > deadline or self._stopping():
                    raise WriterLost(f"{said} (for {self._deadline_s:.0f} s)") from exception
            self._producer.poll(_PAUSE_S)


class _MustAbort(RuntimeError):
    """librdkafka's word for: abort this transaction, and try again."""


def _plain(positions: list[TopicPartition]) -> list[tuple[str, int, int]]:
    """The positions as values: two `TopicPartition` are equal whatever their offsets."""
    return [(one.topic, one.partition, one.offset) for one in positions]


def positions_of(topics: Sequence[tuple[str, str]], partition: int, inputs: dict[str, int]) -> list[TopicPartition]:
    """The partition's `inputs` as Kafka wants them; `topics` pairs short names with full ones."""
    return [TopicPartition(full, partition, inputs[short]) for short, full in topics]
