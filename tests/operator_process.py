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
import yaml
from apiserver import ApiServer, free_port
from manifests import apply

from rowen.kube.client import Client

USER = "system:serviceaccount:rowen-system:operator"
REPOSITORY = Path(__file__).resolve().parents[1]
_RBAC = REPOSITORY / "charts/rowen/templates/operator/rbac.yaml"
PATIENCE_SECONDS = 60.0
T = TypeVar("T")
AGENTS = "default"


class OperatorProcess:
    """A running operator; leaving the block ends it."""

    def __init__(self, server: ApiServer, log: Path, *, start_deadline_seconds: float = 600.0) -> None:
        self.health_port = free_port()
        self.metrics_port = free_port()
        self._log = log
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig_for(USER)),
            "ROWEN_AGENT_NAMESPACE": AGENTS,
            "ROWEN_RUNTIME_IMAGE": "registry.test/runtime:1",
            "ROWEN_START_DEADLINE_SECONDS": str(start_deadline_seconds),
            "ROWEN_HEALTH_PORT": str(self.health_port),
            "ROWEN_METRICS_PORT": str(self.metrics_port),
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("crds", "kube", "operator")),
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

    async def healthy(self) -> bool:
        """Whether it answers its probes."""
        try:
            return (await self.get(self.health_port, "/healthz")).status_code == 200
        except httpx.TransportError:
            return False

    async def get(self, port: int, path: str) -> httpx.Response:
        """An answer of one of its HTTP servers."""
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            return await client.get(f"http://127.0.0.1:{port}{path}")


async def grant(client: Client) -> None:
    """Gives the operator's user the rules of the chart's roles and nothing else."""
    text = "\n".join(line for line in _RBAC.read_text().splitlines() if "{{-" not in line and "{{ " not in line)
    for number, role in enumerate(yaml.safe_load_all(text)):
        if role and role["kind"] in ("ClusterRole", "Role"):
            # The operator's lease is where the kubeconfig's context is, and the nodes' heartbeats are there as well.
            where = {"namespace": AGENTS} if role["kind"] == "Role" else {}
            role["metadata"] = {"name": f"rowen-operator-test-{number}", **where}
            await apply(client, role, manager="test")
            await apply(client, _binding(role), manager="test")


def _binding(role: dict[str, Any]) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": group, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    }


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer that is not None or False, within a generous limit."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := await look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{look} did not come true")
        await asyncio.sleep(0.05)
    return answer
