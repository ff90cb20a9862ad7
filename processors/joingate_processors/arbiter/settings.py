"""The room for what an arbiter can be told: where its broker is, how much it does at once, how long it waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joingate_schemas.codec import CLAIM_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class ArbiterSettings:
    """One arbiter worker. Workers with the same `prefix` share the partitions; none of them needs a disk.

    `batch_max` bounds the messages of one transaction. `client` holds further librdkafka settings, such as
    credentials, for every client of the arbiter.
    """

    bootstrap_servers: str
    prefix: str = "joingate."
    partitions: int = 4
    registry_url: str | None = None
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    batch_max: int = 1_000
    message_bytes_max: int = CLAIM_BYTES_MAX

    session_timeout_ms: int = 6_000
    transaction_timeout_ms: int = 60_000
    commit_deadline_ms: int = 45_000  # how long a transaction's end may stay unknown before its writer is replaced
    max_skew_ms: int = 10_000  # how far this machine's clock may be off the broker's
    halted_retry_ms: int = 30_000  # after how long a clock that halted a partition is looked at again
    halted_after_ms: int = 60_000  # how long restoring may see no movement of a log that it has not read to its end

    @property
    def group(self) -> str:
        """The consumer group that all workers of this deployment join."""
        return f"{self.prefix}arbiter"

    def transactional_id(self, partition: int) -> str:
        """The name of the partition's writer: stable, so that whoever takes over ends what the last one left open."""
        return f"{self.prefix}arbiter-{partition}"
