"""Keys from the command line, and the page about principals: its catalogue and its example hold as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from joingate.cli.app import app
from joingate.cli.keys import joined_keys
from joingate_processors.forensics.simulator import Simulator
from joingate_projections.declared import signatures_of
from joingate_schemas import claims as c
from joingate_schemas.canonical import claim_bytes, claim_digest
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_text
from joingate_schemas.ids import operation_id
from joingate_schemas.signing import Signer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "principals.md").read_text(encoding="utf-8")
ROOT = Signer.from_seed(b"\1" * 32)
INTENT = "acme/invoice/7"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_page_is_the_canonical_form_and_its_digest() -> None:
    claim = c.Approve(
        claim_id="c-1", intent_id="acme/fee/77", principal="ann", operation_id="op-1", digest="ab", expires_at=1_000
    )
    assert block("text").rstrip("\n").encode() == claim_bytes(claim)
    assert f"has the digest `{claim_digest(claim).hex()}`" in PAGE


def test_the_pages_catalogue_plays_as_the_page_says() -> None:
    """Registered by the root key, ann approves what the agent asked for; unsigned or revoked she does not."""
    gate = Simulator(catalogue_from_text(block("yaml")))
    ann = Signer.new()
    common: Any = {"intent_id": INTENT, "principal": "agent"}
    step: c.PlanStep = {"step_id": "s", "action": "pay", "arguments": {"invoice": "7", "amount": 400}}
    gate.submit(c.DeclareIntent(**common, claim_id="1", version=1, goals=[]), "PLANNER")
    plan = c.Plan(**common, claim_id="2", intent_version=1, plan_id="p", steps=[step], commitments=[])
    assert gate.submit(plan, "PLANNER").reason == "OK"
    dispatch = c.Dispatch(**common, claim_id="3", intent_version=1, plan_id="p", step_id="s")
    assert gate.submit(dispatch, "PLANNER").reason == "UNSIGNED", "the maker has to be known too"
    agent = Signer.new()
    mine = c.RegisterKey(claim_id="0", intent_id="", principal="root", holder="agent", public_key=agent.public_key)
    assert gate.submit(ROOT.sign(mine), "OPERATOR").reason == "OK"
    assert gate.submit(agent.sign(dispatch), "PLANNER").status == "STAGED"
    row = gate.state.operations.get(operation_id(INTENT, "pay", "7", 1))
    assert row is not None

    def yes(claim_id: str) -> c.Approve:
        return c.Approve(claim_id=claim_id, intent_id=INTENT, principal="ann", operation_id=row.operation_id,
                         digest=row.content_digest)  # fmt: skip

    assert gate.submit(yes("4"), "APPROVER").reason == "UNSIGNED"
    assert gate.submit(ann.sign(yes("5")), "APPROVER").reason == "UNKNOWN_KEY"
    told = c.RegisterKey(claim_id="6", intent_id="", principal="root", holder="ann", public_key=ann.public_key)
    assert gate.submit(ROOT.sign(told), "OPERATOR").reason == "OK"
    over = c.RevokeKey(claim_id="7", intent_id="", principal="root", holder="ann", key_id=ann.key_id,
                       revoked_at=gate.now + 1_000)  # fmt: skip
    assert gate.submit(ROOT.sign(over), "OPERATOR").reason == "OK"
    gate.restart()
    assert gate.submit(ann.sign(yes("8")), "APPROVER", gate.now + 1_000).reason == "KEY_REVOKED"
    assert gate.submit(ann.sign(yes("9")), "APPROVER").reason == "KEY_REVOKED"


def test_a_new_key_goes_to_a_file_and_its_public_half_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ann.key"
    said = CliRunner().invoke(app, ["keys", "new", str(path)])
    signer = Signer.from_file(path)
    assert said.stdout == f"key id: {signer.key_id}\npublic key: {signer.public_key.hex()}\n"
    again = CliRunner().invoke(app, ["keys", "new", str(path)])
    assert again.exit_code != 0
    assert Signer.from_file(path).key_id == signer.key_id


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["keys", "register", "ann", "xyz"], "no public key"),
        (["keys", "rotate", "ann", "0" * 64, "--replaces", "1", "--overlap", "soon"], "no duration"),
    ],
)
def test_what_is_no_key_or_no_duration_is_told_before_anything_is_sent(
    tmp_path: Path, words: list[str], wrong: str
) -> None:
    path = tmp_path / "root.key"
    ROOT.write(path)
    said = CliRunner().invoke(app, [*words, "--as", "root", "--key-file", str(path)])
    assert said.exit_code == 2
    assert wrong in said.stderr


def test_the_list_names_what_a_partition_lacks() -> None:
    row = {"key_id": "k", "holder": "ann", "status": "REGISTERED", "ends_at": None, "public_key": "ab", "partition": 0}
    (one,) = joined_keys([row], {}, 2)
    assert (one["where"], one["status"]) == ("NOT on partition 1: say it again", "REGISTERED")
    (both,) = joined_keys([row, {**row, "partition": 1}], {}, 2)
    assert both["where"] == "every partition"
    ended = {**row, "partition": 1, "status": "REVOKED", "ends_at": 5}
    (differ,) = joined_keys([row, ended], {}, 2)
    assert (differ["where"], differ["status"], differ["ends_at"]) == ("partitions differ: say it again", "REVOKED", 5)
    declared = {"r": ("root", b"k" * 32)}
    assert [(key["key_id"], key["status"]) for key in joined_keys([row], declared, 1)] == [
        ("k", "REGISTERED"), ("r", "DECLARED"),
    ]  # fmt: skip


def test_the_state_says_loudly_that_nobody_signs() -> None:
    assert "whoever can write to a topic is believed" in signatures_of(builtin_catalogue())["sentence"]
    declared = signatures_of(catalogue_from_text(block("yaml")))
    assert (declared["principals"], declared["asked"], declared["sentence"]) == (4, "OPTIONAL", "")
