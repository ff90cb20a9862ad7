"""The questions whose answers are put together from several tables: one table of them for reader, API and command line.

Each is answered from one view of the store, so that what it says is true at one position.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from joingate_projections import compare, context, incidents, levels, lineage
from joingate_projections.paging import LIMIT_DEFAULT, LIMIT_MAX
from joingate_projections.store import View
from joingate_projections.tables import Row

OptionKind: TypeAlias = Literal["text", "number"]


@dataclass(frozen=True)
class Asked:
    """What somebody asks: about which id (empty: none), with which options, at what time (ms, for ages)."""

    subject: str
    options: Mapping[str, str]
    now: int

    def number(self, name: str, default: int) -> int:
        """An option that is a number."""
        return int(self.options.get(name, default))


@dataclass(frozen=True)
class Option:
    """One option of a question, for whoever checks and documents it.

    A number lies between 1 and `most`; a text is one of `of`, if that names any.
    """

    about: str
    kind: OptionKind = "text"
    most: int = 0
    of: tuple[str, ...] = ()

    @property
    def schema(self) -> Row:
        """What it may be, for OpenAPI."""
        if self.kind == "number":
            return {"type": "integer", "minimum": 1, "maximum": self.most}
        return {"type": "string", "enum": list(self.of)} if self.of else {"type": "string"}


@dataclass(frozen=True)
class Question:
    """A question. `answer` gives None where nothing is known by the id, which `missing` says in a sentence."""

    about: str
    answer: Callable[[View, Asked], Row | None]
    subject: str = ""
    missing: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)


def _lineage(view: View, asked: Asked) -> Row | None:
    return lineage.lineage(view, asked.subject, asked.options.get("intent"))


def _context(view: View, asked: Asked) -> Row | None:
    return context.context(view, asked.subject, asked.options.get("principal"), asked.now)


def _levels(view: View, asked: Asked) -> Row | None:
    return levels.levels(view, asked.now)


def _compare(view: View, asked: Asked) -> Row | None:
    return compare.compare(view, asked.subject, asked.now)


def _incidents(view: View, asked: Asked) -> Row | None:
    options = asked.options
    limit = asked.number("limit", LIMIT_DEFAULT)
    return incidents.incidents(
        view, options.get("word"), options.get("intent"), limit, options.get("cursor"), asked.now
    )


_NO_INTENT = "There is no intent {subject!r}. It may not be decided yet, or the id is wrong."
QUESTIONS: dict[str, Question] = {
    "lineage": Question(
        "From an id of any kind up to the intent that justifies it, and down to effects and verifications.",
        _lineage,
        subject="id",
        missing="Nothing in the lineage has the id {subject!r}: no intent, goal, commitment, task, plan in force, "
        "operation, attempt (<operation id>#<n>) or external id. It may not be decided yet, or the id is wrong.",
        options={"intent": Option("Only this intent's: for goals, tasks and plans, whose ids are their intent's own.")},
    ),
    "context": Question(
        "What a planner needs before it plans: intent, goals, open commitments, resources, budgets, authority, and "
        "which actions it may ask for, with how those have fared.",
        _context,
        subject="intent_id",
        missing=_NO_INTENT,
        options={"principal": Option("For whom: limits and actions are this principal's.")},
    ),
    "incidents": Question(
        "Everything that needs somebody, oldest first: orphaned, in doubt, breached, unreadable; each with its age, "
        "cause, suggested action and lineage.",
        _incidents,
        options={
            "word": Option("Only these.", of=incidents.WORDS),
            "intent": Option("Only this intent's."),
            "limit": Option("How many.", "number", LIMIT_MAX),
            "cursor": Option("`next` of the page before."),
        },
    ),
    "compare": Question(
        "The plans of an intent compared by burden: commitments by how they may end, human attention, exclusive "
        "resources, irreversible steps, idle-hold cost; the lightest first.",
        _compare,
        subject="intent_id",
        missing=_NO_INTENT,
    ),
    "service-levels": Question(
        "What is open and how old, breaches, latencies, who found what, and how each declared objective stands.",
        _levels,
    ),
}
"""Every question by its name, which is also its path below /v1."""
