"""The room that keeps child processes: starts them, hears what they say, and ends them, whatever happens to us.

A child's standard input is a pipe whose other end only we hold, so that the kernel tells it when we are gone. Its
status lines and its log are files in the run's folder. No child is started again: one that ends is said so.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from joingate.faults import FaceError
from joingate.services import PARENT_PIPE

STOP_S_MAX = 15.0
TAIL_LINES = 6
_LOOK_S = 0.05


class ChildDied(FaceError):
    """A child ended that should have gone on; the text says which, how, and what it said last."""


class Child:
    """One child: `python -m joingate <arguments> --json`."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], run_dir: Path) -> None:
        self.name = name
        self._said = run_dir / f"{name}.status"
        self._log = run_dir / f"{name}.log"
        with self._said.open("wb") as said, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "joingate", *arguments, "--json"],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=log,
                env={**os.environ, **environment, PARENT_PIPE: "1"},
                # Out of the terminal's process group: Ctrl-C is for us, and we end the children in order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def status(self) -> dict[str, Any]:
        """What it said last of itself; empty before it said anything."""
        lines = self._said.read_bytes().split(b"\n")[:-1]  # what has no line end yet is still being written
        row: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return row

    def check(self) -> None:
        """Raises ChildDied if it has ended."""
        code = self._process.poll()
        if code is not None:
            how = f"ended with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
            raise ChildDied(f"The process `{self.name}` {how}. {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-TAIL_LINES:]
        return (
            f"Its log ends:\n  {chr(10).join(lines).replace(chr(10), chr(10) + '  ')}" if lines else "It said nothing."
        )

    def ask_to_end(self) -> None:
        """Send it SIGTERM, if it runs."""
        if self._process.poll() is None:
            self._process.terminate()

    def end(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic, seconds) for its end, and kill it then. Whether it ended by itself."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
            in_order = True
        except subprocess.TimeoutExpired:
            self.kill()
            in_order = False
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        return in_order

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Crew:
    """The children of one run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._children: list[Child] = []

    def start(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Child:
        """Start one more."""
        child = Child(name, arguments, environment, self._run_dir)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raises ChildDied about the first that has ended."""
        for child in self._children:
            child.check()

    def wait_ready(self, child: Child, limit_s: float, stopped: Callable[[], bool]) -> dict[str, Any]:
        """The child's status, once it says that it is ready. Raises FaceError at the limit, ChildDied if one ends."""
        deadline = time.monotonic() + limit_s
        while not (status := child.status).get("ready"):
            self.check()
            if stopped():
                return status
            if time.monotonic() > deadline:
                said = status.get("sentence") or status.get("state") or "nothing"
                raise FaceError(f"The process `{child.name}` was not ready within {limit_s:.0f} s; it said: {said}.")
            time.sleep(_LOOK_S)
        return status

    def stop(self) -> list[str]:
        """End all, the last started first to hear of it; returns the names of those that had to be killed."""
        for child in reversed(self._children):
            child.ask_to_end()
        deadline = time.monotonic() + STOP_S_MAX
        return [child.name for child in self._children if not child.end(deadline)]

    def kill(self) -> None:
        """End all at once."""
        for child in self._children:
            child.kill()
