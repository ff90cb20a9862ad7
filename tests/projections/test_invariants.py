"""What must hold of the projections whatever the ledger: over the field cases, and lives in which much goes wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from joingate_processors.forensics.gated import GatedRun
from joingate_processors.forensics.play import Player, catalogue_of
from joingate_processors.forensics.scenario import draw
from joingate_processors.forensics.simulator import Simulator
from joingate_processors.forensics.trace import read_trace
from joingate_processors.law.state import Debt
from joingate_projections.fold import fold
from joingate_projections.tables import MemoryRows, Row, joined
from joingate_projections.tables.lineage import node
from joingate_projections.tables.shown import DOUBTED_COMMITMENT, DOUBTED_OPERATION
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT

TRACES = sorted((Path(__file__).resolve().parents[1] / "scenarios" / "traces").glob("*.jsonl"))
SEEDS = range(40)


def check(simulator: Simulator) -> None:
    """Everything that must hold, after each tenth decision and at the end."""
    rows = MemoryRows()
    for seq, decision in enumerate(simulator.decisions, 1):
        fold(rows, decision, 0)
        if seq % 10 == 0 or seq == len(simulator.decisions):
            everything_leads_to_its_intent(rows)
            how_actions_fared_adds_up(rows)
            what_is_pending_is_unresolved(rows)
            goals_count_what_is_theirs(rows)
            every_latency_is_counted_once(rows)
    debts_are_those_that_the_law_refuses_by(rows, simulator)
    for table, known in (("operations", simulator.state.operations), ("commitments", simulator.state.commitments)):
        for key, row in rows.tables[table].items():
            held = known.get(key)
            assert held is not None, (table, key)
            assert held.status == row["status"], (table, key)


def debts_are_those_that_the_law_refuses_by(rows: MemoryRows, simulator: Simulator) -> None:
    """Sum for sum; what the law has no row of, the projections have none of either."""
    state = simulator.state
    told = {joined(row["of"], row["subject"]): row for row in rows.tables["debts"].values()}
    held: dict[str, Debt] = dict(state.rows("debts"))  # type: ignore[arg-type, attr-defined]
    assert told.keys() == held.keys()
    names = [name for name in Debt.__annotations__ if name != "scope"]
    for scope, debt in held.items():
        assert {name: told[scope][name] for name in names} == {name: getattr(debt, name) for name in names}, scope


def everything_leads_to_its_intent(rows: MemoryRows) -> None:
    """From every operation, commitment and effect one gets up to the intent, without going in circles."""
    above: dict[str, list[str]] = {}
    for edge in rows.tables["lineage"].values():
        if edge["kind"] in ("LEADS_TO", "UNDONE_BY") and edge["until"] is None:
            above.setdefault(edge["below"], []).append(edge["above"])
    starts = [node("OPERATION", key) for key in rows.tables["operations"]]
    starts += [node("COMMITMENT", key) for key in rows.tables["commitments"]]
    starts += [name for name in above if name.startswith(("EFFECT\x1f", "VERIFICATION\x1f"))]
    for start in starts:
        seen, waiting = {start}, [start]
        while waiting:
            for one in above.get(waiting.pop(), ()):
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        assert any(one.startswith("INTENT\x1f") for one in seen), start


def how_actions_fared_adds_up(rows: MemoryRows) -> None:
    """The counts by action and status are those of the rows; one that is in doubt has been."""
    fared = {name: n for (about, name), n in rows.counters.items() if about == "fared" and n}
    ever = {name: n for name, n in fared.items() if name.endswith("\x1fEVER_IN_DOUBT")}
    now = Counter(joined(row["action"], row["status"]) for row in rows.tables["operations"].values())
    assert {name: n for name, n in fared.items() if name not in ever} == dict(now)
    doubted = Counter(row["action"] for row in rows.tables["operations"].values() if row["status"] in DOUBTED_OPERATION)
    assert all(ever.get(joined(action, "EVER_IN_DOUBT"), 0) >= count for action, count in doubted.items())


def what_is_pending_is_unresolved(rows: MemoryRows) -> None:
    """A doubt is pending for as long as it lasts, and a release until it is done or not wanted any more."""
    pending = set(rows.tables["pending"])
    doubts = {key for key in pending if key.startswith("RECONCILIATION\x1f")}
    assert doubts == {
        joined("RECONCILIATION", kind, key)
        for table, kind, doubted in (
            ("operations", "OPERATION", DOUBTED_OPERATION),
            ("commitments", "COMMITMENT", DOUBTED_COMMITMENT),
        )
        for key, row in rows.tables[table].items()
        if row["status"] in doubted
    }
    for key, row in rows.tables["commitments"].items():
        released = joined("RELEASE", "COMMITMENT", key) in pending
        assert not (row["status"] == "RELEASE_PENDING" and not released), key
        assert not (row["status"] in (*TERMINAL_COMMITMENT, "ACTIVE", "PROPOSED") and released), key


def goals_count_what_is_theirs(rows: MemoryRows) -> None:
    """Each goal's counts are those of its own operations and commitments."""
    for goal in rows.tables["goals"].values():
        mine: dict[str, list[Row]] = {
            table: [
                row
                for row in rows.tables[table].values()
                if (row["intent_id"], row["goal_id"]) == (goal["intent_id"], goal["goal_id"])
            ]
            for table in ("operations", "commitments")
        }
        assert goal["operations_open"] == sum(row["status"] in OPEN_OPERATION for row in mine["operations"])
        assert goal["commitments_open"] == sum(row["status"] not in TERMINAL_COMMITMENT for row in mine["commitments"])
        assert goal["orphans"] == sum(bool(row["orphans"]) for rows_of in mine.values() for row in rows_of)


def every_latency_is_counted_once(rows: MemoryRows) -> None:
    """The days add up to the whole, and nothing was ever counted down."""
    whole: Counter[str] = Counter()
    days: Counter[str] = Counter()
    for (about, name), count in rows.counters.items():
        assert count >= 0, (about, name)
        kind, _, rest = about.partition(" ")
        if kind == "latency":
            measure, _, day = rest.partition(" ")
            (days if day else whole)[joined(measure, name)] += count
    assert whole == days


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_over_every_field_case(path: Path) -> None:
    """Failures that others had."""
    trace = read_trace(path)
    player = Player(trace, catalogue_of(trace, path.parent), beside=path.parent)
    player.play()
    check(player.simulator)


@pytest.mark.parametrize("seed", SEEDS)
def test_over_lives_in_which_much_goes_wrong(seed: int) -> None:
    """Planners that lie, executors that fall silent, restarts, cancels, unreadable bytes."""
    scenario, rng = draw(seed)
    run = GatedRun(scenario, rng, builtin_catalogue(), Codec())
    run.run()
    check(run.simulator)
