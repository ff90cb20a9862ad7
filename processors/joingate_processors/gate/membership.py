"""The room for asking the group whether a partition is still ours, before its writer locks anybody out.

A worker that was frozen for longer than its session finds its writer fenced before it hears that it lost its place.
Were it to take the partition over again at once, it would fence the new owner, who has every right to it.
"""

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition

from joingate_processors.gate.transactions import WriterLost

_TIMEOUT_S = 5.0


class Described(Protocol):
    """What the admin client tells of a group, as far as it is needed here."""

    members: "Collection[DescribedMember]"


class DescribedMember(Protocol):
    """One member of the group."""

    member_id: str
    assignment: "DescribedAssignment | None"


class DescribedAssignment(Protocol):
    """What a member was given."""

    topic_partitions: Collection[TopicPartition]


class GroupAdmin(Protocol):
    """What is needed of confluent-kafka's `AdminClient`."""

    def describe_consumer_groups(
        self, group_ids: list[str], *, request_timeout: float
    ) -> dict[str, "Future[Described]"]: ...


def confirm(admin: GroupAdmin, group: str, member_id: str, number: int, open_: Callable[[], None]) -> None:
    """Call `open_` if the group's coordinator says that `member_id` has partition `number`.

    Raises `WriterLost` if it does not say so: it is asked again later, unless by then the partition went elsewhere.
    """
    try:
        described = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)[group].result(2 * _TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise WriterLost(f"nobody says whether this worker still has partition {number} ({error})") from error
    given = [one.assignment for one in described.members if one.member_id == member_id]
    if not any(place.partition == number for one in given if one is not None for place in one.topic_partitions):
        raise WriterLost(f"the group {group} does not have partition {number} with this worker")
    open_()
