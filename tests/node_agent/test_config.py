"""The devices of a node, from the file."""

import pytest

from rowen.kube.settings import read_settings
from rowen.node_agent.config import CpuDeviceConfig, NvidiaDeviceConfig, Settings, node_devices, parse_cpus


@pytest.mark.parametrize(("text", "cpus"), [("1", (1,)), ("0-3,8", (0, 1, 2, 3, 8)), ("5,5", (5,)), ("1023", (1023,))])
def test_cpus(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1024", "0x1"])
def test_no_cpus(text):
    with pytest.raises(ValueError):
        parse_cpus(text)


def device(**changes):
    return {"node": "*", "id": "cpu1", "cpus": "1", "memory": "8Gi", "harvestSlots": 2, **changes}


def test_a_node_gets_the_devices_that_name_it():
    document = {"devices": [device(node="a-*"), device(node="b-*", id="cpu0", cpus="0")]}
    assert [found.id for found in node_devices(document, "a-1")] == ["cpu1"]
    assert [found.id for found in node_devices(document, "b-1")] == ["cpu0"]
    assert node_devices(document, "c-1") == []
    assert node_devices(None, "a-1") == []


UUID = "GPU-8bd57e0a-1111-2222-3333-444455556666"


def gpu(**changes):
    return {"backend": "nvidia", "id": "gpu0", "gpu": UUID, "memory": "80Gi", **changes}


def test_a_device_is_of_the_backend_that_it_names():
    found = node_devices({"devices": [device(), device(id="cpu2", cpus="2", backend="cpu"), gpu()]}, "n")
    assert [type(config) for config in found] == [CpuDeviceConfig, CpuDeviceConfig, NvidiaDeviceConfig]
    assert [config.backend for config in found] == ["cpu", "cpu", "nvidia"]
    assert (found[2].gpu, found[2].memory_bytes, found[2].slot_ids) == (UUID, 80 * 2**30, ["gpu0-0", "gpu0-1"])


def test_ids_and_sizes():
    (found,) = node_devices({"devices": [device(harvestSlots=3)]}, "n")
    assert found.slot_ids == ["cpu1-0", "cpu1-1", "cpu1-2"]
    assert found.memory_bytes == 8 * 2**30
    assert (found.handle_bytes, found.handles) == (2 * 2**20, 4096)
    (small,) = node_devices({"devices": [device(handle="64Ki", memory="1000000")]}, "n")
    assert (small.handle_bytes, small.handles) == (65536, 15)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([device(), device(id="other")], "CPU 1"),
        ([device(), device(cpus="2")], "id: node .* has two devices"),
        ([device(cpus="x")], "CPUs"),
        ([device(harvestSlots=0)], "harvestSlots"),
        ([device(harvestSlots=17)], "harvestSlots"),
        ([device(id="cpu-1")], "id"),
        ([device(memoy="8Gi")], "memoy"),
        ([device(handle="3Mi")], "handle: 3Mi is no power of two"),
        ([device(handle="2048")], "handle: 2048 is no power of two that is at least a page"),
        ([device(handle="x")], "handle"),
        ([device(memory="1Mi")], "memory: device cpu1 has 1Mi, less than one handle of 2Mi"),
        ([gpu(), gpu(id="gpu1")], f"{UUID} of node n belongs to both gpu0 and gpu1"),
        ([gpu(gpu="0")], r"0\.nvidia\.gpu"),
        ([gpu(cpus="1")], r"0\.nvidia\.cpus"),
        ([gpu(handle="2Mi")], r"0\.nvidia\.handle"),
        ([device(), device(gpu=UUID)], r"1\.cpu\.gpu"),
        ([{"backend": "nvidia", "id": "gpu0"}], r"0\.nvidia\.memory"),
        ([device(backend="amd")], "backend: a device is one of cpu, nvidia"),
        (["cpu1"], "backend: a device is one of cpu, nvidia"),
        ([device(handle="4Ki")], "handle: 8Gi are 2097152 handles of 4Ki, more than 1048576"),
    ],
)
def test_a_wrong_device_is_named(devices, message):
    with pytest.raises(ValueError, match=message):
        node_devices({"devices": devices}, "n")


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("ROWEN_NODE", raising=False)
    with pytest.raises(ValueError, match="ROWEN_NODE: Field required"):
        read_settings(Settings)
    monkeypatch.setenv("ROWEN_NODE", "n")
    monkeypatch.setenv("ROWEN_PORT", "1234")
    settings = read_settings(Settings)
    assert (settings.node, settings.port) == ("n", 1234)
    monkeypatch.setenv("ROWEN_BACKSTOP_SECONDS", "11")
    with pytest.raises(ValueError, match="ROWEN_BACKSTOP_SECONDS: Input should be less than or equal to 10"):
        read_settings(Settings)
