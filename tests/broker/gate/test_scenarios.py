"""The named scenarios whose failure is the end of a process: on a real broker, with real kills; verified after each."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from joingate.audit import audit_records
from joingate.ledger import Entry
from joingate_producers import Connection
from joingate_schemas import claims as c
from joingate_schemas.decisions import Command, Decision
from joingate_schemas.facts import (
    CommitmentChanged,
    CommitmentProposed,
    OperationInDoubt,
    OperationOpened,
    OrphanCleared,
    OrphanRaised,
    OwnerChanged,
    PermitIssued,
    TransferOffered,
)
from joingate_schemas.ids import operation_id

pytestmark = pytest.mark.broker

HERE = Path(__file__).parent
_SPEC = spec_from_file_location("gate_process", HERE / "gate_process.py")
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018 - one fact, told to the type checker
gate_process = module_from_spec(_SPEC)
_SPEC.loader.exec_module(gate_process)

DIED = -signal.SIGKILL
ANSWER_MS = 5_000
"""How long an offered commitment may wait for its new owner."""


@dataclass
class Scene:
    """One intent that reserves a window, on a desk of its own; `books` are the cloud's."""

    desk: Any
    tools: Any
    intent: str
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def books(self) -> Path:
        return Path(self.desk.directory) / "books"

    @property
    def operation(self) -> str:
        """The reservation, which is its key at the cloud."""
        return operation_id(self.intent, "reserve_window", "tuesday", 1)

    def effects(self) -> list[tuple[str, str]]:
        """What the cloud did: action and key."""
        lines = self.books.read_text().split("\n") if self.books.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines if line]

    # --- processes

    def gate(self, **asked: Any) -> "subprocess.Popen[str]":
        process: subprocess.Popen[str] = self.desk.process(windows=True, **asked)
        return process

    def executor(self, name: str = "cloud", **fails: str) -> "subprocess.Popen[str]":
        """The cloud's executor; one of the same name takes up what the one before it left in its outbox."""
        settings = {
            "books": str(self.books), **fails, "bootstrap_servers": self.desk.bootstrap,
            "prefix": self.desk.prefix, "principal": "cloud", "outbox": str(self.desk.directory / f"{name}.outbox"),
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, str(HERE / "reserving_process.py"), json.dumps(settings)], text=True
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    # --- claims

    def say(self, claim: c.AnyClaim, topic: str = "") -> None:
        self.desk.send(claim, topic)
        self.desk.flush()

    def common(self, name: str) -> dict[str, Any]:
        return {"claim_id": f"{self.intent}/{name}", "intent_id": self.intent}

    def declared(self) -> "Scene":
        steps: list[c.PlanStep] = [
            {"step_id": "window", "action": "reserve_window", "business_key": "tuesday",
             "arguments": {"window": "tuesday", "environment": "production", "release": "4.2"}}
        ]  # fmt: skip
        self.say(c.DeclareIntent(**self.common("declare"), version=1, goals=[]))
        self.say(c.Plan(**self.common("plan"), intent_version=1, plan_id="p1", steps=steps, commitments=[]))
        return self

    def dispatch(self, name: str = "dispatch") -> None:
        self.say(c.Dispatch(**self.common(name), intent_version=1, plan_id="p1", step_id="window"))

    def observe(self, kind: c.SubjectKind, subject_id: str, finding: c.Finding, version: int, **more: Any) -> None:
        self.say(
            c.Observe(**self.common(f"look-{version}"), subject_kind=kind, subject_id=subject_id, finding=finding,
                      source="cloud", source_version=version, evidence=["the cloud's books"],
                      **{"external_ids": [], **more}),
            self.desk.topics.observations,
        )  # fmt: skip

    def cancel(self) -> None:
        """The cancel that the planner `p` had said, once more."""
        self.say(c.CancelIntent(**self.common("cancel"), principal="p", reason="the customer withdrew"))

    # --- what came of it

    def ledger(self) -> list[Decision]:
        return [one for one in self.desk.ledger() if one.intent_id == self.intent]

    def facts(self, kind: type) -> list[Any]:
        return [fact for one in self.ledger() for fact in one.facts if isinstance(fact, kind)]

    def decision(self, name: str) -> Decision:
        """The decision on the claim of this name, once it is there."""
        claim_id = f"{self.intent}/{name}"
        found: Decision = self.tools.wait_for(
            lambda: next((one for one in self.ledger() if one.claim_id == claim_id), None), f"the decision on {name}"
        )
        return found

    def await_status(self, status: str) -> str:
        """The commitment's id, once it is of this status."""

        def reached() -> str:
            changes = self.facts(CommitmentChanged)
            return changes[-1].commitment_id if changes and changes[-1].after == status else ""

        found: str = self.tools.wait_for(reached, f"the commitment to be {status}")
        return found

    def verify(self) -> None:
        """The whole ledger is held to every invariant, and decided again by the law; no attempt is permitted twice."""
        found = self.desk.read(self.desk.topics.ledger)
        report = audit_records(
            [Entry(one.partition, one.offset, one.raw, one.record) for one in found], self.desk.codec
        )
        assert report.holds, "\n".join(report.lines())
        assert "BROKEN" not in {one.verdict for one in report.seven}
        commands = [one.record for one in self.desk.read(self.desk.topics.commands("cloud"))]
        permits = [
            (one.operation_id, one.attempt) for one in commands if isinstance(one, Command) and one.kind == "PERMIT"
        ]
        assert len(permits) == len(set(permits)), "an attempt was permitted twice"


