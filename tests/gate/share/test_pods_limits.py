"""Limits of pods: divided among them, beside their own, and given back as they were found."""

import time
from contextlib import ExitStack

import pytest
from gate.pod import Pod
from gate.rig import until
from gate.share.shared import ANY, busy, limit, opens_at, set_limit, stays_closed, weight
from gate.test_failures import agent_process

from rowen.node_agent.devices.device import Device

MOST = 262144
"""Weight with which a pod goes before others."""


@pytest.fixture
def rig(make_rig):
    return make_rig(slots=1)


def test_pods_have_a_share_together(make_rig):
    rig = make_rig(slots=2)
    engine, tenant = busy(rig)
    other = rig.tenant("spin()", slot=1)
    engine.call("share", 4)
    opens_at(rig, 4)
    assert [limit(pod) for pod in rig.pods] == [(2000, 10000)] * 2
    tenant.advances()
    other.advances()
    engine.call("share", 0)
    rig.acknowledged()
    assert [limit(pod) for pod in rig.pods] == [ANY] * 2


def test_a_pod_with_two_slots_has_one_part_and_gets_back_what_it_had(make_rig):
    """Two of its containers ask for a slot each."""
    rig = make_rig(slots=2)
    pod, own = rig.pods[0], weight(rig.pods[0])
    rig.share_pod(1, pod)
    engine, _ = busy(rig)
    for _ in range(2):
        engine.call("share", 4)
        opens_at(rig, 4)
        assert (limit(pod), weight(pod)) == ((4000, 10000), MOST)
        engine.call("share", 0)
        rig.acknowledged()
        assert (limit(pod), weight(pod)) == (ANY, own)


def test_a_part_too_small_for_the_kernel_s_period_comes_in_a_longer_one(make_rig):
    """An engine begins with a tenth, and says more once it has seen what that does."""
    rig = make_rig(slots=2)
    engine, tenant = busy(rig)
    other = rig.tenant("spin()", slot=1)
    engine.call("share", 1)
    opens_at(rig, 1)
    assert [limit(pod) for pod in rig.pods] == [(1000, 20000)] * 2
    tenant.advances()
    other.advances()
    engine.call("share", 2)
    opens_at(rig, 2)
    assert [limit(pod) for pod in rig.pods] == [(1000, 10000)] * 2
    engine.call("share", 0)
    rig.acknowledged()
    assert [limit(pod) for pod in rig.pods] == [ANY] * 2


def test_a_part_is_never_more_than_the_share(make_rig):
    rig = make_rig(slots=3)
    engine, tenant = busy(rig)
    engine.call("share", 2)
    opens_at(rig, 2)
    assert [limit(pod) for pod in rig.pods] == [(1000, 15000)] * 3
    engine.call("share", 7)
    opens_at(rig, 7)
    assert [limit(pod) for pod in rig.pods] == [(2333, 10000)] * 3
    tenant.advances()


@pytest.mark.parametrize(
    ("own", "meanwhile"), [((20_000, 100_000), (20_000, 100_000)), ((80_000, 100_000), (3000, 10_000))]
)
def test_a_pod_s_own_limit_stays_where_it_is_lower_and_comes_back_where_it_is_not(rig, own, meanwhile):
    engine, tenant = busy(rig)
    set_limit(rig.pods[0], *own)
    (rig.pods[0].cpu / "cpu.shares").write_text("300")
    for _ in range(2):
        engine.call("share", 3)
        opens_at(rig, 3)
        assert limit(rig.pods[0]) == meanwhile
        assert weight(rig.pods[0]) == MOST
        tenant.advances()
        engine.call("busy")
        rig.acknowledged()
        assert (limit(rig.pods[0]), weight(rig.pods[0])) == (own, 300)


def test_a_container_with_a_higher_limit_of_its_own_allows_no_share(rig):
    """With version 1 the kernel refuses it."""
    engine, tenant = busy(rig)
    container = rig.pods[0].cpu / "container"
    container.mkdir()
    try:
        (container / "cpu.cfs_quota_us").write_text("50000")
        engine.call("share", 3)
        stays_closed(rig)
        tenant.stands_still()
        assert limit(rig.pods[0]) == ANY
        engine.call("share", 6)
        opens_at(rig, 6)
        tenant.advances()
    finally:
        container.rmdir()


