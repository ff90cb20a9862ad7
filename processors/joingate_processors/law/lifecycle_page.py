"""The room that shows the table of a commitment's life as the page docs/commitments.md."""

from joingate_processors.law.dispositions import given_up_by
from joingate_processors.law.lifecycle import COLUMNS, MATRIX, MOVES, STATES, Row
from joingate_schemas.catalogue import ResolutionClass
from joingate_schemas.facts import TERMINAL_COMMITMENT

CLASSES: dict[ResolutionClass, tuple[str, str, str]] = {
    "RELEASABLE": (
        "Its release action gives it back.", "That it is seen to be gone.", "That of the release action.",
    ),
    "EXPIRING": (
        "Its release action, if it has one; else its time is let pass. That it expired is no satisfaction.",
        "That it is seen to be gone, after its time.", "That of the release action.",
    ),
    "TRANSFERABLE": (
        "Another owner takes it over. A Release is refused unless the type names a release action. Unless somebody "
        "takes it over in time it is an incident.",
        "The next owner's acknowledgement.", "That of the release action.",
    ),
    "COMPENSATABLE": (
        "A Release is answered COMPENSATE: the type's release action, or else the compensation of the action that made "
        "it, mitigates what stays in the world.",
        "Evidence of the mitigating effect.", "That of the mitigating action.",
    ),
    "IRREVERSIBLE": (
        "As COMPENSATABLE where there is such an action; else the human gate that its action names decides.",
        "Evidence of the mitigating effect, or a person's Override with evidence.",
        "One at least for the action that makes it, and for the one that mitigates it: the catalogue is refused "
        "otherwise.",
    ),
    "UNKNOWN": (
        "Nothing by machine: its type left the catalogue, or this release does not know its class.",
        "A person's Override with evidence.", "A person's own.",
    ),
}  # fmt: skip
"""Of each resolution class: how it ends when nobody wants it, what discharges it, and whose yes that takes."""

_TIMES = (
    ("due, grace", "ACTIVE", "BREACHED: told to the type's `escalation` at once and again, and given up where "
     "`missed_action` says RELEASE. A deadline is missed once."),
    ("valid", "ACTIVE", "UNKNOWN, and asked about. From that moment on, noticed or not, what relies on it is refused "
     "with COMMITMENT_EXPIRED."),
    ("freshness", "ACTIVE", "An operation that relies on it waits, STAGED, while it is looked at again, and is "
     "withdrawn if nobody sees it in time."),
    ("condition_within", "PENDING_CONDITION", "Dropped as a fact: nothing was made."),
    ("verification", "PROPOSED, ACTIVE, RELEASE_PENDING", "RECONCILIATION_REQUIRED; a release is looked at again."),
    ("release", "RELEASE_PENDING", "BREACHED, an incident, and the release goes on."),
    ("disposition", "what lost its ground", "Given up by its class."),
    ("reconciliation", "UNKNOWN, RECONCILIATION_REQUIRED", "An incident; it stays what it is, for age ends nothing."),
    ("escalation_every", "BREACHED", "Told again."),
)  # fmt: skip


def commitments_markdown() -> str:
    """The page: states, classes, times, moves and the whole matrix."""
    lines = [
        "# Commitments",
        "",
        "A plan may be dropped; a commitment ends only by evidence. This page is made from the table that the tests",
        "hold the law to: `law/lifecycle.py`.",
        "",
        "## States",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {meaning} |" for state, meaning in STATES.items()),
        "",
        "Something that is not final is open: it keeps its intent from closing.",
        "",
        "## Resolution classes",
        "",
        "What becomes of a commitment that nobody wants any more: after a cancel, or when a new version or plan has no",
        "need of it. What came to be only after its ground was gone waits for its owner, whatever its class, unless",
        "its type says `late_success: RELEASE`; it is given back only with an approval of just that.",
        "",
        "| class | disposition | how it ends | what discharges it | whose yes it takes |",
        "|---|---|---|---|---|",
        *(
            f"| `{name}` | `{given_up_by(name)}` | {' | '.join(words)} |"
            for name, words in CLASSES.items()
        ),
        "",
        "A release waits while an open operation relies on the commitment, is refused (RELEASE_OF_ACTIVE) while a step",
        "of the plan in force still has to, goes on through restarts and past its deadline, and is not tried again",
        "behind the back of whoever declined to approve it.",
        "",
        "## Times",
        "",
        "All by the gate's clock. Each is a field of the obligation type in the catalogue. A step relies on the",
        "commitments that it names, and on those that the steps made which it requires; that is checked at its",
        "Dispatch and again when the permit is asked for.",
        "",
        "| time | of | when it passes |",
        "|---|---|---|",
        *(f"| `{name}` | {of} | {then} |" for name, of, then in _TIMES),
        "",
        "## Moves",
        "",
        "Every move from one state to another, with what it needs. No other is made.",
        "",
        "| from | to | needs |",
        "|---|---|---|",
        *(f"| `{before}` | `{after}` | {needs} |" for (before, after), needs in MOVES.items()),
        "",
        "## What every claim does in every state",
        "",
        "A state is told apart by its situation where that decides. The columns:",
        "",
        "| | state | situation |",
        "|---|---|---|",
        *(f"| {letter} | `{state}` | {words or _final(state)} |" for letter, (state, words) in COLUMNS.items()),
        "",
        "`=`: accepted, and it stays as it is. A state: accepted, and that is what it is then. ✗ refused, ↺ answered",
        "with what is so already; each with its reason, and the state after it where that changes too.",
    ]  # fmt: skip
    for group, rows in MATRIX.items():
        lines += ["", f"### {group}", "", f"| | {' | '.join(COLUMNS)} | needs |"]
        lines.append(f"|---|{'---|' * len(COLUMNS)}---|")
        lines += [_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _final(state: str) -> str:
    return "final" if state in TERMINAL_COMMITMENT else ""


def _row(row: Row) -> str:
    cells = {letter: _cell(outcome) for outcome, letters in row.outcomes.items() for letter in letters}
    return f"| {row.name} | {' | '.join(cells[letter] for letter in COLUMNS)} | {row.needs} |"


def _cell(outcome: str) -> str:
    mark, _, rest = outcome.partition(" ")
    words = {"refused": f"✗ {rest}", "replayed": f"↺ {rest}", "compensate": f"⇄ {rest}", "stays": "="}
    return words.get(mark, outcome)
