"""The room that holds what is open against a catalogue to come: pure, for the gate and for `upgrade-check`."""

from joingate_processors.upgrade.compare import compare
from joingate_processors.upgrade.report import Concern, Line, Outcome, Report, refusal
from joingate_processors.upgrade.sight import OpenState

__all__ = ["Concern", "Line", "OpenState", "Outcome", "Report", "compare", "refusal"]
