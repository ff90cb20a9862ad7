"""The commands that ask the API questions over several tables: lineage, and what planners and people on duty go by."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from joingate.cli.output import Json, duration, escaped, moment, print_json, show, table
from joingate.cli.reading import Api
from joingate.faults import FAILED

Intent = Annotated[str | None, typer.Option("--intent", help="Only this intent's.")]
AtLeast = Annotated[
    str | None, typer.Option("--at-least", help="Answer from this ledger position on, <partition>:<seq>.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    for command in (lineage, context, compare, levels):
        app.command()(command)


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
        print(f"{above['name']} {edge['kind']} {below['name']}  ({_position(edge['at'])})")
    if answer["cut"]:
        print("… and more than fits into one answer: ask about something lower.")


def _trees(answer: dict[str, Any]) -> Iterator[Any]:
    from rich.tree import Tree

    nodes = {one["n"]: one for one in answer["nodes"]}
    at = {edge["below"]: edge["at"] for edge in answer["edges"]}
    path: list[Tree] = []
    for place in answer["tree"]:
        depth, node = place["depth"], nodes[place["n"]]
        name = escaped(node["name"])
        said = [f"[dim]{escaped(place['hangs'])}[/]" if place["hangs"] == "UNDONE_BY" else ""]
        said.append(f"[bold]{name}[/]" if node["n"] in answer["subjects"] else name)
        said += [escaped(node["about"]), f"[dim]({_position(at[node['n']])})[/]" if node["n"] in at else ""]
        label = " ".join(one for one in said if one)
        if depth == 0:
            path = [Tree(label)]
            yield path[0]
        else:
            path = [*path[:depth], path[depth - 1].add(label)]


def _position(at: dict[str, int]) -> str:
    return f"{at['partition']}:{at['seq']}"


def context(
    intent: Annotated[str, typer.Argument(metavar="INTENT", help="The intent that is to be planned for.")],
    principal: Annotated[str | None, typer.Option("--principal", help="For whom: its limits, its actions.")] = None,
    at_least: AtLeast = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """Show what a planner needs before it plans: goals, what is in force, what is scarce, and what it may ask for."""
    answer = asked(api, "context", intent, principal=principal, at_least=at_least)
    if json:
        print_json(answer)
        return
    wanted = answer["intent"]
    print(f"{wanted['intent_id']}, version {wanted['version']}, {wanted['shown']}: {wanted['objective']}")
    print(_authority(answer["authority"]))
    print(_budgets(answer["budgets"]))
    for one in answer["debts"]:
        print(_debt(one))
    show(
        table(
            "\nGoals, each to be seen before it closes" if wanted["close_needs_goals"] else "\nGoals",
            ("goal", "state", "accepted if", "risk", "last seen"),
            [(g["goal_id"], g["shown"], g["acceptance"], g["risk_class"], _seen(g["observation"]))
             for g in answer["goals"]],
        ),
        *_plan(answer["plan"]),
        table(
            f"\nOpen commitments: {answer['counts']['commitments_open']}",
            ("commitment", "state", "type", "resources", "owner", "due", "age", "to be"),
            [(c["commitment_id"], c["shown"], c["obligation_type"], ", ".join(c["resource_refs"]), c["owner_id"],
              moment(c["due_at"]), age(c["age_ms"]), (c["disposition"] or {}).get("disposition"))
             for c in answer["commitments"]],
        ),
        *_under_way(answer),
        *_troubles(answer),
        table(
            "\nResources held",
            ("resource", "by", "state"),
            [(r["resource_ref"], "this intent" if r["mine"] else r.get("intent_id", "another tenant"), r["shown"])
             for r in answer["resources"]["held"]],
        ),
        table(
            "\nActions that may be asked for",
            ("action", "effect", "approval", "undone by", "creates", "settled", "failed", "in doubt (ever)"),
            [(a["action"], a["effect"], a["approval"], a["undone_by"] or a["human_gate"], a["creates"],
              a["fared"]["settled"], a["fared"]["failed"], f"{a['fared']['in_doubt']} ({a['fared']['ever_in_doubt']})")
             for a in answer["competence"]],
        ),
    )  # fmt: skip
    print(f"\nLedger position {', '.join(f'{p}:{seq}' for p, seq in sorted(answer['position'].items()))}")


def age(ms: int) -> str:
    """How old something is, in its two largest units."""
    for size, smaller in ((86_400_000, 3_600_000), (3_600_000, 60_000), (60_000, 1_000), (1_000, 1)):
        if ms >= size:
            whole = ms // size * size
            return f"{duration(whole)} {duration((ms - whole) // smaller * smaller)}".removesuffix(" 0 ms")
    return f"{ms} ms"


def _authority(authority: dict[str, Any]) -> str:
    who = authority["principal"]
    if authority["open_to_all"]:
        return "Authority: the catalogue names no principals, so any planner may ask for any action."
    if who is None:
        names = ", ".join(one["name"] for one in authority["planners"]) or "nobody"
        return f"Authority: {names} may plan for it; --principal tells what one is limited to."
    if not authority["may_plan"]:
        return f"Authority: {who} may not plan for this intent."
    actions = ", ".join(authority["limits"]["actions"]) or "every action"
    return f"Authority: {who} may ask for {actions}."


def _budgets(budgets: dict[str, Any]) -> str:
    granted = budgets["granted"]
    spent = ", ".join(f"{name.lower()} {cost:g}" for name, cost in budgets["spent"].items()) or "nothing"
    shares = "none granted"
    if granted is not None:
        names = ("exploration", "verification", "reconciliation")
        shares = ", ".join(f"{name} {granted[name]:.0%}" for name in names)
    left = f"; {budgets['left']:g} left" if budgets["left"] is not None else ""
    return f"Budgets: {shares}. Spent: {spent}{left}."


def _debt(one: dict[str, Any]) -> str:
    """A debt beside its limit."""
    most = one["limit"] or {}

    def told(name: str, what: str) -> str:
        bound = "" if most.get(name) is None else f" of {most[name]:g}"
        return f"{one[name]:g}{bound} {what}"

    parts = ", ".join((told("debt", "debt"), told("doubts", "unresolved"), told("reviews", "waiting for a person")))
    reached = ": nothing new is promised until some is discharged" if one["reached"] else ""
    return f"{one['of'].capitalize()} {one['subject']} (partition {one['partition']}): {parts}{reached}."


def _seen(observation: dict[str, Any] | None) -> str:
    return "" if observation is None else f"{observation['finding']} by {observation['source']}"


def _plan(plan: dict[str, Any] | None) -> Iterator[Any]:
    if plan is None:
        yield "\nNo plan is in force."
        return
    yield table(
        f"\nPlan {escaped(plan['plan_id'])}, {plan['shown']}",
        ("step", "state", "action", "on"),
        [(step["step_id"], step["shown"], step["action"], step["business_key"]) for step in plan["steps"]],
    )


def _under_way(answer: dict[str, Any]) -> Iterator[Any]:
    rows = [
        (
            one["operation_id"],
            one["shown"],
            one["action"],
            one["business_key"],
            one["timer"],
            moment(one["deadline_at"]),
        )
        for one in answer["operations"]
    ]
    if rows:
        yield table("\nUnder way", ("operation", "state", "action", "on", "waits for", "until"), rows)


def _troubles(answer: dict[str, Any]) -> Iterator[Any]:
    from joingate_projections.tables import shown

    rows = [
        (age(one["age_ms"]), shown.IN_DOUBT, one["subject_id"], one["task"] or one["cause"])
        for one in answer["in_doubt"]
    ]
    rows += [
        (age(one["age_ms"]), shown.ORPHANED, one["subject_id"], one["suggested_action"]) for one in answer["orphans"]
    ]
    if rows:
        yield table("\nIn doubt or orphaned", ("for", "state", "subject", "what to do"), rows)


def compare(
    intent: Annotated[str, typer.Argument(metavar="INTENT", help="The intent whose plans are compared.")],
    at_least: AtLeast = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """Compare the plans of an intent by what each would commit to, the lightest first."""
    answer = asked(api, "compare", intent, at_least=at_least)
    if json:
        print_json(answer)
        return
    show(
        table(
            f"Plans of {escaped(answer['intent']['intent_id'])}, version {answer['intent']['version']}",
            ("plan", "state", "commitments", "irreversible", "only people could tell", "exclusive", "approvals",
             "promises", "an idle hour", "cost"),
            [_compared(plan) for plan in answer["plans"]],
        )
    )  # fmt: skip
    for plan in answer["plans"]:
        if plan["burden"] is not None and plan["burden"]["unknown"]:
            print(
                f"{plan['plan_id']} has steps of actions that the catalogue does not know: {plan['burden']['unknown']}"
            )
        if plan["burden"] is not None and not plan["recorded"]:
            print(f"{plan['plan_id']} is of an older ledger: its burden is reckoned by the catalogue in force now")
    if answer["lightest"] is not None:
        print(f"Lightest: {answer['lightest']}")
    held = answer["held"]
    print(
        f"Held now: {held['commitments']} commitments, {held['idle_cost_per_hour']:g} an hour while idle, "
        f"{held['idle_cost_so_far']:.4g} so far"
    )
    for plan in answer["plans"]:
        eligible, committed = plan["placement"]["eligible"], plan["placement"]["committed"]
        if plan["in_the_running"] and (eligible or committed):
            names = ", ".join(one["resource_ref"] for one in committed) or "nothing"
            print(f"{plan['plan_id']} names {', '.join(eligible) or 'nothing'}, and holds {names}")


def _compared(plan: dict[str, Any]) -> tuple[object, ...]:
    burden = plan["burden"]
    name = plan["plan_id"] if plan["in_the_running"] else f"({plan['plan_id']})"
    if burden is None:
        return (name, plan["shown"], "not known", "", "", "", "", "", "", "")
    made = ", ".join(f"{count} {of}" for of, count in burden["by_class"].items()) or "none"
    reused = f", {burden['reused']} reused" if burden["reused"] else ""
    return (
        name, f"{plan['status']} {plan['shown']}", made + reused, burden["irreversible"], burden["doubtful"],
        burden["exclusive"], burden["approvals"], burden["promises"], f"{burden['idle_cost']:g}", f"{burden['cost']:g}",
    )  # fmt: skip


def levels(at_least: AtLeast = None, api: Api = None, json: Json = False) -> None:
    """Show service levels: what is open and how old, how long things take, who found what, and each objective's burn.

    Exit code 1 if an objective is not met.
    """
    answer = asked(api, "service-levels", at_least=at_least)
    if json:
        print_json(answer)
    else:
        _show_levels(answer)
    if any(one["met"] is False for one in answer["objectives"]):
        raise typer.Exit(FAILED)


def _show_levels(answer: dict[str, Any]) -> None:
    commitments, breaches, known = answer["commitments"], answer["breaches"], answer["found"]
    oldest = commitments["age_ms"]["oldest"]
    rate = f"{breaches['rate']:.2%}" if breaches["rate"] is not None else "none was due yet"
    print(
        f"Commitments: {commitments['active']} active, {commitments['orphaned']} orphaned, "
        f"{commitments['stale_intent']} of an intent that has moved on"
        + (f", the oldest open for {age(oldest)}" if oldest is not None else "")
    )
    print(f"Breached: {breaches['breached']} of {breaches['obliged']} ({rate})")
    print(f"In doubt: {answer['unknown']['operations']} operations, {answer['unknown']['commitments']} commitments")
    print(f"Trouble found: {known['by_us']} by us, {known['by_people']} by people who told us")
    debt = answer["debt"]
    print(
        f"Owed: a debt of {debt['debt']:g} over {debt['commitments']} commitments; {debt['reviews']} operations wait "
        f"for a person. Refused for debt or budget: {sum(debt['refused'].values())}"
    )
    duplicates, stale = answer["duplicates_prevented"], answer["stale"]
    print(f"Duplicates prevented: {duplicates['total']}. Asked for a state that had moved on: {stale['total']}")
    show(
        table(
            "\nObjectives",
            ("objective", "promise", "so far", "missed", "burn", ""),
            [(one["name"], _promise(one), _share(one["achieved"]), f"{one['missed']} of {one['total']}",
              "" if one["burn"] is None else f"{one['burn']:.2f}", _met(one["met"])) for one in answer["objectives"]],
        ),
        table(
            "\nLatencies",
            ("of", "how many", "mean", "half under", "99 % under", "pending", "oldest pending"),
            [(name, one["count"], _ago(one["mean_ms"]), _under(one, "p50_ms_max"), _under(one, "p99_ms_max"),
              answer["pending"].get(name, {}).get("count"), _ago(answer["pending"].get(name, {}).get("oldest_ms")))
             for name, one in answer["latencies"].items()],
        ),
    )  # fmt: skip


def _promise(objective: dict[str, Any]) -> str:
    of = f" of {objective['obligation']}" if objective["obligation"] else ""
    return (
        f"{_share(objective['share'])} of each {objective['measure'].lower()}{of} within "
        f"{duration(objective['within_ms'])}, over {duration(objective['window_ms'])}"
    )


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.6g} %"


def _met(met: bool | None) -> str:
    return "nothing to go by" if met is None else "met" if met else "NOT MET"


def _ago(ms: int | None) -> str:
    return "" if ms is None else age(ms)


def _under(latency: dict[str, Any], quantile: str) -> str:
    if not latency["count"]:
        return ""
    bound = latency[quantile]
    return "more than a week" if bound is None else duration(bound)
