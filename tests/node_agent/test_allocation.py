"""Which slots a container may have, and what it gets with them."""

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from rowen.crds.harvest.busy import grid
from rowen.node_agent.config import CpuDeviceConfig, NvidiaDeviceConfig, Settings
from rowen.node_agent.devices import faults
from rowen.node_agent.devices.allocation import device_directory, door_directory
from rowen.node_agent.devices.backends import backend_of
from rowen.node_agent.devices.nvidia import NvidiaBackend
from rowen.node_agent.kubelet.plugin import AllocationRefused
from rowen.node_agent.node import Node
from rowen.node_agent.report.status import device_harvest

UUIDS = [f"GPU-8bd57e0a-1111-2222-3333-44445555666{number}" for number in range(3)]


def driver(folder, *gpus):
    """Files as the driver has them."""
    folder.mkdir(exist_ok=True)
    (folder / "version").touch()
    for number, (uuid, excluded) in enumerate(gpus):
        path = folder / "gpus" / f"0000:3{number}:00.0" / "information"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 104\nGPU UUID: \t {uuid}\nBus Location: \t 0000:3{number}:00.0\n"
            f"Device Minor: \t {number}\nGPU Excluded:\t {excluded}\n"
        )


def gpu(number):
    return NvidiaDeviceConfig(backend="nvidia", id=f"gpu{number}", gpu=UUIDS[number], memory="80Gi")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def start(folder):
    """CPUs, and GPUs of a driver that is in a folder."""
    configs = [CpuDeviceConfig(id=name, cpus=cpu, memory="1Gi") for name, cpu in (("a", "0"), ("b", "1"))]
    configs += [gpu(0), gpu(1)]
    backends = lambda config: (  # noqa: E731
        NvidiaBackend(config, folder / "driver") if isinstance(config, NvidiaDeviceConfig) else backend_of(config)
    )
    return Node(Settings(node="n", run_directory=folder / "run"), configs, backends)


@pytest.fixture
def node(folder):
    """The driver is not there."""
    node = start(folder)
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
    assert allocation.environment["ROWEN_ENGINE_SOCKET"] == "/run/rowen/engine-0/agent.sock"
    assert "LD_PRELOAD" not in allocation.environment
    door = allocation.mounts[1]
    assert door.container_path == "/run/rowen/engine-0"
    assert (Path(door.host_path) / "agent.sock").is_socket()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a-0", "a-1"], "one slot of each device, not a-0, a-1"),
        (["a-0", "b-0", "b-1"], "one slot of each device"),
        (["a-0", "c-0"], "no slots of this node: c-0"),
        ([], "none asked for"),
        (["gpu0-0"], "device gpu0 cannot be used: no NVIDIA driver here: .*/version is missing"),
    ],
)
def test_refused(node, ids, message):
    with pytest.raises(AllocationRefused, match=message):
        node.allocate_slots(ids)


def usable(node):
    return [name for name, good in node.online_ids().items() if good]


def test_a_device_that_cannot_be_served_leaves_the_others_alone(node):
    assert usable(node) == list(node.devices) == ["a", "b"]
    assert set(node.faults) == {"gpu0", "gpu1"}
    assert node.slot_ids()["a-1"]
    assert not node.slot_ids()["gpu0-0"]
    with pytest.raises(AllocationRefused, match="gpu0 cannot be used: no NVIDIA driver"):
        node.allocate_online(["gpu0"])


def test_a_device_is_served_once_its_driver_is_there(node, folder):
    driver(folder / "driver", (UUIDS[0], "No"))
    node.note(node.find_faults())
    assert usable(node) == list(node.devices) == ["a", "b", "gpu0"]
    assert UUIDS[1] in node.faults["gpu1"]
    node.sample(60)
    served = node.devices["gpu0"]
    assert (served.hardware, served.gate.loans) == ("NVIDIA H200", None)
    (snapshot,) = [found for found in node.snapshots() if found.config.id == "gpu0"]
    device = device_harvest(snapshot, [snapshot], window=60, over=grid(60, 60), unix_offset=0)
    assert (device.type, device.memory_bytes, device.pool, device.available) == ("NVIDIA H200", 80 * 2**30, None, None)
    door = folder / "run/devices/gpu0"
    assert (door / "engine/agent.sock").is_socket()
    assert (door / "tenant-1/agent.sock").is_socket()


