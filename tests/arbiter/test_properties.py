"""What holds of the arbiter whatever is said to it, in whatever order, however often."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from joingate_processors.forensics.checked_resources import check_resources
from joingate_schemas.arbitration import AnyResourceMessage, Hold

from .bench import Bench, extend, free, plain, quarantine, reserve

OPERATIONS = [f"op-{number}" for number in range(4)]
# What each kind of resource is declared as; every message about it says the same, as one catalogue makes it.
TERMS: dict[str, dict[str, Any]] = {
    "window:w": {"mode": "EXCLUSIVE", "lease_ms": 50},
    "fee:f": {"mode": "ONCE_EVER"},
    "gpu:g": {"mode": "CAPACITY", "capacity": 5},
    "capture:c": {"mode": "CAPACITY", "capacity": 7, "keeps": True},
}
Move = tuple[str, str, str, int]
MOVES: st.SearchStrategy[Move] = st.tuples(
    st.sampled_from(["reserve", "reserve", "reserve", "extend", "unused", "used", "quarantine"]),
    st.sampled_from(OPERATIONS), st.sampled_from(sorted(TERMS)), st.integers(1, 6),
)  # fmt: skip


def message(move: Move, n: int) -> AnyResourceMessage:
    verb, operation, ref, quantity = move
    terms = TERMS[ref]
    match verb:
        case "reserve":
            return reserve(operation, n, ref, quantity=quantity, **terms)
        case "extend":
            return extend(operation, n, ref)
        case "quarantine":
            return quarantine(operation, n, ref)
        case _:
            kept = {name: value for name, value in terms.items() if name in ("mode", "keeps")}
            return free(operation, n, "USED" if verb == "used" else "UNUSED", ref, quantity=quantity, **kept)


def check_granted(bench: Bench, before: list[Hold], ref: str, operation: str) -> None:
    """What was granted just now leaves the resource within its terms; counted anew, shared with no rule."""
    held = [hold for hold in plain(bench.state) if hold["resource_ref"] == ref]
    capacity = TERMS[ref].get("capacity")
    if capacity is None:
        assert len(held) == 1, f"two hold {ref}: {held}"
    else:
        assert sum(hold["quantity"] for hold in held) <= capacity, held
    others = [one for one in before if one["resource_ref"] == ref and one["operation_id"] != operation]
    assert not any(one["quarantined"] for one in others), others


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(MOVES, st.integers(0, 40)), max_size=40))
def test_nothing_is_ever_granted_beyond_what_there_is(moves: list[tuple[Move, int]]) -> None:
    bench = Bench()
    for n, (move, ms) in enumerate(moves, 1):
        bench.advance(ms)
        before = plain(bench.state)
        said = bench.say(message(move, n))
        if said.verdict == "GRANTED" and said.reason == "OK":
            check_granted(bench, before, move[2], move[1])
        if said.verdict == "DENIED":
            assert plain(bench.state) == before, "a denial changes nobody's holding"
            assert said.detail
            if said.holder:
                assert any(one["operation_id"] == said.holder for one in before)
    assert plain(bench.replayed()) == plain(bench.state)
    assert bench.replayed().marks == bench.state.marks
    assert check_resources(bench.decisions, bench.ledger) == []


@settings(max_examples=300, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=25), st.data())
def test_repeats_change_nothing_wherever_they_come(moves: list[Move], data: st.DataObject) -> None:
    """Each message once, against the same with any of those before it heard again in between, in any order."""
    once, often = Bench(), Bench()
    for n, move in enumerate(moves, 1):
        first, second = once.say(message(move, n)), often.say(message(move, n))
        assert (first.verdict, first.reason, first.holder) == (second.verdict, second.reason, second.holder)
        for repeat in data.draw(st.lists(st.integers(1, n), max_size=3)):
            again = often.say(message(moves[repeat - 1], repeat))
            assert again.verdict == "REPLAYED"
    assert plain(once.state) == plain(often.state)
    assert once.answers == often.answers


@settings(max_examples=200, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=25), st.integers(0, 10_000))
def test_a_lease_that_is_over_never_frees_anything(moves: list[Move], ms: int) -> None:
    bench = Bench()
    for n, move in enumerate(moves, 1):
        bench.say(message(move, n))
    before = [(hold["resource_ref"], hold["operation_id"], hold["quantity"]) for hold in plain(bench.state)]
    bench.advance(ms)
    after = [(hold["resource_ref"], hold["operation_id"], hold["quantity"]) for hold in plain(bench.state)]
    assert sorted(after) == sorted(before)


@settings(max_examples=200, deadline=None)
@given(st.permutations([(operation, ref) for operation in OPERATIONS for ref in ("window:a", "window:b")]))
def test_of_those_who_ask_in_sorted_order_and_free_the_rest_when_denied_one_gets_everything(
    turns: list[tuple[str, str]],
) -> None:
    """However their turns are mixed: each asks for a, then b, and stops at a denial. Nobody waits for anybody."""
    bench = Bench()
    asked: dict[str, int] = dict.fromkeys(OPERATIONS, 0)
    n, done, stopped = 0, set(), set()
    for operation, _ in turns:
        if operation in stopped:
            continue
        n += 1
        ref = ("window:a", "window:b")[asked[operation]]
        if bench.say(reserve(operation, n, ref)).verdict == "DENIED":
            stopped.add(operation)
            for given_back in ("window:a", "window:b")[: asked[operation]]:
                n += 1
                bench.say(free(operation, n, ref=given_back))
            continue
        asked[operation] += 1
        if asked[operation] == 2:
            done.add(operation)
    assert len(done) == 1
    assert {hold["operation_id"] for hold in plain(bench.state)} == done
