"""The room that makes Faust read committed records only, and move its positions only past what is done and kept.

Faust asks for read_committed only under exactly_once, which the reconciler does not need: what it sends carries the
same id after a crash. Three more habits of Faust's are replaced. A gate's transactions leave gaps in the offsets of a
topic (a marker each, and the records of aborted ones): Faust takes the first record behind a gap for part of the gap,
and a gap right behind offset 0 for a record still to come, so that its position stands still. It acknowledges a
record that it skipped in a rebalance, which would lose it. And it moves a position without waiting for the changelog
of what was written, so that a row could be lost with the disk.
"""

import asyncio
from typing import ClassVar, cast

import faust
from aiokafka import AIOKafkaConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, CodecArg, EventT, FutureMessage
from faust.types.transports import ConsumerT, TransportT
from mode.threads import ServiceThread, WorkerThread


class _Worker(WorkerThread):
    """A consumer's thread that does not keep the process alive once we have given up on stopping it."""

    def __init__(self, service: ServiceThread, **settings: object) -> None:
        super().__init__(service, **settings)
        self.daemon = True


class CommittedThread(driver.AIOKafkaConsumerThread):
    """The thread in which aiokafka's consumer lives."""

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        # This flag is where Faust looks for the isolation level. It must not stay set: it also stands for the
        # transactions of exactly_once, which do not take place.
        self.consumer.in_transaction = True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False


class CommittedConsumer(driver.Consumer):
    """A consumer that sees no aborted record, and whose positions move by `handled` alone."""

    _handled: dict[TP, int]

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        self._handled = {}
        return CommittedThread(self, loop=self.loop, beacon=self.beacon, Worker=_Worker)

    def handled(self, event: EventT[bytes]) -> None:
        """The event is done with, and so is everything before it on its partition."""
        message = event.message
        # After a rebalance the record is read again, by whoever has the partition now.
        if message.generation_id == self.app.consumer_generation_id:
            self._handled[message.tp] = message.offset

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget what was handled: the next owner starts at what was committed."""
        for partition in revoked:
            self._handled.pop(partition, None)
        await super().on_partitions_revoked(revoked)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """A gap needs no bookkeeping, since nobody counts the offsets between."""

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        handled = self._handled.get(tp)
        return None if handled is None else handled + 1


class CommittedTransport(driver.Transport):
    """Faust's aiokafka transport with our consumer."""

    Consumer: ClassVar[type[ConsumerT]] = CommittedConsumer


class KeptTable(faust.Table[bytes, bytes]):
    """A table that can be waited for until the broker has all that was written to it."""

    _on_the_way: set[FutureMessage]

    def __post_init__(self) -> None:
        """Start with nothing on the way."""
        super().__post_init__()
        self._on_the_way = set()

    def send_changelog(
        self,
        partition: int | None,
        key: bytes,
        value: bytes | None,
        key_serializer: CodecArg = None,
        value_serializer: CodecArg = None,
    ) -> FutureMessage:
        """Send a change, and remember it until it has arrived."""
        sent = super().send_changelog(partition, key, value, key_serializer, value_serializer)
        self._on_the_way.add(sent)
        sent.add_done_callback(self._on_the_way.discard)
        return sent

    async def kept(self) -> None:
        """Wait until everything written so far has arrived. Raises KafkaError when the broker did not confirm."""
        await asyncio.gather(*self._on_the_way)


class CommittedApp(faust.App):
    """A Faust app over that transport."""

    def _new_transport(self) -> TransportT:
        return CommittedTransport(self.conf.broker_consumer, self)

    def handled(self, event: EventT[bytes]) -> None:
        """The event is done with: it will not be read again."""
        cast(CommittedConsumer, self.consumer).handled(event)


__all__ = ["CommittedApp", "KeptTable"]
