"""Stays registered with the kubelet, which forgets its plugins when it restarts; asks it who holds what."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import structlog

from rowen.node_agent.kubelet.plugin import DevicePlugin
from rowen.node_agent.kubelet.pods import Holders
from rowen.node_agent.proto import podresources_pb2 as messages
from rowen.node_agent.proto import podresources_pb2_grpc as services

_TIMEOUT = 5.0
_CHECK_PERIOD = 1.0

log = structlog.get_logger()


class Registration:
    """Keeps plugins served and registered."""

    def __init__(self, folder: Path, plugins: Sequence[DevicePlugin]) -> None:
        self._folder = folder
        self._plugins = plugins
        self.registered = False

    async def run(self) -> None:
        """Registers again whenever the kubelet has made its socket anew. Runs until cancelled."""
        seen: tuple[int, int] | None = None
        try:
            while True:
                current = self._kubelet()
                if current is None or current != seen or not self._sockets_exist():
                    self.registered = False
                    if current is not None and await self._register():
                        seen = current
                        self.registered = True
                await asyncio.sleep(_CHECK_PERIOD)
        finally:
            for plugin in self._plugins:
                await plugin.stop()

    def _kubelet(self) -> tuple[int, int] | None:
        try:
            info = (self._folder / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return info.st_ino, info.st_ctime_ns

    def _sockets_exist(self) -> bool:
        return all((self._folder / plugin.endpoint).exists() for plugin in self._plugins)

    async def _register(self) -> bool:
        try:
            for plugin in self._plugins:
                await plugin.serve(self._folder)
                await plugin.register(self._folder)
        except (grpc.RpcError, OSError, RuntimeError) as error:
            log.warning("cannot register with the kubelet", error=str(error))
            return False
        log.info("registered with the kubelet", resources=[plugin.resource for plugin in self._plugins])
        return True


async def device_holders(socket: Path) -> Holders:
    """Who holds which device. Raises `grpc.RpcError`."""
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        stub = services.PodResourcesListerStub(channel)  # type: ignore[no-untyped-call]
        response = await stub.List(messages.ListPodResourcesRequest(), timeout=_TIMEOUT)
    holders: dict[str, dict[str, tuple[str, str]]] = {}
    for pod in response.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                for device in devices.device_ids:
                    holders.setdefault(devices.resource_name, {})[device] = (pod.namespace, pod.name)
    return holders
