"""The contract of Join Gate: event types, Avro schemas, codec and topic catalogue.

The names below are the public ones; each claim and fact lives in `claims` and `facts`, the gate's own records in
`decisions`. Importing this package does no IO, and loads neither YAML nor pydantic: `catalogue_file` does.
"""

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import CLAIM_TYPES, ROLE_TYPES, AnyClaim
from joingate_schemas.codec import (
    CLAIM_BYTES_MAX,
    RECORD_TYPES,
    AnyRecord,
    Codec,
    Undecodable,
    Unencodable,
    UnknownFact,
)
from joingate_schemas.decisions import Command, CommitmentRow, Decision, InDoubtRequest, Quarantined
from joingate_schemas.facts import FACT_TYPES, AnyFact
from joingate_schemas.reasons import REASONS, Reason, Retry, reason_number
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.topics import TopicMismatch, Topics, TopicsUnavailable, partition_for

__all__ = [
    "CLAIM_BYTES_MAX",
    "CLAIM_TYPES",
    "FACT_TYPES",
    "REASONS",
    "RECORD_TYPES",
    "ROLE_TYPES",
    "AnyClaim",
    "AnyFact",
    "AnyRecord",
    "Catalogue",
    "Codec",
    "Command",
    "CommitmentRow",
    "Decision",
    "InDoubtRequest",
    "Quarantined",
    "Reason",
    "RegistryUnavailable",
    "Retry",
    "TopicMismatch",
    "Topics",
    "TopicsUnavailable",
    "Undecodable",
    "Unencodable",
    "UnknownFact",
    "partition_for",
    "reason_number",
]
