"""Servers that benchmarks start as processes of their own."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from rowen.crds.names import PYTHON_PATH_ENV
from rowen.node_agent.devices.plugin_files import PLUGIN, install_plugin

ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Of vLLM on one core."""
MODEL_PROCESS = b"VLLM::EngineCore"
"""Name of the process of a vLLM server that runs the model."""


@contextlib.contextmanager
def every_core(core: int) -> Iterator[None]:
    """What is started meanwhile may use the core too."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own | {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def answers(url: str) -> bool:
    """Whether a server is ready."""
    try:
        return httpx.get(f"{url}/health", trust_env=False, timeout=2, verify=False).is_success
    except httpx.HTTPError:
        return False


def start(folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a server or a tenant, which writes to `NAME.log` in the folder."""
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            # A group to end as one, but of this session: the kernel shares a core out by session, and between
            # two of them it let an engine that sleeps for moments all but starve a tenant of the same weight.
            process_group=0,
            env=os.environ | ENGINE_ENVIRONMENT | python_path() | environment,
        )


def python_path() -> dict[str, str]:
    """For children that run in another folder, where relative entries would lead nowhere."""
    return {PYTHON_PATH_ENV: os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}


def with_plugin(folder: Path) -> dict[str, str]:
    """For engines: as on a node, Rowen's plugin for vLLM, which is put into the folder, before all else."""
    install_plugin(folder)
    return {PYTHON_PATH_ENV: os.pathsep.join([str(folder / PLUGIN), *python_path().values()])}
