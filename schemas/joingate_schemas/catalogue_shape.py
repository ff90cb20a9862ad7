"""The room for what a catalogue file may hold: one model for each kind of entry, refusing every key that it lacks.

Fields are called as in `catalogue`, with durations written without their unit's suffix, for a duration in a file names
its unit itself: 30s, 10m, 24h, 7d, 500ms; a bare whole number is milliseconds.
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from joingate_schemas.catalogue import (
    ApprovalPolicy,
    BudgetClass,
    Capability,
    Draws,
    Effect,
    LateSuccess,
    LevelMeasure,
    LimitScope,
    MissedAction,
    ResolutionClass,
    StepKind,
)
from joingate_schemas.claims import Role

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,12})\s*(ms|s|m|h|d)")
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
DURATION_MS_MAX = 100 * 366 * 86_400_000
# Names become parts of topics, templates and ids, so they hold nothing that would have to be escaped there.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def _duration_ms(value: object) -> int:
    """A duration in milliseconds, from text with a unit or a whole number of milliseconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        milliseconds = int(match[1]) * _UNITS_MS[match[2]]
    else:
        raise ValueError("a duration is a whole number with a unit (500ms, 30s, 10m, 24h, 7d), or milliseconds")
    if not 0 <= milliseconds <= DURATION_MS_MAX:
        raise ValueError("a duration lies between 0 and a hundred years")
    return milliseconds


def _positive_ms(value: object) -> int:
    milliseconds = _duration_ms(value)
    if milliseconds == 0:
        raise ValueError("this duration must be above 0")
    return milliseconds


def _public_key(value: object) -> str:
    if not isinstance(value, str) or not _PUBLIC_KEY.fullmatch(value):
        raise ValueError("a public key is 64 hex digits in small letters, as `joingate keys new` prints it, in quotes")
    return value


