"""The room for the settings that all processes of Join Gate share, read from the environment.

Each is the variable JOINGATE_<NAME>, but for BOOTSTRAP_SERVERS and SCHEMA_REGISTRY_URL, which other tools of a
Kafka deployment read too. What is given on the command line goes before the environment.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from joingate.faults import MALFORMED, FaceError
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import CatalogueError, builtin_catalogue, load_catalogue
from joingate_schemas.topics import PARTITIONS_DEFAULT, Topics

PORT_MAX = 65_535


def _state_dir() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "joingate"


class Settings(BaseSettings):
    """Everything that a process can be told by its environment."""

    # What is set to nothing counts as not set, as in most shells' scripts.
    model_config = SettingsConfigDict(
        env_prefix="JOINGATE_", extra="ignore", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        min_length=1,
        validation_alias=AliasChoices("BOOTSTRAP_SERVERS"),
        description="Kafka's address, host:port, several with commas.",
    )
    registry_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("SCHEMA_REGISTRY_URL"),
        description="The root of a schema registry's API. Without one, schemas travel on a topic.",
    )
    prefix: str = Field(default="joingate.", description="What the names of all topics and groups begin with.")
    partitions: int = Field(
        default=PARTITIONS_DEFAULT, ge=1, description="Partitions of each topic; never changed once they are created."
    )
    client: dict[str, str] = Field(
        default_factory=dict, description="Further librdkafka settings as JSON, such as credentials."
    )
    data_dir: Path = Field(
        default_factory=_state_dir, description="Where processes keep their state, each in a folder of its own."
    )
    gate_status: Path | None = Field(
        default=None,
        description="The gate's status file, for `serve` and `status`; else gate/status.json in the data folder.",
    )
    catalogue: str = Field(
        default="builtin", min_length=1, description="A catalogue's file, or `builtin`, or `demo` (as `up` uses it)."
    )
    downstreams: dict[str, str] = Field(
        default_factory=dict, description="Where the reconciler asks: base URL by downstream, as JSON."
    )
    key_file: Path | None = Field(
        default=None, description="A private key, of `keys new`, by which this process signs what it claims."
    )
    host: str = Field(default="127.0.0.1", description="The address that HTTP servers of this process listen on.")
    port: int = Field(default=8080, ge=0, le=PORT_MAX, description="The API's port; 0 takes a free one.")
    api_url: str = Field(default="http://127.0.0.1:8080", description="Where `status` and `explain` ask.")

    gateway_port: int = Field(
        default=8090, ge=0, le=PORT_MAX, description="The agents' gateway's port; 0 takes a free one."
    )
    gateway_tokens: Path | None = Field(
        default=None, description="The gateway's file of tokens; else gateway/tokens.jsonl in the data folder."
    )
    gateway_token: str = Field(default="", description="The token of the one client of `gateway --stdio`.")
    gateway_calls: float = Field(default=600.0, gt=0, description="Calls a minute that each tenant may make.")
    gateway_open: int = Field(default=400, ge=1, le=500, description="Wishes that each tenant may have under way.")

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, text: str) -> str:
        for address in text.split(","):
            host, colon, port = address.strip().rpartition(":")
            if not colon or not host.rpartition("://")[2] or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
                raise PydanticCustomError(
                    "address",
                    "{address} is no host:port with a port from 1 to 65535; an example is 127.0.0.1:9092",
                    {"address": address.strip() or "nothing between commas"},
                )
        return text

    @property
    def topics(self) -> Topics:
        """The topics under `prefix`."""
        return Topics(self.prefix)


def load_settings(**given: Any) -> Settings:
    """The settings of the environment, with those `given` that are not None before them. Raises FaceError."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = _variable(str(first["loc"][0])) if first["loc"] else "the environment"
        raise FaceError(f"The setting {name} does not fit: {_lower(first['msg'])}.", MALFORMED) from error
    except SettingsError as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        raise FaceError(f"The environment does not fit: {_lower(str(error))}{cause}.", MALFORMED) from error


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _variable(name: str) -> str:
    field = Settings.model_fields.get(name)
    if field is None:
        return name
    alias = field.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"JOINGATE_{name.upper()}"


def variables() -> Mapping[str, str]:
    """What each environment variable is for, by its name; for the documentation."""
    return {_variable(name): field.description or "" for name, field in Settings.model_fields.items()}


def exports(settings: Settings) -> str:
    """What a shell has to export so that other commands and clients find what runs under these settings."""
    told = {
        "BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "JOINGATE_API_URL": settings.api_url,
        "JOINGATE_CATALOGUE": settings.catalogue,
    }
    fields = Settings.model_fields
    if settings.prefix != fields["prefix"].default:
        told["JOINGATE_PREFIX"] = settings.prefix
    if settings.partitions != fields["partitions"].default:
        told["JOINGATE_PARTITIONS"] = str(settings.partitions)
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())


def find_catalogue(name: str) -> Catalogue:
    """The catalogue called `builtin` or `demo`, or the one in the file `name`. Raises FaceError with its mistakes."""
    if name == "builtin":
        return builtin_catalogue()
    if name == "demo":
        # The scenarios' own, which nothing else needs to load.
        from joingate.scenarios.world import demo_catalogue

        return demo_catalogue()
    try:
        return load_catalogue(Path(name))
    except CatalogueError as error:
        raise FaceError(str(error), MALFORMED) from error
