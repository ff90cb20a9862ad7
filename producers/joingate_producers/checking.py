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
from joingate_schemas.claims import CLAIM_TYPES, EVERYWHERE, Arguments, Claim, EdgeKind, Goal, PlanStep, Prepared

# Fields that hold text for people, in which line breaks and tabs have their place.
_PROSE = frozenset("objective reason outcome error cause comment result text evidence".split())
_KEYS = frozenset({"claim_id", "intent_id", "plan_id", "step_id"})
_KEY_LENGTH_MAX = 512
_LONG_MAX = 2**63 - 1
# What a Prepared leaves open where it asks for the lease of a commitment instead of a permit.
_OPEN_IN_A_LEASE = ("operation_id", "attempt")


def _text(text: str) -> str:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise PydanticCustomError("surrogate", "has half of a surrogate pair, which is no text", {})
    return text


def _one_line(text: str) -> str:
    for place, character in enumerate(text):
        if ord(character) < 32 or ord(character) == 127:
            raise PydanticCustomError("control", "has a control character at position {place}", {"place": place})
    return _text(text)


def _key(text: str) -> str:
    """An id from which the gate forms keys: it takes printable characters only."""
    _one_line(text)
    for place, character in enumerate(text):
        if not character.isprintable():
            raise PydanticCustomError("print", "has an unprintable character at position {place}", {"place": place})
    if len(text) > _KEY_LENGTH_MAX:
        raise PydanticCustomError("long", "has more than {most} characters", {"most": _KEY_LENGTH_MAX})
    return text


def _filled(text: str) -> str:
    if not text:
        raise PydanticCustomError("empty", "is empty", {})
    return text


def _argument(value: object) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value)
        case int() if abs(value) > _LONG_MAX:
            raise PydanticCustomError("wide", "is a number of more than 64 bits: give it as text", {})
        case float() if not math.isfinite(value):
            raise PydanticCustomError("finite", "is not a finite number", {})
        case int() | float():
            return value
        case _:
            kind = type(value).__name__
            raise PydanticCustomError(
                "scalar", "is a {kind}, and must be null, true, false, a number or a text", {"kind": kind}
            )


_Id = Annotated[str, Strict(), AfterValidator(_one_line)]
_Key = Annotated[str, Strict(), AfterValidator(_key)]
_Prose = Annotated[str, Strict(), AfterValidator(_text)]
_Filled = AfterValidator(_filled)
_Arguments = dict[Annotated[_Id, _Filled], Annotated[object, AfterValidator(_argument)]]
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
    step_id: Annotated[_Key, _Filled]


class _PlanStep(_Part):
    step_id: Annotated[_Key, _Filled]
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
        base = _Prose if name in _PROSE else _Key if name in _KEYS else _Id
        return Annotated[base, _Filled] if required and name != "intent_id" else base
    if hint is int:
        least = (1 if required else 0) if name in ("version", "intent_version", "attempt") else -_LONG_MAX - 1
        return Annotated[_Long, Field(ge=least)]
    if get_origin(hint) is list:
        return list[_rule(name, get_args(hint)[0], required=False)]  # type: ignore[misc]
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
        filled = required and not (claim_type == "Prepared" and one.name in _OPEN_IN_A_LEASE)
        made[one.name] = (_rule(one.name, hints[one.name], filled), ... if required else one.default)
    return create_model(claim_type, __config__=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False), **made)


def checked(claim: Claim) -> None:
    """Nothing, if the claim could be accepted by some gate. Raises InvalidClaim about its first fault."""
    claim_type = type(claim).__name__
    try:
        _model(claim_type).model_validate(claim.__dict__)
    except ValidationError as error:
        raise _fault(claim_type, error) from None
    if isinstance(claim, Prepared) and claim.commitment_id is None:
        if not claim.operation_id:
            raise InvalidClaim(claim_type, "operation_id", "is empty")
        if claim.attempt < 1:
            raise InvalidClaim(claim_type, "attempt", f"is {claim.attempt}, and must be at least 1")
    if not claim.intent_id and claim_type not in EVERYWHERE:
        raise InvalidClaim(claim_type, "intent_id", "is empty")


def _part(cls: type[_Part], claim_type: str, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return cls.model_validate(dict(values)).model_dump()
    except ValidationError as error:
        raise _fault(claim_type, error) from None


def _fault(claim_type: str, error: ValidationError) -> InvalidClaim:
    """The first of the faults, as a sentence."""
    found = error.errors()[0]
    # "[key]" is how the library marks a name, rather than a value, that does not fit.
    parts = [part for part in found["loc"] if part != "[key]"]
    named = [f"[{part}]" if isinstance(part, int) else f".{part!r}" for part in parts]
    place = "".join(named).replace("'", "").lstrip(".")
    match found["type"]:
        case "missing":
            problem = "is missing"
        case "extra_forbidden":
            problem = "is not a field that it has"
        case "greater_than_equal":
            problem = f"is {found['input']}, and must be at least {found['ctx']['ge']:g}"
        case "less_than_equal":
            problem = f"is {found['input']}, and must be at most {found['ctx']['le']:g}"
        case "control" | "empty" | "finite" | "long" | "print" | "scalar" | "surrogate" | "wide":
            problem = found["msg"]
        case _:
            problem = f"does not fit ({found['msg'][0].lower()}{found['msg'][1:]})"
    return InvalidClaim(claim_type, place, problem)


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
