"""An engine whose riders stand still waits like any other, and wakes up by itself once they may go on.

vLLM's own loop; the engine itself is made up.
"""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from riding_engine.leases import device
from riding_engine.test_core import PATIENCE_SECONDS, Conductor, Scheduler, core, request, until, waiting
from runtime.recorder import Recorder
from typing_extensions import override

from rowen.runtime.coserve import lease as lease_module
from rowen.runtime.coserve.lease import Lease, engine_lease

__all__ = ["core", "device"]


class Leased(Conductor):
    """Asks as the conductor does."""

    @override
    def idle(self, may_go_on: Any) -> None:
        super().idle(lambda: engine_lease().holds() and may_go_on())


class Rows(Scheduler):
    """Of requests that are rows alone."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    @override
    def has_requests(self) -> bool:
        self.looks += 1
        return bool(self.requests) or engine_lease().holds()


@pytest.fixture
def conductor(device: Recorder) -> Conductor:
    return Leased()


def stands_still(core: Any, conductor: Conductor) -> threading.Thread:
    conductor.work = [1]
    thread = waiting(core)
    until(lambda: conductor.idles == 1)
    # It waits, and does not turn round and round.
    time.sleep(0.05)
    assert (conductor.idles, conductor.done) == (1, [])
    return thread


def test_riders_go_on_when_the_lease_is_back_although_nobody_comes(
    core: Any, conductor: Conductor, device: Recorder
) -> None:
    device.lease = False
    thread = stands_still(core, conductor)
    device.lease = True
    until(lambda: conductor.done == [1])
    # Each time anew.
    device.lease = False
    conductor.work = [2]
    conductor.waker.wake()
    until(lambda: conductor.idles >= 3)
    device.lease = True
    until(lambda: conductor.done == [1, 2])
    request(core)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_request_that_comes_meanwhile_is_taken_at_once(core: Any, conductor: Conductor, device: Recorder) -> None:
    device.lease = False
    thread = stands_still(core, conductor)
    request(core)
    thread.join(PATIENCE_SECONDS)
    assert (thread.is_alive(), core.scheduler.requests, conductor.done) == (False, ["request"], [])


def test_a_lease_that_comes_back_before_the_engine_waits_wakes_it(
    core: Any, conductor: Conductor, device: Recorder
) -> None:
    device.lease = False
    conductor.work = [1]
    idle = conductor.idle

    def renewed(may_go_on: Any) -> None:
        idle(may_go_on)
        device.lease = True

    conductor.idle = renewed  # type: ignore[method-assign]
    thread = waiting(core)
    until(lambda: conductor.done == [1])
    request(core)
    thread.join(PATIENCE_SECONDS)


def test_rows_go_on_in_an_engine_in_which_nothing_else_can_ride(core: Any, device: Recorder) -> None:
    core.model_executor = SimpleNamespace()
    core.scheduler = Rows()
    device.lease = False
    thread = waiting(core)
    until(lambda: core.scheduler.looks == 1)
    time.sleep(0.05)
    assert (core.scheduler.looks, thread.is_alive()) == (1, True)
    device.lease = True
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_one_thread_waits_for_the_lease_and_only_while_something_stands_still(device: Recorder) -> None:
    lease, called = Lease(), []
    assert lease.holds()
    lease.call_when_back(lambda: called.append("nothing stood still"))
    device.lease = False
    lease.call_when_back(lambda: called.append("nobody asked"))
    for _ in range(3):
        assert not lease.holds()
        lease.call_when_back(lambda: called.append("back"))
    assert [thread.name for thread in threading.enumerate()].count("rowen-lease") == 1
    device.lease = True
    until(lambda: called == ["back"])
    # Something may stand still since it was awaited, but for once.
    for _ in range(3):
        until(lambda: "rowen-lease" not in [thread.name for thread in threading.enumerate()])
        lease.call_when_back(lambda: called.append("again"))
    assert called == ["back", "again"]


def test_where_no_thread_is_to_be_had_the_engine_serves_on(device: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError("can't start new thread")

    lease, called = Lease(), []
    device.lease = False
    lease.holds()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(lease_module.threading, "Thread", fails)
        lease.call_when_back(lambda: called.append(1))
    device.lease = True
    lease.call_when_back(lambda: called.append(2))
    until(lambda: called == [2])


def test_without_a_device_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "online", lambda: None)
    assert Lease().holds()
