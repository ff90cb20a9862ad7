"""Service levels: latencies, breaches, finders and objectives, all from the ledger and each counted once."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from joingate_projections.api import create_app
from joingate_projections.fold import fold, fold_fact
from joingate_projections.levels import levels
from joingate_projections.store import Position, ProjectionStore, fingerprint
from joingate_projections.tables import At, MemoryRows, Row, Rows, joined
from joingate_projections.tables.levels import bucket, commitment_moved, finder
from joingate_schemas.catalogue import LATENCY_BOUNDS_MS, Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_text
from joingate_schemas.claims import CLAIM_TYPES
from joingate_schemas.facts import CatalogueLoaded, CommitmentStatus

DAY = 86_400_000
NOW = 100 * DAY
OBJECTIVE = """
version: "1"
downstreams:
  cloud: {capabilities: [LOOKUP]}
actions:
  free: {downstream: cloud, effect: REVERSIBLE, kind: RETRYABLE}
obligations:
  hold: {resolution: RELEASABLE, release_action: free}
  other: {resolution: EXPIRING, valid: 7d}
objectives:
  quick: {measure: RELEASE, within: 60s, share: 0.9999, window: 7d, obligation: hold}
"""


class Life:
    """One commitment's transitions at given times, folded straight into rows."""

    def __init__(self, rows: Rows, commitment_id: str = "c1", of: str = "hold") -> None:
        self.rows = rows
        self.row: Row | None = None
        self.fixed = {"commitment_id": commitment_id, "obligation_type": of, "owner_id": "ada"}

    def to(self, status: CommitmentStatus, at_ms: int, by: str = "Observe", **fields: str) -> Life:
        """Its next status."""
        breached = self.row is not None and (self.row["breached"] or self.row["status"] == "BREACHED")
        obliged = self.row["obliged_since"] if self.row is not None else None
        new = {**self.fixed, "status": status, "breached": breached, "obliged_since": obliged, **fields}
        commitment_moved(self.rows, self.row, new, At(0, 1, at_ms, by))
        self.row = new
        return self


def told(rows: MemoryRows | None, store: ProjectionStore, now: int = NOW) -> Row:
    """The answer, with what `rows` hold put into the store."""
    if rows is not None:
        batch = store.batch()
        for table, found in rows.tables.items():
            for key, row in found.items():
                batch.put(table, key, row)
        for (about, name), count in rows.counters.items():
            batch.count(about, name, count)
        batch.commit()
    with store.view() as view:
        return levels(view, now)


def declare(rows: MemoryRows) -> None:
    """Let the catalogue be in force."""
    load(rows, catalogue_from_text(OBJECTIVE))


def load(rows: MemoryRows, catalogue: Catalogue) -> None:
    """Let this catalogue be in force."""
    fact = CatalogueLoaded(digest=catalogue.digest, version="1", catalogue=catalogue.source)
    fold_fact(rows, fact, At(0, 1, 0, "CatalogueChanged"))


@pytest.fixture
def rows() -> MemoryRows:
    """Rows to fold into, with an objective declared."""
    made = MemoryRows()
    declare(made)
    return made


def test_a_bound_belongs_to_the_bucket_that_it_ends() -> None:
    """So that what took exactly as long as promised has kept the promise."""
    for place, bound in enumerate(LATENCY_BOUNDS_MS):
        assert (bucket(bound), bucket(bound + 1)) == (place, place + 1)
    assert bucket(0) == bucket(-5) == 0


