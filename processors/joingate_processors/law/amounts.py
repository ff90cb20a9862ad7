"""Quantities as people write them in a catalogue, and as a step's arguments fill them: whole numbers above nothing."""

from joingate_processors.law.case import refuse
from joingate_schemas.claims import Arguments
from joingate_schemas.templates import fill

_QUANTITY_MAX = 1 << 53


def whole(template: str, arguments: Arguments, what: str) -> int:
    """The number that the template makes of the arguments; refused as MALFORMED where it makes none. `what` is of what.

    Whole, and no larger than every language and store counts exactly.
    """
    said = fill(template, "", arguments)
    if not said.isdecimal() or not said.isascii() or not 1 <= int(said) <= _QUANTITY_MAX:
        refuse("MALFORMED", f"it takes '{said}' of {what}, and must take a whole number above 0")
    return int(said)
