"""`make bench`: the gate with its whole law beside its peers, in turn on one broker, several times; prints ratios.

Only ratios within one run count: absolute figures differ from machine to machine and from hour to hour.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import passthrough, streams_peer, work
from benchmarks.gate_peer import run_gate_until
from joingate.local_kafka import ensure_kafka
from joingate_schemas.codec import Codec
from joingate_schemas.topics import Topics


def measure_gate(bootstrap: str, intents: int, wave: int, codec: Codec) -> float:
    """Claims a second of the gate, over the topics of its roles."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    topics = Topics(prefix)
    topics.create(bootstrap, 1, {action.executor for action in work.catalogue().actions.values()})
    work.fill(bootstrap, work.waves(intents, wave, _now(), topics.proposals, topics.outcomes), codec)
    claims, before = intents * work.CLAIMS_PER_INTENT, 1  # the catalogue's own decision comes first
    with tempfile.TemporaryDirectory(prefix="joingate-bench-") as data:
        run_gate_until(bootstrap, prefix, Path(data), before + claims)
    return work.committed_rate(bootstrap, topics.ledger, before, claims)


def measure_peer(
    bootstrap: str, intents: int, wave: int, codec: Codec, peer: str, java: tuple[str, str] | None
) -> float:
    """Records a second of a peer over the same bytes, in one topic."""
    source = f"bench-{uuid.uuid4().hex[:8]}-in"
    sink = source.replace("-in", "-out")
    work.make_topics(bootstrap, [source, sink])
    work.fill(bootstrap, work.waves(intents, wave, _now(), source, source), codec)
    claims = intents * work.CLAIMS_PER_INTENT
    if peer == "pass-through":
        passthrough.run(bootstrap, source, sink, claims)
    else:
        assert java is not None
        streams_peer.run(*java, bootstrap, source, sink, claims, codec)
    return work.committed_rate(bootstrap, sink, 0, claims)


def _now() -> int:
    return int(time.time() * 1000)


def show(rates: dict[str, list[float]], console: Console) -> dict[str, dict[str, float]]:
    """Print the table; return each peer's median rate and the gate's median, least and largest ratio to it."""
    gate = rates["Join Gate"]
    table = Table(title="Claims a second, exactly once, one process, one partition")
    for column in ("peer", "median claims/s", "Join Gate : peer", "min - max of the ratio"):
        table.add_column(column, justify="left" if column == "peer" else "right")
    result = {}
    for name, figures in rates.items():
        ratios = [ours / theirs for ours, theirs in zip(gate, figures, strict=True)]
        result[name] = {
            "rate": statistics.median(figures), "ratio": statistics.median(ratios),
            "ratio_min": min(ratios), "ratio_max": max(ratios),
        }  # fmt: skip
        row = result[name]
        spread = f"{row['ratio_min']:.2f} - {row['ratio_max']:.2f}"
        table.add_row(name, f"{row['rate']:,.0f}", f"{row['ratio']:.2f}", spread)
    console.print(table)
    return result


def main() -> int:
    """Run the benchmark. Exit status 0 when every peer ran; 1 when one could not."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--intents", type=int, default=40_000, help="intents per measurement, six claims each")
    parser.add_argument("--wave", type=int, default=work.WAVE, help="intents whose claims are under way together")
    parser.add_argument("--rounds", type=int, default=3, help="how often each peer is measured, in turn")
    parser.add_argument("--without-streams", action="store_true", help="leave Kafka Streams out (needs no JDK)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    console = Console(stderr=options.json)
    codec = Codec()
    peers = ["pass-through"] + ([] if options.without_streams else ["Kafka Streams, exactly_once_v2"])
    rates: dict[str, list[float]] = {name: [] for name in ("Join Gate", *peers)}
    with tempfile.TemporaryDirectory(prefix="joingate-bench-") as classes, ensure_kafka() as broker:
        java = None if options.without_streams else streams_peer.build(Path(classes))
        with console.status("warming the broker up"):  # else whoever is first pays for its compiling
            measure_peer(broker.bootstrap_servers, options.intents, options.wave, codec, "pass-through", None)
        for turn in range(1, options.rounds + 1):
            for name in rates:
                with console.status(f"round {turn} of {options.rounds}: {name}"):
                    if name == "Join Gate":
                        rate = measure_gate(broker.bootstrap_servers, options.intents, options.wave, codec)
                    else:
                        rate = measure_peer(broker.bootstrap_servers, options.intents, options.wave, codec, name, java)
                console.print(f"round {turn}: {name} {rate:,.0f} claims/s")
                rates[name].append(rate)
    result = show(rates, console)
    if options.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    try:
        sys.exit(main())
    except RuntimeError as problem:
        print(f"make bench: {problem}", file=sys.stderr)
        sys.exit(1)
