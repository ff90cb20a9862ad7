"""What steps take of the commitments that they rely on: eight GPUs are reserved, and no more than eight are used.

A commitment of a type with a `quantity` is a capacity of its intent's own, which is decided here and not by the
arbiter: nobody but steps of its intent may rely on it. What is open or in doubt keeps what it took.
"""

from typing import NamedTuple

from joingate_processors.law import amounts, reliance
from joingate_processors.law.case import Case, refuse
from joingate_processors.law.opening import obligation_of
from joingate_processors.law.state import Commitment, Step
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Action
from joingate_schemas.claims import Arguments
from joingate_schemas.facts import AnyFact


class Draw(NamedTuple):
    """So much of this commitment."""

    row: Commitment
    quantity: int


def drawn(case: Case, action: Action, step: Step, arguments: Arguments, subject_id: str) -> list[Draw]:
    """What a step of the action takes, of the first commitment of each type that it relies on and that has enough left.

    Refused where it relies on none, or none has enough left (EXCEEDS_COMMITMENT).
    """
    found = []
    for kind, template in sorted(action.draws.items()):
        quantity = amounts.whole(template, arguments, kind)
        rows = [row for row in reliance.relied_on(case, step) if row.obligation_type == kind and row.quantity]
        if not rows:
            refuse("DEPENDENCY_UNMET", f"step {step.step_id} takes {quantity} of a {kind}, and relies on none that has "
                   "any: name it in the step's commitments, or require the step that makes it", subject_id)  # fmt: skip
        row = next((one for one in rows if one.drawn + quantity <= (one.quantity or 0)), None)
        if row is None:
            left = ", ".join(f"{one.commitment_id} has {(one.quantity or 0) - one.drawn:g} of {one.quantity:g} left"
                             for one in rows)  # fmt: skip
            refuse("EXCEEDS_COMMITMENT", f"step {step.step_id} takes {quantity} of a {kind}, and {left}", subject_id)
        found.append(Draw(row, quantity))
    return found


def facts_of(case: Case, draws: list[Draw], operation: f.OperationOpened) -> list[AnyFact]:
    """That the operation takes them."""
    return [
        f.CommitmentDrawn(commitment_id=row.commitment_id, intent_id=row.intent_id, operation_id=operation.operation_id,
                          quantity=quantity, consumed=obligation_of(case, row).draws == "CONSUMED")
        for row, quantity in draws
    ]  # fmt: skip
