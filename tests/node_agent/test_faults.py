"""Why a device cannot be used on its node."""

import pytest
from node_agent.test_allocation import UUIDS, driver, gpu

from rowen.node_agent.config import CpuDeviceConfig
from rowen.node_agent.devices.cpu import CpuBackend
from rowen.node_agent.devices.nvidia import NvidiaBackend

NOT_STARTED = "GPU-????????-????-????-????-????????????"


@pytest.mark.parametrize(
    ("cpus", "online", "fault"),
    [
        ("0-3", "0-3", None),
        ("2,8", "0-2,8-15", None),
        ("1-4", "0-2", "cpus: the node has 0-2, and not 3, 4"),
        ("3", "0-2,4", "cpus: the node has 0-2,4, and not 3"),
        ("1", "0-4095", None),
    ],
)
def test_cpus(tmp_path, cpus, online, fault):
    (tmp_path / "online").write_text(f"{online}\n")
    config = CpuDeviceConfig(id="cpu1", cpus=cpus, memory="1Gi")
    assert CpuBackend(config, tmp_path / "online").fault() == fault


def test_cpus_that_are_not_known(tmp_path):
    config = CpuDeviceConfig(id="cpu1", cpus="0", memory="1Gi")
    assert "not known" in CpuBackend(config, tmp_path / "online").fault()


@pytest.mark.parametrize(
    ("gpus", "fault"),
    [
        ([(UUIDS[0], "No")], None),
        ([(UUIDS[1], "No"), (UUIDS[0], "No")], None),
        ([(UUIDS[0], "Yes")], f"gpu: the driver leaves {UUIDS[0]} out"),
        ([], f"gpu: the driver has no {UUIDS[0]} here, but none"),
        ([(UUIDS[1], "No")], f"gpu: the driver has no {UUIDS[0]} here, but {UUIDS[1]}"),
        (
            [(NOT_STARTED, "No")],
            f"gpu: the driver has no {UUIDS[0]} here, but {NOT_STARTED}; those with ? it has not started, as "
            "nvidia-persistenced does",
        ),
    ],
)
def test_gpus(tmp_path, gpus, fault):
    driver(tmp_path, *gpus)
    assert NvidiaBackend(gpu(0), tmp_path).fault() == fault


def test_a_node_without_a_driver(tmp_path):
    assert NvidiaBackend(gpu(0), tmp_path).fault() == f"no NVIDIA driver here: {tmp_path / 'version'} is missing"
    assert NvidiaBackend(gpu(0), tmp_path).hardware() == "nvidia"
