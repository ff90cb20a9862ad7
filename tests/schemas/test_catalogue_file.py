"""Catalogue files: what they say, every mistake with line and field, and a canonical form that comes back equal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from textwrap import dedent

import pytest

from joingate_schemas.catalogue import Argument, Resource
from joingate_schemas.catalogue_file import (
    CatalogueError,
    builtin_catalogue,
    catalogue_from_json,
    catalogue_from_text,
    load_catalogue,
)

GOOD = """\
version: "7"
downstreams:
  bank:
    capabilities: [IDEMPOTENT_KEY, LOOKUP]
    key_horizon: 24h
actions:
  refund:
    downstream: bank
    effect: IRREVERSIBLE
    kind: RETRYABLE
    silence: 45s
    permit: 1500
    business_key: "{capture_id}"
    arguments:
      capture_id:
      amount:
      note: {meaning: false}
"""


def mistakes(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(CatalogueError) as caught:
        catalogue_from_text(text, "shop.yaml")
    return [(mistake.line, mistake.field, mistake.text) for mistake in caught.value.mistakes]


def with_line(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_good_file_is_read_with_its_units_and_its_defaults() -> None:
    catalogue = catalogue_from_text(GOOD)
    refund = catalogue.actions["refund"]
    assert catalogue.version == "7"
    assert catalogue.downstreams["bank"].key_horizon_ms == 86_400_000
    assert (refund.silence_ms, refund.permit_ms, refund.hold_ms) == (45_000, 1_500, 0)
    assert refund.executor == "bank", "the executor is called like the downstream unless it is named"
    assert refund.arguments == (Argument("capture_id"), Argument("amount"), Argument("note", meaning=False))
    assert (catalogue.plan_progress_ms, catalogue.max_skew_ms, catalogue.silent_attempts_max) == (
        86_400_000,
        300_000,
        3,
    )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("24h", 86_400_000), ("7d", 604_800_000), ("12", 12)],
)
def test_durations_have_units(text: str, milliseconds: int) -> None:
    assert catalogue_from_text(with_line("45s", text)).actions["refund"].silence_ms == milliseconds


PROMISE = "objectives:\n  o: {{measure: RELEASE, {}}}\nactions:"
_KEY = "0" * 64
MISTAKES: list[tuple[str, str, int, str, str]] = [
    # old text, new text, line, field, what the sentence says
    ('version: "7"', "version: 7", 1, "version", "7 is not allowed: input should be a valid string"),
    ('version: "7"', 'version: ""', 1, "version", "at least 1 character"),
    ('version: "7"', "plan_progress: 1h", 1, "version", "this field must be given"),
    ('version: "7"', 'version: "7"\nverzion: 1', 2, "verzion", "did you mean version?"),
    ('version: "7"', 'version: "7"\nmax_skew: 0', 2, "max_skew", "above 0"),
    ("silence: 45s", "silense: 45s", 11, "actions.refund.silense", "did you mean silence? allowed are: downstream"),
    ("silence: 45s", "silence: soon", 11, "actions.refund.silence", "'soon' is not allowed: a duration is"),
    ("silence: 45s", "silence: -5", 11, "actions.refund.silence", "between 0 and a hundred years"),
    ("silence: 45s", "silence: true", 11, "actions.refund.silence", "a duration is"),
    ("silence: 45s", "executor: a/b", 11, "actions.refund.executor", "letters, digits"),
    ("silence: 45s", "cost: -1", 11, "actions.refund.cost", "greater than or equal to 0"),
    ("silence: 45s", "cost: .inf", 11, "actions.refund.cost", "finite"),
    ("silence: 45s", "verification: 1", 11, "actions.refund.verification", "valid boolean"),
    ("silence: 45s", "compensation: unrefund", 11, "actions.refund.compensation", "no action is called 'unrefund'"),
    ("silence: 45s", "compensation: refund", 11, "actions.refund.compensation", "can't compensate itself"),
    ("silence: 45s", "obligation: hold", 11, "actions.refund.obligation", "no obligation is called 'hold'"),
    ("silence: 45s", "approvals_needed: 2", 11, "actions.refund.approvals_needed", "only the approval policy N_OF_M"),
    ("silence: 45s", "approval: N_OF_M", 7, "actions.refund.approvals_needed", "at least 2"),
    ("silence: 45s", "resources: [w]", 11, "actions.refund.resources.0", "write kind and name"),
    ("silence: 45s", "resources: ['w:x']", 11, "actions.refund.resources.0", "no resource is called 'w'"),
    ("effect: IRREVERSIBLE", "effect: FOREVER", 9, "actions.refund.effect", "allowed are: 'OBSERVE'"),
    ("kind: RETRYABLE", "kind: COMPENSATABLE", 7, "actions.refund.compensation", "names the action that undoes it"),
    ("downstream: bank", "downstream: bnk", 8, "actions.refund.downstream", "'bnk'; declared are: bank"),
    ("    downstream: bank\n", "", 7, "actions.refund.downstream", "must be given"),
    ('"{capture_id}"', '"{}"', 13, "actions.refund.business_key", "is no template"),
    ('"{capture_id}"', '"{capture_id"', 13, "actions.refund.business_key", "is no template"),
    ('"{capture_id}"', '"{order}"', 13, "actions.refund.business_key", "{order} is no declared argument"),
    ('"{capture_id}"', '"{amount}"', 13, "actions.refund.business_key", "an amount (amount) would be the only"),
    ('"{capture_id}"', '""', 13, "actions.refund.business_key", "an amount (amount) would be the only"),
    ('"{capture_id}"', '"{note}"', 13, "actions.refund.business_key", "carries no meaning"),
    ("meaning: false", "meaning: no way", 17, "actions.refund.arguments.note.meaning", "valid boolean"),
    ("meaning: false", "means: false", 17, "actions.refund.arguments.note.means", "allowed are: meaning, from"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[]", 4, "downstreams.bank.capabilities", "say what it can be asked"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[IDEMPOTENT_KEY, NONE]", 4, "downstreams.bank.capabilities", "NONE stands alone"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[IDEMPOTENT_KEY, IDEMPOTENT_KEY]", 4, "downstreams.bank.capabilities", "twice"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[LOOKUP]", 5, "downstreams.bank.key_horizon", "only a downstream with"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[IDEMPOTENT_KEY, STATEMENT]", 3, "downstreams.bank.statement_cut_off", "closes"),
    ("[IDEMPOTENT_KEY, LOOKUP]", "[ASK_NICELY]", 4, "downstreams.bank.capabilities.0", "allowed are: 'IDEMP"),
    ("    capabilities: [IDEMPOTENT_KEY, LOOKUP]\n", "", 3, "downstreams.bank.capabilities", "must be given"),
    ("  bank:", "  bank: {capabilities: [LOOKUP]}\n  bank:", 4, "downstreams.bank", "it is here twice"),
    ("  bank:", "  7: {capabilities: [LOOKUP]}\n  bank:", 3, "downstreams.7", "put it in quotes"),
    ("  bank:", "  a b: {capabilities: [LOOKUP]}\n  bank:", 3, "downstreams.a b", "a name has letters"),
    ("actions:", f"{PROMISE.format('within: 61s, share: 0.9')}", 7, "objectives.o.within", "the nearest is 60000 ms"),
    ("actions:", f"{PROMISE.format('within: 60s, share: 1')}", 7, "objectives.o.share", "less than 1"),
    ("actions:", f"{PROMISE.format('within: 60s, share: .9, window: 36h')}", 7, "objectives.o.window", "whole days"),
    ("actions:", f"{PROMISE.format('within: 60s, share: .9, obligation: x')}", 7, "objectives.o.obligation", "'x'"),
    ("actions:", "principals: [bob]\nactions:", 6, "principals", "mapping from names to entries"),
    ("actions:", "principals: {bob: planner}\nactions:", 6, "principals.bob", "a mapping with some of: role"),
    ("actions:", "principals: {bob: {role: GATE}}\nactions:", 6, "principals.bob.role", "the gate is no principal"),
    (
        "actions:", "principals: {bob: {role: PLANNER, actions: [x]}}\nactions:", 6, "principals.bob.actions.0",
        "no action is called 'x'",
    ),
    ("actions:", "obligations: {hold: {}}\nactions:", 6, "obligations.hold.release_action", "names the action"),
    (
        "actions:", "obligations: {hold: {release_action: free}}\nactions:", 6, "obligations.hold.release_action",
        "no action is called 'free'",
    ),
    (
        "actions:", "obligations: {hold: {resolution: EXPIRING, valid: 7d, late_success: RELEASE}}\nactions:", 6,
        "obligations.hold.late_success", "needs a release_action",
    ),
    ("actions:", "obligations: {hold: {resolution: UNKNOWN}}\nactions:", 6, "obligations.hold.resolution", "declare a"),
    ("silence: 45s", "communication: PROMISES", 11, "actions.refund.communication", "name its type in `obligation`"),
    ("silence: 45s", "counterparty: 'shop'", 11, "actions.refund.counterparty", "only an action with an obligation"),
    (
        "actions:", "obligations: {hold: {resolution: EXPIRING, valid: 1d, superseded_by: version}}\nactions:", 6,
        "obligations.hold.superseded_by", "none of its attributes",
    ),
    (
        "actions:", "obligations: {hold: {resolution: EXPIRING, valid: 1d, version: 2, migrates: [1, 2]}}\nactions:",
        6, "obligations.hold.migrates.1", "an earlier version goes on by this one",
    ),
    (
        "actions:", "obligations: {hold: {resolution: EXPIRING, valid: 1d, transfer_evidence: ['a b']}}\nactions:", 6,
        "obligations.hold.transfer_evidence.0", "letters, digits",
    ),
    ("actions:", "owners: {worker: {}}\nactions:", 6, "owners.worker.durable", "a worker is a process"),
    ("actions:", "owners: {intent: {external: true}}\nactions:", 6, "owners.intent", "stays on our books"),
    (
        "actions:", "owners: {desk: {durable: false, external: true}}\nactions:", 6, "owners.desk.external",
        "that is durable",
    ),
    ("actions:", "limits: {x: {of: INTENT}}\nactions:", 6, "limits.x", "it limits nothing"),
    ("actions:", "limits: {x: {of: INTENT, doubts: 0}}\nactions:", 6, "limits.x.doubts", "greater than or equal to 1"),
    ("actions:", "limits: {x: {of: TEAM, debt: 1}}\nactions:", 6, "limits.x.of", "allowed are: "),
    ("actions:", "limits: {x: {of: INTENT, doubts: 1, age: 1d}}\nactions:", 6, "limits.x.age", "how much debt"),
    (
        "actions:", "limits: {x: {of: TENANT, debt: 1}, y: {of: TENANT, reviews: 1}}\nactions:", 6, "limits.y",
        "x limits the same already",
    ),
    (
        "actions:", "principals: {bob: {role: PLANNER, keys: [abc]}}\nactions:", 6, "principals.bob.keys.0",
        "64 hex digits",
    ),
    (
        "actions:",
        f"principals: {{a: {{role: PLANNER, keys: ['{_KEY}']}}, b: {{role: PLANNER, keys: ['{_KEY}']}}}}\nactions:",
        6, "principals.b.keys.0", "a key speaks for one principal",
    ),
    (
        "actions:", "principals: {bob: {role: APPROVER}}\nactions:", 6, "principals.bob.keys",
        "nobody could register a key for it",
    ),
    (
        "actions:", "principals: {bob: {role: PLANNER}}\nsignatures: REQUIRED\nactions:", 6, "principals.bob.keys",
        "nobody could register a key for it",
    ),
    (
        "actions:", "principals: {bob: {role: PLANNER, registrar: true}}\nactions:", 6, "principals.bob.registrar",
        "only an OPERATOR registers keys",
    ),
    (
        "actions:", f"principals: {{o: {{role: OPERATOR, tenant: t, registrar: true, keys: ['{_KEY}']}}}}\nactions:", 6,
        "principals.o.registrar", "belongs to none",
    ),
    (
        "actions:", "principals: {gw: {role: PLANNER, vouches_for: [nobody]}}\nactions:", 6,
        "principals.gw.vouches_for.0",
        "no principal is called 'nobody'",
    ),
    (
        "actions:",
        f"principals: {{gw: {{role: PLANNER, vouches_for: [a]}}, a: {{role: APPROVER, keys: ['{_KEY}']}}}}\nactions:",
        6, "principals.gw.vouches_for.0", "it can't vouch for a",
    ),
    (
        "actions:", "principals: {a: {role: PLANNER, tenant: x, vouches_for: [b]}, b: {role: PLANNER}}\nactions:", 6,
        "principals.a.vouches_for.0", "belongs to the tenant x",
    ),
    (
        "actions:", f"principals: {{a: {{role: OPERATOR, control: true, keys: ['{_KEY}']}}}}\nactions:", 6,
        "principals.a.control", "a control approves",
    ),
    (
        "actions:",
        f"principals: {{a: {{role: APPROVER, control: true, party: x, keys: ['{_KEY}']}}, "
        "b: {role: PLANNER, party: x}}\nactions:",
        6, "principals.a.party", "a control is independent of both",
    ),
    ("actions:", "signatures: NONE\nactions:", 6, "signatures", "'NONE' is not allowed"),
    (
        "actions:", "principals: {ann: {role: PLANNER}}\nlimits: {x: {of: PRINCIPAL, only: bob, debt: 1}}\nactions:", 7,
        "limits.x.only", "no principal is called 'bob'",
    ),
    ("actions:", "policies: {p: {owners: []}}\nactions:", 6, "policies.p.owners", "at least 1 item"),
    ("actions:", "policies: {p: {owners: [worker]}}\nactions:", 6, "policies.p.owners.0", "nothing can be assigned"),
    (
        "actions:", "owners: {desk: {external: true}}\npolicies: {p: {owners: [desk]}}\nactions:", 7,
        "policies.p.owners.0", "outside our books",
    ),
    (
        "actions:", "owners: {team: {}}\npolicies: {p: {owners: [crew]}}\nactions:", 7, "policies.p.owners.0",
        "no kind of owner is called 'crew'",
    ),
    (
        "actions:", "policies: {p: {owners: [team], obligations: [hold]}}\nactions:", 6, "policies.p.obligations.0",
        "no obligation is called 'hold'",
    ),
    (
        "actions:", "owners: {team: {}}\nprincipals: {bob: {role: PLANNER, owners: ['crew:a']}}\nactions:", 7,
        "principals.bob.owners.0", "no kind of owner is called 'crew'",
    ),
    ("actions:", "obligations: {hold: {resolution: EXPIRING}}\nactions:", 6, "obligations.hold.valid", "how long it"),
    (
        "actions:", "obligations: {hold: {resolution: TRANSFERABLE, grace: 1h}}\nactions:", 6, "obligations.hold.grace",
        "say that first",
    ),
    (
        "actions:", "obligations: {hold: {resolution: TRANSFERABLE, condition: '{x'}}\nactions:", 6,
        "obligations.hold.condition", "is no template",
    ),
    ("actions:", "resources: {w: {mode: EXCLUSIVE, capacity: 2}}\nactions:", 6, "resources.w.capacity", "no capacity"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "field", "told"), MISTAKES)
def test_a_mistake_is_named_with_line_field_and_what_is_allowed(
    old: str, new: str, line: int, field: str, told: str
) -> None:
    (mistake,) = mistakes(with_line(old, new))
    assert mistake[:2] == (line, field)
    assert told in mistake[2]


SCARCE = (
    GOOD
    + """\
    resources: ["slot:{capture_id}", "calls:{tenant}"]
    quantities: {calls: "{amount}"}