Duration = Annotated[int, BeforeValidator(_duration_ms)]
PositiveDuration = Annotated[int, BeforeValidator(_positive_ms)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
PublicKey = Annotated[str, BeforeValidator(_public_key)]


class Shape(BaseModel):
    """What all entries have in common: no unknown keys, no guessing at types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class DownstreamShape(Shape):
    """An entry of `downstreams`."""

    capabilities: list[Capability]
    key_horizon: PositiveDuration | None = None
    in_flight_max: PositiveDuration = 60_000
    statement_cut_off: str = ""
    lookup_backoff: PositiveDuration = 1_000


class ArgumentShape(Shape):
    """An entry of an action's `arguments`."""

    meaning: bool = True
    from_records: bool = False


class ActionShape(Shape):
    """An entry of `actions`."""

    downstream: str
    effect: Effect
    kind: StepKind
    executor: str | None = None
    compensation: str | None = None
    human_gate: str = Field("operations", min_length=1)
    communication: Literal["NONE", "INFORMS", "PROMISES"] = "NONE"
    silence: PositiveDuration = 30_000
    permit: PositiveDuration = 30_000
    hold: Duration = 0
    in_doubt: PositiveDuration = 3_600_000
    approval: ApprovalPolicy = "NONE"
    approvals_needed: Count = 1
    approvers: list[str] = []
    approval_within: PositiveDuration = 86_400_000
    budget_class: BudgetClass = "EXPLORATION"
    cost: Amount = 0.0
    arguments: dict[str, ArgumentShape | None] = {}
    business_key: str = ""
    resources: list[str] = []
    quantities: dict[str, str | int] = {}
    obligation: str | None = None
    counterparty: str = ""
    verification: bool = False
    draws: dict[str, str | int] = {}
    alike: PositiveDuration | None = None


class ObligationShape(Shape):
    """An entry of `obligations`."""

    version: Count = 1
    resolution: ResolutionClass = "RELEASABLE"
    release_action: str | None = None
    observed: bool = True
    attributes: list[str] = []
    late_success: LateSuccess = "ORPHAN"
    verification: PositiveDuration = 600_000
    release: PositiveDuration = 3_600_000
    release_retry: PositiveDuration = 5_000
    disposition: PositiveDuration = 600_000
    reconciliation: PositiveDuration = 3_600_000
    valid: PositiveDuration | None = None
    freshness: PositiveDuration | None = None
    condition: str = ""
    condition_within: PositiveDuration = 86_400_000
    due: PositiveDuration | None = None
    grace: Duration = 0
    satisfied_evidence: list[str] = []
    missed_action: MissedAction = "REPORT"
    escalation: str = Field("operations", min_length=1)
    escalation_every: PositiveDuration = 86_400_000
    idle_cost: Amount = 0.0
    weight: Amount = 1.0
    transfer: PositiveDuration = 3_600_000
    transfer_evidence: list[str] = []
    lease: PositiveDuration | None = None
    superseded_by: str = ""
    migrates: list[Count] = []
    quantity: str | int = ""
    draws: Draws = "RETURNED"


class ResourceShape(Shape):
    """An entry of `resources`."""

    mode: Literal["EXCLUSIVE", "CAPACITY", "ONCE_EVER"]
    capacity: Amount | None = None
    capacities: dict[str, Amount] = {}
    arbitrated: bool = False
    keeps: bool = False
    lease: PositiveDuration | None = None


class PrincipalShape(Shape):
    """An entry of `principals`."""

    role: Role
    tenant: str = ""
    actions: list[str] = []
    owners: list[str] = []
    keys: list[PublicKey] = []
    vouches_for: list[str] = []
    registrar: bool = False
    effect_max: Effect = "IRREVERSIBLE"
    amounts_max: dict[str, Amount] = {}
    party: str = ""
    control: bool = False


class OwnerShape(Shape):
    """An entry of `owners`."""

    durable: bool = True
    external: bool = False


class PolicyShape(Shape):
    """An entry of `policies`."""

    owners: list[str] = Field(min_length=1)
    obligations: list[str] = []
    takeover: bool = False


class ObjectiveShape(Shape):
    """An entry of `objectives`."""

    measure: LevelMeasure
    within: PositiveDuration
    share: Annotated[float, Field(gt=0, lt=1)]
    window: PositiveDuration = 2_592_000_000
    obligation: str | None = None


class LimitShape(Shape):
    """An entry of `limits`."""

    of: LimitScope
    only: str = ""
    debt: Amount | None = None
    doubts: Count | None = None
    reviews: Count | None = None
    age: PositiveDuration | None = None
    uncertain: Annotated[float, Field(ge=1, le=100)] = 2.0


class TopShape(Shape):
    """The file's own keys, besides the sections."""

    version: str = Field(min_length=1)
    plan_progress: PositiveDuration = 86_400_000
    max_skew: PositiveDuration = 300_000
    resource_wait: PositiveDuration = 60_000
    silent_attempts_max: Count = 3
    signatures: Literal["OPTIONAL", "REQUIRED"] = "OPTIONAL"
    approval_floor: dict[Literal["REVERSIBLE", "IRREVERSIBLE", "PIVOT"], ApprovalPolicy] = {}
    retention: PositiveDuration | None = None


SECTIONS: dict[str, type[Shape]] = {
    "downstreams": DownstreamShape,
    "actions": ActionShape,
    "obligations": ObligationShape,
    "resources": ResourceShape,
    "principals": PrincipalShape,
    "objectives": ObjectiveShape,
    "owners": OwnerShape,
    "policies": PolicyShape,
    "limits": LimitShape,
}
"""The sections of a file, each a mapping from names to entries."""

IN_MS: dict[type[Shape], dict[str, str]] = {
    DownstreamShape: {
        "key_horizon": "key_horizon_ms", "in_flight_max": "in_flight_ms_max", "lookup_backoff": "lookup_backoff_ms",
    },
    ActionShape: {
        "silence": "silence_ms", "permit": "permit_ms", "hold": "hold_ms", "in_doubt": "in_doubt_ms",
        "approval_within": "approval_ms", "alike": "alike_ms",
    },
    ObligationShape: {
        "verification": "verification_ms", "release": "release_ms", "release_retry": "release_retry_ms",
        "disposition": "disposition_ms", "reconciliation": "reconciliation_ms", "valid": "valid_ms",
        "freshness": "freshness_ms", "condition_within": "condition_ms", "due": "due_ms", "grace": "grace_ms",
        "escalation_every": "escalation_ms", "transfer": "transfer_ms", "lease": "lease_ms",
    },
    ObjectiveShape: {"within": "within_ms", "window": "window_ms"},
    ResourceShape: {"lease": "lease_ms"},
    LimitShape: {"age": "age_ms"},
    TopShape: {
        "plan_progress": "plan_progress_ms", "max_skew": "max_skew_ms", "resource_wait": "resource_wait_ms",
        "retention": "retention_ms",
    },
}  # fmt: skip
"""What a duration is called in `catalogue`, where its name ends in its unit."""
