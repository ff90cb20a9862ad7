"""Several topics become one order: by append time, ties by topic, each topic's own order kept, older waited for."""

from joingate_processors.gate.docket import Entry
from joingate_processors.gate.merge import BATCH_BYTES, PATIENCE_MS, Merge


class Record:
    """A record that only has an offset and a size."""

    def __init__(self, offset: int, size: int = 0) -> None:
        self._offset = offset
        self._size = size

    def __len__(self) -> int:
        return self._size

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def offset(self) -> int:
        return self._offset


class Bench:
    """Two topics, outcomes before proposals in ties, whose ends the client knows."""

    def __init__(self) -> None:
        self.merge = Merge([0, 0])
        self.ends = [0, 0]

    def fetched(self, rank: int, offset: int, appended_at: int, size: int = 0) -> None:
        entry: Entry = (appended_at, "outcomes" if rank == 0 else "proposals", Record(offset, size))
        self.merge.add(rank, offset, entry)
        self.ends[rank] = max(self.ends[rank], offset + 1)

    def take(self, limit: int = 100, now: int = 0) -> list[tuple[int, str, int | None]]:
        return [(at, topic, one.offset()) for at, topic, one in self.merge.take(limit, self.ends.__getitem__, now)]


def test_topics_are_merged_by_append_time_and_ties_go_to_the_topic_that_comes_first() -> None:
    bench = Bench()
    bench.fetched(1, 0, 10)
    bench.fetched(1, 1, 20)
    bench.fetched(0, 0, 10)
    bench.fetched(0, 1, 15)
    assert bench.take() == [(10, "outcomes", 0), (10, "proposals", 0), (15, "outcomes", 1), (20, "proposals", 1)]
    assert bench.merge.empty


def test_a_topics_own_order_stays_though_its_clock_went_back() -> None:
    bench = Bench()
    for offset, at in enumerate((10, 30, 20)):
        bench.fetched(1, offset, at)
    bench.fetched(0, 0, 25)
    assert [offset for _, topic, offset in bench.take() if topic == "proposals"] == [0, 1, 2]


def test_more_than_fits_stays_in_order_for_the_next_time() -> None:
    bench = Bench()
    for offset in range(5):
        bench.fetched(1, offset, offset)
    assert len(bench.take(limit=3)) == 3
    assert bench.merge.ready
    assert [offset for _, _, offset in bench.take(limit=3)] == [3, 4]


def test_what_may_still_be_preceded_waits_until_the_other_topic_has_caught_up() -> None:
    bench = Bench()
    bench.fetched(0, 0, 100)
    bench.fetched(1, 0, 50)
    bench.ends[1] = 2  # there is one more, and it may be older than 100
    assert bench.take() == [(50, "proposals", 0)]
    assert bench.take() == []
    bench.fetched(1, 1, 60)
    assert bench.take() == [(60, "proposals", 1), (100, "outcomes", 0)]


def test_a_topic_that_is_read_to_its_readable_end_is_not_waited_for_though_its_log_goes_on() -> None:
    bench = Bench()
    bench.fetched(0, 0, 100)
    bench.ends[1] = 7  # behind somebody's open transaction
    bench.merge.at_end(1, 0)
    assert bench.take() == [(100, "outcomes", 0)]


def test_a_topic_that_brings_nothing_is_waited_for_only_so_long_and_only_once() -> None:
    bench = Bench()
    bench.ends[1] = 7
    bench.fetched(0, 0, 100)
    assert bench.take(now=1_000) == []
    assert bench.take(now=1_000 + PATIENCE_MS) == []
    assert bench.take(now=1_001 + PATIENCE_MS) == [(100, "outcomes", 0)]
    bench.fetched(0, 1, 110)
    assert bench.take(now=1_002 + PATIENCE_MS) == [(110, "outcomes", 1)]


def test_an_end_is_told_only_once_everything_before_it_was_handed_on() -> None:
    bench = Bench()
    bench.fetched(1, 0, 10)
    bench.merge.at_end(1, 3)  # markers and aborted records lie between
    assert bench.merge.ended() == []
    bench.take()
    assert bench.merge.ended() == [(1, 3)]


def test_large_claims_are_handed_on_few_at_a_time_and_one_that_is_larger_than_all_goes_alone() -> None:
    bench = Bench()
    for offset, size in enumerate((BATCH_BYTES // 2, BATCH_BYTES // 2, 1, BATCH_BYTES + 1, 1)):
        bench.fetched(1, offset, offset, size)
    assert [[offset for _, _, offset in bench.take()] for _ in range(4)] == [[0, 1], [2], [3], [4]]


def test_what_waits_is_measured_in_batches_of_claims_or_of_bytes_whichever_are_more() -> None:
    bench = Bench()
    bench.ends[0] = 1  # the other topic has one that was not fetched yet, so all wait
    for offset in range(3):
        bench.fetched(1, offset, 1_000 + offset, BATCH_BYTES)
    assert bench.take() == []
    assert bench.merge.load(1, batch=100) == 3
    assert bench.merge.load(1, batch=1) == 3
    assert bench.merge.load(0, batch=1) == 0
    bench.fetched(0, 0, 2_000)
    while bench.take():
        pass
    assert bench.merge.load(1, batch=1) == 0
