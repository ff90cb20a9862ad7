"""The shape of the source tree, held by tests: what may import what, what an import costs, how long a room may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINES_MAX = 600

# Each package and those of ours that it may import: data moves one way, and so do imports.
BELOW: dict[str, frozenset[str]] = {
    "joingate_schemas": frozenset(),
    "joingate_producers": frozenset({"joingate_schemas"}),
    "joingate_projections": frozenset({"joingate_schemas"}),
    "joingate_processors": frozenset({"joingate_schemas", "joingate_producers", "joingate_projections"}),
    "joingate": frozenset({"joingate_schemas", "joingate_producers", "joingate_projections", "joingate_processors"}),
}
FOLDERS: dict[str, Path] = {
    "joingate": ROOT / "joingate",
    **{name: ROOT / name.removeprefix("joingate_") / name for name in BELOW if name != "joingate"},
}
# What a microservice with the base install does not have.
HEAVY = ("rocksdict", "faust", "aiokafka", "fastapi", "uvicorn", "typer", "rich", "orjson", "prometheus_client")


def _modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


PACKAGED = [(package, path) for package, folder in FOLDERS.items() for path in _modules(folder)]
EVERY = [path for _, path in PACKAGED] + [p for top in ("tests", "benchmarks") for p in _modules(ROOT / top)]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every absolute import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.split(".")[0]


@pytest.mark.parametrize(
    ("package", "path"), PACKAGED, ids=lambda value: _name(value) if isinstance(value, Path) else value
)
def test_imports_go_downwards_only(package: str, path: Path) -> None:
    """A package imports itself and what lies below it."""
    allowed = BELOW[package] | {package}
    upwards = [f"{_name(path)}:{line} imports {top}" for line, top in _imports(path) if top in BELOW.keys() - allowed]
    assert upwards == []


@pytest.mark.parametrize("path", EVERY, ids=_name)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    """The docstring's first line is a sentence that tells a newcomer what the room is for."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{_name(path)} has no docstring"
    assert docstring.splitlines()[0].strip(), f"{_name(path)}: the docstring's first line is empty"


@pytest.mark.parametrize("path", EVERY, ids=_name)
def test_no_file_is_too_long_to_read(path: Path) -> None:
    """A room that outgrows this has become two."""
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("package", ["joingate_schemas", "joingate_producers"])
def test_the_sdk_imports_nothing_heavy(package: str) -> None:
    """In a process of its own, importing the SDK loads none of what the extras bring."""
    code = f"import sys, {package}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=_name)
def test_every_package_says_that_it_is_typed(folder: Path) -> None:
    """Without the marker, type checkers outside would ignore our types."""
    assert (folder / "py.typed").is_file()
