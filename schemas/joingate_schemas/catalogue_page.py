"""The room that explains a catalogue's fields: to readers all of them, to authors those that have no effect yet.

The words stand here once, and a test holds them against what a file may hold.
"""

from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_shape import IN_MS, SECTIONS, ArgumentShape, Shape, TopShape

MEANINGS: dict[str, dict[str, str]] = {
    "": {
        "version": "The catalogue's own version, any text; each decision belongs to a digest of the whole catalogue.",
        "plan_progress": "How long an adopted plan may go without progress before it is reported as stalled.",
        "max_skew": "How far a claim's own stamp may lie from its append time before it is flagged.",
        "resource_wait": "How long an operation waits for the arbiter's word about a resource before it is withdrawn.",
        "retention": "How long an intent is kept after it was closed or cancelled and the last thing under it ended; "
        "then it is archived, and its id is refused for ever (INTENT_ARCHIVED). Left out: nothing is archived.",
        "silent_attempts_max": "How often a silent operation is started again before a person is asked.",
        "signatures": "Whose claims must be signed where principals are declared: with OPTIONAL approvals, overrides "
        "and claims about keys, with REQUIRED every claim ([principals](principals.md)).",
        "approval_floor": "The weakest approval that an action may declare: of REVERSIBLE ones, of IRREVERSIBLE ones, "
        "of a PIVOT. It rises in this order, and so do the policies: NONE, ANY, CONTROL or MAKER_CHECKER, N_OF_M.",
    },
    "downstreams": {
        "capabilities": "What the system can be asked about an effect, in order of preference; NONE stands alone. "
        "Where IDEMPOTENT_KEY is one, a Commit has to name the external id, or the key as the reply echoed it: "
        "evidence alone is NO_EVIDENCE, and the operation is asked about.",
        "key_horizon": "How long it remembers an idempotency key; left out: for ever.",
        "in_flight_max": "The longest time that something sent may still be on its way.",
        "statement_cut_off": "When a period of its statement closes; needed with STATEMENT.",
        "lookup_backoff": "The pause after a look-up without a clear answer; it doubles. Also the least between the "
        "two looks that prove absence.",
    },
    "actions": {
        "downstream": "Where the effect happens.",
        "effect": "OBSERVE changes nothing; REVERSIBLE can be undone; IRREVERSIBLE can't.",
        "kind": "COMPENSATABLE names what undoes it; RETRYABLE succeeds in the end; a PIVOT goes last: behind all "
        "that neither requires it nor only looks, wherever a plan lists it.",
        "executor": "Who acts, and the end of its topic's name; left out: called like the downstream.",
        "compensation": "The action that undoes it.",
        "human_gate": "Who is asked where no action undoes it.",
        "communication": "Whether its text informs or promises; what PROMISES makes an obligation.",
        "silence": "How long a command may stay unanswered before the permit.",
        "permit": "How long the executor may act once it is allowed.",
        "hold": "How long it waits before it starts, so that it can still be cancelled.",
        "in_doubt": "How long it may be in doubt before a person is asked.",
        "approval": "Whose yes it needs. ANY approver's; an automated CONTROL's, which neither plans nor executes; "
        "with MAKER_CHECKER that of somebody other than who asks; with N_OF_M that of several such.",
        "approvers": "Whose yes counts, by name; empty: that of whoever may speak as an approver.",
        "approvals_needed": "How many, with N_OF_M.",
        "approval_within": "How long it waits for them.",
        "budget_class": "Which share of the intent's budget it draws on. EXPLORATION is held to its share, "
        "VERIFICATION only to the ceiling, and RECONCILIATION is never refused.",
        "cost": "What it takes of that share, from its dispatch on; given back if it is withdrawn before any permit.",
        "arguments": "Its arguments by name, each with the fields below.",
        "business_key": "A template over the arguments: the business entity. The same action on the same entity within "
        "an intent is one operation.",
        "resources": "Templates of the resources that it uses, as in window:{business_key}. {tenant} and {principal} "
        "make it a quota of whoever asks.",
        "quantities": "How much it takes of a CAPACITY, by the resource's kind: a whole number, or an argument in "
        "braces; left out: 1.",
        "obligation": "The type of the commitment that its success creates.",
        "counterparty": "A template: to whom that obligation is owed, as in customer:{to}.",
        "draws": "How much it takes of the commitments that its step relies on, by their type: a whole number, or an "
        "argument in braces. Beyond what is left, EXCEEDS_COMMITMENT.",
        "verification": "Whether it counts as done only once somebody else has seen the effect.",
        "alike": "Within how long much alike payloads raise a near-duplicate alert, which blocks nothing; left out: "
        "none.",
    },
    "arguments": {
        "meaning": "Whether two wishes that differ in it are two wishes.",
        "from_records": "Whether its value comes from the downstream's records and not from a model.",
    },
    "obligations": {
        "version": "The version of the type.",
        "resolution": "How such a commitment may end.",
        "release_action": "The action that gives it back.",
        "observed": "Whether being there, and being gone, each need an observation and not just the executor's word.",
        "attributes": "Which of the action's arguments are compared when the wish changes.",
        "late_success": "What becomes of a success after supersession: an ORPHAN waits for its owner.",
        "verification": "Until when the observation must be in.",
        "release": "Until when a release must be done, or the commitment is breached.",
        "release_retry": "The pause before a failed release is tried again; it doubles.",
        "disposition": "Until when it must be decided what becomes of it after the wish has changed.",
        "reconciliation": "How long it may be in doubt before a person is asked.",
        "valid": "How long it lasts, counted from the permit of what makes it. Past it nothing may rely on it, and it "
        "is UNKNOWN until it is observed again.",
        "freshness": "How old an observation of it may be when something relies on it; older, and what relies on it "
        "waits while it is looked at again. Left out: any age.",
        "condition": "A template, over the arguments of the action that makes it, of what has to be observed first. "
        "A plan's step may name one too.",
        "condition_within": "How long the condition is waited for; after that the obligation is dropped.",
        "due": "When it has to be fulfilled, counted from when it was asked for.",
        "grace": "How long after that a missed one does not count as breached yet.",
        "satisfied_evidence": "Kinds of evidence that fulfilment has to bring: what stands before the colon, as "
        "`receipt` in receipt:77.",
        "missed_action": "What is done about a breach: REPORT it, or RELEASE it (give it up, by its resolution).",
        "escalation": "Who is told of a breach.",
        "escalation_every": "How often they are told again.",
        "idle_cost": "What an hour without use costs; plans are compared by it.",
        "weight": "How much it counts in commitment debt; see `limits`.",
        "transfer": "Until when who is asked to take it over must acknowledge; a Transfer may name another time.",
        "transfer_evidence": "The kinds of evidence that taking over needs, each as the beginning of its text, before "
        "a colon.",
        "lease": "How long a worker may serve it before it says so again; left out: it has no lease.",
        "migrates": "Earlier versions whose open commitments go on by this one. Those of others keep the rules that "
        "they were made under ([upgrades](upgrades.md)).",
        "quantity": "How much it holds, for the actions whose `draws` take of it: a whole number, or an argument in "
        "braces of the action that makes it; left out: nothing is taken of it.",
        "draws": "What becomes of what was taken once that is done: RETURNED for the next one, or CONSUMED. What was "
        "taken in vain, or is undone, is always free again.",
        "superseded_by": "The attribute whose new value supersedes older ones that are otherwise alike, as an "
        "artifact's version does.",
    },
    "resources": {
        "mode": "One holder at a time, a quantity, or once ever.",
        "capacity": "The quantity, with CAPACITY, in whole smallest units; left out: any quantity fits.",
        "capacities": "The quantity of single references that differ, by the name after the colon.",
        "arbitrated": "Whether an operation that names it waits for the arbiter's grant. Without it the resource is "
        "shown, and is part of what is approved, and nothing more.",
        "keeps": "Whether a settled operation does not give its quantity back, as a refund of what was captured.",
        "lease": "How long it is held until its gate is asked whether it is needed still.",
    },
    "principals": {
        "role": "In which role it may speak.",
        "tenant": "Whose intents it may speak about; empty: everybody's.",
        "actions": "Which actions it may ask for or act on; empty: every one.",
        "owners": "For which owners, or kinds of owner, it may take over and speak; empty: for every one.",
        "keys": "Its public Ed25519 keys, each as 64 hex digits; more are registered while the gate runs.",
        "vouches_for": "Principals of the same role that it authenticates, as a gateway does: its key signs for them.",
        "registrar": "Whether it may register and revoke keys, as an OPERATOR who belongs to no tenant.",
        "effect_max": "The strongest effect that it may ask for, perform or approve.",
        "party": "Who stands behind it: principals of one party are one maker, or one checker; empty: it alone.",
        "control": "Whether it is an automated check, whose yes an action with approval CONTROL needs.",
        "amounts_max": "The largest value of each of these arguments that it may ask for, perform or approve.",
    },
    "owners": {
        "durable": "Whether such an owner outlives processes; only then it may own.",
        "external": "Whether what it takes over leaves our books: it is then TRANSFERRED, and ends for us.",
    },
    "policies": {
        "owners": "To which kinds of owner the control plane may assign under this policy.",
        "obligations": "Which types of commitment; empty: every one.",
        "takeover": "Whether also those whose owner is valid; else only those that have none any more.",
    },
    "objectives": {
        "measure": "What is timed: a release or transfer from being asked for to its evidence, a doubt from its "
        "beginning to its end, the detection of an effect from the leave to act to our knowing of it.",
        "within": "How long it may take; one of the bounds that latencies are counted by.",
        "share": "Which share of them must be within it, above 0 and below 1.",
        "window": "Over how many whole days that is reckoned, today the last.",
        "obligation": "Commitments of which type; left out: all.",
    },
    "limits": {
        "of": "Whose: each intent's, each principal's or each tenant's.",
        "only": "The one intent, principal or tenant that it is for, instead of the general limit; empty: each.",
        "debt": "How much debt there may be. An obligation counts its type's weight: twice if it is COMPENSATABLE, "
        "four times if it is IRREVERSIBLE or UNKNOWN. Left out: any.",
        "doubts": "With how many operations and commitments unresolved nothing new is promised; left out: any number.",
        "reviews": "With how many operations waiting for a person no further one is asked for, and nothing new is "
        "promised; left out: any number.",
        "age": "After how long an open obligation counts twice (three times after twice as long); left out: as on its "
        "first day.",
        "uncertain": "How many times one counts that is UNKNOWN, BREACHED or RECONCILIATION_REQUIRED.",
    },
}
"""What each field means, by section; "" has the file's own keys, and `arguments` those of one argument."""

