"""An engine on two devices of a node: what it gets, and what is told of it."""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gate.rig import Engine, until

from rowen.crds.names import ONLINE_RESOURCE
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.kubelet.plugin import AllocationRefused
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.node import Node
from rowen.node_agent.report.status import node_status

POD = PodView("shop", "chat-0", service="chat")
CPUS = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))


@pytest.fixture
def node():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        configs = [CpuDeviceConfig(id=name, cpus=str(cpu), memory="4Gi") for name, cpu in zip("ab", CPUS, strict=True)]
        node = Node(Settings(node="n", run_directory=Path(folder) / "run"), configs)
        node.last_accepted = time.monotonic()
        yield node
        node.close()


@pytest.fixture
def engine(node):
    """Attaches as its container's environment says, and its pod is where the kubelet says."""
    allocation = node.allocate_online(["b", "a"])
    host = {mount.container_path: mount.host_path for mount in allocation.mounts}
    sockets = [Path(socket) for socket in allocation.environment["ROWEN_ENGINE_SOCKET"].split(":")]
    engine = Engine(":".join(f"{host[str(socket.parent)]}/{socket.name}" for socket in sockets))
    until(lambda: [device.gate.counts().online_processes for device in node.devices.values()] == [1, 1])
    node.place({ONLINE_RESOURCE: dict.fromkeys("ab", POD.key)}, [POD])
    node.sample(60)
    yield engine
    engine.kill()


def serve_requests(engine, devices):
    """Three that have ended, and those of the devices know it."""
    begin = time.monotonic_ns()
    for _ in range(3):
        engine.call("busy")
        engine.call("record", begin, 5_000_000, 2_000_000, 7, 0)
        engine.call("idle")
    until(lambda: all(len(device.gate.requests(0)) == 3 for device in devices), "they know the requests")


def counted(node):
    """Requests in the node's metrics, by latency."""
    labels = {"node": "n", "namespace": "shop", "service": "chat", "tenant": "absent"}
    names = [f"rowen_online_{latency}_seconds_count" for latency in ("ttft", "tpot")]
    return [node.metrics.registry.get_sample_value(name, labels) for name in names]


def reported(node):
    """The report, as of a time for which the windows of whole half minutes are over."""
    snapshots = [
        replace(snapshot, counts=replace(snapshot.counts, now=snapshot.counts.now + 60))
        for snapshot in node.snapshots()
    ]
    return node_status(snapshots, now=time.time(), window=60, unix_offset=0).devices


def test_its_container_gets_the_doors_of_all_its_devices_in_order(node):
    allocation = node.allocate_online(["b", "a"])
    doors = [f"/run/rowen/engine-{number}" for number in range(2)]
    assert allocation.environment["ROWEN_ENGINE_SOCKET"] == ":".join(f"{door}/agent.sock" for door in doors)
    host = {mount.container_path: Path(mount.host_path) for mount in allocation.mounts}
    assert [host[door].parts[-2:] for door in doors] == [("a", "engine"), ("b", "engine")]
    assert all((host[door] / "agent.sock").is_socket() for door in doors)


@pytest.mark.parametrize(
    ("ids", "message"), [(["a", "c"], "no devices of this node: c"), ([], "1 to 16 devices, not 0")]
)
def test_devices_that_it_cannot_have(node, ids, message):
    with pytest.raises(AllocationRefused, match=message):
        node.allocate_online(ids)


def test_each_device_has_the_engine_and_its_requests_are_counted_once(node, engine):
    serve_requests(engine, node.devices.values())
    node.sample(60)
    assert counted(node) == [3, 3]
    first, second = reported(node)
    assert [(device.online.pod.name, device.online.attached) for device in (first, second)] == [("chat-0", True)] * 2
    assert (first.online.ttft.p50, second.online.ttft) == (0.005, None)
    assert [window.ttft.requests for window in first.online.requests] == [3, 3]
    assert second.online.requests == []


def test_requests_are_counted_where_it_is_attached_to_one_of_its_devices_alone(node):
    doors = [Path(mount.host_path) for mount in node.allocate_online(["a", "b"]).mounts]
    engine = Engine(next(door for door in doors if door.parts[-2:] == ("b", "engine")) / "agent.sock")
    try:
        until(lambda: node.devices["b"].gate.counts().online_processes == 1)
        node.place({ONLINE_RESOURCE: dict.fromkeys("ab", POD.key)}, [POD])
        node.sample(60)
        serve_requests(engine, [node.devices["b"]])
        node.sample(60)
        assert counted(node) == [3, 3]
        first, second = reported(node)
        assert [device.online.attached for device in (first, second)] == [False, True]
        assert [window.ttft.requests for window in first.online.requests] == [3, 3]
    finally:
        engine.kill()
