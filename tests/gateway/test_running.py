"""How a gateway is put together: it signs with the key that the settings name, so that the gate knows who vouches."""

from pathlib import Path
from typing import Any

import pytest

from joingate.gateway import running
from joingate.settings import Settings


class Recorded:
    """A connection that keeps what it was made with and connects to nothing."""

    made: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        type(self).made = given

    def __enter__(self) -> "Recorded":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("key", ["gateway.key", None])
def test_it_signs_with_the_key_of_its_settings_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str | None
) -> None:
    monkeypatch.setattr(running, "Connection", Recorded)
    wanted = None if key is None else tmp_path / key
    with running.made_gateway(Settings(data_dir=tmp_path, key_file=wanted)):
        assert Recorded.made["key_file"] == wanted