@pytest.mark.parametrize(
    ("path", "measure", "count", "sum_ms"),
    [
        (["RELEASE_PENDING", "RELEASED"], "release", 1, 1_000),
        (["RELEASE_PENDING", "BREACHED", "RELEASED"], "release", 1, 2_000),
        (["RELEASE_PENDING", "RECONCILIATION_REQUIRED", "RELEASE_PENDING", "RELEASED"], "release", 1, 3_000),
        (["RELEASE_PENDING", "ACTIVE", "RELEASE_PENDING", "RELEASED"], "release", 1, 1_000),
        (["RELEASE_PENDING", "SATISFIED"], "release", 0, 0),
        (["RELEASED"], "release", 0, 0),
        (["TRANSFER_PENDING", "TRANSFERRED"], "transfer", 1, 1_000),
        (["TRANSFER_PENDING", "ACTIVE"], "transfer", 0, 0),
        (["TRANSFER_PENDING", "UNKNOWN", "TRANSFERRED"], "transfer", 1, 2_000),
        (["UNKNOWN", "RECONCILIATION_REQUIRED", "ACTIVE"], "reconciliation", 1, 2_000),
        (["UNKNOWN", "ACTIVE", "UNKNOWN", "RELEASED"], "reconciliation", 2, 2_000),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_latency_lasts_from_the_wish_to_the_evidence(
    rows: MemoryRows, open_store: ProjectionStore, path: list[CommitmentStatus], measure: str, count: int, sum_ms: int
) -> None:
    """A doubt or a breach on the way makes it no younger; a wish that was dropped is no latency."""
    life = Life(rows).to("ACTIVE", 0)
    for second, status in enumerate(path, 1):
        life.to(status, 1_000 * second)
    answer = told(rows, open_store)
    latency = answer["latencies"][measure]
    assert (latency["count"], latency["sum_ms"]) == (count, sum_ms)
    assert {name: one["count"] for name, one in answer["pending"].items()} == {
        "release": 0, "transfer": 0, "reconciliation": 0,
    }  # fmt: skip


def test_a_transfer_within_our_books_ends_with_its_new_owner(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """It goes on as it was, under another; back to the same owner is no transfer."""
    taken = Life(rows).to("ACTIVE", 0).to("TRANSFER_PENDING", 1_000)
    taken.to("TRANSFER_PENDING", 4_000, owner_id="bob").to("ACTIVE", 4_000, owner_id="bob")
    Life(rows, "c2").to("ACTIVE", 0).to("TRANSFER_PENDING", 1_000).to("ACTIVE", 5_000)
    transfer = told(rows, open_store)["latencies"]["transfer"]
    assert (transfer["count"], transfer["sum_ms"]) == (1, 3_000)


def test_quantiles_are_bounds_and_never_guesses(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """The bound under which so many lie; what lies above all bounds has none."""
    for number, ms in enumerate([400] * 98 + [700_000, 700_000_000]):
        Life(rows, f"c{number}").to("RELEASE_PENDING", 0).to("RELEASED", ms)
    release = told(rows, open_store)["latencies"]["release"]
    assert (release["p50_ms_max"], release["p99_ms_max"], release["p99.9_ms_max"]) == (500, 900_000, None)
    assert release["by_type"]["hold"]["count"] == 100


def test_breaches_are_counted_against_what_was_due(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """Each commitment once, however often it is breached; what was only proposed was never due."""
    Life(rows, "kept").to("PROPOSED", 0).to("ACTIVE", 1).to("SATISFIED", 2)
    Life(rows, "dropped").to("PROPOSED", 0).to("RELEASED", 1)
    Life(rows, "late").to("ACTIVE", 0).to("BREACHED", 1).to("RELEASED", 2)
    twice = Life(rows, "twice", "other").to("ACTIVE", 0).to("BREACHED", 1)
    twice.to("RECONCILIATION_REQUIRED", 2).to("BREACHED", 3)
    breaches = told(rows, open_store)["breaches"]
    assert (breaches["breached"], breaches["obliged"]) == (2, 3)
    assert breaches["by_type"]["hold"] == {"breached": 1, "obliged": 2, "rate": 0.5}


def test_who_found_it_is_the_role_of_the_claim_that_revealed_it(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """A person who tells us is not us; every claim has a finder."""
    Life(rows, "a").to("ACTIVE", 0).to("UNKNOWN", 1, by="TimerFired")
    Life(rows, "b").to("ACTIVE", 0).to("UNKNOWN", 1, by="RequestReconciliation")
    Life(rows, "c").to("ACTIVE", 0).to("BREACHED", 1, by="Override")
    found = told(rows, open_store)["found"]
    assert found["by_trouble"] == {"IN_DOUBT": {"gate": 1, "person": 1}, "BREACHED": {"person": 1}}
    assert (found["by_us"], found["by_people"]) == (1, 2)
    assert {finder(name) for name in CLAIM_TYPES} == {"EXECUTOR", "OBSERVER", "GATE", "PERSON"}


def objective(answer: Row) -> Row:
    """How the one objective stands."""
    (one,) = answer["objectives"]
    found: Row = one
    return found


def many(rows: MemoryRows, quick: int, slow: int, day: int = 99) -> None:
    """Releases that ended on a day."""
    for count, place in ((quick, bucket(60_000)), (slow, bucket(60_001))):
        if count:
            rows.count(f"latency RELEASE {day:06d}", joined("hold", f"{place:02d}"), count)


@pytest.mark.parametrize(
    ("quick", "slow", "met", "burn"),
    [(9_999, 1, True, 1.0), (9_998, 1, False, 1.0001), (19_999, 1, True, 0.5), (10, 0, True, 0.0), (0, 1, False, 1e4)],
)
def test_an_objective_is_met_to_the_last_one(
    rows: MemoryRows, open_store: ProjectionStore, quick: int, slow: int, met: bool, burn: float
) -> None:
    """One of ten thousand may be missed at 99.99 %, and one of 9,999 may not."""
    many(rows, quick, slow)
    one = objective(told(rows, open_store))
    assert (one["met"], one["missed"], one["total"]) == (met, slow, quick + slow)
    assert one["burn"] == pytest.approx(burn)


def test_what_is_pending_beyond_the_limit_has_missed_it_already(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """Else a release that never ends would never be missed. Once it ends it is counted there instead, and once."""
    many(rows, 3, 0)
    Life(rows, "stuck").to("RELEASE_PENDING", NOW - 60_001)
    Life(rows, "just").to("RELEASE_PENDING", NOW - 60_000)
    Life(rows, "foreign", "other").to("RELEASE_PENDING", NOW - 90_000)
    answer = told(rows, open_store)
    assert (objective(answer)["overdue"], objective(answer)["missed"], objective(answer)["total"]) == (1, 1, 4)
    assert answer["pending"]["release"] == {"count": 3, "oldest_ms": 90_000}
    ended = MemoryRows()
    ended.tables["pending"] = dict(rows.tables["pending"])
    life = Life(ended, "stuck")
    life.row = {**life.fixed, "status": "RELEASE_PENDING", "breached": False, "obliged_since": 0}
    life.to("RELEASED", NOW)
    batch = open_store.batch()
    batch.delete("pending", joined("RELEASE", "COMMITMENT", "stuck"))
    for (about, name), count in ended.counters.items():
        batch.count(about, name, count)
    batch.commit()
    one = objective(told(None, open_store))
    assert (one["overdue"], one["missed"], one["total"]) == (0, 1, 4)


def test_a_window_ends_today_and_is_as_many_days_as_it_says(rows: MemoryRows, open_store: ProjectionStore) -> None:
    """Seven days: today and six before it."""
    for day in (93, 94, 100, 101):
        many(rows, 1, 0, day)
    assert objective(told(rows, open_store))["total"] == 2


def test_without_anything_to_go_by_an_objective_is_neither_met_nor_missed(
    rows: MemoryRows, open_store: ProjectionStore
) -> None:
    """And without a catalogue there is none."""
    one = objective(told(rows, open_store))
    assert (one["met"], one["burn"], one["achieved"]) == (None, None, None)
    with ProjectionStore.open(open_store.folder / "none") as empty:
        assert told(None, empty)["objectives"] == []


# --- over ledgers of the law's own -----------------------------------------------------------------------------------

WINDOW = {"step_id": "w", "action": "reserve_window", "business_key": "w1"}
DECLARED = {"as": "planner", "type": "DeclareIntent", "version": 1}


def reserved(scene: Any) -> list[dict[str, Any]]:
    """A window in force."""
    return [DECLARED, scene.planned(WINDOW), *scene.done("w"), scene.seen("w")]


def test_a_release_is_timed_until_it_is_seen_to_be_gone(scene: Any, open_store: ProjectionStore) -> None:
    """The cloud's 202 is no end of it; the observation is. And the effect was known two seconds after the permit."""
    played = scene(
        *reserved(scene),
        {"as": "planner", "type": "Release", "commitment_of": "w"},
        {"advance": "90s"},
        scene.seen("w", "ABSENT", proof="SECOND_LOOK"),
    )
    answer = played.reader(open_store).ask("service-levels")
    assert answer["latencies"]["release"]["by_type"]["window"]["count"] == 1
    assert answer["latencies"]["release"]["sum_ms"] == 90_000
    assert answer["latencies"]["detection"]["by_type"]["EXECUTOR"]["sum_ms"] == 2_000
    standing = {one["name"]: one for one in answer["objectives"]}
    assert (standing["releases-verified"]["met"], standing["effects-known"]["met"]) == (False, True)
    assert answer["position"] == {"0": len(played.decisions)}


def test_an_obligation_that_its_intent_left_behind_is_counted_until_it_is_gone(
    scene: Any, open_store: ProjectionStore
) -> None:
    """The stale-intent count, and how old the oldest open commitment is."""
    lines = [*reserved(scene), {"advance": "1h"}, {"as": "planner", "type": "CancelIntent"}]
    answer = scene(*lines).reader(open_store).ask("service-levels")
    assert answer["commitments"]["stale_intent"] == 1
    assert 3_600_000 <= answer["commitments"]["age_ms"]["oldest"] <= 3_610_000
    gone = scene(*lines, scene.seen("w", "ABSENT", proof="SECOND_LOOK"))
    with ProjectionStore.open(open_store.folder / "gone") as store:
        after = gone.reader(store).ask("service-levels")
    assert after["commitments"]["stale_intent"] == 0
    assert after["commitments"]["age_ms"]["oldest"] is None


def test_what_was_asked_twice_and_what_came_too_late_are_counted(scene: Any, open_store: ProjectionStore) -> None:
    """From the reasons of the decisions themselves."""
    again = {"as": "planner", "type": "Dispatch", "intent_version": 1, "plan_id": "p1", "step_id": "w"}
    newer = {**DECLARED, "version": 2}
    answer = scene(*reserved(scene), again, again, newer, again).reader(open_store).ask("service-levels")
    assert answer["duplicates_prevented"] == {"total": 2, "by_reason": {"SAME_OPERATION": 2}}
    assert answer["stale"]["by_reason"] == {"STALE_INTENT": 1}


def test_levels_are_the_same_however_the_ledger_was_folded(scene: Any, open_store: ProjectionStore) -> None:
    """One decision a batch, or all of it in one: each is counted exactly once."""
    played = scene(*reserved(scene), {"as": "planner", "type": "CancelIntent"}, {"advance": "2h"})
    played.store_in(open_store)
    with ProjectionStore.open(open_store.folder / "slow") as slow:
        for seq, decision in enumerate(played.decisions, 1):
            batch = slow.batch()
            fold(batch, decision, 0)
            batch.reached(position_at(seq))
            batch.commit()
        assert fingerprint(slow) == fingerprint(open_store)


def position_at(seq: int) -> Position:
    """Some position of the ledger's first partition."""
    return Position("ledger", 0, offset=seq - 1, seq=seq, epoch=1, digest="")


def test_levels_are_metrics_too(scene: Any, open_store: ProjectionStore) -> None:
    """Histograms with the bounds in seconds, and gauges of objectives."""
    played = scene(
        *reserved(scene),
        {"as": "planner", "type": "Release", "commitment_of": "w"},
        {"advance": "30s"},
        scene.seen("w", "ABSENT", proof="SECOND_LOOK"),
    )
    text = TestClient(create_app(played.reader(open_store))).get("/metrics").text
    for line in (
        'joingate_release_seconds_bucket{le="15.0",type="window"} 0.0',
        'joingate_release_seconds_bucket{le="30.0",type="window"} 1.0',
        'joingate_release_seconds_bucket{le="+Inf",type="window"} 1.0',
        'joingate_release_seconds_sum{type="window"} 30.0',
        'joingate_detection_seconds_count{found_by="executor"} 1.0',
        'joingate_obliged_total{type="window"} 1.0',
        'joingate_objective_burn{name="releases-verified"} 0.0',
        'joingate_objective_total{name="releases-verified"} 1.0',
        "joingate_stale_intent_commitments 0.0",
    ):
        assert line in text


def test_the_objectives_of_the_catalogue_are_the_ones_that_are_told(open_store: ProjectionStore) -> None:
    """As the ledger has it, not as some file does."""
    rows = MemoryRows()
    load(rows, builtin_catalogue())
    assert {one["name"] for one in told(rows, open_store)["objectives"]} == set(builtin_catalogue().objectives)
