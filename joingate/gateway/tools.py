"""The tools: each operation's name, what a model is told of it, the form of its arguments, and what it calls.

One tool for each action that the catalogue declares, and the general ones beside them. HTTP API, MCP server and
adapters are made from this table, so that every door has the same tools and tells the same.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from joingate.gateway import answers
from joingate.gateway.answers import Answer, refused
from joingate.gateway.core import Gateway, PlannedStep
from joingate.gateway.tokens import Caller
from joingate.gateway.wishes import NOBODY_SAYS, Harness
from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.templates import names_in

log = logging.getLogger("joingate.gateway")
Arguments: TypeAlias = Mapping[str, Any]
Schema: TypeAlias = dict[str, Any]
LOOKING: frozenset[str] = frozenset({"look_again", "context"})
"""The tools that ask for nothing, which is all that a reader may use."""

RULES = (
    "You ask; a gate decides and an executor acts. One wish is asked for once: asking again in other words, after a "
    "time-out, or with a new plan returns the status of the first and does nothing. PENDING means that it is under "
    "way: tell the person so, do not say that it is done, and call look_again after look_again_s seconds. Only DONE is "
    "done. IN_DOUBT means that nobody knows yet: say so, and do not try another way. You never make up keys or ids."
)
"""What every model is told, whichever tool it uses."""

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 2000}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}


@dataclass(frozen=True)
class Tool:
    """One tool. `schema` is the JSON Schema of its arguments; `action` the action that it asks for, or empty."""

    name: str
    description: str
    schema: Schema
    call: Callable[[Gateway, Caller, Arguments, Harness], Answer]
    action: str = ""

    @property
    def only_looks(self) -> bool:
        """Whether it asks for nothing."""
        return self.name in LOOKING


def tools_of(catalogue: Catalogue, harness: Harness = NOBODY_SAYS) -> dict[str, Tool]:
    """Every tool by its name. What the harness binds is left out of the arguments: it is no model's to choose."""
    tools = [*_general(), *(_of_action(one, harness) for _, one in sorted(catalogue.actions.items()))]
    return {tool.name: tool for tool in tools}


def call(
    gateway: Gateway, caller: Caller, name: str, arguments: Arguments, harness: Harness = NOBODY_SAYS
) -> Answer | None:
    """What the tool answers; None if there is no such tool. What does not fit is an answer too."""
    tool = tools_of(gateway.catalogue, harness).get(name)
    if tool is None:
        return None
    if caller.role == "reader" and not tool.only_looks:
        return refused("WRONG_ROLE", "your token only lets you look: use look_again and context")
    full = gateway.throttle.admit(caller.tenant)
    if full is not None:
        return full
    problem = _problem(tool.schema, arguments)
    if problem:
        return refused("MALFORMED", f"{name}: {problem}")
    try:
        return tool.call(gateway, caller, arguments, harness)
    # A model must not be shown it, whatever it is; whoever runs the gateway finds it in the log.
    except Exception:
        log.exception("The tool %s failed.", name)
        return answers.unsure(name)


# --- tools of actions ------------------------------------------------------------------------------------------------


def tool_name(action: str) -> str:
    """The name of an action's tool; its own, but where a general tool has that."""
    return f"do_{action}" if action in _NAMES else action


def _of_action(action: Action, harness: Harness) -> Tool:
    """The tool that asks for an action. What the downstream's own records say is not asked of a model."""
    offered = [one for one in action.arguments if not one.from_records and one.name not in harness.bound]
    needed = [name for name in names_in(action.business_key) if name not in harness.bound]
    schema = _object({one.name: _SCALAR for one in offered}, [one.name for one in offered if one.name in needed])
    if not action.arguments:
        schema["additionalProperties"] = _SCALAR

    def ask(gateway: Gateway, caller: Caller, arguments: Arguments, harness: Harness) -> Answer:
        return gateway.act(caller, action.name, arguments, harness)

    return Tool(tool_name(action.name), f"{' '.join(_facts(action))} {RULES}", schema, ask, action.name)


