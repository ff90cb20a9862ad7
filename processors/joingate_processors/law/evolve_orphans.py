"""What facts about incidents do to state, and to the count of the intent that they are about."""

from joingate_processors.law.evolve_archive import stirred
from joingate_processors.law.state import Orphan, State
from joingate_schemas import facts as f
from joingate_schemas.record import changed


def unheard_key(intent_id: str) -> str:
    """The backlog of open incidents about an intent of which there was no row when they were raised."""
    return f"UNHEARD\x1f{intent_id}"


def raised(state: State, fact: f.OrphanRaised) -> None:
    """One more incident, unless it is open already."""
    if state.orphans.get(fact.orphan_id) is not None:
        return
    state.orphans.put(
        fact.orphan_id,
        Orphan(orphan_id=fact.orphan_id, intent_id=fact.intent_id, kind=fact.kind, subject_id=fact.subject_id,
               since=fact.since),
    )  # fmt: skip
    intent = state.intents.get(fact.intent_id)
    if intent is None:
        state.backlogs.add(unheard_key(fact.intent_id), fact.orphan_id)
        return
    state.intents.put(fact.intent_id, changed(intent, orphans_open=intent.orphans_open + 1))
    stirred(state, intent)


def cleared(state: State, fact: f.OrphanCleared) -> None:
    """The incident is over."""
    if state.orphans.get(fact.orphan_id) is None:
        return
    state.orphans.delete(fact.orphan_id)
    intent, unheard = state.intents.get(fact.intent_id), unheard_key(fact.intent_id)
    if fact.orphan_id in state.backlogs.members(unheard):
        state.backlogs.remove(unheard, fact.orphan_id)
    elif intent is not None:
        state.intents.put(fact.intent_id, changed(intent, orphans_open=intent.orphans_open - 1))
    if intent is not None:
        stirred(state, intent)
