"""An operator that cannot start says so in a line."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from apiserver import free_port


async def start(**changes: str) -> tuple[int | None, str]:
    """Exit code and log."""
    environment = os.environ | {
        "ROWEN_RUNTIME_IMAGE": "registry.test/runtime:1",
        "ROWEN_METRICS_PORT": str(free_port()),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **changes,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.operator", env=environment, stderr=subprocess.PIPE
    )
    _, log = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, log.decode()


async def test_without_a_login_it_ends_with_a_message(tmp_path: Path) -> None:
    code, log = await start(KUBECONFIG=str(tmp_path / "none"))
    assert code == 1
    assert "no way to the API server" in log
    assert "Traceback" not in log


async def test_wrong_settings_end_it_with_a_message() -> None:
    code, log = await start(ROWEN_METRICS_PORT="none")
    assert code == 2
    (line,) = log.splitlines()
    assert "ROWEN_METRICS_PORT: " in json.loads(line)["error"]