def test_a_pod_whose_cpu_time_cannot_be_limited_stands_still(make_rig):
    rig = make_rig(slots=2)
    pod = rig.pods[1]
    rig.device.set_pod(1, pod.number, pod.freezer, pod.cpuacct)
    engine, tenant = busy(rig)
    engine.call("share", 4)
    stays_closed(rig)
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    # The other one may have its share, where nobody is left who cannot.
    assert rig.device.reset(1)
    opens_at(rig, 4)
    assert limit(rig.pods[0]) == (4000, 10000)
    tenant.advances()


def test_a_pod_that_comes_while_the_gate_is_open_has_a_part(make_rig):
    rig = make_rig(slots=2)
    assert rig.device.reset(1)
    engine, tenant = busy(rig)
    engine.call("share", 4)
    opens_at(rig, 4)
    assert limit(rig.pods[0]) == (4000, 10000)
    number, pod = rig.device.closings(0)[-1].number, rig.pods[1]
    rig.device.set_pod(1, pod.number, *pod.folders)
    until(lambda: rig.device.closings(0)[-1].number > number)
    opens_at(rig, 4)
    assert [limit(pod) for pod in rig.pods] == [(2000, 10000)] * 2
    other = rig.tenant("spin()", slot=1)
    tenant.advances()
    other.advances()


def test_a_slot_that_is_cleared_gives_its_pod_s_limit_back(make_rig):
    rig = make_rig(slots=2)
    engine, tenant = busy(rig)
    engine.call("share", 4)
    opens_at(rig, 4)
    assert rig.device.reset(1)
    assert limit(rig.pods[1]) == ANY
    until(lambda: limit(rig.pods[0]) == (4000, 10000), "the other one has all of the share")
    tenant.advances()


def test_a_pod_that_is_on_another_device_too_has_no_share(make_rig):
    rig, elsewhere = make_rig(slots=1), make_rig(slots=1)
    elsewhere.share_pod(0, rig.pods[0])
    engine, tenant = busy(rig)
    engine.call("share", 3)
    stays_closed(rig)
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    assert elsewhere.device.reset(0)
    opens_at(rig, 3)
    tenant.advances()
    # It comes there again while it has a share here.
    elsewhere.device.set_pod(0, rig.pods[0].number, *rig.pods[0].folders)
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    stays_closed(rig)


def test_a_pod_that_is_gone_is_no_hindrance(make_rig):
    rig = make_rig(slots=2)
    gone = Pod(limited=True)
    rig.on_close(gone.remove)
    rig.device.set_pod(1, gone.number, *gone.folders)
    engine, tenant = busy(rig)
    engine.call("share", 4)
    opens_at(rig, 4)
    gone.remove()
    for _ in range(2):
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still()
        assert limit(rig.pods[0]) == ANY
        # Until its slot is cleared it has its part.
        engine.call("share", 4)
        opens_at(rig, 4)
        assert limit(rig.pods[0]) == (2000, 10000)
        tenant.advances()


def left_open_by_an_agent_that_was_killed(rig, own):
    with agent_process(rig), ExitStack() as stack:
        engine = rig.engine()
        tenant = rig.tenant("spin()")
        tenant.advances()
        set_limit(rig.pods[0], *own)
        engine.call("busy")
        engine.call("share", 3)
        until(lambda: limit(rig.pods[0]) == (3000, 10000), "it is limited")
        tenant.advances()
        stack.pop_all()
    return engine, tenant


@pytest.mark.parametrize("own", [ANY, (150_000, 50_000)])
def test_what_a_killed_agent_has_limited_the_next_gives_back(rig, own):
    engine, tenant = left_open_by_an_agent_that_was_killed(rig, own)
    tenant.stops()
    assert (limit(rig.pods[0]), weight(rig.pods[0])) == ((3000, 10000), MOST)
    # One that never learns of the pod leaves it to the next.
    device = Device(rig.folder, slots=1, cpus=rig.cpus, backstop=5.0)
    device.start()
    until(lambda: device.counts().now > 0)
    device.close()
    assert limit(rig.pods[0]) == (3000, 10000)
    rig.serve().renew(time.monotonic() + 3600)
    assert (limit(rig.pods[0]), weight(rig.pods[0])) == (own, 1024)
    # What was said to the last one is void.
    until(lambda: rig.device.counts().in_flight == 1)
    stays_closed(rig)
    tenant.stops()
    engine.call("share", 3)
    opens_at(rig, 3)
    assert limit(rig.pods[0]) == (3000, 10000)
    tenant.advances()


def test_an_agent_that_ends_closes_and_gives_back(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()
    rig.agent.close()
    assert limit(rig.pods[0]) == ANY
    assert engine.call("granted") == 0
    tenant.stops()
    rig.serve().renew(time.monotonic() + 3600)
    engine.call("idle")
    tenant.advances()