resources:
  slot: {mode: EXCLUSIVE, arbitrated: true, lease: 10m}
  calls: {mode: CAPACITY, capacity: 5, capacities: {acme: 9}, arbitrated: true, keeps: true}
"""
)


def test_what_is_scarce_is_read_with_its_terms() -> None:
    catalogue = catalogue_from_text(SCARCE)
    assert catalogue.actions["refund"].quantities == {"calls": "{amount}"}
    assert catalogue.resources["slot"] == Resource("slot", "EXCLUSIVE", arbitrated=True, lease_ms=600_000)
    assert catalogue.resources["calls"] == Resource("calls", "CAPACITY", 5, {"acme": 9}, arbitrated=True, keeps=True)
    assert catalogue_from_json(catalogue.source) == catalogue
    assert catalogue.resource_wait_ms == 60_000


@pytest.mark.parametrize(
    ("old", "new", "field", "told"),
    [
        ("{calls: ", "{nothing: ", "actions.refund.quantities.nothing", "the action uses no resource 'nothing'"),
        ("{calls: ", "{slot: ", "actions.refund.quantities.slot", "taken as a whole and has no quantity"),
        ('"{amount}"', '"0"', "actions.refund.quantities.calls", "a whole number above 0, or an argument in braces"),
        ('"{amount}"', "2.5", "actions.refund.quantities.calls", "not allowed"),
        ('"{amount}"', '"x{amount}"', "actions.refund.quantities.calls", "one argument in braces, and nothing beside"),
        ('"{amount}"', '"{sum}"', "actions.refund.quantities.calls", "{sum} is no declared argument"),
        ("{tenant}", "{nobody}", "actions.refund.resources.1", "{nobody} is no declared argument"),
        ("capacity: 5", "capacity: 5.5", "resources.calls.capacity", "no whole number: count in the smallest unit"),
        ("{acme: 9}", "{acme: 9.5}", "resources.calls.capacities.acme", "no whole number"),
        ("arbitrated: true, lease: 10m", "lease: 10m", "resources.slot.lease", "lease needs arbitrated: true"),
        ("lease: 10m", "keeps: true", "resources.slot.keeps", "only a quantity is kept by what was done"),
        ("lease: 10m", "capacity: 3", "resources.slot.capacity", "a resource of mode EXCLUSIVE has no capacity"),
    ],
)
def test_a_mistake_about_what_is_scarce_is_named(old: str, new: str, field: str, told: str) -> None:
    assert SCARCE.count(old) == 1
    found = mistakes(SCARCE.replace(old, new))
    assert [one for one in found if one[1].startswith(field) and told in one[2]], found


def _making(obligation: str, **more: str) -> str:
    """The good file, whose refund makes an obligation of that shape, with more fields of refund's."""
    fields = "".join(f"    {name}: {value}\n" for name, value in {"obligation": "hold", **more}.items())
    text = GOOD.replace("    silence: 45s\n", fields)
    return (
        text
        + "  undo: {downstream: bank, effect: REVERSIBLE, kind: RETRYABLE}\n"
        + f"obligations: {{hold: {obligation}}}\n"
    )


