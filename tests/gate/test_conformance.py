"""What every backend's library keeps to: one suite for `cpu`, and for `nvidia` with a FAKE of the driver behind it.

What has to stand still is the backend's: a program's threads with `cpu`, its channels with `nvidia`.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gate import rm_calls
from gate.rig import Rig, Tenant, until
from gate.rm_calls import context
from gate.test_nvidia import environment, fake_driver

REPLAY = """
    from pathlib import Path
    from gate.rm_calls import Replay, parse
    replay = Replay()
    for text in Path({record!r}).read_text().splitlines():
        replay.call(parse(text))
"""


class Cpu:
    """Work on a `cpu` device."""

    def __init__(self, rigs: list[Rig]) -> None:
        self._rigs = rigs

    def start(self, code: str = "spin()") -> Tenant:
        sockets = ":".join(str(rig.socket(0)) for rig in self._rigs)
        self._tenant = self._rigs[0].tenant(code, ROWEN_TENANT_SOCKETS=sockets)
        return self._tenant

    def runs(self) -> None:
        self._tenant.advances()

    def stands(self) -> None:
        self._tenant.stands_still()


class Nvidia:
    """Channels of a process on an `nvidia` device, as the fake of its driver was told to switch them."""

    def __init__(self, rigs: list[Rig], fake: Path, folder: Path) -> None:
        self._rigs, self._fake, self._folder = rigs, fake, folder
        self._log = folder / "log"

    def start(self, code: str = "spin()") -> Tenant:
        record = rm_calls.write(self._folder / "calls", context())
        given = environment(self._fake, self._log)
        extra = {name: given[name] for name in ("LD_PRELOAD", "FAKE_RM_LOG", "PYTHONPATH")}
        extra["ROWEN_TENANT_SOCKETS"] = ":".join(str(rig.socket(0)) for rig in self._rigs)
        # A library that has stopped nothing yet has no channel to switch: the first stop shows that they are known.
        tenant = self._rigs[0].tenant(REPLAY.format(record=str(record)) + "    " + code, **extra)
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


Start = Callable[..., tuple[list[Rig], Cpu | Nvidia]]


@pytest.fixture(params=["cpu", "nvidia"])
def start(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], fake: Path, tmp_path: Path) -> Start:
    """Makes devices of a backend, and something that will be work on all of them."""

    def make(devices: int = 1) -> tuple[list[Rig], Cpu | Nvidia]:
        rigs = [make_rig(allows_cpu=request.param == "nvidia") for _ in range(devices)]
        for rig in rigs[1:]:
            rig.share_pod(0, rigs[0].pods[0])
        return rigs, Cpu(rigs) if request.param == "cpu" else Nvidia(rigs, fake, tmp_path)

    return make


def test_work_stops_for_a_request_and_goes_on_after_it(start: Start) -> None:
    (rig,), work = start()
    engine = rig.engine()
    rig.opened()
    work.start()
    work.runs()
    for _ in range(5):
        engine.call("busy")
        rig.acknowledged()
        work.stands()
        assert rig.device.closings(0)[-1].tenants == 1
        engine.call("idle")
        work.runs()
    assert rig.device.counts().backstops == 0


def test_work_stops_when_the_lease_runs_out(start: Start) -> None:
    (rig,), work = start()
    rig.engine()
    rig.opened()
    work.start()
    work.runs()
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    work.stands()
    rig.device.renew(time.monotonic() + 3600)
    work.runs()


def test_the_next_agent_finds_the_work(start: Start) -> None:
    (rig,), work = start()
    engine = rig.engine()
    rig.opened()
    tenant = work.start()
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


def test_work_on_two_devices_runs_while_both_are_open(start: Start) -> None:
    rigs, work = start(devices=2)
    engines = [rig.engine() for rig in rigs]
    for rig in rigs:
        rig.opened()
    work.start()
    work.runs()
    for rig, engine in zip(rigs, engines, strict=True):
        engine.call("busy")
        rig.acknowledged()
        work.stands()
        engine.call("idle")
        work.runs()


def test_a_process_that_does_not_answer_is_frozen_with_its_pod(start: Start) -> None:
    (rig,), work = start()
    rig.backstop = 0.05
    rig.agent.close()
    rig.serve().renew(time.monotonic() + 3600)
    engine = rig.engine()
    rig.opened()
    tenant = work.start()
    work.runs()
    tenant.freeze()
    engine.call("busy")
    rig.acknowledged()
    assert rig.pods[0].frozen()
    assert rig.device.counts().tenants[0].backstops == 1


def test_progress_is_reported(start: Start) -> None:
    (rig,), work = start()
    rig.engine()
    rig.opened()
    work.start(
        "import ctypes; ctypes.CDLL(None).rowen_tenant_progress("
        "ctypes.c_uint64(3), ctypes.c_uint64(7), ctypes.c_uint64(11)); spin()"
    )
    until(lambda: rig.device.counts().tenants[0].reports == 1)
    tenant = rig.device.counts().tenants[0]
    assert (tenant.completed, tenant.total) == (3, 7)
