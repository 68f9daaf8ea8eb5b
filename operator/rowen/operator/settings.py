"""The operator's settings, from the environment."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """What may be set from outside. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime_image: str = Field(min_length=1)
    """Image of engines and workers: `ROWEN_RUNTIME_IMAGE`."""
    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """`ROWEN_METRICS_PORT`."""
    health_port: int = Field(default=8080, ge=1, le=65535)
    """`ROWEN_HEALTH_PORT`."""
    workers: int = Field(default=8, ge=1, le=64)
    """Objects reconciled at once: `ROWEN_WORKERS`."""
    resync_seconds: float = Field(default=30.0, gt=0)
    """Time between two full listings: `ROWEN_RESYNC_SECONDS`."""
    start_deadline_seconds: float = Field(default=600.0, gt=0)
    """Longest start of a job's pod where nobody says what is wrong: `ROWEN_START_DEADLINE_SECONDS`."""
    log_level: str = "INFO"
    """`ROWEN_LOG_LEVEL`."""


def settings_from(environment: Mapping[str, str]) -> Settings:
    """Settings from `ROWEN_…` variables. Raises `pydantic.ValidationError` that names the setting."""
    values = {
        name: environment[f"ROWEN_{name.upper()}"]
        for name in Settings.model_fields
        if f"ROWEN_{name.upper()}" in environment
    }
    return Settings.model_validate(values)
