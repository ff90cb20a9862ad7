"""The room for looking back and trying out: the simulator, traces, the checker of ledgers, and the proof by numbers."""

from joingate_processors.forensics.checker import INVARIANTS, Checker, Violation, check
from joingate_processors.forensics.play import Failure, TraceResult, run_trace
from joingate_processors.forensics.prove import ProveResult, prove
from joingate_processors.forensics.simulator import Simulator, SimulatorFault
from joingate_processors.forensics.trace import TraceError, read_trace
from joingate_processors.forensics.trace_schema import trace_schema

__all__ = [
    "INVARIANTS",
    "Checker",
    "Failure",
    "ProveResult",
    "Simulator",
    "SimulatorFault",
    "TraceError",
    "TraceResult",
    "Violation",
    "check",
    "prove",
    "read_trace",
    "run_trace",
    "trace_schema",
]