STRENGTH: list[tuple[str, dict[str, str], str, str]] = [
    # the obligation, what else refund says, the field at fault, what the sentence says; no field: none is at fault
    ("{resolution: IRREVERSIBLE}", {}, "actions.refund.approval", "which is IRREVERSIBLE: say whose yes it needs"),
    ("{resolution: IRREVERSIBLE}", {"approval": "ANY"}, "", ""),
    ("{resolution: IRREVERSIBLE, release_action: undo}", {"approval": "ANY"}, "actions.refund.obligation", "undo"),
    ("{resolution: IRREVERSIBLE}", {"approval": "ANY", "compensation": "undo"}, "actions.refund.obligation", "undo"),
    ("{resolution: COMPENSATABLE}", {}, "actions.refund.compensation", "name what mitigates it"),
    ("{resolution: COMPENSATABLE}", {"compensation": "undo"}, "", ""),
    ("{resolution: RELEASABLE, release_action: undo}", {}, "", ""),
    ("{resolution: TRANSFERABLE, condition: 'ok:{amount}'}", {}, "", ""),
    ("{resolution: TRANSFERABLE, condition: 'ok:{release}'}", {}, "actions.refund.obligation", "{release} is no decl"),
]


@pytest.mark.parametrize(("obligation", "more", "field", "told"), STRENGTH)
def test_the_harder_an_obligation_is_to_undo_the_stronger_the_yes_that_it_needs(
    obligation: str, more: dict[str, str], field: str, told: str
) -> None:
    text = _making(obligation, **more)
    if not field:
        assert catalogue_from_text(text).actions["refund"].obligation == "hold"
        return
    ((_, at, sentence),) = mistakes(text)
    assert at == field
    assert told in sentence


