"""The room that makes the page about traces out of their JSON schema, so that no field is explained twice."""

from typing import Any

from joingate_processors.forensics.trace import EDGE_WORDS, NAMES, TOPIC_OF
from joingate_processors.forensics.trace_schema import trace_schema
from joingate_processors.law.judge import TOPIC_ROLES
from joingate_schemas.claims import CLAIM_TYPES, ROLE_TYPES

EXAMPLE = """\
{"at": "2026-11-30T10:00:00Z", "as": "planner", "type": "DeclareIntent", "intent_id": "acme/notice", "version": 1, \
"goals": []}
{"as": "planner", "type": "Plan", "intent_id": "acme/notice", "intent_version": 1, "plan_id": "p1", "steps": \
[{"step_id": "s1", "action": "notify", "arguments": {"to": "ops"}}]}
{"as": "planner", "type": "Dispatch", "intent_id": "acme/notice", "intent_version": 1, "plan_id": "p1", \
"step_id": "s1"}
{"as": "executor", "type": "Prepared", "intent_id": "acme/notice", "step": "s1", "executor": "messenger"}
{"advance": "5s"}
{"as": "executor", "type": "Commit", "intent_id": "acme/notice", "step": "s1", "external_id": "msg-1", \
"evidence": ["messenger:msg-1"]}
{"expect": {"verdict": "ACCEPTED", "reason": "OK"}}
"""
"""The trace that the page shows; a test plays it."""

_EVERY_LINE = ("at", "advance", "batch", "catalogue")
_EVERY_CLAIM = ("as", "type", "claim_id", "intent_id", "principal", "signature", "occurred_at")
_OTHERS = {"RawLine": "Bytes", "RestartLine": "A restart", "ExpectLine": "What is expected"}
_PARTS = ("PlanStep", "Edge", "Goal", "Budgets")
_LISTED_MAX = 8  # longer lists of words have pages of their own
_GATES_OWN = frozenset(
    {"TimerFired", "CatalogueChanged", "ClaimQuarantined", "ClaimHeld"}
)  # said on no topic, by nobody else


def trace_markdown() -> str:
    """The page `docs/traces.md`: what a trace is, and each field of each line explained."""
    defs = trace_schema()["$defs"]
    lines = [
        "# Traces", "",
        "A trace is a file with one JSON object a line, played in order. `joingate simulate` plays it in memory, with",
        "the gate's own law and a clock of its own; `joingate submit` against a live gate; `joingate replay` writes",
        "one from a live ledger. All three agree on every verdict and fact. `joingate trace --schema` prints the JSON",
        "schema that this page is made from.", "", "```jsonl", EXAMPLE.rstrip(), "```", "",
        "Exit code 0 if it was played; 1 if an `expect` failed, with what is different; 2 if the trace is malformed,",
        "with line and field. What has a default may be left out.", "",
        "## Every line", "", *_table(defs["ClockLine"], _EVERY_LINE), "",
        "A time is ISO-8601 text or milliseconds since the epoch; a duration is text with units, as in `1m30s`, or",
        "milliseconds. A catalogue lies beside the trace: a path that is absolute or goes up is refused.", "",
        "## Every claim", "", *_table(defs["Commit"], _EVERY_CLAIM), "",
        "| `as` | writes to | may say |", "|---|---|---|", *_speakers(), "",
        "Anybody may try to say anything: what is not theirs to say is decided WRONG_ROLE. The arbiter of resources",
        "answers by itself, unless the trace has lines of the arbiter's: then those are all that it says.", "",
        "## In the place of derived ids", "", "| word | meaning |", "|---|---|", *_words(defs), "",
    ]  # fmt: skip
    for name in CLAIM_TYPES:
        lines += _section(f"`{name}`", defs[name], (*_EVERY_LINE, *_EVERY_CLAIM, *NAMES))
    for name in _PARTS:
        lines += _section(f"Within a claim: `{name}`", defs[name], tuple(EDGE_WORDS))
    for name, title in _OTHERS.items():
        lines += _section(title, defs[name], _EVERY_LINE)
    return "\n".join([*lines, "### Within `expect`", "", *_table(defs["ExpectLine"]["properties"]["expect"]), ""])


def _section(title: str, line: dict[str, Any], known: tuple[str, ...]) -> list[str]:
    own = tuple(name for name in line["properties"] if name not in known)
    return [f"## {title}", "", line.get("description", ""), "", *([*_table(line, own), ""] if own else [])]


def _table(line: dict[str, Any], names: tuple[str, ...] | None = None) -> list[str]:
    fields = {name: line["properties"][name] for name in names or line["properties"]}
    rows = [f"| `{name}` | {_text(field)} | {_left_out(name, field, line)} |" for name, field in fields.items()]
    return ["| field | meaning | if left out |", "|---|---|---|", *rows]


def _text(field: dict[str, Any]) -> str:
    words = field.get("enum", ())
    listed = f"One of {', '.join(f'`{word}`' for word in words)}." if 0 < len(words) < _LISTED_MAX else ""
    return " ".join(part for part in (field.get("description", ""), listed) if part).replace("|", "\\|")


def _left_out(name: str, field: dict[str, Any], line: dict[str, Any]) -> str:
    if name in line.get("required", ()):
        return "must be given"
    default = field.get("default")
    if default is None or default in ("", [], {}):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _speakers() -> list[str]:
    may_say = {who: ROLE_TYPES[TOPIC_ROLES[topic]] - _GATES_OWN for who, topic in TOPIC_OF.items()}
    return [
        f"| `{who}` | `{topic}` | {', '.join(name for name in CLAIM_TYPES if name in may_say[who])} |"
        for who, topic in TOPIC_OF.items()
    ]


def _words(defs: dict[str, Any]) -> list[str]:
    found = {
        word: line["properties"][word]["description"]
        for word in NAMES
        for name, line in defs.items()
        if name in CLAIM_TYPES and word in line["properties"]
    }
    edges = [
        f"| `{word}`, in a plan's step | Short for {kind} edges to these steps. |" for word, kind in EDGE_WORDS.items()
    ]
    return [*(f"| `{word}` | {meaning} |" for word, meaning in found.items()), *edges]
