"""A writer that was lost is replaced only where the group says that the partition is still this worker's."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from joingate_processors.gate.membership import Described, confirm
from joingate_processors.gate.transactions import WriterLost


class Group:
    """An admin client of a group that has these members, or that does not answer."""

    def __init__(self, members: dict[str, list[int] | None], error: KafkaException | None = None) -> None:
        self._members, self._error = members, error

    def describe_consumer_groups(self, group_ids: list[str], *, request_timeout: float) -> dict[str, Future[Described]]:
        answer: Future[Described] = Future()
        if self._error is not None:
            answer.set_exception(self._error)
        else:
            answer.set_result(SimpleNamespace(members=[self._member(*one) for one in self._members.items()]))
        return {group_ids[0]: answer}

    @staticmethod
    def _member(member_id: str, numbers: list[int] | None) -> SimpleNamespace:
        given = None if numbers is None else SimpleNamespace(
            topic_partitions=[TopicPartition("proposals", number) for number in numbers]
        )  # fmt: skip
        return SimpleNamespace(member_id=member_id, assignment=given)


def opens(group: Group) -> bool:
    """Whether partition 3 is taken over by the member "me"."""
    opened: list[bool] = []
    confirm(group, "gate", "me", 3, lambda: opened.append(True))
    return opened == [True]


def test_what_the_group_gave_this_worker_is_taken_over() -> None:
    assert opens(Group({"other": [0, 1], "me": [2, 3]}))


@pytest.mark.parametrize(
    "members",
    [{"other": [0, 1, 2, 3]}, {"other": [2, 3], "me": [0, 1]}, {"me": None}, {}],
    ids=["expelled", "another's now", "a rebalance is under way", "nobody"],
)
def test_a_zombie_fences_nobody(members: dict[str, list[int] | None]) -> None:
    with pytest.raises(WriterLost, match="does not have partition 3"):
        opens(Group(members))


def test_without_an_answer_nobody_is_fenced_either() -> None:
    with pytest.raises(WriterLost, match="nobody says"):
        opens(Group({}, KafkaException(KafkaError(KafkaError._TRANSPORT))))
