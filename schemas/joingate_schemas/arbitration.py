"""What the gate and the arbiter say to each other about resources, and the arbiter's own ledger record (model §6).

The gate writes `Reserve`, `Extend`, `Free` and `Quarantine` to the topic `resource-claims`, keyed by the resource's
reference, so that one partition of the arbiter hears all that concerns a resource. `n` is the number of the gate's
ledger record that sent the message. It rises, so a message that is heard again, or late, is known by it.
Quantities are whole numbers in the resource's smallest unit, so that their sums are exact. Times are integers,
milliseconds since the epoch, UTC.
"""

from typing import Literal, TypeAlias, TypedDict, get_args

from joingate_schemas.record import record

ResourceMode = Literal["EXCLUSIVE", "CAPACITY", "ONCE_EVER", "UNKNOWN"]
# HELD: an operation has it. RECLAIM_PENDING: its lease is over, and the operation may yet act, so it keeps it. SPENT:
# what was done with it stays done.
HoldStatus = Literal["HELD", "RECLAIM_PENDING", "SPENT", "UNKNOWN"]
# UNUSED: nothing was done with it, or it was undone. USED: the effect exists.
FreeOutcome = Literal["UNUSED", "USED", "UNKNOWN"]
ArbiterVerdict = Literal["GRANTED", "DENIED", "DONE", "REPLAYED", "REJECTED", "UNKNOWN"]


class Hold(TypedDict):
    """That an operation has a resource, on the terms that it was granted on.

    `keeps`: a settled operation does not give the quantity back. `quarantined`: nobody knows whether the operation
    acted and nobody can be asked, so that no other one may begin on the resource.
    """

    resource_ref: str
    operation_id: str
    generation: int
    intent_id: str
    mode: ResourceMode
    quantity: int
    capacity: int | None
    keeps: bool
    lease_ms: int | None
    status: HoldStatus
    quarantined: bool
    since: int
    deadline_at: int | None


@record
class ResourceMessage:
    """What every message carries; `partition` and `epoch` are those of the gate that wrote it."""

    resource_ref: str
    operation_id: str
    generation: int
    n: int
    intent_id: str
    partition: int
    epoch: int


@record
class Reserve(ResourceMessage):
    """The operation wants `quantity` of the resource, whose terms are those that the gate's catalogue declares.

    `capacity` null: any quantity fits. `lease_ms` null: it is held for as long as the operation needs it.
    """

    mode: ResourceMode
    quantity: int
    capacity: int | None = None
    keeps: bool = False
    lease_ms: int | None = None


@record
class Extend(ResourceMessage):
    """The operation goes on holding it: its lease begins anew, and a quarantine that it caused ends."""


@record
class Free(ResourceMessage):
    """The operation needs it no more; `outcome` says whether anything was done with it.

    The terms are those declared now; they count only where the operation holds nothing and has acted all the same.
    """

    outcome: FreeOutcome
    mode: ResourceMode
    quantity: int
    keeps: bool = False


@record
class Quarantine(ResourceMessage):
    """The operation is in doubt and nobody can be asked: no other operation may begin on the resource until it ends."""

    cause: str = ""


AnyResourceMessage: TypeAlias = Reserve | Extend | Free | Quarantine
RESOURCE_MESSAGE_TYPES: dict[str, type[ResourceMessage]] = {cls.__name__: cls for cls in get_args(AnyResourceMessage)}
"""Every message class by its name, which is also its Avro record name (namespace `joingate`)."""


@record
class ArbiterDecision:
    """One record of the arbiter's ledger: the message, what was decided, and how the holding stands after it.

    `seq`, `epoch`, `decided_at` and `previous` are as in the gate's ledger, of this one. `offset` is the message's on
    `resource-claims`; -1 where the arbiter decided by its own clock that a lease is over. `message` is the value as it
    was appended. `hold` is what the operation has of the resource after this decision; null: nothing. `holder` names
    who has what was denied, with its intent and how it holds it. `detail` is a sentence for people.
    """

    seq: int
    epoch: int
    decided_at: int
    offset: int
    appended_at: int
    message_type: str
    resource_ref: str
    operation_id: str
    generation: int
    n: int
    intent_id: str
    gate_partition: int
    gate_epoch: int
    message: bytes
    verdict: ArbiterVerdict
    reason: str
    detail: str
    holder: str
    holder_intent_id: str
    holder_status: str
    hold: Hold | None
    previous: bytes
