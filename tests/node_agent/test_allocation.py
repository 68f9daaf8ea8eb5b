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


def test_one_device(node):
    allocation = node.allocate_slots(["b-1"])
    assert allocation.environment["ROWEN_TENANT_SOCKETS"] == "/run/rowen/tenant-0/agent.sock"
    assert len(allocation.mounts) == 2


def test_the_doors_of_several_devices_are_listed_in_the_same_order(node):
    allocation = node.allocate_slots(["b-1", "a-0"])
    sockets = allocation.environment["ROWEN_TENANT_SOCKETS"].split(":")
    assert sockets == ["/run/rowen/tenant-0/agent.sock", "/run/rowen/tenant-1/agent.sock"]
    found = {mount.container_path: Path(mount.host_path) for mount in allocation.mounts}
    hosts = [found[str(Path(socket).parent)] for socket in sockets]
    assert [(host.parent.name, host.name) for host in hosts] == [("a", "tenant-0"), ("b", "tenant-1")]
    assert all((host / "agent.sock").is_socket() for host in hosts)


def test_an_engine_has_a_door_of_its_own(node):
    allocation = node.allocate_online(["a"])
    assert allocation.environment["ROWEN_ENGINE_SOCKET"] == "/run/rowen/engine/agent.sock"
    assert "LD_PRELOAD" not in allocation.environment
    door = allocation.mounts[1]
    assert door.container_path == "/run/rowen/engine"
    assert (Path(door.host_path) / "agent.sock").is_socket()


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
