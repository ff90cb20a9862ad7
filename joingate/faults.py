"""The room for what the face says when something is wrong: one sentence and an exit code, never a traceback."""

FAILED = 1
"""Exit code: it failed, or the gate said no."""
MALFORMED = 2
"""Exit code: the command line, or a file that was given, is not as it must be."""
INTERRUPTED = 130
"""Exit code: Ctrl-C, or another wish to end, came before it was done."""


class FaceError(Exception):
    """Something a person can act on. `str()` is a sentence; `exit_code` is FAILED or MALFORMED."""

    def __init__(self, sentence: str, exit_code: int = FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
