"""The commands that ask the API questions over several tables: lineage, and what planners and people on duty go by."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, escaped, print_json, show
from joingate.cli.reading import Api

Intent = Annotated[str | None, typer.Option("--intent", help="Only this intent's.")]
AtLeast = Annotated[
    str | None, typer.Option("--at-least", help="Answer from this ledger position on, <partition>:<seq>.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command()(lineage)


def asked(api: str | None, question: str, subject: str = "", **options: object) -> dict[str, Any]:
    """The API's answer; options that are None are left out."""
    from joingate.settings import load_settings
    from joingate_projections.reader import HttpReader

    given = [(name, str(value)) for name, value in options.items() if value is not None]
    return HttpReader(load_settings(api_url=api).api_url).ask(question, subject, given)


def lineage(
    subject: Annotated[str, typer.Argument(metavar="ID", help="An intent, goal, commitment, task, operation, effect…")],
    intent: Intent = None,
    at_least: AtLeast = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """Show what an id comes from, up to its intent, and what came of it, down to effects and who verified them."""
    answer = asked(api, "lineage", subject, intent=intent, at_least=at_least)
    if json:
        print_json(answer)
        return
    show(*_trees(answer))
    nodes = {one["n"]: one for one in answer["nodes"]}
    for edge in answer["relations"]:
        above, below = nodes[edge["above"]], nodes[edge["below"]]
        print(f"{_name(above)} {edge['kind']} {_name(below)}  ({_position(edge['at'])})")
    if answer["cut"]:
        print("… and more than fits into one answer: ask about something lower.")


def _trees(answer: dict[str, Any]) -> Iterator[Any]:
    from rich.tree import Tree

    from joingate_projections.lineage import tree_of

    at = {edge["below"]: edge["at"] for edge in answer["edges"]}
    path: list[Tree] = []
    for depth, node, kind in tree_of(answer):
        text = f"[bold]{escaped(_name(node))}[/]" if node["n"] in answer["subjects"] else escaped(_name(node))
        said = [f"[dim]{escaped(kind)}[/]" if kind == "UNDONE_BY" else "", text, escaped(_about(node))]
        said.append(f"[dim]({_position(at[node['n']])})[/]" if node["n"] in at else "")
        label = " ".join(one for one in said if one)
        if depth == 0:
            path = [Tree(label)]
            yield path[0]
        else:
            path = [*path[:depth], path[depth - 1].add(label)]


def _name(node: dict[str, Any]) -> str:
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


def _about(node: dict[str, Any]) -> str:
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


def _position(at: dict[str, int]) -> str:
    return f"{at['partition']}:{at['seq']}"
