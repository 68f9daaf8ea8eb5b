"""An operator that cannot start says so in a line."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from apiserver import free_port


async def test_without_a_login_it_ends_with_a_message(tmp_path: Path) -> None:
    environment = os.environ | {
        "KUBECONFIG": str(tmp_path / "none"),
        "ROWEN_RUNTIME_IMAGE": "registry.test/runtime:1",
        "ROWEN_METRICS_PORT": str(free_port()),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.operator", env=environment, stderr=subprocess.PIPE
    )
    _, log = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert "no way to the API server" in log.decode()
    assert "Traceback" not in log.decode()
