"""The compose file is sound as far as that can be told without a container engine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from joingate.local_kafka import KAFKA_VERSION, compose_file
from joingate_schemas.catalogue_file import builtin_catalogue

COMMANDS = frozenset({"gate", "arbiter", "serve", "project", "reconcile", "sample", "topics"})
CONDITIONS = frozenset({"service_started", "service_healthy", "service_completed_successfully"})

FOLDER = compose_file().parent
COMPOSE: dict[str, Any] = yaml.safe_load(compose_file().read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)


def test_what_runs() -> None:
    """One broker of the version that we test with, and the processes of Join Gate."""
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert OURS == ["arbiter", "gate", "reconcile", "sample", "serve", "topics"]


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_of_the_command_line(name: str) -> None:
    """A container whose command is misspelt would only be found out by running it."""
    assert SERVICES[name]["command"][0] in COMMANDS


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_exist_and_can_be_met(name: str) -> None:
    """Waiting for a service that is not there, or for the health of one that has no check, would wait for ever."""
    for target, wait in SERVICES[name].get("depends_on", {}).items():
        assert target in SERVICES
        assert wait["condition"] in CONDITIONS
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[target]


@pytest.mark.parametrize("name", SERVICES)
def test_volumes_are_declared_and_ports_stay_on_this_machine(name: str) -> None:
    """Named volumes are declared, and nothing is opened to the network by default."""
    for volume in SERVICES[name].get("volumes", []):
        assert volume.split(":")[0] in COMPOSE["volumes"]
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", OURS)
def test_our_processes_find_the_broker_and_the_build(name: str) -> None:
    """They call the broker by the name that it advertises inside, and their image is built from this tree."""
    service = SERVICES[name]
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{service['environment']['BOOTSTRAP_SERVERS']}" in advertised.split(",")
    context = (FOLDER / service["build"]["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert (context / service["build"]["dockerfile"]).is_file()


def test_the_reconciler_has_an_address_for_whatever_can_be_asked() -> None:
    """As `joingate up` gives it one: a downstream without an address is never asked."""
    told = json.loads(SERVICES["reconcile"]["environment"]["JOINGATE_DOWNSTREAMS"])
    asked = {name for name, one in builtin_catalogue().downstreams.items() if "LOOKUP" in one.capabilities}
    assert asked <= told.keys()


def test_each_folder_that_the_wheel_needs_reaches_the_build() -> None:
    """The build sees only what the ignore file lets through."""
    allowed = set(re.findall(r"^!(\S+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    assert {"pyproject.toml", "LICENSE", "joingate", "schemas", "projections", "producers", "processors"} <= allowed


def _knows_compose(engine: str) -> bool:
    """Whether there is such a client with `compose`, which reads files without an engine."""
    if shutil.which(engine) is None:
        return False
    return subprocess.run([engine, "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _knows_compose("docker"), reason="this machine's docker client, if any, has no compose")
def test_compose_itself_accepts_the_file(tmp_path: Path) -> None:
    """The client's own reading of the file, which needs no engine."""
    command = ["docker", "compose", "-f", str(compose_file()), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
