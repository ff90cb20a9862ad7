"""Killed while it archives, and robbed of its store: what was archived stays away, and the states agree."""

import shutil
import signal
from hashlib import sha256
from typing import Any

from joingate_processors.gate.store import RocksState
from joingate_processors.law.judge import fold
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.state import INDEXES, TABLES
from joingate_schemas.claims import Commit
from joingate_schemas.decisions import Decision
from joingate_schemas.facts import IntentArchived

COUNT = 20


def contents(state: MemoryState | RocksState) -> dict[str, object]:
    return {name: state.rows(name) for name in TABLES} | {name: state.entries(name) for name in INDEXES}


def archived(ledger: list[Decision]) -> list[str]:
    return [fact.intent_id for one in ledger for fact in one.facts if isinstance(fact, IntentArchived)]


def stop(process: Any) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_killed_between_archivings_and_restored_from_the_changelog_nothing_comes_back(desk: Any, tools: Any) -> None:
    intents = [f"acme/old/{n}" for n in range(COUNT)]
    process, said = desk.process(keeping=True), 0
    # Topics are read side by side, so each stage waits for the one before.
    for first, end in ((0, 3), (3, 4), (4, 5)):
        for one in intents:
            for claim in tools.refund(one)[first:end]:
                desk.send(claim, desk.topics.outcomes if isinstance(claim, Commit) else "")
                said += 1
        desk.flush()
        desk.await_claims(said)
    stop(process)
    # Few a transaction, so that the kills come between two archivings.
    process = desk.process(keeping=True, batch_max=3, crash=["committed in Kafka", 10])
    for one in intents:
        desk.send(tools.refund(one)[5])
    desk.flush()
    assert process.wait(60) == -signal.SIGKILL
    process = desk.process(keeping=True, batch_max=3)
    desk.await_ledger(lambda found: len(archived(found)) >= COUNT // 2)
    process.kill()
    process.wait()
    # Another machine has no store: it goes by the changelog, in whose packs the claims of archived intents lie still.
    shutil.rmtree(desk.directory / "gate")
    process = desk.process(keeping=True)
    ledger = desk.await_ledger(lambda found: len(archived(found)) >= COUNT)
    assert sorted(archived(ledger)) == sorted(intents)
    for one in intents:
        desk.send(tools.refund(one)[0])
    desk.flush()
    late = [claim.claim_id for one in intents for claim in tools.refund(one)[:1]]

    def answered(found: list[Decision]) -> bool:
        return sum(one.reason == "INTENT_ARCHIVED" for one in found if one.claim_id in late) >= COUNT

    desk.await_ledger(answered)
    stop(process)
    desk.verify()
    for number in range(desk.partitions):
        twin = MemoryState()
        for one in desk.read(desk.topics.ledger):
            if one.partition == number:
                fold(twin, one.record, sha256(one.raw).digest())
        store = RocksState(desk.directory / "gate" / str(number))
        assert contents(store) == contents(twin)
        assert store.rows("operations") == store.rows("seen") == store.rows("intents") == []
        assert len(store.rows("archives")) == sum(archived_on == number for archived_on in _partitions(desk))
        store.close()


def _partitions(desk: Any) -> list[int]:
    """On which partition each intent was archived."""
    return [
        one.partition
        for one in desk.read(desk.topics.ledger)
        for fact in one.record.facts
        if isinstance(fact, IntentArchived)
    ]
