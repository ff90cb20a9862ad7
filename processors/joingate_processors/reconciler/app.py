"""The Faust app around the desk: two streams, one table, one asking task. What is decided is decided in `rules`.

    in-doubt ──► desk ──► table (RocksDB, changelog) ──► schedule ──► asker ──► downstream
                  ▲                                                     │
    observations ◄┴───────────── reconciler-answers ◄───────────────────┘

Answers take the way through a topic because Faust's tables may be written only by the owner of a record's partition,
and because an answer that is durable makes the same claim after a crash, whatever the source says by then.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from faust import Stream
from faust.types import EventT, StreamT, TableT, TopicT
from yarl import URL

from joingate_processors.reconciler.answers import Answered, Downstream
from joingate_processors.reconciler.asking import Asker
from joingate_processors.reconciler.committed import CommittedApp, KeptTable
from joingate_processors.reconciler.desk import Desk
from joingate_processors.reconciler.own_topics import TABLE, answers_topic, app_id
from joingate_processors.reconciler.rules import Row
from joingate_processors.reconciler.schedule import Schedule
from joingate_processors.reconciler.security import credentials
from joingate_processors.reconciler.settings import ReconcilerSettings
from joingate_processors.reconciler.status import Board
from joingate_schemas.claims import Observe
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import InDoubtRequest
from joingate_schemas.signing import Signer
from joingate_schemas.topics import Topics

log = logging.getLogger(__name__)

RAW: Mapping[str, Any] = {
    "key_type": bytes,
    "value_type": bytes,
    "key_serializer": "raw",
    "value_serializer": "raw",
}


def now_ms() -> int:
    """This machine's wall clock."""
    return int(time.time() * 1000)


class FaustRows:
    """Faust's table as the desk sees it. Writing needs an event at hand, whose partition the row then belongs to."""

    def __init__(self, table: TableT[bytes, bytes]) -> None:
        self._table = table

    def get(self, key: bytes) -> bytes | None:
        """The value of `key`, if any."""
        return self._table.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set it."""
        self._table[key] = value

    def delete(self, key: bytes) -> None:
        """Remove it, if it is there: a needless deletion would still be written to the changelog."""
        if key in self._table:
            del self._table[key]

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """Every row of the partitions that this process owns."""
        return cast(Iterable[tuple[bytes, bytes]], self._table.items())


class Reconciler:
    """One life of the Faust app, from its start to its stop or crash."""

    def __init__(
        self,
        settings: ReconcilerSettings,
        partitions: int,
        downstreams: Mapping[str, Downstream],
        board: Board,
    ) -> None:
        topics = Topics(settings.prefix)
        self.app = _app(settings, partitions)
        self._codec = Codec(registry_url=settings.registry_url) if settings.registry_url else Codec()
        self._signer = None if settings.key_file is None else Signer.from_file(settings.key_file)
        self._board = board
        self._requests = self.app.topic(topics.in_doubt, **RAW)
        self._claims = self.app.topic(topics.observations, **RAW)
        self._answers = self.app.topic(answers_topic(settings.prefix), **RAW)
        schedule = Schedule()
        board.next_ask_at = schedule.next_at
        table = self.app.Table(TABLE, partitions=partitions, key_type=bytes, value_type=bytes)
        self._table = cast(KeptTable, table)
        self._desk = Desk(FaustRows(table), schedule, board, settings.policy, now_ms)
        self._asker = Asker(
            schedule=schedule,
            read=self._desk.row,
            deliver=self._deliver,
            downstreams=downstreams,
            board=board,
            policy=settings.policy,
            clock=now_ms,
            at_once=settings.asks_at_once,
        )
        self.app.agent(self._requests, name="requests")(self._take_requests)
        self.app.agent(self._answers, name="answers")(self._take_answers)
        self.app.task(self._asker.run)
        self.app.on_partitions_revoked.connect(self._on_revoked)
        self.app.on_rebalance_complete.connect(self._on_rebalanced)

    async def _take_requests(self, stream: StreamT[bytes]) -> None:
        await self._each(stream, self._take_request)

    async def _take_answers(self, stream: StreamT[bytes]) -> None:
        await self._each(stream, self._take_answer)

    async def _each(self, stream: StreamT[bytes], handle: Callable[[EventT[bytes]], Awaitable[None]]) -> None:
        acked_by_hand = cast(Stream[bytes], stream).noack()
        async for event in acked_by_hand.events():
            try:
                await handle(event)
                await self._table.kept()
            except Exception as error:
                # Its position has not moved, so the next life takes this record again.
                await self.app.crash(error)
                raise
            self.app.handled(event)
            await acked_by_hand.ack(event)

    async def _take_request(self, event: EventT[bytes]) -> None:
        message = event.message
        try:
            request = self._codec.decode(cast(bytes, event.value) or b"")
        except Undecodable as error:
            self._undecodable(event, f"{error}")
            return
        if not isinstance(request, InDoubtRequest):
            self._undecodable(event, f"it is a {type(request).__name__}")
            return
        self._desk.take_request(request, message.partition)

    async def _take_answer(self, event: EventT[bytes]) -> None:
        try:
            answered = Answered.decode(cast(bytes, event.value))
        except (ValueError, KeyError, TypeError) as error:
            # Written by another release; its question is still open, and is put again after a restart at the latest.
            self._undecodable(event, f"{type(error).__name__}: {error}")
            return
        await self._desk.take_answer(answered, self._send)

    def _undecodable(self, event: EventT[bytes], why: str) -> None:
        self._board.undecodable += 1
        message = event.message
        log.error(
            "passed over the record at offset %d of %s, partition %d, which cannot be read: %s",
            message.offset, message.topic, message.partition, why,
        )  # fmt: skip

    async def _send(self, claim: Observe) -> None:
        said = claim if self._signer is None else self._signer.sign(claim)
        await _sent(self._claims, claim.intent_id.encode(), self._codec.encode(said))

    async def _deliver(self, row: Row, answered: Answered) -> None:
        # To the partition that the request came on, where the row is.
        key = row.request.intent_id.encode()
        await _sent(self._answers, key, answered.encode(), partition=row.received_on)

    def _on_revoked(self, *_sent: object, **_more: object) -> None:
        self._asker.forget()

    def _on_rebalanced(self, *_sent: object, **_more: object) -> None:
        self._desk.recall()


async def _sent(topic: TopicT, key: bytes, value: bytes, partition: int | None = None) -> None:
    """Send, and wait until the broker has it. Raises KafkaError when it did not confirm in time."""
    await (await topic.send(key=key, value=value, partition=partition))


def _app(settings: ReconcilerSettings, partitions: int) -> CommittedApp:
    brokers = [URL(f"kafka://{server.strip()}") for server in settings.bootstrap_servers.split(",")]
    return CommittedApp(
        app_id(settings.prefix),
        broker=brokers,
        broker_credentials=credentials(settings.client),
        store="rocksdb://?driver=rocksdict",
        Table=KeptTable,
        datadir=settings.state_dir,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        topic_partitions=partitions,
        # Its topics are made before it starts (see own_topics).
        topic_allow_declare=False,
        # The leader's topic would be one more to create, and no task of ours runs on the leader only.
        topic_disable_leader=True,
        web_enabled=False,
        autodiscover=False,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 3,
        broker_request_timeout=15.0,
        # One of several brokers may still not know a topic that another has just made.
        consumer_metadata_max_age_ms=30_000,
        broker_commit_interval=1.0,
        producer_request_timeout=15.0,
        producer_acks=-1,
        stream_wait_empty=False,
    )
