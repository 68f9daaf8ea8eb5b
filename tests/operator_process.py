"""Runs the operator as its own process against the test API server, with the rights of the chart's ClusterRole."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import kr8s
import kr8s.asyncio
import yaml
from apiserver import ApiServer, free_port

from rowen.crds.apply import apply

USER = "system:serviceaccount:rowen-system:operator"
REPOSITORY = Path(__file__).resolve().parents[1]
_RBAC = REPOSITORY / "charts/rowen/templates/operator/rbac.yaml"
PATIENCE_SECONDS = 30.0
T = TypeVar("T")


class OperatorProcess:
    """A running operator; leaving the block ends it."""

    def __init__(self, server: ApiServer, log: Path, *, start_deadline_seconds: float = 600.0) -> None:
        self.health_port = free_port()
        self.metrics_port = free_port()
        self._log = log
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig_for(USER)),
            "ROWEN_RUNTIME_IMAGE": "registry.test/runtime:1",
            "ROWEN_START_DEADLINE_SECONDS": str(start_deadline_seconds),
            "ROWEN_HEALTH_PORT": str(self.health_port),
            "ROWEN_METRICS_PORT": str(self.metrics_port),
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("crds", "operator")),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rowen.operator"], env=self._environment, stdout=log, stderr=log
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def kill(self) -> None:
        """As a lost node would end it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    async def get(self, port: int, path: str) -> httpx.Response:
        """An answer of one of its HTTP servers."""
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            return await client.get(f"http://127.0.0.1:{port}{path}")


async def grant(kube: kr8s.asyncio.Api) -> None:
    """Gives the operator's user the rules of the chart's ClusterRole and nothing else."""
    text = "\n".join(line for line in _RBAC.read_text().splitlines() if "{{-" not in line and "{{ " not in line)
    role = next(part for part in yaml.safe_load_all(text) if part and part["kind"] == "ClusterRole")
    role["metadata"] = {"name": "rowen-operator-test"}
    await apply(kube, role, manager="test")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "rowen-operator-test"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rowen-operator-test"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    await apply(kube, binding, manager="test")


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer that is not None or False, within a generous limit."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := await look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{look} did not come true")
        await asyncio.sleep(0.05)
    return answer


async def read(kube: kr8s.asyncio.Api, version: str, namespace: str | None, url: str) -> dict[str, Any] | None:
    """An object or a list; None where there is none."""
    try:
        async with kube.call_api("GET", version=version, namespace=namespace, url=url) as response:
            answer: dict[str, Any] = response.json()
            return answer
    except kr8s.ServerError as error:
        if error.response is not None and error.response.status_code == 404:
            return None
        raise
