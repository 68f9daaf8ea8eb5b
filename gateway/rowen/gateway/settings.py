"""Settings from the environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from rowen.crds.base import NAME_PATTERN
from rowen.crds.job.place import WritableUri


class Settings(BaseSettings):
    """What the process is told: ROWEN_GATEWAY_<NAME>."""

    model_config = SettingsConfigDict(frozen=True, env_prefix="ROWEN_GATEWAY_", env_ignore_empty=True)

    port: Annotated[int, Field(ge=1, le=65535)] = 9091
    """Port of the API; TLS alone."""
    metrics_port: Annotated[int, Field(ge=1, le=65535)] = 9090
    """Port of the metrics, in clear."""
    tls_folder: Path
    """Where `tls.crt` and `tls.key` are."""
    storage_uri: WritableUri
    """Under which address files are, e.g. `s3://bucket/prefix`."""
    storage_secret_folder: Path | None = None
    """A file for each key of the Secret with the gateway's own credentials; the pod's identity where absent."""
    job_secret_name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=253)] | None = None
    """Secret in each user's namespace with credentials for the same storage, for jobs; their pods' identity where
    absent."""
    most_file_bytes: Annotated[int, Field(ge=1)] = 200 * 2**20
    """The largest upload."""
    most_rows: Annotated[int, Field(ge=1)] = 50_000
    """The most rows of a batch."""
    most_uploads: Annotated[int, Field(ge=1)] = 4
    """Uploads at once: each has its file on the gateway's own disk for a while."""
    most_namespace_uploads: Annotated[int, Field(ge=1)] = 2
    """Of these, those of one namespace."""
    silence_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    """So long nothing may come of a body that is not whole."""
    least_bytes_per_second: Annotated[int, Field(ge=0)] = 2**16
    """How fast a body has to come, over each stretch of `silence_seconds`."""
