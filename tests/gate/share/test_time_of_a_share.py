"""What counts: time by the share, and no preemption of a request."""

import time

import pytest
from gate.rig import until
from gate.share.shared import busy, opens_at, opens_whole

PROGRESS = """
    import ctypes
    library = ctypes.CDLL(None)
    library.rowen_tenant_progress.argtypes = [ctypes.c_uint64] * 3
    while True:
        library.rowen_tenant_progress(1, 2, 3)
        count()
"""


@pytest.fixture
def rig(make_rig):
    return make_rig(slots=1)


def shared(rig):
    return rig.device.counts().shared_seconds


def test_time_counts_by_the_share(rig):
    engine, _ = busy(rig)
    before = rig.device.counts()
    assert before.shared_seconds == 0
    engine.call("share", 2)
    opens_at(rig, 2)
    until(lambda: shared(rig) > 1)
    after = rig.device.counts()
    passed = pytest.approx((after.shared_seconds - before.shared_seconds) / 5, rel=0.01)
    assert after.idle_seconds - before.idle_seconds == passed
    assert after.harvested_seconds - before.harvested_seconds == passed
    assert after.tenants[0].open_seconds - before.tenants[0].open_seconds == passed
    # Open for all of it, it counts as ever.
    engine.call("idle")
    opens_whole(rig)
    rest, idle = shared(rig), rig.device.counts().idle_seconds
    until(lambda: rig.device.counts().idle_seconds > idle + 0.2)
    assert shared(rig) == rest


def test_nobody_s_time_counts_without_a_tenant(rig):
    engine = rig.engine()
    engine.call("busy")
    engine.call("share", 5)
    opens_at(rig, 5)
    until(lambda: shared(rig) > 0.3)
    counts = rig.device.counts()
    assert (counts.harvested_seconds, counts.tenants[0].open_seconds) == (0, 0)


def test_granted_time_counts_by_the_share(rig):
    engine = rig.engine()
    engine.call("busy")
    rig.acknowledged()
    # It never has more than this share.
    before = rig.device.counts().shared_seconds
    tenant = rig.tenant(PROGRESS)
    engine.call("share", 2)
    opens_at(rig, 2)
    tenant.advances()
    start, reported = shared(rig), rig.device.counts().tenants[0].granted_seconds
    until(lambda: shared(rig) > start + 2)
    end = shared(rig)
    until(
        lambda: rig.device.counts().tenants[0].granted_seconds > reported + (end - start) / 5 / 2,
        "what it was granted is reported",
    )
    granted, now = rig.device.counts().tenants[0].granted_seconds, time.monotonic()
    # Open time is counted up to then.
    until(lambda: rig.device.beat() > now + 0.2)
    assert granted <= (shared(rig) - before) / 5 + 0.05


def test_what_ends_a_share_is_no_preemption_of_a_request(rig):
    engine, tenant = busy(rig)
    before = rig.device.counts()
    begin = time.monotonic_ns()
    opened = len(rig.device.closings(0))
    for tenths in (3, 5, 4, 0, 3):
        engine.call("share", tenths)
        if tenths:
            opens_at(rig, tenths)
            tenant.advances()
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    rig.device.renew(time.monotonic() + 3600)
    opens_at(rig, 3)
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    closings = rig.device.closings(0)[opened:]
    assert len(closings) >= 5
    assert {closing.for_request for closing in closings} == {False}
    assert max(closing.tenants for closing in closings) == 1
    engine.call("record", begin, 5_000_000, 1_000_000, 16, 1)
    until(lambda: len(rig.device.requests(0)) == 1)
    assert rig.device.requests(0)[0].preemptions == 0
    counts = rig.device.counts()
    assert counts.preemptions == before.preemptions
    # The pod was stopped all the same.
    assert counts.tenants[0].preemptions >= before.tenants[0].preemptions + 5
    assert counts.backstops == 0
