"""What befalls one seat leads to one of three ends, and leaves the others alone; alike for the gate and the arbiter."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from joingate_processors.gate.clock import ClockOff
from joingate_processors.gate.logs import Halted, Stopping
from joingate_processors.gate.membership import Described
from joingate_processors.gate.seat import House, Seat, Seats
from joingate_processors.gate.transactions import WriterLost

REFUSED = KafkaException(KafkaError(KafkaError._STATE, "the transaction has failed"))
DEADLINE_S = 10.0


class Partition:
    """A partition that opens as planned, and notes what was asked of it."""

    def __init__(self, number: int, over: Callable[[], bool]) -> None:
        self.number = number
        self.over = over
        self.epoch = 0
        self.calls: list[str] = []
        self.faults: list[Exception] = []
        self.may_open = threading.Event()
        self.may_open.set()

    def open(self) -> None:
        self.calls.append("open")
        while not self.may_open.wait(0.01):
            if self.over():
                raise Stopping
        if self.faults:
            raise self.faults.pop(0)
        self.epoch += 1

    def close(self) -> None:
        self.calls.append("close")


class Worker:
    """A worker of the group "g", to which the group gives `members`."""

    def __init__(self, halted_retry_ms: int = 1) -> None:
        self.stop = threading.Event()
        self.members: dict[str, list[int]] = {"me": [0, 1]}
        self.asked = 0
        self.slow: set[int] = set()
        house = House("porter", "g", logging.getLogger("joingate.porter"), halted_retry_ms, (ClockOff,))
        self.seats: Seats[Seat[Partition]] = Seats(house, self._make, lambda: self, self.stop)

    def _make(self, number: int, over: Callable[[], bool]) -> Seat[Partition]:
        partition = Partition(number, over)
        if number in self.slow:
            partition.may_open.clear()
        return Seat(partition)

    def describe_consumer_groups(self, group_ids: list[str], *, request_timeout: float) -> dict[str, Future[Described]]:
        self.asked += 1
        answer: Future[Described] = Future()
        members = [SimpleNamespace(member_id=name, assignment=SimpleNamespace(
            topic_partitions=[TopicPartition("t", number) for number in numbers]
        )) for name, numbers in self.members.items()]  # fmt: skip
        answer.set_result(SimpleNamespace(members=members))
        return {group_ids[0]: answer}

    def seat(self, number: int) -> Seat[Partition]:
        return self.seats.by_number[number]

    def states(self) -> list[str]:
        return [self.seat(number).state for number in sorted(self.seats.owned)]

    def tend_until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self.seats.tend()
            time.sleep(0.001)

    def befall(self, number: int, fault: Exception) -> None:
        """This fault meets the seat at work."""

        def call() -> None:
            raise fault

        assert not self.seats.guarded(self.seat(number), call)


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    made.seats.deal({0, 1}, "me")
    made.tend_until(lambda: made.states() == ["RUNNING"] * 2, "both to run")
    yield made
    made.seats.let_go()


def test_what_goes_well_changes_nothing(worker: Worker) -> None:
    done: list[int] = []
    assert worker.seats.guarded(worker.seat(0), done.append, 7)
    assert (done, worker.states()) == ([7], ["RUNNING"] * 2)
    assert worker.asked == 0, "nobody asks the group about what it gave a moment ago"


@pytest.mark.parametrize("fault", [WriterLost("fenced"), REFUSED], ids=["writer lost", "client refuses"])
def test_a_lost_writer_leads_to_taking_over_anew_once_the_group_has_said_whose_it_is(
    worker: Worker, fault: Exception
) -> None:
    worker.members = {"me": [1]}
    worker.befall(0, fault)
    assert worker.states() == ["RESTORING", "RUNNING"]
    worker.tend_until(lambda: worker.asked >= 2, "the group to be asked, and asked again")
    assert worker.seat(0).partition.calls == ["open"], "it would fence whoever has it now"
    worker.members = {"me": [0, 1]}
    worker.tend_until(lambda: worker.states() == ["RUNNING"] * 2, "both to run")
    assert [worker.seat(n).partition.epoch for n in (0, 1)] == [2, 1]
    assert worker.seat(0).failures == 0


def test_a_fault_of_the_machine_halts_and_is_tried_again_until_it_is_over(worker: Worker) -> None:
    worker.seat(0).partition.faults = [ClockOff("still an hour ahead")]
    worker.befall(0, ClockOff("an hour ahead"))
    assert (worker.seat(0).state, worker.seat(0).sentence) == ("HALTED", "an hour ahead")
    assert worker.seat(0).partition.calls == ["open", "close"], "it lets its writer go while it halts"
    worker.tend_until(lambda: worker.seat(0).sentence == "still an hour ahead", "it to be tried")
    assert worker.states() == ["HALTED", "RUNNING"]
    worker.tend_until(lambda: worker.states() == ["RUNNING"] * 2, "both to run")


def test_it_is_not_tried_again_before_its_time() -> None:
    worker = Worker(halted_retry_ms=3_600_000)
    worker.seats.deal({0}, "me")
    worker.tend_until(lambda: worker.states() == ["RUNNING"], "it to run")
    worker.befall(0, ClockOff("an hour ahead"))
    worker.seats.tend()
    assert worker.seat(0).opening is None
    worker.seats.let_go()


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Halted("the log was cut"), "the log was cut"),
        (KeyError("k"), "a fault of the porter (KeyError: 'k'): report it"),
    ],
    ids=["halted", "unforeseen"],
)
def test_what_a_person_must_look_at_stays_halted_whatever_time_passes(
    worker: Worker, fault: Exception, sentence: str
) -> None:
    worker.befall(0, fault)
    assert (worker.seat(0).state, worker.seat(0).sentence) == ("HALTED", sentence)
    worker.seats.tend()
    worker.seats.withdraw()
    worker.seats.deal({0, 1}, "me")
    worker.seats.tend()
    assert worker.seat(0).opening is None
    assert worker.states() == ["HALTED", "RUNNING"]
    assert list(worker.seats.running()) == [worker.seat(1)]


def test_who_is_told_to_stop_halts_nothing(worker: Worker) -> None:
    worker.befall(0, Stopping())
    assert worker.states() == ["RUNNING"] * 2
    assert worker.seat(0).partition.calls == ["open"]


def test_a_pause_grows_with_each_taking_over_that_does_not_help_and_a_reason_is_said_once(
    worker: Worker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joingate_processors.gate.seat.time", SimpleNamespace(monotonic=lambda: 0.0))
    pauses = []
    for _ in range(8):
        worker.befall(0, WriterLost("fenced"))
        pauses.append(worker.seat(0).retry_at)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert caplog.text.count("taken over anew: fenced") == 1


def test_while_the_group_deals_out_anew_the_seats_wait_and_those_that_stay_ours_go_on(worker: Worker) -> None:
    kept, gone = worker.seat(0), worker.seat(1)
    worker.seats.withdraw()
    assert (list(worker.seats.running()), kept.state) == ([], "RUNNING")
    worker.seats.deal({0, 2}, "me")
    assert worker.seat(0) is kept
    assert (kept.partition.calls, gone.partition.calls) == (["open"], ["open", "close"])
    assert gone.partition.over()
    assert not kept.partition.over()
    worker.tend_until(lambda: worker.states() == ["RUNNING"] * 2, "the new one to run")
    assert worker.seats.running_numbers == {0, 2}
    assert (worker.seats.of(1), worker.seats.of(None)) == (None, None)


def test_one_that_restores_holds_no_other_up_and_gives_up_when_it_goes_elsewhere() -> None:
    worker = Worker()
    worker.slow = {0}
    worker.seats.deal({0, 1}, "me")
    worker.tend_until(lambda: worker.states() == ["RESTORING", "RUNNING"], "the other to run")
    assert worker.seats.opening
    slow = worker.seat(0).partition
    worker.seats.deal({1}, "me")
    assert slow.calls == ["open", "close"]
    assert not worker.seats.opening
    worker.seats.let_go()


def test_a_lost_place_in_the_group_has_all_that_run_taken_over_anew_and_leaves_the_halted(worker: Worker) -> None:
    worker.befall(0, Halted("the log was cut"))
    worker.seats.reopen_all("the porter had lost its place")
    assert worker.states() == ["HALTED", "RESTORING"]


def test_letting_go_closes_every_seat_even_one_that_is_being_taken_over() -> None:
    worker = Worker()
    worker.slow = {0}
    worker.seats.deal({0, 1}, "me")
    worker.tend_until(lambda: worker.states() == ["RESTORING", "RUNNING"], "the other to run")
    partitions = [worker.seat(number).partition for number in (0, 1)]
    worker.stop.set()
    worker.seats.let_go()
    assert [one.calls[-1] for one in partitions] == ["close"] * 2
    assert worker.seats.running_numbers == set()