AHEAD: dict[str, tuple[str, ...]] = {
    "downstreams": ("statement_cut_off",),
    "actions": (),
    "arguments": ("from_records",),
    "obligations": (),
    "resources": (),
}
"""What may be declared, is checked and travels with the catalogue, and that this release does not act on."""

_ORDER: dict[str, type[Shape]] = {"": TopShape, **SECTIONS, "arguments": ArgumentShape}
_KINDS = (
    (bool, "true or false"), (int, "a whole number"), (float, "a number"), (dict, "a mapping"),
    (list, "a list of texts"),
)  # fmt: skip
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def without_effect(catalogue: Catalogue) -> Iterator[str]:
    """A sentence on each field that the catalogue sets and that this release does not act on, with who sets it."""
    found: dict[str, list[str]] = {}
    entries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("downstreams", catalogue.downstreams), ("actions", catalogue.actions), ("obligations", catalogue.obligations),
        ("resources", catalogue.resources),
    )  # fmt: skip
    for section, named in entries:
        for name, entry in named.items():
            for field in _set_ahead(section, entry):
                found.setdefault(f"{section}.*.{field}", []).append(name)
    for action in catalogue.actions.values():
        for argument in action.arguments:
            for field in _set_ahead("arguments", argument):
                found.setdefault(f"actions.*.arguments.*.{field}", []).append(f"{action.name}.{argument.name}")
    for place, names in found.items():
        yield f"{place} ({', '.join(names)}): this release does not act on it"