def test_a_driver_that_hangs_keeps_its_own_devices_alone_from_being_served(folder, monkeypatch):
    monkeypatch.setattr(faults, "LOOK_SECONDS", 0.3)
    driver(folder / "driver", (UUIDS[0], "No"))
    (information,) = (folder / "driver").glob("gpus/*/information")
    text = information.read_text()
    information.unlink()
    # Whoever opens it waits for one who writes.
    os.mkfifo(information)
    node = start(folder)
    try:
        assert usable(node) == list(node.devices) == ["a", "b"]
        assert node.faults == dict.fromkeys(("gpu0", "gpu1"), "the driver does not answer")
        looking = [thread for thread in threading.enumerate() if thread.name == "rowen-errand"]
        assert len(looking) == 2
        node.note(node.find_faults())
        assert [thread for thread in threading.enumerate() if thread.name == "rowen-errand"] == looking
        writer = os.open(information, os.O_WRONLY)
        information.unlink()
        information.write_text(text)
        os.close(writer)
        for thread in looking:
            thread.join(20)
        monkeypatch.setattr(faults, "LOOK_SECONDS", 20.0)
        for _ in range(2):
            node.note(node.find_faults())
        assert usable(node) == ["a", "b", "gpu0"]
        assert node.devices["gpu0"].hardware == "NVIDIA H200"
    finally:
        node.close()


@pytest.mark.parametrize(
    "obstacle",
    [
        lambda run: device_directory(run, "b"),
        lambda run: device_directory(run, "b") / "device.memory" / "folder",
        lambda run: door_directory(run, "b", 1),
    ],
)
def test_a_device_that_cannot_be_opened_is_tried_again_and_leaves_the_others_alone(folder, obstacle):
    path = obstacle(folder / "run")
    path.parent.mkdir(parents=True)
    path.touch()
    node = start(folder)
    try:
        assert usable(node) == list(node.devices) == ["a"]
        for _ in range(2):
            node.note(node.find_faults())
            assert node.faults["b"].startswith("it cannot be served: ")
        with pytest.raises(AllocationRefused, match="b cannot be used: it cannot be served"):
            node.allocate_slots(["b-0"])
        path.unlink()
        if path.name == "folder":
            path.parent.rmdir()
        node.note(node.find_faults())
        assert usable(node) == list(node.devices) == ["a", "b"]
        assert (door_directory(folder / "run", "b", 1) / "agent.sock").is_socket()
    finally:
        node.close()


def test_an_agent_does_not_start_beside_another_one(node, folder):
    with pytest.raises(BlockingIOError):
        start(folder)


def test_a_device_with_a_fault_is_not_renewed(node, folder):
    driver(folder / "driver", (UUIDS[0], "No"))
    node.note(node.find_faults())
    node.last_accepted = time.monotonic()
    renewed = []
    for name, device in node.devices.items():
        device.gate.renew = lambda _, name=name: renewed.append(name)
    node.renew()
    assert sorted(renewed) == ["a", "b", "gpu0"]
    (folder / "driver/version").unlink()
    node.note(node.find_faults())
    renewed.clear()
    node.renew()
    assert sorted(renewed) == ["a", "b"]
    assert [snapshot.usable for snapshot in node.snapshots()] == [True, True, False]


def test_a_tenant_of_a_gpu_gets_its_own_library_and_sees_its_gpus_alone(node, folder):
    driver(folder / "driver", (UUIDS[0], "No"), (UUIDS[1], "No"))
    node.note(node.find_faults())
    offline, online = node.allocate_slots(["gpu0-0", "gpu1-1"]), node.allocate_online(["gpu1", "gpu0"])
    assert offline.environment["NVIDIA_VISIBLE_DEVICES"] == f"{UUIDS[0]},{UUIDS[1]}"
    assert online.environment["NVIDIA_VISIBLE_DEVICES"] == f"{UUIDS[0]},{UUIDS[1]}"
    assert node.allocate_online(["gpu1"]).environment["NVIDIA_VISIBLE_DEVICES"] == UUIDS[1]
    assert node.prefer_online(["b", "gpu0", "gpu1"], [], 2) == ["gpu0", "gpu1"]
    libraries = {
        kind: Path(next(mount.host_path for mount in found.mounts if mount.container_path == "/run/rowen/librowen.so"))
        for kind, found in (("offline", offline), ("online", online), ("cpu", node.allocate_slots(["a-0"])))
    }
    assert {kind: path.name for kind, path in libraries.items()} == {
        "offline": "librowen_nvidia.so",
        "online": "librowen.so",
        "cpu": "librowen.so",
    }
    assert all(os.access(path, os.X_OK) for path in libraries.values())
    with pytest.raises(AllocationRefused, match="devices of one backend, not of cpu and nvidia"):
        node.allocate_slots(["a-0", "gpu0-0"])
    with pytest.raises(AllocationRefused, match="an engine's container gets devices of one backend, not of cpu and nv"):
        node.allocate_online(["a", "gpu0"])
