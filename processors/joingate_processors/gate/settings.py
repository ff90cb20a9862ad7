"""The room for what a gate can be told: where its broker and disk are, how much it does at once, how long it waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import CLAIM_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """One gate worker. Workers with the same `prefix` share the partitions; each needs a `data_dir` of its own.

    `batch_max` bounds the claims of one transaction; `linger_ms` is how long a busy gate waits for a fuller one (an
    idle gate never waits). `cache_rows` is a partition's, in decoded rows. `client` holds further librdkafka settings,
    such as credentials, for every client of the gate. `accept_undischargeable`: who takes it on, and why, that the
    catalogue can't discharge what is open; empty: the gate does not start over it.
    """

    bootstrap_servers: str
    data_dir: Path
    catalogue: Catalogue
    prefix: str = "joingate."
    partitions: int = 4
    registry_url: str | None = None
    accept_undischargeable: str = ""
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    batch_max: int = 20_000  # the more, the fewer rows are written: of a row that changes often, only the last form is
    linger_ms: int = 10
    cache_rows: int = 200_000
    claim_bytes_max: int = CLAIM_BYTES_MAX

    session_timeout_ms: int = 6_000
    transaction_timeout_ms: int = 60_000
    commit_deadline_ms: int = 45_000  # how long a transaction's end may stay unknown before its writer is replaced
    max_skew_ms: int = 10_000  # how far this machine's clock may be off the broker's
    stalled_after_ms: int = 2_000  # how long a transaction of somebody else may keep an intake topic from being read
    halted_retry_ms: int = 30_000  # after how long a disk or clock that halted a partition is tried again
    halted_after_ms: int = 60_000  # how long restoring may see no movement of a log that it has not read to its end

    @property
    def group(self) -> str:
        """The consumer group that all workers of this deployment join."""
        return f"{self.prefix}gate"

    def transactional_id(self, partition: int) -> str:
        """The name of the partition's writer: stable, so that whoever takes over ends what the last one left open."""
        return f"{self.prefix}gate-{partition}"
