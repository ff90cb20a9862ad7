"""Reading lineage: from an id of any kind up to the intent that justifies it, and down to what verified its effects.

The answer is a graph, because a task may serve a commitment and a goal at once: `nodes` (numbered within the answer),
`edges` between their numbers, each with the ledger position that caused it, and `subjects`, the nodes asked about.
`relations` are the edges beside the hierarchy (REQUIRES, ENABLES, USES…) that touch a subject or a task below it.
`tree` is the same for people, line by line. Each node has its words, so that they are the same on every page.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from joingate_projections.store import View
from joingate_projections.tables import Row, joined
from joingate_projections.tables.lineage import node

NODES_MAX = 1_000
"""Nodes in one answer; beyond them it is `cut`: ask about something lower."""
SUBJECTS_MAX = 50
_DOWN = frozenset({"LEADS_TO", "UNDONE_BY"})
# What an answer says of a node, from its row: enough to tell what it is and how it stands.
_TOLD = {
    "INTENT": ("intents", ("intent_id", "version", "objective", "tenant", "status", "shown")),
    "GOAL": (
        "goals",
        ("intent_id", "goal_id", "acceptance", "evidence_requirements", "risk_class", "observation", "status", "shown"),
    ),
    "COMMITMENT": (
        "commitments",
        (
            "commitment_id", "intent_id", "intent_version", "obligation_type", "resource_refs", "owner_id",
            "disposition", "due_at", "status", "shown",
        ),
    ),
    "TASK": (
        "steps",
        ("intent_id", "plan_id", "step_id", "action", "business_key", "goal_id", "operation_id", "status", "shown"),
    ),
    "OPERATION": (
        "operations",
        (
            "operation_id", "intent_id", "intent_version", "action", "business_key", "generation", "executor",
            "external_id", "compensates", "status", "shown",
        ),
    ),
}  # fmt: skip


def lineage(view: View, subject_id: str, intent_id: str | None = None) -> Row | None:
    """The graph around everything that has this id (`intent_id` narrows goals, tasks and plans to one intent's).

    None: nothing has it.
    """
    subjects = list(dict.fromkeys(_subjects(view, subject_id, intent_id)))[:SUBJECTS_MAX]
    if not subjects:
        return None
    graph = _Graph(view)
    for subject in subjects:
        graph.walk(subject, graph.above)
    for subject in subjects:
        graph.walk(subject, graph.below)
    answer = graph.answer(subjects)
    tree = [{"depth": depth, "n": one["n"], "hangs": kind} for depth, one, kind in tree_of(answer)]
    return {"id": subject_id, **answer, "tree": tree}


def one(view: View, name: str) -> Row:
    """A node as it is told."""
    return _Graph(view).told(name)


def ancestors(view: View, name: str) -> list[Row]:
    """What a node comes from, the outermost first, each as it is told: the lineage line of an incident."""
    graph = _Graph(view)
    graph.walk(name, graph.above)
    order = {"INTENT": 0, "GOAL": 1, "COMMITMENT": 2, "TASK": 3, "OPERATION": 4}
    found = [graph.told(one) for one in reversed(graph.nodes) if one != name]
    # Walked from below, so that the nearest came first: outermost kinds first, then farther goals before nearer ones.
    return sorted(found, key=lambda one: order.get(one["kind"], 5))


def _subjects(view: View, subject_id: str, intent_id: str | None) -> Iterator[str]:
    """The nodes that have the id."""
    for kind, table in (("INTENT", "intents"), ("OPERATION", "operations"), ("COMMITMENT", "commitments")):
        row = view.get(table, subject_id)
        if row is not None and intent_id in (None, row["intent_id"]):
            yield joined(kind, subject_id)
    for table, field in (("goals", "goal_id"), ("steps", "step_id"), ("steps", "plan_id")):
        for row in _found(view, table, field, subject_id):
            if intent_id in (None, row["intent_id"]) and (table == "goals" or _is_traced(view, row)):
                yield node("GOAL", row["intent_id"], row["goal_id"]) if table == "goals" else _task(row)
    for row in _found(view, "operations", "external_id", subject_id):
        if intent_id in (None, row["intent_id"]):
            yield node("EFFECT", row["operation_id"], str(row["settled_attempt"]), row["external_id"])
    if "#" in subject_id:
        operation_id, _, attempt = subject_id.rpartition("#")
        row = view.get("operations", operation_id)
        if row is not None and attempt.isdecimal() and 0 < int(attempt) <= row["attempt"]:
            yield node("ATTEMPT", operation_id, attempt)
    yield from _strays(view, subject_id, intent_id)


def _strays(view: View, external_id: str, intent_id: str | None) -> Iterator[str]:
    """Effects that no operation settled with: their decisions mention them."""
    for row in _found(view, "decisions", "mentions", external_id):
        for fact in row["facts"]:
            if fact["fact"] == "EffectRecorded" and fact["external_id"] == external_id:
                one = node("EFFECT", fact["operation_id"], str(fact["attempt"]), external_id)
                known = next(view.find("lineage", "below", one), None)
                if known is not None and intent_id in (None, fact["intent_id"]):
                    yield one


def _found(view: View, table: str, field: str, value: str) -> Iterator[Row]:
    for _, (_, key) in zip(range(SUBJECTS_MAX), view.find(table, field, value), strict=False):
        row = view.get(table, key)
        if row is not None:
            yield row


def _task(step: Row) -> str:
    return node("TASK", step["intent_id"], step["plan_id"], step["step_id"])


def _is_traced(view: View, step: Row) -> bool:
    """Whether the step is a task: those of candidates are not, until they are adopted."""
    return next(view.find("lineage", "below", _task(step)), None) is not None


class _Graph:
    """Nodes in the order in which they were met, and the edges between them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.nodes: dict[str, int] = {}
        self.edges: dict[tuple[str, str, str], Row] = {}
        self.relations: dict[tuple[str, str, str], Row] = {}
        self._about: dict[str, Row] = {}
        self.cut = False

    def walk(self, start: str, step: Callable[[str], Iterable[str]]) -> None:
        """Meet everything that `step` leads to from `start`."""
        self._meet(start)
        waiting, seen = deque([start]), {start}
        while waiting:
            for following in step(waiting.popleft()):
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)

    def above(self, name: str) -> Iterator[str]:
        """What led to the node."""
        yield from self._follow("below", "above", name)

    def below(self, name: str) -> Iterator[str]:
        """What the node led to."""
        yield from self._follow("above", "below", name)

    def _follow(self, field: str, other: str, name: str) -> Iterator[str]:
        for _, key in self._view.find("lineage", field, name):
            edge = self._view.get("lineage", key)
            if edge is None:
                continue
            if edge["kind"] not in _DOWN:
                self.relations.setdefault((edge["kind"], edge["above"], edge["below"]), edge)
            elif edge["until"] is None:
                if not self._meet(edge[other]):
                    return
                self.edges.setdefault((edge["kind"], edge["above"], edge["below"]), edge)
                if "finding" in edge or "external_id" in edge:
                    self._about[edge["below"]] = edge
                yield edge[other]

    def _meet(self, name: str) -> bool:
        """Take the node in; False: the answer is full."""
        if name not in self.nodes:
            if len(self.nodes) >= NODES_MAX:
                self.cut = True
                return False
            self.nodes[name] = len(self.nodes)
        return True

    def told(self, name: str) -> Row:
        """A node as it is answered, with its words for people."""
        row = self._row(name)
        return {**row, "name": name_of(row), "about": about_of(row)}

    def _row(self, name: str) -> Row:
        kind, *ids = name.split("\x1f")
        if kind in _TOLD:
            table, fields = _TOLD[kind]
            row = self._view.get(table, joined(*ids))
            named = {"GOAL": {"goal_id": ids[-1]}, "TASK": {"step_id": ids[-1]}}.get(
                kind, {f"{kind.lower()}_id": ids[0]}
            )
            return {"kind": kind, **({one: row[one] for one in fields} if row is not None else named)}
        if kind == "ATTEMPT":
            return {"kind": kind, "operation_id": ids[0], "attempt": int(ids[1])}
        edge = self._about.get(name, {})
        if kind == "EFFECT":
            return {"kind": kind, "operation_id": ids[0], "external_id": ids[-1], "stray": edge.get("stray", False)}
        return {"kind": kind, **{one: edge.get(one) for one in ("finding", "source", "evidence")}}

    def answer(self, subjects: list[str]) -> Row:
        """The graph with numbers for names."""
        # A relation may lead to a task that is not in the hierarchy below the subject: it is told, not walked.
        for edge in self.relations.values():
            for end in (edge["above"], edge["below"]):
                self._meet(end)
        return {
            "subjects": [self.nodes[one] for one in subjects if one in self.nodes],
            "nodes": [{"n": number, **self.told(name)} for name, number in self.nodes.items()],
            "edges": [self._edge(edge) for edge in self.edges.values()],
            "relations": [
                self._edge(edge)
                for edge in self.relations.values()
                if edge["above"] in self.nodes and edge["below"] in self.nodes
            ],
            "cut": self.cut,
        }

    def _edge(self, edge: Row) -> Row:
        return {
            "kind": edge["kind"],
            "above": self.nodes[edge["above"]],
            "below": self.nodes[edge["below"]],
            "at": edge["at"],
            "time": edge["time"],
        }


