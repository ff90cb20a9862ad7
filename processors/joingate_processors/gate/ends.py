"""The room for asking where the intake topics end, without ever waiting for the answer.

The gate asks once a second, which shows a lag or a stall; and whenever a timer is due, since it may not fire before an
end that was fetched after its time is reached.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

# The library's stubs do not mark these as exported, although its documentation takes them from here.
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec  # type: ignore[attr-defined]

from joingate_processors.gate.clock import monotonic_ms
from joingate_processors.gate.logs import log
from joingate_processors.gate.partition import Partition
from joingate_processors.gate.settings import GateSettings
from joingate_schemas.topics import Topics

_EVERY_MS = 1_000
_EVERY_MS_WHEN_DUE = 20
_TIMEOUT_S = 5.0


class Ends:
    """Asks for the high watermarks of several partitions' intake topics, and hands the answers to them."""

    def __init__(self, settings: GateSettings, topics: Topics) -> None:
        self._client = {**settings.client, "bootstrap.servers": settings.bootstrap_servers}
        self.admin = AdminClient(self._client, logger=log)
        self._intake = [(topics.short(full), full) for full in topics.intake]
        self.asked_at = 0
        """When the latest question was asked (monotonic, ms)."""
        self._answers: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {}
        self._asked: dict[int, tuple[Partition, int | None]] = {}

    @property
    def waiting(self) -> bool:
        """Whether an answer is under way."""
        return bool(self._answers)

    def ask(self, partitions: Iterable[Partition]) -> None:
        """Ask about `partitions`, if it is time to and no answer is awaited."""
        asked = {one.number: (one, one.clock.now()) for one in partitions}
        since = monotonic_ms() - self.asked_at
        if self.waiting or not asked or since < _EVERY_MS_WHEN_DUE:
            return
        if since < _EVERY_MS and not any(_is_due(one, now) for one, now in asked.values()):
            return
        self.asked_at, self._asked = monotonic_ms(), asked
        places = {TopicPartition(full, number): OffsetSpec.latest() for number in asked for _, full in self._intake}  # type: ignore[no-untyped-call]
        self._answers = self.admin.list_offsets(
            places, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT_S
        )

    def take(self) -> Mapping[int, Mapping[str, int]] | None:
        """The answer, if it is there: for each partition number, each topic's end. The partitions have heard it then.

        Raises KafkaException when the broker did not answer.
        """
        if not self._answers or not all(answer.done() for answer in self._answers.values()):
            return None
        answers, self._answers = self._answers, {}
        found: dict[int, dict[str, int]] = {number: {} for number in self._asked}
        short_of = {full: short for short, full in self._intake}
        try:
            for place, answer in answers.items():
                found[place.partition][short_of[place.topic]] = answer.result().offset
        except KafkaException:
            # This client would go on asking by the leaders that it knows, for minutes, although they have changed.
            self.admin = AdminClient(self._client, logger=log)
            raise
        for number, (partition, asked_at) in self._asked.items():
            partition.heard.ends(found[number], asked_at, self.asked_at)
        return found


def _is_due(partition: Partition, now: int | None) -> bool:
    due = partition.next_due
    return due is not None and now is not None and due < now and not partition.wants_to_fire()
