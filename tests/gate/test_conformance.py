"""What every backend keeps to: one suite for `cpu`, and for `nvidia` with a FAKE of the driver behind it.

What has to stand still is the backend's: a program's threads with `cpu`, its channels with `nvidia`.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from gate.borrower import BYTES, Borrower
from gate.nvidia import rm_calls
from gate.nvidia.rm_calls import context
from gate.nvidia.test_nvidia import environment, fake_driver
from gate.rig import Rig, Tenant, until
from node_agent.test_allocation import UUIDS, driver

from rowen.node_agent.config import CpuDeviceConfig, NvidiaDeviceConfig
from rowen.node_agent.devices.backend import Backend
from rowen.node_agent.devices.cpu import CpuBackend
from rowen.node_agent.devices.nvidia import NvidiaBackend
from rowen.node_agent.native import library_path

HANDLES = 8
REPLAY = """
    from pathlib import Path
    from gate.nvidia.rm_calls import Replay, parse
    replay = Replay()
    for text in Path({record!r}).read_text().splitlines():
        replay.call(parse(text))
"""


class Work(Protocol):
    """Offline work on devices of a backend."""

    backend: Backend
    absent: Backend
    """Of a device that is not there."""

    def start(self, rigs: list[Rig], code: str = "spin()") -> Tenant:
        """A process on all of the devices."""

    def runs(self) -> None:
        """Waits until it computes on them."""

    def stands(self) -> None:
        """Fails where it computes."""


class Cpu:
    """Threads."""

    def __init__(self) -> None:
        cpu = max(os.sched_getaffinity(0))
        self.backend, self.absent = (
            CpuBackend(CpuDeviceConfig(id="cpu1", cpus=str(number), memory=str(HANDLES * BYTES), handle=str(BYTES)))
            for number in (cpu, 1023)
        )

    def start(self, rigs: list[Rig], code: str = "spin()") -> Tenant:
        self._tenant = rigs[0].tenant(code, ROWEN_TENANT_SOCKETS=":".join(str(rig.socket(0)) for rig in rigs))
        return self._tenant

    def runs(self) -> None:
        self._tenant.advances()

    def stands(self) -> None:
        self._tenant.stands_still()


class Nvidia:
    """Channels, as the fake of the driver was told to switch them."""

    def __init__(self, fake: Path, folder: Path) -> None:
        self._fake, self._folder, self._log = fake, folder, folder / "log"
        config = NvidiaDeviceConfig(backend="nvidia", id="gpu0", gpu=UUIDS[0], memory="80Gi")
        driver(folder / "driver", (UUIDS[0], "No"))
        driver(folder / "other", (UUIDS[1], "No"))
        self.backend, self.absent = (NvidiaBackend(config, folder / name) for name in ("driver", "other"))

    def start(self, rigs: list[Rig], code: str = "spin()") -> Tenant:
        record = rm_calls.write(self._folder / "calls", context())
        given = environment(self._fake, self._log)
        extra = {name: given[name] for name in ("FAKE_RM_LOG", "PYTHONPATH")}
        extra["LD_PRELOAD"] = f"{library_path(self.backend.tenant_library)}:{self._fake}"
        extra["ROWEN_TENANT_SOCKETS"] = ":".join(str(rig.socket(0)) for rig in rigs)
        # A library that has stopped nothing yet has no channel to switch: the first stop shows that they are known.
        tenant = rigs[0].tenant(REPLAY.format(record=str(record)) + "    " + code, **extra)
        tenant.advances()
        return tenant

    def _last(self) -> str:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return lines[-1].split()[0] if lines else "go"

    def runs(self) -> None:
        until(lambda: self._last() == "go", "the channels are on")

    def stands(self) -> None:
        assert self._last() == "stop"
        time.sleep(0.03)
        assert self._last() == "stop"


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver(tmp_path_factory)


@pytest.fixture(params=["cpu", "nvidia"])
def work(request: pytest.FixtureRequest, fake: Path, tmp_path: Path) -> Work:
    return Cpu() if request.param == "cpu" else Nvidia(fake, tmp_path)


@pytest.fixture
def rig(make_rig: Callable[..., Rig], work: Work) -> Rig:
    """A device that the backend serves, with its gate open."""
    return make_rig(backend=work.backend)


def test_a_device_that_is_there_has_no_fault_and_another_says_why(work: Work) -> None:
    assert work.backend.fault() is None
    fault = work.absent.fault()
    assert fault
    assert fault.split(":")[0] in ("cpus", "gpu")


def test_work_stops_for_a_request_and_goes_on_after_it(rig: Rig, work: Work) -> None:
    engine = rig.engine()
    rig.opened()
    work.start([rig])
    work.runs()
    for _ in range(5):
        engine.call("busy")
        rig.acknowledged()
        work.stands()
        assert rig.device.closings(0)[-1].tenants == 1
        engine.call("idle")
        work.runs()
    assert rig.device.counts().backstops == 0


def test_work_stops_when_the_lease_runs_out(rig: Rig, work: Work) -> None:
    rig.engine()
    rig.opened()
    work.start([rig])
    work.runs()
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    work.stands()
    rig.device.renew(time.monotonic() + 3600)
    work.runs()


def test_the_next_agent_finds_the_work(rig: Rig, work: Work) -> None:
    engine = rig.engine()
    rig.opened()
    tenant = work.start([rig])
    work.runs()
    rig.agent.close()
    rig.serve().renew(time.monotonic() + 3600)
    rig.opened()
    work.runs()
    engine.call("busy")
    until(lambda: rig.device.counts().in_flight == 1)
    rig.acknowledged()
    work.stands()
    assert tenant.process.poll() is None


def test_work_on_two_devices_runs_while_both_are_open(make_rig: Callable[..., Rig], work: Work) -> None:
    rigs = [make_rig(backend=work.backend) for _ in range(2)]
    rigs[1].share_pod(0, rigs[0].pods[0])
    engines = [rig.engine() for rig in rigs]
    for rig in rigs:
        rig.opened()
    work.start(rigs)
    work.runs()
    for rig, engine in zip(rigs, engines, strict=True):
        engine.call("busy")
        rig.acknowledged()
        work.stands()
        engine.call("idle")
        work.runs()


def test_the_end_of_work_is_noticed(rig: Rig, work: Work) -> None:
    engine = rig.engine()
    rig.opened()
    tenant = work.start([rig])
    until(lambda: rig.device.counts().tenants[0].attached == 1, "it is known")
    tenant.kill()
    until(lambda: rig.device.counts().tenant_processes == 0, "it is gone")
    engine.call("busy")
    rig.acknowledged()
    assert rig.device.closings(0)[-1].tenants == 0
    assert rig.device.reset(0)


def test_memory_changes_its_owner_where_the_backend_says_that_it_does(rig: Rig, work: Work) -> None:
    engine, tenant = Borrower(rig, None).ready(), Borrower(rig, 0, library_path(work.backend.tenant_library)).ready()
    capacities = (engine.ask("open"), tenant.ask("open"))
    loans = rig.device.loans
    if not work.backend.capabilities.memory_handles:
        assert (capacities, loans) == ((-1, -1), None)
        return
    assert capacities == (HANDLES, HANDLES)
    assert loans is not None
    loans.share(next(number for number, known in loans.borrowers.items() if known.slot == 0), 0, HANDLES)
    tenant.ask("want", HANDLES)
    assert tenant.ask("wait", HANDLES) == 1
    assert tenant.ask("map", 0, HANDLES) == HANDLES
    tenant.ask("fill", 0, HANDLES, 1)
    engine.ask("want", 3)
    engine.ask("busy")
    assert engine.ask("wait", 3) == 1
    assert engine.ask("map", 0, 3) == 3
    engine.ask("fill", 0, 3, 2)
    engine.ask("idle")
    assert tenant.ask("lost") == 3
    assert engine.ask("sum", 0, 3) == 6
    tenant.kill()
    until(lambda: loans.status().free == HANDLES - 3, "what it had is free")


def test_a_process_that_does_not_answer_is_frozen_with_its_pod(rig: Rig, work: Work) -> None:
    rig.backstop = 0.05
    rig.agent.close()
    rig.serve().renew(time.monotonic() + 3600)
    engine = rig.engine()
    rig.opened()
    tenant = work.start([rig])
    work.runs()
    tenant.freeze()
    engine.call("busy")
    rig.acknowledged()
    assert rig.pods[0].frozen()
    assert rig.device.counts().tenants[0].backstops == 1
    os.kill(tenant.process.pid, signal.SIGCONT)
    if work.backend.capabilities.backstop:
        work.stands()
    else:
        work.runs()
    engine.call("idle")
    until(lambda: not rig.pods[0].frozen(), "it is let go")
    work.runs()


def test_progress_is_reported(rig: Rig, work: Work) -> None:
    rig.engine()
    rig.opened()
    work.start(
        [rig],
        "import ctypes; ctypes.CDLL(None).rowen_tenant_progress("
        "ctypes.c_uint64(3), ctypes.c_uint64(7), ctypes.c_uint64(11)); spin()",
    )
    until(lambda: rig.device.counts().tenants[0].reports == 1)
    tenant = rig.device.counts().tenants[0]
    assert (tenant.completed, tenant.total) == (3, 7)