def _set_ahead(section: str, entry: Any) -> Iterator[str]:
    defaults = {field.name: field.default for field in fields(entry)}
    for name in AHEAD[section]:
        field = name if name in defaults else f"{name}_ms"
        if getattr(entry, field) != defaults[field]:
            yield name


def catalogue_markdown() -> str:
    """The page `docs/catalogue.md`: each field explained, and the built-in catalogue."""
    lines = [
        "# The catalogue", "",
        "What is declared about the outside world: systems of record, actions, kinds of commitment, resources, and who",
        "may speak. A catalogue is a YAML file; `joingate catalogue check FILE` names each mistake by line and field,",
        "and each field that has no effect yet. Durations have a unit: 500ms, 30s, 10m, 24h, 7d.",
        "", "Fields marked *not yet* may be declared, are checked, and travel with the catalogue; this release does",
        "not act on them.", "",
    ]  # fmt: skip
    titles = {"": "The file's own keys", "arguments": "An argument of an action (`actions.*.arguments.*`)"}
    for section, shape in _ORDER.items():
        lines += [f"## {titles.get(section, f'`{section}`')}", ""]
        lines += ["| field | meaning | what may stand there | if left out |", "|---|---|---|---|"]
        lines += [_line(section, name, shape) for name in shape.model_fields]
        lines.append("")
    builtin = (files("joingate_schemas") / "builtin.yaml").read_text(encoding="utf-8")
    lines += ["## The built-in catalogue", "", "Used by traces that name none; the example to start from.", ""]
    return "\n".join([*lines, "```yaml", builtin.rstrip(), "```", ""])


def _line(section: str, name: str, shape: type[Shape]) -> str:
    field, duration = shape.model_fields[name], name in IN_MS.get(shape, {})
    ahead = "*not yet*: " if name in AHEAD.get(section, ()) else ""
    default = "must be given" if field.is_required() else _default(field.default, duration)
    allowed = "a duration" if duration else _allowed(field.annotation)
    return f"| `{name}` | {ahead}{MEANINGS[section][name]} | {allowed} | {default} |"


def _allowed(annotation: Any) -> str:
    inner = list(_parts(annotation))
    words = sorted({word for part in inner if get_origin(part) is Literal for word in get_args(part)})
    return ", ".join(words) if words else next((text for cls, text in _KINDS if cls in inner), "text")


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation and everything within it."""
    yield annotation
    yield get_origin(annotation)
    if get_origin(annotation) is not Literal:
        for inner in get_args(annotation):
            yield from _parts(inner)


def _default(value: Any, duration: bool) -> str:
    if value in (None, "") or value == [] or value == {}:
        return "none"
    if duration:
        unit_ms, unit = next(((size, unit) for size, unit in _UNITS if value % size == 0), (1, "ms"))
        return f"`{value // unit_ms}{unit}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
