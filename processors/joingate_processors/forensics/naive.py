"""The planner that this product exists to replace: it copies the model's mood into its log and retries with new keys.

It has a little log of its own and is held to the same two rules: no success without a commit that follows a dispatch,
no close with a join missing; and no effect twice.
"""

from dataclasses import dataclass, field

from joingate_processors.forensics.scenario import Scenario, StepFaults, Truth

_DOWNSTREAMS = {"notify": "messenger", "reserve_window": "cloud", "close_ticket": "cloud", "refund": "bank",
                "reverse_fee": "bank", "write_file": "workspace", "read_file": "workspace"}  # fmt: skip
_LOOKS = ("read_file",)


@dataclass
class NaiveRun:
    """What the naive planner wrote, as (kind, step) in order, and what happened in the world."""

    log: list[tuple[str, str]] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)

    def broken(self) -> list[str]:
        """The rules that the log breaks, as sentences."""
        found: list[str] = []
        for place, (kind, step) in enumerate(self.log):
            before = self.log[:place]
            if kind == "SUCCEEDED" and not _committed(before, step):
                found.append(f"step {step} succeeded without a commit after its dispatch")
            if kind == "CLOSED":
                planned = {name for entry, name in before if entry == "PLANNED"}
                joined = {name for entry, name in before if entry == "SUCCEEDED"}
                missing = sorted(planned - joined)
                if missing:
                    found.append(f"closed with {', '.join(missing)} missing")
        return found


def _committed(log: list[tuple[str, str]], step: str) -> bool:
    dispatched = False
    for kind, name in log:
        if name == step and kind == "DISPATCHED":
            dispatched = True
        if name == step and kind == "COMMITTED" and dispatched:
            return True
    return False


def run_naive(scenario: Scenario) -> NaiveRun:
    """Live through the scenario without a gate."""
    run = NaiveRun()
    plans = 2 if scenario.two_ids else 1
    for plan in range(1, plans + 1):
        for step in scenario.steps:
            _step(run, step, f"p{plan}/{step.step_id}", retried=plan > 1)
    run.log.append(("CLOSED", "*"))
    return run


def _step(run: NaiveRun, step: StepFaults, name: str, *, retried: bool) -> None:
    run.log.append(("PLANNED", name))
    if step.fabricated:
        run.log.append(("SUCCEEDED", name))
        return
    calls = 2 if step.duplicated and not retried else 1
    for call in range(calls):
        run.log.append(("DISPATCHED", name))
        answered = _call(run, step, f"{name}#{call}")
        if not answered:
            # The error goes back to the model, which calls again: a new call, and so a new key.
            run.log.append(("DISPATCHED", name))
            answered = step.silence != "BEFORE" and _call(run, step, f"{name}#{call}b", lost=False)
        if answered:
            run.log.append(("COMMITTED", name))
    if ("COMMITTED", name) in run.log:
        run.log.append(("SUCCEEDED", name))


def _call(run: NaiveRun, step: StepFaults, key: str, *, lost: bool = True) -> bool:
    """One tool call; whether an answer came back."""
    if step.silence == "BEFORE":
        return False
    if step.action not in _LOOKS:
        run.truth.act(key, step.action, step.entity, _DOWNSTREAMS[step.action])
    return not (lost and (step.silence == "AFTER" or step.no_proof))
