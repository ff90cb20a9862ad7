"""Moving an open commitment to the version of its type that is in force: a person's decision, and a fact of its own.

A commitment is ruled by the version that it was made under (protocols.py), until a person says otherwise by name, with
a reason and evidence. What was agreed changes with it, so the fact says what differs. Refused is a version that could
not compare it with what plans need, or could not bring it to an end.
"""

from dataclasses import fields

from joingate_processors.law import custody
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.commitments import kind_of, lapses
from joingate_processors.law.opening import discharging_action
from joingate_processors.law.state import Commitment, Operation
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.catalogue import ObligationType
from joingate_schemas.facts import OPEN_OPERATION, TERMINAL_COMMITMENT
from joingate_schemas.record import changed

MIGRATED = "MIGRATED"
"""What an Override names for it in the place of a status."""
# What counts only where one is asked for or made, and so is no rule of one that is there; and what is for people.
_NO_RULES = frozenset(
    "name version migrates idle_cost weight due_ms grace_ms valid_ms condition condition_ms late_success "
    "quantity".split()
)


def migrate(case: Case, claim: c.Override, row: Commitment) -> Ruling:
    """From here on the version in force rules it; its status, dates and evidence stay as they are."""
    identity, status = row.commitment_id, row.status
    declared = case.catalogue.obligations.get(row.obligation_type)
    if declared is None:
        refuse("UNKNOWN_OBLIGATION", f"the catalogue in force has no type {row.obligation_type}", identity, status)
    if row.type_version == declared.version:
        return Ruling("REPLAYED", "ALREADY_SO", f"version {declared.version} rules it", identity, status)
    custody.check_not_in_transfer(case, row)
    _check_movable(case, row, declared)
    unfit = _unfit(case, row, declared)
    if unfit:
        refuse("INCOMPATIBLE_VERSION", f"version {declared.version} of {declared.name} does not fit it: {unfit}",
               identity, status)  # fmt: skip
    cause = f"moved by {claim.principal}: {claim.reason}"
    moved = f.CommitmentMigrated(
        commitment_id=identity, intent_id=row.intent_id, before=row.type_version, after=declared.version, reason=cause,
        differs=_differing(kind_of(case, row), declared), evidence=claim.evidence,
    )  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"{cause}; version {declared.version} rules it", identity, status, [moved])


def _check_movable(case: Case, row: Commitment, declared: ObligationType) -> None:
    """Refuse what has ended, a version that is older, and while an operation that makes it or gives it back may act."""
    if row.status in TERMINAL_COMMITMENT:
        refuse("ILLEGAL_TRANSITION", f"it is {row.status}, so no version rules it any more", row.commitment_id,
               row.status)  # fmt: skip
    if declared.version < row.type_version:
        refuse("ILLEGAL_TRANSITION", f"it was made under version {row.type_version}, which is newer than "
               f"{declared.version}, the one in force", row.commitment_id, row.status)  # fmt: skip
    for one in (row.creating_operation, row.serving_operation):
        operation = case.state.operations.get(one or "")
        if operation is not None and operation.status in OPEN_OPERATION:
            refuse("ILLEGAL_TRANSITION", f"operation {one} began under version {row.type_version}, and is "
                   f"{operation.status}: settle it first", row.commitment_id, row.status)  # fmt: skip


def _unfit(case: Case, row: Commitment, declared: ObligationType) -> str:
    """Why the version could not rule the commitment to its end, as a clause; empty if it could."""
    missing = [name for name in declared.attributes if name not in row.attributes]
    if missing:
        return f"it compares {', '.join(missing)}, which the commitment does not say"
    if row.drawn and (not declared.quantity or (declared.draws == "CONSUMED") != row.consumed):
        return f"{row.drawn} are taken of it, by other rules"
    origin = case.state.operations.get(row.creating_operation or "")
    known = origin is None or origin.downstream in case.catalogue.downstreams
    if declared.observed and not known and origin is not None:
        return f"it has to be observed, and {origin.downstream} is not declared any more"
    return _no_way_out(case, row, declared, origin)


def _no_way_out(case: Case, row: Commitment, declared: ObligationType, origin: Operation | None) -> str:
    """Why nothing would end it, as a clause; empty if it can be given back, lapses, or is a person's either way."""
    was = discharging_action(case, row, origin)
    now = discharging_action(case, changed(row, type_version=declared.version), origin)
    if now is not None:
        action = case.catalogue.actions.get(now)
        lost = action is None or action.downstream not in case.catalogue.downstreams
        return f"nothing gives it back: {now} is not declared, or its downstream is not" if lost else ""
    if declared.resolution == "UNKNOWN":
        return "nobody knows how it may end"
    if lapses(row, declared) or (was is None and declared.resolution not in ("RELEASABLE", "EXPIRING")):
        return ""
    return f"nothing gives it back, where {was} did" if was is not None else "nothing gives it back"


def _differing(before: ObligationType, after: ObligationType) -> list[str]:
    """The rules of the type that differ, by name, and each attribute that only one of the versions compares."""
    names = [one.name for one in fields(before) if one.name not in _NO_RULES]
    rules = [name for name in names if name != "attributes" and getattr(before, name) != getattr(after, name)]
    attributes = set(before.attributes) ^ set(after.attributes)
    return sorted([*rules, *(f"attributes.{name}" for name in attributes)])
