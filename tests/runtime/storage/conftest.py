"""Fixtures: Secrets as the kubelet mounts them."""

from pathlib import Path

import pytest
from s3 import S3Server

from rowen.runtime.storage import credentials

SECRET = "team-data"


@pytest.fixture
def secrets(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Secrets are mounted; `team-data` has the server's credentials."""
    folder = tmp_path / "secrets"
    s3_server.secret(folder / SECRET)
    monkeypatch.setattr(credentials, "SECRETS_DIRECTORY", str(folder))
    return folder