def test_an_action_that_observes_has_nothing_to_undo() -> None:
    text = with_line("effect: IRREVERSIBLE", "effect: OBSERVE").replace("kind: RETRYABLE", "kind: PIVOT")
    assert [(line, field) for line, field, _ in mistakes(text)] == [(10, "actions.refund.kind")]


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    text = dedent("""\
        version: 1
        downstreams:
          bank: {capabilities: []}
        actions:
          refund:
            downstream: bnk
            effect: IRREVERSIBLE
            kind: RETRYABLE
            silense: 30s
            arguments: {amount: }
        """)
    with pytest.raises(CatalogueError) as caught:
        catalogue_from_text(text, "shop.yaml")
    assert [(mistake.line, mistake.field) for mistake in caught.value.mistakes] == [
        (1, "version"),
        (3, "downstreams.bank.capabilities"),
        (5, "actions.refund.business_key"),
        (6, "actions.refund.downstream"),
        (9, "actions.refund.silense"),
    ]
    assert str(caught.value).splitlines()[0].startswith("shop.yaml:1: version: ")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "here belongs a mapping"),
        ("just words", 1, "here belongs a mapping"),
        ("a: [1,\nb: 2", 2, "this is no YAML"),
        ("a: \x00", 1, "this is no YAML"),
        ("a: &x [*x]", 1, "no YAML: it holds too many values, or values nested too deeply"),
        ("a: !!python/object:os.system {}", 1, "this is no YAML"),
        ("v: " + "x" * 200_001, 1, "at most 200000 bytes"),
    ],
)
def test_a_file_that_is_no_catalogue_at_all_is_refused_in_a_sentence(text: str, line: int, told: str) -> None:
    assert any(found == line and told in sentence for found, _, sentence in mistakes(text))


