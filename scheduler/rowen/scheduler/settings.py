"""Settings from the environment."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rowen.scheduler.policy import Policy

_PREFIX = "ROWEN_SCHEDULER_"


class Settings(BaseModel):
    """What the process is told."""

    model_config = ConfigDict(frozen=True)

    namespace: str = "rowen-system"
    """Namespace of the scheduler and of its ConfigMap."""
    port: Annotated[int, Field(ge=1, le=65535)] = 9090
    """HTTP port."""
    policy: Policy = Policy()
    """The policies' numbers."""


def from_environment(environment: Mapping[str, str]) -> Settings:
    """POD_NAMESPACE, ROWEN_SCHEDULER_PORT, and ROWEN_SCHEDULER_<NAME> for every number of `Policy`.

    Raises `pydantic.ValidationError` that names the variable's field.
    """
    named = {key.removeprefix(_PREFIX).lower(): value for key, value in environment.items() if key.startswith(_PREFIX)}
    values: dict[str, object] = {"port": named.pop("port")} if "port" in named else {}
    if "POD_NAMESPACE" in environment:
        values["namespace"] = environment["POD_NAMESPACE"]
    return Settings.model_validate({**values, "policy": named})
