"""The room for what a connection has to be told: where the broker is, which topics, who speaks, how long to wait."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from joingate_producers.errors import JoinGateError

# Each setting that the environment can give, where the caller gives none.
ENVIRONMENT: dict[str, str] = {
    "bootstrap_servers": "BOOTSTRAP_SERVERS",
    "prefix": "JOINGATE_PREFIX",
    "registry_url": "SCHEMA_REGISTRY_URL",
    "principal": "JOINGATE_PRINCIPAL",
    "client_id": "JOINGATE_CLIENT_ID",
    "state_dir": "JOINGATE_STATE_DIR",
    "api_url": "JOINGATE_API_URL",
    "key_file": "JOINGATE_KEY_FILE",
}


def _default_state_dir() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "joingate"


class Settings(BaseModel):
    """Everything that a `Connection` can be told. Times are in seconds, sizes in bytes.

    `delivery_timeout_s` 0 lets the client library keep a claim for as long as the broker is away, which also keeps
    an intent's claims in order. With a limit, a claim that ran into it is sent again, and a later claim of the same
    intent may overtake it. `verdicts` false spares a client that never asks for a verdict the reading of the ledger.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(default="127.0.0.1:9092", min_length=1)
    prefix: str = "joingate."
    registry_url: str | None = None
    principal: str = ""
    client_id: str = ""
    # A private key, as `joingate keys new` makes it, by which every claim of this connection is signed.
    key_file: Path | None = None
    # Further librdkafka settings, such as credentials, for every client of this connection.
    client: dict[str, str] = {}
    state_dir: Path = Field(default_factory=_default_state_dir)
    verdicts: bool = True
    verdict_timeout_s: float = Field(default=30.0, gt=0)
    close_timeout_s: float = Field(default=10.0, gt=0)
    request_timeout_s: float = Field(default=5.0, gt=0)
    delivery_timeout_s: float = Field(default=0.0, ge=0)
    in_flight_max: int = Field(default=10_000, ge=1)
    # Where the read side answers, for what is asked of it and not of the broker.
    api_url: str = "http://127.0.0.1:8080"
    outbox_claims_max: int = Field(default=10_000, ge=1)

    @property
    def name(self) -> str:
        """What this client calls itself at the broker and in the names of its outbox files."""
        return self.client_id or self.principal or "joingate-client"


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings `given`, then those of the environment (ENVIRONMENT), then the defaults.

    Raises JoinGateError with one sentence for a setting that does not fit.
    """
    env = os.environ if environment is None else environment
    from_env = {name: env[variable] for name, variable in ENVIRONMENT.items() if env.get(variable)}
    try:
        return Settings(**{**from_env, **given})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        variable = ENVIRONMENT.get(name)
        came = f" (from {variable})" if variable and name not in given else ""
        raise JoinGateError(f"The setting {name}{came} does not fit: {first['msg']}.") from error
