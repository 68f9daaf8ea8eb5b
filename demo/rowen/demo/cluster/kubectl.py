"""Reads from the cluster by rowen.kube, writes by kubectl: what the demo does to a cluster, a user can do by hand."""

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from rowen.cluster.layout import Layout
from rowen.crds.names import GROUP, VERSION
from rowen.demo.errors import DemoError
from rowen.kube.client import Client, open_client
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.kinds import PODS
from rowen.kube.objects import NOT_FOUND

CONNECT_SECONDS = 15.0
READ_SECONDS = 10.0

Object = dict[str, Any]


def binary(name: str) -> str:
    """Path of a command: from PATH, else from the local cluster's binaries. Raises `DemoError` where it is missing."""
    built = Layout().bin
    found = shutil.which(name) or shutil.which(name, path=str(built))
    if found is None:
        raise DemoError(f"{name} is neither on PATH nor in {built}", "Run `make cluster` first.")
    return found


async def command(*arguments: str, stdin: str | None = None, limit: float = 120.0) -> str:
    """Standard output of a command. Raises `DemoError` with its standard error when it fails or takes too long."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(arguments, input=stdin, capture_output=True, text=True, timeout=limit, check=False)

    shown = " ".join([Path(arguments[0]).name, *arguments[1:4]])
    try:
        done = await asyncio.to_thread(run)
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"`{shown} …` took more than {limit:.0f} s") from error
    if done.returncode != 0:
        raise DemoError(f"`{shown} …` failed: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


async def kubectl(*arguments: str, stdin: str | None = None, limit: float = 120.0) -> str:
    """Standard output of kubectl. Raises `DemoError`."""
    return await command(binary("kubectl"), *arguments, stdin=stdin, limit=limit)


class Cluster:
    """Raw reads of a cluster's API, for one namespace of the demo's objects."""

    def __init__(self, client: Client, namespace: str) -> None:
        """Reads through `client`; the demo's objects live in `namespace`."""
        self._client = client
        self.namespace = namespace

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, namespace: str) -> AsyncIterator["Cluster"]:
        """Connects by the environment's kubeconfig. Raises `DemoError` where nothing answers."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(await open_client())
                await client.call("GET", "/version", timeout_seconds=CONNECT_SECONDS)
            except KubeError as error:
                hint = "Run `make cluster` first, or set KUBECONFIG."
                raise DemoError(f"no Kubernetes answers: {error}", hint) from error
            yield cls(client, namespace)

    async def find(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        """The object or list at a path, e.g. `/api/v1/nodes`; None where nothing is there. Raises `KubeError`."""
        try:
            return await self._client.call("GET", path, query=query, timeout_seconds=READ_SECONDS)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
        """Items of the list at a path; empty where the kind is unknown. Raises `KubeError`."""
        listed = await self.find(path, query)
        return list(listed["items"]) if listed else []

    async def rowen(self, plural: str, name: str) -> Object | None:
        """An object of Rowen's API in the demo's namespace."""
        return await self.find(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}/{name}")

    async def pods(self, selector: str = "", namespace: str | None = None) -> list[Object]:
        """Pods by label selector."""
        return await self.items(PODS.path(namespace or self.namespace), {"labelSelector": selector})

    async def pod_get(self, namespace: str, pod: str, port: int, path: str) -> Any:
        """JSON that a pod serves, through the API server's proxy. Raises `KubeError`, `ValueError` for other text."""
        return json.loads(await self.pod_text(namespace, pod, port, path))

    async def pod_text(self, namespace: str, pod: str, port: int, path: str) -> str:
        """Text that a pod serves, through the API server's proxy. Raises `KubeError`."""
        proxied = f"{PODS.path(namespace)}/{pod}:{port}/proxy/{path.lstrip('/')}"
        return await self._client.text(proxied, timeout_seconds=READ_SECONDS)

    @property
    def host(self) -> str:
        """Host of the API server."""
        return urlparse(self._client.server).hostname or ""
