"""The invariants that every ledger keeps, by name, and how a breach of one is said.

They are read off the model, not off the law: the checker that holds them shares no code with what it checks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

SEVEN: dict[str, str] = {
    "ACTIVE_OWNED": "An ACTIVE commitment has a durable owner: not nobody, no worker, none whose end went unnoticed.",
    "SATISFIED_SHOWN": "A SATISFIED commitment has the evidence of its satisfaction.",
    "RELEASED_SHOWN": "A RELEASED commitment has the evidence of its release: no timer and no wish is that.",
    "STALE_CREATES": "A stale intent makes no new commitment.",
    "TRANSFER_FENCED": "A transfer is taken, not sent, and ends the authority of whoever served it before.",
    "UNKNOWN_KEPT": "What is not known of the outside world is never shown as RELEASED.",
    "TERMINAL_STAYS": "A terminal commitment comes back only by a new event that cites newer evidence.",
}  # fmt: skip
"""The seven rules about obligations, each of which `joingate verify` names with its verdict."""

INVARIANTS: dict[str, str] = {
    "CONTIGUOUS": "Each record's seq is one more than that of the record before.",
    "CHAINED": "Each record carries the SHA-256 of the record before.",
    "EPOCH": "A writer's epoch never falls.",
    "TIME": "`decided_at` never goes back.",
    "ONCE": "A claim id of an intent is decided once; every further record of it is REPLAYED.",
    "ROLE": "A claim is accepted only from the topic of a role that may make it: no planner commits.",
    "REFUSAL": "A refused or repeated claim opens nothing, permits nothing, joins nothing, closes nothing.",
    "COMMAND": "A command to act comes from an accepted decision that allows it.",
    "KNOWN": "A fact is about something that an earlier fact made.",
    "IDENTITY": "An operation id stands for one slot and generation, and is opened once.",
    "ONE_OPEN": "A slot has at most one operation opened at a time.",
    "GENERATION": "A slot's next generation follows proven absence, withdrawal or compensation of the one before.",
    "TWO_PHASES": "What is irreversible, or goes where keys are not known, needs a permit (looking excepted).",
    "ATTEMPT": "Attempts rise by one: after silence before the permit, or as a resend where keys are known.",
    "PERMIT": "A permit is issued once an attempt, to the current attempt of an operation that is ready for it.",
    "RIVAL": "While an attempt may have acted, no other is permitted where keys are not known.",
    "DOUBT": "A doubt is said again only of a later attempt that was allowed to act, and only while nobody is asked.",
    "FRESH": "Leave to act is given only while the intent's version and the plan behind it are in force.",
    "RESOURCES": "An operation goes on, and acts, only with a grant of each resource that it needs.",
    "SETTLED": "An effect is taken as real by an executor's Commit under a permit, an observation or an Override.",
    "REQUIRES": "A step starts, and acts, only while each step that it requires is settled and in force, or needless.",
    "JOIN": "A step succeeds only over a settlement that follows its dispatch and its permit.",
    "PROOF": "An operation fails only by proof of absence, never by silence.",
    "PROOF_TIME": "A look or a statement proves absence only after what was allowed to act has had its time to land.",
    "WITHDRAWN": "What is withdrawn never had a permit.",
    "COMPENSATED": "Only a settled effect is compensated, by a settled operation or by evidence that is named.",
    "CLOSE": "An intent closes with each step joined by its latest generation, undone or needless, nothing open, "
    "and where its terms ask for that, each goal seen.",
    "CLOSED": "A closed intent starts nothing and never opens again.",
    "ARCHIVED": "What is archived ended its retention ago, with nothing open, and nothing takes effect under it again.",
    "TRANSITION": "A commitment's change starts from the state in which it is.",
    "OWNER": "An ACTIVE commitment has a durable owner, and its creating operation is settled.",
    "FENCE": "Ownership's token rises with each change of owner, and only who names it is heard as the owner.",
    "TRANSFER": "An owner changes by acknowledgement, by being seen to act, or under a policy; by nothing else.",
    "RETIRED": "A retired owner is given nothing new, and everything that it owned is an orphan once it is swept.",
    "EVIDENCE": "RELEASED, SATISFIED and TRANSFERRED carry evidence.",
    "TERMINAL": "A terminal commitment never returns, unless newer evidence or an Override says so; never to ACTIVE.",
    "DEADLINE": "Every pending state has a deadline.",
    "DEBT": "A new obligation is taken on only within the declared limits on debt and on doubts.",
    "BUDGET": "Nothing but discharging work is started beyond the intent's ceiling, or its share for exploration.",
    "REACHED": "No work is started, or goes on to act, for a goal that every source that speaks of it has shown.",
    "DRAWN": "No more is taken of a commitment by what is open, in doubt or has used it up than it holds.",
    **SEVEN,
}  # fmt: skip
"""What is checked: the name of each invariant, and the sentence that it is."""


@dataclass(frozen=True)
class Violation:
    """A breach: the ledger's `seq` at which it shows, the invariant's name, the ids concerned, and what happened."""

    seq: int
    invariant: str
    ids: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return f"seq {self.seq}: {self.invariant}: {self.sentence} [{', '.join(self.ids)}]"


Report: TypeAlias = Callable[[str, tuple[str, ...], str], None]
"""How a book tells of a breach: invariant, ids, sentence."""
