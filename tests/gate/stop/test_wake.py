"""The wake rule: an online request meets at most one preemption."""

import time

from gate.rig import until

MILLISECOND = 1_000_000
SECOND = 1000 * MILLISECOND


def test_the_gate_stays_closed_between_two_requests_in_flight(rig):
    engine, other = rig.engine(), rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    before = len(rig.device.closings(0))
    assert engine.call("busy") == 1
    assert other.call("busy") == 0
    engine.call("idle")
    rig.acknowledged()
    tenant.stands_still()
    assert len(rig.device.closings(0)) == before + 1
    other.call("idle")
    tenant.advances()


def test_the_cooldown_is_twice_the_decode_gap(rig):
    engine = rig.engine()
    engine.call("busy")
    steps(engine, time.monotonic_ns() - 120 * SECOND, [300, 300, 300])
    # What is more than a minute past does not count; the pause since then is the one gap too many.
    assert rig.device.counts().decode_gap == 0
    now = time.monotonic_ns()
    steps(engine, now, [40, 39])
    until(lambda: rig.device.counts().cooldown > 0.002)
    counts = rig.device.counts()
    assert (counts.decode_gap, counts.cooldown) == (0.04, 0.08)


def test_a_single_large_gap_is_no_rhythm(rig):
    engine = rig.engine()
    engine.call("busy")
    steps(engine, time.monotonic_ns(), [3] * 50 + [4, 20_000])
    # It may look when only gaps of 3 ms have come.
    until(lambda: rig.device.counts().decode_gap not in (0, 0.003))
    assert rig.device.counts().decode_gap == 0.004


def test_one_gap_in_a_hundred_is_left_out(rig):
    engine = rig.engine()
    engine.call("busy")
    begin = time.monotonic_ns()
    steps(engine, begin, [3] * 198 + [50, 60])
    until(lambda: rig.device.counts().decode_gap > 0)
    assert rig.device.counts().decode_gap == 0.003
    # A step that begins before the end of the last makes no gap, however late this comes.
    steps(engine, begin, [70])
    until(lambda: rig.device.counts().decode_gap > 0.003)
    assert rig.device.counts().decode_gap == 0.05


def test_the_cooldown_is_bounded(rig):
    engine = rig.engine()
    engine.call("busy")
    steps(engine, time.monotonic_ns(), [4_000, 5_000])
    until(lambda: rig.device.counts().decode_gap == 4.0)
    until(lambda: rig.device.counts().cooldown == 0.5)


def steps(engine, begin_ns, gaps_ms):
    """Steps of 1 ms with these gaps between them, the first one included."""
    now = begin_ns
    engine.call("step", now, now + MILLISECOND)
    for gap in gaps_ms:
        now += MILLISECOND + gap * MILLISECOND
        engine.call("step", now, now + MILLISECOND)


def test_a_pause_between_requests_is_no_decode_gap(rig):
    engine = rig.engine()
    # All of them in the past when the engine says that it is idle.
    begin = time.monotonic_ns() - 2 * SECOND
    for number in range(2):
        engine.call("busy")
        steps(engine, begin + number * SECOND, [])
        engine.call("idle")
    engine.call("busy")
    # As the largest gap is left out: if pauses counted, one of the two would show.
    steps(engine, time.monotonic_ns(), [3, 3])
    until(lambda: rig.device.counts().decode_gap > 0)
    assert rig.device.counts().decode_gap == 0.003


def test_at_most_one_preemption_per_request(rig):
    """Requests come in every phase of the cooldown. The tenant itself says when it ran."""
    engine, other = rig.engine(), rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    for number in range(60):
        server = (engine, other)[number % 2]
        begin = time.monotonic_ns()
        server.call("busy")
        if number % 3 == 0 or number % 5 == 0:
            rig.acknowledged()
        if number % 5 == 0:
            tenant.stands_still()
        server.call("record", begin, 5 * MILLISECOND, MILLISECOND, 16, 1)
        server.call("idle")
        if number % 4 == 0:
            rig.opened()
    until(lambda: len(rig.device.requests(0)) == 60)
    requests = rig.device.requests(0)
    assert max(request.preemptions for request in requests) == 1
    assert sum(request.preemptions for request in requests) >= 15
    assert rig.device.counts().preemptions >= 15


def test_every_close_within_a_request_is_counted(rig):
    """A request whose engine does not hold the gate: what is counted is what happened to it."""
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    rig.opened()
    begin = time.monotonic_ns()
    for _ in range(3):
        engine.call("busy")
        rig.acknowledged()
        engine.call("idle")
        rig.opened()
    engine.call("record", begin, 5 * MILLISECOND, MILLISECOND, 16, 1)
    until(lambda: len(rig.device.requests(0)) == 1)
    assert rig.device.requests(0)[0].preemptions == 3
    tenant.kill()
    until(lambda: rig.device.counts().tenant_processes == 0)
    begin = time.monotonic_ns()
    engine.call("busy")
    rig.acknowledged()
    engine.call("record", begin, 5 * MILLISECOND, MILLISECOND, 16, 0)
    engine.call("idle")
    until(lambda: len(rig.device.requests(0)) == 2)
    # A close that stopped nobody is none.
    assert rig.device.requests(0)[1].preemptions == 0