@pytest.fixture
def scene(desk: Any, tools: Any) -> Any:
    executors = sorted({action.executor for action in gate_process.windows().actions.values()})
    desk.topics.create(desk.bootstrap, desk.partitions, executors)
    made = Scene(desk, tools, "acme/release/4.2")
    yield made
    made.close()


def test_crash_before_ledger(scene: Scene) -> None:
    """The worker dies after the reservation and before its Commit, the gate too; nothing is reserved again."""
    gate = scene.gate()
    worker = scene.executor(dies_after="reserve_window")
    scene.declared().dispatch()
    assert worker.wait(60) == DIED
    gate.kill()
    assert gate.wait() == DIED
    scene.gate()
    scene.await_status("UNKNOWN")
    scene.dispatch("retry")
    assert (scene.decision("retry").verdict, scene.decision("retry").reason) == ("REPLAYED", "IN_DOUBT_PENDING")
    assert scene.effects() == [("reserve_window", scene.operation)]
    scene.observe("OPERATION", scene.operation, "PRESENT", 1, external_ids=["cloud-1"])
    assert scene.decision("look-1").status == "SETTLED"
    (proposed,) = scene.facts(CommitmentProposed)
    scene.observe("COMMITMENT", proposed.commitment_id, "PRESENT", 2)
    scene.await_status("ACTIVE")
    # The worker comes back: what it had begun it reports as a doubt, and does not do again.
    scene.executor()
    scene.tools.wait_for(
        lambda: [one for one in scene.ledger() if one.claim_type == "InDoubt"], "the worker's word on what it began"
    )
    assert len(scene.facts(PermitIssued)) == 1
    assert scene.effects() == [("reserve_window", scene.operation)]
    scene.verify()


