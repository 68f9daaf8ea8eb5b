"""A device plugin: serves one resource to the kubelet."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from rowen.node_agent.devices.allocation import Allocation
from rowen.node_agent.proto import deviceplugin_pb2 as messages
from rowen.node_agent.proto import deviceplugin_pb2_grpc as services

_VERSION = "v1beta1"
_TIMEOUT = 5.0
_LOOK_PERIOD = 1.0
"""Seconds after which the kubelet knows of a change at the latest."""


class AllocationRefused(Exception):  # noqa: N818
    """A request that cannot be met, with the reason."""


class DevicePlugin:
    """One resource of this node."""

    def __init__(
        self,
        resource: str,
        devices: Callable[[], Mapping[str, bool]],
        allocate: Callable[[Sequence[str]], Allocation],
        prefer: Callable[[Sequence[str], Sequence[str], int], list[str]] | None = None,
    ) -> None:
        """`devices`: by id, whether each may be handed out now. `allocate` may raise `AllocationRefused`.

        Without `prefer` the kubelet chooses among the free devices.
        """
        self.resource = resource
        self.endpoint = resource.replace("/", "-") + ".sock"
        self._devices = devices
        self._allocate = allocate
        self._prefer = prefer
        self._stopping = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def serve(self, folder: Path) -> None:
        """Serves on a socket in the kubelet's folder."""
        await self.stop()
        self._stopping = asyncio.Event()
        socket = folder / self.endpoint
        socket.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        services.add_DevicePluginServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self._server.add_insecure_port(f"unix://{socket}")
        await self._server.start()

    async def register(self, folder: Path) -> None:
        """Tells the kubelet. Raises `grpc.RpcError`."""
        async with grpc.aio.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
            stub = services.RegistrationStub(channel)  # type: ignore[no-untyped-call]
            request = messages.RegisterRequest(
                version=_VERSION,
                endpoint=self.endpoint,
                resource_name=self.resource,
                options=self._options(),
            )
            await stub.Register(request, timeout=_TIMEOUT)

    async def stop(self) -> None:
        """Stops serving."""
        self._stopping.set()
        if self._server:
            await self._server.stop(grace=None)
            self._server = None

    def _options(self) -> messages.DevicePluginOptions:
        return messages.DevicePluginOptions(get_preferred_allocation_available=self._prefer is not None)

    # Names and signatures are the API's.

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> messages.DevicePluginOptions:  # noqa: N802
        """What the plugin wants to be asked."""
        return self._options()

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[messages.ListAndWatchResponse]:  # noqa: N802
        """The devices, again whenever one of them has become usable or unusable."""
        told: dict[str, bool] | None = None
        stopping = self._stopping
        while not stopping.is_set():
            usable = dict(self._devices())
            if usable != told:
                yield messages.ListAndWatchResponse(
                    devices=[
                        messages.Device(ID=device, health="Healthy" if good else "Unhealthy")
                        for device, good in usable.items()
                    ]
                )
                told = usable
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _LOOK_PERIOD)

    async def GetPreferredAllocation(self, request: Any, context: Any) -> messages.PreferredAllocationResponse:  # noqa: N802
        """Which of the free devices to take. Raises `ValueError` where nothing was said to be preferred."""
        if self._prefer is None:
            raise ValueError(f"{self.resource} has no preference")
        return messages.PreferredAllocationResponse(
            container_responses=[
                messages.ContainerPreferredAllocationResponse(
                    deviceIDs=self._prefer(
                        list(container.available_deviceIDs),
                        list(container.must_include_deviceIDs),
                        container.allocation_size,
                    )
                )
                for container in request.container_requests
            ]
        )

    async def Allocate(self, request: Any, context: Any) -> messages.AllocateResponse:  # noqa: N802
        """Mounts and environment of the containers that get the devices."""
        response = messages.AllocateResponse()
        for container in request.container_requests:
            try:
                allocation = self._allocate(list(container.devices_ids))
            except AllocationRefused as refusal:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
                raise
            response.container_responses.append(
                messages.ContainerAllocateResponse(
                    envs=allocation.environment,
                    mounts=[
                        messages.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=True)
                        for mount in allocation.mounts
                    ],
                )
            )
        return response

    async def PreStartContainer(self, request: Any, context: Any) -> messages.PreStartContainerResponse:  # noqa: N802
        """Not asked for."""
        return messages.PreStartContainerResponse()
