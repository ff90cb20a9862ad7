"""What the projections' tests share: a hand that writes ledgers, with facts that say only what matters to the test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joingate_processors.forensics.play import Player
from joingate_processors.forensics.trace import read_trace
from joingate_projections.fold import fold
from joingate_projections.reader import StoreReader
from joingate_projections.store import Position, ProjectionStore
from joingate_projections.tables import MemoryRows, Rows
from joingate_schemas import facts as f
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.decisions import Decision
from joingate_schemas.ids import operation_id

INTENT = "acme/release/4.2"


class Hand:
    """Writes one partition's ledger: decisions in order, chained, and encoded as the gate would."""

    def __init__(self, partition: int = 0, intent_id: str = INTENT) -> None:
        self.partition = partition
        self.intent_id = intent_id
        self.codec = Codec()
        self.decisions: list[Decision] = []
        self.values: list[bytes] = []
        self.epoch = 1

    def decide(self, *facts: Any, **fields: Any) -> Decision:
        """Append a decision with these facts, a second after the one before."""
        seq = len(self.decisions) + 1
        given: dict[str, Any] = {
            "seq": seq,
            "epoch": self.epoch,
            "decided_at": 1_000 * seq,
            "topic": "proposals",
            "offset": seq - 1,
            "appended_at": 1_000 * seq,
            "claim_type": "Dispatch",
            "claim_id": f"claim-{self.partition}-{seq}",
            "intent_id": self.intent_id,
            "principal": "planner-1",
            "claim": b"",
            "verdict": "ACCEPTED",
            "reason": "OK",
            "detail": "",
            "subject_id": "",
            "status": "",
            "refers_to": 0,
            "facts": list(facts),
            "previous": hashlib.sha256(self.values[-1]).digest() if self.values else b"",
        }
        decision = Decision(**{**given, **fields})
        self.decisions.append(decision)
        self.values.append(self.codec.encode(decision))
        return decision

    def fold_into(self, rows: Rows) -> None:
        """Fold everything written so far, as it reads after encoding and decoding."""
        for value in self.values:
            decision = self.codec.decode(value)
            assert isinstance(decision, Decision)
            fold(rows, decision, self.partition)

    def rows(self) -> MemoryRows:
        """Everything written so far, folded in memory."""
        rows = MemoryRows()
        self.fold_into(rows)
        return rows

    def store_in(self, store: ProjectionStore, *, start: int = 0, size: int = 1) -> None:
        """Fold from the `start`-th decision on into a store, `size` decisions a batch."""
        for low in range(start, len(self.values), size):
            batch = store.batch()
            for index in range(low, min(low + size, len(self.values))):
                decision = self.codec.decode(self.values[index])
                assert isinstance(decision, Decision)
                fold(batch, decision, self.partition)
                batch.reached(self.position(index + 1))
            batch.commit()

    def position(self, seq: int) -> Position:
        """The position after the `seq`-th decision."""
        digest = hashlib.sha256(self.values[seq - 1]).hexdigest()
        return Position("ledger", self.partition, offset=seq - 1, seq=seq, epoch=self.epoch, digest=digest)

    # --- facts -------------------------------------------------------------------------------------------------------

    def operation(self, key: str = "ops", generation: int = 1, action: str = "notify") -> str:
        """The operation id of a slot."""
        return operation_id(self.intent_id, action, key, generation)

    def declared(self, version: int = 1, supersedes: int = 0) -> f.IntentDeclared:
        """The intent, or a higher version of it."""
        return f.IntentDeclared(
            intent_id=self.intent_id,
            version=version,
            tenant="acme",
            objective="production runs 4.2",
            goals=[{"goal_id": "g1", "acceptance": "production runs 4.2"}],
            budgets=None,
            content_digest=f"digest-{version}",
            supersedes=supersedes,
        )

    def planned(self, plan_id: str = "p1", *keys: str, **fields: Any) -> f.PlanRecorded:
        """A plan with one `notify` step for each business key; step ids are s1, s2, …"""
        steps: list[f.StepDetail] = [
            {
                "step_id": f"s{n + 1}",
                "ordinal": n,
                "action": "notify",
                "business_key": key,
                "slot_id": self.operation(key),
                "arguments": {"amount": 12.5},
                "goal_id": "g1",
                "edges": [],
                "parallel": False,
                "pivot": False,
                "irreversible": True,
                "commitments": [],
                "condition": None,
            }
            for n, key in enumerate(keys or ("ops",))
        ]
        given: dict[str, Any] = {
            "intent_id": self.intent_id,
            "plan_id": plan_id,
            "intent_version": 1,
            "status": "ADOPTED",
            "replaces": None,
            "content_digest": "digest",
            "steps": steps,
            "commitments": [],
            "deadline_at": 90_000,
        }
        return f.PlanRecorded(**{**given, **fields})

    def ended(self, plan_id: str = "p1", *, by: str) -> f.PlanEnded:
        """A plan that another took the place of."""
        return f.PlanEnded(intent_id=self.intent_id, plan_id=plan_id, status="SUPERSEDED", by=by)

    def opened(self, key: str = "ops", **fields: Any) -> f.OperationOpened:
        """An operation of step s1 of plan p1."""
        generation = int(fields.get("generation", 1))
        action = str(fields.get("action", "notify"))
        given: dict[str, Any] = {
            "operation_id": self.operation(key, generation, action),
            "intent_id": self.intent_id,
            "intent_version": 1,
            "plan_id": "p1",
            "step_id": "s1",
            "goal_id": "g1",
            "action": action,
            "business_key": key,
            "generation": generation,
            "attempt": 1,
            "status": "VALIDATED",
            "phases": "TWO_PHASE",
            "arguments": {"amount": 12.5},
            "content_digest": "digest",
            "catalogue_digest": "catalogue",
            "downstream": "messenger",
            "executor": "messenger",
            "commitment_id": None,
            "compensates": None,
            "timer": "SILENCE",
            "deadline_at": 60_000,
        }
        return f.OperationOpened(**{**given, **fields})

    def permitted(self, key: str = "ops", attempt: int = 1) -> f.PermitIssued:
        """A permit."""
        return f.PermitIssued(
            operation_id=self.operation(key),
            intent_id=self.intent_id,
            attempt=attempt,
            executor="messenger",
            worker="w1",
            valid_until=70_000,
            timer="PERMIT",
            deadline_at=80_000,
        )

    def settled(self, key: str = "ops", **fields: Any) -> f.OperationSettled:
        """The effect exists, by the executor's word."""
        given: dict[str, Any] = {
            "operation_id": self.operation(key),
            "intent_id": self.intent_id,
            "attempt": 1,
            "external_id": "msg-1",
            "evidence": ["messenger:msg-1"],
            "result": "sent",
            "source": "EXECUTOR",
            "late": False,
        }
        return f.OperationSettled(**{**given, **fields})

    def failed(self, key: str = "ops") -> f.OperationFailed:
        """Proven absent."""
        return f.OperationFailed(
            operation_id=self.operation(key),
            intent_id=self.intent_id,
            attempt=1,
            proof="REFUSED",
            evidence=["messenger:refused"],
            source="EXECUTOR",
        )

    def doubted(self, key: str = "ops", cause: str = "PERMIT") -> f.OperationInDoubt:
        """Nobody knows."""
        return f.OperationInDoubt(
            operation_id=self.operation(key),
            intent_id=self.intent_id,
            attempt=1,
            cause=cause,
            evidence=[],
            dependants=["s2"],
            timer="IN_DOUBT",
            deadline_at=99_000,
        )

    def succeeded(self, key: str = "ops", plan_id: str = "p1", step_id: str = "s1") -> f.StepSucceeded:
        """The step's join is made."""
        return f.StepSucceeded(
            intent_id=self.intent_id, plan_id=plan_id, step_id=step_id, operation_id=self.operation(key)
        )

    def observed(self, subject_id: str, finding: str = "PRESENT", kind: str = "OPERATION") -> f.ObservationRecorded:
        """News from the messenger."""
        given: dict[str, Any] = {"subject_kind": kind, "finding": finding}
        return f.ObservationRecorded(
            subject_id=subject_id,
            intent_id=self.intent_id,
            source="messenger",
            source_version=7,
            source_time=None,
            evidence=["messenger:look-up"],
            **given,
        )

    def proposed(self, commitment_id: str = "c1", **fields: Any) -> f.CommitmentProposed:
        """A commitment about to be made by the operation of the slot `ops`."""
        given: dict[str, Any] = {
            "commitment_id": commitment_id,
            "intent_id": self.intent_id,
            "intent_version": 1,
            "goal_id": "g1",
            "plan_id": "p1",
            "step_id": "s1",
            "owner_id": "team-release",
            "obligation_type": "window",
            "type_version": 1,
            "resource_refs": ["window:production"],
            "counterparty_refs": [],
            "quantity": None,
            "attributes": {},
            "generation": 1,
            "operation_id": self.operation(),
            "due_at": None,
            "valid_until": None,
            "timer": "NONE",
            "deadline_at": None,
        }
        return f.CommitmentProposed(**{**given, **fields})

    def moved(self, before: str, after: str, commitment_id: str = "c1", **fields: Any) -> f.CommitmentChanged:
        """A commitment's transition."""
        given: dict[str, Any] = {
            "commitment_id": commitment_id,
            "intent_id": self.intent_id,
            "before": before,
            "after": after,
            "cause": "test",
            "evidence": [f"seen:{after}"],
            "operation_id": None,
            "timer": "NONE",
            "deadline_at": None,
        }
        return f.CommitmentChanged(**{**given, **fields})

    def orphaned(self, subject_id: str, kind: str = "COMMITMENT", orphan_id: str = "o1") -> f.OrphanRaised:
        """An orphan."""
        given: dict[str, Any] = {"kind": "LEFT_BEHIND", "subject_kind": kind}
        return f.OrphanRaised(
            orphan_id=orphan_id,
            subject_id=subject_id,
            intent_id=self.intent_id,
            since=500,
            cause="its intent was superseded",
            suggested_action="release it",
            **given,
        )

    def cleared(self, orphan_id: str = "o1") -> f.OrphanCleared:
        """The orphan's cause is gone."""
        return f.OrphanCleared(orphan_id=orphan_id, intent_id=self.intent_id, cause="released")

    def story(self) -> None:
        """A ledger with something in every table."""
        self.decide(self.declared(), claim_type="DeclareIntent")
        self.decide(self.planned("p1", "ops", "board"), claim_type="Plan")
        self.decide(self.opened("ops", commitment_id="c1"), self.proposed())
        self.decide(self.permitted(), claim_type="Prepared", topic="outcomes")
        self.decide(self.settled(), claim_type="Commit", topic="outcomes")
        self.decide(self.moved("PROPOSED", "ACTIVE"), self.observed("c1", kind="COMMITMENT"), claim_type="Observe")
        self.decide(self.succeeded(), claim_type="Succeed")
        self.decide(self.opened("board", step_id="s2"))
        self.decide(self.permitted("board"), claim_type="Prepared", topic="outcomes")
        self.decide(self.doubted("board"), claim_type="TimerFired", topic="gate", offset=-1)
        self.decide(verdict="REJECTED", reason="STALE_INTENT", detail="A newer version of the intent is in force.")
        self.decide(
            f.QuarantineOpened(quarantine_id="q1", scope=self.intent_id, problem="UNREADABLE", detail="no magic byte"),
            claim_type="ClaimQuarantined",
            topic="gate",
        )
        self.decide(self.orphaned("c1"), claim_type="TimerFired", topic="gate")

    def short_story(self) -> None:
        """A ledger whose ids are all its intent's own, for tests in which several partitions share a store."""
        self.decide(self.declared(), claim_type="DeclareIntent")
        self.decide(self.planned("p1", "ops", "board"), claim_type="Plan")
        self.decide(self.opened())
        self.decide(self.permitted(), claim_type="Prepared", topic="outcomes")
        self.decide(self.doubted(), claim_type="TimerFired", topic="gate", offset=-1)


