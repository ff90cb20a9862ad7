"""Goals as the law sees them: a tree of states, what of it a change touches, and which of them a source has shown.

A goal's subtree is the goal and everything below it. What stands above a goal is not part of it: a parent may change
its mind about other parts and leave this one alone (model §6, "goals whose subtree is untouched are untouched").
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from joingate_processors.law.case import refuse
from joingate_processors.law.digests import digest_of
from joingate_processors.law.state import Intent, State, goal_key
from joingate_schemas import claims as c
from joingate_schemas.claims import Finding

SAYS_NOTHING: frozenset[Finding] = frozenset({"UNREACHABLE", "RESEND", "UNKNOWN"})
"""Findings that say nothing about a goal: what its source said before still stands."""


def own_digests(goals: Sequence[c.Goal]) -> dict[str, str]:
    """The digest of each goal's own content."""
    return {goal["goal_id"]: digest_of(goal) for goal in goals}


def parents_of(goals: Sequence[c.Goal]) -> dict[str, str]:
    """The parent of each goal that is part of one."""
    found = ((goal["goal_id"], goal.get("parent_goal_id")) for goal in goals)
    return {goal_id: parent for goal_id, parent in found if parent is not None}


def subtrees(digests: Mapping[str, str], parents: Mapping[str, str]) -> dict[str, str]:
    """The digest of each goal's subtree; a goal without parts has its own. Total: in a circle too, as old ledgers may
    hold one, each goal then has its own."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for goal_id, parent in parents.items():
        if goal_id in digests and parent in digests:
            children[parent].append(goal_id)
    waits = {goal_id: len(children[goal_id]) for goal_id in digests}
    ready = [goal_id for goal_id in digests if not waits[goal_id]]
    found: dict[str, str] = {}
    for goal_id in ready:  # grows as it is read: a parent comes behind the last of its parts
        below = sorted(found[one] for one in children[goal_id])
        found[goal_id] = digest_of(digests[goal_id], below) if below else digests[goal_id]
        above = parents.get(goal_id)
        if above in waits:
            waits[above] -= 1
            if not waits[above]:
                ready.append(above)
    return {goal_id: found.get(goal_id, digest) for goal_id, digest in digests.items()}


def check_tree(intent_id: str, goals: Sequence[c.Goal]) -> None:
    """Refused as MALFORMED where two goals are called alike, a parent is not there, or a goal is part of itself."""
    ids = {goal["goal_id"] for goal in goals}
    if len(ids) != len(goals):
        refuse("MALFORMED", f"two goals of intent {intent_id} have the same goal_id", intent_id)
    parents = parents_of(goals)
    for goal_id, parent in parents.items():
        if parent not in ids:
            refuse("MALFORMED", f"goal {goal_id} is part of {parent}, which is not declared with it", intent_id)
    above: set[str] = set()  # goals whose way up is known to end
    for goal_id in parents:
        path: dict[str, None] = {}
        at: str | None = goal_id
        while at is not None and at not in above:
            if at in path:
                refuse("MALFORMED", f"goal {at} is part of itself in the end", intent_id)
            path[at] = None
            at = parents.get(at)
        above.update(path)


# --- what is seen of them --------------------------------------------------------------------------------------------


def lacking(intent: Intent, goal_id: str, evidence: Sequence[str]) -> list[str]:
    """The kinds of evidence that the goal's acceptance needs, and that are not here."""
    kinds = {item.partition(":")[0] for item in evidence}
    return [one for one in intent.required.get(goal_id, ()) if one not in kinds]


def reached(state: State, intent: Intent, goal_id: str) -> list[str]:
    """The sources that have shown the goal as it is wanted now, sorted; empty while none has, or one says otherwise."""
    news = state.goals.get(goal_key(intent.intent_id, goal_id))
    if news is None or goal_id not in intent.goals or "PRESENT" not in news.said.values():
        return []
    return _shown_by(state, intent, goal_id, subtrees(intent.goals, intent.parents)[goal_id])


def unreached(state: State, intent: Intent) -> list[str]:
    """The goals of the version in force that no source shows to be reached, or one says are not; in their order."""
    ground = subtrees(intent.goals, intent.parents)
    return [goal_id for goal_id in intent.goals if not _shown_by(state, intent, goal_id, ground[goal_id])]


def shown_by(state: State, intent: Intent, goal_id: str, source: str) -> list[str]:
    """The sources that have shown the goal once `source` shows it too; empty where another one says otherwise."""
    news = state.goals.get(goal_key(intent.intent_id, goal_id))
    ground = subtrees(intent.goals, intent.parents)[goal_id]
    others = {} if news is None else {one: news.said[one] for one in news.said if news.grounds[one] == ground}
    said = {**others, source: "PRESENT"}
    return sorted(said) if all(finding == "PRESENT" for finding in said.values()) else []


def _shown_by(state: State, intent: Intent, goal_id: str, ground: str) -> list[str]:
    """The sources whose word about the goal is about its subtree as it is now, where all of them show it."""
    news = state.goals.get(goal_key(intent.intent_id, goal_id))
    if news is None:
        return []
    said = {source: finding for source, finding in news.said.items() if news.grounds[source] == ground}
    return sorted(said) if said and all(finding == "PRESENT" for finding in said.values()) else []
