"""The edge at which claims are checked before anything is stored or sent, with sentences for what does not fit.

What is checked is what no gate could accept: types, empty ids, control characters in ids, versions below one, numbers
that the wire has no room for. Whether a claim *holds* is for the gate to say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, create_model
from pydantic_core import PydanticCustomError

from joingate_producers.errors import InvalidClaim
from joingate_schemas.claims import CLAIM_TYPES, Arguments, Claim, EdgeKind, Goal, PlanStep, Scalar

# Fields that hold text for people, in which line breaks and tabs have their place.
_PROSE = frozenset("objective reason outcome error cause comment result text acceptance title".split())
_LONG_MAX = 2**63 - 1


def _no_control_characters(text: str) -> str:
    for place, character in enumerate(text):
        if ord(character) < 32 or ord(character) == 127:
            raise PydanticCustomError("control", "has a control character at position {place}", {"place": place})
    return text


def _finite(value: Scalar) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("finite", "is not a finite number", {})
    if isinstance(value, int) and abs(value) > _LONG_MAX:
        raise PydanticCustomError("wide", "is a number of more than 64 bits: give it as text", {})
    return value


_Id = Annotated[str, Strict(), AfterValidator(_no_control_characters)]
_Prose = Annotated[str, Strict()]
_Filled = Field(min_length=1)
_Argument = Annotated[
    Annotated[bool, Strict()] | Annotated[int, Strict()] | Annotated[float, Strict()] | _Prose | None,
    AfterValidator(_finite),
]
_Arguments = dict[Annotated[_Id, _Filled], _Argument]
_Long = Annotated[int, Strict(), Field(le=_LONG_MAX)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Goal(_Part):
    goal_id: Annotated[_Id, _Filled]
    acceptance: _Prose
    parent_goal_id: _Id | None = None
    evidence_requirements: list[_Prose] = []
    risk_class: _Id = ""


class _Budgets(_Part):
    exploration: float = Field(ge=0, le=1)
    verification: float = Field(ge=0, le=1)
    reconciliation: float = Field(ge=0, le=1)
    cost_max: float | None = None


class _Edge(_Part):
    kind: EdgeKind
    step_id: Annotated[_Id, _Filled]


class _PlanStep(_Part):
    step_id: Annotated[_Id, _Filled]
    action: Annotated[_Id, _Filled]
    business_key: _Id = ""
    arguments: _Arguments = {}
    goal_id: _Id | None = None
    edges: list[_Edge] = []
    parallel: bool = False
    commitments: list[Annotated[_Id, _Filled]] = []


_PARTS: dict[str, type[_Part]] = {"Goal": _Goal, "Budgets": _Budgets, "Edge": _Edge, "PlanStep": _PlanStep}


def _rule(name: str, hint: Any, required: bool) -> Any:
    """The type to check a field by: its own, narrowed by what its name says."""
    if is_typeddict(hint):
        return _PARTS[hint.__name__]
    if hint == Arguments:
        return _Arguments
    if hint is str:
        base = _Prose if name in _PROSE else _Id
        return Annotated[base, _Filled] if required and name != "intent_id" else base
    if hint is int:
        least = (1 if required else 0) if name in ("version", "intent_version", "attempt") else -_LONG_MAX - 1
        return Annotated[_Long, Field(ge=least)]
    if get_origin(hint) is list:
        return list[_rule("", get_args(hint)[0], required=False)]  # type: ignore[misc]
    if type(None) in get_args(hint) and get_origin(hint) is not Literal:
        inner = [one for one in get_args(hint) if one is not type(None)]
        return _rule(name, inner[0], required=False) | None if len(inner) == 1 else hint
    return hint


@cache
def _model(claim_type: str) -> type[BaseModel]:
    cls = CLAIM_TYPES[claim_type]
    hints = get_type_hints(cls)
    made: dict[str, Any] = {}
    for one in fields(cls):
        required = one.default is MISSING
        made[one.name] = (_rule(one.name, hints[one.name], required), ... if required else one.default)
    return create_model(claim_type, __config__=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False), **made)


def checked(claim: Claim) -> None:
    """Nothing, if the claim could be accepted by some gate. Raises InvalidClaim about its first fault."""
    claim_type = type(claim).__name__
    try:
        _model(claim_type).model_validate(claim.__dict__)
    except ValidationError as error:
        raise _fault(claim_type, error) from None
    if not claim.intent_id and claim_type != "RetireOwner":
        raise InvalidClaim(claim_type, "intent_id", "is empty")


def _part(cls: type[_Part], claim_type: str, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return cls.model_validate(dict(values)).model_dump()
    except ValidationError as error:
        raise _fault(claim_type, error) from None


def _fault(claim_type: str, error: ValidationError) -> InvalidClaim:
    """The first of the faults, as a sentence."""
    found = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in _named(found["loc"]))
    match found["type"]:
        case "string_too_short":
            problem = "is empty"
        case "missing":
            problem = "is missing"
        case "extra_forbidden":
            problem = "is not a field that it has"
        case "greater_than_equal":
            problem = f"is {found['input']}, and must be at least {found['ctx']['ge']:g}"
        case "less_than_equal":
            problem = f"is {found['input']}, and must be at most {found['ctx']['le']:g}"
        case "control" | "finite" | "wide":
            problem = found["msg"]
        case _:
            problem = f"does not fit ({found['msg'][0].lower()}{found['msg'][1:]})"
    return InvalidClaim(claim_type, place.lstrip("."), problem)


def _named(location: Sequence[int | str]) -> list[int | str]:
    """The place without the names of union branches, which mean nothing to a reader."""
    branches = ("function-after", "bool", "int", "float", "none", "nullable", "[key]")
    return [part for part in location if isinstance(part, int) or not part.startswith(branches)]


# --- parts of claims, for people to write -----------------------------------------------------------------------------


def goal(
    goal_id: str,
    acceptance: str,
    *,
    parent: str | None = None,
    evidence: Sequence[str] = (),
    risk_class: str = "",
) -> Goal:
    """A goal of an intent: a state that should become true, and how one would know. Raises InvalidClaim."""
    values = {
        "goal_id": goal_id, "acceptance": acceptance, "parent_goal_id": parent,
        "evidence_requirements": list(evidence), "risk_class": risk_class,
    }  # fmt: skip
    return cast(Goal, _part(_Goal, "goal", values))


def step(
    step_id: str,
    action: str,
    *,
    business_key: str = "",
    arguments: Arguments | None = None,
    goal: str | None = None,
    requires: Sequence[str] = (),
    invalidates: Sequence[str] = (),
    conflicts_with: Sequence[str] = (),
    enables: Sequence[str] = (),
    prefers: Sequence[str] = (),
    satisfies: Sequence[str] = (),
    parallel: bool = False,
    commitments: Sequence[str] = (),
) -> PlanStep:
    """A step of a plan: `action` on the entity `business_key`, after the steps that it `requires`.

    `parallel` lets it go ahead beside irreversible steps before it; `commitments` are ids that it relies on. The other
    relations are those of the model, each to the step ids given. Raises InvalidClaim.
    """
    relations: dict[EdgeKind, Sequence[str]] = {
        "REQUIRES": requires, "INVALIDATES": invalidates, "CONFLICTS_WITH": conflicts_with, "ENABLES": enables,
        "PREFERS": prefers, "SATISFIES": satisfies,
    }  # fmt: skip
    values = {
        "step_id": step_id, "action": action, "business_key": business_key, "arguments": dict(arguments or {}),
        "goal_id": goal, "parallel": parallel, "commitments": list(commitments),
        "edges": [{"kind": kind, "step_id": other} for kind, others in relations.items() for other in others],
    }  # fmt: skip
    return cast(PlanStep, _part(_PlanStep, "step", values))
