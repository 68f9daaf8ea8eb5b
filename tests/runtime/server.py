"""A real vLLM API server, on a device or not."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from rowen.cluster.bare.server import free_port
from rowen.node_agent.devices.plugin_files import install_plugin
from rowen.node_agent.native import library_path

START_SECONDS = 400.0
UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


def environment(**more: str) -> dict[str, str]:
    """Environment of a process that imports what this one imports."""
    settings = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return {**os.environ, **settings, **more}


def on_device(door: Path | str, folder: Path) -> dict[str, str]:
    """What the device plugin gives an engine whose image has nothing of Rowen's, nor what Rowen needs beside vLLM.

    `door`: the device's socket; of several devices all, separated by colons. `folder`: for the files, a new one.
    """
    install_plugin(folder)
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(httpx.__file__).parents[1].iterdir():
        if not path.name.startswith(("__", "rowen", "structlog")):
            (packages / path.name).symlink_to(path)
    path = os.pathsep.join((str(folder / "plugin"), str(packages)))
    return {"ROWEN_LIBRARY": str(library_path()), "ROWEN_ENGINE_SOCKET": str(door), "PYTHONPATH": path}


@contextmanager
def serving(model: Path, log: Path, arguments: list[str], **more: str) -> Iterator[httpx.Client]:
    """A client of a server that is ready; the server is ended afterwards."""
    port = free_port()
    # Of the environment that this process runs in only what PYTHONPATH names.
    command = [sys.executable, "-S", "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    # In bfloat16 an engine of a model this small was seen to end with SIGILL in its AMX attention.
    command += ["--dtype", "float32", "--kv-cache-memory-bytes", "64M", "--distributed-executor-backend", UNIPROC]
    command += arguments
    with log.open("w") as stream:
        process = subprocess.Popen(command, env=environment(**more), stdout=stream, stderr=stream)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            _wait_ready(process, client, log)
            yield client
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", client: httpx.Client, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"the server is not ready:\n{log.read_text()[-4000:]}")
