"""Whatever a transactional producer throws, it means one of: committed, aborted (again!), or this writer is lost."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from joingate_processors.gate.transactions import Aborted, OnDelivery, RecordTooLarge, Writer, WriterLost

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True, False))
MUST_ABORT = KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "cannot go on", False, False, True))
FENCED = KafkaException(KafkaError(KafkaError._FENCED, "another took over", True, False, False))
POSITIONS = [TopicPartition("proposals", 0, 3)]


class Producer:
    """A producer whose next calls fail as planned; it notes what was asked of it."""

    def __init__(self, **failures: list[KafkaException]) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.full = 0

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    def init_transactions(self, timeout: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
        assert positions == POSITIONS
        self._call("offsets")

    def commit_transaction(self, timeout: float) -> None:
        self._call("commit")

    def abort_transaction(self, timeout: float) -> None:
        self._call("abort")

    def flush(self, timeout: float) -> int:
        self._call("flush")
        return self.full

    def poll(self, timeout: float) -> int:
        return 0

    def produce(
        self, topic: str, value: bytes | None = None, key: bytes | None = None, partition: int = -1, *,
        on_delivery: OnDelivery | None = None,
    ) -> None:  # fmt: skip
        self.calls.append("produce")
        if self.full:
            self.full -= 1
            raise BufferError("queue full")
        if self.failures.get("produce"):
            raise self.failures["produce"].pop(0)


def writer(producer: Producer, deadline_ms: int = 5_000, stopping: Callable[[], bool] = lambda: False) -> Writer:
    return Writer(producer, "w-0", deadline_ms, stopping)


def commit(one: Writer) -> None:
    one.commit(POSITIONS, lambda: None)


def test_positions_go_before_the_commit() -> None:
    producer = Producer()
    commit(writer(producer))
    assert producer.calls == ["offsets", "commit"]


def test_a_commit_that_times_out_is_repeated_as_a_commit_and_leaves_the_writer_doubtful() -> None:
    producer = Producer(commit=[TIMED_OUT, TIMED_OUT])
    one = writer(producer)
    commit(one)
    assert producer.calls == ["offsets", "commit", "commit", "commit"]
    assert one.doubtful


def test_positions_that_time_out_are_repeated_and_leave_no_doubt() -> None:
    producer = Producer(offsets=[TIMED_OUT])
    one = writer(producer)
    commit(one)
    assert not one.doubtful


def test_positions_that_were_sent_ahead_are_not_sent_again() -> None:
    producer = Producer()
    one = writer(producer)
    one.begin()
    one.send_positions_ahead(POSITIONS, lambda: None)
    commit(one)
    assert producer.calls == ["begin", "offsets", "commit"]


def test_positions_sent_ahead_that_time_out_are_sent_again_and_those_of_one_commit_serve_no_other() -> None:
    producer = Producer(offsets=[TIMED_OUT])
    one = writer(producer)
    one.send_positions_ahead(POSITIONS, lambda: None)
    commit(one)
    commit(one)
    assert producer.calls == ["offsets", "offsets", "commit", "offsets", "commit"]


@pytest.mark.parametrize(("failure", "means"), [(MUST_ABORT, Aborted), (FENCED, WriterLost)])
def test_what_befell_positions_sent_ahead_is_heard_at_the_commit(failure: KafkaException, means: type) -> None:
    producer = Producer(offsets=[failure])
    one = writer(producer)
    one.send_positions_ahead(POSITIONS, lambda: None)
    with pytest.raises(means):
        commit(one)
    assert "commit" not in producer.calls


def test_a_producer_is_not_closed_while_positions_are_on_their_way() -> None:
    may_end = threading.Event()

    class Slow(Producer):
        def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
            may_end.wait()
            self._call("offsets")

    producer = Slow()
    one = writer(producer)
    one.send_positions_ahead(POSITIONS, lambda: None)
    may_end.set()
    one.let_go()
    assert producer.calls == ["offsets"]
    assert not one.stuck


def test_who_stops_still_ends_the_transaction_in_hand_if_the_broker_answers() -> None:
    class Slow(Producer):
        def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
            stopped.wait()
            self._call("offsets")

    stopped = threading.Event()

    def stopping() -> bool:
        stopped.set()
        return True

    producer = Slow()
    commit(writer(producer, stopping=stopping))
    assert producer.calls == ["offsets", "commit"]


@pytest.mark.parametrize("where", ["offsets", "commit"])
def test_what_must_be_aborted_is_aborted_before_the_caller_hears_of_it(where: str) -> None:
    producer = Producer(**{where: [MUST_ABORT]})
    with pytest.raises(Aborted, match="cannot go on"):
        commit(writer(producer))
    assert producer.calls[-1] == "abort"


@pytest.mark.parametrize("where", ["init", "begin", "offsets", "commit", "abort"])
def test_a_fenced_writer_is_lost_wherever_it_learns_of_it(where: str) -> None:
    one = writer(Producer(**{where: [FENCED]}))
    calls = {"init": one.fence, "begin": one.begin, "abort": one.abort}
    with pytest.raises(WriterLost, match="another took over"):
        calls.get(where, lambda: commit(one))()


def test_a_failed_abort_loses_the_writer() -> None:
    with pytest.raises(WriterLost):
        commit(writer(Producer(commit=[MUST_ABORT], abort=[MUST_ABORT])))


def test_an_end_that_stays_unknown_to_the_deadline_loses_the_writer() -> None:
    with pytest.raises(WriterLost, match="could not commit as w-0"):
        commit(writer(Producer(commit=[TIMED_OUT] * 100), deadline_ms=0))


def test_who_stops_does_not_wait_for_a_broker_that_is_away() -> None:
    with pytest.raises(WriterLost):
        writer(Producer(init=[TIMED_OUT] * 100), stopping=lambda: True).fence()


def test_a_full_queue_is_waited_for_and_a_stuck_one_loses_the_writer() -> None:
    producer = Producer()
    producer.full = 2
    writer(producer).produce_when_there_is_room("ledger", b"", None, 0)
    assert producer.calls == ["produce"] * 3
    producer.full = 1_000
    with pytest.raises(WriterLost, match="takes no records"):
        writer(producer, deadline_ms=0).produce_when_there_is_room("ledger", b"", None, 0)
    with pytest.raises(WriterLost):
        writer(producer, deadline_ms=0).flush()


def test_a_client_that_refuses_a_record_has_lost_its_writer_whether_or_not_there_was_room_at_once() -> None:
    """As after a fence amid a batch: the client knows before anybody asks it to commit."""
    refused = KafkaException(KafkaError(KafkaError._STATE, "the transaction has failed"))
    one = writer(Producer(produce=[refused, refused], flush=[refused]))
    for hand_over in (one.produce, one.produce_when_there_is_room):
        with pytest.raises(WriterLost, match="w-0 may hand over no record: the transaction has failed"):
            hand_over("ledger", b"", b"key", 0)
    with pytest.raises(WriterLost, match="may hand over no record"):
        one.flush()
    one.produce("ledger", b"", b"key", 0)


def test_a_record_that_no_writer_could_write_does_not_lose_this_one() -> None:
    """Another writer would be refused it too, over and over."""
    too_large = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    with pytest.raises(RecordTooLarge, match="5 bytes for ledger"):
        writer(Producer(produce=[too_large])).produce("ledger", b"12345", b"key", 0)


def test_who_wants_to_hear_of_a_record_is_told_to_the_client() -> None:
    heard: list[OnDelivery | None] = []

    class Noting(Producer):
        def produce(self, *record: object, on_delivery: OnDelivery | None = None) -> None:
            heard.append(on_delivery)

    def on_delivery(*_: object) -> None: ...

    one = writer(Noting())
    one.produce("ledger", b"", b"key", 0)
    one.produce("ledger", b"", b"key", 0, on_delivery=on_delivery)
    assert heard == [None, on_delivery]


def test_positions_that_never_come_back_lose_the_writer_which_is_then_left_alone() -> None:
    """librdkafka keeps no time-out here."""
    never = threading.Event()

    class Deaf(Producer):
        def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
            never.wait()

    one = writer(Deaf(), stopping=lambda: True)
    with pytest.raises(WriterLost, match="does not come back"):
        commit(one)
    assert one.stuck
    never.set()
