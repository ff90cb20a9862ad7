"""The projections as Prometheus metrics: counts by table and status, positions and lags, ages of what is open."""

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from joingate_projections.reader import StoreReader
from joingate_projections.tables import Row
from joingate_schemas.catalogue import LATENCY_BOUNDS_MS


class Metrics:
    """What a scrape of one reader gives. Nothing is counted here: every number is read from the projections."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, reader: StoreReader) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Projections(reader))

    def text(self) -> bytes:
        """The metrics in Prometheus's text form. Raises StoreError when the store cannot be read."""
        return generate_latest(self._registry)


class _Projections(Collector):
    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the store is read at a scrape, and not when we are registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Everything, read at once."""
        summary, positions, health = self._reader.summary(), self._reader.positions(), self._reader.health()
        levels = self._reader.ask("service-levels")
        yield from _rows(summary)
        yield from _decisions(summary)
        yield from _ages(summary)
        yield from _lanes(positions)
        yield from _latencies(levels)
        yield from _levels(levels)
        yield from _objectives(levels)
        yield GaugeMetricFamily(
            "joingate_projections_healthy",
            "1 if nothing is wrong with the projections.",
            value=float(health["healthy"]),
        )


def _rows(summary: Row) -> Iterator[Metric]:
    rows = GaugeMetricFamily("joingate_rows", "Rows of a table by status (or kind).", labels=["table", "status"])
    shown = GaugeMetricFamily("joingate_shown", "Rows of a table by the word for people.", labels=["table", "shown"])
    for table, counts in summary["tables"].items():
        if table == "decisions":
            continue
        for field, by_value in counts.items():
            for value, count in by_value.items():
                (shown if field == "shown" else rows).add_metric([table, value], count)
    yield rows
    yield shown


def _decisions(summary: Row) -> Iterator[Metric]:
    for field in ("verdict", "reason", "claim_type"):
        family = CounterMetricFamily(f"joingate_decisions_by_{field}", f"Decisions by {field}.", labels=[field])
        for value, count in summary["tables"]["decisions"][field].items():
            family.add_metric([value], count)
        yield family
    unknown = CounterMetricFamily("joingate_unknown_facts", "Facts that this release does not know.", labels=["fact"])
    for name, count in summary["unknown_facts"].items():
        unknown.add_metric([name], count)
    yield unknown


def _ages(summary: Row) -> Iterator[Metric]:
    oldest = GaugeMetricFamily("joingate_oldest_seconds", "Age of the oldest open incident.", labels=["table"])
    for table, age_ms in summary["oldest_ms"].items():
        oldest.add_metric([table], (age_ms or 0) / 1_000)
    yield oldest


def _lanes(positions: Row) -> Iterator[Metric]:
    seq = GaugeMetricFamily("joingate_ledger_position", "The seq folded last.", labels=["partition"])
    for partition, number in positions["position"].items():
        seq.add_metric([partition], number)
    yield seq
    lag = GaugeMetricFamily("joingate_lag_records", "Offsets up to the topic's end.", labels=["stream", "partition"])
    stopped = GaugeMetricFamily("joingate_stopped", "1 if a fault stopped it.", labels=["stream", "partition"])
    for status in positions["projector"].values():
        if "stream" in status:
            names = [status["stream"], str(status["partition"])]
            lag.add_metric(names, status["behind"])
            stopped.add_metric(names, float(status["state"] == "STOPPED"))
    yield lag
    yield stopped


_LATENCIES = {
    "release": "From asking for a release to its evidence, by obligation type.",
    "transfer": "From offering a transfer to its acceptance, by obligation type.",
    "reconciliation": "How long doubts lasted, by obligation type (empty: of operations).",
    "detection": "From the leave to act to our knowing of the effect, by who found it.",
}


def _latencies(levels: Row) -> Iterator[Metric]:
    for name, told in _LATENCIES.items():
        label = "found_by" if name == "detection" else "type"
        family = HistogramMetricFamily(f"joingate_{name}_seconds", told, labels=[label])
        for of, one in levels["latencies"][name]["by_type"].items():
            seen, buckets = 0, []
            for bound, count in zip((*LATENCY_BOUNDS_MS, None), one["buckets"], strict=True):
                seen += count
                buckets.append(("+Inf" if bound is None else str(bound / 1_000), seen))
            family.add_metric([of.lower() if name == "detection" else of], buckets, sum_value=one["sum_ms"] / 1_000)
        yield family


def _levels(levels: Row) -> Iterator[Metric]:
    obliged = CounterMetricFamily("joingate_obliged", "Commitments ever in force or due, by type.", labels=["type"])
    breached = CounterMetricFamily("joingate_breached", "Of these, those ever breached.", labels=["type"])
    for of, one in levels["breaches"]["by_type"].items():
        obliged.add_metric([of], one["obliged"])
        breached.add_metric([of], one["breached"])
    yield obliged
    yield breached
    found = CounterMetricFamily("joingate_troubles_found", "Trouble, by who found it.", labels=["trouble", "found_by"])
    for trouble, by in levels["found"]["by_trouble"].items():
        for who, count in by.items():
            found.add_metric([trouble, who], count)
    yield found
    for name, key, told in (
        ("duplicates_prevented", "duplicates_prevented", "Asked for again, and not done again, by reason."),
        ("stale_refused", "stale", "Asked for on a state that had moved on, by reason."),
    ):
        counter = CounterMetricFamily(f"joingate_{name}", told, labels=["reason"])
        for reason, count in levels[key]["by_reason"].items():
            counter.add_metric([reason], count)
        yield counter
    unknown = GaugeMetricFamily("joingate_unknown", "What nobody knows at the moment.", labels=["table"])
    for table in ("operations", "commitments"):
        unknown.add_metric([table], levels["unknown"][table])
    yield unknown
    ages = GaugeMetricFamily("joingate_commitment_age_seconds", "Ages of open commitments.", labels=["quantile"])
    for quantile, age_ms in levels["commitments"]["age_ms"].items():
        ages.add_metric([quantile], (age_ms or 0) / 1_000)
    yield ages
    yield GaugeMetricFamily(
        "joingate_stale_intent_commitments",
        "Open commitments of an intent that has moved on, and that nobody decided to keep.",
        value=levels["commitments"]["stale_intent"],
    )


def _objectives(levels: Row) -> Iterator[Metric]:
    burn = GaugeMetricFamily(
        "joingate_objective_burn", "How much of what may be missed is used up; above 1 it is not met.", labels=["name"]
    )
    missed = GaugeMetricFamily("joingate_objective_missed", "Missed within the window.", labels=["name"])
    total = GaugeMetricFamily(
        "joingate_objective_total", "What the objective is about, in the window.", labels=["name"]
    )
    for one in levels["objectives"]:
        burn.add_metric([one["name"]], one["burn"] or 0.0)
        missed.add_metric([one["name"]], one["missed"])
        total.add_metric([one["name"]], one["total"])
    yield from (burn, missed, total)