def test_many_aliases_do_not_become_a_huge_tree() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert any("too many values" in sentence for _, _, sentence in mistakes("\n".join(lines)))


def test_both_missing_sections_are_named() -> None:
    assert [field for _, field, _ in mistakes('version: "1"')] == ["actions", "downstreams"]


def test_a_file_that_is_not_there_or_no_text_is_a_catalogue_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"none\.yaml:1: the file can't be read"):
        load_catalogue(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CatalogueError, match=r"bytes\.yaml:1: the file is not UTF-8"):
        load_catalogue(tmp_path / "bytes.yaml")


def test_a_json_file_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps({"version": "1", "downstreams": {"m": {"capabilities": ["NONE"]}}, "actions": {}}))
    assert load_catalogue(path).downstreams["m"].capabilities == ("NONE",)


# --- the canonical form ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [GOOD, None])
def test_the_canonical_form_comes_back_equal_and_its_hash_is_the_digest(text: str | None) -> None:
    catalogue = builtin_catalogue() if text is None else catalogue_from_text(text)
    assert catalogue_from_json(catalogue.source) == catalogue
    assert catalogue.digest == hashlib.sha256(catalogue.source).hexdigest()
    assert json.dumps(json.loads(catalogue.source), sort_keys=True, separators=(",", ":")).encode() == catalogue.source


