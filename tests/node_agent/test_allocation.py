"""Which slots a container may have, and what it gets with them."""

import tempfile
from pathlib import Path

import pytest

from rowen.node_agent.config import DeviceConfig, Settings
from rowen.node_agent.cpu import CpuBackend
from rowen.node_agent.node import Node
from rowen.node_agent.plugin import AllocationRefused


@pytest.fixture
def node():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        configs = [DeviceConfig(id=name, cpus=cpu, memory="1Gi") for name, cpu in (("a", "0"), ("b", "1"))]
        node = Node(Settings(node="n", run_directory=Path(folder)), configs, CpuBackend())
        yield node
        node.close()


def files(allocation):
    return {mount.container_path: (Path(mount.host_path), mount.read_only) for mount in allocation.mounts}


def test_one_device(node):
    allocation = node.allocate_slots(["b-1"])
    assert allocation.environment["ROWEN_DEVICE_PAGE"] == "/run/rowen/device-0.page"
    assert allocation.environment["ROWEN_TENANT_PAGE"] == "/run/rowen/tenant-0.page"
    assert len(allocation.mounts) == 3


def test_the_pages_of_several_devices_are_listed_in_the_same_order(node):
    allocation = node.allocate_slots(["b-1", "a-0"])
    devices = allocation.environment["ROWEN_DEVICE_PAGE"].split(":")
    tenants = allocation.environment["ROWEN_TENANT_PAGE"].split(":")
    assert devices == ["/run/rowen/device-0.page", "/run/rowen/device-1.page"]
    assert tenants == ["/run/rowen/tenant-0.page", "/run/rowen/tenant-1.page"]
    found = files(allocation)
    assert all(found[path][1] for path in devices)
    assert not any(found[path][1] for path in tenants)
    hosts = [(found[device][0], found[tenant][0]) for device, tenant in zip(devices, tenants, strict=True)]
    assert [(device.parent.name, tenant.name) for device, tenant in hosts] == [
        ("a", "tenant-0.page"),
        ("b", "tenant-1.page"),
    ]
    assert all(device.parent == tenant.parent and device.exists() and tenant.exists() for device, tenant in hosts)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a-0", "a-1"], "one slot of each device, not a-0, a-1"),
        (["a-0", "b-0", "b-1"], "one slot of each device"),
        (["a-0", "c-0"], "no slots of this node: c-0"),
        ([], "none asked for"),
    ],
)
def test_refused(node, ids, message):
    with pytest.raises(AllocationRefused, match=message):
        node.allocate_slots(ids)
