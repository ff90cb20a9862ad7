"""Field case C16: an aborted record is shown to nobody, whatever the compression; the canary would see one."""

from __future__ import annotations

import socket

import pytest

from joingate_schemas import canary
from joingate_schemas.canary import CanaryFailed, LeakyBroker, fly_canary
from joingate_schemas.topics import Topics


@pytest.mark.broker
@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "snappy", "zstd"])
def test_real_kafka_shows_no_aborted_record_under_any_compression(
    bootstrap: str, topic_prefix: str, compression: str
) -> None:
    topics = Topics(topic_prefix)
    fly_canary(bootstrap, topics, compression=compression)
    fly_canary(bootstrap, topics, compression=compression)  # Its topic is there already, with another run's records.


@pytest.mark.broker
def test_a_reader_that_shows_aborted_records_is_found_out(bootstrap: str, topic_prefix: str) -> None:
    """The control: the aborted record does lie in the log, so that a reader of everything is taken for a leak."""
    topic = topic_prefix + "canary"
    canary._create(bootstrap, topic, {})
    start = canary._write(bootstrap, topic, b"run", "lz4", {})
    with pytest.raises(LeakyBroker, match=f"shows records of aborted transactions .offset {start} of {topic}"):
        canary._read_back(bootstrap, topic, start, b"run", {}, isolation="read_uncommitted")
    canary._read_back(bootstrap, topic, start, b"run", {})


def test_a_canary_that_can_not_fly_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "TIMEOUT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(CanaryFailed, match=f"could not be tried on joingate.canary at {address}"):
            fly_canary(address, Topics(), client={"log_level": 0})
