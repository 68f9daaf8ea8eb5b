"""Reads from the cluster by kr8s, writes by kubectl: what the demo does to a cluster, a user can do by hand."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import kr8s
import kr8s.asyncio

from rowen.cluster.layout import Layout
from rowen.crds.names import GROUP, VERSION
from rowen.demo.errors import DemoError

# kr8s itself waits for ever.
CONNECT_SECONDS = 15.0
READ_SECONDS = 10.0

Object = dict[str, Any]

# Errors of a read that another attempt may cure.
READ_ERRORS = (kr8s.ServerError, kr8s.APITimeoutError, kr8s.ConnectionClosedError, httpx.HTTPError, OSError)


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

    def __init__(self, api: kr8s.asyncio.Api, namespace: str) -> None:
        """Reads through `api`; the demo's objects live in `namespace`."""
        self._api = api
        self.namespace = namespace

    @classmethod
    async def connect(cls, namespace: str) -> "Cluster":
        """Connects by the environment's kubeconfig. Raises `DemoError` where nothing answers."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                api = await kr8s.asyncio.api()
        except (*READ_ERRORS, ValueError) as error:
            hint = "Run `make cluster` first, or set KUBECONFIG."
            raise DemoError(f"no Kubernetes answers: {str(error) or 'no reply in time'}", hint) from error
        api.timeout = READ_SECONDS
        return cls(api, namespace)

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._api.auth.server)

    async def read(self, path: str) -> Any:
        """JSON at a path of the API server, e.g. `/api/v1/nodes`. Raises one of `READ_ERRORS`."""
        return json.loads(await self._text(path))

    async def _text(self, path: str) -> str:
        root, _, rest = path.lstrip("/").partition("/")
        async with self._api.call_api("GET", base=f"/{root}", version="", url=rest) as response:
            return str(response.text)

    async def find(self, path: str) -> Object | None:
        """JSON at a path, or None where nothing is there."""
        try:
            found: Object = await self.read(path)
        except kr8s.ServerError as error:
            if error.response is not None and error.response.status_code == httpx.codes.NOT_FOUND:
                return None
            raise
        return found

    async def items(self, path: str) -> list[Object]:
        """Items of the list at a path; empty where the kind is unknown."""
        listed = await self.find(path)
        return list(listed["items"]) if listed else []

    async def rowen(self, plural: str, name: str) -> Object | None:
        """An object of Rowen's API in the demo's namespace."""
        return await self.find(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}/{name}")

    async def pods(self, selector: str = "", namespace: str | None = None) -> list[Object]:
        """Pods by label selector."""
        return await self.items(f"/api/v1/namespaces/{namespace or self.namespace}/pods?labelSelector={selector}")

    async def pod_get(self, namespace: str, pod: str, port: int, path: str) -> Any:
        """JSON that a pod serves, through the API server's proxy. Raises one of `READ_ERRORS`."""
        return json.loads(await self.pod_text(namespace, pod, port, path))

    async def pod_text(self, namespace: str, pod: str, port: int, path: str) -> str:
        """Text that a pod serves, through the API server's proxy. Raises one of `READ_ERRORS`."""
        return await self._text(f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/{path.lstrip('/')}")

    @property
    def host(self) -> str:
        """Host of the API server."""
        return urlparse(self.server).hostname or ""
