"""A service in another language acts under a real gate from the Avro contract alone: no line of ours is in it."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from joingate.java_kafka import cache_root, file_lock
from joingate_schemas.catalogue_file import catalogue_from_text
from joingate_schemas.facts import OperationInDoubt, OperationSettled, PermitIssued

pytestmark = pytest.mark.broker

HERE = Path(__file__).parent
# Both are plain JavaScript, without dependencies of their own.
PACKAGES = ("kafkajs@2.2.4", "avsc@5.7.9")
INSTALL_S_MAX = 180

_SPEC = spec_from_file_location("executors_under_a_gate", HERE / "test_executors.py")
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018 - one fact, told to the type checker
executors = module_from_spec(_SPEC)
_SPEC.loader.exec_module(executors)


@pytest.fixture(scope="module")
def modules() -> Path:
    """A folder with the packages in it; skips, saying why, where they or Node can't be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs Node.js with npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < 20:
        pytest.skip(f"needs Node.js 20 or newer, and finds {version}")
    folder = cache_root() / "-".join(["node", *(one.replace("@", "-") for one in PACKAGES)])
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / "install.lock"):
        if not all((folder / "node_modules" / one.split("@")[0]).is_dir() for one in PACKAGES):
            (folder / "package.json").write_text('{"private": true}\n')
            install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", *PACKAGES]
            try:
                subprocess.run(install, cwd=folder, capture_output=True, check=True, timeout=INSTALL_S_MAX)
            except (subprocess.SubprocessError, OSError) as error:
                pytest.skip(f"needs {' and '.join(PACKAGES)}, which npm can't get here: {error}")
    return folder


@pytest.fixture
def shop(desk: Any, tools: Any) -> Iterator[Any]:
    made = executors.Shop(desk, tools)
    with desk.gate(catalogue=catalogue_from_text(executors.CATALOGUE)):
        yield made
        made.close()


@pytest.fixture
def node(shop: Any, modules: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts the executor in Node, over one journal."""

    def start(**asked: Any) -> "subprocess.Popen[str]":
        settings = {
            "till": str(shop.till), "bootstrap_servers": shop.desk.bootstrap, "prefix": shop.desk.prefix,
            "journal": str(shop.till.with_name("node.journal")), "modules": str(modules),
            "avsc": str(files("joingate_schemas") / "avsc"), **asked,
        }  # fmt: skip
        process = subprocess.Popen(["node", str(HERE / "node" / "executor.mjs"), json.dumps(settings)], text=True)
        shop.processes.append(process)
        return process

    return start


def test_it_prepares_waits_for_its_permit_acts_once_and_commits(shop: Any, node: Any) -> None:
    """In two phases, and in one; SIGTERM ends it in order."""
    process = node()
    paid, noted = shop.ask("ann"), shop.ask("ann", "note")
    (settled,) = shop.await_fact(OperationSettled, paid)
    assert settled.external_id == f"node-{paid}"
    shop.await_fact(OperationSettled, noted)
    assert len(shop.facts(PermitIssued, paid)) == 1
    assert shop.facts(PermitIssued, noted) == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    pid = str(process.pid)
    assert sorted(shop.effects()) == sorted([["note", noted, "1", pid], ["pay", paid, str(settled.attempt), pid]])


def test_killed_between_effect_and_report_it_says_so_and_does_not_act_again(shop: Any, node: Any) -> None:
    """By its own journal, as the contract asks."""
    victim = node(dies_after=1)
    operation = shop.ask("ann")
    assert victim.wait(60) == -signal.SIGKILL
    node()
    shop.await_fact(OperationInDoubt, operation)
    shop.await_fact(OperationSettled, shop.ask("other"))
    said = [one for one in shop.desk.ledger() if one.claim_type == "InDoubt"]
    assert [one.verdict for one in said if one.intent_id == "acme/pay/ann"] in (["ACCEPTED"], ["REPLAYED"])
    assert [one[1] for one in shop.effects()].count(operation) == 1
