"""What docs/batch-api.md shows is run as it stands there."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gateway.conftest import Team
from gateway.rig import Gateway

from rowen.crds.generate import REPOSITORY

URL = "https://rowen-gateway.rowen-system.svc/namespaces/team-a/v1"


def block(language: str) -> str:
    text = (REPOSITORY / "docs" / "batch-api.md").read_text()
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


async def test_the_snippet_runs(team: Team, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    snippet = block("python")
    assert URL in snippet
    snippet = snippet.replace(URL, gateway.url(team.namespace)).replace("TOKEN", repr(team.token))
    (tmp_path / "requests.jsonl").write_text(block("json"))
    json.loads(block("json"))
    monkeypatch.setenv("SSL_CERT_FILE", str(gateway.certificate))
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("validating ")
    (batch,) = team.client.batches.list()
    assert (batch.model, batch.completion_window) == ("chat", "24h")
