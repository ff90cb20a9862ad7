"""The projections as Prometheus metrics: counts by table and status, positions and lags, ages of what is open."""

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from joingate_projections.reader import StoreReader
from joingate_projections.tables import Row


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
        yield from _rows(summary)
        yield from _decisions(summary)
        yield from _ages(summary)
        yield from _lanes(positions)
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