def test_worker_dies_holding(scene: Scene) -> None:
    """The owner is durable: the worker that made it is gone, and so is the one that released it, before its word."""
    scene.gate()
    worker = scene.executor(dies_after="release_window")
    scene.declared().dispatch()
    commitment_id = scene.await_status("PROPOSED")
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    scene.await_status("ACTIVE")
    scene.cancel()
    assert worker.wait(60) == DIED
    scene.await_status("RECONCILIATION_REQUIRED")
    assert [action for action, _ in scene.effects()] == ["reserve_window", "release_window"]
    release = next(fact for fact in scene.facts(OperationInDoubt)).operation_id
    scene.observe("COMMITMENT", commitment_id, "NOT_FOUND", 2)
    assert scene.decision("look-2").status == "RECONCILIATION_REQUIRED", "not found proves nothing"
    scene.observe("OPERATION", release, "PRESENT", 3, external_ids=["gone-1"])
    scene.observe("COMMITMENT", commitment_id, "ABSENT", 4, proof="SECOND_LOOK")
    scene.await_status("RELEASED")
    scene.verify()


def test_release_timed_out(scene: Scene) -> None:
    """The release took effect, and its answer never came; the gate dies over that. Only a proof ends it, and once."""
    gate = scene.gate()
    scene.executor(times_out_on="release_window")
    scene.declared().dispatch()
    commitment_id = scene.await_status("PROPOSED")
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    scene.await_status("ACTIVE")
    scene.cancel()
    scene.await_status("RECONCILIATION_REQUIRED")
    gate.kill()
    assert gate.wait() == DIED
    scene.gate()
    (doubt,) = scene.facts(OperationInDoubt)
    assert "did not answer in time" in doubt.cause
    for version, finding in ((2, "NOT_FOUND"), (3, "UNREACHABLE")):
        scene.observe("COMMITMENT", commitment_id, finding, version)
        assert scene.decision(f"look-{version}").status == "RECONCILIATION_REQUIRED", f"{finding} proves nothing"
    scene.say(c.Close(**scene.common("close")))
    assert scene.decision("close").verdict == "REJECTED"
    scene.observe("COMMITMENT", commitment_id, "ABSENT", 4, proof="SECOND_LOOK")
    scene.await_status("RELEASED")
    scene.observe("OPERATION", doubt.operation_id, "PRESENT", 5, external_ids=["gone-1"])
    assert scene.decision("look-5").status == "SETTLED"
    assert [action for action, _ in scene.effects()] == ["reserve_window", "release_window"]
    scene.verify()


def test_superseded_while_creating(scene: Scene) -> None:
    """The intent changes while the cloud is at it, and the gate dies over it: what comes late is held for its owner."""
    gate = scene.gate()
    answer = Path(scene.desk.directory) / "the cloud may answer"
    scene.executor(waits_for=str(answer))
    scene.declared().dispatch()
    scene.tools.wait_for(lambda: scene.effects(), "the cloud to begin")
    gate.kill()
    assert gate.wait() == DIED
    dying = scene.gate(crash=["committed in Kafka", 3])
    goals: list[c.Goal] = [{"goal_id": "reported", "acceptance": "the migration is on paper"}]
    scene.say(c.DeclareIntent(**scene.common("report-only"), version=2, goals=goals))
    assert dying.wait(60) == DIED
    gate = scene.gate()
    assert scene.decision("report-only").verdict == "ACCEPTED"
    scene.dispatch("stale")
    assert (scene.decision("stale").verdict, scene.decision("stale").reason) == ("REJECTED", "STALE_INTENT")
    # However long the kills took: by now it is in doubt whether the cloud did anything.
    scene.tools.wait_for(lambda: scene.facts(OperationInDoubt), "the doubt")
    answer.touch()
    late = scene.tools.wait_for(
        lambda: next((one for one in scene.ledger() if one.claim_type == "Commit"), None), "the late success"
    )
    assert late.verdict == "ACCEPTED"
    (orphan,) = [fact for fact in late.facts if isinstance(fact, OrphanRaised)]
    assert orphan.kind == "LATE_SUCCESS"
    commitment_id = scene.await_status("RECONCILIATION_REQUIRED")
    assert orphan.subject_id == commitment_id
    gate.kill()
    assert gate.wait() == DIED
    scene.gate()
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    assert scene.decision("look-1").status == "RECONCILIATION_REQUIRED", "its owner has not spoken yet"
    scene.say(c.Release(**scene.common("give back"), commitment_id=commitment_id, reason="its owner decides"))
    assert scene.decision("give back").verdict == "ACCEPTED"
    release = next(one for one in scene.facts(OperationOpened) if one.action == "release_window")
    scene.say(c.Approve(**scene.common("yes"), principal="erin", operation_id=release.operation_id,
                        digest=release.content_digest), scene.desk.topics.approvals)  # fmt: skip
    scene.tools.wait_for(lambda: len(scene.effects()) == 2, "the window to be given back")
    scene.observe("COMMITMENT", commitment_id, "ABSENT", 2)
    scene.await_status("RELEASED")
    assert [one.orphan_id for one in scene.facts(OrphanCleared)] == [orphan.orphan_id]
    assert [action for action, _ in scene.effects()] == ["reserve_window", "release_window"]
    scene.verify()


