"""The keeper of processes: children end with their parent, and one that ends by itself is told with its last words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from joingate.processes import ChildDied, Crew

from .conftest import is_running, wait_until

# A service that stays up without a broker: it waits for one.
PATIENT = ["reconcile"]
ENVIRONMENT = {"BOOTSTRAP_SERVERS": "127.0.0.1:1"}


def test_a_child_ends_in_order_when_asked(tmp_path: Path) -> None:
    """Nothing had to be killed, and nothing is left."""
    crew = Crew(tmp_path)
    child = crew.start("patient", PATIENT, {**ENVIRONMENT, "JOINGATE_DATA_DIR": str(tmp_path)})
    wait_until(lambda: child.status, what="its first words")
    assert crew.stop() == []
    assert not is_running(child.pid)


def test_a_child_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    """A gate without a broker ends, and the sentence says which process, how, and what it said."""
    crew = Crew(tmp_path)
    child = crew.start("patient", PATIENT, {**ENVIRONMENT, "JOINGATE_DATA_DIR": str(tmp_path)})
    wait_until(lambda: child.status, what="its first words")
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match="`patient` was ended by SIGKILL"):
        wait_until(lambda: crew.check())
    crew.stop()


def test_a_child_that_can_not_start_is_told_with_its_sentence(tmp_path: Path) -> None:
    """What it complained of is in the sentence."""
    crew = Crew(tmp_path)
    crew.start("gate", ["gate", "--catalogue", str(tmp_path / "none.yaml")], ENVIRONMENT)
    with pytest.raises(ChildDied, match=r"(?s)`gate` ended with 2.*none\.yaml"):
        wait_until(lambda: crew.check())
    crew.stop()


def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Kill -9 on the parent: the kernel closes their pipe, and they end."""
    script = textwrap.dedent(
        f"""
        import signal
        import time
        from pathlib import Path
        from joingate.processes import Crew

        crew = Crew(Path({str(tmp_path)!r}))
        child = crew.start("patient", {PATIENT!r}, {{**{ENVIRONMENT!r}, "JOINGATE_DATA_DIR": {str(tmp_path)!r}}})
        while not child.status:
            time.sleep(0.05)
        print(child.pid, flush=True)
        signal.pause()
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_running(pid), what="the orphan to end")
