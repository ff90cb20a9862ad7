"""The command line `joingate`. Each command imports what it needs when it runs, so that it starts fast."""

import sys

try:
    from joingate.cli.app import app, main
except ModuleNotFoundError as error:
    # The base install is the SDK alone, and the script comes with it.
    if error.name is None or error.name.startswith("joingate"):
        raise
    _missing = error.name

    def main() -> None:
        """Say what the command line needs, and end with 1."""
        print(f'joingate: The command line needs {_missing}: pip install "joingate[all]".', file=sys.stderr)
        sys.exit(1)


__all__ = ["app", "main"]
