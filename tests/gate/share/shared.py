"""A device that is open at a share: what its tests look at."""

import time

from gate.pod import Pod
from gate.rig import Engine, Rig, Tenant, until

ANY = (-1, 100_000)
"""The kernel's own: no limit."""


def limit(pod: Pod) -> tuple[int, int]:
    """Microseconds in each period, and of a period."""
    quota, period = ((pod.cpu / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)


def weight(pod: Pod) -> int:
    """Of its CPU time among others'."""
    return int((pod.cpu / "cpu.shares").read_text())


def set_limit(pod: Pod, quota: int, period: int) -> None:
    (pod.cpu / "cpu.cfs_period_us").write_text(str(period))
    (pod.cpu / "cpu.cfs_quota_us").write_text(str(quota))


def opens_at(rig: Rig, tenths: int) -> None:
    """Waits until the gate is open at a share."""
    until(lambda: rig.device.counts().share == tenths / 10, f"the gate is open at {tenths} tenths")


def opens_whole(rig: Rig) -> None:
    until(lambda: (found := rig.device.counts()).gate_open and found.share is None, "the gate is open for all of it")


def stays_closed(rig: Rig, seconds: float = 0.8) -> None:
    """Fails where the gate opens while the agent has time for it."""
    end = time.monotonic() + seconds
    while not rig.device.beat() > end:
        assert not rig.device.counts().gate_open, "it has opened"
        time.sleep(0.01)


def busy(rig: Rig, code: str = "spin()") -> tuple[Engine, Tenant]:
    """An engine with a request in flight, and a tenant that stands still for it."""
    engine, tenant = rig.engine(), rig.tenant(code)
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    return engine, tenant
