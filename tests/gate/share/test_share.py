"""Offline work beside requests: the engine says a share, and the kernel keeps offline work to it."""

import time

import pytest
from gate.rig import until
from gate.share.shared import ANY, busy, limit, opens_at, opens_whole, stays_closed


@pytest.fixture
def rig(make_rig):
    return make_rig(slots=1)


def throttled(pod):
    lines = dict(line.split() for line in (pod.cpu / "cpu.stat").read_text().splitlines())
    return int(lines["nr_throttled"])


def test_a_tenant_runs_beside_a_request_and_the_kernel_limits_it(rig):
    engine, tenant = busy(rig)
    assert limit(rig.pods[0]) == ANY
    engine.call("share", 3)
    opens_at(rig, 3)
    assert limit(rig.pods[0]) == (3000, 10000)
    tenant.advances()
    until(lambda: throttled(rig.pods[0]) > 0, "the kernel has held it back")
    counts = rig.device.counts()
    assert (counts.gate_open, counts.in_flight) == (True, 1)
    assert rig.device.closings(0)[-1].share == 0.3
    assert counts.backstops == 0


def test_the_next_request_closes_and_a_share_has_to_be_said_again(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()
    assert engine.call("busy") == 1
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    stays_closed(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()


def test_a_request_that_ends_closes_nothing(rig):
    engine, tenant = busy(rig)
    engine.call("busy")
    engine.call("share", 3)
    opens_at(rig, 3)
    before = rig.device.closings(0)[-1].number
    engine.call("idle")
    until(lambda: rig.device.counts().in_flight == 1)
    tenant.advances()
    assert (rig.device.closings(0)[-1].number, rig.device.counts().share) == (before, 0.3)


@pytest.mark.parametrize("tenths", [5, 2])
def test_another_share_is_another_opening(rig, tenths):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    number = rig.device.closings(0)[-1].number
    engine.call("share", tenths)
    opens_at(rig, tenths)
    assert limit(rig.pods[0]) == (tenths * 1000, 10000)
    last = rig.device.closings(0)[-1]
    assert (last.number, last.share, last.for_request) == (number + 1, tenths / 10, False)
    tenant.advances()


def test_the_same_share_again_is_no_news(rig):
    engine, _ = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    number = rig.device.closings(0)[-1].number
    for _ in range(50):
        engine.call("share", 3)
    end = time.monotonic() + 0.3
    until(lambda: rig.device.beat() > end, "the agent has come round")
    assert (rig.device.closings(0)[-1].number, rig.device.counts().share) == (number, 0.3)


def test_no_share_closes(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()
    engine.call("share", 0)
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    stays_closed(rig)
    engine.call("share", 0)
    engine.call("share", 4)
    opens_at(rig, 4)


@pytest.mark.parametrize("tenths", [9, 10, 2**32 - 1])
def test_beside_requests_there_is_no_more_than_nine_tenths(rig, tenths):
    engine, tenant = busy(rig)
    engine.call("share", tenths)
    opens_at(rig, 9)
    assert limit(rig.pods[0]) == (9000, 10000)
    tenant.advances()


def test_an_idle_device_opens_for_all_of_it(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    idle = time.monotonic()
    engine.call("idle")
    opens_whole(rig)
    tenant.advances()
    assert limit(rig.pods[0]) == ANY
    last = rig.device.closings(0)[-1]
    assert (last.share, last.for_request) == (None, False)
    assert last.opened - idle >= rig.device.counts().cooldown, "the wake rule holds"


def test_a_share_that_is_said_to_an_idle_device_says_nothing(rig):
    engine, tenant = rig.engine(), rig.tenant("spin()")
    tenant.advances()
    engine.call("share", 3)
    opens_whole(rig)
    assert limit(rig.pods[0]) == ANY
    assert engine.call("busy") == 1
    rig.acknowledged()
    stays_closed(rig)
    tenant.stands_still()


def test_the_engine_is_told_what_is_granted(rig):
    engine = rig.engine()
    opens_whole(rig)
    assert engine.call("granted") == 10
    engine.call("busy")
    assert engine.call("granted") == 0
    engine.call("share", 3)
    opens_at(rig, 3)
    assert engine.call("granted") == 3
    # The last lease ends on its way.
    rig.device.renew(time.monotonic())
    assert engine.call("granted") == 0


def test_the_end_of_a_lease_ends_a_share_until_the_next(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    assert not rig.device.closings(0)[-1].for_request
    rig.device.renew(time.monotonic() + 3600)
    # It holds for the requests that are in flight still.
    opens_at(rig, 3)
    tenant.advances()


def test_requests_and_shares_in_quick_succession(rig):
    engine, tenant = busy(rig)
    for number in range(40):
        engine.call("share", 1 + number % 9)
        if number % 3 == 0:
            opens_at(rig, 1 + number % 9)
        if number % 4 == 0:
            tenant.advances()
        engine.call("busy")
        if number % 5 == 0:
            rig.acknowledged()
            tenant.stands_still()
            assert limit(rig.pods[0]) == ANY
        engine.call("idle")
    assert rig.device.counts().backstops == 0
    engine.call("idle")
    opens_whole(rig)
    assert limit(rig.pods[0]) == ANY
