"""The device plugins, over real sockets."""

import asyncio
import time

import grpc
import pytest

from rowen.crds.names import HARVEST_RESOURCE, ONLINE_RESOURCE
from rowen.node_agent.config import CpuDeviceConfig
from rowen.node_agent.devices.allocation import harvest_allocation, online_allocation
from rowen.node_agent.devices.cpu import CpuBackend
from rowen.node_agent.kubelet.plugin import AllocationRefused, DevicePlugin
from rowen.node_agent.kubelet.registration import Registration, device_holders
from rowen.node_agent.proto import deviceplugin_pb2 as messages

BACKEND = CpuBackend(CpuDeviceConfig(id="cpu1", cpus="1", memory="1Gi"))


def parts(ids):
    return [slot.rpartition("-") for slot in ids]


def allocate(folder):
    def slot(ids):
        if ids == ["cpu1-1"]:
            raise AllocationRefused("still in use")
        slots = [(device, int(number)) for device, _, number in parts(ids)]
        return harvest_allocation(folder, slots, [BACKEND] * len(slots))

    return slot


@pytest.fixture
def slots():
    """The slots, and whether each can be used."""
    return {"cpu1-0": True, "cpu1-1": True}


@pytest.fixture
async def registration(kubelet, folder, slots):
    plugins = [
        DevicePlugin(ONLINE_RESOURCE, lambda: {"cpu1": True}, lambda ids: online_allocation(folder, ids, [BACKEND])),
        DevicePlugin(HARVEST_RESOURCE, lambda: slots, allocate(folder), lambda a, r, n: a[::-1][:n]),
    ]
    registration = Registration(kubelet.folder, plugins)
    task = asyncio.create_task(registration.run())
    await until(lambda: registration.registered)
    yield registration
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_both_resources_are_registered_and_listed(kubelet, registration):
    assert kubelet.registered == [ONLINE_RESOURCE, HARVEST_RESOURCE]
    watch = kubelet.plugin(HARVEST_RESOURCE).ListAndWatch(messages.Empty())
    response = await watch.read()
    assert [(device.ID, device.health) for device in response.devices] == [("cpu1-0", "Healthy"), ("cpu1-1", "Healthy")]
    watch.cancel()


async def test_the_kubelet_is_told_when_a_device_cannot_be_used_any_more(kubelet, registration, slots):
    watch = kubelet.plugin(HARVEST_RESOURCE).ListAndWatch(messages.Empty())
    for usable, health in ((True, "Healthy"), (False, "Unhealthy"), (True, "Healthy")):
        slots["cpu1-1"] = usable
        response = await asyncio.wait_for(watch.read(), 20)
        assert [device.health for device in response.devices] == ["Healthy", health]
    watch.cancel()


async def test_plugins_register_again_after_the_kubelet_has_restarted(kubelet, registration):
    await kubelet.stop()
    kubelet.registered.clear()
    await kubelet.start()
    await until(lambda: len(kubelet.registered) == 2)
    watch = kubelet.plugin(ONLINE_RESOURCE).ListAndWatch(messages.Empty())
    assert (await watch.read()).devices[0].ID == "cpu1"
    watch.cancel()


async def test_a_container_gets_the_library_and_its_own_door_and_can_write_neither(kubelet, registration, folder):
    def request(device):
        return messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=[device])])

    online = (await kubelet.plugin(ONLINE_RESOURCE).Allocate(request("cpu1"))).container_responses[0]
    offline = (await kubelet.plugin(HARVEST_RESOURCE).Allocate(request("cpu1-0"))).container_responses[0]
    library = "/run/rowen/librowen.so"
    plugin = "/run/rowen/plugin"
    assert {mount.container_path for mount in online.mounts} == {library, "/run/rowen/engine-0", plugin}
    assert {mount.container_path for mount in offline.mounts} == {library, "/run/rowen/tenant-0"}
    assert all(mount.read_only for mount in (*online.mounts, *offline.mounts))
    door = "/run/rowen/engine-0/agent.sock"
    assert dict(online.envs) == {
        "ROWEN_LIBRARY": library,
        "ROWEN_ENGINE_SOCKET": door,
        "ROWEN_ENGINE_RIDE_SOCKET": "/run/rowen/engine-0/ride.sock",
        "PYTHONPATH": plugin,
    }
    assert offline.envs["LD_PRELOAD"] == library
    assert offline.mounts[1].host_path == str(folder / "devices/cpu1/tenant-0")


async def test_a_refusal_says_why(kubelet, registration):
    request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=["cpu1-1"])])
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await kubelet.plugin(HARVEST_RESOURCE).Allocate(request)
    assert refusal.value.details() == "still in use"


async def test_preferred_allocation(kubelet, registration):
    request = messages.PreferredAllocationRequest(
        container_requests=[
            messages.ContainerPreferredAllocationRequest(available_deviceIDs=["cpu1-0", "cpu1-1"], allocation_size=1)
        ]
    )
    response = await kubelet.plugin(HARVEST_RESOURCE).GetPreferredAllocation(request)
    assert list(response.container_responses[0].deviceIDs) == ["cpu1-1"]


async def test_the_kubelet_asks_for_a_preference_where_there_is_one(kubelet, registration):
    asked = {}
    for resource in (ONLINE_RESOURCE, HARVEST_RESOURCE):
        options = await kubelet.plugin(resource).GetDevicePluginOptions(messages.Empty())
        asked[resource] = options.get_preferred_allocation_available
    assert asked == {ONLINE_RESOURCE: False, HARVEST_RESOURCE: True}


async def test_holders(kubelet):
    kubelet.held = {("lab", "a"): {HARVEST_RESOURCE: ["cpu1-0"]}, ("shop", "b"): {ONLINE_RESOURCE: ["cpu1"]}}
    assert await device_holders(kubelet.pod_resources) == {
        HARVEST_RESOURCE: {"cpu1-0": ("lab", "a")},
        ONLINE_RESOURCE: {"cpu1": ("shop", "b")},
    }