def test_order_comments_and_spelt_out_defaults_do_not_change_the_digest() -> None:
    other = with_line("    silence: 45s\n", "").replace(
        "    permit: 1500\n", "    permit: 1500ms  # why\n    silence: 45000\n"
    )
    spelt = other.replace("kind: RETRYABLE", "kind: RETRYABLE\n    executor: bank\n    hold: 0")
    assert catalogue_from_text(spelt).digest == catalogue_from_text(GOOD).digest
    assert catalogue_from_text(with_line("45s", "46s")).digest != catalogue_from_text(GOOD).digest


def test_the_canonical_form_of_another_release_is_read_by_default_and_by_dropping() -> None:
    form = json.loads(catalogue_from_text(GOOD).source)
    del form["actions"]["refund"]["verification"], form["max_skew_ms"]
    del form["owners"], form["policies"]
    form["actions"]["refund"]["mood"] = "good"
    form["novelties"] = {}
    read = catalogue_from_json(json.dumps(form).encode())
    assert read.actions == catalogue_from_text(GOOD).actions
    assert read.max_skew_ms == 300_000


@pytest.mark.parametrize("source", [b"", b"[]", b"{}", b'{"version": "1"}', b"\xff", b'{"downstreams": {"x": 1}}'])
def test_what_is_no_canonical_form_is_a_catalogue_error(source: bytes) -> None:
    with pytest.raises(CatalogueError, match="no catalogue in canonical JSON"):
        catalogue_from_json(source)


