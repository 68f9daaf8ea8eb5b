"""The operator's settings, from the environment."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What may be set from outside: POD_NAMESPACE, and each other field by `ROWEN_` and its name. Times are seconds."""

    model_config = SettingsConfigDict(env_prefix="ROWEN_", frozen=True, extra="forbid", allow_inf_nan=False)

    namespace: str | None = Field(default=None, min_length=1, validation_alias="POD_NAMESPACE")
    """Where its lease is; by default where the login says that one is."""
    agent_namespace: str = Field(default="rowen-agent", min_length=1)
    """Where the nodes' heartbeats are: the agents' namespace."""
    runtime_image: str = Field(min_length=1)
    """Image of engines and workers."""
    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Port of the Prometheus metrics."""
    health_port: int = Field(default=8080, ge=1, le=65535)
    """Port of `/healthz`."""
    workers: int = Field(default=8, ge=1, le=64)
    """Objects reconciled at once."""
    resync_seconds: float = Field(default=30.0, gt=0)
    """Time between two full listings."""
    start_deadline_seconds: float = Field(default=600.0, gt=0)
    """Longest start of a job's pod where nobody says what is wrong."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """Least level of what is logged."""
