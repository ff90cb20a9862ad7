"""The room before another catalogue is taken up: a gate does not start over what it could not bring to an end.

It asks the partition's own state, which knows every catalogue that was in force, and looks at what is open alone.
"""

import logging

from joingate_processors.gate.logs import Halted
from joingate_processors.gate.settings import GateSettings
from joingate_processors.law.protocols import catalogue_of
from joingate_processors.upgrade import OpenState, compare, refusal

log = logging.getLogger("joingate.gate")


def undischargeable(state: OpenState, settings: GateSettings) -> str:
    """What an operator took on with this catalogue, for the record; empty where it can discharge all that is open.

    Raises `Halted` where it can't, and nobody took that on. Nothing was decided by then, so that the former catalogue
    goes on as if nothing had been tried.
    """
    header = state.header.get("")
    known = None if header is None else catalogue_of(state, header.catalogue_digest)
    former = settings.catalogue if known is None else known
    report = compare(state, former, settings.catalogue)
    grave = report.lines("UNDISCHARGEABLE")
    if not grave:
        return ""
    if not settings.accept_undischargeable:
        raise Halted(refusal(report, former, settings.catalogue))
    accepted = f"{settings.accept_undischargeable}: {'; '.join(line.sentence() for line in grave)}"
    log.warning("A catalogue is taken up that can't discharge what is open. %s.", accepted)
    return accepted
