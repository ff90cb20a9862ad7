"""Runs the sample bank: `python -m joingate.sample.bank --port 0 --ledger bank.jsonl`.

From Python: `serve` runs it in this process until it is told to stop, `BankProcess` as a child process.
"""

import argparse
import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from joingate.sample.app import Lines, make_app
from joingate.sample.core import Bank, BankOptions
from joingate.sample.faults import Faults
from joingate.sample.process import READY, BankProcess
from joingate.sample.store import Ledger, LedgerBusy, LedgerDamaged

__all__ = ["BankOptions", "BankProcess", "main", "serve"]

PR_SET_PDEATHSIG = 1


class _Server(uvicorn.Server):
    """Says when it answers, which the base class only logs."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def serve(
    port: int,
    ledger: Path,
    ready_callback: Callable[[str], None],
    *,
    host: str = "127.0.0.1",
    options: BankOptions | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; `ready_callback` gets the address once it answers. Port 0 takes a free one.

    Raises LedgerBusy or LedgerDamaged when the ledger cannot be opened, OSError when the port cannot be had.
    """
    with Ledger(ledger) as opened, socket.create_server((host, port)) as listening:
        if opened.repaired is not None:
            print(opened.repaired, file=sys.stderr, flush=True)
        bank = Bank(opened, options or BankOptions())
        lines = Lines()
        config = uvicorn.Config(
            make_app(bank, Faults(), lines),
            http=_protocol(lines),
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            # Clients that are being kept waiting on purpose must not keep the bank from stopping.
            timeout_graceful_shutdown=1,
        )
        address = f"http://{host}:{listening.getsockname()[1]}"
        asyncio.run(_Server(config, lambda: ready_callback(address)).serve(sockets=[listening]))


def _protocol(lines: Lines) -> type[asyncio.Protocol]:
    class KnownLine(H11Protocol):
        """HTTP over a connection that can be cut by the client's address."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
            lines.opened(transport)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            lines.closed(self.transport)
            super().connection_lost(exc)

    return KnownLine


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.parent is not None:
        _die_with_parent(asked.parent, asked.parent_signal)
    options = BankOptions(asked.core_dedupe_fees, asked.key_horizon_s, asked.hold_s_max)
    try:
        serve(
            asked.port,
            asked.ledger,
            lambda url: print(f"{READY}{url}", flush=True),
            host=asked.host,
            options=options,
        )
    except KeyboardInterrupt:
        return 130
    except (LedgerBusy, LedgerDamaged, OSError) as error:
        print(f"the sample bank cannot start: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    usual = BankOptions()
    parser = argparse.ArgumentParser(prog="python -m joingate.sample.bank", description="A small bank to act on.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--ledger", type=Path, required=True, help="the ledger file, made if missing")
    parser.add_argument("--core-dedupe-fees", action="store_true", help="let a fee be reversed once ever")
    parser.add_argument(
        "--key-horizon-s", type=float, default=usual.key_horizon_s, help="seconds for which keys are recognised"
    )
    parser.add_argument(
        "--hold-s-max", type=float, default=usual.hold_s_max, help="seconds to hold a caller who gets no answer"
    )
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parent-signal", action="store_true", help=argparse.SUPPRESS)
    return parser


def _die_with_parent(parent: int, by_signal: bool) -> None:
    """End this process when its parent ends, however that comes about."""
    if by_signal and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the signal was asked for.
    if os.getppid() != parent:
        os._exit(1)
    # Standard input is a pipe that only the parent holds: its end is the parent's end, on every system.
    threading.Thread(target=_exit_at_end_of_input, name="parent-watch", daemon=True).start()


def _exit_at_end_of_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
