"""Settings from the environment."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from rowen.scheduler.policy import Policy

_PREFIX = "ROWEN_SCHEDULER_"
_OWN = frozenset({"port", "api_port", "tls_folder"})


class _PolicyNumbers(PydanticBaseSettingsSource):
    """Every variable with the prefix that is no setting of the process itself is a number of the policies.

    So a name that no policy has is refused, not passed over.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        named = {
            name.removeprefix(_PREFIX).lower(): value for name, value in os.environ.items() if name.startswith(_PREFIX)
        }
        return {"policy": {name: value for name, value in named.items() if name not in _OWN}}


class Settings(BaseSettings):
    """What the process is told.

    POD_NAMESPACE, ROWEN_AGENT_NAMESPACE, ROWEN_SCHEDULER_PORT, ROWEN_SCHEDULER_API_PORT, ROWEN_SCHEDULER_TLS_FOLDER,
    and ROWEN_SCHEDULER_<NAME> for every number of `Policy`.
    """

    model_config = SettingsConfigDict(frozen=True, env_prefix=_PREFIX)

    namespace: Annotated[str, Field(validation_alias="POD_NAMESPACE", min_length=1)] = "rowen-system"
    """Namespace of the scheduler, of its ConfigMap and of its lease."""
    agent_namespace: Annotated[str, Field(validation_alias="ROWEN_AGENT_NAMESPACE", min_length=1)] = "rowen-agent"
    """Where the nodes' heartbeats are: the agents' namespace."""
    port: Annotated[int, Field(ge=1, le=65535)] = 9090
    """Port of health and metrics."""
    api_port: Annotated[int, Field(ge=1, le=65535)] = 9091
    """Port of the API, to which the Service leads; TLS alone."""
    tls_folder: Path | None = None
    """Where `tls.crt` and `tls.key` of the API are; made at start where absent."""
    policy: Annotated[Policy, NoDecode] = Policy()
    """The policies' numbers."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment and nothing else."""
        return env_settings, _PolicyNumbers(settings_cls)
