"""The sample bank as a child process, for tests and demonstrations that kill it and start it again."""

import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

READY = "sample bank ready at "
"""The line that the bank prints when it answers, before its address."""


class BankDidNotStart(Exception):
    """The child ended, or said nothing, before it was ready; its own words are on standard error."""


class BankProcess:
    """A context manager: the bank answers at `url` from entry on, and is gone at exit.

    The child dies with this process, even if this process is killed.
    """

    def __init__(
        self,
        ledger: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        core_dedupe_fees: bool = False,
        key_horizon_s: float | None = None,
        hold_s_max: float | None = None,
        ready_s_max: float = 30.0,
    ) -> None:
        self.ledger = ledger
        self._host = host
        self._port = port
        self._ready_s_max = ready_s_max
        self._options = ["--core-dedupe-fees"] if core_dedupe_fees else []
        if key_horizon_s is not None:
            self._options += ["--key-horizon-s", str(key_horizon_s)]
        if hold_s_max is not None:
            self._options += ["--hold-s-max", str(hold_s_max)]
        self._child: subprocess.Popen[bytes] | None = None
        self._url: str | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The bank's address; the same after a restart."""
        if self._url is None:
            raise RuntimeError("the sample bank was not started")
        return self._url

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the child and wait until it answers. Raises BankDidNotStart."""
        if self._child is not None:
            raise RuntimeError("the sample bank runs already")
        command = [sys.executable, "-m", "joingate.sample.bank", "--host", self._host, "--port", str(self._port)]
        command += ["--ledger", str(self.ledger), "--parent", str(os.getpid()), *self._options]
        # The kernel's signal is tied to the thread that starts the child, so it suits only one that lasts.
        if threading.current_thread() is threading.main_thread():
            command.append("--parent-signal")
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self._url = self._await_ready(self._child)
        except BaseException:
            self.kill()
            raise
        self._port = int(self._url.rpartition(":")[2])

    def kill(self) -> None:
        """End the child at once, as kill -9 does."""
        if self._child is not None:
            self._child.kill()
            self._reap(self._child)

    def stop(self, wait_s: float = 5.0) -> None:
        """Ask the child to end, and kill it if it does not."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._reap(self._child)

    def restart(self) -> None:
        """Kill the child if it runs, and start it again at the same address over the same ledger."""
        self.kill()
        self.start()

    def _reap(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        self._child = None

    def _await_ready(self, child: subprocess.Popen[bytes]) -> str:
        assert child.stdout is not None
        line = _read_line(child.stdout, self._ready_s_max)
        if not line.startswith(READY):
            raise BankDidNotStart(f"the sample bank was not ready within {self._ready_s_max} s (it said {line!r})")
        return line.removeprefix(READY)


def _read_line(pipe: IO[bytes], wait_s: float) -> str:
    """One line from the pipe, or what came of it until the pipe or the time ended."""
    deadline_s = time.monotonic() + wait_s
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not said.endswith(b"\n") and selector.select(max(0.0, deadline_s - time.monotonic())):
            # Byte by byte, past Python's buffer, which the selector cannot see into.
            byte = os.read(pipe.fileno(), 1)
            if not byte:
                break
            said += byte
    return said.decode().rstrip("\n")
