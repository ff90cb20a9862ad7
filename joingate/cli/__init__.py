"""The command line `joingate`. Each command imports what it needs when it runs, so that it starts fast."""

from joingate.cli.app import app, main

__all__ = ["app", "main"]