# --- the built-in one ------------------------------------------------------------------------------------------------


def test_the_built_in_catalogue_declares_what_traces_rely_on() -> None:
    catalogue = builtin_catalogue()
    capabilities = {name: downstream.capabilities for name, downstream in catalogue.downstreams.items()}
    assert capabilities == {
        "bank": ("IDEMPOTENT_KEY", "LOOKUP"),
        "ledger-house": ("STATEMENT",),
        "messenger": ("NONE",),
        "cloud": ("LOOKUP",),
        "workspace": ("IDEMPOTENT_KEY", "LOOKUP"),
    }
    effects = {name: (action.effect, action.kind, action.executor) for name, action in catalogue.actions.items()}
    assert effects["read_file"] == ("OBSERVE", "RETRYABLE", "workspace")
    assert effects["write_file"] == ("REVERSIBLE", "COMPENSATABLE", "workspace")
    assert effects["notify"] == ("IRREVERSIBLE", "RETRYABLE", "messenger")
    assert effects["close_ticket"] == ("IRREVERSIBLE", "PIVOT", "cloud")
    assert effects["refund"] == ("IRREVERSIBLE", "RETRYABLE", "bank")
    assert effects["reverse_fee"] == ("IRREVERSIBLE", "RETRYABLE", "bank")
    assert catalogue.actions["write_file"].compensation == "delete_file"
    window = catalogue.actions["reserve_window"]
    assert (window.obligation, window.resources) == ("window", ("window:{business_key}",))
    assert catalogue.obligations["window"].release_action == "release_window"
    assert catalogue.actions["request_review"].obligation == "review"
    meanings = {argument.name: argument.meaning for argument in catalogue.actions["refund"].arguments}
    assert meanings == {"capture_id": True, "refund_request": True, "amount": True, "currency": True, "note": False,
                        "client_time": False}  # fmt: skip
    assert catalogue.actions["refund"].business_key == "{capture_id}/{refund_request}"
    durable = {name: (kind.durable, kind.external) for name, kind in catalogue.owners.items()}
    assert (durable["team"], durable["worker"], durable["desk"]) == ((True, False), (False, False), (True, True))
    assert catalogue.policies["on-call"].owners == ("team", "person")
    promised = {name for name, action in catalogue.actions.items() if action.communication == "PROMISES"}
    assert promised == {"request_review", "promise"}
    modes = {name: resource.mode for name, resource in catalogue.resources.items()}
    assert modes == {"window": "EXCLUSIVE", "capture": "CAPACITY", "fee": "ONCE_EVER"}