def name_of(node: Row) -> str:
    """A node in a word or two: its kind, and what its people call it."""
    match node["kind"]:
        case "ATTEMPT":
            return f"attempt {node['attempt']}"
        case "EFFECT":
            return f"{'stray ' if node['stray'] else ''}effect {node['external_id'] or '(no id known)'}"
        case "VERIFICATION":
            return f"verification {node['finding']} by {node['source']}"
        case "TASK" if "plan_id" in node:
            return f"task {node['plan_id']}/{node['step_id']}"
        case kind:
            own = {"TASK": "step_id"}.get(kind, f"{kind.lower()}_id")
            return f"{kind.lower()} {node[own]}"


def about_of(node: Row) -> str:
    """What a person would want to know of it at a glance: its word, and what it is about."""
    said = [f"{node['shown']}:" if "shown" in node else ""]
    match node["kind"]:
        case "INTENT":
            said += [node.get("objective", ""), f"(version {node['version']})" if "version" in node else ""]
        case "GOAL":
            said += [node.get("acceptance", "")]
        case "COMMITMENT":
            said += [node.get("obligation_type", ""), ", ".join(node.get("resource_refs", []))]
        case "TASK" | "OPERATION":
            said += [node.get("action", ""), f"on {node['business_key']}" if node.get("business_key") else ""]
        case "VERIFICATION":
            said += [", ".join(node["evidence"] or [])]
        case _:
            pass  # An attempt and an effect say all of themselves in their names.
    return " ".join(one for one in said if one).removesuffix(":")


