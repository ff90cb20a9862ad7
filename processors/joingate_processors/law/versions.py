"""What a newer version makes pointless: an older request that is otherwise alike, as a review of an older artifact."""

from joingate_processors.law import dispositions, outcomes
from joingate_processors.law.case import Case
from joingate_processors.law.state import Commitment
from joingate_schemas import facts as f
from joingate_schemas.facts import TERMINAL_COMMITMENT, AnyFact


def withdraw_older(case: Case, made: f.CommitmentProposed) -> list[AnyFact]:
    """Give up the open commitments of this intent that `made` replaces: alike, but of another version.

    What is under release goes on; what somebody else owns, or is being handed over, is left to them.
    """
    kind = case.catalogue.obligations.get(made.obligation_type)
    if kind is None or kind.superseded_by not in made.attributes:
        return []
    facts: list[AnyFact] = []
    cause = f"{kind.superseded_by} {made.attributes[kind.superseded_by]} was asked for"
    for one in case.state.open_commitments.members(made.intent_id):
        row = case.state.commitments.get(one)
        if row is not None and row.obligation_type == kind.name and _is_older(row, made, kind.superseded_by):
            facts += _given_up(case, row, cause, kind.superseded_by)
    return facts


def _is_older(row: Commitment, made: f.CommitmentProposed, version: str) -> bool:
    if row.status in TERMINAL_COMMITMENT or row.status == "RELEASE_PENDING":
        return False
    same = {name for name, value in row.attributes.items() if made.attributes.get(name) == value}
    return set(row.attributes) - same == {version}


def _given_up(case: Case, row: Commitment, cause: str, version: str) -> list[AnyFact]:
    origin = case.state.operations.get(row.creating_operation or "")
    if origin is not None and origin.status in ("STAGED", "VALIDATED") and not origin.permits:
        return outcomes.withdraw(case, origin, cause)
    return dispositions.give_up(case, row, cause, [version])
