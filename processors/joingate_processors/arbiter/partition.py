"""The room for one partition of the arbiter: takes it over, decides its messages in transactions, and lets it go.

The ledger is the only truth: each message leads to exactly one record of it, which names the message's offset. So the
state, and where to read on, are what the ledger folds to, and whatever goes wrong ends in taking them from there again:
from the changelog's rows and what the ledger has beyond them, or from the whole ledger.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from joingate_processors.arbiter.changelog import MARKER_KEY, Marker, changes, row_key
from joingate_processors.arbiter.judge import Heard, fold, judge, lease_passed
from joingate_processors.arbiter.outgoing import answer
from joingate_processors.arbiter.restore import Restore
from joingate_processors.arbiter.settings import ArbiterSettings
from joingate_processors.arbiter.state import ArbiterState, HoldKey
from joingate_processors.gate.clock import BrokerClock
from joingate_processors.gate.logs import Halted, Logs
from joingate_processors.gate.transactions import Aborted, OnDelivery, Writer, WriterLost
from joingate_processors.gate.writers import discard, transactional_writer
from joingate_schemas.arbitration import ArbiterDecision, Extend, Free, Quarantine, Reserve
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import Topics, partition_for

log = logging.getLogger("joingate.arbiter")

_REWRITE_CHUNK = 10_000
_BY_KEY = -1  # librdkafka's word for: the partitioner chooses the partition, by the key
_CANARY_KEY = b"\x00canary"
_MESSAGES = (Reserve, Extend, Free, Quarantine)


class ArbiterPartition:
    """One partition number of `resource-claims` and of the arbiter's ledger."""

    def __init__(
        self,
        number: int,
        settings: ArbiterSettings,
        topics: Topics,
        codec: Codec,
        group: Callable[[], object],
        stopping: Callable[[], bool],
    ) -> None:
        """`group` gives the consumer group's present metadata; `stopping` says whether to give up waiting."""
        self.number = number
        self._settings = settings
        self._topics = topics
        self._codec = codec
        self._group = group
        self._stopping = stopping
        self._producer: Producer | None = None
        self._writer: Writer | None = None
        self.clock = BrokerClock(settings.max_skew_ms)
        self._stamp: tuple[tuple[int, int], int] | None = None
        self.state = ArbiterState()
        self._ledger_offset = 0  # of a ledger record that the state has, near its end
        self._first_offset: int | None = None  # of the running transaction's first ledger record
        self.epoch = 0
        self.position = 0
        """The offset of the message to be decided next."""

    # --- taking over

    def open(self) -> None:
        """Fence earlier writers and restore. Raises `WriterLost` (try again), `Halted` or `ClockOff` (a person must
        look), or `Stopping`."""
        self.close()
        name = self._settings.transactional_id(self.number)
        self._producer, self._writer = transactional_writer(self._settings, name, self._stopping, log)
        self._writer.fence()
        self._ask_the_time(self._writer)
        logs = Logs(self._settings, self._stopping)
        restored = Restore(self.number, self._topics, logs, self._codec).run()
        self.state, self._ledger_offset = restored.state, restored.ledger_offset
        self.state.touched.clear()
        self.epoch = self.state.header.epoch + 1
        self.position = self._checked_position(logs)
        if restored.stale:
            log.warning("Partition %s: the changelog is written anew: %s.", self.number, restored.stale)
            self._rewrite_changelog(self._writer, restored.keys)

    def _ask_the_time(self, writer: Writer) -> None:
        """Hand over a record and undo it: the broker's stamp on it tells the broker's time, and nobody reads it."""
        writer.begin()
        writer.produce(self._topics.resource_ledger, b"", _CANARY_KEY, self.number, on_delivery=self._stamped())
        writer.flush()
        writer.abort()
        self._take_time()

    def _checked_position(self, logs: Logs) -> int:
        """Where to read on, having seen that the topic still has what was not decided yet."""
        place = (self._topics.resource_claims, self.number)
        start, end = logs.starts([place])[place], logs.ends([place])[place]
        said = self.state.header.next_offset
        position = start if said is None else said
        if not start <= position <= end:
            raise Halted(
                f"{place[0]}[{self.number}] goes from {start} to {end}, and the arbiter's ledger has come to "
                f"{position}: messages were deleted before they were decided, or the topic was made anew. Compare the "
                "two before anything goes on."
            )
        return position

    # --- transactions

    def next_due(self) -> int | None:
        """When the next lease is over (broker's ms), or None."""
        return self.state.next_due()

    def wants_to_tell(self) -> bool:
        """Whether a lease is over by now."""
        due, now = self.next_due(), self.clock.now()
        return due is not None and now is not None and due <= now

    def decide(self, messages: Sequence[Message]) -> None:
        """Decide `messages` in order, or where there are none, on leases that are over, in one transaction.

        Leases wait while there are messages: those may renew or end them. Raises `WriterLost`, after which it must be
        opened anew, since what was folded may not have become true; and `Halted` on a fault of ours.
        """
        writer = self._writer
        assert writer is not None, "the partition is open"
        with self._transaction(writer):
            if messages:
                for message in messages:
                    self._hear(writer, message)
            else:
                self._tell(writer)
            self._write_changes(writer, self.state.touched)
            self._write_marker(writer)
        self.state.touched.clear()
        if self._first_offset is not None:
            self._ledger_offset = self._first_offset

    @contextmanager
    def _transaction(self, writer: Writer) -> Iterator[None]:
        """What is written within it stands or falls together. Raises `WriterLost`."""
        try:
            self._first_offset = None
            writer.begin()
            yield
            # 1. Records, answers and rows are handed over. A crash: an open transaction, which whoever takes over
            #    aborts. 2. The group's offset: a worker whose partition was given away fails here. 3. The commit: a
            #    crash before it as in 1; after it, the ledger says how far the messages were decided, and they are not
            #    read again.
            place = TopicPartition(self._topics.resource_claims, self.number, self.position)
            writer.commit([place], self._group)
            self._take_time()
        except Aborted as error:
            raise WriterLost(f"a transaction was undone and is done again: {error}") from error
        except RegistryUnavailable as error:
            raise WriterLost(f"the schema registry does not answer ({error})") from error
        if writer.doubtful:
            raise WriterLost("the end of a transaction was unknown for a while, so that its writer is replaced")

    def _write_changes(self, writer: Writer, keys: Iterable[HoldKey]) -> None:
        for key, value in changes(self.state, keys):
            self._send(writer, self._topics.arbiter_changelog, value, key, self.number)

    def _write_marker(self, writer: Writer) -> None:
        """Say what the rows are rows of; the last record of its transaction."""
        state = self.state
        marker = Marker(state.header, state.gates, len(state.marks), self._ledger_offset)
        self._send(writer, self._topics.arbiter_changelog, marker.to_bytes(), MARKER_KEY, self.number)

    def _rewrite_changelog(self, writer: Writer, surplus: Iterable[bytes]) -> None:
        """Make it hold the state's rows and no others; `surplus` are the keys that it has. Until all are there it has
        no marker, so that whoever takes over meanwhile begins again."""
        topic, keys = self._topics.arbiter_changelog, list(self.state.marks)
        with self._transaction(writer):
            self._send(writer, topic, None, MARKER_KEY, self.number)
            for key in set(surplus).difference(map(row_key, keys)):
                self._send(writer, topic, None, key, self.number)
        for start in range(0, len(keys), _REWRITE_CHUNK):
            with self._transaction(writer):
                self._write_changes(writer, keys[start : start + _REWRITE_CHUNK])
        with self._transaction(writer):
            self._write_marker(writer)

    def _hear(self, writer: Writer, message: Message) -> None:
        offset, (_, appended_at) = message.offset(), message.timestamp()
        assert offset is not None, "a record that was read has an offset"
        if offset < self.position:
            return
        heard = self._heard(message, offset, appended_at)
        self._write(writer, judge(self.state, heard, self.epoch), message.key() or b"")
        self.position = offset + 1

    def _heard(self, message: Message, offset: int, appended_at: int) -> Heard:
        raw, key = message.value() or b"", message.key() or b""
        kept = raw[: self._settings.message_bytes_max]
        try:
            found = self._codec.decode(raw)
        except Undecodable as error:
            return Heard(None, kept, offset, appended_at, error.problem, error.detail)
        if not isinstance(found, _MESSAGES):
            return Heard(None, kept, offset, appended_at, "UNREADABLE", f"a {type(found).__name__} is no message to "
                         "the arbiter")  # fmt: skip
        belongs = partition_for(found.resource_ref.encode(), self._settings.partitions)
        if key != found.resource_ref.encode() or belongs != self.number:
            # Decided here and there, one resource would have two holders.
            return Heard(None, kept, offset, appended_at, "WRONG_PARTITION",
                         f"{found.resource_ref} belongs on partition {belongs}, under its own key")  # fmt: skip
        return Heard(found, raw, offset, appended_at)

    def _tell(self, writer: Writer) -> None:
        now = self.clock.now()
        assert now is not None, "taking over told the time"
        left = self._settings.batch_max
        while left and (hold := self.state.due(now)) is not None:
            self._write(writer, lease_passed(self.state, hold, now, self.epoch), hold["resource_ref"].encode())
            left -= 1

    def _write(self, writer: Writer, decision: ArbiterDecision, key: bytes) -> None:
        raw = self._codec.encode(decision)
        fold(self.state, decision, hashlib.sha256(raw).digest())
        self._send(writer, self._topics.resource_ledger, raw, key, self.number, self._stamped(record=True))
        told = answer(decision)
        if told is not None:
            self._send(
                writer, self._topics.resource_verdicts, self._codec.encode(told), told.intent_id.encode(), _BY_KEY
            )

    @staticmethod
    def _send(
        writer: Writer, topic: str, value: bytes | None, key: bytes, partition: int, heard: OnDelivery | None = None
    ) -> None:
        try:
            writer.produce(topic, value, key, partition, on_delivery=heard)
        except BufferError:
            writer.produce_when_there_is_room(topic, value, key, partition, heard)

    def _stamped(self, *, record: bool = False) -> OnDelivery:
        """Note the broker's stamp on a record that is handed over now, once it is there; where it lies, of a `record`
        of the ledger."""
        marked = self.clock.mark()

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._stamp = marked, message.timestamp()[1]
                if record and self._first_offset is None:
                    self._first_offset = message.offset()

        return heard

    def _take_time(self) -> None:
        """Learn the broker's time from the latest stamp. Raises `ClockOff`."""
        stamp, self._stamp = self._stamp, None
        if stamp is not None:
            self.clock.sample(*stamp)

    # --- letting go

    def close(self) -> None:
        """Let go of the writer; what was not committed is undone."""
        producer, self._producer = self._producer, None
        if producer is not None and self._writer is not None:
            discard(producer, self._writer)
