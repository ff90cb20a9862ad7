"""Everything in this folder needs a real Kafka, so it is marked `broker` here rather than file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder only: pytest hands every collected test to this hook."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)
