"""The shape of the source tree, held by tests: what may import what, what an import costs, how long a room may be."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from .installs import BASE, EXTRAS, distributions, import_names

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
# Of what the extras bring, that which a library of the base takes up by itself where it finds it: fastavro, for codecs.
TAKEN_UP = {"cramjam"}


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
    heavy = import_names(EXTRAS) - import_names(BASE) - TAKEN_UP
    # What derives them must not come to nothing: these are in extras, or below what is.
    assert heavy >= {"rocksdict", "faust", "aiokafka", "fastapi", "uvicorn", "typer", "rich", "orjson", "httpx"}
    code = f"import sys, {package}; print(*[name for name in {sorted(heavy)!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=_name)
def test_every_package_says_that_it_is_typed(folder: Path) -> None:
    """Without the marker, type checkers outside would ignore our types."""
    assert (folder / "py.typed").is_file()


def test_the_base_install_alone_is_a_whole_sdk(tmp_path: Path) -> None:
    """The wheel, in a virtual environment that has what the base asks for and nothing else: no network is needed."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    room = tmp_path / "base"
    venv.create(room, with_pip=False, symlinks=True)
    (site,) = room.glob("lib/python*/site-packages")
    for one in distributions(BASE):
        for top in {Path(str(file)).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(str(one.locate_file(top))).resolve())
    python = str(room / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    assert subprocess.run([*pip, "check"], check=False, capture_output=True).returncode == 0, "the base lacks something"

    code = """if True:
        import importlib.util, sys
        from joingate_producers import Executor, Planner
        from joingate_schemas.catalogue_file import builtin_catalogue
        from joingate_schemas.claims import Close
        from joingate_schemas.codec import Codec
        claim = Close(claim_id="c", intent_id="acme/1")
        assert Codec().decode(Codec().encode(claim)) == claim
        assert builtin_catalogue().actions
        print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name)])
    """
    heavy = sorted(import_names(EXTRAS) - import_names(BASE))
    # -I: neither this tree nor the environment's own paths are looked at.
    done = subprocess.run([python, "-I", "-c", code, *heavy], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    told = subprocess.run([room / "bin" / "joingate"], capture_output=True, text=True, check=False, env={})
    assert told.returncode == 1
    assert told.stderr.endswith('pip install "joingate[all]".\n')
