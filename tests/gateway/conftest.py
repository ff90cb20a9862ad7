"""What the gateway's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from joingate.scenarios.world import demo_catalogue

from .law_in_memory import LawInMemory


@pytest.fixture
def law(tmp_path: Path) -> Iterator[LawInMemory]:
    """The law in memory, under the demonstration's catalogue."""
    one = LawInMemory(tmp_path, demo_catalogue())
    yield one
    one.close()
