"""The room for the reconciler's settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from joingate_processors.reconciler.rules import Policy


@dataclass(frozen=True, kw_only=True)
class ReconcilerSettings:
    """Where the broker is, where state is kept, and which downstream is asked at which base URL.

    `bootstrap_servers`: host:port, several with commas. `prefix`: of all topics and of the consumer group.
    `state_dir`: the table's folder; losing it costs a restore from the changelog. `registry_url`: of the schema
    registry, if one is used. `client`: further settings of librdkafka, of which Faust's own client follows those that
    secure the connection (see security.py). `ask_timeout_s` bounds one question, `asks_at_once` those to one
    downstream, `stop_deadline_s` an orderly end. `replication_factor` is that of the topics which the
    reconciler makes for itself (-1: the broker's default). `key_file`: the private key by which it signs what it
    observes, where the deployment asks that of observers.
    """

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict)
    state_dir: Path
    prefix: str = "joingate."
    downstreams: Mapping[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    key_file: Path | None = None
    policy: Policy = field(default_factory=Policy)
    ask_timeout_s: float = 5.0
    asks_at_once: int = 4
    replication_factor: int = -1
    session_timeout_s: float = 6.0
    retry_s: float = 2.0
    retry_s_max: float = 15.0
    stop_deadline_s: float = 5.0
