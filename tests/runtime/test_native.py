"""Finding the device, or living without."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate.rig import DOOR_LATE, Rig, until
from runtime.server import environment

from rowen.node_agent.native import library_path
from rowen.runtime import native
from rowen.runtime.progress import progress

ENGINE = """
import sys, time
from rowen.runtime.native import online
device = online()
assert online() is device
begin = time.monotonic_ns()
device.pin()
device.busy()
device.step(begin, begin + 1)
device.step(begin + 1_000_000, begin + 2_000_000)
device.composition(1_000_000, 3, 5)
device.composition(2_000_000, 4, 0)
assert device.granted() == 0
print(device.tenants(), flush=True)
sys.stdin.readline()
while device.granted() != 3:
    device.share(3)  # said in every step, whenever the agent comes
    time.sleep(0.001)
device.record(begin, 5_000_000, 2_000_000, 7, True)
device.idle()
print(device.tenants(), flush=True)
sys.stdin.readline()
assert (device.granted(), device.leased()) == (10, True)
"""


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    native.online.cache_clear()
    native.tenant.cache_clear()
    yield
    native.online.cache_clear()
    native.tenant.cache_clear()


@pytest.mark.parametrize("missing", ["ROWEN_LIBRARY", "ROWEN_ENGINE_SOCKET"])
def test_no_device_without_library_and_socket(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setenv("ROWEN_LIBRARY", str(library_path()))
    monkeypatch.setenv("ROWEN_ENGINE_SOCKET", "/nonexistent/agent.sock")
    monkeypatch.delenv(missing)
    assert native.online() is None


@pytest.mark.parametrize("library", ["/nonexistent/librowen.so", "libc.so.6"])
def test_an_engine_whose_library_is_broken_serves_without_it(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setenv("ROWEN_LIBRARY", library)
    monkeypatch.setenv("ROWEN_ENGINE_SOCKET", "/nonexistent/agent.sock")
    assert native.online() is None


def engine(rig: Rig, log: Path) -> "subprocess.Popen[str]":
    device = {"ROWEN_LIBRARY": str(library_path()), "ROWEN_ENGINE_SOCKET": str(rig.socket(None))}
    with log.open("w") as stream:
        return subprocess.Popen(
            [sys.executable, "-c", ENGINE],
            env=environment(**device),
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            text=True,
        )


class Earlier(ctypes.PyDLL):
    """A library of an earlier release, which knows no shares and tells of no leases."""

    def __getattr__(self, name: str) -> Any:
        if name in ("rowen_online_share", "rowen_online_granted", "rowen_online_leased"):
            raise AttributeError(name)
        return super().__getattr__(name)


def test_with_a_library_of_an_earlier_release_there_is_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "PyDLL", Earlier)
    device = native.NativeOnline(str(library_path()), "/nonexistent/agent.sock")
    device.share(3)
    assert (device.granted(), device.tenants()) == (0, 0)


def test_with_a_library_of_an_earlier_release_no_lease_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "PyDLL", Earlier)
    assert native.NativeOnline(str(library_path()), "/nonexistent/agent.sock").leased()


def test_without_an_agent_there_is_no_lease() -> None:
    assert not native.NativeOnline(str(library_path()), "/nonexistent/agent.sock").leased()


def go_on(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("early", [True, False])
def test_an_engine_has_its_device_whenever_the_agent_comes(rig: Rig, tmp_path: Path, early: bool) -> None:
    if early:
        rig.agent.close()
    log = tmp_path / "log"
    process = engine(rig, log)
    try:
        until(lambda: log.read_text().endswith("0\n"), "the engine is busy")
        if early:
            rig.serve().renew(time.monotonic() + 3600)
        until(lambda: rig.device.counts().in_flight == 1)
        until(lambda: os.sched_getaffinity(process.pid) == set(rig.cpus))
        go_on(process)
        rig.opened()
        until(lambda: len(rig.device.requests(0)) == 1)
        steps = rig.device.counts().steps
        assert (steps.steps, steps.seconds, steps.decode_rows, steps.prefill_tokens) == (2, 0.003, 7, 5)
        [request] = rig.device.requests(0)
        assert (request.ttft, request.tpot, request.tenant_present) == (0.005, 0.002, True)
        assert request.begin < request.end
        rig.tenant("spin()").advances()
        go_on(process)
        assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    # Said once, though asked for twice. An agent that gets no CPU for a second does not answer in time either.
    late = any(os.strerror(-error) in log.read_text() for error in DOOR_LATE)
    assert log.read_text().count("the engine serves without its device until it does") == (early or late)


@pytest.mark.parametrize("sockets", [None, "/run/rowen/tenant-0/agent.sock"])
def test_a_worker_runs_alone(monkeypatch: pytest.MonkeyPatch, sockets: str | None) -> None:
    monkeypatch.delenv("ROWEN_TENANT_SOCKETS", raising=False)
    if sockets:
        # Without the library in front of the process.
        monkeypatch.setenv("ROWEN_TENANT_SOCKETS", sockets)
    native.tenant().progress(1, 2, 3)
    progress(1, 2, 3)


def test_a_program_of_ones_own_says_how_far_it_is(rig: Rig) -> None:
    rig.engine()
    rig.opened()
    rig.tenant("from rowen.runtime.progress import progress; progress(3, 7, 11); progress(4, 7, 31); spin()")
    until(lambda: rig.device.counts().tenants[0].reports == 2)
    told = rig.device.counts().tenants[0]
    assert (told.completed, told.total, told.tokens) == (4, 7, 31 - 11)


@pytest.mark.parametrize("numbers", [(-1, 2, 3), (1, -2, 3), (1, 2, -3)])
def test_progress_below_zero_is_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"expected numbers from 0 on"):
        progress(*numbers)
