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


def measure_gate(bootstrap: str, intents: int, codec: Codec) -> float:
    """Claims a second of the gate, its rounds together."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    topics = Topics(prefix)
    topics.create(bootstrap, 1, {action.executor for action in work.catalogue().actions.values()})
    now = int(time.time() * 1000)
    rounds = [
        (topic, [claim for number in range(intents) for claim in claims_of(number, now)])
        for topic, claims_of in (
            (topics.proposals, work.planner_claims),
            (topics.outcomes, work.executor_claims),
            (topics.proposals, work.closing_claims),
        )
    ]
    seconds, decided, total = 0.0, 1, 0  # the catalogue's own decision comes first
    with tempfile.TemporaryDirectory(prefix="joingate-bench-") as data:
        for topic, claims in rounds:
            work.fill(bootstrap, topic, claims, codec)
            run_gate_until(bootstrap, prefix, Path(data), decided + len(claims))
            seconds += len(claims) / work.committed_rate(bootstrap, topics.ledger, decided, len(claims))
            decided += len(claims)
            total += len(claims)
    return total / seconds


def measure_peer(bootstrap: str, intents: int, codec: Codec, peer: str, java: tuple[str, str] | None) -> float:
    """Records a second of a peer over the same bytes, in one topic and one go."""
    source = f"bench-{uuid.uuid4().hex[:8]}-in"
    sink = source.replace("-in", "-out")
    work.make_topics(bootstrap, [source, sink])
    now = int(time.time() * 1000)
    claims = [
        claim
        for number in range(intents)
        for claims_of in (work.planner_claims, work.executor_claims, work.closing_claims)
        for claim in claims_of(number, now)
    ]
    work.fill(bootstrap, source, claims, codec)
    if peer == "pass-through":
        passthrough.run(bootstrap, source, sink, len(claims))
    else:
        assert java is not None
        streams_peer.run(*java, bootstrap, source, sink, len(claims), codec)
    return work.committed_rate(bootstrap, sink, 0, len(claims))


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
        for turn in range(1, options.rounds + 1):
            for name in rates:
                with console.status(f"round {turn} of {options.rounds}: {name}"):
                    if name == "Join Gate":
                        rate = measure_gate(broker.bootstrap_servers, options.intents, codec)
                    else:
                        rate = measure_peer(broker.bootstrap_servers, options.intents, codec, name, java)
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
