"""How traffic reaches the service: its cluster IP where this machine routes to it, else a tunnel of kubectl's."""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator, Callable

from rich.console import Console

from rowen.demo.cluster.kubectl import Cluster, binary
from rowen.demo.errors import DemoError

_PORT = 8000
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


def is_this_machine(host: str) -> bool:
    """Whether an address belongs to this machine: only then can a socket be bound to it."""
    try:
        infos = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in infos:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return True
    return False


async def answers(host: str, port: int, limit: float = 2.0) -> bool:
    """Whether something accepts connections there."""
    try:
        async with asyncio.timeout(limit):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


@contextlib.asynccontextmanager
async def service_endpoint(cluster: Cluster, service: str, console: Console) -> AsyncIterator[Callable[[], str]]:
    """A function that returns the service's base URL as seen from here, valid inside the context.

    Load goes to this machine only: straight to the cluster IP where the API server runs on this machine too,
    else through a tunnel that ends on the loopback address.

    Raises:
        DemoError: The service has no cluster IP, or no tunnel opens.
    """
    found = await cluster.find(f"/api/v1/namespaces/{cluster.namespace}/services/{service}")
    if found is None:
        raise DemoError(f"Service {service} is missing", f"kubectl describe osvc {service}")
    address = found["spec"].get("clusterIP", "None")
    if address != "None" and is_this_machine(cluster.host) and await answers(address, _PORT):
        console.print(f"  traffic goes to the cluster IP {address}:{_PORT}", highlight=False)
        yield lambda: f"http://{address}:{_PORT}"
        return
    tunnel = Tunnel(cluster.namespace, service)
    async with tunnel.open():
        console.print(f"  traffic goes through kubectl port-forward ({tunnel.url()})", highlight=False)
        yield tunnel.url


class Tunnel:
    """`kubectl port-forward`, started again whenever it ends."""

    def __init__(self, namespace: str, service: str, executable: str | None = None) -> None:
        """A tunnel to the service's port."""
        self._command = [executable or binary("kubectl"), "port-forward", "-n", namespace, f"service/{service}"]
        self._port = 0
        self._ready = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    def url(self) -> str:
        """Base URL of this end."""
        return f"http://127.0.0.1:{self._port}"

    @contextlib.asynccontextmanager
    async def open(self, limit: float = 30.0) -> AsyncIterator[None]:
        """Keeps the tunnel open inside the context. Raises `DemoError` where it does not open in time."""
        keeper = asyncio.create_task(self._keep())
        try:
            try:
                async with asyncio.timeout(limit):
                    await self._ready.wait()
            except TimeoutError as error:
                raise DemoError(f"`{' '.join(self._command[1:])}` did not open in {limit:.0f} s") from error
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            if self._process is not None and self._process.returncode is None:
                self._process.terminate()
                await self._process.wait()

    async def _keep(self) -> None:
        while True:
            # The first free port is kept, so that the URL stays the same when kubectl is started again.
            ports = f"{self._port or ''}:{_PORT}"
            self._process = await asyncio.create_subprocess_exec(
                *self._command, ports, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
            async for line in self._process.stdout:
                opened = _FORWARDING.search(line.decode())
                if opened:
                    self._port = int(opened.group(1))
                    self._ready.set()
            await self._process.wait()
            await asyncio.sleep(0.5)


def leave_cores(cores: set[int]) -> set[int]:
    """Keeps this process off the given cores, where others are left; returns the cores it may use."""
    allowed = os.sched_getaffinity(0)
    rest = allowed - cores
    if rest:
        os.sched_setaffinity(0, rest)
    return rest or allowed