@pytest.mark.parametrize("text", ["[" * 5_000, "a: " + "{b: " * 5_000, "- " * 5_000])
def test_what_is_nested_too_deeply_is_a_mistake_of_the_file(text: str) -> None:
    with pytest.raises(CatalogueError, match=r"nested too deeply|no YAML"):
        catalogue_from_text(text, "deep.yaml")


def test_canonical_json_that_is_nested_too_deeply_is_none() -> None:
    with pytest.raises(CatalogueError, match="no catalogue in canonical JSON"):
        catalogue_from_json(b"[" * 100_000)


def test_objectives_come_back_from_canonical_json_and_an_older_catalogue_has_none() -> None:
    text = with_line("actions:", PROMISE.format("within: 1m, share: 0.99, window: 7d"))
    catalogue = catalogue_from_text(text)
    assert catalogue_from_json(catalogue.source) == catalogue
    (one,) = catalogue.objectives.values()
    assert (one.name, one.within_ms, one.window_ms, one.share, one.obligation) == ("o", 60_000, 604_800_000, 0.99, None)
    older = {key: value for key, value in json.loads(catalogue.source).items() if key != "objectives"}
    assert catalogue_from_json(json.dumps(older).encode()).objectives == {}


_PAY = """
version: "1"
downstreams: {bank: {capabilities: [IDEMPOTENT_KEY]}}
actions:
  pay: {downstream: bank, effect: IRREVERSIBLE, kind: PIVOT, MORE}
TOP
"""


@pytest.mark.parametrize(
    ("more", "top", "said"),
    [
        ("approval: ANY", "approval_floor: {PIVOT: MAKER_CHECKER}", "ANY is weaker than MAKER_CHECKER"),
        ("approval: N_OF_M, approvals_needed: 2", "approval_floor: {IRREVERSIBLE: N_OF_M, PIVOT: ANY}",
         "ANY is weaker than N_OF_M"),
        ("approval: ANY", "approval_floor: {IRREVERSIBLE: N_OF_M}", "ANY is weaker than N_OF_M"),
        ("approval: MAKER_CHECKER", "approval_floor: {REVERSIBLE: ANY, PIVOT: MAKER_CHECKER}", ""),
        ("approval: CONTROL", "approval_floor: {PIVOT: MAKER_CHECKER}", "CONTROL needs a principal"),
        ("approvers: [ann]", "", "nobody is asked"),
        ("approval: N_OF_M, approvals_needed: 2, approvers: [ann]", "", "needs 2 parties, and 1"),
        ("approval: N_OF_M, approvals_needed: 2, approvers: [ann, bob]", "", ""),
        ("approval: N_OF_M, approvals_needed: 2", "", ""),
        ("approval: ANY, approvers: [bob]", f"principals: {{ann: {{role: APPROVER, keys: ['{_KEY}']}}}}",
         "declares no APPROVER called 'bob'"),
        ("approval: N_OF_M, approvals_needed: 2", f"principals: {{ann: {{role: APPROVER, keys: ['{_KEY}']}}}}",
         "needs 2 parties, and 1"),
    ],
)  # fmt: skip
def test_the_harder_to_undo_the_stronger_the_yes_and_somebody_can_give_it(more: str, top: str, said: str) -> None:
    text = _PAY.replace("MORE", more).replace("TOP", top)
    if not said:
        catalogue_from_text(text)
        return
    with pytest.raises(CatalogueError, match=said):
        catalogue_from_text(text)