def tree_of(answer: Row) -> Iterator[tuple[int, Row, str]]:
    """The answer as a tree for people: (depth, node, how it hangs there), each node once, below the nearest above it.

    A task that serves a commitment hangs from the goal too; it is shown below the commitment alone.
    """
    above: dict[int, list[Row]] = {}
    below: dict[int, list[Row]] = {}
    for edge in answer["edges"]:
        above.setdefault(edge["below"], []).append(edge)
        below.setdefault(edge["above"], []).append(edge)

    def all_above(number: int) -> set[int]:
        found: set[int] = set()
        waiting = [number]
        while waiting:
            for edge in above.get(waiting.pop(), ()):
                if edge["above"] not in found:
                    found.add(edge["above"])
                    waiting.append(edge["above"])
        return found

    def hangs(edge: Row) -> bool:
        others = [one["above"] for one in above[edge["below"]] if one["above"] != edge["above"]]
        return not any(edge["above"] in all_above(other) for other in others)

    nodes = {one["n"]: one for one in answer["nodes"]}
    touched = {*above, *below, *answer["subjects"]}
    shown: set[int] = set()
    starts = [number for number in nodes if number in touched and number not in above]
    # Goals that name each other as parents have no start; the subjects themselves will do.
    for start in [*starts, *answer["subjects"]]:
        stack = [(0, start, "")]
        while stack:
            depth, number, kind = stack.pop()
            if number in shown:
                continue
            shown.add(number)
            yield depth, nodes[number], kind
            following = [edge for edge in below.get(number, ()) if hangs(edge)]
            stack += [(depth + 1, edge["below"], edge["kind"]) for edge in reversed(following)]
