"""Identity: which wish a request is, told from the catalogue and the harness alone, never from a model's wording.

One action on one business key is one wish of a tenant, whatever it is called, however often and under whichever plan it
is asked for. Its intent is `<tenant>/<action>/<business key>`. The harness, and only the harness, may say that it is an
honest repetition (`occurrence`), fill in arguments that are no model's to choose (`bound`), and name the person's
request where an action has no business key of its own (`request`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joingate.gateway.answers import Answer, refused
from joingate_processors.law.opening import natural_key
from joingate_producers import goal
from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.claims import Arguments, Goal, Scalar
from joingate_schemas.templates import names_in

_PLACE_MAX = 400
_UNDER = "asked-for-under"


class NotAWish(Exception):
    """What was asked is no wish of this tenant; `answer` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


def _no_wish(why: str) -> NotAWish:
    return NotAWish(refused("MALFORMED", why))


@dataclass(frozen=True)
class Harness:
    """What the program around the model says of a request; the model neither sees nor sets it.

    `bound`: arguments with their values, which no model may choose, such as the ticket that a refund answers.
    `occurrence`: which repetition this is, where the same thing is honestly wanted once more. `request`: the id of the
    person's request, for what has no business key.
    """

    bound: Mapping[str, Scalar] = field(default_factory=dict)
    occurrence: str = ""
    request: str = ""


NOBODY_SAYS = Harness()


@dataclass(frozen=True)
class Wish:
    """One action on one business entity: `intent_id` is the same whoever asks for it in whichever words."""

    intent_id: str
    action: Action
    business_key: str
    arguments: Arguments

    @property
    def what(self) -> str:
        """It, for people."""
        return f"{self.action.name} of {self.business_key}" if self.business_key else self.action.name

    @property
    def objective(self) -> str:
        """The text with which its intent is declared: the catalogue's words, so that it is always the same."""
        return f"{self.what}, asked for through the gateway"


def wish_of(
    catalogue: Catalogue, tenant: str, name: str, arguments: Mapping[str, Scalar], harness: Harness = NOBODY_SAYS
) -> Wish:
    """The wish that somebody means by this action and these arguments. Raises NotAWish with a sentence."""
    action = action_of(catalogue, name)
    given = checked_arguments(action, arguments, harness)
    key = business_key_of(action, given)
    entity = key or (f"request:{harness.request}" if harness.request else "")
    if not entity:
        why = f"{name} names no business entity that would tell one wish from another. Say what is wanted with "
        raise _no_wish(f"{why}state_wish, plan it with propose_plan, and ask with ask_step")
    head = f"{tenant}/{name}#{harness.occurrence}" if harness.occurrence else f"{tenant}/{name}"
    return Wish(placed(f"{head}/{entity}"), action, key, given)


def action_of(catalogue: Catalogue, name: str) -> Action:
    """The action called `name`. Raises NotAWish."""
    action = catalogue.actions.get(name)
    if action is None:
        raise NotAWish(refused("UNKNOWN_ACTION", f"the catalogue has no action {name}"))
    return action


def checked_arguments(action: Action, arguments: Mapping[str, Scalar], harness: Harness = NOBODY_SAYS) -> Arguments:
    """The arguments with those that the harness binds, in order of their names. Raises NotAWish about an odd one."""
    known = {one.name for one in action.arguments}
    bound = {name: value for name, value in harness.bound.items() if not known or name in known}
    given: Arguments = {**arguments, **bound}
    odd = sorted(set(arguments) - known) if known else []
    if odd:
        raise _no_wish(f"{action.name} has no argument {odd[0]}; it has {', '.join(sorted(known))}")
    for name, value in given.items():
        if not isinstance(value, str | int | float | bool | None):
            raise _no_wish(f"the argument {name} of {action.name} must be a text, a number, true, false or null")
    # What names the entity has one spelling, so that a stray blank is no other content.
    named = names_in(action.business_key)
    tidy = {name: value.strip() if name in named and isinstance(value, str) else value for name, value in given.items()}
    return {name: tidy[name] for name in sorted(tidy)}


def business_key_of(action: Action, arguments: Arguments) -> str:
    """The entity that the action is about; empty for an action without a template. Raises NotAWish."""
    key = natural_key(action, arguments)
    if key:
        return key
    lacking = [name for name in names_in(action.business_key) if arguments.get(name) in (None, "")]
    if action.business_key:
        raise _no_wish(
            f"{action.name} needs {' and '.join(lacking) or 'its arguments'}, which name what it is about. Ask the "
            "person or look it up; do not make it up"
        )
    return ""


def intent_of(catalogue: Catalogue, tenant: str, kind: str, entity: str) -> str:
    """The intent of a wish that is more than one action, such as `acme/release/4.2`. Raises NotAWish."""
    if not kind or "/" in kind or "#" in kind or kind.strip() != kind:
        raise _no_wish("the kind of a wish is one word without / and #, such as release")
    if kind in catalogue.actions:
        raise _no_wish(f"{kind} is an action: ask for it by its own tool")
    if not entity.strip():
        raise _no_wish("name the entity that the wish is about, such as the release's number")
    return placed(f"{tenant}/{kind}/{entity.strip()}")


def placed(intent_id: str) -> str:
    """The id, if a gate could take it. Raises NotAWish."""
    if len(intent_id) > _PLACE_MAX or not intent_id.isprintable():
        raise _no_wish(
            f"what names the business entity must be printable and short (at most {_PLACE_MAX} characters in all)"
        )
    return intent_id


def seat_of(tenant: str, action: Action, business_key: str, occurrence: str) -> str:
    """The intent that stands for one action on one business key, whichever intent it is asked for under."""
    head = f"{tenant}/{action.name}#{occurrence}" if occurrence else f"{tenant}/{action.name}"
    return placed(f"{head}/{business_key}")


def under(home: str) -> list[Goal]:
    """The goals of a seat that was taken under another intent: how everybody finds that one."""
    return [goal(_UNDER, home)]


def home_of(intent: Mapping[str, object]) -> str:
    """Under which intent the wish of this seat (a row of intents) is being served: another one's, or its own."""
    goals = intent.get("goals")
    for one in goals if isinstance(goals, list) else ():
        if one["goal_id"] == _UNDER:
            return str(one["acceptance"])
    return str(intent["intent_id"])