@pytest.fixture
def hand() -> Hand:
    """A ledger to write."""
    return Hand()


@pytest.fixture
def hands() -> type[Hand]:
    """For tests that write more than one ledger."""
    return Hand


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the projections of a test live."""
    return tmp_path / "projections"


# --- ledgers that the law itself wrote -------------------------------------------------------------------------------


class Scene:
    """Plays lines of a trace through the law, and folds the ledger that comes of it; and makes such lines."""

    def __init__(self, *lines: dict[str, Any], catalogue: Catalogue | None = None) -> None:
        said = [json.dumps({"intent_id": INTENT, **line} if "as" in line else line) for line in lines]
        player = Player(read_trace(said), catalogue or builtin_catalogue())
        result = player.play()
        assert result.failures == [], [str(one) for one in result.failures]
        self.ledger = player.simulator.ledger
        self.decisions = player.simulator.decisions
        self.now = player.simulator.now

    def store_in(self, store: ProjectionStore) -> None:
        """Fold the whole ledger into a store, as one partition's."""
        batch = store.batch()
        for seq, value in enumerate(self.ledger, 1):
            fold(batch, self.decisions[seq - 1], 0)
            digest = hashlib.sha256(value).hexdigest()
            batch.reached(Position("ledger", 0, offset=seq - 1, seq=seq, epoch=1, digest=digest))
        batch.commit()

    def reader(self, store: ProjectionStore) -> StoreReader:
        """A reader over a store that holds it, at the time at which the play ended."""
        self.store_in(store)
        return StoreReader(store, clock=lambda: self.now)

    @staticmethod
    def planned(*steps: dict[str, Any], plan_id: str = "p1", version: int = 1, **fields: Any) -> dict[str, Any]:
        """The line of a plan."""
        return {
            "as": "planner",
            "type": "Plan",
            "intent_version": version,
            "plan_id": plan_id,
            "steps": steps,
            **fields,
        }

    @staticmethod
    def done(step_id: str, executor: str = "cloud", *, plan_id: str = "p1", version: int = 1) -> list[dict[str, Any]]:
        """The lines of a step from its dispatch to its executor's Commit."""
        at = {"intent_version": version, "plan_id": plan_id, "step_id": step_id}
        return [
            {"as": "planner", "type": "Dispatch", **at},
            {"as": "executor", "type": "Prepared", "step": step_id, "executor": executor, "worker": "w1"},
            {"advance": "2s"},
            {"as": "executor", "type": "Commit", "step": step_id, "external_id": f"x-{step_id}", "evidence": ["seen"]},
        ]

    @staticmethod
    def seen(step_id: str, finding: str = "PRESENT", **fields: Any) -> dict[str, Any]:
        """The line of an observation about a step's commitment."""
        return {"as": "observer", "type": "Observe", "subject_kind": "COMMITMENT", "commitment_of": step_id,
                "finding": finding, "source": "cloud", "evidence": ["look"], **fields}  # fmt: skip


@pytest.fixture
def scene() -> type[Scene]:
    """Plays traces."""
    return Scene


@pytest.fixture
def open_store(directory: Path) -> Iterator[ProjectionStore]:
    """An empty store, open for writing."""
    with ProjectionStore.open(directory) as store:
        yield store
