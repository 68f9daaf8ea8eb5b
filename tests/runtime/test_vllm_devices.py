"""A real API server on two devices."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate.rig import Rig, until
from runtime.server import on_device, serving
from runtime.test_vllm_server import recorded, stream


@pytest.fixture
def rigs() -> Iterator[list[Rig]]:
    """Two devices, of a CPU each where there are two."""
    cpus = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rigs = [Rig(Path(folder) / str(number), cpus=(cpu,)) for number, cpu in enumerate((min(cpus), max(cpus)))]
        yield rigs
        for rig in rigs:
            rig.close()


@pytest.mark.timeout(900)
def test_a_request_closes_the_gates_of_both_devices_for_its_life(
    rigs: list[Rig], tiny_model: Path, tmp_path: Path
) -> None:
    sockets = ":".join(str(rig.socket(None)) for rig in rigs)
    device = on_device(sockets, tmp_path) | {"OMP_NUM_THREADS": "2"}
    with serving(tiny_model, tmp_path / "server.log", [], **device) as client:
        until(lambda: [rig.device.counts().online_processes for rig in rigs] == [2, 2], "both processes are on both")
        tenants = [rig.tenant("spin()") for rig in rigs]
        for number in range(1, 4):
            for rig, tenant in zip(rigs, tenants, strict=True):
                rig.opened()
                tenant.advances()
            assert stream(client, "tiny", 20) == 20
            first, second = (recorded(rig, number)[-1] for rig in rigs)
            assert (first.begin, first.ttft, first.tpot) == (second.begin, second.ttft, second.tpot)
            assert [(each.preemptions, each.tenant_present) for each in (first, second)] == [(1, True)] * 2
        assert [rig.device.counts().preemptions for rig in rigs] == [3, 3]
        assert [rig.device.counts().backstops for rig in rigs] == [0, 0]
