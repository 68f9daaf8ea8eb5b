"""A `signalfd` gives the parking signal to a reader, before the handler and whether or not it is blocked."""

from pathlib import Path

from gate.rig import until

from rowen.node_agent.devices.counts import Offence

# Counts once it is there, and goes on when a signal comes to be read.
READER = """
    import ctypes
    libc = ctypes.CDLL(None)
    everything = (ctypes.c_uint64 * 16)(*[2**64 - 1] * 16)
    signals = {made}
    assert signals >= 0
    count()
    os.read(signals, 128)
    spin(1)
"""


def reader(rig, made):
    """A tenant that waits for signals."""
    tenant = rig.tenant(READER.format(made=made))
    stat = Path(f"/proc/{tenant.process.pid}/stat")
    until(lambda: tenant.counts() == [1] and ") S " in stat.read_text(), "it waits for signals")
    return tenant


def test_one_that_glibc_makes_does_not_take_the_parking_signal(rig):
    engine = rig.engine()
    tenant = reader(rig, "libc.signalfd(-1, everything, 0)")
    for _ in range(3):
        rig.opened()
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still(2)
        engine.call("idle")
    rig.opened()
    tenant.stands_still(2)
    assert tenant.counts(2) == [1, 0]


def test_a_thread_that_goes_on_by_one_of_its_own_is_stopped_by_what_it_uses(rig):
    """It runs although its process has acknowledged, until the pod has used what it may."""
    engine = rig.engine()
    tenant = reader(rig, "libc.syscall(289, -1, everything, 8, 0)")
    rig.opened()
    engine.call("busy")
    until(rig.pods[0].frozen, "the kernel has frozen the pod")
    assert tenant.counts(2)[1] > 0
    tenant.stands_still(2)
    account = rig.device.counts().tenants[0]
    assert (account.offence, account.backstops) == (Offence.RAN, 1)
