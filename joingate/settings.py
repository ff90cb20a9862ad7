"""The room for the settings that all processes of Join Gate share, read from the environment.

Each is the variable JOINGATE_<NAME>, but for BOOTSTRAP_SERVERS and SCHEMA_REGISTRY_URL, which other tools of a
Kafka deployment read too. What is given on the command line goes before the environment.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from joingate.faults import MALFORMED, FaceError
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import CatalogueError, builtin_catalogue, load_catalogue
from joingate_schemas.topics import PARTITIONS_DEFAULT, Topics


def _state_dir() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "joingate"


class Settings(BaseSettings):
    """Everything that a process can be told by its environment."""

    model_config = SettingsConfigDict(env_prefix="JOINGATE_", extra="ignore", frozen=True, populate_by_name=True)

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
    catalogue: str = Field(
        default="builtin", min_length=1, description="A catalogue's file, or `builtin`, or `demo` (as `up` uses it)."
    )
    downstreams: dict[str, str] = Field(
        default_factory=dict, description="Where the reconciler asks: base URL by downstream, as JSON."
    )
    host: str = Field(default="127.0.0.1", description="The address that HTTP servers of this process listen on.")
    port: int = Field(default=8080, ge=0, le=65_535, description="The API's port; 0 takes a free one.")
    api_url: str = Field(default="http://127.0.0.1:8080", description="Where `status` and `explain` ask.")

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
