"""A kubelet that keeps to the device plugin API, on real sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from rowen.node_agent.proto import deviceplugin_pb2 as plugin_messages
from rowen.node_agent.proto import deviceplugin_pb2_grpc as plugin_services
from rowen.node_agent.proto import podresources_pb2 as pod_messages
from rowen.node_agent.proto import podresources_pb2_grpc as pod_services


class FakeKubelet:
    """Takes registrations, and lists what the test says that pods hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pod_resources = folder / "pod-resources.sock"
        self.registered: list[str] = []
        self.held: dict[tuple[str, str], dict[str, list[str]]] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Like a kubelet that starts: plugins' sockets are removed."""
        for socket in self.folder.glob("*.sock"):
            socket.unlink()
        self._server = grpc.aio.server()
        plugin_services.add_RegistrationServicer_to_server(self, self._server)
        pod_services.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self.folder / 'kubelet.sock'}")
        self._server.add_insecure_port(f"unix://{self.pod_resources}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server:
            await self._server.stop(grace=None)

    async def Register(self, request, context):  # noqa: N802
        assert request.version == "v1beta1"
        self.registered.append(request.resource_name)
        return plugin_messages.Empty()

    async def List(self, request, context):  # noqa: N802
        return pod_messages.ListPodResourcesResponse(
            pod_resources=[
                pod_messages.PodResources(
                    namespace=namespace,
                    name=name,
                    containers=[
                        pod_messages.ContainerResources(
                            name="main",
                            devices=[
                                pod_messages.ContainerDevices(resource_name=resource, device_ids=ids)
                                for resource, ids in resources.items()
                            ],
                        )
                    ],
                )
                for (namespace, name), resources in self.held.items()
            ]
        )

    def plugin(self, resource: str) -> plugin_services.DevicePluginStub:
        channel = grpc.aio.insecure_channel(f"unix://{self.folder / resource.replace('/', '-')}.sock")
        return plugin_services.DevicePluginStub(channel)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path in shared memory: sockets have a limit on theirs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
async def kubelet(folder):
    plugins = folder / "plugins"
    plugins.mkdir()
    fake = FakeKubelet(plugins)
    await fake.start()
    yield fake
    await fake.stop()
