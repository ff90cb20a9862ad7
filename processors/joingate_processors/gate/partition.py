"""The room for one owned partition: takes it over, runs its transactions, and lets it go.

One writer at a time: taking over fences whoever wrote before, and only then is the state restored. One transaction at
a time: decide, write, commit in Kafka, and then in the store. Whatever goes wrong in between, Kafka knows which of it
happened, and the state follows Kafka.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from confluent_kafka import KafkaError, Message, Producer

from joingate_processors.gate.changelog import (
    CANARY_KEY,
    MARKER_KEY,
    Marker,
    left_over,
    pack_key,
    packed,
    row_prefix,
)
from joingate_processors.gate.clock import BrokerClock
from joingate_processors.gate.docket import Docket, Entry, Law, positions_after
from joingate_processors.gate.heard import Heard
from joingate_processors.gate.intake import Intake
from joingate_processors.gate.logs import Halted, Logs
from joingate_processors.gate.restore import Restore, Restored
from joingate_processors.gate.settings import GateSettings
from joingate_processors.gate.store import Position, RocksState, StoreError, state_layout
from joingate_processors.gate.tables import Change
from joingate_processors.gate.taking_up import undischargeable
from joingate_processors.gate.transactions import Aborted, OnDelivery, WriterLost, positions_of
from joingate_processors.gate.writers import discard, transactional_writer
from joingate_schemas.codec import Codec
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import Topics

log = logging.getLogger("joingate.gate")

ABORTS_MAX = 8
"""How many times in a row a transaction is tried before its partition halts."""

_REWRITE_CHUNK = 10_000
_PAUSE_S_MAX = 2.0
_STORE_WAIT_S = 10.0


class Partition:
    """One partition number over all intake topics and the ledger.

    `open` may be called in another thread than the rest; all else belongs to the thread of the gate's loop, but for
    `end`, of which those of several partitions may run side by side.
    """

    def __init__(
        self,
        number: int,
        settings: GateSettings,
        topics: Topics,
        codec: Codec,
        law: Law,
        group: Callable[[], object],
        stopping: Callable[[], bool],
    ) -> None:
        """`group` gives the consumer group's present metadata; `stopping` says whether to give up waiting."""
        self.number = number
        self._settings = settings
        self._topics = topics
        self._codec = codec
        self._law = law
        self._group = group
        self._stopping = stopping
        self._intake = [(topics.short(full), full) for full in topics.intake]
        self._prefix = row_prefix()
        self.clock = BrokerClock(settings.max_skew_ms)
        self.position = Position()
        self.epoch = 0
        self.next_due: int | None = None
        self._packed = self._forgotten = 0  # as the changelog's markers count them
        self._producer: Producer | None = None
        self._state: RocksState | None = None
        self._entries: Sequence[Entry] = ()

    # --- taking over

    def open(self) -> None:
        """Fence earlier writers, restore, and write the first transaction of a new epoch.

        Raises `WriterLost` (try again), `Halted`, `StoreError` and `ClockOff` (a person must look), `Stopping`.
        """
        self._discard_writer()
        name = self._settings.transactional_id(self.number)
        self._producer, self._writer = transactional_writer(self._settings, name, self._stopping, log)
        self._writer.fence()
        self._write_canary()
        logs = Logs(self._settings, self._stopping)
        if self._state is None:
            self._state = self._open_store()
        else:
            self._state.drop()
        restored = Restore(self._state, self.number, self._topics, logs, self._law.fold, self._codec.decode).run()
        self.position = replace(restored.position, layout=state_layout(), inputs=self._checked_inputs(restored, logs))
        self.epoch = self.position.epoch + 1
        self._packed, self._forgotten = restored.packed, restored.forgotten
        self.heard = Heard(self.position.inputs)
        self._docket = self._new_docket()
        if restored.stale_changelog:
            log.warning("Partition %s: the changelog is rewritten: %s.", self.number, restored.stale_changelog)
            self._rewrite_changelog(logs)
        self._first_transactions()

    def _open_store(self) -> RocksState:
        """The store, waited for a little: whoever had the partition on this machine may just be letting it go."""
        path = self._settings.data_dir / str(self.number)
        deadline = time.monotonic() + _STORE_WAIT_S
        while True:
            try:
                return RocksState(path, self._settings.cache_rows)
            except StoreError:
                if time.monotonic() > deadline or self._stopping():
                    raise
            time.sleep(_STORE_WAIT_S / 100)

    def _write_canary(self) -> None:
        """Write a record and abort it: if reading the changelog shows it, nobody's reading can be believed."""
        self._writer.begin()
        self._writer.produce(self._topics.changelog, b"aborted", CANARY_KEY, self.number)
        self._writer.flush()
        self._writer.abort()

    def _checked_inputs(self, restored: Restored, logs: Logs) -> dict[str, int]:
        """Where to read each intake topic on, having seen that it still has what was not decided yet.

        These positions are the state's own and win over the group's offsets, which may expire or be reset by hand.
        """
        places = {short: (full, self.number) for short, full in self._intake}
        starts, ends = logs.starts(places.values()), logs.ends(places.values())
        inputs = {}
        for short, place in places.items():
            offset = restored.position.inputs.get(short)
            inputs[short] = starts[place] if offset is None else offset
            if inputs[short] < starts[place]:
                raise Halted(
                    f"{place[0]}[{self.number}] begins at {starts[place]}, and the gate has read up to "
                    f"{inputs[short]}: claims between were deleted before they were decided. Lengthen the topic's "
                    "retention, and have their senders send them again under a new prefix."
                )
            if inputs[short] > ends[place]:
                raise Halted(
                    f"{place[0]}[{self.number}] ends at {ends[place]}, and the gate has read up to "
                    f"{inputs[short]}: the topic was cut or made anew, so its offsets mean something else now."
                )
        return inputs

    def _new_docket(self) -> Docket:
        settings = self._settings
        intake = Intake(self._codec.decode, self.number, settings.partitions, settings.claim_bytes_max)
        return Docket(
            self.number, self.state, self._writer, self.epoch, law=self._law, catalogue=settings.catalogue,
            codec=self._codec, topics=self._topics, intake=intake, on_first=self._on_first,
        )  # fmt: skip

    @property
    def state(self) -> RocksState:
        """The partition's state; there is one from `open` to `close`."""
        assert self._state is not None, "the partition is open"
        return self._state

    def _rewrite_changelog(self, logs: Logs) -> None:
        """Make the changelog hold the store's rows and no others. Its markers say "incomplete" until it does."""
        place = (self._topics.changelog, self.number)
        surplus = {
            key
            for chunk in logs.read(place, logs.starts([place])[place])
            for message in chunk
            if (key := message.key()) is not None and left_over(key, self.state.holds_key)
        }
        rows, once = self.state.everything(), self.state.everything_once()
        self._packed = self._forgotten = 0
        more = True
        while more:
            self._begin()
            some, some_once = list(islice(rows, _REWRITE_CHUNK)), list(islice(once, _REWRITE_CHUNK))
            self._write_changes(some, some_once)
            more = bool(some or some_once)
            self._packed += len(some_once)
            self._commit(complete=False)
        self._begin()
        for key in surplus:
            self._produce(self._topics.changelog, None, key)
        self._commit()

    def _write_changes(self, changes: Iterable[Change], written_once: Iterable[tuple[bytes, bytes]]) -> None:
        """Hand rows over to the changelog: those that are written once in packs, the others one by one."""
        produce, topic, prefix, number = self._writer.produce, self._topics.changelog, self._prefix, self.number
        for key, value in changes:
            try:
                produce(topic, value, prefix + key, number)
            except BufferError:
                self._writer.produce_when_there_is_room(topic, value, prefix + key, number)
        for part, pack in enumerate(packed(written_once)):
            self._produce(topic, pack, pack_key(self.position.marker + 1, part))

    def _first_transactions(self) -> None:
        """Make the new epoch known, which also tells the broker's time, and then, if need be, the catalogue."""
        self._begin()
        self._commit()
        header = self.state.header.get("")
        if header is None or header.catalogue_digest != self._settings.catalogue.digest:
            accepted = undischargeable(self.state, self._settings)
            self._begin()
            now = self.clock.now()
            assert now is not None, "the marker of the first transaction told the time"
            self._docket.catalogue_changed(self.position.seq, now, accepted)
            self._commit()
        self.next_due = self.state.next_due()

    # --- transactions

    def begin(self, entries: Sequence[Entry]) -> None:
        """Begin a transaction and decide `entries`, in this order, and every timer that may fire then."""
        self._entries = entries
        self._decide()

    def end(self) -> None:
        """Commit what `begin` decided; if Kafka undoes it, decide it again until it stands.

        Raises `WriterLost`, `Halted`, `StoreError` or `ClockOff`, after which the partition must be opened anew.
        """
        for attempt in range(1, ABORTS_MAX + 1):
            try:
                self._commit()
                break
            except Aborted as error:
                log.warning("Partition %s: a transaction was undone and is tried again: %s", self.number, error)
                self.state.drop()
                if attempt == ABORTS_MAX:
                    raise Halted(
                        f"Partition {self.number}: Kafka undid the same transaction {ABORTS_MAX} times; the last time "
                        f"it said: {error}. Nothing of it is lost; mend the cause, then start the gate again."
                    ) from error
                time.sleep(min(_PAUSE_S_MAX, 0.05 * 2**attempt))
                self._decide()
        self._entries = ()
        self.next_due = self.state.next_due()
        if self._writer.doubtful:
            raise WriterLost("the end of a transaction was unknown for a while, so that its writer is replaced")

    def wants_to_fire(self) -> bool:
        """Whether a timer is due that may fire by now."""
        return self.next_due is not None and self.next_due < self.heard.heard_to

    def _decide(self) -> None:
        """Decide the claims in hand, then the timers that everything heard so far allows. An abort undoes it all."""
        self._begin()
        docket = self._docket
        if self._entries:
            # Where this batch ends is known before it is decided, and the broker takes its time to note it.
            ends = positions_after(self._entries, self._inputs)
            self._writer.send_positions_ahead(positions_of(self._intake, self.number, ends), self._group)
        try:
            for topic, appended_at in docket.claims(self._entries, self._inputs).items():
                self.heard.read(topic, self._inputs[topic], appended_at)
            if self._entries or self.wants_to_fire():
                docket.timers(self.heard.heard_to, self._settings.batch_max)
        except RegistryUnavailable as error:
            raise WriterLost(f"the schema registry does not answer ({error})") from error
        except WriterLost:
            raise
        except Exception as error:
            # A fault of ours: the law is total. Going on without this claim would not be the law's word, so stop here.
            log.exception("Partition %s halts at %s.", self.number, docket.current)
            raise Halted(
                f"Partition {self.number} can't decide {docket.current} ({type(error).__name__}: {error}). This is a "
                "fault of the gate, and the claim waits: report it, and start a release that mends it."
            ) from error

    def _begin(self) -> None:
        self._first_offset = self.position.ledger_offset
        self._marker_at: tuple[int, int] | None = None
        self._inputs = dict(self.position.inputs)
        self._docket.start()
        self._writer.begin()

    def _commit(self, *, complete: bool = True) -> None:
        """End the transaction. Each step's comment says what a crash right after it leaves behind."""
        before, state = self.position, self.state
        # 1. Rows that changed go to the changelog, after the decisions that changed them.
        #    A crash: an open transaction, which whoever takes over aborts. Nobody sees it; the claims are read again.
        self._write_changes(state.changes(), state.written_once())
        for row in self._docket.commitments.values():
            self._produce(self._topics.commitments, self._codec.encode(row), row.commitment_id.encode())
        # 2. The marker says how far ledger and input are with this transaction; it is its last record.
        position = replace(
            before,
            seq=before.seq + self._docket.count,
            epoch=self.epoch,
            inputs=self._inputs,
            marker=before.marker + 1,
        )
        # A decision has one row in packs at most, and counting those themselves would cost more than it tells.
        packed, forgotten = self._packed + self._docket.count, self._forgotten + state.forgotten_once
        marker = Marker(position, before.seq + 1, complete, packed, forgotten)
        marked = self.clock.mark()
        self._produce(self._topics.changelog, marker.to_bytes(), MARKER_KEY, self._on_marker)
        # 3. The group's offsets, always all of them, on their way since the batch began: a worker whose partition was
        #    given away by then fails here, even if it has nothing but a timer to write. One whose partition was given
        #    away since is fenced by whoever took it over, before anything is read there.
        # 4. The commit. A crash before it: as in 1. A crash after it: the transaction stands, and the store is behind;
        #    restoring folds the ledger's tail into it. The claims are not read again, since the ledger says so.
        self._writer.commit(positions_of(self._intake, self.number, self._inputs), self._group)
        # 5. The store: rows and position in one write. A crash within it: all or nothing of it, so as in 4.
        self._packed, self._forgotten = packed, forgotten
        self.position = replace(position, ledger_offset=self._first_offset)
        if self._marker_at is not None:
            self.position = replace(self.position, changelog_offset=self._marker_at[0])
        state.commit(self.position)
        if self._first_offset < before.ledger_offset:
            raise Halted(
                f"Partition {self.number}: the ledger took a record at offset {self._first_offset}, and it had come to "
                f"{before.ledger_offset} before: the topic was cut or made anew while the gate ran. Restore the ledger "
                "from a copy; the decisions that are missing are not in this topic."
            )
        if self._marker_at is not None:
            self.clock.sample(marked, self._marker_at[1])

    def _produce(self, topic: str, value: bytes | None, key: bytes, heard: OnDelivery | None = None) -> None:
        try:
            self._writer.produce(topic, value, key, self.number, on_delivery=heard)
        except BufferError:
            self._writer.produce_when_there_is_room(topic, value, key, self.number, heard)

    def _on_first(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            self._first_offset = offset

    def _on_marker(self, error: KafkaError | None, message: Message) -> None:
        offset, (_, appended_at) = message.offset(), message.timestamp()
        if error is None and offset is not None:
            self._marker_at = offset, appended_at

    # --- letting go

    def close(self) -> None:
        """Let go of the store and the writer; what was not committed is undone."""
        self._discard_writer()
        if self._state is not None:
            self._state.close()
            self._state = None

    def _discard_writer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer, self._writer)
