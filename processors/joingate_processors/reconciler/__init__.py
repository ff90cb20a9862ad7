"""The room for the reconciler: it asks systems of record about what is in doubt, and tells the gate what they say."""

from joingate_processors.reconciler.answers import Downstream
from joingate_processors.reconciler.rules import Policy
from joingate_processors.reconciler.run import Stuck, run_reconciler
from joingate_processors.reconciler.settings import ReconcilerSettings
from joingate_processors.reconciler.status import Phase, ReconcilerStatus

__all__ = ["Downstream", "Phase", "Policy", "ReconcilerSettings", "ReconcilerStatus", "Stuck", "run_reconciler"]
