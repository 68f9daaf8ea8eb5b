"""Threads that the kernel makes in a tenant for io_uring block every signal, and run nothing of the tenant's."""

import ctypes
import errno
import os

import pytest
from gate.rig import thread_names, until

from rowen.node_agent.devices.counts import Offence

# SQPOLL: a thread of the kernel sleeps when nothing was submitted for so many milliseconds, until it is woken.
POLLED = """
    import ctypes
    libc = ctypes.CDLL(None)
    parameters = (ctypes.c_uint32 * 30)(0, 0, 2, 0, int(os.environ["IDLE_MS"]))
    ring = libc.syscall(425, 4, parameters)
    assert ring >= 0
    while True:
        count()
        libc.syscall(426, ring, 0, 0, 2, None, 0)
"""


@pytest.fixture(autouse=True)
def allowed():
    """Skips where no ring can be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    ring = libc.syscall(425, 4, (ctypes.c_uint32 * 30)())
    if ring >= 0:
        os.close(ring)
    elif ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        pytest.skip(f"this kernel makes no io_uring here: {os.strerror(ctypes.get_errno())}")


def polled(rig, idle_ms):
    """A tenant with a polling thread."""
    tenant = rig.tenant(POLLED, IDLE_MS=str(idle_ms))
    tenant.advances()
    # It names itself, once it runs.
    until(lambda: any("iou-sqp-" in name for name in thread_names(tenant.process.pid).values()), "it has the thread")
    return tenant


def test_a_tenant_with_a_thread_of_io_uring_acknowledges(rig):
    engine = rig.engine()
    tenant = polled(rig, idle_ms=1)
    for _ in range(3):
        rig.opened()
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still()
        engine.call("idle")
        tenant.advances()
    assert rig.device.counts().tenants[0].backstops == 0


def test_what_the_kernels_thread_uses_counts_with_its_pod_and_is_no_offence(rig):
    engine = rig.engine()
    tenant = polled(rig, idle_ms=600_000)
    rig.opened()
    engine.call("busy")
    until(rig.pods[0].frozen, "the kernel has frozen the pod")
    account = rig.device.counts().tenants[0]
    assert (account.offence, account.backstops, account.offences) == (Offence.BLAMELESS, 1, 0)
    engine.call("idle")
    tenant.advances()