def _facts(action: Action) -> Iterator[str]:
    """What the catalogue says of the action, in sentences."""
    match action.effect:
        case "OBSERVE":
            yield f"Look by {action.name} at {action.downstream}; it changes nothing."
        case "REVERSIBLE":
            yield f"Ask for {action.name} at {action.downstream}; it can be undone."
        case "IRREVERSIBLE":
            yield f"Ask for {action.name} at {action.downstream}; it can't be taken back."
    names = names_in(action.business_key)
    if names and action.effect != "OBSERVE":
        many = len(names) > 1
        yield (
            f"What tells one wish from another is {' with '.join(names)}: take {'them' if many else 'it'} from the "
            "person or the records, never make one up, and keep the same for the same wish."
        )
    if action.approval != "NONE":
        yield "It waits for somebody's approval first."
    if action.hold_ms:
        yield f"It can be cancelled for {action.hold_ms // 1000} s before it begins."


# --- the general tools -----------------------------------------------------------------------------------------------


def _object(properties: Mapping[str, Schema], required: list[str]) -> Schema:
    made: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**made, "required": required} if required else made


def _told(text: str, about: str) -> Schema:
    return {**_TEXT, "description": f"{text} {about}".strip()}


_GOALS: Schema = {
    "type": "array",
    "maxItems": 50,
    "description": "States that should become true.",
    "items": _object({"goal_id": _TEXT, "acceptance": _told("How one would see that it is reached.", "")},
                     ["goal_id", "acceptance"]),
}  # fmt: skip
_STEPS: Schema = {
    "type": "array",
    "minItems": 1,
    "maxItems": 100,
    "items": _object(
        {
            "name": _told("Your word for the step, for `after` of other steps.", ""),
            "action": _told("The action, as its tool is called.", ""),
            "arguments": {"type": "object", "additionalProperties": _SCALAR},
            "after": {"type": "array", "items": _TEXT, "description": "Names of steps that must be done before."},
        },
        ["name", "action"],
    ),
}
_INTENT = _told("The intent_id of an earlier answer.", "")
_SUBJECT = _told("An intent_id, operation_id or commitment_id of an earlier answer.", "")
_COMMITMENT = _told("The commitment_id of an earlier answer or of context.", "")
_REASON = _told("Why, for the record.", "")