RETIRING = """
import os, signal, sys
from joingate_producers import Connection, Observer
with Connection(bootstrap_servers=sys.argv[1], prefix=sys.argv[2], principal="registry", verdicts=False) as connection:
    Observer(connection).retire_owner(sys.argv[3], reason="its process is gone", claim_id="retired")
    connection.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("step", ["deciding", "committed in Kafka"])
def test_owner_disappears(scene: Scene, step: str) -> None:
    """Whoever sees that the owner is gone dies having said so, and the gate over it: one incident, in full view."""
    gate = scene.gate()
    scene.executor()
    scene.declared().dispatch()
    commitment_id = scene.await_status("PROPOSED")
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    scene.await_status("ACTIVE")
    (owner,) = {fact.owner_id for fact in scene.facts(CommitmentProposed)}
    gate.kill()
    assert gate.wait() == DIED
    dying = scene.gate(crash=[step, 3])
    said = subprocess.run(
        [sys.executable, "-c", RETIRING, scene.desk.bootstrap, scene.desk.prefix, owner], check=False, env=os.environ
    )
    assert said.returncode == DIED
    assert dying.wait(60) == DIED
    gate = scene.gate()

    def raised() -> list[Any]:
        return [fact for one in scene.desk.ledger() if one.claim_type == "RetireOwner" for fact in one.facts
                if isinstance(fact, OrphanRaised)]  # fmt: skip

    (orphan,) = scene.tools.wait_for(raised, "the incident")
    assert (orphan.kind, orphan.subject_id) == ("NO_OWNER", commitment_id)
    retired = [one for one in scene.desk.ledger() if one.claim_type == "RetireOwner"]
    assert [one.verdict for one in retired] == ["ACCEPTED"] * len(retired)
    gate.kill()
    assert gate.wait() == DIED
    scene.gate()
    scene.dispatch("afterwards")
    scene.decision("afterwards")
    assert scene.facts(CommitmentChanged)[-1].after == "ACTIVE", "nothing is rounded away because nobody owns it"
    assert raised() == [orphan]
    scene.verify()


ACCEPTING = """
import os, signal, sys
from joingate_producers import Connection, Planner
connection = Connection(bootstrap_servers="127.0.0.1:1", prefix=sys.argv[1], principal="p", verdicts=False)
Planner(connection).accept_transfer(sys.argv[2], commitment_id=sys.argv[3], owner_id="team:operations", fencing_token=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_transfer_target_crashes(scene: Scene) -> None:
    """Who should take it over dies with its word unsent, and the gate too: it is back with its source by an event."""
    gate = scene.gate()
    scene.executor()
    scene.declared().dispatch()
    commitment_id = scene.await_status("PROPOSED")
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    scene.await_status("ACTIVE")
    by = int(time.time() * 1000) + ANSWER_MS
    scene.say(c.Transfer(**scene.common("offer"), commitment_id=commitment_id, target_owner="team:operations",
                         acknowledge_by=by))  # fmt: skip
    scene.await_status("TRANSFER_PENDING")
    died = subprocess.run(
        [sys.executable, "-c", ACCEPTING, scene.desk.prefix, scene.intent, commitment_id], check=False
    )
    assert died.returncode == DIED
    gate.kill()
    assert gate.wait() == DIED
    scene.gate()
    scene.await_status("ACTIVE")
    assert [one.claim_type for one in scene.ledger()][-1] == "TimerFired"
    (offer,) = scene.facts(TransferOffered)
    scene.say(c.AcceptTransfer(**scene.common("late"), commitment_id=commitment_id, owner_id="team:operations",
                               fencing_token=offer.fencing_token, evidence=["call:1"]))  # fmt: skip
    assert scene.decision("late").verdict == "REJECTED"
    assert scene.facts(OwnerChanged) == []
    scene.verify()


CANCELLING = """
import os, signal, sys
from joingate_producers import Connection, Planner
planner = Planner(Connection(bootstrap_servers="127.0.0.1:1", prefix=sys.argv[1], outbox=sys.argv[2], principal="p"))
planner.cancel_intent(sys.argv[3], reason="the customer withdrew", claim_id=sys.argv[3] + "/cancel")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_cancel_dropped(scene: Scene) -> None:
    """The planner dies with its cancel undelivered; its outbox delivers it, the gate dies over it, it counts once."""
    gate = scene.gate()
    scene.executor()
    scene.declared().dispatch()
    commitment_id = scene.await_status("PROPOSED")
    scene.observe("COMMITMENT", commitment_id, "PRESENT", 1)
    scene.await_status("ACTIVE")
    outbox = str(Path(scene.desk.directory) / "planner.outbox")
    died = subprocess.run(
        [sys.executable, "-c", CANCELLING, scene.desk.prefix, outbox, scene.intent], check=False, env=dict(os.environ)
    )
    assert died.returncode == DIED
    assert "CancelIntent" not in {one.claim_type for one in scene.ledger()}
    gate.kill()
    gate.wait()
    dying = scene.gate(crash=["committed in Kafka", 3])
    # The next process of the same planner finds it, and sends it; as it does not hear, it is sent once more.
    with Connection(
        bootstrap_servers=scene.desk.bootstrap, prefix=scene.desk.prefix, outbox=outbox, principal="p", verdicts=False
    ):
        assert dying.wait(60) == DIED
    scene.gate()
    assert scene.decision("cancel").verdict == "ACCEPTED"
    scene.cancel()
    scene.tools.wait_for(
        lambda: [one.verdict for one in scene.ledger() if one.claim_id.endswith("/cancel")] == ["ACCEPTED", "REPLAYED"],
        "the second cancel to be answered",
    )
    scene.tools.wait_for(lambda: len(scene.effects()) == 2, "the window to be given back")
    scene.observe("COMMITMENT", commitment_id, "ABSENT", 2)
    scene.await_status("RELEASED")
    assert [action for action, _ in scene.effects()] == ["reserve_window", "release_window"]
    scene.verify()


@pytest.mark.parametrize("step", gate_process.STEPS)
def test_duplicate_attempt(scene: Scene, step: str) -> None:
    """The gate dies at this step of the transaction that decides the Dispatch, which is said three times over."""
    dying = scene.gate(crash=[step, 3])
    scene.declared()
    for name in ("dispatch", "dispatch", "again"):
        scene.dispatch(name)
    assert dying.wait(60) == DIED
    scene.gate()
    scene.executor()
    scene.await_status("PROPOSED")
    assert scene.effects() == [("reserve_window", scene.operation)]
    assert len(scene.facts(OperationOpened)) == len(scene.facts(CommitmentProposed)) == 1
    said = [one.verdict for one in scene.ledger() if one.claim_type == "Dispatch"]
    assert sorted(said) == ["ACCEPTED", "REPLAYED", "REPLAYED"]
    scene.verify()
