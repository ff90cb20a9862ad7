"""What a person says of a thing that left our books with its obligation: nobody has it any more, so others may have it.

An owner outside our books took the obligation over, and has the same thing still: no machine can know when that ends,
and the obligation itself stays TRANSFERRED. Who frees it brings evidence, and is on the ledger by name with the reason.
"""

from joingate_processors.law import resources
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.state import Commitment
from joingate_schemas import claims as c
from joingate_schemas.facts import AnyFact

FREED = "FREED"
"""What an Override names for it in the place of a status."""


def free(case: Case, claim: c.Override, row: Commitment) -> Ruling:
    """Give back what the obligation's making had been granted; the arbiter hears it with the decision."""
    identity, status = row.commitment_id, row.status
    if status != "TRANSFERRED":
        refuse("ILLEGAL_TRANSITION", f"it is {status}: only what left our books is freed by hand; "
               "release the commitment instead", identity, status)  # fmt: skip
    operation = case.state.operations.get(row.creating_operation or "")
    if operation is None or not operation.needs:
        refuse("NOT_HELD", f"nothing that others want is held for {identity}", identity, status)
    if not operation.held:
        return Ruling("REPLAYED", "ALREADY_SO", "what was held for it is free", identity, status)
    said = f"freed by {claim.principal}: {claim.reason} ({', '.join(claim.evidence)})"
    facts: list[AnyFact] = [resources.changed(operation, one, "RETURNED", said) for one in sorted(operation.held)]
    return Ruling("ACCEPTED", "OK", f"{said}: {', '.join(sorted(operation.held))}", identity, status, facts)