def _general() -> list[Tool]:
    return [
        Tool(
            "state_wish",
            "State what a person wants where it takes several steps; for a single action use that action's tool. "
            f"Nothing is done by it. Stated again, in whatever words, it is the same wish. {RULES}",
            _object(
                {
                    "kind": _told("One word for the kind of wish, such as release.", ""),
                    "entity": _told("The business entity that it is about, such as 4.2, as the records call it.", ""),
                    "objective": _told("What is wanted, for people.", ""),
                    "goals": _GOALS,
                },
                ["kind"],
            ),
            lambda gateway, caller, given, harness: gateway.state_wish(
                caller, given["kind"], given.get("entity", ""), given.get("objective", ""),
                [(one["goal_id"], one["acceptance"]) for one in given.get("goals", ())], harness,
            ),
        ),
        Tool(
            "propose_plan",
            "Propose the steps for a wish, in place of the plan that it has. Nothing is done by it; ask for each step "
            f"with ask_step, by the name that the answer gives it. {RULES}",
            _object({"intent_id": _INTENT, "steps": _STEPS}, ["intent_id", "steps"]),
            lambda gateway, caller, given, harness: gateway.propose_plan(
                caller, given["intent_id"],
                [PlannedStep(one["name"], one["action"], one.get("arguments", {}), one.get("after", ()))
                 for one in given["steps"]],
                harness,
            ),
        ),
        Tool(
            "ask_step",
            f"Ask that a step of the plan in force be done now, by the name that propose_plan gave it. {RULES}",
            _object({"intent_id": _INTENT, "step": _told("The step's name in the answer of propose_plan.", "")},
                    ["intent_id", "step"]),
            lambda gateway, caller, given, harness: gateway.ask_step(
                caller, given["intent_id"], given["step"], harness
            ),
        ),
        Tool(
            "look_again",
            "Tell how something that was asked for is doing, by an id that an answer gave. It asks for nothing, and "
            "may be called as often as look_again_s says. Go by its answer, not by what you expect.",
            _object({"id": _SUBJECT}, ["id"]),
            lambda gateway, caller, given, _: gateway.look_again(caller, given["id"]),
        ),
        Tool(
            "context",
            "Tell what there is to know before planning for a wish: goals, the plan in force, what is under way or in "
            "doubt, what is scarce, budgets, and which actions may be asked for. It asks for nothing.",
            _object({"intent_id": _INTENT}, ["intent_id"]),
            lambda gateway, caller, given, _: gateway.context(caller, given["intent_id"]),
        ),
        Tool(
            "cancel",
            "Take back a wish, or one operation, because the person does not want it any more; never because it seems "
            "to have failed. What has happened already is compensated or left to a person, not unsaid.",
            _object({"id": _SUBJECT, "reason": _REASON}, ["id"]),
            lambda gateway, caller, given, _: gateway.cancel(caller, given["id"], given.get("reason", "")),
        ),
        Tool(
            "want_again",
            "Say that the person wants after all what was cancelled. Only if the person said so. Nothing is done by "
            "it.",
            _object({"intent_id": _INTENT}, ["intent_id"]),
            lambda gateway, caller, given, _: gateway.want_again(caller, given["intent_id"]),
        ),
        Tool(
            "release",
            "Give a commitment back, such as a reservation that is not needed any more. It is given back only when the "
            "ledger has evidence of it: look again.",
            _object({"commitment_id": _COMMITMENT, "reason": _REASON}, ["commitment_id"]),
            lambda gateway, caller, given, _: gateway.release(caller, given["commitment_id"], given.get("reason", "")),
        ),
        Tool(
            "transfer",
            "Ask that another owner takes a commitment over. It stays where it is until that owner acknowledges.",
            _object(
                {
                    "commitment_id": _COMMITMENT,
                    "target_owner": _told("The owner as kind:name, such as team:operations.", ""),
                    "reason": _REASON,
                },
                ["commitment_id", "target_owner"],
            ),
            lambda gateway, caller, given, _: gateway.transfer(
                caller, given["commitment_id"], given["target_owner"], given.get("reason", "")
            ),
        ),
        Tool(
            "mark_satisfied",
            "Say that a commitment was fulfilled, with the evidence. The gate judges the evidence; yours alone may not "
            "be enough.",
            _object(
                {"commitment_id": _COMMITMENT, "evidence": {"type": "array", "minItems": 1, "items": _TEXT}},
                ["commitment_id", "evidence"],
            ),
            lambda gateway, caller, given, _: gateway.mark_satisfied(
                caller, given["commitment_id"], given["evidence"]
            ),
        ),
        Tool(
            "request_reconciliation",
            "Ask that somebody look again at an operation that is in doubt, or at a commitment. It does nothing by "
            "itself.",
            _object({"id": _SUBJECT, "reason": _REASON}, ["id"]),
            lambda gateway, caller, given, _: gateway.request_reconciliation(
                caller, given["id"], given.get("reason", "")
            ),
        ),
    ]  # fmt: skip


_NAMES: frozenset[str] = frozenset(tool.name for tool in _general())


# --- what does not fit -----------------------------------------------------------------------------------------------

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "boolean": (bool,), "null": (type(None),), "array": (list, tuple),
    "object": (dict,),
}  # fmt: skip


def _problem(schema: Schema, value: Any, name: str = "its arguments") -> str:
    """Why the value does not fit the form, as a clause; empty if it does. It knows the words that are used above."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = any(isinstance(value, _KINDS[kind]) and (kind != "number" or not isinstance(value, bool)) for kind in kinds)
    if not fits:
        return f"{name} must be {' or '.join(kinds)}"
    match value:
        case str():
            least, most = schema.get("minLength", 0), schema.get("maxLength", 100_000)
            if not least <= len(value) <= most:
                return f"{name} must have {least} to {most} characters"
        case list() | tuple():
            least, most = schema.get("minItems", 0), schema.get("maxItems", 1000)
            if not least <= len(value) <= most:
                return f"{name} must have {least} to {most} items"
            return next((found for one in value if (found := _problem(schema["items"], one, f"an item of {name}"))), "")
        case dict():
            return _problem_of_object(schema, value, name)
    return ""


def _problem_of_object(schema: Schema, value: Mapping[str, Any], name: str) -> str:
    lacking = [one for one in schema.get("required", ()) if value.get(one) is None]
    if lacking:
        return f"{name} lack {lacking[0]}"
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for one, inner in value.items():
        form = properties.get(one, rest)
        if form is False:
            return f"{name} have no {one}; there are {', '.join(properties) or 'none'}"
        if isinstance(form, dict) and (found := _problem(form, inner, one)):
            return found
    return ""
