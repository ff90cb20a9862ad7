"""What facts about archiving do to state: when an intent may go, that it went, and its rows, a page at a time."""

from typing import assert_never

from joingate_processors.law.archived import Archive, mark_of, marked, waiting
from joingate_processors.law.belongings import claims_of, prefix_of
from joingate_processors.law.state import Intent, State
from joingate_schemas import facts as f
from joingate_schemas.record import changed


def archival(
    state: State, fact: f.RetentionSet | f.IntentArchived | f.ArchiveSwept | f.RetentionSwept, at: int
) -> None:
    """Write what the fact, decided `at` (ms), changes."""
    match fact:
        case f.RetentionSet():
            _retention_set(state, fact)
        case f.IntentArchived():
            _archived(state, fact, at)
        case f.ArchiveSwept():
            _swept(state, fact)
        case f.RetentionSwept():
            _looked_through(state, fact, at)
        case _:
            assert_never(fact)


def stirred(state: State, intent: Intent) -> None:
    """Something under the intent was opened, or ended: if it has ended itself, its retention begins anew."""
    if intent.status == "OPEN":
        return
    row, header = state.archives.get(intent.intent_id), state.header.get("")
    if row is not None and row.archived_at is None and header is not None:
        at = header.decided_at
        again = changed(row, since=at, timer="RETENTION", deadline_at=at + row.retention_ms)
        state.archives.put(intent.intent_id, again)


def reopened(state: State, intent: Intent) -> None:
    """A cancelled intent is wanted again, so that it waits for no retention."""
    if intent.status != "OPEN" and state.archives.get(intent.intent_id) is not None:
        state.archives.delete(intent.intent_id)


def chained(state: State, fact: f.OperationOpened) -> str:
    """The gate's own operation that was opened before this one, which is the latest from here on.

    Empty where it is the first.
    """
    intent = state.intents.get(fact.intent_id)
    if intent is None:
        return ""
    state.intents.put(fact.intent_id, changed(intent, discharging=fact.operation_id))
    return intent.discharging


def _retention_set(state: State, fact: f.RetentionSet) -> None:
    if fact.retention_ms:
        row = waiting(fact.intent_id, fact.since, fact.retention_ms, fact.deadline_at)
        state.archives.put(fact.intent_id, row)
    elif state.archives.get(fact.intent_id) is not None:
        state.archives.delete(fact.intent_id)


def _looked_through(state: State, fact: f.RetentionSwept, at: int) -> None:
    for one in fact.intents:
        row = state.archives.get(one)
        since = at if row is None else row.since
        due = max(since + fact.retention_ms, at + 1)
        state.archives.put(one, waiting(one, since, fact.retention_ms, due))
    if fact.deadline_at is None:
        state.archives.delete("")
    else:
        state.archives.put("", waiting("", at, fact.retention_ms, fact.deadline_at, fact.swept))


def _archived(state: State, fact: f.IntentArchived, at: int) -> None:
    intent, header = state.intents.get(fact.intent_id), state.header.get("")
    if intent is None:
        return
    tombstone = Archive(
        intent_id=fact.intent_id, status=fact.status, version=fact.version, content_digest=fact.content_digest,
        since=fact.since, retention_ms=fact.retention_ms, archived_at=at,
        archived_seq=0 if header is None else header.seq, rows=0, swept="", discharging=intent.discharging, effects="",
        timer="NONE", deadline_at=None,
    )  # fmt: skip
    state.archives.put(fact.intent_id, tombstone)
    state.intents.delete(fact.intent_id)


def _swept(state: State, fact: f.ArchiveSwept) -> None:
    row = state.archives.get(fact.intent_id)
    if row is None or row.archived_at is None:
        return
    effects = row.effects
    for one in fact.operations:
        operation = state.operations.get(one)
        if operation is not None:
            if operation.settled_at is not None:
                effects = marked(effects, mark_of(one, operation.external_id))
            if operation.status == "SETTLED" and not operation.claimed:
                state.unclaimed_operations.remove(fact.intent_id, one)  # a look, which nobody has to take up
            state.operations.delete(one)
    for one in fact.commitments:
        state.commitments.delete(one)
        if state.custodies.get(one) is not None:
            state.custodies.delete(one)
    prefix, rows = prefix_of(fact.intent_id), len(fact.operations) + len(fact.commitments)
    _forget_claims(state, row, fact)
    for name in ("steps", "plans", "conditions", "goals"):
        table, count = getattr(state, name), getattr(fact, name)
        for key in table.page(prefix, "", count) if count else ():
            if name == "steps":
                _forget_approvals(state, key)
            table.delete(key)
        rows += count
    state.archives.put(
        fact.intent_id,
        changed(row, rows=row.rows + rows + fact.claims, swept=fact.swept, discharging=fact.discharging,
                effects=effects, timer="NONE" if fact.deadline_at is None else "RETENTION",
                deadline_at=fact.deadline_at),
    )  # fmt: skip


def _forget_approvals(state: State, key: str) -> None:
    """Forget the approvals that stood for the slot of a step."""
    step = state.steps.get(key)
    if step is not None and state.approvals.get(step.slot_id) is not None:
        state.approvals.delete(step.slot_id)


def _forget_claims(state: State, row: Archive, fact: f.ArchiveSwept) -> None:
    left, after = fact.claims, row.swept
    while left > 0:
        keys, last, more = claims_of(state, fact.intent_id, after, left, row.archived_seq)
        for key in keys:
            state.seen.delete(key)
        left, after = left - len(keys), last
        if not more:
            return
