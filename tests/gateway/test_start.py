"""What keeps the gateway from starting is one line, and says what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import issued


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tls").mkdir()
    issued(tmp_path / "tls")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "AWS_ACCESS_KEY_ID").write_text("a")
    return {
        "TLS_FOLDER": str(tmp_path / "tls"),
        "STORAGE_URI": "s3://bucket/prefix",
        "STORAGE_SECRET_FOLDER": str(tmp_path / "secret"),
    }


def start(settings: dict[str, str], tmp_path: Path) -> tuple[int, str]:
    """Exit code, and the last line of the log."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ROWEN_GATEWAY_")}
    environment |= {f"ROWEN_GATEWAY_{name}": value for name, value in settings.items()}
    environment["KUBECONFIG"] = str(tmp_path / "none")
    command = [sys.executable, "-m", "rowen.gateway"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    (line,) = done.stderr.splitlines()
    return done.returncode, json.loads(line)["error"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("STORAGE_URI", "http://bucket", "ROWEN_GATEWAY_STORAGE_URI"),
        ("MOST_ROWS", "0", "ROWEN_GATEWAY_MOST_ROWS"),
        ("TLS_FOLDER", "/nowhere", "ROWEN_GATEWAY_TLS_FOLDER (/nowhere): [Errno 2] No such file"),
        (
            "STORAGE_SECRET_FOLDER",
            "/nowhere",
            "ROWEN_GATEWAY_STORAGE_SECRET_FOLDER (/nowhere): /nowhere has no key for s3:// (expected one of AWS",
        ),
        ("STORAGE_URI", "gs://bucket", "has no key for gs:// (expected one of service-account.json)"),
    ],
)
def test_what_is_wrong_is_told(settings: dict[str, str], tmp_path: Path, name: str, value: str, words: str) -> None:
    code, error = start({**settings, name: value}, tmp_path)
    assert (code, words in error) == (2, True), error


def test_nobody_says_where_the_api_server_is(settings: dict[str, str], tmp_path: Path) -> None:
    code, error = start(settings, tmp_path)
    assert code == 1
    assert "kube-config" in error
